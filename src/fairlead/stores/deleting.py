"""Deleting session files with the sessions of their sub-agents, and the temporary files that killed processes have left."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from fairlead.errors import SessionError
from fairlead.platform.open_files import try_lock
from fairlead.stores.headers import BINARY, HEADER_LIMIT, header_in, is_blank, refuse_endless
from fairlead.stores.notes_files import NOTES_SUFFIX, delete_notes, delete_orphan
from fairlead.stores.paths import id_in_name, transcripts_folder
from fairlead.stores.session_files import NO_LINKS, is_temporary, lock

#: The names of sub-agents' files: see `fairlead.session.subagents.subagents`.
_TRANSCRIPT = r"[0-9]+-[A-Za-z0-9_-]+\.jsonl"


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
            delete_notes(path)
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
        transcripts = (path for path in folder.iterdir() if re.fullmatch(_TRANSCRIPT, path.name))
        candidates = sorted(path for path in transcripts if id_in_name(path) is None)
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
            delete_notes(path)
            with suppress(OSError):
                path.unlink()
            os.close(handle)
    folder = transcripts_folder(session)
    remove_leftovers_in(folder)
    with suppress(OSError):
        folder.rmdir()


def is_leftover(name: str) -> bool:
    """Whether a file with this name may be a leftover: see `remove_leftovers`."""
    return is_temporary(name) or name.endswith(NOTES_SUFFIX)


def remove_leftovers(paths: Iterable[str]) -> None:
    """Delete the leftovers among `paths`: notes without their session, and temporary files whose process has ended.

    A locked file belongs to a running process.
    """
    temporary: list[str] = []
    for path in paths:
        (delete_orphan(path) if path.endswith(NOTES_SUFFIX) else temporary.append(path))
    if os.name == "nt":
        return
    for path in temporary:
        with suppress(OSError):
            handle = os.open(path, os.O_RDWR | NO_LINKS)
            try:
                status = os.fstat(handle)
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and try_lock(handle):
                    Path(path).unlink()
            finally:
                os.close(handle)


def remove_leftovers_in(folder: Path) -> None:
    """Call `remove_leftovers` for all files in a folder that may be leftovers. A folder that cannot be read is ignored."""
    with suppress(OSError), os.scandir(folder) as items:
        remove_leftovers([item.path for item in items if is_leftover(item.name)])
