"""The format of a recording: JSON Lines, a header first, then entries in the order in which they happened.

`ms` is the time since the start of the recording, in milliseconds. `docs/record-and-replay.md` describes every entry.
`provider_turns` makes a script for `fairlead.testing.ProviderServer` of the traffic with the provider.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.errors import ConfigError

VERSION = 1
#: The longest file, and the longest header, in bytes.
_LONGEST_FILE = 1 << 31
_LONGEST_HEADER = 1 << 16
_NOT_A_RECORDING = "is not a recording: expected the header that `fairlead --record` writes"


class Header(Struct, tag="recording", kw_only=True):
    """The first line: what was recorded."""

    version: int
    dialect: str
    #: The release of the program that fairlead stood in for. None for the newest.
    release: str | None
    #: The version of fairlead that recorded.
    fairlead: str
    #: When the recording began, in UTC.
    date: str


class HostLine(Struct, tag="in", omit_defaults=True):
    """A line from the host."""

    ms: float
    line: Raw | UnsetType = UNSET
    #: A line that is not JSON, or None for one that was too long.
    text: str | UnsetType | None = UNSET


class SentFrame(Struct, tag="out"):
    """A frame to the host."""

    ms: float
    frame: Raw


class InputEnd(Struct, tag="in_end"):
    """The host closed its end."""

    ms: float


class ProviderRequest(Struct, tag="request", kw_only=True):
    """A request to a provider. `exchange` numbers the requests from 1."""

    ms: float
    exchange: int
    method: str
    url: str
    headers: dict[str, str]
    #: As JSON, or as a string if it is not JSON.
    body: Raw


class ProviderResponse(Struct, tag="response", kw_only=True):
    """The head of the response."""

    ms: float
    exchange: int
    status: int
    headers: dict[str, str]


class BodyPiece(Struct, tag="chunk", kw_only=True, omit_defaults=True):
    """A piece of the body of a response: whole lines that arrived together."""

    ms: float
    exchange: int
    text: str | UnsetType = UNSET
    #: A piece that is not UTF-8.
    base64: str | UnsetType = UNSET


class ExchangeEnd(Struct, tag="end", kw_only=True, omit_defaults=True):
    """The end of a response. `error` says why it ended early; `aborted` that fairlead ended it."""

    ms: float
    exchange: int
    error: str | UnsetType = UNSET
    aborted: bool = False


class ProcessExit(Struct, tag="exit"):
    """The exit code of the process."""

    ms: float
    code: int


Entry: TypeAlias = HostLine | SentFrame | InputEnd | ProviderRequest | ProviderResponse | BodyPiece | ExchangeEnd | ProcessExit
_headers = msgspec.json.Decoder(Header)
_entries: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)  # pyright: ignore[reportArgumentType, reportAssignmentType]


class Recording(Struct):
    """A recording that was read. `entries` have the numbers of their lines in the file."""

    path: Path
    header: Header
    entries: list[tuple[int, Entry]]
    #: Whether the last line is incomplete, because the process was killed while it wrote. It is left out.
    is_cut_off: bool = False


def read_recording(path: Path) -> Recording:
    """Read a recording.

    Raises ConfigError if the file cannot be read, is not a recording, or has another version of the format.
    """
    try:
        with path.open("rb") as file:
            if path.stat().st_size > _LONGEST_FILE:
                raise ConfigError(f"{path} is too long for a recording: it has more than {_LONGEST_FILE >> 30} GiB.")
            header = _header(path, file)
            recording = Recording(path, header, [])
            for number, line in enumerate(file, 2):
                entry = _entry(recording, number, line)
                if entry is not None:
                    recording.entries.append((number, entry))
            return recording
    except OSError as error:
        raise ConfigError(f"Cannot read the recording {path}: {error.strerror}.") from error


def _header(path: Path, file: BinaryIO) -> Header:
    line = file.readline(_LONGEST_HEADER)
    if not line:
        raise ConfigError(f"{path} is empty, so it {_NOT_A_RECORDING}.")
    try:
        header = _headers.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise ConfigError(f"{path} {_NOT_A_RECORDING}.") from None
    if header.version != VERSION:
        raise ConfigError(
            f"{path} has version {header.version} of the format, and this fairlead reads version {VERSION}. "
            f"It was recorded by fairlead {header.fairlead}: use that, or record again."
        )
    return header


def _entry(recording: Recording, number: int, line: bytes) -> Entry | None:
    if not line.strip():
        return None
    try:
        return _entries.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        if not line.endswith(b"\n"):
            recording.is_cut_off = True
            return None
        raise ConfigError(f"{recording.path}, line {number}: not an entry of a recording ({error}).") from None


def frame_lines(recording: Recording) -> Iterator[tuple[int, HostLine | SentFrame | InputEnd | ProcessExit]]:
    """Yield the entries that belong to the connection with the host, with the numbers of their lines."""
    for number, entry in recording.entries:
        if isinstance(entry, HostLine | SentFrame | InputEnd | ProcessExit):
            yield number, entry


#: Headers that describe the framing of the recorded response. The server frames its responses itself.
_FRAMING = frozenset({"content-length", "transfer-encoding", "connection", "content-encoding"})

#: How long a server is silent before an answer that the recorded agent did not wait for.
_FOREVER_MS = 3_600_000


def provider_turns(recording: Recording, *, speed: float | None = 1.0) -> list[dict[str, Any]]:
    """Return one turn for each recorded request that the provider was asked for an answer, in order.

    `speed` is how many times faster than recorded the pieces of an answer come; None for no delays.
    """
    turns: dict[int, dict[str, Any]] = {}
    last: dict[int, float] = {}
    for _, entry in recording.entries:
        if isinstance(entry, ProviderRequest):
            if entry.method != "GET":
                turns[entry.exchange] = {"raw": [], "delayMs": []}
                last[entry.exchange] = entry.ms
        elif isinstance(entry, ProviderResponse | BodyPiece | ExchangeEnd) and (turn := turns.get(entry.exchange)) is not None:
            _add(turn, entry, 0.0 if speed is None else (entry.ms - last[entry.exchange]) / speed)
            last[entry.exchange] = entry.ms
    return list(turns.values())


def _add(turn: dict[str, Any], entry: ProviderResponse | BodyPiece | ExchangeEnd, delay: float) -> None:
    if isinstance(entry, ProviderResponse):
        turn["status"] = entry.status
        turn["headers"] = {name: value for name, value in entry.headers.items() if name not in _FRAMING}
        turn["firstDelayMs"] = delay
    elif isinstance(entry, BodyPiece):
        turn["raw"].append(b64decode(entry.base64) if not isinstance(entry.base64, UnsetType) else entry.text)
        # The server pauses after a piece, and before the first one.
        if len(turn["raw"]) == 1:
            turn["firstDelayMs"] += delay
        else:
            turn["delayMs"].append(delay)
    elif entry.aborted:
        turn["hangAfter"] = len(turn["raw"])
        if not turn["raw"]:
            turn["firstDelayMs"] = _FOREVER_MS
    elif "status" not in turn:  # the connection failed
        del turn["raw"]
        turn.update(status=503, error=entry.error)
    elif not isinstance(entry.error, UnsetType):
        turn["dropAfter"] = len(turn["raw"])
