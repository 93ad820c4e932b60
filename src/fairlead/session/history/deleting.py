"""Deleting sessions: a session file, the conversations of its sub-agents, and nothing else."""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import ExitStack, suppress
from pathlib import Path

from fairlead.errors import SessionError
from fairlead.session.history.locking import NO_LINKS, lock, remove_leftovers_in
from fairlead.session.history.paths import id_in_name, transcripts_folder
from fairlead.session.history.reading import BINARY, HEADER_LIMIT, header_in, is_blank, refuse_endless

#: How the files of sub-agents are named: see `fairlead.session.subagents.subagents`.
_TRANSCRIPT = re.compile(r"[0-9]+-[A-Za-z0-9_-]+\.jsonl")


def delete_session(path: Path, *, also_blank: bool = False) -> None:
    """Delete a session file, and the conversations of its sub-agents.

    A blank file, as a crash leaves it, is deleted if it is named as sessions are, or with `also_blank`. Raises SessionError, and
    deletes nothing, if it is not a session file, or if it or a conversation of its sub-agents is in use.
    """
    try:
        refuse_endless(path)
        with ExitStack() as held:
            handle = os.open(path, os.O_RDWR | BINARY)
            held.callback(os.close, handle)
            may_be_blank = also_blank or id_in_name(path) is not None
            if header_in(os.read(handle, HEADER_LIMIT)) is None and not (may_be_blank and is_blank(handle)):
                raise SessionError(f"{path} is not a session file: it does not begin with a session header. It was not deleted.")
            lock(handle, path)
            # A session that is rewritten gets another file of the same name, which is locked before it is there.
            if not os.path.samestat(os.fstat(handle), path.stat()):
                raise SessionError(f"Session file {path} is in use: it was replaced just now. It was not deleted.")
            transcripts = _transcripts(path, held)
            if not os.access(path.parent, os.W_OK | os.X_OK):
                raise PermissionError(None, "Permission denied")
            for folder, files in transcripts:
                _delete(folder, files)
            # Last: if this process is killed before, the session can still be found and deleted.
            path.unlink()
    except FileNotFoundError:
        raise SessionError(f"Session file {path} does not exist.") from None
    except OSError as error:
        raise SessionError(f"Cannot delete session file {path}: {error.strerror or error}.") from error


def _transcripts(session: Path, held: ExitStack) -> list[tuple[Path, list[Path]]]:
    """The folders with the conversations of a session's sub-agents and of theirs, the deepest first, and the files in each.

    The files are locked until `held` lets go. Raises SessionError if one is in use, and OSError if there are more than this
    process may have open.
    """
    folder = transcripts_folder(session)
    found: list[tuple[Path, list[Path]]] = []
    files: list[Path] = []
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return []
        candidates = sorted(path for path in folder.iterdir() if _TRANSCRIPT.fullmatch(path.name) and id_in_name(path) is None)
    except OSError as error:
        _raise_if_full(error)
        return []
    for path in candidates:
        if _hold(path, session, held):
            found += _transcripts(path, held)
            files.append(path)
    return [*found, (folder, files)] if files else found


def _hold(path: Path, session: Path, held: ExitStack) -> bool:
    """Lock a file if it is the conversation of a sub-agent of `session`, or is blank; False if it is something else."""
    try:
        handle = os.open(path, os.O_RDWR | NO_LINKS | BINARY)
    except OSError as error:
        _raise_if_full(error)
        return False
    held.callback(os.close, handle)
    try:
        header = header_in(os.read(handle, HEADER_LIMIT))
        if header is None:
            belongs = is_blank(handle)
        else:
            belongs = header.parent_session is not None and _is_same(Path(header.parent_session), session)
    except OSError:
        return False
    if belongs:
        lock(handle, path)
    return belongs


def _raise_if_full(error: OSError) -> None:
    """Raise an error that says nothing about the file: it must not be left behind as if it were not ours."""
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


def _delete(folder: Path, files: list[Path]) -> None:
    """Delete files, and their folder if it is empty then. What cannot go stays."""
    for path in files:
        with suppress(OSError):
            path.unlink()
    remove_leftovers_in(folder)
    with suppress(OSError):
        folder.rmdir()
