"""What extensions send: to the session, later and in order; to the user, through `context.ui`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import Context
from typing import TYPE_CHECKING, Any

from fairlead.core.runtime import Cancel
from fairlead.core.ui import Approval, NotifyKind, Placement, Ui
from fairlead.extend.extensions.calling import Deadline
from fairlead.extend.extensions.values import check_types, converted

if TYPE_CHECKING:
    from fairlead.extend.extensions.engine import Engine


class WorkQueue:
    """Runs pieces of work one after another, in a task that exists while there is work. The work must not raise."""

    def __init__(self) -> None:
        self._pending: deque[Callable[[], Awaitable[None]]] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, work: Callable[[], Awaitable[None]]) -> None:
        self._pending.append(work)
        if self._task is None:
            # The work does not inherit the context variables of the caller.
            self._task = asyncio.get_running_loop().create_task(self._work(), context=Context())

    @property
    def busy(self) -> bool:
        return self._task is not None

    def runs_in(self, task: asyncio.Task[object] | None) -> bool:
        """Whether `task` is the one that runs the work."""
        return task is not None and task is self._task

    async def idle(self) -> None:
        """Wait until all work is done."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _work(self) -> None:
        try:
            while self._pending:
                await self._pending.popleft()()
        finally:
            self._task = None


class Outbox:
    """Work that takes time, such as starting a run. It is done in order, and extensions do not wait for it.

    What a command sends is held back until the command is done or waits for something. A host that sent the command thus gets the
    response before the events of a run that the command starts.
    """

    def __init__(self) -> None:
        self._held: list[Callable[[], Awaitable[None]]] = []
        self._holding = 0
        self._queue = WorkQueue()

    @property
    def is_empty(self) -> bool:
        return not self._held and not self._queue.busy

    def put(self, work: Callable[[], Awaitable[None]]) -> None:
        self._held.append(work)
        if not self._holding:
            self.send()

    def send(self) -> None:
        """Start all work that was held back."""
        held, self._held = self._held, []
        for work in held:
            self._queue.put(work)

    @contextmanager
    def held(self) -> Generator[None]:
        """Hold work back until `send` is called, or until the caller has sent its response."""
        self._holding += 1
        try:
            yield
        finally:
            self._holding -= 1
            # The caller sends its response in this same step of the event loop.
            asyncio.get_running_loop().call_soon(self.send)

    async def sent(self) -> None:
        """Start all work, and wait until it is done."""
        self.send()
        await self._queue.idle()


def run_without_waiting(work: Any) -> Any:
    """Return the result of a coroutine that never waits for anything. Raises RuntimeError if it does."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    work.close()
    raise RuntimeError("This cannot be done here, because it would have to wait.")


class ExtensionUi:
    """Implements `fairlead.core.ui.Ui`. Methods that show something work on every thread, those that ask on the agent's only."""

    def __init__(self, ui: Ui, deadline: Deadline, engine: Engine) -> None:
        self._ui = ui
        self._deadline = deadline
        self._engine = engine

    @property
    def available(self) -> bool:
        return self._ui.available

    # Asking

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: Cancel | None = None
    ) -> str | None:
        check_types(str, title=title)
        choices = converted(list[str], options, "options")
        with self._asking(timeout):
            return await self._ui.select(title, choices, timeout=timeout, cancel=cancel)

    async def confirm(self, title: str, message: str = "", *, timeout: float | None = None, cancel: Cancel | None = None) -> bool:
        check_types(str, title=title, message=message)
        with self._asking(timeout):
            return await self._ui.confirm(title, message, timeout=timeout, cancel=cancel)

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: Cancel | None = None
    ) -> str | None:
        check_types(str, title=title)
        check_types(str | None, placeholder=placeholder)
        with self._asking(timeout):
            return await self._ui.input(title, placeholder, timeout=timeout, cancel=cancel)

    async def editor(self, title: str, prefill: str | None = None, *, cancel: Cancel | None = None) -> str | None:
        check_types(str, title=title)
        check_types(str | None, prefill=prefill)
        with self._asking():
            return await self._ui.editor(title, prefill, cancel=cancel)

    async def approve(
        self, title: str, message: str, *, timeout: float | None = None, cancel: Cancel | None = None
    ) -> Approval | None:
        check_types(str, title=title, message=message)
        with self._asking(timeout):
            return await self._ui.approve(title, message, timeout=timeout, cancel=cancel)

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
        shown = converted(list[str] | None, lines, "lines")
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
