"""How the agent asks the user and shows something, independent of the dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from fairlead.core.runtime import CancelToken

#: The user's answer to a call that needs approval.
Approval: TypeAlias = Literal["allow", "allow_session", "deny"]
NotifyKind: TypeAlias = Literal["info", "warning", "error"]
Placement: TypeAlias = Literal["aboveEditor", "belowEditor"]


class Ui(Protocol):
    """What a host can show and ask.

    Asking never raises. Without an answer (after a timeout, a dismissal or an abort, or when the host has left), it returns the
    value that changes nothing: None or False. `timeout` is in seconds; None waits forever."""

    @property
    def available(self) -> bool:
        """Whether there is a user who can answer."""
        ...

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None: ...

    async def confirm(
        self, title: str, message: str = "", *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> bool: ...

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None: ...

    async def editor(self, title: str, prefill: str | None = None, *, cancel: CancelToken | None = None) -> str | None: ...

    async def approve(
        self, title: str, message: str, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> Approval | None:
        """Ask whether a tool may run; None if there was no answer."""
        ...

    def notify(self, message: str, kind: NotifyKind | None = None) -> None: ...

    def set_status(self, key: str, text: str | None) -> None: ...

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Placement | None = None) -> None: ...

    def set_title(self, title: str) -> None: ...

    def set_editor_text(self, text: str) -> None: ...

    def open_url(self, url: str, instructions: str | None = None) -> None: ...


class NoUi:
    """For a session without a user: shows nothing, and answers every question with the value that changes nothing."""

    available = False

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        return None

    async def confirm(
        self, title: str, message: str = "", *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> bool:
        return False

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        return None

    async def editor(self, title: str, prefill: str | None = None, *, cancel: CancelToken | None = None) -> str | None:
        return None

    async def approve(
        self, title: str, message: str, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> Approval | None:
        return None

    def notify(self, message: str, kind: NotifyKind | None = None) -> None: ...

    def set_status(self, key: str, text: str | None) -> None: ...

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Placement | None = None) -> None: ...

    def set_title(self, title: str) -> None: ...

    def set_editor_text(self, text: str) -> None: ...

    def open_url(self, url: str, instructions: str | None = None) -> None: ...
