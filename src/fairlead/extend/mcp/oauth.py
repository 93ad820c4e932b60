"""OAuth of MCP servers: signs in once with the user's browser, then renews the token in every session.

The `mcp` package has the protocol: it finds the authorization server, registers fairlead there, and checks what comes back.
Here are the parts around it: the page that the browser returns to, and tokens that outlive the process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from fairlead.core.secrets import learn
from fairlead.errors import LoginFailed
from fairlead.extend.mcp.config import ServerConfig, SignIns
from fairlead.extend.mcp.connection import McpConnection, all_pages, connected_client, failure_reason, innermost, one_line

#: Seconds that the user has to sign in.
SIGN_IN_LIMIT = 600.0
#: How many bytes of a request from the browser are read.
_LONGEST_REQUEST = 16_384
#: How the package words that an answer is not the one to its question.
_FOREIGN = "State parameter mismatch"


def _is_not_said_elsewhere(record: logging.LogRecord) -> bool:
    return record.levelno < logging.WARNING


# The package logs what it also raises, with a traceback that says nothing to a user.
logging.getLogger("mcp.client.auth.oauth2").addFilter(_is_not_said_elsewhere)


class SignInNeeded(OAuthFlowError):
    """The server wants the user to sign in, which a session cannot ask for."""


class StoredOAuth(OAuthClientProvider):
    """Authenticates requests to a server with its stored sign-in, and renews it.

    Without `ask`, a request that needs a new sign-in raises `SignInNeeded`.
    """

    def __init__(
        self,
        server: ServerConfig,
        sign_ins: SignIns,
        *,
        redirect_uri: str = "http://127.0.0.1/callback",
        ask: Callable[[str], Awaitable[AuthorizationCodeResult]] | None = None,
    ) -> None:
        self._url = ""
        self._ask = ask
        self._stored = _Storage(server, sign_ins, None if ask is None else redirect_uri)
        self._sign_ins = sign_ins
        settings = server.oauth
        metadata = OAuthClientMetadata(
            redirect_uris=[AnyUrl(redirect_uri)],
            client_name=settings.client_name or "fairlead",
            scope=settings.scope,
            token_endpoint_auth_method=None if settings.client_id is None else _method(settings.client_secret),
        )
        super().__init__(server.url, metadata, self._stored, self._open, self._answer)
        self._stored.provider = self
        self._stamp = sign_ins.stamp
        self._recall()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Authenticate a request. A token that the server rejects before its time is renewed once."""
        if self._sign_ins.stamp != self._stamp:  # another process has signed in or renewed the token
            self._stamp = self._sign_ins.stamp
            self._recall()
        for may_renew in (True, False):
            flow = super().async_auth_flow(request)
            was_renewed = False
            try:
                outgoing = await anext(flow)
                while True:
                    was_renewed = was_renewed or outgoing is not request
                    response = yield outgoing
                    is_rejected = outgoing is request and response.status_code == 401
                    if is_rejected and may_renew and not was_renewed and self.context.can_refresh_token():
                        self.context.token_expiry_time = 1.0
                        break
                    outgoing = await flow.asend(response)
            except StopAsyncIteration:
                return
            finally:
                await flow.aclose()

    def _recall(self) -> None:
        """Take over what is stored."""
        context, entry = self.context, self._stored.entry()
        context.current_tokens = _read(OAuthToken, entry.get("tokens"))
        context.client_info = self._stored.client(entry)
        context.oauth_metadata = _read(OAuthMetadata, entry.get("metadata"))
        context.protected_resource_metadata = _read(ProtectedResourceMetadata, entry.get("resource"))
        expires, server = entry.get("expires"), entry.get("authorizationServer")
        context.token_expiry_time = float(expires) if isinstance(expires, int | float) else None
        context.auth_server_url = server if isinstance(server, str) else None

    async def _open(self, url: str) -> None:
        if self._ask is None:
            raise SignInNeeded("a sign-in is needed")
        self._url = url

    async def _answer(self) -> AuthorizationCodeResult:
        assert self._ask is not None
        return await self._ask(self._url)


class _Storage:
    """The package's view of a stored sign-in. Implements `mcp.client.auth.TokenStorage`."""

    def __init__(self, server: ServerConfig, sign_ins: SignIns, redirect_uri: str | None) -> None:
        self._server = server
        self._sign_ins = sign_ins
        #: The address that the browser returns to; None: this is not a sign-in.
        self._redirect_uri = redirect_uri
        self.provider: StoredOAuth | None = None

    def entry(self) -> dict[str, Any]:
        return self._sign_ins.of(self._server) or {}

    def client(self, entry: dict[str, Any]) -> OAuthClientInformationFull | None:
        """Return who fairlead is to the authorization server: as configured, else as it was registered."""
        settings = self._server.oauth
        if settings.client_id is None:
            client: OAuthClientInformationFull | None = _read(OAuthClientInformationFull, entry.get("client"))
            known = [] if client is None else list(map(str, client.redirect_uris or ()))
            return client if self._redirect_uri is None or self._redirect_uri in known else None
        learn(settings.client_secret)
        return OAuthClientInformationFull(
            client_id=settings.client_id,
            client_secret=settings.client_secret,
            token_endpoint_auth_method=_method(settings.client_secret),
        )

    async def get_tokens(self) -> OAuthToken | None:
        return _read(OAuthToken, self.entry().get("tokens"))

    async def set_tokens(self, tokens: OAuthToken) -> None:
        assert self.provider is not None
        context = self.provider.context
        learn(tokens.access_token, tokens.refresh_token)
        self._sign_ins.store(
            self._server,
            tokens=_dump(tokens),
            expires=None if tokens.expires_in is None else int(time.time()) + tokens.expires_in,
            metadata=_dump(context.oauth_metadata),
            resource=_dump(context.protected_resource_metadata),
            authorizationServer=context.auth_server_url,
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client(self.entry())

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        learn(client_info.client_secret)
        self._sign_ins.store(self._server, client=_dump(client_info))


def _method(secret: str | None) -> Any:
    return "none" if secret is None else "client_secret_post"


def _dump(model: BaseModel | None) -> Any:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


def _read(kind: type[Any], value: Any) -> Any:
    """Return what a file has for a part of a sign-in; None if it cannot be used."""
    try:
        return None if value is None else kind.model_validate(value)
    except ValidationError:
        return None


# The page that the browser returns to


class CallbackPage:
    """Waits on loopback for the browser to return from the authorization server."""

    def __init__(self, url: str) -> None:
        #: The address that the authorization server sends the browser to.
        self.url = url
        self._came: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def wait_for_return(self) -> str:
        """Wait for the browser, and return the address that it was sent to."""
        return await asyncio.shield(self._came)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = (await reader.readuntil(b"\r\n")).decode("latin-1").split(" ")
            await reader.readuntil(b"\r\n\r\n")
            target = urlsplit(line[1]) if len(line) == 3 and line[0] == "GET" else None
            if target is None or target.path != urlsplit(self.url).path or not target.query:
                self._answer(writer, "404 Not Found", "This page only receives the answer to a sign-in.")
            else:
                self._answer(writer, "200 OK", "Return to fairlead: it has got the answer. You can close this page.")
                if not self._came.done():
                    self._came.set_result(line[1])
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, IndexError):
            pass  # not a browser
        finally:
            writer.close()

    def _answer(self, writer: asyncio.StreamWriter, status: str, text: str) -> None:
        page = f"<!doctype html><meta charset=utf-8><title>fairlead</title><p>{text}</p>".encode()
        head = ("Content-Type: text/html; charset=utf-8", f"Content-Length: {len(page)}", "Connection: close")
        writer.write("\r\n".join((f"HTTP/1.1 {status}", *head, "", "")).encode() + page)


@asynccontextmanager
async def callback_page(server: ServerConfig, sign_ins: SignIns) -> AsyncGenerator[CallbackPage]:
    """Serve the page that the browser returns to. Raises LoginFailed if its port is in use."""
    wanted, port = _callback_of(server, sign_ins)
    parts = urlsplit(wanted)
    host = "::1" if parts.hostname == "::1" else "127.0.0.1"
    page = CallbackPage(wanted)
    try:
        listener = await asyncio.start_server(page.answer, host, port or 0, limit=_LONGEST_REQUEST)
    except OSError as error:
        if server.oauth.callback_port is not None or parts.port is not None:
            raise LoginFailed(f"Port {port} of {host} is needed for the sign-in: {error.strerror or error}.") from None
        listener = await asyncio.start_server(page.answer, host, 0, limit=_LONGEST_REQUEST)
    async with listener:
        if parts.port is None:
            name = f"[{parts.hostname}]" if parts.hostname == "::1" else parts.hostname
            number: int = listener.sockets[0].getsockname()[1]
            page.url = urlunsplit((parts.scheme, f"{name}:{number}", parts.path, parts.query, ""))
        yield page


def _callback_of(server: ServerConfig, sign_ins: SignIns) -> tuple[str, int | None]:
    """Return the address of the page, with or without a port, and the port to try first.

    A client that was registered before is used again if its address is free.
    """
    settings = server.oauth
    url = settings.callback_url or "http://127.0.0.1/callback"
    if settings.callback_port is not None:
        return url, settings.callback_port
    if (port := urlsplit(url).port) is not None:
        return url, port
    client: OAuthClientInformationFull | None = _read(OAuthClientInformationFull, (sign_ins.of(server) or {}).get("client"))
    before = client.redirect_uris if client is not None else None
    return url, urlsplit(str(before[0])).port if before else None


def code_in(address: str) -> AuthorizationCodeResult:
    """Return what the authorization server has added to an address. Raises LoginFailed if it refuses, or if no code is there."""
    given = {name: values[0] for name, values in parse_qs(urlsplit(address.strip()).query).items()}
    if "error" in given:
        raise LoginFailed(f"The sign-in was refused: {given.get('error_description') or given['error']}.")
    if "code" not in given:
        raise LoginFailed("That address has no code of a sign-in. Paste the whole address that the browser was sent to.")
    return AuthorizationCodeResult(code=given["code"], state=given.get("state"), iss=given.get("iss"))


# Signing in


async def sign_in(
    server: ServerConfig, sign_ins: SignIns, open_url: Callable[[str], None], pasted: Callable[[], Awaitable[str | None]]
) -> tuple[int, bool]:
    """Sign in at a server with the user's browser, and store what it grants.

    Args:
        server: the server.
        sign_ins: where the sign-in is stored.
        open_url: shows the user the page to open.
        pasted: returns the address that the user copies from a browser on another machine; None: there is none.

    Returns:
        How many tools the server has, and whether the user had to sign in.

    Raises:
        LoginFailed: the server cannot be connected, refuses the sign-in, or the user took too long.
    """
    connection = McpConnection()
    async with callback_page(server, sign_ins) as page:
        asked: list[str] = []

        async def ask(url: str) -> AuthorizationCodeResult:
            asked.append(url)
            open_url(url)
            return await _first_answer(page, pasted)

        async def ignore(message: Any) -> None:
            pass

        auth = StoredOAuth(server, sign_ins, redirect_uri=page.url, ask=ask)
        try:
            async with (
                asyncio.timeout(SIGN_IN_LIMIT),
                connected_client(connection, server, None, ignore, auth) as client,
            ):
                tools = await all_pages(client.session.list_tools, lambda found: found.tools)
        except Exception as error:
            cause = innermost(error)
            if isinstance(cause, LoginFailed):
                raise cause from None
            if isinstance(cause, TimeoutError) and asked:
                raise LoginFailed(f"The browser did not return within {SIGN_IN_LIMIT / 60:.0f} minutes.") from None
            if isinstance(cause, OAuthFlowError):
                reason = (
                    "the answer belongs to another sign-in" if str(cause).startswith(_FOREIGN) else one_line(cause).rstrip(".")
                )
                raise LoginFailed(f'The sign-in at "{server.name}" failed: {reason}.') from None
            connection.needs_sign_in = False
            raise LoginFailed(
                f'The MCP server "{server.name}" could not be connected: {failure_reason(cause, connection, server)}.'
            ) from None
    return len(tools), bool(asked)


async def _first_answer(page: CallbackPage, pasted: Callable[[], Awaitable[str | None]]) -> AuthorizationCodeResult:
    """Wait for the browser, or for the address that the user pastes."""
    returned = asyncio.ensure_future(page.wait_for_return())
    try:
        while not returned.done():
            typed = asyncio.ensure_future(pasted())
            await asyncio.wait([returned, typed], return_when=asyncio.FIRST_COMPLETED)
            if not typed.done():
                typed.cancel()
                break
            address = typed.result()
            if address is None:
                break
            if address.strip():
                return code_in(address)
        return code_in(await returned)
    finally:
        returned.cancel()
