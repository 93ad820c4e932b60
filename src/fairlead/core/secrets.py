"""Keeps the secrets that this process has used out of errors.

Servers quote what they were sent: a key in "invalid key sk-...", a header in an error page. Code that sends a secret calls
`learn` first. Every error that contains a server's answer goes through `redacted`.

All agents of a process share one set, because they may share a log. They may run in different threads; no method here needs a
lock.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import parse_qsl, quote, unquote, urlsplit

REDACTED = "[redacted]"

#: The shortest secret. A shorter text could be a word.
_SHORTEST = 8
#: How many secrets are kept. Tokens are renewed, so the oldest are dropped; each request adds its own again.
_MOST = 2_000

#: Headers whose values are not secret. Headers that users add may be.
_HARMLESS = frozenset(
    """accept accept-encoding accept-language anthropic-beta anthropic-dangerous-direct-browser-access anthropic-version
    cache-control connection content-length content-type host http-referer openai-beta openai-organization openai-project
    origin referer user-agent x-goog-api-client x-title""".split()
)
#: Names of variables, and of parameters in URLs, whose values are secret.
_SECRET_NAMES = ("key", "token", "secret", "sig", "pass", "pwd", "auth", "cred", "jwt")
#: Variables whose names only look like it.
_HARMLESS_VARIABLES = frozenset(
    "DBUS_SESSION_BUS_ADDRESS GIT_ASKPASS GPG_AGENT_INFO OLDPWD PWD SSH_ASKPASS SSH_AUTH_SOCK SUDO_ASKPASS XAUTHORITY".split()
)
#: What may come before the secret in the value of a header.
_SCHEMES = frozenset(("basic", "bearer", "token", "digest", "apikey", "key"))

#: The password of a user who is a token: servers of git ignore it.
_NO_PASSWORDS = ("", "x-oauth-basic")
#: What stands before the host in a URL. It ends with the last @ before the path. Like the next, it is compiled when it is first
#: used: a compilation would delay the start.
_USER_IN_URL = r"(?i)(?P<scheme>[a-z][a-z0-9+.-]{0,30}://)(?P<user>[^\s/?#\"'<>]*)@"

#: The parameters of a URL.
_QUERY = r"(?i)(?P<before>[a-z][a-z0-9+.-]{0,30}://[^\s?#\"'<>]*)\?(?P<query>[^\s#\"'<>]*)"


class Secrets:
    """A set of texts that no error may show."""

    def __init__(self) -> None:
        #: In the order in which they were added. Their forms are computed when there is an error to show.
        self._known: dict[str, None] = {}
        #: Changes after a secret was added.
        self._version = 0
        #: A version, and the forms of all secrets then, longest first, because one may be part of another.
        self._sorted: tuple[int, list[str]] = (0, [])

    def learn(self, *secrets: str | None) -> None:
        """Add secrets. Those that are too short to tell from words are ignored."""
        for secret in secrets:
            text = (secret or "").strip()
            if len(text) < _SHORTEST or text in self._known:
                continue
            self._known[text] = None
            if len(self._known) > _MOST:
                self._known.pop(next(iter(list(self._known))), None)
            self._version += 1

    def learn_headers(self, headers: Iterable[tuple[str, str]]) -> None:
        """Add the values of headers that may be secret, and their parts."""
        for name, value in headers:
            if value in self._known or len(value) < _SHORTEST or name.lower() in _HARMLESS:
                continue
            self.learn(value, *_parts(value))

    def learn_url(self, url: str) -> None:
        """Add what is secret in a URL: a password, a token in place of the user, and parameters such as `api_key`."""
        try:
            parts = urlsplit(url)
            password, query = parts.password, parse_qsl(parts.query)
        except ValueError:
            return
        self.learn(password, unquote(password or ""))
        if parts.scheme.lower() in ("http", "https") and (password or "") in _NO_PASSWORDS:
            self.learn(parts.username, unquote(parts.username or ""))
        self.learn_variables(query)

    def learn_variables(self, variables: Iterable[tuple[str, str]]) -> None:
        """Add the values of variables whose names say that they are secret."""
        self.learn(*(value for name, value in variables if is_secret_variable(name)))

    def longest_form(self) -> int:
        """Return the length of the longest form in which a secret may appear, at least 1."""
        forms = self._all_forms()
        return len(forms[0]) if forms else 1

    def _all_forms(self) -> list[str]:
        now = self._version  # before the secrets are read: another thread may add one meanwhile
        version, forms = self._sorted
        if version != now:
            forms = sorted((form for secret in list(self._known) for form in _forms(secret)), key=len, reverse=True)
            self._sorted = (now, forms)
        return forms

    def redact(self, text: str) -> str:
        """Return the text without the secrets, ignoring case. The beginning of a secret at the end of the text is removed too."""
        if not self._known or len(text) < _SHORTEST:
            return text
        forms = self._all_forms()
        lowered = text.lower()
        for form in forms:
            if _anchor(form) in lowered:
                text = _pattern(form).sub(REDACTED, text)
        whole = text.rstrip("…")
        end = whole.lower()
        if len(end) != len(whole):  # lower() turned one letter into two
            return text
        for form in forms:
            if length := _cut_off(form, end):
                return f"{whole[:-length]}{REDACTED}{text[len(whole) :]}"
        return text


def _cut_off(secret: str, text: str) -> int:
    """How many characters at the end of a text are the beginning of a secret; 0 if there are too few to tell."""
    start = secret[:_SHORTEST]
    at = text.find(start, max(0, len(text) - len(secret) + 1))
    while at >= 0:
        if secret.startswith(text[at:]):
            return len(text) - at
        at = text.find(start, at + 1)
    return 0


def is_secret_variable(name: str) -> bool:
    """Return whether a variable of the environment holds a secret, by its name."""
    return _is_secret_name(name) and name not in _HARMLESS_VARIABLES


def _is_secret_name(name: str) -> bool:
    folded = name.casefold()
    return any(part in folded for part in _SECRET_NAMES)


def _parts(value: str) -> Iterator[str]:
    """The secret parts of a header's value: the token after the name of its scheme, a user and a password."""
    words = value.split(None, 1)
    if len(words) < 2 or words[0].lower() not in _SCHEMES:
        return
    scheme, secret = words[0].lower(), words[1].rstrip()
    yield secret
    if scheme == "basic":
        try:
            pair = base64.b64decode(secret, validate=True).decode()
        except ValueError:
            return
        yield pair
        yield pair.partition(":")[2]


@lru_cache(_MOST)
def _forms(secret: str) -> tuple[str, ...]:
    """The forms in which a secret may appear, in lower case."""
    return tuple(dict.fromkeys(form.lower() for form in _encodings(secret) if len(form) >= _SHORTEST))


def _encodings(secret: str) -> Iterator[str]:
    """A secret as it may appear in an answer: as it is, in JSON, in a URL, in HTML, in base64."""
    raw = secret.encode("utf-8", "replace")
    yield secret
    yield json.dumps(secret)[1:-1]
    yield quote(secret, safe="")
    yield html.escape(secret)
    for encoded in (base64.b64encode(raw), base64.urlsafe_b64encode(raw)):
        yield encoded.decode().rstrip("=")


@lru_cache(4096)
def _anchor(form: str) -> str:
    """The longest part of a form that escaping does not change."""
    return max(re.findall("[a-z0-9]+", form) or [""], key=len)


@lru_cache(256)
def _pattern(form: str) -> re.Pattern[str]:
    return re.compile(_match_any_escape(form), re.IGNORECASE)


def _match_any_escape(form: str) -> str:
    """A pattern for a text whose characters other than letters may be escaped for JSON, URLs or HTML, also nested."""
    single = re.sub(r"\\+", r"\\", form)  # each pattern for a backslash matches several
    return "".join(each if each.isalnum() and each.isascii() else _escape_pattern(each) for each in single)


def _escape_pattern(character: str) -> str:
    code = ord(character)
    encoded = "".join(f"%(?:25){{0,3}}{byte:02x}" for byte in character.encode("utf-8", "replace"))
    # Possessive, so that a text of nothing but backslashes takes linear time.
    plain = r"\\{1,64}+" if character == "\\" else rf"\\{{0,64}}+{re.escape(character)}"
    ways = [
        plain,
        rf"\\{{1,64}}+(?:u{code:04x}|x{code:02x})",
        encoded,
        rf"&(?:amp;){{0,3}}(?:#0{{0,4}}{code}|#x0{{0,4}}{code:x}{_entity(character)});",
    ]
    if character == " ":
        ways.append(r"\+")
    return f"(?:{'|'.join(ways)})"


def _entity(character: str) -> str:
    names = {'"': "quot", "'": "apos", "<": "lt", ">": "gt", "&": "amp"}
    return f"|{names[character]}" if character in names else ""


def without_credentials(text: str) -> str:
    """Return a text without users, passwords and secret parameters in its URLs, also those too short to be known as secrets."""
    return re.sub(_QUERY, _without_parameters, re.sub(_USER_IN_URL, _without_password, text))


def _without_parameters(found: re.Match[str]) -> str:
    kept = [each for each in found["query"].split("&") if not _is_secret_name(each.partition("=")[0])]
    return "?".join(filter(None, (found["before"], "&".join(kept))))


def _without_password(found: re.Match[str]) -> str:
    user, _, _ = found["user"].partition(":")
    # With ssh, the server needs the name, and it is not secret.
    return found["scheme"] + (f"{user}@" if found["scheme"].lower().endswith("ssh://") and user and "@" not in user else "")


#: The secrets of this process. Errors of all its sessions can reach the same frames and files.
_known = Secrets()

learn = _known.learn
learn_headers = _known.learn_headers
learn_url = _known.learn_url
learn_variables = _known.learn_variables
longest_form = _known.longest_form
redacted = _known.redact
