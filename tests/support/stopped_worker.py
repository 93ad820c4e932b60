"""A worker that is stopped for longer than its lease, while another owner takes its session."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from fairlead.errors import SessionError
from fairlead.stores import Lease, SessionStore, open_store

ENTRY = b'{"type":"custom","id":"00000000","parentId":null,"timestamp":"","customType":"x"}'
ROOT = Path(__file__).parents[2]


async def stop_and_take_over(url: str, marks: Path, signal_to_send: signal.Signals) -> None:
    """Stop or kill a worker in mid-run, take its session, wake it, and check that it did nothing more."""
    store = open_store(url)
    command = [sys.executable, "-m", "tests.support.store_worker", url, "job", "4", str(marks)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as worker:  # noqa: ASYNC220
        try:
            await _wait_for(lambda: len(_lines(marks)) >= 3)
            worker.send_signal(signal_to_send)
            lease = await _taken(store)
            before = _lines(marks)
            entries = await store.append(lease, [ENTRY])
            if signal_to_send == signal.SIGSTOP:
                worker.send_signal(signal.SIGCONT)
                said, _ = await asyncio.to_thread(worker.communicate, timeout=30)
                assert said.startswith("SessionLost: "), said
            assert _lines(marks) == before, "no tool ran after the session was lost"
            assert (await store.read("job")).last == entries, "nothing was written after the session was lost"
            calls = [line.line for line in (await store.read("job")).lines if b'"toolCall"' in line.line]
            assert len(calls) >= len(before), "each call was durable before it ran"
            await store.release(lease)
        finally:
            worker.kill()
    await store.close()


async def _taken(store: SessionStore) -> Lease:
    async with asyncio.timeout(30):
        while True:
            try:
                return await store.open("job", owner="the next worker", lease_seconds=60)
            except SessionError:
                await asyncio.sleep(0.02)


async def _wait_for(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
