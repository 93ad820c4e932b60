"""The file beside a session file that holds what fairlead itself notes: queued messages, calls that have started, todos.

Other programs that read a session file take every line with an id for an entry, so notes are in a separate file. It is
`X.jsonl.notes` for the session file `X.jsonl`, and has one note per line, after a header with the id of the session. Notes about
another session, whose file was deleted or replaced, are ignored and then overwritten. The lock on the session file also covers
its notes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from fairlead.platform.open_files import sync_folder
from fairlead.stores.headers import BINARY
from fairlead.stores.paths import Durability

#: What the name of a session file is continued with. It ends in .jsonl, so that no other file is mistaken for notes.
_SUFFIX = ".notes"
NOTES_SUFFIX = f".jsonl{_SUFFIX}"


class _NotesHeader(Struct, tag_field="type", tag="notes"):
    """The first line."""

    session: str


def notes_path(session: Path) -> Path:
    """Return the path of the notes of a session file. Links to the session file are resolved."""
    return Path(f"{os.path.realpath(session)}{_SUFFIX}")


def read_notes(session: Path, id: str) -> list[bytes]:
    """Return the complete lines with notes about the session with this id. Raises OSError."""
    try:
        data = notes_path(session).read_bytes()
    except FileNotFoundError:
        return []
    header, *lines = data.split(b"\n")[:-1] or [b""]
    return lines if _is_about(header, id) else []


def _is_about(header: bytes, id: str) -> bool:
    try:
        return msgspec.json.decode(header, type=_NotesHeader).session == id
    except (msgspec.DecodeError, UnicodeError):
        return False


def delete_notes(session: Path) -> None:
    """Delete the notes of a session file, if there are any and they can be deleted."""
    with suppress(OSError):
        notes_path(session).unlink()


def delete_orphan(path: str) -> None:
    """Delete a file with notes if another program has deleted the session."""
    if not os.path.lexists(path.removesuffix(_SUFFIX)):
        with suppress(OSError):
            Path(path).unlink()


class NotesFile:
    """The notes of one session file, to append to. The caller holds the lock on the session file.

    `lines` returns all notes of the session, to write them where the file is new, or is gone.
    """

    def __init__(self, session: Path, id: str, lines: Callable[[], list[bytes]], durability: Durability) -> None:
        #: Lines that are not on disk yet, in order.
        self.pending: list[bytes] = []
        self._session = session
        self._id = id
        self._lines = lines
        self._durability: Durability = durability
        self._handle: int | None = None

    def write(self, new: list[bytes]) -> None:
        """Append the pending lines and `new` ones, or nothing. Raises OSError."""
        lines = [*self.pending, *new]
        if self._handle is not None and os.fstat(self._handle).st_nlink == 0:
            self.close()
        is_new = False
        if self._handle is None:
            self._handle, is_new = self._open()
        if is_new:  # the pending lines are among all lines
            lines = list(dict.fromkeys([msgspec.json.encode(_NotesHeader(self._id)), *self._lines(), *lines]))
        try:
            self._append(self._handle, b"".join(line + b"\n" for line in lines))
        except OSError:
            if is_new:
                self.close()
            raise
        self.pending = []

    def close(self) -> None:
        """Close the file. Pending lines are not written."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _open(self) -> tuple[int, bool]:
        """Open the file. Returns its handle, and whether it is empty: notes about another session are removed."""
        path = notes_path(self._session)
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | BINARY, 0o600)
        try:
            with open(handle, "rb", buffering=0, closefd=False) as stream:
                data = stream.readall()
            is_ours = _is_about(data.split(b"\n", 1)[0], self._id)
            # A process that was killed may have left a part of a line.
            os.ftruncate(handle, data.rfind(b"\n") + 1 if is_ours else 0)
            if not is_ours and self._durability == "fsync":
                sync_folder(path.parent)
        except BaseException:
            os.close(handle)
            raise
        return handle, not is_ours

    def _append(self, handle: int, data: bytes) -> None:
        size, written = os.fstat(handle).st_size, 0
        try:
            while written < len(data):
                written += os.write(handle, data[written:] if written else data)
            if self._durability == "fsync":
                os.fsync(handle)
        except OSError:
            with suppress(OSError):
                os.ftruncate(handle, size)
            raise
