"""Sends a request to a model server and waits for the head of the response.

An interceptor may change the request first. While the server reports that it is still loading its model, the request is
sent again.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

import msgspec

from fairlead.core.lenient import visible
from fairlead.core.runtime import CancelToken
from fairlead.errors import ProviderError
from fairlead.models.http.http_client import Http, HttpRequest, HttpResponse, RequestAborted

if TYPE_CHECKING:
    from fairlead.core.model import Interceptor, Model

T = TypeVar("T")

_log = logging.getLogger("fairlead.models")

#: Seconds between two attempts while a model is loading: the first delay, the longest, and how long to wait in total.
_FIRST_DELAY, _LONGEST_DELAY = 0.25, 5.0
_PATIENCE = 600.0
#: How many bytes of an error's body are read, and for how many seconds. The status says enough, and a server may be slow.
_LONGEST_BODY = 65536
_BODY_SECONDS = 10.0

#: llama.cpp says "Loading model"; Hugging Face's servers "Model ... is currently loading"; others that it is not ready yet.
_LOADING = (
    r"(?is)\bloading\b.{0,40}\bmodels?\b"
    r"|\bmodel\b.{0,120}\b(?:loading|being loaded|warming up|not (?:yet )?(?:loaded|ready))\b"
)


@asynccontextmanager
async def send(
    http: Http, request: HttpRequest, cancel: CancelToken, interceptor: Interceptor | None = None, *, patience: float = _PATIENCE
) -> AsyncGenerator[tuple[HttpResponse, bytes | None]]:
    """Send a request. Inside the block, the head of the response has arrived.

    Args:
        http: the connections to use.
        request: what to send.
        cancel: aborts the request when it fires.
        interceptor: may change the body and the headers of the request, and sees the head of the response.
        patience: how many seconds to wait for a server that is loading its model. A warning is logged once.

    Yields:
        The response, and its body if that has been read already.

    Raises:
        RequestAborted: `cancel` fired.
        ProviderError: there is no usable response, the model did not load in time, or the interceptor made a request that
            cannot be sent.
    """
    if interceptor is not None:
        request = await _intercept(request, interceptor, cancel)
    async with _send_until_loaded(http, request, cancel, patience) as (response, body):
        _log.debug("the model server at %s answered with status %d", visible(_host(request)), response.status)
        del request  # its body may be large, and the response may take minutes
        if interceptor is not None:
            await _unless_aborted(interceptor.response(response.status, dict(response.headers)), cancel)
        yield response, body


async def read_error_body(response: HttpResponse) -> bytes:
    """Read what a server says about an error, as far as it arrives in time; empty if the connection breaks."""
    try:
        return await response.read(_LONGEST_BODY, _BODY_SECONDS)
    except ProviderError:
        return b""


# servers that are loading their model


@asynccontextmanager
async def _send_until_loaded(
    http: Http, request: HttpRequest, cancel: CancelToken, patience: float
) -> AsyncGenerator[tuple[HttpResponse, bytes | None]]:
    loop = asyncio.get_running_loop()
    start, delay = loop.time(), _FIRST_DELAY
    while True:
        async with http.stream(request, cancel) as response:
            body = await read_error_body(response) if response.status == 503 else None
            if body is None or not re.search(_LOADING, body.decode("utf-8", "replace")):
                del request
                yield response, body
                return
        waited = loop.time() - start
        if waited >= patience:
            raise ProviderError(
                f"The server at {_host(request)} was still loading its model after {waited:.0f} s. "
                "Look at the server's log, and ask again when the model is loaded."
            )
        if delay == _FIRST_DELAY:
            where = visible(_host(request))
            _log.warning("waiting for the model server at %s to load the model ...", where)
        await _sleep(delay, cancel)
        delay = min(delay * 2, _LONGEST_DELAY)


async def _sleep(seconds: float, cancel: CancelToken) -> None:
    """Wait. Raises RequestAborted as soon as `cancel` fires."""
    woken = asyncio.Event()
    forget = cancel.on_fire(woken.set)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await woken.wait()
    finally:
        forget()
    if cancel.fired:
        raise RequestAborted


def _host(request: HttpRequest) -> str:
    """The host and port of a request, without what else its URL may hold."""
    address = urlsplit(request.url)
    return f"{address.hostname}:{address.port}" if address.port else f"{address.hostname}"


# interceptors


async def _intercept(request: HttpRequest, interceptor: Interceptor, cancel: CancelToken) -> HttpRequest:
    """Let the interceptor change a request. Raises ProviderError if the result cannot be sent."""
    payload = msgspec.json.decode(request.body, type=dict[str, Any])
    changed: Any = await _unless_aborted(interceptor.request(payload, dict(request.headers)), cancel)
    body, headers = changed
    if not isinstance(body, dict):
        raise _unusable(f"its body is {_kind(body)}, not an object")
    if not _is_table(headers):
        raise _unusable("its headers are not texts by name")
    try:
        encoded = msgspec.json.encode(cast("dict[str, Any]", body))
    except (TypeError, ValueError, RecursionError) as error:
        raise _unusable(str(error)) from None
    return HttpRequest(request.method, request.url, list(cast("dict[str, str]", headers).items()), encoded)


async def show(events: list[tuple[bytes, bytes]], model: Model, interceptor: Interceptor, cancel: CancelToken) -> None:
    """Show the interceptor those events of a response that are JSON."""
    for _, data in events:
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        await _unless_aborted(interceptor.stream_event(model, value), cancel)


async def _unless_aborted(work: Coroutine[Any, Any, T], cancel: CancelToken) -> T:
    """Wait for `work`. Raises RequestAborted as soon as `cancel` fires."""
    task = asyncio.ensure_future(work)
    forget = cancel.on_fire(task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        if not cancel.fired:
            task.cancel()
            raise
        raise RequestAborted from None
    finally:
        forget()


def _unusable(problem: str) -> ProviderError:
    return ProviderError(f"An extension changed the request to the provider into one that cannot be sent: {problem}.")


def _is_table(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    items = cast("dict[Any, Any]", value).items()
    return all(isinstance(name, str) and isinstance(text, str) for name, text in items)


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"of type {type(value).__name__}"
