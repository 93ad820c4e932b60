"""`context.ui`: how extensions ask the user questions and show them messages."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairlead.core.approval import ApprovalAnswer, ApprovalRequest
from fairlead.core.runtime import CancelToken, Canvas, NotifyKind, Placement, Ui
from fairlead.extend.extensions.calling import Deadline
from fairlead.extend.extensions.values import check_types, convert

if TYPE_CHECKING:
    from fairlead.extend.extensions.engine import Engine


class ExtensionUi:
    """Implements `fairlead.core.runtime.Ui`. Methods that show work on every thread, those that ask on the agent's only."""

    def __init__(self, ui: Ui, deadline: Deadline, engine: Engine) -> None:
        self._ui = ui
        self._deadline = deadline
        self._engine = engine

    @property
    def available(self) -> bool:
        return self._ui.available

    @property
    def canvas(self) -> Canvas | None:
        return self._ui.canvas

    # Asking

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        check_types(str, title=title)
        choices = convert(list[str], options, "options")
        with self._asking(timeout):
            return await self._ui.select(title, choices, timeout=timeout, cancel=cancel)

    async def confirm(
        self, title: str, message: str = "", *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> bool:
        check_types(str, title=title, message=message)
        with self._asking(timeout):
            return await self._ui.confirm(title, message, timeout=timeout, cancel=cancel)

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        check_types(str, title=title)
        check_types(str | None, placeholder=placeholder)
        with self._asking(timeout):
            return await self._ui.input(title, placeholder, timeout=timeout, cancel=cancel)

    async def editor(self, title: str, prefill: str | None = None, *, cancel: CancelToken | None = None) -> str | None:
        check_types(str, title=title)
        check_types(str | None, prefill=prefill)
        with self._asking():
            return await self._ui.editor(title, prefill, cancel=cancel)

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> ApprovalAnswer | None:
        checked = convert(ApprovalRequest, request, "request")
        with self._asking(timeout):
            return await self._ui.approve(checked, timeout=timeout, cancel=cancel)

    @contextmanager
    def _asking(self, timeout: float | None = None) -> Generator[None]:
        check_types(float | None, timeout=timeout)
        self._engine.require_agent_thread()
        with self._deadline.paused():
            yield

    # Showing

    def notify(self, message: str, kind: NotifyKind | None = None) -> None:
        check_types(str, message=message)
        check_types(NotifyKind | None, kind=kind)
        self._show(lambda: self._ui.notify(message, kind))

    def set_status(self, key: str, text: str | None) -> None:
        check_types(str, key=key)
        check_types(str | None, text=text)
        self._show(lambda: self._ui.set_status(key, text))

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Placement | None = None) -> None:
        check_types(str, key=key)
        check_types(Placement | None, placement=placement)
        shown = convert(list[str] | None, lines, "lines")
        self._show(lambda: self._ui.set_widget(key, shown, placement))

    def set_title(self, title: str) -> None:
        check_types(str, title=title)
        self._show(lambda: self._ui.set_title(title))

    def set_editor_text(self, text: str) -> None:
        check_types(str, text=text)
        self._show(lambda: self._ui.set_editor_text(text))

    def open_url(self, url: str, instructions: str | None = None) -> None:
        check_types(str, url=url)
        check_types(str | None, instructions=instructions)
        self._show(lambda: self._ui.open_url(url, instructions))

    def _show(self, work: Callable[[], None]) -> None:
        self._engine.run_on_agent_thread(work)
