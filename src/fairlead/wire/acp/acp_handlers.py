"""The sessions of one connection, the handlers for requests about them, and the logins of clients that offer them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from fairlead.agent import Agent, Shared
from fairlead.agent.tool_sets import McpServer
from fairlead.core.runtime import CancelToken
from fairlead.errors import BadCommand, BadOption, FairleadError, LoginFailed
from fairlead.models.credentials import forget_stored
from fairlead.models.logins import DeviceCode, Logins
from fairlead.protocol.acp import acp_sessions as s
from fairlead.protocol.acp import elicitation as e
from fairlead.protocol.acp import initialization as i
from fairlead.protocol.acp.content import AUTH_REQUIRED, RESOURCE_NOT_FOUND
from fairlead.protocol.acp.initialization import AuthenticateResponse
from fairlead.session.history.current import ConversationStore
from fairlead.sessions.catalogue import Catalogue, Common, Opener, opener
from fairlead.sessions.open_sessions import OpenSessions, opening, with_more_tools
from fairlead.stores.paths import iso
from fairlead.wire.acp.acp_narrator import LONGEST_TITLE, Narrator
from fairlead.wire.acp.acp_session import LOG_IN, AcpSession, as_auth_error
from fairlead.wire.acp.acp_ui import AcpUi
from fairlead.wire.acp.initialize import LOGIN, Client
from fairlead.wire.acp.session_updates import Updates
from fairlead.wire.dispatcher import id_bytes
from fairlead.wire.host_connection import HostOutput
from fairlead.wire.jsonrpc import BadParams, OutboundRequests, RpcError, notification_line
from fairlead.wire.pending import Unanswered
from fairlead.wire.routing import Answer, RequestRoute

if TYPE_CHECKING:
    from fairlead.wire.acp.acp_server import AcpServer


class AcpSessions(OpenSessions[str, AcpSession]):
    """The sessions that a client has started or loaded. `prepare` is called with each agent before its first prompt."""

    def __init__(
        self,
        common: Common,
        output: HostOutput,
        requests: OutboundRequests,
        client: Client,
        prepare: Callable[[Agent], Awaitable[None]],
    ) -> None:
        super().__init__()
        self.common = common
        self.catalogue = Catalogue(common.archive(), common.cwd)
        self._output = output
        self._requests = requests
        self._client = client
        self._prepare = prepare

    def get(self, session_id: str) -> AcpSession:
        """Return an open session. Raises RpcError if there is no such session."""
        found = self.find(session_id)
        if found is None:
            raise RpcError(
                RESOURCE_NOT_FOUND,
                f"There is no open session {session_id!r}. Load or resume it first.",
                {"sessionId": session_id},
            )
        return found

    @property
    def providers(self) -> list[str]:
        """The providers whose models the open sessions use, that of the newest session first."""
        models = (session.session.model for session in reversed(self.all()))
        return [*dict.fromkeys(model.provider for model in models if model is not None)]

    async def new(self, params: s.NewSessionRequest) -> AcpSession:
        """Begin a session. Raises RpcError."""
        cwd = self._folder("cwd", params.cwd)
        return await self._open(cwd, params.additional_directories, params.mcp_servers, ConversationStore.new)

    async def load(self, params: s.LoadSessionRequest | s.ResumeSessionRequest) -> AcpSession:
        """Open a saved session. One that is open is closed first, since its directories and servers may be others.

        Raises RpcError. If there is no such session, no new one begins.
        """
        cwd = self._folder("cwd", params.cwd)
        is_open = await self.get_when_settled(params.session_id)
        name = await self.catalogue.find(params.session_id, cwd)
        if name is None:
            raise RpcError(
                RESOURCE_NOT_FOUND, f"There is no saved session {params.session_id!r}.", {"sessionId": params.session_id}
            )
        if is_open is not None:
            await self.end(is_open)
        return await self._open(cwd, params.additional_directories, params.mcp_servers, opener(name))

    def _folder(self, name: str, path: str) -> Path:
        """Return a directory that a client names. Raises BadParams if it is not an absolute path of one that is allowed."""
        confinement = self.common.base.behaviour.confinement
        try:
            if os.path.isabs(path):  # noqa: PTH117
                # Asked first: otherwise, a client could find out what exists elsewhere.
                if confinement is not None and not confinement.allows(path):
                    raise BadParams(f"{name}: {path!r} is outside the directories that sessions may work in")
                if os.path.isdir(path):
                    return Path(path)
        except ValueError:  # a null byte
            pass
        raise BadParams(f"{name}: expected the absolute path of a directory, found {path!r}")

    async def delete(self, session_id: str) -> None:
        """Close a session and delete it. Raises RpcError if there is no such session, and SessionError."""
        is_open = await self.get_when_settled(session_id)
        path = None if is_open is None else is_open.session.history.path
        if is_open is not None:
            await self.end(is_open)
        if not await self.catalogue.delete(session_id, path) and is_open is None:
            raise RpcError(RESOURCE_NOT_FOUND, f"There is no saved session {session_id!r}.", {"sessionId": session_id})

    # Assembling a session

    async def _open(
        self,
        cwd: Path,
        directories: list[str] | None,
        servers: list[Any] | None,
        conversation: Opener,
    ) -> AcpSession:
        base, registry = self.common.base, self.common.shared.registry
        if servers and base.behaviour.shares_home:
            # They would run without the sandbox and the approvals that the owner wants, and with the keys of all.
            raise BadParams("mcpServers: this server has several users, and only its owner adds MCP servers, in mcp.json")
        if not registry.available():
            registry.keys_changed()  # the user may have logged in meanwhile
        tools = with_more_tools(tuple(base.behaviour.default_tools))
        options = replace(
            base,
            cwd=cwd,
            add_dirs=[*base.add_dirs, *(self._folder("additionalDirectories", each) for each in directories or ())],
            mcp_servers={**base.mcp_servers, **_servers(servers or ())},
            behaviour=replace(base.behaviour, default_tools=tools, conversation=conversation),
        )
        try:
            agent = Agent(options, shared=self.common.shared)
        except BadOption as error:
            raise BadParams(str(error)) from None
        except FairleadError as error:
            raise as_auth_error(error) from None
        async with opening(agent):
            agent.session.host.workspace.cwd = cwd  # not the working directory that the conversation had before
            await self._prepare(agent)
            if agent.session.model is None:
                raise RpcError(AUTH_REQUIRED, f"No provider has a key. {LOG_IN}", {"message": LOG_IN})
            session = self._session(agent)
        self.add(session.id, session)
        return session

    def _session(self, agent: Agent) -> AcpSession:
        session_id = agent.session.history.id
        updates = Updates(session_id, self._output)
        narrator = Narrator(agent.session, updates, self._client, lambda: made.in_turn)
        made = AcpSession(session_id, agent, updates, narrator, gate=self._output)
        agent.session.host.make_ui = lambda: AcpUi(session_id, self._requests, self._client, narrator, lambda: made.questions)
        return made


def _servers(values: Sequence[Any]) -> dict[str, McpServer]:
    """Return the MCP servers that a client hands over, by name. Raises BadParams if two have the same name."""
    found: dict[str, McpServer] = {}
    for name, server in map(_server, values):
        if name in found:
            raise BadParams(f"mcpServers: two servers have the name {name!r}")
        found[name] = server
    return found


def _server(value: Any) -> tuple[str, McpServer]:
    """Return the name of an MCP server that a client hands over, and the server. Raises BadParams if it cannot be used."""
    match value:
        case {"type": "http"}:
            declared = s.McpServerHttp
        case {"type": "sse"}:
            declared = s.McpServerSse
        case _:
            declared = s.McpServerStdio
    try:
        server: s.McpServer = msgspec.convert(value, declared)
    except msgspec.ValidationError as error:
        raise BadParams(f"mcpServers: {error}") from None
    if isinstance(server, s.McpServerStdio):
        env = {each.name: each.value for each in server.env}
        return server.name, McpServer(command=server.command, args=server.args, env=env)
    headers = {each.name: each.value for each in server.headers}
    kind = "sse" if isinstance(server, s.McpServerSse) else "http"
    return server.name, McpServer(url=server.url, headers=headers, type=kind)


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
