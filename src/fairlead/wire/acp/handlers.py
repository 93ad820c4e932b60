"""Handlers for the requests about sessions, prompts and logins."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from fairlead.errors import BadCommand
from fairlead.protocol.acp import initialization as i
from fairlead.protocol.acp import sessions as s
from fairlead.stores.paths import iso
from fairlead.wire.acp.acp_session import AcpSession
from fairlead.wire.acp.narrator import LONGEST_TITLE
from fairlead.wire.dispatcher import id_bytes
from fairlead.wire.jsonrpc import BadParams
from fairlead.wire.messages import Answer, RequestRoute

if TYPE_CHECKING:
    from fairlead.wire.acp.server import AcpServer


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
