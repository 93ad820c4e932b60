"""Draws code in colour, also while it arrives line by line, and the changes of files as lines with numbers.

Pygments is imported when the first code in a known language appears.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from fairlead.chat.view.text import RESET, clip, fold, plain, visible
from fairlead.chat.view.theme import Theme

#: A part of a code block is complete at the first blank line after this many lines, and at the latest after the second number.
#: Its lines are final then. Comments over several lines seldom contain blank lines, so few of them are divided.
_SHORTEST_PART = 16
_LONGEST_PART = 64
#: Parts and lines of more characters are not highlighted, because that may take long.
_MOST_CHARACTERS = 10_000
_LONGEST_LINE = 1000
#: The languages whose lexers were tested with hostile input. The patterns of others can block the interpreter for minutes.
_LANGUAGES = frozenset(
    """bash batch c clojure cmake c++ cpp csharp css dart diff docker dockerfile elixir erlang fsharp go graphql groovy haskell
    hcl html http java javascript js json jsx julia kotlin less lua make makefile markdown nginx nim nix objective-c perl php
    powershell properties protobuf py pycon python python3 pytb r rb rs rst ruby rust sass scala scss sh shell solidity sql swift
    tcl terraform tex toml ts tsx typescript vb.net vim xml yaml yml zig zsh""".split()
)
_COLOURS: dict[str, dict[str, int | str]] = {
    "dark": {
        "Comment": "3;38;5;244",
        "Comment.Preproc": 139,
        "Keyword": 110,
        "Keyword.Constant": 173,
        "Operator.Word": 110,
        "Literal.String": 150,
        "Literal.String.Escape": 180,
        "Literal.Number": 173,
        "Name.Attribute": 180,
        "Name.Builtin": 116,
        "Name.Class": 222,
        "Name.Constant": 173,
        "Name.Decorator": 139,
        "Name.Exception": 116,
        "Name.Function": 222,
        "Name.Tag": 110,
        "Name.Variable": 116,
        "Generic.Heading": "1",
        "Generic.Subheading": 110,
        "Generic.Inserted": 114,
        "Generic.Deleted": 174,
        "Generic.Prompt": 244,
        "Generic.Traceback": 174,
    },
    "light": {
        "Comment": "3;38;5;243",
        "Comment.Preproc": 90,
        "Keyword": 25,
        "Keyword.Constant": 130,
        "Operator.Word": 25,
        "Literal.String": 28,
        "Literal.String.Escape": 94,
        "Literal.Number": 130,
        "Name.Attribute": 94,
        "Name.Builtin": 30,
        "Name.Class": 94,
        "Name.Constant": 130,
        "Name.Decorator": 90,
        "Name.Exception": 30,
        "Name.Function": 94,
        "Name.Tag": 25,
        "Name.Variable": 30,
        "Generic.Heading": "1",
        "Generic.Subheading": 25,
        "Generic.Inserted": 28,
        "Generic.Deleted": 124,
        "Generic.Prompt": 243,
        "Generic.Traceback": 124,
    },
}


class Code:
    """One block of code. Lines go in as they arrive and come out with colours."""

    def __init__(self, theme: Theme, language: str) -> None:
        self._lexer = _lexer(language) if theme.highlighting else None
        self._styles = _Styles.of(theme.highlighting)
        #: The lines of the part that is not complete yet, and how they look so far.
        self._part: list[str] = []
        self._so_far: list[str] = []
        #: The state of the lexer at the start of the part, and after the lines so far.
        self._state: list[str] = ["root"]
        self._state_so_far: list[str] = ["root"]

    def add(self, line: str) -> list[str]:
        """Add a complete line. Returns the lines that are final now."""
        self._part.append(line)
        count = len(self._part)
        if self._lexer is None or count >= _LONGEST_PART or (count >= _SHORTEST_PART and not line.strip()):
            return self.end()
        return []

    def end(self) -> list[str]:
        """Return the lines that were not final yet: the code is complete, or a part of it is."""
        lines, self._state = self._highlight(self._part, self._state)
        self._part, self._so_far, self._state_so_far = [], [], self._state
        return lines

    def open(self) -> list[str]:
        """Return the lines that are not final yet, as far as they can be highlighted."""
        while len(self._so_far) < len(self._part):
            (line,), self._state_so_far = self._highlight([self._part[len(self._so_far)]], self._state_so_far)
            self._so_far.append(line)
        return self._so_far

    def arriving(self, lines: Sequence[str]) -> list[str]:
        """Return lines with colours that come after those of `open` and were not added. The last one may be incomplete."""
        return self._highlight(lines, self._state_so_far)[0]

    def _highlight(self, lines: Sequence[str], state: list[str]) -> tuple[list[str], list[str]]:
        too_long = sum(map(len, lines)) > _MOST_CHARACTERS or any(len(line) > _LONGEST_LINE for line in lines)
        if self._lexer is None or too_long or not lines:
            return list(lines), state
        text = "\n".join(lines) + "\n"
        tokens, state = _tokens(self._lexer, text, state)
        return self._styles.lines(tokens)[: len(lines)], state


class _Styles:
    """The styles of tokens in one theme."""

    _known: dict[str, _Styles] = {}

    @classmethod
    def of(cls, name: str) -> _Styles:
        if name not in cls._known:
            cls._known[name] = cls(_COLOURS.get(name, {}))
        return cls._known[name]

    def __init__(self, colours: dict[str, int | str]) -> None:
        self._openers = {
            name: f"\x1b[38;5;{colour}m" if isinstance(colour, int) else f"\x1b[{colour}m" for name, colour in colours.items()
        }
        self._by_token: dict[Any, str] = {}

    def lines(self, tokens: Sequence[tuple[Any, str]]) -> list[str]:
        """Return the lines of tokens. Adjacent tokens with one style share it."""
        lines: list[str] = []
        line: list[str] = []
        current = ""
        for token, text in tokens:
            opener = self._opener(token)
            for number, part in enumerate(text.split("\n")):
                if number:
                    lines.append("".join(line) + (RESET if current else ""))
                    line, current = [], ""
                if opener != current and part.strip():
                    line.append((RESET if current else "") + opener)
                    current = opener
                line.append(part)
        return [*lines, "".join(line) + (RESET if current else "")]

    def _opener(self, token: Any) -> str:
        opener = self._by_token.get(token)
        if opener is None:
            name = ".".join(token)
            while name and name not in self._openers:
                name = name.rpartition(".")[0]
            opener = self._by_token[token] = self._openers.get(name, "")
        return opener


@cache
def _lexer(language: str) -> Any:
    """Return a lexer; None if the language is not known or Pygments is not installed."""
    name = language.lower()
    if name not in _LANGUAGES:
        return None
    try:
        from pygments.lexers import find_lexer_class_by_name  # noqa: PLC0415  an extra

        return find_lexer_class_by_name(name)()
    except (ImportError, ValueError):
        return None


def _tokens(lexer: Any, text: str, state: list[str]) -> tuple[list[tuple[Any, str]], list[str]]:
    """Return the tokens of a text, and the state of the lexer after it.

    Pygments does not return that state. Its class for lexers with a context does, and it can run the rules of most others.
    """
    from pygments.lexer import ExtendedRegexLexer, LexerContext, RegexLexer  # noqa: PLC0415  an extra

    if isinstance(lexer, RegexLexer) and type(lexer).get_tokens_unprocessed in (
        RegexLexer.get_tokens_unprocessed,
        ExtendedRegexLexer.get_tokens_unprocessed,
    ):
        context: Any = LexerContext(text, 0, list(state))
        run: Any = ExtendedRegexLexer.get_tokens_unprocessed
        try:
            return [(token, part) for _, token, part in run(lexer, None, context)], list(context.stack)
        except (TypeError, KeyError, AttributeError):  # rules that do without a context
            pass
    return [(token, part) for _, token, part in lexer.get_tokens_unprocessed(text)], ["root"]


#: How a line of a diff is meant: added, removed, unchanged, a gap between hunks, the name of a file, or a remark.
Kind: TypeAlias = Literal["+", "-", " ", "gap", "file", "remark"]

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
#: What the diff of a question says about the lines that it leaves out.
_LEFT_OUT = re.compile(r"left out here: ([\d,]+) added, ([\d,]+) removed")
#: A line of the diff in the result of the edit tool, which has line numbers.
_NUMBERED = re.compile(r"([+\- ])( *\d+) (.*)")

#: Lines that were removed and lines that were added in their place, in a string of their kinds.
_REPLACED = re.compile(r"(-+)(\++)")
#: The share of a changed line that must be unchanged for the rest to be marked.
_ENOUGH_IN_COMMON = 0.4


class DiffLine(Struct, frozen=True):
    """One line of a diff. `number` is the line's number in the new file, or in the old one if it was removed."""

    kind: Kind
    text: str = ""
    number: int = 0


def parse_unified(diff: str) -> list[DiffLine]:
    """Read a unified diff of one file or more."""
    return list(_read_unified(plain(visible(diff), 4).removesuffix("\n").split("\n")))


def _read_unified(lines: Sequence[str]) -> Iterator[DiffLine]:
    old = new = 0
    #: How many lines of the old and the new file the hunk still has. A removed line may look like the name of a file.
    old_left = new_left = 0
    is_first = True
    for line in lines:
        kind = line[:1] or " "
        if (old_left and kind in "- ") or (new_left and kind in "+ "):
            yield DiffLine("+" if kind == "+" else "-" if kind == "-" else " ", line[1:], old if kind == "-" else new)
            is_old, is_new = kind != "+", kind != "-"
            old, old_left, new, new_left = old + is_old, old_left - is_old, new + is_new, new_left - is_new
        elif match := _HUNK.match(line):
            if not is_first:
                yield DiffLine("gap")
            old, new = int(match[1]), int(match[3])
            old_left, new_left = int(match[2] or 1), int(match[4] or 1)
            is_first = False
        elif line.startswith("+++ "):
            yield DiffLine("file", line[4:])
            is_first = True
        elif kind == "\\":
            yield DiffLine("remark", line[1:].strip())


def parse_numbered(diff: str) -> list[DiffLine]:
    """Read a diff whose lines have numbers, as in the result of the edit tool."""
    lines: list[DiffLine] = []
    for line in plain(visible(diff), 4).split("\n"):
        if match := _NUMBERED.match(line):
            kind: Kind = "+" if match[1] == "+" else "-" if match[1] == "-" else " "
            lines.append(DiffLine(kind, match[3], int(match[2])))
        elif lines and line.strip() == "...":
            lines.append(DiffLine("gap"))
    while lines and lines[-1].kind == "gap":
        lines.pop()
    return lines


def of_details(details: Mapping[str, Any]) -> list[DiffLine]:
    """Read the diff in the details of a tool's result. Empty if there is none."""
    if isinstance(patch := details.get("patch"), str):
        return parse_unified(patch)
    return parse_numbered(diff) if isinstance(diff := details.get("diff"), str) else []


def counts(lines: Sequence[DiffLine]) -> tuple[int, int]:
    """Return how many lines are added and removed."""
    hidden = [found for line in lines if line.kind == "remark" and (found := _LEFT_OUT.search(line.text))]
    added, removed = (sum(int(found[side].replace(",", "")) for found in hidden) for side in (1, 2))
    return added + sum(line.kind == "+" for line in lines), removed + sum(line.kind == "-" for line in lines)


def count_facts(lines: Sequence[DiffLine], theme: Theme) -> list[str]:
    """Return how many lines are added and removed as a text for a title, or no text if none are."""
    added, removed = counts(lines)
    facts = [theme.paint("added", f"+{added}")] * bool(added) + [theme.paint("removed", f"-{removed}")] * bool(removed)
    return [" ".join(facts)] if facts else []


def draw(lines: Sequence[DiffLine], theme: Theme, columns: int, *, names: bool = False) -> list[str]:
    """Return a diff as lines of at most `columns` cells. The names of files are left out without `names`."""
    digits = len(str(max((line.number for line in lines), default=0)))
    is_narrow = columns < digits + 20
    differing = _differing_parts(lines)
    drawn: list[str] = []
    for index, line in enumerate(lines):
        if line.kind == "file":
            if names:
                drawn += [theme.paint("strong", part) for part in fold(line.text, columns)]
        elif line.kind == "gap":
            drawn.append(theme.paint("dim", " " * (0 if is_narrow else digits + 1) + "⋮"))
        elif line.kind == "remark":
            drawn.append(theme.paint("dim", clip(line.text, columns)))
        else:
            drawn += _paint_change(line, differing.get(index), theme, columns, 0 if is_narrow else digits)
    return drawn


def _differing_parts(lines: Sequence[DiffLine]) -> dict[int, tuple[int, int]]:
    """Return which part of a line differs from the line that it replaces or that replaces it, by the line's index.

    Lines are compared only where as many were added as removed, and if they have enough in common.
    """
    parts: dict[int, tuple[int, int]] = {}
    kinds = "".join(line.kind if line.kind in ("+", "-") else " " for line in lines)
    for match in _REPLACED.finditer(kinds):
        count = len(match[1])
        if count != len(match[2]):
            continue
        for old in range(match.start(), match.start() + count):
            one, other = lines[old].text, lines[old + count].text
            start = _count_common_start(one, other)
            end = _count_common_start(one[start:][::-1], other[start:][::-1])
            if len(one[:start].strip()) + end >= max(len(one), len(other)) * _ENOUGH_IN_COMMON:
                parts[old] = start, len(one) - end
                parts[old + count] = start, len(other) - end
    return parts


def _count_common_start(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their start."""
    return next((index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _paint_change(line: DiffLine, differs: tuple[int, int] | None, theme: Theme, columns: int, digits: int) -> list[str]:
    role = {"+": "added", "-": "removed"}.get(line.kind, "text")
    gutter = f"{line.number:{digits}} " if digits else ""
    text = line.text.rstrip()
    if differs is not None and differs[0] < differs[1]:
        start, end = differs
        text = line.text[:start] + theme.paint(f"{role}_part", line.text[start:end]) + line.text[end:]
    parts = [theme.paint(role, part) for part in fold(text, columns - len(gutter) - 2)]
    sign = theme.paint(role, f"{line.kind} " if text else line.kind)
    lines = [theme.paint("dim", gutter) + (sign + parts[0] if text else sign.rstrip())]
    return lines + [" " * (len(gutter) + 2) + part for part in parts[1:]]
