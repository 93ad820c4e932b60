"""Runs commands in a sandbox with bubblewrap.

Commands can write to the working directory and to a private /tmp that lasts as long as the agent. Everything else is read-only.
They have no network, see no other processes and no sockets of the user's session, and protected files are hidden.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec

from fairlead.config import project_files
from fairlead.errors import ConfigError, ToolError
from fairlead.policy.exposure import Exposure, Watched
from fairlead.policy.installation import Installation
from fairlead.policy.protected import Masks
from fairlead.policy.repositories import (
    GIT,
    HEAD,
    Effective,
    Identity,
    TooMany,
    effective_at,
    find_effective,
    looks_like_repository,
    move_aside,
    take_away,
)
from fairlead.policy.system_calls import filter_program

#: Folders with sockets and other channels to programs outside.
_PRIVATE = ("/run", "/var/run", "/var/tmp")
#: They list the keys of the user's session, which no namespace separates.
_HIDDEN_OF_KERNEL = ("/proc/keys", "/proc/key-users")
#: Variables that name such channels, which do not exist in the sandbox.
_WITHOUT = ("DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR")
#: What must not be a symbolic link in the working directory, beside what is read-only in it: a command could change its target,
#: which takes effect outside.
_NO_LINKS = tuple(f"{GIT}/{name}" for name in ("hooks", "config", "config.worktree", "commondir"))
#: The maximum number of files and folders to search for what takes effect outside before a command starts.
_MOST_FILES = 1_000_000
#: The maximum number of files and folders to mount read-only. Each mount costs time.
_MOST_READ_ONLY = 200
#: The maximum length of a `.git` that names another folder.
_LONGEST_LINK = 8192
#: How many paths a remark lists.
_NAMED = 10
#: Ends well if system calls are filtered (2: by a program) for a command in the sandbox.
_CHECK = """while read -r name value; do [ "$name $value" != 'Seccomp: 2' ] || exit 0; done </proc/self/status
echo 'its filter of system calls has no effect' >&2
exit 1"""
#: How many seconds the sandbox may take to start.
_PATIENCE = 10.0
#: How many seconds a killed command may take to end.
_DYING = 10.0
_HOW_TO_GET_IT = (
    "Install the package bubblewrap (apt install bubblewrap, dnf install bubblewrap), or start without a sandbox (--sandbox off)."
)


class GuardedPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """What commands in the sandbox must not change, or not even see."""

    #: The folders with fairlead's user configuration. Commands see only the skills in them.
    own: Sequence[Path] = ()
    #: The user's home directories, with the configuration of programs that run outside, such as git and shells.
    users: Sequence[Path] = ()
    #: The names of what commands cannot change in the working directory.
    read_only: Sequence[str] = ()
    #: Returns the files and folders in the working directory that run outside, which may not exist. Called for each command.
    #: Commands cannot change them, and those that a command makes are renamed when it ends.
    code: Callable[[], Sequence[Path]] = tuple
    #: Where workers keep the files of jobs. It is in a folder that is hidden; the working directory may be inside.
    jobs: Path | None = None
    #: Extensions that the user named, which commands cannot change either.
    named: Sequence[Path] = ()
    #: Programs that run outside the sandbox.
    programs: Sequence[str] = ()


class Bubblewrap:
    """Starts commands in bubblewrap. Implements `fairlead.tools.workspace.Sandbox`.

    Args:
        program: the path of bwrap, or None if it was not found.
        cwd: the working directory.
        scratch: returns the agent's private temporary folder.
        masks: returns what to hide. Called for each command.
        places: what commands must not change.
        env: the environment of commands, in which bubblewrap starts too.

    Raises:
        ConfigError: commands cannot be sandboxed here.
    """

    def __init__(
        self,
        program: str | None,
        cwd: Path,
        *,
        scratch: Callable[[], Path],
        masks: Callable[[], Masks],
        places: GuardedPlaces,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        if not sys.platform.startswith("linux"):
            raise ConfigError("The sandbox needs bubblewrap, which runs only on Linux. Start without a sandbox.")
        if program is None:
            raise ConfigError(f"The sandbox needs bubblewrap (the program bwrap), which was not found. {_HOW_TO_GET_IT}")
        self._program = os.path.realpath(program)
        self._cwd = Path(os.path.realpath(cwd))
        self._calls = filter_program()
        self._scratch = scratch
        self._masks = masks
        own, users, read_only = places.own, places.users, places.read_only
        self._own = own
        self._jobs = None if places.jobs is None else Path(os.path.realpath(places.jobs))
        self._read_only = read_only
        self._code = places.code
        self._kept_empty = [self._cwd / name for name in read_only if _is_free(self._cwd / name)]
        #: Commands that were started and not yet checked at their end.
        self._entered: set[_Entered] = set()
        #: Held while a command is prepared, so that no other command can start in the meantime.
        self._entering = threading.Lock()
        for folder in (Path(os.path.realpath(each)) for each in (*own, *users)):
            if folder.is_relative_to(self._cwd):
                text = f"The working directory {self._cwd} cannot be a sandbox: commands could change {folder}, which is inside."
                raise ConfigError(f"{text} Start in a project folder, or without a sandbox.")
        self._check_mounts([*own, *users, Path(sys.prefix), Path(sys.base_prefix), Path(__file__)])
        for folder in (self._cwd, *self._cwd.parents):
            if looks_like_repository(lambda name, folder=folder: os.path.lexists(folder / name)):
                text = f"The working directory {self._cwd} cannot be a sandbox: {folder} belongs to a git repository"
                raise ConfigError(f"{text}, whose configuration commands could change. Start elsewhere, or without a sandbox.")
        for path in (self._cwd / name for name in (*read_only, *_NO_LINKS)):
            if path.is_symlink():
                text = f"{path} is a link that commands in the sandbox could replace, and it takes effect outside."
                raise ConfigError(f"{text} Replace it with its target, or start without a sandbox.")
        if Path(self._program).is_relative_to(self._cwd):
            raise ConfigError(f"{self._program} is in the working directory, where commands could change it. {_HOW_TO_GET_IT}")
        self._installation = Installation(self._cwd, places.named, [self._program, *places.programs], env)
        self._installation.paths()

    def prove(self) -> None:
        """Check that the sandbox works by running an empty command in it. Raises ConfigError if it does not work."""
        try:
            masks = self._masks()
            self._check_visible(masks)
            mounts = self._writable([], masks, [], [])
            calls = self.open_filter()
            try:
                tried = subprocess.run(
                    self._words(["/bin/sh", "-c", _CHECK], self._cwd, mounts, calls, ["--assert-userns-disabled"]),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    pass_fds=(calls,),
                    timeout=_PATIENCE,
                    check=False,
                )
            finally:
                os.close(calls)
            problem = tried.stderr.decode("utf-8", "replace").strip() or f"it exited with code {tried.returncode}"
            if tried.returncode == 0:
                return
        except ToolError as error:
            raise ConfigError(str(error)) from error
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = str(error)
        raise ConfigError(
            f"bubblewrap ({self._program}) does not work here: {problem.rstrip('.')}. The system may forbid user namespaces,"
            " its kernel may lack seccomp, or bubblewrap may be older than version 0.8. Allow namespaces, install a newer one, or"
            " start without a sandbox."
        )

    def wrap(self, command: Sequence[str], cwd: Path, calls: int) -> list[str]:
        """Return the command line that runs a command in a sandbox where everything is read-only."""
        masks = self._masks()
        mounts = [*self._around(masks), "--ro-bind", str(self._cwd), str(self._cwd), *self._hide(masks)]
        return self._words(command, cwd, mounts, calls)

    def open_filter(self) -> int:
        """Return a pipe with the filter of system calls, for one command. Raises OSError."""
        read_end, write_end = os.pipe()
        try:
            os.write(write_end, self._calls)  # a pipe holds at least 4096 bytes
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        return read_end

    def enter(self, cwd: Path) -> _Entered:
        """Prepare the sandbox for a command that may write. Raises ToolError if that fails."""
        with self._entering:
            running = list(self._entered)
            code = self._code()
            found = self._effective(code)
            masks = self._masks()
            installed = self._list_installed()
            kept = [self._cwd / name for name in self._read_only if not _is_free(self._cwd / name)]
            try:
                entered = _Entered(self, cwd, found, kept, running, masks, code, installed)
            except OSError as error:
                why = error.strerror
                if error.errno in (errno.ENOSPC, errno.EMFILE):
                    why = f"{why}. To watch protected files, raise fs.inotify.max_user_watches and max_user_instances (sysctl)"
                raise ToolError(f"The command was not run: the sandbox could not be set up: {why}.") from error
            self._entered.add(entered)
            return entered

    def _list_installed(self) -> list[Path]:
        """Return what is read-only because fairlead runs from it. Raises ToolError if that cannot be protected any more.

        In place of what does not exist, this returns the first folder on the way to it that a command could make.
        """
        try:
            paths = self._installation.paths()
            paths = [*paths, *self._installation.names(paths)]
        except ConfigError as error:
            raise ToolError(f"The command was not run. {error}") from error
        missing = [path for path in paths if _is_free(path)]
        steps = [[*reversed([each for each in path.parents if each.is_relative_to(self._cwd)]), path][1:] for path in missing]
        blocked = list(dict.fromkeys(next(filter(_is_free, each)) for each in steps))
        self._kept_empty += [path for path in blocked if path not in self._kept_empty]
        return [*(path for path in paths if path not in missing), *blocked]

    def part_of_installation(self, path: Path, found: os.stat_result | None) -> Path | None:
        """Return from where fairlead runs, if a file belongs to that. Raises ToolError if that cannot be told."""
        try:
            return self._installation.part_at(path, found)
        except ConfigError as error:
            raise ToolError(str(error)) from error

    def _effective(self, code: Sequence[Path]) -> list[Effective]:
        """Return what takes effect outside in the working directory. Raises ToolError if it cannot all be found."""
        try:
            found = find_effective(self._cwd, _MOST_FILES)
        except TooMany:
            raise ToolError(
                f"The command was not run: the working directory contains more than {_MOST_FILES:,} files, too many to search"
                " for git repositories and code of agents. Start in a smaller folder, or without a sandbox."
            ) from None
        except FileNotFoundError:
            raise ToolError(f"The working directory {self._cwd} does not exist, so no command can run in it.") from None
        except OSError as error:
            raise ToolError(f"The command was not run: {self._cwd} cannot be searched: {error.strerror}.") from error
        known = {each.path for each in found}
        found += [each for path in code if (each := effective_at(path, self._cwd)) and each.path not in known]
        if len(found) > _MOST_READ_ONLY:
            raise ToolError(
                f"The command was not run: the working directory contains {len(found)} git repositories and files of agents,"
                f" and the sandbox can protect at most {_MOST_READ_ONLY}. Start in a smaller folder, or without a sandbox."
            )
        return found

    def remove(self) -> None:
        """Check the commands that were not checked at their end, and remove the empty folders that the mounts created."""
        for entered in list(self._entered):
            entered.check("", ended=True)
        for path in self._kept_empty:
            # It may not exist, or another program may have written into it.
            with contextlib.suppress(OSError):
                path.rmdir()

    def words(self, command: Sequence[str], cwd: Path, entered: _Entered, info: int, calls: int) -> list[str]:
        """Return the command line that runs a command in the sandbox that `enter` prepared."""
        mounts = self._writable(entered.effective, entered.masks, entered.in_place, entered.installed)
        return self._words(command, cwd, mounts, calls, ["--info-fd", str(info)])

    def take_away(self, entered: _Entered) -> list[str]:
        """Disable what a command created that would take effect outside. Returns remarks about it for the model."""
        try:
            # A program outside may have deleted or replaced a mounted file, which removes the mount.
            changed = [name for name in self._read_only if name != GIT and self._is_another(name, entered)]
            aside = {name: move_aside(self._cwd, name) for name in changed}
            check = take_away(self._cwd, entered.known)
            # A link in the working directory may lead there, and outside it is an ordinary folder.
            temporary = take_away(self._temporary_files(), set())
            for path in entered.find_changed_code():
                aside[str(path.relative_to(self._cwd))] = move_aside(path.parent, path.name)
        except OSError as error:
            problem = f"could not be searched for git repositories and code of agents: {error.strerror}"
            return [f"{self._cwd} {problem}. Do not use git or fairlead there."]
        remarks: list[str] = []
        where = "the working directory" if check.renamed else "/tmp"
        renamed = check.renamed + temporary.renamed
        if repositories := [self._format_move(*each) for each in renamed if each[0].name in (GIT, HEAD)]:
            remarks.append(
                f"Commands in the sandbox cannot make git repositories in {where}, because git outside the sandbox would run"
                f" the commands that they configure. Renamed: {_format_names(repositories)}."
            )
        if others := [self._format_move(*each) for each in renamed if each[0].name not in (GIT, HEAD)]:
            remarks.append(
                f"Commands in the sandbox cannot make folders and files in {where} in which agents find extensions and servers,"
                f" because agents outside the sandbox would run them. Renamed: {_format_names(others)}."
            )
        moved = [f"{name} is now {self.name(new)}" for name, new in aside.items() if new is not None]
        if moved:
            remarks.append(f"Renamed, because it was made or replaced while the command ran: {_format_names(moved)}.")
        failed = [self.name(path) for path in check.failed + temporary.failed]
        if failed := failed + [name for name, new in aside.items() if new is None]:
            remarks.append(f"These could not be checked or renamed; do not use git or fairlead there: {_format_names(failed)}.")
        return remarks

    def _is_another(self, name: str, entered: _Entered) -> bool:
        try:
            now = (self._cwd / name).lstat()
        except OSError:
            return False
        return (now.st_dev, now.st_ino) not in entered.known and not _is_free(self._cwd / name)

    def _format_move(self, old: Path, new: Path) -> str:
        return f"{self.name(old)} is now {self.name(new)}"

    def on_leave(self, entered: _Entered) -> None:
        """Forget a command that has ended and was checked."""
        self._entered.discard(entered)

    @property
    def cwd(self) -> Path:
        """The working directory, as a real path."""
        return self._cwd

    def name(self, path: Path) -> str:
        """Return a path in the working directory or the private /tmp as commands see it."""
        if path.is_relative_to(self._cwd):
            return str(path.relative_to(self._cwd))
        return f"/tmp/{path.relative_to(self._temporary_files())}"

    def _words(self, command: Sequence[str], cwd: Path, mounts: Sequence[str], calls: int, more: Sequence[str] = ()) -> list[str]:
        words = [self._program, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
        # /proc/sys belongs to the kernel, not to a namespace, and root may write to it even without capabilities.
        words += ["--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        for file in _HIDDEN_OF_KERNEL:
            words += ["--ro-bind-try", "/dev/null", file]
        words += ["--remount-ro", "/proc"]
        for folder in _PRIVATE:
            if Path(folder).is_dir() and not Path(folder).is_symlink():
                words += ["--tmpfs", folder]
        words += self._temporary()
        words += _installation()
        words += mounts
        for name in _WITHOUT:
            words += ["--unsetenv", name]
        words += ["--setenv", "TMPDIR", "/tmp", "--chdir", str(cwd)]
        return [*words, "--seccomp", str(calls), *more, "--", *command]

    def _temporary(self) -> list[str]:
        """Return the mounts of the private /tmp, and of the folder with the logs of earlier commands."""
        scratch = str(self._scratch())
        return ["--bind", str(self._temporary_files()), "/tmp", "--ro-bind", scratch, scratch]

    def _temporary_files(self) -> Path:
        """Return the path of the private /tmp outside the sandbox."""
        folder = self._scratch() / "tmp"
        folder.mkdir(exist_ok=True)
        return folder

    def _writable(
        self, effective: Sequence[Path], masks: Masks, in_place: Sequence[Path], installed: Sequence[Path]
    ) -> list[str]:
        """Return the mounts that make the working directory writable, except for what takes effect outside.

        The folders `in_place` are mounted too, because commands cannot rename a mounted folder.
        """
        words = [*self._around(masks), "--bind", str(self._cwd), str(self._cwd)]
        # These come before the read-only mounts: a mount shows a folder as it is outside and would cover the mounts below it.
        for path in in_place:
            words += ["--bind", str(path), str(path)]
        for path in (*(self._cwd / name for name in self._read_only), *installed):
            if path.exists() and not path.is_symlink():
                words += ["--ro-bind", str(path), str(path)]
            else:  # an empty folder takes the name, so that commands cannot use it
                empty = self._scratch() / "empty"
                empty.mkdir(exist_ok=True)
                words += ["--ro-bind", str(empty), str(path)]
        for path in effective:
            if path.parent != self._cwd or path.name not in self._read_only:
                words += ["--ro-bind", str(path), str(path)]
        return words + self._hide(masks)

    def _around(self, masks: Masks) -> list[str]:
        """Return the mounts that hide folders outside the working directory, and show what commands need of them."""
        words: list[str] = []
        for folder in masks.folders:
            words += ["--tmpfs", str(folder)] if not folder.is_relative_to(self._cwd) else []
        for shown in (*(folder / "skills" for folder in self._own), *self._mirror()):
            words += ["--ro-bind", str(shown), str(shown)] if os.path.isdir(shown) else []
        return words

    def _hide(self, masks: Masks) -> list[str]:
        """Return the mounts that hide files, and folders in the working directory."""
        words: list[str] = []
        for folder in masks.folders:
            words += ["--tmpfs", str(folder)] if folder.is_relative_to(self._cwd) else []
        for file in masks.files:
            words += ["--ro-bind", "/dev/null", str(file)]
        return words

    def _mirror(self) -> list[Path]:
        """Return the repository of a job, if the working directory is its worktree, so that git can read it."""
        if self._jobs is None or not self._cwd.is_relative_to(self._jobs):
            return []
        try:
            data = project_files.read_bytes(self._cwd / GIT, largest=_LONGEST_LINK) or b""
            real = Path(os.path.realpath(data.decode().removeprefix("gitdir: ").strip()))
        except (ConfigError, ValueError):
            return []
        mirrors = self._jobs / "mirrors"
        return [mirrors / real.relative_to(mirrors).parts[0]] if mirrors in real.parents else []

    def _check_mounts(self, paths: Sequence[Path]) -> None:
        """Raise ConfigError if a part of the working directory is also mounted elsewhere, with one of the paths inside."""
        parts = [self._cwd, *_mounts_below(self._cwd)]
        for path in (Path(os.path.realpath(each)) for each in paths):
            for folder in () if path.is_relative_to(self._cwd) else (path, *path.parents):
                if (part := next((part for part in parts if _is_same(folder, part)), None)) is not None:
                    text = (
                        f"The working directory {self._cwd} cannot be a sandbox: {part} is also mounted at {folder}, and commands"
                    )
                    raise ConfigError(f"{text} could change {path}. Start in another folder, or without a sandbox.")

    def _check_visible(self, masks: Masks) -> None:
        """Raise ConfigError if the working directory is in a folder that commands cannot see."""
        if self._jobs is not None and self._cwd.is_relative_to(self._jobs):
            return
        for folder in masks.folders:
            if self._cwd.is_relative_to(folder):
                text = (
                    f"The working directory {self._cwd} cannot be a sandbox: it is in {folder}, which commands cannot see because"
                )
                raise ConfigError(f"{text} it holds keys. Start in a project folder, or without a sandbox.")

    def folders_to(self, paths: Sequence[Path]) -> list[Path]:
        """Return the folders between the working directory and `paths`, the outer ones first."""
        inside = [path for path in paths if path.is_relative_to(self._cwd)]
        folders = {folder for path in inside for folder in path.parents if folder.is_relative_to(self._cwd)} - {self._cwd}
        return sorted(folders, key=lambda folder: len(folder.parts))


class _Entered:
    """A command in the sandbox. Implements `fairlead.tools.workspace.Confined`.

    `running` are the commands that already run. What they have created does not count as known: they could hide it from their own
    check, and this command could bring it back. They could also rename folders while this sandbox is set up, so it mounts by path
    only what cannot be renamed in theirs.
    """

    def __init__(
        self,
        sandbox: Bubblewrap,
        cwd: Path,
        found: Sequence[Effective],
        kept: Sequence[Path],
        running: Sequence[_Entered],
        masks: Masks,
        code: Sequence[Path],
        installed: Sequence[Path],
    ) -> None:
        before = [each for each in found if all(each.identity in other.known for other in running)]
        #: What existed before the command and takes effect outside.
        self.known: set[Identity] = {each.identity for each in before if isinstance(each.identity, str)}
        self.masks = masks
        #: What is mounted read-only.
        self.effective = [each.path for each in before if isinstance(each.identity, tuple)]
        self.installed = installed
        #: The folders that commands cannot rename, so that they cannot replace what is protected inside.
        wanted = sandbox.folders_to([*self.effective, *masks.folders, *masks.files, *installed])
        self.in_place = [folder for folder in wanted if all(folder in other.in_place for other in running)]
        self._sandbox = sandbox
        self._cwd = cwd
        #: What runs outside, and what each path led to before this command and all that already ran.
        self.code = {path: _resolve(path) for path in code}
        for other in running:
            self.code |= {path: before for path, before in other.code.items() if path in self.code}
        #: Descriptors of everything in `known`. While they are open, the inode number of a deleted file is not reused.
        self._held: list[int] = []
        try:
            for path in (*kept, *(each.mark for each in before if isinstance(each.identity, tuple))):
                with contextlib.suppress(FileNotFoundError):
                    self._hold(path, running)
        except OSError:
            self._release()
            raise
        try:
            # The user may install fairlead again meanwhile.
            runs = [path for path in installed if not _is_free(path)]
            watched = Watched([*masks.watched.paths, *runs], masks.watched.trees)
            self._exposure = Exposure(sandbox.cwd, [*masks.folders, *masks.files, *runs], watched)
        except OSError:
            self._release()
            raise
        self._dying: int | None = None
        self._checking = threading.Lock()

    def find_changed_code(self) -> list[Path]:
        """Return what runs outside and was made, or led elsewhere, since the command started."""
        now = {path: _resolve(path) for path in self.code}
        return [path for path, before in self.code.items() if now[path] is not None and now[path] != before]

    def wrap(self, command: Sequence[str], info: int, calls: int) -> list[str]:
        return self._sandbox.words(command, self._cwd, self, info, calls)

    @property
    def is_exposed(self) -> bool:
        return self._exposure.check()

    def arm(self, kill: Callable[[], None]) -> None:
        self._exposure.arm(kill)

    def disarm(self) -> None:
        self._exposure.disarm()

    def ending(self, process: int) -> None:
        with contextlib.suppress(OSError):  # the process has ended
            self._dying = os.pidfd_open(process)

    def check(self, said: str, *, ended: bool) -> list[str]:
        with self._checking:
            self._wait()
            remarks = self._sandbox.take_away(self)
            if self._exposure.exposed is not None:
                remarks.append(_explain_end(self._exposure.exposed, self._exposure.failure))
            if ended:
                self._exposure.close()
                self._release()
                self._sandbox.on_leave(self)
        if "Read-only file system" in said and GIT in said:
            remarks.append(
                f"{GIT} is read-only here: commands that change the repository, such as git add and git commit, must be run"
                " outside the sandbox."
            )
        if "Read-only file system" in said or "Device or resource busy" in said:
            parts = [path for path in map(self._sandbox.name, self.installed) if any(f"{path}{end}" in said for end in "/':")]
            remarks += [f"{_format_names(parts)} is read-only here, because fairlead itself runs from there."] if parts else []
        return [f"[Sandbox: {remark}]" for remark in remarks]

    def _hold(self, path: Path, running: Sequence[_Entered]) -> None:
        self._held.append(os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))
        found = os.fstat(self._held[-1])
        identity = found.st_dev, found.st_ino
        if all(identity in other.known for other in running):
            self.known.add(identity)

    def _release(self) -> None:
        while self._held:
            os.close(self._held.pop())

    def _wait(self) -> None:
        """Wait until all processes in the sandbox have ended. The first one ends last."""
        if self._dying is None:
            return
        poll = select.poll()
        poll.register(self._dying, select.POLLIN)
        poll.poll(_DYING * 1000)
        os.close(self._dying)
        self._dying = None


def _explain_end(exposed: Path, failure: str | None) -> str:
    if failure is not None:
        return (
            f"The command was ended, because protected files in {exposed} cannot be watched any more: {failure}. The output from"
            " that moment on is left out. Make fewer folders, or let the user raise fs.inotify.max_user_watches (sysctl)."
        )
    return (
        f"The command was ended, because {exposed} is protected, and was made or replaced while the command ran. The output from"
        " that moment on is left out. Run the command again without that file, or do not make such files."
    )


def _format_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _installation() -> list[str]:
    """Return mounts for this program's own files in folders that the sandbox replaces, because searches run inside.

    `sys.path` is not mounted as a whole: it may contain such a folder itself.
    """
    packages = (str(Path(__file__).parents[1]), str(Path(msgspec.__file__).parent))
    prefixes = dict.fromkeys((sys.prefix, sys.base_prefix, *packages))
    hidden = [prefix for prefix in prefixes if any(Path(prefix).is_relative_to(each) for each in ("/tmp", *_PRIVATE))]
    return [word for prefix in hidden for word in ("--ro-bind", prefix, prefix)]


def _mounts_below(folder: Path) -> list[Path]:
    """Return where something is mounted below a folder."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return []
    # Blanks and the like are written as `\040`.
    places = [os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), line.split()[4])) for line in lines]
    return [Path(place) for place in dict.fromkeys(places) if place.startswith(f"{folder}/")]


def _is_same(one: Path, other: Path) -> bool:
    """Return whether two paths lead to the same file or folder; not if one of them cannot be looked at."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def _is_free(path: Path) -> bool:
    """Return whether there is nothing at `path`, or an empty folder. A killed agent leaves such folders behind."""
    try:
        return not any(path.iterdir())
    except FileNotFoundError:
        return not path.is_symlink()
    except OSError:
        return False


def _resolve(path: Path) -> tuple[str, int, int] | None:
    """Return what a path leads to; None if there is nothing, or an empty folder."""
    if _is_free(path):
        return None
    real = os.path.realpath(path)
    try:
        found = os.stat(real)  # noqa: PTH116
    except OSError:
        return real, 0, 0
    return real, found.st_dev, found.st_ino
