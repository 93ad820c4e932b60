"""Sends requests to model servers: extensions may change them, and a server that is loading its model is waited for."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from fairlead.core.interceptor import Interceptor
from fairlead.core.lenient import visible
from fairlead.core.runtime import Cancel
from fairlead.errors import ProviderError
from fairlead.models.http.client import Http, HttpRequest, RequestAborted, Response

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: Seconds between two attempts, at first and at most, and how long to wait in total.
_FIRST_DELAY, _LONGEST_DELAY = 0.25, 5.0
_PATIENCE = 600.0
#: How much of an error's body is read, and for how many seconds: the status says enough, and a server may send it in drops.
_LONGEST_BODY = 65536
_BODY_SECONDS = 10.0

#: llama.cpp says "Loading model"; Hugging Face's servers "Model ... is currently loading"; others that it is not ready yet.
_LOADING = re.compile(
    r"\bloading\b.{0,40}\bmodels?\b|\bmodel\b.{0,120}\b(?:loading|being loaded|warming up|not (?:yet )?(?:loaded|ready))\b",
    re.IGNORECASE | re.DOTALL,
)


@asynccontextmanager
async def when_loaded(
    http: Http, request: HttpRequest, cancel: Cancel, *, patience: float = _PATIENCE
) -> AsyncGenerator[tuple[Response, bytes | None]]:
    """Send a request, again and again while the server answers that its model is still loading.

    Yields the answer, and its body if that has been read already. One line on stderr says that we wait. Raises as
    `Http.stream` does, and ProviderError once `patience` seconds have passed.
    """
    loop = asyncio.get_running_loop()
    start, delay = loop.time(), _FIRST_DELAY
    while True:
        async with http.stream(request, cancel) as response:
            body = await read_error_body(response) if response.status == 503 else None
            if body is None or not _LOADING.search(body.decode("utf-8", "replace")):
                yield response, body
                return
        waited = loop.time() - start
        if waited >= patience:
            raise ProviderError(
                f"The server at {_host(request)} was still loading its model after {waited:.0f} s. "
                "Look at the server's log, and ask again when the model is loaded."
            )
        if delay == _FIRST_DELAY:
            _say(f"fairlead: waiting for the model server at {_host(request)} to load the model ...")
        await _sleep(delay, cancel)
        delay = min(delay * 2, _LONGEST_DELAY)


async def read_error_body(response: Response) -> bytes:
    """What a server says about an error, as far as it comes in time; empty if the connection breaks."""
    try:
        return await response.read(_LONGEST_BODY, _BODY_SECONDS)
    except ProviderError:
        return b""


async def _sleep(seconds: float, cancel: Cancel) -> None:
    """Wait. Raises RequestAborted as soon as `cancel` fires."""
    woken = asyncio.Event()
    forget: Callable[[], object] = cancel.on_fire(woken.set)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await woken.wait()
    finally:
        forget()
    if cancel.fired:
        raise RequestAborted


def _host(request: HttpRequest) -> str:
    from urllib.parse import urlsplit

    address = urlsplit(request.url)
    return f"{address.hostname}:{address.port}" if address.port else f"{address.hostname}"


def _say(line: str) -> None:
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]
        with suppress(OSError, ValueError):
            sys.stderr.write(f"{visible(line)}\n")
            sys.stderr.flush()


async def changed(request: HttpRequest, interceptor: Interceptor, cancel: Cancel) -> HttpRequest:
    """The request to send instead. Raises ProviderError if what the interceptor made of it cannot be sent."""
    payload = msgspec.json.decode(request.body, type=dict[str, Any])
    made: Any = await _unless_aborted(interceptor.request(payload, dict(request.headers)), cancel)
    body, headers = made
    if not isinstance(body, dict):
        raise _unusable(f"its body is {_kind(body)}, not an object")
    if not _is_table(headers):
        raise _unusable("its headers are not texts by name")
    try:
        encoded = msgspec.json.encode(cast("dict[str, Any]", body))
    except (TypeError, ValueError, RecursionError) as error:
        raise _unusable(str(error)) from None
    return HttpRequest(request.method, request.url, list(cast("dict[str, str]", headers).items()), encoded)


async def seen(response: Response, interceptor: Interceptor, cancel: Cancel) -> None:
    """Show the head of an answer."""
    await _unless_aborted(interceptor.response(response.status, dict(response.headers)), cancel)


async def _unless_aborted(work: Coroutine[Any, Any, T], cancel: Cancel) -> T:
    """Wait for `work`, but not after `cancel` has fired. Raises RequestAborted."""
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
    return ProviderError(f"An extension made the request to the provider into one that cannot be sent: {problem}.")


def _is_table(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    items = cast("dict[Any, Any]", value).items()
    return all(isinstance(name, str) and isinstance(text, str) for name, text in items)


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"of type {type(value).__name__}"
