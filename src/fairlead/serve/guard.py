"""Stands before every request: checks Host and Origin, finds out who asks, and sets the headers that protect browsers.

Everything that it does not know is refused. It runs before any route, so a route cannot forget it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from fairlead.protocol.http.http_objects import ErrorBody, ErrorDetail
from fairlead.serve.access import Access, FailureLimit
from fairlead.serve.refusals import Refusal

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

#: The paths that need no login. They tell nothing and change nothing, except that a POST to /login checks a secret.
PUBLIC = frozenset(("/healthz", "/readyz", "/login", "/login.js", "/login.css"))
_SAFE_METHODS = frozenset(("GET", "HEAD"))

_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
        b"manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)


class Hosts(Struct, frozen=True, kw_only=True):
    """The names under which the server may be reached. A page of another name that leads here is an attack."""

    names: frozenset[str]
    #: Whether addresses are accepted too. No name can be rebound to them.
    addresses: bool

    def accepts(self, host: str) -> bool:
        """Whether a request with this Host header is meant for the server."""
        name = host_name(host)
        if name is None:
            return False
        if name in self.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return self.addresses


def host_name(host: str) -> str | None:
    """Return the name or address in a Host header, or None if it is malformed."""
    try:
        parsed = urlsplit(f"//{host}")
        parsed.port  # noqa: B018  # raises ValueError
    except ValueError:
        return None
    if parsed.netloc != host or parsed.username is not None or parsed.path or parsed.query or not parsed.hostname:
        return None
    return parsed.hostname.lower().rstrip(".")


class Guard:
    """The outermost ASGI application. `cookie` is the name of the cookie, `on_response` is called with each status."""

    def __init__(
        self, app: App, access: Access, hosts: Hosts, *, cookie: str, on_response: Callable[[int], None] = lambda status: None
    ) -> None:
        self._app = app
        self._access = access
        self._hosts = hosts
        self._cookie = cookie
        self._on_response = on_response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            raise RuntimeError(f"unexpected scope {scope['type']}")
        protected = self._protecting(send)
        try:
            state = scope.setdefault("state", {})
            if "admits" in state and not state["admits"]():
                raise Refusal(503, "too_many_connections", "Too many connections are open.", retry_after=5)
            user = state["user"] = self._check(scope)
            if user is not None and "logged_in" in state:
                state["logged_in"]()
        except Refusal as refusal:
            if refusal.status == 429:
                await self._access.failures.hold_up()
            if refusal.status == 401 and scope["path"] == "/" and _opens_page(scope, _Headers(scope["headers"])):
                await _show_login(protected)
            else:
                await refuse(scope, protected, refusal)
            return
        await self._app(scope, receive, protected)

    def _check(self, scope: Scope) -> str | None:
        """Return the user who asks, or None for a public path. Raises Refusal."""
        headers = _Headers(scope["headers"])
        host = headers.only("host")
        if host is None or not self._hosts.accepts(host):
            raise Refusal(
                403,
                "bad_host",
                "The server does not go by the name in this address. Start it with --allow-host NAME to allow it.",
            )
        is_same_origin = self._check_origin(scope, headers, host)
        if scope["path"] in PUBLIC and scope["type"] == "http":
            return None
        return self._authenticate(scope, headers, is_same_origin=is_same_origin)

    def _check_origin(self, scope: Scope, headers: _Headers, host: str) -> bool:
        """Return whether a page of this server sends the request. Raises Refusal if another page does."""
        origin, site = headers.all("origin"), headers.only("sec-fetch-site")
        if origin and (len(origin) > 1 or not _is_same(origin[0], host, scope["scheme"])):
            raise Refusal(403, "bad_origin", "Pages of other sites may not use this server.")
        if site not in (None, "same-origin", "none") and not _is_navigation(scope, headers):
            raise Refusal(403, "bad_origin", "Pages of other sites may not use this server.")
        return bool(origin) or site == "same-origin"

    def _authenticate(self, scope: Scope, headers: _Headers, *, is_same_origin: bool) -> str:
        cookie = self._user_of_cookie(headers)
        if cookie is not None:
            if not is_same_origin and (scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS):
                raise Refusal(403, "bad_origin", "A request with a cookie must come from a page of this server.")
            return cookie
        given = headers.all("authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.lower() != "bearer" or not token.strip():
            raise Refusal(401, "not_logged_in", "Log in, or send the token as `Authorization: Bearer TOKEN`.")
        user = self._access.user_of_token(token.strip())
        if user is None:
            raise wrong_secret(self._access.failures, scope, Refusal(401, "wrong_token", "This token is not valid."))
        return user

    def _user_of_cookie(self, headers: _Headers) -> str | None:
        for header in headers.all("cookie"):
            value = cookie_value(header, self._cookie)
            if value is not None:
                return self._access.user_of_cookie(value)
        return None

    def _protecting(self, send: Send) -> Send:
        async def send_protected(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                self._on_response(message["status"])
                own: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
                names = {name.lower() for name, _ in own}
                message["headers"] = [*own, *(header for header in _HEADERS if header[0] not in names)]
            await send(message)

        return send_protected


def _is_navigation(scope: Scope, headers: _Headers) -> bool:
    """Whether a browser opens the address as a page."""
    return scope["type"] == "http" and scope["method"] == "GET" and headers.only("sec-fetch-mode") == "navigate"


def _opens_page(scope: Scope, headers: _Headers) -> bool:
    """Whether a browser opens the address as a page, as far as it says so: over http it does on loopback only."""
    if headers.all("sec-fetch-mode") or scope["type"] != "http" or scope["method"] != "GET":
        return _is_navigation(scope, headers)
    return "text/html" in (headers.only("accept") or "")


async def _show_login(send: Send) -> None:
    """Send a browser that opens the page to the login page."""
    await send({"type": "http.response.start", "status": 303, "headers": [(b"location", b"/login"), (b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def wrong_secret(failures: FailureLimit, scope: Scope, refusal: Refusal) -> Refusal:
    """Count a wrong token or code, and return what to answer: after too many, that there were too many."""
    address = client_address(scope)
    wait = failures.wait(address)
    failures.count_failure(address)
    if not wait:
        return refusal
    return Refusal(429, "too_many_failures", f"Too many attempts have failed. Try again in {wait} seconds.", retry_after=wait)


def client_address(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else ""


def cookie_value(header: str, name: str) -> str | None:
    """Return the value of a cookie in a Cookie header."""
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def _is_same(origin: str, host: str, scheme: str) -> bool:
    """Whether an origin is the address to which the request was sent. A proxy may speak TLS while this server does not."""
    try:
        parsed = urlsplit(origin)
    except ValueError:
        return False
    is_tls = scheme in ("https", "wss")
    allowed = ("https",) if is_tls else ("http", "https")
    return parsed.scheme in allowed and parsed.netloc.lower() == host.lower() and not parsed.path and not parsed.query


class _Headers:
    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._headers = list(headers)

    def all(self, name: str) -> list[str]:
        key = name.encode()
        return [value.decode("latin-1") for given, value in self._headers if given.lower() == key]

    def only(self, name: str) -> str | None:
        """Return the value of a header; None if it is missing or repeated."""
        found = self.all(name)
        return found[0] if len(found) == 1 else None


async def refuse(scope: Scope, send: Send, refusal: Refusal) -> None:
    """Answer a request, or the handshake of a WebSocket, with an error."""
    body = msgspec.json.encode(ErrorBody(error=ErrorDetail(code=refusal.code, message=str(refusal))))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="fairlead"'))
    if refusal.retry_after is not None:
        headers.append((b"retry-after", str(refusal.retry_after).encode()))
    if refusal.allow:
        headers.append((b"allow", refusal.allow.encode()))
    if refusal.status == 503 and scope["type"] == "http":  # the server has too many connections, or ends
        headers.append((b"connection", b"close"))
    prefix = "websocket.http" if scope["type"] == "websocket" else "http"
    await send({"type": f"{prefix}.response.start", "status": refusal.status, "headers": headers})
    await send({"type": f"{prefix}.response.body", "body": body})
