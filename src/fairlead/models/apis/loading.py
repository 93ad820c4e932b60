"""Waits for a server that has started but is still loading its model."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from fairlead.core.lenient import visible
from fairlead.core.runtime import Cancel
from fairlead.errors import ProviderError
from fairlead.models.http.client import Http, HttpRequest, RequestAborted, Response

if TYPE_CHECKING:
    from collections.abc import Callable

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
