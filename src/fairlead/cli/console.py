"""What the command writes for people: results, errors and the log.

File names, settings and errors of providers can contain escape sequences, which must not reach a terminal.

The library logs to one logger per package (`fairlead.wire`, `fairlead.session`, ...) and is silent until logging is
configured. The command configures it from `--verbose`, `FAIRLEAD_LOG` and `--log-file`. It writes to stderr, where hosts often
show it to their users. So a command that serves a host writes errors only, and the others write warnings too, unless they are
asked for more.
"""

from __future__ import annotations

import logging
import os
import select
import stat
import sys
from collections.abc import Callable, Mapping
from typing import ClassVar, TextIO
from unicodedata import east_asian_width

from fairlead.core import secrets
from fairlead.core.lenient import visible
from fairlead.errors import ConfigError

_LEVELS = {name: getattr(logging, name.upper()) for name in ("debug", "info", "warning", "error")}
_PLAIN = "fairlead: %(message)s"
_DETAILED = "%(asctime)s %(levelname)s %(name)s: %(message)s"
#: A pipe that select calls writable takes this many bytes without blocking (POSIX's smallest PIPE_BUF is 512).
_PIPE_BUF = getattr(select, "PIPE_BUF", 512)
#: How many bytes the file of `--log-file` may have before a new one is begun.
_LONGEST_LOG_FILE = 64 * 1024 * 1024
_USAGE = "expected debug, info, warning or error, or levels by package such as models=debug,wire=info"


def print_text(text: str) -> None:
    """Print lines for people to stdout. Names and values from files must not control a terminal, now or when a log is read."""
    print_exact(visible(text))


def print_exact(text: str) -> None:
    """Print a result that programs use to stdout. Only a terminal gets escape sequences replaced; a program gets names unchanged.

    Names of files keep their bytes. A character that the encoding of stdout lacks is printed as an escape.
    """
    StatusLine.hide_current()
    line = (visible(text) if sys.stdout.isatty() else text) + "\n"
    try:
        sys.stdout.write(line)
    except UnicodeEncodeError:
        print_bytes(_encode(line, sys.stdout.encoding))


def print_bytes(data: bytes) -> None:
    """Print a result to stdout as it is."""
    StatusLine.hide_current()
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _encode(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding, "surrogateescape")
    except UnicodeEncodeError:
        return text.encode(encoding, "backslashreplace")


def complain(text: str) -> None:
    """Print a line for people to stderr. It is not part of any protocol."""
    StatusLine.hide_current()
    sys.stderr.write(visible(text) + "\n")
    sys.stderr.flush()


def signs(wanted: str, plain: str) -> str:
    """Return the characters that are wanted, or plain ones if the encoding of stderr lacks one of them."""
    try:
        wanted.encode(sys.stderr.encoding)
    except UnicodeEncodeError:
        return plain
    return wanted


def remark(text: str) -> None:
    """Print a remark about the command line for the user. No host and no program needs it.

    A command that serves a host shows it with `--verbose` only, because hosts show stderr to their users.
    """
    logging.getLogger("fairlead.cli").warning("%s", text)


class StatusLine:
    """The last line of a terminal, which says what happens now. Everything else that is printed removes it first."""

    _shown: ClassVar[StatusLine | None] = None

    def __init__(self, columns: Callable[[], int]) -> None:
        """`columns` returns the width of the terminal."""
        self._columns = columns

    def show(self, text: str) -> None:
        """Show a text in place of the one before. It is cut to the width of the terminal."""
        StatusLine._shown = self
        # An escape for a character that the encoding lacks would be wider than the character, and the line too long.
        shown = visible(text).encode(sys.stderr.encoding, "replace").decode(sys.stderr.encoding)
        sys.stderr.write(f"\r{_cut(shown, self._columns() - 1)}\x1b[K")
        sys.stderr.flush()

    @classmethod
    def hide_current(cls) -> None:
        """Remove the line, if there is one."""
        if cls._shown is not None:
            cls._shown = None
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _cut(text: str, columns: int) -> str:
    width = 0
    for index, character in enumerate(text):
        width += 2 if east_asian_width(character) in "WF" else 1
        if width > columns:
            return text[:index]
    return text


def configure_logging(env: Mapping[str, str], *, default: str, verbose: bool, log_file: str | None) -> None:
    """Send log records to stderr and, if one is named, to a file.

    Args:
        env: The environment. `FAIRLEAD_LOG` in it sets levels: `debug`, or `warning,models=debug`.
        default: The level of stderr if neither `FAIRLEAD_LOG` nor `verbose` asks for another.
        verbose: Log at `info` where `FAIRLEAD_LOG` sets no level.
        log_file: The file to append to. It gets the levels that were asked for, at least `info`; stderr keeps `default`.

    Raises:
        ConfigError: The file cannot be opened.
    """
    wanted, problem = _levels(env.get("FAIRLEAD_LOG", ""))
    form = _DETAILED if wanted else _PLAIN
    general = wanted.pop("", _LEVELS["info"] if verbose or log_file is not None else _LEVELS[default])
    if log_file is not None:
        _add(_file_handler(log_file), logging.DEBUG, _Formatter(_DETAILED, env))
        _add(_StderrHandler(), _LEVELS[default], _Formatter(_PLAIN, env))
    else:
        _add(_StderrHandler(), logging.DEBUG, _Formatter(form, env))
    logging.getLogger("fairlead").setLevel(general)
    # The messages of MCP servers come from the user's own programs, so they are shown by default.
    for package, level in {"extend.mcp": _LEVELS["info"], **wanted}.items():
        logging.getLogger(f"fairlead.{package}").setLevel(level)
    if problem is not None:
        logging.getLogger("fairlead.cli").warning("FAIRLEAD_LOG: %s", problem)


def keep_tracebacks_off_stderr(env: Mapping[str, str]) -> None:
    """Send tracebacks of extensions to the log file alone, unless `FAIRLEAD_LOG` asks for more: errors are shown to the user."""
    if env.get("FAIRLEAD_LOG"):
        return
    for handler in logging.getLogger("fairlead").handlers:
        if isinstance(handler, _StderrHandler):
            handler.addFilter(lambda record: record.name != "fairlead.extend.tracebacks")


def _levels(text: str) -> tuple[dict[str, int], str | None]:
    """Return the levels by package, with "" for all others, and what is wrong with the text. Invalid parts are left out."""
    levels: dict[str, int] = {}
    problem = None
    for part in filter(None, (part.strip() for part in text.split(","))):
        package, _, level = part.rpartition("=")
        if level.lower() in _LEVELS:
            levels[package.strip().removeprefix("fairlead").removeprefix(".")] = _LEVELS[level.lower()]
        else:
            problem = f"{_USAGE}, got {part!r}."
    return levels, problem


def _add(handler: logging.Handler, level: int, formatter: _Formatter) -> None:
    handler.setLevel(level)
    handler.setFormatter(formatter)
    logging.getLogger("fairlead").addHandler(handler)


def _file_handler(name: str) -> logging.Handler:
    try:
        # The log contains paths and model names, so only the owner may read a new file.
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        return _FileHandler(os.fdopen(descriptor, "a", encoding="utf-8", errors="replace"), name)
    except OSError as error:
        raise ConfigError(f"--log-file {name}: {error.strerror}.") from error


class _Formatter(logging.Formatter):
    """Leaves out secrets, and control characters that could confuse a terminal."""

    def __init__(self, form: str, env: Mapping[str, str]) -> None:
        super().__init__(form)
        self._env = env

    def format(self, record: logging.LogRecord) -> str:
        # Most processes log nothing, so a start does not load this.
        secrets.learn_variables(self._env.items())
        return visible(secrets.redacted(super().format(record)))


class _FileHandler(logging.StreamHandler[TextIO]):
    """Writes to a file. Records that cannot be written are lost: `logging` would print a traceback of each to stderr, and
    wait there for a host that does not read it.

    A regular file that has become too large gets the suffix `.old`, in place of an earlier one, and a new file is begun.
    """

    def __init__(self, stream: TextIO, name: str) -> None:
        super().__init__(stream)
        self._name = os.path.realpath(name)

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        try:
            status = os.fstat(self.stream.fileno())
            if status.st_size > _LONGEST_LOG_FILE and stat.S_ISREG(status.st_mode):
                self._begin_again(status)
        except (OSError, ValueError):  # it continues in the same file
            return

    def _begin_again(self, status: os.stat_result) -> None:
        if os.path.samestat(status, os.lstat(self._name)):
            os.replace(self._name, f"{self._name}.old")  # noqa: PTH105
        descriptor = os.open(self._name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        before = self.setStream(os.fdopen(descriptor, "a", encoding="utf-8", errors="replace"))
        if before is not None:
            before.close()

    def handleError(self, record: logging.LogRecord) -> None:
        pass


class _StderrHandler(logging.Handler):
    """Writes to stderr, but never waits for it: a host that does not read its child's stderr must not block the agent."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            left = memoryview(f"{self.format(record)}\n".encode("utf-8", "replace"))
            StatusLine.hide_current()
            descriptor = sys.stderr.fileno()
            while left and select.select([], [descriptor], [], 0)[1]:
                left = left[os.write(descriptor, left[:_PIPE_BUF]) :]
        except (OSError, ValueError):  # stderr is closed, or not a real file
            return
