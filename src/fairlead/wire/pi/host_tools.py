"""Host tools and host URIs. The session uses them like other tools and documents, and the host answers the calls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET

from fairlead.core.calls.turn import not_found
from fairlead.core.messages import ImageContent, TextContent
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import BadCommand, ToolError
from fairlead.protocol.pi.host_requests import (
    HostToolCall,
    HostToolCancel,
    HostToolDefinition,
    HostToolNames,
    HostToolResult,
    HostToolUpdate,
    HostUriCancel,
    HostUriRequest,
    HostUriResult,
    HostUriScheme,
    HostUriSchemes,
    SetHostTools,
    SetHostUriSchemes,
)
from fairlead.session.toolbox import Toolbox
from fairlead.tools.files.targets import Document, beside, scheme_of
from fairlead.tools.workspace import Workspace
from fairlead.wire.messages import RequestRoute
from fairlead.wire.pi.codec import check_image, decoded
from fairlead.wire.questions import HostLeft, HostQuestion, Questions, Withdrawn

if TYPE_CHECKING:
    from fairlead.wire.pi.server import PiServer

#: The owner of host tools in the toolbox. It is part of an error that hosts know: `RPC host tool "bash" conflicts with ...`.
OWNER = "RPC host"


class HostTools:
    """The tools that the host defines. A call of one is a question to the host."""

    def __init__(self, toolbox: Toolbox, questions: Questions) -> None:
        self._toolbox = toolbox
        self._questions = questions
        self._names: list[str] = []

    def replace(self, definitions: Sequence[HostToolDefinition]) -> list[str]:
        """Replace all host tools, and return their names. Raises BadCommand, without changes, if a schema is invalid."""
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
            # The host removed the tool after the model saw its definition.
            raise ToolError(not_found(name, self._toolbox.active))
        question = HostQuestion(
            ask=lambda id: HostToolCall(id, context.call_id, name, arguments),
            withdraw=HostToolCancel,
            answered_by="host_tool_result",
            updated_by="host_tool_update",
            on_update=lambda line: context.update(_update(line)),
        )
        try:
            line = (await self._questions.ask(question, context.cancel)).body
        except Withdrawn:
            raise ToolError(f'Host tool "{name}" was aborted') from None
        except HostLeft:
            raise ToolError("RPC client disconnected before host tool execution completed") from None
        return _result(name, line)


def _update(line: bytes) -> ToolResult:
    partial = decoded(HostToolUpdate, line).partial_result
    return ToolResult(partial.content, partial.details)


def _result(name: str, line: bytes) -> ToolResult:
    """Decode the result of a host tool. Raises ToolError if the tool failed or the result is malformed."""
    try:
        answer = decoded(HostToolResult, line)
        for number, block in enumerate(answer.result.content):
            if isinstance(block, ImageContent):
                check_image(block, f"result.content[{number}]")
    except BadCommand as error:
        raise ToolError(f'Host tool "{name}" returned a malformed result: {error}') from None
    result = answer.result
    if answer.is_error:
        texts = [block.text for block in result.content if isinstance(block, TextContent)]
        raise ToolError("\n".join(texts) or "Host tool execution failed", result.details)
    return ToolResult(result.content, result.details or {})


class HostUris:
    """Implements `fairlead.tools.files.targets.Uris`. It adds to the URIs that `workspace` can already read."""

    def __init__(self, questions: Questions, workspace: Workspace) -> None:
        workspace.uris = beside(self, workspace.uris)
        self._questions = questions
        self._schemes: dict[str, HostUriScheme] = {}

    def replace(self, schemes: Sequence[HostUriScheme]) -> list[str]:
        """Replace all schemes, and return their names."""
        self._schemes = {each.scheme.strip().lower(): each for each in schemes}
        return list(self._schemes)

    def has(self, path: str) -> bool:
        return scheme_of(path) in self._schemes

    async def read(self, uri: str, cancel: CancelToken) -> Document:
        answer = await self._ask("read", uri, None, cancel)
        if answer.content is None:
            raise _malformed("read", uri, "content: required, but missing")
        details: dict[str, Any] = {"contentType": answer.content_type or "text/plain"}
        immutable = self._scheme(uri).immutable if answer.immutable is None else answer.immutable
        if immutable:
            details["immutable"] = True
        return Document(answer.content, answer.notes or [], details)

    async def write(self, uri: str, content: str, cancel: CancelToken) -> list[str]:
        scheme = self._scheme(uri)
        if not scheme.writable:
            raise ToolError(f"{uri} cannot be written: its host offers {scheme_of(uri)}:// for reading only.")
        answer = await self._ask("write", uri, content, cancel)
        return answer.notes or []

    def _scheme(self, uri: str) -> HostUriScheme:
        # Missing if the host removed the scheme during a call. Then the defaults apply.
        return self._schemes.get(scheme_of(uri)) or HostUriScheme(scheme=scheme_of(uri))

    async def _ask(
        self, operation: Literal["read", "write"], uri: str, content: str | None, cancel: CancelToken
    ) -> HostUriResult:
        """Ask the host, and return its answer. Raises ToolError if the operation failed or the answer is malformed."""
        question = HostQuestion(
            ask=lambda id: HostUriRequest(id, operation, uri, UNSET if content is None else content),
            withdraw=HostUriCancel,
            answered_by="host_uri_result",
        )
        try:
            answer = decoded(HostUriResult, (await self._questions.ask(question, cancel)).body)
        except Withdrawn:
            raise ToolError(f"Host URI {operation} for {uri} was aborted") from None
        except HostLeft:
            raise ToolError("RPC client disconnected before host URI request completed") from None
        except BadCommand as error:
            raise _malformed(operation, uri, str(error)) from None
        if answer.is_error:
            raise ToolError(answer.error or answer.content or f"Host URI {operation} failed for {uri}")
        return answer


def _malformed(operation: str, uri: str, problem: str) -> ToolError:
    return ToolError(f"The host returned a malformed result for the {operation} of {uri}: {problem}")


def _set_host_tools(server: PiServer, command: SetHostTools) -> HostToolNames:
    return HostToolNames(server.host_tools.replace(command.tools))


def _set_host_uri_schemes(server: PiServer, command: SetHostUriSchemes) -> HostUriSchemes:
    return HostUriSchemes(server.host_uris.replace(command.schemes))


ROUTES: tuple[RequestRoute, ...] = (
    RequestRoute(SetHostTools, _set_host_tools),
    RequestRoute(SetHostUriSchemes, _set_host_uri_schemes),
)
