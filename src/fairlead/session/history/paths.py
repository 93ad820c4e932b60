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


def id_in_name(path: Path) -> str | None:
    """The id of a session whose file was named so; None if the file has a name of another kind."""
    time, separator, session_id = path.stem.partition("_")
    return session_id if separator and len(time) == len("2026-01-31T23-59-59-999Z") and time.endswith("Z") else None


def transcripts_folder(session_file: Path) -> Path:
    """Where the conversations of a session's sub-agents are: a folder beside its file, named like it."""
    if session_file.suffix == ".jsonl":
        return session_file.with_suffix("")
    return session_file.with_name(f"{session_file.name}.agents")


def iso(ms: int) -> str:
    """Milliseconds since the epoch as pi writes them in entries. A time that the system cannot tell is the epoch."""
    try:
        seconds = time.gmtime(ms // 1000)
    except (ValueError, OverflowError, OSError):
        return iso(0)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', seconds)}.{ms % 1000:03d}Z"
