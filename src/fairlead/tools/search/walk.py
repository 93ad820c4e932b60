"""Walks a tree as grep and find see it: in order, without what its .gitignore files name, never in circles."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from time import monotonic

from msgspec import Struct

from fairlead.errors import ToolError
from fairlead.platform.open_files import LIST, open_below, open_real
from fairlead.tools.background import Stop
from fairlead.tools.files.targets import Target, open_regular
from fairlead.tools.search.globs import NameMatcher, PathGlob, name_matcher

_log = logging.getLogger("fairlead.tools")

#: Bytes of a .gitignore that are read, its rules that count, and those of all that apply in one folder. Those that people write
#: are far shorter, and each name is compared with each rule.
_LONGEST = 1024 * 1024
_MOST_RULES = 10_000
_MOST_RULES_AT_ONCE = 30_000
#: The rules of a repository that are not in its tree. They yield to those of its .gitignore.
_EXCLUDE = ("info", "exclude")
#: Patterns that ripgrep reads as we do. Braces are escaped for it; brackets may hold only plain characters.
_SAME_IN_RIPGREP = re.compile(r"(?:[^\\\[\]\s]|[ \t]|\\[^\r\n]|\[[!^]?[\w.-]+\])+")
_BRACES = re.compile(r"(\\.)|([{}])")
_MARKS = (".gitignore", ".git")
_SPECIAL = re.compile(r"[*?\[\]{}\\]")


class _Rule(Struct, frozen=True):
    #: The pattern without `!`, and without slashes around it.
    text: str
    ignores: bool
    folders_only: bool
    name: NameMatcher | None
    path: PathGlob | None

    def matches(self, parts: Sequence[str], is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        if self.name is not None:
            return self.name(parts[-1])
        return self.path is not None and self.path.matches(parts)

    def remainders(self, way: Sequence[str]) -> set[str]:
        """Return the patterns that this rule amounts to for paths that start in the folder at the end of `way`."""
        names = ["**", self.text] if self.name is not None else self.text.split("/")
        positions = {0}
        for part in way:
            here = {position for position in positions if names[position] == "**"}
            positions |= {position + 1 for position in here if position + 1 < len(names)}
            passed = {position + 1 for position in positions - here if name_matcher(names[position])(part)}
            positions = here | {position for position in passed if position < len(names)}
        return {"/".join(names[position:]) for position in positions}


class IgnoreFile:
    """One .gitignore. The last rule that matches decides."""

    def __init__(self, text: str) -> None:
        # The last rules count most, so those at the front are left out if there are too many.
        lines = reversed([line for line in text.splitlines() if line and not line.startswith("#")])
        self._rules = [rule for line in islice(lines, _MOST_RULES) if (rule := _parse(line)) is not None]

    def __len__(self) -> int:
        return len(self._rules)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def verdict(self, parts: Sequence[str], is_folder: bool) -> bool | None:
        """Return whether the file at `parts`, relative to this file's folder, is ignored; None if no rule matches it."""
        for rule in self._rules:
            if rule.matches(parts, is_folder):
                return rule.ignores
        return None

    def for_ripgrep(self, way: Sequence[str], folder: Sequence[str]) -> list[str] | None:
        """The rules as lines of one file for ripgrep, to be read in the folder that is searched; None if it would read them
        differently.

        `way` leads from this file's folder down to the folder searched, or else `folder` leads from there to this file's.
        """
        if any(character in name for name in folder for character in "\r\n") or not _is_unicode(folder):
            return None
        prefix = "".join("/" + _SPECIAL.sub(r"\\\g<0>", name) for name in folder)
        lines: list[str] = []
        for rule in reversed(self._rules):
            ends_in_blank = rule.text != rule.text.rstrip() and not rule.text.endswith("\\ ")
            if ends_in_blank or _SAME_IN_RIPGREP.fullmatch(rule.text) is None or not _is_unicode([rule.text]):
                return None
            for text in rule.remainders(way):
                escaped = _BRACES.sub(lambda found: found[1] or "\\" + found[2], text)
                lines.append(f"{'' if rule.ignores else '!'}{prefix}/{escaped}{'/' if rule.folders_only else ''}")
        return lines


class IgnoreRules(Struct, frozen=True):
    """The .gitignore files that apply in a folder, innermost first, each with the way from its folder to this one."""

    files: tuple[tuple[IgnoreFile, tuple[str, ...]], ...] = ()
    #: Whether a repository in the tree counts as a plain folder, so that the rules from outside apply in it too.
    is_one_repository: bool = False

    def ignores(self, name: str, is_folder: bool) -> bool:
        for file, way in self.files:
            verdict = file.verdict((*way, name), is_folder)
            if verdict is not None:
                return verdict
        return False

    def inside(self, name: str, folder: Path, names: Sequence[str]) -> IgnoreRules:
        """The rules inside `folder`, called `name`, which holds `names`. Outer rules do not apply in a nested repository."""
        is_root = ".git" in names and not self.is_one_repository and _is_repository(folder)
        outer = () if is_root else tuple((file, (*way, name)) for file, way in self.files)
        own = _load(folder, is_root=is_root) if is_root or ".gitignore" in names else None
        if not own or sum(len(file) for file, _ in outer) + len(own) > _MOST_RULES_AT_ONCE:
            return IgnoreRules(outer, self.is_one_repository)
        return IgnoreRules(((own, ()), *outer), self.is_one_repository)


class TreeRules:
    """The rules in every folder of a tree. `marked` are the folders that hold a `.gitignore` or a `.git`, and which of them."""

    def __init__(self, root: Path, outer: IgnoreRules, marked: Mapping[tuple[str, ...], Iterable[str]]) -> None:
        self._root = root
        self._outer = outer
        self._marked = {folder: list(names) for folder, names in marked.items()}
        #: None: the folder is ignored.
        self._known: dict[tuple[str, ...], IgnoreRules | None] = {(): self._enter(outer, ())}

    def ignores_file(self, parts: tuple[str, ...]) -> bool:
        rules = self._inside(parts[:-1])
        return rules is None or rules.ignores(parts[-1], is_folder=False)

    def for_ripgrep(self, most: int) -> str | None:
        """All rules as one file for ripgrep; None if they are more than `most`, or if ripgrep would read them differently."""
        files: list[tuple[IgnoreFile, tuple[str, ...], tuple[str, ...]]] = [
            (file, (*way, self._root.name), ()) for file, way in reversed(self._outer.files)
        ]
        for folder in sorted(self._marked):
            rules = self._inside(folder)
            if rules is None:
                continue
            if folder and ".git" in self._marked[folder] and _is_repository(self._root.joinpath(*folder)):
                files.append((IgnoreFile("!/**"), (), folder))  # the rules from outside do not apply in it
            if rules.files and not rules.files[0][1]:  # the folder's own file
                files.append((rules.files[0][0], (), folder))
        lines: list[str] = []
        for file, way, folder in files:
            found = file.for_ripgrep(way, folder)
            if found is None or len(lines) + len(found) > most:
                return None
            lines += found
        return "".join(f"{line}\n" for line in lines)

    def _inside(self, folder: tuple[str, ...]) -> IgnoreRules | None:
        known = next(length for length in range(len(folder), -1, -1) if folder[:length] in self._known)
        rules = self._known[folder[:known]]
        for length in range(known + 1, len(folder) + 1):
            if rules is not None:
                ignored = rules.ignores(folder[length - 1], is_folder=True)
                rules = None if ignored else self._enter(rules, folder[:length])
            self._known[folder[:length]] = rules
        return rules

    def _enter(self, outer: IgnoreRules, folder: tuple[str, ...]) -> IgnoreRules:
        path = self._root.joinpath(*folder)
        return outer.inside(path.name, path, self._marked.get(folder, ()))


def rules_above(folder: Path, stop: Path) -> IgnoreRules:
    """Return the rules that the folders above `folder` set for it.

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
        file = _load(parent, is_root=_is_repository(parent))
        if file:
            # The way leads to the folder above `folder`; `inside` adds the last step.
            files.append((file, folder.parent.relative_to(parent).parts))
    return IgnoreRules(tuple(files))


def marks_of(folder: Path) -> list[str]:
    """Return which of `.gitignore` and `.git` a folder holds."""
    return [name for name in _MARKS if os.path.lexists(folder / name)]


def marks_below(
    root: Path, outer: IgnoreRules, until: tuple[str, ...] | None, most: int
) -> dict[tuple[str, ...], list[str]] | None:
    """Return which folders of a tree hold a `.gitignore` or a `.git`, and which of them, without ignored folders.

    Folders that come after the file `until` in a walk are left out. Returns None if there are more than `most` entries.
    """
    marked: dict[tuple[str, ...], list[str]] = {}
    pending: list[tuple[tuple[str, ...], IgnoreRules]] = [((), outer)]
    while pending:
        parts, rules = pending.pop()
        path = root.joinpath(*parts)
        try:
            with os.scandir(path) as found:
                entries = list(islice(found, most + 1))
        except OSError:
            continue
        most -= len(entries)
        if most < 0:
            return None
        marks = [entry.name for entry in entries if entry.name in _MARKS]
        if marks:
            marked[parts] = marks
        inside = rules.inside(path.name, path, marks)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and entry.name != ".git":
                folder = (*parts, entry.name)
                if (until is None or folder <= until) and not inside.ignores(entry.name, is_folder=True):
                    pending.append((folder, inside))
    return marked


def is_in_repository(folder: Path) -> bool:
    """Whether a folder belongs to a git repository."""
    return any(_is_repository(each) for each in (folder, *folder.parents))


def _is_repository(folder: Path) -> bool:
    """Whether a folder is the root of a git repository. An empty `.git` means nothing to git: a sandbox keeps one in position."""
    git = folder / ".git"
    return os.path.isfile(git) or os.path.exists(git / "HEAD")


def _load(folder: Path, *, is_root: bool) -> IgnoreFile | None:
    """Return the rules of a folder. `is_root`: a repository has its root there, which may have further rules."""
    texts = [_read(folder / ".git", *_EXCLUDE)] if is_root else []
    return IgnoreFile("\n".join([*texts, _read(folder, ".gitignore")]))


def _read(folder: Path, *names: str) -> str:
    """Return the text of a file with rules. Nothing but a regular file has any, and no link is followed, as in git."""
    path = folder.joinpath(*names)
    try:
        with os.fdopen(open_regular(Target(path, path), None), "rb") as file:
            text = file.read(_LONGEST)
        # A line that was cut off would be another rule.
        return (text if len(text) < _LONGEST else text[: text.rfind(b"\n") + 1]).decode("utf-8", "replace")
    except (ToolError, OSError) as error:
        if os.path.lexists(path):
            _log.debug("%s is not read (%s)", path, type(error).__name__)
        return ""


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
            pattern = pattern.removeprefix("/")
            return _Rule(pattern, ignores, folders_only, None, PathGlob(pattern))
        return _Rule(pattern, ignores, folders_only, name_matcher(pattern), None)
    except ToolError:  # a line that is not a pattern matches nothing
        return None


def _is_unicode(texts: Iterable[str]) -> bool:
    return all(character < "\ud800" or character > "\udfff" for text in texts for character in text)


#: Folders inside one another that are held open; what is deeper is opened from the last of them.
_OPEN_AT_ONCE = 64
#: The kernel's own trees. They are walked only if the walk starts inside one.
_OF_KERNEL = frozenset(("/proc", "/sys", "/dev"))
#: Folders that users look into by name, if at all.
_SKIPPED = frozenset(("node_modules", "__pycache__", ".venv", ".hg", ".svn"))


class Entry(Struct, frozen=True):
    """Something in the tree; `parts` lead to it from the folder walked."""

    parts: tuple[str, ...]
    is_folder: bool
    is_file: bool


def walk(
    root: Path,
    cwd: Path,
    stop: Stop,
    *,
    respect_ignored: bool = True,
    above: IgnoreRules | None = None,
    enters: Callable[[Entry], bool] = lambda _: True,
) -> Iterator[Entry]:
    """Everything below the real path `root`, a folder before what is in it, names in order.

    Hidden files are included; `.git` is not, nor are /proc, /sys and /dev when `root` is `/`. Links are reported but not
    followed, not even those that take the position of a folder during the walk. Folders that cannot be read count as empty. What
    .gitignore names is left out, unless `respect_ignored` is false.

    Args:
        root: The folder.
        cwd: The working directory. Outside repositories, the rules of the folders below it count, and its own.
        stop: Asked before each entry.
        respect_ignored: Whether ignored files are left out.
        above: The rules above the root; None: those of `rules_above`.
        enters: Whether what is in a folder is part of the walk.
    """
    rules = None
    if respect_ignored:
        rules = rules_above(root, Path(os.path.realpath(cwd))) if above is None else above
    pending: list[_ListedFolder] = []
    try:
        _enter(pending, root, (), rules, stop)
        while pending:
            entry = pending[-1].next_entry()
            if entry is None:
                pending.pop().close()
                continue
            yield entry
            if entry.is_folder and enters(entry):
                outer = pending[-1]
                _enter(pending, outer.path / entry.parts[-1], entry.parts, outer.rules, stop)
    finally:
        for folder in pending:
            folder.close()


def _enter(pending: list[_ListedFolder], path: Path, parts: tuple[str, ...], rules: IgnoreRules | None, stop: Stop) -> None:
    """Open a folder, from the nearest one above it that is open, and put it on the stack."""
    try:
        above = pending[:_OPEN_AT_ONCE][-1:]
        file = open_below(above[0].file, parts[len(above[0].parts) :], LIST) if above else open_real(path, LIST)
    except OSError:
        return
    folder = _ListedFolder(file, path, parts, rules, stop)
    if len(pending) >= _OPEN_AT_ONCE:
        folder.close()
    pending.append(folder)


class _ListedFolder:
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


def list_files(folder: Path, most: int, seconds: float) -> list[str]:
    """Return the files below a folder that `Workspace.list_files` describes."""
    root = Path(os.path.realpath(folder))
    shows_hidden = is_in_repository(root)
    stop = _Deadline(seconds)

    def enters(entry: Entry) -> bool:
        name = entry.parts[-1]
        return name not in _SKIPPED and (shows_hidden or not name.startswith("."))

    def files() -> Iterator[str]:
        for entry in walk(root, root, stop, enters=enters):
            is_hidden = entry.parts[-1].startswith(".")
            if not entry.is_folder and (shows_hidden or not is_hidden) and (name := "/".join(entry.parts)).isprintable():
                yield name

    found: list[str] = []
    with suppress(ToolError):  # it ran out of time
        for name in islice(files(), most):
            found.append(name)  # what was found before the end counts
    return found


class _Deadline(Stop):
    """Stops work after some seconds."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._end = monotonic() + seconds

    def check(self) -> None:
        if monotonic() > self._end:
            self.ask()
        super().check()
