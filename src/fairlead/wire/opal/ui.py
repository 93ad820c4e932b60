"""Asking and telling the person behind an Opal client: approvals, texts and questions as requests, everything else as a
status."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fairlead.core.runtime import Cancel
from fairlead.core.ui import Approval, NotifyKind, Placement
from fairlead.protocol.opal import server_requests as asked
from fairlead.wire.opal.requests import ServerRequests
from fairlead.wire.questions import Unanswered

#: Seconds to wait for a consent or a text, where nobody says how long. Questions of the model's wait for as long as it takes.
DEFAULT_TIMEOUT = 30.0

#: What a person may say to a tool. Whatever else a client answers is no consent.
ACTIONS: Mapping[str, Approval] = {"allow": "allow", "deny": "deny", "allow_session": "allow_session"}


class OpalUi:
    """Implements `fairlead.core.ui.Ui` for one session. `show` tells of a status."""

    def __init__(self, session_id: str, requests: ServerRequests, show: Callable[[str], None]) -> None:
        self._session_id = session_id
        self._requests = requests
        self._show = show

    @property
    def available(self) -> bool:
        return self._requests.can_be_asked

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: Cancel | None = None
    ) -> str | None:
        """What was chosen. A client may also answer with a text of its own; without options it has to."""
        request = asked.AskUser(session_id=self._session_id, question=title, choices=list(options))
        try:
            return (await self._requests.request(request, asked.UserAnswer, timeout=timeout, cancel=cancel)).answer
        except Unanswered:
            return None

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: Cancel | None = None
    ) -> str | None:
        request = asked.Input(session_id=self._session_id, prompt=title, sensitive=False)
        try:
            answer = await self._requests.request(request, asked.InputText, timeout=timeout or DEFAULT_TIMEOUT, cancel=cancel)
        except Unanswered:
            return None
        return answer.text

    async def editor(self, title: str, prefill: str | None = None, *, cancel: Cancel | None = None) -> str | None:
        return await self.input(title, prefill, cancel=cancel)

    async def confirm(self, title: str, message: str = "", *, timeout: float | None = None, cancel: Cancel | None = None) -> bool:
        return await self._confirm(title, message, ("allow", "deny"), timeout, cancel) == "allow"

    async def approve(
        self, title: str, message: str, *, timeout: float | None = None, cancel: Cancel | None = None
    ) -> Approval | None:
        action = await self._confirm(title, message, tuple(ACTIONS), timeout, cancel)
        return None if action is None else ACTIONS.get(action, "deny")

    async def _confirm(
        self, title: str, message: str, actions: Sequence[str], timeout: float | None, cancel: Cancel | None
    ) -> str | None:
        request = asked.Confirm(session_id=self._session_id, title=title, message=message, actions=list(actions))
        try:
            return (
                await self._requests.request(request, asked.Confirmation, timeout=timeout or DEFAULT_TIMEOUT, cancel=cancel)
            ).action
        except Unanswered:
            return None

    # Showing

    def notify(self, message: str, kind: NotifyKind | None = None) -> None:
        self._show(message)

    def set_status(self, key: str, text: str | None) -> None:
        if text:
            self._show(text)

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Placement | None = None) -> None:
        """The dialect has no place for it."""

    def set_title(self, title: str) -> None:
        """The dialect has no place for it."""

    def set_editor_text(self, text: str) -> None:
        """The dialect has no place for it."""

    def open_url(self, url: str, instructions: str | None = None) -> None:
        self._show(f"{instructions} {url}" if instructions else url)
