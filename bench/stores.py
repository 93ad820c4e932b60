"""Measure what an append costs in each session store, and print it as a table: `python -m bench.stores [POSTGRES_URL]`.

Postgres is measured if a URL is given. "At once" is 100 sessions that append at the same time.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from fairlead.stores import FileStore, Lease, MemoryStore, PostgresStore, SessionStore, SqliteStore

LINE = b'{"type":"message","id":"%08x","parentId":"00000000","message":"' + b"x" * 900 + b'"}'
ONE, MANY, EACH = 2000, 100, 30


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        stores: list[tuple[str, Callable[[], SessionStore]]] = [
            ("memory", MemoryStore),
            ("files", lambda: FileStore(Path(folder) / "files")),
            ("files, fsync", lambda: FileStore(Path(folder) / "synced", durability="fsync")),
            ("SQLite", lambda: SqliteStore(Path(folder) / "a.db")),
            ("SQLite, fsync", lambda: SqliteStore(Path(folder) / "b.db", durability="fsync")),
        ]
        if len(sys.argv) > 1:
            stores.append(("Postgres", lambda: PostgresStore(sys.argv[1])))
        print("| store | one session: ms | CPU ms | 100 at once: ms per append | CPU ms |")
        print("|---|---|---|---|---|")
        for name, make in stores:
            asyncio.run(_measure_store(name, make()))


async def _measure_store(name: str, store: SessionStore) -> None:
    leases = [await store.create(f"bench-{n}-{time.time_ns()}", b"{}", owner="bench", lease_seconds=600) for n in range(MANY)]
    one = await _measure(ONE, [_fill(store, leases[0], ONE)])
    many = await _measure((MANY - 1) * EACH, [_fill(store, lease, EACH) for lease in leases[1:]])
    print(f"| {name} | {one[0]:.2f} | {one[1]:.3f} | {many[0]:.3f} | {many[1]:.3f} |", flush=True)
    for lease in leases:
        await store.release(lease)
        await store.delete(lease.id)
    await store.close()


async def _fill(store: SessionStore, lease: Lease, count: int) -> None:
    for number in range(count):
        await store.append(lease, [LINE % number], after=number)


async def _measure(count: int, work: Sequence[Coroutine[Any, Any, None]]) -> tuple[float, float]:
    """Return the milliseconds of time, and of CPU of this process, that each of `count` appends takes."""
    cpu, wall = _cpu(), time.perf_counter()
    await asyncio.gather(*work)
    return (time.perf_counter() - wall) * 1000 / count, (_cpu() - cpu) * 1000 / count


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
