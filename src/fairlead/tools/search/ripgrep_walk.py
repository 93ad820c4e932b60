"""Finds the files of a tree that match, with the walk and all threads of ripgrep.

Only names are taken from ripgrep here. What is shown of a file is read by descriptor afterwards (`searchers.Ripgrep`), so a
name that has become a link, or that belongs to a protected file, shows nothing. ripgrep reads no .gitignore by itself either:
a named pipe would block it, and a link could lead anywhere. It gets the rules that we have read.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec
from msgspec import Struct

from fairlead.core.runtime import CancelToken
from fairlead.tools.search.globs import alternatives, chooser
from fairlead.tools.search.searchers import (
    OPEN_FILES,
    Ripgrep,
    RipgrepEvent,
    SearchProcess,
    Wanted,
    check_ripgrep,
    ripgrep_pattern,
    search_process,
)
from fairlead.tools.search.walk import TreeRules, marks_of, rules_above
from fairlead.tools.workspace import Workspace

#: The names that lead to a file from the folder searched.
Parts: TypeAlias = tuple[str, ...]

#: What is never searched, at any depth and at the root of the file system.
_NEVER = ["--glob=!.git"]
_NEVER_AT_ROOT = ["--glob=!/proc", "--glob=!/sys", "--glob=!/dev"]
#: What tells which rules apply. Of a `.git`, only whether it has a HEAD.
_MARKS = ["--glob=.gitignore", "--glob=.git", "--glob=**/.git/HEAD", "--glob=!**/.git/*/"]
#: Folders with a .gitignore or a .git, and rules in them; more are left to the slower walk.
_MOST_MARKED = 20_000
_MOST_RULES = 2_000
#: What makes ripgrep walk in order and name a file as soon as it matches. Only lines of a report are printed at once.
_IN_ORDER = ["--sort=path", "--json", "--line-buffered", "--max-count=1"]
#: How the report of a file with matches begins.
_BEGINNING = b'{"type":"begin"'
#: Seconds between two looks at what it has named.
_PAUSE = 0.003
#: Seconds for which ripgrep walks with one thread, before it walks with all of them.
SOON = 0.2
#: Names that are held at once. Past twice as many, only the first ones are kept.
MOST_NAMES = 10_000
#: Parts of names that would lead out of the tree. ripgrep prints none.
_NOT_BELOW = frozenset(("", ".", ".."))
#: Globs for names that ripgrep reads as we do.
_PLAIN_GLOB = re.compile(r"[\w.*?-]+")


class Candidates(Struct):
    """Files that match, in the order of a walk. There are others after the last one unless `complete`."""

    files: list[Parts]
    complete: bool


class _Rules(Struct):
    """Which files are ignored, for us and as a text for ripgrep."""

    tree: TreeRules | None
    text: str

    def ignore(self, name: Parts) -> bool:
        return self.tree is not None and self.tree.ignores_file(name)


class RipgrepWalk:
    """Looks for `wanted` in the files below the real path `root`. `glob` chooses among them."""

    def __init__(
        self, ripgrep: Ripgrep, workspace: Workspace, root: Path, wanted: Wanted, glob: str, cancel: CancelToken
    ) -> None:
        self._ripgrep = ripgrep
        self._workspace = workspace
        self._cwd = Path(os.path.realpath(workspace.cwd))
        self._root = root
        self._wanted = wanted
        self._glob = glob
        self._is_chosen = chooser(glob)
        self._cancel = cancel
        self._rules = _Rules(None, "")
        self._was_late = False

    async def first_matching(self, *, respect_ignored: bool) -> Candidates | None:
        """Return the first files that match, as far as they are found soon; None if ripgrep cannot do the walk.

        Raises ToolError if ripgrep fails. In most trees only the root has ignore rules. So the search begins with those, while
        another process looks for others. If there are any, it begins again.
        """
        if self._workspace.sandbox is not None and not self._root.is_relative_to(self._cwd):
            return None  # a sandbox may show something else under that name
        if not respect_ignored:
            return await self._search_in_order(self._rules)
        guess = await asyncio.to_thread(self._read_rules, {(): marks_of(self._root)})
        early = None if guess is None else asyncio.create_task(self._search_in_order(guess))
        try:
            rules = await self._find_rules()
            if rules is None:
                return None
            self._rules = rules
            if early is not None and guess is not None and guess.text == rules.text:
                found = await early
                return Candidates([name for name in found.files if not rules.ignore(name)], found.complete)
        finally:
            if early is not None:
                early.cancel()
                await asyncio.gather(early, return_exceptions=True)
        return await self._search_in_order(rules)

    async def _search_in_order(self, rules: _Rules) -> Candidates:
        """Let ripgrep walk in order, with one thread, so that it ends when there are enough files.

        That is much less work for a common pattern, and takes longer in a large tree without matches.
        """
        found: list[Parts] = []
        options = [*_IN_ORDER, *_NEVER, *_names_alone(self._glob), *ripgrep_pattern(self._wanted)]
        self._was_late = False
        async with aclosing(self._run(options, rules.text, SOON)) as names:
            async for name in names:
                if not self._is_chosen(name) or rules.ignore(name):
                    continue
                if found and name < found[-1]:  # names that are not Unicode have another order here
                    return Candidates([], complete=False)
                found.append(name)
                if len(found) >= self._wanted.limit:
                    return Candidates(found, complete=False)
        return Candidates(found, complete=not self._was_late)

    async def matching(self, after: Parts) -> Candidates:
        """Return the first files after `after` that match. Raises ToolError if ripgrep fails."""
        most = max(MOST_NAMES, min(self._wanted.limit, 10 * MOST_NAMES))
        found: list[Parts] = []
        last: Parts | None = None  # nothing after it is kept
        options = ["--null", "--files-with-matches", *_NEVER, *_names_alone(self._glob), *ripgrep_pattern(self._wanted)]
        async with aclosing(self._run(options, self._rules.text)) as names:
            async for name in names:
                if name <= after or not self._is_chosen(name) or self._rules.ignore(name):
                    continue
                if last is None or name < last:
                    found.append(name)
                if len(found) >= 2 * most:
                    found = sorted(found)[:most]
                    last = found[-1]
        return Candidates(sorted(found), complete=last is None)

    async def _find_rules(self) -> _Rules | None:
        """Find out which files are ignored; None if ripgrep cannot tell. Raises ToolError if ripgrep fails."""
        marked: dict[Parts, set[str]] = {}
        async with aclosing(self._run(["--null", "--no-config", "--no-messages", "--files", *_MARKS])) as names:
            async for name in names:
                folder, mark = (name[:-2], ".git") if name[-1] == "HEAD" else (name[:-1], name[-1])
                marked.setdefault(folder, set()).add(mark)
                if len(marked) > _MOST_MARKED:
                    return None
        return await asyncio.to_thread(self._read_rules, marked)

    def _read_rules(self, marked: Mapping[Parts, Iterable[str]]) -> _Rules | None:
        tree = TreeRules(self._root, rules_above(self._root, self._cwd), marked)
        text = tree.for_ripgrep(_MOST_RULES)
        return None if text is None else _Rules(tree, text)

    async def _run(self, options: Sequence[str], rules: str = "", deadline: float | None = None) -> AsyncGenerator[Parts, None]:
        """Run ripgrep in the tree, for at most `deadline` seconds. Yields the names that it prints, in no order."""
        command = [self._ripgrep.program, "--hidden", "--no-ignore", *options]
        if self._root == Path("/"):
            command += _NEVER_AT_ROOT
        with _open_file(rules) as file:
            passed = [file.fileno()] if file is not None else []
            command += [f"--ignore-file={OPEN_FILES}/{number}" for number in passed]
            command = await asyncio.to_thread(self._workspace.confined, [*command, "--", "."], self._root)
            async with search_process(
                command, self._cancel, env=self._ripgrep.env, deadline=deadline, pass_fds=passed, cwd=self._root
            ) as process:
                names = _names_in_report(process) if "--json" in options else _names(process)
                async with aclosing(names):
                    async for name in names:
                        parts = tuple(os.fsdecode(name).removeprefix("./").split("/"))
                        if not _NOT_BELOW.intersection(parts):
                            yield parts
                self._was_late |= process.late
                await check_ripgrep(process, self._cancel)


async def _names(process: SearchProcess) -> AsyncGenerator[bytes, None]:
    """Yield the names that ripgrep prints, each with a NUL after it. It prints many at once."""
    rest = b""
    async with aclosing(process.blocks()) as blocks:
        async for block in blocks:
            *names, rest = (rest + block).split(b"\0")
            for name in names:
                yield name


async def _names_in_report(process: SearchProcess) -> AsyncGenerator[bytes, None]:
    """Yield the names of the files with matches in ripgrep's report, each as soon as there is one."""
    async with aclosing(process.lines(_PAUSE)) as lines:
        async for line in lines:
            if line.startswith(_BEGINNING):
                yield msgspec.json.decode(line, type=RipgrepEvent).data.path.raw()


def _names_alone(glob: str) -> list[str]:
    """Options with which ripgrep passes over files whose names alone rule them out."""
    if not glob or glob.startswith("!"):
        return []
    names = [pattern.rstrip("/").rpartition("/")[2] for pattern in alternatives(glob)]
    if not all(map(_PLAIN_GLOB.fullmatch, names)):
        return []
    return [*(f"--type-add=wanted:{name}" for name in names), "--type=wanted"]


@contextmanager
def _open_file(text: str) -> Generator[BinaryIO | None]:
    """A file without a name that holds `text`; None if that is empty."""
    if not text:
        yield None
        return
    with _unnamed_file() as file:
        file.write(text.encode())
        file.seek(0)
        yield file


def _unnamed_file() -> BinaryIO:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("rules"), "w+b")
    import tempfile

    return tempfile.TemporaryFile()
