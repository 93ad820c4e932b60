"""Searches files for a pattern with one of two child processes, ripgrep or Python. One that takes too long is killed."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import errno
import os
import stat
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from itertools import groupby
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct

from fairlead.config.child_guard import child_guard
from fairlead.config.open_files import READ, opened_folder
from fairlead.core.runtime import CancelToken
from fairlead.errors import ToolError

#: Open files by the paths that ripgrep gets: the names that lead to each from the folder searched, and its status.
Opened: TypeAlias = dict[str, tuple[tuple[str, ...], os.stat_result]]
#: Wraps a command so that it cannot read protected files. It may look through many files, so it is called in a thread.
KeepIn: TypeAlias = Callable[[Sequence[str]], list[str]]

#: Seconds that Python's `re` may take; with some patterns it would never end.
PYTHON_DEADLINE = 20.0
#: The longest line of a searcher's report that is read.
_LONGEST = 64 * 1024 * 1024
_BLOCK = 64 * 1024
#: Seconds in which a searcher ends that has closed its output.
_MOMENT = 1.0
#: Where open files have paths.
OPEN_FILES = "/proc/self/fd" if sys.platform.startswith("linux") else "/dev/fd"


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


class SearchRequest(Struct):
    """What the Python searcher reads from its standard input: files in a folder, as names from there on."""

    wanted: Wanted
    #: Names of files need not be Unicode.
    folder: bytes
    files: list[list[bytes]]


class Found(Struct):
    """What the Python searcher answers for each file with matches; or, once and alone, why the pattern cannot be used."""

    #: Which file of the request it is.
    index: int = 0
    lines: list[Line] = []
    #: What `os.fstat` said of the file: its first ten fields.
    file: list[int] = []
    error: str | None = None


class SearchMatch(Struct):
    """The lines found in one file. `file` tells which file was read, whatever its name leads to by now."""

    names: tuple[str, ...]
    lines: list[Line]
    file: os.stat_result


class Searcher(Protocol):
    #: How many files are searched by one process.
    batch: int

    def search(
        self, wanted: Wanted, folder: Path, files: Sequence[tuple[str, ...]], cancel: CancelToken
    ) -> AsyncGenerator[SearchMatch, None]:
        """Yield what is found in files of a folder, in the order given.

        `folder` is a real path, and the files are names from there on; a file that is, or is behind, a link is not read. Binary
        files are skipped. Raises ToolError if the pattern cannot be used.
        """
        ...


class Ripgrep:
    """Searches with ripgrep. It gets open files: a name may become a link, which ripgrep would follow."""

    def __init__(self, program: str, env: Mapping[str, str], keep_in: KeepIn = list) -> None:
        import resource

        self.program = program
        self.env = env
        self._keep_in = keep_in
        # Other work of this process needs open files too, such as searches at the same time.
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.batch = 400 if limit == resource.RLIM_INFINITY else max(16, min(400, limit // 8))

    @staticmethod
    def is_usable() -> bool:
        """Return whether open files have paths on this system, which can be passed to another program."""
        return Path(OPEN_FILES).is_dir()

    async def search(
        self, wanted: Wanted, folder: Path, files: Sequence[tuple[str, ...]], cancel: CancelToken
    ) -> AsyncGenerator[SearchMatch, None]:
        opened: Opened = {}
        opening = asyncio.create_task(asyncio.to_thread(_open_all, folder, files, opened))
        try:
            numbers = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_opened)
            raise
        try:
            if opened:
                async with aclosing(self._search(wanted, opened, numbers, cancel)) as found:
                    async for match in found:
                        yield match
        finally:
            _close_all(numbers)

    async def _search(
        self, wanted: Wanted, opened: Opened, numbers: list[int], cancel: CancelToken
    ) -> AsyncGenerator[SearchMatch, None]:
        options = ["--json", "--threads=1", f"--max-count={wanted.limit}", f"--context={wanted.context}"]
        command = [self.program, *options, *ripgrep_pattern(wanted), "--", *opened]
        lines: list[Line] = []
        command = await asyncio.to_thread(self._keep_in, command)
        async with search_process(command, cancel, env=self.env, pass_fds=numbers) as child:
            async for raw in child.lines():
                event = msgspec.json.decode(raw, type=RipgrepEvent)
                data = event.data
                if event.type in ("match", "context"):
                    text = data.lines.raw().decode("utf-8", "replace").rstrip("\r\n")
                    lines.append(Line(data.line_number or 0, text, event.type == "match"))
                elif event.type == "end":
                    if lines and data.binary_offset is None:
                        names, file = opened[os.fsdecode(data.path.raw())]
                        yield SearchMatch(names, lines, file)
                    lines = []
            await check_ripgrep(child, cancel)


def ripgrep_pattern(wanted: Wanted) -> list[str]:
    """Return the options that make ripgrep look for a pattern. The user's ripgrep configuration is not read."""
    options = ["--no-config", "--no-messages", "--no-mmap", "--crlf"]
    if wanted.ignore_case:
        options.append("--ignore-case")
    if wanted.literal:
        options.append("--fixed-strings")
    return [*options, f"--regexp={wanted.pattern}"]


async def check_ripgrep(process: SearchProcess, cancel: CancelToken) -> None:
    """Raise ToolError if ripgrep has failed. Call this after reading its output to the end."""
    problem = await process.problem()
    if not problem or cancel.fired:
        return
    # It keeps silent about files, so this is about the pattern; or a sandbox could not start it.
    if await process.process.wait() == 2:
        raise ToolError(f"The pattern cannot be used. {problem.removeprefix('rg: ')}")
    raise ToolError(f"The search failed: {problem}")


class PythonSearcher:
    batch = 20_000

    def __init__(self, keep_in: KeepIn = list) -> None:
        self._keep_in = keep_in

    async def search(
        self, wanted: Wanted, folder: Path, files: Sequence[tuple[str, ...]], cancel: CancelToken
    ) -> AsyncGenerator[SearchMatch, None]:
        # The same modules as here, without the start-up costs and side effects of site-packages.
        code = f"import sys; sys.path[:] = {sys.path!r}; from fairlead.tools.search.python_grep import main; main()"
        command = [sys.executable, "-I", "-S", "-c", code]
        request = msgspec.json.encode(
            SearchRequest(wanted, os.fsencode(folder), [[os.fsencode(name) for name in names] for names in files])
        )
        decode = msgspec.json.Decoder(Found).decode
        command = await asyncio.to_thread(self._keep_in, command)
        async with search_process(command, cancel, stdin=request, deadline=PYTHON_DEADLINE) as child:
            async for raw in child.lines():
                found = decode(raw)
                if found.error is not None:
                    raise ToolError(f"The pattern cannot be used. {found.error}")
                yield SearchMatch(files[found.index], found.lines, os.stat_result(found.file))
            if child.late:
                raise ToolError(
                    f"The search was stopped after {PYTHON_DEADLINE:g} seconds."
                    " Use a simpler pattern, a narrower path, or install ripgrep."
                )
            if await child.process.wait() != 0 and not cancel.fired:
                raise ToolError(f"The search failed: {await child.problem()}")


def _open_all(folder: Path, files: Sequence[tuple[str, ...]], opened: Opened) -> list[int]:
    """Open files for another program and add them to `opened`, by the paths that the program gets.

    Returns their descriptors. Leaves out files that do not exist or cannot be read. Raises ToolError if too many files are open.
    """
    numbers: list[int] = []
    try:
        for inner, together in groupby(files, key=lambda names: names[:-1]):
            try:
                with opened_folder(folder.joinpath(*inner)) as base:
                    for names in together:
                        _open_into(opened, numbers, base, names)
            except OSError as error:  # the folder is gone, or has become a link
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise ToolError(f"The search failed: {os.strerror(error.errno).lower()}.") from error
    except BaseException:
        _close_all(numbers)
        raise
    return numbers


def _close_opened(opening: asyncio.Task[list[int]]) -> None:
    """Close the files of a search that was cancelled."""
    if not opening.cancelled() and opening.exception() is None:
        _close_all(opening.result())


def _close_all(numbers: Sequence[int]) -> None:
    for number in numbers:
        os.close(number)


def _open_into(opened: Opened, numbers: list[int], base: int, names: tuple[str, ...]) -> None:
    try:
        number = os.open(names[-1], READ, dir_fd=base)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return
    numbers.append(number)
    found = os.fstat(number)
    if stat.S_ISREG(found.st_mode):
        opened[f"{OPEN_FILES}/{number}"] = names, found


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


class RipgrepEvent(Struct):
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

    async def lines(self, pause: float = 0) -> AsyncGenerator[bytes, None]:
        """Yield the lines of the output. Raises ToolError if one is too long. For `pause`, see `blocks`."""
        parts: list[bytes] = []
        size = 0
        async with aclosing(self.blocks(pause)) as blocks:
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

    async def blocks(self, pause: float = 0) -> AsyncGenerator[bytes, None]:
        """Yield the output, in pieces of any length. With `pause`, wait so many seconds between them, so that they are few."""
        assert self.process.stdout is not None
        while block := await self.process.stdout.read(_BLOCK):
            yield block
            if pause:
                await asyncio.sleep(pause)

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
