"""What a job needs of the place that it works in."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from msgspec import Struct


class Placement(Struct, frozen=True, kw_only=True):
    """A workspace that is ready to work in."""

    #: The directory of the agent, on this machine.
    cwd: Path
    #: The program that runs the agent's commands instead of the shell of this machine.
    shell: Path | None = None
    #: Whether an earlier attempt worked elsewhere, so that the files are only those of its last snapshot.
    is_restored: bool = False


class Workspace(Protocol):
    """The place that a job works in. Implement it to run jobs in sandboxes that live elsewhere.

    A worker calls `prepare` once, `snapshot` after each turn, and `release` at the end, on its event loop.
    """

    async def prepare(self, snapshot: str | None) -> Placement:
        """Make the place ready, with the files of a snapshot if the job comes from another worker. Raises WorkspaceError."""
        ...

    async def snapshot(self, turn: int) -> str | None:
        """Save the files where another worker finds them, and return the name of the snapshot. None: there is no need."""
        ...

    async def patch(self) -> str | None:
        """Return what the job changed, as a patch. None: the place has no history."""
        ...

    async def release(self, *, has_ended: bool) -> None:
        """Stop using the place. If the job has ended, its files on this machine can go."""
        ...
