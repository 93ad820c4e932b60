"""What a host serves: its tools, its URIs and its user. The commands that register tools and URIs, the requests, the replies."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal, TypeAlias, cast

from msgspec import UNSET, Struct, UnsetType

from fairlead.core.runtime import NotifyKind, Placement
from fairlead.protocol.pi.commands import Command
from fairlead.protocol.pi.frames import Frame, ToolResult

# Commands that register


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


# Requests to the host


class HostToolCall(Frame, tag="host_tool_call"):
    """The model calls a host tool. The arguments match the schema of the tool. Reply with `host_tool_result`."""

    id: str
    tool_call_id: str
    tool_name: str
    arguments: dict[str, Any]


class HostToolCancel(Frame, tag="host_tool_cancel"):
    """The `host_tool_call` with the id `targetId` was cancelled: the run was aborted, or the tool timed out. A later reply is
    ignored."""

    id: str
    target_id: str


class HostUriRequest(Frame, tag="host_uri_request"):
    """The model reads a host URI, or writes `content` to it. Reply with `host_uri_result`."""

    id: str
    operation: Literal["read", "write"]
    url: str
    content: str | UnsetType = UNSET


class HostUriCancel(Frame, tag="host_uri_cancel"):
    """The `host_uri_request` with the id `targetId` was cancelled. A later reply is ignored."""

    id: str
    target_id: str


UiMethod: TypeAlias = Literal[
    "select",
    "confirm",
    "input",
    "editor",
    "cancel",
    "notify",
    "setStatus",
    "setWidget",
    "setTitle",
    "set_editor_text",
    "open_url",
]


class ExtensionUiRequest(Frame, tag="extension_ui_request", kw_only=True):
    """Ask or show the user of the host something. `method` says what, and determines which fields are present. Reply to `select`,
    `confirm`, `input` and `editor` with `extension_ui_response`. The other methods expect no reply."""

    id: str
    method: UiMethod
    #: select, confirm, input, editor: the question. setTitle: the title of the window.
    title: str | UnsetType = UNSET
    #: select: the choices.
    options: list[str] | UnsetType = UNSET
    #: confirm: details of the question; may be empty. notify: the text to show.
    message: str | UnsetType = UNSET
    #: input: shown while the field is empty.
    placeholder: str | UnsetType = UNSET
    #: editor: the initial text.
    prefill: str | UnsetType = UNSET
    #: select, confirm, input: milliseconds until the request expires; absent: never.
    timeout: int | UnsetType = UNSET
    #: cancel: the id of the request to withdraw.
    target_id: str | UnsetType = UNSET
    #: notify: `info` if absent.
    notify_type: NotifyKind | UnsetType = UNSET
    #: setStatus: the key of the status item.
    status_key: str | UnsetType = UNSET
    #: setStatus: the text to show; absent: remove the item.
    status_text: str | UnsetType = UNSET
    #: setWidget: the key of the widget.
    widget_key: str | UnsetType = UNSET
    #: setWidget: the lines to show; absent: remove the widget.
    widget_lines: list[str] | UnsetType = UNSET
    #: setWidget: `aboveEditor` if absent.
    widget_placement: Placement | UnsetType = UNSET
    #: set_editor_text: the new text of the editor.
    text: str | UnsetType = UNSET
    #: select: whether this asks if a tool call may run. Only the exact text of an option is consent, and
    #: the third denies. Those after it write a rule to the settings of the user.
    approval: bool | UnsetType = UNSET
    #: select, approval: the tool.
    tool_name: str | UnsetType = UNSET
    #: select, approval: the id of the tool call.
    tool_call_id: str | UnsetType = UNSET
    #: select, approval: what the tool will run with.
    arguments: dict[str, Any] | UnsetType = UNSET
    #: select, approval: what the call would change, as a unified diff; absent if it changes no file or the change is not known.
    diff: str | UnsetType = UNSET
    #: select, approval: the patterns of the rules that an answer may write, the narrowest first; absent if it cannot write any.
    rules: list[str] | UnsetType = UNSET
    #: select, approval: the id of the sub-agent that makes the call; absent if the session itself does.
    subagent_id: str | UnsetType = UNSET
    #: open_url: the page to open.
    url: str | UnsetType = UNSET
    #: open_url: what the user should do there.
    instructions: str | UnsetType = UNSET


#: The fields of an `ExtensionUiRequest` by its method, besides `id` and `method`. `?` marks a field that may be absent.
UI_REQUEST_FIELDS: dict[str, str] = {
    "select": "title options timeout? approval? tool_name? tool_call_id? arguments? diff? rules? subagent_id?",
    "confirm": "title message timeout?",
    "input": "title placeholder? timeout?",
    "editor": "title prefill?",
    "cancel": "target_id",
    "notify": "message notify_type?",
    "setStatus": "status_key status_text?",
    "setWidget": "widget_key widget_lines? widget_placement?",
    "setTitle": "title",
    "set_editor_text": "text",
    "open_url": "url instructions?",
}


# Replies


class ReplyLine(Struct, tag_field="type", rename="camel", kw_only=True):
    """A line of the host that replies to a request."""

    #: The id of the request.
    id: str


class HostToolUpdate(ReplyLine, tag="host_tool_update", kw_only=True):
    """Report the progress of a `host_tool_call`. It becomes a `tool_execution_update` event."""

    #: The whole output so far, not only the new part.
    partial_result: ToolResult


class HostToolResult(ReplyLine, tag="host_tool_result", kw_only=True):
    """The result of a `host_tool_call`. With `isError`, the text of the content is the error message."""

    result: ToolResult
    is_error: bool | None = None


class HostUriResult(ReplyLine, tag="host_uri_result", kw_only=True):
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


class ExtensionUiResponse(ReplyLine, tag="extension_ui_response", kw_only=True):
    """Reply to an `extension_ui_request`: with `value` to `select`, `input` and `editor`, with `confirmed` to `confirm`, or with
    `cancelled` to any of them. A reply without any of these counts as `cancelled`, and a response reports the mistake."""

    value: str | None = None
    confirmed: bool | None = None
    #: The user dismissed the question.
    cancelled: bool | None = None
    #: With `cancelled`: the user did not answer in time.
    timed_out: bool | None = None
    #: To an approval that denies the call: why. The model sees it.
    reason: str | None = None
    #: To an approval that allows the call: other arguments for the tool. They must match its schema, and no rule may deny them.
    arguments: dict[str, Any] | None = None
    #: To an approval: whether the answer covers later calls of the same kind, also if it is a denial.
    for_session: bool | None = None
    #: To an approval that allows the call: the pattern of a rule that the user's settings get, so that calls like this one run
    #: without a question. It has to cover the call. It may differ from those in `rules`.
    rule: str | None = None
    #: With `rule`: whether the rule holds in every project of the user, and not only in this one.
    everywhere: bool | None = None


HOST_COMMANDS: tuple[type[Command], ...] = (SetHostTools, SetHostUriSchemes)
REPLIES: tuple[type[ReplyLine], ...] = (HostToolUpdate, HostToolResult, HostUriResult, ExtensionUiResponse)


# Errors for registrations that are invalid, in the words that hosts of omp know

#: Schemes that have a meaning without a host, in fairlead or omp.
RESERVED_SCHEMES = frozenset("agent artifact data fairlead file ftp http https local mcp memory omp rule security skill".split())


def _host_tools_fault(command: dict[str, Any]) -> str | None:
    names: set[str] = set()
    tools = _objects(command.get("tools"))
    for index, tool in enumerate(tools):
        name = _trim(tool.get("name"))
        if not name:
            return f"Host tool at index {index} must provide a non-empty name"
        if not _trim(tool.get("description")):
            return f'Host tool "{name}" must provide a non-empty description'
        if not isinstance(tool.get("parameters"), dict):
            return f'Host tool "{name}" must provide a JSON Schema object'
        limit = tool.get("timeoutMs")
        if isinstance(limit, int | float) and limit < 0:
            return f'Host tool "{name}" must provide a timeoutMs of 0 or more'
        names.add(name)
    return "RPC host tool names must be unique" if len(names) < len(tools) else None


def _host_uri_schemes_fault(command: dict[str, Any]) -> str | None:
    for each in _objects(command.get("schemes")):
        given = each.get("scheme")
        scheme = _trim(given).lower()
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


def _trim(text: Any) -> str:
    return text.strip() if isinstance(text, str) else ""


SetHostTools.fault = staticmethod(_host_tools_fault)
SetHostUriSchemes.fault = staticmethod(_host_uri_schemes_fault)
