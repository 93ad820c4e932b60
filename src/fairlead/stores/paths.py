"""Ids of sessions, and where their files are. Names follow pi, so that both programs find each other's sessions."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from fairlead.config.home import Home

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


class SessionFolders(Struct):
    """Where the files of sessions are. Without a root and a folder, none are saved."""

    #: Has a folder for each working directory.
    root: Path | None = None
    #: One folder for all working directories, instead.
    folder: Path | None = None
    #: The user's directory, if folders get the names that omp gives them: see `session_folder`.
    user: Path | None = None

    @classmethod
    def of(
        cls,
        home: Home,
        cwd: Path,
        env: Mapping[str, str],
        chosen: str | Path | None,
        configured: str | None,
        *,
        isolated: bool = False,
        keeps: bool = True,
    ) -> SessionFolders:
        """Return the folders of a user. docs/sessions.md has the order.

        Args:
            home: The user's home.
            cwd: Where relative paths start.
            env: The environment, whose `PI_CODING_AGENT_SESSION_DIR` names a folder.
            chosen: The folder that the command line or a program names.
            configured: The folder that the settings name.
            isolated: Whether the user's configuration is not read. Then only the folder that was chosen has sessions.
            keeps: Whether sessions are saved.
        """
        user = home.user if home.has_omp_layout else None
        if not isolated:
            chosen = chosen or env.get("PI_CODING_AGENT_SESSION_DIR") or configured
        if not keeps or (isolated and not chosen):
            return cls(user=user)
        folder = Path(os.path.abspath(Path(cwd, _expanded(str(chosen), env)))) if chosen else None  # noqa: PTH100
        return cls(None if isolated else home.sessions_dir, folder, user)

    def place(self, cwd: Path) -> Path | None:
        """Return the folder for new sessions of a working directory; None if they are not saved."""
        if self.folder is not None:
            return self.folder
        return self.below(self.root, cwd) if self.root is not None else None

    def below(self, root: Path, cwd: Path) -> Path:
        """Return the folder of a working directory below a root."""
        return session_folder(root, cwd, self.user)

    @property
    def above(self) -> Path | None:
        """The root, if there is a folder for each working directory."""
        return self.root if self.folder is None else None

    def all(self, cwd: Path | None = None) -> list[Path]:
        """Return the folders with the sessions of a working directory, or of all. Raises SessionError."""
        place = None if cwd is None and self.folder is None else self.place(cwd or Path())
        if place is not None:
            return [place]
        from fairlead.stores.listing import folders_below

        return folders_below(self.root) if self.root is not None else []

    def newest_first(self, cwd: Path | None = None) -> list[tuple[int, Path]]:
        """Return the session files, each with the time of its last change in nanoseconds, the last changed first.

        Raises SessionError if a folder cannot be listed.
        """
        from fairlead.stores.listing import newest_first

        return sorted((file for folder in self.all(cwd) for file in newest_first(folder)), reverse=True)

    def find(self, session_id: str, cwd: Path) -> Path | None:
        """Return the session with exactly this id, which is looked for in the folder of a working directory first.

        Returns None if there is none. Raises SessionError.
        """
        from fairlead.stores.finding import session_with_id

        if not session_id or "/" in session_id or os.sep in session_id:
            return None
        folders = self.all(cwd)
        others = [folder for folder in self.all() if folder not in folders]
        return next((path for folder in (*folders, *others) if (path := session_with_id(session_id, folder)) is not None), None)


def _expanded(path: str, env: Mapping[str, str]) -> str:
    """Return a path with the home of its user instead of `~`. Path.expanduser would raise for users that do not exist."""
    if path.split("/", 1)[0] == "~" and env.get("HOME"):
        return env["HOME"] + path[1:]
    return os.path.expanduser(path)  # noqa: PTH111
