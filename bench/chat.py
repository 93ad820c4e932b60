"""Measure the chat in a real terminal: tmux with 100 columns and 30 rows, and a scripted model on loopback.

The CPU and the memory are those of the chat alone, not of tmux.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from itertools import count
from pathlib import Path

from bench.contestants import Turn, own, scripted_provider, surroundings
from bench.driver import BenchError, cpu_seconds, peak_memory

COLUMNS, ROWS = 100, 30
#: Characters in each piece of an answer, and milliseconds after it: 400 pieces a second, with the time that sending one takes.
PIECE = 8
PAUSE_MS = 2
_END = "This is the end."
#: Seconds between two looks at the screen: exact where that is measured, seldom while the chat works.
_POLL_OFTEN, _POLL = 0.005, 0.25

#: An answer as models write them, about 1,400 characters.
_MARKDOWN = """\
## What I found

The parser reads **one line at a time** and keeps what it has read in `self._lines`, so a file of a million lines needs a
gigabyte. Two things make it slow:

1. `split()` copies the rest of the text for every line, see [the documentation](https://example.org/parser#split).
2. Each line is compared with *every* rule, although most rules begin with the same word:
   - `include` and `exclude`, which are rare
   - `path`, which is in nearly every line of the file

```python
def lines(self, text: str) -> Iterator[str]:
    \"\"\"Yield the lines of a text without copying its rest.\"\"\"
    start = 0
    while (end := text.find("\\n", start)) >= 0:
        yield text[start:end]
        start = end + 1  # the rest stays where it is
    if start < len(text):
        yield text[start:]
```

| file | before | after |
|---|---:|---:|
| `small.conf` | 12 ms | 11 ms |
| `large.conf` | 4,310 ms | 96 ms |

> The order of rules matters: the first one that matches wins, and users rely on that.

I changed `lines` as shown and indexed the rules by their first word. All tests pass, and the large file is read forty-five
times as fast as before. The next step could be to read the file in blocks, but that changes the interface.

"""


def chat_start() -> dict[str, float]:
    """Measure from the start of the process to the first picture, and what it has used until then."""
    with _terminal([{"text": "ok"}]) as terminal:
        wall = terminal.wait_for(lambda screen: bool(screen.strip()), 30, _POLL_OFTEN) - terminal.started
        terminal.wait_for(lambda screen: "one" in screen, 30, _POLL_OFTEN)  # the model, in the footer
        return {"wall": wall, "cpu": terminal.cpu(), "memory": terminal.memory()}


def chat_stream(pieces: int) -> dict[str, float]:
    """Measure an answer in Markdown that arrives in pieces, from the prompt to its last word on the screen."""
    text = (_MARKDOWN * (pieces * PIECE // len(_MARKDOWN) + 1))[: pieces * PIECE - len(_END) - 2]
    turn = {"text": f"{text}\n\n{_END}", "chunk": PIECE, "delayMs": PAUSE_MS}
    with _terminal([turn]) as terminal:
        terminal.wait_for(lambda screen: "one" in screen, 30, _POLL)
        time.sleep(1)  # what the chat does when it is idle belongs to its start
        before = terminal.cpu()
        sent = time.perf_counter()
        terminal.type("go")
        seconds = pieces / 400
        time.sleep(0.9 * seconds)
        wall = terminal.wait_for(lambda screen: _END in screen, 4 * seconds + 30, _POLL) - sent
        return {"wall": wall, "cpu": terminal.cpu() - before, "bytes": terminal.count_written(), "memory": terminal.memory()}


_numbers = count()


class _Terminal:
    """The chat in tmux."""

    def __init__(self, root: Path, port: int) -> None:
        self._socket = f"fairlead-bench-{os.getpid()}-{next(_numbers)}"
        self._output = root / "output"
        environment, directory = surroundings(root, port)
        environment["TERM"] = "tmux-256color"
        variables = [f"{name}={value}" for name, value in environment.items()]
        program = [own()[0], "--model", "scripted/one"]
        command = shlex.join(["env", "-i", *variables, *program])
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "cat")
        self._tmux("set", "-g", "remain-on-exit", "on")
        self._tmux("pipe-pane", f"cat >{shlex.quote(str(self._output))}")
        self.started = time.perf_counter()
        self._tmux("respawn-pane", "-k", "-c", directory, f"exec {command}")
        self._pid = int(self._tmux("display-message", "-p", "#{pane_pid}"))

    def type(self, text: str) -> None:
        """Type a prompt and send it."""
        self._tmux("send-keys", "-l", text)
        self._tmux("send-keys", "Enter")

    def wait_for(self, test: Callable[[str], bool], timeout: float, poll: float) -> float:
        """Return the time at which the screen passes a test."""
        until = time.perf_counter() + timeout
        while not test(screen := self._tmux("capture-pane", "-p")):
            if time.perf_counter() > until or self._tmux("display-message", "-p", "#{pane_dead}").strip() == "1":
                raise BenchError(f"the chat did not show what was expected:\n{screen.strip()[-2000:]}")
            time.sleep(poll)
        return time.perf_counter()

    def cpu(self) -> float:
        return cpu_seconds(self._pid)

    def memory(self) -> float:
        return peak_memory(self._pid)

    def count_written(self) -> int:
        """Return how many bytes the chat has written."""
        return self._output.stat().st_size

    def close(self) -> None:
        self._tmux("kill-server")

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-L", self._socket, *words], capture_output=True, text=True, check=False)
        if done.returncode and words != ("kill-server",):
            raise BenchError(f"tmux {' '.join(words[:2])} failed: {done.stderr.strip()}")
        return done.stdout


@contextlib.contextmanager
def _terminal(turns: Sequence[Turn]) -> Generator[_Terminal]:
    if shutil.which("tmux") is None:
        raise BenchError("tmux is missing: install it with your package manager")
    with scripted_provider(turns) as port, tempfile.TemporaryDirectory(prefix="fairlead-bench-") as root:
        terminal = _Terminal(Path(root), port)
        try:
            yield terminal
        finally:
            terminal.close()
