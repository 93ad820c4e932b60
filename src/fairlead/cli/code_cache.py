"""Keeps the compiled modules of a start in one file, because finding and opening a `.pyc` file for each takes longer.

The file lies beside the `.pyc` files and is a copy of them: for each module, the file name, time and size of its source, and the
code. A module is loaded from it only if its source still has that time and size, which is the rule for `.pyc` files too.
Everything else is imported as usual. docs/decisions/036 explains the rest.
"""

from __future__ import annotations

import _imp
import marshal
import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from types import CodeType, ModuleType

TYPE_CHECKING = False  # importing it from typing would take 3 ms
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    #: The name of the source file and of its `.pyc` file, the source's time in nanoseconds and its size, and the place of the
    #: code: how many bytes after the index, and its length.
    Entry: TypeAlias = tuple[str, str, int, int, int, int]

#: The packages whose modules are kept, besides those of Python's library. Modules of extensions are not.
PACKAGES = ("fairlead", "msgspec", "h11")
#: The folder of Python's library.
_LIBRARY = os.__file__.rpartition("/")[0]
#: What the file starts with. Another build of Python reads code differently.
_MARK = f"fairlead 1 {sys.version}\n".encode()
#: How many bytes hold the length of the index, and then that of all code.
_LENGTH = 8
_PACKAGE_FILE = "/__init__.py"
#: The length of what precedes the code in a `.pyc` file.
_PYC_HEAD = 16

_in_use: CodeCache | None = None


class CodeCache:
    """Finds modules whose code is in the file at `path`. It is a finder for `sys.meta_path`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._loaded_before = frozenset(sys.modules)
        self._file = -1
        self._identity: tuple[int, int] | None = None
        self._codes_start = 0
        self._index: dict[str, Entry] = {}
        try:
            self._open()
        except (OSError, EOFError, ValueError, TypeError):  # there is no such file yet, or it is damaged
            self._index = {}

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return how to load a module, or None if the file does not have its current code."""
        entry = self._index.get(name)
        if entry is None:
            return None
        source, cached, *_ = entry
        is_package = source.endswith(_PACKAGE_FILE)
        folder = source[: -len(_PACKAGE_FILE)] if is_package else source
        if folder.rpartition("/")[0] != _first_folder(path) or not _is_current(entry):
            return None
        spec = ModuleSpec(name, _CachedLoader(name, source, self, entry), origin=source)
        if is_package:
            spec.submodule_search_locations = [folder]
        spec.has_location = True
        spec.cached = cached
        return spec

    def code(self, entry: Entry) -> CodeType | None:
        """Return the code of a module, or None if the file is damaged or was closed by other code."""
        try:
            code = marshal.loads(self._read(entry))
            if not isinstance(code, CodeType):
                raise TypeError
        except OSError:
            return None
        except (EOFError, ValueError, TypeError):
            self._remove()
            return None
        # As the usual import does. The code names another file if the folder was moved after the module was compiled.
        _imp._fix_co_filename(code, entry[0])  # pyright: ignore
        return code

    def save(self) -> None:
        """Add the modules that this process loaded from elsewhere, and write the file again if there are any.

        Does nothing if Python may not write `.pyc` files, or if the folder cannot be written.
        """
        if sys.dont_write_bytecode:
            return
        try:
            added = dict(self._list_added())
            if added:
                kept = {name: entry for name, entry in self._index.items() if name not in added and _is_current(entry)}
                self._write({name: (entry, self._read(entry)) for name, entry in kept.items()} | added)
        except OSError:
            pass

    def _open(self) -> None:
        file = os.open(self._path, os.O_RDONLY)
        # The numbers of standard streams that are closed must stay free: `cli.main` opens /dev/null for them.
        low: list[int] = []
        while file < 3:
            low.append(file)
            file = os.dup(file)
        for number in low:
            os.close(number)
        self._file = file
        status = os.fstat(file)
        self._identity = (status.st_dev, status.st_ino)
        head = os.pread(file, len(_MARK) + 2 * _LENGTH, 0)
        if not head.startswith(_MARK):
            return
        index_length = int.from_bytes(head[len(_MARK) : -_LENGTH], "little")
        self._codes_start = len(head) + index_length
        if self._codes_start + int.from_bytes(head[-_LENGTH:], "little") == status.st_size:
            self._index = marshal.loads(os.pread(file, index_length, len(head)))

    def _remove(self) -> None:
        """Remove a damaged file. A later process writes it again."""
        self._index = {}
        try:  # noqa: SIM105  contextlib is not loaded yet
            os.unlink(self._path)
        except OSError:
            pass

    def _read(self, entry: Entry) -> bytes:
        """Read the code of a module. Raises OSError."""
        status = os.fstat(self._file)
        if (status.st_dev, status.st_ino) != self._identity:  # other code closed it, and the number is used for another file
            raise OSError
        *_, start, length = entry
        return os.pread(self._file, length, self._codes_start + start)

    def _list_added(self) -> Iterator[tuple[str, tuple[Entry, bytes]]]:
        """Return the modules that were loaded from their own `.pyc` files."""
        before = self._loaded_before
        # Postponed modules that have not been loaded have another class.
        for name, module in [item for item in sys.modules.items() if item[0] not in before and type(item[1]) is ModuleType]:
            loader = getattr(spec := getattr(module, "__spec__", None), "loader", None)
            if type(getattr(loader, "postponed", loader)) is not SourceFileLoader or spec is None or not _may_be_kept(name):
                continue
            found = _read_compiled(spec)
            # It is the same if the file has the module, but another folder comes before the library today.
            if found is not None and found[0][:4] != self._index.get(name, ())[:4]:
                yield name, found

    def _write(self, modules: dict[str, tuple[Entry, bytes]]) -> None:
        index: dict[str, Entry] = {}
        start = 0
        for name, (entry, code) in modules.items():
            index[name] = (*entry[:4], start, len(code))
            start += len(code)
        packed = marshal.dumps(index)
        lengths = [len(packed).to_bytes(_LENGTH, "little"), start.to_bytes(_LENGTH, "little")]
        content = b"".join((_MARK, *lengths, packed, *(code for _, code in modules.values())))
        beside = f"{self._path}.{os.getpid()}"
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)  # no other user may write code
        try:
            if os.write(file, content) != len(content):
                raise OSError  # the disk is full
            os.replace(beside, self._path)
        except OSError:
            os.unlink(beside)
            raise
        finally:
            os.close(file)


def use() -> None:
    """Load modules from the cache from now on. Does nothing where there can be none: on Windows, or in an archive of modules."""
    global _in_use
    if hasattr(os, "pread") and __spec__ is not None and __spec__.cached:
        _in_use = CodeCache(__spec__.cached.removesuffix(".pyc") + ".modules")
        sys.meta_path.insert(0, _in_use)


def find_spec(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """Return how to load a module from the cache, or None if it is not there."""
    return None if _in_use is None else _in_use.find_spec(name, path)


def save() -> None:
    """Add the modules that this process loaded from elsewhere to the cache. Called at the end of a process."""
    if _in_use is not None:
        _in_use.save()


class _CachedLoader(SourceFileLoader):
    """Loads a module from the cache. Asked again, or if the file is damaged, it does what the usual loader does."""

    def __init__(self, name: str, path: str, cache: CodeCache, entry: Entry) -> None:
        super().__init__(name, path)
        self._cache: CodeCache | None = cache
        self._entry = entry

    def get_code(self, fullname: str) -> CodeType | None:
        cache, self._cache = self._cache, None
        code = None if cache is None else cache.code(self._entry)
        return super().get_code(fullname) if code is None else code


def _first_folder(path: Sequence[str] | None) -> str | None:
    """Return the first folder that the usual import would search, or None if it may find other modules than those of the file."""
    if path is not None:
        return path[0] if len(path) == 1 else None
    for folder in sys.path:
        # Python keeps None for what it skips, such as its own archive of the library, which hardly ever exists.
        if folder == _LIBRARY or sys.path_importer_cache.get(folder, folder) is not None:
            return folder
    return None


def _is_current(entry: Entry) -> bool:
    try:
        status = os.stat(entry[0])
    except OSError:
        return False
    return status.st_mtime_ns == entry[2] and status.st_size == entry[3]


def _may_be_kept(name: str) -> bool:
    """Return whether the file may hold a module: its package says where it is, or Python's library comes first."""
    package, dot, _ = name.partition(".")
    return bool(dot) if package in PACKAGES else package in sys.stdlib_module_names


def _read_compiled(spec: ModuleSpec) -> tuple[Entry, bytes] | None:
    """Return the content of a module's `.pyc` file if Python would use it, and would compare it with the time of the source."""
    if not spec.origin or not spec.cached:
        return None
    try:
        status = os.stat(spec.origin)
        with open(spec.cached, "rb") as file:
            head, code = file.read(_PYC_HEAD), file.read()
    except OSError:
        return None
    checked = [0, int(status.st_mtime) & 0xFFFF_FFFF, status.st_size & 0xFFFF_FFFF]  # 0: not compared by a hash
    if head != MAGIC_NUMBER + b"".join(number.to_bytes(4, "little") for number in checked):
        return None
    return (spec.origin, spec.cached, status.st_mtime_ns, status.st_size, 0, len(code)), code
