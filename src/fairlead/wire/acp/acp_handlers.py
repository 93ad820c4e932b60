"""Handlers for the requests about sessions, prompts and logins, and the logins of clients that offer them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from fairlead.agent import Shared
from fairlead.core.runtime import CancelToken
from fairlead.errors import BadCommand, LoginFailed
from fairlead.models.credentials import forget_stored
from fairlead.models.logins import DeviceCode, Logins
from fairlead.protocol.acp import elicitation as e
from fairlead.protocol.acp import initialization as i
from fairlead.protocol.acp import sessions as s
from fairlead.protocol.acp.content import AUTH_REQUIRED
from fairlead.protocol.acp.initialization import AuthenticateResponse
from fairlead.stores.paths import iso
from fairlead.wire.acp.acp_narrator import LONGEST_TITLE
from fairlead.wire.acp.acp_session import LOG_IN, AcpSession
from fairlead.wire.acp.initialize import LOGIN, Client
from fairlead.wire.dispatcher import id_bytes
from fairlead.wire.jsonrpc import BadParams, OutboundRequests, RpcError, notification_line
from fairlead.wire.questions import Unanswered
from fairlead.wire.routing import Answer, RequestRoute

if TYPE_CHECKING:
    from fairlead.wire.acp.acp_server import AcpServer


async def _new(server: AcpServer, params: s.NewSessionRequest) -> Answer:
    session = await server.sessions.new(params)
    return Answer(s.NewSessionResponse(session.id, modes=session.modes, config_options=session.options), _begin(session))


async def _load(server: AcpServer, params: s.LoadSessionRequest) -> Answer:
    session = await server.sessions.load(params)
    session.narrator.replay()
    return Answer(s.LoadSessionResponse(modes=session.modes, config_options=session.options), _begin(session))


async def _resume(server: AcpServer, params: s.ResumeSessionRequest) -> Answer:
    session = await server.sessions.load(params)
    return Answer(s.ResumeSessionResponse(modes=session.modes, config_options=session.options), _begin(session))


def _begin(session: AcpSession) -> Any:
    """What follows the answer that names a session."""

    def begin() -> None:
        session.agent.warm_up()
        session.announce_commands()

    return begin


async def _list(server: AcpServer, params: s.ListSessionsRequest) -> s.ListSessionsResponse:
    try:
        page = await server.sessions.catalogue.page(params.cwd, params.cursor)
    except BadCommand as error:
        raise BadParams(str(error)) from None
    found = [
        s.SessionInfo(info.id, info.cwd, title=info.title(LONGEST_TITLE) or None, updated_at=iso(info.modified))
        for info, _ in page.sessions
    ]
    return s.ListSessionsResponse(found, next_cursor=page.next)


async def _close(server: AcpServer, params: s.CloseSessionRequest) -> s.CloseSessionResponse:
    await server.sessions.end(server.sessions.get(params.session_id))
    return s.CloseSessionResponse()


async def _delete(server: AcpServer, params: s.DeleteSessionRequest) -> s.DeleteSessionResponse:
    await server.sessions.delete(params.session_id)
    return s.DeleteSessionResponse()


def _prompt(server: AcpServer, params: s.PromptRequest) -> Coroutine[Any, Any, s.PromptResponse]:
    return server.sessions.get(params.session_id).prompt(params.prompt)


def _cancel_prompt(server: AcpServer, params: s.PromptRequest) -> None:
    session = server.sessions.find(params.session_id)
    if session is not None:
        session.stop()


def _set_mode(server: AcpServer, params: s.SetSessionModeRequest) -> s.SetSessionModeResponse:
    server.sessions.get(params.session_id).set_mode(params.mode_id)
    return s.SetSessionModeResponse()


def _set_option(server: AcpServer, params: s.SetSessionConfigOptionRequest) -> s.SetSessionConfigOptionResponse:
    session = server.sessions.get(params.session_id)
    return s.SetSessionConfigOptionResponse(session.set_option(params.config_id, params.value))


def _authenticate(server: AcpServer, params: i.AuthenticateRequest) -> Coroutine[Any, Any, i.AuthenticateResponse]:
    request = server.dispatcher.current
    ident = None if request is None else id_bytes(request.id)
    return server.authentication.log_in(params.method_id, None if ident is None else msgspec.json.decode(ident))


def _logout(server: AcpServer, params: i.LogoutRequest) -> i.LogoutResponse:
    server.authentication.log_out()
    return i.LogoutResponse()


ROUTES: tuple[RequestRoute, ...] = (
    RequestRoute(s.NewSessionRequest, _new),
    RequestRoute(s.LoadSessionRequest, _load),
    RequestRoute(s.ResumeSessionRequest, _resume),
    RequestRoute(s.ListSessionsRequest, _list, when="late"),
    RequestRoute(s.CloseSessionRequest, _close),
    RequestRoute(s.DeleteSessionRequest, _delete),
    RequestRoute(s.PromptRequest, _prompt, when="late", cancel=_cancel_prompt),
    RequestRoute(s.SetSessionModeRequest, _set_mode),
    RequestRoute(s.SetSessionConfigOptionRequest, _set_option),
    RequestRoute(i.AuthenticateRequest, _authenticate, when="late"),
    RequestRoute(i.LogoutRequest, _logout),
)


class Authentication:
    """Logs in at the providers of one process.

    `preferred` is the provider that the command line names, and `in_use` returns those whose models the open sessions use.
    """

    def __init__(
        self,
        shared: Shared,
        requests: OutboundRequests,
        tell: Callable[[bytes], None],
        client: Client,
        preferred: str | None,
        in_use: Callable[[], Iterable[str]],
    ) -> None:
        self._registry = shared.registry
        self._logins = Logins(shared.registry, shared.http)
        self._requests = requests
        self._tell = tell
        self._client = client
        self._preferred = preferred
        self._in_use = in_use
        self._left = asyncio.Event()
        self._numbers = count(1)
        #: A login that waits for the user.
        self._open: asyncio.Task[None] | None = None

    async def log_in(self, method: str, request_id: int | str | None) -> AuthenticateResponse:
        """Log in, unless there is a key already. Raises RpcError if that needs something from the user."""
        if method != LOGIN:
            raise BadParams(f"Unknown authentication method {method!r}. Use {LOGIN!r}.")
        self._registry.keys_changed()
        usable = {model.provider for model in self._registry.available()}
        # A key for another provider does not help a session whose model has none: its next prompt would ask for a login again.
        missing = next((provider for provider in self._in_use() if provider not in usable), None)
        if usable and missing is None:
            return AuthenticateResponse()
        possible = self._logins.possible()
        if not possible or (missing is not None and missing not in possible):
            lacking = "No provider has a key." if missing is None else f"The provider {missing} has no key."
            raise RpcError(AUTH_REQUIRED, f"{lacking} {LOG_IN}", {"message": LOG_IN})
        try:
            code = await self._logins.begin(missing or self._logins.provider(self._preferred))
        except LoginFailed as error:
            raise RpcError(AUTH_REQUIRED, str(error)) from None
        if not self._client.pages:
            self._open = asyncio.create_task(self._finish_later(code))
            raise RpcError(AUTH_REQUIRED, f"{_instructions(code)} Then authenticate again.")
        await self._on_page(code, request_id)
        return AuthenticateResponse()

    async def _on_page(self, code: DeviceCode, request_id: int | str | None) -> None:
        """Let the client open the page, and wait until the user has entered the code there."""
        ident = f"login-{next(self._numbers)}"
        page = e.ElicitationUrl(_instructions(code), ident, code.verification_uri, request_id=request_id)
        cancel = CancelToken()
        showing = asyncio.create_task(self._requests.request(page.method, page, e.CreateElicitationResponse, cancel=cancel))
        finishing = asyncio.create_task(self._logins.finish(code.device_code, code.interval, sleep=self._pause))
        try:
            await asyncio.wait([showing, finishing], return_when=asyncio.FIRST_COMPLETED)
            if showing.done() and not finishing.done() and _was_declined(showing):
                finishing.cancel()
                raise RpcError(AUTH_REQUIRED, "The login was declined.")
            await finishing
        except LoginFailed as error:
            raise RpcError(AUTH_REQUIRED, str(error)) from None
        finally:
            finishing.cancel()
            cancel.fire()
            self._tell(
                notification_line(
                    e.CompleteElicitationNotification.method, e.CompleteElicitationNotification(elicitation_id=ident)
                )
            )
            await asyncio.gather(showing, finishing, return_exceptions=True)

    async def _finish_later(self, code: DeviceCode) -> None:
        try:
            await self._logins.finish(code.device_code, code.interval, sleep=self._pause)
        except LoginFailed:
            return

    def log_out(self) -> None:
        """Forget all stored keys and logins. Raises ConfigError if they cannot be removed."""
        forget_stored(self._registry.home, None)
        self._registry.keys_changed()

    def client_left(self) -> None:
        """Stop waiting for the user."""
        self._left.set()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._left.wait()
        except TimeoutError:
            return
        raise LoginFailed("The client has left.")


def _instructions(code: DeviceCode) -> str:
    return f"Open {code.verification_uri} and enter the code {code.user_code}."


def _was_declined(showing: asyncio.Task[e.CreateElicitationResponse]) -> bool:
    if isinstance(showing.exception(), Unanswered):
        return True
    return showing.result().action in ("decline", "cancel")
