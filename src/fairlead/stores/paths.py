"""Ids of sessions, and where their files are. Names follow pi, so that both programs find each other's sessions."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal, TypeAlias

#: What an entry survives once it is written: `flush`, the end of this process; `fsync`, a power cut too.
Durability: TypeAlias = Literal["flush", "fsync"]
_SUBAGENT = "sub-"


def new_session_id() -> str:
    """Return a new UUID of version 7. It begins with the time, so that ids sort by age."""
    random = int.from_bytes(os.urandom(10))
    value = (time.time_ns() // 1_000_000) << 80 | 7 << 76 | (random >> 68) << 64 | 2 << 62 | random & (1 << 62) - 1
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_subagent_id() -> str:
    """Return a new id for the session of a sub-agent in a store, whose list of sessions can leave it out."""
    return f"{_SUBAGENT}{new_session_id()}"


def is_subagent_id(id: str) -> bool:
    """Whether `new_subagent_id` may have made an id."""
    return id.startswith(_SUBAGENT)


def session_folder(root: Path, cwd: Path, user: Path | None = None) -> Path:
    """Return the folder for the sessions of a working directory: `/home/me/app` -> `<root>/--home-me-app--`.

    With the user's directory `/home/me`, the name is that of omp: `<root>/-app`, and `<root>/-tmp-app` for `/tmp/app`.
    """
    if user is not None:
        real = Path(os.path.realpath(cwd))
        for base, prefix in ((user, "-"), (Path(os.environ.get("TMPDIR") or "/tmp"), "-tmp")):
            if real.is_relative_to(above := Path(os.path.realpath(base))):
                return root / _omp_name(prefix, "-".join(real.relative_to(above).parts))
        cwd = real
    name = str(cwd.absolute())
    name = name[1:] if name[:1] in ("/", "\\") else name
    for separator in "/\\:":
        name = name.replace(separator, "-")
    return root / f"--{name}--"


def _omp_name(prefix: str, rest: str) -> str:
    rest = rest.replace("\\", "-").replace(":", "-")
    return f"{prefix}{rest}" if prefix.endswith("-") or not rest else f"{prefix}-{rest}"


def session_path(folder: Path, session_id: str, timestamp: str) -> Path:
    """Return the path of a new session file. Its name is the time, then the id."""
    return folder / f"{timestamp.replace(':', '-').replace('.', '-')}_{session_id}.jsonl"


def id_in_name(path: Path) -> str | None:
    """Return the session id in a name that `session_path` made; None for other names."""
    time, separator, session_id = path.stem.partition("_")
    return session_id if separator and len(time) == len("2026-01-31T23-59-59-999Z") and time.endswith("Z") else None


def transcripts_folder(session_file: Path) -> Path:
    """Return the folder for the sessions of a session's sub-agents. It is beside the session file and named like it."""
    if session_file.suffix == ".jsonl":
        return session_file.with_suffix("")
    return session_file.with_name(f"{session_file.name}.agents")


def iso(ms: int) -> str:
    """Format milliseconds since the epoch as pi does in entries. A time that the system cannot represent becomes the epoch."""
    try:
        seconds = time.gmtime(ms // 1000)
    except (ValueError, OverflowError, OSError):
        return iso(0)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', seconds)}.{ms % 1000:03d}Z"
