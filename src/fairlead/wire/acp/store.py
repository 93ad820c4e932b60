"""Finds the saved sessions of the user: the same files as in every other mode."""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path

from msgspec import Struct

from fairlead.core.snapshots import SessionInfo as Listed
from fairlead.protocol.acp.sessions import SessionInfo
from fairlead.stores.paths import iso, session_folder
from fairlead.wire.acp.narrator import short_title
from fairlead.wire.jsonrpc import BadParams
from fairlead.wire.many_sessions import Common

#: How many sessions a page of a list has.
PAGE = 50


class SessionStore(Struct, frozen=True):
    """Where sessions are saved. Without a root and a folder, none are."""

    #: Has a folder for each working directory.
    root: Path | None
    #: One folder for all working directories, instead.
    folder: Path | None
    #: The user's directory, if folders get the names that omp gives them.
    user: Path | None

    @classmethod
    def of(cls, common: Common) -> SessionStore:
        """Return the store that the command line and the settings choose, as `Agent` does."""
        base, home = common.base, common.home
        env = os.environ if base.env is None else base.env
        folder = base.session_dir
        if folder is None and not base.isolated:
            folder = env.get("PI_CODING_AGENT_SESSION_DIR") or common.settings.session_dir
        if base.keep is False or (base.isolated and folder is None):
            return cls(None, None, None)
        place = None if folder is None else Path(base.cwd, os.path.expanduser(folder))  # noqa: PTH111
        return cls(None if base.isolated else home.sessions_dir, place, home.user if home.has_omp_layout else None)

    def find(self, session_id: str, cwd: Path) -> Path | None:
        """Return the file of the session with exactly this id; None if there is none. Raises SessionError."""
        from fairlead.stores.finding import session_with_id

        if not session_id or "/" in session_id or os.sep in session_id:
            return None
        folders = self._folders(cwd)
        others = [folder for folder in self._folders(None) if folder not in folders]
        return next((path for folder in (*folders, *others) if (path := session_with_id(session_id, folder)) is not None), None)

    def page(self, cwd: str | None, cursor: str | None) -> tuple[list[SessionInfo], str | None]:
        """Return the saved sessions, last changed first, from a cursor on, and the cursor of the next page.

        Raises BadParams for a cursor that no page gave and a `cwd` that is not an absolute path, and SessionError.
        """
        from fairlead.stores.listing import describe, newest_first

        if cwd is not None and (not os.path.isabs(cwd) or "\0" in cwd):  # noqa: PTH117
            raise BadParams(f"cwd: expected an absolute path, found {cwd!r}")
        start = None if cursor is None else position_in(cursor)
        folders = self._folders(None if cwd is None else Path(cwd))
        files = sorted((-changed, str(path)) for folder in folders for changed, path in newest_first(folder))
        found: list[SessionInfo] = []
        last = (0, "")
        for place in files:
            if start is not None and place <= start:
                continue
            info = describe(Path(place[1]), -place[0])
            if not is_shown(info) or (cwd is not None and info.cwd != os.path.normpath(cwd)):
                continue
            if len(found) == PAGE:
                return found, cursor_of(last)
            found.append(info_of(info))
            last = place
        return found, None

    def _folders(self, cwd: Path | None) -> list[Path]:
        from fairlead.stores.listing import folders_below

        if self.folder is not None:
            return [self.folder]
        if self.root is None:
            return []
        return folders_below(self.root) if cwd is None else [session_folder(self.root, cwd, self.user)]


def is_shown(info: Listed) -> bool:
    """Whether a list has a session: one that can be used and is not empty."""
    return info.problem is None and bool(info.message_count != 0 or info.name) and bool(info.cwd)


def info_of(info: Listed) -> SessionInfo:
    """Return what a list says about a session."""
    title = info.name or short_title(info.first_message) or None
    return SessionInfo(info.id, info.cwd, title=title, updated_at=iso(info.modified))


def cursor_of(place: tuple[int, str]) -> str:
    """Return the cursor of the page that follows a place in a list: a time and a name."""
    return base64.urlsafe_b64encode(f"{place[0]}:{place[1]}".encode(errors="surrogateescape")).decode()


def position_in(cursor: str) -> tuple[int, str]:
    """Return the place that a cursor names. Raises BadParams."""
    try:
        changed, _, path = base64.urlsafe_b64decode(cursor.encode()).decode(errors="surrogateescape").partition(":")
        return int(changed), path
    except (ValueError, binascii.Error):
        raise BadParams("cursor: expected the nextCursor of an earlier answer") from None
