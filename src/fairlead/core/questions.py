"""Texts for a person who decides about a call: nothing in them is invisible, and their length is bounded."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

#: Categories of characters that show nothing, or that change how others are shown: controls, formats, surrogates, private and
#: unassigned ones, and all kinds of spaces.
_HIDING = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"))
#: What Unicode lets programs ignore, although its category is that of a letter or a mark, and other characters without ink. The
#: second line has marks that show nothing by themselves, because they join or stack letters or choose their form.
# These patterns are compiled when they are first used: each compilation would delay the start.
_BLANK = (
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc\U00013440-\U00013442\U0001d159\U00016fe4"
    "\u1039\u17d2\u1a60\u1bab\u2d7f\uaaf6\U00010a3f\U0001107f\U00011133\U000113d0\U0001193e\U00011a47\U00011a99\U00011d45"
    "\U00011d97\U00011f42\U0001bc9d\U000e0000-\U000e0fff]"
)
#: More marks than this on one character cover the lines around it.
_MOST_MARKS = 3
_PLAIN = r"[ -~\n\t]*"
_HUNK = r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@"
#: How many characters a diff has at most, before characters are shown as escapes.
LONGEST_SHOWN = 100_000
#: Lines with more characters are cut if the diff is cut.
_LONGEST_LINE = 2000


def reveal(text: str, *, one_line: bool = False) -> str:
    r"""Return a text with escapes, such as `\u{200b}`, for characters that show nothing or that hide, move or cover others.

    Args:
        text: any text.
        one_line: whether line feeds and tabs are shown as escapes too.
    """
    if re.fullmatch(_PLAIN, text):
        return text.replace("\n", r"\u{a}").replace("\t", r"\u{9}") if one_line else text
    shown: list[str] = []
    blank = re.compile(_BLANK)
    marks = _MOST_MARKS  # a mark without a character before it stands on what is around the text
    for character in text:
        category = unicodedata.category(character)
        is_mark = category in ("Mn", "Me")
        marks = marks + 1 if is_mark else 0 if character.isprintable() and character != " " else _MOST_MARKS
        is_kept = character == " " or (character in "\n\t" and not one_line)
        is_hiding = category in _HIDING or blank.match(character) or marks > _MOST_MARKS
        shown.append(f"\\u{{{ord(character):x}}}" if is_hiding and not is_kept else character)
    return "".join(shown)


def limit_diff(parts: Sequence[str], longest: int = LONGEST_SHOWN) -> str:
    """Return the diff of one file for people: with escapes, and with the lines in the middle left out if it is long.

    Args:
        parts: the names of the file, then hunk headers and lines. Each line begins with its sign.
        longest: how many characters are shown.
    """
    names, body = parts[0], parts[1:]
    is_dos = _is_dos(body)
    if sum(map(len, parts)) <= longest:
        return names + "".join(_format_line(part, is_dos) for part in body)
    first = _count_that_fit(body, longest // 2)
    last = len(body) - min(len(body) - first, _count_that_fit(body[::-1], longest // 2))
    hidden = body[first:last]
    added, removed = (sum(part.startswith(sign) for part in hidden) for sign in "+-")
    remark = f"\\ {added + removed:,} changed lines are left out here: {added:,} added, {removed:,} removed\n" if hidden else ""
    kept = [*_with_counts(body[:first]), remark, *_continue_diff(body, last)]
    return names + "".join(_format_line(_short(part), is_dos) for part in kept)


def _count_that_fit(parts: Sequence[str], room: int) -> int:
    for count, part in enumerate(parts):
        room -= min(len(part), _LONGEST_LINE)
        if room < 0:
            return count
    return len(parts)


def _with_counts(parts: Sequence[str]) -> Iterator[str]:
    """Yield the parts with the counts of the last hunk corrected, since it may have lost its end."""
    at = max((at for at, part in enumerate(parts) if part.startswith("@@ ")), default=-1)
    for index, part in enumerate(parts):
        found = re.match(_HUNK, part) if index == at else None
        yield part if found is None else _header(int(found[1]), int(found[3]), parts[at + 1 :])


def _continue_diff(body: Sequence[str], at: int) -> Iterator[str]:
    """Yield the parts from `at` on, with a header if they begin in the middle of a hunk."""
    rest = body[at:]
    if rest and not rest[0].startswith("@@ "):
        start = max(index for index in range(at) if body[index].startswith("@@ "))
        found = re.match(_HUNK, body[start])
        assert found is not None
        before = body[start + 1 : at]
        old = int(found[1]) + sum(not part.startswith("+") for part in before)
        new = int(found[3]) + sum(not part.startswith("-") for part in before)
        end = next((index for index, part in enumerate(rest) if part.startswith("@@ ")), len(rest))
        yield _header(old, new, rest[:end])
    yield from rest


def _header(old: int, new: int, lines: Sequence[str]) -> str:
    counts = (sum(not line.startswith(sign) for line in lines) for sign in "+-")
    return "@@ -{},{} +{},{} @@\n".format(*(each for pair in zip((old, new), counts, strict=True) for each in pair))


def _short(part: str) -> str:
    if len(part) <= _LONGEST_LINE:
        return part
    half = _LONGEST_LINE // 2
    return f"{part[:half]}… {len(part) - 2 * half:,} characters are left out here …{part[-half:]}"


def _is_dos(body: Sequence[str]) -> bool:
    """Return whether all lines end as on DOS, before and after the change. Then the carriage returns do not change."""
    lines = [part for part in body if part.startswith((" ", "+", "-"))]
    return any(not part.startswith("+") for part in lines) and all("\r\n" in part for part in lines)


def _format_line(part: str, is_dos: bool) -> str:
    line, end, rest = part.partition("\n")
    return reveal(line.removesuffix("\r") if is_dos else line) + end + rest
