"""When the chat is drawn: soon after a change, but not too often, not while the size changes, and not while it is paused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic

from fairlead.chat.view.frame import Frame, compose
from fairlead.chat.view.screen import Screen
from fairlead.chat.view.transcript import Transcript

#: The shortest time between two frames, between two of an answer that arrives, and between two pictures of the spinner, in
#: seconds.
_FRAME, _ANSWER_FRAME, _SPIN = 1 / 30, 1 / 20, 0.1
#: How long the size of the terminal has to stay the same before the chat is drawn again, in seconds. tmux tells a program about
#: a second change up to 0.25 seconds late, and has moved its lines by then.
_STEADY, _STEADY_IN_TMUX = 0.06, 0.3
#: How long the terminal may take to say where its cursor is, in seconds. One that keeps silent is not asked again.
_ANSWER = 0.4
_MOST_UNANSWERED = 2


class Drawing:
    """Draws one chat.

    Args:
        size: Returns the columns and rows of the terminal.
        screen: What writes to the terminal.
        transcript: The conversation, above everything else.
        frame: Returns everything that a frame shows, for a number of columns and rows.
        cursor_row: Returns the row of the cursor, or None if the terminal does not say it within so many seconds.
        env: The environment of the chat.
    """

    def __init__(
        self,
        size: Callable[[], tuple[int, int]],
        screen: Screen,
        transcript: Transcript,
        frame: Callable[[int, int], Frame],
        cursor_row: Callable[[float], Awaitable[int | None]],
        env: Mapping[str, str],
    ) -> None:
        self._size = size
        self._screen = screen
        self._transcript = transcript
        self._frame = frame
        self._cursor_row = cursor_row
        #: Whether another program has the terminal.
        self.is_paused = False
        self._wake = asyncio.Event()
        in_tmux = "TMUX" in env or env.get("TERM", "").startswith(("tmux", "screen"))
        self._steady, self._steady_at = _STEADY_IN_TMUX if in_tmux else _STEADY, 0.0
        self._unanswered = 0
        self._ticking: asyncio.TimerHandle | None = None
        #: When the last frame was drawn, and the timer of the next one for events.
        self._drawn_at = 0.0
        self._coming: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Draw until the task is cancelled."""
        while True:
            await self._wake.wait()
            if (left := self._steady_at - monotonic()) > 0:
                await asyncio.sleep(left)
                continue
            size = self._size()
            if not self.is_paused and self._screen.is_moved and not await self._find_cursor(size):
                continue
            self._wake.clear()
            if not self.is_paused:
                self.draw(size)
            await asyncio.sleep(_FRAME)

    def finish(self) -> None:
        """Draw what belongs to the scrollback, and nothing below it."""
        self.is_paused = False
        self._transcript.finish(_columns(self._size()))
        self._screen.commit(self._transcript.unwritten)
        self._clear()

    def touch(self) -> None:
        """Draw again soon."""
        self._wake.set()

    def touch_for_event(self) -> None:
        """Draw soon, but less often than for keys: an answer reads just as well, and each frame costs time."""
        left = self._drawn_at + _ANSWER_FRAME - monotonic()
        if left <= 0:
            self.touch()
        elif self._coming is None:
            self._coming = asyncio.get_running_loop().call_later(left, self._come)

    def resized(self) -> None:
        """Draw again when the size of the terminal is steady."""
        # A window that is being dragged changes its size many times. Only the last one can be drawn for.
        self._steady_at = monotonic() + self._steady
        self.redraw()

    def redraw(self) -> None:
        """Draw everything again, below the lines that the terminal has."""
        self._screen.resized()
        self.touch()

    def begin_anew(self) -> None:
        """Draw everything again, without regard to what the terminal shows: another program has used it."""
        self._screen.forget()
        self.touch()

    def pause(self) -> None:
        """Clear what can still change, and draw nothing until `resume`."""
        self.is_paused = True
        self._clear()

    def resume(self) -> None:
        self.is_paused = False
        self.begin_anew()

    def _clear(self) -> None:
        self._screen.show([], None)
        self._screen.flush()

    async def _find_cursor(self, size: tuple[int, int]) -> bool:
        """Tell the screen where a resize has moved the cursor. Returns False if the terminal does not have this size any more."""
        if self._unanswered >= _MOST_UNANSWERED:
            return True
        row = await self._cursor_row(_ANSWER)
        if self._size() != size or self._steady_at > monotonic():
            return False
        if row is None:
            self._unanswered += 1
        else:
            self._unanswered = 0
            self._screen.cursor_is_in(row)
        return True

    def draw(self, size: tuple[int, int]) -> None:
        """Draw now, or again soon if the terminal does not have this size any more.

        Args:
            size: The columns and rows of the terminal. The screen knows where the cursor is, if they have changed.
        """
        columns = _columns(size)
        frame = self._frame(columns, size[1])
        transcript, screen = self._transcript, self._screen
        if lost := screen.lost_lines(size):
            screen.keep(transcript.settle(lost))
        transcript.finish(columns)
        lines, cursor, parked = compose(frame, transcript)
        if self._size() != size:  # it has changed just now: the next frame asks where the cursor is
            self.touch()
            return
        screen.commit(transcript.unwritten)
        screen.show(lines, cursor, parked)
        screen.flush(size)
        transcript.written()
        self._drawn_at = monotonic()
        if frame.activity is not None and self._ticking is None:
            self._ticking = asyncio.get_running_loop().call_later(_SPIN, self._tick)

    def _tick(self) -> None:
        self._ticking = None
        self.touch()

    def _come(self) -> None:
        self._coming = None
        self.touch()


def _columns(size: tuple[int, int]) -> int:
    return max(10, size[0] - 1)
