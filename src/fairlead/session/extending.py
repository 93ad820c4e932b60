"""How a session asks its hooks: once they are ready, no longer than until an abort, and for nothing that nobody listens to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeVar

from fairlead.core.events import Event
from fairlead.core.loop import AfterCall, BeforeCall
from fairlead.core.messages import ToolCall
from fairlead.core.model import ModelStream, Request
from fairlead.core.runtime import Cancel, Interrupted
from fairlead.core.tool import Tool, ToolResult
from fairlead.errors import RunAborted
from fairlead.session.hooks import EVENT_NAMES, CallHooks, Hooks, LateHooks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fairlead.core.model import StreamEvent
    from fairlead.session.session import Session

T = TypeVar("T")

#: Seconds that extensions have to hear of an event after the run was aborted, and of the end of the session at its end.
LAST_WORDS = 0.2
FAREWELL = 0.2

#: Whether this code runs because a session asks something: it must not wait for the answer itself.
_asked: ContextVar[bool] = ContextVar("fairlead-asked", default=False)


def is_inside() -> bool:
    """Whether whoever calls was called by a hook."""
    return _asked.get()


class Extending:
    """The hooks of one session, which are None until they are ready."""

    def __init__(self, session: Session, late: LateHooks, hooks: Hooks | None = None) -> None:
        self.hooks = hooks
        self._session = session
        self._late = late
        self._greeting: asyncio.Task[Hooks] | None = None
        #: Stop the questions that are open and belong to no run.
        self._stops: set[Cancel] = set()

    async def ready(self) -> Hooks:
        """The hooks, once they are loaded and know of the session."""
        if self.hooks is not None and (self._greeting is None or is_inside()):
            return self.hooks
        # Whoever is no longer interested does not keep the others from it.
        return await asyncio.shield(self._greeting or self._begin(self._greet()))

    async def renew(self, load: Callable[[], Awaitable[object]]) -> None:
        """Have the hooks load everything anew. Whoever needs them meanwhile waits: they do not know their own commands then."""
        hooks = await self.ready()

        async def renewed() -> Hooks:
            await load()
            return hooks

        await asyncio.shield(self._begin(renewed()))

    def _begin(self, work: Coroutine[Any, Any, Hooks]) -> asyncio.Task[Hooks]:
        token = _asked.set(True)
        self._greeting = asyncio.create_task(work, name="fairlead-hooks")
        _asked.reset(token)
        self._greeting.add_done_callback(self._greeted)
        return self._greeting

    def _greeted(self, task: asyncio.Task[Hooks]) -> None:
        self._greeting = None
        if not task.cancelled():
            task.exception()  # whoever waited for it has it, too

    async def ready_or_stopped(self) -> Hooks:
        """The same. Raises RunAborted once the session is told to stop."""
        if self.hooks is not None and self._greeting is None:
            return self.hooks
        stop = Cancel()
        self._stops.add(stop)
        try:
            return await self._session.runtime.bounded(self.ready(), stop, timeout=None, grace=0)
        except Interrupted:
            raise RunAborted("Aborted while extensions were being loaded.") from None
        finally:
            self._stops.discard(stop)

    async def ask(self, work: Awaitable[T], cancel: Cancel | None = None, *, grace: float = 0) -> T:
        """The answer to a question. Raises Interrupted once `cancel` has fired; without one, once the session is told to stop."""
        stop = cancel or Cancel()
        if cancel is None:
            self._stops.add(stop)
        token = _asked.set(True)
        try:
            return await self._session.runtime.bounded(work, stop, timeout=None, grace=grace)
        finally:
            _asked.reset(token)
            self._stops.discard(stop)

    def cancel(self) -> None:
        """Wait for no answer any more."""
        for stop in list(self._stops):
            stop.fire()

    # Telling

    async def hear(self, event: Event, cancel: Cancel) -> None:
        """Tell of something that the run waits to go on from."""
        if self.hooks is not None and _is_wanted(self.hooks, event):
            with suppress(Interrupted):
                await self.ask(self.hooks.hear(event), cancel, grace=LAST_WORDS)

    def overhear(self, event: Event) -> None:
        """Tell of something that nobody can wait for."""
        if self.hooks is not None and _is_wanted(self.hooks, event):
            self.hooks.overhear(event)

    async def farewell(self) -> None:
        """The session ends. If the hooks are not ready by now, they will not be."""
        if self.hooks is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL):
                    await self.hooks.session_ends("quit")

    # Asking a model

    async def change(self, request: Request, cancel: Cancel) -> None:
        """Have the model told what extensions want it to be told. Of messages that they do not change, the adapter keeps the
        encoding. After an abort it is not told anything any more."""
        hooks = self.hooks
        if hooks is None or not (hooks.wants("context") or hooks.wants("context_with_system")):
            return
        with suppress(Interrupted):
            told = await self.ask(hooks.context(request.messages, request.system_prompt), cancel)
            request.messages, request.system_prompt = told

    def intercepted(self, stream: ModelStream) -> ModelStream:
        """A way to ask a model in which somebody may step in between it and its provider."""
        interceptor = None if self.hooks is None else self.hooks.interceptor
        if interceptor is None:
            return stream

        def asked(request: Request, cancel: Cancel) -> AsyncIterator[list[StreamEvent]]:
            request.interceptor = interceptor
            return stream(request, cancel)

        return asked

    # Inside

    async def _greet(self) -> Hooks:
        self.hooks = hooks = await self._late.ready()
        await hooks.session_started("startup")
        return hooks


def _is_wanted(hooks: Hooks, event: Event) -> bool:
    """Whether anybody listens to events of this kind."""
    return any(hooks.wants(name) for name in EVENT_NAMES.get(type(event), ()))


def before_call(hooks: CallHooks) -> BeforeCall:
    """What a run asks before each tool call."""

    def ask(tool: Tool, call: ToolCall, arguments: dict[str, Any]) -> Awaitable[dict[str, Any]] | None:
        if not hooks.wants("tool_call"):
            return None
        # The message of the model's stays as it is, whatever becomes of its arguments.
        return _from_hook(hooks.tool_call(tool.name, call.id, deepcopy(arguments)))

    return ask


def after_call(hooks: CallHooks) -> AfterCall:
    """What a run asks after each tool call."""

    def ask(
        tool: Tool, call: ToolCall, arguments: dict[str, Any], result: ToolResult, is_error: bool
    ) -> Awaitable[tuple[ToolResult, bool]] | None:
        if not hooks.wants("tool_result"):
            return None
        return _from_hook(hooks.tool_result(tool.name, call.id, arguments, result, is_error))

    return ask


async def _from_hook(work: Awaitable[T]) -> T:
    token = _asked.set(True)
    try:
        return await work
    finally:
        _asked.reset(token)
