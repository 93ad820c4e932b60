"""A session: one conversation, and the one run that it may have at a time.

`Session` is a facade: everything that a host or a program needs of a session. `fairlead.session.parts` shows what is behind it.
Everything happens on one asyncio loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fairlead.core.events import CompactionResult, Event
from fairlead.core.messages import Attribution, ImageContent, Message, UserMessage
from fairlead.core.model import Model, ThinkingLevel
from fairlead.core.queues import Behavior
from fairlead.errors import BadOption
from fairlead.session.events import Gate
from fairlead.session.options import SessionOptions
from fairlead.session.parts import Parts

if TYPE_CHECKING:
    from fairlead.core.limits import RunLimits
    from fairlead.session.approval_mode import SessionApprovals, SubagentApprover
    from fairlead.session.history.moves import Arrival
    from fairlead.session.hooks import InputSource


class Session:
    """A conversation with a model that works with tools.

    Attributes:
        history: The conversation: its id, its entries, its file, and the way to other conversations.
        models: The models to choose from, and the present choice.
        tools: All tools by name, and which of them are active.
        queue: The messages that wait, and when they reach the model. Extensions send theirs through it.
        usage: How much of the model's context is in use, and how many tokens and dollars were spent.
        host: The program that uses the session: its workspace, its user interface, its shell commands.
        additions: What users add: instructions, skills, templates, MCP servers.
        extensions: The code that users add. It is loaded when first needed.
        todos: The todo list.
        subagents: The sub-agents; None if there cannot be any.
        activity: What is going on, how the last run ended, and what may begin by itself.
    """

    #: A misspelt attribute is an error, not a setting without effect.
    __slots__ = (
        "__weakref__",
        "_parts",
        "activity",
        "additions",
        "extensions",
        "history",
        "host",
        "models",
        "queue",
        "subagents",
        "todos",
        "tools",
        "usage",
    )

    def __init__(self, options: SessionOptions) -> None:
        """Make a session. `history.problems` says what is wrong with the conversation that it resumes, if anything is."""
        self._parts = parts = Parts(options)
        self.history = parts.history
        self.models = parts.selection
        self.tools = parts.toolbox
        self.queue = parts.queue
        self.usage = parts.usage
        self.host = parts.host
        self.additions = parts.additions
        self.extensions = parts.extensions
        self.todos = parts.todos
        self.subagents = parts.subagents
        self.activity = parts.activity

    # State

    @property
    def messages(self) -> list[Message]:
        """The messages from the beginning to where the conversation stands."""
        return self._parts.current.conversation.messages

    @property
    def model(self) -> Model | None:
        """The model that answers; None before one is chosen. `models` changes it."""
        return self.models.model

    @property
    def thinking(self) -> ThinkingLevel:
        """The thinking level in force: the one that was chosen, or the nearest that the model has. `models` changes it."""
        return self.models.thinking

    @property
    def approvals(self) -> SessionApprovals | SubagentApprover:
        """Whether tool calls need approval: `approvals.mode` says so, and `approvals.set_mode` changes it.

        `ApprovalModeChanged` reports a change. The user's files stay as they are. Raises BadOption if the session was made
        without approvals.
        """
        if self._parts.approver is None:
            raise BadOption("approval: this session was made without approvals.")
        return self._parts.approver

    def subscribe(self, listener: Callable[[Event], None], gate: Gate | None = None) -> Callable[[], None]:
        """Call `listener` with every event, in order. It must not block.

        Args:
            listener: Called with each event.
            gate: Makes runs wait while it is paused, for a listener that may fall behind.

        Returns:
            A function that ends the subscription.
        """
        return self._parts.events.subscribe(listener, gate)

    # Messages

    async def prompt(
        self,
        text: str,
        images: list[ImageContent] | None = None,
        attribution: Attribution = "user",
        attachments: list[dict[str, Any]] | None = None,
        *,
        expand: bool = True,
        source: InputSource = "interactive",
        behavior: Behavior | None = None,
        limits: RunLimits | None = None,
    ) -> UserMessage | None:
        """Start a run with a message of the user. `activity.idle` waits for its end.

        While a run is ending (during an automatic compaction), the message is accepted and its turn comes after that.

        Args:
            text: What the user says. If it begins with a slash command, that is run or expanded.
            images: Images for the model.
            attribution: Who wrote the message: the user, or an agent.
            attachments: Files that come with the message, as objects in the form of pi-2025.
            expand: Whether slash commands are recognised.
            source: Where the message comes from, for extensions.
            behavior: Whether to queue the message, as `steer` or as `followUp`, if a run is going on.
            limits: What the run may not exceed, instead of the limits of the session. A run that is going on keeps its own.

        Returns:
            The message; None if an extension has handled it, so that no run starts.

        Raises:
            BusyError: A run is going on, and there is no `behavior`.
            CompactingError: The session is being compacted on request.
            ConfigError: No model is chosen, it has no credentials, or a slash command cannot be used.
            RunAborted: The session was aborted before the run began.
            SessionError: The message cannot be written. In all these cases nothing has changed.
        """
        await self.history.open()
        return await self._parts.intake.prompt(
            text, images, attribution, attachments, expand=expand, source=source, behavior=behavior, limits=limits
        )

    async def steer(
        self,
        text: str,
        images: list[ImageContent] | None = None,
        attachments: list[dict[str, Any]] | None = None,
        *,
        expand: bool = True,
        source: InputSource = "interactive",
    ) -> UserMessage | None:
        """Queue a message for the next turn of the run.

        The arguments are those of `prompt`. Returns the message; None if an extension has handled it. Raises SessionError if it
        cannot be written, and BadCommand for a command of an extension, which cannot be queued.
        """
        await self.history.open()
        return await self._parts.intake.queue("steering", text, images, attachments, expand=expand, source=source)

    async def follow_up(
        self,
        text: str,
        images: list[ImageContent] | None = None,
        attachments: list[dict[str, Any]] | None = None,
        *,
        expand: bool = True,
        source: InputSource = "interactive",
    ) -> UserMessage | None:
        """Queue a message for when the agent would otherwise stop. Returns and raises what `steer` does."""
        await self.history.open()
        return await self._parts.intake.queue("followUp", text, images, attachments, expand=expand, source=source)

    # The conversation

    def compact(self, instructions: str | None = None, *, keep_messages: int | None = None) -> asyncio.Task[CompactionResult]:
        """Replace older messages by a summary, after ending the run that is going on. It has begun when this returns.

        Args:
            instructions: What the summary should pay attention to.
            keep_messages: How many of the newest messages stay at most; None: as the settings say.

        Raises:
            CompactingError: The session is being compacted already.
            NothingToCompact, CompactionCancelled, ConfigError, ProviderError: The task raises these; nothing has changed then.
        """
        return self._parts.compactor.request(instructions, keep_messages=keep_messages)

    async def fork(self, entry_id: str) -> str:
        """Continue in a new session that has everything before a message of the user. Returns the text of that message.

        Raises EntryNotFound if there is no such message, MoveCancelled if an extension blocks it.
        """
        return await self._parts.make_moves().fork(entry_id)

    async def navigate(
        self,
        target: str | None,
        *,
        summarise: bool = False,
        instructions: str | None = None,
        replace_instructions: bool = False,
        label: str | None = None,
    ) -> Arrival:
        """Go to another entry of the conversation's tree, after stopping what runs. Later messages form a new branch there.

        Args:
            target: The id of the entry; None is the beginning. For a message of the user or of an extension, the place before it.
            summarise: Whether the model writes a summary of the branch that is left, for itself.
            instructions: What the summary should pay attention to.
            replace_instructions: Whether `instructions` take the place of what the model is told about summaries.
            label: Labels the summary, or the entry if there is none.

        Returns:
            Where the conversation stands, and the text of the user's message there.

        Raises:
            EntryNotFound: There is no such entry.
            MoveCancelled: An extension blocks it. With `summarise` also what `compact` raises. Nothing has changed then.
        """
        return await self._parts.make_moves().navigate(
            target, summarise=summarise, instructions=instructions, replace_instructions=replace_instructions, label=label
        )

    # The end

    async def abort(self) -> None:
        """Stop the run, or a compaction, and wait until it has settled. Queued messages stay queued."""
        await self._parts.stopper.abort()

    async def close(self) -> None:
        """Stop everything, and let other processes have the session's file."""
        await self._parts.close()
