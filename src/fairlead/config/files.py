"""Reading JSON that people write by hand, and writing files that are never half written."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec

from fairlead.core import lenient
from fairlead.errors import ConfigError

_BOM = b"\xef\xbb\xbf"

#: What people write by hand is far shorter.
_LONGEST_FILE = 16 * 1024 * 1024

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


#: Asked about a file that was opened, by the path that led there. Raises ConfigError if it must not be read.
Check: TypeAlias = Callable[[int, Path], None]


def read_bytes(path: Path, check: Check | None = None) -> bytes | None:
    """The contents of a file; None if there is none.

    Raises ConfigError if it cannot be read, is longer than 16 MiB, or is no regular file: a pipe or a device
    might never end, or never begin.
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "something else")
            raise ConfigError(f"{path}: cannot be read: expected a regular file, found {kind}.")
        with path.open("rb") as file:
            if check is not None:
                check(file.fileno(), path)
            data = file.read(_LONGEST_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}.") from error
    if len(data) > _LONGEST_FILE:
        raise ConfigError(f"{path}: cannot be read: it is longer than {_LONGEST_FILE >> 20} MiB.")
    return data.removeprefix(_BOM)


def parse_object(path: Path, data: bytes) -> dict[str, Any]:
    """The JSON object in `data`; comments and trailing commas are tolerated, no text at all is an empty object.

    Raises ConfigError, naming the file and the line, if it is something else.
    """
    if not data.strip():
        return {}
    try:
        value: Any = msgspec.json.decode(data)
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply.") from None
    except (msgspec.DecodeError, UnicodeError):
        value = _parse_relaxed(path, data)
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: expected a JSON object, found {found(value)}.")
    return cast("dict[str, Any]", value)


def _parse_relaxed(path: Path, data: bytes) -> Any:
    import json

    try:
        return lenient.decode(_plain_json(data.decode("utf-8", "replace")))
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}.") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not valid JSON: {error}.") from None


def _plain_json(text: str) -> str:
    """`text` without comments and trailing commas; what remains keeps its line and column."""
    import re

    string = r'"(?:[^"\\\n]|\\.)*"'

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0][0] == '"' else re.sub(r"[^\n]", " ", match[0])

    text = re.sub(string + r"|//[^\n]*|/\*.*?\*/", blank, text, flags=re.DOTALL)
    return re.sub(string + r"|,(?=\s*[}\]])", blank, text)


def found(value: Any) -> str:
    """What a JSON value is, for error texts."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 40 else "a string"
    if isinstance(value, (int, float)):
        return str(value)
    return "a list" if isinstance(value, list) else "an object"


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock that guards changes of `path`, across processes."""
    lock = path.with_name(f".{path.name}.lock")
    if os.name == "nt":  # no flock; os.replace still keeps the file whole
        yield
        return
    import fcntl

    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def change_object(path: Path, key: str, value: Any) -> None:
    """Set `key` (`"a"`, or `"a.b"` for b in the object a) in the JSON object that `path` holds, keeping everything else;
    None takes it out. Raises ConfigError as `update_object` does."""

    def change(content: dict[str, Any]) -> None:
        group, dot, name = key.partition(".")
        target = content
        if dot:
            inner = content.get(group)
            target = content[group] = cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}
        if value is None:
            target.pop(name or group, None)
        else:
            target[name or group] = value

    update_object(path, change)


def update_object(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Let `change` work on the JSON object that `path` holds.

    The file is replaced as a whole and readable by its owner alone; its folder is made if need be.
    Raises ConfigError, leaving the file as it is, if that cannot be done without losing what it says.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(path):
            content = _strict_object(path)
            change(content)
            _replace(path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}.") from error


def _strict_object(path: Path) -> dict[str, Any]:
    data = read_bytes(path)
    if data is None or not data.strip():
        return {}
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: not changed, because it is not a plain JSON object. Comments would be lost; edit it by hand.")
    return cast("dict[str, Any]", value)


def _replace(path: Path, data: bytes) -> None:
    import tempfile

    target = path.resolve()  # a link to the file stays a link
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
