"""The question whether a tool call may run, and the answers to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

#: What a tool does, for people and hosts that show its calls.
ToolKind: TypeAlias = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"]

#: How many unchanged lines a diff shows around a change.
_CONTEXT = 3
#: Changes of more lines are shown as a whole: finding the lines that both sides share would take too long.
_COMPARED = 1500
#: How many characters a diff has at most.
LONGEST_DIFF = 100_000
#: How many characters a text of a change has at most, so that the content of large files is not kept in memory.
LONGEST_TEXT = 512 * 1024


class FileChange(Struct, frozen=True):
    """The change of one file."""

    #: The absolute path, with all links resolved.
    path: str
    #: What the file holds before the change; None if it does not exist.
    old_text: str | None
    new_text: str

    def diff(self) -> str:
        """Return the change as a unified diff. One of more than `LONGEST_DIFF` characters is cut, and its last line says so."""
        text = "".join(self._hunks())
        if len(text) <= LONGEST_DIFF:
            return text
        kept = text[: text.rfind("\n", 0, LONGEST_DIFF) + 1]
        return f"{kept}\\ The rest of the diff is left out ({len(text) - len(kept):,} of {len(text):,} characters)\n"

    def _hunks(self) -> Iterator[str]:
        old, new = _lines(self.old_text or ""), _lines(self.new_text)
        yield f"--- {'/dev/null' if self.old_text is None else self.path}\n+++ {self.path}\n"
        head = _shared(old, new)
        tail = _shared(old[head:][::-1], new[head:][::-1])
        blocks = _blocks(old[head : len(old) - tail], new[head : len(new) - tail])
        changes = [(head + a, head + b, head + c, head + d) for a, b, c, d in blocks]
        for group in _grouped(changes):
            start, end = max(0, group[0][0] - _CONTEXT), min(len(old), group[-1][1] + _CONTEXT)
            new_start, new_end = start + group[0][2] - group[0][0], end + group[-1][3] - group[-1][1]
            yield f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@\n"
            at = start
            for old_from, old_to, new_from, new_to in group:
                yield from (_line(" ", line) for line in old[at:old_from])
                yield from (_line("-", line) for line in old[old_from:old_to])
                yield from (_line("+", line) for line in new[new_from:new_to])
                at = old_to
            yield from (_line(" ", line) for line in old[at:end])


def file_changes(path: str, old_text: str | None, new_text: str) -> list[FileChange]:
    """Return the change of one file as a list. It is empty if nothing changes, or if a text is longer than `LONGEST_TEXT`."""
    is_long = len(new_text) > LONGEST_TEXT or (old_text is not None and len(old_text) > LONGEST_TEXT)
    return [] if is_long or old_text == new_text else [FileChange(path, old_text, new_text)]


class ApprovalRequest(Struct, frozen=True):
    """A tool call that needs the user's approval."""

    tool_name: str
    call_id: str
    #: What the tool will run with.
    arguments: dict[str, Any]
    #: The question, such as "Allow bash?".
    title: str
    #: What the call is about, for people: the subject, of limited length and with invisible characters made visible.
    message: str = ""
    #: What the call is about: a command line, a path, a URI, or the arguments as JSON.
    subject: str = ""
    kind: ToolKind = "other"
    #: What the call would change, as the files are now. Empty if that is not known.
    changes: tuple[FileChange, ...] = ()
    #: The id of the sub-agent that makes the call; None for the session itself.
    subagent: str | None = None

    @property
    def diff(self) -> str | None:
        """The changes as a unified diff; None if there are none."""
        return "".join(change.diff() for change in self.changes) or None


class Allow(Struct, frozen=True):
    """The call may run."""

    #: Whether later calls of the same kind may run without a question: the same command, file or URI, and all calls of a tool
    #: that has no subject.
    for_session: bool = False
    #: Arguments to run the tool with instead. They have to fit its schema, and no rule may deny them. None changes nothing.
    arguments: dict[str, Any] | None = None


class Deny(Struct, frozen=True):
    """The call must not run."""

    #: Why; the model sees it.
    reason: str = ""
    #: Whether to refuse later calls of the same kind without a question.
    for_session: bool = False


ApprovalAnswer: TypeAlias = Allow | Deny

_Block: TypeAlias = tuple[int, int, int, int]


def _lines(text: str) -> list[str]:
    """Lines with their ends. Only LF ends a line."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _shared(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines both begin with."""
    count = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        count += 1
    return count


def _blocks(old: list[str], new: list[str]) -> list[_Block]:
    """The lines that differ: where they begin and end in `old`, and in `new`."""
    if not old and not new:
        return []
    if not old or not new or max(len(old), len(new)) > _COMPARED:
        return [(0, len(old), 0, len(new))]
    from difflib import SequenceMatcher

    codes = SequenceMatcher(None, old, new).get_opcodes()
    return [(a, b, c, d) for kind, a, b, c, d in codes if kind != "equal"]


def _grouped(changes: Sequence[_Block]) -> Iterator[list[_Block]]:
    """Changes whose context would touch belong together."""
    group: list[_Block] = []
    for change in changes:
        if group and change[0] - group[-1][1] > 2 * _CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _range(start: int, end: int) -> str:
    """The lines of one side of a hunk. An empty side is named by the line before it."""
    return f"{start + 1 if end > start else start},{end - start}"


def _line(sign: str, text: str) -> str:
    return f"{sign}{text}" if text.endswith("\n") else f"{sign}{text}\n\\ No newline at end of file\n"
