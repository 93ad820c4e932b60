"""Extensions that run in the Node process: what they register becomes part of the agent like what Python extensions register."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from fairlead.config.process import run_in_thread
from fairlead.errors import FairleadError
from fairlead.extend.extensions.calling import Deadline
from fairlead.extend.extensions.context import CommandContext, Context
from fairlead.extend.extensions.events import EVENTS
from fairlead.extend.extensions.registrations import Extension
from fairlead.extend.node.boundary import BOUNDARIES, Boundary, boundary_context
from fairlead.extend.node.bridge import BridgeLost, NodeBridge, RemoteError
from fairlead.extend.node.events import NEVER_EMITTED, Events, cancel_token
from fairlead.extend.node.program import is_new_enough, no_usable_node, node_programs, version_of
from fairlead.extend.node.quiet import QuietMessages
from fairlead.extend.node.requests import Requests, source_info
from fairlead.extend.node.results import unusable_result
from fairlead.extend.node.signals import Signals
from fairlead.extend.node.tools import ToolRequests, remote_tool

if TYPE_CHECKING:
    from fairlead.core.tool import Tool
    from fairlead.extend.extensions.api import Fairlead
    from fairlead.extend.extensions.engine import Engine
    from fairlead.extend.node.bridge import Answer

_log = logging.getLogger("fairlead.extend")

Params = Mapping[str, Any]

#: The exposures of pi with which tools can call a tool, whether or not it is active.
_CALLABLE = ("codemode", "deferred")
#: How long extensions may block the process in calls without a time limit, such as tools, as a multiple of that limit.
_STUCK = 4

#: The release of pi whose extensions run here.
PI_VERSION = "1.5.0"


class RemoteExtensions:
    """All extensions of a session that run in the Node process."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.signals = Signals(lambda number: self._notify("abort", {"signal": number}))
        self.quiet: QuietMessages
        self._events: Events
        self._bridge: NodeBridge | None = None
        self._loaded: dict[int, tuple[Fairlead, Extension]] = {}
        #: Removes the handler with each number.
        self._off: dict[int, Callable[[], None]] = {}
        #: The handlers at the ends of turns and runs, by event, and what they have proposed at the present one.
        self._boundary_handlers: dict[str, dict[int, Extension]] = {name: {} for name in BOUNDARIES}
        self._boundaries: dict[str, Boundary] = {}
        #: The tools that extensions have registered, in pi's form.
        self._described: dict[str, Params] = {}
        #: The contexts of the calls that are running.
        self._contexts: dict[int, Context] = {}

    # Loading

    async def load(self, fl: Fairlead, extension: Extension) -> None:
        """Load an extension, which registers what it has. Raises RemoteError or BridgeLost."""
        number = len(self._loaded) + 1
        self._loaded[number] = fl, extension
        host = self.engine.host
        home = host.home
        facts = {
            "agentDir": str(home.root),
            "configDirName": home.project_names[0],
            "version": PI_VERSION,
            "cwd": str(host.cwd),
        }
        assert self._bridge is not None, "the process is started first"
        try:
            await self._bridge.call("load", {"extension": number, "file": str(extension.found.path), "facts": facts})
        except RemoteError as error:
            raise RemoteError(" ".join(str(error).split()), error.stack) from None

    async def start(self) -> None:
        """Start the Node process if it does not run. Raises ConfigError, OSError or BridgeLost."""
        if self._bridge is not None:
            return
        programs = node_programs(self.engine.session.host.workspace.env)
        self.quiet, self._events = QuietMessages(self.engine.session), Events(self.engine.session)
        for node in programs:
            try:
                version = await self._start_with(node)
            except (OSError, BridgeLost):
                if is_new_enough(await run_in_thread(partial(version_of, node), "fairlead-node-version")):
                    self._forget_bridge()
                    raise
            else:
                if is_new_enough(version):
                    return
                self._kill_bridge()
        self._forget_bridge()
        raise no_usable_node()

    async def _start_with(self, node: str) -> str:
        """Start the process with a Node program and return its version."""
        requests, tools = Requests(self.engine, self), ToolRequests(self.engine, self.context_of, self.callable_tools)
        at_once = {**requests.answers(), **self._answers(), **tools.answers()}
        slow = {**requests.slow_answers(), **tools.slow_answers(), "loginAsk": self._ask_login}
        host = self.engine.host
        # Set before it is started, so that it can be closed meanwhile.
        self._bridge = bridge = NodeBridge(at_once, slow, stuck_after=_STUCK * host.timeout)
        cache = None if host.home.isolated else host.home.root / "cache" / "node"
        return await bridge.start(node, host.cwd, self.engine.session.host.workspace.env, cache)

    def _kill_bridge(self) -> None:
        assert self._bridge is not None
        self._bridge.kill("it is too old")

    def _forget_bridge(self) -> None:
        self._stop_listening()
        self._bridge = None

    @property
    def is_closing(self) -> bool:
        """Whether the Node process is being ended."""
        return self._bridge is not None and self._bridge.is_closing

    async def close(self) -> None:
        """End the Node process."""
        if self._bridge is not None:
            self._stop_listening()
            await self._bridge.close()

    async def retire(self) -> None:
        """End the Node process when the calls that still run in it are done, such as the command that asked for a reload."""
        if self._bridge is not None:
            self._stop_listening()
            await self._bridge.idle()
            await self._bridge.close()

    def _stop_listening(self) -> None:
        self.quiet.close()
        self._events.close()

    def forget(self, extension: Extension) -> None:
        """Have the process forget an extension that is about to be loaded again."""
        for number, (_, each) in self._loaded.items():
            if each is extension:
                self._notify("forget", {"extension": number})

    # Calling

    async def call(self, method: str, params: Params, context: Context) -> Any:
        """Call code of an extension on behalf of `context`. Raises RemoteError or BridgeLost."""
        started: list[int] = []

        def start(id: int) -> None:
            started.append(id)
            self._contexts[id] = context

        assert self._bridge is not None, "an extension has been loaded"
        try:
            return await self._bridge.call(method, params, start)
        finally:
            for id in started:
                self._contexts.pop(id, None)

    def context_of(self, call: int | None) -> Context:
        """Return the context of a call that is running, or one that belongs to no call."""
        found = None if call is None else self._contexts.get(call)
        return Context(self.engine, Deadline(None)) if found is None else found

    def _notify(self, method: str, params: Params) -> None:
        if self._bridge is not None:
            self._bridge.notify(method, params)

    # Registering

    def fl(self, params: Params) -> Fairlead:
        """Return the API of the extension that asks. With `replaced`, it asks for its successor in another session."""
        fl, extension = self._loaded[params["extension"]]
        if params.get("replaced"):
            return next((each for each, other in reversed(self._loaded.values()) if other.path == extension.path), fl)
        return fl

    def _answers(self) -> dict[str, Answer]:
        return {
            "on": self._on,
            "off": self._remove_handler,
            "registerTool": self._register_tool,
            "registerCommand": self._register_command,
            "registerFlag": self._register_flag,
            "getFlag": self._get_flag,
            "registerProvider": self._register_provider,
            "unregisterProvider": lambda params: self.fl(params).unregister_provider(params["name"]),
            "registerVirtualModel": self._register_virtual_model,
            "unregisterVirtualModel": self._unregister_virtual_model,
            "registerMcpServer": self._register_mcp_server,
            "unregisterMcpServer": self._unregister_mcp_server,
            "mcpServers": self._mcp_servers,
            "failed": self._failed,
            "waits": self._waits,
            "boundaryContext": lambda params: boundary_context(self.engine.session),
            "streamEvent": self._stream_event,
            "loginNews": self._login_news,
            # After the response of a command whose end arrived just before.
            "flush": lambda params: _after_what_is_due(self.engine.outbox.send, 8),
        }

    def _on(self, params: Params) -> None:
        name, number = params["event"], params["number"]
        if name in NEVER_EMITTED or name not in EVENTS:
            _log.info("An extension listens to the event %s, which is never emitted.", name)
            return

        fl = self.fl(params)

        async def handle(event: Any, context: Context) -> Any:
            given = {"number": number, "event": self._events.encode(name, event)}
            with self.signals.of_call(cancel_token(name, event)) as signal:
                reply = await self.call("handle", {**given, "signal": signal}, context)
            try:
                return self._events.decode(name, event, reply)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise unusable_result(name, error) from error

        async def handle_boundary(event: Any, context: Context) -> None:
            boundary = self._boundary(name, number)
            fields = {**self._events.encode(name, event), **boundary.fields(event)}
            try:
                reply = await self.call("handle", {"number": number, "event": fields}, context)
                boundary.propose(reply.get("result"))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise unusable_result(name, error) from error
            finally:
                if number == max(self._live_handlers(name)):
                    self._commit(boundary, name)

        if name in BOUNDARIES:
            self._boundary_handlers[name][number] = self._loaded[params["extension"]][1]
        self._off[number] = fl.on(name, handle_boundary if name in BOUNDARIES else handle)

    def _boundary(self, name: str, number: int) -> Boundary:
        """Return the boundary that a handler is asked at. Handlers are asked in the order of their numbers."""
        if number == min(self._live_handlers(name)) or name not in self._boundaries:
            self._boundaries[name] = Boundary(self.engine.session, name)
        return self._boundaries[name]

    def _live_handlers(self, name: str) -> list[int]:
        """Return the numbers of the handlers of a boundary whose extensions have not been removed."""
        return [number for number, extension in self._boundary_handlers[name].items() if extension.is_loaded]

    def _commit(self, boundary: Boundary, name: str) -> None:
        try:
            boundary.commit()
        except (ValueError, TypeError, FairleadError) as error:
            self.engine.report("<boundary>", name, error)

    def _remove_handler(self, params: Params) -> None:
        number = params["number"]
        for handlers in self._boundary_handlers.values():
            handlers.pop(number, None)
        off = self._off.pop(number, None)
        if off is not None:
            off()

    def _register_tool(self, params: Params) -> None:
        _, extension = self._loaded[params["extension"]]
        tool, is_active = remote_tool(self, extension, params["number"], params["tool"])
        self.engine.registrations.add_made_tool(extension, tool, is_active=is_active)
        self._described[tool.name] = params["tool"]

    def _register_command(self, params: Params) -> None:
        number = params["number"]

        async def run(arguments: str, context: Context) -> None:
            await self.call("command", {"number": number, "args": arguments}, context)

        self.fl(params).register_command(params["name"], run, params.get("description") or "")

    def _register_flag(self, params: Params) -> None:
        kind = params.get("type") or "boolean"
        self.fl(params).register_flag(params["name"], kind, params.get("default"), params.get("description") or "")

    def _get_flag(self, params: Params) -> Any:
        """Return the value of a flag. pi returns the value of other extensions' flags as nothing."""
        _, extension = self._loaded[params["extension"]]
        return self.fl(params).get_flag(params["name"]) if params["name"] in extension.flags else None

    def _register_provider(self, params: Params) -> None:
        from fairlead.extend.node.models import remote_stream

        stream = remote_stream(self, params["number"]) if params.get("streams") else None
        config = {key: value for key, value in params["config"].items() if value is not None}
        _, extension = self._loaded[params["extension"]]
        login = None
        if params.get("logsIn"):
            from fairlead.extend.node.logins import RemoteLogin

            login = RemoteLogin(self, params["number"])
        self.engine.registrations.add_provider(extension, params["name"], config, stream, login)

    def _register_virtual_model(self, params: Params) -> None:
        from fairlead.extend.node.virtual_models import routed_stream, virtual_model

        _, extension = self._loaded[params["extension"]]
        model = virtual_model(params["definition"])
        self.engine.registrations.add_virtual_model(extension, model, routed_stream(self, params["number"], model))

    def _unregister_virtual_model(self, params: Params) -> None:
        _, extension = self._loaded[params["extension"]]
        self.engine.registrations.remove_virtual_model(extension, params["provider"], params["id"])

    def _register_mcp_server(self, params: Params) -> None:
        from fairlead.extend.node.mcp_servers import registered_server

        _, extension = self._loaded[params["extension"]]
        described: dict[str, Any] = params.get("config") or {}
        self.engine.registrations.add_mcp_server(extension, registered_server(extension, params["name"], described), described)

    def _unregister_mcp_server(self, params: Params) -> None:
        _, extension = self._loaded[params["extension"]]
        self.engine.registrations.remove_mcp_server(extension, params["name"])

    def _mcp_servers(self, params: Params) -> list[dict[str, Any]]:
        return [
            {"name": name, "config": config, "extensionPath": extension.path}
            for extension in self.engine.extensions
            for name, config in extension.mcp_servers.items()
        ]

    def _waits(self, params: Params) -> None:
        """A command waits for something. What it has asked for so far is shown first."""
        context = self._contexts.get(params["call"])
        if isinstance(context, CommandContext) and context.on_wait is not None:
            _after_what_is_due(context.on_wait)

    def _stream_event(self, params: Params) -> None:
        from fairlead.extend.node.models import StreamContext

        context = self._contexts.get(params["call"])
        if isinstance(context, StreamContext):
            context.events.put_nowait(params["event"])

    def _login_news(self, params: Params) -> None:
        from fairlead.extend.node.logins import LoginContext

        context = self._contexts.get(params["call"])
        if isinstance(context, LoginContext):
            context.tell(params)

    async def _ask_login(self, params: Params, report: Callable[[Any], None]) -> Any:
        from fairlead.extend.node.logins import LoginContext

        context = self._contexts.get(params["call"])
        return await context.ask(params) if isinstance(context, LoginContext) else None

    def _failed(self, params: Params) -> None:
        """An extension failed outside any call."""
        loaded = self._loaded.get(params.get("extension") or 0)
        error = RemoteError(params["error"]["message"], params["error"].get("stack") or "")
        self.engine.report("extension" if loaded is None else loaded[1].path, "uncaught", error)

    def described_tool(self, name: str) -> dict[str, Any]:
        """Return what pi says about a tool besides its schema."""
        given = self._described.get(name) or {}
        more = {key: given[key] for key in ("namespace", "annotations") if given.get(key) is not None}
        return {"exposure": given.get("exposure") or "direct", "sourceInfo": self.source_of_tool(name), **more}

    def callable_tools(self) -> dict[str, Tool]:
        """Return the tools that tools can call."""
        tools, active = self.engine.session.tools, set(self.engine.session.tools.active)
        exposures = {name: (self._described.get(name) or {}).get("exposure") or "direct" for name in tools}
        return {
            name: tool
            for name, tool in tools.items()
            if exposures[name] in _CALLABLE or (exposures[name] == "direct" and name in active)
        }

    def source_of_tool(self, name: str) -> dict[str, Any]:
        """Return where a tool comes from, in pi's form."""
        for extension in self.engine.extensions:
            if name in extension.tools:
                return source_info(extension.found.origin)
        return {"path": f"builtin:{name}", "source": "builtin", "scope": "temporary", "origin": "top-level"}


def _after_what_is_due(work: Callable[[], None], rounds: int = 4) -> None:
    """Call `work` when tasks that have just been created, and the tasks that these create, have begun."""
    loop = asyncio.get_running_loop()
    loop.call_soon(work if rounds == 0 else lambda: _after_what_is_due(work, rounds - 1))
