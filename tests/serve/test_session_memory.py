"""The memory that the sessions of a server take."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

from tests.serve.scene import USER, scene

from fairlead.protocol.http import http_objects as o

#: The most bytes of one more session that waits for its first prompt.
IDLE = 24 * 1024


async def test_an_idle_session_is_small(tmp_path: Path) -> None:
    async with scene(tmp_path, []) as stage:
        for _ in range(5):  # what all sessions share is not counted
            await stage.hub.create(USER, o.NewSession())
        gc.collect()
        tracemalloc.start()
        try:
            for _ in range(100):
                (await stage.hub.create(USER, o.NewSession())).state()
            gc.collect()
            size, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert size / 100 < IDLE
