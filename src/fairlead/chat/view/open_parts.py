"""The parts of a conversation that are not final yet, as lines: those that never change again, and those that still can.

For each frame, `finish` adds the lines that never change again to `unwritten`, `live` returns those of the parts that are still
open, and `written` confirms both. Without that, the next frame begins where this one began.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile

from fairlead.chat.view.panels import ToolPanel
from fairlead.chat.view.parts import Answer, LiveLine, Part, end_of_text
from fairlead.chat.view.scrollback import Drawn, rows_if_halved

#: How many lines of output each running call shows, from a high terminal to a low one.
_TAILS = (5, 2, 0)


class OpenParts:
    """Parts in their order, and what the terminal shows of them.

    Args:
        now: The clock.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        #: Parts that are not final or not yet taken, oldest first.
        self._parts: deque[Part] = deque()
        #: Whether tool output is shown at length.
        self._is_long = False
        #: The kind of the last part with final lines, and whether a panel with a body was last.
        self._last = ""
        #: Whether the first part has given lines already.
        self._begun = False
        self._touched = True
        self._drawn_at = 0
        #: Final lines that were not yet written, the parts that have given them, those of them that are complete, and `_last` and
        #: `_begun` before them.
        self._unwritten: list[str] = []
        self._asked: list[Part] = []
        self._complete: list[Part] = []
        self._before: tuple[str, bool] | None = None
        #: Live lines that become final with the next frame, those that were drawn last and those that are on the screen.
        self._leaving: list[LiveLine] = []
        self._drawn: list[LiveLine] = []
        self._on_screen: list[LiveLine] = []

    def _add(self, part: Part) -> None:
        self._parts.append(part)
        self._touched = True

    def _add_final(self, part: Part) -> None:
        """Add a part that is complete before those that can still change, so that it is final at once."""
        self._take_back()
        can_change = (at for at, other in enumerate(self._parts) if not other.done and not isinstance(other, Answer))
        index = next(can_change, len(self._parts))
        self._begun = self._begun and index > 0
        self._parts.insert(index, part)
        self._touched = True

    @property
    def changed(self) -> bool:
        """Whether `finish` or `live` would return something new."""
        return self._touched or (int(self._now() * 10) != self._drawn_at and any(part.is_moving for part in self._parts))

    def finish(self, columns: int) -> None:
        """Move the lines that have become final to `unwritten`. They have at most `columns` cells."""
        self._take_back()
        self._before = (self._last, self._begun)
        self._unwritten = self._take_final_lines(columns)

    @property
    def unwritten(self) -> Sequence[str]:
        """The final lines that `written` has not confirmed: those of `finish`, and those that `live` has no room for."""
        return self._unwritten

    def confirm_written(self) -> None:
        """Confirm that the terminal shows the final lines and the last `live`."""
        self._settle(self._leaving)
        self._forget_frame()
        self._on_screen = self._drawn

    def _take_back(self) -> None:
        """Undo a `finish` and a `live` that were not confirmed: the terminal does not show their lines."""
        if self._before is None:
            return
        for part in self._asked:
            part.take_back()
        self._parts.extendleft(reversed(self._complete))
        self._last, self._begun = self._before
        self._forget_frame()

    def _forget_frame(self) -> None:
        self._unwritten, self._asked, self._complete, self._leaving, self._before = [], [], [], [], None

    def settle(self, count: int) -> int:
        """Make live lines final that have left the screen. Call `finish` after it.

        Args:
            count: How many of the live lines on the screen have left it, at least in part.

        Returns:
            How many are final as they are: fewer if some of them can change, one or more beyond `count` if those belong together.
        """
        self._take_back()
        count = end_of_text(self._on_screen, count)
        settled, self._on_screen = self._on_screen[:count], self._on_screen[count:]
        self._settle(settled)
        return count

    def _settle(self, lines: Sequence[LiveLine]) -> None:
        for line in lines:
            if line.part is None or not line.drawn.letters:
                continue
            line.part.settle(line.drawn.letters)
            if self._parts and line.part is self._parts[0]:
                self._begun, self._last = True, line.part.kind

    def _take_final_lines(self, columns: int) -> list[str]:
        taken: list[str] = []
        while self._parts:
            part = self._parts[0]
            self._asked.append(part)
            lines = part.final_lines(columns, self._is_long) if part.done or not isinstance(part, ToolPanel) else []
            if lines and not self._begun and self._gap(self._last, part.kind):
                taken.append("")
            taken += lines
            self._begun = self._begun or bool(lines)
            if lines:
                self._last = part.kind if part.kind != "tool" or len(lines) > 1 else "line"
            if not part.done:
                break
            self._complete.append(self._parts.popleft())
            self._begun = False
        return taken

    def live(self, columns: int, rows: int, spare: int | None = None, *, only_text: bool = False) -> list[str]:
        """Return the open parts. Call `finish` first.

        Args:
            columns: The most cells of a line.
            rows: The most lines. If there are more, the first become final if they can; otherwise only the last are shown.
                Without any rows, nothing is shown and nothing becomes final.
            spare: How many rows lines that can change should take at most if the terminal becomes half as wide.
            only_text: Whether to leave out the lines that can change, and those below them.
        """
        self._touched = False
        self._drawn_at = int(self._now() * 10)
        lines: list[LiveLine] = []
        for tail in _TAILS if rows > 0 else ():
            lines = self._live_lines(columns, tail)
            if only_text:
                lines = list(takewhile(lambda line: line.drawn.letters is not None, lines))
            if len(lines) <= rows and (
                spare is None
                or rows_if_halved([line.drawn.text for line in lines if line.drawn.letters is None], columns) <= spare
            ):
                break
        if (more := len(lines) - max(0, rows)) > 0:
            count = end_of_text(lines, more)
            self._leaving = lines[:count]
            self._unwritten += [line.drawn.text for line in self._leaving]
            lines = lines[max(count, more) :]
        self._drawn = lines
        return [line.drawn.text for line in lines]

    def text_lines(self) -> int:
        """Return how many of the last live lines, from the first, become final if they leave the screen."""
        return next((number for number, line in enumerate(self._drawn) if line.drawn.letters is None), len(self._drawn))

    def _live_lines(self, columns: int, tail: int) -> list[LiveLine]:
        lines: list[LiveLine] = []
        last, begun = self._last, self._begun
        for part in self._parts:
            opened = part.open(columns, tail)
            if not opened:
                continue
            if not begun and self._gap(last, part.kind):
                lines.append(LiveLine(None, Drawn("", "")))
            lines += [LiveLine(part, line) for line in opened]
            last, begun = (part.kind if part.kind != "tool" or len(opened) > 1 else "line"), False
        return lines

    @staticmethod
    def _gap(before: str, kind: str) -> bool:
        """Whether a blank line stands between two parts.

        Remarks stand together. So do panels of one line, and a proposal and its outcome.
        """
        together = (("note", "note"), ("line", "tool"), ("proposal", "tool"), ("proposal", "note"))
        return before != "" and (before, kind) not in together
