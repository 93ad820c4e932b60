"""Turns the events of a session into Opal's events.

For every run the client gets `message_applied` for the prompt, `agent_start`, what the model writes and its tools do, and one of
`agent_end`, `agent_abort` and `error`. Events that Opal does not have (a retry, a compaction) become statuses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, TypeAlias, cast

import msgspec

from fairlead.core import events as core
from fairlead.core.message_updates import BlockEnded, BlockStarted, TextDelta, ThinkingDelta
from fairlead.core.messages import (
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
    UserMessage,
    readable_error,
    user_text,
)
from fairlead.errors import FairleadError, RunAborted
from fairlead.protocol.opal import opal_events
from fairlead.protocol.opal.opal_objects import Status, StatusFilter, TokenUsage, ToolOutcome, without_statuses
from fairlead.tools.opal.anchors import SKILL, SUB_AGENT, text_of
from fairlead.wire.host_connection import Outlet
from fairlead.wire.opal.opal_codec import meta, outcome
from fairlead.wire.opal.text_stream import Channel

RunStatus: TypeAlias = Literal["idle", "running", "streaming", "executing_tools"]

CRASHED = "Internal error: the run ended without an outcome."
UNFINISHED = "The run ended before the tool did."


class Narrator:
    """Sends the events of one session. `window` returns the context window of the model that wrote an answer, or of the model in
    use; 0 if it is unknown. `own_tools` are the tools whose updates hold only new output, not all output so far."""

    def __init__(
        self,
        session_id: str,
        outlet: Outlet,
        put: Callable[[opal_events.Event], None],
        window: Callable[[AssistantMessage | None], int],
        own_tools: Collection[str],
        context_files: Callable[[], list[str]] = list,
    ) -> None:
        self.status: RunStatus = "idle"
        self._id = session_id
        self._outlet = outlet
        self._channel = Channel(outlet, put)
        self._window = window
        self._own_tools = own_tools
        self.context_files = context_files
        self._total = Usage()
        self._context_tokens = 0
        #: The client's text for messages whose content differs from it, by the identity of the message.
        self._said: dict[int, tuple[UserMessage, str]] = {}
        #: A prompt that was announced, and whether the start of its run still has to be.
        self._announced: UserMessage | None = None
        self._start_is_due = False
        #: Whether a command was announced whose end was not.
        self._command_is_open = False
        self._running = False
        self._last: AssistantMessage | None = None
        self._crash: str | None = None
        # The answer that is arriving
        self._text_began = False
        self._thinking_began = False
        self._filter = StatusFilter()
        #: The text of an answer after which the run may continue or end.
        self._held_turn: str | None = None
        # Its tools: the names of those that have started, the output so far of foreign ones, and sub-agents.
        self._tools: dict[str, str] = {}
        self._shown: dict[str, str] = {}
        self._children: dict[str, Narrator] = {}
        self._handlers: dict[type, Callable[[Any], None]] = {
            core.AgentStart: self._on_agent_start,
            core.AgentSettled: self._on_settled,
            core.MessageStart: self._on_message_start,
            BlockStarted: self._on_block_start,
            TextDelta: self._on_text_delta,
            ThinkingDelta: self._on_thinking_delta,
            BlockEnded: self._on_block_end,
            core.MessageEnd: self._on_message_end,
            core.ToolStart: self._on_tool_start,
            core.ToolUpdate: self._on_tool_update,
            core.ToolEnd: self._on_tool_end,
            core.RetryStart: self._on_retry,
            core.SummaryRetryScheduled: self._on_retry,
            core.CompactionStart: self._on_compaction_start,
            core.ExtensionError: self._on_extension_error,
            core.SubagentEvent: self._on_subagent_event,
        }

    # From the session and its client

    def send_event(self, event: core.Event) -> None:
        handle = self._handlers.get(type(event))
        if handle is not None:
            handle(event)

    def announce_prompt(self, message: UserMessage, text: str) -> None:
        """Announce a prompt that was accepted as `message` and starts a run."""
        self._announced = message
        self._send(opal_events.MessageApplied(self._id, text))

    def announce_command_start(self, text: str) -> None:
        """Announce a prompt that is a command. It has a start and an end like a run; during a run, it shares those of the run."""
        self._send(opal_events.MessageApplied(self._id, text))
        if not self._running and self._announced is None:
            self._command_is_open = True
            self._send(opal_events.AgentStart(self._id))

    def announce_command_end(self) -> None:
        """Announce the end of a command, unless it started a run, whose end is also its own."""
        if self._command_is_open and not self._running:
            self._end(opal_events.AgentEnd(self._id, self.usage()))

    def announce_refusal(self, text: str, error: FairleadError) -> None:
        """Announce a prompt that the client believes accepted, and why it does not start."""
        self.announce_command_start(text)
        if not self._command_is_open:
            self.show(str(error))
        elif isinstance(error, RunAborted):
            self._end(opal_events.AgentAbortEvent(self._id))
        else:
            self._end(opal_events.Error(self._id, str(error)))

    def announce_command_abort(self) -> None:
        """Announce the abort of a command, if one is open."""
        if self._command_is_open and not self._running:
            self._end(opal_events.AgentAbortEvent(self._id))

    def announce_queued(self, message: UserMessage, text: str) -> None:
        """Announce a prompt that was queued as `message`."""
        self._said[id(message)] = message, text
        self._send(opal_events.MessageQueued(self._id, text))

    def announce_idle_stop(self) -> None:
        """Announce an abort although nothing was running."""
        self._end(opal_events.AgentAbortEvent(self._id))

    def announce_context_files(self) -> None:
        """Announce the context files, if there are any."""
        files = self.context_files()
        if files:
            self._send(opal_events.ContextDiscovered(self._id, files))

    def announce_recovery(self) -> None:
        """Announce that the session continues after a crash."""
        self._send(opal_events.AgentRecovered(self._id))
        self.announce_context_files()

    def show(self, status: str) -> None:
        if status.strip():
            self._send(opal_events.StatusUpdate(self._id, status.strip()))

    def usage(self) -> TokenUsage:
        """The token usage so far."""
        total = self._total
        asked = _prompt_tokens(total)
        return TokenUsage(asked, total.output, asked + total.output, self._window(None), self._context_tokens)

    # Runs

    def _on_agent_start(self, event: core.AgentStart | None = None) -> None:
        if self._running:  # a retry within the same run
            return
        self._running, self._last, self._crash = True, None, None
        self.status = "running"
        # The prompt is announced before the start of the run; the prompt of a sub-agent is yet to come.
        self._start_is_due = not self._command_is_open
        if self._announced is not None:
            self._begin()

    def _begin(self) -> None:
        if self._start_is_due:
            self._start_is_due = False
            self._send(opal_events.AgentStart(self._id))

    def _on_settled(self, event: core.AgentSettled) -> None:
        if self._announced is not None:  # the fault may have come before the start of the run
            self._on_agent_start()
        if not self._running:
            return
        self._begin()
        self._running, self._announced, self._held_turn = False, None, None
        self.status = "idle"
        if self._tools and self._crash is None:
            self._crash = CRASHED
        for call_id, tool in self._tools.items():
            failure = ToolOutcome(ok=False, error=UNFINISHED)
            self._send(opal_events.ToolExecutionEnd(self._id, tool, call_id, failure))
        self._tools.clear()
        self._shown.clear()
        self._children.clear()
        crash = self._crash or (CRASHED if self._last is None else None)
        if crash is not None:
            self._end(opal_events.Error(self._id, crash))
            self.announce_recovery()
            return
        assert self._last is not None
        match self._last.stop_reason:
            case "error":
                self._end(
                    opal_events.Error(
                        self._id, readable_error(self._last.error_message or "The model failed without saying why.")
                    )
                )
            case "aborted":
                self._end(opal_events.AgentAbortEvent(self._id))
            case _:
                self._end(opal_events.AgentEnd(self._id, self.usage()))

    def _end(self, event: opal_events.Event) -> None:
        self._command_is_open = False
        self._send(event)

    def _on_retry(self, event: core.RetryStart | core.SummaryRetryScheduled) -> None:
        again = f"Trying again in {event.delay_ms / 1000:g} s ({event.attempt} of {event.max_attempts})"
        self.show(f"{again}: {readable_error(event.error)}")

    def _on_compaction_start(self, event: core.CompactionStart) -> None:
        if event.reason != "manual":
            self.show("Compacting the conversation")

    def _on_extension_error(self, event: core.ExtensionError) -> None:
        if (event.extension_path, event.event) == ("session", "run"):
            self._crash = event.error
        else:
            self.show(event.error)

    # Messages

    def _on_message_start(self, event: core.MessageStart) -> None:
        if isinstance(event.message, AssistantMessage):
            self._begin()
            if self._held_turn is not None:  # the run continues after it
                self._send(opal_events.TurnEnd(self._id, self._held_turn))
                self._held_turn = None
            self.status = "streaming"
            self._text_began = self._thinking_began = False
            self._filter = StatusFilter()

    def _on_block_start(self, update: BlockStarted) -> None:
        block = update.event.block
        if isinstance(block, ThinkingContent) and not self._thinking_began:
            self._thinking_began = True
            self._send(opal_events.ThinkingStart(self._id))
        elif isinstance(block, TextContent):
            self._begin_text()

    def _on_text_delta(self, update: TextDelta) -> None:
        self._emit_text(self._filter.feed(update.text))

    def _on_thinking_delta(self, update: ThinkingDelta) -> None:
        self._channel.stream(opal_events.ThinkingDelta(self._id, update.thinking))

    def _on_block_end(self, update: BlockEnded) -> None:
        if isinstance(update.event.block, TextContent):
            self._emit_text([rest] if (rest := self._filter.rest()) else [])

    def _begin_text(self) -> None:
        if not self._text_began:
            self._text_began = True
            self._send(opal_events.MessageStart(self._id))

    def _emit_text(self, parts: Sequence[str | Status]) -> None:
        for part in parts:
            if isinstance(part, Status):
                self.show(part.text)
            else:
                self._begin_text()
                self._channel.stream(opal_events.MessageDelta(self._id, part))

    def _on_message_end(self, event: core.MessageEnd) -> None:
        message = event.message
        if isinstance(message, AssistantMessage):
            self._end_answer(message)
        elif isinstance(message, UserMessage):
            if message is not self._announced:
                _, text = self._said.pop(id(message), (message, user_text(message)))
                self._send(opal_events.MessageApplied(self._id, text))
            self._begin()

    def _end_answer(self, message: AssistantMessage) -> None:
        self._emit_text([rest] if (rest := self._filter.rest()) else [])
        self._last = message
        self.status = "running"
        self._count(message.usage)
        if message.stop_reason in ("error", "aborted"):
            return
        if message.usage.total_tokens:
            self._send(opal_events.UsageUpdate(self._id, self.usage()))
        text = without_statuses(message.text())
        calls = message.tool_calls()
        if not calls:
            self._held_turn = text
            return
        self._send(opal_events.TurnEnd(self._id, text))
        self.status = "executing_tools"
        for call in calls:  # all start before any ends, whatever happens to each
            self._begin_tool(call)

    def _count(self, usage: Usage) -> None:
        total = self._total
        total.input += usage.input
        total.output += usage.output
        total.cache_read += usage.cache_read
        total.cache_write += usage.cache_write
        if usage.total_tokens:
            self._context_tokens = _prompt_tokens(usage)

    # Tools

    def _begin_tool(self, call: ToolCall | core.ToolStart) -> None:
        call_id, name = (call.id, call.name) if isinstance(call, ToolCall) else (call.call_id, call.tool_name)
        self._tools[call_id] = name
        self._send(opal_events.ToolExecutionStart(self._id, name, call_id, call.arguments, meta(name, call.arguments)))

    def _on_tool_start(self, event: core.ToolStart) -> None:
        if event.call_id not in self._tools:
            self._begin_tool(event)

    def _on_tool_update(self, event: core.ToolUpdate) -> None:
        if event.call_id not in self._tools:
            return
        chunk = text_of(event.partial)
        if event.tool_name in self._own_tools:
            if (skill := event.partial.detail(SKILL)) is not None:
                self._send(opal_events.SkillLoaded(self._id, skill["name"], skill["description"]))
            if (child := event.partial.detail(SUB_AGENT)) is not None:
                self._on_subagent_start(event.call_id, child)
        else:
            before, self._shown[event.call_id] = self._shown.get(event.call_id, ""), chunk
            # If the beginning was cut off, the new part cannot be found.
            chunk = chunk[len(before) :] if chunk.startswith(before) else chunk
        if chunk:
            self._channel.stream(opal_events.ToolOutputEvent(self._id, event.tool_name, event.call_id, chunk))

    def _on_tool_end(self, event: core.ToolEnd) -> None:
        self._tools.pop(event.call_id, None)
        self._shown.pop(event.call_id, None)
        if not self._tools:
            self.status = "running"
        result = self._outcome(event)
        self._send(opal_events.ToolExecutionEnd(self._id, event.tool_name, event.call_id, result))

    def _outcome(self, event: core.ToolEnd) -> ToolOutcome:
        if event.tool_name in self._own_tools:
            return msgspec.convert(outcome(event.result, event.is_error), ToolOutcome)
        text = text_of(event.result)
        return ToolOutcome(ok=False, error=text) if event.is_error else ToolOutcome(ok=True, output=text)

    # Sub-agents

    def _on_subagent_start(self, call_id: str, child: dict[str, Any]) -> None:
        sub_session = cast("str", child["id"])

        def put(event: opal_events.Event | opal_events.SubAgentStart) -> None:
            if not isinstance(event, opal_events.Error):  # it becomes the error of the tool
                self._send(opal_events.SubAgentEvent(self._id, call_id, sub_session, opal_events.inner(event)))

        def window(answer: AssistantMessage | None) -> int:
            """The window of its model, which may differ from the parent's. Only its answers name the model."""
            return self._window(answer or self._children[sub_session]._last)

        put(opal_events.SubAgentStart(child["model"], child["label"], child["tools"]))
        self._children[sub_session] = Narrator(sub_session, self._outlet, put, window, self._own_tools)

    def _on_subagent_event(self, event: core.SubagentEvent) -> None:
        child = self._children.get(event.id)
        if child is not None:
            child.send_event(event.event)

    def _send(self, event: opal_events.Event) -> None:
        self._channel.send(event)


def _prompt_tokens(usage: Usage) -> int:
    return usage.input + usage.cache_read + usage.cache_write
