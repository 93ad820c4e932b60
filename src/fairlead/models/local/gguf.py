"""Reads what a GGUF file says about its model, without reading the weights."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from fairlead.errors import ConfigError

_MAGIC = b"GGUF"
#: The formats of numbers by type, and the types of strings and arrays.
_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
#: More entries or characters than any real file has.
_MOST_ENTRIES = 4096
_LONGEST_TEXT = 1 << 20


class GgufFacts(Struct, frozen=True):
    """What a file says about its model."""

    name: str
    architecture: str
    #: The context window that the model was trained with, in tokens; None if the file does not say.
    window: int | None
    #: Whether its chat template knows tools.
    has_tools: bool


def read_gguf(path: Path) -> GgufFacts:
    """Read the header of a GGUF file. Raises ConfigError if it is not one."""
    try:
        with path.open("rb") as file:
            return _facts(_entries(file))
    except (struct.error, ValueError, KeyError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a GGUF file that llama.cpp can run.") from error
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}.") from error


def _facts(entries: dict[str, Any]) -> GgufFacts:
    architecture = str(entries.get("general.architecture", ""))
    window = entries.get(f"{architecture}.context_length")
    template = entries.get("tokenizer.chat_template")
    name = str(entries.get("general.name", ""))
    has_tools = isinstance(template, str) and "tools" in template
    return GgufFacts(name, architecture, window if isinstance(window, int) else None, has_tools)


def _entries(file: IO[bytes]) -> dict[str, Any]:
    """Return the metadata, without arrays."""
    if file.read(4) != _MAGIC:
        raise ValueError("no magic number")
    (version,) = struct.unpack("<I", file.read(4))
    if version not in (2, 3):
        raise ValueError("unknown version")
    _, count = struct.unpack("<QQ", file.read(16))
    if count > _MOST_ENTRIES:
        raise ValueError("too many entries")
    entries: dict[str, Any] = {}
    for _ in range(count):
        name = _text(file)
        (kind,) = struct.unpack("<I", file.read(4))
        value = _value(file, kind)
        if value is not None:
            entries[name] = value
    return entries


def _value(file: IO[bytes], kind: int) -> Any:
    if kind == _STRING:
        return _text(file)
    if kind == _ARRAY:
        _skip_array(file)
        return None
    form = _NUMBERS[kind]
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]


def _skip_array(file: IO[bytes]) -> None:
    kind, count = struct.unpack("<IQ", file.read(12))
    if kind in _NUMBERS:
        file.seek(struct.calcsize(_NUMBERS[kind]) * count, 1)
        return
    for _ in range(count):
        if kind == _STRING:
            (length,) = struct.unpack("<Q", file.read(8))
            file.seek(length, 1)
        else:
            _value(file, kind)


def _text(file: IO[bytes]) -> str:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > _LONGEST_TEXT:
        raise ValueError("text too long")
    data = file.read(length)
    if len(data) < length:
        raise ValueError("cut off")
    return data.decode()
