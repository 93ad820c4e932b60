"""The sandbox that commands are kept in: bubblewrap, which gives them a view of the machine of their own.

In it the working directory can be written, and a folder for temporary files that lasts as long as the agent does. Everything
else is read-only. There is no network, no process but their own, no socket of the user's session; what is protected is hidden.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from fairlead.config.home import PROJECT_FOLDER
from fairlead.errors import ConfigError
from fairlead.policy.protected import GIT, READ_ONLY_IN_SANDBOX, Masks

#: Folders of sockets and other ways to programs outside.
_PRIVATE = ("/run", "/var/run", "/var/tmp")
#: Variables that name such ways, which lead nowhere in the sandbox.
_WITHOUT = ("DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR")
#: What commands could make in the working directory to take effect outside. While there is none, an empty folder is in its
#: place, which means nothing to anybody.
_KEPT_EMPTY = (PROJECT_FOLDER, ".mcp.json", ".git/hooks")
#: What leads git to another repository. Git itself makes none in this place, but anything that were there instead would stop it.
_TAKEN_AWAY = ".git/commondir"
#: Seconds after which a sandbox that does not start will not.
_PATIENCE = 10.0
_HOW_TO_GET_IT = "Install the package bubblewrap (apt install bubblewrap, dnf install bubblewrap), or start without a sandbox."


class Bubblewrap:
    """Implements `fairlead.tools.guard.Sandbox`. Raises ConfigError if there can be no sandbox here.

    `scratch` is a private folder of the agent's own, and `masks` says what to hide when a command starts. `own` are the folders
    in which fairlead keeps what is the user's; of those only the skills can be seen.
    """

    def __init__(
        self, program: str | None, cwd: Path, *, scratch: Callable[[], Path], masks: Callable[[], Masks], own: Sequence[Path]
    ) -> None:
        if not sys.platform.startswith("linux"):
            raise ConfigError("The sandbox needs bubblewrap, which runs on Linux alone. Start without a sandbox.")
        if program is None:
            raise ConfigError(f"The sandbox needs bubblewrap (the program bwrap), which was not found. {_HOW_TO_GET_IT}")
        self._program = os.path.realpath(program)
        self._cwd = Path(os.path.realpath(cwd))
        self._scratch = scratch
        self._masks = masks
        self._own = own
        self._kept_empty = [self._cwd / name for name in _KEPT_EMPTY if _is_free(self._cwd / name)]
        self._may_lead_away = os.path.lexists(self._cwd / _TAKEN_AWAY)
        for folder in (Path(os.path.realpath(each)) for each in own):
            if folder.is_relative_to(self._cwd):
                text = (
                    f"The working directory {self._cwd} cannot be a sandbox: it holds {folder}, which commands could then change."
                )
                raise ConfigError(f"{text} Start in the folder of a project, or without a sandbox.")
        for path in (self._cwd / name for name in (GIT, *READ_ONLY_IN_SANDBOX)):
            if path.is_symlink():
                text = f"{path} is a link, which commands in the sandbox could exchange, and takes effect outside."
                raise ConfigError(f"{text} Put what it leads to in its place, or start without a sandbox.")
        if Path(self._program).is_relative_to(self._cwd):
            raise ConfigError(f"{self._program} is in the working directory, where commands could change it. {_HOW_TO_GET_IT}")

    def prove(self) -> None:
        """Run a command that does nothing. Raises ConfigError if that fails: nothing is ever run outside instead."""
        try:
            tried = subprocess.run(
                self.wrapped(["/bin/sh", "-c", ":"], self._cwd),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=_PATIENCE,
                check=False,
            )
            problem = tried.stderr.decode("utf-8", "replace").strip() or f"it exited with code {tried.returncode}"
            if tried.returncode == 0:
                return
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = str(error)
        raise ConfigError(
            f"bubblewrap ({self._program}) does not work here: {problem.rstrip('.')}. The system may forbid user namespaces."
            " Allow them, or start without a sandbox."
        )

    def wrapped(self, command: Sequence[str], cwd: Path, *, info: int | None = None) -> list[str]:
        words = [self._program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        # What is in /proc/sys is the kernel's, whatever namespace it is written from; root may, even without any privileges.
        words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]
        for folder in _PRIVATE:
            if Path(folder).is_dir() and not Path(folder).is_symlink():
                words += ["--tmpfs", folder]
        words += self._temporary()
        words += _installation()
        words += ["--bind", str(self._cwd), str(self._cwd)]
        words += self._read_only()
        words += self._hidden()
        for name in _WITHOUT:
            words += ["--unsetenv", name]
        words += ["--setenv", "TMPDIR", "/tmp", "--chdir", str(cwd)]
        if info is not None:
            words += ["--info-fd", str(info)]
        return [*words, "--", *command]

    def remove(self) -> None:
        """Take back the empty folders that kept commands from making something of that name."""
        self.tidy()
        for path in self._kept_empty:
            # It may not be there, or somebody may have put something into it.
            with contextlib.suppress(OSError):
                path.rmdir()

    def tidy(self) -> None:
        if not self._may_lead_away:
            with contextlib.suppress(OSError):
                (self._cwd / _TAKEN_AWAY).unlink()

    def _temporary(self) -> list[str]:
        """A /tmp of the agent's own, in which logs of earlier commands can be read."""
        scratch = self._scratch()
        folder = scratch / "tmp"
        folder.mkdir(exist_ok=True)
        return ["--bind", str(folder), "/tmp", "--ro-bind", str(scratch), str(scratch)]

    def _read_only(self) -> list[str]:
        """Those parts of the working directory that take effect outside. A folder that is mounted cannot be renamed either."""
        words: list[str] = []
        git = self._cwd / GIT
        if git.is_dir() and not git.is_symlink():
            words += ["--bind", str(git), str(git)]
        elif git.is_file():
            words += ["--ro-bind", str(git), str(git)]
        for name in READ_ONLY_IN_SANDBOX:
            path = self._cwd / name
            if path.exists() and not path.is_symlink():
                words += ["--ro-bind", str(path), str(path)]
            elif name in _KEPT_EMPTY and not os.path.lexists(path) and path.parent.is_dir():
                empty = self._scratch() / "empty"
                empty.mkdir(exist_ok=True)
                words += ["--ro-bind", str(empty), str(path)]
        return words

    def _hidden(self) -> list[str]:
        masks = self._masks()
        words: list[str] = []
        for path in (*masks.folders, *masks.files):
            words += self._held_in_place(path)
        for folder in masks.folders:
            words += ["--tmpfs", str(folder)]
        for file in masks.files:
            words += ["--ro-bind", "/dev/null", str(file)]
        for folder in self._own:
            skills = folder / "skills"
            words += ["--ro-bind", str(skills), str(skills)] if skills.is_dir() else []
        return words

    def _held_in_place(self, path: Path) -> list[str]:
        """Mounts the folders between the working directory and `path`, so that none can be renamed to get around a mask."""
        if not path.is_relative_to(self._cwd):
            return []
        inner = [folder for folder in path.parents if folder != self._cwd and folder.is_relative_to(self._cwd)]
        return [word for folder in reversed(inner) for word in ("--bind", str(folder), str(folder))]


def _installation() -> list[str]:
    """What this program runs from, where that is in a folder which a sandbox has for itself: searches take place inside.

    Not all of `sys.path`: it may have such a folder itself in it."""
    packages = (str(Path(__file__).parents[1]), str(Path(msgspec.__file__).parent))
    places = dict.fromkeys((sys.prefix, sys.base_prefix, *packages))
    hidden = [place for place in places if any(Path(place).is_relative_to(each) for each in ("/tmp", *_PRIVATE))]
    return [word for place in hidden for word in ("--ro-bind", place, place)]


def _is_free(path: Path) -> bool:
    """Whether there is nothing at `path`, or an empty folder, as an agent that was killed leaves it there."""
    try:
        return not any(path.iterdir())
    except FileNotFoundError:
        return not path.is_symlink()
    except OSError:
        return False
