"""Which files a tree's .gitignore files name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairlead.errors import ToolError
from fairlead.tools.globs import NameMatcher, PathPattern, name_matcher
from fairlead.tools.opening import Target
from fairlead.tools.read import open_regular

#: Bytes of a .gitignore that are read. Those that people write are far shorter.
_LONGEST = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Rule:
    ignores: bool
    folders_only: bool
    name: NameMatcher | None
    path: PathPattern | None

    def matches(self, parts: Sequence[str], is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        if self.name is not None:
            return self.name(parts[-1])
        return self.path is not None and self.path.matches(parts)


class IgnoreFile:
    """One .gitignore. The last rule that matches decides."""

    def __init__(self, text: str) -> None:
        rules = [rule for line in text.splitlines() if (rule := _parse(line)) is not None]
        self._rules = rules[::-1]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def verdict(self, parts: Sequence[str], is_folder: bool) -> bool | None:
        """Whether the file at `parts`, relative to this file's folder, is ignored; None if no rule speaks of it."""
        for rule in self._rules:
            if rule.matches(parts, is_folder):
                return rule.ignores
        return None


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The .gitignore files that apply in a folder, innermost first, each with the way from its folder to this one."""

    files: tuple[tuple[IgnoreFile, tuple[str, ...]], ...] = ()

    def ignores(self, name: str, is_folder: bool) -> bool:
        for file, way in self.files:
            verdict = file.verdict((*way, name), is_folder)
            if verdict is not None:
                return verdict
        return False

    def inside(self, name: str, folder: Path, names: Sequence[str]) -> IgnoreRules:
        """The rules inside `folder`, called `name`, which holds `names`. A repository of its own starts afresh."""
        outer = () if ".git" in names and _is_repository(folder) else tuple((file, (*way, name)) for file, way in self.files)
        own = _load(folder) if ".gitignore" in names else None
        return IgnoreRules(((own, ()), *outer) if own else outer)


def rules_above(folder: Path, stop: Path) -> IgnoreRules:
    """The rules that the folders above `folder` set for it.

    Inside a repository these are the folders up to its root; elsewhere those up to `stop`, or none if
    `folder` is not below it: a .gitignore in someone's home is not about every folder below.
    """
    if _is_repository(folder):
        return IgnoreRules()
    above = list(folder.parents)
    end = next((index for index, parent in enumerate(above) if _is_repository(parent)), None)
    if end is None:
        if stop not in above:
            return IgnoreRules()
        end = above.index(stop)
    files: list[tuple[IgnoreFile, tuple[str, ...]]] = []
    for parent in above[: end + 1]:
        file = _load(parent)
        if file:
            # The way leads to the folder above `folder`; `inside` adds the last step.
            files.append((file, folder.parent.relative_to(parent).parts))
    return IgnoreRules(tuple(files))


def _is_repository(folder: Path) -> bool:
    """Whether a folder is the root of a git repository. An empty `.git` means nothing to git: a sandbox keeps one in place."""
    git = folder / ".git"
    return git.is_file() or (git / "HEAD").exists()


def _load(folder: Path) -> IgnoreFile | None:
    """The rules of a folder. A .gitignore that is not a regular file has none."""
    path = folder / ".gitignore"
    try:
        with os.fdopen(open_regular(Target(path, Path(os.path.realpath(path))), None), "rb") as file:
            return IgnoreFile(file.read(_LONGEST).decode("utf-8", "replace"))
    except (ToolError, OSError):
        return None


def _parse(line: str) -> _Rule | None:
    if line.startswith("#"):
        return None
    stripped = line.rstrip(" ")
    if stripped.endswith("\\") and stripped != line:
        stripped += " "  # an escaped blank at the end counts
    ignores = not stripped.startswith("!")
    pattern = stripped if ignores else stripped[1:]
    folders_only = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    if not pattern:
        return None
    try:
        if pattern.startswith("**/") and "/" not in pattern[3:]:
            pattern = pattern[3:]
        if "/" in pattern:
            return _Rule(ignores, folders_only, None, PathPattern(pattern.removeprefix("/")))
        return _Rule(ignores, folders_only, name_matcher(pattern), None)
    except ToolError:  # a line that is no pattern names nothing
        return None
