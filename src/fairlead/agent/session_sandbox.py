"""The sandbox of a session, which is noted in it, so that its commands do not lose it when the session is resumed.

The note is `fairlead.sandbox` with `{"mode": "workspace"}`, which hosts and the model do not see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Never, cast

from fairlead.core.events import AgentStart, Event, ExtensionError, SessionReplaced
from fairlead.errors import ConfigError, ToolError
from fairlead.session.history.entries import SANDBOX

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from fairlead.policy.sandbox import Bubblewrap
    from fairlead.session.history.conversation import Conversation
    from fairlead.session.history.log import Log
    from fairlead.session.session import Session
    from fairlead.tools.workspace import Workspace


class SessionSandbox:
    """Runs the commands of a session in a sandbox if the options or the settings say so, or if they ran in one before.

    Args:
        workspace: where the commands run.
        make: makes the sandbox. It raises ConfigError if that is not possible on this machine.
        wanted: whether the options or the settings say so.
        is_explicit: whether the user or the program has named the mode, which then holds for resumed sessions too.

    Raises:
        ConfigError: a sandbox is wanted and not possible.
    """

    def __init__(self, workspace: Workspace, make: Callable[[], Bubblewrap], *, wanted: bool, is_explicit: bool) -> None:
        self._workspace = workspace
        self._make = make
        self._is_explicit = is_explicit
        #: Whether a session without a note runs its commands in a sandbox.
        self._is_default = wanted and not is_explicit
        self._made: Bubblewrap | None = None
        self._session: Session | None = None
        #: The conversation whose note was read.
        self._restored: Conversation | None = None
        if wanted:
            self._confine()

    @property
    def is_started(self) -> bool:
        """Whether there is a sandbox, and so something to remove."""
        return self._made is not None

    def attach(self, session: Session) -> None:
        """Follow a session: take what it notes, and note in it what holds when a run starts."""
        self._session = session
        self._restore()
        session.subscribe(self._on_event)

    def remove(self) -> None:
        """Remove what commands left behind. This searches the working directory."""
        if self._made is not None:
            self._made.remove()

    def _confine(self) -> None:
        self._workspace.sandbox = self._made = self._make()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, SessionReplaced | AgentStart):
            self._restore()
        if isinstance(event, AgentStart):
            self._note()

    def _restore(self) -> None:
        """Start the sandbox that a session had. Without one, commands fail. A store may read the note only when a run starts."""
        session = self._session
        conversation = None if session is None else session.history.conversation
        if session is None or conversation is None or conversation is self._restored or not conversation.has_begun:
            return
        self._restored = conversation
        if self._is_explicit or self._workspace.sandbox is not None or not _was_confined(conversation.log):
            return
        try:
            self._confine()
        except ConfigError as error:
            text = f"The commands of this session ran in a sandbox. {error} To resume it without one: --sandbox off."
            self._workspace.sandbox = _NoSandbox(text)
            session.host.notify(ExtensionError("session", "sandbox", text))

    def _note(self) -> None:
        """Note in the conversation whether its commands run in a sandbox, unless that is known."""
        conversation = self._restored
        if conversation is None:
            return
        log, is_confined = conversation.log, self._workspace.sandbox is not None
        noted = _was_confined(log)
        if is_confined != (self._is_default if noted is None else noted):
            conversation.keep(lambda: log.note(SANDBOX, {"mode": "workspace" if is_confined else "off"}))


def _was_confined(log: Log) -> bool | None:
    """Whether the commands of a session ran in a sandbox; None if it does not say."""
    note = log.find_note(SANDBOX)
    if note is None:
        return None
    data: Any = note.data
    return isinstance(data, dict) and cast("dict[str, Any]", data).get("mode") != "off"


class _NoSandbox:
    """Stands in for a sandbox that cannot be started. Implements `fairlead.tools.workspace.Sandbox`."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def part_of_installation(self, path: Path, found: os.stat_result | None) -> None:
        return None

    def wrap(self, command: Sequence[str], cwd: Path, calls: int) -> Never:
        raise ToolError(self._reason)

    def open_filter(self) -> Never:
        raise ToolError(self._reason)

    def enter(self, cwd: Path) -> Never:
        raise ToolError(self._reason)
