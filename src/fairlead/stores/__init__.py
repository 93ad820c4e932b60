"""Where sessions are kept: a store holds the lines of many sessions, and lets one owner at a time write to each.

    SessionStore     the protocol: what a store does
    FileStore        a directory of session files, which `pi` reads too
    MemoryStore      this process
    SqliteStore      a SQLite file, for several processes of one machine
    PostgresStore    a Postgres database, for many machines; needs `pip install fairlead[postgres]`
    open_store       the store that a URL names

An owner has a `Lease`: the right to append to a session for some seconds, which the owner renews. The next owner, who opens the
session after the lease has expired, gets the next epoch. The store refuses every append with an older one. `fairlead help stores`
shows how to use a store and how to write another one; `fairlead.testing.check_store` tests it.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.errors import ConfigError

if TYPE_CHECKING:
    from fairlead.stores.files import FileStore
    from fairlead.stores.memory import MemoryData, MemoryStore
    from fairlead.stores.postgres import PostgresStore
    from fairlead.stores.sqlite import SqliteStore
    from fairlead.stores.store import Lease, SessionStore, StoredLine, StoredLines, StoredSession

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
}


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
        return __getattr__("MemoryStore")()
    if separator and scheme == "sqlite" and rest.startswith("///:memory:"):
        raise ConfigError(
            "A SqliteStore needs a file. Give memory: for a store in the memory of this process, or sqlite:///FILE."
        )
    if separator and scheme == "sqlite" and rest.startswith("///") and len(rest) > 3:
        return __getattr__("SqliteStore")(Path(rest[3:]))
    if separator and scheme in ("postgresql", "postgres"):
        return __getattr__("PostgresStore")(url)
    if separator and scheme == "file" and (folder := rest.removeprefix("//")):
        return __getattr__("FileStore")(Path(folder))
    login, _, place = url.partition("?")[0].rpartition("@")
    shown = f"…@{place}" if login else place  # a login or a parameter may contain a password
    raise ConfigError(
        f"{shown!r} does not name a session store. "
        "Expected memory:, sqlite:///FILE, postgresql://HOST/DATABASE or file:DIRECTORY."
    )


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"fairlead.stores.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*{*globals(), *__all__}]
