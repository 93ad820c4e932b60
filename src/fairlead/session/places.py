"""Where session files are and how they are called: as with pi, so that both programs find each other's sessions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal, TypeAlias

#: Whether an entry is on its way to the disk (it survives the end of this process) or on it (it survives a power cut).
Durability: TypeAlias = Literal["flush", "fsync"]


def session_folder(root: Path, cwd: Path) -> Path:
    """Where the sessions of a working directory are: `/home/me/app` -> `<root>/--home-me-app--`."""
    name = str(cwd.absolute())
    name = name[1:] if name[:1] in ("/", "\\") else name
    for separator in "/\\:":
        name = name.replace(separator, "-")
    return root / f"--{name}--"


def session_path(folder: Path, session_id: str, timestamp: str) -> Path:
    """The file of a new session: its time, then its id."""
    return folder / f"{timestamp.replace(':', '-').replace('.', '-')}_{session_id}.jsonl"


def iso(ms: int) -> str:
    """Milliseconds since the epoch as pi writes them in entries."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(ms // 1000))}.{ms % 1000:03d}Z"
