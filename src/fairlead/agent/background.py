"""An event loop on its own thread, for programs that call an agent without one."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from fairlead.errors import WrongEventLoop

T = TypeVar("T")


class BackgroundLoop:
    """Runs coroutines on its own thread. The thread does not keep the process alive."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self.loop.run_forever, name="fairlead-agent", daemon=True)
        self._thread.start()

    @property
    def is_of_parent(self) -> bool:
        """Whether this process was forked from the one that has the thread, so that nothing here can run on it."""
        return self._process != os.getpid()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result. Ctrl-C cancels it, and waits until it has cleaned up."""
        if threading.current_thread() is self._thread:
            work.close()
            raise WrongEventLoop(
                "A blocking call was made on the thread that runs the agent, such as from one of its tools. It would wait for"
                " itself forever: use `await` there, or another agent."
            )
        done = threading.Event()
        task: asyncio.Task[T] | None = None
        context = contextvars.copy_context()

        def start() -> None:
            nonlocal task
            task = self.loop.create_task(work, context=context)
            task.add_done_callback(lambda _: done.set())

        self.loop.call_soon_threadsafe(start)
        try:
            done.wait()
        except BaseException:
            self.loop.call_soon_threadsafe(lambda: task and task.cancel())
            done.wait()
            raise
        assert task is not None, "it is done"
        return task.result()

    def close(self) -> None:
        """End the thread. Call it when nothing runs any more."""
        if self.loop.is_closed():
            return
        self.run(self._end_tasks())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _end_tasks(self) -> None:
        """Cancel what is left, as `asyncio.run` does."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.loop.shutdown_asyncgens()
        await self.loop.shutdown_default_executor()

    def __del__(self) -> None:
        if self.is_of_parent:
            return
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self.loop.stop)
