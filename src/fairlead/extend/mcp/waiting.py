"""Waiting that an abort ends."""

from __future__ import annotations

import asyncio
from typing import Any

from fairlead.core.runtime import Cancel


async def unless(cancel: Cancel, waited_for: asyncio.Future[Any], timeout: float | None) -> None:
    """Wait for something, but no longer than until `cancel` fires, or the time is over. What is waited for goes on."""
    fired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    forget = cancel.on_fire(lambda: fired.done() or fired.set_result(None))
    try:
        limit = None if timeout is None else max(timeout, 0.0)
        await asyncio.wait([waited_for, fired], timeout=limit, return_when=asyncio.FIRST_COMPLETED)
    finally:
        forget()
        fired.cancel()
