"""Runs a chat on a terminal of its own, and leaves it as soon as it asks for a prompt: in_terminal.py COMMAND..."""

from __future__ import annotations

import os
import pty
import sys
import termios

ESCAPE, CTRL_D = b"\x1b", b"\x04"
#: What to type when a text is shown: first the chat may ask which session to resume.
RESUMING = [(b"Enter resume", ESCAPE)]
LEAVING = [(b"Ask for a change", CTRL_D)]


def main() -> int:
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execvp(sys.argv[1], sys.argv[1:])
    termios.tcsetwinsize(terminal, (40, 120))
    steps = [*(RESUMING if "--resume" in sys.argv else []), *LEAVING]
    shown = b""
    while data := read(terminal):
        shown += data
        if steps and steps[0][0] in shown:
            os.write(terminal, steps.pop(0)[1])
            shown = b""
    sys.stdout.buffer.write(shown)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""


if __name__ == "__main__":
    sys.exit(main())
