"""Executes one tool call: asks whether it may run, runs the tool within its time limit, and turns every outcome into a result.

A tool can call other tools: `NestedCalls`. Only that tool gets their results; the session keeps a short record of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from fairlead.core.events import ToolEnd, ToolRunning, ToolStart, ToolUpdate
from fairlead.core.lenient import json_data, scrub, scrub_text
from fairlead.core.messages import (
    ImageContent,
    NestedCallNote,
    NestedCallNotes,
    TextContent,
    ToolCall,
    Usage,
    UserBlock,
    add_usage,
)
from fairlead.core.runtime import CancelToken, Interrupted, TimedOut
from fairlead.core.tool import ApprovedFile, Schedule, StructuredResult, Tool, ToolContext, ToolResult, as_structured
from fairlead.errors import ToolError

if TYPE_CHECKING:
    from fairlead.core.loop import LoopCallbacks


#: What a record holds at most, as in pi 1.5: calls, bytes of the arguments of one call and of all, characters of an error.
_MOST_CALLS = 256
_MOST_BYTES, _MOST_BYTES_IN_ALL = 8 * 1024, 32 * 1024
_LONGEST_ERROR = 500


class NestedCall(ToolCall, tag="toolCall"):
    """A call that a tool makes. `parent_id` is the id of the call that the tool runs for."""

    parent_id: str = ""


class NestedResult(Struct):
    """The outcome of a call that a tool made."""

    call: NestedCall
    result: ToolResult
    is_error: bool
    #: How long the tool ran; None if it did not run.
    duration_ms: int | None = None


class CallRecord:
    """Records the nested calls of one call of the model, at every depth."""

    def __init__(self) -> None:
        self._notes: list[NestedCallNote] = []
        self._bytes = 0
        self._is_complete = True
        self._usage: Usage | None = None

    def start(self, call: NestedCall) -> NestedCallNote | None:
        """Record a call as it starts. Returns None if there are too many."""
        if len(self._notes) >= _MOST_CALLS:
            self._is_complete = False
            return None
        note = NestedCallNote(call.id, call.name)
        arguments = msgspec.json.encode(scrub(call.arguments))
        if len(arguments) > _MOST_BYTES or self._bytes + len(arguments) > _MOST_BYTES_IN_ALL:
            note.arguments_bytes = len(arguments)
            self._is_complete = False
        else:
            note.arguments = msgspec.json.decode(arguments)
            self._bytes += len(arguments)
        self._notes.append(note)
        return note

    def finish(self, note: NestedCallNote | None, result: ToolResult, is_error: bool, duration_ms: int) -> None:
        """Record the outcome of a call."""
        self._usage = self.usage_with(result)
        if note is None:
            return
        note.status = "error" if is_error else "ok"
        note.duration_ms = duration_ms
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        if is_error and text:
            note.error = text[:_LONGEST_ERROR]

    def usage_with(self, result: ToolResult) -> Usage | None:
        """Return what the calls so far have used, together with `result`; None if nothing says so."""
        if self._usage is None or result.usage is None:
            return self._usage or result.usage
        return add_usage(self._usage, result.usage)

    def notes(self) -> NestedCallNotes | UnsetType:
        """Return the record so far; UNSET if there were no calls."""
        if not self._notes:
            return UNSET
        are_over = all(note.status != "unfinished" for note in self._notes)
        return NestedCallNotes([msgspec.structs.replace(note) for note in self._notes], self._is_complete and are_over)


T = TypeVar("T")

ABORTED = "Command aborted"
#: Seconds that `AfterCall` has to finish looking at a result after the run was aborted.
LAST_LOOK = 0.4

#: How many calls of one tool run at the same time, and how deep tools may call each other.
NESTED_AT_ONCE = 16
_DEEPEST = 16

#: How many characters of a tool's name the model sees.
_NAME_SHOWN = 128


def shorten_name(name: str) -> str:
    """The name of a tool, shortened: the model may have made it up."""
    return name if len(name) <= _NAME_SHOWN else f"{name[:_NAME_SHOWN]}..."


async def execute(
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
            partial, _ = valid_result(partial)
            on_update(partial)
            run.notify(ToolUpdate(call.id, call.name, call.arguments, partial, parent))

    try:
        if run.before_call is not None or run.approver is not None:
            arguments, target = await _request_permission(run, tool, call, arguments)
        if run.journal is not None and parent is None and not tool.idempotent:
            run.journal.note_start(call)
        await run.written()
        if run.cancel.fired:  # the session may have been lost meanwhile
            raise Interrupted
        await run.emit(ToolRunning(call.id, call.name, arguments, parent))
        if run.cancel.fired:
            raise Interrupted
        began = run.runtime.now_ms()
        work = tool.run(arguments, ToolContext(call.id, run.cancel, update, target, nested))
        result, structured = valid_result(await run.runtime.run_bounded(work, run.cancel, timeout=tool.timeout, grace=tool.grace))
        result = result if structured is None else as_structured(result, structured)
        outcome = result, result.failed
    except _NotPermitted as refusal:
        return *failure(str(refusal.error), refusal.error.details, ends_run=refusal.error.ends_run), None
    except Exception as error:
        outcome = _make_failure(run, tool, error)
    finally:
        over = True
    duration_ms = max(0, run.runtime.now_ms() - began)
    await nested.close()
    amending = run.after_call(tool, call, arguments, *outcome) if run.after_call is not None else None
    if amending is None:
        return outcome[0], outcome[1], duration_ms
    try:
        result, is_error = await run.runtime.run_bounded(amending, run.cancel, timeout=None, grace=LAST_LOOK)
        return result, is_error, duration_ms
    except Exception as error:  # it may have been about to remove something from the result, so the result is not shown
        return *_make_failure(run, tool, error), duration_ms


class Nesting(Struct, frozen=True):
    """What the calls of one turn share with those that their tools make."""

    schedule: Schedule
    #: Held by a nested call that must run alone, while it runs.
    alone: AbstractAsyncContextManager[object]


class NestedCalls:
    """Calls other tools for one tool call. Implements `CallTool`.

    These calls run like those of the model: with the same checks and events. Their results do not become messages.
    """

    def __init__(self, run: LoopCallbacks, nesting: Nesting, call_id: str, caller: NestedCalls | None = None) -> None:
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
                return NestedResult(call, *failure("The tool call that makes this call has ended."))
            note, began = self.record.start(call), now_ms()
            await run.emit(ToolStart(call.id, name, arguments, self._call_id))
            result, is_error, duration_ms = await self._outcome(call, tool, cancel, update)
            shown, structured = valid_result(result)
            self.record.finish(note, shown, is_error, max(0, now_ms() - began))
            await run.emit(ToolEnd(call.id, name, shown, is_error, duration_ms, structured, self._call_id))
        return NestedResult(call, result, is_error, duration_ms)

    async def _outcome(
        self, call: NestedCall, tool: Tool | None, cancel: CancelToken, update: Callable[[ToolResult], None]
    ) -> tuple[ToolResult, bool, int | None]:
        """Run the tool. Returns what `execute` returns."""
        if tool is None:
            return *failure(f"Tool {shorten_name(call.name)} not found"), None
        if self.depth >= _DEEPEST:
            return *failure(f"Tools have called each other {_DEEPEST} times. {shorten_name(call.name)} is not called."), None
        stop = CancelToken()
        forget = [each.on_fire(stop.fire) for each in (self._run.cancel, self._over, cancel)]
        run = replace(self._run, cancel=stop)
        inner = NestedCalls(run, self._nesting, call.id, self)
        alone = self._nesting.alone
        needs_turn = not self.is_alone and (self._nesting.schedule == "sequential" or tool.sequential)
        try:
            arguments = tool.check_arguments(call.arguments)
            if needs_turn:
                await run.runtime.run_bounded(alone.__aenter__(), stop, timeout=None, grace=0)
                inner.is_alone = True
            if stop.fired:
                raise Interrupted
            return await execute(run, tool, call, arguments, inner, update)
        except ToolError as error:
            return *failure(str(error), error.details), None
        except Interrupted:
            return *failure(ABORTED), None
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


async def _request_permission(
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
            arguments = tool.check_arguments(await run.runtime.run_bounded(asked, run.cancel, timeout=None, grace=0))
        if run.approver is not None:
            check = run.approver.check(tool, call.id, arguments, run.cancel)
            if check is not None and run.journal is not None and not isinstance(call, NestedCall) and not tool.idempotent:
                run.journal.waits(call)
            permission = (
                None
                if check is None
                else await run.runtime.run_bounded(_ask_when_durable(run, check), run.cancel, timeout=None, grace=0)
            )
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


async def _ask_when_durable(run: LoopCallbacks, question: Awaitable[T]) -> T:
    """Ask a question when all messages before it are durable."""
    try:
        await run.written()
    except BaseException:
        if isinstance(question, Coroutine):
            question.close()
        raise
    return await question


def _make_failure(run: LoopCallbacks, tool: Tool, error: Exception) -> tuple[ToolResult, bool]:
    """The result of a call that raised `error`."""
    match error:
        case ToolError():
            return failure(str(error), error.details, error.structured, ends_run=error.ends_run)
        case Interrupted():
            return failure(ABORTED)
        case TimedOut():
            return failure(f"{tool.name} did not finish within {tool.timeout:g} seconds and was stopped.")
        case _:  # a bug in the tool must not end the run
            run.report(error)
            return failure(f"{type(error).__name__}: {error}")


def valid_result(result: ToolResult) -> tuple[ToolResult, Callable[[], Any] | None]:
    """Return a result that can be shown, kept and encoded as JSON, and what returns it as data, if the tool offers that.

    The result of a tool may have parts of any type. What JSON cannot hold becomes text.
    """
    given: Any = result.content
    blocks: list[Any] = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]  # pyright: ignore[reportUnknownArgumentType]
    usage = result.usage if isinstance(result.usage, Usage) else None
    content = [_valid_block(block) for block in blocks]
    details, ends_run, failed = json_data(result.details), bool(result.ends_run), bool(result.failed)
    return ToolResult(content, details, result.changes, ends_run, usage, failed), _valid_structured(result)


def _valid_block(block: Any) -> UserBlock:
    fields: tuple[Any, ...] = ()
    if isinstance(block, TextContent | ImageContent):
        fields = (block.text,) if isinstance(block, TextContent) else (block.data, block.mime_type)
        if all(isinstance(field, str) for field in fields):
            return TextContent(scrub_text(block.text)) if isinstance(block, TextContent) else block
    data = json_data(block)
    return TextContent(data if isinstance(data, str) else msgspec.json.encode(data).decode())


def _valid_structured(result: ToolResult) -> Callable[[], Any] | None:
    if not isinstance(result, StructuredResult):
        return None

    def encode_structured() -> Any:
        try:
            return json_data(result.structured())
        except Exception:  # the function is the tool's
            return None

    return encode_structured


def failure(
    text: str, details: Any = None, structured: Callable[[], Any] | None = None, *, ends_run: bool = False
) -> tuple[ToolResult, bool]:
    if structured is None:
        return ToolResult([TextContent(text)], details or {}, ends_run=ends_run), True
    return StructuredResult([TextContent(text)], details or {}, ends_run=ends_run, failed=True, structured=structured), True
