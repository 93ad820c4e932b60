"""What the adapters of all APIs share: they turn a request into a finished message.

A subclass of `Adapter` knows how its API wants to be asked, and its `EventReader` knows what an event means. Everything that
can go wrong on the way is handled here and ends up in the message.
"""

from __future__ import annotations

import asyncio
import http
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from email import utils
from traceback import format_exc
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import msgspec

from fairlead.core.messages import ModelMessage
from fairlead.core.model import Model, ModelRequest, StreamEvent
from fairlead.core.partial_message import PartialMessage
from fairlead.core.runtime import CancelToken
from fairlead.core.secrets import redacted
from fairlead.errors import ProviderError
from fairlead.models.apis.request_building import PrefixCache
from fairlead.models.apis.sending import read_error_body, send, show
from fairlead.models.credentials import RequestAuth
from fairlead.models.http.framing import SSEDecoder
from fairlead.models.http.http_client import Http, HttpRequest, HttpResponse, RequestAborted

if TYPE_CHECKING:
    from fairlead.core.model import Interceptor, WaitListener
    from fairlead.models.limiter import KeyLimiter, Ticket

#: How many characters of an unexpected response are shown.
_SHOWN = 4096
#: The most bytes of one response, events and all. No model writes so much; without a limit, a server that never ends its answer
#: would fill the memory.
LONGEST_RESPONSE = 128 * 1024 * 1024
#: The most events in a row that add nothing to the message. Servers send some to keep the connection open, and
#: some send one per token that they do not show.
MOST_EMPTY_EVENTS = 250_000
#: How many events are read before the event loop gets its turn, which they delay by a few milliseconds.
_EVENTS_AT_ONCE = 256
#: The most seconds that a server can ask us to wait. Callers never wait that long; the limit keeps the number calculable.
_LONGEST_WAIT = 1e9


class EventReader(Protocol):
    """Builds a message from the events of one response."""

    def read(self, event: bytes, data: bytes, /) -> None:
        """Read one event, given its name and its data. Raises ValueError or a msgspec error to have it skipped."""
        ...

    def on_close(self) -> None:
        """Finish the message, if enough of it has arrived: the response ended before the message did."""
        ...


class Adapter(ABC):
    """A model behind one API. Keep an adapter for a whole conversation: it remembers how it encoded earlier messages."""

    def __init__(
        self,
        model: Model,
        auth: RequestAuth,
        http: Http,
        now_ms: Callable[[], int],
        thinking_budgets: Mapping[str, int] | None = None,
    ) -> None:
        """Make an adapter.

        Args:
            model: the model to ask.
            auth: the key and the headers of every request.
            http: the connections to use.
            now_ms: the time, in milliseconds since the epoch.
            thinking_budgets: tokens by thinking level, as the user set them, for APIs that take a number.

        Raises:
            ConfigError: the model's `compat` settings are unusable.
        """
        self._model = model
        self._auth = auth
        self._http = http
        self._now_ms = now_ms
        self._budgets = dict(thinking_budgets or {})
        #: The messages of the last request, as the provider accepts them.
        self._history: PrefixCache[ModelMessage] = PrefixCache()
        #: What its requests may have to wait for, and their priority.
        self._limiter: KeyLimiter | None = None
        self._priority = 0
        self._set_up()

    def limit(self, limiter: KeyLimiter, priority: int) -> None:
        """Let requests wait for a limiter from now on. Those with a higher priority come first."""
        self._limiter, self._priority = limiter, priority

    def __call__(self, request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        """Ask the model. Returns the events of its message, in batches; failures are in the message too."""
        partial = PartialMessage(self._model, self._now_ms())
        reader = self._reader(partial, request)
        return stream_message(
            self._http,
            lambda: self._request(request),
            partial,
            reader,
            cancel,
            request.interceptor,
            limiter=self._limiter,
            priority=self._priority,
            wait_listener=request.wait_listener,
        )

    def _longest_answer(self, request: ModelRequest) -> int:
        """The most tokens the answer may have: what the request says, else the model's `maxTokens`; 0 if neither says."""
        return self._model.max_tokens if request.max_tokens is None else request.max_tokens

    def _budgets_for(self, request: ModelRequest) -> Mapping[str, int]:
        """Tokens by thinking level."""
        return {**self._budgets, **request.thinking_budgets} if request.thinking_budgets else self._budgets

    @abstractmethod
    def _set_up(self) -> None:
        """Prepare what only this API needs. Called once, at the end of `__init__`."""

    @abstractmethod
    def _request(self, request: ModelRequest) -> HttpRequest:
        """Build the HTTP request."""

    @abstractmethod
    def _reader(self, partial: PartialMessage, request: ModelRequest) -> EventReader:
        """Make a reader that builds `partial` from the response to `request`."""


async def stream_message(
    http: Http,
    request: Callable[[], HttpRequest],
    partial: PartialMessage,
    reader: EventReader,
    cancel: CancelToken,
    interceptor: Interceptor | None = None,
    *,
    limiter: KeyLimiter | None = None,
    priority: int = 0,
    wait_listener: WaitListener | None = None,
) -> AsyncIterator[list[StreamEvent]]:
    """Ask a provider and build `partial` from the events of the response, until it is finished.

    Args:
        http: the connections to use.
        request: builds the request. What it raises becomes the message's error.
        partial: the message to build.
        reader: gets each event, and the end of the response.
        cancel: aborts the request when it fires.
        interceptor: may change the request, and sees the response.
        limiter: says when the request may be sent; None: at once.
        priority: of the requests that wait, those with a higher one come first.
        wait_listener: is called when the request has to wait for the limiter.

    Yields:
        The message's events, in one batch per network read.
    """
    events = _EventFeed(partial, reader)
    ticket: Ticket | None = None
    try:
        asked = request()
        if limiter is not None:
            ticket = await limiter.enter(len(asked.body), priority, cancel, wait_listener)
        async with send(http, asked, cancel, interceptor) as (response, body):
            url = asked.url
            del asked  # its body may be large, and the response may take minutes
            if response.status >= 400:
                await _fail_with_status(partial, response, url, body)
            else:
                async for chunk in response.chunks():
                    if events.expects_beginning and await events.is_json(response, chunk):
                        break
                    arrived = events.decode(chunk)
                    if interceptor is not None and interceptor.sees_stream:
                        await show(arrived, partial.model, interceptor, cancel)
                    for start in range(0, len(arrived), _EVENTS_AT_ONCE):
                        if start:
                            await _give_way(cancel)
                        events.read(arrived[start : start + _EVENTS_AT_ONCE])
                        if partial.finished is not None:
                            break
                        if batch := partial.take():
                            yield batch
                    if partial.finished is not None:
                        response.rest_is_noise = True
                        break
                else:
                    events.end()
    except RequestAborted:
        partial.abort()
    except ProviderError as error:
        partial.fail(str(error), status=error.status, retry_after=error.retry_after, transient=error.transient)
    except Exception as error:
        _log_failure()
        partial.fail(f"Unexpected {type(error).__name__} while reading the model's answer: {error}")
    finally:
        if limiter is not None and ticket is not None:
            limiter.leave(ticket, partial.finished)
    # The last events leave after the connection was released, because a caller that has them may not ask for more.
    yield partial.take()


async def _give_way(cancel: CancelToken) -> None:
    """Let everything else run. Raises RequestAborted if that has fired `cancel`."""
    await asyncio.sleep(0)
    if cancel.fired:
        raise RequestAborted


class _EventFeed:
    """Decodes a response and feeds its events to a reader. Knows what to report if none of them made sense."""

    def __init__(self, partial: PartialMessage, reader: EventReader) -> None:
        self._partial = partial
        self._reader = reader
        self._decoder = SSEDecoder()
        #: Whether nothing has arrived so far.
        self.expects_beginning = True
        self._beginning = b""
        self._left = LONGEST_RESPONSE
        #: How far the message had grown when that was last looked at, and after how many events to look again.
        self._growth: int = 0
        self._look_at = MOST_EMPTY_EVENTS
        self._understood = 0
        self._skipped = 0

    async def is_json(self, response: HttpResponse, chunk: bytes) -> bool:
        """Tell from its first chunk whether the response is plain JSON; if so, end the message with an error that shows it.

        Imitators send JSON when they ignore `stream`, or report an error with status 200. Some label their events as JSON,
        so the first character decides.
        """
        self.expects_beginning = False
        self._beginning = chunk[: 2 * _SHOWN]
        if "json" not in response.headers.get("content-type", "") or not chunk.lstrip().startswith((b"{", b"[")):
            return False
        rest = await read_error_body(response)
        self._partial.fail(f"The provider answered with plain JSON instead of a stream of events: {_shorten_body(chunk + rest)}")
        return True

    def decode(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        """Return the events that `chunk` completes, each with its name and its data.

        Raises ProviderError if the response is too long, or if it continues without adding anything to the message.
        """
        self._left -= len(chunk)
        if self._left < 0:
            raise ProviderError(f"The provider sent more than {LONGEST_RESPONSE >> 20} MiB; the answer was cut off.")
        if self._decoder.found > self._look_at:
            self._require_growth()
        return self._decoder.feed(chunk)

    def _require_growth(self) -> None:
        growth = self._partial.growth
        if growth == self._growth:
            raise ProviderError(
                f"The provider sent more than {MOST_EMPTY_EVENTS:,} events in a row that add nothing to its answer; "
                "it was cut off."
            )
        self._growth, self._look_at = growth, self._decoder.found + MOST_EMPTY_EVENTS

    def end(self) -> None:
        """Read the last event. If the message is then not finished, end it with an error."""
        self.read(self._decoder.end())
        if self._partial.finished is None and self._understood:
            self._reader.on_close()
        if self._partial.finished is not None:
            return
        if self._understood:
            skipped = f" ({self._skipped} events could not be read)" if self._skipped else ""
            text = f"The provider's stream ended without a final event{skipped}; the answer is incomplete."
        elif self._beginning:
            text = f"The provider's stream ended without an event that could be read. It begins: {_shorten_body(self._beginning)}"
        else:
            text = "The provider's stream ended without a single byte."
        self._partial.fail(text, transient=True)

    def read(self, events: list[tuple[bytes, bytes]]) -> None:
        """Read events, until the message is finished."""
        read, partial = self._reader.read, self._partial
        for name, data in events:
            try:
                read(name, data)
            except (ValueError, msgspec.MsgspecError, RecursionError) as error:
                self._skipped += 1
                if self._skipped == 1:
                    _log_skipped(error)
            else:
                self._understood += 1
            if partial.finished is not None:
                return


def _log_skipped(error: Exception) -> None:
    # Without the error's text, which may quote the conversation.
    logging.getLogger("fairlead.models").debug("skipped an event that could not be read (%s)", type(error).__name__)


def _log_failure() -> None:
    logger = logging.getLogger("fairlead.models")
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("an adapter failed: %s", redacted(format_exc()))


async def _fail_with_status(partial: PartialMessage, response: HttpResponse, url: str, body: bytes | None) -> None:
    """End the message with the server's error. `body` is the error's text, if that has been read already."""
    status = response.status
    text = _shorten_body(await read_error_body(response) if body is None else body) or _phrase(status)
    if status in (404, 405):
        text += _explain_missing_page(url, text)
    transient = status in (408, 409, 429) or status >= 500
    partial.fail(f"{status} {text}", status=status, retry_after=retry_after(response.headers), transient=transient)


def _explain_missing_page(url: str, text: str) -> str:
    """Return what to add to an error about a missing page: the URL without its query, and what may be wrong with it."""
    address = urlsplit(url)
    host = address.netloc.rpartition("@")[2]
    shown = f" [URL: {address.scheme}://{host}{address.path}]"
    if "model" in text.lower():
        return shown  # the URL is right, and the model is unknown
    hint = "Check the provider's base URL"
    return f"{shown} {hint}." if "/v1" in address.path else f"{shown} {hint}: it often has to end in /v1."


def _shorten_body(body: bytes) -> str:
    text = redacted(body.decode("utf-8", "replace").strip())  # before it is cut, since half a key is a secret too
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _phrase(status: int) -> str:
    try:
        return f"{http.HTTPStatus(status).phrase} (no body)"
    except ValueError:
        return "(no body)"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a server asks us to wait: `retry-after-ms`, or `retry-after` as seconds or a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        return min(seconds, _LONGEST_WAIT) if seconds >= 0 else None
    if date := headers.get("retry-after"):
        try:
            due = utils.parsedate_to_datetime(date)
            due = due if due.tzinfo is not None else due.replace(tzinfo=UTC)
            return min(max(0.0, (due - datetime.now(UTC)).total_seconds()), _LONGEST_WAIT)
        except (ValueError, OverflowError, TypeError, IndexError):  # raised for texts that only look like dates
            return None
    return None
