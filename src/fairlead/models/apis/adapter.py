"""What the adapters of all APIs share: from a request to a finished message.

An adapter says how to ask and what an event means; everything that can go wrong on the way is handled here, and
ends up in the message.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from fairlead.core.messages import ModelMessage
from fairlead.core.model import Model, PartialMessage, Request, StreamEvent
from fairlead.core.runtime import Cancel
from fairlead.core.secrets import redacted
from fairlead.errors import ProviderError
from fairlead.models.apis.request_building import PrefixCache
from fairlead.models.apis.sending import read_error_body, when_loaded
from fairlead.models.credentials import RequestAuth
from fairlead.models.http.client import Http, HttpRequest, RequestAborted, Response
from fairlead.models.http.sse import SSEDecoder

if TYPE_CHECKING:
    from fairlead.core.interceptor import Interceptor

#: How much of an unexpected answer is shown.
_SHOWN = 4096
#: Seconds that a server can ask to wait. Nothing waits that long; the number stays one that can be calculated with.
_LONGEST_WAIT = 1e9


async def run(
    http: Http,
    request: Callable[[], HttpRequest],
    partial: PartialMessage,
    on_event: Callable[[bytes, bytes], None],
    cancel: Cancel,
    on_close: Callable[[], None] | None = None,
    interceptor: Interceptor | None = None,
) -> AsyncIterator[list[StreamEvent]]:
    """Ask a provider and build `partial` from the events of its answer, until it is finished.

    `on_event` gets the name and the data of each event. If it raises ValueError or a msgspec error, the
    event is skipped. `on_close` is called when the answer ends before the message does, and may finish it. An `interceptor`
    may change the request, and sees the head of the answer.
    """
    reader = _Reader(partial, on_event)
    try:
        asked = request()
        if interceptor is not None:
            from fairlead.models.apis.sending import changed

            asked = await changed(asked, interceptor, cancel)
        async with when_loaded(http, asked, cancel) as (response, body):
            if interceptor is not None:
                from fairlead.models.apis.sending import seen

                await seen(response, interceptor, cancel)
            if response.status >= 400:
                await _fail_with_status(partial, response, asked, body)
            else:
                async for chunk in response.chunks():
                    if await reader.is_json(response, chunk):
                        break
                    reader.feed(chunk)
                    if partial.finished is not None:
                        response.rest_is_noise = True
                        break
                    if events := partial.take():
                        yield events
                else:
                    reader.end(on_close)
    except RequestAborted:
        partial.abort()
    except ProviderError as error:
        partial.fail(str(error), status=error.status, retry_after=error.retry_after, transient=error.transient)
    except Exception as error:
        partial.fail(f"Unexpected {type(error).__name__} while reading the model's answer: {error}")
    # The last events leave after the connection was given back: whoever gets them may not ask again.
    yield partial.take()


class _Reader:
    """Feeds decoded events to an adapter, and remembers what to say if none of them made sense."""

    def __init__(self, partial: PartialMessage, on_event: Callable[[bytes, bytes], None]) -> None:
        self._partial = partial
        self._on_event = on_event
        self._decoder = SSEDecoder()
        self._beginning = b""
        self._understood = 0
        self._skipped = 0

    async def is_json(self, response: Response, chunk: bytes) -> bool:
        """Whether the answer is plain JSON, as imitators send that ignore `stream` or report errors with status 200.

        Some label their events as JSON, so the first character decides.
        """
        if self._beginning:
            return False
        self._beginning = chunk[: 2 * _SHOWN]
        if "json" not in response.headers.get("content-type", "") or not chunk.lstrip().startswith((b"{", b"[")):
            return False
        rest = await read_error_body(response)
        self._partial.fail(f"The provider answered with plain JSON instead of a stream of events: {_shown(chunk + rest)}")
        return True

    def feed(self, chunk: bytes) -> None:
        self._handle(self._decoder.feed(chunk))

    def end(self, on_close: Callable[[], None] | None) -> None:
        """The answer is over; the message should be too."""
        self._handle(self._decoder.end())
        if self._partial.finished is None and self._understood and on_close is not None:
            on_close()
        if self._partial.finished is not None:
            return
        if self._understood:
            skipped = f" ({self._skipped} events could not be read)" if self._skipped else ""
            text = f"The provider's stream ended without a final event{skipped}; the answer is incomplete."
        elif self._beginning:
            text = f"The provider's stream ended without an event that could be read. It begins: {_shown(self._beginning)}"
        else:
            text = "The provider's stream ended without a single byte."
        self._partial.fail(text, transient=True)

    def _handle(self, events: list[tuple[bytes, bytes]]) -> None:
        on_event, partial = self._on_event, self._partial
        for name, data in events:
            try:
                on_event(name, data)
            except (ValueError, msgspec.MsgspecError, RecursionError):
                self._skipped += 1
            else:
                self._understood += 1
            if partial.finished is not None:
                return


async def _fail_with_status(partial: PartialMessage, response: Response, asked: HttpRequest, body: bytes | None) -> None:
    """End the message with the server's error; `body` is its text, if that has been read already."""
    status = response.status
    text = _shown(await read_error_body(response) if body is None else body) or _phrase(status)
    if status in (404, 405):
        text += _not_there(asked.url, text)
    transient = status in (408, 409, 429) or status >= 500
    partial.fail(f"{status} {text}", status=status, retry_after=retry_after(response.headers), transient=transient)


def _not_there(url: str, text: str) -> str:
    """What to add to an error that says that nothing is at `url`: the URL without its query, and what may be wrong with it."""
    from urllib.parse import urlsplit

    address = urlsplit(url)
    host = address.netloc.rpartition("@")[2]
    shown = f" [URL: {address.scheme}://{host}{address.path}]"
    if "model" in text.lower():
        return shown  # the address is right, and the model is unknown
    hint = "Check the provider's base URL"
    return f"{shown} {hint}." if "/v1" in address.path else f"{shown} {hint}: it often has to end in /v1."


def _shown(body: bytes) -> str:
    text = redacted(body.decode("utf-8", "replace").strip())  # before it is cut: half a key is still half a key
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _phrase(status: int) -> str:
    from http import HTTPStatus

    try:
        return f"{HTTPStatus(status).phrase} (no body)"
    except ValueError:
        return "(no body)"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a server asks to wait: `retry-after-ms`, or `retry-after` as seconds or a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        return min(seconds, _LONGEST_WAIT) if seconds >= 0 else None
    if date := headers.get("retry-after"):
        from datetime import UTC, datetime
        from email.utils import parsedate_to_datetime

        try:
            due = parsedate_to_datetime(date)
            due = due if due.tzinfo is not None else due.replace(tzinfo=UTC)
            return min(max(0.0, (due - datetime.now(UTC)).total_seconds()), _LONGEST_WAIT)
        except (ValueError, OverflowError, TypeError, IndexError):  # what it raises on texts that only look like dates
            return None
    return None


class Reader(Protocol):
    """Builds a message from the events of one answer."""

    def read(self, event: bytes, data: bytes, /) -> None:
        """Take one event. Raises ValueError or a msgspec error if it cannot be read; then it is skipped."""
        ...

    def closed(self) -> None:
        """The answer ended before the message did: finish it, if enough has come."""
        ...


class Adapter(ABC):
    """A model behind one API. Keep it for a whole conversation: it remembers the encoding of earlier messages."""

    def __init__(
        self,
        model: Model,
        auth: RequestAuth,
        http: Http,
        now_ms: Callable[[], int],
        thinking_budgets: Mapping[str, int] | None = None,
    ) -> None:
        self._model = model
        self._auth = auth
        self._http = http
        self._now_ms = now_ms
        #: Tokens by thinking level, where the user named them and the API takes a number.
        self._budgets = dict(thinking_budgets or {})
        #: What the provider takes of the messages of the last request.
        self._history: PrefixCache[ModelMessage] = PrefixCache()
        self._set_up()

    def __call__(self, request: Request, cancel: Cancel) -> AsyncIterator[list[StreamEvent]]:
        partial = PartialMessage(self._model, self._now_ms())
        reader = self._reader(partial)
        return run(self._http, lambda: self._request(request), partial, reader.read, cancel, reader.closed, request.interceptor)

    def _longest_answer(self, request: Request) -> int:
        """How many tokens the answer may have: what the request says, else the model's `maxTokens`; 0 if neither says."""
        return self._model.max_tokens if request.max_tokens is None else request.max_tokens

    @abstractmethod
    def _set_up(self) -> None:
        """Prepare what this API needs beside."""

    @abstractmethod
    def _request(self, request: Request) -> HttpRequest:
        """The request over HTTP."""

    @abstractmethod
    def _reader(self, partial: PartialMessage) -> Reader:
        """Something that reads the answer into `partial`."""
