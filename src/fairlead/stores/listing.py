"""Listing and deleting session files. A damaged file does not affect the others: listings say what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from fairlead.core.lenient import scrub_text
from fairlead.core.snapshots import SessionInfo
from fairlead.errors import SessionError
from fairlead.stores.deleting import is_leftover, remove_leftovers
from fairlead.stores.headers import decode_listed, describe_lines, header_in, header_of, milliseconds, refuse_endless
from fairlead.stores.notes_files import notes_path
from fairlead.stores.paths import id_in_name

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
                if is_leftover(item.name):
                    leftovers.append(item.path)
                elif item.name.endswith(".jsonl"):
                    try:
                        found.append((item.stat().st_mtime_ns, Path(item.path)))
                    except OSError:  # deleted meanwhile, or a broken link
                        continue
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _make_list_error(folder, error) from error
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
        raise _make_list_error(root, error) from error


def _make_list_error(folder: Path, error: OSError) -> SessionError:
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


#: How many characters of an id its short form has. Ids begin with the time, so their ends differ, and the short form is the end.
SHORT_ID = 8
#: With fewer characters than this, the end of an id is not looked for.
_SHORTEST_END = 6
#: A session without messages is shorter than this.
_EMPTY_LIMIT = 1 << 16
#: The types of lines in such a session: the header, the choice of a model and a thinking level, the state of extensions.
_EMPTY = ("session", "title", "model_change", "thinking_level_change", "custom")
_NAME_MARK = b'"session_info"'


def latest_session(folder: Path) -> Path | None:
    """Return the session of a folder that changed last; None if there is none. Raises SessionError.

    A session without messages, in which only a model or a level was chosen, is returned only if there is no other.
    """
    empty: Path | None = None
    for _, path in newest_first(folder):
        if header_of(path) is None:
            continue
        if not _is_empty(path):
            return path
        empty = empty or path
    return empty


def find_session(name: str, folder: Path | None, root: Path | None = None) -> Path:
    """Return the session that a user names: by a path, the beginning or the end of an id, or a name.

    If several match, the exact id is used, else the session that changed last, as in pi. See `matching_sessions`. If none
    matches, `last` is the session of `folder` that changed last. Raises SessionError for any other word.
    """
    if is_path(name):
        # Path.expanduser would raise for users that do not exist.
        return Path(os.path.expanduser(name)).absolute()  # noqa: PTH111
    found = matching_sessions(name, folder, root)
    if not found and name == "last" and folder is not None and (latest := latest_session(folder)) is not None:
        return latest
    if not found:
        raise SessionError(
            f'No session has an id that begins with "{name}", or that name. '
            "`fairlead sessions` lists the sessions of this directory; a path works too."
        )
    return found[0]


def is_path(name: str) -> bool:
    """Whether a user names a session by the path of its file."""
    return "/" in name or os.sep in name or name.endswith(".jsonl")


def matching_sessions(name: str, folder: Path | None, root: Path | None = None) -> list[Path]:
    """Return the sessions that a word may mean, the most likely one first; more than one if the word is ambiguous.

    The beginning of an id wins over the end of one (at least six characters), and both win over a name, which is compared
    as a whole. Each is looked up in `folder`, then in the other folders of `root`. Of several matches, the one that changed last
    comes first. An exact id matches alone.
    """
    if not name:
        return []
    found, damaged = _search(lambda path: _id_of(path).startswith(name), folder, root)
    if exact := [path for path in found if _id_of(path) == name]:
        return exact[:1]
    if not found and len(name) >= _SHORTEST_END:
        found, _ = _search(lambda path: _id_of(path).endswith(name), folder, root)
    return found or damaged or sessions_named(name, folder, root)


def sessions_named(name: str, folder: Path | None, root: Path | None = None) -> list[Path]:
    """Return the sessions with a name: those of `folder`, else those of the other folders of `root`.

    Case is ignored if no session has exactly this name.
    """
    exact, _ = _search(lambda path: name_of(path) == name, folder, root)
    return exact or _search(lambda path: name_of(path).lower() == name.lower(), folder, root)[0]


def name_of(path: Path) -> str:
    """Return the name that a session was given last; an empty string if it has none or cannot be read."""
    try:
        refuse_endless(path, whole=True)
        data = path.read_bytes()
    except (OSError, SessionError):
        return ""
    end = len(data)
    while (at := data.rfind(_NAME_MARK, 0, end)) >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        stop = data.find(b"\n", at)
        line = decode_listed(data[start : stop if stop >= 0 else len(data)])
        if line is not None and line.type == "session_info":
            return line.name.strip() if isinstance(line.name, str) else ""
        end = start
    return ""


def session_with_id(id: str, folder: Path) -> Path | None:
    """Return the session in `folder` with exactly this id; None if there is none. Raises SessionError."""
    for path in _matching_in(folder, lambda path: _id_of(path).startswith(id)):
        header = header_of(path)
        if header is not None and header.id == id:
            return path
    return None


# Inside


def _search(matches: Callable[[Path], bool], folder: Path | None, root: Path | None) -> tuple[list[Path], list[Path]]:
    """Return the matching sessions of `folder`, or if there are none, of the other folders of `root`.

    The last changed comes first. The second list has those that match and cannot be read.
    """
    damaged: list[Path] = []
    others = [other for other in folders_below(root) if other != folder] if root is not None else []
    for folders in ([folder] if folder is not None else [], others):
        paths = [path for each in folders for path in _matching_in(each, matches)]
        paths.sort(key=_find_changed_at, reverse=True)
        usable = [path for path in paths if header_of(path) is not None]
        if usable:
            return usable, []
        damaged = damaged or paths
    return [], damaged


def _matching_in(folder: Path, matches: Callable[[Path], bool]) -> Iterable[Path]:
    return [path for _, path in newest_first(folder) if matches(path)]


def _id_of(path: Path) -> str:
    """Return the id of a session. The file is opened only if its name has no id."""
    id = id_in_name(path)
    if id is None:
        header = header_of(path)
        id = header.id if header is not None else ""
    return id


def _find_changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # deleted meanwhile
        return 0.0


def _is_empty(path: Path) -> bool:
    """Whether a session has no messages and no name."""
    try:
        with path.open("rb", buffering=0) as file:
            data = file.read(_EMPTY_LIMIT)
    except OSError:
        return False
    if len(data) == _EMPTY_LIMIT:
        return False
    for text in data.split(b"\n"):
        line = decode_listed(text)
        if line is not None and (line.type not in _EMPTY or str(line.custom_type).startswith("fairlead.")):
            return False
    return not os.path.exists(notes_path(path))
