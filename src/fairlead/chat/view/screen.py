"""Draws the chat in a terminal without taking over the screen.

Finished lines are written once and scroll away like any other output, so they stay in the terminal's own scrollback. Below them
is the live region: the lines that may still change. It is repainted line by line, and only where a line differs from what the
terminal shows.

A frame is one write between synchronised-update marks (DEC private mode 2026), so the terminal shows it as a whole. Lines do not
wrap during a frame: a character that the terminal draws wider than expected cannot add a row.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from fairlead.chat.view.scrollback import Leftovers, rows_before, rows_of
from fairlead.chat.view.text import RESET, clip, width, wrap

_BEGIN = "\x1b[?2026h\x1b[?25l\x1b[?7l"
_END = "\x1b[?7h"
_SHOW_CURSOR = "\x1b[?25h"
_DONE = "\x1b[?2026l"
_ERASE_LINE = "\x1b[2K"
_ERASE_BELOW = "\x1b[J"


def wraps_again(env: Mapping[str, str]) -> bool:
    """Whether a terminal wraps existing lines again when its width changes. Nearly all do; xterm and a few old ones do not."""
    if env.get("TMUX"):  # it does, wherever it runs
        return True
    term = env.get("TERM", "")
    return not ("XTERM_VERSION" in env or "STY" in env or term == "linux" or term.startswith(("rxvt", "st-")))


class Screen:
    """The end of a terminal's output, and the live region below it.

    `commit` and `show` say what the terminal should show; `flush` writes the difference.
    """

    def __init__(self, write: Callable[[str], None], size: Callable[[], tuple[int, int]], *, reflows: bool | None = None) -> None:
        """
        Args:
            write: Sends text to the terminal.
            size: Returns the columns and rows of the terminal.
            reflows: Whether the terminal wraps existing lines again when its width changes. None: guess from the environment.
        """
        self._write = write
        self._size = size
        self._reflows = wraps_again(os.environ) if reflows is None else reflows
        self._painted_size: tuple[int, int] = size()
        #: The live region as the terminal shows it, and where the cursor is in it.
        self._shown: list[str] = []
        self._at = (0, 0)
        self._cursor: tuple[int, int] | None = None
        #: What the next frame adds and shows.
        self._committed: list[str] = []
        self._live: Sequence[str] = ()
        self._wanted_cursor: tuple[int, int] | None = None
        self._parked: int | None = None
        self._resized = False
        #: The row of the screen in which the cursor is after a resize, if the terminal has said it.
        self._cursor_row: int | None = None
        self._leftovers = Leftovers(reflows=self._reflows)

    def commit(self, lines: Iterable[str]) -> None:
        """Write lines above the live region with the next frame. They are final."""
        self._committed += lines

    def show(self, lines: Sequence[str], cursor: tuple[int, int] | None = None, parked: int | None = None) -> None:
        """Replace the live region with the next frame.

        Args:
            lines: The lines of the region. Of more lines than the terminal has, those around the cursor or the last are shown.
            cursor: The row in `lines` and the column of the cursor; None hides it.
            parked: The row in `lines` where the hidden cursor waits; None: the last. A terminal that becomes lower drops rows
                below the cursor, and moves rows above it into its scrollback.
        """
        self._live = lines
        self._wanted_cursor = cursor
        self._parked = parked

    def on_resize(self) -> None:
        """Repaint the whole live region with the next frame: the size of the terminal has changed."""
        self._resized = True

    @property
    def is_moved(self) -> bool:
        """Whether the terminal may have moved what it shows since the last frame. `cursor_is_in` tells how far."""
        return bool(self._shown) and (self._resized or self._size() != self._painted_size)

    def cursor_is_in(self, row: int) -> None:
        """Say in which row of the screen, from 0, the cursor is now. The next frame uses it, if the size stays the same."""
        self._cursor_row = row

    def lost_lines(self, size: tuple[int, int] | None = None) -> int:
        """Return how many lines of the live region, from its first, a resize has moved out of the screen, at least in part.

        Args:
            size: The columns and rows that the terminal had when it said where the cursor is; None: those that it has now.
        """
        size = size or self._size()
        if self._cursor_row is None or not self._shown or not (self._resized or size != self._painted_size):
            return 0
        columns = size[0]
        lost = self._lost_rows(size, self._cursor_row)
        for number, line in enumerate(self._shown[: self._at[0]]):
            if lost <= 0:
                return number
            lost -= rows_of(line, columns) if self._reflows else 1
        return self._at[0]

    def keep(self, count: int) -> None:
        """Make the first lines of the live region final as they are. The region starts below them."""
        self._leftovers.note_committed(self._shown[:count])
        self._shown = self._shown[count:]
        self._at = (self._at[0] - count, self._at[1])

    def forget(self) -> None:
        """Start below whatever the terminal shows now: another program has used it. The cursor is at the start of a line."""
        self._shown, self._at, self._cursor = [], (0, 0), None
        self._painted_size = self._size()
        self._resized, self._cursor_row = False, None
        self._leftovers.clear()

    def flush(self, size: tuple[int, int] | None = None) -> None:
        """Write one frame: the committed lines and the live region, as far as the terminal does not show them yet.

        Args:
            size: The columns and rows that the lines were made for; None: those of the terminal now.
        """
        size = size or self._size()
        resized = self._resized or size != self._painted_size
        columns, rows = size
        live, cursor = _fitting(self._live, self._wanted_cursor, columns, rows)
        if not self._committed and not resized and live == self._shown and cursor == self._cursor:
            return
        old: Sequence[str | None] = self._shown
        row = self._at[0]
        again: list[str] = []
        if resized:
            row, count, again = self._after_resize(size)
            old = [None] * count
        # A final line is never cut: it may have been wrapped for a terminal that was wider then.
        final = (*again, *self._committed)
        committed = [_prepare(part, columns) for line in final for part in _wrap_if_needed(line, columns - 1)]
        self._committed = []
        self._leftovers.note_committed(committed)
        frame = _Frame(row)
        frame.paint(old, committed + live, erase_below=resized or not self._shown)
        at = cursor if cursor is not None else (self._parked_row(len(live)), 0)
        frame.move(len(committed) + at[0], at[1])
        self._write(frame.text(shows_cursor=cursor is not None))
        self._shown, self._at, self._cursor = live, at, cursor
        self._painted_size, self._resized, self._cursor_row = size, False, None

    def _parked_row(self, rows: int) -> int:
        hidden = len(self._live) - rows
        return rows - 1 if self._parked is None else max(0, min(self._parked - hidden, rows - 1))

    def close(self) -> None:
        """Write what is pending, leave the live region as it is, and put a visible cursor below it."""
        self.flush()
        below = len(self._shown) if self._shown and self._shown[-1] else len(self._shown) - 1
        self._write("\r" + "\n" * max(0, below - self._at[0]) + _END + _SHOW_CURSOR)
        self._shown, self._at, self._cursor = [], (0, 0), None
        self._live, self._wanted_cursor = (), None

    def _after_resize(self, size: tuple[int, int]) -> tuple[int, int, list[str]]:
        """Find the live region after a resize.

        Returns:
            How many rows to paint over are above the cursor, how many there are, and committed lines that were among them.
        """
        columns = size[0]
        above, count = self._rows_after_resize(columns)
        if self._cursor_row is None:  # not known: moving up ends at the top of the screen
            self._leftovers.clear()
            return above, count, []
        lost = self._lost_rows(size, self._cursor_row)
        if lost > 0:
            self._leftovers.note_lost(self._shown, lost, columns)
            return max(0, above - lost), count - lost, []
        more, again = self._leftovers.back(-lost, columns, self._shown)
        return above + more, count + more, again

    def _lost_rows(self, size: tuple[int, int], cursor_row: int) -> int:
        """Return how many rows of the region a resize has moved out of the screen; less than 0: how many are above the region."""
        columns, rows = size
        above, count = self._rows_after_resize(columns)
        lost = above - cursor_row
        if cursor_row == 0 and rows >= self._painted_size[1]:
            # A terminal whose cursor has left the screen puts it into the first row. Only a lower one drops rows at its end.
            lost = max(lost, count - rows)
        return lost

    def _rows_after_resize(self, columns: int) -> tuple[int, int]:
        """Return how many rows of the region are above the cursor now, and how many rows it has now."""
        row, column = self._at
        if not self._reflows or not self._shown:
            return row, len(self._shown)
        heights = [rows_of(line, columns) for line in self._shown]
        return sum(heights[:row]) + rows_before(self._shown[row], column, columns), sum(heights)


class _Frame:
    """Collects what one frame writes. It knows the row of the cursor, counted from the top of the old live region."""

    def __init__(self, row: int) -> None:
        self._row = row
        self._parts: list[str] = [_BEGIN]

    def paint(self, old: Sequence[str | None], new: Sequence[str], *, erase_below: bool) -> None:
        """Write the lines of `new` that differ from those of `old`. A line that is None is not known."""
        erase_below = erase_below or len(new) < len(old)
        last = len(new) - 1
        for row, line in enumerate(new):
            before = old[row] if row < len(old) else ""
            if before == line and row < len(old) and not (row == last and erase_below):
                continue
            self.move(row, 0)
            if before is None or width(before) > width(line):
                # The whole line at once, not its end: only then does tmux forget how wide it was and whether it was wrapped.
                self._parts.append(_ERASE_LINE)
            self._parts.append(line)
        if erase_below:
            # After the last line: erasing from the first cell of the screen would make tmux keep a copy in its history.
            self._parts.append(_ERASE_BELOW)

    def move(self, row: int, column: int) -> None:
        """Move the cursor. A row below all others is added with a line feed, which scrolls if it has to."""
        if row < self._row:
            self._parts.append(f"\x1b[{self._row - row}A")
        self._parts.append("\r" + "\n" * max(0, row - self._row))
        if column:
            self._parts.append(f"\x1b[{column}C")
        self._row = row

    def text(self, *, shows_cursor: bool) -> str:
        return "".join((*self._parts, _END, _SHOW_CURSOR if shows_cursor else "", _DONE))


def _fitting(
    lines: Sequence[str], cursor: tuple[int, int] | None, columns: int, rows: int
) -> tuple[list[str], tuple[int, int] | None]:
    """Return the lines that fit, at least one, and the cursor among them."""
    rows = max(1, rows)
    first = max(0, len(lines) - rows)
    if cursor is not None:
        first = min(first, max(0, cursor[0]))
    shown = [_prepare(line, columns) for line in lines[first : first + rows]] or [""]
    if cursor is None:
        return shown, None
    return shown, (min(max(0, cursor[0] - first), len(shown) - 1), min(max(0, cursor[1]), max(0, columns - 1)))


def _wrap_if_needed(line: str, columns: int) -> list[str]:
    return [line] if width(line) <= columns else wrap(line, columns)


def _prepare(line: str, columns: int) -> str:
    """Return the line, narrower than the terminal and with its styles off at the end."""
    line = clip(line, columns - 1 if columns > 1 else 1)
    return line + RESET if "\x1b" in line and not line.endswith(RESET) else line
