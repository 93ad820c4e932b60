"""Which conversation an agent begins with, if not with a new one."""

from __future__ import annotations

from pathlib import Path

from fairlead.errors import ConfigError
from fairlead.session.conversation import Conversation
from fairlead.session.listing import find_session, latest_session, session_with_id
from fairlead.session.places import session_folder
from fairlead.session.sessions import Sessions


def chosen_conversation(
    sessions: Sessions,
    root: Path,
    *,
    copy: bool,
    session: str | Path | None,
    resume: bool,
    fork: str | Path | None,
    session_id: str | None,
) -> Conversation | None:
    """The conversation that is asked for; None for a new one. `root` is where ids are looked for, also if nothing is kept.

    With `copy` its file is only read, and what is added stays in memory.
    Raises SessionError if there is no such session or it cannot be used.
    """
    wanted = [name for name, given in _named(session, resume, fork, session_id) if given]
    if len(wanted) > 1:
        raise ConfigError(f"{' and '.join(wanted)} ask for different sessions: give one of them.")
    folder = sessions.place() or session_folder(root, sessions.workspace.cwd)
    if fork is not None:
        return sessions.fork_file(find_session(str(fork), folder, root))
    if session_id is not None:
        path = session_with_id(session_id, folder)
        if path is None:
            return sessions.new(id=session_id)
    elif session is not None:
        path = find_session(str(session), folder, root)
    else:
        path = latest_session(folder)
        if path is None:
            return None
    if copy:
        return sessions.fork_file(path)
    conversation, _ = sessions.open_or_new(path)
    return conversation


def _named(session: str | Path | None, resume: bool, fork: str | Path | None, session_id: str | None) -> list[tuple[str, bool]]:
    return [
        ("--session", session is not None),
        ("--continue", resume),
        ("--fork", fork is not None),
        ("--session-id", session_id is not None),
    ]
