"""Serves one host that uses claude-agent-sdk, with one session. The agent is made when it is first needed: `initialize` may
change it."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from fairlead.agent import Agent
from fairlead.agent.options import AgentOptions
from fairlead.agent.tool_sets.claude import AGENTS, ALIASES, claude_tools
from fairlead.config.settings import OutputSettings
from fairlead.core.model import Model
from fairlead.core.runtime import CancelToken
from fairlead.errors import ConfigError, FairleadError, ModelNotFound
from fairlead.protocol.claude import frames
from fairlead.protocol.schema import claude, typescript
from fairlead.session.history.claude_files import new_uuid
from fairlead.session.session import Session
from fairlead.session.subagents.agent_kinds import AgentDefinition
from fairlead.tools.claude.interactive import Interaction
from fairlead.wire.claude import claude_handlers
from fairlead.wire.claude.claude_codec import BadPrompt, ClaudeCodec, encode, fit
from fairlead.wire.claude.claude_narrator import Narrator, WantedFrames, make_refusal
from fairlead.wire.claude.command_hooks import CommandHooks, Hook
from fairlead.wire.claude.consent import APPROVALS, Consent
from fairlead.wire.claude.host_hooks import HostHooks
from fairlead.wire.claude.host_servers import HostServers
from fairlead.wire.claude.permission_rules import PermissionRules
from fairlead.wire.claude.turns import TurnLimits, Turns
from fairlead.wire.dialects import ServeOptions
from fairlead.wire.dispatcher import Dispatcher
from fairlead.wire.host_connection import Connection
from fairlead.wire.host_process import HostProcess
from fairlead.wire.pending import Questions
from fairlead.wire.routing import HostReply, Request
from fairlead.wire.stdio import StdioTransport

#: The release that hosts see unless a launcher names another one.
VERSION = "2.1.326"
#: How much of a session file one frame has at most, unless a line is longer.
MIRROR_BYTES = 256 * 1024


class ClaudeOptions(Struct, kw_only=True):
    """How to serve a host, as its flags say."""

    #: The options of the agent, without those that the server decides.
    agent: AgentOptions
    version: str = VERSION
    mode: str = "default"
    #: Whether `bypassPermissions` may be chosen later.
    may_bypass: bool = False
    #: Who is asked about calls: `stdio` is the host, with `can_use_tool`; else the name of a tool. None: no one.
    asks: str | None = None
    #: The rules about calls.
    rules: PermissionRules = msgspec.field(default_factory=PermissionRules)
    #: Which frames the host wants.
    wanted: WantedFrames = msgspec.field(default_factory=WantedFrames)
    #: The names of the tools that are offered; None: all.
    tools: Sequence[str] | None = None
    #: The MCP servers that the host wants, by name, as it wrote them.
    mcp_servers: Mapping[str, Any] = {}
    #: Kinds of sub-agents that the host defines.
    agents: Mapping[str, AgentDefinition] = {}
    #: The settings of the files that were read, with their source, and a sentence for everything in files that is not used.
    settings: Sequence[tuple[str, dict[str, Any]]] = ()
    remarks: Sequence[str] = ()
    #: The lines of session files that the host has not got yet, if it wants them, each with its file.
    mirrored: list[tuple[Path, bytes]] = []
    #: The kind of sub-agent whose instructions, tools and model the session itself has.
    acting_as: str | None = None
    #: The commands of the settings that are hooks, by event, and whether frames report each.
    hooks: Mapping[str, Sequence[Hook]] = {}
    shows_hooks: bool = False
    #: The environment of commands, which the host may change.
    environment: dict[str, str] = {}
    #: The schema of the output that the host wants.
    schema: dict[str, Any] | None = None
    #: The models that answer while the chosen one is overloaded.
    fallbacks: Sequence[str] = ()
    max_turns: int | None = None
    max_budget: float | None = None
    #: Who wants frames about the state of the session.
    state_frames: Literal["no one", "sdk", "host"] = "no one"
    #: `json` is the result alone, with `verbose` a list of all frames; `text` the text of the result.
    output: str = "stream-json"
    verbose: bool = True


class ClaudeServer:
    """Implements `fairlead.wire.host_process.HostServer` and `fairlead.wire.routing.Service`."""

    def __init__(self, connection: Connection, options: ClaudeOptions) -> None:
        self.codec = ClaudeCodec(self._refuse)
        self.routes = claude_handlers.routes()
        self.output = connection.output
        self.send = connection.output.send if options.output == "stream-json" else _Outcome(connection.output.send, options)
        self.options = options
        self.began = time.monotonic()
        self.questions = Questions(self.send, new_uuid)
        self.consent = Consent(
            self.questions,
            options.rules,
            options.mode,
            may_bypass=options.may_bypass,
            asks=options.asks,
            session=lambda: self.session,
            on_mode=self.send_mode,
            send_state=self._send_state,
            warn=self._warn,
            interrupt=lambda: self.turns.interrupt(),
        )
        self.dispatcher = Dispatcher(connection, self)
        self.servers = HostServers(self.questions, lambda: self.agent, options.mcp_servers)
        self.consent.find_server = self.servers.find_source_of_tool
        self.hooks = HostHooks(
            self.questions,
            self.consent,
            self._describe_session,
            lambda text, level: self.narrator.inform(text, level),
            CommandHooks(
                options.hooks,
                lambda: self.session.host.workspace,
                lambda frame: self.narrator.send(frame),
                lambda: self.narrator.common,
                shows_all=options.shows_hooks,
            ),
        )
        #: Called when an interrupt signal has come: the process ends after the turn.
        self._was_signalled = False
        #: Whether the agent could not be made when it was needed.
        self._cannot_start = False
        self.on_interrupt_signal: Callable[[], None] = lambda: None

    # The session

    @cached_property
    def agent(self) -> Agent:
        """The agent, which begins here. Raises ConfigError if it cannot be made as the command line says."""
        chosen = self.options
        kind = None if chosen.acting_as is None else _find_kind(chosen.acting_as, chosen.agents)
        base = chosen.agent if kind is None else _act_as(chosen.agent, kind)
        options = replace(
            base,
            approval=APPROVALS[self.consent.mode],
            behaviour=replace(
                base.behaviour,
                handlers=self.hooks.handlers,
                asker=lambda: self.consent,
                approval_rules=self.consent.rules.collect(),
                file_tools=("Read", "Edit"),
            ),
            tools=claude_tools(
                chosen.tools,
                agents=chosen.agents,
                acting_as=kind,
                schema=chosen.schema,
                with_tasks=chosen.environment.get("CLAUDE_CODE_ENABLE_TASKS") != "0",
                interaction=Interaction(
                    take_answers=self.consent.take_answers,
                    enter_plan=self.consent.enter_plan,
                    leave_plan=self.consent.leave_plan,
                )
                if self.consent.can_ask
                else None,
                on_output=self._take_output,
            ),
        )
        try:
            agent = Agent(options)
        except ModelNotFound:
            name = options.model
            if not isinstance(name, str) or "/" in name:
                raise
            agent = Agent(replace(options, model=f"anthropic/{name}"))
        self.hooks.connect(agent.session)
        return agent

    @property
    def has_agent(self) -> bool:
        """Whether the agent was made."""
        return "agent" in self.__dict__

    @property
    def session(self) -> Session:
        return self.agent.session

    @cached_property
    def narrator(self) -> Narrator:
        return Narrator(self.send, self.session, self.options.wanted, self.consent.asked)

    @cached_property
    def turns(self) -> Turns:
        chosen = self.options
        wants_output = chosen.schema is not None
        limits = TurnLimits(chosen.max_turns, chosen.max_budget, chosen.fallbacks, wants_output=wants_output)
        return Turns(
            self.session,
            self.narrator,
            limits,
            hooks=self.hooks,
            prepare=self._prepare,
            begin=self.make_init,
            on_state=self._send_state,
            choose_model=self.choose_model,
            remarks=self.options.remarks,
            before_result=self.send_mirror,
            gate=self.output,
        )

    @property
    def _opened(self) -> Turns | None:
        """The turns, if there was a session so far."""
        return self.__dict__.get("turns")

    async def _prepare(self, cancel: CancelToken) -> None:
        await self.agent.extensions.load_required()
        await self.agent.extensions.find_model()
        await self.servers.ready(cancel)

    def make_init(self) -> frames.Init:
        """Return the frame with which a turn begins."""
        names = self.session.tools.active
        return frames.Init(
            cwd=str(self.session.host.workspace.cwd),
            tools=["Task" if name == "Agent" else name for name in names],
            mcp_servers=self.servers.list_names(),
            model=claude_handlers.model_name(self.session.model),
            permission_mode=self.consent.mode,
            slash_commands=[command.name for command in claude_handlers.list_commands(self)],
            api_key_source=self.key_source(),
            claude_code_version=self.options.version,
            output_style="default",
            agents=list(dict.fromkeys((*AGENTS, *self.options.agents))),
            skills=[skill.name for skill in self.session.additions.skills()],
            plugins=[],
            capabilities=claude_handlers.CAPABILITIES,
            fast_mode_state="off",
            **self.narrator.common,
        )

    def key_source(self) -> str:
        """Return where the key of the model comes from: the name of a variable, or `none`."""
        model = self.session.model
        source = None if model is None else self.agent.registry.key_source(model.provider)
        return "none" if source is None else source.rpartition(" ")[2]

    def find_model(self, name: str | None) -> Model:
        """Return the model with a name that a host gives. Raises ModelNotFound."""
        registry = self.agent.registry
        if name is None or name == "default":
            model = registry.default(self.agent.settings)
            if model is None:
                raise ModelNotFound("There is no default model: no provider has a key.")
            return model
        return claude_handlers.match_model(registry, name)

    def choose_model(self, name: str | None) -> str:
        """Set the model with a name that a host gives. Returns the name of the model. Raises ModelNotFound."""
        model = self.find_model(name)
        self.session.models.set_model(model.provider, model.id)
        return claude_handlers.model_name(model)

    def _describe_session(self) -> dict[str, Any]:
        """Return what the input of every hook says about the session."""
        history = self.session.history
        return {
            "session_id": history.conversation.id,
            "transcript_path": str(history.path or ""),
            "cwd": str(self.session.host.workspace.cwd),
            "permission_mode": self.consent.mode,
        }

    def _warn(self, text: str) -> None:
        self.narrator.inform(text, "warning")

    def _take_output(self, value: Any) -> None:
        if (turn := self.narrator.turn) is not None:
            turn.structured = value

    def _send_state(self, state: Any) -> None:
        wanted = self.options.state_frames
        if wanted != "no one":
            only = {"sdk_host_only": True} if wanted == "sdk" else {}
            self.narrator.send(frames.SessionStateChanged(state=state, **only, **self.narrator.common))

    def send_mirror(self) -> None:
        """Send the host what was written to session files, if it wants that."""
        lines, self.options.mirrored[:] = list(self.options.mirrored), []
        while lines:
            path, entries, size = lines[0][0], list[Raw](), 0
            while lines and lines[0][0] == path and (not entries or size + len(lines[0][1]) < MIRROR_BYTES):
                line = lines.pop(0)[1].strip()
                entries.append(Raw(line))
                size += len(line)
            frame = frames.TranscriptMirror(file_path=str(path), entries=entries, **self.narrator.common)
            self.send(fit(frame))  # also at the end, when the narrator is silent

    def send_mode(self) -> None:
        """Tell the host the permission mode."""
        self.narrator.send(frames.Status(status=None, permission_mode=self.consent.mode, **self.narrator.common))

    # For the dispatcher

    def _refuse(self, error: BaseException) -> Sequence[bytes]:
        """Report a line that could not be read, or a prompt that could not be accepted."""
        try:
            narrator = self.narrator
        except FairleadError as problem:  # there is no agent, and so no session
            self._cannot_start = True
            return [encode(make_refusal(str(error if isinstance(error, BadPrompt) else problem)))]
        if isinstance(error, BadPrompt):
            result = narrator.make_result("error_during_execution", is_error=True, queued=0, errors=[str(error)])
            return [encode(result)]
        return [encode(frames.Informational(level="error", content=str(error), **narrator.common))]

    def call_when_written(self, action: Callable[[], object]) -> None:
        if self.has_agent:
            self.session.history.call_when_written(action)
        else:
            action()

    def receive_reply(self, reply: HostReply) -> None:
        self.questions.receive(reply)

    def prerequisite(self, request: Request) -> Coroutine[Any, Any, Any] | None:
        return None

    def serving(self, request: Request) -> AbstractContextManager[None]:
        return nullcontext()

    # For the process

    @property
    def is_running(self) -> bool:
        return self._opened is not None and self._opened.is_running

    @property
    def exit_code(self) -> int:
        if self._cannot_start and not self.has_agent:
            return 1
        return 1 if self._opened is not None and self._opened.has_failed and not self._was_signalled else 0

    async def serve(self) -> None:
        await self.dispatcher.serve()

    def cancel(self, *, resumable: bool = False) -> None:
        if self._opened is None:
            return
        if resumable:
            self.narrator.mute()
            self.session.activity.cancel(resumable=True)
        else:
            self._opened.interrupt()
            self._was_signalled = True
            self.on_interrupt_signal()

    def host_left(self) -> None:
        self.questions.host_left()

    async def idle(self) -> None:
        if self._opened is not None:
            await self._opened.idle()

    async def late_answers(self) -> None:
        await self.dispatcher.late_answers()

    async def close(self) -> None:
        if self.has_agent:
            await self.session.close()
            self.send_mirror()

    def warm_up(self) -> None:
        self.agent.warm_up()

    def clear_leftovers(self) -> None:
        if self.has_agent:
            self.agent.clear_leftovers()

    def kill_children(self) -> None:
        if self.has_agent:
            self.agent.kill_children()


def _find_kind(name: str, agents: Mapping[str, AgentDefinition]) -> AgentDefinition:
    kinds = {**AGENTS, **agents}
    if name not in kinds:
        raise ConfigError(f"There is no agent {name!r}. The agents are: {', '.join(kinds)}.")
    return kinds[name]


def _act_as(options: AgentOptions, kind: AgentDefinition) -> AgentOptions:
    """Return the options of a session that is a kind of sub-agent itself."""
    prompt = "\n\n".join(filter(None, [options.system_prompt, kind.prompt]))
    return replace(options, system_prompt=prompt, model=options.model or (None if kind.model in ALIASES else kind.model))


class _Outcome:
    """Sends the outcome of a one-shot run instead of all frames."""

    def __init__(self, send: Callable[[bytes], None], options: ClaudeOptions) -> None:
        self._send = send
        self._options = options
        self._lines: list[bytes] = []

    def __call__(self, line: bytes) -> None:
        if self._options.output == "json" and self._options.verbose:
            self._lines.append(line.strip())
        frame: dict[str, Any] = msgspec.json.decode(line)
        if frame["type"] != "result":
            return
        if self._lines:
            self._send(b"[" + b",".join(self._lines) + b"]\n")
        elif self._options.output == "json":
            self._send(line)
        else:
            text = frame.get("result") or "\n".join(frame.get("errors", ()))
            self._send(f"{text}\n".encode())


# The dialect, for `fairlead.wire.dialects`


async def serve(dialect: str, options: ServeOptions) -> int:
    """Serve one host until it leaves. Returns the exit code."""
    return await serve_host(ClaudeOptions(agent=options.agent_options(None), asks="stdio"), options.stdin, options.stdout)


async def serve_host(options: ClaudeOptions, stdin: int, stdout: int) -> int:
    """Serve one host as its flags say. Returns the exit code."""
    output = OutputSettings()
    transport = StdioTransport(stdin, stdout, line_bytes=output.line_bytes)
    servers: list[ClaudeServer] = []

    def make(connection: Connection) -> ClaudeServer:
        servers.append(ClaudeServer(connection, options))
        return servers[0]

    process = HostProcess(make, transport, output, on_eof="finish", exit_code=lambda: servers[0].exit_code)
    servers[0].on_interrupt_signal = process.leave
    return await process.run()


def schema(dialect: str, *, closed: bool = False) -> dict[str, Any]:
    return claude.claude_schema(closed=closed)


def types(dialect: str, title: str) -> str:
    return typescript.claude_types(title)
