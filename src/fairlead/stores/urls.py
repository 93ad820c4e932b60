"""Finds the store that a URL names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.errors import ConfigError

if TYPE_CHECKING:
    from fairlead.stores.store import SessionStore


def open_store(url: str) -> SessionStore:
    """Return the store that a URL names. It connects with its first call.

        memory:                          a MemoryStore
        sqlite:///jobs.db                a SqliteStore in a file of the working directory; with four slashes, an absolute path
        postgresql://user@host/name      a PostgresStore
        file:sessions                    a FileStore in a directory; `file:///path` for an absolute path

    Raises ConfigError for any other URL.
    """
    scheme, separator, rest = url.partition(":")
    if separator and scheme == "memory":
        from fairlead.stores.memory import MemoryStore

        return MemoryStore()
    if separator and scheme == "sqlite" and rest.startswith("///") and len(rest) > 3:
        from fairlead.stores.sqlite import SqliteStore

        return SqliteStore(Path(rest[3:]))
    if separator and scheme in ("postgresql", "postgres"):
        from fairlead.stores.postgres import PostgresStore

        return PostgresStore(url)
    if separator and scheme == "file" and rest:
        from fairlead.stores.files import FileStore

        return FileStore(Path(rest.removeprefix("//")))
    raise ConfigError(
        f"{url!r} names no session store. Expected memory:, sqlite:///FILE, postgresql://HOST/DATABASE or file:DIRECTORY."
    )
