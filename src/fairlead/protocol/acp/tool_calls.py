"""Tool calls, and requests for the user's permission to run one."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import UNSET, Struct

from fairlead.protocol.acp.base import Object, Request
from fairlead.protocol.acp.content import ContentBlock

ToolKind: TypeAlias = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
ToolCallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]
PermissionOptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class Content(Object, tag_field="type", tag="content"):
    """Standard content block (text, images, resources)."""

    #: The actual content block.
    content: ContentBlock


class Diff(Object, tag_field="type", tag="diff"):
    """A diff representing file modifications."""

    #: The absolute file path being modified.
    path: str
    #: The new content after modification.
    new_text: str
    #: The original content (omitted or `null` for new files).
    old_text: str | None = None


class Terminal(Object, tag_field="type", tag="terminal"):
    """Embed a terminal created with `terminal/create` by its id."""

    #: Identifier of the terminal instance to embed in the content stream.
    terminal_id: str


ToolCallContent: TypeAlias = Content | Diff | Terminal


class ToolCallLocation(Object):
    """A file location being accessed or modified by a tool."""

    #: The absolute file path being accessed or modified.
    path: str
    #: Optional 1-based line number within the file.
    line: int | None = None


class ToolCallUpdate(Object):
    """An update to an existing tool call."""

    #: The ID of the tool call being updated.
    tool_call_id: str
    #: Update the tool kind.
    kind: ToolKind | None = None
    #: Update the execution status.
    status: ToolCallStatus | None = None
    #: Update the human-readable title.
    title: str | None = None
    #: Update the programmatic name of the tool being invoked.
    name: str | None = None
    #: Replace the content collection.
    content: list[ToolCallContent] | None = None
    #: Replace the locations collection.
    locations: list[ToolCallLocation] | None = None
    #: Update the raw input.
    raw_input: Any = UNSET
    #: Update the raw output.
    raw_output: Any = UNSET


class PermissionOption(Object):
    """An option presented to the user when requesting permission."""

    #: Unique identifier for this permission option.
    option_id: str
    #: Human-readable label to display to the user.
    name: str
    #: Hint about the nature of this permission option.
    kind: PermissionOptionKind


class CancelledPermission(Object, tag_field="outcome", tag="cancelled"):
    """The turn was cancelled before the user answered."""


class SelectedPermissionOutcome(Object, tag_field="outcome", tag="selected"):
    """The user selected an option."""

    #: The ID of the option the user selected.
    option_id: str


RequestPermissionOutcome: TypeAlias = CancelledPermission | SelectedPermissionOutcome


class RequestPermissionResponse(Object):
    """Response to a permission request."""

    #: The user's decision on the permission request.
    outcome: RequestPermissionOutcome


class RequestPermissionRequest(Request):
    """Request for user permission to execute a tool call."""

    method: ClassVar[str] = "session/request_permission"
    result: ClassVar[type[Struct]] = RequestPermissionResponse
    #: The session ID for this request.
    session_id: str
    #: Details about the tool call requiring permission.
    tool_call: ToolCallUpdate
    #: Available permission options for the user to choose from.
    options: list[PermissionOption]
