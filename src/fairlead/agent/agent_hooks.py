"""Calls functions of the program that uses the library: its `Hooks`, and `on_approval`."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from fairlead.core.approval import Allow, ApprovalAnswer, ApprovalRequest, Deny
from fairlead.core.events import Event
from fairlead.core.runtime import CancelToken
from fairlead.platform.process import run_in_thread
from fairlead.session.session_events import report

if TYPE_CHECKING:
    from fairlead.agent.options import Hooks, OnApproval
    from fairlead.session.session import Session

#: How many events may wait for `Hooks.on_event` before the run waits for it.
MOST_WAITING = 256
#: Seconds that `on_event` has for the events that still wait when the agent is closed.
LAST_EVENTS = 1.0


def handlers(hooks: Hooks) -> dict[str, Callable[[Any], Awaitable[Any]]]:
    """Return the hooks that are handlers of the extension events with these names."""
    named = {"tool_call": hooks.before_tool, "tool_result": hooks.after_tool, "input": hooks.before_prompt}
    return {name: _isolate(function) for name, function in named.items() if function is not None}


def _isolate(function: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:
    """Return a coroutine function that calls a hook in its own task or thread.

    Code of extensions is watched step by step, and what it prints goes to stderr. The program's own code is left alone.
    """

    async def call(event: Any) -> Any:
        return await asyncio.ensure_future(call_function(function, event))

    return call


async def call_function(function: Callable[[Any], Any], given: Any) -> Any:
    """Call a function of the program with one value: a coroutine function on the event loop, a plain one on a thread."""
    if iscoroutinefunction(function):
        return await function(given)

    value = await run_in_thread(lambda: function(given), "fairlead-hook")
    return await value if inspect.isawaitable(value) else value


class ProgramApprover:
    """Asks `on_approval` instead of the user, a plain function about one call at a time. Implements
    `fairlead.core.approval.Asker`."""

    available = True

    def __init__(self, function: OnApproval) -> None:
        self._function: Callable[[ApprovalRequest], Any] = function
        #: Held while a plain function runs, also by a call that was aborted meanwhile.
        self._turn = asyncio.Lock()

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> ApprovalAnswer | None:
        """Return the answer of the program; None if it has none, or none in time. Raises what it raises, and TypeError."""
        try:
            if not iscoroutinefunction(self._function):
                async with asyncio.timeout(timeout):
                    await self._turn.acquire()
        except TimeoutError:
            return None
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                answer = await self._call(request)
        except TimeoutError:
            if limit.expired():
                return None
            raise
        if isinstance(answer, bool):
            return Allow() if answer else Deny()
        if isinstance(answer, Deny) and not isinstance(answer.reason, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"on_approval must return a Deny whose reason is a string, not {type(answer.reason).__name__}.")
        if answer is None or isinstance(answer, Allow | Deny):
            return answer
        raise TypeError(f"on_approval must return Allow, Deny, True, False or None, not {type(answer).__name__}.")

    async def _call(self, request: ApprovalRequest) -> Any:
        """Call the function. A plain one has its turn until it returns, even if no caller waits for it any more."""
        if iscoroutinefunction(self._function):
            return await self._function(request)
        loop = asyncio.get_running_loop()

        def decide(request: ApprovalRequest) -> Any:
            try:
                return self._function(request)
            finally:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._turn.release)

        return await call_function(decide, request)


class EventFeed:
    """Passes the events of a session to `Hooks.on_event`, in order. Implements `fairlead.session.session_events.Gate`."""

    def __init__(self, function: Callable[[Event], object], timeout: float) -> None:
        self._function: Callable[[Event], Any] = function
        self._is_async = iscoroutinefunction(function)
        self._timeout = timeout
        self._waiting: deque[Event] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._room = asyncio.Event()

    def attach(self, session: Session) -> None:
        """Follow a session."""
        if self._is_async:
            session.subscribe(self._put, gate=self)
        else:
            session.subscribe(self._function)

    @property
    def paused(self) -> bool:
        return len(self._waiting) > MOST_WAITING

    async def wait(self, cancel: CancelToken) -> None:
        forget = cancel.on_fire(self._room.set)
        try:
            while self.paused and not cancel.fired:
                self._room.clear()
                await self._room.wait()
        finally:
            forget()

    async def close(self) -> None:
        """Wait for the events that have happened, but not for long."""
        if self._worker is not None:
            await asyncio.wait([self._worker], timeout=LAST_EVENTS)
            self._worker.cancel()

    def _put(self, event: Event) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # a program changes something between two runs: without a loop, no coroutine can run
            return
        self._waiting.append(event)
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work(), name="fairlead-events")

    async def _work(self) -> None:
        while self._waiting:
            try:
                async with asyncio.timeout(self._timeout):
                    await self._function(self._waiting.popleft())
            except Exception as error:  # a bug of the program must not end the run
                report(error)
            if not self.paused:
                self._room.set()
