"""Every error that fairlead raises on purpose.

    FairleadError                what any caller may catch
    ├── ConfigError              a file, flag or environment variable says something unusable
    │   ├── BadOption            an option of an agent has a value that it cannot have; also a ValueError
    │   ├── ModelNotFound        no model answers to that name or pattern
    │   └── NoCredentials        the provider needs a key and none was found
    ├── BusyError                the session is running and the call does not say how to queue
    ├── CompactingError          the session is being compacted, and the call has to wait for that
    ├── SessionError             a session file cannot be used; the text names it
    ├── EntryNotFound            no entry of the conversation has that id
    ├── NothingToCompact         all messages are recent ones, which a compaction leaves alone
    │   └── AlreadyCompacted     nothing was said since the last compaction
    ├── CompactionCancelled      a compaction or a branch summary was aborted; the conversation is as it was
    ├── MoveCancelled            an extension forbade to leave the conversation; nothing has changed
    ├── BadCommand               a host's command is malformed or refers to nothing; the text says how
    │   └── BadParams            the params of a JSON-RPC request cannot be used; carries `data` for the client
    ├── LoginFailed              a login at a provider did not come to its end; the text says why
    ├── ProviderError            a model's server failed; carries the HTTP status, if there was one
    │   └── LimitReached         the run failed because it reached a limit: too many turns, or calls in circles
    ├── RunAborted               somebody stopped the run that was waited for
    └── ToolError                a tool failed; the text goes to the model as the tool's result

Errors are sentences a user can act on: what was expected, what was found, what to do.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AlreadyCompacted",
    "BadCommand",
    "BadOption",
    "BadParams",
    "BusyError",
    "CompactingError",
    "CompactionCancelled",
    "ConfigError",
    "EntryNotFound",
    "FairleadError",
    "LimitReached",
    "LoginFailed",
    "ModelNotFound",
    "MoveCancelled",
    "NoCredentials",
    "NothingToCompact",
    "ProviderError",
    "RunAborted",
    "SessionError",
    "ToolError",
]


class FairleadError(Exception):
    """The root of all errors raised on purpose."""


class ConfigError(FairleadError):
    """A file, flag or environment variable says something unusable."""


class BadOption(ConfigError, ValueError):
    """An option of an agent has a value that it cannot have. The text names the option, the value and what it takes."""


class ModelNotFound(ConfigError):
    """No model answers to that name or pattern."""


class NoCredentials(ConfigError):
    """The provider needs a key and none was found."""


class BusyError(FairleadError):
    """The session is running and the call does not say how to queue."""


class CompactingError(FairleadError):
    """The session is being compacted, and the call has to wait for that."""


class SessionError(FairleadError):
    """A session file cannot be used; the text names it."""


class EntryNotFound(FairleadError):
    """No entry of the conversation has that id."""


class NothingToCompact(FairleadError):
    """All messages are recent ones, which a compaction leaves alone."""

    def __init__(self, text: str = "Nothing to compact (session too small)") -> None:
        super().__init__(text)


class AlreadyCompacted(NothingToCompact):
    """Nothing was said since the last compaction."""

    def __init__(self) -> None:
        super().__init__("Already compacted")


class CompactionCancelled(FairleadError):
    """A compaction or a branch summary was aborted; the conversation is as it was. `reason`: an extension forbade it."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(f"Compaction cancelled: {reason}" if reason else "Compaction cancelled")


class MoveCancelled(FairleadError):
    """An extension forbade to leave the conversation, or to go elsewhere within it. Nothing has changed."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"An extension forbids this: {reason}" if reason else "An extension forbids this.")


class BadCommand(FairleadError):
    """A host's command is malformed or refers to nothing. `code` is a short name of the reason, where hosts know one."""

    def __init__(self, text: str, *, code: str | None = None) -> None:
        super().__init__(text)
        self.code = code


class BadParams(BadCommand):
    """The params of a JSON-RPC request cannot be used. `data` says more, where clients know it."""

    def __init__(self, text: str, *, data: str | None = None) -> None:
        super().__init__(text)
        self.data = data


class LoginFailed(FairleadError):
    """A login at a provider did not come to its end."""


class ProviderError(FairleadError):
    """A model's server failed, or the way to it did.

    `status` is the HTTP status when there was an answer, `retry_after` the seconds the server asked
    to wait, `transient` whether trying the same request again may help.
    """

    def __init__(
        self, text: str, *, status: int | None = None, retry_after: float | None = None, transient: bool = False
    ) -> None:
        super().__init__(text)
        self.status = status
        self.retry_after = retry_after
        self.transient = transient


class LimitReached(ProviderError):
    """The run reached a limit: the number of its turns, or of repetitions of the same calls.

    To a caller the run has failed as it does when a model fails, hence the base class.
    """


class RunAborted(FairleadError):
    """Somebody stopped the run that was waited for."""


class ToolError(FairleadError):
    """A tool failed. The text becomes the tool's result, marked as an error; `details` go to the host."""

    def __init__(self, text: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.details: dict[str, Any] = details or {}
