"""Keeps secrets out of recordings: known keys wherever they appear, headers that may carry one, and fields that hold one."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec
from msgspec import Raw, Struct

from fairlead.core.secrets import REDACTED, learn, learn_headers, learn_variables, longest_form, redacted
from fairlead.models.config_value import ConfigValue
from fairlead.models.credentials import CredentialStore
from fairlead.models.models_json import read_models_json
from fairlead.replay.recording import HostLine

if TYPE_CHECKING:
    from fairlead.config.home import Home

#: The fields of frames that hold a piece of a stream. Other strings hold all of it so far.
_PIECES = frozenset({"delta", "chunk"})
#: What a frame contains that may end in the middle of a stream.
_MARKS = (b'"delta"', b'"chunk"', b'_update"')
#: Fields that tell the streams in one place from each other.
_MARKING = ("index", "contentIndex", "output_index", "item_id", "toolCallId", "call_id", "session_id")
#: Fields that are short and hold no part of a stream.
_SKIPPED = frozenset(
    """api attribution event finish_reason id item_id method mimeType model name object provider responseId role status stopReason
    stop_reason system_fingerprint toolCallId toolName type""".split()
)
#: The most streams that are remembered.
_MOST_STREAMS = 500

_Path: TypeAlias = tuple[object, ...]
_Change: TypeAlias = Callable[[_Path, str, str], str]


class SplitSecrets:
    """Finds secrets that a stream delivers in pieces, such as the deltas of an answer in which the model repeats a key.

    It remembers the end of each stream of a recording, and looks at each piece together with what came before it in the same
    place. The first few characters of a secret remain, because they could be the beginning of anything.
    """

    def __init__(self) -> None:
        self._ends: dict[_Path, str] = {}

    def frame(self, frame: bytes) -> bytes:
        """Return a frame without the parts of secrets that it has."""
        if not any(mark in frame for mark in _MARKS):
            return frame
        return _change_strings(frame, (), self._frame_string)

    def body(self, exchange: int, text: str) -> str:
        """Return whole lines of the body of a response without the parts of secrets that they have."""
        lines = text.split("\n")
        for index, line in enumerate(lines):
            if line.startswith("data:") and "{" in line:
                start = line.index("{")
                data = _change_strings(line[start:].encode(), (exchange,), self._piece)
                lines[index] = line[:start] + data.decode()
        return "\n".join(lines)

    def _frame_string(self, path: _Path, name: str, text: str) -> str:
        if name in _PIECES:
            return self._piece(path, name, text)
        end = text[-longest_form() :]
        clean = redacted(end)
        return text if clean == end else text[: len(text) - len(end)] + clean

    def _piece(self, path: _Path, name: str, text: str) -> str:
        before = self._ends.pop(path, "")
        whole = before + text
        clean = redacted(whole)
        self._ends[path] = whole[-longest_form() :]
        if len(self._ends) > _MOST_STREAMS:
            del self._ends[next(iter(self._ends))]
        if clean == whole:
            return text
        written = redacted(before)
        same = next((at for at, (old, new) in enumerate(zip(written, clean, strict=False)) if old != new), len(written))
        return clean[same:]


def _change_strings(data: bytes, path: _Path, change: _Change) -> bytes:
    """Change the strings of a JSON object. Returns the same bytes if none changes, or if it is not JSON."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return data
    # Pieces of different blocks and calls come in the same place of an event, which numbers or names them.
    marks = _marks(value)
    return msgspec.json.encode(value) if _walk(value, (*path, *marks), change) else data


def _marks(value: Any) -> _Path:
    """Return what tells the streams in an event from those in others: its index, and those of the objects in it."""
    if not isinstance(value, dict):
        return ()
    fields = cast("dict[str, Any]", value)
    return tuple(each for name in _MARKING if isinstance(each := fields.get(name), str | int))


def _walk(value: Any, path: _Path, change: _Change) -> bool:
    """Change the strings in a value in place. Returns whether one did change."""
    changed = False
    items: Any = ()
    if isinstance(value, dict):
        items = list(cast("dict[str, Any]", value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast("list[Any]", value)))
    for name, each in items:
        where = (*path, name)
        if isinstance(each, str):
            if name in _SKIPPED:
                continue
            clean = change(where, str(name), each)
            if clean != each:
                value[name] = clean
                changed = True
        elif isinstance(each, dict | list):
            changed = _walk(each, (*where, *_marks(each)), change) or changed
    return changed


#: Headers whose values are recorded, of requests and of responses. Any other header may carry a secret.
_PLAIN_HEADERS = frozenset(
    """accept accept-encoding accept-language anthropic-beta anthropic-version cache-control connection content-encoding
    content-length content-type date openai-beta openai-processing-ms openai-version request-id retry-after retry-after-ms
    server transfer-encoding user-agent x-request-id x-should-retry x-title""".split()
)
_PLAIN_PREFIXES = ("anthropic-ratelimit-", "x-ratelimit-")
#: Parameters in URLs whose values are secret.
_SECRET_PARAMETER = re.compile(r"key|token|secret|sig|pass|pwd|auth|cred|jwt", re.IGNORECASE)
#: Fields of lines and frames whose values are secret in every dialect.
_SECRET_FIELDS = frozenset(
    """api_key apiKey device_code deviceCode access_token accessToken refresh_token refreshToken password authorization
    client_secret clientSecret""".split()
)
_SECRET_FIELD = re.compile(rf'"(?:{"|".join(_SECRET_FIELDS)})"\s*:\s*"'.encode())


class Cleaner:
    """Encodes the entries of a recording without the secrets that are known by then."""

    def __init__(self) -> None:
        self._split = SplitSecrets()
        #: Removes the parts of secrets from lines of the body of a response, given its number.
        self.body = self._split.body

    def host_line(self, ms: float, line: bytes) -> HostLine:
        """Return the entry for a line from the host."""
        if not is_json(line):
            return HostLine(ms, text=line.decode("utf-8", "replace"))
        return HostLine(ms, line=self._without_secret_fields(line.strip()))

    def frame(self, frame: bytes) -> Raw:
        """Return a frame as an entry holds it."""
        return self._without_secret_fields(self._split.frame(frame.strip()))

    def encode(self, entry: Struct) -> bytes:
        """Return the line of an entry, without the secrets in it."""
        line = msgspec.json.encode(entry).decode()
        clean = redacted(line)
        if clean != line and not is_json(clean):
            # A secret that looks like a number or like JSON: replace it in strings only.
            clean = msgspec.json.encode(_redact_strings(msgspec.json.decode(line))).decode()
        return f"{clean}\n".encode()

    def _without_secret_fields(self, line: bytes) -> Raw:
        if not _SECRET_FIELD.search(line):
            return Raw(line)
        return Raw(msgspec.json.encode(_clean_value(msgspec.json.decode(line))))


def _clean_value(value: Any) -> Any:
    """Return JSON with the values of secret fields replaced. They are learned, because they may appear elsewhere too."""
    if isinstance(value, list):
        return [_clean_value(each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    return {name: _hide_strings(each) if name in _SECRET_FIELDS else _clean_value(each) for name, each in fields.items()}


def _hide_strings(value: Any) -> Any:
    """Learn and replace all strings in a value."""
    if isinstance(value, str):
        learn(value)
        return REDACTED if value else value
    if isinstance(value, dict):
        return {name: _hide_strings(each) for name, each in cast("dict[str, Any]", value).items()}
    return [_hide_strings(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def _redact_strings(value: Any) -> Any:
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return {redacted(name): _redact_strings(each) for name, each in cast("dict[str, Any]", value).items()}
    return [_redact_strings(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def is_json(data: str | bytes) -> bool:
    """Whether it is JSON as recordings have it: UTF-8, and no lone surrogates."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


# Requests and responses


def clean_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return headers by name, with only the values that cannot be secret."""
    return {name: value if _is_plain(name.lower()) else REDACTED for name, value in headers}


def _is_plain(name: str) -> bool:
    return name in _PLAIN_HEADERS or name.startswith(_PLAIN_PREFIXES)


def clean_url(url: str) -> str:
    """Return a URL without a password, and without parameters that may be secret."""
    try:
        parts = urlsplit(url)
        query = [(name, REDACTED if _SECRET_PARAMETER.search(name) else value) for name, value in parse_qsl(parts.query)]
    except ValueError:
        return REDACTED
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query=urlencode(query, safe="[]", quote_via=quote), fragment="").geturl()


class ChunkJoiner:
    """Joins `rpc_chunk` frames, whose base64 could hide a secret."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def add(self, frame: bytes) -> bytes | None:
        """Return a frame that is whole now, or None."""
        if not frame.startswith(b'{"type":"rpc_chunk"'):
            return frame

        chunk = msgspec.json.decode(frame)
        self._pieces.append(b64decode(chunk["data"]))
        if chunk["index"] + 1 < chunk["count"]:
            return None
        whole, self._pieces = b"".join(self._pieces), []
        return whole


# What is known before anything is recorded


def learn_known_secrets(home: Home, env: Mapping[str, str], api_key: str | None) -> None:
    """Make the keys of the command line, the environment, auth.json and models.json known as secrets."""
    learn(api_key)
    learn_variables(env.items())
    CredentialStore(home, env, warnings=[]).learn_all()
    for path in home.models_files():
        for entry in read_models_json(path, []).values():
            if entry.api_key and not ConfigValue(entry.api_key).looks_like_variable:
                learn(entry.api_key)
            learn_headers((entry.headers or {}).items())
