"""How a session calls its hooks: once they are loaded, until an abort at the latest, and only if an extension listens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeVar

from fairlead.core.calls.execution import NestedCall
from fairlead.core.events import Event
from fairlead.core.loop import AfterCall, BeforeCall
from fairlead.core.messages import Message, ToolCall
from fairlead.core.model import ModelRequest, ModelStream
from fairlead.core.runtime import CancelToken, Interrupted
from fairlead.core.tool import Tool, ToolResult
from fairlead.errors import RunAborted
from fairlead.session.hooks import EVENT_NAMES, CallHooks, Hooks, LateHooks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fairlead.core.model import StreamEvent
    from fairlead.session.asyncio_runtime import AsyncioRuntime

T = TypeVar("T")

#: Seconds that extensions have to handle an event after the run was aborted, and the end of the session.
EVENT_GRACE = 0.2
SHUTDOWN_GRACE = 0.2

#: Whether a hook of a session runs this code. It must not wait for its own answer.
_asked: ContextVar[bool] = ContextVar("fairlead-asked", default=False)


def is_inside() -> bool:
    """Whether a hook runs this code."""
    return _asked.get()


class HookCalls:
    """Calls the hooks of one session. `hooks` is None until they are loaded."""

    def __init__(
        self,
        runtime: AsyncioRuntime,
        late: LateHooks,
        hooks: Hooks | None = None,
        on_load: Callable[[], None] = lambda: None,
    ) -> None:
        self.hooks = hooks
        self._runtime = runtime
        self._late = late
        #: Called when the hooks have loaded, and when they have loaded again.
        self._on_load = on_load
        self._loading: asyncio.Task[Hooks] | None = None
        #: Stop the open questions that belong to no run.
        self._stops: set[CancelToken] = set()

    async def ready(self) -> Hooks:
        """Load the hooks and tell them that the session has begun. Returns them."""
        if self.hooks is not None and (self._loading is None or is_inside()):
            return self.hooks
        # A caller that is cancelled must not cancel it for the others.
        return await asyncio.shield(self._loading or self._begin(self._load()))

    async def reload(self, load: Callable[[], Awaitable[object]]) -> None:
        """Have the hooks load everything again. Whatever needs them meanwhile waits: they do not know their own commands then.

        If that fails, the hooks count as not loaded: what needs them gets the error.
        """
        hooks = await self.ready()

        async def reload_hooks() -> Hooks:
            try:
                await load()
            except BaseException:
                self.hooks = None
                raise
            return hooks

        await asyncio.shield(self._begin(reload_hooks()))

    def _begin(self, work: Coroutine[Any, Any, Hooks]) -> asyncio.Task[Hooks]:
        token = _asked.set(True)
        self._loading = asyncio.create_task(work, name="fairlead-hooks")
        _asked.reset(token)
        self._loading.add_done_callback(self._on_load_end)
        return self._loading

    def _on_load_end(self, task: asyncio.Task[Hooks]) -> None:
        self._loading = None
        # The callers that waited for it get its error.
        if not task.cancelled() and task.exception() is None:
            self._on_load()

    async def ready_or_stopped(self) -> Hooks:
        """Do what `ready` does, but raise RunAborted when the session is cancelled."""
        if self.hooks is not None and self._loading is None:
            return self.hooks
        stop = CancelToken()
        self._stops.add(stop)
        try:
            return await self._runtime.run_bounded(self.ready(), stop, timeout=None, grace=0)
        except Interrupted:
            raise RunAborted("Aborted while extensions were being loaded.") from None
        finally:
            self._stops.discard(stop)

    async def ask(self, work: Awaitable[T], cancel: CancelToken | None = None, *, grace: float = 0) -> T:
        """The answer to a question. Raises Interrupted when `cancel` fires; without one, when the session is cancelled."""
        stop = cancel or CancelToken()
        if cancel is None:
            self._stops.add(stop)
        token = _asked.set(True)
        try:
            return await self._runtime.run_bounded(work, stop, timeout=None, grace=grace)
        finally:
            _asked.reset(token)
            self._stops.discard(stop)

    def cancel(self) -> None:
        """Stop waiting for answers that belong to no run."""
        for stop in list(self._stops):
            stop.fire()

    # Events

    async def emit(self, event: Event, cancel: CancelToken) -> None:
        """Have extensions handle an event before the run continues."""
        if self.hooks is not None and self.wants(event):
            with suppress(Interrupted):
                await self.ask(self.hooks.emit(event), cancel, grace=EVENT_GRACE)

    def notify(self, event: Event, then: Callable[[], None] | None = None) -> None:
        """Pass an event on to extensions without waiting for them. `then` is called when they have handled it."""
        if self.hooks is not None and self.wants(event):
            self.hooks.notify(event, then)
        elif then is not None:
            then()

    def wants(self, event: Event) -> bool:
        """Whether an extension listens to events of this kind."""
        return self.hooks is not None and any(self.hooks.wants(name) for name in EVENT_NAMES.get(type(event), ()))

    async def message_ended(self, message: Message, cancel: CancelToken) -> Message:
        """The message to keep instead of one that has ended. After an abort it stays as it is."""
        if self.hooks is not None and self.hooks.wants("message_end"):
            with suppress(Interrupted):
                return await self.ask(self.hooks.message_ended(message), cancel, grace=EVENT_GRACE)
        return message

    async def close(self) -> None:
        """Tell extensions that the session ends. Hooks that have not been loaded by now will not be."""
        if self.hooks is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(SHUTDOWN_GRACE):
                    await self.hooks.session_ends("quit")

    # Asking a model

    async def prepare_tools(self, cancel: CancelToken) -> None:
        """Let tools of extensions choose how the tools are declared to the model. After an abort that stays as it is."""
        if self.hooks is not None and self.hooks.presents_tools:
            with suppress(Interrupted):
                await self.ask(self.hooks.present_tools(), cancel)

    async def change(self, request: ModelRequest, cancel: CancelToken) -> None:
        """Let extensions change what is sent to the model. The adapter keeps the encoding of messages that they do not change.
        After an abort nothing is changed any more."""
        hooks = self.hooks
        if hooks is None or not (hooks.wants("context") or hooks.wants("context_with_system")):
            return
        with suppress(Interrupted):
            told = await self.ask(hooks.context(request.messages, request.system_prompt), cancel)
            request.messages, request.system_prompt = told

    def intercept(self, stream: ModelStream) -> ModelStream:
        """The stream, with an interceptor between it and the provider if an extension has one."""
        interceptor = None if self.hooks is None else self.hooks.interceptor
        if interceptor is None:
            return stream

        def ask_with_interceptor(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
            request.interceptor = interceptor
            return stream(request, cancel)

        return ask_with_interceptor

    # Inside

    async def _load(self) -> Hooks:
        self.hooks = hooks = await self._late.ready()
        await hooks.session_started("startup")
        return hooks


def before_call(hooks: CallHooks) -> BeforeCall:
    """What a run asks before each tool call."""

    def ask(tool: Tool, call: ToolCall, arguments: dict[str, Any]) -> Awaitable[dict[str, Any]] | None:
        if not hooks.wants("tool_call"):
            return None
        # A copy: the model's message keeps its arguments, whatever extensions make of them.
        return from_hook(hooks.tool_call(tool.name, call.id, deepcopy(arguments), _parent_of(call)))

    return ask


def after_call(hooks: CallHooks) -> AfterCall:
    """What a run asks after each tool call."""

    def ask(
        tool: Tool, call: ToolCall, arguments: dict[str, Any], result: ToolResult, is_error: bool
    ) -> Awaitable[tuple[ToolResult, bool]] | None:
        if not hooks.wants("tool_result"):
            return None
        return from_hook(hooks.tool_result(tool.name, call.id, arguments, result, is_error, _parent_of(call)))

    return ask


def _parent_of(call: ToolCall) -> str | None:
    """The id of the call that a tool made this one for; None if the model made it."""
    return call.parent_id if isinstance(call, NestedCall) else None


async def from_hook(work: Awaitable[T]) -> T:
    """Do what a hook does. What it calls knows that (`is_inside`)."""
    token = _asked.set(True)
    try:
        return await work
    finally:
        _asked.reset(token)
