"""Where Opal's sessions and settings are kept: in their own folder in the home. A session store may keep the sessions instead."""

from __future__ import annotations

import re
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct

from fairlead.config import files, json_files
from fairlead.config.home import Home
from fairlead.errors import ConfigError
from fairlead.sessions.catalogue import Catalogue
from fairlead.sessions.common import Common
from fairlead.stores.paths import transcripts_folder
from fairlead.wire.jsonrpc import BadParams

#: The longest session id that a client may choose.
LONGEST_ID = 1024
#: Ids that are valid file names on every system. Files of other sessions are named by the hash of the id.
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")


def opal_catalogue(common: Common) -> tuple[Catalogue, bool]:
    """Return the catalogue of Opal's sessions, and whether new ones are saved.

    Their folder is that of the command line, or one in the home.
    """
    base, archive = common.base, common.archive()
    folder = common.home.root / "opal" / "sessions" if base.session_dir is None else Path(base.cwd, base.session_dir)
    return Catalogue(archive.in_folder(folder, partial(file_of, folder)), folder), archive.keeps


def file_of(folder: Path, session_id: str) -> Path:
    """Return the file of a session."""
    plain = _PLAIN.fullmatch(session_id)
    return folder / f"{session_id if plain else '=' + sha256(session_id.encode()).hexdigest()}.jsonl"


def own_folder(folder: Path, session_id: str) -> Path:
    """Return the folder for the other files of a session. It may not exist yet."""
    return transcripts_folder(file_of(folder, session_id))


class OpalSettings(Struct, frozen=True):
    """The settings that clients save."""

    home: Home

    @property
    def path(self) -> Path:
        return self.home.root / "opal" / "settings.json"

    def read(self) -> dict[str, Any]:
        """The settings that clients have saved. Raises ConfigError if the file cannot be read."""
        data = None if self.home.isolated else files.read_bytes(self.path)
        return {} if data is None else json_files.parse_object(self.path, data)

    def save(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Add or replace settings. Returns all settings. Raises ConfigError."""
        self.home.refuse_if_shared("The settings of the server")
        if self.home.isolated:
            raise ConfigError("Settings are not saved in an isolated run.")
        json_files.update_object(self.path, lambda content: content.update(settings))
        return self.read()

    def default_model(self) -> str | None:
        """The saved default model; None if there is none, or the file cannot be read."""
        try:
            chosen = self.read().get("default_model")
        except ConfigError:
            return None
        return chosen if isinstance(chosen, str) and chosen.strip() else None


def checked_id(session_id: str) -> str:
    """Return a session id that a client chose. Raises BadParams if it is empty or too long."""
    if not 1 <= len(session_id) <= LONGEST_ID:
        raise BadParams(f"session_id: expected 1 to {LONGEST_ID} characters, got {len(session_id)}")
    return session_id
