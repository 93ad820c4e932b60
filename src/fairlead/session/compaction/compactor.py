"""Compacting a session: replacing its older messages by a summary. `fairlead.session.compaction.cut` writes the summary."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct, structs

from fairlead.config.settings import CompactionSettings
from fairlead.core.events import CompactionEnd, CompactionReason, CompactionResult, CompactionStart, FileLists
from fairlead.core.messages import CompactionSummaryMessage
from fairlead.core.runtime import CancelToken, Interrupted
from fairlead.errors import CompactingError, CompactionCancelled, ConfigError, EntryNotFound, FairleadError, NothingToCompact
from fairlead.session import hooks
from fairlead.session.additions import Extensions
from fairlead.session.compaction import cut, summary
from fairlead.session.context import overflow
from fairlead.session.context.budget import ContextBudget
from fairlead.session.context.tokens import estimate, estimate_all, should_compact
from fairlead.session.history.current import CurrentConversation
from fairlead.session.history.entries import CompactionEntry, ContextEditEntry, entries_in_context
from fairlead.session.run.state import Attempts, RunState
from fairlead.session.selection import Selection
from fairlead.session.session_events import Notify

if TYPE_CHECKING:
    from fairlead.core.model import Model, StreamEnd, ThinkingLevel
    from fairlead.session.compaction.cut import BranchSummary, Plan
    from fairlead.session.history.entries import Entry
    from fairlead.session.history.log import Log
    from fairlead.session.hooks import Cancelled

#: The least that a summary is written from, in tokens.
_SHORTEST_SUMMARY = 128
#: What extensions say about a compaction: their own summary, that it must not happen, or nothing.
Given: TypeAlias = CompactionResult | CompactionCancelled | None


class Wish(Struct, frozen=True):
    """Why a compaction is wanted, and how. `keep_messages` is how many of the newest messages stay at most. `overflows` is how
    many requests in a row have overflowed the context: each time half as much stays."""

    reason: CompactionReason
    instructions: str | None = None
    keep_messages: int | None = None
    overflows: int = 0


class Compactor:
    """Compacts one session: on request, when its context is nearly full, and when a model call overflowed it."""

    def __init__(
        self,
        settings: CompactionSettings,
        current: CurrentConversation,
        selection: Selection,
        budget: ContextBudget,
        run: RunState,
        extensions: Extensions,
        attempts: Attempts,
        *,
        notify: Notify,
        on_end: Callable[[], None],
    ) -> None:
        """`on_end` is called after a compaction on request."""
        #: Whether it compacts without being asked.
        self.enabled = settings.enabled
        self._settings = settings
        self._current = current
        self._selection = selection
        self._budget = budget
        self._run = run
        self._extensions = extensions
        self._attempts = attempts
        self._notify = notify
        self._on_end = on_end
        #: Stop what is going on: compactions, and summaries of branches.
        self._stops: list[CancelToken] = []
        #: Whether a compaction is going on that was not requested.
        self.is_automatic = False
        self._requested: asyncio.Task[CompactionResult] | None = None

    @property
    def is_running(self) -> bool:
        """Whether a compaction is going on, or a branch is being summarised. No run may begin meanwhile."""
        return bool(self._stops)

    def cancel(self) -> None:
        """Stop the compaction that is going on, if any, without waiting for it."""
        for stop in list(self._stops):
            stop.fire()

    async def idle(self) -> None:
        """Wait until no compaction that was requested is going on."""
        while self._requested is not None:
            await asyncio.wait([self._requested])

    # On request

    def request(self, instructions: str | None, *, keep_messages: int | None = None) -> asyncio.Task[CompactionResult]:
        """See `Session.compact`."""
        if self._requested is not None:
            raise CompactingError("The session is being compacted already.")
        if not self._extensions.may_exist:  # else they are asked first
            # The run is told first: from here on a cancel means the compaction.
            self._run.cancel.fire()
            self.cancel()
        stop = CancelToken()
        self._stops.append(stop)
        wish = Wish("manual", instructions, keep_messages)
        self._requested = asyncio.create_task(self._on_request(wish, stop), name="fairlead-compaction")
        self._requested.add_done_callback(lambda task: self._request_ended(task, stop))
        return self._requested

    async def _on_request(self, wish: Wish, stop: CancelToken) -> CompactionResult:
        given = await self._from_extensions(wish, stop)
        if not isinstance(given, CompactionCancelled):
            self._run.cancel.fire()
            await self._run.wait_ended()
        return await self._compact(wish, stop, given)

    def _request_ended(self, task: asyncio.Task[CompactionResult], stop: CancelToken) -> None:
        self._requested = None
        self._stops.remove(stop)
        self._on_end()
        if not task.cancelled():
            task.exception()  # the caller has it too; ignore it if no caller is waiting

    # By itself

    def is_due(self) -> bool:
        """Whether so little of the context is left that it is time for a compaction."""
        model = self._selection.model
        if not self.enabled or model is None:
            return False
        tokens, window = self._current.conversation.context_tokens(), self._selection.window(model)
        return should_compact(tokens, window, self._budget.reserve(window))

    async def make_room(self, cancel: CancelToken) -> bool:
        """Compact because the context is nearly full. Returns False if it did not help: it failed, or everything is recent."""
        try:
            self._plan(Wish("threshold"))
        except NothingToCompact:
            return False
        return await self._automatic(Wish("threshold"), cancel) is None

    def has_overflowed(self, end: StreamEnd) -> bool:
        """Whether a model call failed because the request was too large for the context, so that a compaction helps."""
        message, model = end.message, self._selection.model
        if not self.enabled or message.stop_reason != "error" or end.refused or model is None or message.model != model.id:
            return False
        return overflow.is_overflow(message.error_message or "", end.status)

    async def recover(self, end: StreamEnd, overflows: int, cancel: CancelToken) -> bool:
        """Make the conversation smaller because a request overflowed, for the `overflows`-th time in a row.

        The older part becomes a summary. If none can be made, what is sent is shortened. Returns whether to send it again.
        """
        budget, model = self._budget, self._model()
        if await budget.learn(end, model, cancel) and overflows == 1:
            return True  # there is room for the request, but not for as long an answer
        shrinks = overflows > 1 and budget.squeeze(model, overflows)
        wish = Wish("overflow", overflows=overflows)
        try:
            self._plan(wish)
        except NothingToCompact:
            return shrinks or self._continues_shortened(overflows)
        failure = await self._automatic(wish, cancel)
        return failure is None or (isinstance(failure, summary.NoSummary) and (shrinks or self._continues_shortened(overflows)))

    def _continues_shortened(self, overflows: int) -> bool:
        """Send less from now on, or give up if that is not possible. Returns whether it is."""
        if self._budget.squeeze(self._model(), overflows):
            return True
        self.give_up()
        return False

    def give_up(self) -> None:
        """Report that nothing more can be done about requests that overflow. The last message of the run also says why."""
        error = f"Context overflow recovery failed. {self._budget.explain_overflow(self._model())}"
        self._notify(CompactionEnd("overflow", error=error))
        end = self._run.last_end
        if end is not None:
            explained = structs.replace(end.message, error_message=f"{end.message.error_message} {error}")
            self._run.last_end = structs.replace(end, message=explained)

    async def _automatic(self, wish: Wish, cancel: CancelToken) -> FairleadError | None:
        """Compact without having been asked. Returns why it failed, if it did, after the events that say so."""
        self.is_automatic = True
        try:
            with self.stoppable(cancel) as stop:
                await self._compact(wish, stop, await self._from_extensions(wish, stop))
        except FairleadError as error:
            return error
        finally:
            self.is_automatic = False
        return None

    # Either way

    async def _from_extensions(self, wish: Wish, stop: CancelToken) -> Given:
        """What extensions say about a compaction that is about to begin. Nothing has been stopped or changed by then."""
        hooks = await self._extensions.ready()
        if hooks is None or not hooks.wants("session_before_compact"):
            return None
        try:
            planned = self._plan(wish)
        except FairleadError:  # the attempt itself will raise it
            return None
        log = self._current.log
        try:
            answer = await self._extensions.ask(hooks.before_compact(_make_plan(log, planned, wish, stop)), stop)
        except Interrupted:
            return CompactionCancelled()
        return _take_summary(log, planned, answer)

    async def _compact(self, wish: Wish, stop: CancelToken, given: Given) -> CompactionResult:
        """Compact, and send an event at the start and one at the end, even if it fails or is cancelled."""
        reason = wish.reason
        notify, what = self._notify, "Compaction" if reason == "manual" else "Auto-compaction"
        notify(CompactionStart(reason))
        try:
            if isinstance(given, CompactionCancelled):
                raise given
            result = given or await self._summary(wish, stop)
            await self._replace(reason, result, from_hook=given is not None)
        except CompactionCancelled as cancelled:
            notify(CompactionEnd(reason, aborted=True, error=cancelled.reason or None))
            raise
        except FairleadError as error:
            notify(CompactionEnd(reason, error=f"{what} failed: {error}"))
            raise
        except BaseException as error:
            notify(CompactionEnd(reason, error=f"{what} failed: {type(error).__name__}: {error}"))
            raise
        notify(CompactionEnd(reason, result, will_retry=reason == "overflow"))
        return result

    async def _summary(self, wish: Wish, stop: CancelToken) -> CompactionResult:
        """Have the model write a summary of the older part of the conversation."""
        model = self._model()
        planned = self._plan(wish)
        return await cut.compact(
            planned,
            self._resize(model),
            await self._selection.open_stream(model, stop),
            cancel=stop,
            instructions=wish.instructions,
            reserve_tokens=self._longest_summary(model),
            thinking=self._thinking(),
            retries=self._retries(wish.reason),
        )

    async def _replace(self, reason: CompactionReason, result: CompactionResult, *, from_hook: bool) -> None:
        """Replace the older part of the conversation by a summary."""
        conversation = self._current.conversation
        kept, log = result.first_kept_entry_id, conversation.log
        if from_hook and all(entry.id != kept for entry in log.path()):
            raise EntryNotFound(f"An extension wants to keep what follows entry {kept}, which is not part of the conversation.")
        conversation.compact(result, from_hook=from_hook)
        hooks = self._extensions.hooks
        if hooks is not None and hooks.wants("session_compact"):
            with suppress(Interrupted):
                await self._extensions.ask(hooks.on_compaction(log.plain(log.path()[-1:])[0], reason, from_hook))

    async def summarise_branch(
        self, left: Sequence[Entry], instructions: str | None, stop: CancelToken, *, replace_instructions: bool = False
    ) -> BranchSummary:
        """Have the model summarise the entries of a branch that is about to be left. Raises what a compaction raises."""
        model, log = self._model(), self._current.log
        messages = [message for entry in left for message in log.read(entry)]
        return await cut.summarise_branch(
            messages,
            self._resize(model),
            await self._selection.open_stream(model, stop),
            cancel=stop,
            instructions=instructions,
            replace_instructions=replace_instructions,
            reserve_tokens=self._longest_summary(model),
            thinking=self._thinking(),
            retries=self._retries(None),
        )

    @contextmanager
    def stoppable(self, cancel: CancelToken | None = None) -> Generator[CancelToken]:
        """Give a `CancelToken` for work on a summary. It fires when the session is cancelled, and with `cancel`."""
        stop = CancelToken()
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
        if self._selection.model is None:
            raise ConfigError("No model is chosen that could write the summary.")
        return self._selection.model

    def _retries(self, reason: CompactionReason | None) -> summary.SummaryRetries:
        return summary.SummaryRetries(self._attempts, self._notify, reason)

    def _thinking(self) -> ThinkingLevel:
        """A summary needs little thought, and what is thought is taken from its length."""
        level = self._selection.thinking
        return level if level in ("off", "minimal") else "low"

    def _resize(self, model: Model) -> Model:
        """The model with the window that it has, in tokens as they are estimated here."""
        budget = self._budget
        return structs.replace(model, context_window=budget.convert_tokens(self._selection.window(model)))

    def _longest_summary(self, model: Model) -> int:
        """The reserve that a summary is written from: it must not fill what is left for messages of a small window."""
        budget, window = self._budget, self._selection.window(model)
        if window <= 0:
            return budget.reserve_tokens
        return max(min(budget.reserve_tokens, budget.for_messages(window) // 4), _SHORTEST_SUMMARY)

    def _plan(self, wish: Wish) -> Plan:
        budget, window = self._budget, self._selection.window(self._model())
        keep, most = self._settings.keep_recent_tokens, None
        if window > 0:  # what stays must leave room for the summary and for work
            most = max(budget.for_messages(window) - budget.convert_tokens(budget.reserve(window)), 0)
            keep = min(keep, most // 2)
        items = _items(self._current.log)
        if wish.overflows:  # whatever the declared window: keep at most half of the messages, and less each time
            present = sum(estimate(item.message) for item in items if item.message is not None)
            keep = most = max(min(keep, present // 2) >> (wish.overflows - 1), 1)
        return cut.plan(items, keep, keep_messages=wish.keep_messages, most=most, again=wish.overflows > 0)


def _items(log: Log) -> list[cut.Item]:
    """The way to where the conversation stands, as a compaction sees it."""
    path = log.path()
    edits = {entry.target_id: entry for entry in path if isinstance(entry, ContextEditEntry)}
    items: list[cut.Item] = []
    for entry in path:
        if isinstance(entry, CompactionEntry):
            lists = _file_lists(entry.details)
            items.append(cut.Item(entry.id, None, "compaction", entry.summary, entry.first_kept_entry_id, lists))
            continue
        messages = log.read(entry, edits.get(entry.id))
        items.append(cut.Item(entry.id, messages[0]) if messages else cut.Item(entry.id, None, "other"))
    return items


def _file_lists(details: object) -> FileLists:
    """The files of an earlier compaction; none if another program keeps something else there."""
    try:
        return msgspec.convert(details, FileLists)
    except msgspec.ValidationError:
        return FileLists()


def _make_plan(log: Log, planned: Plan, wish: Wish, cancel: CancelToken) -> hooks.CompactionPlan:
    """The plan of a compaction, as extensions see it."""
    path = log.path()
    kept = next(place for place, entry in enumerate(path) if entry.id == planned.first_kept_id)
    stays = {entry.id for entry in path[kept:]}
    return hooks.CompactionPlan(
        reason=wish.reason,
        instructions=wish.instructions,
        to_summarise=log.plain(entry for entry, _ in entries_in_context(path) if entry.id not in stays),
        branch=log.plain(path),
        first_kept_entry_id=planned.first_kept_id,
        tokens_before=planned.tokens_before,
        cancel=cancel,
    )


def _take_summary(log: Log, planned: Plan, answer: hooks.Summary | Cancelled | None) -> Given:
    """The compaction that an extension's answer asks for."""
    if not isinstance(answer, hooks.Summary):
        return None if answer is None else CompactionCancelled(answer.reason)
    kept = answer.first_kept_entry_id or planned.first_kept_id
    path = log.path()
    first = next((place for place, entry in enumerate(path) if entry.id == kept), len(path))
    stays = estimate_all(message for entry in path[first:] for message in log.read(entry))
    return CompactionResult(
        summary=answer.text,
        first_kept_entry_id=kept,
        tokens_before=planned.tokens_before,
        details=FileLists(planned.read_files, planned.modified_files) if answer.details is None else answer.details,
        estimated_tokens_after=stays + estimate(CompactionSummaryMessage(answer.text, 0, 0)),
        usage=answer.usage,
    )
