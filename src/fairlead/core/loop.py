"""The agent loop: context + model + tools + queues -> events.

One run goes like this. The user's message opens the first turn. In each turn the model answers; if it
asks for tools, they run and their results open the next turn. Between turns the loop listens: first to
steering, then, when the model has nothing more to do, to follow-ups. It ends when there is no further
message, when the model fails, when a limit is reached, or when the run is cancelled.

Whatever happens, every TurnStart has its TurnEnd, every MessageStart its MessageEnd, and every tool call of
a finished message its result. The caller announces the start and the end of a run, and retries it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from fairlead.core.calls import turn as call_turn
from fairlead.core.events import Event, MessageEnd, MessageStart, TurnEnd, TurnStart
from fairlead.core.limits import Limits
from fairlead.core.message_updates import MessageUpdate, UpdateMaker
from fairlead.core.messages import AssistantMessage, Message, ToolCall, ToolResultMessage, UserMessage
from fairlead.core.model import (
    BlockDelta,
    BlockEnd,
    BlockStart,
    Model,
    ModelRequest,
    ModelStream,
    StreamEnd,
    StreamEvent,
    StreamStart,
)
from fairlead.core.partial_message import PartialMessage
from fairlead.core.queues import Queued, Queues
from fairlead.core.runtime import CancelToken, Runtime
from fairlead.core.tool import Approver, Schedule, Tool, ToolResult

if TYPE_CHECKING:
    from fairlead.core.calls.turn import CallJournal, InterruptedCalls

M = TypeVar("M", bound=Message)


async def _is_durable() -> None:
    """Return at once: every message is durable when it has been added."""


class TurnSetup(Struct, frozen=True):
    """What one model call works with. Each turn gets a new one, so that changes take effect during a run."""

    model: Model
    stream: ModelStream
    request: ModelRequest
    tools: Mapping[str, Tool]
    schedule: Schedule
    #: How many tools may run at the same time.
    concurrent: int = 8


class BeforeCall(Protocol):
    """Returns other arguments for a tool, which are checked again; None to keep them. It is awaited at once.

    Raises ToolError if the tool must not run."""

    def __call__(self, tool: Tool, call: ToolCall, arguments: dict[str, Any], /) -> Awaitable[dict[str, Any]] | None: ...


class AfterCall(Protocol):
    """Returns another result for a tool that ran, with or without an error; None to keep it. It is awaited at once."""

    def __call__(
        self, tool: Tool, call: ToolCall, arguments: dict[str, Any], result: ToolResult, is_error: bool, /
    ) -> Awaitable[tuple[ToolResult, bool]] | None: ...


class LoopCallbacks(Struct, frozen=True):
    """Everything that a run gets from its caller."""

    #: Makes the next turn, for the conversation so far. Raises nothing: a problem becomes a stream that fails.
    next_turn: Callable[[], Awaitable[TurnSetup]]
    #: Called between two turns, for example to compact the conversation. Raises nothing.
    between: Callable[[], Awaitable[None]]
    #: Looks at an answer as it arrives. If it returns a text, the answer ends there, with that text as the reason.
    watch: Callable[[BlockStart | BlockDelta | BlockEnd], str | None] | None
    #: Adds a message to the conversation, before its MessageEnd is emitted.
    add: Callable[[Message], None]
    #: Emits an event, and waits while the host cannot keep up.
    emit: Callable[[Event], Awaitable[None]]
    #: Emits an update of an answer. Returns what to await before the next one; None: nothing.
    update: Callable[[MessageUpdate], Awaitable[None] | None]
    #: Emits an event that may be dropped. Never waits.
    notify: Callable[[Event], None]
    #: Reports a bug in a tool or a model. The run continues.
    report: Callable[[Exception], None]
    queues: Queues
    runtime: Runtime
    cancel: CancelToken
    #: Waits until all messages so far are durable. It is awaited before a tool starts, and before the user is asked about a call.
    written: Callable[[], Awaitable[None]] = _is_durable
    #: Called before a tool runs.
    before_call: BeforeCall | None = None
    #: Called after that; None: every call may run.
    approver: Approver | None = None
    #: Called when a tool has run.
    after_call: AfterCall | None = None
    #: Returns the message to keep instead of one that has ended, before it is added; None: messages stay as they are. Prompts
    #: are part of the conversation already: the callback replaces them there. Raises nothing.
    revise: Callable[[Message], Awaitable[Message]] | None = None
    #: Whether `revise` may return another message now.
    may_revise: Callable[[], bool] = lambda: True
    #: Stores the progress of tool calls; None: nothing outlives the process.
    journal: CallJournal | None = None
    #: Called with what makes the updates of an answer when it begins, and with None when it has ended. Returns the number of the
    #: last entry of the session.
    answering: Callable[[UpdateMaker | None], int] = lambda maker: 0
    #: Shared by all `run_agent` calls of a run, so that a retry does not reset the counts.
    limits: Limits = field(default_factory=Limits)


async def run_agent(
    run: LoopCallbacks, prompts: Sequence[Message], added: list[Message], interrupted: InterruptedCalls | None = None
) -> StreamEnd:
    """Run until the model is done and the queues are empty. Returns how the last model call ended.

    `prompts` open the first turn; they are part of the conversation already. `added` collects the run's messages. With
    `interrupted`, the first turn has no model call: it finishes these calls.
    """
    emit, queues, cancel, limits = run.emit, run.queues, run.cancel, run.limits

    async def emit_message(message: Message, *, is_added: bool = False) -> Message:
        await emit(MessageStart(message))
        if not is_added:
            message = await _revise(run, message)
            run.add(message)
        added.append(message)
        await emit(MessageEnd(message))
        return message

    async def deliver(messages: list[Queued]) -> None:
        for message in messages:
            await emit(queues.update())
            await emit_message(message)

    queues.again = False
    await emit(TurnStart())
    for prompt in prompts:
        await emit(MessageStart(prompt))
        ended = await _revise(run, prompt)
        added.append(ended)
        await emit(MessageEnd(ended))
    if _has_user_message(prompts):
        limits.on_user_message(model_was_done=True)
    if not cancel.fired and interrupted is None:  # else steering stays queued, as after any abort
        await deliver(queues.steering.take())

    while True:
        turn = await run.next_turn()
        end = await _answer(run, turn, added) if interrupted is None else StreamEnd(interrupted.message)
        if end.message.stop_reason in ("error", "aborted"):
            await emit(TurnEnd(end.message, []))
            break
        if interrupted is None:
            limits.on_answer()
        calls = end.message.tool_calls()
        results: list[ToolResultMessage] = []
        ends_run = False
        if calls:
            results, ends_run = await call_turn.run_calls(run, turn, end, emit_message, interrupted)
        interrupted = None
        limits.on_turn_end()
        await emit(TurnEnd(end.message, results))
        if cancel.fired:
            if calls:
                end = await _emit_last_turn(run, turn, added)
            break
        if ends_run:
            calls = []
        queue = queues.steering if calls or queues.steering else queues.follow_up
        if not queues.take_again() and not calls and not queue:
            break
        if _has_user_message(queue.peek()):
            limits.on_user_message(model_was_done=not calls)
        reason = limits.find_stop_reason()
        if reason is not None:
            end = await _emit_last_turn(run, turn, added, reason)
            break
        heard = queue.take()
        await run.between()
        await emit(TurnStart())
        await deliver(heard)
    return end


_BLOCK_EVENTS = (BlockDelta, BlockStart, BlockEnd)


async def _answer(run: LoopCallbacks, turn: TurnSetup, added: list[Message]) -> StreamEnd:
    """Make one model call. Its message is started, updated and ended, whatever happens."""
    update: UpdateMaker | None = None
    end: StreamEnd | None = None
    began = run.runtime.now_ms()
    repetition = run.limits.watch_answer(run.runtime.now_ms)
    async with aclosing(_guard_stream(run, turn)) as stream:
        async for batch in stream:
            for event in batch:
                if isinstance(event, _BLOCK_EVENTS):  # first, because most events are deltas
                    if update is None:
                        continue
                    if (room := run.update(update(event))) is not None:
                        await room
                    if run.watch is not None and (reason := run.watch(event)) is not None:
                        return await _cut_off(run, turn, update.partial, reason, added, began)
                    if repetition is not None and (reason := repetition.feed(event)) is not None:
                        return await _cut_off(run, turn, update.partial, reason, added, began, is_final=True)
                elif isinstance(event, StreamStart):
                    update = UpdateMaker(event.partial)
                    update.entry = run.answering(update)
                    await run.emit(MessageStart(event.message))
                else:
                    if update is None:
                        # The request failed before the stream began: both events have the final message.
                        await run.emit(MessageStart(event.message))
                    end = _with_message(event, await _finish(run, turn, event.message, added, began))
    assert end is not None, "a guarded stream has an end"
    return end


async def _cut_off(
    run: LoopCallbacks,
    turn: TurnSetup,
    partial: PartialMessage,
    reason: str,
    added: list[Message],
    began: int,
    *,
    is_final: bool = False,
) -> StreamEnd:
    """End the message here, with what has arrived. A limit is final: the run ends with an error, which no retry repeats."""
    message = replace(partial.snapshot(), stop_reason="error" if is_final else "aborted", error_message=reason)
    return StreamEnd(await _finish(run, turn, message, added, began), is_final=is_final)


async def _guard_stream(run: LoopCallbacks, turn: TurnSetup) -> AsyncGenerator[list[StreamEvent]]:
    """The model's stream. If the stream raises, or stops without an end, the message ends as an error."""
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
        # Closing the stream early cancels the request immediately.
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    if not ended:
        partial.fail(error)
        yield partial.take()


async def _emit_last_turn(run: LoopCallbacks, turn: TurnSetup, added: list[Message], reason: str | None = None) -> StreamEnd:
    """Emit a last turn with an empty message that says why the run ended. Without a `reason`, it was aborted."""
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
    end.message = await _finish(run, turn, end.message, added, run.runtime.now_ms())
    await run.emit(TurnEnd(end.message, []))
    return end


def _has_user_message(messages: Sequence[Message]) -> bool:
    return any(isinstance(message, UserMessage) for message in messages)


async def _finish(
    run: LoopCallbacks, turn: TurnSetup, message: AssistantMessage, added: list[Message], began: int
) -> AssistantMessage:
    """Add the model's message, and emit its end. Returns the message that was added."""
    message.duration_ms = max(0, run.runtime.now_ms() - began)
    if message.thinking_level is None:
        message.thinking_level = turn.request.thinking
    kept = await _revise(run, message)
    run.add(kept)
    run.answering(None)
    added.append(kept)
    await run.emit(MessageEnd(kept))
    return kept


async def _revise(run: LoopCallbacks, message: M) -> M:
    """Return the message that is kept instead of `message`. It has the same role."""
    return message if run.revise is None else cast("M", await run.revise(message))


def _with_message(end: StreamEnd, message: AssistantMessage) -> StreamEnd:
    """Return `end` with another message. A tool call whose arguments were changed no longer counts as malformed."""
    if message is end.message:
        return end
    received = {call.id: call.arguments for call in end.message.tool_calls()}
    bad = {
        call.id: end.bad_arguments[call.id]
        for call in message.tool_calls()
        if call.id in end.bad_arguments and call.arguments == received.get(call.id)
    }
    return replace(end, message=message, bad_arguments=bad)
