"""Runs the tool calls of one turn: checks, schedules and announces them, and gives each a result, whatever happens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from fairlead.core.events import ToolEnd, ToolRunning, ToolStart, ToolUpdate
from fairlead.core.lenient import json_problem, scrub, scrub_text
from fairlead.core.messages import Message, NestedCallNotes, TextContent, ToolCall, ToolResultMessage, UserBlock
from fairlead.core.model import StreamEnd
from fairlead.core.nested import CallRecord, NestedCall, NestedResult
from fairlead.core.runtime import CancelToken, Interrupted, TimedOut
from fairlead.core.tool import (
    ApprovedFile,
    Schedule,
    StructuredResult,
    Tool,
    ToolContext,
    ToolResult,
    effective_schedule,
    groups,
)
from fairlead.errors import ToolError

if TYPE_CHECKING:
    from fairlead.core.loop import LoopCallbacks, TurnSetup

SKIPPED = "Skipped due to queued user message."
ABORTED = "Command aborted"
#: Seconds that `AfterCall` has to finish looking at a result after the run was aborted.
LAST_LOOK = 0.4

#: How many calls of one tool run at the same time, and how deep tools may call each other.
NESTED_AT_ONCE = 16
_DEEPEST = 16

#: How many tools, and characters of each name, the model sees after it called a tool that does not exist.
_TOOLS_SHOWN = 60
_NAME_SHOWN = 128

#: Adds a message to the conversation. Returns the one that was added.
Say = Callable[[Message], Awaitable[Message]]


async def run_calls(run: LoopCallbacks, turn: TurnSetup, answer: StreamEnd, say: Say) -> tuple[list[ToolResultMessage], bool]:
    """Run the calls of `answer`. Returns the results in call order, and whether they end the run."""
    calls = answer.message.tool_calls()
    results: dict[int, ToolResultMessage] = {}
    ending: set[int] = set()
    schedule = effective_schedule(calls, turn.tools, turn.schedule)
    # Under `together` the result messages wait for the last tool; else each follows its tool's end.
    together = schedule == "together"
    nesting = _Nesting(schedule, run.runtime.slots(1))

    async def ended(
        call: ToolCall,
        result: ToolResult,
        is_error: bool,
        duration_ms: int | None = None,
        nested: NestedCallNotes | UnsetType = UNSET,
    ) -> None:
        structured = result.structured if isinstance(result, StructuredResult) else None
        result = _valid(result)
        hint = run.limits.add_result(call, answer.bad_arguments.get(call.id), result, is_error)
        if hint is not None:
            result.content.append(TextContent(hint))
        await run.emit(ToolEnd(call.id, call.name, result, is_error, duration_ms, structured))
        details = UNSET if result.details is None else result.details
        now_ms = run.runtime.now_ms()
        message = ToolResultMessage(call.id, call.name, result.content, is_error, now_ms, details, duration_ms, nested)
        results[id(call)] = message
        if result.ends_run:
            ending.add(id(call))
        if not together:
            results[id(call)] = cast("ToolResultMessage", await say(message))

    for group in groups(calls, turn.tools, schedule):
        reason = _reason_not_to_start(run)
        ended_before = len(results)

        async def one(call: ToolCall, tool: Tool, arguments: dict[str, Any], ended_before: int = ended_before) -> None:
            # A call that had to wait for a free slot checks again whether it may start.
            waited = len(results) > ended_before
            reason = _reason_not_to_start(run) if waited else None
            if reason:
                await ended(call, *_failure(reason))
            else:
                nested = NestedCalls(run, nesting, call.id)
                await ended(call, *await _execute(run, tool, call, arguments, nested), nested.record.notes())

        ready: list[Callable[[], Coroutine[Any, Any, None]]] = []
        for call in group:
            await run.emit(ToolStart(call.id, call.name, call.arguments))
            try:
                if reason is not None:
                    raise ToolError(reason)
                tool, arguments = _checked(turn, answer, call)
            except ToolError as error:
                await ended(call, *_failure(str(error), error.details))
            else:
                ready.append(partial(one, call, tool, arguments))
        await run.runtime.run_all(ready, turn.concurrent)

    ordered = [results[id(call)] for call in calls]
    if together:
        ordered = [cast("ToolResultMessage", await say(message)) for message in ordered]
    return ordered, len(ending) == len(calls)


def _reason_not_to_start(run: LoopCallbacks) -> str | None:
    """Return why calls must not start any more; None if they may."""
    if run.cancel.fired:
        return ABORTED
    if run.queues.interrupt == "immediate" and len(run.queues.steering):
        return SKIPPED
    return None


def _checked(turn: TurnSetup, answer: StreamEnd, call: ToolCall) -> tuple[Tool, dict[str, Any]]:
    """Return the tool and its arguments. Raises ToolError with a text for the model if the call cannot be made."""
    if _was_cut_off(answer, call):
        raise ToolError(
            f"The call of {_shown(call.name)} was not made: the answer reached the output token limit before the arguments were"
            " complete. Send less in one call: for example, write a long file in several parts, or make several small edits."
        )
    tool = turn.tools.get(call.name)
    if tool is None:
        raise ToolError(not_found(call.name, list(turn.tools)))
    if call.id in answer.bad_arguments:
        problem = json_problem(answer.bad_arguments[call.id])
        raise ToolError(
            f'Validation failed for tool "{call.name}":\n  - the arguments are not a JSON object: {problem}\n\n'
            "Make the call again with a complete JSON object. If it is long, send less in one call."
        )
    return tool, tool.checked(call.arguments)


def _was_cut_off(answer: StreamEnd, call: ToolCall) -> bool:
    """Whether the token limit ended the answer within this call.

    Arguments that are a complete JSON object are what the model meant. A call without arguments may have lost some, so it counts
    as complete only if other calls follow it.
    """
    message = answer.message
    if message.stop_reason != "length":
        return False
    return call.id in answer.bad_arguments or (not call.arguments and message.content[-1] is call)


def not_found(name: str, tools: list[str]) -> str:
    """The error for a call of a tool that does not exist. `tools` are the names of the existing ones."""
    from difflib import get_close_matches

    first = f"Tool {_shown(name)} not found"
    if not tools:
        return f"{first}\nThere are no tools: answer without them."
    near = get_close_matches(name[:_NAME_SHOWN], tools, 1)
    suggestion = f"Did you mean {near[0]}? " if near else ""
    names = ", ".join(tools[:_TOOLS_SHOWN]) + (f" and {len(tools) - _TOOLS_SHOWN} more" if len(tools) > _TOOLS_SHOWN else "")
    return f"{first}\n{suggestion}The tools are: {names}."


def _shown(name: str) -> str:
    """The name of a tool, shortened: the model may have made it up."""
    return name if len(name) <= _NAME_SHOWN else f"{name[:_NAME_SHOWN]}..."


async def _execute(
    run: LoopCallbacks,
    tool: Tool,
    call: ToolCall,
    arguments: dict[str, Any],
    nested: NestedCalls,
    on_update: Callable[[ToolResult], None] = lambda partial: None,
) -> tuple[ToolResult, bool, int | None]:
    """Run one tool. Returns its result, also if it raises; whether that is an error; and how many milliseconds it ran."""
    over, began = False, run.runtime.now_ms()
    target: ApprovedFile | None = None
    parent = call.parent_id if isinstance(call, NestedCall) else None

    def update(partial: ToolResult) -> None:
        if not over:
            on_update(partial)
            run.notify(ToolUpdate(call.id, call.name, call.arguments, partial, parent))

    try:
        if run.before_call is not None or run.approver is not None:
            arguments, target = await _permitted(run, tool, call, arguments)
        await run.emit(ToolRunning(call.id, call.name, arguments, parent))
        began = run.runtime.now_ms()
        work = tool.run(arguments, ToolContext(call.id, run.cancel, update, target, nested))
        outcome = (await run.runtime.bounded(work, run.cancel, timeout=tool.timeout, grace=tool.grace), False)
    except _NotPermitted as refusal:
        return *_failure(str(refusal.error), refusal.error.details, ends_run=refusal.error.ends_run), None
    except Exception as error:
        outcome = _failed(run, tool, error)
    finally:
        over = True
    duration_ms = max(0, run.runtime.now_ms() - began)
    await nested.close()
    amending = run.after_call(tool, call, arguments, *outcome) if run.after_call is not None else None
    if amending is None:
        return outcome[0], outcome[1], duration_ms
    try:
        result, is_error = await run.runtime.bounded(amending, run.cancel, timeout=None, grace=LAST_LOOK)
        return result, is_error, duration_ms
    except Exception as error:  # it may have been about to remove something from the result, so the result is not shown
        return *_failed(run, tool, error), duration_ms


class _Nesting(Struct, frozen=True):
    """What the calls of one turn share with those that their tools make."""

    schedule: Schedule
    #: Held by a nested call that must run alone, while it runs.
    alone: AbstractAsyncContextManager[object]


class NestedCalls:
    """Calls other tools for one tool call. Implements `CallTool`.

    These calls run like those of the model: with the same checks and events. Their results do not become messages.
    """

    def __init__(self, run: LoopCallbacks, nesting: _Nesting, call_id: str, caller: NestedCalls | None = None) -> None:
        self.record: CallRecord = CallRecord() if caller is None else caller.record
        self.depth: int = 0 if caller is None else caller.depth + 1
        #: Whether the call that makes these runs alone already. Then they need not wait for their turn.
        self.is_alone = caller is not None and caller.is_alone
        self._run = run
        self._nesting = nesting
        self._call_id = call_id
        self._count = 0
        self._over = CancelToken()
        self._slots: AbstractAsyncContextManager[object] | None = None

    async def __call__(
        self,
        name: str,
        tool: Tool | None,
        arguments: dict[str, Any],
        cancel: CancelToken,
        update: Callable[[ToolResult], None],
        /,
    ) -> NestedResult:
        run, now_ms = self._run, self._run.runtime.now_ms
        self._count += 1
        call = NestedCall(f"{self._call_id}/{self._count}", name, arguments, parent_id=self._call_id)
        if self._slots is None:
            self._slots = run.runtime.slots(NESTED_AT_ONCE)
        async with self._slots:
            if self._over.fired:
                return NestedResult(call, *_failure("The tool call that makes this call has ended."))
            note, began = self.record.start(call), now_ms()
            await run.emit(ToolStart(call.id, name, arguments, self._call_id))
            result, is_error, duration_ms = await self._outcome(call, tool, cancel, update)
            structured = result.structured if isinstance(result, StructuredResult) else None
            shown = _valid(result)
            self.record.finish(note, shown, is_error, max(0, now_ms() - began))
            await run.emit(ToolEnd(call.id, name, shown, is_error, duration_ms, structured, self._call_id))
        return NestedResult(call, result, is_error, duration_ms)

    async def _outcome(
        self, call: NestedCall, tool: Tool | None, cancel: CancelToken, update: Callable[[ToolResult], None]
    ) -> tuple[ToolResult, bool, int | None]:
        """Run the tool. Returns what `_execute` returns."""
        if tool is None:
            return *_failure(f"Tool {_shown(call.name)} not found"), None
        if self.depth >= _DEEPEST:
            return *_failure(f"Tools have called each other {_DEEPEST} times. {_shown(call.name)} is not called."), None
        stop = CancelToken()
        forget = [each.on_fire(stop.fire) for each in (self._run.cancel, self._over, cancel)]
        run = replace(self._run, cancel=stop)
        inner = NestedCalls(run, self._nesting, call.id, self)
        alone = self._nesting.alone
        needs_turn = not self.is_alone and (self._nesting.schedule == "sequential" or tool.sequential)
        try:
            arguments = tool.checked(call.arguments)
            if needs_turn:
                await run.runtime.bounded(alone.__aenter__(), stop, timeout=None, grace=0)
                inner.is_alone = True
            if stop.fired:
                raise Interrupted
            return await _execute(run, tool, call, arguments, inner, update)
        except ToolError as error:
            return *_failure(str(error), error.details), None
        except Interrupted:
            return *_failure(ABORTED), None
        finally:
            if inner.is_alone and not self.is_alone:
                await alone.__aexit__(None, None, None)
            for each in forget:
                each()

    async def close(self) -> None:
        """Abort the calls that the tool did not wait for, and wait until they have ended."""
        self._over.fire()
        if self._slots is not None:
            for _ in range(NESTED_AT_ONCE):
                await self._slots.__aenter__()
            for _ in range(NESTED_AT_ONCE):
                await self._slots.__aexit__(None, None, None)


class _NotPermitted(Exception):
    def __init__(self, error: ToolError) -> None:
        super().__init__(error)
        self.error = error


async def _permitted(
    run: LoopCallbacks, tool: Tool, call: ToolCall, arguments: dict[str, Any]
) -> tuple[dict[str, Any], ApprovedFile | None]:
    """Ask the extensions and the approver whether the call may run.

    Their answers do not count towards the tool's timeout, and an abort does not wait for them. Returns the arguments to run the
    tool with, and what the approver approved (`ToolContext.target`). Raises _NotPermitted.
    """
    target: ApprovedFile | None = None
    try:
        asked = run.before_call(tool, call, arguments) if run.before_call is not None else None
        if asked is not None:
            # `BeforeCall` may have changed them.
            arguments = tool.checked(await run.runtime.bounded(asked, run.cancel, timeout=None, grace=0))
        if run.approver is not None:
            check = run.approver.check(tool, call.id, arguments, run.cancel)
            permission = None if check is None else await run.runtime.bounded(check, run.cancel, timeout=None, grace=0)
            if permission is not None:
                target = permission.target
                arguments = arguments if permission.arguments is None else permission.arguments
    except ToolError as error:
        raise _NotPermitted(error) from None
    except Interrupted:
        raise _NotPermitted(ToolError(ABORTED)) from None
    except Exception as error:  # an approver that fails has not approved
        run.report(error)
        raise _NotPermitted(ToolError(f"{type(error).__name__}: {error}")) from error
    if run.cancel.fired:
        raise _NotPermitted(ToolError(ABORTED))
    return arguments, target


def _failed(run: LoopCallbacks, tool: Tool, error: Exception) -> tuple[ToolResult, bool]:
    """The result of a call that raised `error`."""
    match error:
        case ToolError():
            return _failure(str(error), error.details, error.structured, ends_run=error.ends_run)
        case Interrupted():
            return _failure(ABORTED)
        case TimedOut():
            return _failure(f"{tool.name} did not finish within {tool.timeout:g} seconds and was stopped.")
        case _:  # a bug in the tool must not end the run
            run.report(error)
            return _failure(f"{type(error).__name__}: {error}")


def _valid(result: ToolResult) -> ToolResult:
    """A result that can be encoded as JSON: file names may contain bytes that are not text."""
    content: list[UserBlock] = [
        TextContent(scrub_text(block.text)) if isinstance(block, TextContent) else block for block in result.content
    ]
    return ToolResult(content, scrub(result.details), result.changes, result.ends_run)


def _failure(
    text: str, details: dict[str, Any] | None = None, structured: Callable[[], Any] | None = None, *, ends_run: bool = False
) -> tuple[ToolResult, bool]:
    if structured is None:
        return ToolResult([TextContent(text)], details or {}, ends_run=ends_run), True
    return StructuredResult([TextContent(text)], details or {}, ends_run=ends_run, structured=structured), True
