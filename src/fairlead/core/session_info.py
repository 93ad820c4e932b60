"""A session as a listing shows it."""

from __future__ import annotations

from msgspec import Struct


class SessionInfo(Struct, rename="camel", omit_defaults=True):
    """A session as a listing shows it. Times are milliseconds since the epoch."""

    path: str
    id: str = ""
    cwd: str = ""
    name: str | None = None
    created: int = 0
    modified: int = 0
    #: How many messages all branches have together; None for a file too long to be read whole.
    message_count: int | None = None
    #: What the user said first.
    first_message: str = ""
    parent_session: str | None = None
    #: Why the file cannot be read; then only its path and the time of its last change are known.
    problem: str | None = None
