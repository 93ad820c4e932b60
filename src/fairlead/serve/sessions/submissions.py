"""Submits the messages of clients to a session, each once."""

from __future__ import annotations

import asyncio
import hashlib
import os
from base64 import b64decode
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fairlead.core.images import image_type
from fairlead.core.messages import ImageContent, UserMessage
from fairlead.protocol.http import events as shown
from fairlead.protocol.http import objects as o
from fairlead.serve.refusals import Refusal, bad_request
from fairlead.serve.sessions.notes import note_refusal, note_request, noted_requests
from fairlead.session.session import Session
from fairlead.wire.prompts import AcceptedPrompts

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
        images = _checked(body)
        return await self._once(
            body,
            body.id,
            lambda: self._session.prompt(body.text, images, source="rpc", behavior=body.behavior),
            may_queue=body.behavior is not None,
        )

    async def steer(self, body: o.QueuedMessage) -> o.AcceptedPrompt:
        images = _checked(body)
        return await self._once(body, body.id, lambda: self._session.steer(body.text, images, source="rpc"), "steer")

    async def follow_up(self, body: o.QueuedMessage) -> o.AcceptedPrompt:
        images = _checked(body)
        return await self._once(body, body.id, lambda: self._session.follow_up(body.text, images, source="rpc"), "followUp")

    async def _once(
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
            return await self._accepted(ident or "", known.outcome)
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
        return await self._accepted(name, task)

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

    async def _accepted(self, ident: str, task: asyncio.Task[o.AcceptedPrompt] | o.AcceptedPrompt) -> o.AcceptedPrompt:
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


def _checked(body: o.Prompt | o.QueuedMessage) -> list[ImageContent] | None:
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
