"""Walks a tree for grep and find: in order, without ignored files, never in circles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fairlead.config.descriptors import LIST, open_below, open_real
from fairlead.tools.background import Stop
from fairlead.tools.search.ignore import IgnoreRules, rules_above

#: Folders inside one another that are held open; what is deeper is opened from the last of them.
_OPEN_AT_ONCE = 64
#: The kernel's own trees. They are walked only if the walk starts inside one.
_OF_KERNEL = frozenset(("/proc", "/sys", "/dev"))


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in the tree; `parts` lead to it from the folder walked."""

    parts: tuple[str, ...]
    is_folder: bool
    is_file: bool


def walk(root: Path, cwd: Path, stop: Stop, *, respect_ignored: bool = True) -> Iterator[Entry]:
    """Everything below the real path `root`, a folder before what is in it, names in order.

    Hidden files are included; `.git` is not, nor are /proc, /sys and /dev when `root` is `/`. Links are reported but not
    followed, not even those that take the place of a folder during the walk. Folders that cannot be read count as empty. What
    .gitignore names is left out, unless `respect_ignored` is false.
    """
    rules = rules_above(root, Path(os.path.realpath(cwd))) if respect_ignored else None
    pending: list[_Folder] = []
    try:
        _enter(pending, root, (), rules, stop)
        while pending:
            entry = pending[-1].next_entry()
            if entry is None:
                pending.pop().close()
                continue
            yield entry
            if entry.is_folder:
                above = pending[-1]
                _enter(pending, above.path / entry.parts[-1], entry.parts, above.rules, stop)
    finally:
        for folder in pending:
            folder.close()


def _enter(pending: list[_Folder], path: Path, parts: tuple[str, ...], rules: IgnoreRules | None, stop: Stop) -> None:
    """Open a folder, from the nearest one above it that is open, and put it on the stack."""
    try:
        above = pending[:_OPEN_AT_ONCE][-1:]
        file = open_below(above[0].file, parts[len(above[0].parts) :], LIST) if above else open_real(path, LIST)
    except OSError:
        return
    folder = _Folder(file, path, parts, rules, stop)
    if len(pending) >= _OPEN_AT_ONCE:
        folder.close()
    pending.append(folder)


class _Folder:
    """A folder half listed. `file` is its descriptor."""

    def __init__(self, file: int, path: Path, parts: tuple[str, ...], outer: IgnoreRules | None, stop: Stop) -> None:
        self.file = file
        self.path = path
        self.parts = parts
        try:
            with os.scandir(file) as found:
                entries = sorted(stop.each(found), key=lambda entry: entry.name)
            self.rules = outer.inside(path.name, path, [entry.name for entry in entries]) if outer is not None else None
        except OSError:
            entries, self.rules = [], outer
        except BaseException:
            self.close()
            raise
        self._entries = stop.each(entries)

    def close(self) -> None:
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def next_entry(self) -> Entry | None:
        for entry in self._entries:
            if entry.name == ".git" or (not self.parts and str(self.path / entry.name) in _OF_KERNEL):
                continue
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
                is_file = entry.is_file(follow_symlinks=False)
            except OSError:
                continue
            if self.rules is None or not self.rules.ignores(entry.name, is_folder):
                return Entry((*self.parts, entry.name), is_folder, is_file)
        return None
