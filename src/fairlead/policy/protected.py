"""Files that the file tools leave alone, whatever anybody approves: those with keys, and those that users list."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from fairlead.config.home import PROJECT_FOLDER, Home, user_folder
from fairlead.errors import ToolError
from fairlead.policy.patterns import PathPattern, Pattern
from fairlead.policy.repositories import GIT, looks_like_repository

_WILD = frozenset("*?")
#: What is run, or read as configuration, outside of the sandbox, and lies in the working directory.
READ_ONLY_IN_SANDBOX = (PROJECT_FOLDER, ".mcp.json", GIT)


class Masks(Struct):
    """What is to be hidden from commands: folders, and single files."""

    folders: list[Path]
    files: list[Path]


def key_files(home: Home, env: Mapping[str, str]) -> list[Path]:
    """The files with keys, and with what the user trusts, of fairlead and of pi. They need not exist."""
    user = user_folder(env)
    own = dict.fromkeys([home.root, user / ".fairlead"])
    named = env.get("PI_CODING_AGENT_DIR") or "~/.pi/agent"
    pi = dict.fromkeys([user / ".pi" / "agent", user / named[2:] if named.startswith("~/") else Path(named).absolute()])
    return [folder / name for folder in own for name in ("auth.json", "trust.json")] + [folder / "auth.json" for folder in pi]


class Protected:
    """Implements `fairlead.tools.guard.Guard`.

    `listed` are the user's own paths and patterns; one after a `!` lifts the protection. With `confined`, nothing outside of the
    working directory is written, nor what the sandbox keeps from being written inside of it.
    """

    def __init__(
        self, keys: Sequence[Path], listed: Sequence[str], *, cwd: Callable[[], Path], home: Path, confined: bool = False
    ) -> None:
        self._keys = list(keys)
        self._listed = [text for text in listed if not text.startswith("!")]
        self._lifted = [text[1:] for text in listed if text.startswith("!")]
        self._cwd = cwd
        self._home = home
        self._confined = confined
        self._patterns: dict[tuple[str, str], PathPattern] = {}

    def check_reading(self, path: Path, found: os.stat_result) -> None:
        if self._is_protected(path, found):
            raise self._refusal(path, "read")

    def check_writing(self, path: Path, found: os.stat_result | None) -> None:
        if self._is_protected(path, found):
            raise self._refusal(path, "written")
        if not self._confined:
            return
        cwd = _real(self._cwd())
        if not path.is_relative_to(cwd):
            raise ToolError(f"{path} is outside of the working directory {cwd}. In the sandbox, nothing is written there.")
        names = path.relative_to(cwd).parts
        if not names or names[0].casefold() in READ_ONLY_IN_SANDBOX or _is_of_repository(cwd, names):
            raise ToolError(f"{path} is not written in the sandbox: what it says takes effect outside of the sandbox.")

    def masks(self) -> Masks:
        """What a sandbox has to hide, as far as it exists now. Keys are hidden with their folder: a file may be replaced."""
        lifted = [key for key in self._keys if self._matches(self._lifted, key)]
        seen = {_real(key.parent) for key in lifted}
        folders = dict.fromkeys(_real(key.parent) for key in self._keys if _real(key.parent) not in seen)
        found = dict.fromkeys(_real(path) for path in (*(key for key in self._keys if key not in lifted), *self._found()))
        found = [path for path in found if not self._matches(self._lifted, path) and not folders.keys() & set(path.parents)]
        return Masks(
            [path for path in (*folders, *found) if path.is_dir()],
            [path for path in found if path.exists() and not path.is_dir()],
        )

    def _is_protected(self, path: Path, found: os.stat_result | None) -> bool:
        if self._matches(self._lifted, path):
            return False
        plain = [self._absolute(text) for text in self._listed if "/" in text and not _WILD & set(text)]
        for each in (*self._keys, *plain):
            if _folded(path) in (_folded(each), _folded(_real(each))):
                return not self._matches(self._lifted, each)
            if found is not None and _is_same(each, found):
                return not self._matches(self._lifted, each)
        return self._matches(self._listed, path)

    def _matches(self, texts: Sequence[str], path: Path) -> bool:
        return any(self._pattern(text).matches(str(path)) for text in texts)

    def _pattern(self, text: str) -> PathPattern:
        key = (text, os.path.realpath(self._cwd()))
        if key not in self._patterns:
            self._patterns[key] = PathPattern(*key, str(self._home), everywhere=True)
        return self._patterns[key]

    def _absolute(self, text: str) -> Path:
        return self._home / text[2:] if text.startswith("~/") else self._cwd() / text

    def _found(self) -> Iterator[Path]:
        """What the user's list stands for at present. Names are looked for in the working directory, at any depth."""
        for text in self._listed:
            if "/" not in text:
                yield from self._below(self._cwd(), text)
                continue
            path = self._absolute(text)
            wild = next((at for at, part in enumerate(path.parts) if _WILD & set(part)), None)
            if wild is None or path.parts[wild:] == ("**",):
                yield path if wild is None else path.parent
            else:
                yield from self._below(Path(*path.parts[:wild]), text)

    def _below(self, folder: Path, text: str) -> Iterator[Path]:
        """What a pattern fits in a folder. Links are not followed: they may lead in circles."""
        fits = self._fits(text)
        for where, folders, files in os.walk(folder):
            fitting = [name for name in (*folders, *files) if fits(where, name)]
            yield from (Path(where, name) for name in fitting)
            folders[:] = [name for name in folders if name not in fitting]

    def _fits(self, text: str) -> Callable[[str, str], bool]:
        """Whether a pattern fits something in a folder; for names, without a look at the folder."""
        if "/" in text:
            matches = self._pattern(text).matches
            return lambda where, name: matches(os.path.join(where, name))  # noqa: PTH118
        fits = Pattern(text, fold=True).fits if _WILD & set(text) else text.casefold().__eq__
        return lambda where, name: fits(name.casefold())

    def _refusal(self, path: Path, done: str) -> ToolError:
        return ToolError(
            f"{path} is a protected file and is not {done} by tools. Go on without it. "
            f'(If it should not be, the user can add "!{path}" to protectedPaths in the settings.)'
        )


def _is_of_repository(cwd: Path, names: Sequence[str]) -> bool:
    """Whether a file belongs to a git repository, or would make one of a folder that it is in. `names` lead to it from `cwd`."""
    folder = cwd
    for name in names:
        if name.casefold() == GIT:
            return True
        if looks_like_repository(
            lambda other, folder=folder, name=name: name.casefold() == other.casefold() or _is_there(folder, other)
        ):
            return True
        folder = folder / name
    return False


def _is_there(folder: Path, name: str) -> bool:
    return os.path.lexists(folder / name)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _folded(path: Path) -> str:
    """A path, for file systems that do not tell upper from lower case."""
    return str(path).casefold()


def _is_same(path: Path, found: os.stat_result) -> bool:
    """Whether an open file is the one at `path`, by whatever name it was opened."""
    try:
        there = path.stat()
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino)
