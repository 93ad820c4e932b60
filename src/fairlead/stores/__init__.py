"""Where sessions are kept: a store holds the lines of many sessions, and lets one owner at a time write to each.

    SessionStore     the protocol: what a store does
    FileStore        a directory of session files, which `pi` reads too
    MemoryStore      this process
    SqliteStore      a SQLite file, for several processes of one machine
    PostgresStore    a Postgres database, for many machines; needs `pip install fairlead[postgres]`
    open_store       the store that a URL names

An owner has a `Lease`: the right to append to a session for some seconds, which the owner renews. The next owner, who opens the
session after the lease has expired, gets the next epoch. The store refuses every append with an older one. `docs/stores.md` shows
how to use a store and how to write another one; `fairlead.testing.check_store` tests it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairlead.stores.files import FileStore
    from fairlead.stores.memory import MemoryData, MemoryStore
    from fairlead.stores.postgres import PostgresStore
    from fairlead.stores.sqlite import SqliteStore
    from fairlead.stores.store import Lease, SessionStore, StoredLine, StoredLines, StoredSession
    from fairlead.stores.urls import open_store

__all__ = [
    "FileStore",
    "Lease",
    "MemoryData",
    "MemoryStore",
    "PostgresStore",
    "SessionStore",
    "SqliteStore",
    "StoredLine",
    "StoredLines",
    "StoredSession",
    "open_store",
]

#: The modules of the names. Each is imported on first use, so that a program loads only the store it uses.
_HOMES = {
    "store": ("Lease", "SessionStore", "StoredLine", "StoredLines", "StoredSession"),
    "files": ("FileStore",),
    "memory": ("MemoryData", "MemoryStore"),
    "sqlite": ("SqliteStore",),
    "postgres": ("PostgresStore",),
    "urls": ("open_store",),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"fairlead.stores.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
