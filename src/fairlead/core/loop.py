"""The agent loop: context + model + tools + queues -> events.

One run goes like this. The user's message opens the first turn. In each turn the model answers; if it
asks for tools, they run and their results open the next turn. Between turns the loop listens: first to
steering, then, when the model has nothing more to do, to follow-ups. It ends when nobody has anything
left to say, when the model fails, when a limit is reached, or when the run is cancelled.

Whatever happens, every TurnStart has its TurnEnd, every MessageStart its MessageEnd, and every tool call of
a finished message its result. What frames a run (its start, its end, another attempt) is up to the caller.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from fairlead.core.calls import run_calls
from fairlead.core.events import (
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    TurnEnd,
    TurnStart,
)
from fairlead.core.limits import Limits
from fairlead.core.messages import AssistantMessage, Message, ToolCall, UserMessage
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart, Model, ModelStream, Request, StreamEnd, StreamEvent, StreamStart
from fairlead.core.partial_message import PartialMessage
from fairlead.core.queues import Queued, Queues
from fairlead.core.runtime import Cancel, Runtime
from fairlead.core.tool import Approver, Schedule, Tool, ToolResult


class Turn(Struct, frozen=True):
    """What one model call works with. It is asked for anew each turn, so that changes take effect during a run."""

    model: Model
    stream: ModelStream
    request: Request
    tools: Mapping[str, Tool]
    schedule: Schedule
    #: How many tools may run at once.
    concurrent: int = 8


class BeforeCall(Protocol):
    """Says what arguments a tool is to run with; they are checked again. None: those it has. It is awaited at once.
    Raises ToolError if the tool is not to run."""

    def __call__(self, tool: Tool, call: ToolCall, arguments: dict[str, Any], /) -> Awaitable[dict[str, Any]] | None: ...


class AfterCall(Protocol):
    """Looks at what came of a tool that ran, an error or not, and says what counts instead. None: that. It is awaited at once."""

    def __call__(
        self, tool: Tool, call: ToolCall, arguments: dict[str, Any], result: ToolResult, is_error: bool, /
    ) -> Awaitable[tuple[ToolResult, bool]] | None: ...


class Run(Struct, frozen=True):
    """Everything a run is given from outside."""

    #: The next turn, for the context so far. Raises nothing: a problem becomes a stream that fails.
    next_turn: Callable[[], Awaitable[Turn]]
    #: Called between two turns: the place to make the context smaller. Raises nothing.
    between: Callable[[], Awaitable[None]]
    #: Looks at an answer as it arrives. A text cuts it off there, and says why; None: nobody looks.
    watch: Callable[[BlockStart | BlockDelta | BlockEnd], str | None] | None
    #: Adds a message to the conversation. It is called before the message's MessageEnd is emitted.
    add: Callable[[Message], None]
    #: Tells of an event; waits while whoever listens cannot keep up.
    emit: Callable[[Event], Awaitable[None]]
    #: The same for events that may be dropped: never waits.
    notify: Callable[[Event], None]
    #: Shows a bug of a tool or a model to whoever can mend it; the run goes on.
    report: Callable[[Exception], None]
    queues: Queues
    runtime: Runtime
    cancel: Cancel
    #: Asked before a tool runs.
    before_call: BeforeCall | None = None
    #: Asked after that; None: every call may happen.
    approver: Approver | None = None
    #: Asked when it has run.
    after_call: AfterCall | None = None
    #: Kept from one `run_agent` to the next within a run, so that another attempt does not start counting anew.
    limits: Limits = field(default_factory=Limits)


async def run_agent(run: Run, prompts: Sequence[Message], added: list[Message]) -> StreamEnd:
    """Run until there is nothing left to do. Returns how the last model call ended.

    `prompts` open the first turn; they are part of the conversation already. `added` collects the run's messages.
    """
    emit, queues, cancel, limits = run.emit, run.queues, run.cancel, run.limits

    async def say(message: Message) -> None:
        await emit(MessageStart(message))
        run.add(message)
        added.append(message)
        await emit(MessageEnd(message))

    async def deliver(messages: list[Queued]) -> None:
        for message in messages:
            await emit(queues.update())
            await say(message)

    await emit(TurnStart())
    for prompt in prompts:
        added.append(prompt)
        await emit(MessageStart(prompt))
        await emit(MessageEnd(prompt))
    if _has_user_message(prompts):
        limits.heard_user(model_was_done=True)
    await deliver(queues.steering.take())

    while True:
        turn = await run.next_turn()
        end = await _answer(run, turn, added)
        if end.message.stop_reason in ("error", "aborted"):
            await emit(TurnEnd(end.message, []))
            break
        limits.answered()
        calls = end.message.tool_calls()
        results = await run_calls(run, turn, end, say) if calls else []
        limits.turn_ended()
        await emit(TurnEnd(end.message, results))
        if cancel.fired:
            if calls:
                end = await _unasked_turn(run, turn, added)
            break
        queue = queues.steering if calls or queues.steering else queues.follow_up
        if not calls and not queue:
            break
        if _has_user_message(queue.peek()):
            limits.heard_user(model_was_done=not calls)
        reason = limits.why_stop()
        if reason is not None:
            end = await _unasked_turn(run, turn, added, reason)
            break
        heard = queue.take()
        await run.between()
        await emit(TurnStart())
        await deliver(heard)
    return end


async def _answer(run: Run, turn: Turn, added: list[Message]) -> StreamEnd:
    """One model call. Its message is started, updated and ended, whatever becomes of it."""
    partial: PartialMessage | None = None
    end: StreamEnd | None = None
    async with aclosing(_guarded(run, turn)) as stream:
        async for batch in stream:
            for event in batch:
                if isinstance(event, StreamStart):
                    partial = event.partial
                    await run.emit(MessageStart(event.message))
                elif isinstance(event, StreamEnd):
                    if partial is None:
                        # The request failed before any stream: both frames show the final message.
                        await run.emit(MessageStart(event.message))
                    await _finish(run, event.message, added)
                    end = event
                elif partial is not None:
                    await run.emit(MessageUpdate(event, partial))
                    reason = run.watch(event) if run.watch is not None else None
                    if reason is not None:
                        return await _cut_off(run, partial, reason, added)
    assert end is not None, "a guarded stream has an end"
    return end


async def _cut_off(run: Run, partial: PartialMessage, reason: str, added: list[Message]) -> StreamEnd:
    """The message ends here, with what has arrived."""
    message = replace(partial.snapshot(), stop_reason="aborted", error_message=reason)
    await _finish(run, message, added)
    return StreamEnd(message)


async def _guarded(run: Run, turn: Turn) -> AsyncGenerator[list[StreamEvent]]:
    """The model's stream. If it breaks its promise (raises, or stops without an end) the message ends as an error."""
    partial = PartialMessage(turn.model, run.runtime.now_ms())
    ended = False
    error = "the model's stream stopped without an end"
    stream = turn.stream(turn.request, run.cancel)
    try:
        async for batch in stream:
            if ended:
                continue
            ended = isinstance(batch[-1], StreamEnd) if batch else False
            if batch and isinstance(batch[0], StreamStart):
                partial = batch[0].partial
            yield batch
    except Exception as problem:
        run.report(problem)
        error = f"{type(problem).__name__}: {problem}"
    finally:
        # Whoever reads no further is rid of the request at once.
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    if not ended:
        partial.fail(error)
        yield partial.take()


async def _unasked_turn(run: Run, turn: Turn, added: list[Message], reason: str | None = None) -> StreamEnd:
    """The turn that would have followed: an empty message that says why the run ended. Without a `reason`, it was aborted."""
    partial = PartialMessage(turn.model, run.runtime.now_ms())
    if reason is None:
        partial.abort()
    else:
        partial.fail(reason)
    assert partial.finished is not None
    end = partial.finished
    end.is_final = True
    await run.emit(TurnStart())
    await run.emit(MessageStart(end.message))
    await _finish(run, end.message, added)
    await run.emit(TurnEnd(end.message, []))
    return end


def _has_user_message(messages: Sequence[Message]) -> bool:
    return any(isinstance(message, UserMessage) for message in messages)


async def _finish(run: Run, message: AssistantMessage, added: list[Message]) -> None:
    run.add(message)
    added.append(message)
    await run.emit(MessageEnd(message))
