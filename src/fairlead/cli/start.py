"""Starts the process, before anything else is loaded, and ends it without waiting for what extensions left behind."""

from __future__ import annotations

import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def main() -> int:
    # Imports create many objects and free hardly any, so garbage collection would cost a tenth of the start.
    # `wire.process` turns it on again after the first answer, `cli.main` in the other modes.
    gc.disable()
    from fairlead.cli.main import main

    code = main()
    _leave(code)
    return code


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine like `asyncio.run`, but do not wait for tasks and threads of extensions."""
    import asyncio

    from fairlead.config.process import runs_foreign_code

    runner = asyncio.Runner()
    try:
        return runner.run(work)
    finally:
        if not runs_foreign_code():
            runner.close()


def _leave(code: int) -> None:
    """Exit immediately if threads or exit handlers of extensions could keep the process alive."""
    import os
    import sys

    from fairlead.config.process import runs_foreign_code

    if runs_foreign_code():
        sys.stderr.flush()
        os._exit(code)
