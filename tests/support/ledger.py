"""What a host knows of its sessions, and whether their files know it too.

A host may rely on whatever an event told it or a response acknowledged. `Ledgers.learn` takes that from what the host
sent and heard; `Ledger.check` looks for it in the session's file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.support.host import Frame
from tests.support.session_file import Entry, Message, SessionLines, missing, read_strictly, repeated, text_of

#: Commands after which the host goes on in a new session.
FORKS = {"fork", "branch", "clone"}
#: Commands after which the host is in another session.
MOVES = {*FORKS, "new_session", "switch_session"}
_PROMPTS = {"prompt", "abort_and_prompt", "steer", "follow_up"}
#: Commands that abort a prompt whose run has not begun.
_ABORTS = {"abort", "abort_and_prompt", "compact", *MOVES}


@dataclass
class Ledger:
    """What a host knows of one session."""

    #: None until it is found: the host is not told the file of a fork.
    path: Path | None = None
    #: Texts that the host has sent to this session, accepted or not.
    sent: set[str] = field(default_factory=set[str])
    #: Texts that were accepted.
    said: list[str] = field(default_factory=list[str])
    #: Texts that were queued and taken back, for certain.
    taken_back: set[str] = field(default_factory=set[str])
    #: Whether the host sent a `clear_queue` whose answer it never saw, or left the session in a profile that drops the queue.
    may_have_cleared: bool = False
    messages: list[Message] = field(default_factory=list[Message])
    commands: list[str] = field(default_factory=list[str])
    entries: list[Entry] = field(default_factory=list[Entry])
    summaries: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    names: list[str] = field(default_factory=list[str])
    models: list[str] = field(default_factory=list[str])
    levels: list[str] = field(default_factory=list[str])

    @property
    def has_begun(self) -> bool:
        """Whether there must be a file: something was said or done in this session."""
        # The state of an extension alone is not worth a file.
        entries = [entry for entry in self.entries if entry["type"] != "custom"]
        return bool(self.said or self.messages or self.commands or entries or self.summaries)

    @property
    def exists(self) -> bool:
        """Whether the session has a file with something in it."""
        return self.path is not None and self.path.exists() and self.path.stat().st_size > 0

    def entries_in_file(self) -> list[Entry]:
        return read_strictly(self.path).entries if self.path is not None and self.exists else []

    def check(self, lines: SessionLines) -> None:
        """Assert that everything is in the file, and nothing came of what the host took back."""
        waiting = [text_of(message) for message in lines.waiting() if message["role"] == "user"]
        queued = lines.queued()
        heard = lines.user_texts()
        commands = [message["command"] for message in (*lines.with_role("bashExecution"), *queued) if "command" in message]
        summaries = [(entry["summary"], entry["firstKeptEntryId"]) for entry in lines.of("compaction")]
        # A model that has answered on the way to a fork need not be chosen anew there.
        models = [entry["modelId"] for entry in lines.of("model_change")]
        models += [message["model"] for message in lines.with_role("assistant")]
        lacking = {
            "messages": missing(self.messages, lines.messages),
            "said": missing(self.said, heard + [text_of(message) for message in queued if message["role"] == "user"]),
            "commands": missing(self.commands, commands),
            "entries": missing(self.entries, lines.entries),
            "summaries": missing(self.summaries, summaries),
            "names": missing(self.names, [entry["name"] for entry in lines.of("session_info")]),
            "models": missing(self.models, models),
            # A level that was in force before is not written again.
            "levels": missing(set(self.levels), [entry["thinkingLevel"] for entry in lines.of("thinking_level_change")]),
        }
        assert not any(lacking.values()), f"not in {self.path}: {_shown(lacking)}"
        lost = set(self.said) - self.taken_back - set(heard) - set(waiting)
        if self.may_have_cleared:
            self.taken_back |= lost
            self.may_have_cleared = False
        else:
            assert not lost, f"neither heard nor waiting in {self.path}: {_shown(lost)}"
        returned = self.taken_back & {*heard, *waiting}
        assert not returned, f"taken back, but still in {self.path}: {_shown(returned)}"
        assert not (twice := repeated(heard)), f"heard twice in {self.path}: {_shown(twice)}"

    def forget_choices(self) -> None:
        """What is chosen, or noted by extensions, before anything is said lasts only from there on."""
        assert not self.has_begun, f"the host was told of something in a session that has no file: {_shown(self)}"
        self.names, self.models, self.levels, self.entries = [], [], [], []


class Ledgers:
    """The sessions of a host, in the order in which it was in them. A session that it returned to is there twice."""

    def __init__(self, path: Path) -> None:
        self._known = [Ledger(path)]
        #: Entries that were told during a move: each is in the session that was left or in the one that was entered.
        self._told_in_moves: list[tuple[Ledger, Ledger, list[Entry]]] = []

    @property
    def present(self) -> Ledger:
        return self._known[-1]

    def learn(
        self,
        sent: Iterable[Mapping[str, Any]],
        frames: Iterable[Frame],
        *,
        drops_queue: bool = False,
        late_refusals: bool = False,
    ) -> None:
        """Learn what one agent told its host. `sent` are the host's commands, with an id of their own.

        With `drops_queue`, a fork withdraws what is queued in the session that is left, as in the profile pi. With
        `late_refusals`, a prompt that is aborted before its run begins is acknowledged and then refused, as in omp and xcsh.

        Commands are assigned to sessions in the order of sending, so the host must await the answer to a fork or a switch, and
        to the command before it. The answer to `get_state` tells it the file of the present session.
        """
        sent, frames = list(sent), list(frames)
        # omp and xcsh acknowledge a prompt first and refuse it then: the last answer counts.
        answers = {frame.get("id"): frame for frame in frames if frame["type"] == "response"}
        before = len(self._known)
        unsure = _perhaps_refused(sent, frames) if late_refusals else None
        asked: dict[Any, tuple[Mapping[str, Any], Ledger]] = {}
        for command in sent:
            ledger = self.present
            asked[command["id"]] = command, ledger
            if command["type"] in _PROMPTS:
                ledger.sent.add(command["message"])
            answer = answers.get(command["id"])
            if (command["type"] == "clear_queue" and answer is None) or (drops_queue and command["type"] in MOVES):
                ledger.may_have_cleared = True
            if command["type"] in MOVES and answer is not None and answer["success"]:
                self._known.append(self._entered(command))
            elif command["type"] == "get_state" and answer is not None and ledger.path is None:
                ledger.path = Path(answer["data"]["sessionFile"])
        place = before - 1
        eves = {command["id"] for command, move in pairwise(sent) if move["type"] in MOVES}
        told_in_move: list[Entry] | None = None
        for frame in frames:
            if told_in_move is not None and frame["type"] == "entry_appended":
                # A command of an extension may write during a move, into either session. A host that was not told how the
                # move ended cannot rely on such an entry.
                told_in_move.append(frame["entry"])
                continue
            _hear(self._known[place], frame)
            if frame["type"] != "response" or frame.get("id") not in asked:
                continue
            command, ledger = asked[frame["id"]]
            moved = command["type"] in MOVES and answers[frame["id"]]["success"]
            if answers[frame["id"]]["success"] and frame["id"] != unsure:
                _acknowledged(ledger, command, frame.get("data"))
            if command["type"] in MOVES and told_in_move is not None:
                left, entered = self._known[place], self._known[place + moved]
                self._told_in_moves.append((left, entered, told_in_move))
                told_in_move = None
            place += moved
            if frame["id"] in eves:
                told_in_move = []

    def _entered(self, command: Mapping[str, Any]) -> Ledger:
        """Return what is known of the session that a command leads to."""
        if command["type"] != "switch_session":
            return Ledger()
        path = Path(command["sessionPath"])
        return next((ledger for ledger in self._known if ledger.path == path), Ledger(path))

    def check(self) -> Ledger:
        """Assert that the files of all sessions are valid and have what the host knows. Returns the present session's."""
        for place, ledger in enumerate(self._known):
            if ledger.path is None:
                ledger.path = _fork_of(self._known[place - 1].path)
            if ledger.path is not None and ledger.exists:
                lines = read_strictly(ledger.path)
                ledger.check(lines)
                assert not missing(map(text_of, (m for m in lines.waiting() if m["role"] == "user")), ledger.sent)
            else:
                ledger.forget_choices()
        for left, entered, entries in self._told_in_moves:
            if left.exists and entered.exists:
                assert not (lost := missing(entries, left.entries_in_file() + entered.entries_in_file())), _shown(lost)
        if self.present.path is None:  # nothing was said in the fork: the host is back where it came from
            self._known.pop()
        return self.present


def _fork_of(parent: Path | None) -> Path | None:
    """The file of the latest fork of a session; None if nothing of it was written."""
    assert parent is not None
    found: list[tuple[str, Path]] = []
    for path in parent.parent.glob("*.jsonl"):
        if path.stat().st_size:
            header = read_strictly(path).header
            if header.get("parentSession") == str(parent):
                found.append((header["timestamp"], path))
    return max(found)[1] if found else None


def _perhaps_refused(sent: Sequence[Mapping[str, Any]], frames: Sequence[Frame]) -> Any:
    """Return the id of a prompt that was acknowledged in the last frame and may have been aborted; None if there is none.

    The acknowledgement and the refusal are two frames. An agent that is killed between them has not said everything.
    """
    last = frames[-1] if frames else None
    if last is None or last["type"] != "response" or last["command"] not in ("prompt", "abort_and_prompt"):
        return None
    place = next(number for number, command in enumerate(sent) if command["id"] == last["id"])
    return last["id"] if any(command["type"] in _ABORTS for command in sent[place + 1 :]) else None


def _hear(ledger: Ledger, frame: Frame) -> None:
    """What an event tells."""
    match frame["type"]:
        case "message_end":
            ledger.messages.append(frame["message"])
        case "turn_end":
            ledger.messages += [frame["message"], *frame["toolResults"]]
        case "agent_end":
            ledger.messages += frame["messages"]
        case "entry_appended":
            ledger.entries.append(frame["entry"])
        case "queue_update":
            ledger.said += [*frame["steering"], *frame["followUp"]]
        case "session_info_changed":
            ledger.names.append(frame["name"])
        case "compaction_end" | "auto_compaction_end" if frame.get("result"):
            ledger.summaries.append((frame["result"]["summary"], frame["result"]["firstKeptEntryId"]))
        case _:
            pass


def _acknowledged(ledger: Ledger, command: Mapping[str, Any], data: Any) -> None:
    """What the answer to a command tells."""
    match command["type"]:
        case kind if kind in _PROMPTS and command["message"].startswith("/"):
            pass  # a command of an extension
        case kind if kind in _PROMPTS:
            ledger.said.append(command["message"])
        case "clear_queue":
            ledger.taken_back |= {*data["steering"], *data["followUp"]}
        case "bash":
            ledger.commands.append(command["command"])
        case "compact":
            ledger.summaries.append((data["summary"], data["firstKeptEntryId"]))
        case "set_session_name":
            ledger.names.append(command["name"])
        case "set_model":
            ledger.models.append(command["modelId"])
        case "set_thinking_level" if data["level"] == command["level"]:  # the model has it
            ledger.levels.append(command["level"])
        case _:
            pass


def _shown(value: Any) -> str:
    """A value in a failure's text: whatever it is, without the long texts in it."""
    return repr(value)[:3000]
