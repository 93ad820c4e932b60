"""Where the sessions of an agent are kept: what the options, the environment and the settings choose."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fairlead.agent.options import AgentOptions
from fairlead.config.home import Home
from fairlead.config.settings import Settings
from fairlead.errors import BadOption
from fairlead.session.history.archive import Archive, FileArchive
from fairlead.stores.folders import SessionFolders
from fairlead.stores.store import SessionStore


def archive_of(options: AgentOptions, home: Home, cwd: Path, env: Mapping[str, str], settings: Settings) -> Archive:
    """Return the archive of an agent that works in `cwd`. Raises BadOption if the options contradict each other."""
    match options.store:
        case None:
            return _files(options, home, cwd, env, settings)
        case store:
            return _stored(options, store)


def _files(options: AgentOptions, home: Home, cwd: Path, env: Mapping[str, str], settings: Settings) -> FileArchive:
    is_wanted = options.session_dir is not None or (bool(options.keep) and not options.isolated)
    folders = SessionFolders.of(
        home,
        cwd,
        env,
        options.session_dir,
        settings.session_dir,
        isolated=options.isolated,
        keeps=options.keep is not False and is_wanted,
    )
    return FileArchive(
        folders=folders,
        durability=options.durability,
        bound=None if options.confinement is None else options.confinement.sessions,
        root=None if options.isolated else home.sessions_dir,
        copies=options.keep is False,
    )


def _stored(options: AgentOptions, store: SessionStore) -> Archive:
    if options.keep or options.session_dir is not None:
        raise BadOption("store: the store keeps the sessions, so `keep` and `session_dir` cannot be used beside it.")
    from fairlead.session.history.store_archive import StoreArchive
    from fairlead.session.history.stored import new_owner

    return StoreArchive(store, options.lease_owner or new_owner(), options.lease_seconds)
