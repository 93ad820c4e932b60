"""Finding the session that a user means: a path, the beginning or the end of an id, a name, or the latest one.

A damaged file does not affect the others: a search prefers any other match.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from fairlead.errors import SessionError
from fairlead.stores.headers import header_of
from fairlead.stores.listing import folders_below, newest_first
from fairlead.stores.paths import id_in_name
from fairlead.stores.session_files import refuse_endless
from fairlead.stores.summaries import decode_listed

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
        paths.sort(key=_changed, reverse=True)
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


def _changed(path: Path) -> float:
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
    return True
