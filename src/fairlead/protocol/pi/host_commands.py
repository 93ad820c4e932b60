"""What a host does for the agent: tools and URIs of its own. How it registers them, and how it answers when it is asked."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from msgspec import Struct

from fairlead.core.tool import ToolResult
from fairlead.protocol.pi.command import Command

# Registering


class HostToolDefinition(Struct, rename="camel", kw_only=True):
    """A tool that the host runs."""

    #: Not empty, and not that of any other tool.
    name: str
    #: What the model is told of it; not empty.
    description: str
    #: The JSON Schema of its arguments. They are checked against it before the host is asked.
    parameters: dict[str, Any]
    #: A few words for people; the name, if left out.
    label: str | None = None
    #: Keep it from the model until `set_active_tools` names it.
    hidden: bool | None = None
    #: Milliseconds after which a call is given up; 0, or left out: never.
    timeout_ms: float | None = None


class HostToolNames(Struct, rename="camel"):
    tool_names: list[str]


class SetHostTools(Command, tag="set_host_tools", kw_only=True):
    """Replace the tools that the host runs. They are there from the next model call on, also during a run. A new one is active
    unless it is `hidden`; one that was there by that name before stays as active as it was. When the model calls one, the host
    gets `host_tool_call`, and answers with `host_tool_result`."""

    tools: list[HostToolDefinition]
    result: ClassVar[Any] = HostToolNames


class HostUriScheme(Struct, kw_only=True):
    """URIs that the host answers for."""

    #: What stands before `://`: a letter, then letters, digits, `+`, `.` and `-`. Upper and lower case are the same.
    scheme: str
    #: A few words for people.
    description: str | None = None
    #: Whether `write` may be used on them, and not only `read`.
    writable: bool | None = None
    #: Whether what is there never changes; the result's `details` say so.
    immutable: bool | None = None


class HostUriSchemes(Struct):
    schemes: list[str]


class SetHostUriSchemes(Command, tag="set_host_uri_schemes", kw_only=True):
    """Replace the schemes of the URIs that the host answers for. When the model uses `read` or `write` on one, the host gets
    `host_uri_request`, and answers with `host_uri_result`."""

    schemes: list[HostUriScheme]
    result: ClassVar[Any] = HostUriSchemes


# Answering


class Answer(Struct, tag_field="type", rename="camel", kw_only=True):
    #: That of the frame which asked.
    id: str


class HostToolUpdate(Answer, tag="host_tool_update", kw_only=True):
    """How far a `host_tool_call` has come. It is passed on as `tool_execution_update`."""

    #: All there is so far, not only what is new.
    partial_result: ToolResult


class HostToolResult(Answer, tag="host_tool_result", kw_only=True):
    """What came of a `host_tool_call`. With `isError`, the texts of the content, a line each, are the error."""

    result: ToolResult
    is_error: bool | None = None


class HostUriResult(Answer, tag="host_uri_result", kw_only=True):
    """What came of a `host_uri_request`. With `isError`, `error` (or else `content`) says why it failed."""

    #: Required after a `read`.
    content: str | None = None
    #: `text/plain`, if left out.
    content_type: str | None = None
    #: Remarks for the model, shown after the tool's result.
    notes: list[str] | None = None
    #: Instead of what the scheme says.
    immutable: bool | None = None
    is_error: bool | None = None
    error: str | None = None


HOST_COMMANDS: tuple[type[Command], ...] = (SetHostTools, SetHostUriSchemes)
HOST_ANSWERS: tuple[type[Answer], ...] = (HostToolUpdate, HostToolResult, HostUriResult)


# What hosts of the family are told of a registration that cannot be used

#: Schemes that mean something without a host, here or in omp.
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
    """The items of a list, with nothing in those that are no objects. What is no list is for the declaration to refuse."""
    if not isinstance(items, list):
        return []
    return [cast("dict[str, Any]", item) if isinstance(item, dict) else {} for item in cast("list[Any]", items)]


def _trimmed(text: Any) -> str:
    return text.strip() if isinstance(text, str) else ""


SetHostTools.fault = staticmethod(_host_tools_fault)
SetHostUriSchemes.fault = staticmethod(_host_uri_schemes_fault)
