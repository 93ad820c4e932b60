"""Searches the contents of files: lines that match, found by ripgrep if it is installed and by Python's `re` otherwise.

Both search the same files in the same order. Only the syntax of regular expressions differs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import compress
from pathlib import Path
from typing import Protocol, TypeAlias

from fairlead.core.runtime import CancelToken
from fairlead.errors import ToolError
from fairlead.tools.background import Stop
from fairlead.tools.files.targets import Guard, Target, open_regular, stat_target
from fairlead.tools.search import walk
from fairlead.tools.search.globs import chooser
from fairlead.tools.search.ripgrep_walk import Parts, RipgrepWalk
from fairlead.tools.search.searchers import NOTHING, Line, PythonSearcher, Reported, Ripgrep, Searcher, SearchMatch, Wanted
from fairlead.tools.workspace import Workspace

_log = logging.getLogger("fairlead.tools")

#: Files to search, and what ripgrep has said of some of them.
_Batch: TypeAlias = tuple[list[Parts], Reported]

#: Entries of a tree that are walked over before ripgrep walks over all of them. A smaller tree needs only one process.
WALKED_FIRST = 200


class Report(Protocol):
    """Collects what is found until it is full."""

    full: bool

    def add(self, path: str, lines: Sequence[Line]) -> None:
        """Add the lines found in one file."""
        ...


async def search(
    workspace: Workspace,
    root: Target,
    wanted: Wanted,
    glob: str,
    report: Report,
    cancel: CancelToken,
    *,
    respect_ignored: bool = True,
) -> None:
    """Look for `wanted` in the file or folder `root` until the `report` is full. Raises ToolError."""
    searcher, guard = _searcher(workspace), None if workspace.guard is None else _ReadGuard(workspace.guard)
    stop = Stop()
    take_back = cancel.on_fire(stop.ask)
    try:
        stop.check()
        is_file = await asyncio.to_thread(_is_file, workspace, root)
        folder = root.real.parent if is_file else root.real
        tree = _Tree(workspace, root.real, glob, stop, respect_ignored)
        async with aclosing(_one_file(root) if is_file else tree.batches(searcher, wanted, cancel)) as batches:
            async for names, reported in batches:
                stop.check()
                async with aclosing(searcher.search(wanted, folder, names, cancel, reported)) as found:
                    async for matches in found:
                        if guard is not None:
                            matches = await guard.readable(folder, matches)
                        for match in matches:
                            named = str(root.named)
                            report.add(named if is_file else os.path.join(named, *match.names), match.lines)  # noqa: PTH118
                            if report.full:
                                return
        stop.check()
    finally:
        take_back()
        stop.ask()


def _searcher(workspace: Workspace) -> Searcher:
    beside = Path(sys.executable).with_name("rg")
    program = workspace.which("rg") or (str(beside) if os.access(beside, os.X_OK) else None)
    if program is None or not Ripgrep.is_usable():
        return PythonSearcher(workspace.confinement)
    return Ripgrep(program, workspace.env, workspace.confinement)


class _ReadGuard:
    """Says which of the files that were found may be read."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._was_asked = False

    async def readable(self, folder: Path, found: list[SearchMatch]) -> list[SearchMatch]:
        """Return what was found in the files that may be read."""
        # In a thread, if it may take long: the first time, and for a file with hard links, which may be in many folders.
        if self._was_asked and all(match.file.st_nlink == 1 for match in found):
            return self._readable(folder, found)
        self._was_asked = True
        return await asyncio.to_thread(self._readable, folder, found)

    def _readable(self, folder: Path, found: list[SearchMatch]) -> list[SearchMatch]:
        files = [(os.path.join(folder, *match.names), match.file) for match in found]  # noqa: PTH118 (many)
        return list(compress(found, self._guard.readable(files)))


def _is_file(workspace: Workspace, root: Target) -> bool:
    """Return whether `root` is a file and not a folder. Raises ToolError if it must not be read, or if it is neither."""
    there = stat_target(root)
    if there is None:
        raise ToolError(f"Path not found: {root.named}")
    if stat.S_ISREG(there.st_mode):
        if workspace.guard is not None:
            os.close(open_regular(root, workspace.guard))  # a file that is asked for by name is refused, not passed over
        return True
    if not stat.S_ISDIR(there.st_mode):
        raise ToolError(f"{root.named} is neither a file nor a directory.")
    return False


async def _one_file(root: Target) -> AsyncGenerator[_Batch, None]:
    yield [(root.real.name,)], NOTHING


class _Tree:
    """The files to search in a folder, in order."""

    def __init__(self, workspace: Workspace, root: Path, glob: str, stop: Stop, respect_ignored: bool) -> None:
        self._workspace = workspace
        self._root = root
        self._glob = glob
        self._respect_ignored = respect_ignored
        self._is_chosen = chooser(glob)
        self._entries = walk.walk(root, workspace.cwd, stop, respect_ignored=respect_ignored)
        #: The last entry that was walked over; None at the end.
        self._last: Parts | None = ()

    async def batches(self, searcher: Searcher, wanted: Wanted, cancel: CancelToken) -> AsyncGenerator[_Batch, None]:
        """Yield lists of files, each for one process at most.

        The files of a small tree come from our own walk. In a larger one, ripgrep walks the whole tree, much faster, and names
        the files that match.
        """
        size = searcher.batch
        first = await asyncio.to_thread(self._walk_on, size, WALKED_FIRST) if WALKED_FIRST else []
        after: Parts = ()
        if self._last is not None and isinstance(searcher, Ripgrep):
            ripgrep = RipgrepWalk(searcher, self._workspace, self._root, wanted, self._glob, cancel)
            found = await ripgrep.first_matching(respect_ignored=self._respect_ignored)
            while found is not None:
                for at in range(0, len(found.files), size):
                    yield found.files[at : at + size], found.reported
                if found.complete:
                    return
                after = found.files[-1] if found.files else after
                found = await ripgrep.matching(after)
            _log.debug("ripgrep cannot apply the ignore rules of %s; the slower walk continues", self._root)
        yield [names for names in first if names > after], NOTHING
        while self._last is not None:
            files = await asyncio.to_thread(self._walk_on, size)
            yield [names for names in files if names > after], NOTHING

    def _walk_on(self, files: int, entries: int | None = None) -> list[Parts]:
        """Return the next files, as many as are wanted, among the next entries."""
        found: list[Parts] = []
        for count, entry in enumerate(self._entries, 1):
            self._last = entry.parts
            if entry.is_file and self._is_chosen(entry.parts):
                found.append(entry.parts)
            if len(found) == files or count == entries:
                return found
        self._last = None
        return found


def first_matches(lines: Sequence[Line], room: int, context: int) -> tuple[Sequence[Line], int]:
    """Return the lines of a file up to its `room`th match, with the `context` after that; and how many matches there are."""
    matching = [line.number for line in lines if line.matches]
    if len(matching) <= room:
        return lines, len(matching)
    last = matching[room - 1] if room else 0
    kept = [line for line in lines if line.number <= last or (room and line.number <= last + context and not line.matches)]
    return kept, len(matching)
