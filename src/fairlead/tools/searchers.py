"""The two programs that can look for a pattern in files. Both are child processes: a search that takes too long is killed."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct

from fairlead.core.runtime import Cancel
from fairlead.errors import ToolError

#: Makes of a command one that cannot read what is protected.
KeepIn: TypeAlias = Callable[[Sequence[str]], list[str]]

#: Seconds that Python's `re` may take; some patterns would keep it busy for ever.
PYTHON_DEADLINE = 20.0
#: The longest line of a searcher's report that is read.
_LONGEST = 64 * 1024 * 1024


class Wanted(Struct):
    """What to look for; `limit` is the most matches of one file that are of use."""

    pattern: str
    ignore_case: bool
    literal: bool
    context: int
    limit: int
    #: Lines are wanted whole, however long they are; otherwise only what is shown of them.
    whole_lines: bool = False


class Line(Struct, array_like=True):
    """A line of a file: one that matches, or one near it."""

    number: int
    text: str
    matches: bool


class Request(Struct):
    """What the Python searcher reads from its standard input."""

    wanted: Wanted
    #: Names of files need not be Unicode.
    files: list[bytes]


class Found(Struct):
    """What the Python searcher answers for each file with matches; or, once and alone, why the pattern cannot be used."""

    path: bytes = b""
    lines: list[Line] = []
    error: str | None = None


class Searcher(Protocol):
    #: How many files are searched by one process.
    batch: int

    def search(self, wanted: Wanted, files: Sequence[str], cancel: Cancel) -> AsyncGenerator[tuple[str, list[Line]], None]:
        """The lines found, file by file in the order given; binary files are skipped. An unusable pattern is a ToolError."""
        ...


class Ripgrep:
    #: All paths are arguments, of which there can be about 2 MB; the longest path has 4 KB.
    batch = 400

    def __init__(self, program: str, env: Mapping[str, str], keep_in: KeepIn = list) -> None:
        self._program = program
        self._env = env
        self._keep_in = keep_in

    async def search(self, wanted: Wanted, files: Sequence[str], cancel: Cancel) -> AsyncGenerator[tuple[str, list[Line]], None]:
        options = ["--json", "--no-config", "--no-messages", "--no-mmap", "--crlf", "--threads=1"]
        options += [f"--max-count={wanted.limit}", f"--context={wanted.context}"]
        if wanted.ignore_case:
            options.append("--ignore-case")
        if wanted.literal:
            options.append("--fixed-strings")
        command = [self._program, *options, f"--regexp={wanted.pattern}", "--", *files]
        lines: list[Line] = []
        async with _child(self._keep_in(command), cancel, env=self._env) as child:
            async for raw in child.lines():
                event = msgspec.json.decode(raw, type=_Event)
                data = event.data
                if event.type in ("match", "context"):
                    text = data.lines.raw().decode("utf-8", "replace").rstrip("\r\n")
                    lines.append(Line(data.line_number or 0, text, event.type == "match"))
                elif event.type == "end":
                    if lines and data.binary_offset is None:
                        yield os.fsdecode(data.path.raw()), lines
                    lines = []
            problem = await child.problem()
            if not problem or cancel.fired:
                return
            # It keeps silent about files, so this is about the pattern; or it was never started, where a sandbox should have.
            if await child.process.wait() == 2:
                raise ToolError(f"The pattern cannot be used. {problem.removeprefix('rg: ')}")
            raise ToolError(f"The search failed: {problem}")


class PythonSearcher:
    batch = 20_000

    def __init__(self, keep_in: KeepIn = list) -> None:
        self._keep_in = keep_in

    async def search(self, wanted: Wanted, files: Sequence[str], cancel: Cancel) -> AsyncGenerator[tuple[str, list[Line]], None]:
        # The same modules as here, without the start-up costs and side effects of site-packages.
        code = f"import sys; sys.path[:] = {sys.path!r}; from fairlead.tools.python_grep import main; main()"
        command = [sys.executable, "-I", "-S", "-c", code]
        request = msgspec.json.encode(Request(wanted, [os.fsencode(file) for file in files]))
        decode = msgspec.json.Decoder(Found).decode
        async with _child(self._keep_in(command), cancel, stdin=request, deadline=PYTHON_DEADLINE) as child:
            async for raw in child.lines():
                found = decode(raw)
                if found.error is not None:
                    raise ToolError(f"The pattern cannot be used. {found.error}")
                yield os.fsdecode(found.path), found.lines
            if child.late:
                raise ToolError(
                    f"The search was stopped after {PYTHON_DEADLINE:g} seconds."
                    " Use a simpler pattern, a narrower path, or install ripgrep."
                )
            if await child.process.wait() != 0 and not cancel.fired:
                raise ToolError(f"The search failed: {await child.problem()}")


class _Text(Struct):
    """Text in ripgrep's report: as it is, or in base64 if it is not UTF-8."""

    text: str | None = None
    bytes: str | None = None

    def raw(self) -> builtins.bytes:
        return self.text.encode() if self.text is not None else b64decode(self.bytes or "")


class _Data(Struct):
    path: _Text = msgspec.field(default_factory=_Text)
    lines: _Text = msgspec.field(default_factory=_Text)
    line_number: int | None = None
    binary_offset: int | None = None


class _Event(Struct):
    type: str
    data: _Data


class _Child:
    """A running searcher."""

    def __init__(self, process: Process, stdin: bytes | None) -> None:
        assert process.stderr is not None
        self.process = process
        #: It was killed at its deadline.
        self.late = False
        self._errors = asyncio.create_task(process.stderr.read())
        self._feeding = asyncio.create_task(self._feed(stdin))

    async def lines(self) -> AsyncGenerator[bytes, None]:
        assert self.process.stdout is not None
        try:
            # A line without an end is what a searcher was writing when it was killed.
            while (line := await self.process.stdout.readline()).endswith(b"\n"):
                yield line
        except ValueError:
            raise ToolError(f"A line that matches is longer than {_LONGEST} bytes. Search in the shell instead.") from None

    async def problem(self) -> str:
        """What it said on stderr."""
        return (await self._errors).decode("utf-8", "replace").strip()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    def kill_late(self) -> None:
        self.late = True
        self.kill()

    async def end(self) -> None:
        self.kill()
        await asyncio.gather(self._feeding, self._errors, return_exceptions=True)
        await self.process.wait()

    async def _feed(self, data: bytes | None) -> None:
        if self.process.stdin is not None and data is not None:
            with contextlib.suppress(ConnectionError):
                self.process.stdin.write(data)
                await self.process.stdin.drain()
            self.process.stdin.close()


@contextlib.asynccontextmanager
async def _child(
    command: Sequence[str],
    cancel: Cancel,
    *,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    deadline: float | None = None,
) -> AsyncGenerator[_Child, None]:
    """A child process that does not outlive the block, nor `deadline` seconds, nor the run."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL if stdin is None else PIPE, stdout=PIPE, stderr=PIPE, env=env, limit=_LONGEST
        )
    except OSError as error:
        raise ToolError(f"{command[0]} could not be started: {error.strerror}.") from error
    child = _Child(process, stdin)
    take_back = cancel.on_fire(child.kill)
    timer = None if deadline is None else asyncio.get_running_loop().call_later(deadline, child.kill_late)
    try:
        yield child
    finally:
        take_back()
        if timer is not None:
            timer.cancel()
        await child.end()
