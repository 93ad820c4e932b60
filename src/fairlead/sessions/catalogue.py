"""The catalogue of the sessions that a user has saved: where they are, listing, finding, opening and deleting them."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from fairlead.agent import Shared, load_shared
from fairlead.agent.assembly import archive_of
from fairlead.agent.options import AgentOptions
from fairlead.config.home import Home, PeerHome, working_directory
from fairlead.config.settings import Settings
from fairlead.config.settings_files import load_settings
from fairlead.core.snapshots import SessionInfo
from fairlead.errors import BadCommand, SessionError
from fairlead.session.history.archive import Archive, Saved
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.current import ConversationStore
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


#: How many sessions a page of a list has.
PAGE = 50

#: Opens or begins the conversation of an agent.
Opener: TypeAlias = Callable[[ConversationStore], Conversation]


class Page(Struct):
    """A page of a list, the last changed session first. `next` is the cursor of the next page; None if this is the last one."""

    sessions: Sequence[Saved]
    next: str | None


class Catalogue(Struct, frozen=True):
    """The saved sessions of a user."""

    archive: Archive
    #: The working directory whose sessions are looked for first.
    cwd: Path
    #: Whether sessions without messages and without a name are listed too.
    lists_empty: bool = False

    async def page(self, cwd: str | None = None, cursor: str | None = None) -> Page:
        """Return sessions of a working directory, or of all, from a cursor on.

        Raises BadCommand for a cursor that no page gave and a `cwd` that is not an absolute path, and SessionError.
        """
        if cwd is not None and (not os.path.isabs(cwd) or "\0" in cwd):  # noqa: PTH117
            raise BadCommand(f"cwd: expected an absolute path, found {cwd!r}")
        folder = None if cwd is None else os.path.normpath(cwd)  # noqa: ASYNC240
        after = None if cursor is None else _place_in(cursor)
        sessions, last = await self.archive.page(folder, after, PAGE, self._lists)
        return Page(sessions, None if last is None else _cursor_of(last))

    def _lists(self, info: SessionInfo) -> bool:
        return self.lists_empty or bool((info.message_count != 0 or info.name) and info.cwd)

    async def find(self, session_id: str, cwd: Path | None = None) -> str | None:
        """Return the name of the session with exactly this id in its archive; None if there is none. Raises SessionError."""
        return await self.archive.find(session_id, cwd or self.cwd)

    async def folder_of(self, name: str) -> Path | None:
        """Return the working directory of a session if it exists on this machine. Raises SessionError."""
        return await self.archive.folder_of(name)

    async def delete(self, session_id: str, path: Path | None = None) -> bool:
        """Delete the session with an id, whose file is at `path` if that is known.

        Returns False if there is none. Raises SessionError if it is in use.
        """
        name = str(path) if path is not None and os.path.exists(path) else await self.find(session_id)  # noqa: ASYNC240
        return name is not None and await self.archive.delete(name)


def opener(name: str) -> Opener:
    """Return what opens a session, by its name in the archive."""
    return lambda sessions: sessions.open(name)


def _cursor_of(place: tuple[int, str]) -> str:
    """Return the cursor of the page that follows a place in a list: a time and a name."""
    return base64.urlsafe_b64encode(f"{place[0]}:{place[1]}".encode(errors="surrogateescape")).decode()


def _place_in(cursor: str) -> tuple[int, str]:
    """Return the place that a cursor names. Raises BadCommand."""
    try:
        changed, _, name = base64.urlsafe_b64decode(cursor.encode()).decode(errors="surrogateescape").partition(":")
        return int(changed), name
    except ValueError:  # binascii.Error is one too
        raise BadCommand("cursor: expected the nextCursor of an earlier answer") from None


#: Threads for blocking work: enough that one session cannot occupy them all.
THREADS = 128


class Common(Struct, frozen=True, kw_only=True):
    """What the sessions of a process have in common."""

    #: The options from the command line.
    base: AgentOptions
    home: Home
    #: The user's settings, without those of any project.
    settings: Settings
    shared: Shared

    @property
    def cwd(self) -> Path:
        """The working directory of sessions whose client names none."""
        return Path(self.base.cwd)

    def archive(self) -> Archive:
        """Return where the sessions are saved that the options and the settings choose, as an agent does."""
        base = self.base
        env = os.environ if base.env is None else base.env
        keeps = replace(base, keep=True) if base.keep is None and not base.storage.store else base
        return archive_of(keeps, self.home, self.cwd, env, self.settings)


def common_parts(base: AgentOptions) -> Common:
    """Load what the sessions of a process have in common, and let them use enough threads."""
    asyncio.get_running_loop().set_default_executor(futures.ThreadPoolExecutor(THREADS, thread_name_prefix="fairlead"))
    env = os.environ if base.env is None else base.env
    behaviour = base.behaviour
    home = Home.find(env, isolated=base.isolated, peer=behaviour.peer_home, is_shared=behaviour.shares_home)
    settings, problems = load_settings(home, home.root)
    told: set[str] = set()

    def warn_once(warning: str) -> None:
        """Warn once: every session finds the same problems in what they share."""
        if behaviour.warn is not None and warning not in told:
            told.add(warning)
            behaviour.warn(warning)

    for problem in problems:
        warn_once(problem)
    own = replace(base.with_own_tools(), behaviour=replace(behaviour, warn=warn_once))
    return Common(base=own, home=home, settings=settings, shared=load_shared(base, home, settings))
