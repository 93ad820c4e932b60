"""Asks the user and shows things to the user, with `extension_ui_request` and `extension_ui_response`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from msgspec import UNSET

from fairlead.core.approval import Allow, ApprovalAnswer, ApprovalRequest, Deny
from fairlead.core.events import Event, UiPromptEnd, UiPromptKind, UiPromptStart
from fairlead.core.runtime import CancelToken, NotifyKind, Placement
from fairlead.errors import BadCommand
from fairlead.protocol.pi.frames import Frame
from fairlead.protocol.pi.host_requests import ExtensionUiRequest, ExtensionUiResponse, UiMethod
from fairlead.wire.pi.codec import decoded
from fairlead.wire.pi.profile import Profile
from fairlead.wire.questions import HostQuestion, Questions, Unanswered

FOR_SESSION = "Approve for session"
#: The options of an approval dialog. Any other answer counts as a denial.
APPROVALS: Mapping[str, ApprovalAnswer] = {
    "Approve": Allow(),
    FOR_SESSION: Allow(for_session=True),
    "Deny": Deny(),
}

#: The variable that turns on titles in profiles that send them on request, and the values that do so.
TITLE_SWITCH, ON = "PI_RPC_EMIT_TITLE", frozenset({"1", "true", "yes", "on"})


#: The longest timeout, in seconds, that the timers of hosts support (2^31 ms). Many fire immediately if it is longer.
LONGEST_TIMEOUT = 2**31 / 1000


class WireUi:
    """Implements `fairlead.core.runtime.Ui`. It emits an event when a dialog starts and when it ends."""

    def __init__(
        self,
        questions: Questions,
        send: Callable[[Frame], None],
        emit: Callable[[Event], None],
        profile: Profile,
        env: Mapping[str, str],
    ) -> None:
        self._questions = questions
        self._send = send
        self._emit = emit
        self._withdraw = _cancel if profile.withdraws_dialogs else None
        is_on = env.get(TITLE_SWITCH, "").strip().lower() in ON
        self._has_titles = profile.titles == "always" or (profile.titles == "on request" and is_on)

    @property
    def available(self) -> bool:
        return self._questions.can_be_asked

    # Asking

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        """Return the chosen option, or None. A host may also answer with another text."""
        return await self._ask("select", title, timeout, cancel, options=list(options))

    async def confirm(
        self, title: str, message: str = "", *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> bool:
        return bool(await self._ask("confirm", title, timeout, cancel, message=message))

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        return await self._ask("input", title, timeout, cancel, placeholder=placeholder)

    async def editor(self, title: str, prefill: str | None = None, *, cancel: CancelToken | None = None) -> str | None:
        return await self._ask("editor", title, None, cancel, prefill=prefill)

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> ApprovalAnswer | None:
        return await self._ask(
            "select",
            "\n\n".join(filter(None, (request.title, request.message, _coverage(request.scope)))),
            timeout,
            cancel,
            _approval,
            options=list(APPROVALS),
            approval=True,
            tool_name=request.tool_name,
            tool_call_id=request.call_id,
            arguments=request.arguments,
            diff=request.diff,
            subagent_id=request.subagent,
        )

    async def _ask(
        self,
        kind: UiPromptKind,
        title: str,
        timeout: float | None,
        cancel: CancelToken | None,
        read: Callable[[bytes], Any] | None = None,
        **fields: Any,
    ) -> Any:
        """Show a dialog, and return the answer, as `read` decodes it, or None."""
        read = read or partial(_answer, kind)
        cancel = cancel or CancelToken()
        if cancel.fired or not self.available:
            return None
        if timeout is not None and not timeout < LONGEST_TIMEOUT:  # infinite, or not a number
            timeout = None
        limit = None if timeout is None else max(1, round(timeout * 1000))
        question = HostQuestion(
            ask=lambda ident: _request(kind, ident, title=title, timeout=limit, **fields),
            withdraw=self._withdraw,
            answered_by="extension_ui_response",
            timeout=timeout,
            new_id=_new_id,
            check=read,
        )
        self._emit(UiPromptStart(kind, title))
        try:
            return read((await self._questions.ask(question, cancel)).body)
        except (Unanswered, BadCommand):
            return None
        finally:
            self._emit(UiPromptEnd(kind, title))

    # Showing

    def notify(self, message: str, kind: NotifyKind | None = None) -> None:
        self._show("notify", message=message, notify_type=kind)

    def set_status(self, key: str, text: str | None) -> None:
        self._show("setStatus", status_key=key, status_text=text)

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Placement | None = None) -> None:
        shown = None if lines is None else list(lines)
        self._show("setWidget", widget_key=key, widget_lines=shown, widget_placement=placement)

    def set_title(self, title: str) -> None:
        if self._has_titles:
            self._show("setTitle", title=title)

    def set_editor_text(self, text: str) -> None:
        self._show("set_editor_text", text=text)

    def open_url(self, url: str, instructions: str | None = None) -> None:
        self._show("open_url", url=url, instructions=instructions)

    def _show(self, method: UiMethod, **fields: Any) -> None:
        self._send(_request(method, _new_id(), **fields))


def _answer(kind: UiPromptKind, line: bytes) -> str | bool | None:
    """Decode the answer in a line. None if the user dismissed the dialog. Raises BadCommand if the answer is missing."""
    response = decoded(ExtensionUiResponse, line)
    if response.cancelled:
        return None
    field, answer = ("confirmed", response.confirmed) if kind == "confirm" else ("value", response.value)
    if answer is None:
        raise BadCommand(f"{field}: required, unless the question is cancelled; it counts as cancelled now")
    return answer


def _approval(line: bytes) -> ApprovalAnswer | None:
    """Decode the answer to an approval in a line. Only the exact text of an option that allows the call does so."""
    chosen = _answer("select", line)
    if chosen is None:
        return None
    response, answer = decoded(ExtensionUiResponse, line), APPROVALS.get(str(chosen), Deny())
    for_session = answer.for_session or response.for_session is True
    if isinstance(answer, Allow):
        return Allow(for_session, response.arguments)
    return Deny(response.reason or "", for_session)


def _coverage(scope: str) -> str:
    """Return what the option to approve for the session means. Hosts compare the text of the option itself."""
    return f'"{FOR_SESSION}" covers {scope}.' if scope else ""


def _request(method: UiMethod, ident: str, **fields: Any) -> ExtensionUiRequest:
    """Return the frame, without the fields that are None."""
    given = {name: UNSET if value is None else value for name, value in fields.items()}
    return ExtensionUiRequest(id=ident, method=method, **given)


def _cancel(ident: str, target: str) -> ExtensionUiRequest:
    return ExtensionUiRequest(id=ident, method="cancel", target_id=target)


def _new_id() -> str:
    return str(uuid4())
