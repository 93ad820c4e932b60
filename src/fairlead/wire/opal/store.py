"""Keeps Opal's sessions and settings, in their own folder in the home. A session store may keep the sessions instead."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from fairlead.config import files, json_files
from fairlead.config.home import Home
from fairlead.errors import ConfigError, SessionError, SessionNotFound
from fairlead.protocol.opal.objects import ListedSession
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.sessions import ConversationStore
from fairlead.stores.paths import iso, transcripts_folder
from fairlead.wire.jsonrpc import BadParams

if TYPE_CHECKING:
    from fairlead.stores import SessionStore

#: The longest session id that a client may choose.
LONGEST_ID = 1024
#: Ids that are valid file names on every system. Files of other sessions are named by the hash of the id.
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")


class OpalStore(Struct, frozen=True):
    """Settings are in `home`, sessions in `folder` or in a session store. If `keeps` is false, no session is saved."""

    home: Home
    #: The files of sessions, or only their other files if they are in a session store.
    folder: Path
    keeps: bool
    store: SessionStore | None = None

    @classmethod
    def below(cls, home: Home, folder: Path | None, *, keep: bool, store: SessionStore | None = None) -> OpalStore:
        """Make the store in `home`. `folder` replaces the default, also in an isolated run, which otherwise saves nothing.

        With a session store, that keeps the sessions instead.
        """
        usual = home.root / "opal" / "sessions"
        keeps = store is not None or (keep and (folder is not None or not home.isolated))
        return cls(home, folder or usual, keeps, store)

    # Sessions

    def path(self, session_id: str) -> Path:
        """The file of a session."""
        plain = _PLAIN.fullmatch(session_id)
        return self.folder / f"{session_id if plain else '=' + sha256(session_id.encode()).hexdigest()}.jsonl"

    def own_folder(self, session_id: str) -> Path:
        """The folder for a session's other files. It may not exist yet."""
        return transcripts_folder(self.path(session_id))

    async def has(self, session_id: str) -> bool:
        """Whether there is a saved session with that id, or an unusable file in its place. Raises SessionError."""
        if self.store is None:
            return self._has_file(session_id)
        try:
            await self.store.read(stored_id(session_id), 0, 1)
        except SessionNotFound:
            return False
        return True

    def _has_file(self, session_id: str) -> bool:
        from fairlead.stores.headers import is_blank_file

        path = self.path(session_id)
        return os.path.exists(path) and not is_blank_file(path)

    def open(self, session_id: str, sessions: ConversationStore) -> Conversation:
        """Open the session with that id to resume it, or begin it. Raises SessionError."""
        name = str(self.path(session_id)) if self.store is None else stored_id(session_id)
        return sessions.open_or_new(name, session_id)[0]

    async def listed(self, warn: Callable[[str], None] | None) -> list[ListedSession]:
        """The saved sessions, last changed first. Damaged sessions are left out, and reported to `warn`."""
        if self.store is None:
            from fairlead.stores.listing import list_sessions

            found = await asyncio.to_thread(list_sessions, self.folder)
        else:
            from fairlead.session.history.store_archive import StoreArchive

            found = await StoreArchive(self.store).summaries(self.folder, everywhere=True)
        for info in found:
            if info.problem is not None and warn is not None:
                warn(f"session/list leaves out a damaged session. {info.problem}")
        usable = [info for info in found if info.problem is None]
        return [ListedSession(info.id, info.name, iso(info.modified).partition(".")[0]) for info in usable]

    async def delete(self, session_id: str) -> bool:
        """Delete a saved session. Returns False if there is none. Raises SessionError if it cannot be deleted."""
        if self.store is not None:
            try:
                await self.store.delete(stored_id(session_id))
            except SessionNotFound:
                return False
            return True
        return self._delete_file(session_id)

    def _delete_file(self, session_id: str) -> bool:
        from fairlead.stores.deleting import delete_session

        path = self.path(session_id)
        if not os.path.exists(path):
            return False
        delete_session(path, also_blank=True)
        return True

    # Settings

    @property
    def settings_path(self) -> Path:
        return self.home.root / "opal" / "settings.json"

    def settings(self) -> dict[str, Any]:
        """The settings that clients have saved. Raises ConfigError if the file cannot be read."""
        data = None if self.home.isolated else files.read_bytes(self.settings_path)
        return {} if data is None else json_files.parse_object(self.settings_path, data)

    def save(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Add or replace settings. Returns all settings. Raises ConfigError."""
        self.home.refuse_if_shared("The settings of the server")
        if self.home.isolated:
            raise ConfigError("Settings are not saved in an isolated run.")
        json_files.update_object(self.settings_path, lambda content: content.update(settings))
        return self.settings()

    def default_model(self) -> str | None:
        """The saved default model; None if there is none, or the file cannot be read."""
        try:
            chosen = self.settings().get("default_model")
        except ConfigError:
            return None
        return chosen if isinstance(chosen, str) and chosen.strip() else None


def checked_id(session_id: str) -> str:
    """Return a session id that a client chose. Raises BadParams if it is empty or too long."""
    if not 1 <= len(session_id) <= LONGEST_ID:
        raise BadParams(f"session_id: expected 1 to {LONGEST_ID} characters, got {len(session_id)}")
    return session_id


def stored_id(session_id: str) -> str:
    """Return the id of a session in a session store: the same, or its hash if a store cannot keep it."""
    from fairlead.stores.store import check_id

    try:
        check_id(session_id)
    except SessionError:
        return sha256(session_id.encode()).hexdigest()
    return session_id
