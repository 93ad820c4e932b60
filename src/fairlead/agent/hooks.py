"""Hooks of the program that uses the library: its own code around tool calls and prompts, and for events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec import Struct

from fairlead.core.events import Event
from fairlead.core.runtime import CancelToken
from fairlead.session.events import report

if TYPE_CHECKING:
    from fairlead.extend.extensions.events import Amend, Block, Handled, Input, ToolCallEvent, ToolResultEvent, Transform
    from fairlead.session.session import Session

T = TypeVar("T")
#: What a hook returns: a value, from a plain function or from a coroutine function.
Returned: TypeAlias = T | Awaitable[T]

#: How many events may wait for `Hooks.on_event` before the run waits for it.
MOST_WAITING = 256
#: Seconds that `on_event` has for the events that still wait when the agent is closed.
LAST_EVENTS = 1.0


class Hooks(Struct, frozen=True, kw_only=True):
    """Functions of the program that an agent calls. Each may be a plain or a coroutine function.

    The first three get the values that handlers of extensions get, and return the same; see `fairlead.extension`. They come after
    all extensions, so that they see what really happens, and they also cover the tool calls of sub-agents. A plain function runs
    on a thread and may block. A hook that raises, or that takes longer than the setting `extensionTimeoutSeconds`, stops what it
    was asked about: the tool does not run, its result is replaced by the error, and the prompt raises the error.
    """

    #: Called before a tool runs. `Block(reason)` prevents that. Changes to `event.arguments` apply, after another check against
    #: the tool's schema. Approvals come later, and see the changed arguments.
    before_tool: Callable[[ToolCallEvent], Returned[Block | None]] | None = None
    #: Called with the result of each tool that ran. `Amend` changes it.
    after_tool: Callable[[ToolResultEvent], Returned[Amend | None]] | None = None
    #: Called with each message of the user. `Transform` changes it. `Handled()` drops it: no run starts.
    before_prompt: Callable[[Input], Returned[Transform | Handled | None]] | None = None
    #: Called with each event, in order. A plain function runs on the event loop, while the agent waits, and must not block. A
    #: coroutine function runs beside the agent, which waits only when too many events have piled up. What it raises is logged.
    on_event: Callable[[Event], Returned[object]] | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise TypeError(f"hooks: {name}: expected a function or None, found {value!r}.")

    def handlers(self) -> dict[str, Callable[[Any], Awaitable[Any]]]:
        """Return the hooks that are handlers of the extension events with these names."""
        named = {"tool_call": self.before_tool, "tool_result": self.after_tool, "input": self.before_prompt}
        return {name: _isolated(function) for name, function in named.items() if function is not None}


def _isolated(function: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:
    """Return a coroutine function that calls a hook in a task or on a thread of its own.

    Code of extensions is watched step by step, and what it prints goes to stderr. The program's own code is left alone.
    """

    async def call(event: Any) -> Any:
        return await asyncio.ensure_future(called(function, event))

    return call


async def called(function: Callable[[Any], Any], given: Any) -> Any:
    """Call a function of the program with one value: a coroutine function on the event loop, a plain one on a thread."""
    if iscoroutinefunction(function):
        return await function(given)
    from inspect import isawaitable

    from fairlead.config.process import run_in_thread

    value = await run_in_thread(lambda: function(given), "fairlead-hook")
    return await value if isawaitable(value) else value


class EventFeed:
    """Passes the events of a session to `Hooks.on_event`, in order. Implements `fairlead.session.events.Gate`."""

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
