"""The extensions that run in the Node process: starting it, loading them there, and calling them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.core.events import AgentEnd, Event, MessageEnd, MessageStart, TurnEnd
from fairlead.core.messages import CustomMessage
from fairlead.core.runtime import CancelToken
from fairlead.extend.extensions.calling import Deadline
from fairlead.extend.extensions.context import CommandContext, Context
from fairlead.extend.extensions.registrations import Extension
from fairlead.extend.node.boundary import boundary_context
from fairlead.extend.node.bridge import BridgeLost, NodeBridge, RemoteError
from fairlead.extend.node.events import Events
from fairlead.extend.node.models import LoginContext, StreamContext
from fairlead.extend.node.package import PackageFacts, write_modules
from fairlead.extend.node.program import cache_folder, is_new_enough, make_no_node_error, node_programs, version_of
from fairlead.extend.node.registrations import RemoteRegistrations
from fairlead.extend.node.requests import Requests
from fairlead.extend.node.tools import BashRunContext, ToolRequests
from fairlead.extend.node.user import UserRequests
from fairlead.platform.process import run_in_thread
from fairlead.platform.programs import working_folders

if TYPE_CHECKING:
    from fairlead.extend.extensions.engine import Engine
    from fairlead.extend.extensions.extension_api import Fairlead
    from fairlead.extend.node.bridge import Answer
    from fairlead.session.session import Session

log = logging.getLogger("fairlead.extend.node")

Params = Mapping[str, Any]

#: How long extensions may block the process in calls without a time limit, such as tools, as a multiple of that limit.
_STUCK = 4

#: The most events of a model that an extension asks itself, waiting to be sent.
_MOST_EVENTS = 250_000

#: The release of pi whose extensions run here, and its package.
PI_PACKAGE = "@earendil-works/pi-coding-agent"
PI_VERSION = "1.5.0"


class RemoteExtensions:
    """All extensions of a session that run in the Node process."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.signals = Signals(lambda number: self.notify("abort", {"signal": number}))
        self.quiet: QuietMessages
        self.events: Events
        self.registrations = RemoteRegistrations(self)
        self._user = UserRequests(engine, self)
        self._bridge: NodeBridge | None = None
        self._loaded: dict[int, tuple[Fairlead, Extension]] = {}
        #: The contexts of the calls that are running.
        self._contexts: dict[int, Context] = {}

    # Loading

    async def load(self, fl: Fairlead, extension: Extension) -> None:
        """Load an extension, which registers what it has. Raises RemoteError or BridgeLost."""
        number = len(self._loaded) + 1
        self._loaded[number] = fl, extension
        host = self.engine.host
        home, command = host.home, self._agent_command()
        launcher = await self._write_launcher(command)
        facts = {
            **self._home_facts(),
            "configDirName": home.project_names[0],
            "version": PI_VERSION,
            "cwd": str(host.cwd),
            "launcher": launcher and str(launcher),
            "command": command,
        }
        assert self._bridge is not None, "the process is started first"
        try:
            await self._bridge.call("load", {"extension": number, "file": str(extension.found.path), "facts": facts})
        except RemoteError as error:
            raise RemoteError(" ".join(str(error).split()), error.stack) from None

    def _home_facts(self) -> Params:
        """Return what the runtime and the SDK know about the agent's home."""
        home = self.engine.host.home
        return {"agentDir": str(home.root), "homeVariable": "FAIRLEAD_HOME" if home.peer is None else "PI_CODING_AGENT_DIR"}

    def _agent_command(self) -> list[str]:
        """Return the command that starts an agent of the same name and home."""
        home = self.engine.host.home
        name = ["--as", home.started_as.started_as] if home.started_as and home.started_as.started_as else []
        # -P: the agent starts in the folder of a project, whose files must not shadow Python's modules.
        return [sys.executable, "-P", "-m", "fairlead", *name, *(["--isolated"] if home.isolated else [])]

    def protection(self) -> list[str]:
        """Return the flags with which an agent is not less careful than this one. The stricter of these and of others counts."""
        session = self.engine.session
        mode = session.approvals.mode
        flags = {"auto": (), "write": ("--approval-mode", "write"), "ask": ("--approval-mode", "always-ask")}
        return [
            *flags.get(mode, ("--approval", "deny")),
            *(() if session.host.workspace.sandbox is None else ("--sandbox", "workspace")),
            *(() if self.engine.host.trust.is_trusted(self.engine.host.cwd) else ("--no-approve",)),
        ]

    async def _write_launcher(self, command: Sequence[str]) -> Path | None:
        """Write what extensions start to get another agent of the same name and home. Returns its path, if it can be written.

        It is in a package with the SDK: extensions also start other programs, which import it from there.
        """
        host, peer = self.engine.host, self.engine.host.home.started_as
        folder = self.engine.session.host.workspace.log_dir() / "pi"
        facts = PackageFacts(
            (peer and peer.package) or PI_PACKAGE,
            (peer and peer.package and peer.version) or PI_VERSION,
            peer.folder.removeprefix(".") if peer else "pi",
            host.home.project_names[0],
        )
        launcher = folder / "node_modules" / facts.package / "dist" / "cli.js"
        try:
            if not launcher.exists():
                write = partial(write_modules, folder, facts, command, self.protection(), self._home_facts())
                await run_in_thread(write, "fairlead-pi-package")
        except OSError as error:  # such as a full disk: extensions that start no agents work nevertheless
            launcher.unlink(missing_ok=True)  # the next extension must not take it for a whole package
            log.warning("Extensions cannot start agents: %s", error)
            return None
        return launcher

    async def start(self) -> None:
        """Start the Node process if it does not run. Raises ConfigError, OSError or BridgeLost."""
        if self._bridge is not None:
            return
        workspace = self.engine.session.host.workspace
        outside = working_folders(workspace.cwd, *workspace.more)
        programs = node_programs(workspace.env, outside)
        self.quiet, self.events = QuietMessages(self.engine.session), Events(self.engine.session)
        for node in programs:
            try:
                version = await self._start_with(node)
            except (OSError, BridgeLost):
                if is_new_enough(await run_in_thread(partial(version_of, node, outside), "fairlead-node-version")):
                    self._forget_bridge()
                    raise
            else:
                if is_new_enough(version):
                    return
                self._kill_bridge()
        self._forget_bridge()
        raise make_no_node_error()

    async def _start_with(self, node: str) -> str:
        """Start the process with a Node program and return its version."""
        requests, registrations = Requests(self.engine, self), self.registrations
        user = self._user
        tools = ToolRequests(self.engine, self.context_of, registrations.callable_tools)
        at_once = {**requests.answers(), **user.answers(), **registrations.answers(), **self._answers(), **tools.answers()}
        slow = {**requests.slow_answers(), **user.slow_answers(), **tools.slow_answers()}
        slow |= {"loginAsk": self._ask_login, "seen": self._intercept}
        host = self.engine.host
        # Set before it is started, so that it can be closed meanwhile.
        self._bridge = bridge = NodeBridge(at_once, slow, stuck_after=_STUCK * host.timeout)
        bridge.on_lost = user.close
        # An extension is the user's own program, like those in Python, which see the agent's environment too.
        workspace = self.engine.session.host.workspace
        env = workspace.env if workspace.agent_env is None else workspace.agent_env
        return await bridge.start(node, host.cwd, env, cache_folder(host.home))

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
            self.notify("retire", {})
            await self._bridge.idle()
            await self._bridge.close()

    def _stop_listening(self) -> None:
        """Stop listening to the session, if that has not happened: an end that took too long is tried again."""
        for part in (self.quiet, self.events):
            part.close()
            part.close = lambda: None

    def forget(self, extension: Extension) -> None:
        """Have the process forget an extension that is about to be loaded again."""
        for number, (_, each) in self._loaded.items():
            if each is extension:
                self.notify("forget", {"extension": number})

    # Who asks

    def fl(self, params: Params) -> Fairlead:
        """Return the API of the extension that asks. With `replaced`, it asks for its successor in another session."""
        fl, extension = self._loaded[params["extension"]]
        if params.get("replaced"):
            return next((each for each, other in reversed(self._loaded.values()) if other.path == extension.path), fl)
        return fl

    def extension(self, params: Params) -> Extension:
        """Return the extension that asks."""
        return self._loaded[params["extension"]][1]

    # Calling

    async def call(self, method: str, params: Params, context: Context) -> Any:
        """Call code of an extension on behalf of `context`. Raises RemoteError or BridgeLost."""
        started: list[int] = []

        assert self._bridge is not None, "an extension has been loaded"
        bridge = self._bridge

        def start(id: int) -> None:
            started.append(id)
            self._contexts[id] = context
            if isinstance(context, CommandContext):
                context.is_ending = lambda: not bridge.is_running(id)

        try:
            return await bridge.call(method, params, start)
        finally:
            for id in started:
                self._contexts.pop(id, None)

    def context_of(self, call: int | None) -> Context:
        """Return the context of a call that is running, or one that belongs to no call."""
        found = None if call is None else self._contexts.get(call)
        return Context(self.engine, Deadline(None)) if found is None else found

    def notify(self, method: str, params: Params) -> None:
        """Tell the process something that needs no answer."""
        if self._bridge is not None:
            self._bridge.notify(method, params)

    # Requests about calls and the process

    def _answers(self) -> dict[str, Answer]:
        return {
            "failed": self._report_failure,
            "boundaryContext": lambda params: boundary_context(self.engine.session, params.get("entries") or []),
            "streamEvent": self._stream_event,
            "loginNews": self._login_news,
            "bashOutput": self._bash_output,
            "flush": lambda params: self.engine.send_held(),
        }

    def _stream_event(self, params: Params) -> None:
        context = self._contexts.get(params["call"])
        if isinstance(context, StreamContext):
            context.events.put_nowait(params["event"])
            if context.events.qsize() > _MOST_EVENTS and self._bridge is not None:
                self._bridge.kill(f"an extension streamed {_MOST_EVENTS:,} events faster than they can be sent to the host")

    def _bash_output(self, params: Params) -> None:
        context = self._contexts.get(params["call"])
        if isinstance(context, BashRunContext):
            context.add(params["data"])

    def _login_news(self, params: Params) -> None:
        context = self._contexts.get(params["call"])
        if isinstance(context, LoginContext):
            context.show(params)

    async def _intercept(self, params: Params, report: Callable[[Any], None]) -> Any:
        """An extension that calls its model itself shows what it sends or receives."""
        context = self._contexts.get(params["call"])
        return await context.intercept(params["kind"], params.get("value")) if isinstance(context, StreamContext) else None

    async def _ask_login(self, params: Params, report: Callable[[Any], None]) -> Any:
        context = self._contexts.get(params["call"])
        return await context.ask(params) if isinstance(context, LoginContext) else None

    def _report_failure(self, params: Params) -> None:
        """An extension failed outside any call."""
        loaded = self._loaded.get(params.get("extension") or 0)
        error = RemoteError(params["error"]["message"], params["error"].get("stack") or "")
        self.engine.report("extension" if loaded is None else loaded[1].path, params.get("event") or "uncaught", error)


class Signals:
    """Gives cancellation tokens numbers, which become abort signals in the process.

    `abort` is called with the number of a token that fires.
    """

    def __init__(self, abort: Callable[[int], None]) -> None:
        self._abort = abort
        self._next = 0
        #: The token of the run that was asked for last, and its number.
        self._run: tuple[CancelToken, int] | None = None

    def of_run(self, cancel: CancelToken) -> int:
        """Return the number of the token of a run. Each run has one."""
        if self._run is None or self._run[0] is not cancel:
            self._run = cancel, self._number(cancel)[0]
        return self._run[1]

    @contextmanager
    def of_call(self, cancel: CancelToken | None) -> Generator[int | None]:
        """Give a token a number while a call runs."""
        if cancel is None:
            yield None
            return
        number, forget = self._number(cancel)
        try:
            yield number
        finally:
            forget()

    def _number(self, cancel: CancelToken) -> tuple[int, Callable[[], object]]:
        self._next += 1
        number = self._next
        return number, cancel.on_fire(lambda: self._abort(number))


class QuietMessages:
    """Adds messages of extensions that must not start or continue a turn. Like pi, it waits for the end of the present turn."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: list[CustomMessage] = []
        self.close = session.subscribe(self._on_turn_end, kinds=(TurnEnd, AgentEnd))

    def add(self, message: CustomMessage) -> None:
        """Add a message when the turn ends, or the run if its last turn has ended."""
        self._waiting.append(message)

    def _on_turn_end(self, event: Event) -> None:
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self._session.history.conversation.add(message)
            self._session.host.notify(MessageStart(message))
            self._session.host.notify(MessageEnd(message))
