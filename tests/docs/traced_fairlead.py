"""Runs fairlead and writes down every call of one of its functions.

    python traced_fairlead.py TRACE [FLAG...]

TRACE becomes one line per call, in the order of the calls: the thread, the file, the qualified name, and the class of the
argument named `event` or a dash, separated by tabs. A line is written before the function does anything, so that the order
holds between threads that wait for each other. A coroutine gets a line whenever it starts or resumes.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType


class Tracer:
    """A profile function. `folder` has the files whose functions count."""

    def __init__(self, trace: int, folder: Path) -> None:
        self._trace = trace
        self._folder = folder
        self._lines: dict[CodeType, str | None] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in self._lines:
            self._lines[code] = self._line(code)
        line = self._lines[code]
        if line is None:
            return
        event_class = type(frame.f_locals["event"]).__name__ if "event" in code.co_varnames[: code.co_argcount] else "-"
        os.write(self._trace, f"{threading.current_thread().name}\t{line}\t{event_class}\n".encode())

    def _line(self, code: CodeType) -> str | None:
        file = Path(code.co_filename)
        if not file.is_relative_to(self._folder):
            return None
        return f"{file.relative_to(self._folder).as_posix()}\t{code.co_qualname}"


def main() -> int:
    import fairlead
    from fairlead.cli.start import main as start

    trace = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    tracer = Tracer(trace, Path(fairlead.__file__).parent)
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    return start()


if __name__ == "__main__":
    raise SystemExit(main())
