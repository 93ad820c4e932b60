"""The event loop that an agent works on: that of the program, or one on its own thread for programs that have none."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from fairlead.errors import WrongEventLoop

T = TypeVar("T")

_OTHER_LOOP = "This agent works on the event loop of another thread. Use it there, or make another agent."
_ASYNC_LOOP = (
    "This agent works on an event loop already, because it was used with `await`. Call `await agent.ask(...)` there, or use"
    " another agent for blocking calls."
)
_FORKED = "The process was forked after this agent had been used, so its thread is missing here. Make the agent after the fork."
_SYNC_LOOP = "This agent is used by blocking calls, which run on its own thread. Use ask_sync here too, or another agent."


class AgentLoop:
    """The loop of one agent. An agent is used either by blocking calls or with `await`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        #: The loop for blocking calls.
        self._background: BackgroundLoop | None = None

    def use(self) -> None:
        """Work on the running event loop from now on. Raises WrongEventLoop if the loop before it still runs."""
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop and self._loop.is_running():
            raise WrongEventLoop(_OTHER_LOOP if self._background is None else _SYNC_LOOP)
        self._loop = loop

    def run(self, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on a thread, wait for it, and return its result. Raises WrongEventLoop if that is not possible."""
        if self._background is not None and self._background.is_of_parent:
            raise WrongEventLoop(_FORKED)
        if self._background is None:
            if self._loop is not None and self._loop.is_running():
                raise WrongEventLoop(_ASYNC_LOOP)
            self._background = BackgroundLoop()
            self._loop = self._background.loop
        return self._background.run(start())

    def close(self) -> None:
        """End the thread, if there is one."""
        if self._background is not None:
            self._background.close()
            self._background = None


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

        def cancel() -> None:
            if task is not None:
                task.cancel()
            else:  # the interrupt came before the work was handed over
                work.close()
                done.set()

        try:
            # Inside: the work may have begun, and have been interrupted, before this thread gets its turn again.
            self.loop.call_soon_threadsafe(start)
            done.wait()
        except BaseException:
            self.loop.call_soon_threadsafe(cancel)
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
