"""Session files go back and forth between this program and the real pi."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bench.contestants import Turn, scripted_provider, surroundings
from bench.peers import PI_087

from fairlead.core.messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage, Usage, UserMessage, encode_message
from fairlead.session.history.entries import Replacement
from fairlead.session.history.log import Log
from fairlead.session.history.reading import read_session
from fairlead.session.history.store import SessionFile
from fairlead.stores.headers import new_header

pytestmark = pytest.mark.system

BASH: Turn = {"toolCalls": [{"name": "bash", "arguments": {"command": "echo from the shell"}}]}


class Pi:
    """A running pi, asked one thing after another."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin and process.stdout
        self._stdin, self._stdout = process.stdin, process.stdout

    def frame(self, **wanted: Any) -> dict[str, Any]:
        """The next frame with these fields."""
        for line in self._stdout:
            frame = json.loads(line)
            if wanted.items() <= frame.items():
                return frame
        raise AssertionError(f"pi ended without {wanted}")

    def ask(self, type: str, **fields: Any) -> Any:
        self._stdin.write(json.dumps({"id": type, "type": type, **fields}).encode() + b"\n")
        self._stdin.flush()
        answer = self.frame(type="response", id=type)
        assert answer["success"], answer
        return answer.get("data")

    def prompt(self, text: str) -> None:
        self.ask("prompt", message=text)
        self.frame(type="agent_settled")

    def messages(self) -> list[Any]:
        return self.ask("get_messages")["messages"]


@contextmanager
def pi(tmp_path: Path, session: Path, turns: Sequence[Turn]) -> Generator[Pi]:
    """pi with that session open, asking a provider that plays `turns`."""
    home = tmp_path / f"home-{len(list(tmp_path.iterdir()))}"
    home.mkdir()
    with scripted_provider(turns) as port:
        environment, directory = surroundings(home, port)
        command = [*PI_087.command(), "--mode", "rpc", "--model", "scripted/one", "--session", str(session)]
        with subprocess.Popen(
            command, env=environment, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            try:
                yield Pi(process)
                assert process.stdin
                process.stdin.close()
                process.wait(20)
            finally:
                process.kill()


def answer(*content: Any, stop: Any = "stop") -> AssistantMessage:
    usage = Usage(input=10, output=5, total_tokens=15)
    return AssistantMessage(list(content), "anthropic-messages", "scripted", "one", usage, stop, 1767323045678)


def user(text: str) -> UserMessage:
    return UserMessage([TextContent(text)], 1767323045678, attribution="user")


def fill(log: Log) -> None:
    """A conversation with everything that a session may have."""
    log.model_change("scripted", "one")
    log.thinking_level_change("off")
    log.session_info("a name")
    first = log.message(user("first"))
    log.message(answer(TextContent("let me look"), ToolCall("call_1", "bash", {"command": "true"}), stop="toolUse"))
    log.message(ToolResultMessage("call_1", "bash", [TextContent("done")], False, 1767323045678))
    abandoned = log.message(answer(TextContent("an answer that leads nowhere")))
    log.note("fairlead.queue", {"texts": ["queued"]})
    log.move(first.id)
    log.branch_summary(abandoned.id, "nothing came of it")
    log.message(answer(TextContent("Zwölf ☃ 🎉")))
    kept = log.message(user("second"))
    failed = log.message(answer(stop="error"))
    log.context_edit(failed.id, None)
    edited = log.message(answer(TextContent("too long a story")))
    log.compaction("what happened so far", kept.id, 4321, details={"readFiles": [], "modifiedFiles": []})
    log.context_edit(edited.id, Replacement("a short one"))
    log.custom_message("note", "take note", display=True, details={"n": 1})
    log.label(kept.id, "here")
    log.message(user("third"))
    log.message(answer(TextContent("fine")))


def test_pi_resumes_sessions_written_by_fairlead(tmp_path: Path) -> None:
    path = tmp_path / "ours.jsonl"
    log = Log(new_header("0198a1b2-0000-7000-8000-000000000000", str(tmp_path), 1767323045678))
    file = SessionFile.create(path, log)
    fill(log)
    file.close()
    before = path.read_bytes()
    with pi(tmp_path, path, [BASH, {"text": "Done."}]) as peer:
        assert peer.ask("get_state")["sessionName"] == "a name"
        assert peer.messages() == json.loads(log.messages_json())
        assert peer.ask("get_entries")["entries"][: len(log)] == json.loads(log.entries_json())
        theirs, ours = peer.ask("get_tree")["tree"], json.loads(log.tree_json())
        assert [labels(theirs), outline(theirs)[: len(log)]] == [labels(ours), outline(ours)]
        peer.prompt("go on")
        messages, entries = peer.messages(), peer.ask("get_entries")
    assert path.read_bytes().startswith(before)
    file, again, problems = SessionFile.open(path)
    assert problems == []
    assert json.loads(again.messages_json()) == messages
    assert (json.loads(again.entries_json()), again.leaf) == (entries["entries"], entries["leafId"])
    again.message(user("back here"))
    file.close()
    with pi(tmp_path, path, []) as peer:
        assert peer.messages() == json.loads(again.messages_json())


def test_fairlead_opens_sessions_of_pi_and_pi_resumes_them(tmp_path: Path) -> None:
    path = tmp_path / "theirs.jsonl"
    with pi(tmp_path, path, [BASH, {"text": "Done."}, {"text": "Second answer."}]) as peer:
        peer.prompt("use the shell")
        peer.ask("set_session_name", name="theirs")
        peer.prompt("and again")
        messages, entries = peer.messages(), peer.ask("get_entries")
        tree = peer.ask("get_tree")["tree"]
        model = peer.ask("get_state")["model"]
    read, problems = read_session(path)
    assert problems == []
    assert json.loads(read.messages_json()) == messages
    assert (json.loads(read.entries_json()), read.leaf) == (entries["entries"], entries["leafId"])
    assert json.loads(read.tree_json()) == tree
    known = [message for message in messages if message["role"] != "system"]
    assert [type(message).__name__ for message in read.messages()] == [
        {"user": "UserMessage", "assistant": "AssistantMessage", "toolResult": "ToolResultMessage"}[message["role"]]
        for message in known
    ]
    chosen = read.model()
    assert chosen is not None
    assert (chosen.provider, chosen.id, read.name) == (model["provider"], model["id"], "theirs")

    before = path.read_bytes()
    file, log, _ = SessionFile.open(path)
    log.message(user("now from here"))
    log.message(answer(TextContent("heard")))
    file.close()
    assert path.read_bytes().startswith(before)
    with pi(tmp_path, path, [{"text": "Third answer."}]) as peer:
        assert peer.messages() == json.loads(log.messages_json())
        peer.prompt("and back")
        messages = peer.messages()
    final, problems = read_session(path)
    assert problems == []
    assert json.loads(final.messages_json()) == messages
    assert messages[-1]["content"][0]["text"] == "Third answer."


def test_a_fork_made_here_opens_in_pi(tmp_path: Path) -> None:
    source = tmp_path / "source.jsonl"
    log = Log(new_header("source", str(tmp_path), 1767323045678))
    file = SessionFile.create(source, log)
    fill(log)
    file.close()
    fork = log.fork(new_header("fork", str(tmp_path), 1767323045678, str(source)), before=log.user_messages()[-1][0])
    path = tmp_path / "fork.jsonl"
    SessionFile.create(path, fork).close()
    with pi(tmp_path, path, []) as peer:
        assert peer.messages() == json.loads(fork.messages_json())
        assert peer.ask("get_entries")["entries"][: len(fork)] == json.loads(fork.entries_json())


def test_an_old_file_is_understood_as_pi_understands_it(tmp_path: Path) -> None:
    time = "2025-11-01T00:00:00.000Z"
    said = [{"type": "message", "timestamp": time, "message": json.loads(bytes(encode_message(user(text))))} for text in "abcd"]
    hook = {"role": "hookMessage", "customType": "t", "content": "noted", "display": True, "timestamp": 1}
    compaction = {"type": "compaction", "timestamp": time, "summary": "so far", "firstKeptEntryIndex": 2, "tokensBefore": 9}
    values: list[Any] = [
        {"type": "session", "id": "old", "timestamp": time, "cwd": str(tmp_path)},
        *said[:3],
        compaction,
        said[3],
    ]
    values.append({"type": "message", "timestamp": time, "message": hook})
    ours, theirs = tmp_path / "ours.jsonl", tmp_path / "theirs.jsonl"
    for path in (ours, theirs):
        path.write_text("".join(json.dumps(value) + "\n" for value in values))
    read, _ = read_session(ours)
    file, log, _ = SessionFile.open(ours)
    file.close()
    for path in (theirs, ours):
        with pi(tmp_path, path, []) as peer:
            assert peer.messages() == json.loads(read.messages_json()) == json.loads(log.messages_json())
    assert len(json.loads(read.messages_json())) == 5


def outline(nodes: list[Any]) -> list[tuple[str, str | None]]:
    """Ids and parents of a tree, in the order of the entries' depth and place."""
    found: list[tuple[str, str | None]] = []
    level = [(node, None) for node in nodes]
    while level:
        found += [(node["entry"]["id"], parent) for node, parent in level]
        level = [(child, node["entry"]["id"]) for node, _ in level for child in node["children"]]
    return found


def labels(nodes: list[Any]) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for node in nodes:
        if "label" in node:
            found.append((node["entry"]["id"], node["label"], node["labelTimestamp"]))
        found += labels(node["children"])
    return found
