"""Work that blocks runs in daemon threads."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from fairlead.platform.process import run_in_thread, start_thread


def test_the_result_and_the_error_of_a_thread_reach_the_caller() -> None:
    async def main() -> None:
        assert await run_in_thread(lambda: threading.current_thread().name, "mine") == "mine"
        with pytest.raises(ValueError, match="invalid literal"):
            await run_in_thread(lambda: int("x"))

    asyncio.run(main())


def test_a_stop_iteration_does_not_leave_the_caller_waiting() -> None:
    async def main() -> None:
        async with asyncio.timeout(10):
            with pytest.raises(RuntimeError, match="StopIteration"):
                await run_in_thread(lambda: next(iter(())))

    asyncio.run(main())


def test_a_cancelled_caller_stops_waiting_and_the_late_result_is_dropped() -> None:
    async def main() -> None:
        started, release, ended = threading.Event(), threading.Event(), threading.Event()

        def work() -> None:
            started.set()
            release.wait(10)
            ended.set()

        waiting = asyncio.create_task(run_in_thread(work))
        await asyncio.to_thread(started.wait, 10)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        release.set()
        assert await asyncio.to_thread(ended.wait, 10)

    asyncio.run(main())


def test_a_process_does_not_wait_for_a_thread_that_blocks() -> None:
    code = (
        "import asyncio, threading\n"
        "from fairlead.platform.process import run_in_thread, start_thread\n"
        "start_thread(threading.Event().wait, 'blocked')\n"
        "async def main():\n"
        "    waiting = asyncio.ensure_future(run_in_thread(threading.Event().wait))\n"
        "    await asyncio.sleep(0)\n"
        "asyncio.run(main())\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=20, check=False).returncode == 0


def test_a_started_thread_is_a_daemon_with_the_given_name() -> None:
    seen: list[threading.Thread] = []
    done = threading.Event()

    def work() -> None:
        seen.append(threading.current_thread())
        done.set()

    start_thread(work, "fairlead-test")
    assert done.wait(10)
    assert (seen[0].name, seen[0].daemon) == ("fairlead-test", True)
