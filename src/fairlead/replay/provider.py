"""Turns the provider traffic of a recording into a script for `fairlead.testing.ProviderServer`."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from msgspec import UnsetType

from fairlead.replay.recording import BodyPiece, ExchangeEnd, ProviderRequest, ProviderResponse, Recording

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
