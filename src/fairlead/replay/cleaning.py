"""Keeps secrets out of recordings: known keys wherever they appear, headers that may carry one, and fields that hold one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Raw, Struct

from fairlead.core.secrets import REDACTED, learn, learn_headers, learn_variables, redacted
from fairlead.replay.recording import HostLine
from fairlead.replay.split_secrets import SplitSecrets

if TYPE_CHECKING:
    from fairlead.config.home import Home

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
        return Raw(msgspec.json.encode(_mapped(msgspec.json.decode(line))))


def _mapped(value: Any) -> Any:
    """Return JSON with the values of secret fields replaced. They are learned, because they may appear elsewhere too."""
    if isinstance(value, list):
        return [_mapped(each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    return {name: _hidden(each) if name in _SECRET_FIELDS else _mapped(each) for name, each in fields.items()}


def _hidden(value: Any) -> Any:
    """Learn and replace all strings in a value."""
    if isinstance(value, str):
        learn(value)
        return REDACTED if value else value
    if isinstance(value, dict):
        return {name: _hidden(each) for name, each in cast("dict[str, Any]", value).items()}
    return [_hidden(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


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
    from urllib.parse import parse_qsl, quote, urlencode, urlsplit

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
        from base64 import b64decode

        chunk = msgspec.json.decode(frame)
        self._pieces.append(b64decode(chunk["data"]))
        if chunk["index"] + 1 < chunk["count"]:
            return None
        whole, self._pieces = b"".join(self._pieces), []
        return whole


# What is known before anything is recorded


def learn_known_secrets(home: Home, env: Mapping[str, str], api_key: str | None) -> None:
    """Make the keys of the command line, the environment, auth.json and models.json known as secrets."""
    from fairlead.models.config_value import ConfigValue
    from fairlead.models.credentials import CredentialStore
    from fairlead.models.models_json import read_models_json

    learn(api_key)
    learn_variables(env.items())
    CredentialStore(home, env, warnings=[]).learn_all()
    for path in home.models_files():
        for entry in read_models_json(path, []).values():
            if entry.api_key and not ConfigValue(entry.api_key).looks_like_variable:
                learn(entry.api_key)
            learn_headers((entry.headers or {}).items())
