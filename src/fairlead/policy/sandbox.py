"""The sandbox that commands are kept in: bubblewrap, which gives them a view of the machine of their own.

In it the working directory can be written, and a folder for temporary files that lasts as long as the agent does. Everything
else is read-only. There is no network, no process but their own, no socket of the user's session; what is protected is hidden.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from fairlead.errors import ConfigError, ToolError
from fairlead.policy.protected import READ_ONLY_IN_SANDBOX, Masks
from fairlead.policy.repositories import (
    GIT,
    Identity,
    Repository,
    TooMany,
    find_repositories,
    looks_like_repository,
    move_aside,
    take_away,
)

#: Folders of sockets and other ways to programs outside.
_PRIVATE = ("/run", "/var/run", "/var/tmp")
#: Variables that name such ways, which lead nowhere in the sandbox.
_WITHOUT = ("DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR")
#: What must not be a link in the working directory: a command could change what it leads to, and that takes effect outside.
_NO_LINKS = (*READ_ONLY_IN_SANDBOX, *(f"{GIT}/{name}" for name in ("hooks", "config", "config.worktree", "commondir")))
#: Files and folders in the working directory that are looked through for repositories before a command starts.
_MOST_FILES = 1_000_000
#: Repositories in the working directory that are made read-only, each of which costs time.
_MOST_REPOSITORIES = 200
#: How many of the things that were found at the end are named.
_NAMED = 10
#: Seconds after which a sandbox that does not start will not.
_PATIENCE = 10.0
#: Seconds that a killed command may take to be gone.
_DYING = 10.0
_HOW_TO_GET_IT = (
    "Install the package bubblewrap (apt install bubblewrap, dnf install bubblewrap), or start without a sandbox (--sandbox off)."
)


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
        self._kept_empty = [self._cwd / name for name in READ_ONLY_IN_SANDBOX if _is_free(self._cwd / name)]
        #: Commands whose traces have not been looked for yet.
        self._entered: set[_Entered] = set()
        for folder in (Path(os.path.realpath(each)) for each in own):
            if folder.is_relative_to(self._cwd):
                text = (
                    f"The working directory {self._cwd} cannot be a sandbox: it holds {folder}, which commands could then change."
                )
                raise ConfigError(f"{text} Start in the folder of a project, or without a sandbox.")
        for folder in (self._cwd, *self._cwd.parents):
            if looks_like_repository(lambda name, folder=folder: os.path.lexists(folder / name)):
                text = f"The working directory {self._cwd} cannot be a sandbox: {folder} is the inside of a git repository"
                raise ConfigError(f"{text}, whose configuration commands could change. Start elsewhere, or without a sandbox.")
        for path in (self._cwd / name for name in _NO_LINKS):
            if path.is_symlink():
                text = f"{path} is a link, which commands in the sandbox could exchange, and takes effect outside."
                raise ConfigError(f"{text} Put what it leads to in its place, or start without a sandbox.")
        if Path(self._program).is_relative_to(self._cwd):
            raise ConfigError(f"{self._program} is in the working directory, where commands could change it. {_HOW_TO_GET_IT}")

    def prove(self) -> None:
        """Run a command that does nothing. Raises ConfigError if that fails: nothing is ever run outside instead."""
        try:
            tried = subprocess.run(
                self._words(["/bin/sh", "-c", ":"], self._cwd, self._writable([]), ["--assert-userns-disabled"]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=_PATIENCE,
                check=False,
            )
            problem = tried.stderr.decode("utf-8", "replace").strip() or f"it exited with code {tried.returncode}"
            if tried.returncode == 0:
                return
        except ToolError as error:
            raise ConfigError(str(error)) from error
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = str(error)
        raise ConfigError(
            f"bubblewrap ({self._program}) does not work here: {problem.rstrip('.')}. The system may forbid user namespaces,"
            " or bubblewrap may be older than version 0.8. Allow them, install a newer one, or start without a sandbox."
        )

    def wrapped(self, command: Sequence[str], cwd: Path) -> list[str]:
        return self._words(command, cwd, ["--ro-bind", str(self._cwd), str(self._cwd), *self._hidden()])

    def enter(self, cwd: Path) -> _Entered:
        try:
            found = find_repositories(self._cwd, _MOST_FILES)
        except TooMany:
            raise ToolError(
                f"The command was not run: the working directory holds more than {_MOST_FILES:,} files, too many to look for git"
                " repositories among them. Start in a smaller folder, or without a sandbox."
            ) from None
        except FileNotFoundError:
            raise ToolError(f"The working directory {self._cwd} does not exist, so no command can run in it.") from None
        except OSError as error:
            raise ToolError(f"The command was not run: {self._cwd} cannot be looked through: {error.strerror}.") from error
        if len(found) > _MOST_REPOSITORIES:
            raise ToolError(
                f"The command was not run: the working directory holds {len(found)} git repositories, and a sandbox can protect"
                f" {_MOST_REPOSITORIES}. Start in a smaller folder, or without a sandbox."
            )
        kept = [self._cwd / name for name in READ_ONLY_IN_SANDBOX if not _is_free(self._cwd / name)]
        try:
            entered = _Entered(self, cwd, found, kept)
        except OSError as error:
            raise ToolError(f"The command was not run: the sandbox could not be made: {error.strerror}.") from error
        self._entered.add(entered)
        return entered

    def remove(self) -> None:
        """Look for traces of commands that were cut off, and take back the empty folders that kept commands from making something
        of that name."""
        for entered in list(self._entered):
            entered.check("", ended=True)
        for path in self._kept_empty:
            # It may not be there, or somebody may have put something into it.
            with contextlib.suppress(OSError):
                path.rmdir()

    def words(self, command: Sequence[str], cwd: Path, repositories: Sequence[Repository], info: int) -> list[str]:
        """A command for `enter`."""
        return self._words(command, cwd, self._writable(repositories), ["--info-fd", str(info)])

    def take_away(self, entered: _Entered) -> list[str]:
        """Take away what a command made that takes effect outside. Returns remarks on that."""
        try:
            check = take_away(self._cwd, entered.known)
            # Somebody outside may have deleted or replaced what was mounted there, and with it the mount.
            changed = [name for name in READ_ONLY_IN_SANDBOX if self._is_another(name, entered)]
            aside = {name: move_aside(self._cwd, name) for name in changed}
        except OSError as error:
            return [f"{self._cwd} could not be looked through for git repositories: {error.strerror}. Do not use git there."]
        remarks: list[str] = []
        if check.renamed:
            renamed = [f"{self._name(old)} is now {self._name(new)}" for old, new in check.renamed]
            remarks.append(
                "Commands in the sandbox cannot make git repositories in the working directory, because git outside would run"
                f" what they say. Renamed: {_listed(renamed)}."
            )
        moved = [f"{name} is now {self._name(new)}" for name, new in aside.items() if new is not None]
        if moved:
            remarks.append(f"This was made or replaced while the command ran, and takes effect outside: {_listed(moved)}.")
        failed = [self._name(path) for path in check.failed] + [name for name, new in aside.items() if new is None]
        if failed:
            remarks.append(f"These could not be checked or renamed; do not use git or fairlead there: {_listed(failed)}.")
        return remarks

    def _is_another(self, name: str, entered: _Entered) -> bool:
        try:
            now = (self._cwd / name).lstat()
        except OSError:
            return False
        return (now.st_dev, now.st_ino) not in entered.known and not _is_free(self._cwd / name)

    def left(self, entered: _Entered) -> None:
        self._entered.discard(entered)

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._cwd))

    def _words(self, command: Sequence[str], cwd: Path, mounts: Sequence[str], more: Sequence[str] = ()) -> list[str]:
        words = [self._program, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
        # What is in /proc/sys is the kernel's, whatever namespace it is written from; root may, even without any privileges.
        words += ["--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]
        for folder in _PRIVATE:
            if Path(folder).is_dir() and not Path(folder).is_symlink():
                words += ["--tmpfs", folder]
        words += self._temporary()
        words += _installation()
        words += mounts
        for name in _WITHOUT:
            words += ["--unsetenv", name]
        words += ["--setenv", "TMPDIR", "/tmp", "--chdir", str(cwd)]
        return [*words, *more, "--", *command]

    def _temporary(self) -> list[str]:
        """A /tmp of the agent's own, in which logs of earlier commands can be read."""
        scratch = self._scratch()
        folder = scratch / "tmp"
        folder.mkdir(exist_ok=True)
        return ["--bind", str(folder), "/tmp", "--ro-bind", str(scratch), str(scratch)]

    def _writable(self, repositories: Sequence[Repository]) -> list[str]:
        """The working directory. What takes effect outside is read-only; a folder that is mounted cannot be renamed either."""
        words = ["--bind", str(self._cwd), str(self._cwd)]
        for path in (self._cwd / name for name in READ_ONLY_IN_SANDBOX):
            if path.exists() and not path.is_symlink():
                words += ["--ro-bind", str(path), str(path)]
            else:  # in its place is an empty folder, which means nothing to anybody
                empty = self._scratch() / "empty"
                empty.mkdir(exist_ok=True)
                words += ["--ro-bind", str(empty), str(path)]
        for repository in repositories:
            if repository.path != self._cwd / GIT:
                words += ["--ro-bind", str(repository.path), str(repository.path)]
        return words + self._hidden()

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


class _Entered:
    """Implements `fairlead.tools.guard.Confined`."""

    def __init__(self, sandbox: Bubblewrap, cwd: Path, repositories: Sequence[Repository], kept: Sequence[Path]) -> None:
        #: What there was, before the command, of what takes effect outside.
        self.known: set[Identity] = {each.identity for each in repositories if isinstance(each.identity, str)}
        self._sandbox = sandbox
        self._cwd = cwd
        self._repositories = [each for each in repositories if isinstance(each.identity, tuple)]
        #: Descriptors of all that: as long as they are open, nothing else can get the number of one that is deleted.
        self._held: list[int] = []
        try:
            for path in (*kept, *(each.mark for each in self._repositories)):
                with contextlib.suppress(FileNotFoundError):
                    self._hold(path)
        except OSError:
            self._release()
            raise
        self._dying: int | None = None
        self._checking = threading.Lock()

    def wrapped(self, command: Sequence[str], info: int) -> list[str]:
        return self._sandbox.words(command, self._cwd, self._repositories, info)

    def ending(self, process: int) -> None:
        with contextlib.suppress(OSError):  # it is gone
            self._dying = os.pidfd_open(process)

    def check(self, said: str, *, ended: bool) -> list[str]:
        with self._checking:
            self._wait()
            remarks = self._sandbox.take_away(self)
            if ended:
                self._release()
                self._sandbox.left(self)
        if "Read-only file system" in said and GIT in said:
            remarks.append(
                f"{GIT} is read-only here: commands that change the repository, such as git add and git commit, have to be run"
                " outside of the sandbox."
            )
        return [f"[Sandbox: {remark}]" for remark in remarks]

    def _hold(self, path: Path) -> None:
        self._held.append(os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))
        found = os.fstat(self._held[-1])
        self.known.add((found.st_dev, found.st_ino))

    def _release(self) -> None:
        while self._held:
            os.close(self._held.pop())

    def _wait(self) -> None:
        """Wait until the last process is gone: that is when the first one in the sandbox is."""
        if self._dying is None:
            return
        waiting = select.poll()
        waiting.register(self._dying, select.POLLIN)
        waiting.poll(_DYING * 1000)
        os.close(self._dying)
        self._dying = None


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


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
