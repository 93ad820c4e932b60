"""How a command ends in which extensions had a part: without what they have left, which may never end."""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from fairlead.config.ending import runs_foreign_code

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, but tasks and threads of extensions are not waited for."""
    import asyncio

    runner = asyncio.Runner()
    try:
        return runner.run(work)
    finally:
        if not runs_foreign_code():
            runner.close()


def leave(code: int) -> None:
    """End the process here and now, if threads of extensions, or what they want to do at its end, could keep it alive."""
    if runs_foreign_code():
        sys.stderr.flush()
        os._exit(code)
