"""A question that the user answers with several lines."""

from __future__ import annotations

from fairlead.chat.dialogs import Dialog, Drawn
from fairlead.chat.input.editor import Editor
from fairlead.chat.view.text import clip, plain, wrap
from fairlead.chat.view.theme import Theme


class EditorDialog(Dialog[str]):
    """A text of several lines to write. prompt_toolkit's keys edit it, so the chat gives it the focus."""

    def __init__(self, title: str, prefill: str = "") -> None:
        super().__init__(title)
        self.editor = Editor(lambda: self.changed())
        self.editor.set_text(prefill)

    def send(self) -> None:
        self.finish(self.editor.expanded())

    def draw(self, theme: Theme, columns: int, rows: int) -> Drawn:
        lines = [theme.paint("accent", line) for line in wrap(plain(self.title), columns)][: max(1, rows // 3)]
        shown, (row, column) = self.editor.draw(theme, columns, max(1, rows - len(lines) - 1))
        hint = theme.paint("dim", clip("Enter send · Ctrl+J new line · Ctrl+G editor · Esc close", columns))
        return [*lines, *shown, hint], (len(lines) + row, column)
