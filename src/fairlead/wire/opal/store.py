"""Keeps Opal's sessions and settings, in their own folder in the home."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct

from fairlead.config import files, json_files
from fairlead.config.home import Home
from fairlead.errors import ConfigError, SessionError
from fairlead.protocol.opal.objects import ListedSession
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.paths import iso, transcripts_folder
from fairlead.session.history.sessions import ConversationStore
from fairlead.wire.jsonrpc import BadParams

#: The longest session id that a client may choose.
LONGEST_ID = 1024
#: Ids that are valid file names on every system. Files of other sessions are named by the hash of the id.
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")


class OpalStore(Struct, frozen=True):
    """Settings are in `home`, sessions in `folder`. If `keeps` is false, no session is saved."""

    home: Home
    folder: Path
    keeps: bool

    @classmethod
    def below(cls, home: Home, folder: Path | None, *, keep: bool) -> OpalStore:
        """Make the store in `home`. `folder` replaces the default, also in an isolated run, which otherwise saves nothing."""
        usual = home.root / "opal" / "sessions"
        return cls(home, folder or usual, keep and (folder is not None or not home.isolated))

    # Sessions

    def path(self, session_id: str) -> Path:
        """The file of a session."""
        plain = _PLAIN.fullmatch(session_id)
        return self.folder / f"{session_id if plain else '=' + sha256(session_id.encode()).hexdigest()}.jsonl"

    def own_folder(self, session_id: str) -> Path:
        """The folder for a session's other files. It may not exist yet."""
        return transcripts_folder(self.path(session_id))

    def has(self, session_id: str) -> bool:
        """Whether there is a saved session with that id, or an unusable file in its place."""
        from fairlead.session.history.reading import is_blank_file

        path = self.path(session_id)
        return os.path.exists(path) and not is_blank_file(path)

    def open(self, session_id: str, sessions: ConversationStore) -> Conversation:
        """Open the session with that id to resume it, or begin it. Raises SessionError."""
        path = self.path(session_id)
        if not self.has(session_id):
            return sessions.new(id=session_id, path=path)
        conversation = sessions.open(path)
        if conversation.id != session_id:
            conversation.close()
            raise SessionError(f'{path} holds another session than "{session_id}".')
        return conversation

    def listed(self, warn: Callable[[str], None] | None) -> list[ListedSession]:
        """The saved sessions, last changed first. Damaged files are left out, and reported to `warn`."""
        from fairlead.session.history.listing import list_sessions

        found = list_sessions(self.folder)
        for info in found:
            if info.problem is not None and warn is not None:
                warn(f"session/list leaves out a damaged file. {info.problem}")
        usable = [info for info in found if info.problem is None]
        return [ListedSession(info.id, info.name, iso(info.modified).partition(".")[0]) for info in usable]

    def delete(self, session_id: str) -> bool:
        """Delete a saved session. Returns False if there is none. Raises SessionError if it cannot be deleted."""
        from fairlead.session.history.listing import delete_session

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
