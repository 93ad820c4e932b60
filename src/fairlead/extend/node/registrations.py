"""What extensions in the Node process register. It becomes part of the agent like what Python extensions register."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.errors import ConfigError
from fairlead.extend.extensions.calling import Deadline
from fairlead.extend.extensions.context import Context, pause_deadline
from fairlead.extend.extensions.extension_events import EVENTS
from fairlead.extend.extensions.values import convert, object_or_empty
from fairlead.extend.mcp.config import OAuthSettings, ServerConfig, exposures
from fairlead.extend.node.boundary import BOUNDARIES, Boundaries
from fairlead.extend.node.bridge import BridgeLost, RemoteError
from fairlead.extend.node.events import cancel_token, is_emitted_by_pi
from fairlead.extend.node.models import RemoteLogin, remote_stream
from fairlead.extend.node.requests import source_info
from fairlead.extend.node.results import unusable_result
from fairlead.extend.node.tools import remote_tool, run_operations
from fairlead.extend.node.virtual_models import make_routed_stream, virtual_model
from fairlead.session.slash_commands import Origin
from fairlead.session.toolbox import TOOL_SEARCH

if TYPE_CHECKING:
    from fairlead.core.tool import Tool
    from fairlead.extend.extensions.registrations import Extension
    from fairlead.extend.node.bridge import Answer
    from fairlead.extend.node.remote import RemoteExtensions

_log = logging.getLogger("fairlead.extend")

Params = Mapping[str, Any]

#: The exposures of pi with which tools can call a tool, whether or not it is active.
_CALLABLE = ("codemode", "deferred")
#: The schemas of the data that our own tools return, as pi has them.
_RESULTS: Mapping[str, Any] = {
    "bash": {
        "type": "object",
        "required": ["output", "truncated", "exit_code", "wall_time_seconds"],
        "properties": {
            "output": {"type": "string", "description": "Combined stdout and stderr, possibly truncated"},
            "truncated": {"type": "boolean"},
            "full_output_path": {"type": "string", "description": "Full output, when truncated"},
            "exit_code": {"type": "number"},
            "wall_time_seconds": {"type": "number"},
        },
    },
    "read": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"type": {"const": "image"}}}]},
}
#: The names that pi allows for MCP servers.
_SERVER_NAME = re.compile(r"[A-Za-z0-9_-]+")


class RemoteRegistrations:
    """Adds what the extensions of `remote` register to the agent."""

    def __init__(self, remote: RemoteExtensions) -> None:
        self._remote = remote
        self._engine = remote.engine
        self._boundaries = Boundaries(remote.engine)
        #: Removes the handler with each number.
        self._off: dict[int, Callable[[], None]] = {}
        #: The tools that extensions have registered, in pi's form.
        self._described: dict[str, Params] = {}
        #: The tools that choose how tools are declared: their numbers and extensions.
        self._presenters: dict[str, tuple[int, Extension]] = {}
        #: The version of the tools that were last presented.
        self._presented: int | None = None

    def answers(self) -> dict[str, Answer]:
        """Return the requests that register something, by name."""
        return {
            "on": self._on,
            "off": self._remove_handler,
            "registerTool": self._register_tool,
            "registerCommand": self._register_command,
            "registerFlag": self._register_flag,
            "getFlag": self._get_flag,
            "registerProvider": self._register_provider,
            "unregisterProvider": lambda params: self._remote.fl(params).unregister_provider(params["name"]),
            "registerVirtualModel": self._register_virtual_model,
            "unregisterVirtualModel": self._unregister_virtual_model,
            "registerMcpServer": self._register_mcp_server,
            "unregisterMcpServer": self._unregister_mcp_server,
            "mcpServers": self._mcp_servers,
        }

    # Handlers

    def _on(self, params: Params) -> None:
        name, number = params["event"], params["number"]
        if name not in EVENTS:
            _log.info("An extension listens to the event %s, which is never emitted.", name)
            return

        remote = self._remote
        fl = remote.fl(params)

        async def handle(event: Any, context: Context) -> Any:
            if not is_emitted_by_pi(name, event):
                return None
            given = {"number": number, "event": remote.events.encode(name, event)}
            with remote.signals.of_call(cancel_token(name, event)) as signal:
                try:
                    reply = await remote.call("handle", {**given, "signal": signal}, context)
                except RemoteError as error:
                    if error.is_unreadable_answer and name != "user_bash":
                        raise unusable_result(name, error) from error
                    raise
                if operations := reply.get("runs"):  # for as long as the command takes
                    given = {"operations": operations, "event": given["event"], "signal": signal}
                    with pause_deadline(context):
                        return await run_operations(remote, event, given)
            try:
                return remote.events.decode(name, event, reply)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise unusable_result(name, error) from error

        async def handle_boundary(event: Any, context: Context) -> None:
            boundary = self._boundaries.enter(name, number)
            fields = {**remote.events.encode(name, event), **boundary.fields(event)}
            try:
                reply = await remote.call("handle", {"number": number, "event": fields}, context)
                boundary.propose(reply.get("result"))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise unusable_result(name, error) from error
            finally:
                self._boundaries.leave(boundary, number)

        if name in BOUNDARIES:
            self._boundaries.add_handler(name, number, remote.extension(params))
        self._off[number] = fl.on(name, handle_boundary if name in BOUNDARIES else handle)

    def _remove_handler(self, params: Params) -> None:
        number = params["number"]
        self._boundaries.remove_handler(number)
        off = self._off.pop(number, None)
        if off is not None:
            off()

    # Tools, commands and flags

    def _register_tool(self, params: Params) -> None:
        extension = self._remote.extension(params)
        tool, is_active = remote_tool(self._remote, extension, params["number"], params["tool"])
        self._engine.registrations.add_made_tool(extension, tool, is_active=is_active)
        self._described[tool.name] = params["tool"]
        tools = self._engine.session.tools
        if self.exposure(tool.name) == "hidden" and tool.name in tools.active:  # it was not hidden before
            tools.activate([name for name in tools.active if name != tool.name])
        self._presenters.pop(tool.name, None)
        if params["tool"].get("presents"):
            self._presenters[tool.name] = params["number"], extension

    def _register_command(self, params: Params) -> None:
        number = params["number"]

        async def run(arguments: str, context: Context) -> None:
            await self._remote.call("command", {"number": number, "args": arguments}, context)

        async def complete(typed: str, context: Context) -> Any:
            return await self._remote.call("complete", {"number": number, "prefix": typed}, context)

        completes = complete if params.get("completes") else None
        self._remote.fl(params).register_command(params["name"], run, params.get("description") or "", completes)

    def _register_flag(self, params: Params) -> None:
        kind = params.get("type") or "boolean"
        self._remote.fl(params).register_flag(params["name"], kind, params.get("default"), params.get("description") or "")

    def _get_flag(self, params: Params) -> Any:
        """Return the value of a flag. pi returns the value of other extensions' flags as nothing."""
        extension = self._remote.extension(params)
        return self._remote.fl(params).get_flag(params["name"]) if params["name"] in extension.flags else None

    # Models and servers

    def _register_provider(self, params: Params) -> None:
        stream = remote_stream(self._remote, params["number"]) if params.get("streams") else None
        config = {key: value for key, value in params["config"].items() if value is not None}
        extension = self._remote.extension(params)
        login = None
        if params.get("logsIn"):
            login = RemoteLogin(self._remote, params["number"])
        self._engine.registrations.add_provider(extension, params["name"], config, stream, login)

    def _register_virtual_model(self, params: Params) -> None:
        extension = self._remote.extension(params)
        model = virtual_model(params["definition"])
        self._engine.registrations.add_virtual_model(extension, model, make_routed_stream(self._remote, params["number"], model))

    def _unregister_virtual_model(self, params: Params) -> None:
        extension = self._remote.extension(params)
        self._engine.registrations.remove_virtual_model(extension, params["provider"], params["id"])

    def _register_mcp_server(self, params: Params) -> None:
        extension = self._remote.extension(params)
        described: dict[str, Any] = params.get("config") or {}
        self._engine.registrations.add_mcp_server(extension, _read_server(extension, params["name"], described), described)

    def _unregister_mcp_server(self, params: Params) -> None:
        extension = self._remote.extension(params)
        self._engine.registrations.remove_mcp_server(extension, params["name"])

    def _mcp_servers(self, params: Params) -> list[dict[str, Any]]:
        return [
            {"name": name, "config": config, "extensionPath": extension.path}
            for extension in self._engine.extensions
            for name, config in extension.mcp_servers.items()
        ]

    # What is known about tools

    @property
    def presents_tools(self) -> bool:
        """Whether tools have to choose again how the tools are declared, because these have changed."""
        return (bool(self._presenters) or self._presented is not None) and self._presented != self._engine.session.tools.version

    async def present_tools(self) -> None:
        """Have the active tools with pi's `prepareLoadout` choose how the tools are declared to the model."""
        tools = self._engine.session.tools
        self._presented = tools.version
        hidden: set[str] = set()
        descriptions: dict[str, str] = {}
        for name in tools.active:
            number, extension = self._presenters.get(name, (0, None))
            if extension is None:
                continue
            try:
                async with asyncio.timeout(self._engine.host.timeout):
                    chosen = await self._remote.call("present", {"number": number}, Context(self._engine, Deadline(None)))
                given = object_or_empty(chosen)
                descriptions |= convert(dict[str, str], given.get("descriptions") or {}, "descriptions")
                hidden |= set(convert(list[str], given.get("hiddenDeclarations") or [], "hiddenDeclarations"))
            except (RemoteError, BridgeLost, TypeError, TimeoutError) as error:
                self._engine.report(extension.path, "prepare_loadout", error)
        tools.present(hidden, descriptions)

    def exposure(self, name: str) -> str:
        """Return how a tool reaches the model, in pi's terms."""
        described, tool = self._described.get(name), self._engine.session.tools.get(name)
        if described is None:
            return "direct" if tool is None else "model-only" if name == TOOL_SEARCH else tool.exposure
        return str(described.get("exposure") or "direct")

    def describe_tool(self, name: str) -> dict[str, Any]:
        """Return what pi says about a tool besides its schema."""
        given = self._described.get(name) or {}
        more = {key: given[key] for key in ("namespace", "annotations", "outputSchema") if given.get(key) is not None}
        tool = None if name in self._described else self._engine.session.tools.get(name)
        if tool is not None:
            known = {"namespace": tool.namespace, "annotations": tool.annotations}
            known["outputSchema"] = _RESULTS.get(name) or tool.output_schema
            more |= {key: value for key, value in known.items() if value is not None}
        return {"exposure": self.exposure(name), "sourceInfo": self.source_of_tool(name), **more}

    def callable_tools(self) -> dict[str, Tool]:
        """Return the tools that tools can call."""
        tools, active = self._engine.session.tools, set(self._engine.session.tools.active)
        exposures = {name: self.exposure(name) for name in tools}
        return {
            name: tool
            for name, tool in tools.items()
            if exposures[name] in _CALLABLE or (exposures[name] == "direct" and name in active)
        }

    def source_of_tool(self, name: str) -> dict[str, Any]:
        """Return where a tool comes from, in pi's form."""
        for extension in self._engine.extensions:
            if name in extension.tools:
                return source_info(extension.found.origin)
        return {"path": f"builtin:{name}", "source": "builtin", "scope": "temporary", "origin": "top-level"}


def _read_server(extension: Extension, name: str, config: Any) -> ServerConfig:
    """Return the server that an extension describes. Raises ConfigError, with the text that pi has, if it cannot be used."""
    try:
        return _server(name, config, Origin(Path(extension.path), "cli", "temporary"))
    except (ConfigError, TypeError) as error:
        raise ConfigError(f'Invalid MCP server registered by extension "{extension.path}": {error}') from None


def _server(name: str, config: Any, origin: Origin) -> ServerConfig:
    if not _SERVER_NAME.fullmatch(name):
        raise ConfigError(f'invalid server name "{name}" (use letters, digits, "_" and "-")')
    if not isinstance(config, dict):
        raise ConfigError(f'server "{name}" must be an object')
    given: Mapping[str, Any] = convert(dict[str, Any], config, "config")
    kind, timeout = given.get("type"), given.get("timeout")
    if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
        raise ConfigError(f'server "{name}": timeout must be a positive number of seconds')
    if kind == "sse":
        raise ConfigError(f'server "{name}": legacy SSE transport is not supported; use the streamable HTTP URL')
    try:
        found = exposures(given.get("exposure"), given.get("toolExposure"))
    except ConfigError as error:
        raise ConfigError(f'server "{name}": {error}') from None
    common: dict[str, Any] = {"name": name, "origin": origin, "timeout": timeout, "exposures": found}
    if isinstance(url := given.get("url"), str) and kind in (None, "http", "streamable-http"):
        if not url.lower().startswith(("http://", "https://")):
            raise ConfigError(f'server "{name}": url must be an http or https URL')
        oauth = convert(OAuthSettings, given.get("oauth") or {}, "oauth")
        oauth.check()
        headers = convert(dict[str, str], given.get("headers") or {}, "headers")
        return ServerConfig(url=url, headers=headers, oauth=oauth, **common)
    if isinstance(command := given.get("command"), str) and kind in (None, "stdio"):
        return ServerConfig(
            command=(command, *convert(list[str], given.get("args") or [], "args")),
            env=convert(dict[str, str], given.get("env") or {}, "env"),
            cwd=convert(str | None, given.get("cwd"), "cwd"),
            **common,
        )
    raise ConfigError(f'server "{name}" needs either "command" (stdio) or "url" (streamable HTTP)')
