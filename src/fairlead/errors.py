"""Every error that fairlead raises on purpose.

    FairleadError                what any caller may catch
    ├── ConfigError              a file, flag or environment variable says something unusable
    │   ├── ModelNotFound        no model answers to that name or pattern
    │   └── NoCredentials        the provider needs a key and none was found
    ├── BusyError                the session is running and the call does not say how to queue
    ├── BadCommand               a host's command is malformed; the text names the field
    ├── NotAvailable             a documented feature that this version does not have yet
    ├── ProviderError            a model's server failed; carries the HTTP status, if there was one
    ├── RunAborted               somebody stopped the run that was waited for
    └── ToolError                a tool failed; the text goes to the model as the tool's result

Errors are sentences a user can act on: what was expected, what was found, what to do.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BadCommand",
    "BusyError",
    "ConfigError",
    "FairleadError",
    "ModelNotFound",
    "NoCredentials",
    "NotAvailable",
    "ProviderError",
    "RunAborted",
    "ToolError",
]


class FairleadError(Exception):
    """The root of all errors raised on purpose."""


class ConfigError(FairleadError):
    """A file, flag or environment variable says something unusable."""


class ModelNotFound(ConfigError):
    """No model answers to that name or pattern."""


class NoCredentials(ConfigError):
    """The provider needs a key and none was found."""


class BusyError(FairleadError):
    """The session is running and the call does not say how to queue."""


class BadCommand(FairleadError):
    """A host's command is malformed; the text names the field and what was expected."""


class NotAvailable(FairleadError):
    """A documented feature that this version does not have yet."""


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


class RunAborted(FairleadError):
    """Somebody stopped the run that was waited for."""


class ToolError(FairleadError):
    """A tool failed. The text becomes the tool's result, marked as an error; `details` go to the host."""

    def __init__(self, text: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.details: dict[str, Any] = details or {}
