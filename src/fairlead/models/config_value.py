"""What a key or a header in auth.json or models.json stands for, and the output of a command that it names.

pi 0.87 and later write environment variables as `$NAME`; pi 0.73, omp and xcsh write the bare name. Both are understood. They
conflict where a variable has the same name as a literal key: then the variable is used, as in pi 0.73.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from subprocess import TimeoutExpired
from time import monotonic
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from fairlead.errors import NoCredentials
from fairlead.platform.process import child_guard
from fairlead.platform.programs import current_folder, own_environment, user_folder

if TYPE_CHECKING:
    from re import Pattern
    from subprocess import Popen

#: Seconds that a command has to print a key.
COMMAND_SECONDS = 10.0
#: The most bytes that a command may print.
_MOST_OUTPUT = 1024 * 1024
#: Seconds that a background process may keep writing after the command itself has ended.
_DRAIN = 0.1


class ConfigValue(Struct, frozen=True):
    """A value as it is written.

    `!command` stands for what the command prints, and the name of an environment variable that is set for its value. In any
    other text `$NAME` and `${NAME}` stand for environment variables, `$$` for a dollar sign and `$!` for an exclamation mark.
    """

    text: str
    #: Variables that the entry in auth.json sets for itself.
    own_env: Mapping[str, Any] = {}
    #: It stands for itself.
    is_literal: bool = False

    @property
    def command(self) -> str | None:
        """The command whose output it stands for, if it is one."""
        return self.text[1:].strip() if self.text.startswith("!") and not self.is_literal else None

    @property
    def looks_like_variable(self) -> bool:
        """Whether a user has probably written it as the name of a variable."""
        return not self.is_literal and "_" in self.text and self.text.isupper() and self.text.isidentifier()

    @property
    def variables(self) -> list[str]:
        """The names of the variables that it needs."""
        if self.looks_like_variable:
            return [self.text]
        if self.is_literal or "$" not in self.text or self.command is not None:
            return []
        names = (braced or plain for _, braced, plain in _reference().findall(self.text))
        return list(dict.fromkeys(filter(None, names)))

    def missing(self, env: Mapping[str, str]) -> list[str]:
        """Return the names of the variables that it needs and that are not set."""
        return [name for name in self.variables if name != self.text and not self._variable(name, env)]

    def resolve(self, env: Mapping[str, str]) -> str:
        """Return what it stands for, if it is not a command and no variable is missing."""
        if self.is_literal:
            return self.text
        if "$" not in self.text:
            return self._variable(self.text, env) or self.text
        return _reference().sub(lambda found: found[1] or self._variable(found[2] or found[3], env), self.text)

    def _variable(self, name: str, env: Mapping[str, str]) -> str:
        own = self.own_env.get(name)
        return own if isinstance(own, str) and own else env.get(name, "")


def escape(text: str) -> str:
    """Return the value to write for a text that stands for itself."""
    doubled = text.replace("$", "$$")
    return f"$!{doubled[1:]}" if doubled.startswith("!") else doubled


def _reference() -> Pattern[str]:
    """Return the pattern of what a dollar sign begins: an escape, or one of the two ways to name a variable."""
    return re.compile(r"\$(?:([$!])|\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


class _Stopped(Exception):
    """A command has to be stopped. The text says what it did."""


def command_output(command: str, what: str, env: Mapping[str, str]) -> str:
    """Run a shell command and return what it prints, stripped.

    `what` names the value in errors. Raises NoCredentials if the command fails or prints nothing.
    """
    try:
        # The command gets no standard input, because fairlead's own belongs to the host.
        process = subprocess.Popen(
            f" {command}",  # sh would take a leading `-` or `+` for an option
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # The working directory may be a stranger's, and many programs read their configuration where they start.
            cwd=user_folder(),
            env=own_environment(env, outside=current_folder()),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # without a shell, too long, with a NUL character
        reason = error.strerror if isinstance(error, OSError) else error
        raise NoCredentials(f"{what} comes from a command that could not be started: {reason}.") from error
    child_guard.add(process.pid)
    with process:
        try:
            output, errors = _outputs(process)
        except _Stopped as error:
            _kill(process)
            raise NoCredentials(f"{what} comes from a command that {error}: {command}") from None
        finally:
            child_guard.remove(process.pid)
    if process.returncode != 0:
        reason = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise NoCredentials(
            f"{what} comes from a command that failed with exit code {process.returncode}: {command}"
            + (f" ({reason})" if reason else "")
        )
    text = output.decode("utf-8", "replace").strip()
    if not text:
        raise NoCredentials(f"{what} comes from a command that printed nothing: {command}")
    return text


def _outputs(process: Popen[bytes]) -> tuple[bytes, bytes]:
    """Return what a command writes to stdout and stderr until it ends, even if a child of it keeps them open.

    Raises _Stopped if it does not end in time, or writes too much.
    """
    deadline = monotonic() + COMMAND_SECONDS
    ended = False
    while True:
        try:
            return process.communicate(timeout=_DRAIN)
        except TimeoutExpired as unfinished:
            output, errors = unfinished.stdout or b"", unfinished.stderr or b""
        if len(output) + len(errors) > _MOST_OUTPUT:
            raise _Stopped(f"printed more than {_MOST_OUTPUT >> 20} MiB")
        if ended:
            return output, errors
        # What it wrote before it ended is still in the pipes, so read once more.
        ended = process.poll() is not None
        if not ended and monotonic() > deadline:
            raise _Stopped(f"took longer than {COMMAND_SECONDS:g} seconds")


def _kill(process: Popen[bytes]) -> None:
    """Kill the command and its children."""
    if os.name != "posix":
        process.kill()
        return

    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
