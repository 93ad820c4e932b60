"""Deletes the temporary files that killed processes have left among session files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from fairlead.config.open_files import try_lock
from fairlead.stores.session_files import NO_LINKS, is_temporary


def remove_leftovers(paths: Iterable[str]) -> None:
    """Delete the temporary files among `paths` whose process has ended. A locked file belongs to a running process."""
    if os.name == "nt":
        return
    for path in paths:
        with suppress(OSError):
            handle = os.open(path, os.O_RDWR | NO_LINKS)
            try:
                status = os.fstat(handle)
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and try_lock(handle):
                    Path(path).unlink()
            finally:
                os.close(handle)


def remove_leftovers_in(folder: Path) -> None:
    """Call `remove_leftovers` for all temporary files in a folder. A folder that cannot be read is ignored."""
    with suppress(OSError), os.scandir(folder) as items:
        remove_leftovers([item.path for item in items if is_temporary(item.name)])
