"""Ends a command that ran extensions without waiting for the tasks and threads that they left."""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from fairlead.config.process import runs_foreign_code

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine like `asyncio.run`, but do not wait for tasks and threads of extensions."""
    import asyncio

    runner = asyncio.Runner()
    try:
        return runner.run(work)
    finally:
        if not runs_foreign_code():
            runner.close()


def leave(code: int) -> None:
    """Exit immediately if threads or exit handlers of extensions could keep the process alive."""
    if runs_foreign_code():
        sys.stderr.flush()
        os._exit(code)
