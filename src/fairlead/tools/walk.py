"""Walking a tree as grep and find see it: in order, without what .gitignore names, never in circles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fairlead.tools.background import Stop
from fairlead.tools.ignore import IgnoreRules, rules_above


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in the tree; `parts` lead to it from the folder walked."""

    parts: tuple[str, ...]
    is_folder: bool
    is_file: bool


def walk(root: Path, cwd: Path, stop: Stop, *, respect_ignored: bool = True) -> Iterator[Entry]:
    """Everything below `root`, a folder before what is in it, names in order.

    Hidden files are included, `.git` is not. Links are reported but not followed. Folders that
    cannot be read count as empty. What .gitignore names is left out, unless `respect_ignored` is false.
    """
    root = Path(os.path.realpath(root))
    rules = rules_above(root, Path(os.path.realpath(cwd))) if respect_ignored else None
    pending = [_Folder(root, (), rules, stop)]
    while pending:
        entry = pending[-1].next_entry()
        if entry is None:
            pending.pop()
            continue
        yield entry
        if entry.is_folder:
            above = pending[-1]
            pending.append(_Folder(above.path / entry.parts[-1], entry.parts, above.rules, stop))


class _Folder:
    """A folder half listed."""

    def __init__(self, path: Path, parts: tuple[str, ...], outer: IgnoreRules | None, stop: Stop) -> None:
        self.path = path
        self._parts = parts
        try:
            with os.scandir(path) as found:
                entries = sorted(stop.each(found), key=lambda entry: entry.name)
        except OSError:
            entries = []
        self.rules = outer.inside(path.name, path, [entry.name for entry in entries]) if outer is not None else None
        self._entries = stop.each(entries)

    def next_entry(self) -> Entry | None:
        for entry in self._entries:
            if entry.name == ".git":
                continue
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
                is_file = entry.is_file(follow_symlinks=False)
            except OSError:
                continue
            if self.rules is None or not self.rules.ignores(entry.name, is_folder):
                return Entry((*self._parts, entry.name), is_folder, is_file)
        return None
