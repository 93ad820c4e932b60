"""The files of leases, beside session files: `<name>.lease.<epoch>` says who the owner is and until when.

Its lines are the time in microseconds since 1970 (0 once the lease was released), the process and the name of the owner. Only one
process can create the file of an epoch.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from fairlead.stores.headers import BINARY
from fairlead.stores.store import Lease, make_in_use_error

_LEASE = ".lease."
#: The digits of the time, which is rewritten in place.
_DIGITS = 20


def lease_path(path: Path, epoch: int) -> Path:
    return path.with_name(f"{path.name}{_LEASE}{epoch}")


def lease_epochs(path: Path) -> list[int]:
    """Return the epochs that have a file beside a session file."""
    prefix = path.name + _LEASE
    with os.scandir(path.parent) as items:
        ends = [item.name[len(prefix) :] for item in items if item.name.startswith(prefix)]
    return [int(end) for end in ends if end.isdecimal()]


def create_lease(path: Path, lease: Lease, former: str) -> Path:
    """Create the file of a lease. Raises SessionInUse if another process was faster."""
    claim = lease_path(path, lease.epoch)
    try:
        handle = os.open(claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
    except FileExistsError:
        raise make_in_use_error(lease.id, former) from None
    try:
        os.write(handle, _lease_text(lease.expires_at, lease.owner))
    finally:
        os.close(handle)
    return claim


def _lease_text(expires_at: float, owner: str) -> bytes:
    return f"{int(expires_at * 1e6):0{_DIGITS}}\n{os.getpid():10}\n{owner}\n".encode()


def write_lease(path: Path, expires_at: float, owner: str) -> None:
    """Rewrite the file of a lease. It is not created: a file that is gone belongs to an owner that has lost its session."""
    with suppress(FileNotFoundError):
        handle = os.open(path, os.O_WRONLY | BINARY)
        try:
            os.write(handle, _lease_text(expires_at, owner))
        finally:
            os.close(handle)


def newest_lease(path: Path, epoch: int | None = None) -> tuple[str, float]:
    """Return the owner in the file of the newest lease, or of another one, and when it expires; 0 if there is none."""
    text = _lease_of(path, epoch)
    if text is None:
        return "", 0.0
    if len(text) < 3 or not text[0].isdecimal():  # it is being created
        return "", time.time() + 1
    return text[2], int(text[0]) / 1e6


def process_of(path: Path) -> int | None:
    """Return the id of the process in the file of the newest lease; None if it has none."""
    text = _lease_of(path)
    return int(text[1]) if text is not None and len(text) > 1 and text[1].strip().isdecimal() else None


def _lease_of(path: Path, epoch: int | None = None) -> list[str] | None:
    """Return the lines in the file of the newest lease, or of another one; None if there is none."""
    epochs = [epoch] if epoch is not None else sorted(lease_epochs(path))
    try:
        return lease_path(path, epochs[-1]).read_text(errors="replace").split("\n") if epochs else None
    except FileNotFoundError:
        return None
