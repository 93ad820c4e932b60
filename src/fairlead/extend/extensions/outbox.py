"""What extensions say to the session, on its way there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fairlead.extend.extensions.lane import Lane

if TYPE_CHECKING:
    from collections.abc import Generator


class Outbox:
    """Things that take time, such as starting a run: they are done in order, and nobody waits for them.

    What a command sends leaves when the command is done, or waits for something itself: a host that has asked for the command
    gets its answer before it hears of a run that comes of it.
    """

    def __init__(self) -> None:
        self._held: list[Callable[[], Awaitable[None]]] = []
        self._holding = 0
        self._lane = Lane()

    @property
    def is_empty(self) -> bool:
        return not self._held and not self._lane.busy

    def put(self, work: Callable[[], Awaitable[None]]) -> None:
        self._held.append(work)
        if not self._holding:
            self.send()

    def send(self) -> None:
        """Let go of everything."""
        held, self._held = self._held, []
        for work in held:
            self._lane.put(work)

    @contextmanager
    def held(self) -> Generator[None]:
        """While this lasts, and until whoever asked has been answered, things wait for `send`."""
        self._holding += 1
        try:
            yield
        finally:
            self._holding -= 1
            # The caller goes on in this very step, and answers in it.
            asyncio.get_running_loop().call_soon(self.send)

    async def sent(self) -> None:
        """Wait until all of it is with the session."""
        self.send()
        await self._lane.idle()


def at_once(work: Any) -> Any:
    """What a coroutine returns that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    work.close()
    raise RuntimeError("This would have to wait, and nobody can wait for it here.")
