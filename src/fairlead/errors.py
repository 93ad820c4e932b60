"""Every error that fairlead raises on purpose.

    FairleadError                the base class: catch it to catch them all
    ├── ConfigError              a file, flag or environment variable has a value that cannot be used
    │   ├── BadOption            an option of an agent has an invalid value; also a ValueError
    │   ├── ExtensionNotLoaded   an extension that was named explicitly cannot be loaded; no prompt runs without it
    │   ├── ModelNotFound        no model has this name or matches this pattern
    │   └── NoCredentials        the provider needs a key, and there is none
    ├── BusyError                the session is running, and the call does not say how to queue the message
    ├── CompactingError          the session is being compacted; call again when that has ended
    ├── SessionError             a session cannot be used; the text names its file or its id
    │   ├── SessionExists        a store has a session with this id already
    │   ├── SessionInUse         another owner has the lease of the session; has its name
    │   ├── SessionLost          another owner has taken over the session, or may have; nothing more can be written
    │   ├── SessionNotFound      a store has no session with this id
    │   └── StoreUnavailable     a store cannot be reached at the moment; the same call may succeed later
    ├── EntryNotFound            the conversation has no entry with this id
    ├── NothingToResume          the last run has ended, or there was none
    ├── NothingToCompact         all messages are recent, and a compaction keeps recent messages
    │   └── AlreadyCompacted     no message was added since the last compaction
    ├── CompactionCancelled      a compaction or a branch summary was cancelled; the conversation has not changed
    ├── MoveCancelled            an extension blocked a switch of session or branch; nothing has changed
    ├── BadCommand               a host's command is malformed, or names something that does not exist
    ├── LoginFailed              a login at a provider failed; the text says why
    ├── ProviderError            a request to a model failed; has the HTTP status, if there was a response
    │   └── LimitReached         the run reached a limit: of turns, of its cost, or of repetitions of the same calls
    │       └── RunTimeout       the run took longer than its timeout; also a TimeoutError
    ├── OutputError              the model's answer does not have the type that the caller asked for
    ├── RunAborted               the run that the caller waits for was aborted
    ├── AgentClosed              an agent is used after it was closed; also a RuntimeError
    ├── WrongEventLoop           an agent is used on two event loops; also a RuntimeError
    ├── JobError                 a job cannot be submitted, found or changed
    │   ├── JobConflict          a job with this id exists, and has other contents
    │   ├── JobNotFound          no job has this id
    │   ├── WorkspaceError       the directory or repository of a job cannot be used
    │   └── DatabaseUnavailable  the database of the jobs cannot be reached
    ├── ClientError              a client of an agent in another process cannot do what it was asked to do
    │   ├── CommandRefused       the agent answered a command with an error
    │   ├── NoAnswer             the agent did not answer in time; also a TimeoutError
    │   ├── AgentGone            the agent could not be started, has exited, or closed the connection
    │   └── RunFailed            a run ended with an error
    └── ToolError                a tool failed; the text is sent to the model as the tool's result

The text of an error is a sentence for the user: what was expected, what was found, what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

# Without a handler, Python would print warnings to the stderr of the program that embeds us. Here, because everything that logs
# needs this module too, and because logging takes 5 ms, which the command can spend better after `import fairlead`.
logging.getLogger("fairlead").addHandler(logging.NullHandler())

__all__ = [
    "AgentClosed",
    "AgentGone",
    "AlreadyCompacted",
    "BadCommand",
    "BadOption",
    "BusyError",
    "ClientError",
    "CommandRefused",
    "CompactingError",
    "CompactionCancelled",
    "ConfigError",
    "DatabaseUnavailable",
    "EntryNotFound",
    "ExtensionNotLoaded",
    "FairleadError",
    "JobConflict",
    "JobError",
    "JobNotFound",
    "LimitReached",
    "LoginFailed",
    "ModelNotFound",
    "MoveCancelled",
    "NoAnswer",
    "NoCredentials",
    "NothingToCompact",
    "NothingToResume",
    "OutputError",
    "ProviderError",
    "RunAborted",
    "RunFailed",
    "RunTimeout",
    "SessionError",
    "SessionExists",
    "SessionInUse",
    "SessionLost",
    "SessionNotFound",
    "StoreUnavailable",
    "ToolError",
    "WorkspaceError",
    "WrongEventLoop",
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
    """A session cannot be used. The text names its file or its id."""


class SessionExists(SessionError):
    """A store has a session with this id already."""


class SessionInUse(SessionError):
    """Another owner has the lease of the session. `owner` is its name; empty if that is not known.

    `expires_at` says when the lease expires unless it is renewed, in seconds since 1970 by the clock of the store; None if that
    is not known.
    """

    def __init__(self, text: str, owner: str = "", expires_at: float | None = None) -> None:
        super().__init__(text)
        self.owner = owner
        self.expires_at = expires_at


class SessionNotFound(SessionError):
    """A store has no session with this id."""


class StoreUnavailable(SessionError):
    """A store cannot be reached at the moment. The same call may succeed later."""


class SessionLost(SessionError):
    """A session can no longer be written, because another owner has it or its file was deleted. Its run was aborted.

    If `Agent.ask` raises it, `result` is the `fairlead.Result` of the run so far.
    """

    def __init__(self, text: str, result: Any = None) -> None:
        super().__init__(text)
        self.result = result


class EntryNotFound(FairleadError):
    """The conversation has no entry with this id."""


class NothingToResume(FairleadError):
    """The last run of the session has ended, or there was none."""

    def __init__(self) -> None:
        super().__init__("There is no interrupted run to resume: the last run has ended, or there was none.")


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
    `transient` whether the same request may succeed later. If `Agent.ask` raises it, `result` is the `fairlead.Result` of the
    run so far.
    """

    def __init__(
        self,
        text: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        transient: bool = False,
        result: Any = None,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.retry_after = retry_after
        self.transient = transient
        self.result = result


class LimitReached(ProviderError):
    """The run reached the limit of turns, of its cost, or of repetitions of the same calls.

    Callers handle it like the failure of a model, hence the base class.
    """


class RunTimeout(LimitReached, TimeoutError):
    """The run took longer than its timeout, and was aborted."""


class OutputError(FairleadError):
    """The model's answer does not have the type that the caller asked for, not even after it was asked to correct it.

    `result` is the `fairlead.Result` of the run: `result.text` is the last answer.
    """

    def __init__(self, text: str, result: Any = None) -> None:
        super().__init__(text)
        self.result = result


class RunAborted(FairleadError):
    """The run that the caller waits for was aborted.

    If `Agent.ask` raises it, `result` is the `fairlead.Result` of the run so far.
    """

    def __init__(self, text: str = "The run was aborted.", result: Any = None) -> None:
        super().__init__(text)
        self.result = result


class AgentClosed(FairleadError, RuntimeError):
    """An agent is prompted after it was closed."""

    def __init__(self) -> None:
        super().__init__("This agent is closed. Make another one; `session` or `resume` continues a saved session.")


class WrongEventLoop(FairleadError, RuntimeError):
    """An agent is used on another event loop than before, or by a blocking call where that cannot work."""


class JobError(FairleadError):
    """A job cannot be submitted, found or changed."""


class JobConflict(JobError):
    """A job with this id exists, and has other contents. Nothing was submitted."""


class JobNotFound(JobError):
    """No job has this id."""


class WorkspaceError(JobError):
    """The directory or repository of a job cannot be used. The text names it and says what to do."""


class DatabaseUnavailable(JobError):
    """The database of the jobs cannot be reached. The text names it, without its password."""


class ClientError(FairleadError):
    """A client of an agent in another process cannot do what it was asked to do."""


class CommandRefused(ClientError):
    """The agent answered a command with an error, and the text says why.

    `command` is the name of the command, `code` the short name or number of the error if the agent gave one.
    """

    def __init__(self, text: str, *, command: str, code: str | int | None = None) -> None:
        super().__init__(text)
        self.command = command
        self.code = code


class NoAnswer(ClientError, TimeoutError):
    """The agent did not answer a command in time. The client ignores a later answer."""


class AgentGone(ClientError):
    """The agent could not be started, has exited, or closed the connection.

    `exit_code` is that of the process, negative for a signal, or None if there is none. `stderr` is the end of what the process
    wrote there. `restarted` is true if the client has started a new process, which resumes the session.
    """

    def __init__(self, text: str, *, exit_code: int | None = None, stderr: str = "", restarted: bool = False) -> None:
        super().__init__(text)
        self.exit_code = exit_code
        self.stderr = stderr
        self.restarted = restarted


class RunFailed(ClientError):
    """A run ended with an error. `result` is what the run produced before that: a `fairlead.client.Result`."""

    def __init__(self, text: str, result: Any = None) -> None:
        super().__init__(text)
        self.result = result


class ToolError(FairleadError):
    """A tool failed. The text becomes the tool's result, marked as an error; `details` are sent to the host.

    `structured` is for a tool that did its work and whose result says that something failed, such as a command that exited with
    an error. See `fairlead.core.tool.StructuredResult`. `ends_run` is that of `fairlead.core.tool.ToolResult`.
    """

    def __init__(
        self,
        text: str,
        details: Any = None,
        *,
        structured: Callable[[], Any] | None = None,
        ends_run: bool = False,
    ) -> None:
        super().__init__(text)
        self.details: Any = {} if details is None else details
        self.structured = structured
        self.ends_run = ends_run
