"""A session: one conversation and the one run it may have going.

Everything happens on one asyncio loop. Listeners are called in order, at once, and must not block; a
`gate` makes the run wait while whoever listens cannot keep up.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from fairlead.config.settings import RetrySettings
from fairlead.core.events import AgentEnd, AgentSettled, AgentStart, Event, MessageEnd, ThinkingLevelChanged
from fairlead.core.loop import Run, Turn, run_agent
from fairlead.core.messages import AssistantMessage, ImageContent, Message, UserMessage, user_message
from fairlead.core.model import Model, ModelStream, PartialMessage, Request, StreamEnd, ThinkingLevel
from fairlead.core.queues import Queues
from fairlead.core.runtime import Cancel
from fairlead.core.tool import Schedule, Tool
from fairlead.errors import BadCommand, BusyError, ConfigError, FairleadError, ModelNotFound
from fairlead.session.attempts import Attempts
from fairlead.session.conversation import Conversation
from fairlead.session.ids import new_session_id
from fairlead.session.models import Models, failing, stopped
from fairlead.session.runtime import AsyncioRuntime
from fairlead.session.user_bash import BashDone, run_for_user
from fairlead.tools.workspace import Workspace

NO_MODEL = (
    "No model selected.\n\nSet a provider's key in the environment (such as ANTHROPIC_API_KEY), or choose a model "
    "with set_model or --model. `fairlead --list-models` shows what there is."
)


class Gate(Protocol):
    """Whoever passes a session's events on, when it may fall behind."""

    @property
    def paused(self) -> bool: ...

    async def wait(self, cancel: Cancel) -> None:
        """Return when there is room again, or when `cancel` fires."""
        ...


class SessionOptions(Struct, kw_only=True):
    """What a session is made of."""

    models: Models
    tools: Mapping[str, Tool]
    active_tools: Sequence[str]
    workspace: Workspace
    #: The system prompt for the tools that are active.
    system_prompt: Callable[[Sequence[Tool]], str]
    model: Model | None = None
    thinking: ThinkingLevel = "medium"
    #: Models to cycle through; all available ones if empty.
    scoped: Sequence[tuple[Model, ThinkingLevel | None]] = ()
    #: How the tools of one turn run while the interrupt mode is `wait`, and while it is `immediate`.
    schedule: Schedule = "together"
    schedule_immediate: Schedule = "exclusive"
    concurrent_tools: int = 8
    retry: RetrySettings = RetrySettings()
    runtime: AsyncioRuntime


class Session:
    def __init__(self, options: SessionOptions) -> None:
        self.id = new_session_id()
        self.conversation = Conversation()
        self.queues = Queues()
        self.model = options.model
        self.gate: Gate | None = None
        #: How the last model call of the last run ended.
        self.last_end: StreamEnd | None = None
        self._options = options
        self._wanted: ThinkingLevel = options.thinking
        self._active = [name for name in options.active_tools if name in options.tools]
        self._tools = dict(options.tools)
        self.attempts = Attempts(options.retry, options.runtime, self._tell)
        self._listeners: list[Callable[[Event], None]] = []
        self._run: asyncio.Task[None] | None = None
        self._cancel = Cancel()
        self._deferred: list[Message] = []
        self._commands: dict[Cancel, asyncio.Future[BashDone]] = {}

    # Listening

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` with every event; the returned function takes it back."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # Running

    @property
    def is_streaming(self) -> bool:
        """True from the acceptance of a prompt until the run is settled."""
        return self._run is not None

    async def prompt(self, text: str, images: list[ImageContent] | None = None) -> UserMessage:
        """Start a run. Raises if it cannot start; then nothing has changed."""
        if self.model is None:
            raise ConfigError(NO_MODEL)
        cancel = Cancel()
        if self._run is None:
            # From here on an abort means this run, also while its key is being looked up.
            self._cancel = cancel
            await self._stream(self.model, cancel)
        if self._run is not None:
            raise BusyError("Agent is already processing.")
        message = user_message(text, images, self._options.runtime.now_ms())
        self.conversation.add(message)
        self._cancel = cancel
        self._run = asyncio.create_task(self._work([message]), name="fairlead-run")
        return message

    def steer(self, text: str, images: list[ImageContent] | None = None) -> UserMessage:
        """Queue a message for the next moment at which the agent listens."""
        message = user_message(text, images, self._options.runtime.now_ms())
        self.queues.steering.messages.append(message)
        self._tell(self.queues.update())
        return message

    def follow_up(self, text: str, images: list[ImageContent] | None = None) -> UserMessage:
        """Queue a message for when the agent would otherwise stop."""
        message = user_message(text, images, self._options.runtime.now_ms())
        self.queues.follow_up.messages.append(message)
        self._tell(self.queues.update())
        return message

    def clear_queue(self) -> tuple[list[str], list[str]]:
        """Forget all queued messages; returns their texts, steering and follow-ups."""
        texts = self.queues.steering.clear(), self.queues.follow_up.clear()
        self._tell(self.queues.update())
        return texts

    def cancel(self) -> None:
        """Tell the run to stop, without waiting for it."""
        self._cancel.fire()

    async def abort(self) -> None:
        """Stop the run and wait until it has settled. Queued messages stay queued."""
        self._cancel.fire()
        if self._run is not None:
            await asyncio.wait([self._run])

    async def close(self) -> None:
        """Stop everything that runs, the host's own commands too, and wait until it has ended."""
        self.cancel()
        self.abort_all_bash()
        await self.idle()
        while self._commands:
            await asyncio.gather(*self._commands.values(), return_exceptions=True)

    async def idle(self) -> None:
        """Wait until no run is going."""
        while self._run is not None:
            await asyncio.wait([self._run])

    # Models and thinking

    @property
    def thinking(self) -> ThinkingLevel:
        """The level in force: what was asked for, as far as the model has it."""
        return self.model.clamp(self._wanted) if self.model is not None else self._wanted

    def levels(self) -> list[ThinkingLevel]:
        return self.model.levels() if self.model is not None else ["off"]

    def set_thinking(self, level: ThinkingLevel) -> None:
        before = self.thinking
        self._wanted = level
        self._tell_if_changed(before)

    def cycle_thinking(self) -> ThinkingLevel | None:
        """Go to the next level, from the last to the first. None if the model has only one."""
        levels = self.levels()
        if len(levels) < 2:
            return None
        self.set_thinking(levels[(levels.index(self.thinking) + 1) % len(levels)])
        return self.thinking

    def available_models(self) -> list[Model]:
        return self._options.models.available()

    def find_model(self, provider: str, model_id: str) -> Model | None:
        return self._options.models.find(provider, model_id)

    def set_model(self, provider: str, model_id: str) -> Model:
        model = self.find_model(provider, model_id)
        if model is None:
            raise ModelNotFound(f"Model not found: {provider}/{model_id}")
        self._use(model, None)
        return model

    def cycle_model(self) -> tuple[Model, bool] | None:
        """Go to the next model; the flag says whether from a chosen set. None if there is no other."""
        scoped = bool(self._options.scoped)
        models: list[tuple[Model, ThinkingLevel | None]] = list(self._options.scoped)
        if not scoped:
            models = [(model, None) for model in self._options.models.available()]
        if len(models) < 2:
            return None
        here = next((i for i, (model, _) in enumerate(models) if model == self.model), -1)
        model, level = models[(here + 1) % len(models)]
        self._use(model, level)
        return model, scoped

    # Tools

    @property
    def workspace(self) -> Workspace:
        return self._options.workspace

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._tools

    @property
    def active_tools(self) -> list[str]:
        return list(self._active)

    def set_active_tools(self, names: Sequence[str]) -> None:
        unknown = [name for name in names if name not in self._tools]
        if unknown:
            known = ", ".join(self._tools)
            raise BadCommand(f"Unknown tool: {', '.join(unknown)}. The tools are: {known}")
        self._active = list(dict.fromkeys(names))

    def system_prompt(self) -> str:
        return self._options.system_prompt([self._tools[name] for name in self._active])

    # The host's own commands

    def bash(self, command: str, *, exclude_from_context: bool = False) -> asyncio.Future[BashDone]:
        """Run a shell command for the user, beside whatever the agent does, and add it to the conversation.

        It counts as running from now on, not only once it is awaited.
        """
        cancel = Cancel()
        work = run_for_user(
            self._options.workspace, command, cancel, self._options.runtime.now_ms, exclude_from_context=exclude_from_context
        )
        running = self._commands[cancel] = asyncio.ensure_future(work)
        running.add_done_callback(lambda done: self._bash_ended(cancel, done))
        return running

    def abort_bash(self) -> None:
        """Stop the latest of the host's running commands."""
        if self._commands:
            next(reversed(self._commands)).fire()

    def abort_all_bash(self) -> None:
        for cancel in list(self._commands):
            cancel.fire()

    # Inside

    def _bash_ended(self, cancel: Cancel, done: asyncio.Future[BashDone]) -> None:
        del self._commands[cancel]
        if done.cancelled() or done.exception() is not None:
            return
        message = done.result().message
        if self._run is None:
            self.conversation.add(message)
        else:  # it must not come between a tool call and its result
            self._deferred.append(message)

    async def _stream(self, model: Model, cancel: Cancel) -> ModelStream:
        """How to ask the model. Finding its key may take long; an abort does not wait for it."""
        known = self._options.models.known(model)
        if known is not None:
            return known
        finding = asyncio.ensure_future(self._options.models.stream(model))
        forget = cancel.on_fire(finding.cancel)
        try:
            return await finding
        except asyncio.CancelledError:
            if not cancel.fired:
                raise
            return stopped(model, self._options.runtime.now_ms())
        finally:
            forget()

    async def _work(self, prompts: list[UserMessage]) -> None:
        run = Run(
            next_turn=self._next_turn,
            add=self.conversation.add,
            emit=self._emit,
            notify=self._tell,
            report=_report,
            queues=self.queues,
            runtime=self._options.runtime,
            cancel=self._cancel,
        )
        added: list[Message] = []
        ended = False
        self.attempts.begin()
        try:
            while True:
                await self._emit(AgentStart())
                end = self.last_end = await run_agent(run, prompts, added)
                delay_ms = self.attempts.next_delay(end)
                if delay_ms is None:
                    break
                self._tell(AgentEnd(added, will_retry=True))
                added, prompts = [], []
                if not await self.attempts.wait(end, delay_ms, self._cancel):
                    ended = True
                    break
        except Exception as error:  # a bug of ours: the host still gets an end, and the next prompt its chance
            _report(error)
            assert self.model is not None
            broken = PartialMessage(self.model, self._options.runtime.now_ms())
            broken.fail(f"Internal error: {type(error).__name__}: {error}")
            self.last_end = broken.finished
        finally:
            # Without waiting for anybody: from the last look into the queues to the settled session nothing else may
            # happen, or a message queued in between would be left behind.
            if not ended:
                self._tell(AgentEnd(added))
            if self.last_end is not None:
                self.attempts.ended(self.last_end)
            self._run = None
            for message in self._deferred:
                self.conversation.add(message)
            self._deferred.clear()
            self._tell(AgentSettled())

    async def _next_turn(self) -> Turn:
        options, model = self._options, self.model
        assert model is not None, "a run needs a model, and a model is never unset"
        tools = {name: self._tools[name] for name in self._active}
        request = Request(
            system_prompt=self.system_prompt(),
            messages=self.conversation.for_model(),
            tools=[tool.spec() for tool in tools.values()],
            thinking=self.thinking,
            session_id=self.id,
        )
        try:
            stream = await self._stream(model, self._cancel)
        except FairleadError as error:
            stream = failing(model, str(error), options.runtime.now_ms())
        schedule = options.schedule_immediate if self.queues.interrupt == "immediate" else options.schedule
        return Turn(model, stream, request, tools, schedule, options.concurrent_tools)

    async def _emit(self, event: Event) -> None:
        self._tell(event)
        if isinstance(event, MessageEnd) and _is_good(event.message):
            self.attempts.answered()
        gate = self.gate
        if gate is not None and gate.paused:
            await gate.wait(self._cancel)

    def _tell(self, event: Event) -> None:
        for listener in list(self._listeners):
            try:
                listener(event)
            except Exception as error:  # a listener's bug must neither end the run nor keep the event from the others
                _report(error)

    def _use(self, model: Model, level: ThinkingLevel | None) -> None:
        before = self.thinking
        self.model = model
        if level is not None:
            self._wanted = level
        self._tell_if_changed(before)

    def _tell_if_changed(self, before: ThinkingLevel) -> None:
        if self.thinking != before:
            self._tell(ThinkingLevelChanged(self.thinking))


def _is_good(message: Message) -> bool:
    """Whether it is an answer of the model that did not fail."""
    return isinstance(message, AssistantMessage) and message.stop_reason not in ("error", "aborted")


def _report(error: Exception) -> None:
    """Show a bug to whoever watches stderr."""
    traceback.print_exception(error)
