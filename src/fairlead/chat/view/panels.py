"""The panel of a tool call: what it does, the end of its output while it runs, how it ended, and what it changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from fairlead import FileChange
from fairlead.chat.view import diffs
from fairlead.chat.view.settled import Drawn
from fairlead.chat.view.text import clip, fold, plain, width, wrap
from fairlead.chat.view.theme import PLAIN, Theme
from fairlead.chat.view.titles import call_title, counted, elapsed, partial_title, short, size
from fairlead.messages import ImageContent, TextContent, UserBlock

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
#: How many lines of output a running call shows, and how many lines of results and changes a finished one shows: short, long.
_TAIL = 5
#: A running call is drawn in half of the terminal's columns, but at least in this many: a terminal that gets narrower wraps what
#: it shows, and moves rows into its scrollback, where nothing can be changed.
_NARROW = 40
_RESULT = (8, 400)
_CHANGES = (24, 600)
_TITLE = (3, 40)
#: Of a longer text, only this many characters at its start and its end are looked at.
_MOST_TEXT = 100_000
#: A running call shows its time after this many seconds, a finished one if it took as long.
_NOTEWORTHY = 1.0
#: Tools whose result is for the model: people see how long it is, and all of it only on demand.
_QUIET = ("read", "grep", "find", "ls")
_EDGE = "  │ "
_EXIT = re.compile(r"\n*Command exited with code (\d+)\s*$")
_TODO = {"completed": ("☑", "dim"), "in_progress": ("▸", "accent"), "abandoned": ("☒", "dim"), "pending": ("☐", "text")}
#: How work ended, as a mark and a colour. The mark alone must do where there are no colours.
_ENDED = {"completed": ("●", "success"), "failed": ("✗", "error"), "dropped": ("○", "warning")}
_AGENT = {**_ENDED, "aborted": ("■", "warning"), "running": ("◐", "accent")}


class ToolPanel:
    """One tool call, from its first argument to its result."""

    kind = "tool"

    def __init__(self, theme: Theme, name: str, now: Callable[[], float], arguments: Mapping[str, Any] | None = None) -> None:
        self._theme = theme
        self._now = now
        self.name = name
        self.arguments = arguments
        #: The start of the arguments' JSON and its length, while it arrives.
        self._json = ""
        self._json_length = 0
        self._started: float | None = None
        self.waits_for_approval = False
        #: Whether the transcript shows what the call would do, the changes that it shows, and what the user has decided: whether
        #: the call may run, and why it may not.
        self._is_proposed = False
        self._proposed: Sequence[FileChange] = ()
        self._decision: tuple[bool, str] | None = None
        self._content: Sequence[UserBlock] = ()
        self._details: Mapping[str, Any] = {}
        self._changes: Sequence[FileChange] = ()
        self._seconds: float | None = None
        self.done = False
        self.failed = False
        #: Whether the call ended without a result.
        self.dropped = False

    # What happens to the call

    def add_json(self, piece: str) -> None:
        """Note a piece of the arguments."""
        self._json_length += len(piece)
        if len(self._json) < 4000:
            self._json += piece

    def propose(self, changes: Sequence[FileChange]) -> None:
        """Note that the transcript shows what the call would do, and the changes that it shows."""
        self._is_proposed, self._proposed = True, tuple(changes)

    def decide(self, is_allowed: bool, reason: str) -> None:
        """Set the answer to the question whether the call may run. A call that never needed one has no answer."""
        if self.waits_for_approval:
            self.waits_for_approval, self._decision = False, (is_allowed, reason)

    def start(self, arguments: Mapping[str, Any]) -> None:
        """The call may run, and runs now."""
        self.arguments = arguments
        self.waits_for_approval = False
        self._started = self._now()

    def update(self, content: Sequence[UserBlock], details: Mapping[str, Any] | None) -> None:
        """Set all output so far."""
        self._content = content
        self._details = details or {}

    def end(
        self,
        content: Sequence[UserBlock],
        details: Mapping[str, Any] | None,
        *,
        failed: bool,
        changes: Sequence[FileChange] = (),
        duration_ms: int | None = None,
    ) -> None:
        """Set the result."""
        self.update(content, details)
        self._changes = changes
        self._seconds = None if duration_ms is None else duration_ms / 1000
        self.done, self.failed = True, failed

    def drop(self) -> None:
        """End the call without a result."""
        self.done = self.dropped = True

    @property
    def is_moving(self) -> bool:
        """Whether the panel changes with time alone."""
        return not self.done

    # How it looks

    def open(self, columns: int, tail: int) -> list[Drawn]:
        """Return the panel for the live region. It changes as a whole when the call ends, so no line can be settled."""
        lines = self.finished(columns, is_long=False) if self.done else self.running(columns, tail)
        return [Drawn(line, None) for line in lines]

    def settle(self, letters: str) -> None:
        """Do nothing: `open` offers no letters."""

    def take_back(self) -> None:
        """Do nothing: `finished` always returns all lines."""

    def running(self, columns: int, tail: int = _TAIL) -> list[str]:
        """Return the panel of a call that has not ended, with at most `tail` lines of its output."""
        theme = self._theme
        columns = min(columns, max(_NARROW, columns // 2))
        if self.arguments is None:
            verb, about = partial_title(self.name, self._json)
            return self._head(self._picture(), verb, about, theme.paint("dim", size(self._json_length)), columns, 1)
        if self.waits_for_approval:
            return self._head(theme.paint("warning", "○"), *self._title(), theme.paint("warning", "needs approval"), columns, 1)
        if self._started is None:
            return self._head(theme.paint("dim", "○"), *self._title(), "", columns, 1)
        seconds = self._now() - self._started
        meta = theme.paint("dim", elapsed(seconds, whole_from=0)) if seconds >= _NOTEWORTHY else ""
        lines = self._head(self._picture(), *self._title(), meta, columns, _TITLE[0])
        return lines + edged(self._live_body(columns - len(_EDGE), tail), theme)

    def finished(self, columns: int, is_long: bool) -> list[str]:
        """Return the panel of a call that has ended. With `is_long`, it shows much more of its output."""
        theme = self._theme
        mark, role = _ENDED["dropped" if self.dropped else "failed" if self.failed else "completed"]
        if self._decision is not None and not self._decision[0]:
            reason = wrap(plain(self._decision[1]), columns - len(_EDGE))
            body, facts = [theme.paint("error", line) for line in reason], [theme.paint("error", "denied")]
        else:
            body, facts = self._result(columns - len(_EDGE), int(is_long))
            facts += [theme.paint("dim", "allowed")] if self._decision is not None else []
        if self._seconds is not None and self._seconds >= _NOTEWORTHY:
            facts.append(theme.paint("dim", elapsed(self._seconds)))
        if self.dropped:
            facts.append(theme.paint("warning", "did not run"))
        most = 1 if self._is_proposed else _TITLE[is_long]
        lines = self._head(theme.paint(role, mark), *self._title(), " · ".join(facts), columns, most)
        return lines + edged(body, theme)

    def _picture(self) -> str:
        return self._theme.paint("accent", SPINNER[int(self._now() * 10) % len(SPINNER)])

    def _title(self) -> tuple[str, str]:
        return call_title(self.name, self.arguments or {})

    def _head(self, mark: str, verb: str, about: str, meta: str, columns: int, most: int) -> list[str]:
        """Return the title, wrapped under itself, with `meta` behind it."""
        text = f"{self._theme.paint('tool', verb)} {about}".rstrip()
        lines = wrap(text, columns - 2)
        if len(lines) > most:
            room = columns - 4 - (width(meta) + 2 if meta and columns > 30 else 0)
            lines = [*lines[: most - 1], clip(lines[most - 1], room, "") + " …"]
        if meta:
            lines = [*lines[:-1], *wrap(f"{lines[-1]}  {meta}", columns - 2)]
        return [f"{mark} {lines[0]}", *(f"  {line}" for line in lines[1:])]

    def _live_body(self, columns: int, tail: int) -> list[str]:
        if not tail:
            return []
        if self.name == "task" and self._details.get("progress"):
            return self._agents(self._details["progress"], columns)[-max(tail, 8) :]
        text = "".join(block.text for block in self._content if isinstance(block, TextContent))
        lines = plain(text[-200 * columns :]).rstrip("\n").split("\n")[-tail:] if text.strip() else []
        folded = [part for line in lines for part in fold(line[-columns * tail :], columns)]
        return [self._theme.paint("dim", line) for line in folded[-tail:]]

    def _result(self, columns: int, is_long: int) -> tuple[list[str], list[str]]:
        """Return the lines of the result, and facts that stand behind the title."""
        theme = self._theme
        if self.failed:
            return self._failure(columns, is_long)
        if changed := self._changed_lines():
            is_known = bool(self._changes) and tuple(self._changes) == self._proposed
            drawn = [] if is_known else cut(diffs.draw(changed, theme, columns), _CHANGES[is_long], theme)
            return drawn, diffs.count_facts(changed, theme)
        if self.name == "todo_write" and isinstance(self._details.get("phases"), list):
            return self._todos(self._details["phases"], columns), []
        if self.name == "task" and isinstance(self._details.get("results"), list):
            return self._agents(self._details["results"], columns), []
        lines, images = self._texts(), [image_text(block) for block in self._content if isinstance(block, ImageContent)]
        if self.name in ("edit", "write") and not is_long:
            return [], []
        if self.name in _QUIET and not is_long:
            count = [f"{len(lines):,} line{'s' * (len(lines) != 1)}"] if lines and not images else []
            return [], [theme.paint("dim", fact) for fact in (*count, *images)]
        drawn = [theme.paint("dim", part) for line in lines for part in fold(line, columns)]
        return cut(drawn, _RESULT[is_long], theme), [theme.paint("dim", image) for image in images]

    def _failure(self, columns: int, is_long: int) -> tuple[list[str], list[str]]:
        theme, text = self._theme, "\n".join(self._texts())
        facts: list[str] = []
        if self.name == "bash" and (match := _EXIT.search(text)):
            text = text[: match.start()]
            facts.append(theme.paint("error", f"exit {match[1]}"))
        role, broken = ("dim", fold) if facts else ("error", wrap)
        lines = [theme.paint(role, part) for line in text.split("\n") for part in broken(line, columns)] if text.strip() else []
        return cut(lines, _RESULT[is_long], theme), facts

    def _texts(self) -> list[str]:
        text = "\n".join(block.text for block in self._content if isinstance(block, TextContent))
        if len(text) > 2 * _MOST_TEXT:
            text = f"{text[:_MOST_TEXT]}\n…\n{text[-_MOST_TEXT:]}"
        text = plain(text).strip("\n")
        return [line.rstrip() for line in text.split("\n")] if text and text != "(no output)" else []

    def _changed_lines(self) -> list[diffs.DiffLine]:
        if self._changes:
            return diffs.unified("".join(change.diff() for change in self._changes))
        return diffs.of_details(self._details)

    def _todos(self, phases: Sequence[Any], columns: int) -> list[str]:
        theme = self._theme
        lines: list[str] = []
        for phase in _objects(phases):
            tasks = _objects(phase.get("tasks") or ())
            if len(phases) > 1:
                lines += wrap(theme.paint("strong", _word(phase, "name")), columns)
            for task in tasks:
                mark, role = _TODO.get(str(task.get("status")), _TODO["pending"])
                first, *rest = wrap(theme.paint(role, _word(task, "content")), columns - 2)
                lines += (f"{theme.paint(role, mark)} {first}", *(f"  {line}" for line in rest))
        return lines

    def _agents(self, agents: Sequence[Any], columns: int) -> list[str]:
        theme = self._theme
        lines: list[str] = []
        for agent in _objects(agents):
            mark, role = _AGENT.get(str(agent.get("status")), ("○", "dim"))
            facts = [_word(agent, "description") or _word(agent, "id")]
            facts += [counted(count, "tool call")] if isinstance(count := agent.get("toolCount"), int) and count else []
            facts += [f"{short(tokens)} tokens"] if isinstance(tokens := agent.get("tokens"), int | float) and tokens else []
            facts += [elapsed(spent / 1000)] if isinstance(spent := agent.get("durationMs"), int | float) and spent else []
            lines.append(f"{theme.paint(role, mark)} {clip(' · '.join(facts), columns - 2)}")
            recent = _objects(agent.get("recentTools") or ()) if agent.get("status") == "running" else []
            if recent:
                doing = f"{_word(recent[-1], 'tool')} {_word(recent[-1], 'args')}".replace("\n", " ")
                lines.append(theme.paint("dim", clip(f"  {doing}", columns)))
            if error := _word(agent, "stderr"):
                lines.append(theme.paint("error", clip(f"  {error}", columns)))
        return lines


def edged(lines: Sequence[str], theme: Theme) -> list[str]:
    """Return the lines of a body, with an edge at their left."""
    edge = theme.paint("border", _EDGE.rstrip())
    return [f"{edge} {line}".rstrip() for line in lines]


def cut(lines: list[str], most: int, theme: Theme = PLAIN) -> list[str]:
    """Return at most `most` lines: the first and the last, with a remark about those between."""
    if len(lines) <= most + 1:
        return lines
    first = most // 3
    last = most - first
    return [*lines[:first], theme.paint("dim", f"… {len(lines) - most:,} more lines"), *lines[-last:]]


def image_text(block: ImageContent) -> str:
    """Return one line about an image."""
    return f"▣ {plain(block.mime_type)}, {size(len(block.data) * 3 // 4)}"


def _objects(values: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list that came from JSON."""
    if not isinstance(values, Sequence):
        return []
    return [cast("Mapping[str, Any]", value) for value in cast("Sequence[Any]", values) if isinstance(value, Mapping)]


def _word(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return " ".join(plain(value).split()) if isinstance(value, str) else ""
