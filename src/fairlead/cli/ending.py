"""How a command ends in which extensions had a part: without what they have left, which may never end."""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, but tasks and threads of extensions are not waited for."""
    import asyncio

    runner = asyncio.Runner()
    try:
        return runner.run(work)
    finally:
        if not had_extensions():
            runner.close()


def had_extensions() -> bool:
    """Whether code of an extension's may have run in this process."""
    return "fairlead.extend.extensions.engine" in sys.modules


def leave(code: int) -> None:
    """End the process here and now, if threads of extensions, or what they want to do at its end, could keep it alive."""
    if had_extensions():
        sys.stderr.flush()
        os._exit(code)
