"""The clients of omp's that the tests drive, and what the tests of them share."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import pytest
from bench.contestants import Turn
from bench.peers import OMP_14, OMP_18, OmpClient

clients = pytest.mark.parametrize("client", [OMP_14, OMP_18], ids=["omp-14", "omp-18"])
#: For what came later than 14.
client_18 = pytest.mark.parametrize("client", [OMP_18], ids=["omp-18"])


class DriveOmp(Protocol):
    """Runs JavaScript that has omp's `client` in it, against this program, whose model plays the turns.

    The script also has `until(test)`, which waits for an event that passes, `refusal(promise)`, the text with which a call is
    refused, `seen`, the events, and `options`, with which the client was made. What it returns is the result.
    """

    def __call__(self, client: OmpClient, script: str, *turns: Turn) -> Any: ...


def methods_called(client: OmpClient, modules: Sequence[ModuleType]) -> set[str]:
    """The methods of the client that tests which are run with it call."""
    sources = [Path(__file__).with_name("client_harness.mjs").read_text()]
    for module in modules:
        for test in vars(module).values():
            marks = getattr(test, "pytestmark", [])
            if inspect.isfunction(test) and any(mark.name == "parametrize" and client in mark.args[1] for mark in marks):
                sources.append(inspect.getsource(test))
    return {name for source in sources for name in re.findall(r"\bclient\.(\w+)\(", source)}
