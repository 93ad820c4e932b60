"""Count how far a reader jumps to follow a warm prompt with one call of `bash`, from its arrival to the settled run.

    python -m bench.jumps

It prints how many functions of fairlead are called on the thread of the event loop, in how many files, and how often a call is in
another package than the call before it: in all, and before the first request leaves. The provider of `bench.stepping` makes every
run the same.
"""

from __future__ import annotations

import runpy
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

#: The call with which a request leaves.
_SENDS = ("models/http/http_connection.py", "HttpConnection.send")
#: Parts of a function that Python runs as functions.
_PARTS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")
_SECONDS = 60


class Jumps(NamedTuple):
    """What one prompt takes."""

    functions: int
    files: int
    switches: int
    switches_before_request: int


def count_jumps(calls: Sequence[tuple[str, str]]) -> Jumps:
    """Count what calls take, each with its file below `fairlead` and its qualified name."""
    packages = [file.partition("/")[0] for file, _ in calls]
    switches = [place for place in range(1, len(calls)) if packages[place] != packages[place - 1]]
    request = calls.index(_SENDS)
    before = sum(place <= request for place in switches)
    return Jumps(len(set(calls)), len({file for file, _ in calls}), len(switches), before)


def main() -> None:
    from bench.contestants import Turn, own
    from bench.stepping import stepping

    turns: list[Turn] = [{"toolCalls": [{"name": "bash", "arguments": {"command": "true"}}]}, {"text": "ok"}]
    with tempfile.TemporaryDirectory(prefix="fairlead-jumps-") as folder:
        trace = Path(folder, "trace")
        with stepping([sys.executable, str(Path(__file__)), str(trace), *own()], _SECONDS) as stepper:
            stepper.start()
            for _ in range(2):
                stepper.prompt(turns)
            warm = len(trace.read_text().splitlines())
            stepper.prompt(turns)
            lines = trace.read_text().splitlines()[warm:]
            stepper.agent.finish(_SECONDS)
    calls = [(file, name) for file, _, name in (line.partition("\t") for line in lines)]
    jumps = count_jumps([call for call in calls if not call[1].endswith(_PARTS)])
    print(
        f"A warm prompt with one call of bash: {jumps.functions} functions in {jumps.files} files, "
        f"{jumps.switches} switches between packages, {jumps.switches_before_request} of them before the request leaves"
    )


def _trace(file: Path, program: Sequence[str]) -> None:
    """Run a program, and write down each call of a function of fairlead on its main thread."""
    with file.open("w", buffering=1) as trace:

        def note(frame: FrameType, event: str, argument: object) -> None:
            _, found, path = frame.f_code.co_filename.rpartition("/src/fairlead/")
            if event == "call" and found:
                trace.write(f"{path}\t{frame.f_code.co_qualname}\n")

        sys.argv = list(program)
        sys.setprofile(note)
        runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _trace(Path(sys.argv[1]), sys.argv[2:])
    else:
        main()
