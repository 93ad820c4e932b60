"""Where the files of a user's sessions are, and which one a word means."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from fairlead.config.home import Home, PeerHome, working_directory
from fairlead.config.settings_files import load_settings
from fairlead.errors import SessionError
from fairlead.stores.folders import SessionFolders
from fairlead.stores.listing import SHORT_ID, describe, find_session, is_path, latest_session, matching_sessions
from fairlead.stores.paths import id_in_name

#: The word for the session that changed last.
LAST = "last"
#: How many candidates an error lists for an ambiguous word.
_MOST_CANDIDATES = 10


class SessionPlaces(Struct, frozen=True):
    """Where the sessions of the working directory are, and those of all directories."""

    folders: SessionFolders
    cwd: Path

    @classmethod
    def find(cls, peer_home: PeerHome | None, env: Mapping[str, str], session_dir: str | None = None) -> SessionPlaces:
        """Return where a run in the working directory would keep its session. `peer_home` is that of `Home.find`."""
        home, cwd = Home.find(env, peer=peer_home), working_directory()
        configured = load_settings(home, cwd)[0].session_dir
        return cls(SessionFolders.of(home, cwd, env, session_dir, configured), cwd)

    @property
    def folder(self) -> Path:
        folder = self.folders.place(self.cwd)
        assert folder is not None
        return folder

    @property
    def root(self) -> Path | None:
        return self.folders.above

    def files(self, *, everywhere: bool = False) -> list[tuple[int, Path]]:
        """Return the session files, each with the time of its last change in nanoseconds, the last changed first.

        Takes `everywhere` for those of all directories. Raises SessionError if a folder cannot be listed.
        """
        return self.folders.newest_first(None if everywhere else self.cwd)

    def choose(self, word: str) -> Path:
        """Return the session that a word means: a path, `last`, the beginning or the end of an id, or a name.

        Raises SessionError if there is none, or if the word fits several, which the error lists.
        """
        if is_path(word):
            path = find_session(word, None)
            if not os.path.exists(path):
                raise SessionError(f"Session file {path} does not exist.")
            return path
        if word == LAST:
            return self._last()
        found = matching_sessions(word, self.folder, self.root)
        if not found and os.path.isfile(word):
            return Path(word).absolute()
        if not found:
            raise SessionError(f'No session has the id or the name "{word}". `fairlead sessions --all` lists them all.')
        if len(found) > 1:
            raise SessionError(f'"{word}" fits {len(found)} sessions. Use more of the id:\n{_candidates(found)}')
        return found[0]

    def _last(self) -> Path:
        latest = latest_session(self.folder)
        if latest is None:
            hint = "" if self.root is None else " `fairlead sessions --all` lists those of other directories."
            raise SessionError(f"This directory has no session.{hint}")
        return latest


def short_id(id: str) -> str:
    """Return the part of an id that is shown in tables: its end, since the beginnings of ids are times."""
    return id[-SHORT_ID:]


def age(modified_ms: int) -> str:
    """Return how long ago something was, in at most four characters: `12s`, `5m`, `3h`, `2d`, `5w`, `3y`."""
    seconds = max(0, time.time() - modified_ms / 1000)
    units = (("y", 365 * 86400), ("w", 7 * 86400), ("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    for unit, length in units:
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return "now"


def _candidates(paths: list[Path]) -> str:
    lines: list[str] = []
    for path in paths[:_MOST_CANDIDATES]:
        try:
            modified = path.stat().st_mtime_ns
        except OSError:  # deleted meanwhile
            continue
        info = describe(path, modified)
        lines.append(f"  {id_in_name(path) or info.id}  {age(info.modified):>4}  {info.title(50)}")
    if len(paths) > _MOST_CANDIDATES:
        lines.append(f"  and {len(paths) - _MOST_CANDIDATES} more")
    return "\n".join(lines)
