"""The process that runs llama.cpp, with a library that loads weights for as long as the test wants."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from fairlead.errors import ConfigError
from fairlead.models.local.llama import LlamaServer
from fairlead.platform.process import run_in_thread

#: Stands in for the library: says that it loads the weights, and never ends.
LIBRARY = """
import os, threading
from types import SimpleNamespace

def CommonParams():
    return SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace(),
                           sampling=SimpleNamespace())

def Server(params):
    with open(params.model.path, "w") as told:
        told.write("loading")
    threading.Event().wait()
"""


async def test_a_server_that_loads_its_weights_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "xllamacpp.py").write_text(LIBRARY)
    monkeypatch.setenv("PYTHONPATH", str(library))
    monkeypatch.setattr(sys, "path", [str(library), *sys.path])
    weights = tmp_path / "weights.gguf"
    os.mkfifo(weights)
    server = LlamaServer("some", weights, 4096)
    starting = asyncio.create_task(run_in_thread(server.address))
    async with asyncio.timeout(30):
        assert await run_in_thread(weights.read_text) == "loading"
        await run_in_thread(server.stop)
        with pytest.raises(ConfigError, match=r"llama\.cpp could not run"):
            await starting
    assert server.pid is None
