"""Connects extensions to the session: handlers get events from it, and their results change what it does."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, json
from msgspec.structs import replace

from fairlead.core.events import CompactionEnd, CompactionReason, EntryAppended, Event, MessageEnd
from fairlead.core.lenient import scrub_text
from fairlead.core.messages import (
    BashExecutionMessage,
    CustomMessage,
    ImageContent,
    Message,
    ModelMessage,
    TextContent,
    ToolResultMessage,
    UserMessage,
    user_text,
)
from fairlead.core.model import Interceptor, Model
from fairlead.core.queues import Behavior
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import StructuredResult, ToolResult, as_structured
from fairlead.errors import ConfigError, ProviderError, ToolError
from fairlead.extend.extensions import extension_events as e
from fairlead.extend.extensions.calling import error_text
from fairlead.extend.extensions.engine import Engine
from fairlead.extend.extensions.values import UnusableAnswer, check_result, copy_event, copy_message, restore_unchanged
from fairlead.session.hook_calls import SHUTDOWN_GRACE, from_hook
from fairlead.session.hooks import (
    EVENT_NAMES,
    Cancelled,
    CompactionPlan,
    EndReason,
    Guide,
    Heard,
    InputSource,
    Opening,
    StartReason,
    Summary,
    TreePlan,
    WarmingAction,
    WarmingDecision,
)
from fairlead.session.host import BashDone
from fairlead.tools.truncate import count_lines, tail

if TYPE_CHECKING:
    from fairlead.extend.extensions.late import ExtensionHost
    from fairlead.extend.extensions.registrations import Handler
    from fairlead.session.slash_commands import Completion, SlashCommand

#: What scripts only hear in a session that has started for them.
_ABOUT_SESSIONS = ("session_start", "session_shutdown", "resources_discover")


class ExtensionHooks:
    """Implements `fairlead.session.hooks.Hooks` for loaded extensions."""

    def __init__(self, host: ExtensionHost) -> None:
        self.engine = Engine(host)
        self._session = host.session
        self._background_events = self.engine.background_events
        self._provider_interceptor = ProviderInterceptor(self.engine)

    def wants(self, name: str) -> bool:
        return name in self.engine.listeners

    async def reload(self) -> None:
        """Load all extensions again."""
        await self.session_ends("reload")
        await self.engine.loader.unload()
        await self.engine.loader.load()
        await self.session_started("reload")

    # Notifying

    async def emit(self, event: Event) -> None:
        await self._earlier_events()
        await self._deliver(event)

    async def _earlier_events(self) -> None:
        """Wait until extensions have handled earlier events. A handler that causes an event must not wait for itself."""
        task = asyncio.current_task()
        if self._background_events.busy and task not in self.engine.handler_tasks and not self._background_events.runs_in(task):
            await self._background_events.idle()

    def notify(self, event: Event, then: Callable[[], None] | None = None) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # a program changes something between two runs: without a loop, no handler can run
            return
        self._background_events.put(lambda: self._deliver(event) if then is None else self._deliver_then(event, then))

    async def _deliver_then(self, event: Event, then: Callable[[], None]) -> None:
        try:
            await from_hook(self._deliver(event))
        finally:
            then()

    async def _deliver(self, event: Event) -> None:
        for name in EVENT_NAMES.get(type(event), ()):
            for handler in self.engine.listeners.get(name, ()):
                given = _event_for_handlers(name, event)
                if given is not None:
                    await self.engine.ask_or_report(name, handler, given)

    async def session_started(self, reason: StartReason, previous: str | None = None) -> None:
        self.engine.scripts.in_session = True
        if reason in ("new", "resume", "fork"):
            await self.engine.scripts.renew()
            await self.engine.scripts.set_up_session()
        self.engine.begin()
        await self._notify("session_start", e.SessionStart(reason, previous))
        await self._discover("reload" if reason == "reload" else "startup")

    async def session_ends(self, reason: EndReason, target: str | None = None) -> None:
        max_seconds = SHUTDOWN_GRACE if reason == "quit" else math.inf
        try:
            await self._background_events.idle()
            await self._notify("session_shutdown", e.SessionShutdown(reason, target), max_seconds=max_seconds)
        finally:
            if reason == "quit":
                await self.engine.scripts.close()

    def position_changed(self) -> None:
        self.engine.restore_states()

    async def drain_events(self) -> None:
        await self._background_events.idle()

    async def flush_outbox(self) -> None:
        await self.engine.outbox.flush()

    async def on_move(self, new_leaf: str | None, old_leaf: str | None, summary_entry: str | None, from_extension: bool) -> None:
        await self._notify("session_tree", e.SessionTree(new_leaf, old_leaf, summary_entry, from_extension))

    async def on_compaction(self, entry: dict[str, Any], reason: CompactionReason, from_extension: bool) -> None:
        await self._notify("session_compact", e.SessionCompact(entry, reason, from_extension))

    async def _discover(self, reason: Literal["startup", "reload"]) -> None:
        """Ask extensions for skills and templates."""
        brought = self.engine.host.brought
        if "resources_discover" not in self.engine.listeners and not (brought.skills or brought.prompts):
            return
        workspace, additions = self._session.host.workspace, self.engine.host.additions
        found: list[e.Resources] = [
            each async for each in self._ask_each("resources_discover", e.ResourcesDiscover(workspace.cwd, reason))
        ]
        additions.discover(
            [*brought.skills, *(workspace.resolve(str(path)) for each in found for path in each.skills)],
            [*brought.prompts, *(workspace.resolve(str(path)) for each in found for path in each.prompts)],
        )

    # Commands

    def commands(self) -> list[SlashCommand]:
        return self.engine.slash_commands()

    def has_command(self, text: str) -> bool:
        return text.startswith("/") and self.engine.command(_split_command(text)[0]) is not None

    async def run_command(self, text: str) -> None:
        name, arguments = _split_command(text)
        command = self.engine.command(name)
        if command is not None:
            if command.handler.owner.found.is_script:
                arguments = text.partition(" ")[2]  # as they were typed
            await self.engine.run_command(command, arguments)

    async def complete(self, name: str, typed: str) -> list[Completion]:
        command = self.engine.command(name)
        return [] if command is None else await self.engine.complete_command(command, typed)

    # Asking

    async def input(self, text: str, images: list[ImageContent] | None, source: InputSource, behavior: Behavior | None) -> Heard:
        with self.engine.hearing(begins_run=behavior is None):
            return await self._input(e.Input(text, images, source, behavior))

    async def _input(self, event: e.Input) -> Heard:
        user_input = Heard(event.text, event.images)
        async for answer in self._ask_each("input", event):
            if isinstance(answer, e.Handled):
                user_input.handled = True
                return user_input
            user_input.text = event.text = answer.text
            if answer.images is not None:
                user_input.images = event.images = answer.images
        return user_input

    async def opening(
        self, message: UserMessage | CustomMessage, images: list[ImageContent] | None, system_prompt: str
    ) -> Opening:
        opening = Opening()
        prompt, custom = ("", message) if isinstance(message, CustomMessage) else (user_text(message), None)
        event = e.BeforeAgentStart(prompt, images, system_prompt, custom)
        async for answer in self._ask_each("before_agent_start", event):
            opening.messages += [self._message(note) for note in answer.messages]
            if answer.system_prompt is not None:
                opening.system_prompt = event.system_prompt = answer.system_prompt
        return opening

    async def context(self, messages: list[ModelMessage], system_prompt: str) -> tuple[list[ModelMessage], str]:
        for handler in self.engine.listeners.get("context", ()):
            copies = [copy_message(message) for message in messages]
            answer = await self.engine.ask_or_report("context", handler, e.ModelContext(list(copies)))
            if answer is not None and answer.messages is not None:
                messages = restore_unchanged(messages, copies, answer.messages)
        for handler in self.engine.listeners.get("context_with_system", ()):
            copies = [copy_message(message) for message in messages]
            answer = await self.engine.ask_or_report(
                "context_with_system", handler, e.ModelContextWithSystem(list(copies), system_prompt)
            )
            if answer is not None and answer.messages is not None:
                messages = restore_unchanged(messages, copies, answer.messages)
            if answer is not None and answer.system_prompt is not None:
                system_prompt = answer.system_prompt
        return messages, system_prompt

    @property
    def presents_tools(self) -> bool:
        return self.engine.scripts.presents_tools

    async def present_tools(self) -> None:
        await self.engine.scripts.present_tools()

    async def tool_call(
        self, tool_name: str, call_id: str, arguments: dict[str, Any], parent_id: str | None = None
    ) -> dict[str, Any]:
        event = e.ToolCallEvent(tool_name, call_id, arguments, parent_id)
        for handler in self.engine.listeners.get("tool_call", ()):
            # A handler that fails might have wanted to block the call, so the call is blocked.
            try:
                answer = check_result("tool_call", await self.engine.ask("tool_call", handler, event))
            except ToolError:
                raise
            except Exception as error:
                raise ToolError(error_text(error)) from error
            if answer is not None:
                raise ToolError(answer.reason, ends_run=answer.ends_run)
        if not isinstance(event.arguments, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ToolError("An extension replaced the arguments with something that is not a dict.")
        return event.arguments

    async def tool_result(
        self,
        tool_name: str,
        call_id: str,
        arguments: Mapping[str, Any],
        result: ToolResult,
        is_error: bool,
        parent_id: str | None = None,
    ) -> tuple[ToolResult, bool]:
        event = e.ToolResultEvent(tool_name, call_id, dict(arguments), result.content, result.details, is_error, parent_id)
        event.usage = result.usage
        if isinstance(result, StructuredResult):
            offered = result.structured
            event.structured = lambda: offered()  # a function, which `deepcopy` leaves alone
        is_amended = False
        async for answer in self._ask_each("tool_result", event):
            is_amended |= _amend(event, answer)
        if not is_amended:
            return result, is_error
        amended = ToolResult(event.content, event.details, [], result.ends_run, event.usage, result.failed)
        return amended if event.structured is None else as_structured(amended, event.structured), event.is_error

    async def message_ended(self, message: Message) -> Message:
        await self._earlier_events()
        for handler in self.engine.listeners.get("message_end", ()):
            answer = await self.engine.ask_or_report("message_end", handler, MessageEnd(copy_message(message)))
            if answer is None or answer.message == message:
                continue
            if _takes_the_place(answer.message, message):
                message = answer.message
            else:
                problem = ConfigError("message_end handlers must return a message with the same role")
                self.engine.report(handler.owner.path, "message_end", problem)
        return message

    async def before_settle(self, messages: list[Message]) -> list[CustomMessage]:
        event = e.AgentBeforeSettle([copy_message(message) for message in messages])
        return [self._message(note) async for answer in self._ask_each("agent_before_settle", event) for note in answer.messages]

    async def before_switch(self, reason: Literal["new", "resume"], target: str | None) -> Cancelled | None:
        return await self._first_cancel("session_before_switch", e.SessionBeforeSwitch(reason, target))

    async def before_fork(self, entry_id: str, position: Literal["before", "at"]) -> Cancelled | None:
        return await self._first_cancel("session_before_fork", e.SessionBeforeFork(entry_id, position))

    async def before_compact(self, plan: CompactionPlan) -> Summary | Cancelled | None:
        return await self._last_answer("session_before_compact", plan)

    async def before_tree(self, plan: TreePlan) -> Guide | Cancelled | None:
        answer = await self._last_answer("session_before_tree", plan)
        return Guide(summary=answer) if isinstance(answer, Summary) else answer

    async def user_bash(
        self, command: str, exclude_from_context: bool, cancel: CancelToken, show: Callable[[str], None]
    ) -> BashDone | None:
        def show_here(text: str) -> None:  # handlers that are plain functions run in threads
            self.engine.run_on_agent_thread(lambda: show(text))

        event = e.UserBash(command, exclude_from_context, self._session.host.workspace.cwd, cancel, show_here)
        for handler in self.engine.listeners.get("user_bash", ()):
            # A handler that fails might have wanted to run the command on another machine, so it does not run here.
            try:
                answer = check_result("user_bash", await self.engine.ask("user_bash", handler, replace(event)))
            except Exception as error:
                if handler.is_program:
                    raise
                self.engine.report(handler.owner.path, "user_bash", error)
                raise ToolError(error_text(error)) from error
            if answer is not None:
                return _bash_done(command, exclude_from_context, answer, self._session.host.now_ms())
        return None

    async def warming(self, decision: WarmingDecision) -> WarmingAction:
        action = decision.action
        async for answer in self._ask_each("cache_warming_decision", decision):
            action = answer.action
        return action

    @property
    def interceptor(self) -> Interceptor | None:
        return self._provider_interceptor if self._provider_interceptor.is_wanted else None

    # Helpers

    async def _notify(self, name: str, event: Any, *, max_seconds: float = math.inf) -> None:
        for handler in self._handlers(name):
            await self.engine.ask_or_report(name, handler, replace(event), max_seconds=max_seconds)

    async def _ask_each(self, name: str, event: Any) -> AsyncGenerator[Any]:
        """Yield the results of the handlers that return one. The caller may change `event` between two handlers."""
        for handler in self._handlers(name):
            answer = await self.engine.ask_or_report(name, handler, _private_copy(event))
            if answer is not None:
                yield answer

    def _handlers(self, name: str) -> Sequence[Handler]:
        found = self.engine.listeners.get(name, ())
        if self.engine.scripts.in_session or name not in _ABOUT_SESSIONS:
            return found
        return [handler for handler in found if not handler.owner.found.is_script]

    async def _first_cancel(self, name: str, event: Any) -> Cancelled | None:
        """Return the first cancellation by a handler, or None."""
        try:
            async for answer in self._ask_each(name, event):
                return Cancelled(answer.reason)
        except UnusableAnswer as error:
            return Cancelled(str(error))
        return None

    async def _last_answer(self, name: str, plan: CompactionPlan | TreePlan) -> Any:
        """Return the first cancellation by a handler, or else what the last handler returned, as in pi."""
        last: Any = None
        try:
            async for answer in self._ask_each(name, plan):
                if isinstance(answer, e.Cancel):
                    return Cancelled(answer.reason)
                last = answer
        except UnusableAnswer as error:
            return Cancelled(str(error))
        return last

    def _message(self, note: e.Note) -> CustomMessage:
        return CustomMessage(note.custom_type, note.content, note.display, self._session.host.now_ms(), note.details)


def _amend(event: e.ToolResultEvent, answer: e.Amend) -> bool:
    """Apply what a handler returned to the event of the next one. Returns whether that changes anything."""
    if answer.content is not None:
        event.content = [TextContent(answer.content)] if isinstance(answer.content, str) else list(answer.content)
        event.structured = None  # it may still have what the handler removed
    if answer.details is not UNSET:
        event.details = answer.details
    if answer.structured is not UNSET:
        event.structured = lambda: answer.structured
    if answer.is_error is not None:
        event.is_error = answer.is_error
    if answer.usage is not None:
        event.usage = answer.usage
    return answer != e.Amend()


def _takes_the_place(message: Message, original: Message) -> bool:
    """Whether a message may be kept instead of another one."""
    if isinstance(message, ToolResultMessage) and isinstance(original, ToolResultMessage):
        return message.tool_call_id == original.tool_call_id
    return type(message) is type(original)


def _private_copy(event: Any) -> Any:
    """Return an event that one handler may change. Plans are frozen, and hold copies of entries already."""
    return event if isinstance(event, CompactionPlan | TreePlan) else deepcopy(event)


def _event_for_handlers(name: str, event: Event) -> Any:
    """Return a copy of an event as handlers get it, or None if handlers of `name` do not get it."""
    if name == "session_compact_failed":
        assert isinstance(event, CompactionEnd)
        if event.result is not None:
            return None
        return e.SessionCompactFailed(event.reason, event.error, event.aborted, event.will_retry)
    if isinstance(event, EntryAppended):
        return e.EntryAppended(json.decode(event.entry))
    return copy_event(event)


def _split_command(text: str) -> tuple[str, str]:
    """Split a slash command into its name and its arguments."""
    name, _, arguments = text[1:].partition(" ") if text.startswith("/") else ("", "", "")
    first, *rest = name.split(None, 1) or [""]
    return first, " ".join([*rest, arguments]).strip() if rest else arguments.strip()


_PROVIDER_EVENTS = ("before_provider_headers", "before_provider_request", "after_provider_response", "provider_stream_event")


class ProviderInterceptor:
    """Lets extensions see and change what is sent to providers. Implements `fairlead.core.model.Interceptor`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def is_wanted(self) -> bool:
        return any(name in self._engine.listeners for name in _PROVIDER_EVENTS)

    async def request(self, payload: dict[str, Any], headers: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
        heads, request = e.BeforeProviderHeaders(headers), e.BeforeProviderRequest(payload)
        try:
            await self._deliver("before_provider_headers", heads)
            await self._deliver("before_provider_request", request)
        except UnusableAnswer as error:
            raise ProviderError(
                f"An extension changed the request to the provider into one that cannot be sent: {error}"
            ) from None
        return request.payload, heads.headers

    async def response(self, status: int, headers: Mapping[str, str]) -> None:
        await self._deliver("after_provider_response", e.AfterProviderResponse(status, dict(headers)))

    @property
    def sees_stream(self) -> bool:
        return "provider_stream_event" in self._engine.listeners

    async def stream_event(self, model: Model, data: Any) -> None:
        await self._deliver("provider_stream_event", e.ProviderStreamEvent(model.provider, model.api, model.id, data))

    async def _deliver(self, name: str, event: Any) -> None:
        for handler in self._engine.listeners.get(name, ()):
            await self._engine.ask_or_report(name, handler, event)


def _bash_done(command: str, exclude_from_context: bool, ran: e.Ran, now_ms: int) -> BashDone:
    """Return the outcome of a shell command that an extension ran, as if the agent had run it."""
    output = scrub_text(ran.output)
    truncation = tail(output, count_lines(output), len(output.encode()))
    message = BashExecutionMessage(
        command=command,
        output=truncation.content,
        cancelled=ran.cancelled,
        truncated=ran.truncated or truncation.truncated,
        timestamp=now_ms,
        exit_code=None if ran.cancelled else ran.exit_code,
        full_output_path=ran.full_output_path,
        exclude_from_context=exclude_from_context,
    )
    return BashDone(message, truncation)
