"""Hooks that do what a test says, and write down what they were asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.session.scene import PATIENCE

from fairlead.core.events import CompactionReason, Event, MessageEnd
from fairlead.core.messages import CustomMessage, ImageContent, Message, UserMessage, user_text
from fairlead.core.model import Interceptor, ModelMessage
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ToolResult
from fairlead.session.hooks import (
    Cancelled,
    CompactionPlan,
    Guide,
    Heard,
    Opening,
    Summary,
    TreePlan,
    WarmingAction,
    WarmingDecision,
)
from fairlead.session.host import BashDone
from fairlead.session.slash_commands import SlashCommand

Handler = Callable[..., Awaitable[Any]]


class TestHooks:
    """Handlers by the name of what they listen to; of everything else nobody wants to hear.

    `told` has all calls in order, as names of events and hooks. A command is `/name` for each name in `handlers` that begins
    with a slash; its handler gets the whole text.
    """

    __test__ = False

    def __init__(self, **handlers: Handler) -> None:
        self.handlers: dict[str, Handler] = handlers
        self.told: list[str] = []
        self.events: list[Event] = []
        self.loaded = 0
        self.interceptor: Interceptor | None = None

    def on(self, name: str, handler: Handler) -> None:
        self.handlers[name] = handler

    async def _call(self, name: str, otherwise: Any, *arguments: Any) -> Any:
        self.told.append(name)
        handler = self.handlers.get(name)
        return otherwise if handler is None else await handler(*arguments)

    def exist(self) -> bool:
        return True

    async def ready(self) -> TestHooks:
        self.loaded += 1
        return self

    def wants(self, name: str) -> bool:
        return name in self.handlers

    async def emit(self, event: Event) -> None:
        self.events.append(event)
        await self._call(_name(event), None, event)

    def notify(self, event: Event, then: Callable[[], None] | None = None) -> None:
        self.events.append(event)
        self.told.append(f"({_name(event)})")
        if then is not None:
            then()

    async def message_ended(self, message: Message) -> Message:
        await self.emit(MessageEnd(message))
        return message

    async def session_started(self, reason: str, previous: str | None = None) -> None:
        await self._call(f"start {reason}", None, previous)

    async def session_ends(self, reason: str, target: str | None = None) -> None:
        await self._call(f"end {reason}", None, target)

    def position_changed(self) -> None: ...

    async def drain_events(self) -> None: ...

    async def flush_outbox(self) -> None: ...

    def commands(self) -> list[SlashCommand]:
        return []

    def has_command(self, text: str) -> bool:
        return text.startswith("/") and text.split()[0] in self.handlers

    async def run_command(self, text: str) -> None:
        await self._call(text.split()[0], None, text)

    async def input(self, text: str, images: list[ImageContent] | None, source: str, behavior: str | None) -> Heard:
        return await self._call("input", Heard(text, images), text, source, behavior)

    async def opening(
        self, message: UserMessage | CustomMessage, images: list[ImageContent] | None, system_prompt: str
    ) -> Opening:
        prompt = "" if isinstance(message, CustomMessage) else user_text(message)
        return await self._call("before_agent_start", Opening(), prompt, system_prompt)

    async def context(self, messages: list[ModelMessage], system_prompt: str) -> tuple[list[ModelMessage], str]:
        return await self._call("context", (messages, system_prompt), messages, system_prompt)

    async def tool_call(
        self, tool_name: str, call_id: str, arguments: dict[str, Any], parent_id: str | None = None
    ) -> dict[str, Any]:
        return await self._call("tool_call", arguments, tool_name, arguments)

    async def tool_result(
        self,
        tool_name: str,
        call_id: str,
        arguments: Mapping[str, Any],
        result: ToolResult,
        is_error: bool,
        parent_id: str | None = None,
    ) -> tuple[ToolResult, bool]:
        return await self._call("tool_result", (result, is_error), tool_name, result, is_error)

    @property
    def presents_tools(self) -> bool:
        return False

    async def present_tools(self) -> None: ...

    async def before_settle(self, messages: list[Message]) -> list[CustomMessage]:
        return await self._call("agent_before_settle", [], messages)

    async def before_switch(self, reason: str, target: str | None) -> Cancelled | None:
        return await self._call("session_before_switch", None, reason, target)

    async def before_fork(self, entry_id: str, position: str) -> Cancelled | None:
        return await self._call("session_before_fork", None, entry_id, position)

    async def before_compact(self, plan: CompactionPlan) -> Summary | Cancelled | None:
        return await self._call("session_before_compact", None, plan)

    async def before_tree(self, plan: TreePlan) -> Guide | Cancelled | None:
        return await self._call("session_before_tree", None, plan)

    async def on_move(self, new_leaf: str | None, old_leaf: str | None, summary_entry: str | None, from_extension: bool) -> None:
        await self._call("session_tree", None, new_leaf, old_leaf, summary_entry, from_extension)

    async def on_compaction(self, entry: dict[str, Any], reason: CompactionReason, from_extension: bool) -> None:
        await self._call("session_compact", None, entry, reason, from_extension)

    async def user_bash(
        self, command: str, exclude_from_context: bool, cancel: CancelToken, show: Callable[[str], None]
    ) -> BashDone | None:
        return await self._call("user_bash", None, command, exclude_from_context)

    async def warming(self, decision: WarmingDecision) -> WarmingAction:
        return await self._call("cache_warming_decision", decision.action, decision)


class Waits:
    """A handler that is waited for until the test lets it go on, with an answer; or until it is cut off."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.go = asyncio.Event()
        self.was_cut_off = False
        self._asked = asyncio.Event()

    async def __call__(self, *arguments: Any) -> Any:
        self._asked.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.was_cut_off = True
            raise
        return self.answer

    async def asked(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._asked.wait()


def answers(answer: Any = None) -> Handler:
    """A handler that has one answer."""

    async def handler(*arguments: Any) -> Any:
        return answer

    return handler


def _name(event: Event) -> str:
    from fairlead.session.hooks import EVENT_NAMES

    return EVENT_NAMES[type(event)][0]
