"""What the tools of a session share: its directory, environment, shell and log folder, its file guard and its sandbox."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from fairlead.config.project_files import Check, find_opened_path
from fairlead.core.tool import ApprovedFile
from fairlead.errors import ConfigError, ToolError
from fairlead.platform.programs import find_program_again, search_path, working_folders
from fairlead.tools.files.targets import Guard, Target, Uris, scheme_of
from fairlead.tools.search import walk


class LateGuard:
    """Makes a guard when it is first asked."""

    def __init__(self, make: Callable[[], Guard]) -> None:
        self._make = make
        self._made: Guard | None = None

    def check_reading(self, path: Path, found: os.stat_result) -> None:
        self._guard().check_reading(path, found)

    def readable(self, files: Sequence[tuple[str, os.stat_result]]) -> list[bool]:
        return self._guard().readable(files)

    def check_writing(self, path: Path, found: os.stat_result | None) -> None:
        self._guard().check_writing(path, found)

    def _guard(self) -> Guard:
        if self._made is None:
            self._made = self._make()
        return self._made


def readable(guard: Guard | None) -> Check | None:
    """Turn a guard into a check for files that reach the model without a tool."""
    if guard is None:
        return None

    def check(file: int, path: Path) -> None:
        try:
            guard.check_reading(find_opened_path(file, path), os.fstat(file))
        except ToolError as error:
            raise ConfigError(f"{path}: {error}") from error

    return check


class Sandbox(Protocol):
    """Restricts what commands can see and change."""

    def wrap(self, command: Sequence[str], cwd: Path, calls: int) -> list[str]:
        """Return the command that runs `command` in the sandbox, where it can only read. `calls` is from `open_filter`."""
        ...

    def part_of_installation(self, path: Path, found: os.stat_result | None) -> Path | None:
        """Return from where fairlead itself runs, if a file belongs to that. Raises ToolError if that cannot be told."""
        ...

    def open_filter(self) -> int:
        """Open the filter of system calls for one command, which inherits the descriptor. The caller closes it."""
        ...

    def enter(self, cwd: Path) -> Confined:
        """Prepare the sandbox for a command that may change files. This takes time, so call it off the event loop.

        Raises ToolError if the sandbox cannot be set up.
        """
        ...


class Confined(Protocol):
    """A command that is about to run in a sandbox, runs, or has ended."""

    def wrap(self, command: Sequence[str], info: int, calls: int) -> list[str]:
        """Return the command that runs `command` in the sandbox. It writes a JSON object to the file descriptor `info`, in
        which `child-pid` is the number of the process group of the command. `calls` is from `Sandbox.open_filter`."""
        ...

    @property
    def is_exposed(self) -> bool:
        """Whether the command could see a protected file, so that its output must not be used from now on."""
        ...

    def arm(self, kill: Callable[[], None]) -> None:
        """Set what ends the command at once if a protected file appears. It may be called from another thread."""
        ...

    def disarm(self) -> None:
        """The command has ended, or will be killed: do not call what `arm` has set any more."""
        ...

    def ending(self, process: int) -> None:
        """Note that the command has ended or will be killed, with that number: its children may live for a moment."""
        ...

    def check(self, said: str, *, ended: bool) -> list[str]:
        """Remove what the command made and must not leave behind.

        Called once when it has `ended`, and before that whenever its caller gets output of the running command. `said` is the
        end of its output. Returns remarks for the caller. This takes time, so call it off the event loop.
        """
        ...


class Confinement:
    """One program that is about to run in the sandbox, where it can only read; without a sandbox, it runs as it is.

    It is a context manager: when the block ends, the program has been started.
    """

    def __init__(self, sandbox: Sandbox | None, cwd: Path) -> None:
        self._sandbox = sandbox
        self._cwd = cwd
        #: The descriptors that the program must inherit.
        self.files: tuple[int, ...] = ()

    def __enter__(self) -> Confinement:
        if self._sandbox is not None:
            self.files = (self._sandbox.open_filter(),)
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.files:
            os.close(file)

    def words(self, command: Sequence[str]) -> list[str]:
        """Return the command line to start. This may look through many files, so it should not run on the event loop."""
        return list(command) if self._sandbox is None else self._sandbox.wrap(command, self._cwd, *self.files)


class Workspace(Struct):
    """What the tools of one session share. Nothing here is read from the process's own environment."""

    cwd: Path
    #: The environment of the programs that tools start.
    env: Mapping[str, str]
    #: Names a private folder for full output logs, which it makes on first use.
    log_dir: Callable[[], Path]
    #: Called with every log that a result names, so that the log outlives the session.
    keep_log: Callable[[Path], None]
    #: The environment of the agent itself, which may have keys. None: that of the tools.
    agent_env: Mapping[str, str] | None = None
    #: The shell that runs commands; None: bash from PATH, else /bin/sh.
    shell: str | None = None
    #: Run before every command, in the same shell.
    command_prefix: str = ""
    resize_images: bool = True
    #: Whether the result of `write` says how many bytes were written.
    counts_written_bytes: bool = True
    #: Seconds until a tool other than bash is cut off.
    default_timeout: float = 120
    #: Reads and writes paths that are URIs; None if there are no such paths.
    uris: Uris | None = None
    #: Refuses protected files; None if all files may be used.
    guard: Guard | None = None
    #: The sandbox that commands run in; None if they run without one.
    sandbox: Sandbox | None = None
    #: The other directories that belong to the workspace.
    more: Sequence[Path] = ()
    #: The directory that working directories must lie in; None: they may be anywhere.
    root: Path | None = None

    def may_work_in(self, folder: Path) -> bool:
        """Whether a directory may be a working directory. Links are resolved."""
        return self.root is None or Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(self.root))

    def resolve(self, path: str) -> Path:
        """Return the absolute path that a model or a host means by `path`.

        Relative paths start at `cwd`; `~`, `file://` and an `@` in front, as in mentions, are understood.
        """
        if "\0" in path:
            raise ToolError("The path contains a NUL character, which no file name can have.")
        if path.startswith("file://"):
            path = unquote(urlsplit(path).path)
        elif scheme_of(path) and not self._exists(path):
            raise ToolError(f"{path} is not a file, and there is nothing here that reads or writes {scheme_of(path)}:// URIs.")
        elif path.startswith("@") and not self._exists(path):
            path = path[1:]
        if path == "~" or path.startswith("~/"):
            path = self.env.get("HOME", os.path.expanduser("~")) + path[1:]  # noqa: PTH111
        return Path(os.path.normpath(self.cwd / path))

    def locate(self, path: str, approved: ApprovedFile | None = None) -> Target:
        """Return the file that a call is about: the one that was `approved` for it, if one was, wherever `path` leads by now."""
        named = self.resolve(path)
        return Target(named, Path(os.path.realpath(named) if approved is None else approved.path), approved)

    def which(self, name: str) -> str | None:
        """Return the first executable called `name` on the workspace's PATH that is outside its directories."""
        return find_program_again(name, self.env.get("PATH", os.defpath), self.cwd, *self.more)

    def search_path(self) -> str:
        """Return the PATH for a program that the user wants to see, such as an editor: what `which` would search."""
        return search_path(self.env.get("PATH", os.defpath), outside=working_folders(self.cwd, *self.more))

    def list_files(self, most: int, seconds: float) -> list[str]:
        """Return the files in the working directory that are not ignored, relative to it: for the user to choose from.

        There are at most `most`, found in about that time. Outside a repository, hidden files are left out. No program is
        started, and only files with rules are opened. This takes time, so call it off the event loop.
        """
        return walk.list_files(self.cwd, most, seconds)

    def confinement(self, cwd: Path | None = None) -> Confinement:
        """Return what confines a program that only reads, such as a search."""
        return Confinement(self.sandbox, cwd or self.cwd)

    def find_shell(self) -> str:
        """Return the shell to run commands with. Raises ToolError if there is none."""
        if self.shell is not None:
            shell = self.shell if os.sep in self.shell else self.which(self.shell)
            if shell is None or not os.access(shell, os.X_OK):
                outside = "" if os.sep in self.shell else " outside the working directory"
                raise ToolError(
                    f"The shell {self.shell} does not exist{outside} or is not executable. Correct shellPath in the settings."
                )
            return shell
        shell = self.which("bash") or "/bin/sh"
        if not os.access(shell, os.X_OK):
            raise ToolError("No shell was found: neither bash on PATH nor /bin/sh. Set shellPath in the settings.")
        return shell

    def _exists(self, path: str) -> bool:
        """Return whether `path` or the folder it starts with exists under that name, such as `@types/node`."""
        return os.path.lexists(self.cwd / path.split("/", 1)[0])
