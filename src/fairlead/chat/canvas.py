"""Where the chat draws components of extensions: as dialogs, around the editor, in place of it, or as the footer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from fairlead import Sheet
from fairlead.chat.dialogs import Cursor, Dialog, Drawn
from fairlead.chat.view.text import clip, keep_styles, plain, without_styles
from fairlead.chat.view.theme import PLAIN, Theme

if TYPE_CHECKING:
    from fairlead.chat.app import Chat

#: What a terminal sends for these keys.
_ESCAPE, _INTERRUPT, _SUSPEND = "\x1b", "\x03", "\x1a"
#: The time for pressing a key that closes a component again, in seconds; how often Esc has to be pressed for that; and after how
#: many seconds the chat says that Ctrl+C does it.
_TWICE, _TIMES, _PATIENCE = 1.5, 3, 0.3
#: The most lines of a footer, and of a header.
_MOST_FOOTER, _MOST_HEADER = 4, 40
#: The most pictures of a spinner.
_MOST_PICTURES = 100


@dataclass(slots=True)
class Working:
    """What the chat shows while the agent works, if extensions have changed it."""

    message: str | None = None
    visible: bool = True
    #: The pictures of the spinner, and how long each is shown, in milliseconds.
    frames: Sequence[str] | None = None
    interval: float | None = None


class ChatCanvas:
    """Implements `fairlead.Canvas` for a chat."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        #: The sheets that stay, by place and key.
        self._placed: dict[tuple[str, str], Sheet] = {}
        self._open: list[Sheet] = []
        self._told: tuple[int, int] | None = None
        self.working = Working()
        #: The header that has lines to show, once.
        self._header: Sheet | None = None

    # What extensions do

    def size(self) -> tuple[int, int]:
        columns, rows = self._chat.terminal.size()
        return max(10, columns - 1), rows

    async def show_dialog(self, sheet: Sheet) -> None:
        self._open.append(sheet)
        try:
            await self._chat.ask(SheetDialog(sheet, self._chat))
        finally:
            self._open.remove(sheet)

    def put(self, sheet: Sheet) -> None:
        self._placed[sheet.place, sheet.key] = sheet
        if sheet.place == "header":
            self._header = sheet
        self._chat.focus()

    def remove(self, sheet: Sheet) -> None:
        if self._placed.get((sheet.place, sheet.key)) is sheet:
            del self._placed[sheet.place, sheet.key]
        self._chat.focus()

    def touch(self) -> None:
        if self._header is not None and self._header.lines:
            lines = [keep_styles(line) for line in self._header.lines[:_MOST_HEADER]]
            # A header scrolls away with what is above it, so it is written once.
            self._chat.transcript.drawn(lines if self._chat.theme is not PLAIN else [without_styles(line) for line in lines])
            self._header = None
        self._chat.touch()

    def press_in_editor(self, data: str) -> None:
        self._chat.press_in_editor(data)

    def submit(self, text: str) -> None:
        self._chat.submit(text)

    def editor_text(self) -> tuple[str, int]:
        buffer = self._chat.editor.buffer
        return buffer.text, buffer.cursor_position

    def set_working(self, **given: Any) -> None:
        working = self.working
        match given:
            case {"message": str() | None as message}:
                working.message = None if message is None else plain(message)
            case {"visible": bool() as visible}:
                working.visible = visible
            case {"frames": frames} if frames is None or isinstance(frames, list):
                pictures = None if frames is None else cast("list[Any]", frames)[:_MOST_PICTURES]
                working.frames = None if pictures is None else [keep_styles(str(each)) for each in pictures]
                interval = given.get("interval")
                working.interval = interval if isinstance(interval, int | float) and interval > 0 else None
            case _:
                pass
        self._chat.touch()

    # What the user does

    @property
    def editor(self) -> Sheet | None:
        """The sheet that has the keys of the editor, if there is one."""
        return self._placed.get(("editor", "")) or self._placed.get(("keys", ""))

    def press(self, data: str) -> None:
        """Give a key to the sheet that has the keys of the editor."""
        sheet = self.editor
        if sheet is None:
            self.press_in_editor(data)
        elif data == _INTERRUPT:  # it works whatever the extension does
            self._chat.interrupt()
        elif data == _SUSPEND:
            self._chat.start(self._chat.suspend())
        else:
            sheet.owner.press(sheet, data)

    def on_edit(self) -> None:
        """Tell the sheets what is in the editor now."""
        if (sheet := self.editor) is not None:
            sheet.owner.follow_editor(*self.editor_text())

    def fit(self, columns: int, rows: int) -> None:
        """Tell the sheets how large the terminal is."""
        if self._told == (columns, rows):
            return
        self._told = columns, rows
        for owner in {sheet.owner for sheet in (*self._placed.values(), *self._open)}:
            owner.resize(columns, rows)

    # Drawing

    def draw_editor(self, theme: Theme, columns: int, rows: int) -> Drawn | None:
        """Return the sheet in place of the editor, and the cursor in it; None if there is none."""
        sheet = self._placed.get(("editor", ""))
        return draw_sheet(sheet, theme, columns, rows) if sheet is not None and sheet.lines else None

    def draw_footer(self, theme: Theme, columns: int) -> list[str] | None:
        """Return the sheet in place of the footer; None if there is none."""
        sheet = self._placed.get(("footer", ""))
        return None if sheet is None else draw_sheet(sheet, theme, columns, _MOST_FOOTER)[0]

    def widgets(self, place: str, theme: Theme, columns: int) -> dict[str, list[str]]:
        """Return the lines of the sheets above or below the editor, by their keys."""
        return {
            key: draw_sheet(sheet, theme, columns, len(sheet.lines))[0]
            for (where, key), sheet in self._placed.items()
            if where == place
        }


def draw_sheet(sheet: Sheet, theme: Theme, columns: int, rows: int) -> Drawn:
    """Return the lines of a sheet that fit, and the cursor among them. Of more lines, those around the cursor or the last fit."""
    shown, cursor = sheet.lines, sheet.cursor
    first = max(0, len(shown) - rows)
    if cursor is not None:
        first = max(0, min(first, cursor[0]))
    lines = [clip(keep_styles(line), columns) for line in shown[first : first + rows]]
    if theme is PLAIN:
        lines = [without_styles(line) for line in lines]
    if cursor is None or not first <= cursor[0] < first + len(lines):
        return lines, None
    return lines, (cursor[0] - first, min(max(0, cursor[1]), columns - 1))


class SheetDialog(Dialog[None]):
    """A component of an extension that has the keys. It gets all of them; if it does not close itself, the user still can."""

    fills = True

    def __init__(self, sheet: Sheet, chat: Chat) -> None:
        super().__init__(sheet.key)
        self._sheet = sheet
        self._chat = chat
        #: The presses of a key that may close it: which, when the last was, how many, and what was drawn at the first.
        self._key, self._at, self._times = "", 0.0, 0
        self._before: Sequence[str] = ()

    def press(self, data: str) -> None:
        """Handle a key, as the terminal sent it."""
        if data == _SUSPEND:
            self._chat.start(self._chat.suspend())
            return
        if data in (_ESCAPE, _INTERRUPT) and self._is_forced(data):
            self.finish(None)
            return
        self._sheet.owner.press(self._sheet, data)

    def _is_forced(self, key: str) -> bool:
        """Whether the user has pressed a key so often that the component has to close."""
        now = monotonic()
        if key != self._key or now - self._at > _TWICE:
            self._times, self._before = 0, self._sheet.lines
        self._key, self._at, self._times = key, now, self._times + 1
        if key == _INTERRUPT:
            asyncio.get_running_loop().call_later(_PATIENCE, self._explain)
            return self._times > 1
        # A component that draws may have a use for more than one Esc.
        return self._times >= _TIMES and self._sheet.lines == self._before

    def _explain(self) -> None:
        if not self.answer.done():
            self._chat.hint("Ctrl+C again closes this")

    def draw(self, theme: Theme, columns: int, rows: int) -> Drawn:
        lines, cursor = draw_sheet(self._sheet, theme, columns, rows)
        shown: Cursor = cursor
        return lines or [""], shown
