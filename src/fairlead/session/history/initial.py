"""Chooses the conversation that an agent begins with."""

from __future__ import annotations

from pathlib import Path

from fairlead.errors import ConfigError
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.sessions import ConversationStore
from fairlead.stores.finding import find_session, latest_session, session_with_id

#: Characters of an id: what a file's name has room for, and more than any program of the family uses.
LONGEST_ID = 128


def chosen_conversation(
    sessions: ConversationStore,
    root: Path | None,
    *,
    copy: bool,
    session: str | Path | None,
    resume: bool,
    fork: str | Path | None,
    session_id: str | None,
) -> Conversation | None:
    """The conversation to begin with; None for a new one.

    Args:
        sessions: Where conversations are kept.
        root: Where ids are looked for, also if nothing is kept; None: only in the directory of `sessions`.
        copy: Whether to only read the file, and keep what is added in memory.
        session: The file or the id of a session to resume.
        resume: Whether to resume the latest session.
        fork: The file or the id of a session to copy.
        session_id: The exact id of a session to resume, or to create.

    Raises:
        SessionError: There is no such session, or it cannot be used.
        ConfigError: The arguments ask for different sessions, or the id cannot be used.
    """
    _only_one(session, resume, fork, session_id)
    folder = sessions.place()
    if folder is None and root is not None:
        folder = sessions.place_below(root)
    if fork is not None:
        return sessions.fork_file(find_session(str(fork), folder, root))
    if session_id is not None:
        path = session_with_id(session_id, folder) if folder is not None else None
        if path is None:
            return sessions.new(id=_usable(session_id))
    elif session is not None:
        path = find_session(str(session), folder, root)
    else:
        path = latest_session(folder) if folder is not None else None
        if path is None:
            return None
    if copy:
        return sessions.fork_file(path)
    conversation, _ = sessions.open_or_new(path)
    return conversation


def stored_conversation(
    sessions: ConversationStore, *, session: str | None, resume: bool, fork: str | None, session_id: str | None
) -> Conversation | None:
    """The conversation of a store to begin with, which has to be opened; None for a new one. The arguments are those above.

    Raises ConfigError if they ask for different sessions, or if the id cannot be used.
    """
    _only_one(session, resume, fork, session_id)
    if fork is not None:
        return sessions.fork_stored(fork)
    if session_id is not None:
        return sessions.stored(_usable(session_id), create=True)
    if session is not None:
        return sessions.stored(session)
    return sessions.latest_stored() if resume else None


def _only_one(session: str | Path | None, resume: bool, fork: str | Path | None, session_id: str | None) -> None:
    wanted = [name for name, given in _named(session, resume, fork, session_id) if given]
    if len(wanted) > 1:
        raise ConfigError(f"{' and '.join(wanted)} ask for different sessions. Give one of them.")


def _usable(session_id: str) -> str:
    """The id, if it can be part of a file name. Raises ConfigError."""
    plain = session_id.replace("-", "").replace("_", "").replace(".", "")
    if len(session_id) <= LONGEST_ID and session_id[:1].isalnum() and plain.isalnum() and plain.isascii():
        return session_id
    raise ConfigError(
        f"--session-id: expected at most {LONGEST_ID} letters, digits, '-', '_' or '.', the first one a letter or a digit, "
        f"got {session_id!r}."
    )


def _named(session: str | Path | None, resume: bool, fork: str | Path | None, session_id: str | None) -> list[tuple[str, bool]]:
    return [
        ("--session", session is not None),
        ("--continue", resume and session is None),  # a session that is named is resumed anyway
        ("--fork", fork is not None),
        ("--session-id", session_id is not None),
    ]
