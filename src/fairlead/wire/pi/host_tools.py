"""Tools that the host runs: to the session they are tools like any other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from fairlead.core.calls import not_found
from fairlead.core.messages import TextContent
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import BadCommand, ToolError
from fairlead.protocol.pi.frames import HostToolCall, HostToolCancel
from fairlead.protocol.pi.omp_commands import HostToolDefinition, HostToolResult, HostToolUpdate
from fairlead.session.toolbox import Toolbox
from fairlead.wire.pi import decode
from fairlead.wire.questions import HostLeft, Question, Questions, Withdrawn

#: In whose name they are in the toolbox. Part of the error that hosts know: `RPC host tool "bash" conflicts with ...`.
OWNER = "RPC host"


class HostTools:
    def __init__(self, toolbox: Toolbox, questions: Questions) -> None:
        self._toolbox = toolbox
        self._questions = questions
        self._names: list[str] = []

    def replace(self, definitions: Sequence[HostToolDefinition]) -> list[str]:
        """Put other tools in the place of those there are; returns their names. Raises BadCommand, and changes nothing then."""
        tools = [self._tool(definition) for definition in definitions]
        for tool in tools:
            try:
                tool.check_schema()
            except ToolError as error:
                raise BadCommand(f'Host tool "{tool.name}": {error}') from None
        hidden = {tool.name for tool, definition in zip(tools, definitions, strict=True) if definition.hidden}
        self._toolbox.replace(OWNER, tools, inactive=hidden)
        self._names = [tool.name for tool in tools]
        return self._names

    def _tool(self, definition: HostToolDefinition) -> Tool:
        name = definition.name.strip()
        return Tool(
            name=name,
            description=definition.description.strip(),
            parameters=definition.parameters,
            run=partial(self._run, name),
            label=(definition.label or "").strip() or name,
            timeout=definition.timeout_ms / 1000 if definition.timeout_ms else None,
        )

    async def _run(self, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        if name not in self._names:
            # The host took it back after the model was told of it.
            raise ToolError(not_found(name, self._toolbox.active))
        question = Question(
            ask=lambda id: HostToolCall(id, context.call_id, name, arguments),
            withdraw=HostToolCancel,
            answered_by="host_tool_result",
            updated_by="host_tool_update",
            on_update=lambda line: context.update(decode.decoded(HostToolUpdate, line).partial_result),
        )
        try:
            line = (await self._questions.ask(question, context.cancel)).body
        except Withdrawn:
            raise ToolError(f'Host tool "{name}" was aborted') from None
        except HostLeft:
            raise ToolError("RPC client disconnected before host tool execution completed") from None
        return _result(name, line)


def _result(name: str, line: bytes) -> ToolResult:
    """What the host answered. Raises ToolError if that is a failure, or cannot be understood."""
    try:
        answer = decode.decoded(HostToolResult, line)
    except BadCommand as error:
        raise ToolError(f'Host tool "{name}" returned a malformed result: {error}') from None
    result = answer.result
    if answer.is_error:
        texts = [block.text for block in result.content if isinstance(block, TextContent)]
        raise ToolError("\n".join(texts) or "Host tool execution failed", result.details)
    return ToolResult(result.content, result.details or {})
