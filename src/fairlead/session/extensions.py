"""The extensions of a session, as its parts see them. Nothing is looked for or loaded before it is needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from fairlead.core.runtime import CancelToken
from fairlead.session.events import Events
from fairlead.session.runtime import AsyncioRuntime

if TYPE_CHECKING:
    from fairlead.session.hook_calls import HookCalls
    from fairlead.session.hooks import CallHooks, Hooks, LateHooks

T = TypeVar("T")


class Extensions:
    """Loads the hooks of a session when they are first needed, and asks them.

    `call_hooks` are those of the session that this one works for, if it is the session of a sub-agent.
    """

    def __init__(self, late: LateHooks | None, call_hooks: CallHooks | None, runtime: AsyncioRuntime, events: Events) -> None:
        #: Calls the hooks, from when they begin to load.
        self.calls: HookCalls | None = None
        self._late = late
        self._call_hooks = call_hooks
        self._runtime = runtime
        self._events = events

    @property
    def may_exist(self) -> bool:
        """Whether there are extensions, as far as is known."""
        return self._late is not None

    @property
    def hooks(self) -> Hooks | None:
        """The hooks; None before they are loaded, and if there are none."""
        return None if self.calls is None else self.calls.hooks

    @property
    def call_hooks(self) -> CallHooks | None:
        """The hooks that are asked about each tool call."""
        return self.hooks or self._call_hooks

    async def ready(self, *, stoppable: bool = False) -> Hooks | None:
        """Load the extensions and tell them that the session has begun. Returns the hooks; None if there are none.

        Raises RunAborted if it is `stoppable` and the session is cancelled meanwhile: extensions may take long, or wait for the
        user.
        """
        if self._late is None:
            return None
        if self.calls is None:
            if not self._late.exist():
                self._late = None
                return None
            self._use(self._late)
        assert self.calls is not None
        return await (self.calls.ready_or_stopped() if stoppable else self.calls.ready())

    async def ask(self, work: Awaitable[T], cancel: CancelToken | None = None) -> T:
        """The answer of a hook. Raises Interrupted when `cancel` fires; without one, when the session is cancelled."""
        assert self.calls is not None, "hooks answer only once they are loaded"
        return await self.calls.ask(work, cancel)

    def use(self, late: LateHooks, hooks: Hooks) -> None:
        """Use hooks that are loaded already. The caller tells them that the session has begun."""
        self._late = late
        self._use(late, hooks)

    async def reload(self, load: Callable[[], Awaitable[object]]) -> None:
        """Have the hooks load everything again. Whatever needs them meanwhile waits."""
        assert self.calls is not None, "only what was loaded is loaded again"
        await self.calls.reload(load)

    def position_changed(self) -> None:
        """The conversation is another one, or has moved within its tree."""
        if self.hooks is not None:
            self.hooks.position_changed()

    def cancel(self) -> None:
        """Stop waiting for answers that belong to no run."""
        if self.calls is not None:
            self.calls.cancel()

    async def close(self) -> None:
        """Tell extensions that the session ends."""
        if self.calls is not None:
            await self.calls.close()

    def _use(self, late: LateHooks, hooks: Hooks | None = None) -> None:
        from fairlead.session.hook_calls import HookCalls

        self.calls = self._events.extensions = HookCalls(self._runtime, late, hooks)
