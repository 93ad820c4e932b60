"""The text that the user writes: several lines, with long pastes folded. prompt_toolkit's `Buffer` edits it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from fairlead.chat.view.text import clusters
from fairlead.chat.view.theme import Theme

#: A paste with more lines or characters than this is folded.
_MOST_LINES, _MOST_CHARACTERS = 10, 1500
_MARK = re.compile(r"\[paste #(\d+), [^\]\n]*\]")
#: A mark of an image, which stays in the text that is sent, so that the model can tell several images apart.
IMAGE_MARK = re.compile(r"\[image #(\d+)\]")
_TAB = 4
#: Characters that change the order of others, or break lines in some terminals. They are sent as they are.
_REORDERING = frozenset("\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_PROMPT = "> "


class _Buffer(Buffer):
    """A buffer that neither stops within what the user sees as one character, such as a joined emoji, nor deletes part of it."""

    @property
    def cursor_position(self) -> int:
        return super().cursor_position

    @cursor_position.setter
    def cursor_position(self, value: int) -> None:
        at = _edge(self.text, max(value, 0), value - self.cursor_position)
        Buffer.cursor_position.__set__(self, at)

    def delete_before_cursor(self, count: int = 1) -> str:
        at = self.cursor_position
        return super().delete_before_cursor(at - _edge(self.text, max(at - count, 0), -1))

    def delete(self, count: int = 1) -> str:
        at = self.cursor_position
        return super().delete(_edge(self.text, at + count, 1) - at)


class Editor:
    """A text in the making.

    Args:
        changed: Called after each change of the text or of the cursor.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self.buffer = _Buffer(multiline=True, on_text_changed=lambda _: changed(), on_cursor_position_changed=lambda _: changed())
        self._pastes: dict[int, str] = {}
        self._columns = 80

    @property
    def text(self) -> str:
        """The text as it is shown, with long pastes folded."""
        return self.buffer.text

    def set_text(self, text: str) -> None:
        """Replace the text. The cursor goes to its end."""
        self.buffer.set_document(Document(text, len(text)), bypass_readonly=True)

    def expand(self) -> str:
        """Return the text with the pastes in full."""
        return _MARK.sub(lambda mark: self._pastes.get(int(mark[1]), mark[0]), self.text)

    def take(self) -> str:
        """Return the text with the pastes in full, and start again with an empty one."""
        text = self.expand()
        self.set_text("")
        self.buffer.reset()  # what was sent cannot be undone
        self._pastes.clear()
        return text

    def insert(self, text: str) -> None:
        self.buffer.insert_text(text)

    def paste(self, data: str) -> None:
        """Insert a paste: in full if it is short, else a mark that stands for it."""
        text = data.replace("\r\n", "\n").replace("\r", "\n")
        count = text.removesuffix("\n").count("\n") + 1
        if count <= _MOST_LINES and len(text) <= _MOST_CHARACTERS:
            self.insert(text)
            return
        number = max(self._pastes, default=0) + 1
        self._pastes[number] = text
        self.insert(f"[paste #{number}, {count:,} lines]" if count > 1 else f"[paste #{number}, {len(text):,} characters]")

    def delete_before(self) -> None:
        """Delete the character before the cursor, or the whole mark of a paste or an image."""
        before = self.buffer.document.text_before_cursor
        mark = next((found for found in _MARK.finditer(before) if found.end() == len(before)), None)
        folded = mark is not None and int(mark[1]) in self._pastes
        image = re.search(rf"{IMAGE_MARK.pattern} ?$", before)
        whole = mark[0] if mark is not None and folded else image[0] if image is not None else " "
        self.buffer.delete_before_cursor(len(whole))

    def break_line(self) -> None:
        """Begin a new line. A backslash before the cursor, which asked for it, goes away."""
        if self.buffer.document.text_before_cursor.endswith("\\"):
            self.buffer.delete_before_cursor()
        self.insert("\n")

    def move_row(self, by: int) -> bool:
        """Move the cursor up or down by one row of the screen. Returns False if there is no such row."""
        text, at = self.text, self.buffer.cursor_position
        rows = _rows(text, self._columns)
        here = _row_of(rows, at)
        target = here + by
        if not 0 <= target < len(rows):
            return False
        wanted = _cells(text[rows[here][0] : at])
        start, end = rows[target]
        position = start
        for cluster, cells in _clusters(text[start:end]):
            wanted -= cells
            if wanted < 0:
                break
            position += len(cluster)
        # The end of a row that continues below is the beginning of the next one.
        if position == end and target + 1 < len(rows) and rows[target + 1][0] == end and end > start:
            position -= 1
        self.buffer.cursor_position = position
        return True

    def draw(self, theme: Theme, columns: int, rows: int, hint: str = "") -> tuple[list[str], tuple[int, int]]:
        """Return the lines to show, at most `rows`, and where the cursor is in them. `hint` stands in an empty editor."""
        self._columns = max(columns - len(_PROMPT) - 1, 4)
        text, at = self.text, self.buffer.cursor_position
        places = _rows(text, self._columns)
        here = _row_of(places, at)
        first = min(max(0, here - rows + 1), max(0, len(places) - rows)) if len(places) > rows else 0
        lines: list[str] = []
        for number, (start, end) in enumerate(places[first : first + rows], first):
            lead = theme.paint("accent", _PROMPT) if number == 0 else " " * len(_PROMPT)
            lines.append(lead + _make_printable(text[start:end]))
        if not text and hint:
            lines[0] += theme.paint("dim", hint[: self._columns])
        return lines, (here - first, len(_PROMPT) + _cells(text[places[here][0] : at]))


def _edge(text: str, at: int, direction: int) -> int:
    """Return a place in a text, or if it is within what the user sees as one character, the end of that in a direction."""
    start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    line = text[start : len(text) if end < 0 else end]
    if line.isascii():
        return at
    for cluster, _ in clusters(line):
        if start + len(cluster) > at:
            return at if start == at else start + len(cluster) if direction > 0 else start
        start += len(cluster)
    return at


def _rows(text: str, columns: int) -> list[tuple[int, int]]:
    """Where the rows of the screen begin and end in a text. Rows break at spaces, where there are any."""
    rows: list[tuple[int, int]] = []
    index = 0
    for line in text.split("\n"):
        start, used, space = index, 0, -1
        for cluster, cells in _clusters(line):
            if used + cells > columns:
                cut = space + 1 if space >= start else index
                rows.append((start, cut))
                start, used, space = cut, _cells(text[cut:index]), -1
            if cluster == " ":
                space = index
            used += cells
            index += len(cluster)
        rows.append((start, index))
        index += 1
    return rows


def _row_of(rows: list[tuple[int, int]], at: int) -> int:
    return max(number for number, (start, _) in enumerate(rows) if start <= at)


def _clusters(text: str) -> Iterator[tuple[str, int]]:
    """Yield what the user sees as one character, with its cells."""
    if text.isprintable():
        yield from clusters(text)
        return
    for cluster, cells in clusters(text):
        yield cluster, _TAB if cluster == "\t" else 2 if _is_control(cluster[0]) else 1 if cluster in _REORDERING else cells


def _cells(text: str) -> int:
    return len(text) if text.isascii() and text.isprintable() else sum(cells for _, cells in _clusters(text))


def _make_printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(map(_glyph, text))


def _glyph(character: str) -> str:
    if character == "\t":
        return " " * _TAB
    if character in _REORDERING:
        return "\ufffd"
    # The characters from 0x80 on are control characters too: some terminals obey them.
    return f"^{chr(ord(character) % 128 ^ 64)}" if _is_control(character) else character


def _is_control(character: str) -> bool:
    return character < " " or "\x7f" <= character <= "\x9f"


#: How many prompts are kept, how long one may be, and how many bytes of the file are read.
MOST_PROMPTS = 1000
LONGEST_PROMPT = 20_000
_MOST_BYTES = 8 << 20


class PromptHistory:
    """The prompts of earlier chats and of this one. The file is read when it is first needed.

    Several chats may use the file at the same time: each adds its lines at the end.

    Args:
        path: The file; None keeps the prompts in memory.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._prompts: list[str] | None = None
        #: Where the user is in the history, and what the editor held before.
        self._position: int | None = None
        self._draft = ""

    @property
    def prompts(self) -> Sequence[str]:
        """All prompts, the oldest first."""
        if self._prompts is None:
            self._prompts = self._load()
        return self._prompts

    def add(self, text: str) -> None:
        """Remember a prompt, unless it is empty or repeats the last one. A file that cannot be written changes nothing."""
        self._position = None
        prompts = list(self.prompts)
        if not text.strip() or len(text) > LONGEST_PROMPT or (prompts and prompts[-1] == text):
            return
        self._prompts = [*prompts, text][-MOST_PROMPTS:]
        if self._path is None:
            return
        with suppress(OSError):
            for folder in reversed((self._path.parent, *self._path.parent.parents)):  # the umask decides about other parents
                folder.mkdir(exist_ok=True, mode=0o700)
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(handle, _line(text))
            finally:
                os.close(handle)

    def older(self, present: str) -> str | None:
        """Return the prompt before the one that is shown; None if there is none. `present` is what the editor holds."""
        prompts = self.prompts
        if not self._is_shown(present):
            self._position, self._draft = len(prompts), present
        assert self._position is not None
        for position in range(self._position - 1, -1, -1):
            if prompts[position] != present:
                self._position = position
                return prompts[position]
        return None

    def newer(self, present: str) -> str | None:
        """Return the prompt after the one that is shown, at the end what the editor held before; None if there is none."""
        if not self._is_shown(present):
            return None
        assert self._position is not None
        self._position += 1
        if self._position < len(self.prompts):
            return self.prompts[self._position]
        self._position = None
        return self._draft

    def _is_shown(self, present: str) -> bool:
        """Whether the editor holds the prompt of the history that was shown last, unchanged."""
        position = self._position
        return position is not None and position < len(self.prompts) and self.prompts[position] == present

    def _load(self) -> list[str]:
        if self._path is None:
            return []
        try:
            with self._path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - _MOST_BYTES))
                lines = file.read().split(b"\n")
        except OSError:
            return []
        prompts = [text for text in map(_prompt, lines) if text is not None]
        if len(prompts) > 2 * MOST_PROMPTS or size > _MOST_BYTES:
            self._shorten(prompts[-MOST_PROMPTS:])
        return prompts[-MOST_PROMPTS:]

    def _shorten(self, prompts: list[str]) -> None:
        """Replace the file by one with these prompts. Prompts that another chat adds in this moment may be lost."""
        assert self._path is not None
        temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with suppress(OSError):
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.writelines(map(_line, prompts))
            temporary.replace(self._path)


def _line(text: str) -> bytes:
    return json.dumps(text).encode() + b"\n"


def _prompt(line: bytes) -> str | None:
    with suppress(ValueError):
        text = json.loads(line)
        return text if isinstance(text, str) and text else None
    return None
