"""Listing and deleting session files. A damaged file does not affect the others: listings say what is wrong with it."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core import lenient
from fairlead.core.lenient import scrub_text
from fairlead.core.messages import UserMessage, user_text
from fairlead.core.snapshots import SessionInfo
from fairlead.errors import SessionError
from fairlead.session.history.entries import decode_message, milliseconds
from fairlead.session.history.paths import id_in_name, transcripts_folder
from fairlead.session.history.reading import HEADER_LIMIT, header_in, is_blank, refuse_endless
from fairlead.session.history.session_files import BINARY, NO_LINKS, is_temporary, lock, remove_leftovers, remove_leftovers_in

#: How many bytes of a file are read for a listing.
_READ_LIMIT = 4 << 20


class _Line(Struct):
    """The fields of a line that listings need. They accept any type, so that one bad field does not hide the others."""

    type: Any = ""
    name: Any = None
    custom_type: Any = msgspec.field(name="customType", default="")
    message: Raw | UnsetType = UNSET


_line = msgspec.json.Decoder(_Line)


def list_sessions(folder: Path) -> list[SessionInfo]:
    """Return the sessions of a folder, the last changed first. An unreadable file is listed with its `problem`.

    Raises SessionError if the folder cannot be listed. A folder that does not exist has no sessions.
    """
    return [describe(path, modified) for modified, path in newest_first(folder)]


def list_all_sessions(root: Path) -> list[SessionInfo]:
    """Return the sessions of all folders below `root`, the last changed first. Raises SessionError."""
    found = [info for folder in folders_below(root) for info in list_sessions(folder)]
    return sorted(found, key=lambda info: info.modified, reverse=True)


def newest_first(folder: Path) -> list[tuple[int, Path]]:
    """Return the session files of a folder, each with the time of its last change in nanoseconds.

    Temporary files that killed processes have left there are deleted.
    """
    found: list[tuple[int, Path]] = []
    leftovers: list[str] = []
    try:
        with os.scandir(folder) as items:
            for item in items:
                if is_temporary(item.name):
                    leftovers.append(item.path)
                elif item.name.endswith(".jsonl"):
                    try:
                        found.append((item.stat().st_mtime_ns, Path(item.path)))
                    except OSError:  # deleted meanwhile, or a broken link
                        continue
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _not_listed(folder, error) from error
    remove_leftovers(leftovers)
    return sorted(found, reverse=True)


def decode_listed(text: bytes) -> _Line | None:
    """Decode a line of a file; None if it cannot be decoded."""
    try:
        return _line.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        if not text.strip():
            return None
    try:
        return _line.decode(msgspec.json.encode(lenient.decode(text)))
    except (msgspec.DecodeError, ValueError):
        return None


def folders_below(root: Path) -> list[Path]:
    """Return `root` and the folders of sessions below it, without those for the sub-agents of sessions in `root`.

    Raises SessionError if `root` exists and cannot be listed.
    """
    try:
        with os.scandir(root) as items:
            found = [Path(item.path) for item in items if item.is_dir()]
            return [root, *sorted(folder for folder in found if not os.path.exists(folder.with_name(f"{folder.name}.jsonl")))]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _not_listed(root, error) from error


def _not_listed(folder: Path, error: OSError) -> SessionError:
    return SessionError(f"Cannot list the sessions in {folder}: {error.strerror or error}.")


def describe(path: Path, modified_ns: int, *, whole: bool = False) -> SessionInfo:
    """Describe a session file. If it cannot be read, `problem` says why. With `whole`, a long file is read completely too."""
    # A file name may have bytes that are not UTF-8, which no frame can carry.
    info = SessionInfo(scrub_text(str(path)), modified=modified_ns // 1_000_000)
    try:
        refuse_endless(path, whole=whole)
        data, is_whole = (path.read_bytes(), True) if whole else _read_bounded(path)
    except OSError as error:
        info.problem = f"Cannot read session file {info.path}: {error.strerror or error}."
        return info
    except SessionError as error:
        info.problem = scrub_text(str(error))
        return info
    header = header_in(data)
    if header is None:
        info.problem = f"{info.path} is not a session file: it does not begin with a session header."
        return info
    info.id, info.cwd, info.parent_session = header.id, header.cwd, header.parent_session
    info.created = milliseconds(header.timestamp)
    count = describe_lines(info, data.split(b"\n"))
    info.message_count = count if is_whole else None
    return info


def describe_lines(info: SessionInfo, lines: Iterable[bytes]) -> int:
    """Fill in the name and the first message of a session from its lines, and return how many of these are messages."""
    count = 0
    for text in lines:
        line = decode_listed(text)
        if line is None:
            continue
        if line.type == "session_info":
            info.name = (line.name.strip() if isinstance(line.name, str) else "") or None
        elif line.type == "message" and line.message is not UNSET:
            count += 1
            if not info.first_message and isinstance(message := decode_message(line.message), UserMessage):
                info.first_message = user_text(message)
    return count


def _read_bounded(path: Path) -> tuple[bytes, bool]:
    """Return a file's contents and whether they are complete; for a long file, its beginning and its end."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= _READ_LIMIT:
            return file.readall(), True
        half = _READ_LIMIT // 2
        beginning = file.read(half)
        file.seek(size - half)
        return beginning + b"\n" + file.read(half), False


#: The names of sub-agents' files: see `fairlead.session.subagents.subagents`.
_TRANSCRIPT = re.compile(r"[0-9]+-[A-Za-z0-9_-]+\.jsonl")


def delete_session(path: Path, *, also_blank: bool = False) -> None:
    """Delete a session file and the sessions of its sub-agents.

    A blank file, which a crash leaves, is deleted if it has the name of a session, or with `also_blank`. Raises SessionError and
    deletes nothing if the file is not a session file, or if it or the session of a sub-agent is in use. If the session of a
    sub-agent comes into use during the call, that one and the session itself stay, and SessionError is raised.
    """
    try:
        refuse_endless(path)
        with ExitStack() as stack:
            handle = os.open(path, os.O_RDWR | BINARY)
            stack.callback(os.close, handle)
            may_be_blank = also_blank or id_in_name(path) is not None
            if header_in(os.read(handle, HEADER_LIMIT)) is None and not (may_be_blank and is_blank(handle)):
                raise SessionError(f"{path} is not a session file: it does not begin with a session header. It was not deleted.")
            lock(handle, path)
            # A session that is rewritten gets a new file of the same name, which is locked before it appears.
            if not os.path.samestat(os.fstat(handle), path.stat()):
                raise SessionError(f"Session file {path} is in use: it was replaced just now. It was not deleted.")
            transcripts = _transcripts(path)
            if not os.access(path.parent, os.W_OK | os.X_OK):
                raise PermissionError(None, "Permission denied")
            for parent, files in transcripts:
                _delete(parent, files)
            # Last: if this process is killed before, the session can still be found and deleted.
            path.unlink()
    except FileNotFoundError:
        raise SessionError(f"Session file {path} does not exist.") from None
    except OSError as error:
        raise SessionError(f"Cannot delete session file {path}: {error.strerror or error}.") from error


def _transcripts(session: Path) -> list[tuple[Path, list[Path]]]:
    """Return the sessions of a session's sub-agents, and of their sub-agents: pairs of a session and its files, deepest first.

    Raises SessionError if one of the files is in use. No lock is held afterwards, because there can be more files than a
    process may have open: `_delete` checks and locks each file again.
    """
    folder = transcripts_folder(session)
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return []
        candidates = sorted(path for path in folder.iterdir() if _TRANSCRIPT.fullmatch(path.name) and id_in_name(path) is None)
    except OSError as error:
        _raise_if_out_of_handles(error)
        return []
    found: list[tuple[Path, list[Path]]] = []
    files: list[Path] = []
    for path in candidates:
        handle = _open_transcript(path, session)
        if handle is not None:
            os.close(handle)
            found += _transcripts(path)
            files.append(path)
    return [*found, (session, files)] if files else found


def _open_transcript(path: Path, session: Path) -> int | None:
    """Open and lock a file that is the session of a sub-agent of `session`, or blank; None for any other file.

    Raises SessionError if it is in use, and OSError if too many files are open.
    """
    try:
        handle = os.open(path, os.O_RDWR | NO_LINKS | BINARY)
    except OSError as error:
        _raise_if_out_of_handles(error)
        return None
    with ExitStack() as stack:
        stack.callback(os.close, handle)
        try:
            header = header_in(os.read(handle, HEADER_LIMIT))
            if header is None:
                is_ours = is_blank(handle)
            else:
                is_ours = header.parent_session is not None and _is_same(Path(header.parent_session), session)
        except OSError:
            return None
        if not is_ours:
            return None
        lock(handle, path)
        stack.pop_all()  # the caller closes it
    return handle


def _raise_if_out_of_handles(error: OSError) -> None:
    """Raise an error that says nothing about the file, which must not be left behind as if it were not ours."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise error


def _is_same(named: Path, session: Path) -> bool:
    """Whether a header names this session. Both files may have been moved together since it was written."""
    try:
        return named == session or named.samefile(session)
    except FileNotFoundError:
        return named.name == session.name
    except (OSError, ValueError):
        return False


def _delete(session: Path, files: list[Path]) -> None:
    """Delete sessions of sub-agents, and their folder if it is empty then. A file that cannot be deleted stays.

    Raises SessionError if a file has come into use.
    """
    for path in files:
        handle = _open_transcript(path, session)
        if handle is not None:
            with suppress(OSError):
                path.unlink()
            os.close(handle)
    folder = transcripts_folder(session)
    remove_leftovers_in(folder)
    with suppress(OSError):
        folder.rmdir()
