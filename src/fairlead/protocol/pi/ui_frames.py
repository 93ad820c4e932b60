"""Requests to the user of the host, and the replies."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import UNSET, UnsetType

from fairlead.core.ui import NotifyKind, Placement
from fairlead.protocol.pi.frames import Frame
from fairlead.protocol.pi.omp_commands import ReplyLine

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
    #: open_url: the page to open.
    url: str | UnsetType = UNSET
    #: open_url: what the user should do there.
    instructions: str | UnsetType = UNSET


class ExtensionUiResponse(ReplyLine, tag="extension_ui_response", kw_only=True):
    """Reply to an `extension_ui_request`: with `value` to `select`, `input` and `editor`, with `confirmed` to `confirm`, or with
    `cancelled` to any of them. A reply without any of these counts as `cancelled`, and a response reports the mistake."""

    value: str | None = None
    confirmed: bool | None = None
    #: The user dismissed the question.
    cancelled: bool | None = None
    #: With `cancelled`: the user did not answer in time.
    timed_out: bool | None = None
