"""The question whether a tool call may run, and the answers to it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeAlias, cast

from msgspec import Struct

from fairlead.core import questions
from fairlead.core.runtime import CancelToken

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
        text = "".join(self.parts())
        if len(text) <= LONGEST_DIFF:
            return text
        kept = text[: text.rfind("\n", 0, LONGEST_DIFF) + 1]
        return f"{kept}\\ The rest of the diff is left out ({len(text) - len(kept):,} of {len(text):,} characters)\n"

    def parts(self) -> Iterator[str]:
        """Yield the whole diff: the names of the file, then hunk headers and lines."""
        old, new = _lines(self.old_text or ""), _lines(self.new_text)
        path = questions.reveal(self.path, one_line=True)
        yield f"--- {'/dev/null' if self.old_text is None else path}\n+++ {path}\n"
        head = _count_common_lines(old, new)
        tail = _count_common_lines(old[head:][::-1], new[head:][::-1])
        blocks = _blocks(old[head : len(old) - tail], new[head : len(new) - tail])
        changes = [(head + a, head + b, head + c, head + d) for a, b, c, d in blocks]
        for group in _group_changes(changes):
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


class NewRule(Struct, frozen=True):
    """A rule that allows calls like the one in question from now on."""

    #: What the calls are about, as in `approvals.rules` of the settings.
    pattern: str
    #: Whether it holds in every project of the user, and not only in the one that the session works in.
    everywhere: bool = False


class RuleOffer(Struct, frozen=True):
    """The rules that an answer may write to the settings of the user."""

    tool: str
    #: Patterns that cover the call, the narrowest first.
    patterns: tuple[str, ...]
    #: The directory of the project in which a rule holds, unless it holds everywhere.
    project: str
    #: Returns why a rule cannot be written, as a sentence; None if it can.
    find_problem: Callable[[NewRule], str | None]

    def describe(self, rule: NewRule) -> str:
        """Return what a rule allows, for people."""
        what = questions.reveal(rule.pattern, one_line=True) if rule.pattern != "*" else "any arguments"
        return (
            f"{questions.reveal(self.tool, one_line=True)}: {what}, in {'every project' if rule.everywhere else 'this project'}"
        )


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
    #: What the call would change, as the files are now. Empty if that is not known, or if a file is too large to compare.
    changes: tuple[FileChange, ...] = ()
    #: The id of the sub-agent that makes the call; None for the session itself.
    subagent: str | None = None
    #: What an approval for the session covers, such as "the same command" or "the tool deploy with any arguments".
    scope: str = ""
    #: Whether the call would change a file, and how is not known: it is too large to compare or not text, or the call would
    #: fail as the file is now.
    is_not_compared: bool = False
    #: The rules that an answer may write; None if it cannot write any.
    rules: RuleOffer | None = None
    #: Whether a rule wants the question, and not the mode.
    by_rule: bool = False

    @property
    def diff(self) -> str | None:
        """The changes as a unified diff for people; None if there are none.

        Invisible characters are shown as escapes. The middle of a long diff is left out, and a line says how much. If a file
        cannot be compared, because it is too large or not text, or because the call would fail as the file is now, the diff
        consists of the texts in the arguments.
        """
        longest = questions.LONGEST_SHOWN // max(1, len(self.changes))
        known = "".join(questions.limit_diff([*change.parts()], longest) for change in self.changes)
        return known or (self._texts_diff() if self.is_not_compared else None)

    @property
    def readable_subject(self) -> str:
        """The subject without a limit of length, with invisible characters shown as escapes. Only commands have several lines."""
        return questions.reveal(self.subject, one_line=self.kind != "execute")

    def _texts_diff(self) -> str | None:
        """Return the texts that a call would take from a file and put into it."""
        texts = list(_texts_in(self.arguments))
        old, new = ("\n".join(text for key, text in texts if (key in _OLD_TEXTS) == is_old) for is_old in (True, False))
        if not new and not old:
            return None
        parts = [*FileChange(self.subject, old, new).parts()]
        return questions.limit_diff([f"{parts[0]}\\ The file was not compared: these are the texts of the call\n", *parts[1:]])


class Allow(Struct, frozen=True):
    """The call may run."""

    #: Whether later calls of the same kind may run without a question: the same command, file or URI, and all calls of a tool
    #: that has no subject.
    for_session: bool = False
    #: Arguments to run the tool with instead. They have to fit its schema, and no rule may deny them. None changes nothing.
    arguments: dict[str, Any] | None = None
    #: A rule to write to the settings of the user, so that calls like this one run without a question. It has to cover the call,
    #: and the request has to offer rules; otherwise the call does not run.
    rule: NewRule | None = None


class Deny(Struct, frozen=True):
    """The call must not run."""

    #: Why; the model sees it.
    reason: str = ""
    #: Whether to refuse later calls of the same kind without a question.
    for_session: bool = False


ApprovalAnswer: TypeAlias = Allow | Deny


class Asker(Protocol):
    """Decides about a call that needs approval: the `Ui` of a host, or a function of the program."""

    @property
    def available(self) -> bool: ...

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> ApprovalAnswer | None: ...


#: The arguments with text that a file has already, and with text for it, in the tools of all families.
_OLD_TEXTS = frozenset(("oldText", "old_text", "old_string", "oldString", "search"))
_NEW_TEXTS = frozenset(("content", "newText", "new_text", "new_string", "newString", "replace", "text", "patch", "input"))


def _texts_in(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in arguments with their keys."""
    if isinstance(value, str) and value and key in _OLD_TEXTS | _NEW_TEXTS:
        yield key, value
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            yield from _texts_in(inner, name)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _texts_in(inner, key)


_Block: TypeAlias = tuple[int, int, int, int]


def _lines(text: str) -> list[str]:
    """Lines with their ends. Only LF ends a line."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _count_common_lines(old: Sequence[str], new: Sequence[str]) -> int:
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

    codes = difflib.SequenceMatcher(None, old, new).get_opcodes()
    return [(a, b, c, d) for kind, a, b, c, d in codes if kind != "equal"]


def _group_changes(changes: Sequence[_Block]) -> Iterator[list[_Block]]:
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
