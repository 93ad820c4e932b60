"""Tools and shell commands that extensions run in the Node process, and our own tools for extensions that wrap them."""

from __future__ import annotations

from base64 import b64decode
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from fairlead.core.calls.execution import NestedResult
from fairlead.core.lenient import json_data
from fairlead.core.messages import TextContent, Usage, UserBlock
from fairlead.core.model import Strictness
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import Exposure, Tool, ToolContext, ToolResult, as_structured
from fairlead.errors import ConfigError, ToolError
from fairlead.extend.extensions import extension_events as e
from fairlead.extend.extensions.calling import Deadline
from fairlead.extend.extensions.context import Context, ToolRunContext
from fairlead.extend.extensions.values import convert, object_or_empty
from fairlead.extend.node.bridge import BridgeLost, RemoteError, abortable
from fairlead.extend.node.events import tool_result
from fairlead.tools.builtin import builtin_tools
from fairlead.tools.shell.output import CommandOutput

if TYPE_CHECKING:
    from fairlead.extend.extensions.engine import Engine
    from fairlead.extend.extensions.registrations import Extension
    from fairlead.extend.node.bridge import Answer, SlowAnswer
    from fairlead.extend.node.remote import RemoteExtensions

#: The exposures of pi with which the model has to find a tool.
_SEARCHED: dict[str, Exposure] = {"deferred": "deferred", "codemode": "codemode"}
#: The exposures of pi with which a tool is declared to the model.
_DECLARED = (None, "direct", "model-only")


def remote_tool(remote: RemoteExtensions, extension: Extension, number: int, given: Mapping[str, Any]) -> tuple[Tool, bool]:
    """Return a tool that runs in the Node process, and whether the model may use it from the start.

    Raises ConfigError if its description cannot be used.
    """
    name = str(given.get("name") or "")
    if not name:
        raise ConfigError("A tool needs a name.")
    schema: Any = given.get("parameters") or {"type": "object", "properties": {}}
    if not isinstance(schema, dict):
        raise ConfigError(f"The tool {name}: its parameters are not a JSON Schema.")
    schema = cast("dict[str, Any]", schema)
    tool = Tool(
        name=name,
        description=str(given.get("description") or name),
        parameters=schema,
        run=_Runner(remote, number),
        label=str(given.get("label") or name),
        snippet=str(given.get("promptSnippet") or ""),
        guidelines=tuple(map(str, given.get("promptGuidelines") or ())),
        exclusive=given.get("executionMode") == "sequential",
        sequential=given.get("executionMode") == "sequential",
        exposure=_SEARCHED.get(str(given.get("exposure")), "direct"),
        timeout=None,
        strict=strictness(given.get("constrainedSampling")),
    )
    try:
        tool.check_schema()
    except ToolError as error:
        raise ConfigError(f"The tool {name}: {error}") from None
    if given.get("prepares"):
        # The extension converts the arguments when the tool runs. They are checked after that.
        tool = replace(tool, run=_PreparingRunner(remote, number, tool), _check=[_AcceptsAll()])
    return tool, given.get("exposure") in _DECLARED and given.get("defaultActive") is not False


def strictness(sampling: Any) -> Strictness | None:
    """Return what `constrainedSampling` of a tool asks for. Grammars, which only some models of OpenAI take, are ignored."""
    asked: dict[str, Any] = object_or_empty(sampling)
    wanted = asked.get("strict") if asked.get("type") == "json_schema" else None
    return wanted if wanted in ("prefer", "require") else None


class _AcceptsAll:
    """A validator that accepts all arguments."""

    def is_valid(self, arguments: Any) -> bool:
        return True


class _Runner:
    """Runs a tool in the Node process."""

    def __init__(self, remote: RemoteExtensions, number: int) -> None:
        self._remote = remote
        self._number = number

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        mine = ToolRunContext(self._remote.engine, Deadline(None), context)
        with self._remote.signals.of_call(context.cancel) as signal:
            given = {"number": self._number, "toolCallId": context.call_id, "args": arguments, "signal": signal}
            try:
                return decode_result(await self._remote.call("tool", given, mine))
            except (RemoteError, BridgeLost, TypeError) as error:
                raise ToolError(str(error)) from error


class _PreparingRunner(_Runner):
    """Has the extension convert the arguments first. They are checked against the tool's schema after that."""

    def __init__(self, remote: RemoteExtensions, number: int, tool: Tool) -> None:
        super().__init__(remote, number)
        self._tool = tool

    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        mine = Context(self._remote.engine, Deadline(None))
        try:
            prepared = await self._remote.call("prepare", {"number": self._number, "args": arguments}, mine)
        except (RemoteError, BridgeLost) as error:
            raise ToolError(str(error)) from error
        return await super().__call__(self._tool.check_arguments(prepared), context)


def decode_result(result: Any) -> ToolResult:
    """Return what a tool of an extension returned. What is not in pi's form becomes text. Raises TypeError if it is nothing."""
    if result is None:
        raise TypeError("The tool returned no result. Return { content, details } from execute().")
    if not isinstance(result, dict):
        return ToolResult(_decode_content(result))
    fields = cast("dict[str, Any]", result)
    content = _decode_content(fields.get("content"))
    try:
        usage = convert(Usage | None, fields.get("usage"), "usage")
    except TypeError:
        usage = None
    ends_run, failed = fields.get("terminate") is True, fields.get("isError") is True
    decoded = ToolResult(content, fields.get("details"), ends_run=ends_run, usage=usage, failed=failed)
    structured = fields.get("structuredContent")
    return decoded if structured is None else as_structured(decoded, lambda: structured)


def _decode_content(content: Any) -> list[UserBlock]:
    given = cast("list[Any]", content) if isinstance(content, list) else [] if content is None else [content]
    return [_decode_block(block) for block in given]


def _decode_block(block: Any) -> UserBlock:
    try:
        return convert(UserBlock, block, "content")
    except TypeError:
        data = json_data(block)
        return TextContent(data if isinstance(data, str) else msgspec.json.encode(data).decode())


class ToolRequests:
    """Answers what extensions ask about tools: to run one of ours, or another tool of the session."""

    def __init__(
        self, engine: Engine, context_of: Callable[[int | None], Context], callable_tools: Callable[[], Mapping[str, Tool]]
    ) -> None:
        self._engine = engine
        self._context_of = context_of
        #: Returns the tools that tools can call.
        self._callable = callable_tools

    def answers(self) -> dict[str, Answer]:
        return {"toolUpdate": self._update}

    def slow_answers(self) -> dict[str, SlowAnswer]:
        return {"builtinTool": self._run_builtin, "executeTool": self._execute}

    def _update(self, params: Mapping[str, Any]) -> None:
        """Show the host a partial result of a tool that is running."""
        context = self._context_of(params["call"])
        if isinstance(context, ToolRunContext):
            context.update(decode_result(params.get("partial") or {}))

    async def _run_builtin(self, params: Mapping[str, Any], report: Callable[[Any], None]) -> Any:
        """Run one of our own tools, possibly in another directory or environment."""
        session = self._engine.session
        tool = session.tools.builtin(params["name"])
        cwd, env = params.get("cwd"), params.get("env")
        if (cwd is not None and Path(cwd) != session.host.workspace.cwd) or env is not None:
            workspace = session.host.workspace
            there = replace(workspace, cwd=Path(cwd or workspace.cwd), env=workspace.env if env is None else env)
            tool = builtin_tools(there)[tool.name]
        return await _run(tool, params.get("args") or {}, str(params.get("toolCallId") or ""), report)

    async def _execute(self, params: Mapping[str, Any], report: Callable[[Any], None]) -> Any:
        """Run another tool for a tool that is running: hooks, approvals and rules apply to it as to a call of the model."""
        context = self._context_of(params["call"])
        call = context.calls if isinstance(context, ToolRunContext) else None
        if call is None:
            raise ToolError("Only a tool that is running can call other tools.")
        name, given = str(params["name"]), params.get("args")
        arguments = cast("dict[str, Any]", {} if given is None else given)
        if not isinstance(given, dict | None):
            raise ToolError(f"The arguments of {name} must be an object.")
        cancel = CancelToken()
        tool = self._callable().get(name)
        running = call(name, tool, arguments, cancel, lambda partial: report(tool_result(partial)))
        return _encode(await abortable(running, cancel))


def _encode(outcome: NestedResult) -> dict[str, Any]:
    """Return the outcome of a call that a tool made, in pi's form."""
    call, duration = outcome.call, outcome.duration_ms
    return {
        "toolCall": {"type": "toolCall", "id": call.id, "name": call.name, "arguments": call.arguments},
        "result": {"details": None, **tool_result(outcome.result)},
        "isError": outcome.is_error,
        **({} if duration is None else {"durationMs": duration}),
    }


async def _run(tool: Tool, arguments: dict[str, Any], call_id: str, report: Callable[[Any], None]) -> Any:
    cancel = CancelToken()
    context = ToolContext(call_id, cancel, lambda partial: report(tool_result(partial)))
    try:
        return tool_result(await abortable(tool.run(tool.check_arguments(arguments), context), cancel))
    except ToolError as error:
        if error.structured is None:
            raise
        # It did its work, and its result says that something failed: pi returns that.
        failed = ToolResult([TextContent(str(error))], error.details or None, failed=True)
        return tool_result(as_structured(failed, error.structured))


#: How many characters of the output are kept in memory. What is shown of it is much less.
_MOST_CHARS = 16 * 1024 * 1024


class BashRunContext(Context):
    """The context of a command that runs. Its output is cleaned, shown and logged like that of commands that run here."""

    def __init__(self, remote: RemoteExtensions, event: e.UserBash) -> None:
        super().__init__(remote.engine, Deadline(None))
        workspace = remote.engine.session.host.workspace
        self._show = event.show
        self._output = CommandOutput(workspace.log_dir, workspace.keep_log, clean=True)
        self._pieces: deque[str] = deque()
        self._size = 0
        self._is_cut = False

    def add(self, data: str) -> None:
        """Take more output, as base64."""
        self._take(self._output.feed(b64decode(data)))

    def ran(self, outcome: Mapping[str, Any]) -> e.Ran:
        """Return the outcome of a command that has ended."""
        self._take(self._output.finish())
        cancelled = bool(outcome.get("cancelled"))
        return e.Ran("".join(self._pieces), outcome.get("exitCode"), cancelled, self._is_cut, self._output.log_path)

    def _take(self, text: str) -> None:
        if text:
            self._pieces.append(text)
            self._size += len(text)
            while self._size > _MOST_CHARS:
                self._size -= len(self._pieces.popleft())
                self._is_cut = True
            self._show(text)


async def run_operations(remote: RemoteExtensions, event: e.UserBash, given: Mapping[str, Any]) -> e.Ran:
    """Run a command with the operations that a handler returned. Raises RemoteError or BridgeLost."""
    context = BashRunContext(remote, event)
    return context.ran(await remote.call("bash", given, context))
