"""Keeps the file tools away from protected files: files with keys, and files that the user lists. Approval does not lift this.

A hard link gives a protected file another name. So for a file with several links, all of its names are looked up and checked.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from fairlead.config.home import MCP_FILE, Home, user_folder
from fairlead.errors import ToolError
from fairlead.platform.open_files import Identity, has_several, identity_of
from fairlead.policy.exposure import Fits, Watched
from fairlead.policy.hard_links import HardLinks
from fairlead.policy.patterns import PathPattern, WildcardPattern
from fairlead.policy.repositories import EFFECTIVE, GIT, TooMany, find_effective, is_of_repository

_WILD = frozenset("*?")
#: The maximum number of files and folders to search for what patterns match, and how many seconds that may take.
_MOST_SEARCHED = 300_000
_PATIENCE = 20.0
#: How many patterns an error names.
_NAMED = 3
#: The maximum number of files and folders to search before a file is written in a sandbox.
_MOST_FILES = 1_000_000
#: The maximum number of hard links to protected files that a sandbox hides. Hiding each one costs time.
_MOST_HIDDEN = 200
#: Files with keys, and with what the user trusts. Others whose names begin like that are backups, locks or temporary files.
_KEY_FILES = ("auth.json", "mcp-sign-ins.json", "trust.json", "serve.token", "models.json", "mcp.json")
#: Those in the home of another program, which that program and fairlead read.
_PEER_KEY_FILES = (*_KEY_FILES, ".credentials.json", "models.yml", "models.yaml", "agent.db", "agent.db-wal")
#: The homes of other programs in the user's directory.
_OTHER_HOMES = (".pi", ".omp", ".xcsh")
#: How many names in a home, or profiles of another program, are looked at.
_MOST_NAMES = 10_000
#: What editors and programs put before the name of a backup or a temporary file.
_BEFORE_NAMES = ".#~_"


def read_only_in_sandbox(home: Home) -> tuple[str, ...]:
    """Return the names that commands cannot take in the working directory, because programs outside run what has them there.

    Others, and those in folders below, are renamed when a command ends: see `repositories.EFFECTIVE`.
    """
    return (*home.project_names, MCP_FILE, GIT)


class Masks(Struct):
    """The folders and the single files that a sandbox hides from commands."""

    folders: list[Path]
    files: list[Path]
    #: What must not appear while a command runs.
    watched: Watched = Watched()


def key_files(home: Home, env: Mapping[str, str]) -> list[Path]:
    """Return the files in which fairlead and its peers keep keys, and the lists of trusted projects.

    Args:
        home: fairlead's home folder.
        env: the environment, which may name other folders.

    Returns:
        The paths. The files need not exist.
    """
    user = user_folder(env)
    names: dict[Path, tuple[str, ...]] = {home.root: _KEY_FILES if home.peer is None else _PEER_KEY_FILES}
    names.setdefault(user / ".fairlead", _KEY_FILES)
    for program in _OTHER_HOMES:
        names.setdefault(user / program / "agent", _PEER_KEY_FILES)
        for profile in _names_in(user / program / "profiles"):
            names.setdefault(user / program / "profiles" / profile / "agent", _PEER_KEY_FILES)
    names.setdefault(user / ".claude", _PEER_KEY_FILES)
    for variable in ("PI_CODING_AGENT_DIR", "CLAUDE_CONFIG_DIR"):
        if named := env.get(variable):
            names.setdefault(user / named[2:] if named.startswith("~/") else Path(named).absolute(), _PEER_KEY_FILES)
    return [folder / name for folder, files in names.items() for name in files]


def _names_in(folder: Path) -> list[str]:
    """Return the names in a home or a folder of profiles, in which there are usually few."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, _MOST_NAMES)]
    except OSError:
        return []


class Protected:
    """Decides which files the file tools may read and write. Implements `fairlead.tools.workspace.Guard`.

    Args:
        keys: files that are always protected, unless the user lifts the protection.
        listed: the user's paths and patterns. A leading `!` lifts the protection.
        cwd: returns the working directory.
        home: the user's home folder.
        read_only: in a sandbox, the names that nothing writes in the working directory or in a folder in it. Nothing is written
            outside it either.
        code: in a sandbox, returns the files and folders in the working directory that run outside it.
        jobs: where workers keep the files of jobs. It is in fairlead's home, but holds no keys.
        installed: in a sandbox, returns from where fairlead runs, for a file that belongs to that.
    """

    def __init__(
        self,
        keys: Sequence[Path],
        listed: Sequence[str],
        *,
        cwd: Callable[[], Path],
        home: Path,
        read_only: Sequence[str] | None = None,
        code: Callable[[], Sequence[Path]] = tuple,
        jobs: Path | None = None,
        installed: Callable[[Path, os.stat_result | None], Path | None] = lambda path, found: None,
    ) -> None:
        self._keys = list(keys)
        self._key_paths = [(str(key), key) for key in keys]
        #: The names of the key files, by their folders, with and without links in the path.
        self._key_names: dict[str, set[str]] = {}
        for key in keys:
            for folder in {_fold(key.parent), _fold(_real(key.parent))}:
                self._key_names.setdefault(folder, set()).add(key.name.casefold())
        self._listed = [text for text in listed if not text.startswith("!")]
        self._lifted = [text[1:] for text in listed if text.startswith("!")]
        self._cwd = cwd
        self._home = home
        self._effective = None if read_only is None else frozenset((*read_only, *EFFECTIVE))
        self._code = code
        self._jobs = None if jobs is None else _real(jobs)
        self._installed = installed
        self._patterns: dict[tuple[str, str], list[PathPattern]] = {}
        #: Tool calls check from several threads. Only one of them should scan the folders.
        self._looking = threading.Lock()
        #: The hard links below the working directory and the listed folders; and the same with the user's home folder.
        self._near: HardLinks | None = None
        self._far: HardLinks | None = None

    def check_reading(self, path: Path, found: os.stat_result) -> None:
        """Check that a tool may read an open file. Raises ToolError if not."""
        self._check(path, found, "read")

    def readable(self, files: Sequence[tuple[str, os.stat_result]]) -> list[bool]:
        """Return which of many open files a tool may read. They are named by real paths."""
        if self._listed or self._lifted:
            return [self._is_readable(path, found) for path, found in files]
        # The key files are looked up once, now that the files are open.
        keys = {identity for text, _ in self._key_paths if (identity := _identity_at(text)) is not None}
        return [
            (not self._is_key(path) and identity_of(found) not in keys) or self._is_readable(path, found) for path, found in files
        ]

    def _is_readable(self, path: str, found: os.stat_result) -> bool:
        try:
            self.check_reading(Path(path), found)
        except ToolError:
            return False
        return True

    def check_writing(self, path: Path, found: os.stat_result | None) -> None:
        """Check that a tool may write a file. `found` is None if the file does not exist. Raises ToolError if not."""
        self._check(path, found, "write")
        if self._effective is None:
            return
        cwd = _real(self._cwd())
        if not path.is_relative_to(cwd):
            raise ToolError(f"The sandbox does not allow writing {path}: it is outside the working directory {cwd}.")
        names = path.relative_to(cwd).parts
        named = not names or any(name.casefold() in self._effective for name in names) or is_of_repository(cwd, names)
        if named or self._runs_outside(cwd, path):
            raise ToolError(f"The sandbox does not allow writing {path}: its content takes effect outside the sandbox.")
        if (part := self._installed(path, found)) is not None:
            raise ToolError(f"The sandbox does not allow writing {path}: fairlead itself runs from {part}, outside the sandbox.")

    def _runs_outside(self, cwd: Path, path: Path) -> bool:
        """Return whether a file runs outside the sandbox although its name does not say so: as named code, or through a link."""
        if any(path == each or each in path.parents for each in self._code()):
            return True
        try:
            found = find_effective(cwd, _MOST_FILES)
        except (OSError, TooMany):
            return True
        return any(each.path == path or each.path in path.parents for each in found)

    def masks(self) -> Masks:
        """Return what a sandbox must hide, of what exists now. Raises ToolError if hard links to it cannot be found.

        A key file is hidden with its folder, because the file may be replaced while the sandbox exists.
        """
        lifted = [key for key in self._keys if self._matches(self._lifted, key)]
        seen = {_real(key.parent) for key in lifted}
        folders = dict.fromkeys(_real(key.parent) for key in self._keys if _real(key.parent) not in seen)
        beside = [folder / name for folder in seen for name in _names_in(folder) if self._is_key(f"{folder}/{name}")]
        kept = [key for key in self._keys if key not in lifted]
        found = dict.fromkeys(_real(path) for path in (*kept, *beside, *self._find_listed()))
        cwd = _real(self._cwd())
        # A job works inside fairlead's home, and its directory is shown where the rest is hidden.
        shown = cwd if folders.keys() & set(cwd.parents) else None
        found = [path for path in found if not self._matches(self._lifted, path)]
        found = [path for path in found if not folders.keys() & set(path.parents) or (shown and path.is_relative_to(shown))]
        hidden = [path for path in (*folders, *found) if path.is_dir()]
        files = [path for path in found if path.exists() and not path.is_dir()]
        return Masks(hidden, [*files, *self._other_names(hidden, files)], self._find_watched([*hidden, *files]))

    def _find_watched(self, hidden: Sequence[Path]) -> Watched:
        """Return what must not appear while a command runs, beside what is `hidden` and must not be replaced."""
        paths = [*hidden, *(key for key in self._keys if not self._matches(self._lifted, key))]
        trees: list[tuple[Path, Fits]] = []
        for text in self._listed:
            path = self._absolute(text)
            if "/" not in text:
                trees.append((_real(self._cwd()), self._fits(text)))
            elif not _WILD & set(text) or path.parts[-1] == "**":
                paths.append(path.parent if path.parts[-1] == "**" else path)
            else:
                trees.append((_real(self._base(text)), self._fits(text)))
        lifted = [path for path in paths if self._matches(self._lifted, path)]
        kept = [path for path in dict.fromkeys(paths) if path not in lifted]
        return Watched(kept, [(root, self._unless_lifted(fits)) for root, fits in trees])

    def _unless_lifted(self, fits: Fits) -> Fits:
        return lambda folder, name: fits(folder, name) and not self._matches(self._lifted, Path(folder, name))

    def _other_names(self, folders: Sequence[Path], files: Sequence[Path]) -> list[Path]:
        """Return the hard links to protected files in the working directory. Raises ToolError if they cannot all be found."""
        protected = HardLinks(folders, besides=self._jobs)
        linked = {
            *protected.identities(),
            *((found.st_dev, found.st_ino) for found in map(os.lstat, files) if has_several(found)),
        }
        if not linked and protected.complete:
            return []
        inside = HardLinks([_real(self._cwd())])
        found = linked if protected.complete else inside.identities()  # any of them may lead to a file that was not scanned
        names = dict.fromkeys(path for identity in found for path in inside.names(identity) if path not in files)
        names = [path for path in names if not self._matches(self._lifted, path)]
        if not inside.complete or len(names) > _MOST_HIDDEN:
            raise ToolError(
                "Commands cannot run in the sandbox: the working directory has too many files to find all hard links to protected"
                " files. Start in a smaller folder, or without a sandbox."
            )
        return names

    def _check(self, path: Path, found: os.stat_result | None, action: str) -> None:
        """Raise ToolError if a file is protected, or if that cannot be ruled out."""
        if self._matches(self._lifted, path):
            return
        if self._is_named(path) or (found is None and self._is_listed(path)):
            raise self._refusal(path, action)
        if found is None:
            return
        plain = [self._absolute(text) for text in self._listed if "/" in text and not _WILD & set(text)]
        named = [*self._key_paths, *((str(each), each) for each in plain)] if plain else self._key_paths
        # A key file that is a link to this file is the same file. So only then its target has to be looked up.
        same = [each for text, each in named if _is_same(text, found)]
        if same and any(map(self._is_listed, (path, *same))):
            raise self._refusal(path, action)
        if self._listed and has_several(found):
            with self._looking:
                verdict = self._by_other_names(path, found)
            if verdict is not False:
                raise self._refusal(path, action) if verdict else self._doubt(path, action)

    def _is_listed(self, path: Path) -> bool:
        """Return whether a path is protected: it is a key file or on the user's list, and the user has not lifted that.

        What a key file leads to, if it is a link, is a key file too.
        """
        folded = _fold(path)
        is_target = any(folded == _fold(_real(key)) for key in self._keys)
        return self._is_named(path) or (is_target and not self._matches(self._lifted, path))

    def _is_named(self, path: Path) -> bool:
        """Return the same without following links."""
        return (self._is_key(str(path)) or self._matches(self._listed, path)) and not self._matches(self._lifted, path)

    def _is_key(self, path: str) -> bool:
        """Return whether a path is that of a key file, or of a backup or temporary file beside it."""
        folder, _, name = path.casefold().rpartition("/")
        names = self._key_names.get(folder)
        return names is not None and name.lstrip(_BEFORE_NAMES).startswith(tuple(names))

    def _by_other_names(self, path: Path, found: os.stat_result) -> bool | None:
        """Return whether another name of a file is protected. None if not all of its names were found."""
        if self._near is None or not self._near.is_fresh(found):
            self._near, self._far = HardLinks([_real(self._cwd()), *self._bases()]), None
        identity = found.st_dev, found.st_ino
        if any(map(self._is_listed, self._near.names(identity))):
            return True
        # The scan covered all listed folders. A pattern without a slash may match anywhere.
        if self._near.complete and all("/" in text for text in self._listed):
            return False
        if self._near.has_all_names(path, found):
            return False
        if self._far is None:
            self._far = HardLinks([_real(self._cwd()), *self._bases(), _real(self._home)])
        if any(map(self._is_listed, self._far.names(identity))):
            return True
        return False if self._far.has_all_names(path, found) else None

    def _bases(self) -> list[Path]:
        """Return the folders that the patterns with a slash start from."""
        return [_real(self._base(text)) for text in self._listed if "/" in text]

    def _base(self, text: str) -> Path:
        """Return the part of a pattern before the first wildcard, as an absolute path."""
        parts = self._absolute(text).parts
        wild = next((at for at, part in enumerate(parts) if _WILD & set(part)), len(parts))
        return Path(*parts[:wild])

    def _matches(self, texts: Sequence[str], path: Path) -> bool:
        return any(pattern.matches(str(path)) for text in texts for pattern in self._pattern(text))

    def _pattern(self, text: str) -> list[PathPattern]:
        """Return a pattern twice: as written, and with the symbolic links before the first wildcard resolved."""
        cwd = os.path.realpath(self._cwd())
        texts = {text}
        if "/" in text:
            base = self._base(text)
            texts.add(str(_real(base).joinpath(*self._absolute(text).parts[len(base.parts) :])))
        for each in texts:
            if (each, cwd) not in self._patterns:
                self._patterns[each, cwd] = [PathPattern(each, cwd, str(self._home), everywhere=True)]
        return [pattern for each in texts for pattern in self._patterns[each, cwd]]

    def _absolute(self, text: str) -> Path:
        return self._home / text[2:] if text.startswith("~/") else self._cwd() / text

    def _find_listed(self) -> Iterator[Path]:
        """Yield what exists of the user's list. Patterns without a slash are searched for in the working directory.

        Raises ToolError if the search takes too long.
        """
        wanted: dict[Path, list[str]] = {}
        for text in self._listed:
            if "/" not in text:
                wanted.setdefault(self._cwd(), []).append(text)
                continue
            path = self._absolute(text)
            wild = next((at for at, part in enumerate(path.parts) if _WILD & set(part)), None)
            if wild is None or path.parts[wild:] == ("**",):
                yield path if wild is None else path.parent
            else:
                wanted.setdefault(Path(*path.parts[:wild]), []).append(text)
        search = _Search(time.monotonic() + _PATIENCE)
        for folder, texts in wanted.items():
            yield from self._below(folder, texts, search)

    def _below(self, folder: Path, texts: Sequence[str], search: _Search) -> Iterator[Path]:
        """Yield what patterns match below a folder. Symbolic links are not followed, because they may form cycles."""
        names = {text.casefold() for text in texts if not _WILD & set(text) and "/" not in text}
        fits = [self._fits(text) for text in texts if text.casefold() not in names]
        for where, folders, files in os.walk(folder):
            fitting: set[str] = set()
            for name in (*folders, *files):
                search.count(folder, texts)
                if name.casefold() in names or any(each(where, name) for each in fits):
                    fitting.add(name)
            yield from (Path(where, name) for name in fitting)
            folders[:] = [name for name in folders if name not in fitting]

    def _fits(self, text: str) -> Callable[[str, str], bool]:
        """Return a function that takes a folder and a name in it, and returns whether the pattern matches."""
        if "/" in text:
            patterns = self._pattern(text)
            return lambda where, name: any(each.matches(os.path.join(where, name)) for each in patterns)  # noqa: PTH118
        pattern = WildcardPattern(text, fold=True)
        return lambda where, name: pattern.fits(name.casefold())

    def _doubt(self, path: Path, action: str) -> ToolError:
        return ToolError(
            f"{path} has hard links that were not found, and one of them may be a protected file. Tools cannot {action} it."
            " Continue without it. "
            f'(To allow it, the user can add "!{path}" or "!{path.parent}" to protectedPaths in the settings.)'
        )

    def _refusal(self, path: Path, action: str) -> ToolError:
        return ToolError(
            f"{path} is a protected file. Tools cannot {action} it. Continue without it. "
            f'(To allow it, the user can add "!{path}" to protectedPaths in the settings.)'
        )


class _Search:
    """What may still be searched for the files that patterns match."""

    def __init__(self, until: float) -> None:
        self._left = _MOST_SEARCHED
        self._until = until

    def count(self, folder: Path, texts: Sequence[str]) -> None:
        """Count one more file or folder. Raises ToolError if that is one too many, or the search takes too long."""
        self._left -= 1
        if self._left < 0 or time.monotonic() > self._until:
            raise ToolError(
                f"Commands cannot run in the sandbox: {folder} has too many files to find all that protectedPaths protects with"
                f" {', '.join(texts[:_NAMED])}. Use narrower patterns, start in a smaller folder, or start without a sandbox."
            )


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _fold(path: Path) -> str:
    """Return a path in a form to compare, because some file systems ignore case."""
    return str(path).casefold()


def _is_same(path: str, found: os.stat_result) -> bool:
    """Return whether an open file is the one at `path`, even if it was opened by another name."""
    return _identity_at(path) == identity_of(found)


def _identity_at(path: str) -> Identity | None:
    try:
        return identity_of(os.stat(path))  # noqa: PTH116 (for every file that is opened)
    except OSError:
        return None
