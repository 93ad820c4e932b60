"""Running the tool calls of one turn: checked, scheduled, announced, and each with a result, whatever happens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from fairlead.core.events import ToolEnd, ToolStart, ToolUpdate
from fairlead.core.messages import Message, ToolCall, ToolResultMessage
from fairlead.core.model import StreamEnd
from fairlead.core.runtime import Interrupted, TimedOut
from fairlead.core.tool import Tool, ToolContext, ToolResult, groups, invalid_arguments
from fairlead.errors import ToolError

if TYPE_CHECKING:
    from fairlead.core.loop import Run, Turn

SKIPPED = "Skipped due to queued user message."
ABORTED = "Command aborted"

#: Seconds that an aborted tool has to end by itself and hand over what it has.
GRACE = 2.0

Say = Callable[[Message], Awaitable[None]]


async def run_calls(run: Run, turn: Turn, answer: StreamEnd, say: Say) -> list[ToolResultMessage]:
    """Run the calls of `answer`; the results are in call order."""
    calls = answer.message.tool_calls()
    results: dict[int, ToolResultMessage] = {}
    # Under `together` (pi) the result messages wait for the last tool; else each follows its tool's end.
    together = turn.schedule == "together"

    async def ended(call: ToolCall, result: ToolResult, is_error: bool) -> None:
        await run.emit(ToolEnd(call.id, call.name, result, is_error))
        details = {} if is_error and result.details is None else UNSET if result.details is None else result.details
        message = ToolResultMessage(call.id, call.name, result.content, is_error, run.runtime.now_ms(), details)
        results[id(call)] = message
        if not together:
            await say(message)

    async def failed(call: ToolCall, error: ToolError) -> None:
        await ended(call, ToolResult.text(str(error), error.details), True)

    for group in groups(calls, turn.tools, turn.schedule):
        reason = _why_not(run)
        ready: list[Callable[[], Coroutine[Any, Any, None]]] = []
        for call in group:
            await run.emit(ToolStart(call.id, call.name, call.arguments))
            try:
                if reason is not None:
                    raise ToolError(reason)
                tool, arguments = _checked(turn, answer, call)
            except ToolError as error:
                await failed(call, error)
            else:
                ready.append(lambda c=call, t=tool, a=arguments: _run_one(run, t, c, a, ended, failed))
        await run.runtime.run_all(ready, turn.concurrent)

    ordered = [results[id(call)] for call in calls]
    if together:
        for message in ordered:
            await say(message)
    return ordered


def _why_not(run: Run) -> str | None:
    """Why calls that have not started must not: None if they may."""
    if run.cancel.fired:
        return ABORTED
    if run.queues.interrupt == "immediate" and run.queues.steering.messages:
        return SKIPPED
    return None


def _checked(turn: Turn, answer: StreamEnd, call: ToolCall) -> tuple[Tool, dict[str, Any]]:
    tool = turn.tools.get(call.name)
    if tool is None:
        raise ToolError(f"Tool {call.name} not found")
    if call.id in answer.bad_arguments:
        raise invalid_arguments(call.name, ["the arguments are not a JSON object"], answer.bad_arguments[call.id])
    return tool, tool.checked(call.arguments)


async def _run_one(
    run: Run,
    tool: Tool,
    call: ToolCall,
    arguments: dict[str, Any],
    ended: Callable[[ToolCall, ToolResult, bool], Awaitable[None]],
    failed: Callable[[ToolCall, ToolError], Awaitable[None]],
) -> None:
    over = False

    def update(partial: ToolResult) -> None:
        if not over:
            run.notify(ToolUpdate(call.id, call.name, call.arguments, partial))

    try:
        if (reason := _why_not(run)) is not None:
            raise ToolError(reason)
        work = tool.run(arguments, ToolContext(call.id, run.cancel, update))
        result = await run.runtime.bounded(work, run.cancel, timeout=tool.timeout, grace=GRACE)
    except ToolError as error:
        over = True
        await failed(call, error)
    except Interrupted:
        over = True
        await failed(call, ToolError(ABORTED))
    except TimedOut:
        over = True
        await failed(call, ToolError(f"{call.name} did not finish within {tool.timeout:g} seconds and was stopped."))
    except Exception as error:  # a tool's own bug must not end the run
        over = True
        await failed(call, ToolError(f"{type(error).__name__}: {error}"))
    else:
        over = True
        await ended(call, result, False)
