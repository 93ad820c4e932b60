"""The secrets that this process has used, so that no error shows one.

Servers quote what they were sent: a key in "invalid key sk-...", a header in an error page. Code that sends a secret calls
`learn` first. Every error that is made of a server's answer goes through `redacted`.

All agents of a process share one set, because an error of one can end up in a log that another one writes too. They may run in
different threads: no method here needs a lock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

REDACTED = "[redacted]"

#: A shorter text is as likely to be a word.
_SHORTEST = 8
#: How many secrets are remembered. Tokens are renewed, so the oldest are forgotten; each request learns its own again.
_MOST = 2_000

#: Headers whose values are not secret. What users add under other names may be.
_HARMLESS = frozenset(
    """accept accept-encoding accept-language anthropic-beta anthropic-dangerous-direct-browser-access anthropic-version
    cache-control connection content-length content-type host http-referer openai-beta openai-organization openai-project
    origin referer user-agent x-goog-api-client x-title""".split()
)
_SCHEME = re.compile(r"(basic|bearer|token|digest|apikey|key)\s+(.+)", re.IGNORECASE | re.DOTALL)


class Secrets:
    """Texts that no error may show."""

    def __init__(self) -> None:
        #: The forms in which each secret may appear. A dict, for the order in which they became known.
        self._forms: dict[str, tuple[str, ...]] = {}

    def learn(self, *secrets: str | None) -> None:
        """Remember secrets. Those that are too short to be told from words are left alone."""
        for secret in secrets:
            text = (secret or "").strip()
            if len(text) < _SHORTEST or text in self._forms:
                continue
            self._forms[text] = tuple(dict.fromkeys(form for form in _forms(text) if len(form) >= _SHORTEST))
            if len(self._forms) > _MOST:
                self._forms.pop(next(iter(list(self._forms))), None)

    def learn_headers(self, headers: Iterable[tuple[str, str]]) -> None:
        """Remember the values of headers that may be secret, and what they are made of."""
        for name, value in headers:
            if value in self._forms or len(value) < _SHORTEST or name.lower() in _HARMLESS:
                continue
            self.learn(value, *_parts(value))

    def redacted(self, text: str) -> str:
        """The text without the secrets, and without the beginning of one at its end, where the text was cut off."""
        if not self._forms or len(text) < _SHORTEST:
            return text
        # The longest first: one secret may be part of another.
        forms = sorted((form for known in list(self._forms.values()) for form in known), key=len, reverse=True)
        for form in forms:
            if form in text:
                text = text.replace(form, REDACTED)
        end = text.rstrip("…")
        for form in forms:
            if length := _cut_off(form, end):
                return f"{end[:-length]}{REDACTED}{text[len(end) :]}"
        return text


def _cut_off(secret: str, text: str) -> int:
    """How many characters at the end of a text are the beginning of a secret; 0 if that is not enough to tell."""
    start = secret[:_SHORTEST]
    at = text.find(start, max(0, len(text) - len(secret) + 1))
    while at >= 0:
        if secret.startswith(text[at:]):
            return len(text) - at
        at = text.find(start, at + 1)
    return 0


def _parts(value: str) -> Iterator[str]:
    """What the value of a header is made of: a token behind the name of its scheme, a user and a password."""
    scheme = _SCHEME.fullmatch(value.strip())
    if scheme is None:
        return
    yield scheme[2]
    if scheme[1].lower() == "basic":
        from base64 import b64decode

        try:
            pair = b64decode(scheme[2], validate=True).decode()
        except ValueError:
            return
        yield pair
        yield pair.partition(":")[2]


def _forms(secret: str) -> Iterator[str]:
    """A secret as it may appear in an answer: as it is, in JSON, in an address, in HTML, in base64."""
    import json
    from base64 import b64encode, urlsafe_b64encode
    from html import escape
    from urllib.parse import quote, quote_plus

    raw = secret.encode("utf-8", "replace")
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1].replace("/", "\\/")
    yield repr(secret)[1:-1]
    yield quote(secret, safe="")
    yield quote(secret, safe="").lower()
    yield quote_plus(secret)
    yield escape(secret)
    for encoded in (b64encode(raw), urlsafe_b64encode(raw)):
        yield encoded.decode().rstrip("=")


#: Those of this process.
_known = Secrets()

learn = _known.learn
learn_headers = _known.learn_headers
redacted = _known.redacted
