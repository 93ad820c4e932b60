"""Reads keys and sends them to the editor, the completion menu or a dialog. prompt_toolkit parses them, and draws nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

from prompt_toolkit.application import Application
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.output import DummyOutput

from fairlead.chat.input.editor import Editor
from fairlead.chat.input.keys import NEW_LINE, QUEUE, KeyInput, teach_keys

#: Seconds to wait for the rest of a sequence after Esc: in the parser, then in the key bindings (Esc, B is Alt+B).
_PARSER_PATIENCE, _BINDING_PATIENCE = 0.05, 0.1


class Actions(Protocol):
    """What keys of the editor do. A method returns nothing, and acts on the editor that has the focus."""

    def enter(self) -> None: ...
    def queue(self) -> None: ...
    def escape(self) -> None: ...
    def interrupt(self) -> None: ...
    def end_of_input(self) -> None: ...
    def tab(self) -> None: ...
    def back_tab(self) -> None: ...
    def up(self) -> None: ...
    def down(self) -> None: ...
    def search(self) -> None: ...
    def open_editor(self) -> None: ...
    def suspend(self) -> None: ...
    def toggle_thinking(self) -> None: ...
    def toggle_details(self) -> None: ...
    def redraw(self) -> None: ...
    def editor_with_focus(self) -> Editor: ...
    def dialog_key(self, name: str, data: str) -> None: ...


class Keyboard:
    """The keys of a terminal.

    Args:
        terminal: The descriptor of the terminal.
        editor: The editor that has the focus first.
        actions: What keys do.
        typed: Keys that were read before.
    """

    def __init__(self, terminal: int, editor: Editor, actions: Actions, typed: str = "") -> None:
        teach_keys()
        self._input = KeyInput(os.fdopen(os.dup(terminal), "r"), typed)
        self._actions = actions
        self._bindings = _editor_bindings(actions)
        self._main = Window(self._control(editor))
        self._other = Window()
        self._dialog = Window(FormattedTextControl("", focusable=True, key_bindings=_dialog_bindings(actions)))
        self._split = HSplit([self._main, self._other, self._dialog])
        self._application: Application[None] = Application(
            layout=Layout(self._split, self._main),
            input=self._input,
            output=DummyOutput(),
            terminal_size_polling_interval=None,
            enable_page_navigation_bindings=False,
        )
        self._application.ttimeoutlen = _PARSER_PATIENCE
        self._application.timeoutlen = _BINDING_PATIENCE

    async def run(self, ready: Callable[[], None]) -> None:
        """Read keys until `stop`. Raises EOFError when the terminal goes away.

        Args:
            ready: Called once it reads keys. prompt_toolkit has set its signal handlers by then, so that others can replace them.
        """

        def is_ready(_: object) -> None:
            self._application.after_render -= is_ready
            ready()

        self._application.after_render += is_ready
        await self._application.run_async(handle_sigint=False, set_exception_handler=False)

    def stop(self) -> None:
        if self._application.is_running:
            self._application.exit()

    def focus_editor(self) -> None:
        """Send keys to the chat's editor."""
        self._application.layout.focus(self._main)

    def focus_other(self, editor: Editor) -> None:
        """Send keys to the editor of a dialog."""
        self._other.content = self._control(editor)
        self._application.layout.focus(self._other)

    def focus_dialog(self) -> None:
        """Send keys to `Actions.dialog_key`."""
        self._application.layout.focus(self._dialog)

    async def cursor_row(self, ask: Callable[[], None], patience: float) -> int | None:
        """Return the row of the screen, from 0, in which the cursor is. None: the terminal has not said it in time.

        Args:
            ask: Sends the question to the terminal.
            patience: How many seconds to wait at most.
        """
        reply = self._input.expect_position()
        ask()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                return await reply
        return None

    @asynccontextmanager
    async def paused(self) -> AsyncGenerator[None]:
        """Let another program read the keys."""
        with self._input.detach():
            yield

    def _control(self, editor: Editor) -> BufferControl:
        return BufferControl(editor.buffer, key_bindings=self._bindings)


def _editor_bindings(actions: Actions) -> KeyBindings:
    bindings = KeyBindings()

    def bind(action: Callable[[], None], *keys: Any, eager: bool = False) -> None:
        @bindings.add(*keys, eager=eager)
        def _(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
            action()

    def escape_and_slash() -> None:
        # A user stops the agent and types a command right away. tmux and ssh can turn that into Alt+/.
        actions.escape()
        actions.editor_with_focus().insert("/")

    bind(actions.enter, "enter")
    bind(actions.queue, QUEUE)
    bind(actions.queue, "escape", "enter")
    bind(lambda: actions.editor_with_focus().break_line(), "c-j")
    bind(lambda: actions.editor_with_focus().break_line(), NEW_LINE)
    bind(actions.escape, "escape")
    bind(escape_and_slash, "escape", "/")
    bind(actions.interrupt, "c-c")
    bind(actions.end_of_input, "c-d")
    bind(actions.tab, "tab")
    bind(actions.back_tab, "s-tab")
    bind(actions.up, "up")
    bind(actions.up, "c-p")
    bind(actions.down, "down")
    bind(actions.down, "c-n")
    bind(actions.search, "c-r", eager=True)
    bind(actions.open_editor, "c-g", eager=True)
    bind(actions.open_editor, "c-x", "c-e")
    bind(actions.suspend, "c-z", eager=True)
    bind(actions.toggle_thinking, "c-t", eager=True)
    bind(actions.toggle_details, "c-o", eager=True)
    bind(actions.redraw, "c-l", eager=True)
    bind(lambda: actions.editor_with_focus().delete_before(), "backspace")

    @bindings.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
        actions.editor_with_focus().paste(event.data)

    return bindings


def _dialog_bindings(actions: Actions) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
        press = event.key_sequence[0]
        key = press.key
        actions.dialog_key(key.value if isinstance(key, Keys) else key, press.data)

    return bindings
