"""Tools of extensions that run in the Node process, and our own tools for extensions that wrap them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from fairlead.core.calls.nested import NestedResult
from fairlead.core.messages import TextContent, Usage, UserBlock
from fairlead.core.model import Strictness
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import Exposure, Tool, ToolContext, ToolResult, as_structured
from fairlead.errors import ConfigError, ToolError
from fairlead.extend.extensions.calling import Deadline
from fairlead.extend.extensions.context import Context, ToolRunContext
from fairlead.extend.extensions.values import converted, object_or_empty
from fairlead.extend.node.bridge import BridgeLost, RemoteError, abortable
from fairlead.extend.node.events import tool_result

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
                return decoded_result(await self._remote.call("tool", given, mine))
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
        return await super().__call__(self._tool.checked(prepared), context)


def decoded_result(result: Any) -> ToolResult:
    """Return what a tool of an extension returned. Raises TypeError if it is invalid."""
    if not isinstance(result, dict):
        raise TypeError("The tool returned no result. Return { content, details } from execute().")
    fields = cast("dict[str, Any]", result)
    content = converted(list[UserBlock], fields.get("content") or [], "content")
    usage = converted(Usage | None, fields.get("usage"), "usage")
    ends_run, failed = fields.get("terminate") is True, fields.get("isError") is True
    result = ToolResult(content, fields.get("details"), ends_run=ends_run, usage=usage, failed=failed)
    structured = fields.get("structuredContent")
    return result if structured is None else as_structured(result, lambda: structured)


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
            partial = cast("dict[str, Any]", params.get("partial") or {})
            content = converted(list[UserBlock], partial.get("content") or [], "content")
            context.update(ToolResult(content, partial.get("details")))

    async def _run_builtin(self, params: Mapping[str, Any], report: Callable[[Any], None]) -> Any:
        """Run one of our own tools, possibly in another directory or environment."""
        session = self._engine.session
        tool = session.tools.builtin(params["name"])
        cwd, env = params.get("cwd"), params.get("env")
        if (cwd is not None and Path(cwd) != session.host.workspace.cwd) or env is not None:
            from fairlead.tools.builtin import builtin_tools

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
        return _encoded(await abortable(running, cancel))


def _encoded(outcome: NestedResult) -> dict[str, Any]:
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
        return tool_result(await abortable(tool.run(tool.checked(arguments), context), cancel))
    except ToolError as error:
        if error.structured is None:
            raise
        # It did its work, and its result says that something failed: pi returns that.
        failed = ToolResult([TextContent(str(error))], error.details or None, failed=True)
        return tool_result(as_structured(failed, error.structured))
