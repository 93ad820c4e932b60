"""What the runtime of a session does with work that is cancelled."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from fairlead.core.runtime import CancelToken
from fairlead.session.asyncio_runtime import AsyncioRuntime


async def test_work_that_is_cancelled_before_it_begins_is_closed() -> None:
    async def work() -> None:
        raise AssertionError("it must not begin")

    pending = work()
    bounded = asyncio.create_task(AsyncioRuntime().run_bounded(pending, CancelToken(), timeout=None, grace=0))
    await asyncio.sleep(0)
    bounded.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bounded
    assert inspect.getcoroutinestate(pending) == inspect.CORO_CLOSED, "otherwise Python warns that it was never awaited"
