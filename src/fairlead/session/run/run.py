"""One run of a session: from the acceptance of its prompt until nothing more happens by itself.

A run is one pass of the agent loop, and further ones where the first cannot be the last: after a failure that may pass, after
an overflow of the context, for messages that were queued while the run was ending.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from fairlead.core.events import AgentEnd, AgentSettled, AgentStart, EntryAppended, Event, ExtensionError, MessageEnd
from fairlead.core.limits import RunLimits
from fairlead.core.loop import LoopCallbacks, run_agent
from fairlead.core.message_updates import MessageUpdate, UpdateMaker
from fairlead.core.messages import Message, UserMessage
from fairlead.core.model import StreamEnd
from fairlead.core.partial_message import PartialMessage
from fairlead.core.runtime import CancelToken, Interrupted
from fairlead.core.secrets import redacted
from fairlead.session import hook_calls
from fairlead.session.additions import Extensions
from fairlead.session.asyncio_runtime import CANCELLED_ELSEWHERE, AsyncioRuntime, is_cancelled
from fairlead.session.compaction.compactor import Compactor
from fairlead.session.context.budget import ContextBudget
from fairlead.session.context.tokens import is_good_answer
from fairlead.session.history.current import CurrentConversation
from fairlead.session.history.run_log import CallLog, Interruption, find_interruption, note_run
from fairlead.session.run.message_queue import MessageQueue
from fairlead.session.run.state import Attempts, RunState
from fairlead.session.run.turns import Turns
from fairlead.session.selection import Selection
from fairlead.session.session_events import Events, report
from fairlead.session.todos.lazy import LazyTodos

if TYPE_CHECKING:
    from fairlead.core.tool import Approver
    from fairlead.session.host import Host
    from fairlead.session.rules.rule_keeper import RuleKeeper


_log = logging.getLogger("fairlead.session")

#: How many times in a row a request is made smaller because it has overflowed the context.
MOST_OVERFLOWS = 5


class RunParts(Struct, frozen=True, kw_only=True):
    """The parts of a session that its runs use."""

    state: RunState
    current: CurrentConversation
    events: Events
    queues: MessageQueue
    turns: Turns
    attempts: Attempts
    budget: ContextBudget
    compactor: Compactor
    todos: LazyTodos
    rules: RuleKeeper | None
    extensions: Extensions
    selection: Selection
    runtime: AsyncioRuntime
    approver: Approver | None
    host: Host


#: Prepares a prompt that was accepted while the run was ending. Returns the messages that follow it.
OpenPrompt: TypeAlias = Callable[[UserMessage, CancelToken], Awaitable[Sequence[Message]]]


class Run:
    """One run. `prompts` are part of the conversation already."""

    def __init__(
        self,
        parts: RunParts,
        prompts: Sequence[Message],
        cancel: CancelToken,
        limits: RunLimits | None,
        interruption: Interruption | None,
        open_prompt: OpenPrompt,
    ) -> None:
        """Make a run. With `interruption` it continues the run that was interrupted there."""
        self._parts = parts
        self._open_prompt = open_prompt
        self._cancel = cancel
        #: What the next pass begins with, and what it has added so far.
        self._prompts: list[Message] = list(prompts)
        self._added: list[Message] = []
        #: Whether the event for the end of the last pass has been sent.
        self._ended = False
        #: How many requests in a row have overflowed the context, without a good answer in between.
        self._overflows = 0
        #: Whether a compaction may still help.
        self._compactable = True
        self._limits = parts.turns.limits(limits)
        self._interruption = interruption
        #: The calls that the next pass has to finish before the model is asked.
        self._unfinished = None if interruption is None else interruption.calls

    async def go(self) -> None:
        parts, state = self._parts, self._parts.state
        self._begin_prompt()
        try:
            run = self._loop_run()
            if self._interruption is not None and self._interruption.failed:
                self._forget_failure()
            if self._unfinished is None:  # else a compaction would come between calls and their results
                await self._between()
            while True:
                self._ended = state.is_ending = False
                self._note_start()
                await self._emit(AgentStart())
                unfinished, self._unfinished = self._unfinished, None
                end = state.last_end = await run_agent(run, self._prompts, self._added, unfinished)
                added = list(self._added)
                if await self._continues(end) or await self._is_continued_by_extensions(end, added):
                    continue
                if await self._is_continued_at_the_end():
                    continue
                if not self._takes_prompts(every=self._cancel.fired):
                    break
                await self._open_prompts()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a bug of ours: the host still gets an end, and the next prompt its chance
            if not isinstance(error, asyncio.CancelledError):
                self._break_off(error)
            elif is_cancelled():
                raise
            else:  # the stream of a program raised it, for example
                self._break_off(RuntimeError(CANCELLED_ELSEWHERE))
        finally:
            # Without any await: from the last look into the queues to the settled session nothing else may happen, or a
            # message queued in between would be left behind.
            if not self._ended:
                self._end()
            if state.last_end is not None:
                parts.attempts.on_end(state.last_end)
                last = state.last_end.message
                _log.info("run ended: %s/%s, stop reason %s", last.provider, last.model, last.stop_reason)
                if last.stop_reason not in ("error", "aborted") and last.tool_calls():
                    note_run(parts.current.conversation, "ended")
            self._settle()

    def _settle(self) -> None:
        parts, state = self._parts, self._parts.state
        state.settle()
        if state.is_resumable and state.cancel.fired:
            note_run(parts.current.conversation, "stopped")
        parts.turns.on_settle()
        parts.host.add_finished_commands()
        parts.current.flush()
        parts.events.notify_last(AgentSettled(aborted=state.cancel.fired), state.announce_later)

    def _note_start(self) -> None:
        """Note that the run continues, where the messages so far look like those of a run that has ended."""
        if any(isinstance(prompt, UserMessage) for prompt in self._prompts):
            return  # after one, there is an answer to come
        conversation = self._parts.current.conversation
        if find_interruption(conversation.log) is None:
            note_run(conversation, "started")

    def _begin_prompt(self) -> None:
        """Give a prompt all its attempts."""
        parts = self._parts
        parts.attempts.begin()
        parts.budget.begin()
        if parts.rules is not None:
            parts.rules.begin_run()

    def _loop_run(self) -> LoopCallbacks:
        parts, hooks = self._parts, self._parts.extensions.call_hooks
        before = after = None
        if hooks is not None:
            before, after = hook_calls.before_call(hooks), hook_calls.after_call(hooks)
        return LoopCallbacks(
            next_turn=lambda: parts.turns.next(self._cancel),
            between=self._between,
            watch=parts.rules.saw if parts.rules is not None else None,
            add=parts.current.conversation.add,
            emit=self._emit,
            update=self._update,
            notify=parts.events.notify,
            report=report,
            queues=parts.queues,
            runtime=parts.runtime,
            cancel=self._cancel,
            written=parts.events.wait_written,
            before_call=before,
            approver=parts.approver,
            after_call=after,
            revise=None if parts.extensions.calls is None else self._revise,
            may_revise=self._may_revise,
            journal=CallLog(parts.current.conversation),
            answering=self._answering,
            limits=self._limits,
        )

    def _answering(self, answer: UpdateMaker | None) -> int:
        self._parts.state.answer = answer
        return self._parts.current.conversation.last_number if answer is not None else 0

    async def _emit(self, event: Event) -> None:
        """Send an event, and wait while a listener or the store cannot keep up."""
        events = self._parts.events
        if not isinstance(event, MessageEnd):
            await events.emit(event, self._cancel)
        else:  # extensions have handled it in `_revise`
            await events.room()
            events.send(event)
            if is_good_answer(event.message):
                self._parts.attempts.on_answer()
        if events.paused:
            await events.wait(self._cancel)

    def _update(self, event: MessageUpdate) -> Awaitable[None] | None:
        """Send an update of an answer. Returns what to await before the next one, if there is something to await."""
        return self._parts.events.send_at_once(event, self._cancel)

    def _may_revise(self) -> bool:
        """Whether an extension may want to keep another message than one that has ended."""
        calls = self._parts.extensions.calls
        return calls is not None and calls.hooks is not None and calls.hooks.wants("message_end")

    async def _revise(self, message: Message) -> Message:
        """Return the message that extensions want to keep instead of one that has ended."""
        calls = self._parts.extensions.calls
        revised = message if calls is None else await calls.message_ended(message, self._cancel)
        if revised is not message and any(message is prompt for prompt in self._prompts):
            self._parts.current.conversation.revise(message, revised)
        return revised

    async def _continues(self, end: StreamEnd) -> bool:
        """Do what has to happen after a pass. Returns whether another one follows."""
        parts, compactor = self._parts, self._parts.compactor
        if any(is_good_answer(message) for message in self._added):
            self._overflows = 0  # what overflows after it is another context than the one that was made smaller
        if is_good_answer(end.message):
            parts.budget.on_answer(end.message)
        if end.is_final:
            return False
        if self._was_cut_off():
            return not self._cancel.fired
        delay_ms = parts.attempts.next_delay(end)
        if delay_ms is not None:
            await self._emit_end(will_retry=True)
            parts.attempts.announce(end, delay_ms)
            self._forget_failure()
            return await parts.attempts.wait(delay_ms, self._cancel)
        if compactor.has_overflowed(end):
            self._overflows += 1
            if self._overflows > MOST_OVERFLOWS:
                await self._emit_end()
                compactor.give_up()
                return False
            await self._emit_end(will_retry=True)
            self._forget_failure()
            return await compactor.recover(end, self._overflows, self._cancel) and not self._cancel.fired
        if end.message.stop_reason in ("error", "aborted") or self._cancel.fired:
            return False
        reminder = parts.todos.reminder() if not self._limits.exhausted else None
        if reminder is not None:
            await self._emit_end(will_retry=True)
            parts.current.conversation.add(reminder)  # without an event: hosts have had a TodoReminder
            await self._make_room()
            return not self._cancel.fired
        if not self._is_due():
            return False
        await self._emit_end()
        await self._make_room()
        return not parts.queues.has_prompts and self._takes_queued()

    async def _is_continued_by_extensions(self, end: StreamEnd, added: list[Message]) -> bool:
        """Whether the run continues because extensions want that, or because a message came meanwhile.

        A limit that ended the run, or would end it with the next model call, is not up to extensions.
        """
        extensions, conversation = self._parts.extensions, self._parts.current.conversation
        hooks = extensions.hooks
        if hooks is None or self._cancel.fired or not hooks.wants("agent_before_settle"):
            return False
        if end.is_final or self._limits.exhausted:
            return False
        if not self._ended:
            await self._emit_end()
        try:
            wanted = await extensions.ask(hooks.before_settle(added), self._cancel)
        except Interrupted:
            return False
        continues = self._parts.queues.take_again() or bool(wanted)
        if not continues and end.message.stop_reason == "error":
            return False
        if not continues:
            return not self._parts.queues.has_prompts and self._takes_queued()
        for message in wanted:
            conversation.add(message)
        self._prompts = list(wanted)
        await self._make_room()
        return not self._cancel.fired

    async def _is_continued_at_the_end(self) -> bool:
        """Have extensions handle the end of the pass before the session settles. Returns whether the run continues with what
        they sent."""
        parts = self._parts
        hooks = parts.extensions.hooks
        if self._ended or hooks is None or not hooks.wants("agent_end"):
            return False
        await self._emit_end()
        return not parts.queues.has_prompts and self._takes_queued()

    def _was_cut_off(self) -> bool:
        """Whether a stream rule ended the last answer. If so, the model is told the rule."""
        rules = self._parts.rules
        told = rules.injection() if rules is not None else None
        if rules is None or told is None:
            return False
        self._end(will_retry=True)
        if rules.discards:
            self._forget_failure()
        self._parts.current.conversation.add(told)
        return True

    async def _emit_end(self, *, will_retry: bool = False) -> None:
        """Send the event for the end of the pass, after extensions have handled it."""
        await self._parts.events.emit(AgentEnd(self._added, will_retry), self._cancel)
        self._end_pass(will_retry=will_retry)

    def _end(self, *, will_retry: bool = False) -> None:
        self._parts.events.notify(AgentEnd(self._added, will_retry))
        self._end_pass(will_retry=will_retry)

    def _end_pass(self, *, will_retry: bool) -> None:
        self._ended = True
        self._parts.state.is_ending = not will_retry
        self._added, self._prompts = [], []

    def _forget_failure(self) -> None:
        """The next attempt must not see the answer that failed. It stays in the file."""
        entry = self._parts.current.conversation.drop_last_answer()
        if entry is not None:
            self._parts.events.notify(EntryAppended(entry))

    def _takes_queued(self) -> bool:
        """Whether something was queued after the loop had looked for it the last time. The next pass begins with it."""
        parts, queues = self._parts, self._parts.queues
        if self._cancel.fired:
            return False
        self._prompts = list(queues.steering.take() or queues.follow_up.take())
        for message in self._prompts:
            parts.current.conversation.add(message)
            parts.events.notify(queues.update())
        return bool(self._prompts)

    def _takes_prompts(self, *, every: bool) -> bool:
        """Whether prompts wait that were accepted while the run was ending. The next pass begins with the first one.

        An abort or a failure does not keep them waiting: they were accepted as prompts, so each needs an outcome. After an abort
        one pass takes `every` prompt, and is aborted as it begins.
        """
        parts = self._parts
        prompts = parts.queues.take_prompts(every=every)
        if not prompts:
            return False
        if not self._ended:
            self._end()
        self._prompts = list(prompts)
        for message in prompts:
            parts.current.conversation.add(message)
            parts.events.notify(parts.queues.update())
        return True

    async def _open_prompts(self) -> None:
        """Prepare what `_takes_prompts` has taken, as if each were the first prompt of a run."""
        parts = self._parts
        if parts.state.last_end is not None:
            parts.attempts.on_end(parts.state.last_end)
        self._begin_prompt()
        for prompt in list(self._prompts):
            for message in await self._open_prompt(prompt, self._cancel) if isinstance(prompt, UserMessage) else ():
                parts.current.conversation.add(message)
                self._prompts.append(message)

    async def _between(self) -> None:
        """Before a turn: tell the model the rules that it broke and that let it finish, and compact if there is no room."""
        rules = self._parts.rules
        told = rules.reminder() if rules is not None else None
        if told is not None:
            self._parts.current.conversation.add(told)
        await self._make_room()

    async def _make_room(self) -> None:
        if self._is_due():
            self._compactable = await self._parts.compactor.make_room(self._cancel)

    def _is_due(self) -> bool:
        return self._compactable and not self._cancel.fired and self._parts.compactor.is_due()

    def _break_off(self, error: BaseException) -> None:
        parts, model = self._parts, self._parts.selection.model
        report(error)
        assert model is not None, "a run needs a model, and a model is never unset"
        broken = PartialMessage(model, parts.runtime.now_ms())
        text = f"Internal error: {type(error).__name__}: {error}"
        broken.fail(text)
        parts.state.last_end = broken.finished
        parts.events.notify(ExtensionError("session", "run", redacted(text)))  # no message says so
