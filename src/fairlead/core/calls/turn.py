"""Runs the tool calls of one turn: checks, schedules and announces them, and gives each a result, whatever happens."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Set
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from msgspec import UNSET, Struct

from fairlead.core.calls.execution import ABORTED, CallRecord, NestedCalls, Nesting, execute, failure, shorten_name, valid_result
from fairlead.core.events import ToolEnd, ToolStart
from fairlead.core.lenient import json_problem
from fairlead.core.messages import AssistantMessage, Message, TextContent, ToolCall, ToolResultMessage
from fairlead.core.model import StreamEnd
from fairlead.core.tool import Schedule, Tool, ToolResult, effective_schedule, find_tool, groups
from fairlead.errors import ToolError

if TYPE_CHECKING:
    from fairlead.core.loop import LoopCallbacks, TurnSetup


INTERRUPTED = "The call was interrupted; it may have run. Check what it has done before you repeat it."
RESULT_LOST = "The call was interrupted; it has run, but its result was lost. Check what it has done before you repeat it."


class CallJournal(Protocol):
    """Stores the progress of tool calls. Each method returns when the fact would survive the end of the process."""

    def waits(self, call: ToolCall) -> None:
        """The call waits for approval, so its tool has not started."""
        ...

    def note_start(self, call: ToolCall) -> None:
        """The tool is about to start."""
        ...

    def note_end(self, result: ToolResultMessage, *, may_change: bool) -> None:
        """The call has ended, but its result is not part of the conversation yet.

        With `may_change`, an extension may still replace the result, for example to remove a secret. It is not stored then,
        only that the call has ended.
        """
        ...


class InterruptedCalls(Struct, frozen=True):
    """An answer of the model with calls that its run has not finished. Calls are named by their ids."""

    message: AssistantMessage
    #: The results that are part of the conversation.
    told: Mapping[str, ToolResultMessage]
    #: The results of calls that ended, but are not part of the conversation yet.
    ended: Mapping[str, ToolResultMessage]
    #: The calls that have not started. Any other may have run.
    unstarted: Set[str]

    def find_unanswered(self) -> list[ToolCall]:
        """The calls without a result in the conversation, in call order."""
        return [call for call in self.message.tool_calls() if call.id not in self.told]


def make_interrupted_result(call: ToolCall, now_ms: int, text: str = INTERRUPTED) -> ToolResultMessage:
    """Return the result of a call that may have run."""
    return ToolResultMessage(call.id, call.name, [TextContent(text)], True, now_ms)


SKIPPED = "Skipped due to queued user message."

#: How many tools the model sees after it called one that does not exist, and how much of its name is compared with theirs.
_TOOLS_SHOWN = 60
_NAME_COMPARED = 128


class EmitMessage(Protocol):
    """Announces a message, and adds it to the conversation unless it `is_added` already. Returns the one that was added."""

    def __call__(self, message: Message, /, *, is_added: bool = False) -> Awaitable[Message]: ...


async def run_calls(
    run: LoopCallbacks, turn: TurnSetup, answer: StreamEnd, emit_message: EmitMessage, interrupted: InterruptedCalls | None = None
) -> tuple[list[ToolResultMessage], bool]:
    """Run the calls of `answer`; those that `interrupted` has results for have run already.

    Returns the results in call order, and whether they end the run.
    """
    calls = answer.message.tool_calls()
    if interrupted is None:
        work = _CallsOfTurn(run, turn, answer, emit_message, calls)
        await work.run(calls)
        return [work.results[id(call)] for call in calls], len(work.ending) == len(calls)
    unanswered = interrupted.find_unanswered()
    work = _CallsOfTurn(run, turn, answer, emit_message, unanswered, interrupted)
    for call in unanswered:
        if call.id in interrupted.ended:
            await work.restore(call, interrupted.ended[call.id])
    await work.run([call for call in unanswered if call.id not in interrupted.ended])
    return [work.results.get(id(call)) or interrupted.told[call.id] for call in calls], len(work.ending) == len(calls)


class _CallsOfTurn:
    """Calls of one turn while they run. Under `together` the result messages wait for the last tool; else each follows its
    tool's end."""

    def __init__(
        self,
        run: LoopCallbacks,
        turn: TurnSetup,
        answer: StreamEnd,
        emit_message: EmitMessage,
        calls: list[ToolCall],
        interrupted: InterruptedCalls | None = None,
    ) -> None:
        #: The results by the identity of their call: a model may use an id twice.
        self.results: dict[int, ToolResultMessage] = {}
        #: The calls whose results end the run.
        self.ending: set[int] = set()
        self._run = run
        self._turn = turn
        self._answer = answer
        self._emit_message = emit_message
        self._calls = calls
        self._interrupted = interrupted
        self._schedule: Schedule = effective_schedule(calls, turn.tools, turn.schedule)
        self._together = self._schedule == "together"
        self._nesting = Nesting(self._schedule, run.runtime.slots(1))
        self._keeper = _ResultKeeper(run, calls, in_order=self._together)

    async def run(self, calls: list[ToolCall]) -> None:
        """Run those calls that have no result yet, and announce the results."""
        for group in groups(calls, self._turn.tools, self._schedule):
            await self._run_group(group)
        if self._together:
            for call in self._calls:
                await self._emit_result(call)

    async def restore(self, call: ToolCall, result: ToolResultMessage) -> None:
        """Use the result of a call that ended before the run was interrupted."""
        self.results[id(call)] = result
        self._keeper.keep(call, result)
        if not self._together:
            await self._emit_result(call)

    async def _run_group(self, group: list[ToolCall]) -> None:
        run = self._run
        reason = _reason_not_to_start(run)
        ended_before = len(self.results)

        async def one(call: ToolCall, tool: Tool, arguments: dict[str, Any]) -> None:
            # A call that had to wait for a free slot checks again whether it may start.
            waited = len(self.results) > ended_before
            reason = _reason_not_to_start(run) if waited else None
            if reason:
                await self._end_call(call, *failure(reason))
            else:
                nested = NestedCalls(run, self._nesting, call.id)
                await self._end_call(call, *await execute(run, tool, call, arguments, nested), nested.record)

        ready: list[Callable[[], Coroutine[Any, Any, None]]] = []
        for call in group:
            await run.emit(ToolStart(call.id, call.name, call.arguments))
            try:
                if reason is not None:
                    raise ToolError(reason)
                if self._may_have_run(call):
                    raise ToolError(INTERRUPTED)
                tool, arguments = _check_call(self._turn, self._answer, call)
            except ToolError as error:
                await self._end_call(call, *failure(str(error), error.details))
            else:
                ready.append(partial(one, call, tool, arguments))
        await run.runtime.run_all(ready, self._turn.concurrent)

    async def _end_call(
        self,
        call: ToolCall,
        result: ToolResult,
        is_error: bool,
        duration_ms: int | None = None,
        nested: CallRecord | None = None,
    ) -> None:
        run = self._run
        result, structured = valid_result(result)
        hint = run.limits.add_result(call, self._answer.bad_arguments.get(call.id), result, is_error)
        if hint is not None:
            result.content.append(TextContent(hint))
        details = UNSET if result.details is None else result.details
        now_ms = run.runtime.now_ms()
        message = ToolResultMessage(call.id, call.name, result.content, is_error, now_ms, details, duration_ms)
        nested = nested or CallRecord()
        message.nested_calls, message.usage = nested.notes(), nested.usage_with(result) or UNSET
        self.results[id(call)] = message
        self._keeper.keep(call, message)
        await run.emit(ToolEnd(call.id, call.name, result, is_error, duration_ms, structured))
        if result.ends_run:
            self.ending.add(id(call))
        if not self._together:
            await self._emit_result(call)

    async def _emit_result(self, call: ToolCall) -> None:
        message = await self._emit_message(self.results[id(call)], is_added=self._keeper.has_added(call))
        self.results[id(call)] = cast("ToolResultMessage", message)

    def _may_have_run(self, call: ToolCall) -> bool:
        """Whether a call was interrupted and must not be repeated."""
        if self._interrupted is None or call.id in self._interrupted.unstarted:
            return False
        tool = find_tool(self._turn.tools, call.name)
        return tool is None or not tool.idempotent


class _ResultKeeper:
    """Stores each result when its call ends, before the event that announces it.

    A result is added to the conversation at once. With `in_order`, the journal keeps it instead while calls ahead of it are
    running. It also keeps what an extension may still change.
    """

    def __init__(self, run: LoopCallbacks, calls: list[ToolCall], *, in_order: bool) -> None:
        self.calls = calls
        self._run = run
        self._in_order = in_order
        self._ended: dict[int, ToolResultMessage] = {}
        self._added: set[int] = set()
        self._next = 0

    def keep(self, call: ToolCall, result: ToolResultMessage) -> None:
        run = self._run
        may_change = run.revise is not None and run.may_revise()
        self._ended[id(call)] = result
        if not may_change and not self._in_order:
            self._add(call)
            return
        while not may_change and self._next < len(self.calls) and id(self.calls[self._next]) in self._ended:
            self._add(self.calls[self._next])
            self._next += 1
        if id(call) not in self._added and run.journal is not None:
            run.journal.note_end(result, may_change=may_change)

    def has_added(self, call: ToolCall) -> bool:
        """Whether the result of the call is part of the conversation."""
        return id(call) in self._added

    def _add(self, call: ToolCall) -> None:
        if id(call) not in self._added:
            self._added.add(id(call))
            self._run.add(self._ended[id(call)])


def _reason_not_to_start(run: LoopCallbacks) -> str | None:
    """Return why calls must not start any more; None if they may."""
    if run.cancel.fired:
        return ABORTED
    if run.queues.interrupt == "immediate" and len(run.queues.steering):
        return SKIPPED
    return run.limits.refuse_calls()


def _check_call(turn: TurnSetup, answer: StreamEnd, call: ToolCall) -> tuple[Tool, dict[str, Any]]:
    """Return the tool and its arguments. Raises ToolError with a text for the model if the call cannot be made."""
    if _was_cut_off(answer, call):
        raise ToolError(
            f"The call of {shorten_name(call.name)} was not made: the answer reached the output token limit before the arguments "
            "were complete. Send less in one call: for example, write a long file in several parts, or make several small edits."
        )
    tool = find_tool(turn.tools, call.name)
    if tool is None:
        raise ToolError(format_not_found(call.name, list(turn.tools)))
    if call.id in answer.bad_arguments:
        problem = json_problem(answer.bad_arguments[call.id])
        raise ToolError(
            f'Validation failed for tool "{call.name}":\n  - the arguments are not a JSON object: {problem}\n\n'
            "Make the call again with a complete JSON object. If it is long, send less in one call."
        )
    return tool, tool.check_arguments(call.arguments)


def _was_cut_off(answer: StreamEnd, call: ToolCall) -> bool:
    """Whether the token limit ended the answer within this call.

    Arguments that are a complete JSON object are what the model meant. A call without arguments may have lost some, so it counts
    as complete only if other calls follow it.
    """
    message = answer.message
    if message.stop_reason != "length":
        return False
    return call.id in answer.bad_arguments or (not call.arguments and message.content[-1] is call)


def format_not_found(name: str, tools: list[str]) -> str:
    """The error for a call of a tool that does not exist. `tools` are the names of the existing ones."""
    first = f"Tool {shorten_name(name)} not found"
    if not tools:
        return f"{first}\nThere are no tools: answer without them."
    near = difflib.get_close_matches(name[:_NAME_COMPARED], tools, 1)
    suggestion = f"Did you mean {near[0]}? " if near else ""
    names = ", ".join(tools[:_TOOLS_SHOWN]) + (f" and {len(tools) - _TOOLS_SHOWN} more" if len(tools) > _TOOLS_SHOWN else "")
    return f"{first}\n{suggestion}The tools are: {names}."
