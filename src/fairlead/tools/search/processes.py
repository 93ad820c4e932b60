"""The processes that search: ripgrep, or Python's own searcher. None of them outlives its search."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
from asyncio.subprocess import DEVNULL, PIPE, Process
from base64 import b64decode
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

import msgspec
from msgspec import Struct

from fairlead.core.runtime import CancelToken
from fairlead.errors import ToolError
from fairlead.platform.process import child_guard

#: The longest line of a searcher's report that is read.
_LONGEST = 64 * 1024 * 1024
_BLOCK = 64 * 1024
#: Seconds in which a searcher ends that has closed its output.
_MOMENT = 1.0


class ReportedLine(Struct, array_like=True):
    """A line as ripgrep reports it: where it begins in the file, and its bytes with what ends it."""

    number: int
    offset: int
    raw: bytes
    matches: bool


class ReportedFile(Struct):
    """What ripgrep reports of a file with matches."""

    path: bytes
    lines: list[ReportedLine]


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
    absolute_offset: int = 0
    binary_offset: int | None = None


class _Event(Struct):
    """A line of ripgrep's report."""

    type: str
    data: _Data


class SearchProcess:
    """A running searcher."""

    def __init__(self, process: Process, stdin: bytes | None) -> None:
        assert process.stderr is not None
        self.process = process
        #: It was killed at its deadline.
        self.late = False
        self._errors = asyncio.create_task(process.stderr.read())
        self._feeding = asyncio.create_task(self._feed(stdin))

    async def report(self) -> AsyncGenerator[ReportedFile, None]:
        """Yield what ripgrep says of files with matches, without binary ones. Raises ToolError if a line is too long."""
        decode = msgspec.json.Decoder(_Event).decode
        lines: list[ReportedLine] = []
        async with aclosing(self.lines()) as printed:
            async for line in printed:
                event = decode(line)
                data = event.data
                if event.type in ("match", "context"):
                    number, raw = data.line_number or 0, data.lines.raw()
                    lines.append(ReportedLine(number, data.absolute_offset, raw, event.type == "match"))
                elif event.type == "end":
                    if lines and data.binary_offset is None:
                        yield ReportedFile(data.path.raw(), lines)
                    lines = []

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Yield the lines of the output. Raises ToolError if one is too long."""
        parts: list[bytes] = []
        size = 0
        async with aclosing(self.blocks()) as blocks:
            async for block in blocks:
                first, *lines = block.split(b"\n")
                parts.append(first)
                size += len(first)
                if size > _LONGEST:
                    raise ToolError(f"A line that matches is longer than {_LONGEST} bytes. Search in the shell instead.")
                if lines:
                    yield b"".join(parts)
                    parts = [lines.pop()]
                    size = len(parts[0])
                for line in lines:
                    yield line
        # A line without an end is what a searcher was writing when it was killed.

    async def blocks(self) -> AsyncGenerator[bytes, None]:
        """Yield the output, in pieces of any length."""
        assert self.process.stdout is not None
        while block := await self.process.stdout.read(_BLOCK):
            yield block

    async def problem(self) -> str:
        """Return what it said on stderr."""
        return (await self._errors).decode("utf-8", "replace").strip()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    def kill_late(self) -> None:
        self.late = True
        self.kill()

    async def end(self) -> None:
        assert self.process.stdout is not None
        if self.process.stdout.at_eof():  # it ends by itself, and to kill it meanwhile could take its exit code
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_MOMENT):
                    await self.process.wait()
        if self.process.returncode is None:
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
async def search_process(
    command: Sequence[str],
    cancel: CancelToken,
    *,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    deadline: float | None = None,
    pass_fds: Sequence[int] = (),
    cwd: Path | None = None,
) -> AsyncGenerator[SearchProcess, None]:
    """A child process that does not outlive the block, nor `deadline` seconds, nor the run."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=DEVNULL if stdin is None else PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=env,
            pass_fds=pass_fds,
            cwd=cwd,
        )
    except OSError as error:
        raise ToolError(f"{command[0]} could not be started: {error.strerror}.") from error
    child_guard.add(process.pid, is_group=False)
    child = SearchProcess(process, stdin)
    take_back = cancel.on_fire(child.kill)
    timer = None if deadline is None else asyncio.get_running_loop().call_later(deadline, child.kill_late)
    try:
        yield child
    finally:
        take_back()
        if timer is not None:
            timer.cancel()
        await child.end()
        child_guard.remove(process.pid)
