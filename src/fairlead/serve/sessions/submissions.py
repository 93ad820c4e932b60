"""Submits the messages of clients to a session, each once, also if another server continues the session.

What a session in a store notes for the next server that opens it are custom entries in the session, which hosts and the model do
not see: its approval mode, which `fairlead.session.approval_mode` describes, and the requests that were accepted:

    fairlead.request     {"id": "...", "fingerprint": "..."}                 a message with this id is about to be added
    fairlead.request     {"id": "...", "refused": true}                      it was refused

A request is noted before its message, so that a client that repeats it after a crash starts nothing twice: it was accepted if the
message, or its place in the queue, follows the note."""

from __future__ import annotations

import asyncio
import hashlib
import os
from base64 import b64decode
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fairlead.core.images import image_type
from fairlead.core.messages import AssistantMessage, ImageContent, UserMessage, readable_error
from fairlead.protocol.http import http_events as shown
from fairlead.protocol.http import http_objects as o
from fairlead.protocol.http.http_events import PromptResult
from fairlead.serve.refusals import Refusal, bad_request
from fairlead.session.approval_mode import MODES, noted_mode
from fairlead.session.history.entries import QUEUE, REQUEST, CustomEntry, role_of
from fairlead.session.history.run_log import find_interruption
from fairlead.session.session import Session
from fairlead.wire.pending import AcceptedPrompts

if TYPE_CHECKING:
    from fairlead.session.history.conversation import Conversation
    from fairlead.session.history.entries import Entry
    from fairlead.session.history.log import Log


#: How many ends of prompts a snapshot has.
REMEMBERED_RESULTS = 32


def noted_approval(log: Log, default: o.Approval) -> o.Approval:
    """Return the approval mode of a session, on a server with a default. It is at least as strict, unless a client chose it."""
    noted = noted_mode(log)
    if noted is None:
        return default
    mode, is_chosen = noted
    return mode if is_chosen or MODES.index(mode) >= MODES.index(default) else default


def note_request(conversation: Conversation, id: str, fingerprint: str) -> None:
    """Note that a message with this id is about to be added."""
    _note(conversation, REQUEST, {"id": id, "fingerprint": fingerprint})


def note_refusal(conversation: Conversation, id: str) -> None:
    """Note that the message with this id was refused."""
    _note(conversation, REQUEST, {"id": id, "refused": True})


def noted_requests(log: Log) -> dict[str, tuple[str, o.AcceptedPrompt]]:
    """Return the requests that were accepted, oldest first: their ids, fingerprints and answers."""
    found: dict[str, tuple[str, o.AcceptedPrompt]] = {}
    waiting: dict[str, Any] | None = None
    for entry in log.entries_with_notes():
        data = _data(entry, REQUEST)
        if data is not None:
            waiting = None if data.get("refused") else data
            continue
        is_queued = (_data(entry, QUEUE) or {}).get("op") == "add"
        if waiting is not None and (is_queued or role_of(entry) == "user"):
            id, fingerprint = str(waiting.get("id")), str(waiting.get("fingerprint"))
            found[id] = fingerprint, o.AcceptedPrompt(status="queued" if is_queued else "started", id=id)
            waiting = None
    return found


def noted_results(log: Log) -> list[PromptResult]:
    """Return how the last requests of a session ended in which nothing runs. A run that was cut off has not ended."""
    requests = list(noted_requests(log))[-REMEMBERED_RESULTS:]
    if not requests:
        return []
    found = find_interruption(log)
    answers = (message for entry in log.back() for message in log.read(entry, keep=False))
    last = next((message for message in answers if isinstance(message, AssistantMessage)), None)
    results = [PromptResult(id=id, status="completed") for id in requests]
    if last is not None and last.stop_reason == "error":
        results[-1] = PromptResult(id=requests[-1], status="error", error=readable_error(last.error_message or ""))
    elif found is not None:
        results.pop()
    elif last is not None and last.stop_reason == "aborted":
        results[-1] = PromptResult(id=requests[-1], status="aborted")
    return results


def _note(conversation: Conversation, kind: str, data: dict[str, Any]) -> None:
    log = conversation.log
    conversation.keep(lambda: log.note(kind, data))


def _data(entry: Entry, kind: str) -> dict[str, Any] | None:
    if not isinstance(entry, CustomEntry) or entry.custom_type != kind:
        return None
    data: Any = entry.data
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


#: Seconds after which a message that an extension is still handling is accepted as `pending`.
ACCEPT_SECONDS = 1.0
#: How many ids of requests a session remembers.
REMEMBERED_REQUESTS = 512


class _Request(Struct):
    """A request with an id that was made before. When it has ended, only its outcome is kept."""

    fingerprint: str
    outcome: asyncio.Task[o.AcceptedPrompt] | o.AcceptedPrompt


#: The requests of a session by their ids, oldest first.
Requests: TypeAlias = dict[str, _Request]


class Submissions:
    """The messages that clients submit to a session. One whose id was used before is not submitted again.

    Args:
        session: The session.
        prompts: Follows the messages that were accepted.
        report: Called with the result of a message that was accepted as `pending` and is not part of a run.
        queue_limit: The number of messages that may wait.
    """

    def __init__(
        self,
        session: Session,
        prompts: AcceptedPrompts[str],
        report: Callable[[shown.PromptResult], None],
        *,
        queue_limit: int,
    ) -> None:
        self.known: Requests = {}
        #: How many messages are being submitted.
        self.active = 0
        self._session = session
        self._prompts = prompts
        self._report = report
        self._queue_limit = queue_limit
        #: The ids of the messages that were accepted as `pending`.
        self._pending: list[str] = []
        if self._is_kept:
            for id, (fingerprint, outcome) in noted_requests(session.history.log).items():
                self.known[id] = _Request(fingerprint, outcome)
            self.forget(REMEMBERED_REQUESTS)

    @property
    def _is_kept(self) -> bool:
        """Whether a store keeps the session, and has not given it to another owner."""
        conversation = self._session.history.conversation
        return conversation.is_shared and not conversation.is_lost

    async def prompt(self, body: o.Prompt) -> o.AcceptedPrompt:
        """Start a run, or queue the message. Raises what `Session.prompt` raises, and Refusal."""
        images = _check_images(body)
        return await self._submit_once(
            body,
            body.id,
            lambda: self._session.prompt(body.text, images, source="rpc", behavior=body.behavior),
            may_queue=body.behavior is not None,
        )

    async def steer(self, body: o.QueuedMessage) -> o.AcceptedPrompt:
        images = _check_images(body)
        return await self._submit_once(body, body.id, lambda: self._session.steer(body.text, images, source="rpc"), "steer")

    async def follow_up(self, body: o.QueuedMessage) -> o.AcceptedPrompt:
        images = _check_images(body)
        return await self._submit_once(
            body, body.id, lambda: self._session.follow_up(body.text, images, source="rpc"), "followUp"
        )

    async def _submit_once(
        self,
        body: Struct,
        ident: str | None,
        make: Callable[[], Coroutine[Any, Any, UserMessage | None]],
        kind: str = "prompt",
        *,
        may_queue: bool = True,
    ) -> o.AcceptedPrompt:
        """Submit a message, or return the first result if its id was used before. It is submitted even if the client leaves."""
        fingerprint = hashlib.sha256(kind.encode() + msgspec.json.encode(body)).hexdigest()
        known = None if ident is None else self.known.get(ident)
        if known is not None:
            if known.fingerprint != fingerprint:
                raise Refusal(409, "id_reused", f"id: {ident!r} was used for another message.")
            return await self._report_accepted(ident or "", known.outcome)
        if (may_queue or self._session.activity.is_streaming) and len(self._session.queue) >= self._queue_limit:
            raise Refusal(429, "queue_full", f"{self._queue_limit} messages wait already.", retry_after=5)
        name = ident or os.urandom(16).hex()
        if self._is_kept:
            note_request(self._session.history.conversation, name, fingerprint)
        task = asyncio.create_task(self._submit(name, make()), name="fairlead-submit")
        if ident is not None:
            self.known[ident] = _Request(fingerprint, task)
            self.forget(REMEMBERED_REQUESTS)
            task.add_done_callback(lambda _: self._remember(ident, task))
        return await self._report_accepted(name, task)

    def forget(self, most: int) -> None:
        """Forget the oldest requests, so that at most this many are remembered."""
        while len(self.known) > most:
            del self.known[next(iter(self.known))]

    def _remember(self, ident: str, task: asyncio.Task[o.AcceptedPrompt]) -> None:
        """Remember the outcome of a request. If it failed, nothing has happened, and the client may try again."""
        request = self.known.get(ident)
        if request is None or request.outcome is not task:
            return
        if task.cancelled() or task.exception() is not None:
            del self.known[ident]
        else:
            request.outcome = task.result()

    async def _report_accepted(self, ident: str, task: asyncio.Task[o.AcceptedPrompt] | o.AcceptedPrompt) -> o.AcceptedPrompt:
        """Return what happened to a message. An extension may ask the user first: then `prompt_result` reports it later."""
        if isinstance(task, o.AcceptedPrompt):
            return task
        await asyncio.wait([task], timeout=ACCEPT_SECONDS)
        if task.done():
            return task.result()
        if ident not in self._pending:
            self._pending.append(ident)
            task.add_done_callback(lambda _: self._report_late(ident, task))
        return o.AcceptedPrompt(status="pending", id=ident)

    def _report_late(self, ident: str, task: asyncio.Task[o.AcceptedPrompt]) -> None:
        self._pending.remove(ident)
        error = None if task.cancelled() else task.exception()
        if task.cancelled():
            self._report(shown.PromptResult(id=ident, status="aborted"))
        elif error is not None:
            self._report(shown.PromptResult(id=ident, status="error", error=str(error)))
        elif task.result().status == "handled":
            self._report(shown.PromptResult(id=ident, status="completed"))

    async def _submit(self, ident: str, work: Coroutine[Any, Any, UserMessage | None]) -> o.AcceptedPrompt:
        self.active += 1
        try:
            try:
                message = await work
            except BaseException:
                if self._is_kept:
                    note_refusal(self._session.history.conversation, ident)
                raise
            if message is None:
                return o.AcceptedPrompt(status="handled", id=ident)
            self._prompts.add(message, ident)
            return o.AcceptedPrompt(status="queued" if self._session.queue.holds(message) else "started", id=ident)
        finally:
            self.active -= 1


def _check_images(body: o.Prompt | o.QueuedMessage) -> list[ImageContent] | None:
    """Return the images of a message with their real types.

    Raises Refusal if the message is empty, or if a provider would refuse the conversation because of an image.
    """
    if not body.text.strip() and not body.images:
        raise bad_request("text: it is empty. Say something, or send an image.")
    checked: list[ImageContent] = []
    for image in body.images:
        try:
            kind = image_type(b64decode(image.data, validate=True))
        except ValueError:
            kind = None
        if kind is None:
            raise bad_request(f"images: expected PNG, JPEG, GIF or WebP in base64, found {image.mime_type[:50]!r}.")
        checked.append(replace(image, mime_type=kind))
    return checked or None
