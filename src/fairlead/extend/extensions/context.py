"""What a handler can look at and do: the second argument of every handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, json

from fairlead.core.runtime import Cancel
from fairlead.core.ui import Ui
from fairlead.extend.extensions.calling import Deadline
from fairlead.extend.extensions.ui import ExtensionUi

if TYPE_CHECKING:
    from fairlead.core.events import CompactionResult
    from fairlead.core.messages import Message
    from fairlead.core.model import Model, ThinkingLevel
    from fairlead.core.tool import ToolResult
    from fairlead.extend.extensions.engine import Engine
    from fairlead.extend.extensions.late import Mode
    from fairlead.session.session import Session


class ContextUsage(Struct, frozen=True):
    """How much of the model's context the conversation takes. `tokens` is None from a compaction to the next answer."""

    tokens: int | None
    window: int
    percent: float | None


class SessionView:
    """The conversation, to look at."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def file(self) -> Path | None:
        """Where it is kept; None: in memory alone."""
        return self._session.conversation.path

    @property
    def name(self) -> str | None:
        """What the user calls it."""
        return self._session.conversation.name

    @property
    def leaf(self) -> str | None:
        """The id of the entry at which it stands."""
        conversation = self._session.conversation
        return conversation.log.leaf if conversation.has_begun else None

    def entries(self) -> list[dict[str, Any]]:
        """All entries of all branches, as in the session file."""
        conversation = self._session.conversation
        return json.decode(conversation.log.entries_json()) if conversation.has_begun else []

    def branch(self) -> list[dict[str, Any]]:
        """The entries from the beginning to where it stands."""
        conversation = self._session.conversation
        if not conversation.has_begun:
            return []
        way = {entry.id for entry in conversation.log.path()}
        return [entry for entry in self.entries() if entry.get("id") in way]

    def messages(self) -> list[Message]:
        """The messages where it stands, as copies."""
        from fairlead.extend.extensions.values import copy_message

        return [copy_message(message) for message in self._session.conversation.messages]


class Context:
    """The agent as a handler sees it. It is good for this one call."""

    def __init__(self, engine: Engine, deadline: Deadline) -> None:
        self._engine = engine
        self._deadline = deadline

    # Looking

    @property
    def ui(self) -> Ui:
        """Asks and tells the person behind the host. Time spent waiting for an answer does not count against the handler."""
        return ExtensionUi(self._session.ui, self._deadline, self._engine)

    @property
    def has_ui(self) -> bool:
        """Whether anybody can answer a question."""
        return self._session.ui.available

    @property
    def mode(self) -> Mode:
        """How the agent is used: `rpc`, `print`, `json` or `library`."""
        return self._engine.host.mode

    @property
    def cwd(self) -> Path:
        """The directory that the agent works in."""
        return self._session.workspace.cwd

    @property
    def session(self) -> SessionView:
        """The conversation, to look at."""
        return SessionView(self._session)

    @property
    def model(self) -> Model | None:
        """The model that answers."""
        return self._session.model

    @property
    def models(self) -> list[Model]:
        """The models for which there are credentials."""
        return self._session.selection.available()

    @property
    def thinking_level(self) -> ThinkingLevel:
        """How much the model thinks."""
        return self._session.thinking

    @property
    def is_idle(self) -> bool:
        """Whether no run is going."""
        return not self._session.is_streaming

    @property
    def is_project_trusted(self) -> bool:
        """Whether the project's own extensions may run."""
        return self._engine.host.trust.known(self.cwd)

    @property
    def cancel(self) -> Cancel | None:
        """Fires when the run that is going on is aborted; None if there is none."""
        return self._session.run_cancel

    @property
    def has_pending_messages(self) -> bool:
        """Whether messages wait for the agent to listen."""
        return len(self._session.queues) > 0

    @property
    def context_usage(self) -> ContextUsage | None:
        """How much of the model's context is in use; None without a model."""
        model = self._session.model
        if model is None:
            return None
        tokens, window = self._session.conversation.context_tokens(), self._session.room.window(model)
        percent = None if tokens is None or not window else tokens / window * 100
        return ContextUsage(tokens, window, percent)

    @property
    def system_prompt(self) -> str:
        """What the model is told before the conversation."""
        return self._session.system_prompt()

    # Doing

    def abort(self) -> None:
        """Stop the run that is going on. It ends by itself, soon."""
        self._engine.run_on_agent_thread(self._session.cancel)

    def shutdown(self) -> None:
        """End the process, with exit code 0, once what is going on has ended and been answered. In a library, which is not
        ended, `Agent.shutdown_requested` becomes true."""
        self._engine.run_on_agent_thread(self._engine.host.shutdown)

    async def compact(self, instructions: str | None = None) -> CompactionResult:
        """Replace older messages by a summary, after ending the run that is going on. Raises FairleadError if that fails.

        Not for a handler that the run waits for: it would wait for itself. Commands, and what they start, may."""
        self._engine.require_agent_thread()
        return await self._session.compactor.request(instructions)

    @property
    def _session(self) -> Session:
        return self._engine.session


class ToolRunContext(Context):
    """The agent as a tool of an extension's sees it."""

    def __init__(
        self, engine: Engine, deadline: Deadline, call_id: str, cancel: Cancel, update: Callable[[ToolResult], None]
    ) -> None:
        super().__init__(engine, deadline)
        self.call_id = call_id
        self._cancel = cancel
        self._update = update

    @property
    def cancel(self) -> Cancel:
        """Fires when the call is aborted: the tool should end soon."""
        return self._cancel

    def update(self, result: Any) -> None:
        """Show the host what there is so far: text, blocks or a `ToolResult`. It never blocks, and may be dropped."""
        from fairlead.extend.extensions.tools import as_result

        shown = as_result(result)
        self._engine.run_on_agent_thread(lambda: self._update(shown))


class CommandContext(Context):
    """The agent as a command of an extension's sees it. Only commands may go to another conversation: nobody waits for them
    while they do."""

    async def wait_for_idle(self) -> None:
        """Wait until no run is going, and until what this command has sent was heard."""
        await self._engine.outbox.sent()
        await self._session.idle()

    async def new_session(self, parent: str | None = None) -> bool:
        """Begin a new conversation; `parent` is the file of the one it comes from, if that is to be on record.

        Like all of these: False if an extension has cancelled it."""
        from fairlead.session.history import moves

        return await self._move(lambda: moves.new_session(self._session, parent))

    async def fork(self, entry_id: str) -> bool:
        """Go on in a new session with all that came before a message of the user's. Raises EntryNotFound."""
        from fairlead.session.history import moves

        return await self._move(lambda: moves.fork(self._session, entry_id))

    async def navigate(self, target_id: str | None, *, summarise: bool = False, instructions: str | None = None) -> bool:
        """Go to another entry of the tree; None is the beginning. With `summarise`, the model is told of the branch that is
        left. Raises EntryNotFound."""
        from fairlead.session.history import moves

        return await self._move(lambda: moves.navigate(self._session, target_id, summarise=summarise, instructions=instructions))

    async def switch_session(self, path: str | Path) -> bool:
        """Go on with the conversation in a file. Raises SessionError."""
        from fairlead.session.history import moves

        return await self._move(lambda: moves.switch_session(self._session, str(path)))

    async def reload(self) -> None:
        """Load all extensions anew. What this command's own extension has kept in variables belongs to the past then."""
        await self._engine.host.reload()

    async def _move(self, move: Callable[[], Awaitable[Any]]) -> bool:
        from fairlead.errors import MoveCancelled

        self._engine.save_states()
        try:
            await move()
        except MoveCancelled:
            return False
        return True


#: What a parameter of a tool's function can ask for.
TOOL_CONTEXTS = (Context, ToolRunContext)
