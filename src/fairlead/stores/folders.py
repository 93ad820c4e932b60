"""The folders that keep the session files of a user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.stores import listing
from fairlead.stores.paths import session_folder

if TYPE_CHECKING:
    from fairlead.config.home import Home


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
        folder = Path(os.path.abspath(Path(cwd, _expand_user(str(chosen), env)))) if chosen else None  # noqa: PTH100
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
        return listing.folders_below(self.root) if self.root is not None else []

    def newest_first(self, cwd: Path | None = None) -> list[tuple[int, Path]]:
        """Return the session files, each with the time of its last change in nanoseconds, the last changed first.

        Raises SessionError if a folder cannot be listed.
        """
        return sorted((file for folder in self.all(cwd) for file in listing.newest_first(folder)), reverse=True)

    def find(self, session_id: str, cwd: Path) -> Path | None:
        """Return the session with exactly this id, which is looked for in the folder of a working directory first.

        Returns None if there is none. Raises SessionError.
        """
        if not session_id or "/" in session_id or os.sep in session_id:
            return None
        folders = self.all(cwd)
        others = [folder for folder in self.all() if folder not in folders]
        return next(
            (path for folder in (*folders, *others) if (path := listing.session_with_id(session_id, folder)) is not None), None
        )


def _expand_user(path: str, env: Mapping[str, str]) -> str:
    """Return a path with the home of its user instead of `~`. Path.expanduser would raise for users that do not exist."""
    if path.split("/", 1)[0] == "~" and env.get("HOME"):
        return env["HOME"] + path[1:]
    return os.path.expanduser(path)  # noqa: PTH111
