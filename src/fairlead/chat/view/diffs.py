"""Changes of files as coloured lines with line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from fairlead.chat.view.text import clip, fold, plain, visible
from fairlead.chat.view.theme import Theme

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
