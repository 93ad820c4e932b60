"""Finds the files of a tree that match, with the walk and all threads of ripgrep.

What ripgrep says here of a file is a hint. What is shown is read by descriptor afterwards (`searchers.Ripgrep`), so a name that
has become a link, or that belongs to a protected file, shows nothing. ripgrep reads no .gitignore by itself either: a named
pipe would block it, and a link could lead anywhere. It gets the rules that we have read.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias, TypeVar

from msgspec import Struct

from fairlead.core.runtime import CancelToken
from fairlead.tools.search.globs import alternatives, chooser
from fairlead.tools.search.processes import ReportedLine, SearchProcess, search_process
from fairlead.tools.search.searchers import (
    OPEN_FILES,
    Ripgrep,
    Wanted,
    check_ripgrep,
    ripgrep_pattern,
    ripgrep_report,
)
from fairlead.tools.search.walk import IgnoreRules, TreeRules, marks_below, marks_of, rules_above
from fairlead.tools.workspace import Workspace

#: The names that lead to a file from the folder searched.
Parts: TypeAlias = tuple[str, ...]
_T = TypeVar("_T")

#: What is never searched, at any depth and at the root of the file system.
_NEVER = ["--glob=!.git"]
_NEVER_AT_ROOT = ["--glob=!/proc", "--glob=!/sys", "--glob=!/dev"]
#: What tells which rules apply. Of a `.git`, only whether it has a HEAD.
_MARKS = ["--glob=.gitignore", "--glob=.git", "--glob=**/.git/HEAD", "--glob=!**/.git/*/"]
#: Folders with a .gitignore or a .git, and rules in them; more are left to the slower walk.
_MOST_MARKED = 20_000
_MOST_RULES = 2_000
#: Seconds after which one looks for other ignore rules than those of the root while ripgrep still searches with these.
_HEAD_START = 0.02
#: Entries of a tree that are looked at here for marks. In a larger one ripgrep does that, with all threads.
MOST_LISTED = 20_000
#: Bytes of lines in ripgrep's report that are held; those of other files are read again.
_MOST_REPORTED = 4 * 1024 * 1024
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
    #: What ripgrep has said of some of them.
    reported: Mapping[Parts, Sequence[ReportedLine]] = {}


class _Rules(Struct):
    """Which files are ignored, for us and as a text for ripgrep."""

    tree: TreeRules | None
    text: str

    def ignore(self, name: Parts) -> bool:
        return self.text != "" and self.tree is not None and self.tree.ignores_file(name)


#: Stands for the rules of a tree with more entries than are looked at here.
_TOO_MANY = _Rules(None, "")


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
        self._outer = IgnoreRules()
        #: The rules of the whole tree, once they are known.
        self._rules: _Rules | None = None
        self._was_late = False

    async def first_matching(self, *, respect_ignored: bool) -> Candidates | None:
        """Return the first files that match, as far as they are found soon; None if ripgrep cannot do the walk.

        Raises ToolError if ripgrep fails. In most trees only the root has ignore rules. So the search begins with those, and is
        repeated if there turn out to be others.
        """
        if self._workspace.sandbox is not None and not self._root.is_relative_to(self._cwd):
            return None  # a sandbox may show something else under that name
        if not respect_ignored:
            self._rules = _Rules(None, "")
            return await self._search_in_order(self._rules)
        guess = await asyncio.to_thread(self._guess_rules)
        if guess is None:
            return await self._search_again()
        early = asyncio.create_task(self._search_in_order(guess))
        try:
            await asyncio.wait((early,), timeout=_HEAD_START)
            until: Parts | None = None
            if early.done() and not (found := early.result()).complete and found.files:
                until = found.files[-1]  # what comes after it cannot change which files come before it
            rules = await self._find_rules(until)
            if rules is None:
                return None
            if until is None:
                self._rules = rules
            if guess.text == rules.text:
                return await early
        finally:
            early.cancel()
            await asyncio.gather(early, return_exceptions=True)
        return await self._search_again()

    async def _search_again(self) -> Candidates | None:
        rules = await self._all_rules()
        return None if rules is None else await self._search_in_order(rules)

    async def _all_rules(self) -> _Rules | None:
        self._rules = self._rules or await self._find_rules()
        return self._rules

    async def _search_in_order(self, rules: _Rules) -> Candidates:
        """Let ripgrep walk in order, with one thread, so that it ends when there are enough files.

        That is much less work for a common pattern, and takes longer in a large tree without matches.
        """
        found: list[Parts] = []
        reported: dict[Parts, Sequence[ReportedLine]] = {}
        matches, room = 0, _MOST_REPORTED
        options = ["--sort=path", *_NEVER, *_names_alone(self._glob), *ripgrep_report(self._wanted)]
        self._was_late = False
        async with aclosing(self._run(SearchProcess.report, options, rules.text, SOON)) as files:
            async for file in files:
                name = _parts(file.path)
                if name is None or not self._is_chosen(name) or rules.ignore(name):
                    continue
                if found and name < found[-1]:  # names that are not Unicode have another order here
                    return Candidates([], complete=False)
                found.append(name)
                matches += sum(line.matches for line in file.lines)
                room -= sum(len(line.raw) for line in file.lines)
                if room >= 0:
                    reported[name] = file.lines
                if matches >= self._wanted.limit:
                    return Candidates(found, complete=False, reported=reported)
        return Candidates(found, complete=not self._was_late, reported=reported)

    async def matching(self, after: Parts) -> Candidates | None:
        """Return the first files after `after` that match; None if ripgrep cannot do the walk.

        Raises ToolError if ripgrep fails.
        """
        rules = await self._all_rules()
        if rules is None:
            return None
        most = max(MOST_NAMES, min(self._wanted.limit, 10 * MOST_NAMES))
        found: list[Parts] = []
        last: Parts | None = None  # nothing after it is kept
        options = ["--null", "--files-with-matches", *_NEVER, *_names_alone(self._glob), *ripgrep_pattern(self._wanted)]
        async with aclosing(self._run(_names, options, rules.text)) as names:
            async for name in names:
                if name <= after or not self._is_chosen(name) or rules.ignore(name):
                    continue
                if last is None or name < last:
                    found.append(name)
                if len(found) >= 2 * most:
                    found = sorted(found)[:most]
                    last = found[-1]
        return Candidates(sorted(found), complete=last is None)

    async def _find_rules(self, until: Parts | None = None) -> _Rules | None:
        """Find out which files are ignored, as far as the file `until`; None if ripgrep cannot tell.

        Raises ToolError if ripgrep fails.
        """
        rules = await asyncio.to_thread(self._list_rules, until)
        if rules is not _TOO_MANY:
            return rules
        marked = await self._find_marks()
        return None if marked is None else await asyncio.to_thread(self._read_rules, marked)

    def _list_rules(self, until: Parts | None) -> _Rules | None:
        marked = marks_below(self._root, self._outer, until, MOST_LISTED)
        return _TOO_MANY if marked is None else self._read_rules(marked)

    async def _find_marks(self) -> dict[Parts, list[str]] | None:
        """Do what `marks_below` does, with ripgrep. Returns None if too many folders are marked."""
        marked: dict[Parts, list[str]] = {}
        options = ["--null", "--no-config", "--no-messages", "--files", *_MARKS]
        async with aclosing(self._run(_names, options)) as names:
            async for name in names:
                folder, mark = (name[:-2], ".git") if name[-1] == "HEAD" else (name[:-1], name[-1])
                marked.setdefault(folder, []).append(mark)
                if len(marked) > _MOST_MARKED:
                    return None
        return marked

    def _guess_rules(self) -> _Rules | None:
        """Return the rules from outside the tree and from its root."""
        self._outer = rules_above(self._root, self._cwd)
        return self._read_rules({(): marks_of(self._root)})

    def _read_rules(self, marked: Mapping[Parts, Iterable[str]]) -> _Rules | None:
        tree = TreeRules(self._root, self._outer, marked)
        text = tree.for_ripgrep(_MOST_RULES)
        return None if text is None else _Rules(tree, text)

    async def _run(
        self,
        read: Callable[[SearchProcess], AsyncGenerator[_T, None]],
        options: Sequence[str],
        rules: str = "",
        deadline: float | None = None,
    ) -> AsyncGenerator[_T, None]:
        """Run ripgrep in the tree, for at most `deadline` seconds. Yields what it prints, as `read` understands it."""
        command = [self._ripgrep.program, "--hidden", "--no-ignore", *options]
        if self._root == Path("/"):
            command += _NEVER_AT_ROOT
        with _open_file(rules) as file, self._workspace.confinement(self._root) as confinement:
            passed = [file.fileno()] if file is not None else []
            command += [f"--ignore-file={OPEN_FILES}/{number}" for number in passed]
            passed += confinement.files
            command += ["--", "."]
            if self._workspace.sandbox is not None:
                command = await asyncio.to_thread(confinement.words, command)
            async with search_process(
                command, self._cancel, env=self._ripgrep.env, deadline=deadline, pass_fds=passed, cwd=self._root
            ) as process:
                async with aclosing(read(process)) as printed:
                    async for each in printed:
                        yield each
                self._was_late |= process.late
                await check_ripgrep(process, self._cancel)


async def _names(process: SearchProcess) -> AsyncGenerator[Parts, None]:
    """Yield the names that ripgrep prints, each with a NUL after it, in no order. It prints many at once."""
    rest = b""
    async with aclosing(process.blocks()) as blocks:
        async for block in blocks:
            *names, rest = (rest + block).split(b"\0")
            for name in names:
                if (parts := _parts(name)) is not None:
                    yield parts


def _parts(name: bytes) -> Parts | None:
    """Return the names that lead to a file from the folder searched; None if they would lead out of it."""
    parts = tuple(os.fsdecode(name).removeprefix("./").split("/"))
    return None if _NOT_BELOW.intersection(parts) else parts


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
    with _open_unnamed_file() as file:
        file.write(text.encode())
        file.seek(0)
        yield file


def _open_unnamed_file() -> BinaryIO:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("rules"), "w+b")

    return tempfile.TemporaryFile()
