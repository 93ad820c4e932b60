"""How the engine and extensions ask and inform the user of the chat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from fairlead import Allow, ApprovalRequest, CancelToken, Deny, NoUi
from fairlead.chat.approval_dialog import Approval
from fairlead.chat.dialogs import Ask, Choice, Confirm, Dialog, EditorDialog, Picker
from fairlead.chat.view.panels import Proposal
from fairlead.events import Event, UiPromptEnd, UiPromptKind, UiPromptStart

T = TypeVar("T")


class Stage(Protocol):
    """The part of the chat that shows things."""

    async def ask(self, dialog: Dialog[T]) -> T | None:
        """Show a dialog in place of the editor, after those that wait already, and return the answer."""
        ...

    def note(self, text: str, role: str = "dim") -> None: ...

    def propose(self, request: ApprovalRequest, *, is_whole: bool = False) -> Proposal:
        """Show what a call would do above the question whether it may run. With `is_whole`, leave out nothing."""
        ...

    def set_editor_text(self, text: str) -> None: ...

    def set_title(self, title: str) -> None: ...

    def touch(self) -> None:
        """Draw again soon."""
        ...

    def stop(self) -> None:
        """Abort the run."""
        ...


_ROLES = {"info": "dim", "warning": "warning", "error": "error"}


class ChatUi(NoUi):
    """Implements `fairlead.Ui` for the chat.

    Attributes:
        statuses: Short texts of extensions for the footer, by key.
        above, below: Lines of extensions above and below the editor, by key.
    """

    available = True

    def __init__(self, stage: Stage, notify: Callable[[Event], None]) -> None:
        self._stage = stage
        self._notify = notify
        self.statuses: dict[str, str] = {}
        self.above: dict[str, list[str]] = {}
        self.below: dict[str, list[str]] = {}

    # Questions

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        picker = Picker(title, [Choice(option, option) for option in options], filtered=len(options) > 9)
        return await self._ask_user("select", picker, timeout, cancel)

    async def confirm(
        self, title: str, message: str = "", *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> bool:
        return bool(await self._ask_user("confirm", Confirm(title, message), timeout, cancel))

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        return await self._ask_user("input", Ask(title, placeholder or ""), timeout, cancel)

    async def editor(self, title: str, prefill: str | None = None, *, cancel: CancelToken | None = None) -> str | None:
        return await self._ask_user("editor", EditorDialog(title, prefill or ""), None, cancel)

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> Allow | Deny | None:
        return await self._show_dialog(Approval(request, self._stage.propose, self._stage.stop), timeout, cancel)

    async def _ask_user(
        self, kind: UiPromptKind, dialog: Dialog[T], timeout: float | None, cancel: CancelToken | None
    ) -> T | None:
        self._notify(UiPromptStart(kind, dialog.title))
        try:
            return await self._show_dialog(dialog, timeout, cancel)
        finally:
            self._notify(UiPromptEnd(kind, dialog.title))

    async def _show_dialog(self, dialog: Dialog[T], timeout: float | None, cancel: CancelToken | None) -> T | None:
        """Show a dialog until it is answered, its time is over, or the run is aborted."""
        timer = None if timeout is None else asyncio.get_running_loop().call_later(timeout, dialog.finish, None)
        forget: Callable[[], object] = lambda: None  # noqa: E731
        if cancel is not None:
            forget = cancel.on_fire(lambda: dialog.finish(None))
        try:
            return await self._stage.ask(dialog)
        finally:
            forget()
            if timer is not None:
                timer.cancel()

    # Information

    def notify(self, message: str, kind: Any = None) -> None:
        self._stage.note(message, _ROLES.get(kind or "info", "dim"))

    def set_status(self, key: str, text: str | None) -> None:
        _put(self.statuses, key, text)
        self._stage.touch()

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Any = None) -> None:
        self.above.pop(key, None)
        self.below.pop(key, None)
        _put(self.below if placement == "belowEditor" else self.above, key, None if lines is None else list(lines))
        self._stage.touch()

    def set_title(self, title: str) -> None:
        self._stage.set_title(title)

    def set_editor_text(self, text: str) -> None:
        self._stage.set_editor_text(text)

    def open_url(self, url: str, instructions: str | None = None) -> None:
        self._stage.note(f"{instructions or 'Open this page:'} {url}", "accent")


def _put(values: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
