"""One run of a session: from the acceptance of its prompt until nothing more happens by itself.

A run is one pass of the agent loop, and further ones where the first cannot be the last: after a failure that may pass, after
an overflow of the context, for messages that were queued while the end of the run was being tidied up.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairlead.core.events import AgentEnd, AgentStart, EntryAppended, ExtensionError
from fairlead.core.loop import Run, run_agent
from fairlead.core.messages import Message
from fairlead.core.model import StreamEnd
from fairlead.core.partial_message import PartialMessage
from fairlead.core.runtime import Cancel, Interrupted
from fairlead.core.secrets import redacted
from fairlead.session.context.tokens import is_good_answer

if TYPE_CHECKING:
    from fairlead.session.session import Session

#: How many times in a row a request is made smaller because it has overflowed the context.
MOST_OVERFLOWS = 5


class Running:
    def __init__(self, session: Session, prompts: Sequence[Message], cancel: Cancel) -> None:
        self._session = session
        self._cancel = cancel
        #: What the next pass begins with, and what it has added so far.
        self._prompts: list[Message] = list(prompts)
        self._added: list[Message] = []
        #: Whether the end of the last pass has been told.
        self._ended = False
        #: How many requests in a row have overflowed the context, without a good answer in between.
        self._overflows = 0
        #: Whether a compaction may still help.
        self._compactable = True
        self._limits = session.turns.limits()

    async def go(self) -> None:
        session = self._session
        session.attempts.begin()
        session.room.begin()
        if session.rules is not None:
            session.rules.begin_run()
        try:
            run = self._run()
            await self._between()
            while True:
                self._ended = False
                await session.emit(AgentStart())
                end = session.last_end = await run_agent(run, self._prompts, self._added)
                last = list(self._added)
                if not await self._goes_on(end) and not await self._is_kept_going(end, last):
                    break
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a bug of ours: the host still gets an end, and the next prompt its chance
            self._break_off(error)
        finally:
            # Without waiting for anybody: from the last look into the queues to the settled session nothing else may
            # happen, or a message queued in between would be left behind.
            if not self._ended:
                self._end()
            if session.last_end is not None:
                session.attempts.ended(session.last_end)
            session.settle()

    def _run(self) -> Run:
        session = self._session
        before = after = None
        if session.call_hooks is not None:
            from fairlead.session.extending import after_call, before_call

            before, after = before_call(session.call_hooks), after_call(session.call_hooks)
        return Run(
            next_turn=lambda: session.turns.next(self._cancel),
            between=self._between,
            watch=session.rules.saw if session.rules is not None else None,
            add=session.conversation.add,
            emit=session.emit,
            notify=session.tell,
            report=report,
            queues=session.queues,
            runtime=session.runtime,
            cancel=self._cancel,
            before_call=before,
            approver=session.approver,
            after_call=after,
            limits=self._limits,
        )

    async def _goes_on(self, end: StreamEnd) -> bool:
        """What has to happen after a pass; whether another one follows."""
        session, compactor = self._session, self._session.compactor
        if any(is_good_answer(message) for message in self._added):
            self._overflows = 0  # what overflows after it is another context than the one that was made smaller
        if is_good_answer(end.message):
            session.room.succeeded(end.message)
        if end.is_final:
            return False
        if self._was_cut_off():
            return not self._cancel.fired
        delay_ms = session.attempts.next_delay(end)
        if delay_ms is not None:
            self._end(will_retry=True)
            self._forget_failure()
            return await session.attempts.wait(end, delay_ms, self._cancel)
        if compactor.has_overflowed(end):
            self._overflows += 1
            if self._overflows > MOST_OVERFLOWS:
                self._end()
                compactor.give_up()
                return False
            self._end(will_retry=True)
            self._forget_failure()
            return await compactor.recover(end, self._overflows, self._cancel) and not self._cancel.fired
        if end.message.stop_reason in ("error", "aborted") or self._cancel.fired:
            return False
        reminder = session.todos.reminder() if not self._limits.out_of_turns else None
        if reminder is not None:
            self._end(will_retry=True)
            session.conversation.add(reminder)  # without an event: hosts have had one of its own
            await self._make_room()
            return not self._cancel.fired
        if not self._is_due():
            return False
        self._end()
        await self._make_room()
        return self._hears_more()

    async def _is_kept_going(self, end: StreamEnd, added: list[Message]) -> bool:
        """Whether the run continues because extensions want that, or because a message came meanwhile.

        A limit that ended the run, or would end it with the next model call, is not up to extensions.
        """
        session, hooks = self._session, self._session.hooks
        if hooks is None or self._cancel.fired or not hooks.wants("agent_before_settle"):
            return False
        if end.is_final or self._limits.out_of_turns:
            return False
        try:
            wanted = await session.ask(hooks.before_settle(added), self._cancel)
        except Interrupted:
            return False
        if not wanted and end.message.stop_reason == "error":
            return False
        if not self._ended:
            self._end(will_retry=bool(wanted))
        if not wanted:
            return self._hears_more()
        for message in wanted:
            session.conversation.add(message)
        self._prompts = list(wanted)
        await self._make_room()
        return not self._cancel.fired

    def _was_cut_off(self) -> bool:
        """Whether a stream rule ended the last answer; the model is then told of the rule."""
        session, rules = self._session, self._session.rules
        told = rules.injection() if rules is not None else None
        if rules is None or told is None:
            return False
        self._end(will_retry=True)
        if rules.discards:
            self._forget_failure()
        session.conversation.add(told)
        return True

    def _end(self, *, will_retry: bool = False) -> None:
        self._session.tell(AgentEnd(self._added, will_retry))
        self._ended = True
        self._added, self._prompts = [], []

    def _forget_failure(self) -> None:
        """The next attempt must not see the answer that failed. It stays in the file."""
        entry = self._session.conversation.drop_last_answer()
        if entry is not None:
            self._session.tell(EntryAppended(entry))

    def _hears_more(self) -> bool:
        """Whether something was queued after the loop had looked for it the last time; then the next pass begins with it."""
        session = self._session
        if self._cancel.fired:
            return False
        self._prompts = list(session.queues.steering.take() or session.queues.follow_up.take())
        for message in self._prompts:
            session.conversation.add(message)
            session.tell(session.queues.update())
        return bool(self._prompts)

    async def _between(self) -> None:
        """Before a turn: tell the model of rules that it broke and that let it finish, and see to it that there is room."""
        rules = self._session.rules
        told = rules.reminder() if rules is not None else None
        if told is not None:
            self._session.conversation.add(told)
        await self._make_room()

    async def _make_room(self) -> None:
        if self._is_due():
            self._compactable = await self._session.compactor.make_room(self._cancel)

    def _is_due(self) -> bool:
        return self._compactable and not self._cancel.fired and self._session.compactor.is_due()

    def _break_off(self, error: BaseException) -> None:
        session = self._session
        report(error)
        assert session.model is not None, "a run needs a model, and a model is never unset"
        broken = PartialMessage(session.model, session.runtime.now_ms())
        text = f"Internal error: {type(error).__name__}: {error}"
        broken.fail(text)
        session.last_end = broken.finished
        session.tell(ExtensionError("session", "run", redacted(text)))  # no message tells of it


def report(error: BaseException) -> None:
    """Print a bug of ours, with its traceback, on stderr."""
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr.write(redacted("".join(traceback.format_exception(error))))
