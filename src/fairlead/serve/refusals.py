"""Why a request is refused: an HTTP status, a word for programs and a sentence for people."""

from __future__ import annotations

import math
import time

from fairlead import errors
from fairlead.serve.sessions.client_questions import QuestionGone


class Refusal(errors.FairleadError):
    """A request that the server refuses.

    `retry_after` is the number of seconds after which it may succeed, `allow` has the methods with which it may.
    """

    def __init__(self, status: int, code: str, message: str, *, retry_after: int | None = None, allow: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.allow = allow


#: The status and the code of each error of the library. The first class that fits counts.
_REFUSALS: tuple[tuple[type[errors.FairleadError], int, str], ...] = (
    (QuestionGone, 409, "question_closed"),
    (errors.BusyError, 409, "busy"),
    (errors.CompactingError, 409, "compacting"),
    (errors.ModelNotFound, 400, "model_not_found"),
    (errors.NoCredentials, 409, "no_credentials"),
    (errors.ConfigError, 400, "bad_request"),
    (errors.BadCommand, 400, "bad_request"),
    (errors.EntryNotFound, 404, "entry_not_found"),
    (errors.SessionLost, 409, "session_lost"),
    (errors.SessionInUse, 409, "session_in_use"),
    (errors.SessionNotFound, 404, "session_not_found"),
    (errors.StoreUnavailable, 503, "unavailable"),
    (errors.SessionError, 409, "session_unusable"),
    (errors.NothingToResume, 409, "nothing_to_resume"),
    (errors.NothingToCompact, 409, "nothing_to_compact"),
    (errors.CompactionCancelled, 409, "cancelled"),
    (errors.MoveCancelled, 409, "cancelled"),
    (errors.RunAborted, 409, "aborted"),
    (errors.ProviderError, 502, "provider_error"),
    (errors.AgentClosed, 503, "closed"),
    (errors.DatabaseUnavailable, 503, "unavailable"),
    (errors.JobConflict, 409, "id_reused"),
    (errors.JobError, 400, "bad_request"),
)


def refusal_for(error: errors.FairleadError) -> Refusal:
    """Return the refusal that reports an error of the library."""
    if isinstance(error, Refusal):
        return error
    status, code = next(((status, code) for kind, status, code in _REFUSALS if isinstance(error, kind)), (400, "refused"))
    return Refusal(status, code, str(error), retry_after=_seconds_left(error))


def _seconds_left(error: errors.FairleadError) -> int | None:
    """Return after how many seconds a request may succeed that failed because of the lease of another process."""
    if not isinstance(error, errors.SessionInUse) or error.expires_at is None:
        return None
    return max(1, math.ceil(error.expires_at - time.time()))


def bad_request(message: str) -> Refusal:
    return Refusal(400, "bad_request", message)


def no_session(session_id: str) -> Refusal:
    return Refusal(404, "session_not_found", f"There is no session {session_id!r}.")


def outside_root() -> Refusal:
    return Refusal(403, "outside_root", "The working directory of this session is outside the root of the server.")


def stopping() -> Refusal:
    return Refusal(503, "stopping", "The server is shutting down.", retry_after=5)
