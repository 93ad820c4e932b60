"""A worker that is stopped or killed loses its session, and runs no further tool when it wakes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.support.stopped_worker import stop_and_take_over


@pytest.mark.parametrize("kind", ["sqlite", "files"])
@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
async def test_a_worker_that_is_gone_loses_its_session(kind: str, how: signal.Signals, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/sessions.db" if kind == "sqlite" else f"file:{tmp_path}/sessions"
    await stop_and_take_over(url, tmp_path / "marks", how)
