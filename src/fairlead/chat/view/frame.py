"""Frames of the chat: the open part of the conversation, the editor or a dialog, and the footer; and when they are drawn.

A frame is drawn soon after a change, but not too often, not while the size changes, and not while drawing is paused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from fairlead.chat.dialogs import Cursor, Dialog, Picker
from fairlead.chat.input.editor import Editor
from fairlead.chat.status import SPINNER, Facts, footer_lines, queue_lines
from fairlead.chat.view.screen import Screen
from fairlead.chat.view.scrollback import rows_if_halved
from fairlead.chat.view.text import RESET, clip, keep_styles, one_line, plain, width, without_styles
from fairlead.chat.view.theme import PLAIN, Theme
from fairlead.chat.view.transcript import Transcript
from fairlead.sessions.completion import Menu

if TYPE_CHECKING:
    from fairlead.chat.canvas import ChatCanvas

#: A terminal with fewer rows has no empty lines around the editor.
_LOW = 10
#: A dialog gets as many rows as this if the terminal has them.
_LOWEST_DIALOG = 8
#: The rows of the spinner, of the call that the dialog is about, and of the empty lines between them, in a narrow terminal.
_BESIDE_DIALOG = 7
#: How many rows of a list may wrap: fewer than a chat has above it when it begins.
_MOST_WRAPPED = 6
_EMPTY_HINT = "Ask for a change, or /help"


class Live(Protocol):
    """The open part of the conversation."""

    def live(self, columns: int, rows: int, spare: int, *, only_text: bool) -> list[str]: ...

    def text_lines(self) -> int:
        """Return how many of the last live lines, from the first, become final if they leave the screen."""
        ...


class Additions(Protocol):
    """What extensions show."""

    statuses: dict[str, str]
    above: dict[str, list[str]]
    below: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Frame:
    """Everything that a frame shows. `columns` is less than the terminal has."""

    theme: Theme
    columns: int
    rows: int
    editor: Editor
    dialog: Dialog[Any] | None
    menu: Menu | None
    facts: Facts
    ui: Additions
    queued: tuple[list[str], list[str]]
    #: What the spinner says, and how many seconds it has been turning.
    activity: tuple[str, float] | None
    hint: str
    #: The end of what a shell command of the user has printed so far.
    command_tail: str = ""
    #: What draws components of extensions.
    canvas: ChatCanvas | None = None


def compose(frame: Frame, transcript: Live) -> tuple[list[str], Cursor, int]:
    """Return the lines of the live region, fewer than the terminal has, the cursor, and where it waits if it is hidden.

    What can change takes no more rows than the terminal has, even if it becomes half as wide and wraps them: rows that it would
    move into the scrollback would stay there.
    """
    theme, columns, rows = frame.theme, frame.columns, frame.rows
    gap = [] if rows < _LOW else [""]
    # A low terminal has no other lines that can change while it shows a question. They would leave copies if it became narrow.
    is_alone = frame.dialog is not None and rows < _LOW
    foot = [] if is_alone else _footer(frame)[: 1 if rows < 2 * _LOW else None]
    if frame.hint:
        foot = [theme.paint("warning", clip(frame.hint, columns)), *foot[1:]]
    room = rows - 1 - len(foot)
    under: list[str] = []
    if frame.dialog is not None:
        most = max(1, min(room - 2 * len(gap), rows if frame.dialog.fills else max(_LOWEST_DIALOG, rows * 2 // 3)))
        middle, cursor = frame.dialog.draw(theme, columns, most)
        while (
            not frame.dialog.fills
            and most > _LOWEST_DIALOG
            and (excess := _excess(frame.dialog, middle, foot, columns, rows)) > 0
        ):
            most = max(_LOWEST_DIALOG, most - (excess + 1) // 2)
            middle, cursor = frame.dialog.draw(theme, columns, most)
        under = [*gap]
    else:
        drawn = None if frame.canvas is None else frame.canvas.draw_editor(theme, columns, max(1, rows // 2))
        middle, cursor = drawn or frame.editor.draw(theme, columns, max(1, min(12, rows // 3)), _EMPTY_HINT)
        free = max(0, room - len(middle) - len(gap))
        under = [*(_menu_lines(frame) or _widgets(frame, "belowEditor"))[:free], *gap]
    # The most important lines of these are the last.
    free = room - len(middle) - len(under) - 2 * len(gap)
    above = _above(frame)[-free:] if free > 0 and not is_alone else []
    top = [*gap, *above, *(gap if above else ())]
    rest = room - len(top) - len(middle) - len(under)
    spare = rows - rows_if_halved([*top, *middle, *under, *foot], columns)
    live = transcript.live(columns, rest, spare, only_text=is_alone)
    if cursor is not None:
        cursor = (len(live) + len(top) + cursor[0], cursor[1])
    parked = transcript.text_lines() if live else 0
    return [*live, *top, *middle, *under, *foot], cursor, parked


def _excess(dialog: Dialog[Any], lines: Sequence[str], foot: Sequence[str], columns: int, rows: int) -> int:
    """Return how many rows too many a dialog would take in a terminal that has become half as wide."""
    halved = rows_if_halved(lines, columns)
    excess = halved + rows_if_halved(foot, columns) + _BESIDE_DIALOG - rows
    # The terminal may have free rows below, as after its start. Then only as many as are above can go into the scrollback.
    return max(excess, halved - len(lines) - _MOST_WRAPPED) if isinstance(dialog, Picker) else excess


def _above(frame: Frame) -> list[str]:
    theme, columns, rows = frame.theme, frame.columns, frame.rows
    tail = plain(frame.command_tail).rstrip("\n").split("\n")[-max(1, rows // 4) :] if frame.command_tail else []
    lines = [theme.paint("dim", clip(f"  {line}", columns)) for line in tail] + _widgets(frame, "aboveEditor")
    if frame.activity is not None:
        text, seconds = frame.activity
        picture = _spin(frame, seconds)
        esc_stops = frame.dialog is None or not frame.dialog.fills  # a component gets Esc itself
        said = clip(f" {one_line(text)}", columns - 1)
        room = columns - width(said) - 1
        lines.append(picture + said + theme.paint("dim", clip(" · Esc stops", room) if room > 12 and esc_stops else ""))
    return lines + queue_lines(*frame.queued, theme, columns, 1 if rows < 2 * _LOW else 3)


def _spin(frame: Frame, seconds: float) -> str:
    working = None if frame.canvas is None else frame.canvas.working
    if working is None or working.frames is None:
        return frame.theme.paint("accent", SPINNER[int(seconds * 10) % len(SPINNER)])
    if not working.frames:
        return ""
    picture = working.frames[int(seconds * 1000 / (working.interval or 100)) % len(working.frames)]
    return f"{without_styles(picture) if frame.theme is PLAIN else picture}{RESET}"


def _widgets(frame: Frame, place: str) -> list[str]:
    columns, rows = frame.columns, frame.rows
    texts = frame.ui.above if place == "aboveEditor" else frame.ui.below
    drawn = {} if frame.canvas is None else frame.canvas.widgets(place, frame.theme, columns)
    shown = {key: [keep_styles(line) for part in lines for line in part.split("\n")] for key, lines in texts.items()}
    if frame.theme is PLAIN:
        shown = {key: [without_styles(line) for line in lines] for key, lines in shown.items()}
    widgets = {key: [clip(line, columns) for line in lines] for key, lines in shown.items()}
    most = max(1, rows // (2 if drawn else 4))
    return [line for _, lines in sorted((widgets | drawn).items()) for line in lines][:most]


def _footer(frame: Frame) -> list[str]:
    drawn = None if frame.canvas is None else frame.canvas.draw_footer(frame.theme, frame.columns)
    return footer_lines(frame.facts, frame.ui.statuses, frame.theme, frame.columns) if drawn is None else drawn


def _menu_lines(frame: Frame) -> list[str]:
    menu, theme, columns = frame.menu, frame.theme, frame.columns
    if menu is None:
        return []
    page = max(1, min(8, frame.rows // 3))
    first = max(0, min(menu.selected - page // 2, len(menu.items) - page))
    names = [clip(one_line(item.label or item.text), columns - 4) for item in menu.items[first : first + page]]
    aligned = min(max(map(width, names), default=0), columns // 2)
    lines: list[str] = []
    for number, (name, item) in enumerate(zip(names, menu.items[first : first + page], strict=True), first):
        chosen = number == menu.selected
        shown = f"{'▸ ' if chosen else '  '}{name}"
        room = columns - max(width(shown), aligned + 2) - 2
        gap = " " * max(2, aligned + 4 - width(shown))
        detail = theme.paint("dim", gap + clip(one_line(item.detail), room)) if item.detail and room > 6 else ""
        lines.append((theme.paint("selected", shown) if chosen else shown) + detail)
    if len(menu.items) > page:
        lines.append(theme.paint("dim", f"  {menu.selected + 1} of {len(menu.items)}"))
    return lines


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

    def on_resize(self) -> None:
        """Draw again when the size of the terminal is steady."""
        # A window that is being dragged changes its size many times. Only the last one can be drawn for.
        self._steady_at = monotonic() + self._steady
        self.redraw()

    def redraw(self) -> None:
        """Draw everything again, below the lines that the terminal has."""
        self._screen.on_resize()
        self.touch()

    def redraw_all(self) -> None:
        """Draw everything again, without regard to what the terminal shows: another program has used it."""
        self._screen.forget()
        self.touch()

    def pause(self) -> None:
        """Clear what can still change, and draw nothing until `resume`."""
        self.is_paused = True
        self._clear()

    def resume(self) -> None:
        self.is_paused = False
        self.redraw_all()

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
        transcript.confirm_written()
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
