"""The prompts of a host, and the turns that answer them.

A prompt that comes while nothing runs starts a turn. During a tool call it joins the running turn, and during an answer it
waits. When the turn ends, all prompts that wait start the next one together.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from fairlead.core import events
from fairlead.core.limits import RunLimits
from fairlead.core.messages import UserMessage, user_message
from fairlead.core.model import Model
from fairlead.core.runtime import CancelToken
from fairlead.errors import CompactionCancelled, FairleadError, RunAborted
from fairlead.protocol.claude import frames
from fairlead.session.history.claude_files import new_uuid
from fairlead.session.session import Session
from fairlead.session.session_events import Gate, report
from fairlead.tools.claude.interactive import PLANNING
from fairlead.wire.claude.claude_narrator import INTERRUPTED, INTERRUPTED_IN_TOOLS, Narrator, Prompt, encode_terminal
from fairlead.wire.claude.host_hooks import HostHooks

#: What the model is told if its answer is not an end, and how often.
CUT_OFF = "Your answer was cut off at the limit of its length. Continue exactly where it stopped."
EMPTY = "Your answer was empty. Continue with the task, or say what the result is."
NO_OUTPUT = "You have not called StructuredOutput yet. Call it now with your final answer."
#: After how many overloads in a row another model answers, and the statuses that mean an overload.
OVERLOADS, _OVERLOADED = 3, (503, 529)
STOP_FEEDBACK = "Stop hook feedback:\n"
MOST_REMINDERS = 5
#: How many results are kept, to be sent again for a prompt whose uuid comes twice.
_RESULTS_KEPT = 256


class TurnLimits:
    """What the host has said about turns: model calls of one, dollars of the session, models for an overload, and the output."""

    def __init__(
        self, max_turns: int | None, max_budget: float | None, fallbacks: Sequence[str] = (), *, wants_output: bool = False
    ) -> None:
        #: Whether a turn has to end with output in the host's schema.
        self.wants_output = wants_output
        self.max_turns = max_turns
        #: The names of the models that answer instead of one that is overloaded, in order.
        self.fallbacks = fallbacks
        self.max_budget = max_budget
        #: Which limit has ended the turn, as the subtype of its result.
        self.reached = ""

    def check(self, narrator: Narrator) -> str | None:
        """Return why the model must not be called again; None if it may."""
        turn = narrator.turn
        if (reason := self.check_budget(narrator)) is not None:
            return reason
        if self.max_turns and turn is not None and turn.answers >= self.max_turns:
            self.reached = "error_max_turns"
            return f"Reached maximum number of turns ({self.max_turns})"
        return None

    def check_budget(self, narrator: Narrator) -> str | None:
        """Return why nothing that costs may happen any more, and why no calls may start; None if they may."""
        if self.max_budget is None or narrator.spent.total < self.max_budget:
            return None
        self.reached = "error_max_budget_usd"
        if narrator.turn is not None:
            narrator.turn.is_out_of_budget = True
        return f"Reached maximum budget (${self.max_budget:g})"


class Turns:
    """Runs the turns of one session, one after another.

    `prepare` is awaited before the first turn; an interrupt fires the token that it gets. `begin` makes the frame with which each
    turn begins. `on_state` is called with the state of the session when that changes. `choose_model` sets a model by its name and
    returns the name. `before_result` is called before a result is sent.
    """

    def __init__(
        self,
        session: Session,
        narrator: Narrator,
        limits: TurnLimits,
        *,
        hooks: HostHooks,
        prepare: Callable[[CancelToken], Awaitable[None]],
        begin: Callable[[], frames.Init],
        on_state: Callable[[Any], None],
        choose_model: Callable[[str], str],
        remarks: Sequence[str],
        before_result: Callable[[], None],
        gate: Gate,
    ) -> None:
        self._session = session
        self._narrator = narrator
        self._limits = limits
        self._hooks = hooks
        hooks.on_stop = self._stop_by_hook
        hooks.on_defer = self._defer
        hooks.on_context = self._add_context
        self._prepare = prepare
        self._begin = begin
        self._on_state = on_state
        self._choose_model = choose_model
        self._before_result = before_result
        #: What the host is told in the first turn.
        self._remarks = remarks
        self._waiting: deque[Prompt] = deque()
        self._task: asyncio.Task[None] | None = None
        self._current: list[Prompt] = []
        self._is_prepared = False
        self._has_begun = False
        #: Fires when the turn is interrupted.
        self._preparing = CancelToken()
        #: The results of prompts with a uuid; None while there is none.
        self._results: OrderedDict[str, frames.Result | None] = OrderedDict()
        self._repeated: set[str] = set()
        #: Prompts that join the turn, by the `id()` of their message.
        self._joined: dict[int, Prompt] = {}
        #: Whether the last result was an error.
        self.has_failed = False
        #: How often in a row the model was overloaded, the models that may answer instead, and the model that the host chose.
        self._overloads, self._fallbacks = 0, list(limits.fallbacks)
        self._own_model: Model | None = None
        self._stand_in: Model | None = None
        session.queue.steering.mode = "all"
        session.subscribe(self._on_event, gate)

    @property
    def is_running(self) -> bool:
        return self._task is not None

    async def idle(self) -> None:
        """Wait until no turn runs and no prompt waits."""
        while self._task is not None:
            await asyncio.wait([self._task])

    # Prompts

    def submit(self, prompt: Prompt) -> None:
        """Accept a prompt."""
        uuid = prompt.uuid
        if uuid is not None:
            if uuid in self._results:
                self._repeat(uuid)
                return
            self._results[uuid] = None
            self._emit_lifecycle(prompt, "queued")
        if self._task is None:
            self._start([prompt])
        elif self._narrator.is_in_calls and not self._is_stopping:
            self._join(prompt)
        else:
            self._waiting.append(prompt)

    def drop(self, uuid: str) -> bool:
        """Drop a prompt that waits. Returns whether it did."""
        found = next((prompt for prompt in self._waiting if prompt.uuid == uuid), None)
        if found is not None:
            self._waiting.remove(found)
            self._results.pop(uuid, None)
            self._emit_lifecycle(found, "cancelled")
        return found is not None

    def list_waiting(self) -> list[str]:
        """Return the uuids of the prompts that wait."""
        return [prompt.uuid for prompt in self._waiting if prompt.uuid is not None]

    def interrupt(self) -> None:
        """Stop the running turn. The prompts that wait have their turn after it."""
        turn = self._narrator.turn
        if self._task is None or turn is None or turn.is_interrupted:
            return
        turn.is_interrupted = True
        self._preparing.fire()
        turn.was_streaming = not self._narrator.is_in_calls
        self._session.activity.cancel()

    @property
    def _is_stopping(self) -> bool:
        return self._narrator.turn is not None and self._narrator.turn.is_interrupted

    def _repeat(self, uuid: str) -> None:
        """Answer a prompt that came before with the same result."""
        result = self._results[uuid]
        if result is None:
            self._repeated.add(uuid)
        else:
            self._narrator.send(replace(result, uuid=new_uuid()))

    def _emit_lifecycle(self, prompt: Prompt, state: Any) -> None:
        if prompt.uuid is not None:
            common = self._narrator.common
            self._narrator.send(frames.CommandLifecycle(command_uuid=prompt.uuid, state=state, **common))

    # Turns

    def _start(self, prompts: list[Prompt]) -> None:
        self._begin_turn(prompts)
        self._task = asyncio.create_task(self._work())

    def _begin_turn(self, prompts: list[Prompt]) -> None:
        self._narrator.begin(prompts)
        self._current = prompts
        self._preparing = CancelToken()  # an interrupt may come before the turn has its first step

    async def _work(self) -> None:
        while True:
            try:
                result = await self._run(self._current)
            except Exception as error:  # a bug of ours: the host still gets a result
                report(error)
                text = f"Internal error: {type(error).__name__}: {error}"
                result = self._make("error_during_execution", is_error=True, errors=[text])
            self._finish(result)
            if not self._waiting:
                break
            prompts, self._waiting = list(self._waiting), deque[Prompt]()
            self._begin_turn(prompts)
        self._task = None
        self._on_state("idle")

    async def _run(self, prompts: list[Prompt]) -> frames.Result:
        narrator = self._narrator
        self._on_state("running")
        for prompt in prompts:
            self._emit_lifecycle(prompt, "started")
        try:
            if not self._is_prepared:
                await self._prepare(self._preparing)
                self._is_prepared = True
            text = "\n\n".join(prompt.text for prompt in prompts)
            started = await self._begin_session()
            verdict = await self._hooks.ask("UserPromptSubmit", cancel=self._preparing, prompt=text)
            if (verdict.block or verdict.stop) is not None and not self._is_stopping:
                narrator.send(self._begin())
                narrator.inform(f"A hook blocked the prompt: {verdict.block or verdict.stop}", "warning")
                result = self._make("success", is_error=False, result="")
                result.num_turns = 0
                return result
            if len(prompts) == 1 and not self._is_stopping and (result := await self._run_command(prompts[0])) is not None:
                return result
            narrator.send(self._begin())
            for remark in self._remarks:
                narrator.inform(remark, "warning")
            self._remarks = ()
            for prompt in prompts:
                narrator.replay(prompt)
            if self._is_stopping:
                return self._end_interrupted()
            if (spent := self._limits.check(narrator)) is not None:
                return self._make(self._limits.reached, is_error=True, errors=[spent])
            planning = [PLANNING] if self._hooks.is_planning else []
            text = "\n\n".join([text, *planning, *started, *verdict.contexts])
            images = [image for prompt in prompts for image in prompt.images]
            expand = len(prompts) == 1 and not prompts[0].is_plain
            if not await self._prompt(text, images, expand=expand):
                return self._make("success", is_error=False, result="", local_command=True)
            reminded, is_stopped = 0, False
            while (reminder := self._find_reminder() or await self._ask_to_stop(is_active=is_stopped)) is not None:
                if reminded == MOST_REMINDERS:
                    return self._give_up(reminder)
                is_stopped = is_stopped or reminder.startswith(STOP_FEEDBACK)
                reminded += 1
                narrator.send_user([{"type": "text", "text": reminder}], is_synthetic=True)
                await self._prompt(reminder, [], expand=False)
        except RunAborted:
            return self._end_interrupted()
        except FairleadError as error:
            return self._make("error_during_execution", is_error=True, errors=[str(error)])
        return self._outcome()

    async def _prompt(self, text: str, images: list[Any], *, expand: bool) -> bool:
        """Run a prompt to its end. Returns whether there was a run."""
        session = self._session
        if (uuid := next((prompt.uuid for prompt in self._current if prompt.uuid), None)) is not None:
            session.history.log.reserved_ids["user"] = uuid
        limits = RunLimits(
            max_turns=0,
            max_repeats=0,  # tools of hosts may be asked again and again until something has happened
            over_budget=lambda: self._limits.check(self._narrator),
            refuse_calls=lambda: self._limits.check_budget(self._narrator),
        )
        if await session.prompt(text, images or None, expand=expand, source="rpc", limits=limits) is None:
            return False
        await session.activity.idle()
        return True

    def _find_reminder(self) -> str | None:
        """Return what to tell the model because its answer is not an end yet; None if the turn is over."""
        turn, end = self._narrator.turn, self._session.activity.last_end
        if turn is None or end is None or turn.is_interrupted or turn.stopped_by_hook or end.is_final:
            return None
        message = end.message
        if message.stop_reason == "length":
            return CUT_OFF
        if message.stop_reason != "stop":
            return None
        if not message.tool_calls() and not message.text().strip():
            return EMPTY
        return NO_OUTPUT if self._limits.wants_output and turn.structured is UNSET else None

    async def _ask_to_stop(self, *, is_active: bool) -> str | None:
        """Ask the hooks whether the turn may end. Returns what to tell the model if it may not."""
        turn, end = self._narrator.turn, self._session.activity.last_end
        if turn is None or end is None or turn.is_interrupted or turn.stopped_by_hook or not self._hooks.has("Stop"):
            return None
        if end.message.stop_reason in ("error", "aborted"):
            return None
        verdict = await self._hooks.ask(
            "Stop",
            cancel=self._preparing,
            stop_hook_active=is_active,
            last_assistant_message=turn.text,
            background_tasks=[],
            session_crons=[],
        )
        if verdict.stop is not None:
            turn.stopped_by_hook = True
        if verdict.stop is not None or verdict.block is None or turn.is_interrupted:
            return None
        return f"{STOP_FEEDBACK}{verdict.block}"

    def _stop_by_hook(self, reason: str) -> None:
        """End the run, because a hook wants that. The turn is a success."""
        if (turn := self._narrator.turn) is not None:
            turn.stopped_by_hook = True
            self._session.activity.cancel()

    def _defer(self, call: dict[str, Any]) -> None:
        """End the run, because the host makes a call itself."""
        if (turn := self._narrator.turn) is not None:
            turn.deferred = call
            self._stop_by_hook("")

    def _add_context(self, text: str) -> None:
        """Tell the model something before it is called again."""
        self._session.queue.enqueue("steering", user_message(text, None, self._session.host.now_ms()))

    async def _begin_session(self) -> list[str]:
        """Run the commands for the start of the session, once. Returns what they want to tell the model."""
        if self._has_begun:
            return []
        self._has_begun = True
        source = "resume" if self._session.history.conversation.messages else "startup"
        verdict = await self._hooks.ask("SessionStart", source, cancel=self._preparing, only_commands=True, source=source)
        return verdict.contexts

    def _give_up(self, reminder: str) -> frames.Result:
        """Return the result of a turn that the model did not finish although it was reminded."""
        if reminder == NO_OUTPUT:
            text = "The model gave no structured output."
            return self._make("error_max_structured_output_retries", is_error=True, errors=[text])
        return self._outcome()

    async def _run_command(self, prompt: Prompt) -> frames.Result | None:
        """Carry out a slash command that needs no turn of the model. Returns None for any other prompt."""
        name, _, rest = prompt.text.strip().partition(" ")
        if prompt.is_plain or name not in ("/compact", "/clear", "/context", "/cost", "/model"):
            return None
        narrator = self._narrator
        try:
            if name not in ("/compact", "/clear"):
                narrator.send(self._begin())
                text = self._describe_session(name, rest.strip())
                narrator.send_own(text)
            elif name == "/clear":
                await self._hooks.ask("SessionEnd", "clear", cancel=self._preparing, reason="clear")
                await self._session.history.new()
                await self._hooks.ask("SessionStart", "clear", cancel=self._preparing, source="clear")
                new_id = self._session.history.conversation.id
                narrator.send(frames.ConversationReset(new_conversation_id=new_id, trigger="clear", **narrator.common))
                narrator.send(self._begin())
                text = ""
            else:
                compacted = await self._session.compact(rest.strip() or None, keep_messages=0)
                narrator.send(self._begin())
                narrator.send_boundary("manual", compacted)
                narrator.send_user(compacted.summary, is_synthetic=True)
                text = "The conversation was compacted."
                narrator.send_user(f"<local-command-stdout>{text}</local-command-stdout>", is_replay=True)
        except CompactionCancelled:
            return self._end_interrupted()
        except FairleadError as error:
            return self._make("error_during_execution", is_error=True, errors=[str(error)])
        result = self._make("success", is_error=False, result=text, local_command=True)
        if name not in ("/compact", "/clear"):
            result.num_turns = 0
        return result

    def _describe_session(self, name: str, rest: str) -> str:
        """Return what a slash command tells about the session. `/model NAME` chooses a model; raises ModelNotFound."""
        session = self._session
        if name == "/cost":
            return self._narrator.spent.format()
        if name == "/context":
            usage = session.usage.context
            if usage is None or usage.tokens is None:
                return "Nothing is known of the context yet: it is counted with the first answer."
            return f"{usage.tokens} of {usage.window} tokens of the context window are used ({usage.tokens / usage.window:.0%})."
        if rest:
            return f"The model is {self._choose_model(rest)} for this session."
        return f"The model is {session.model.id if session.model is not None else 'not chosen'}. Choose another with /model NAME."

    def _outcome(self) -> frames.Result:
        """Return the result of a run that has settled."""
        narrator, turn, end = self._narrator, self._narrator.turn, self._session.activity.last_end
        if turn is not None and turn.deferred is not None:
            deferred = {"terminal_reason": "tool_deferred", "deferred_tool_use": turn.deferred}
            return self._make("success", is_error=False, result=turn.text, **deferred)
        if turn is not None and turn.stopped_by_hook:
            return self._make("success", is_error=False, result=turn.text, terminal_reason="hook_stopped")
        if self._is_stopping or (end is not None and end.message.stop_reason == "aborted"):
            return self._end_interrupted()
        if self._limits.reached and end is not None and end.is_final:
            return self._make(self._limits.reached, is_error=True, errors=[end.message.error_message or ""])
        if end is not None and end.message.stop_reason == "error":
            text = narrator.send_failure(end)
            return self._make("success", is_error=True, result=text, terminal_reason="api_error", api_error_status=end.status)
        assert turn is not None
        text = turn.text if turn.structured is UNSET else msgspec.json.encode(turn.structured).decode()
        return self._make("success", is_error=False, result=text, terminal_reason="completed")

    def _end_interrupted(self) -> frames.Result:
        narrator, turn = self._narrator, self._narrator.turn
        assert turn is not None
        text = INTERRUPTED if turn.was_streaming else INTERRUPTED_IN_TOOLS
        conversation = self._session.history.conversation
        conversation.add(user_message(text, None, self._session.host.now_ms()))
        narrator.send_user([{"type": "text", "text": text}], uuid=narrator.entry_id())
        reason = "aborted_streaming" if turn.was_streaming else "aborted_tools"
        return self._make("error_during_execution", is_error=True, errors=[text], terminal_reason=reason)

    def _make(self, subtype: Any, *, is_error: bool, **more: Any) -> frames.Result:
        reason = encode_terminal(subtype)
        if reason is not None:
            more.setdefault("terminal_reason", reason)
        return self._narrator.make_result(subtype, is_error=is_error, queued=len(self._waiting), **more)

    def _finish(self, result: frames.Result) -> None:
        narrator = self._narrator
        self._take_back()
        turn, self._limits.reached = narrator.turn, ""
        self._use_own_model()
        narrator.turn = None
        self._before_result()
        narrator.send(result)
        self.has_failed = result.is_error
        for prompt in turn.prompts if turn is not None else ():
            self._emit_lifecycle(prompt, "completed")
            if prompt.uuid is not None:
                self._results[prompt.uuid] = result
                if prompt.uuid in self._repeated:
                    self._repeated.discard(prompt.uuid)
                    self._repeat(prompt.uuid)
        while len(self._results) > _RESULTS_KEPT:
            self._results.popitem(last=False)

    # Joining

    def _on_event(self, event: events.Event) -> None:
        self._hooks.on_event(event)
        self._narrator.send_event(event)
        if isinstance(event, events.ToolStart) and self._waiting and not self._is_stopping:
            waiting, self._waiting = list(self._waiting), deque[Prompt]()
            for prompt in waiting:
                self._join(prompt)
        elif isinstance(event, events.RetryStart):
            self._count_overload(is_first=event.attempt == 1)
        elif isinstance(event, events.SubagentEvent) and self._limits.check_budget(self._narrator) is not None:
            if self._session.subagents is not None:
                self._session.subagents.family.stop(event.id)
        elif isinstance(event, events.MessageEnd) and isinstance(event.message, UserMessage):
            prompt = self._joined.pop(id(event.message), None)
            if prompt is not None:
                self._narrator.replay(prompt)
                self._emit_lifecycle(prompt, "started")
                self._narrator.join(prompt)

    # Overloads

    def _count_overload(self, *, is_first: bool) -> None:
        """Use the next model after several overloads in a row, until the turn ends."""
        end, model = self._session.activity.last_end, self._session.model
        is_overload = end is not None and end.status in _OVERLOADED
        self._overloads = (0 if is_first else self._overloads) + 1 if is_overload else 0
        if self._overloads < OVERLOADS or model is None:
            return
        self._overloads = 0
        while self._fallbacks:
            name = self._fallbacks.pop(0)
            try:
                found = self._choose_model(name)
            except FairleadError as error:
                self._narrator.inform(f"The fallback model {name} cannot be used: {error}", "warning")
                continue
            self._own_model, self._stand_in = self._own_model or model, self._session.model
            text = f"{model.id} is overloaded, so {found} answers until the turn ends."
            told = {"trigger": "overloaded", "original_model": model.id, "fallback_model": found, "content": text}
            self._narrator.send(frames.ModelFallback(**told, **self._narrator.common))
            return

    def _use_own_model(self) -> None:
        """Begin the next turn with the model that the host has chosen."""
        model, self._own_model = self._own_model, None
        self._overloads, self._fallbacks = 0, list(self._limits.fallbacks)
        if model is not None and self._session.model is self._stand_in:  # otherwise the host has chosen one meanwhile
            self._session.models.set_model(model.provider, model.id)

    def _join(self, prompt: Prompt) -> None:
        """Queue a prompt for the next model call of the turn."""
        message = user_message(prompt.text, prompt.images, self._session.host.now_ms())
        self._session.queue.enqueue("steering", message)
        self._joined[id(message)] = prompt

    def _take_back(self) -> None:
        """Let prompts wait again that should have joined the turn and came too late."""
        if self._joined:
            left = list(self._joined.values())
            self._joined.clear()
            self._session.queue.clear()
            self._waiting.extendleft(reversed(left))
