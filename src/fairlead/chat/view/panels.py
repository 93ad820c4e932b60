"""The panel of a tool call: what it does, the end of its output while it runs, how it ended, and what it changed.

What a call that needs approval would do is written once above the question, as final text. A resize can leave copies of lines
that still change in the scrollback, so the question itself has only a few of them (see `chat.view.scrollback`)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from fairlead import ApprovalRequest, FileChange
from fairlead.chat.view import code
from fairlead.chat.view.scrollback import Drawn, rest_of, without
from fairlead.chat.view.text import clip, fold, plain, visible, width, wrap
from fairlead.chat.view.theme import PLAIN, Theme
from fairlead.chat.view.tool_titles import call_title, format_count, format_elapsed, partial_title, short, size
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

    def update(self, content: Sequence[UserBlock], details: Any) -> None:
        """Set all output so far. `details` is any JSON: tools are not ours."""
        self._content = content
        self._details = cast("Mapping[str, Any]", details) if isinstance(details, Mapping) else {}

    def end(
        self,
        content: Sequence[UserBlock],
        details: Any,
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
        lines = self.final_lines(columns, is_long=False) if self.done else self.running(columns, tail)
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
        meta = theme.paint("dim", format_elapsed(seconds, whole_from=0)) if seconds >= _NOTEWORTHY else ""
        lines = self._head(self._picture(), *self._title(), meta, columns, _TITLE[0])
        return lines + add_edge(self._live_body(columns - len(_EDGE), tail), theme)

    def final_lines(self, columns: int, is_long: bool) -> list[str]:
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
            facts.append(theme.paint("dim", format_elapsed(self._seconds)))
        if self.dropped:
            facts.append(theme.paint("warning", "did not run"))
        most = 1 if self._is_proposed else _TITLE[is_long]
        lines = self._head(theme.paint(role, mark), *self._title(), " · ".join(facts), columns, most)
        return lines + add_edge(body, theme)

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
            drawn = [] if is_known else cut(code.draw(changed, theme, columns), _CHANGES[is_long], theme)
            return drawn, code.count_facts(changed, theme)
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

    def _changed_lines(self) -> list[code.DiffLine]:
        if self._changes:
            return code.parse_unified("".join(change.diff() for change in self._changes))
        return code.of_details(self._details)

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
            facts += [format_count(count, "tool call")] if isinstance(count := agent.get("toolCount"), int) and count else []
            facts += [f"{short(tokens)} tokens"] if isinstance(tokens := agent.get("tokens"), int | float) and tokens else []
            facts += [format_elapsed(spent / 1000)] if isinstance(spent := agent.get("durationMs"), int | float) and spent else []
            lines.append(f"{theme.paint(role, mark)} {clip(' · '.join(facts), columns - 2)}")
            recent = _objects(agent.get("recentTools") or ()) if agent.get("status") == "running" else []
            if recent:
                doing = f"{_word(recent[-1], 'tool')} {_word(recent[-1], 'args')}".replace("\n", " ")
                lines.append(theme.paint("dim", clip(f"  {doing}", columns)))
            if error := _word(agent, "stderr"):
                lines.append(theme.paint("error", clip(f"  {error}", columns)))
        return lines


def add_edge(lines: Sequence[str], theme: Theme) -> list[str]:
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


#: How many lines of a proposal are shown. The user can ask for the rest.
_MOST_LINES = 200
#: A command or other text is short if it has at most this many lines in a terminal of this many columns: then the question shows
#: it.
_SHORT = 3
_EDGE_WIDTH = 4


class Proposal:
    """What one call would do, as a part of the conversation.

    Args:
        request: The call.
        theme: The colours.
        cwd: The working directory. Paths inside it are shown relative to it.
        is_whole: Whether no line is left out.
    """

    kind = "proposal"
    is_moving = False
    done = True

    def __init__(self, request: ApprovalRequest, theme: Theme, cwd: Path, *, is_whole: bool = False) -> None:
        self._request = request
        self._theme = theme
        self._is_whole = is_whole
        self._roots = cwd, Path(os.path.realpath(cwd))
        self._diff = request.diff or ""
        self._text = plain(visible(request.readable_subject or request.message), 4).strip("\n")
        #: How many lines were left out when it was drawn last.
        self.left_out = 0
        self._settled = ""

    @property
    def is_short(self) -> bool:
        """Whether the question shows it, so that the transcript does not have to."""
        return not self._diff and len(self.short(_NARROW)) <= _SHORT

    def short(self, columns: int) -> list[str]:
        """Return the command, or what else the call is about, as lines of at most `columns` cells."""
        if self._request.kind != "execute":
            return [f"  {line}" for line in wrap(self._text, columns - 2)]
        lines = _fold_text(self._text, columns - 4)
        return [f"  {self._theme.paint('accent', '$')} {lines[0]}", *(f"    {line}" for line in lines[1:])]

    @property
    def about(self) -> str:
        """The files that the call would change."""
        paths = [line.text for line in code.parse_unified(self._diff) if line.kind == "file"]
        return ", ".join(map(self._name, dict.fromkeys(paths)))

    @property
    def is_unknown(self) -> bool:
        """Whether the call would change files, but how is not known: the change is too large, or the call would fail."""
        return self._request.kind == "edit" and not self._diff

    def final_lines(self, columns: int, is_long: bool) -> list[str]:
        """Return all lines. With `is_long`, none is left out."""
        return without(self._lines(columns, is_long), self._settled)[0]

    def take_back(self) -> None:
        """Do nothing: `finished` always returns all lines."""

    def open(self, columns: int, tail: int) -> list[Drawn]:
        return rest_of(self._lines(columns, False), self._settled)[0]

    def settle(self, letters: str) -> None:
        self._settled += letters

    def _lines(self, columns: int, is_long: bool) -> list[str]:
        head, body = self._changes(columns - _EDGE_WIDTH) if self._diff else self._other(columns - _EDGE_WIDTH)
        if self._request.subagent:
            head += self._theme.paint("dim", f"  {plain(visible(f'sub-agent {self._request.subagent}'))}")
        shown = body if is_long or self._is_whole else cut(body, _MOST_LINES, self._theme)
        self.left_out = len(body) - len(shown) + 1 if len(shown) < len(body) else 0
        first, *rest = wrap(head, columns - 2)
        return [f"{self._theme.paint('warning', '?')} {first}", *(f"  {line}" for line in rest), *add_edge(shown, self._theme)]

    def _changes(self, columns: int) -> tuple[str, list[str]]:
        theme, changes = self._theme, self._request.changes
        lines = [
            replace(line, text=self._name(line.text)) if line.kind == "file" else line for line in code.parse_unified(self._diff)
        ]
        facts = code.count_facts(lines, theme)
        if len(changes) == 1 and changes[0].old_text is None:
            facts.insert(0, theme.paint("dim", "new file"))
        verb, _ = call_title(self._request.tool_name, {})
        names = len(changes) > 1
        title = theme.paint("tool", verb) if names else f"{theme.paint('tool', verb)} {self.about}"
        return "  ".join((title, *facts)), code.draw(lines, theme, columns, names=names)

    def _other(self, columns: int) -> tuple[str, list[str]]:
        is_command = self._request.kind == "execute"
        title = "Command" if is_command else plain(visible(self._request.tool_name))
        return self._theme.paint("tool", title), _fold_text(self._text, columns)

    def _name(self, path: str) -> str:
        for root in self._roots:
            if Path(path).is_relative_to(root):
                path = str(Path(path).relative_to(root))
                break
        return plain(visible(path))


def _fold_text(text: str, columns: int) -> list[str]:
    return [part for line in text.split("\n") for part in fold(line, columns)]
