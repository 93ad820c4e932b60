"""Session files in folders: where they are, what is in them, finding and deleting them.

Folders and files are named as pi names them, so that both programs find each other's sessions.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core.messages import UserMessage, user_text
from fairlead.core.session_info import SessionInfo
from fairlead.errors import SessionError
from fairlead.session.entries import Header, decode_message, milliseconds
from fairlead.session.places import id_in_name, transcripts_folder
from fairlead.session.store import lock, read_header, refuse_endless

#: A file up to this size is read whole for a listing; of a longer one, this much in all.
_READ_LIMIT = 4 << 20
#: A header is looked for in this much of a file.
_HEADER_LIMIT = 1 << 16


class _Line(Struct):
    type: str = ""
    name: str | None = None
    message: Raw | UnsetType = UNSET


_line = msgspec.json.Decoder(_Line)


def list_sessions(folder: Path) -> list[SessionInfo]:
    """The sessions of a folder, those that changed last first. What cannot be read is listed with its `problem`."""
    return [_describe(path, modified) for modified, path in _newest_first(folder)]


def list_all_sessions(root: Path) -> list[SessionInfo]:
    """The sessions of all folders below `root`, those that changed last first."""
    found = [info for folder in _folders(root) for info in list_sessions(folder)]
    return sorted(found, key=lambda info: info.modified, reverse=True)


def latest_session(folder: Path) -> Path | None:
    """The session that changed last; None if there is none."""
    return next((path for _, path in _newest_first(folder) if _header_of(path) is not None), None)


def find_session(name: str, folder: Path | None, root: Path | None = None) -> Path:
    """The session that a user means: a path, or the beginning of an id, in `folder` or else in any folder of `root`.

    Raises SessionError if there is none, or more than one.
    """
    if "/" in name or os.sep in name or name.endswith(".jsonl"):
        # Not Path.expanduser: it raises where nobody has that name.
        return Path(os.path.expanduser(name)).absolute()  # noqa: PTH111
    found = _with_id(name, folder) if folder is not None else []
    if not found and root is not None:
        found = [path for other in _folders(root) if other != folder for path in _with_id(name, other)]
    if not found:
        raise SessionError(
            f'No session has an id that begins with "{name}". List the sessions to see which there are, or give a path.'
        )
    if len(found) > 1:
        candidates = "\n".join(f"  {path}" for path in sorted(found))
        raise SessionError(f'More than one session has an id that begins with "{name}":\n{candidates}')
    return found[0]


def session_with_id(id: str, folder: Path) -> Path | None:
    """The session of exactly this id, if the folder has it."""
    for path in _with_id(id, folder):
        header = _header_of(path)
        if header is not None and header.id == id:
            return path
    return None


def delete_session(path: Path) -> None:
    """Delete a session file, and the conversations of its sub-agents. Raises SessionError if it is none, or is in use."""
    try:
        refuse_endless(path)
        handle = os.open(path, os.O_RDWR)
        try:
            if read_header(_first_line(os.read(handle, _HEADER_LIMIT))) is None:
                raise SessionError(f"{path} is not a session file: it does not begin with a session header. It was not deleted.")
            lock(handle, path)
            path.unlink()
            _delete_transcripts(transcripts_folder(path))
        finally:
            os.close(handle)
    except FileNotFoundError:
        raise SessionError(f"Session file {path} does not exist.") from None
    except OSError as error:
        raise SessionError(f"Cannot delete session file {path}: {error.strerror or error}.") from error


# Inside


def _delete_transcripts(folder: Path) -> None:
    """Delete the session files in a folder, and in those below it, and folders that are empty then. What cannot go stays."""
    with suppress(OSError):
        for path in list(folder.iterdir()):
            if path.is_dir() and not path.is_symlink():
                _delete_transcripts(path)
            elif path.suffix == ".jsonl":
                path.unlink()
        folder.rmdir()


def _newest_first(folder: Path) -> list[tuple[int, Path]]:
    """The session files of a folder, each with the time of its last change in nanoseconds."""
    found: list[tuple[int, Path]] = []
    try:
        with os.scandir(folder) as items:
            for item in items:
                if item.name.endswith(".jsonl"):
                    try:
                        found.append((item.stat().st_mtime_ns, Path(item.path)))
                    except OSError:  # deleted meanwhile, or a link to nowhere
                        continue
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise SessionError(f"Cannot list the sessions in {folder}: {error.strerror or error}.") from error
    return sorted(found, reverse=True)


def _folders(root: Path) -> list[Path]:
    """The folders of sessions below `root`, and itself; not those of the sub-agents of its own sessions."""
    try:
        with os.scandir(root) as items:
            found = [Path(item.path) for item in items if item.is_dir()]
            return [root, *sorted(folder for folder in found if not folder.with_name(f"{folder.name}.jsonl").exists())]
    except OSError:
        return []


def _with_id(prefix: str, folder: Path) -> list[Path]:
    """The sessions of a folder whose id begins so. A file's name usually tells; only others are opened."""
    found: list[Path] = []
    for _, path in _newest_first(folder):
        id = id_in_name(path)
        if id is None:
            header = _header_of(path)
            id = header.id if header is not None else ""
        if id.startswith(prefix):
            found.append(path)
    return found


def _header_of(path: Path) -> Header | None:
    try:
        refuse_endless(path)
        with path.open("rb", buffering=0) as file:
            return read_header(_first_line(file.read(_HEADER_LIMIT)))
    except (OSError, SessionError):
        return None


def _first_line(data: bytes) -> bytes:
    """The first line that may be a header: omp's title comes before it."""
    first, _, rest = data.partition(b"\n")
    return rest.partition(b"\n")[0] if first.startswith(b'{"type":"title"') else first


def _describe(path: Path, modified_ns: int) -> SessionInfo:
    info = SessionInfo(str(path), modified=modified_ns // 1_000_000)
    try:
        refuse_endless(path)
        data, whole = _read_bounded(path)
    except OSError as error:
        info.problem = f"Cannot read session file {path}: {error.strerror or error}."
        return info
    except SessionError as error:
        info.problem = str(error)
        return info
    header = read_header(_first_line(data))
    if header is None:
        info.problem = f"{path} is not a session file: it does not begin with a session header."
        return info
    info.id, info.cwd, info.parent_session = header.id, header.cwd, header.parent_session
    info.created = milliseconds(header.timestamp)
    count = 0
    for text in data.split(b"\n"):
        try:
            line = _line.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        if line.type == "session_info":
            info.name = (line.name or "").strip() or None
        elif line.type == "message" and line.message is not UNSET:
            count += 1
            if not info.first_message and isinstance(message := decode_message(line.message), UserMessage):
                info.first_message = user_text(message)
    info.message_count = count if whole else None
    return info


def _read_bounded(path: Path) -> tuple[bytes, bool]:
    """A file's contents and whether that is all of them; of a long file, its beginning and its end."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= _READ_LIMIT:
            return file.readall(), True
        half = _READ_LIMIT // 2
        beginning = file.read(half)
        file.seek(size - half)
        return beginning + b"\n" + file.read(half), False
