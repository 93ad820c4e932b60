"""A session of a fleet that this server does not own: it reads the session, and follows what its owner writes.

No agent is open, and no lease is taken. What the owner has written since the last look becomes events: whole messages, and the
beginning and the end of runs. Sessions that jobs belong to take prompts too, which workers run. The events of a job have the
pieces of answers, so that clients get these as they arrive.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fairlead.core.messages import AssistantMessage, Message, Usage, encode_message
from fairlead.core.model import THINKING_LEVELS, ThinkingLevel
from fairlead.errors import NothingToResume, SessionError
from fairlead.protocol.http import http_events as shown
from fairlead.protocol.http import http_objects as o
from fairlead.protocol.http.fleet import ENDED
from fairlead.protocol.pi import frames
from fairlead.serve.refusals import Refusal, bad_request
from fairlead.serve.sessions.feed import Feed
from fairlead.serve.sessions.served import ArrivingAnswer, ForkedConversation, tree_of
from fairlead.serve.sessions.submissions import REMEMBERED_RESULTS, noted_approval, noted_results
from fairlead.session.context.budget import totals
from fairlead.session.history.entries import NotAnEntry, decode_line, role_of
from fairlead.session.history.log import Log
from fairlead.session.history.run_log import find_interruption
from fairlead.stores.headers import read_header
from fairlead.stores.paths import iso
from fairlead.wire.pi.pi_encoding import encode

if TYPE_CHECKING:
    from fairlead.models.registry import Registry
    from fairlead.protocol.http.fleet import JobEvent, JobResult
    from fairlead.serve.sessions.spaces import Fleet
    from fairlead.session.history.entries import Entry
    from fairlead.stores import StoredLines
    from fairlead.stores.headers import Header

_log = logging.getLogger("fairlead.serve")

#: The user and the id of a session.
Key: TypeAlias = tuple[str, str]

#: How many entries are read at a time.
_PAGE = 5000
_RESULTS: dict[str, Literal["completed", "error", "aborted"]] = {
    "done": "completed",
    "failed": "error",
    "parked": "error",
    "cancelled": "aborted",
}


class _View(Struct):
    """What clients know of the session from the events so far."""

    log: Log
    messages: list[bytes]
    name: str | None
    is_running: bool
    results: list[shown.PromptResult]


class WatchedSession:
    """A session that is read from the store of a fleet, whether another process works in it or not.

    Args:
        fleet: The fleet.
        id: The id of the session.
        feed: Gets the events.
        registry: Describes models.
        known: The number of the last entry that the events in the feed cover; None: the feed is new.
    """

    def __init__(self, fleet: Fleet, id: str, feed: Feed, registry: Registry, known: int | None = None) -> None:
        self.id = id
        self.feed = feed
        #: How many requests are using it now, and when the last one ended.
        self.uses = 0
        self.last_used = time.monotonic()
        self._fleet = fleet
        self._registry = registry
        self._known = known
        self._header: Header | None = None
        self._records: list[tuple[Entry, bytes]] = []
        self._ids: set[str] = set()
        self._gaps: list[int] = []
        self._last = 0
        self._jobs: list[JobResult] = []
        self._owner: o.SessionOwner | None = None
        self._view: _View | None = None
        #: The answer that is arriving, and the number of the entry with the last one that has arrived.
        self._arriving: ArrivingAnswer | None = None
        self._last_answer = 0
        #: The job whose events are followed, and the number of the last one.
        self._followed: tuple[str, int] = ("", 0)
        #: The open jobs that were seen before workers began with them, so that clients can have all their pieces.
        self._seen_early: set[str] = set()
        self._refreshing = asyncio.Lock()

    # Following

    async def refresh(self) -> None:
        """Read what is new, and publish it. Raises SessionNotFound and SessionError."""
        async with self._refreshing:
            jobs = await self._fleet.jobs.list(session=self.id)
            has_news = False
            while True:
                page = await self._fleet.store.read(self.id, self._last, _PAGE)
                has_news = self._add(page) or has_news
                if not page.lines or page.lines[-1].number >= page.last:
                    break
            owner = o.SessionOwner(name=page.owner, until=iso(int(page.expires_at * 1000))) if page.owner else None
            had_owner, self._owner = self._owner is not None, owner
            known = None if self._view is None else {job.id for job in self._jobs}
            early = {job.id for job in jobs if not job.attempts or (known is not None and job.id not in known)}
            self._seen_early = {job.id for job in jobs if not job.has_ended} & (self._seen_early | early)
            if self._view is None or has_news or jobs != self._jobs or had_owner != (owner is not None):
                self._jobs = jobs
                self._show(self._make_view(self._records))

    def _add(self, page: StoredLines) -> bool:
        """Add entries. Returns whether there were any."""
        if self._header is None:
            self._header = read_header(page.header)
            if self._header is None:
                raise SessionError(f"Session {self.id} of the fleet does not begin with a session header.")
        if self._known is not None and self._view is None and page.lines:
            self._add_lines(page, self._known)
            if self._last >= self._known:
                self._view = self._make_view(self._records)
        self._add_lines(page, page.last)
        return bool(page.lines)

    def _add_lines(self, page: StoredLines, until: int) -> None:
        for number, line in page.lines:
            if not self._last < number <= until:
                continue
            self._last = number
            try:
                entry, line = decode_line(line)
            except ValueError as error:
                if not isinstance(error, NotAnEntry):
                    self._gaps.append(len(self._records))
                continue
            if role_of(entry) == "assistant":
                self._last_answer = number
            if entry.id not in self._ids:  # otherwise a copy
                self._ids.add(entry.id)
                self._records.append((entry, line))

    def _make_view(self, records: list[tuple[Entry, bytes]]) -> _View:
        assert self._header is not None
        log = Log(self._header, records, gaps=self._gaps)
        found = find_interruption(log) if self._owner is not None else None
        is_running = self.has_open_jobs or (found is not None and not found.failed)
        if self._jobs:
            results = _results(self._jobs)
        elif is_running:
            results = [] if self._view is None else self._view.results
        else:
            results = noted_results(log)
        return _View(log, list(log.raw_messages()), log.name, is_running, results)

    def _show(self, view: _View) -> None:
        """Publish how a view differs from the one before."""
        before, self._view = self._view, view
        if before is None:
            return
        is_longer = view.messages[: len(before.messages)] == before.messages
        new = view.log.messages()[len(before.log.messages()) :] if is_longer else []
        # A run may have begun and ended since the last look.
        has_run = before.is_running or view.is_running or bool(new)
        if has_run and not before.is_running:
            self.feed.publish(encode(frames.AgentStart())[:-1])
        for message in new:
            self._send_message(message)
        is_over = has_run and not view.is_running
        if self._arriving is not None and (is_over or self._arriving.entry < self._last_answer):
            self._arriving, is_longer = None, False
        if not is_longer:
            self._send(shown.BranchChanged(leaf_id=view.log.leaf))
        if view.name != before.name and view.name is not None:
            self.feed.publish(encode(frames.SessionInfoChanged(view.name))[:-1])
        if is_over:
            self.feed.publish(encode(frames.AgentSettled(False))[:-1])
        known = {result.id for result in before.results}
        for result in view.results:
            if result.id not in known:
                self._send(result)

    def _send_message(self, message: Message) -> None:
        if not isinstance(message, AssistantMessage):
            self.feed.publish(encode(frames.MessageStart(message))[:-1])
        else:
            arriving, self._arriving = self._arriving or self._begin(replace(message, content=[]), 0), None
            for update in arriving.finish(message):
                self.feed.publish(update)
        self.feed.publish(encode(frames.MessageEnd(message))[:-1])

    def _begin(self, shell: AssistantMessage, entry: int) -> ArrivingAnswer:
        self.feed.publish(encode(frames.MessageStart(shell))[:-1])
        return ArrivingAnswer(shell, entry)

    def _send(self, event: shown.ServeEvent) -> None:
        self.feed.publish(msgspec.json.encode(event))

    # Following a worker

    @property
    def open_job(self) -> JobResult | None:
        """The job that workers run, or run next."""
        return next((job for job in self._jobs if not job.has_ended), None)

    async def follow(self, job: JobResult) -> None:
        """Publish the pieces of answers while workers run a job, until it has ended. Raises FairleadError."""
        id, number = self._followed
        # If the job ran already when it was seen first, the answer that is arriving comes as a whole.
        after = number if id == job.id else 0 if job.id in self._seen_early else None
        async for event in self._fleet.jobs.events(job.id, after=after):
            self._followed = job.id, event.number
            if event.type in ("text", "thinking"):
                await self._take_piece(event)
            elif event.type == "message" or event.type in ENDED:
                await self.refresh()

    async def _take_piece(self, event: JobEvent) -> None:
        text, entry, offset = event.data["text"], event.data.get("entry"), event.data.get("offset", 0)
        if entry is None:  # of a worker that does not tell
            return
        if entry > self._last:
            await self.refresh()  # what came before it
        if entry < self._last_answer:
            return  # the whole message was there earlier
        if offset == len(text):
            if self._arriving is not None:  # its worker died, and another one asks the model again
                self._arriving = None
                self._send(shown.BranchChanged(leaf_id=self._current_view.log.leaf))
            self._arriving = self._begin(self._shell(), entry)
        if self._arriving is not None and self._arriving.entry == entry:
            for update in self._arriving.add(event.type, event.data["block"], text, offset):
                self.feed.publish(update)

    def _shell(self) -> AssistantMessage:
        """Return an answer without content."""
        choice = self._current_view.log.model()
        provider, id = ("", "") if choice is None else (choice.provider, choice.id)
        model = self._registry.find(provider, id)
        return AssistantMessage([], "" if model is None else model.api, provider, id, Usage(), "stop", int(time.time() * 1000))

    # Looking: after the first `refresh`

    @property
    def cwd(self) -> Path:
        assert self._header is not None
        return Path(self._header.cwd)

    @property
    def has_jobs(self) -> bool:
        """Whether workers run the prompts of the session."""
        return bool(self._jobs)

    @property
    def has_open_jobs(self) -> bool:
        """Whether some of its jobs have not ended."""
        return any(not job.has_ended for job in self._jobs)

    @property
    def _current_view(self) -> _View:
        assert self._view is not None
        return self._view

    @property
    def _is_interrupted(self) -> bool:
        """Whether `resume` can continue the last run. If its owner is still there, it will hand the session back soon."""
        if self._jobs:
            return self._jobs[-1].status in ("failed", "parked")
        return not self._current_view.is_running and find_interruption(self._current_view.log) is not None

    def state(self) -> o.SessionState:
        view = self._current_view
        log, choice = view.log, view.log.model()
        return o.SessionState(
            id=self.id,
            cwd=str(self.cwd),
            name=view.name,
            model=None if choice is None else self._registry.find(choice.provider, choice.id),
            thinking=_level(log),
            approval=noted_approval(log, "auto"),
            status="running" if view.is_running else "idle",
            message_count=len(view.messages),
            cost=totals(log).cost,
            listeners=self.feed.listeners,
            interrupted=self._is_interrupted,
            owner=self._owner,
        )

    def snapshot(self, most_messages: int | None = None) -> bytes:
        """Return a `Snapshot` as JSON, with the newest messages only if there is a limit."""
        view = self._current_view
        skipped = 0 if most_messages is None else max(0, len(view.messages) - most_messages)
        return b'{"session":%b,"messages":[%b],"skippedMessages":%d,%b,"promptResults":%b,"lastEvent":%d}' % (
            msgspec.json.encode(self.state()),
            b",".join(view.messages[skipped:]),
            skipped,
            b'"openMessage":%b,"runningTools":[],"questions":[],"todos":[],"subagents":[]'
            % (b"null" if self._arriving is None else bytes(encode_message(self._arriving.message()))),
            msgspec.json.encode(view.results),
            self.feed.last,
        )

    async def complete(self, before: str) -> o.Completions:
        return o.Completions()  # the process that owns the session knows its commands and files

    def tree(self) -> o.Tree:
        """Return all branches of the session."""
        return tree_of(self._current_view.log)

    # Acting

    async def prompt(self, body: o.Prompt | o.QueuedMessage) -> o.AcceptedPrompt:
        """Send a message to the workers. It runs after those before it. Raises Refusal and FairleadError."""
        if body.images:
            raise bad_request("images: workers run the prompts of this session, and take text only.")
        if isinstance(body, o.Prompt) and body.behavior == "steer":
            raise run_by_workers()
        job = await self._fleet.jobs.prompt(self.id, body.text, id=body.id)
        await self.refresh()
        return o.AcceptedPrompt(status="queued", id=body.id or job.id)

    async def follow_up(self, body: o.QueuedMessage) -> o.AcceptedPrompt:
        return await self.prompt(body)

    async def resume(self) -> None:
        """Queue the last job again if it failed or is parked. Raises NothingToResume and FairleadError."""
        if not self._is_interrupted:
            raise NothingToResume
        await self._fleet.jobs.retry(self._jobs[-1].id)
        await self.refresh()

    async def abort(self) -> None:
        """Cancel the jobs of the session that have not ended. Raises FairleadError."""
        jobs = await self._fleet.jobs.list(session=self.id)
        await self._fleet.jobs.cancel(*(job.id for job in jobs if not job.has_ended))
        await self.refresh()

    # What only the owner of the session can do

    async def steer(self, body: o.QueuedMessage) -> o.AcceptedPrompt:
        raise run_by_workers()

    async def compact(self, instructions: str | None) -> Any:
        raise run_by_workers()

    async def change(self, changes: o.Changes) -> None:
        raise run_by_workers()

    async def move(self, body: o.Move) -> o.Moved:
        raise run_by_workers()

    def fork(self, body: o.Fork) -> ForkedConversation:
        raise run_by_workers()

    def clear_queue(self) -> o.ClearedQueue:
        raise run_by_workers()

    def answer(self, question: str, body: Any) -> None:
        raise run_by_workers()


def run_by_workers() -> Refusal:
    """The refusal of a request that only the owner of a session could fulfil."""
    text = "Workers run the prompts of this session. They take prompts, aborts and resumes, and nothing else."
    return Refusal(409, "run_by_workers", text)


def _results(jobs: list[JobResult]) -> list[shown.PromptResult]:
    ended = [job for job in jobs if job.has_ended][-REMEMBERED_RESULTS:]
    return [
        shown.PromptResult(id=job.labels.get("prompt", job.id), status=_RESULTS[job.status], error=job.error) for job in ended
    ]


def _level(log: Log) -> ThinkingLevel:
    level = log.thinking_level()
    return level if level in THINKING_LEVELS else "off"
