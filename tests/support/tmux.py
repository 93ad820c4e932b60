"""A chat in a real terminal: tmux, real keys, and the screens that a person would see."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.support.debian import need

from fairlead.testing import ProviderServer

#: Seconds after which something that has not appeared will not appear.
PATIENCE = 20
_POLL = 0.03
_PROMPT = "shell$"
_numbers = count()


class Tmux:
    """A terminal with a shell in it."""

    def __init__(self, folder: Path, env: Mapping[str, str], columns: int, rows: int) -> None:
        need("tmux", "tmux")
        self._socket = f"fairlead-{os.getpid()}-{next(_numbers)}"
        shell = ["bash", "--norc", "--noprofile"]
        kept = {**env, "PS1": f"{_PROMPT} "}
        command = ["env", "-i", *(f"{name}={value}" for name, value in kept.items()), *shell]
        size = ["-x", str(columns), "-y", str(rows)]
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(folder), shlex.join(command))
        self._tmux("set", "-g", "status", "off")
        self._tmux("set", "-g", "set-titles", "on")
        self._tmux("set", "-g", "history-limit", "10000")
        self.wait_for(_PROMPT)

    def _tmux(self, *words: str, input: str | None = None) -> str:
        done = subprocess.run(["tmux", "-L", self._socket, *words], capture_output=True, text=True, input=input, check=False)
        return done.stdout

    def close(self) -> None:
        self._tmux("kill-server")

    # Keys

    def type(self, text: str) -> None:
        """Type characters as they are."""
        self._tmux("send-keys", "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Press keys, by their names in tmux: Enter, Escape, C-c, M-Enter, Up ..."""
        self._tmux("send-keys", *keys)

    def paste(self, text: str) -> None:
        """Paste, as a terminal does it: bracketed, if the program asked for that."""
        self._tmux("load-buffer", "-", input=text)
        self._tmux("paste-buffer", "-p", "-r")

    def allow_copying(self) -> None:
        """Let programs copy with an escape sequence, as terminals do."""
        self._tmux("set", "-s", "set-clipboard", "on")

    def copied(self) -> str:
        """What a program has copied last; an empty text if that has not happened."""
        return self._tmux("show-buffer")

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    # What is seen

    def screen(self, *, history: bool = False, colours: bool = False, joined: bool = False) -> str:
        """The screen, without spaces at the ends of lines.

        Args:
            history: Also return what has scrolled away.
            colours: Leave the colours in the text.
            joined: Return a line that the terminal has wrapped as one line.
        """
        options = {"-S-": history, "-e": colours, "-J": joined}
        words = ["capture-pane", "-p", *(option for option, is_wanted in options.items() if is_wanted)]
        lines = self._tmux(*words).split("\n")
        return "\n".join(line.rstrip() for line in lines).rstrip("\n")

    def title(self) -> str:
        return self._tmux("display-message", "-p", "#{pane_title}").strip()

    def program(self) -> int:
        """The process id of the program that the shell has started."""
        shell = self._tmux("display-message", "-p", "#{pane_pid}").strip()
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])

    def cursor(self) -> tuple[int, int]:
        """The row and the column of the cursor."""
        row, column = self._tmux("display-message", "-p", "#{cursor_y} #{cursor_x}").split()
        return int(row), int(column)

    def wait_for(self, wanted: str | Callable[[str], bool], *, history: bool = False) -> str:
        """Wait until the screen has a text, or fits a condition. Returns the screen."""

        def fits(screen: str) -> bool:
            return wanted(screen) if callable(wanted) else wanted in screen

        return self.wait_until(lambda: self.screen(history=history), fits, wanted)

    def wait_until_steady(self) -> None:
        """Wait until the screen is the same for half a second, except for the line of the spinner."""
        looks: list[str] = []

        def look() -> bool:
            looks.append(re.sub("[⠀-⣿].*", "", self.screen(history=True)))
            return len(looks) > 20 and len(set(looks[-20:])) == 1

        self.wait_until(look, bool, "a steady screen")

    def wait_for_end(self) -> str:
        """Wait until the shell is back, which says how the chat ended."""
        found = self.wait_for(lambda screen: re.search(r"code=\d+", screen) is not None)
        match = re.search(r"code=(\d+)", found)
        assert match is not None
        return match[1]

    def wait_until(self, look: Callable[[], Any], fits: Callable[[Any], bool], wanted: object = "") -> Any:
        end = time.monotonic() + PATIENCE
        while True:
            seen = look()
            if fits(seen):
                return seen
            if time.monotonic() > end:
                pytest.fail(f"waited for {wanted!r}, and saw:\n{seen}")
            time.sleep(_POLL)


class ChatInTmux(Tmux):
    """A chat in a terminal, whose model plays a script."""

    def __init__(self, folder: Path, env: Mapping[str, str], server: ProviderServer, columns: int, rows: int) -> None:
        self.server = server
        self.folder = folder
        self.env = env
        self.home = Path(env["FAIRLEAD_HOME"])
        super().__init__(folder, env, columns, rows)

    def start(self, *words: str) -> None:
        """Start the chat, and wait until it can be used."""
        if "/help lists" in self.screen():  # an earlier chat said it, and keys would go to the shell
            self.type("clear")
            self.press("Enter")
            self.wait_for(lambda screen: screen == _PROMPT)
        self.type(f"clear; fairlead {shlex.join(words)}; echo code=$?")
        self.press("Enter")
        self.wait_for("/help lists")

    def send(self, text: str) -> None:
        """Type a prompt and press Enter."""
        self.type(text)
        self.wait_for(lambda screen: text[-20:] in screen)
        self.press("Enter")

    def command(self, text: str) -> None:
        """Type a command and press Enter."""
        self.type(text)
        self.wait_for(f"> {text}")
        self.press("Enter")

    def prompts(self) -> list[str]:
        """The last text of the user in each request that the model got."""
        return [_last_text(request.body) for request in self.server.requests]

    def leave(self) -> None:
        self.press("C-d")
        self.wait_for_end()


def _last_text(body: Any) -> str:
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


@contextmanager
def chat_in_tmux(
    folder: Path,
    turns: Sequence[dict[str, Any]],
    *,
    columns: int = 80,
    rows: int = 24,
    env: Mapping[str, str] | None = None,
    key: bool = True,
) -> Generator[ChatInTmux]:
    """A terminal in an empty project, with a provider whose model plays a script. The chat is not started yet."""
    project, home = folder / "project", folder / "home"
    project.mkdir(exist_ok=True)
    home.mkdir(exist_ok=True)
    with ProviderServer(turns) as server:
        surroundings = {
            "HOME": str(folder),
            "FAIRLEAD_HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TERM": "tmux-256color",
            **({"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": server.url} if key else {}),
            **(env or {}),
        }
        terminal = ChatInTmux(project, surroundings, server, columns, rows)
        try:
            yield terminal
        finally:
            terminal.close()
