"""Host tools and host URIs: how a host registers them, and how it replies to requests."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from msgspec import Struct

from fairlead.core.tool import ToolResult
from fairlead.protocol.pi.command import Command

# Registering


class HostToolDefinition(Struct, rename="camel", kw_only=True):
    """A tool that the host runs."""

    #: Not empty, and different from the name of every other tool.
    name: str
    #: The description for the model; not empty.
    description: str
    #: The JSON Schema of the arguments. fairlead checks them before it calls the host.
    parameters: dict[str, Any]
    #: A short label for people; the name if absent.
    label: str | None = None
    #: Hide the tool from the model until `set_active_tools` names it.
    hidden: bool | None = None
    #: Milliseconds after which a call is cancelled; 0 or absent: never.
    timeout_ms: float | None = None


class HostToolNames(Struct, rename="camel"):
    tool_names: list[str]


class SetHostTools(Command, tag="set_host_tools", kw_only=True):
    """Replace the host tools, starting with the next model call, even during a run. A new tool is active unless it is `hidden`. A
    tool whose name was registered before stays active or inactive. When the model calls a host tool, the host gets
    `host_tool_call` and replies with `host_tool_result`."""

    tools: list[HostToolDefinition]
    result: ClassVar[Any] = HostToolNames


class HostUriScheme(Struct, kw_only=True):
    """URIs that the host serves."""

    #: The part before `://`: a letter, then letters, digits, `+`, `.` and `-`. Case does not matter.
    scheme: str
    #: A short description for people.
    description: str | None = None
    #: Whether the model may `write` to them, and not only `read`.
    writable: bool | None = None
    #: Whether their content never changes. The `details` of a result contain this.
    immutable: bool | None = None


class HostUriSchemes(Struct):
    schemes: list[str]


class SetHostUriSchemes(Command, tag="set_host_uri_schemes", kw_only=True):
    """Replace the URI schemes that the host serves. When the model uses `read` or `write` on such a URI, the host gets
    `host_uri_request` and replies with `host_uri_result`."""

    schemes: list[HostUriScheme]
    result: ClassVar[Any] = HostUriSchemes


# Replying


class Answer(Struct, tag_field="type", rename="camel", kw_only=True):
    #: The id of the request.
    id: str


class HostToolUpdate(Answer, tag="host_tool_update", kw_only=True):
    """Report the progress of a `host_tool_call`. It becomes a `tool_execution_update` event."""

    #: The whole output so far, not only the new part.
    partial_result: ToolResult


class HostToolResult(Answer, tag="host_tool_result", kw_only=True):
    """The result of a `host_tool_call`. With `isError`, the text of the content is the error message."""

    result: ToolResult
    is_error: bool | None = None


class HostUriResult(Answer, tag="host_uri_result", kw_only=True):
    """The result of a `host_uri_request`. With `isError`, `error` (or `content`) says why it failed."""

    #: Required after a `read`.
    content: str | None = None
    #: `text/plain` if absent.
    content_type: str | None = None
    #: Notes for the model, appended to the result.
    notes: list[str] | None = None
    #: Overrides the value of the scheme.
    immutable: bool | None = None
    is_error: bool | None = None
    error: str | None = None


HOST_COMMANDS: tuple[type[Command], ...] = (SetHostTools, SetHostUriSchemes)
HOST_ANSWERS: tuple[type[Answer], ...] = (HostToolUpdate, HostToolResult, HostUriResult)


# Errors for registrations that are invalid, in the words that hosts of omp know

#: Schemes that have a meaning without a host, in fairlead or omp.
RESERVED_SCHEMES = frozenset("agent artifact data fairlead file ftp http https local mcp memory omp rule security skill".split())


def _host_tools_fault(command: dict[str, Any]) -> str | None:
    names: set[str] = set()
    tools = _objects(command.get("tools"))
    for index, tool in enumerate(tools):
        name = _trimmed(tool.get("name"))
        if not name:
            return f"Host tool at index {index} must provide a non-empty name"
        if not _trimmed(tool.get("description")):
            return f'Host tool "{name}" must provide a non-empty description'
        if not isinstance(tool.get("parameters"), dict):
            return f'Host tool "{name}" must provide a JSON Schema object'
        limit = tool.get("timeoutMs")
        if isinstance(limit, int | float) and limit < 0:
            return f'Host tool "{name}" must provide a timeoutMs of 0 or more'
        names.add(name)
    return "RPC host tool names must be unique" if len(names) < len(tools) else None


def _host_uri_schemes_fault(command: dict[str, Any]) -> str | None:
    import re

    for each in _objects(command.get("schemes")):
        given = each.get("scheme")
        scheme = _trimmed(given).lower()
        if not scheme:
            return "Host URI scheme must be a non-empty string"
        if not re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme):
            return f"Host URI scheme contains invalid characters: {given}"
        if scheme in RESERVED_SCHEMES:
            return f"Host URI scheme is reserved by fairlead: {scheme}://"
    return None


def _objects(items: Any) -> list[dict[str, Any]]:
    """The items of a list, with an empty object for each that is not an object. Decoding rejects what is not a list."""
    if not isinstance(items, list):
        return []
    return [cast("dict[str, Any]", item) if isinstance(item, dict) else {} for item in cast("list[Any]", items)]


def _trimmed(text: Any) -> str:
    return text.strip() if isinstance(text, str) else ""


SetHostTools.fault = staticmethod(_host_tools_fault)
SetHostUriSchemes.fault = staticmethod(_host_uri_schemes_fault)
