"""Text in a terminal: how many cells it takes, where it wraps, and how text from elsewhere becomes harmless.

A line is a string whose only control characters are SGR sequences (colours and weights). Every line that these functions
return ends with the styles off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

RESET = "\x1b[0m"

_SGR = re.compile(r"\x1b\[[0-9;:]*m")
#: What `wrap` handles as one piece: a style, spaces, or a word.
_PIECE = re.compile(r"(\x1b\[[0-9;:]*m)|( +)|([^ \x1b]+)")
#: An escape sequence, also one that is cut off. A string without an end (a window title, for example) ends with its line.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]?"
)
#: Everything but printable ASCII and line feeds.
_UNUSUAL = re.compile(r"[^\n -~]")
#: Control characters, overrides of the writing direction, and halves of surrogate pairs.
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
#: Those without tabs, and characters without ink, a width or a meaning as text. The joiner U+200D stays: emoji need it.
_HIDING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200c\u200e\u200f"
    "\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufffc\U0001d159\U000e0000-\U000e0fff]"
)
#: What an erased character leaves: each backspace removes the character before it.
_BACKSPACE = re.compile("[^\x08\n]\x08")


def width(text: str) -> int:
    """Return how many cells the text takes. SGR sequences take none."""
    if "\x1b" in text:
        text = _SGR.sub("", text)
    return len(text) if text.isascii() else _cells(text)


@lru_cache(maxsize=2048)
def _cells(text: str) -> int:
    from wcwidth import wcswidth, wcwidth  # noqa: PLC0415  an extra

    count = wcswidth(text)
    return count if count >= 0 else sum(max(0, wcwidth(character)) for character in text)


def clusters(text: str) -> Iterator[tuple[str, int]]:
    """Yield what a reader sees as one character, with its cells. The text has no SGR sequences."""
    if text.isascii():
        for character in text:
            yield character, 1
        return
    from wcwidth import iter_graphemes  # noqa: PLC0415  an extra

    for cluster in iter_graphemes(text):
        yield cluster, 1 if cluster.isascii() else _cells(cluster)


def without_styles(line: str) -> str:
    """Return the line without its SGR sequences."""
    return _SGR.sub("", line) if "\x1b" in line else line


def plain(text: str, tab: int = 8) -> str:
    """Return text from a tool, a file or a model without anything that a terminal would obey.

    Escape sequences are removed, tabs are expanded to every `tab` columns, a carriage return overwrites its line, and characters
    that reorder or hide text are removed. Line feeds stay.
    """
    if not _UNUSUAL.search(text):
        return text
    if "\r" in text:
        text = "\n".join(_apply_carriage_returns(line) for line in text.replace("\r\n", "\n").split("\n"))
    if "\x1b" in text or not text.isascii():
        text = _ESCAPE.sub("", text)
    while "\x08" in text and (shorter := _BACKSPACE.sub("", text)) != text:
        text = shorter
    if "\t" in text:
        text = "\n".join(_expand_tabs(line, tab) if "\t" in line else line for line in text.split("\n"))
    return _CONTROL.sub(_harmless, text)


def keep_styles(line: str) -> str:
    """Return a line from an extension, `plain` but for its styles."""
    if not _UNUSUAL.search(line):
        return line
    pieces = _SGR_KEPT.split(line)
    return "".join(piece if number % 2 else plain(piece, 3).replace("\n", " ") for number, piece in enumerate(pieces))


def one_line(text: str) -> str:
    """Return `plain` text as one line."""
    return plain(text).replace("\n", " ")


def visible(text: str) -> str:
    """Return text that the user has to judge, such as a command, with nothing hidden.

    Control characters and characters that reorder or hide text are shown by a name: `^[`, `<U+202E>`. Line feeds and tabs stay.
    """
    if not _UNUSUAL.search(text):
        return text
    return _HIDING.sub(_name_control, text.replace("\r\n", "\n"))


def _name_control(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"^{chr(code ^ 64)}" if code < 128 else f"<U+{code:04X}>"


def _apply_carriage_returns(line: str) -> str:
    """Return what is visible of a line after its carriage returns: the last part that is not empty."""
    return next((part for part in reversed(line.split("\r")) if part), "")


def _expand_tabs(line: str, tab: int) -> str:
    if line.isascii():
        return line.expandtabs(tab)
    first, *rest = line.split("\t")
    for part in rest:
        first += " " * (tab - width(first) % tab) + part
    return first


def _harmless(match: re.Match[str]) -> str:
    character = match[0]
    if "\ud800" <= character <= "\udfff":
        return "\ufffd"
    return " " if character in "\x0b\x0c\x85\u2028\u2029" else ""


def clip(text: str, columns: int, ellipsis: str = "…") -> str:
    """Return the line, cut to at most `columns` cells. A cut line ends with `ellipsis` if there is room for it."""
    if len(text) <= columns and text.isascii():
        return text
    if width(text) <= columns:
        return text
    if columns <= 0:
        return ""
    room = columns - width(ellipsis)
    if room < 0:
        room, ellipsis = columns, ""
    return _start(text, room, ellipsis)


def _start(text: str, room: int, ellipsis: str) -> str:
    parts: list[str] = []
    used, styled, full = 0, False, False
    for piece in re.split(_SGR_KEPT, text):
        if piece.startswith("\x1b"):
            if not full:
                styled = piece not in _RESETS
                parts.append(piece)
            continue
        for cluster, cells in clusters(piece):
            if full or used + cells > room:
                full = True
                break
            used += cells
            parts.append(cluster)
    return "".join(parts) + ellipsis + (RESET if styled else "")


_SGR_KEPT = re.compile(r"(\x1b\[[0-9;:]*m)")
_RESETS = frozenset((RESET, "\x1b[m"))


def fold(text: str, columns: int) -> list[str]:
    """Return one line as lines of at most `columns` cells, broken wherever a line is full. Spaces stay, as code needs them."""
    columns = max(1, columns)
    if width(text) <= columns:
        return [text]
    if text.isascii() and "\x1b" not in text:
        return [text[start : start + columns] for start in range(0, len(text), columns)]
    lines: list[str] = []
    line: list[str] = []
    styles: list[str] = []
    used = 0
    for piece in _SGR_KEPT.split(text):
        if piece.startswith("\x1b"):
            styles = [] if piece in _RESETS else [*styles, piece]
            line.append(piece)
            continue
        for cluster, cells in clusters(piece):
            if used + cells > columns and used:
                lines.append("".join(line) + (RESET if styles else ""))
                line, used = [*styles], 0
            line.append(cluster)
            used += cells
    return [*lines, "".join(line)]


def wrap(text: str, columns: int) -> list[str]:
    """Return the text as lines of at most `columns` cells, broken at spaces and line feeds where possible.

    Styles continue on the next line. Spaces at a break are dropped; those at the start of the text stay.
    """
    columns = max(1, columns)
    if text.isascii() and "\x1b" not in text and "  " not in text:
        return [line for paragraph in text.split("\n") for line in _wrap_words(paragraph, columns)]
    return _Wrapping(columns).lines(text.split("\n"))


def _wrap_words(text: str, columns: int) -> list[str]:
    """Wrap ASCII text without styles and without spaces in a row, which is most text."""
    if len(text) <= columns and text[-1:] != " ":
        return [text]
    if text[:1] == " " or text[-1:] == " " or max(map(len, text.split(" "))) > columns:
        return _Wrapping(columns).lines([text])
    lines: list[str] = []
    start = 0
    while len(text) - start > columns:
        end = text.rfind(" ", start, start + columns + 1)
        lines.append(text[start:end])
        start = end + 1
    return [*lines, text[start:]]


class _Wrapping:
    """Builds the lines of one text."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._done: list[str] = []
        self._line: list[str] = []
        self._used = 0
        #: Spaces that are written only if a word follows on the same line.
        self._spaces = 0
        #: The pieces of a word that styles divide, and its cells.
        self._word: list[str] = []
        self._word_cells = 0
        #: The styles that are on at the end of `_line`.
        self._styles: list[str] = []

    def lines(self, paragraphs: list[str]) -> list[str]:
        for paragraph in paragraphs:
            for style, spaces, word in _PIECE.findall(paragraph):
                if word:
                    self._word.append(word)
                    self._word_cells += width(word)
                elif style:
                    self._word.append(style)
                else:
                    self._end_word()
                    self._spaces += len(spaces)
            self._end_word()
            self._end_line()
        return self._done

    def _end_word(self) -> None:
        if not self._word:
            return
        pieces, cells = self._word, self._word_cells
        self._word, self._word_cells = [], 0
        if cells == 0:
            self._add_styles(pieces)
            return
        if self._used + self._spaces + cells > self._columns and (self._used or self._spaces):
            if self._fits_broken(pieces, cells):
                self._put_spaces()
                self._put_broken(pieces)
                return
            if self._used or self._spaces >= self._columns:
                self._end_line()
                self._spaces = 0
        self._put_spaces()
        if self._used + cells <= self._columns:
            for piece in pieces:
                self._put(piece, 0)
            self._used += cells
        else:
            self._put_broken(pieces)

    def _fits_broken(self, pieces: list[str], cells: int) -> bool:
        """Whether a word is broken here instead of moved to the next line: it is longer than a line, or has wide characters."""
        room = self._columns - self._used - self._spaces
        if room < 2:
            return False
        letters = "".join(piece for piece in pieces if not piece.startswith("\x1b"))
        if len(letters) < cells:  # wide characters, which need no spaces between words
            return True
        return cells > self._columns and (self._used == 0 or room > self._columns // 2)

    def _put_spaces(self) -> None:
        if self._spaces:
            room = max(0, self._columns - 1 - self._used)
            count = min(self._spaces, room)
            self._line.append(" " * count)
            self._used += count
            self._spaces = 0

    def _put(self, piece: str, cells: int) -> None:
        if piece.startswith("\x1b"):
            self._add_styles([piece])
        else:
            self._line.append(piece)
            self._used += cells

    def _add_styles(self, pieces: list[str]) -> None:
        for piece in pieces:
            if piece in _RESETS:
                self._styles.clear()
            elif piece.startswith("\x1b"):
                self._styles.append(piece)
            self._line.append(piece)

    def _put_broken(self, pieces: list[str]) -> None:
        """Write a word and break it wherever the line is full."""
        for piece in pieces:
            if piece.startswith("\x1b"):
                self._add_styles([piece])
                continue
            for cluster, cells in clusters(piece):
                if self._used + cells > self._columns and self._used:
                    self._end_line()
                self._put(cluster, cells)

    def _end_line(self) -> None:
        text = "".join(self._line)
        if self._styles:
            text += RESET
        self._done.append(text)
        self._line = list(self._styles)
        self._used = self._spaces = 0
