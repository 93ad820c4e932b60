"""Reads JSON that people write by hand, and changes JSON files so that they are never half written."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec

from fairlead.config.project_files import read_bytes
from fairlead.core import lenient
from fairlead.errors import ConfigError
from fairlead.platform.open_files import make_private_folders


def parse_object(path: Path, data: bytes) -> dict[str, Any]:
    """Parse the JSON object in `data`. Comments and trailing commas are allowed; empty text is an empty object.

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
        raise ConfigError(f"{path}: expected a JSON object, found {describe_value(value)}.")
    return cast("dict[str, Any]", value)


def _parse_relaxed(path: Path, data: bytes) -> Any:
    try:
        return lenient.decode(_plain_json(data.decode("utf-8", "replace")))
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}.") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not valid JSON: {error}.") from None


def _plain_json(text: str) -> str:
    """Replace comments and trailing commas by spaces, so that everything else keeps its line and column.

    One pass from left to right that looks at nothing twice: the file may be made to take long.
    """
    token = re.compile(r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?|//[^\n]*+|\s++|[^"/,}\]\s]++|.')
    pieces: list[str] = []
    #: Where the last comma is among the pieces, if only space and comments have come since.
    comma: int | None = None
    at = 0
    while found := token.match(text, at):
        piece, at = found[0], found.end()
        if piece == "/" and text.startswith("*", at):
            end = text.find("*/", at + 1) + 2
            if end < 2:  # the comment has no end: the parser reports it
                return "".join([*pieces, text[at - 1 :]])
            piece, at = text[at - 1 : end], end
        if piece.startswith(("//", "/*")):
            piece = "\n".join(" " * len(line) for line in piece.split("\n"))
        elif piece == ",":
            comma = len(pieces)
        elif not piece.isspace():
            if comma is not None and piece in ("}", "]"):
                pieces[comma] = " "
            comma = None
        pieces.append(piece)
    return "".join(pieces)


def describe_value(value: Any) -> str:
    """Describe a JSON value for error texts."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 40 else "a string"
    if isinstance(value, (int, float)):
        return str(value)
    return "a list" if isinstance(value, list) else "an object"


def change_object(path: Path, key: str, value: Any) -> None:
    """Set `key` (`"a"`, or `"a.b"` for b in the object a) in the JSON object in the file `path`. None removes it.

    Everything else stays. Raises ConfigError as `update_object` does.
    """

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
    """Call `change` with the JSON object in the file `path`, and write the result.

    The file is replaced as a whole and readable by its owner alone; its folder is made if it is missing.
    Raises ConfigError, leaving the file as it is, if that cannot be done without losing what it says.
    """

    def encode_changed(data: bytes) -> bytes:
        content = _strict_object(path, data)
        change(content)
        return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"

    update_bytes(path, encode_changed)


def update_bytes(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Replace what is in the file `path` by what `change` makes of it; a missing file is empty.

    The file is replaced as a whole and readable by its owner alone; its folder is made if it is missing.
    Raises ConfigError if it cannot be written, and what `change` raises. The file is then unchanged.
    """
    try:
        make_private_folders(path.parent)
        with locked(path):
            _replace(path, change(read_bytes(path) or b""))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}.") from error


def _strict_object(path: Path, data: bytes) -> dict[str, Any]:
    if not data.strip():
        return {}
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: not changed, because it is not a plain JSON object. Comments would be lost; edit it by hand.")
    return cast("dict[str, Any]", value)


def _replace(path: Path, data: bytes) -> None:
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


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock for changes to the file `path`, after waiting for it if necessary. Raises OSError."""
    lock = path.with_name(f".{path.name}.lock")
    if os.name == "nt":  # no flock; a file that is replaced is still never half written
        yield
        return
    import fcntl  # noqa: PLC0415  POSIX only

    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
