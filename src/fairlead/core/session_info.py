"""A session in a list of sessions."""

from __future__ import annotations

from msgspec import Struct


class SessionInfo(Struct, rename="camel", omit_defaults=True):
    """A session in a list of sessions. Times are milliseconds since the epoch."""

    path: str
    id: str = ""
    cwd: str = ""
    name: str | None = None
    created: int = 0
    modified: int = 0
    #: The number of messages in all branches; None if the file is too long to read completely.
    message_count: int | None = None
    #: The first message from the user.
    first_message: str = ""
    parent_session: str | None = None
    #: Why the file cannot be read. Then only its path and modification time are known.
    problem: str | None = None
