"""Searches files for a pattern with one of two child processes, ripgrep or Python. One that takes too long is killed."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from itertools import groupby
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct

from fairlead.core.runtime import CancelToken
from fairlead.errors import ToolError
from fairlead.platform.open_files import READ, opened_folder
from fairlead.tools.search.processes import ReportedLine, SearchProcess, search_process
from fairlead.tools.workspace import Confinement

#: What ripgrep has said of files before, by their names.
Reported: TypeAlias = Mapping[tuple[str, ...], Sequence[ReportedLine]]
NOTHING: Reported = {}
#: Returns what keeps a program away from protected files.
Confine: TypeAlias = Callable[[], Confinement]

#: Seconds that Python's `re` may take; with some patterns it would never end.
PYTHON_DEADLINE = 20.0
#: Bytes of a file that are read here, to see whether it has the lines that were reported.
_MOST_CONFIRMED = 1024 * 1024
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
        self, wanted: Wanted, folder: Path, files: Sequence[tuple[str, ...]], cancel: CancelToken, reported: Reported = NOTHING
    ) -> AsyncGenerator[list[SearchMatch], None]:
        """Yield what is found in files of a folder, in the order given, one or several at a time.

        `folder` is a real path, and the files are names from there on; a file that is, or is behind, a link is not read. Binary
        files are skipped. A file need not be searched if it has the lines that are `reported`. Raises ToolError if the pattern
        cannot be used.
        """
        ...


class Ripgrep:
    """Searches with ripgrep. It gets open files: a name may become a link, which ripgrep would follow."""

    def __init__(self, program: str, env: Mapping[str, str], confine: Confine) -> None:
        import resource  # noqa: PLC0415  POSIX only

        self.program = program
        self.env = env
        self._confine = confine
        # Other work of this process needs open files too, such as searches at the same time.
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.batch = 400 if limit == resource.RLIM_INFINITY else max(16, min(400, limit // 8))

    @staticmethod
    def is_usable() -> bool:
        """Return whether open files have paths on this system, which can be passed to another program."""
        return Path(OPEN_FILES).is_dir()

    async def search(
        self, wanted: Wanted, folder: Path, files: Sequence[tuple[str, ...]], cancel: CancelToken, reported: Reported = NOTHING
    ) -> AsyncGenerator[list[SearchMatch], None]:
        opened = _OpenedFiles(reported)
        opening = asyncio.create_task(asyncio.to_thread(opened.open, folder, files))
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(opened.close_after)
            raise
        try:
            if opened.by_path:
                async with aclosing(self._search(wanted, opened, cancel)) as found:
                    async for matches in found:
                        yield matches
            if rest := opened.take_confirmed(None):
                yield rest
        finally:
            opened.close()

    async def _search(self, wanted: Wanted, opened: _OpenedFiles, cancel: CancelToken) -> AsyncGenerator[list[SearchMatch], None]:
        command = [self.program, "--threads=1", *ripgrep_report(wanted), "--", *opened.by_path]
        with self._confine() as confinement:
            command = await asyncio.to_thread(confinement.words, command)
            passed = [*opened.numbers, *confinement.files]
            async with search_process(command, cancel, env=self.env, pass_fds=passed) as child:
                async with aclosing(child.report()) as files:
                    async for file in files:
                        index, names, status = opened.by_path[os.fsdecode(file.path)]
                        found = SearchMatch(names, _list_shown(file.lines), status)
                        yield [*opened.take_confirmed(index), found]
                await check_ripgrep(child, cancel)


def ripgrep_report(wanted: Wanted) -> list[str]:
    """Return the options that make ripgrep look for a pattern and report what `SearchProcess.report` reads."""
    return ["--json", f"--max-count={wanted.limit}", f"--context={wanted.context}", *ripgrep_pattern(wanted)]


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

    def __init__(self, confine: Confine) -> None:
        self._confine = confine

    async def search(
        self, wanted: Wanted, folder: Path, files: Sequence[tuple[str, ...]], cancel: CancelToken, reported: Reported = NOTHING
    ) -> AsyncGenerator[list[SearchMatch], None]:
        # The same modules as here, without the start-up costs and side effects of site-packages.
        code = f"import sys; sys.path[:] = {sys.path!r}; from fairlead.tools.search.python_grep import main; main()"
        command = [sys.executable, "-I", "-S", "-c", code]
        request = msgspec.json.encode(
            SearchRequest(wanted, os.fsencode(folder), [[os.fsencode(name) for name in names] for names in files])
        )
        decode = msgspec.json.Decoder(Found).decode
        with self._confine() as confinement:
            command = await asyncio.to_thread(confinement.words, command)
            searching = search_process(command, cancel, stdin=request, deadline=PYTHON_DEADLINE, pass_fds=confinement.files)
            async with searching as child:
                async for raw in child.lines():
                    found = decode(raw)
                    if found.error is not None:
                        raise ToolError(f"The pattern cannot be used. {found.error}")
                    yield [SearchMatch(files[found.index], found.lines, os.stat_result(found.file))]
                if child.late:
                    raise ToolError(
                        f"The search was stopped after {PYTHON_DEADLINE:g} seconds."
                        " Use a simpler pattern, a narrower path, or install ripgrep."
                    )
                if await child.process.wait() != 0 and not cancel.fired:
                    raise ToolError(f"The search failed: {await child.problem()}")


class _OpenedFiles:
    """Files that are open for ripgrep, except those that have the lines that it has `reported` already."""

    def __init__(self, reported: Reported) -> None:
        self._reported = reported
        #: The paths that ripgrep gets: the position of each file in the search, its names, and its status.
        self.by_path: dict[str, tuple[int, tuple[str, ...], os.stat_result]] = {}
        self.numbers: list[int] = []
        self._confirmed: deque[tuple[int, SearchMatch]] = deque()

    def open(self, folder: Path, files: Sequence[tuple[str, ...]]) -> None:
        """Open files of a folder. Leaves out those that do not exist or cannot be read, and whatever is behind a link.

        Raises ToolError if too many files are open.
        """
        try:
            for inner, together in groupby(enumerate(files), key=lambda each: each[1][:-1]):
                try:
                    with opened_folder(folder.joinpath(*inner)) as base:
                        for index, names in together:
                            self._open_in(base, index, names)
                except OSError as error:  # the folder is gone, or has become a link
                    if error.errno in (errno.EMFILE, errno.ENFILE):
                        raise ToolError(f"The search failed: {os.strerror(error.errno).lower()}.") from error
        except BaseException:
            self.close()
            raise

    def _open_in(self, base: int, index: int, names: tuple[str, ...]) -> None:
        try:
            number = os.open(names[-1], READ, dir_fd=base)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            return
        self.numbers.append(number)
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            return
        lines = self._reported.get(names)
        if lines and _has_lines(number, lines):
            os.close(self.numbers.pop())
            self._confirmed.append((index, SearchMatch(names, _list_shown(lines), status)))
        else:
            self.by_path[f"{OPEN_FILES}/{number}"] = index, names, status

    def take_confirmed(self, index: int | None) -> list[SearchMatch]:
        """Return what is found in the files before this position that need not be searched, each once; without one, in all."""
        found: list[SearchMatch] = []
        while self._confirmed and (index is None or self._confirmed[0][0] < index):
            found.append(self._confirmed.popleft()[1])
        return found

    def close_after(self, opening: asyncio.Task[None]) -> None:
        """Close the files of a search that was cancelled."""
        if not opening.cancelled() and opening.exception() is None:
            self.close()

    def close(self) -> None:
        for number in self.numbers:
            os.close(number)
        self.numbers.clear()


def _has_lines(number: int, lines: Sequence[ReportedLine]) -> bool:
    """Return whether an open file has lines with these numbers and bytes. False if they are too far into it to be read here."""
    end = lines[-1].offset + len(lines[-1].raw)
    if end > _MOST_CONFIRMED:
        return False
    data = os.pread(number, end, 0)
    at, count = 0, 1
    for line in lines:
        count += data.count(b"\n", at, line.offset)
        at = line.offset
        if count != line.number or not data.startswith(line.raw, at):
            return False
    return True


def _list_shown(lines: Sequence[ReportedLine]) -> list[Line]:
    return [Line(line.number, line.raw.decode("utf-8", "replace").rstrip("\r\n"), line.matches) for line in lines]
