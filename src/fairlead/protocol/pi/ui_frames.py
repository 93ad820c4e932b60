"""What the person behind the host is asked and shown, and what the host answers."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import UNSET, UnsetType

from fairlead.core.ui import NotifyKind, Placement
from fairlead.protocol.pi.frames import Frame
from fairlead.protocol.pi.host_commands import Answer

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
    """Something for the person behind the host. `method` says what, and which of the fields there are. `select`, `confirm`,
    `input` and `editor` ask: answer with `extension_ui_response`. The others show, and are not answered."""

    id: str
    method: UiMethod
    #: select, confirm, input, editor: what to ask. setTitle: what to call the window.
    title: str | UnsetType = UNSET
    #: select: what to choose from.
    options: list[str] | UnsetType = UNSET
    #: confirm: more about it; may be empty. notify: what to show.
    message: str | UnsetType = UNSET
    #: input: shown while nothing has been typed.
    placeholder: str | UnsetType = UNSET
    #: editor: the text to begin with.
    prefill: str | UnsetType = UNSET
    #: select, confirm, input: milliseconds after which nobody waits for an answer any more; none: as long as it takes.
    timeout: int | UnsetType = UNSET
    #: cancel: the request that nobody waits for any more.
    target_id: str | UnsetType = UNSET
    #: notify: `info`, if left out.
    notify_type: NotifyKind | UnsetType = UNSET
    #: setStatus: which part of the status.
    status_key: str | UnsetType = UNSET
    #: setStatus: what to show there; left out, nothing is shown there any more.
    status_text: str | UnsetType = UNSET
    #: setWidget: which of the widgets.
    widget_key: str | UnsetType = UNSET
    #: setWidget: what it shows; left out, it goes away.
    widget_lines: list[str] | UnsetType = UNSET
    #: setWidget: `aboveEditor`, if left out.
    widget_placement: Placement | UnsetType = UNSET
    #: set_editor_text: what the editor is to hold.
    text: str | UnsetType = UNSET
    #: open_url: a page to open.
    url: str | UnsetType = UNSET
    #: open_url: what to do there.
    instructions: str | UnsetType = UNSET


class ExtensionUiResponse(Answer, tag="extension_ui_response", kw_only=True):
    """The answer to an `extension_ui_request`: `value` to `select`, `input` and `editor`, `confirmed` to `confirm`, or
    `cancelled` to any of them. One without any of these counts as `cancelled`, and a response says what is wrong with it."""

    value: str | None = None
    confirmed: bool | None = None
    #: The question was dismissed.
    cancelled: bool | None = None
    #: With `cancelled`: because nobody answered it in time.
    timed_out: bool | None = None
