"""Asking and telling the person behind the host, in words that no dialect owns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from fairlead.core.runtime import Cancel

#: What a person says to something that needs their consent.
Approval: TypeAlias = Literal["allow", "allow_session", "deny"]
NotifyKind: TypeAlias = Literal["info", "warning", "error"]
Placement: TypeAlias = Literal["aboveEditor", "belowEditor"]


class Ui(Protocol):
    """What a host can show and ask. Asking never raises: no answer in time, a dismissal, an abort (`cancel`) or a host that
    has left all give the answer that changes nothing: None, or False. A `timeout` is in seconds; None waits for ever."""

    @property
    def available(self) -> bool:
        """Whether anybody can answer at all."""
        ...

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: Cancel | None = None
    ) -> str | None: ...

    async def confirm(
        self, title: str, message: str = "", *, timeout: float | None = None, cancel: Cancel | None = None
    ) -> bool: ...

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: Cancel | None = None
    ) -> str | None: ...

    async def editor(self, title: str, prefill: str | None = None, *, cancel: Cancel | None = None) -> str | None: ...

    async def approve(
        self, title: str, message: str, *, timeout: float | None = None, cancel: Cancel | None = None
    ) -> Approval | None:
        """Whether a tool may run; None: nobody said."""
        ...

    def notify(self, message: str, kind: NotifyKind | None = None) -> None: ...

    def set_status(self, key: str, text: str | None) -> None: ...

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Placement | None = None) -> None: ...

    def set_title(self, title: str) -> None: ...

    def set_editor_text(self, text: str) -> None: ...

    def open_url(self, url: str, instructions: str | None = None) -> None: ...


class NoUi:
    """Nobody is there: what is shown is dropped, and every question has the answer that changes nothing."""

    available = False

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: Cancel | None = None
    ) -> str | None:
        return None

    async def confirm(self, title: str, message: str = "", *, timeout: float | None = None, cancel: Cancel | None = None) -> bool:
        return False

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: Cancel | None = None
    ) -> str | None:
        return None

    async def editor(self, title: str, prefill: str | None = None, *, cancel: Cancel | None = None) -> str | None:
        return None

    async def approve(
        self, title: str, message: str, *, timeout: float | None = None, cancel: Cancel | None = None
    ) -> Approval | None:
        return None

    def notify(self, message: str, kind: NotifyKind | None = None) -> None: ...

    def set_status(self, key: str, text: str | None) -> None: ...

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Placement | None = None) -> None: ...

    def set_title(self, title: str) -> None: ...

    def set_editor_text(self, text: str) -> None: ...

    def open_url(self, url: str, instructions: str | None = None) -> None: ...
