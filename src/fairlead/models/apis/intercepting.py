"""Requests that somebody else may change on their way out, and answers that they see the head of."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

import msgspec

from fairlead.core.interceptor import Interceptor
from fairlead.core.runtime import Cancel
from fairlead.errors import ProviderError
from fairlead.models.http.client import HttpRequest, RequestAborted, Response

T = TypeVar("T")


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
