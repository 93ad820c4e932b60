"""The user's terminal: private descriptors, the modes that the chat sets, and what must be undone at the end.

Extensions, loggers and child processes may print at any time. While the chat has the terminal, descriptors 1 and 2 lead to a
pipe, whose lines the chat shows as notes, and descriptor 0 to /dev/null, so that no child process takes the user's keys.
"""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from fairlead.chat.view.theme import Background

#: Bracketed paste, and at the end a visible cursor without styles.
_ENTER, _LEAVE = "\x1b[?2004h", "\x1b[?2004l\x1b[?25h\x1b[0m"
#: The kitty protocol's "disambiguate" level and xterm's modifyOtherKeys, for Shift+Enter.
_ENTER_KEYS, _LEAVE_KEYS = "\x1b[>1u\x1b[>4;1m", "\x1b[<u\x1b[>4;0m"
#: A terminal that takes these for styles, and draws everything underlined.
_TAKES_KEYS_FOR_STYLES = "Apple_Terminal"
#: Save and restore the title of the window. Terminals that do not know this ignore it.
_SAVE_TITLE, _RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"
#: Asks for the colour of the background, then for the type of the terminal, which every terminal answers.
_ASK_BACKGROUND = "\x1b]11;?\x1b\\\x1b[c"
#: Replies to questions about colours, the type of the terminal, and the keyboard protocol.
REPLIES = re.compile(r"\x1b\][0-9]+;[^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[\?[0-9;]*[cu]")
_BACKGROUND = re.compile(r"\x1b\]11;rgba?:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)")
_LAST_REPLY = re.compile(r"\x1b\[\?[0-9;]*c")
#: Seconds to wait at the end for an answer that was not read: the shell would take it for keys.
_UNREAD_PATIENCE = 0.5
#: The longest line of captured output, and how many lines may wait to be shown.
_LONGEST_LINE = 2000
_MOST_LINES = 1000


def background_in(text: str) -> Background | None:
    """Return whether a reply of a terminal names a `dark` or a `light` background; None if it names none."""
    found = _BACKGROUND.search(text)
    if found is None:
        return None
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups())
    return "light" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "dark"


class Terminal:
    """A terminal that a chat draws on. Use it with `with`: the end of the block restores everything.

    Args:
        on_output: Called, on a thread, with each line that something else prints meanwhile.
    """

    def __init__(self, on_output: Callable[[str], object]) -> None:
        self._on_output = on_output
        self._kept = [os.dup(number) for number in (0, 1, 2)]
        for number in self._kept:
            os.set_inheritable(number, False)
        self.input, self.output, _ = self._kept
        self._attributes = termios.tcgetattr(self.input)
        self._has_plain_keys = os.environ.get("TERM_PROGRAM") == _TAKES_KEYS_FOR_STYLES
        self._entered = False
        self._reader: threading.Thread | None = None
        self._lines: list[str] = []
        self._closed = False
        self._title: str | None = None
        self._awaits_answer = False

    def __enter__(self) -> Terminal:
        self._capture()
        self.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Drawing

    def write(self, text: str) -> None:
        """Write to the terminal. Nothing is raised if it has gone away: the end of the input says so."""
        data = memoryview(text.encode("utf-8", "replace"))
        while data:
            try:
                data = data[os.write(self.output, data) :]
            except BlockingIOError:
                select.select([], [self.output], [])
            except OSError:
                return

    def size(self) -> tuple[int, int]:
        """Return the columns and rows of the terminal; 80x24 if it does not say."""
        try:
            columns, rows = os.get_terminal_size(self.output)
        except OSError:
            columns, rows = 0, 0
        return columns or 80, rows or 24

    def set_title(self, text: str) -> None:
        """Set the title of the window. Control characters are left out."""
        clean = "".join(character for character in text if character.isprintable())[:200]
        if clean == self._title:
            return
        self.write(("" if self._title is not None else _SAVE_TITLE) + f"\x1b]2;{clean}\x1b\\")
        self._title = clean

    # Modes

    def enter(self) -> None:
        """Set the modes of the chat: no echo, no line editing, every key as it is typed."""
        if self._entered:
            return
        self._entered = True
        modes = termios.tcgetattr(self.input)
        modes[0] &= ~(termios.BRKINT | termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON)
        modes[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
        modes[6][termios.VMIN] = 1
        # Not TCSAFLUSH: what was typed meanwhile is meant for the chat.
        termios.tcsetattr(self.input, termios.TCSADRAIN, modes)
        self.write(_ENTER + ("" if self._has_plain_keys else _ENTER_KEYS))

    def enter_again(self) -> bool:
        """Set the modes again if a shell changed them while this process was stopped. Returns whether it did."""
        if not self._entered or not termios.tcgetattr(self.input)[3] & termios.ICANON:
            return False
        self._entered = False
        self.enter()
        return True

    def leave(self) -> None:
        """Restore the modes that the terminal had, for another program or the shell."""
        if not self._entered:
            return
        self._entered = False
        self.write(("" if self._has_plain_keys else _LEAVE_KEYS) + _LEAVE)
        with suppress(termios.error, OSError):
            termios.tcsetattr(self.input, termios.TCSADRAIN, self._attributes)

    def close(self) -> None:
        """Restore the terminal and the standard streams. What was captured and not shown is printed."""
        if self._closed:
            return
        self._closed = True
        if self._awaits_answer:
            self.background(_UNREAD_PATIENCE)
        if self._title is not None:
            self.write("\x1b]2;\x1b\\" + _RESTORE_TITLE)
        self.leave()
        self._release()

    # Asking the terminal

    def ask_background(self) -> None:
        """Ask which colour the background has. `background` reads the answer."""
        self._awaits_answer = True
        self.write(_ASK_BACKGROUND)

    def background(self, patience: float) -> tuple[Background | None, str]:
        """Return `dark`, `light` or None for the answer to `ask_background`, and the keys that were typed before it.

        Args:
            patience: How many seconds to wait at most. An answer that comes later has to be ignored by the reader of the keys.
        """
        self._awaits_answer = False
        received, end = "", monotonic() + patience
        while not _LAST_REPLY.search(received):
            left = end - monotonic()
            if left <= 0 or not select.select([self.input], [], [], left)[0]:
                break
            data = os.read(self.input, 4096)
            if not data:
                break
            received += data.decode("utf-8", "replace")
        return background_in(received), REPLIES.sub("", received)

    def ask_cursor(self) -> None:
        """Ask where the cursor is. The reader of the keys gets the answer."""
        self.write("\x1b[6n")

    # Other output

    def _capture(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        out, into = os.pipe()
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (into, 1), (into, 2)):
            os.dup2(source, target)
        os.close(into)
        os.close(null)
        self._reader = threading.Thread(target=self._read, args=(out,), name="fairlead-output", daemon=True)
        self._reader.start()

    def _release(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        for target, source in enumerate(self._kept):
            os.dup2(source, target)
        if self._reader is not None:
            # A child process may still hold the pipe. The thread ends with the process then.
            self._reader.join(0.2)
        for line in self._lines:
            self.write(f"{line}\r\n")
        self._lines.clear()

    def _read(self, source: int) -> None:
        # A thread, so that a line longer than the pipe cannot block the event loop that wrote it.
        rest = b""
        while data := os.read(source, 65536):
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > _LONGEST_LINE:
                lines.append(rest)
                rest = b""
            for line in lines:
                self._print(line)
        if rest:
            self._print(rest)
        os.close(source)

    def _print(self, line: bytes) -> None:
        text = line[:_LONGEST_LINE].decode("utf-8", "replace").rstrip("\r")
        if self._closed:
            if len(self._lines) < _MOST_LINES:
                self._lines.append(text)
        elif text.strip():
            self._on_output(text)
