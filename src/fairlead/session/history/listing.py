"""Session files in folders: where they are, what is in them, finding them.

Folders and files are named as pi names them, so that both programs find each other's sessions. A file that is damaged is never in
the way of the others: listings say what is wrong with it, and everything else passes over it as long as there is another.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core import lenient
from fairlead.core.lenient import scrub_text
from fairlead.core.messages import UserMessage, user_text
from fairlead.core.session_info import SessionInfo
from fairlead.errors import SessionError
from fairlead.session.history.entries import decode_message, milliseconds
from fairlead.session.history.locking import is_temporary, remove_leftovers
from fairlead.session.history.paths import id_in_name
from fairlead.session.history.reading import header_in, header_of, refuse_endless

#: A file up to this size is read whole for a listing; of a longer one, this much in all.
_READ_LIMIT = 4 << 20
#: A session in which nothing was said is shorter than this.
_SILENT_LIMIT = 1 << 16
#: What is in such a session: a header, the choice of a model and a level, and the state of extensions.
_SILENT = ("session", "title", "model_change", "thinking_level_change", "custom")


class _Line(Struct):
    """What a listing wants to know of a line. A field of a strange type must not hide the others."""

    type: Any = ""
    name: Any = None
    custom_type: Any = msgspec.field(name="customType", default="")
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
    """The session that changed last; None if there is none.

    One in which nothing was said, because only a model or a level was chosen in it, counts if there is no other.
    """
    silent: Path | None = None
    for _, path in _newest_first(folder):
        if header_of(path) is None:
            continue
        if not _is_silent(path):
            return path
        silent = silent or path
    return silent


def find_session(name: str, folder: Path | None, root: Path | None = None) -> Path:
    """The session that a user means: a path, or the beginning of an id, in `folder` or else in any folder of `root`.

    Raises SessionError if there is none, or more than one.
    """
    if "/" in name or os.sep in name or name.endswith(".jsonl"):
        # Not Path.expanduser: it raises for users that do not exist.
        return Path(os.path.expanduser(name)).absolute()  # noqa: PTH111
    here = _with_id(name, folder) if folder is not None else []
    found = [path for path in here if header_of(path) is not None]
    if not found and root is not None:
        elsewhere = [path for other in _folders(root) if other != folder for path in _with_id(name, other)]
        found = [path for path in elsewhere if header_of(path) is not None] or here or elsewhere
    found = found or here
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
        header = header_of(path)
        if header is not None and header.id == id:
            return path
    return None


# Inside


def _newest_first(folder: Path) -> list[tuple[int, Path]]:
    """The session files of a folder, each with the time of its last change in nanoseconds.

    What processes that were killed have left there is deleted.
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
                    except OSError:  # deleted meanwhile, or a link to nowhere
                        continue
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise SessionError(f"Cannot list the sessions in {folder}: {error.strerror or error}.") from error
    remove_leftovers(leftovers)
    return sorted(found, reverse=True)


def _is_silent(path: Path) -> bool:
    """Whether nothing was said in a session, and it was not even named."""
    try:
        with path.open("rb", buffering=0) as file:
            data = file.read(_SILENT_LIMIT)
    except OSError:
        return False
    if len(data) == _SILENT_LIMIT:
        return False
    for text in data.split(b"\n"):
        line = _decode(text)
        if line is not None and (line.type not in _SILENT or str(line.custom_type).startswith("fairlead.")):
            return False
    return True


def _decode(text: bytes) -> _Line | None:
    """A line of a file; None if it cannot be read."""
    try:
        return _line.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        if not text.strip():
            return None
    try:
        return _line.decode(msgspec.json.encode(lenient.decode(text)))
    except (msgspec.DecodeError, ValueError):
        return None


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
            header = header_of(path)
            id = header.id if header is not None else ""
        if id.startswith(prefix):
            found.append(path)
    return found


def _describe(path: Path, modified_ns: int) -> SessionInfo:
    # A file's name may hold bytes that are no text, and no frame could show.
    info = SessionInfo(scrub_text(str(path)), modified=modified_ns // 1_000_000)
    try:
        refuse_endless(path)
        data, whole = _read_bounded(path)
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
    count = 0
    for text in data.split(b"\n"):
        line = _decode(text)
        if line is None:
            continue
        if line.type == "session_info":
            info.name = (line.name.strip() if isinstance(line.name, str) else "") or None
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
