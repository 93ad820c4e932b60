"""Reads keys and sends them to the editor, the completion menu or a dialog. prompt_toolkit parses them, and draws nothing.

It is taught key codes that it does not know, and to tell replies of the terminal from keys."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from typing import Any, Protocol, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.output import DummyOutput

from fairlead.chat.input.editor import Editor
from fairlead.chat.input.terminal import REPLIES

#: Stands for Shift+Enter and Ctrl+Enter. prompt_toolkit has no names for them, and no terminal sends F24.
NEW_LINE = Keys.F24
#: Stands for Alt+Enter.
QUEUE = Keys.F23

#: The reply to the question where the cursor is, and its beginning at the end of what was read.
_POSITION = re.compile(r"\x1b\[([0-9]+);[0-9]+R")
_OPEN_POSITION = re.compile(r"\x1b\[[0-9;]*$")
#: The beginning of such a reply, at the end of what was read.
_OPEN_REPLY = re.compile(r"\x1b\][0-9;:a-zA-Z/]*\x1b?$|\x1b\[\?[0-9;]*$")
_LONGEST_REPLY = 64
#: What a terminal sends before and after a paste, and how much is read at once.
_PASTE, _PASTE_END = "\x1b[200~", "\x1b[201~"
_CHUNK = 65536
#: Modifiers of the kitty protocol, plus one: shift 1, alt 2, ctrl 4.
_SHIFT, _ALT, _CTRL = 1, 2, 4
_NAMED = {9: "\t", 13: "\r", 27: "\x1b", 127: "\x7f", 32: " "}


def teach_keys() -> None:
    """Let prompt_toolkit's parser understand the codes of the kitty protocol and of xterm's modifyOtherKeys."""
    table: dict[str, Any] = ANSI_SEQUENCES
    for code in (*range(33, 127), *_NAMED):
        for modifiers in range(8):
            # A terminal sends plain characters as themselves.
            if code in _NAMED or modifiers & (_ALT | _CTRL):
                key = _key(code, modifiers)
                table[f"\x1b[{code};{modifiers + 1}u"] = key
                table[f"\x1b[27;{modifiers + 1};{code}~"] = key
        if code in _NAMED:
            table[f"\x1b[{code}u"] = _key(code, 0)
    table["\x1b\r"] = table["\x1b\n"] = QUEUE


def _key(code: int, modifiers: int) -> Any:
    """Return what prompt_toolkit calls a key: a name, a character, or several of them."""
    if code == 13 and modifiers:
        return QUEUE if modifiers & _ALT else NEW_LINE
    character = _NAMED.get(code) or chr(code)
    key: Any = ANSI_SEQUENCES.get(character, character)
    if code == 9 and modifiers & _SHIFT:
        key = Keys.BackTab
    elif modifiers & _CTRL and character.isalpha():
        key = ANSI_SEQUENCES[chr(ord(character.lower()) & 0x1F)]
    elif modifiers & _CTRL and character in "@[\\]^_/ ":
        key = ANSI_SEQUENCES[chr(ord({"/": "_", " ": "@"}.get(character, character)) & 0x1F)]
    elif modifiers & _SHIFT:
        key = character.upper() if character.isalpha() else key
    return (Keys.Escape, key) if modifiers & _ALT else key


class KeyInput(Vt100Input):
    """The keys of a terminal, without the replies that a terminal sends to questions. It leaves the modes of the terminal alone.

    Args:
        terminal: The terminal, as an open text file.
        typed: Keys that were read before.
    """

    def __init__(self, terminal: TextIO, typed: str = "") -> None:
        super().__init__(terminal)
        self._held = ""
        #: How many replies with the row of the cursor are expected, and what waits for the last one.
        self._positions = 0
        self._position: asyncio.Future[int] | None = None
        #: The parts of a paste whose end has not been read.
        self._paste: list[str] = []
        #: Gets what the terminal sends instead of prompt_toolkit, while a component of an extension has the keys.
        self.divert: Callable[[str], None] | None = None
        self._read = self.stdin_reader.read
        self.stdin_reader.read = self._read_keys
        if typed:
            self.vt100_parser.feed(typed)
            store_typeahead(self, self._buffer)
            self._buffer = []

    def raw_mode(self) -> AbstractContextManager[None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return nullcontext()

    def cooked_mode(self) -> AbstractContextManager[None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return nullcontext()

    def expect_position(self) -> asyncio.Future[int]:
        """Return the row of the cursor, from 0, as the terminal will say it. Call it before each question."""
        self._positions += 1
        self._position = asyncio.get_running_loop().create_future()
        return self._position

    def _without_positions(self, text: str) -> str:
        while self._positions and (found := _POSITION.search(text)) is not None:
            text = text[: found.start()] + text[found.end() :]
            self._positions -= 1
            if not self._positions and self._position is not None and not self._position.done():
                self._position.set_result(int(found[1]) - 1)
        return text

    def parse(self, text: str) -> list[KeyPress]:
        """Return the keys that a terminal means by a text."""
        self.vt100_parser.feed_and_flush(text)
        keys, self._buffer = self._buffer, []
        return keys

    def _read_keys(self, count: int = 1024) -> str:
        text = self._read_text()
        if self.divert is None:
            return text
        self.divert(text)
        return ""

    def _read_text(self) -> str:
        text = self._read(_CHUNK)
        if self._paste:
            # prompt_toolkit searches all of a paste again for each part of it, so it gets the whole paste at once.
            end = self._paste[-1][-len(_PASTE_END) :] + text
            self._paste.append(text)
            if _PASTE_END not in end:
                return ""
            text = "".join(self._paste)
            self._paste = []
        else:
            text = self._without_positions(REPLIES.sub("", self._held + text))
        self._held = ""
        begin = text.rfind(_PASTE)
        if begin >= 0 and _PASTE_END not in text[begin:]:
            self._paste = [text[begin:]]
            return text[:begin]
        found = _OPEN_REPLY.search(text) or (_OPEN_POSITION.search(text) if self._positions else None)
        if found is not None and len(text) - found.start() < _LONGEST_REPLY:
            self._held, text = text[found.start() :], text[: found.start()]
        return text


#: One key as a terminal sends it: a paste, a sequence, a character with Alt, or a character.
_SEQUENCE = re.compile(
    r"\x1b\[200~.*?\x1b\[201~|\x1b*\x1b(?:\[\[?[0-?]*[ -/]*[@-~]|O.)|\x1b[^\x1b\[O]|\x1b(?=\x1b)|[^\x1b]", re.DOTALL
)
#: Codes of the kitty protocol and of modifyOtherKeys.
_CODE = re.compile(r"\x1b\[(?:27;(?P<m1>\d+);(?P<c1>\d+)~|(?P<c2>\d+)(?:;(?P<m2>\d+))?u)")
#: The longest sequence that is waited for.
_LONGEST_SEQUENCE = 64


class Sequences:
    """Divides what a terminal sends into keys. `press` gets each of them, as terminals without newer protocols send it."""

    def __init__(self, press: Callable[[str], None]) -> None:
        self._press = press
        self._rest = ""
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, text: str) -> None:
        """Divide more text. An Esc at its end is a whole key if nothing follows soon."""
        if self._timer is not None:
            self._timer.cancel()
        text, at = self._rest + text, 0
        self._rest = ""
        while found := _SEQUENCE.match(text, at):
            at = found.end()
            self._press(plain_key(found[0]))
        self._rest = text[at:]
        if len(self._rest) > _LONGEST_SEQUENCE:
            self._flush()
        elif self._rest:
            self._timer = asyncio.get_running_loop().call_later(_PARSER_PATIENCE, self._flush)

    def _flush(self) -> None:
        rest, self._rest = self._rest, ""
        if rest:
            self._press(rest)


def plain_key(data: str) -> str:
    """Return what a terminal without newer protocols sends for a key, if it tells the key from others."""
    found = _CODE.fullmatch(data)
    if found is None:
        return data
    code, modifiers = int(found["c1"] or found["c2"]), int(found["m1"] or found["m2"] or 1) - 1
    character = _NAMED.get(code) or (chr(code) if 32 < code < 127 else "")
    if not character or modifiers & ~(_SHIFT | _ALT | _CTRL) or (code in (9, 13) and modifiers & ~_ALT):
        return "\x1b[Z" if code == 9 and modifiers == _SHIFT else data
    if modifiers & _CTRL:
        if not (character.isalpha() or character in "@[\\]^_ "):
            return data
        character = chr(ord(character.upper()) & 0x1F)
    elif modifiers & _SHIFT:
        character = character.upper()
    return "\x1b" + character if modifiers & _ALT else character


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
    def paste_clipboard(self) -> None: ...
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

    def divert(self, press: Callable[[str], None]) -> None:
        """Send keys, as the terminal sends them, to a component of an extension."""
        self._input.divert = Sequences(press).feed

    def feed(self, data: str) -> None:
        """Act as if the user had pressed a key."""
        keys = self._application.key_processor
        with set_app(self._application):
            keys.feed_multiple(self._input.parse(data))
            keys.process_keys()

    def focus_editor(self) -> None:
        """Send keys to the chat's editor."""
        self._input.divert = None
        self._application.layout.focus(self._main)

    def focus_other(self, editor: Editor) -> None:
        """Send keys to the editor of a dialog."""
        self._input.divert = None
        self._other.content = self._control(editor)
        self._application.layout.focus(self._other)

    def focus_dialog(self) -> None:
        """Send keys to `Actions.dialog_key`."""
        self._input.divert = None
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
    async def pause(self) -> AsyncGenerator[None]:
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
    bind(actions.paste_clipboard, "c-v", eager=True)
    bind(lambda: actions.editor_with_focus().delete_before(), "backspace")

    @bindings.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
        if event.data:
            actions.editor_with_focus().paste(event.data)
        else:  # terminals paste nothing if the clipboard holds an image
            actions.paste_clipboard()

    return bindings


def _dialog_bindings(actions: Actions) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
        press = event.key_sequence[0]
        key = press.key
        actions.dialog_key(key.value if isinstance(key, Keys) else key, press.data)

    return bindings
