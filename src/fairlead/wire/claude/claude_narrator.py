"""Turns the events of a session into frames: blocks as they end, pieces of answers, results of tools, and the result of a
turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from msgspec import UNSET, Struct, ValidationError, convert
from msgspec.structs import replace

from fairlead.agent.tool_sets.claude import SKILL
from fairlead.core import events
from fairlead.core.message_updates import BlockEnded, BlockStarted, MessageUpdate, TextDelta, ThinkingDelta, ToolArgumentsDelta
from fairlead.core.messages import (
    AssistantBlock,
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
    add_usage,
    readable_error,
)
from fairlead.core.model import Model, StreamEnd
from fairlead.core.tool import ToolResult
from fairlead.protocol.claude import frames
from fairlead.session.history.claude_files import new_uuid
from fairlead.session.history.claude_lines import block_id, encode_blocks, encode_usage
from fairlead.session.history.entries import UsageEntry
from fairlead.session.session import Session
from fairlead.stores.paths import iso
from fairlead.wire.claude.claude_codec import encode, fit, result_content
from fairlead.wire.claude.subagent_frames import SubagentFrames

#: Sessions in other places have shorter ids of entries, which hosts would not take for uuids.
_UUID_LENGTH = 36
INTERRUPTED = "[Request interrupted by user]"
INTERRUPTED_IN_TOOLS = "[Request interrupted by user for tool use]"
STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "toolUse": "tool_use", "error": "stop_sequence", "aborted": None}
#: The `error` of a failed model call, by the status of HTTP.
_ERRORS: Mapping[int, str] = {
    400: "invalid_request",
    401: "authentication_failed",
    403: "authentication_failed",
    404: "model_not_found",
    413: "invalid_request",
    429: "rate_limit",
    529: "overloaded",
}


class WantedFrames(Struct):
    """Which frames the host wants."""

    #: Pieces of answers.
    partial: bool = False
    #: Prompts that come back.
    replay: bool = False
    #: The texts of sub-agents.
    subagent_texts: bool = False


class Prompt(Struct, eq=False):
    """A prompt of the host."""

    text: str
    images: list[Any]
    #: What the host sent as content.
    content: str | list[dict[str, Any]]
    uuid: str | None = None
    #: Whether it is not a slash command.
    is_plain: bool = False


class Turn(Struct, eq=False):
    """What has happened since the turn began."""

    prompts: list[Prompt]
    began: float
    usage: Usage
    #: How often the model has answered.
    answers: int = 0
    api_ms: int = 0
    #: How many `user` frames the turn has sent.
    user_frames: int = 0
    text: str = ""
    stop_reason: str | None = None
    #: The prompts that no assistant frame has named yet.
    unanswered: list[str] = []
    denials: list[dict[str, Any]] = []
    #: The output that fits the schema of the host, once there is one.
    structured: Any = UNSET
    is_interrupted: bool = False
    stopped_by_hook: bool = False
    #: Whether the budget is used up, so that no calls start any more.
    is_out_of_budget: bool = False
    #: The call that a hook has put off; it ends the turn.
    deferred: dict[str, Any] | None = None
    #: Whether an answer was cut off by the interrupt, rather than a tool call.
    was_streaming: bool = True


class Spent:
    """What the session has used so far, by model."""

    def __init__(self) -> None:
        self.by_model: dict[str, tuple[Usage, Model | None]] = {}
        self.total = 0.0

    def add(self, name: str, usage: Usage, model: Model | None) -> None:
        before, known = self.by_model.get(name, (Usage(), None))
        self.by_model[name] = add_usage(before, usage), model or known
        self.total += usage.cost.total

    def format(self) -> str:
        """Return the cost, with a line for each model."""
        lines = [
            f"{name}: {usage.input} input, {usage.output} output, {usage.cache_read} cache read, {usage.cache_write} cache write"
            f" (${usage.cost.total:.4f})"
            for name, (usage, _) in self.by_model.items()
        ]
        return "\n".join([f"Total cost: ${self.total:.4f}", *lines])

    def frames(self) -> dict[str, frames.ModelUsage]:
        return {
            name: frames.ModelUsage(
                input_tokens=usage.input,
                output_tokens=usage.output,
                cache_read_input_tokens=usage.cache_read,
                cache_creation_input_tokens=usage.cache_write,
                web_search_requests=0,
                cost_usd=usage.cost.total,
                context_window=0 if model is None else model.context_window,
                max_output_tokens=0 if model is None else model.max_tokens,
            )
            for name, (usage, model) in self.by_model.items()
        }


class Narrator:
    """Sends the frames of one session. `send` sends a line. `asked` has the calls that the host was asked about."""

    def __init__(
        self, send: Callable[[bytes], None], session: Session, wanted: WantedFrames, asked: Collection[str] = ()
    ) -> None:
        self._asked = asked
        self._send: Callable[[bytes], None] = send
        self._session = session
        self._wanted = wanted
        self._partial = wanted.partial
        self._subagents = SubagentFrames(self)
        self.turn: Turn | None = None
        self.spent = Spent()
        self._count_earlier()
        self.results = 0
        #: How long model calls have taken in this process.
        self.api_ms = 0
        #: The answer that is arriving: its id, and how many of its blocks were sent.
        self._message_id = ""
        self._sent_blocks: set[int] = set()
        self._has_started = False
        #: The arguments of the calls that are running, by id.
        self._calls: dict[str, dict[str, Any]] = {}
        #: The calls that do not run because the budget is used up.
        self._refused: set[str] = set()

    def _count_earlier(self) -> None:
        """Count what the session has used before, if it is resumed."""
        conversation = self._session.history.conversation
        for message in conversation.messages if conversation.has_begun else ():
            if isinstance(message, AssistantMessage) and message.usage.total_tokens:
                model = self._session.models.find(message.provider, message.model)
                if model is not None and not message.usage.cost.total:
                    model.fill_in_cost(message.usage)
                self.spent.add(message.model, message.usage, model)
        for entry in conversation.log.entries() if conversation.has_begun else ():
            if isinstance(entry, UsageEntry) and entry.usage is not UNSET:  # of sub-agents
                with suppress(ValidationError):
                    model = self._session.models.find(entry.provider, entry.model)
                    self.spent.add(entry.model, convert(entry.usage, Usage), model)

    @property
    def wants_subagent_texts(self) -> bool:
        return self._wanted.subagent_texts

    # Frames

    @property
    def common(self) -> dict[str, Any]:
        """The fields that all frames have."""
        return {"session_id": self._session.history.conversation.id, "uuid": new_uuid()}

    def mute(self) -> None:
        """Send nothing more: a process that is told to end gives no result."""
        self._send = _drop

    def send(self, frame: frames.Frame) -> None:
        self._send(fit(frame))

    def _send_piece(self, event: dict[str, Any]) -> None:
        self._send(encode(frames.StreamEvent(event=event, parent_tool_use_id=None, **self.common)))

    def send_user(self, content: str | list[dict[str, Any]], **more: Any) -> None:
        """Send a `user` frame."""
        if self.turn is not None:
            self.turn.user_frames += 1
        self.send(self.make_user(content, None, **more))

    def entry_id(self) -> str:
        """Return the id of the newest entry, which the next frame announces, as a uuid."""
        leaf = self._session.history.leaf or ""
        return leaf if len(leaf) == _UUID_LENGTH else new_uuid()

    def make_user(self, content: str | list[dict[str, Any]], parent: str | None, **more: Any) -> frames.UserFrame:
        """Return a `user` frame. `parent` is the call that it belongs to."""
        message = frames.UserContent(role="user", content=content)
        return frames.UserFrame(message=message, parent_tool_use_id=parent, timestamp=now(), **{**self.common, **more})

    def make_assistant(self, message: AssistantMessage, block: AssistantBlock, parent: str, **more: Any) -> frames.Assistant:
        """Return the frame for a block of the answer of a sub-agent."""
        told = frames.ModelMessage(
            id=message.response_id or f"msg_{new_uuid()}",
            type="message",
            role="assistant",
            model=message.model,
            content=[encode_block(block)],
            stop_reason=None,
            stop_sequence=None,
            usage=encode_usage(message.usage),
        )
        return frames.Assistant(message=told, parent_tool_use_id=parent, timestamp=now(), **self.common, **more)

    def encode_result(self, call_id: str, result: ToolResult, *, is_error: bool) -> tuple[dict[str, Any], Any]:
        return encode_result(call_id, result, is_error=is_error)

    def now_ms(self) -> int:
        return self._session.host.now_ms()

    def replay(self, prompt: Prompt) -> None:
        """Send a prompt back, if the host wants that."""
        if self._wanted.replay:
            uuid = prompt.uuid or new_uuid()
            self.send_user(prompt.content, is_replay=True, uuid=uuid)
            if self.turn is not None:
                self.turn.user_frames -= 1

    def inform(self, text: str, level: Any = "error") -> None:
        self.send(frames.Informational(level=level, content=text, **self.common))

    # Turns

    def begin(self, prompts: Sequence[Prompt]) -> None:
        """Begin a turn."""
        unanswered = [prompt.uuid for prompt in prompts if prompt.uuid is not None]
        self.turn = Turn(list(prompts), time.monotonic(), Usage(), unanswered=unanswered, denials=[])
        self._calls.clear()

    def join(self, prompt: Prompt) -> None:
        """Note that a prompt belongs to the turn."""
        if self.turn is not None:
            self.turn.prompts.append(prompt)

    # Events

    def send_event(self, event: events.Event) -> None:
        match event:
            case MessageUpdate():
                self._send_update(event)
            case events.MessageStart(message=AssistantMessage() as message):
                self._start_answer(message)
            case events.MessageEnd(message=AssistantMessage() as message):
                self._end_answer(message)
            case events.ToolStart(parent_call_id=None):
                self._calls[event.call_id] = event.arguments
                if self.turn is not None and self.turn.is_out_of_budget:
                    self._refused.add(event.call_id)
            case events.ToolEnd(parent_call_id=None):
                if event.call_id not in self._refused:  # hosts of Claude Code learn nothing of them but the result of the turn
                    self._send_tool_result(event.call_id, event.tool_name, event.result, is_error=event.is_error)
                self._calls.pop(event.call_id, None)
            case events.ToolApprovalResolved(approved=False):
                self._note_denial(event)
            case events.SubagentLifecycle() | events.SubagentProgress() | events.SubagentEvent():
                self._subagents.send_event(event)
            case events.RetryStart():
                self._send_retry(event)
            case events.CompactionStart():
                self.send(frames.Status(status="compacting", **self.common))
            case events.CompactionEnd():
                self._end_compaction(event)
            case _:
                pass

    @property
    def is_in_calls(self) -> bool:
        """Whether tool calls are running."""
        return bool(self._calls)

    def arguments_of(self, call_id: str) -> dict[str, Any]:
        """Return the arguments of a call that is running."""
        return self._calls.get(call_id, {})

    def _start_answer(self, message: AssistantMessage) -> None:
        self._message_id = message.response_id or f"msg_{new_uuid().replace('-', '')[:24]}"
        self._sent_blocks = set()
        self._has_started = False
        if message.stop_reason not in ("error", "aborted"):
            self._open_stream(message)

    def _open_stream(self, message: AssistantMessage) -> None:
        self._has_started = True
        if self._partial:
            self.send(frames.Status(status="requesting", **self.common))
            self._send_piece({"type": "message_start", "message": {**self._head(message.model, message.usage), "content": []}})

    def _head(self, model: str, usage: Usage) -> dict[str, Any]:
        return {
            "id": self._message_id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": encode_usage(usage),
        }

    def _send_update(self, event: MessageUpdate) -> None:
        if isinstance(event, BlockEnded):
            block = event.event.block
            if self._partial and isinstance(block, ThinkingContent):
                self._send_delta(event.event.index, {"type": "signature_delta", "signature": block.thinking_signature or ""})
            partial = event.partial
            uuid = self._keep_block(event.event.index, block, event)
            self._send_block(event.event.index, block, partial.model.id, partial.usage, uuid=uuid)
            if self._partial:
                self._send_piece({"type": "content_block_stop", "index": event.event.index})
        elif not self._partial:
            return
        elif isinstance(event, BlockStarted):
            empty = encode_block(event.event.block, is_empty=True)
            self._send_piece({"type": "content_block_start", "index": event.event.index, "content_block": empty})
        elif isinstance(event, TextDelta):
            self._send_delta(event.event.index, {"type": "text_delta", "text": event.text})
        elif isinstance(event, ThinkingDelta):
            self._send_delta(event.event.index, {"type": "thinking_delta", "thinking": event.thinking})
        elif isinstance(event, ToolArgumentsDelta):
            self._send_delta(event.event.index, {"type": "input_json_delta", "partial_json": event.json})

    def _keep_block(self, index: int, block: AssistantBlock, event: MessageUpdate) -> str:
        """Have the block on disk before its frame. Returns its uuid."""
        conversation, partial = self._session.history.conversation, event.partial
        head = partial.shell()
        head.usage, head.response_id = partial.usage, self._message_id
        return conversation.keep_block(head, index, block) or new_uuid()

    def _send_delta(self, index: int, delta: dict[str, Any]) -> None:
        self._send_piece({"type": "content_block_delta", "index": index, "delta": delta})

    def _send_block(self, index: int, block: AssistantBlock, model: str, usage: Usage, **more: Any) -> None:
        if index in self._sent_blocks:
            return
        self._sent_blocks.add(index)
        message = frames.ModelMessage(
            id=self._message_id,
            type="message",
            role="assistant",
            model=model,
            content=[encode_block(block)],
            stop_reason=None,
            stop_sequence=None,
            usage=encode_usage(usage),
        )
        self._send_assistant(message, **more)

    def _send_assistant(self, message: frames.ModelMessage, **more: Any) -> None:
        turn = self.turn
        if turn is not None and turn.unanswered:
            more |= {"user_message_uuid": turn.unanswered[0], "user_message_uuids": turn.unanswered}
            turn.unanswered = []
        common = {**self.common, **more}
        self.send(frames.Assistant(message=message, parent_tool_use_id=None, timestamp=now(), **common))

    def _end_answer(self, message: AssistantMessage) -> None:
        turn = self.turn
        is_cut = message.stop_reason in ("error", "aborted")
        if turn is not None and not is_cut:
            turn.answers += 1
            turn.text = message.text()
            turn.stop_reason = stop_reason(message)
        if turn is not None:
            turn.usage = add_usage(turn.usage, message.usage)
            turn.api_ms += message.duration_ms or 0
        self.api_ms += message.duration_ms or 0
        self.count(message)
        answer = self.entry_id()
        if message.stop_reason == "aborted":
            for index, block in enumerate(message.content):
                if not isinstance(block, ToolCall) and (not isinstance(block, TextContent) or block.text):
                    self._send_block(index, block, message.model, message.usage, aborted=True, uuid=block_id(answer, index))
        elif not is_cut:
            for index, block in enumerate(message.content):
                self._send_block(index, block, message.model, message.usage, uuid=block_id(answer, index))
        if self._partial and self._has_started and not (is_cut and message.stop_reason == "error"):
            delta = {"stop_reason": stop_reason(message), "stop_sequence": None}
            usage = {"output_tokens": message.usage.output}
            self._send_piece({"type": "message_delta", "delta": delta, "usage": usage})
            self._send_piece({"type": "message_stop"})

    def count(self, message: AssistantMessage) -> None:
        """Count what an answer has cost, of a sub-agent too."""
        self.spent.add(message.model, message.usage, self._session.models.find(message.provider, message.model))

    def _send_tool_result(self, call_id: str, tool: str, result: ToolResult, *, is_error: bool) -> None:
        skill = result.content[1:] if not is_error and tool == SKILL else []
        shown = replace(result, content=result.content[:1]) if skill else result
        block, detail = encode_result(call_id, shown, is_error=is_error)
        self.send_user([block], tool_use_result=detail, uuid=self.entry_id())
        if skill:
            self.send_user(encode_blocks(skill), is_synthetic=True)

    def _note_denial(self, event: events.ToolApprovalResolved) -> None:
        denial = {"tool_name": event.tool_name, "tool_use_id": event.call_id, "tool_input": self.arguments_of(event.call_id)}
        if self.turn is not None:
            self.turn.denials.append(denial)
        if event.call_id not in self._asked:
            common = self.common
            self.send(
                frames.PermissionDenied(
                    tool_name=event.tool_name, tool_use_id=event.call_id, message=event.reason or "refused", **common
                )
            )

    def _send_retry(self, event: events.RetryStart) -> None:
        status = None if (end := self._session.activity.last_end) is None else end.status
        self.send(
            frames.ApiRetry(
                attempt=event.attempt,
                max_retries=event.max_attempts,
                retry_delay_ms=event.delay_ms,
                error_status=status,
                error=error_kind(status),
                **self.common,
            )
        )

    def _end_compaction(self, event: events.CompactionEnd) -> None:
        result = event.result
        if result is None:
            self.send(frames.Status(status=None, compact_result="failed", **self.common))
            return
        self.send(frames.Status(status=None, compact_result="success", **self.common))
        if event.reason != "manual":
            self.send_boundary("auto", result)

    def send_boundary(self, trigger: Any, result: events.CompactionResult) -> None:
        """Say that a summary has replaced what came before."""
        metadata = frames.CompactMetadata(trigger=trigger, pre_tokens=result.tokens_before)
        if result.estimated_tokens_after is not None:
            metadata.post_tokens = result.estimated_tokens_after
        self.send(frames.CompactBoundary(compact_metadata=metadata, **self.common))

    # The result

    def send_failure(self, end: StreamEnd) -> str:
        """Send the frame for a model call that failed for good. Returns its text."""
        text = f"API Error: {readable_error(end.message.error_message or 'unknown error')}"
        self.send_own(text, error=error_kind(end.status), is_api_error_message=True, api_error_status=end.status)
        return text

    def send_own(self, text: str, **more: Any) -> None:
        """Send a text that no model has written, as a message of the assistant."""
        self._message_id = new_uuid()
        message = frames.ModelMessage(
            id=self._message_id,
            type="message",
            role="assistant",
            model="<synthetic>",
            content=[{"type": "text", "text": text}],
            stop_reason=None,
            stop_sequence=None,
            usage=encode_usage(Usage()),
        )
        self._send_assistant(message, **more)

    def make_result(self, subtype: Any, *, is_error: bool, queued: int, **more: Any) -> frames.Result:
        """Return the frame that ends the turn."""
        turn = self.turn or Turn([], time.monotonic(), Usage())
        uuids = [prompt.uuid for prompt in turn.prompts if prompt.uuid is not None]
        if uuids:
            more |= {"user_message_uuid": uuids[0], "user_message_uuids": uuids}
        result = frames.Result(
            subtype=subtype,
            is_error=is_error,
            num_turns=turn.user_frames + 1,
            duration_ms=round((time.monotonic() - turn.began) * 1000),
            duration_api_ms=turn.api_ms,
            stop_reason=turn.stop_reason,
            total_cost_usd=self.spent.total,
            usage=_encode_turn_usage(turn.usage),
            model_usage=self.spent.frames(),
            permission_denials=turn.denials,
            structured_output=turn.structured,
            queued_turn_count=queued,
            result_index=self.results,
            **{**self.common, **more},
        )
        self.results += 1
        return result


def _drop(line: bytes) -> None:
    pass


def make_refusal(problem: str) -> frames.Result:
    """Return the result of a process that cannot begin, because there is no such session."""
    return frames.Result(
        subtype="error_during_execution",
        is_error=True,
        num_turns=0,
        duration_ms=0,
        duration_api_ms=0,
        stop_reason=None,
        errors=[problem],
        total_cost_usd=0,
        usage=_encode_turn_usage(Usage()),
        model_usage={},
        permission_denials=[],
        queued_turn_count=0,
        result_index=0,
        session_id=new_uuid(),
        uuid=new_uuid(),
    )


def stop_reason(message: AssistantMessage) -> str | None:
    """Return why an answer ended, in the words of the Messages API."""
    if message.api == "anthropic-messages" and message.raw_stop_reason:
        return message.raw_stop_reason
    return STOP_REASONS[message.stop_reason]


def encode_terminal(subtype: str) -> str | None:
    """Return the `terminal_reason` that belongs to a limit."""
    return {"error_max_turns": "max_turns", "error_max_budget_usd": "budget_exhausted"}.get(subtype)


def error_kind(status: int | None) -> str:
    """Return the name of a failure of a model call."""
    if status is None:
        return "unknown"
    return _ERRORS.get(status) or ("server_error" if status >= 500 else "invalid_request")


def encode_result(call_id: str, result: ToolResult, *, is_error: bool) -> tuple[dict[str, Any], Any]:
    """Return the block for the result of a tool, and the result as data."""
    details: Any = result.details
    keeps_blocks = not is_error and (isinstance(details, list) or result.detail("agentId") is not None)
    content = encode_blocks(result.content) if keeps_blocks else result_content(result.content)
    block: dict[str, Any] = {"tool_use_id": call_id, "type": "tool_result", "content": content}
    if not is_error:
        return block, content if details is None else cast("Any", details)
    block["is_error"] = True
    text = content if isinstance(content, str) else ""
    return block, f"Error: {text.removeprefix('<tool_use_error>').removesuffix('</tool_use_error>')}"


def encode_block(block: AssistantBlock, *, is_empty: bool = False) -> dict[str, Any]:
    """Return a block of an answer in the form of the Messages API."""
    match block:
        case TextContent():
            return {"type": "text", "text": "" if is_empty else block.text}
        case ThinkingContent():
            text, signature = ("", "") if is_empty else (block.thinking, block.thinking_signature or "")
            return {"type": "thinking", "thinking": text, "signature": signature}
        case ToolCall():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": {} if is_empty else block.arguments}


def _encode_turn_usage(usage: Usage) -> dict[str, Any]:
    long = 0 if usage.cache_write_1h is UNSET else usage.cache_write_1h
    return {
        **encode_usage(usage),
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
        "cache_creation": {"ephemeral_1h_input_tokens": long, "ephemeral_5m_input_tokens": usage.cache_write - long},
    }


def now() -> str:
    return iso(time.time_ns() // 1_000_000)
