"""Where Opal's sessions and settings are: below the home, in a folder of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct

from fairlead.config import files, json_files
from fairlead.config.home import Home
from fairlead.errors import BadParams, ConfigError, SessionError
from fairlead.protocol.opal.objects import ListedSession
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.paths import iso, transcripts_folder
from fairlead.session.history.sessions import Sessions

#: Characters of an id that a client may choose.
LONGEST_ID = 1024
#: Ids that are fit for a file's name on every system; all but these have a name made of their hash.
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")


class OpalStore(Struct, frozen=True):
    """`home` is where settings are; `folder` where sessions are. With `keeps` false nothing is written there."""

    home: Home
    folder: Path
    keeps: bool

    @classmethod
    def below(cls, home: Home, folder: Path | None, *, keep: bool) -> OpalStore:
        """`folder` takes the place of the usual one, also in an isolated run, which otherwise keeps nothing."""
        usual = home.root / "opal" / "sessions"
        return cls(home, folder or usual, keep and (folder is not None or not home.isolated))

    # Sessions

    def path(self, session_id: str) -> Path:
        """The file of a session."""
        plain = _PLAIN.fullmatch(session_id)
        return self.folder / f"{session_id if plain else '=' + sha256(session_id.encode()).hexdigest()}.jsonl"

    def own_folder(self, session_id: str) -> Path:
        """The folder for what belongs to a session beside its file. It need not be there."""
        return transcripts_folder(self.path(session_id))

    def has(self, session_id: str) -> bool:
        """Whether there is a saved session of that id, or something in its place that cannot be used."""
        from fairlead.session.history.reading import is_blank_file

        path = self.path(session_id)
        return path.exists() and not is_blank_file(path)

    def open(self, session_id: str, sessions: Sessions) -> Conversation:
        """The session of that id, to go on with; a new one if there is none. Raises SessionError."""
        path = self.path(session_id)
        if not self.has(session_id):
            return sessions.new(id=session_id, path=path)
        conversation = sessions.open(path)
        if conversation.id != session_id:
            conversation.close()
            raise SessionError(f'{path} holds another session than "{session_id}".')
        return conversation

    def listed(self, warn: Callable[[str], None] | None) -> list[ListedSession]:
        """The saved sessions, those that changed last first. The list has no place for damaged files: `warn` is told of them."""
        from fairlead.session.history.listing import list_sessions

        found = list_sessions(self.folder)
        for info in found:
            if info.problem is not None and warn is not None:
                warn(f"session/list leaves out a damaged file. {info.problem}")
        usable = [info for info in found if info.problem is None]
        return [ListedSession(info.id, info.name, iso(info.modified).partition(".")[0]) for info in usable]

    def delete(self, session_id: str) -> bool:
        """Delete a saved session; False if there is none. Raises SessionError if it cannot be deleted."""
        from fairlead.session.history.deleting import delete_session

        path = self.path(session_id)
        if not path.exists():
            return False
        delete_session(path, also_blank=True)
        return True

    # Settings

    @property
    def settings_path(self) -> Path:
        return self.home.root / "opal" / "settings.json"

    def settings(self) -> dict[str, Any]:
        """What clients have saved. Raises ConfigError if the file cannot be read."""
        data = None if self.home.isolated else files.read_bytes(self.settings_path)
        return {} if data is None else json_files.parse_object(self.settings_path, data)

    def save(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Put these settings beside the ones that are there, or in their place; returns all. Raises ConfigError."""
        if self.home.isolated:
            raise ConfigError("Settings are not saved in an isolated run.")
        json_files.update_object(self.settings_path, lambda content: content.update(settings))
        return self.settings()

    def default_model(self) -> str | None:
        """The model that was saved as the default; None if there is none, or the file cannot be read."""
        try:
            chosen = self.settings().get("default_model")
        except ConfigError:
            return None
        return chosen if isinstance(chosen, str) and chosen.strip() else None


def checked_id(session_id: str) -> str:
    """Raises BadParams if it is empty, or too long to be kept."""
    if not 1 <= len(session_id) <= LONGEST_ID:
        raise BadParams(f"session_id: expected 1 to {LONGEST_ID} characters, got {len(session_id)}")
    return session_id
