"""When a session is compacted, and what happens then. How a summary is made is in `fairlead.session.compaction.cut`."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, structs

from fairlead.config.settings import CompactionSettings
from fairlead.core.events import CompactionEnd, CompactionReason, CompactionResult, CompactionStart, FileLists
from fairlead.core.runtime import Cancel, Interrupted
from fairlead.errors import CompactingError, CompactionCancelled, ConfigError, EntryNotFound, FairleadError, NothingToCompact
from fairlead.session.context.tokens import DEFAULT_RESERVE_TOKENS, estimate, should_compact

if TYPE_CHECKING:
    from fairlead.core.model import Model, StreamEnd, ThinkingLevel
    from fairlead.session.compaction.cut import BranchSummary, Item, Plan
    from fairlead.session.history.entries import Entry
    from fairlead.session.history.log import Log
    from fairlead.session.session import Session

#: The least that a summary is written from, in tokens.
_SHORTEST_SUMMARY = 128

#: What extensions have to say to a compaction: a summary of their own, that it is not to be, or nothing.
Given: TypeAlias = CompactionResult | CompactionCancelled | None


class Wish(Struct, frozen=True):
    """Why a compaction is wanted, and how. `keep_messages` is how many of the newest messages stay at most. `overflows` is how
    many requests in a row have overflowed the context: each time half as much stays."""

    reason: CompactionReason
    instructions: str | None = None
    keep_messages: int | None = None
    overflows: int = 0


class Compactor:
    """Compacts one session: when somebody asks for it, when its context is nearly full, and when a request overflowed it."""

    def __init__(self, session: Session, settings: CompactionSettings) -> None:
        self.enabled = settings.enabled
        self._session = session
        self._settings = settings
        #: Stop what is going on: compactions, and summaries of branches.
        self._stops: list[Cancel] = []
        self._requested: asyncio.Task[CompactionResult] | None = None

    @property
    def reserve_tokens(self) -> int:
        chosen = self._settings.reserve_tokens
        return DEFAULT_RESERVE_TOKENS if chosen is None else chosen

    @property
    def is_running(self) -> bool:
        """Whether a compaction, or the summary of a branch, is going on, whoever asked for it. No run may begin meanwhile."""
        return bool(self._stops)

    def cancel(self) -> None:
        """Stop the compaction that is going on, if any, without waiting for it."""
        for stop in list(self._stops):
            stop.fire()

    async def idle(self) -> None:
        """Wait until no compaction that somebody asked for is going on."""
        while self._requested is not None:
            await asyncio.wait([self._requested])

    # Asked for

    def request(self, instructions: str | None, *, keep_messages: int | None = None) -> asyncio.Task[CompactionResult]:
        """Compact now, after ending the run that is going on. It counts as begun from here on. `keep_messages` is how many of
        the newest messages stay at most; None: what the settings say.

        Raises, or the task does, if there is nothing to compact, no model, or the model fails; then nothing has changed.
        """
        if self._requested is not None:
            raise CompactingError("The session is being compacted already.")
        if not self._session.may_be_extended:  # else they are asked first
            # The run is told first: what is stopped from here on is the compaction.
            self._session.cancel()
        stop = Cancel()
        self._stops.append(stop)
        wish = Wish("manual", instructions, keep_messages)
        self._requested = asyncio.create_task(self._on_request(wish, stop), name="fairlead-compaction")
        self._requested.add_done_callback(lambda task: self._request_ended(task, stop))
        return self._requested

    async def _on_request(self, wish: Wish, stop: Cancel) -> CompactionResult:
        given = await self._from_extensions(wish, stop)
        if not isinstance(given, CompactionCancelled):
            self._session.cancel_run()
            await self._session.run_ended()
        return await self._compact(wish, stop, given)

    def _request_ended(self, task: asyncio.Task[CompactionResult], stop: Cancel) -> None:
        self._requested = None
        self._stops.remove(stop)
        self._session.commands.take_places()
        if not task.cancelled():
            task.exception()  # whoever asked has it too; if nobody waits any more, it is not to be complained of

    # By itself

    def is_due(self) -> bool:
        """Whether so little of the context is left that it is time for a compaction."""
        model = self._session.model
        if not self.enabled or model is None:
            return False
        tokens, window = self._session.conversation.context_tokens(), self._session.room.window(model)
        return should_compact(tokens, window, self._session.room.reserve(model, self.reserve_tokens))

    async def make_room(self, cancel: Cancel) -> bool:
        """Compact because the context is nearly full. False if that is of no use: it failed, or everything is recent."""
        try:
            self._plan(Wish("threshold"))
        except NothingToCompact:
            return False
        return await self._automatic(Wish("threshold"), cancel) is None

    def has_overflowed(self, end: StreamEnd) -> bool:
        """Whether a model call failed because the request was too large for the context, so that a compaction helps."""
        message, model = end.message, self._session.model
        if not self.enabled or message.stop_reason != "error" or end.refused or model is None or message.model != model.id:
            return False
        from fairlead.session.context.overflow import is_overflow

        return is_overflow(message.error_message or "", end.status)

    async def recover(self, end: StreamEnd, overflows: int, cancel: Cancel) -> bool:
        """Make the conversation smaller because a request overflowed, for the `overflows`-th time in a row. Whether it can be
        sent again.

        The older part becomes a summary. What cannot become one, because nothing else is left or because no summary can be
        made, is shortened when it is sent.
        """
        from fairlead.session.compaction.summary import NoSummary

        room, model = self._session.room, self._model()
        if await room.learn(end, model, cancel) and overflows == 1:
            return True  # there is room for the request, but not for as long an answer
        shrinks = overflows > 1 and room.squeeze(model, overflows)
        wish = Wish("overflow", overflows=overflows)
        try:
            self._plan(wish)
        except NothingToCompact:
            return shrinks or self._goes_on_shortened(overflows)
        failure = await self._automatic(wish, cancel)
        return failure is None or (isinstance(failure, NoSummary) and (shrinks or self._goes_on_shortened(overflows)))

    def _goes_on_shortened(self, overflows: int) -> bool:
        """Whether less is sent from now on; if that is not possible, say so."""
        if self._session.room.squeeze(self._model(), overflows):
            return True
        self.give_up()
        return False

    def give_up(self) -> None:
        """Nothing more can be done about requests that overflow. Callers that look only at the end of the run are told why."""
        session = self._session
        error = f"Context overflow recovery failed. {session.room.explained(self._model())}"
        session.tell(CompactionEnd("overflow", error=error))
        if session.last_end is not None:
            message = session.last_end.message
            explained = structs.replace(message, error_message=f"{message.error_message} {error}")
            session.last_end = structs.replace(session.last_end, message=explained)

    async def _automatic(self, wish: Wish, cancel: Cancel) -> FairleadError | None:
        """Compact without having been asked. Why it failed, if it did; that has been told."""
        with self.stoppable(cancel) as stop:
            try:
                await self._compact(wish, stop, await self._from_extensions(wish, stop))
            except FairleadError as error:
                return error
        return None

    # Either way

    async def _from_extensions(self, wish: Wish, stop: Cancel) -> Given:
        """What extensions have to say to a compaction that is about to begin. Nothing has been stopped or changed by then."""
        session = self._session
        hooks = await session.ready()
        if hooks is None or not hooks.wants("session_before_compact"):
            return None
        from fairlead.session.compaction.before_compaction import given_summary, shown

        try:
            planned = self._plan(wish)
        except FairleadError:  # it will be told when it is tried
            return None
        log = session.conversation.log
        try:
            answer = await session.ask(hooks.before_compact(shown(log, planned, wish.reason, wish.instructions, stop)), stop)
        except Interrupted:
            return CompactionCancelled()
        return given_summary(log, planned, answer)

    async def _compact(self, wish: Wish, stop: Cancel, given: Given) -> CompactionResult:
        """Compact, and tell of the beginning and of the end, whatever that is."""
        reason = wish.reason
        tell, what = self._session.tell, "Compaction" if reason == "manual" else "Auto-compaction"
        tell(CompactionStart(reason))
        try:
            if isinstance(given, CompactionCancelled):
                raise given
            result = given or await self._summary(wish, stop)
            await self._replace(reason, result, from_hook=given is not None)
        except CompactionCancelled as cancelled:
            tell(CompactionEnd(reason, aborted=True, error=cancelled.reason or None))
            raise
        except FairleadError as error:
            tell(CompactionEnd(reason, error=f"{what} failed: {error}"))
            raise
        except BaseException as error:
            tell(CompactionEnd(reason, error=f"{what} failed: {type(error).__name__}: {error}"))
            raise
        tell(CompactionEnd(reason, result, will_retry=reason == "overflow"))
        return result

    async def _summary(self, wish: Wish, stop: Cancel) -> CompactionResult:
        """Have the model write a summary of the older part of the conversation."""
        from fairlead.session.compaction.cut import compact

        model = self._model()
        planned = self._plan(wish)
        return await compact(
            planned,
            self._sized(model),
            await self._session.turns.stream_of(model, stop),
            cancel=stop,
            instructions=wish.instructions,
            reserve_tokens=self._longest_summary(model),
            thinking=self._thinking(),
        )

    async def _replace(self, reason: CompactionReason, result: CompactionResult, *, from_hook: bool) -> None:
        """Put a summary in the place of the older part of the conversation."""
        session, conversation = self._session, self._session.conversation
        kept, log = result.first_kept_entry_id, conversation.log
        if from_hook and all(entry.id != kept for entry in log.path()):
            raise EntryNotFound(f"An extension wants to keep what follows entry {kept}, which is no part of the conversation.")
        conversation.compacted(result, from_hook=from_hook)
        if session.hooks is not None and session.hooks.wants("session_compact"):
            with suppress(Interrupted):
                await session.ask(session.hooks.compacted(log.plain(log.path()[-1:])[0], reason, from_hook))

    async def summarise_branch(self, left: Sequence[Entry], instructions: str | None, stop: Cancel) -> BranchSummary:
        """What happened in the entries of a branch that the conversation is about to leave. Raises as a compaction does."""
        from fairlead.session.compaction.cut import summarise_branch

        model, log = self._model(), self._session.conversation.log
        messages = [message for entry in left for message in log.read(entry)]
        return await summarise_branch(
            messages,
            self._sized(model),
            await self._session.turns.stream_of(model, stop),
            cancel=stop,
            instructions=instructions,
            reserve_tokens=self._longest_summary(model),
            thinking=self._thinking(),
        )

    @contextmanager
    def stoppable(self, cancel: Cancel | None = None) -> Generator[Cancel]:
        """For work on a summary: fires with the session's `cancel`, and with that of the run."""
        stop = Cancel()
        forget = cancel.on_fire(stop.fire) if cancel is not None else None
        self._stops.append(stop)
        try:
            yield stop
        finally:
            self._stops.remove(stop)
            if forget is not None:
                forget()

    # Inside

    def _model(self) -> Model:
        if self._session.model is None:
            raise ConfigError("No model is chosen that could write the summary.")
        return self._session.model

    def _thinking(self) -> ThinkingLevel:
        """A summary needs little thought, and what is thought is taken from its length."""
        level = self._session.thinking
        return level if level in ("off", "minimal") else "low"

    def _sized(self, model: Model) -> Model:
        """The model with the window that it has, in tokens as they are estimated here."""
        room = self._session.room
        return structs.replace(model, context_window=room.estimated(room.window(model)))

    def _longest_summary(self, model: Model) -> int:
        """The reserve that a summary is written from: it must not fill what is left for messages of a small window."""
        room = self._session.room
        if room.window(model) <= 0:
            return self.reserve_tokens
        return max(min(self.reserve_tokens, room.for_messages(model) // 4), _SHORTEST_SUMMARY)

    def _plan(self, wish: Wish) -> Plan:
        from fairlead.session.compaction.cut import plan

        model, room = self._model(), self._session.room
        keep, most = self._settings.keep_recent_tokens, None
        if room.window(model) > 0:  # what stays must leave room for the summary and for work
            most = max(room.for_messages(model) - room.estimated(room.reserve(model, self.reserve_tokens)), 0)
            keep = min(keep, most // 2)
        items = _items(self._session.conversation.log)
        if wish.overflows:  # whatever the window is said to be, half of what is there must go, and more each time
            present = sum(estimate(item.message) for item in items if item.message is not None)
            keep = most = max(min(keep, present // 2) >> (wish.overflows - 1), 1)
        return plan(items, keep, keep_messages=wish.keep_messages, most=most, again=wish.overflows > 0)


def _items(log: Log) -> list[Item]:
    """The way to where the conversation stands, as a compaction sees it."""
    from fairlead.session.compaction.cut import Item
    from fairlead.session.history.entries import CompactionEntry, ContextEditEntry

    path = log.path()
    edits = {entry.target_id: entry for entry in path if isinstance(entry, ContextEditEntry)}
    items: list[Item] = []
    for entry in path:
        if isinstance(entry, CompactionEntry):
            lists = _file_lists(entry.details)
            items.append(Item(entry.id, None, "compaction", entry.summary, entry.first_kept_entry_id, lists))
            continue
        messages = log.read(entry, edits.get(entry.id))
        items.append(Item(entry.id, messages[0]) if messages else Item(entry.id, None, "other"))
    return items


def _file_lists(details: object) -> FileLists:
    """The files of an earlier compaction; none if another program keeps something else there."""
    import msgspec

    try:
        return msgspec.convert(details, FileLists)
    except msgspec.ValidationError:
        return FileLists()
