"""The sessions of one connection: starting, loading, closing and deleting them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from fairlead.agent import Agent
from fairlead.agent.tool_sets import McpServer
from fairlead.errors import BadOption, FairleadError
from fairlead.protocol.acp import sessions as s
from fairlead.protocol.acp.content import AUTH_REQUIRED, RESOURCE_NOT_FOUND
from fairlead.session.history.sessions import ConversationStore
from fairlead.sessions.catalogue import Catalogue, Common, Opener, opener
from fairlead.sessions.open_sessions import OpenSessions, opening, with_more_tools
from fairlead.wire.acp.acp_narrator import Narrator
from fairlead.wire.acp.acp_session import LOG_IN, AcpSession, as_auth_error
from fairlead.wire.acp.acp_ui import AcpUi
from fairlead.wire.acp.initialize import Client
from fairlead.wire.acp.update_sender import Updates
from fairlead.wire.host_connection import HostOutput
from fairlead.wire.jsonrpc import BadParams, OutboundRequests, RpcError


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
