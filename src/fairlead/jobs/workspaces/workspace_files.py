"""Saves the files of a worktree as objects of git, without letting git look at the worktree.

A job may have put anything there: repositories whose configuration starts programs, drivers for attributes, pipes, links that
change while they are read. So the files are read here, by descriptor, and git gets their contents alone. To a snapshot, a
repository in the worktree is a folder like any other.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from msgspec import Struct

from fairlead.errors import WorkspaceError
from fairlead.platform.open_files import LIST, PASS, READ, open_below, open_real
from fairlead.platform.programs import GitCall
from fairlead.tools.background import Stop
from fairlead.tools.search.walk import Entry, IgnoreRules, walk

_BLOCK = 1024 * 1024
#: A file that changed less than this long ago, in nanoseconds, may change again without another time.
_UNCERTAIN = 2_000_000_000
_FILE, _PROGRAM, _LINK, _REPOSITORY = "100644", "100755", "120000", "160000"
#: Names that git takes for its own folder, on one system or another.
_GITS_OWN = re.compile(r"\.git[ .]*(?::.*)?|git~1[ .]*(?::.*)?", re.IGNORECASE | re.DOTALL)
#: Characters that one file system leaves out of names.
_INVISIBLE = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])

#: Files that git reads, and therefore does not take as links.
_NO_LINKS = frozenset((".gitmodules",))

#: What tells that a file is the same as before: mode, size, times, and number.
_Stamp = tuple[int, int, int, int, int]


class Saved(Struct, frozen=True):
    """A file in a snapshot: its mode, and the hash of its contents."""

    mode: str
    blob: str


class Snapshot(Struct):
    """What a snapshot will have: all files, and why some are as they were, or missing."""

    files: dict[str, Saved]
    problem: str = ""


class WorktreeFiles:
    """The files of one worktree. It remembers which it has read, so that a later snapshot reads only those that changed.

    Args:
        root: The worktree.
        algorithm: How the repository hashes: `sha1` or `sha256`.
    """

    def __init__(self, root: Path, algorithm: str) -> None:
        self._root = Path(os.path.realpath(root))
        self._algorithm = algorithm
        self._known: dict[str, tuple[_Stamp, Saved]] = {}

    def save(self, earlier: Mapping[str, Saved], importing: GitCall, stop: Stop) -> Snapshot:
        """Write the contents that changed to the repository, and return what a snapshot has.

        Blocks, so call it on a thread.

        Args:
            earlier: The files of the last snapshot.
            importing: A call of `git fast-import`.
            stop: Ends the work early.

        Raises:
            WorkspaceError: The worktree is gone, or git fails.
            ToolError: It was stopped.
        """
        try:
            folder = open_real(self._root, LIST)
        except OSError as error:
            raise WorkspaceError(f"The directory {self._root} of the job is gone: {error.strerror}.") from None
        try:
            with _Import(importing) as import_:
                return self._save(folder, earlier, import_, stop)
        finally:
            os.close(folder)

    def _save(self, folder: int, earlier: Mapping[str, Saved], import_: _Import, stop: Stop) -> Snapshot:
        now = time.time_ns()
        found = Snapshot({})
        known: dict[str, tuple[_Stamp, Saved]] = {}
        folders = _Folders(folder)
        for name in stop.each(self._names(earlier, found, stop)):
            before = earlier.get(name)
            try:
                stamp, saved = self._file(folders, name, before, import_, stop)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                if not _is_link(error):
                    found.problem = found.problem or f"{name}: {error.strerror}."
                    if before is not None:
                        found.files[name] = before
                continue
            if saved is None:
                continue
            if _is_refused(name, saved):
                found.problem = found.problem or f"git does not take the name {name!r}."
                continue
            found.files[name] = saved
            if stamp is not None and max(stamp[2:4]) < now - _UNCERTAIN:
                known[name] = stamp, saved
        folders.close()
        self._known = known
        self._keep_links_to_repositories(folder, earlier, found.files)
        return found

    def _names(self, earlier: Mapping[str, Saved], found: Snapshot, stop: Stop) -> Iterator[str]:
        """Yield the files that are not ignored, and those that the last snapshot has although they are."""
        seen: set[str] = set()

        def enters(entry: Entry) -> bool:
            name = "/".join(entry.parts)
            if not os.access(f"{self._root}/{name}", os.R_OK | os.X_OK):
                found.problem = found.problem or f"{name!r}: permission denied."
            return True

        for entry in walk(self._root, self._root, stop, above=IgnoreRules(is_one_repository=True), enters=enters):
            if not entry.is_folder:
                name = "/".join(entry.parts)
                seen.add(name)
                yield name
        for name, saved in earlier.items():
            if name not in seen and saved.mode != _REPOSITORY and not any(parent in seen for parent in _parents(name)):
                yield name

    def _file(
        self, folders: _Folders, name: str, before: Saved | None, import_: _Import, stop: Stop
    ) -> tuple[_Stamp | None, Saved | None]:
        """Return what is saved of a file, and its stamp if it did not change meanwhile. Raises OSError.

        Nothing is saved of what is neither a file nor a link.
        """
        parent, _, last = name.rpartition("/")
        above = folders.open(parent)
        found = os.stat(last, dir_fd=above, follow_symlinks=False)
        known = self._known.get(name)
        if known is not None and known[0] == _stamp(found):
            return known
        if stat.S_ISLNK(found.st_mode):
            return None, self._put_link(os.fsencode(os.readlink(last, dir_fd=above)), before, import_)
        if not stat.S_ISREG(found.st_mode):
            return None, None
        file = os.open(last, READ, dir_fd=above)
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                return None, None
            mode = _PROGRAM if found.st_mode & stat.S_IXUSR else _FILE
            blob = self._hash(_contents(file, found.st_size, stop), found.st_size)
            if before is None or before.blob != blob:
                sent = import_.put(_contents(file, found.st_size, stop), found.st_size)
                blob = self._hash(sent, found.st_size)
            has_changed = _stamp(os.fstat(file)) != _stamp(found)
            return (None if has_changed else _stamp(found)), Saved(mode, blob)
        finally:
            os.close(file)

    def _put_link(self, target: bytes, before: Saved | None, import_: _Import) -> Saved:
        blob = self._hash([target], len(target))
        if before is None or before.blob != blob:
            for _ in import_.put(iter([target]), len(target)):
                pass
        return Saved(_LINK, blob)

    def _hash(self, blocks: Iterator[bytes] | list[bytes], size: int) -> str:
        digest = hashlib.new(self._algorithm, b"blob %d\0" % size, usedforsecurity=False)
        for block in blocks:
            digest.update(block)
        return digest.hexdigest()

    def _keep_links_to_repositories(self, folder: int, earlier: Mapping[str, Saved], files: dict[str, Saved]) -> None:
        """Keep the submodules whose folders are empty. If one has files, those are part of the work, and are saved instead."""
        submodules = {name: saved for name, saved in earlier.items() if saved.mode == _REPOSITORY}
        if not submodules:
            return
        filled = {parent for name in files for parent in _parents(name)}
        for name, saved in submodules.items():
            if name in files or name in filled or any(parent in files for parent in _parents(name)):
                continue
            try:
                os.close(open_below(folder, name.split("/"), PASS))
            except OSError as error:
                if _is_link(error) or isinstance(error, FileNotFoundError | NotADirectoryError):
                    continue
            files[name] = saved


class _Folders:
    """Opens the folders of a worktree. The last one stays open, because the next file is often in it too."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._path, self._file = "", root

    def open(self, path: str) -> int:
        """Return a descriptor of a folder, which the next call may close. Raises OSError, also if a link leads there."""
        if path != self._path:
            opened = open_below(self._root, path.split("/"), PASS) if path else self._root
            self.close()
            self._path, self._file = path, opened
        return self._file

    def close(self) -> None:
        if self._file != self._root:
            os.close(self._file)
        self._path, self._file = "", self._root


class _Import:
    """A run of `git fast-import`, which starts with the first file."""

    def __init__(self, call: GitCall) -> None:
        self._call = call
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _Import:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        process = self._process
        if process is None:
            return
        if kind is not None:
            process.kill()
        try:
            errors = process.communicate()[1]
        except BrokenPipeError:  # it has ended early, and something is still in our buffer
            errors = b"it ended early"
        if kind is None and process.returncode:
            lines = errors.decode("utf-8", "replace").splitlines()
            raise WorkspaceError(f"git fast-import failed: {(lines or ['it gave no reason'])[0]}.")

    def put(self, blocks: Iterator[bytes], size: int) -> Iterator[bytes]:
        """Write a file of a size, and yield what was written: a file that has become shorter is filled up."""
        self._write(b"blob\ndata %d\n" % size)
        for block in blocks:
            self._write(block)
            size -= len(block)
            yield block
        while size > 0:
            block = bytes(min(size, _BLOCK))
            self._write(block)
            size -= len(block)
            yield block
        self._write(b"\n")

    def _write(self, data: bytes) -> None:
        try:
            self._stream().write(data)
        except OSError as error:
            raise WorkspaceError(f"git fast-import does not take the files of the job: {error.strerror}.") from error

    def _stream(self) -> IO[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._call.command,
                cwd=self._call.cwd,
                env=self._call.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        return self._process.stdin


def index_lines(earlier: Mapping[str, Saved], files: Mapping[str, Saved]) -> bytes:
    """Return the difference between two snapshots, for `git update-index -z --index-info`. Removed files come first."""
    removed = [f"0 {'0' * len(saved.blob)}\t{name}\0" for name, saved in earlier.items() if name not in files]
    changed = [f"{saved.mode} {saved.blob}\t{name}\0" for name, saved in files.items() if earlier.get(name) != saved]
    return os.fsencode("".join(removed + changed))


def read_tree(output: bytes) -> dict[str, Saved]:
    """Return the files that `git ls-tree -r -z` lists."""
    files: dict[str, Saved] = {}
    for line in output.split(b"\0"):
        if line:
            about, _, name = line.partition(b"\t")
            mode, _, blob = about.decode("ascii").split()
            files[os.fsdecode(name)] = Saved(mode, blob)
    return files


def _contents(file: int, size: int, stop: Stop) -> Iterator[bytes]:
    """Yield the first `size` bytes of an open file."""
    at = 0
    while at < size and (block := os.pread(file, min(_BLOCK, size - at), at)):
        stop.check()
        at += len(block)
        yield block


def _stamp(found: os.stat_result) -> _Stamp:
    return found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _parents(name: str) -> Iterator[str]:
    at = name.find("/")
    while at >= 0:
        yield name[:at]
        at = name.find("/", at + 1)


def _is_link(error: OSError) -> bool:
    """Whether a folder on the way, or the file itself, has become a link: it is not part of the worktree then."""
    return error.errno == errno.ELOOP


def _is_refused(name: str, saved: Saved) -> bool:
    """Whether git refuses a file because of its name."""
    parts = re.split(r"[/\\]", name.translate(_INVISIBLE))
    is_config = saved.mode == _LINK and parts[-1].lower() in _NO_LINKS
    return is_config or any(_GITS_OWN.fullmatch(part) for part in parts)
