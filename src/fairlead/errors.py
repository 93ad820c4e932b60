"""Every error that fairlead raises on purpose.

    FairleadError                the base class: catch it to catch them all
    ├── ConfigError              a file, flag or environment variable has a value that cannot be used
    │   ├── BadOption            an option of an agent has an invalid value; also a ValueError
    │   ├── ExtensionNotLoaded   an extension that was named explicitly cannot be loaded; no prompt runs without it
    │   ├── ModelNotFound        no model has this name or matches this pattern
    │   └── NoCredentials        the provider needs a key, and there is none
    ├── BusyError                the session is running, and the call does not say how to queue the message
    ├── CompactingError          the session is being compacted; call again when that has ended
    ├── SessionError             a session file cannot be used; the text names the file
    ├── EntryNotFound            the conversation has no entry with this id
    ├── NothingToCompact         all messages are recent, and a compaction keeps recent messages
    │   └── AlreadyCompacted     no message was added since the last compaction
    ├── CompactionCancelled      a compaction or a branch summary was cancelled; the conversation has not changed
    ├── MoveCancelled            an extension blocked a switch of session or branch; nothing has changed
    ├── BadCommand               a host's command is malformed, or names something that does not exist
    ├── LoginFailed              a login at a provider failed; the text says why
    ├── ProviderError            a request to a model failed; has the HTTP status, if there was a response
    │   └── LimitReached         the run reached a limit: too many turns, or the same calls again and again
    ├── RunAborted               the run that the caller waits for was aborted
    └── ToolError                a tool failed; the text is sent to the model as the tool's result

The text of an error is a sentence for the user: what was expected, what was found, what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "AlreadyCompacted",
    "BadCommand",
    "BadOption",
    "BusyError",
    "CompactingError",
    "CompactionCancelled",
    "ConfigError",
    "EntryNotFound",
    "ExtensionNotLoaded",
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
    """The base class of all errors that fairlead raises on purpose."""


class ConfigError(FairleadError):
    """A file, flag or environment variable has a value that cannot be used."""


class BadOption(ConfigError, ValueError):
    """An option of an agent has an invalid value. The text names the option, the value and the valid values."""


class ExtensionNotLoaded(ConfigError):
    """An extension that the command line, the program or the user's settings name cannot be loaded.

    It may be what protects the user, so no prompt runs without it.
    """


class ModelNotFound(ConfigError):
    """No model has this name or matches this pattern."""


class NoCredentials(ConfigError):
    """The provider needs a key, and there is none."""


class BusyError(FairleadError):
    """The session is running, and the call does not say how to queue the message."""


class CompactingError(FairleadError):
    """The session is being compacted. Call again when that has ended."""


class SessionError(FairleadError):
    """A session file cannot be used. The text names the file."""


class EntryNotFound(FairleadError):
    """The conversation has no entry with this id."""


class NothingToCompact(FairleadError):
    """All messages are recent, and a compaction keeps recent messages."""

    def __init__(self, text: str = "Nothing to compact (session too small)") -> None:
        super().__init__(text)


class AlreadyCompacted(NothingToCompact):
    """No message was added since the last compaction."""

    def __init__(self) -> None:
        super().__init__("Already compacted")


class CompactionCancelled(FairleadError):
    """A compaction or a branch summary was cancelled. The conversation has not changed.

    `reason` is the reason that an extension gave for blocking it, or an empty string.
    """

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(f"Compaction cancelled: {reason}" if reason else "Compaction cancelled")


class MoveCancelled(FairleadError):
    """An extension blocked a switch to another session or branch, for `reason` if it gave one. Nothing has changed."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"An extension forbids this: {reason}" if reason else "An extension forbids this.")


class BadCommand(FairleadError):
    """A host's command is malformed, or names something that does not exist.

    `code` is a short name for the reason, in the dialects that have one.
    """

    def __init__(self, text: str, *, code: str | None = None) -> None:
        super().__init__(text)
        self.code = code


class LoginFailed(FairleadError):
    """A login at a provider failed. The text says why."""


class ProviderError(FairleadError):
    """A request to a model failed, in the provider's server or on the network.

    `status` is the HTTP status if there was a response, `retry_after` the number of seconds the server asks to wait, and
    `transient` whether the same request may succeed later.
    """

    def __init__(
        self, text: str, *, status: int | None = None, retry_after: float | None = None, transient: bool = False
    ) -> None:
        super().__init__(text)
        self.status = status
        self.retry_after = retry_after
        self.transient = transient


class LimitReached(ProviderError):
    """The run reached the limit of turns, or of repetitions of the same calls.

    Callers handle it like the failure of a model, hence the base class.
    """


class RunAborted(FairleadError):
    """The run that the caller waits for was aborted."""


class ToolError(FairleadError):
    """A tool failed. The text becomes the tool's result, marked as an error; `details` are sent to the host.

    `structured` is for a tool that did its work and whose result says that something failed, such as a command that exited with
    an error. See `fairlead.core.tool.StructuredResult`.
    """

    def __init__(self, text: str, details: dict[str, Any] | None = None, *, structured: Callable[[], Any] | None = None) -> None:
        super().__init__(text)
        self.details: dict[str, Any] = details or {}
        self.structured = structured
