"""Listing and deleting session files. A damaged file does not affect the others: listings say what is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path

from fairlead.core.lenient import scrub_text
from fairlead.core.snapshots import SessionInfo
from fairlead.errors import SessionError
from fairlead.stores.headers import header_in, milliseconds
from fairlead.stores.leftovers import remove_leftovers
from fairlead.stores.session_files import is_temporary, refuse_endless
from fairlead.stores.summaries import describe_lines

#: How many bytes of a file are read for a listing.
_READ_LIMIT = 4 << 20


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
