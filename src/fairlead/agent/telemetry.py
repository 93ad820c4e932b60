"""Spans and metrics for OpenTelemetry, by its semantic conventions for generative AI.

A run is a span `invoke_agent`; the model calls (`chat`) and the tool calls (`execute_tool`) are below it, and the run of a
sub-agent is below the tool call that started it.

Listeners of a session are called in the task that causes the event. So the span of a run becomes the current one in the task of
the run, and the span of a tool call in the task that runs the tool: spans that a tool of the program makes are below it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from opentelemetry import context, metrics, trace
from opentelemetry.trace import Span, SpanKind, StatusCode

from fairlead import __version__
from fairlead.agent.options import Telemetry
from fairlead.core import events as e
from fairlead.core.lenient import scrub
from fairlead.core.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from fairlead.core.model import Model, ModelRequest, ModelStream, StreamEnd, StreamEvent
from fairlead.core.runtime import CancelToken
from fairlead.core.secrets import redacted
from fairlead.models.context_windows import ContextWindows
from fairlead.session.selection import Models
from fairlead.session.session import Session

#: Names of providers that differ from ours.
_PROVIDERS = {"google": "gcp.gemini", "xai": "x_ai", "mistral": "mistral_ai"}
_FINISH_REASONS = {"toolUse": "tool_call"}
#: What the conventions advise for histograms of tokens, and of seconds.
_TOKEN_BUCKETS = [4**power for power in range(14)]
_SECOND_BUCKETS = [0.01 * 2**power for power in range(14)]

Attributes = dict[str, Any]


class _OpenRun(Struct):
    """A run that has not settled: the session's own, or that of a sub-agent."""

    span: Span
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0
    last: AssistantMessage | None = None


class _OpenCall(Struct):
    """A tool call whose end has not been announced."""

    began: int
    arguments: dict[str, Any]
    #: Its span and how to leave it; None until the tool runs.
    span: Span | None = None
    token: Any = None


class Recorder:
    """Records what one agent does."""

    def __init__(self, options: Telemetry) -> None:
        self._options = options
        self._tracer = trace.get_tracer("fairlead", __version__, options.tracer_provider)
        self._session: Session | None = None
        #: By the id of the sub-agent; None is the session itself.
        self._runs: dict[str | None, _OpenRun] = {}
        self._calls: dict[tuple[str | None, str], _OpenCall] = {}
        self._agents: dict[str, str] = {}
        meter = metrics.get_meter("fairlead", __version__, options.meter_provider)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
        )
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECOND_BUCKETS,
        )
        self._cost = meter.create_counter("fairlead.client.cost", "{USD}", "Estimated cost of model calls.")

    def attach(self, session: Session) -> None:
        """Record the runs and the tool calls of a session and its sub-agents."""
        self._session = session
        session.subscribe(self._on_event)

    def models(self, models: Models) -> Models:
        """Return the models, with each call of one recorded."""
        return _RecordedModels(models, self._record_stream)

    # Runs and tool calls

    def _on_event(self, event: e.Event) -> None:
        owner: str | None = None
        if isinstance(event, e.SubagentEvent):
            owner, event = event.id, event.event
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, owner, event)

    def _subagent(self, _: str | None, event: e.SubagentLifecycle) -> None:
        if event.payload.status == "started":
            self._agents[event.payload.id] = event.payload.agent

    def _run_started(self, owner: str | None, event: e.AgentStart) -> None:
        if owner in self._runs:  # the same run, after a failure
            return
        session = self._session
        assert session is not None, "events come from the attached session"
        name = self._options.agent_name if owner is None else self._agents.get(owner, owner)
        attributes: Attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
        if owner is not None:
            attributes["gen_ai.agent.id"] = owner
        else:
            attributes["gen_ai.conversation.id"] = session.history.conversation.id
            if session.model is not None:
                attributes |= {
                    "gen_ai.provider.name": _provider(session.model.provider),
                    "gen_ai.request.model": session.model.id,
                }
        span = self._tracer.start_span(f"invoke_agent {name}", kind=SpanKind.INTERNAL, attributes=attributes)
        self._runs[owner] = _OpenRun(span)
        # It is left with the task of the run.
        context.attach(trace.set_span_in_context(span))

    def _message_ended(self, owner: str | None, event: e.MessageEnd) -> None:
        run = self._runs.get(owner)
        if run is None:
            return
        if isinstance(event.message, AssistantMessage):
            usage = event.message.usage
            run.input_tokens += usage.input + usage.cache_read + usage.cache_write
            run.output_tokens += usage.output
            run.cost += usage.cost.total
            run.last = event.message
        elif isinstance(event.message, UserMessage) and run.last is None and self._has_content(run.span):
            run.span.set_attribute("gen_ai.input.messages", _as_json(_parts([event.message])))

    def _run_settled(self, owner: str | None, event: e.AgentSettled) -> None:
        run = self._runs.pop(owner, None)
        if run is None:
            return
        span, last = run.span, run.last
        if span.is_recording():
            span.set_attributes(
                {
                    "gen_ai.usage.input_tokens": run.input_tokens,
                    "gen_ai.usage.output_tokens": run.output_tokens,
                    "fairlead.cost": run.cost,
                }
            )
            if last is not None:
                _end_answer(span, last, "error")
                if self._options.content:
                    span.set_attribute("gen_ai.output.messages", _as_json(_parts([last])))
        span.end()

    def _call_started(self, owner: str | None, event: e.ToolStart) -> None:
        self._calls[owner, event.call_id] = _OpenCall(time.time_ns(), event.arguments)

    def _call_runs(self, owner: str | None, event: e.ToolRunning) -> None:
        call = self._calls.get((owner, event.call_id))
        if call is not None:
            call.arguments = event.arguments
            call.span = self._call_span(event.tool_name, event.call_id, None)
            call.token = context.attach(trace.set_span_in_context(call.span))

    def _call_ended(self, owner: str | None, event: e.ToolEnd) -> None:
        call = self._calls.pop((owner, event.call_id), None)
        if call is None:
            return
        if call.token is not None:
            context.detach(call.token)
        has_run = call.span is not None
        span = call.span or self._call_span(event.tool_name, event.call_id, call.began)
        if event.is_error:
            span.set_attribute("error.type", "tool_error" if has_run else "not_run")
            span.set_status(StatusCode.ERROR)
        if self._has_content(span):
            span.set_attribute("gen_ai.tool.call.arguments", _as_json(call.arguments))
            span.set_attribute("gen_ai.tool.call.result", _as_json([_part(block) for block in event.result.content]))
        span.end()

    def _call_span(self, name: str, call_id: str, start: int | None) -> Span:
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
            "gen_ai.tool.type": "function",
        }
        return self._tracer.start_span(f"execute_tool {name}", kind=SpanKind.INTERNAL, attributes=attributes, start_time=start)

    def _has_content(self, span: Span) -> bool:
        return self._options.content and span.is_recording()

    # Model calls

    def _record_stream(self, model: Model, stream: ModelStream) -> ModelStream:
        async def stream_and_record(request: ModelRequest, cancel: CancelToken) -> AsyncGenerator[list[StreamEvent]]:
            common = _model_attributes(model)
            span, began, end = self._chat_span(common, request), time.perf_counter(), None
            try:
                async with aclosing(_closable(stream(request, cancel))) as batches:
                    async for batch in batches:
                        if end is None and span.is_recording():
                            span.set_attribute("gen_ai.response.time_to_first_chunk", time.perf_counter() - began)
                        end = batch[-1] if batch else end
                        yield batch
            finally:
                self._chat_ended(span, common, time.perf_counter() - began, end if isinstance(end, StreamEnd) else None)

        return stream_and_record

    def _chat_span(self, common: Attributes, request: ModelRequest) -> Span:
        attributes: Attributes = {**common, "gen_ai.request.stream": True}
        if request.session_id is not None:
            attributes["gen_ai.conversation.id"] = request.session_id
        if request.max_tokens is not None:
            attributes["gen_ai.request.max_tokens"] = request.max_tokens
        span = self._tracer.start_span(f"chat {common['gen_ai.request.model']}", kind=SpanKind.CLIENT, attributes=attributes)
        if self._has_content(span):
            span.set_attribute("gen_ai.system_instructions", _as_json([{"type": "text", "content": request.system_prompt}]))
            span.set_attribute("gen_ai.input.messages", _as_json(_parts(request.messages)))
            span.set_attribute("gen_ai.tool.definitions", _as_json([{"type": "function", "name": t.name} for t in request.tools]))
        return span

    def _chat_ended(self, span: Span, common: Attributes, seconds: float, end: StreamEnd | None) -> None:
        attributes = dict(common)
        if end is not None:
            message, usage = end.message, end.message.usage
            attributes["gen_ai.response.model"] = message.model
            read = usage.input + usage.cache_read + usage.cache_write
            if read or usage.output:
                self._tokens.record(read, {**attributes, "gen_ai.token.type": "input"})
                self._tokens.record(usage.output, {**attributes, "gen_ai.token.type": "output"})
            self._cost.add(usage.cost.total, attributes)
            if message.stop_reason == "error":
                attributes["error.type"] = str(end.status or "_OTHER")
            if span.is_recording():
                self._describe_answer(span, message, read, attributes.get("error.type", ""))
        self._seconds.record(seconds, attributes)
        span.end()

    def _describe_answer(self, span: Span, message: AssistantMessage, read: int, error: str) -> None:
        usage = message.usage
        span.set_attributes(
            {
                "gen_ai.response.model": message.model,
                "gen_ai.usage.input_tokens": read,
                "gen_ai.usage.output_tokens": usage.output,
                "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
                "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
                "fairlead.cost": usage.cost.total,
            }
        )
        if message.response_id is not None:
            span.set_attribute("gen_ai.response.id", message.response_id)
        _end_answer(span, message, error)
        if self._options.content:
            span.set_attribute("gen_ai.output.messages", _as_json(_parts([message])))


_HANDLERS: Mapping[type, Callable[[Recorder, str | None, Any], None]] = {
    e.SubagentLifecycle: Recorder._subagent,  # pyright: ignore[reportPrivateUsage]
    e.AgentStart: Recorder._run_started,  # pyright: ignore[reportPrivateUsage]
    e.MessageEnd: Recorder._message_ended,  # pyright: ignore[reportPrivateUsage]
    e.AgentSettled: Recorder._run_settled,  # pyright: ignore[reportPrivateUsage]
    e.ToolStart: Recorder._call_started,  # pyright: ignore[reportPrivateUsage]
    e.ToolRunning: Recorder._call_runs,  # pyright: ignore[reportPrivateUsage]
    e.ToolEnd: Recorder._call_ended,  # pyright: ignore[reportPrivateUsage]
}


class _RecordedModels:
    """Implements `fairlead.session.selection.Models` with the models of another one, whose streams are `recorded`."""

    def __init__(self, models: Models, recorded: Callable[[Model, ModelStream], ModelStream]) -> None:
        self._models = models
        self._recorded = recorded

    def available(self) -> list[Model]:
        return self._models.available()

    def find(self, provider: str, model_id: str) -> Model | None:
        return self._models.find(provider, model_id)

    def providers(self) -> list[tuple[str, bool]]:
        return self._models.providers()

    def find_open_stream(self, model: Model) -> ModelStream | None:
        stream = self._models.find_open_stream(model)
        return None if stream is None else self._recorded(model, stream)

    async def stream(self, model: Model, api_key: str | None = None) -> ModelStream:
        return self._recorded(model, await self._models.stream(model, api_key))

    @property
    def windows(self) -> ContextWindows:
        return self._models.windows

    async def ask_window(self, model: Model) -> int | None:
        return await self._models.ask_window(model)


def _closable(batches: Any) -> AsyncGenerator[list[StreamEvent]]:
    """Return an iterator that can be closed: a program's own stream need not be a generator."""

    async def generator() -> AsyncGenerator[list[StreamEvent]]:
        async for batch in batches:
            yield batch

    return cast("AsyncGenerator[list[StreamEvent]]", batches) if hasattr(batches, "aclose") else generator()


def _provider(name: str) -> str:
    return _PROVIDERS.get(name, name)


def _model_attributes(model: Model) -> Attributes:
    attributes: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _provider(model.provider),
        "gen_ai.request.model": model.id,
    }
    try:
        server = urlsplit(model.base_url)
        if server.hostname:
            attributes["server.address"] = server.hostname
            attributes["server.port"] = server.port or (80 if server.scheme == "http" else 443)
    except ValueError:  # the request reports it
        pass
    return attributes


def _end_answer(span: Span, message: AssistantMessage, error: str) -> None:
    span.set_attribute("gen_ai.response.finish_reasons", [_FINISH_REASONS.get(message.stop_reason, message.stop_reason)])
    if message.stop_reason == "error":
        span.set_attribute("error.type", error)
        span.set_status(StatusCode.ERROR, redacted(message.error_message or ""))


# Content, in the form of the conventions


def _parts(messages: Sequence[Message]) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            response = [_part(block) for block in message.content]
            part = {"type": "tool_call_response", "id": message.tool_call_id, "response": response}
            shown.append({"role": "tool", "parts": [part]})
        elif isinstance(message, AssistantMessage):
            reason = _FINISH_REASONS.get(message.stop_reason, message.stop_reason)
            shown.append({"role": "assistant", "parts": [_part(block) for block in message.content], "finish_reason": reason})
        elif isinstance(message, UserMessage):
            blocks = [TextContent(message.content)] if isinstance(message.content, str) else message.content
            shown.append({"role": "user", "parts": [_part(block) for block in blocks]})
    return shown


def _part(block: object) -> dict[str, Any]:
    match block:
        case TextContent():
            return {"type": "text", "content": block.text}
        case ThinkingContent():
            return {"type": "reasoning", "content": block.thinking}
        case ToolCall():
            return {"type": "tool_call", "id": block.id, "name": block.name, "arguments": block.arguments}
        case ImageContent():  # its data would be too long
            return {"type": "blob", "modality": "image", "mime_type": block.mime_type}
        case _:
            return {"type": type(block).__name__}


def _as_json(value: Any) -> str:
    return redacted(msgspec.json.encode(scrub(value)).decode())
