"""What the keys of the editor do, and the menu of suggestions below it."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from fairlead.chat.chat_ui import PAUSE, Approval
from fairlead.chat.dialogs import Choice, Confirm, EditorDialog, Picker
from fairlead.chat.input.editor import Editor
from fairlead.chat.outside import can_paste, paste_image, paste_text
from fairlead.sessions.completion import MOST_ITEMS, FileIndex, Item, Menu, Wanted, find_wanted, mention, rank

if TYPE_CHECKING:
    from fairlead.chat.app import Chat


class EditorKeys:
    """Implements `fairlead.chat.input.keyboard.Actions` for a chat.

    Attributes:
        menu: The suggestions that are shown; None: there are none.
    """

    def __init__(self, chat: Chat, files: FileIndex) -> None:
        self._chat = chat
        self._files = files
        self.menu: Menu | None = None
        #: The text whose menu the user has closed, and the one that was looked up last.
        self._closed_at: str | None = None
        self._looked_up: str | None = None
        #: When the text was edited last.
        self._edited_at = 0.0

    # Suggestions

    def on_edit(self) -> None:
        """Offer suggestions for the text before the cursor."""
        self._edited_at = monotonic()
        before = self._chat.editor.buffer.document.text_before_cursor
        if before == self._looked_up:
            return
        self._looked_up = before
        asked = find_wanted(before) if before != self._closed_at else None
        if asked is None:
            self.menu = None
        elif asked.kind == "file":
            if self.menu is not None and self.menu.kind != "file":
                self.menu = None
            self._chat.start(self._find_files(before, asked))
        elif asked.kind == "command":
            self._offer(asked, self._commands(asked.typed))
        elif self._chat.commands.knows(before):
            values = self._chat.commands.arguments(asked.command)
            by_text = {item.text: item for item in values}
            self._offer_arguments(asked, [by_text[text] for text in rank(asked.typed, by_text)])
        else:
            self.menu = None  # Enter must not choose what was suggested for less
            self._chat.start(self._find_arguments(before, asked))

    def _offer_arguments(self, asked: Wanted, items: list[Item]) -> None:
        # What is typed in full comes first, so that Enter does not choose a longer one, such as xhigh for high.
        items = sorted(items, key=lambda item: item.text != asked.typed)
        self._offer(asked, [] if [item.text for item in items] == [asked.typed] else items)
        if self.menu is not None:
            self.menu.is_guess = asked.typed.lower() not in self.menu.chosen.text.lower()

    async def _find_arguments(self, before: str, asked: Wanted) -> None:
        """Ask the extension that has the command. It has chosen from what is typed itself."""
        found = await self._chat.session.additions.complete(asked.command, asked.typed)
        if self._looked_up == before:  # otherwise the user has typed on
            self._offer_arguments(asked, [Item(each.value, each.description, each.label) for each in found[:MOST_ITEMS]])

    def _offer(self, asked: Wanted, items: list[Item]) -> None:
        self.menu = Menu(asked.kind, asked.replaces, items) if items else None
        self._chat.touch()

    def _commands(self, typed: str) -> list[Item]:
        known = self._chat.commands.list_all()
        by_name = {item.text: item for item in known}
        names = sorted(by_name)
        starting = [name for name in names if name[1:].lower().startswith(typed.lower())]
        others = [name for name in rank(typed, names, MOST_ITEMS) if name not in starting] if len(typed) > 1 else []
        return [by_name[name] for name in (*starting, *others)]

    async def _find_files(self, before: str, asked: Wanted) -> None:
        found = await asyncio.to_thread(self._files.search, asked.typed)
        if self._looked_up == before:  # otherwise the user has typed on
            self._offer(asked, [Item(path) for path in found])

    def _accept(self) -> None:
        """Put the chosen suggestion into the text."""
        assert self.menu is not None
        menu, self.menu = self.menu, None
        text = menu.chosen.text
        if menu.kind == "file":
            # A directory stays open, so that the user can go on into it.
            text = f"@{text}" if text.endswith("/") else f"{mention(text)} "
        elif menu.kind == "command":
            text += " "
        buffer = self._chat.editor.buffer
        buffer.delete_before_cursor(menu.replaces)
        buffer.insert_text(text)

    # Keys

    def editor_with_focus(self) -> Editor:
        dialog = self._chat.dialog
        return dialog.editor if isinstance(dialog, EditorDialog) else self._chat.editor

    def enter(self) -> None:
        dialog, editor = self._chat.dialog, self.editor_with_focus()
        if editor.buffer.document.text_before_cursor.endswith("\\"):
            editor.break_line()
        elif isinstance(dialog, EditorDialog):
            dialog.send()
        elif self.menu is None or self.menu.is_unasked:
            self.send()
        else:
            incomplete = self._needs_more(self.menu)
            self._accept()
            if not incomplete:
                self.send()

    def _needs_more(self, menu: Menu) -> bool:
        """Whether there may be more to type after the suggestion: words after a file, arguments of a template.

        There is not if the user has typed all of it already.
        """
        if menu.kind == "command":
            return not self._chat.commands.is_own(menu.chosen.text) and menu.chosen.text != self._chat.editor.text
        typed = self._chat.editor.buffer.document.text_before_cursor[-menu.replaces :]
        return menu.kind == "file" and typed not in (mention(menu.chosen.text), f"@{menu.chosen.text}")

    def queue(self) -> None:
        dialog = self._chat.dialog
        if isinstance(dialog, EditorDialog):
            dialog.editor.break_line()
        else:
            self.send(queued=True)

    def send(self, *, queued: bool = False) -> None:
        """Send what is in the editor."""
        if not self._chat.editor.text.strip():
            return
        text = self._chat.editor.take().rstrip()
        if not text.lstrip().startswith("/"):  # a space before a slash makes it a prompt
            text = text.lstrip()
        if not text.startswith("/login "):  # what follows may be a key
            self._chat.history.add(text)
        self._chat.start(self._chat.sender.send(text, queued=queued))

    def escape(self) -> None:
        chat = self._chat
        if chat.dialog is not None:
            chat.dialog.finish(None)
        elif self.menu is not None:
            self._closed_at = chat.editor.buffer.document.text_before_cursor
            self.menu = None
            chat.touch()
        elif chat.sender.is_running_command:
            chat.session.host.abort_bash()
        elif chat.status.is_busy:
            chat.stop()

    def interrupt(self) -> None:
        dialog = self._chat.dialog
        if isinstance(dialog, EditorDialog):
            dialog.finish(None)
        else:
            self._chat.interrupt()

    def end_of_input(self) -> None:
        editor = self.editor_with_focus()
        if editor.text:
            editor.buffer.delete()
        elif self._chat.dialog is not None:
            self._chat.dialog.finish(None)
        else:
            self._chat.leave(0)

    def tab(self) -> None:
        if self.menu is not None:
            self._accept()

    def back_tab(self) -> None:
        if self.menu is not None:
            self._move(-1)
        elif self._chat.dialog is None:
            self._chat.commands.cycle_thinking()

    def up(self) -> None:
        if self.menu is not None:
            self._move(-1)
        elif not self.editor_with_focus().move_row(-1) and self._chat.dialog is None:
            self._recall(self._chat.history.older(self._chat.editor.text))

    def down(self) -> None:
        if self.menu is not None:
            self._move(1)
        elif not self.editor_with_focus().move_row(1) and self._chat.dialog is None:
            self._recall(self._chat.history.newer(self._chat.editor.text))

    def _move(self, by: int) -> None:
        assert self.menu is not None
        self.menu.move(by)
        self._chat.touch()

    def _recall(self, text: str | None) -> None:
        if text is not None:
            self._closed_at = self._looked_up = text
            self._chat.editor.set_text(text)
            self.menu = None

    def search(self) -> None:
        if self._chat.dialog is None:
            self._chat.start(self._search())

    async def _search(self) -> None:
        prompts = list(dict.fromkeys(reversed(self._chat.history.prompts)))
        choices = [Choice(" ".join(prompt.split())[:300], prompt) for prompt in prompts]
        picked = await self._chat.ask(Picker("Earlier prompts", choices, empty="No earlier prompt matches."))
        if picked is not None:
            self._recall(picked)

    def open_editor(self) -> None:
        self._chat.start(self._chat.edit_outside(self.editor_with_focus()))

    def suspend(self) -> None:
        self._chat.start(self._chat.suspend())

    def toggle_thinking(self) -> None:
        is_folded = self._chat.transcript.toggle_thinking()
        self._chat.hint(f"Thinking is {'folded' if is_folded else 'shown'} from now on")

    def toggle_details(self) -> None:
        is_long = self._chat.transcript.toggle_details()
        self._chat.hint(f"Tool output is shown in {'full' if is_long else 'short'} from now on")

    def paste_clipboard(self) -> None:
        if self._chat.dialog is None:
            self._chat.start(self._paste_clipboard())

    async def _paste_clipboard(self) -> None:
        """Insert what is in the clipboard: an image as a mark that stands for it, else a text."""
        chat = self._chat
        image = await paste_image(chat)
        if image is not None:
            number = max(chat.pasted_images, default=0) + 1
            chat.pasted_images[number] = image
            chat.editor.insert(f"[image #{number}] ")
        elif text := await paste_text(chat):
            chat.editor.paste(text)
        elif can_paste(chat):
            chat.hint("The clipboard holds no image and no text")
        else:
            chat.note("To paste images, install wl-clipboard or xclip. A file can be dragged here, or named with @.")
        chat.touch()

    def redraw(self) -> None:
        self._chat.redraw()

    def _is_typing(self) -> bool:
        """Whether the user is in the middle of writing a text."""
        return bool(self._chat.editor.text) and monotonic() - self._edited_at < PAUSE

    def dialog_key(self, name: str, data: str) -> None:
        dialog = self._chat.dialog
        if dialog is None:
            return
        if name == "c-z":
            self.suspend()
        elif isinstance(dialog, Approval | Confirm) and self._is_typing() and (name == "c-m" or len(name) == 1):
            # The question came up in the middle of a word. A letter that was meant for the text must not answer it.
            self._chat.editor.insert(data if name != "c-m" else "\n")
        else:
            dialog.key(name, data)
        self._chat.touch()
