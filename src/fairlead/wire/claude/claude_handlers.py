"""Handlers for the prompts and the control requests of a host of the claude dialect."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, UnsetType, to_builtins
from msgspec.structs import replace

from fairlead.agent.tool_sets.claude import AGENTS, check_output_schema, read_agents
from fairlead.config.project_files import read_start
from fairlead.core.model import Model
from fairlead.errors import ModelNotFound
from fairlead.models.registry import Registry
from fairlead.protocol.claude import frames
from fairlead.protocol.claude import host as h
from fairlead.session.context.tokens import CHARACTERS_PER_TOKEN
from fairlead.session.subagents import subagent
from fairlead.wire.claude.claude_codec import CANCEL, USER, VARIABLES, ControlError, encode, read_content
from fairlead.wire.claude.claude_narrator import Prompt
from fairlead.wire.claude.user_settings import GIVEN, find_level, read_given
from fairlead.wire.routing import Answer, Late, Request, RequestRoute, RouteTable

if TYPE_CHECKING:
    from fairlead.wire.claude.claude_server import ClaudeOptions, ClaudeServer

#: What hosts may start with a slash.
COMMANDS = {
    "compact": ("Replace the conversation so far by a summary", "[instructions]"),
    "clear": ("Begin another session", ""),
    "context": ("Say how much of the context window is used", ""),
    "cost": ("Say what the session has used", ""),
    "model": ("Say which model answers, or choose another one", "[model]"),
}
#: How many characters of a description become a title.
LONGEST_TITLE = 60
#: How many bytes of a file a host gets: a line has to be shorter than 1 MiB, also if every character is escaped.
LARGEST_READ = 128 * 1024
CAPABILITIES = ["interrupt_receipt_v1", "interrupt_cancel_queued_v1"]


def _user(server: ClaudeServer, line: h.User) -> None:
    text, images = read_content(line.message.content)
    server.turns.submit(Prompt(text, images, line.message.content, line.uuid, is_plain=line.client_composed is True))


async def _initialize(server: ClaudeServer, request: h.Initialize) -> h.Initialized | Late:
    if not server.has_agent:
        server.hooks.use(request.hooks)
        _use_initialize(server.options, request)
    elif request.hooks:
        raise ControlError("Hooks have to come before the first prompt, and before other requests about the session.")
    in_host = {name: {"type": "sdk", "name": name} for name in request.sdk_mcp_servers or ()}
    server.servers.want({**in_host, **(request.mcp_servers or {})})
    return Late(_greet_servers(server)) if server.servers.has_some_in_host else _describe_session(server)


async def _greet_servers(server: ClaudeServer) -> Answer:
    """Answer `initialize` once the servers in the host have answered their first message."""
    await server.servers.greet()
    return Answer(_describe_session(server), server.servers.on_answered)


def _describe_session(server: ClaudeServer) -> h.Initialized:
    models = [_describe(model) for model in server.agent.registry.available()]
    return h.Initialized(
        commands=list_commands(server),
        agents=[h.AgentInfo(name=name, description=text) for name, text in _list_agents(server)],
        models=[h.ModelInfo(value="default", display_name="Default", description="The default model"), *models],
        account=h.Account(api_key_source=server.key_source(), api_provider="firstParty", token_source="none"),
        output_style="default",
        available_output_styles=["default"],
        pid=os.getpid(),
        claude_code_version=server.options.version,
        current_permission_mode=server.consent.mode,
        hook_on_failure_supported=True,
        session_state="running" if server.is_running else "idle",
        capabilities=CAPABILITIES,
    )


def _use_initialize(options: ClaudeOptions, request: h.Initialize) -> None:
    """Change the options as `initialize` says, before there is an agent."""
    if request.json_schema is not None:
        check_output_schema(request.json_schema)
    agent, prompt = options.agent, request.system_prompt
    if prompt is not None:
        agent = replace(agent, system_prompt="\n\n".join(prompt) if isinstance(prompt, list) else prompt)
    if request.append_system_prompt:
        agent = replace(agent, append_system_prompt=[*agent.append_system_prompt, request.append_system_prompt])
    options.agent = agent
    options.agents = {**options.agents, **read_agents(request.agents or {}, options.agent.behaviour.warn or (lambda text: None))}
    options.schema = request.json_schema or options.schema
    if request.forward_subagent_text:
        options.wanted.subagent_texts = True


def list_commands(server: ClaudeServer) -> list[h.SlashCommand]:
    """Return what a prompt can begin with: the commands and skills of users, then our own commands."""
    found = {
        command.name: h.SlashCommand(
            name=command.name, description=f"{command.description} ({command.origin.scope})", argument_hint=command.hint
        )
        for command in server.session.additions.slash_commands()
    }
    for name, (text, hint) in COMMANDS.items():  # ours win: `/clear` of a project must not reach the model
        found[name] = h.SlashCommand(name=name, description=text, argument_hint=hint)
    return list(found.values())


def _list_agents(server: ClaudeServer) -> list[tuple[str, str]]:
    return [(name, agent.description) for name, agent in {**AGENTS, **server.options.agents}.items()]


def match_model(registry: Registry, name: str) -> Model:
    """Return the model with a name. An unknown name without a provider means a model of
    Anthropic. Raises ModelNotFound."""
    try:
        return registry.match(name)[0]
    except ModelNotFound:
        if "/" in name:
            raise
        return registry.match(f"anthropic/{name}")[0]


def model_name(model: Model | None) -> str:
    """Return the name of a model for hosts, which `set_model` understands."""
    if model is None:
        return ""
    return model.id if model.provider == "anthropic" else f"{model.provider}/{model.id}"


def _describe(model: Model) -> h.ModelInfo:
    efforts = [level for level in model.levels() if level in ("low", "medium", "high", "xhigh", "max")]
    return h.ModelInfo(
        value=model_name(model),
        display_name=model.name,
        description=f"{model.provider}/{model.id}",
        resolved_model=model.id,
        supports_effort=bool(efforts),
        supported_effort_levels=efforts or UNSET,
    )


def _interrupt(server: ClaudeServer, request: h.Interrupt) -> h.Interrupted:
    turns = server.turns
    cancelled: list[str] | UnsetType = UNSET
    if request.cancel_queued:
        cancelled = [uuid for uuid in turns.list_waiting() if turns.drop(uuid)]
    turns.interrupt()
    return h.Interrupted(still_queued=turns.list_waiting(), cancelled=cancelled)


def _is_for_running_turn(server: ClaudeServer, request: Request, earlier: Iterable[Request]) -> bool:
    """Whether an interrupt that waits behind a slow request is meant for the turn that runs: no prompt waits before it."""
    return not any(each.name == USER for each in earlier)


def _set_permission_mode(server: ClaudeServer, request: h.SetPermissionMode) -> Answer:
    server.consent.set_mode(request.mode)
    return Answer(h.PermissionModeSet(mode=server.consent.mode), server.send_mode)


def _set_model(server: ClaudeServer, request: h.SetModel) -> h.ModelSet:
    return h.ModelSet(model=server.choose_model(request.model))


def _set_thinking(server: ClaudeServer, request: h.SetMaxThinkingTokens) -> None:
    tokens = request.max_thinking_tokens
    if tokens is None:
        level = server.options.agent.thinking or server.agent.settings.default_thinking_level or "medium"
    else:
        level = find_level(tokens)
    server.session.models.set_thinking(level)


def _get_settings(server: ClaudeServer, request: h.GetSettings) -> h.SettingsInUse:
    level = server.session.thinking
    applied = h.AppliedSettings(model=model_name(server.session.model), effort=None if level == "off" else level)
    effective: dict[str, Any] = {}
    for _, settings in server.options.settings:
        effective |= settings
    sources = [{"source": source, "settings": settings} for source, settings in server.options.settings]
    return h.SettingsInUse(effective=effective, sources=sources, applied=applied)


def _apply_settings(server: ClaudeServer, request: h.ApplyFlagSettings) -> None:
    given = request.settings
    settings = read_given(given, server.session.host.workspace.cwd)
    model = None if settings.model is None else server.find_model(settings.model)
    if settings.mode is not None:
        server.consent.set_mode(settings.mode)
        server.send_mode()
    if model is not None:
        server.session.models.set_model(model.provider, model.id)
    if settings.effort is not None:
        server.session.models.set_thinking(settings.effort)
    server.options.environment.update(settings.env)
    if "permissions" in given:
        server.consent.change_rules(lambda: server.consent.rules.replace(GIVEN, settings.rules[GIVEN]))
    server.options.settings = [*server.options.settings, ("flagSettings", given)]


async def _mcp_status(server: ClaudeServer, request: h.McpStatus) -> h.McpServers:
    return await server.servers.describe()


async def _mcp_toggle(server: ClaudeServer, request: h.McpToggle) -> None:
    await server.servers.set_enabled(request.server_name, enabled=request.enabled)


async def _mcp_reconnect(server: ClaudeServer, request: h.McpReconnect) -> None:
    await server.servers.reconnect(request.server_name)


async def _mcp_set_servers(server: ClaudeServer, request: h.McpSetServers) -> h.McpServersSet:
    return await server.servers.replace(request.servers)


async def _mcp_message(server: ClaudeServer, request: h.McpServerMessage) -> None:
    await server.servers.receive(request.server_name, request.message)


async def _mcp_call(server: ClaudeServer, request: h.McpCall) -> dict[str, Any]:
    return await server.servers.call(request.tool, request.arguments or {}, request.timeout_ms)


async def _mcp_read_resource(server: ClaudeServer, request: h.McpReadResource) -> dict[str, Any]:
    uri = request.uri
    return await server.servers.request(request.server_name, f"Reading {uri}", lambda session: session.read_resource(uri))


def _context_usage(server: ClaudeServer, request: h.GetContextUsage) -> h.ContextUsage:
    session = server.session
    usage = session.usage.context
    used, window = (0, 0) if usage is None else (usage.tokens or 0, usage.window)
    sizes = {name: _estimate(tool.spec()) for name, tool in session.tools.list_declared().items()}
    of_servers = {name: tokens for name, tokens in sizes.items() if name.startswith("mcp__")}
    prompt = -(-len(session.additions.system_prompt()) // CHARACTERS_PER_TOKEN)
    own, servers = sum(sizes.values()) - sum(of_servers.values()), sum(of_servers.values())
    # Before the first answer, nothing is known but estimates.
    total = max(used, prompt + own + servers)
    parts = [
        h.ContextCategory(id=id, name=name, tokens=tokens, color="text", kind="used")
        for id, name, tokens in (
            ("system_prompt", "System prompt", prompt),
            ("system_tools", "System tools", own),
            ("mcp_tools", "MCP tools", servers),
            ("messages", "Messages", max(0, total - prompt - own - servers)),
        )
        if tokens
    ]
    left = max(0, window - total)
    return h.ContextUsage(
        categories=[*parts, h.ContextCategory(id="free_space", name="Free space", tokens=left, color="inactive", kind="free")],
        total_tokens=total,
        max_tokens=window,
        raw_max_tokens=window,
        percentage=round(total / window * 100) if window else 0,
        grid_rows=[],
        model=model_name(session.model),
        memory_files=[{"path": str(path)} for path in session.additions.context_files()],
        mcp_tools=[h.ContextPart(name=name, tokens=tokens) for name, tokens in of_servers.items()],
        agents=[],
        is_auto_compact_enabled=session.activity.auto_compaction,
    )


def _estimate(value: Any) -> int:
    return -(-len(encode(value)) // CHARACTERS_PER_TOKEN)


def _cancel_message(server: ClaudeServer, request: h.CancelAsyncMessage) -> h.Cancelled:
    return h.Cancelled(cancelled=server.turns.drop(request.message_uuid))


async def _stop_task(server: ClaudeServer, request: h.StopTask) -> dict[str, Any]:
    subagents = server.session.subagents
    child = None if subagents is None else subagents.family.stop(request.task_id)
    if child is None:
        raise ControlError(f"No task runs with the id {request.task_id}.")
    await child.ended.wait()
    return {}


def _background_tasks(server: ClaudeServer, request: h.BackgroundTasks) -> dict[str, Any]:
    if server.narrator.is_in_calls:
        raise ControlError("Calls that run cannot be moved to the background.", "unsupported_request")
    return {}


def _rename(server: ClaudeServer, request: h.RenameSession) -> None:
    server.session.history.set_name(request.title)
    server.narrator.send(frames.SessionTitleChanged(title=request.title, **server.narrator.common))


def _generate_title(server: ClaudeServer, request: h.GenerateSessionTitle) -> h.SessionTitle:
    title = subagent.cut(" ".join(request.description.split()), LONGEST_TITLE)
    if title and request.persist:
        _rename(server, h.RenameSession(title=title))
    return h.SessionTitle(title=title or None)


def _list_rules(server: ClaudeServer, request: h.ListPermissionRules) -> h.PermissionRulesListed:
    workspace = server.session.host.workspace
    return h.PermissionRulesListed(
        state=h.PermissionRulesState(
            rules=server.consent.rules.describe(),
            workspace_directories=[{"path": str(folder), "source": "session"} for folder in workspace.more],
            original_cwd=str(workspace.cwd),
            managed_only=False,
        )
    )


def _session_cost(server: ClaudeServer, request: h.GetSessionCost) -> h.SessionCost:
    return h.SessionCost(text=server.narrator.spent.format())


def _usage(server: ClaudeServer, request: h.GetUsage) -> h.UsageSoFar:
    spent = server.narrator.spent
    return h.UsageSoFar(
        session=h.SpentInSession(
            total_cost_usd=spent.total,
            total_api_duration_ms=server.narrator.api_ms,
            total_duration_ms=round((time.monotonic() - server.began) * 1000),
            model_usage=to_builtins(spent.frames()),
        )
    )


async def _read_file(server: ClaudeServer, request: h.ReadFile) -> h.FileRead:
    workspace = server.session.host.workspace
    folders = [workspace.cwd, *workspace.more]
    most = min(request.max_bytes or LARGEST_READ, LARGEST_READ)
    return await asyncio.to_thread(_read_inside, workspace.resolve(request.path), folders, request.path, most)


def _read_inside(path: Path, folders: Sequence[Path], requested: str, most: int) -> h.FileRead:
    """Read the beginning of a file that is in one of the folders. Raises ControlError."""
    real = Path(os.path.realpath(path))
    if not any(real.is_relative_to(os.path.realpath(folder)) for folder in folders):
        raise ControlError(f"read denied: {requested} is outside the working directory")
    if not real.is_file():
        raise ControlError(f"read denied: {requested} is not a file")
    try:
        data = read_start(real, most + 1)
    except OSError as error:
        raise ControlError(f"read denied: {requested}: {error.strerror or error}") from None
    text = data[:most].decode("utf-8", "replace")
    lossy = len(data) > most or "\ufffd" in text
    return h.FileRead(contents=text, abs_path=str(real), lossy=lossy, requested_path=requested)


async def _reload_skills(server: ClaudeServer, request: h.ReloadSkills) -> h.SkillsReloaded:
    additions = server.session.additions
    additions.reload()
    await additions.prepare()
    skills = [h.SlashCommand(name=each.name, description=each.description, argument_hint="") for each in additions.skills()]
    return h.SkillsReloaded(skills=skills)


def _version(server: ClaudeServer, request: h.GetBinaryVersion) -> h.BinaryVersion:
    return h.BinaryVersion(version=server.options.version)


def _list_models(server: ClaudeServer, request: h.ListModels) -> h.Models:
    return h.Models(models=[_describe(model) for model in server.agent.registry.available()])


def _end_session(server: ClaudeServer, request: h.EndSession) -> None:
    server.turns.has_failed = False
    server.dispatcher.stopping = True


def _cancel_request(server: ClaudeServer, line: h.ControlCancelRequest) -> None:
    server.dispatcher.cancel(encode(line.request_id).strip())


def _set_variables(server: ClaudeServer, line: h.UpdateEnvironmentVariables) -> None:
    server.options.environment.update(line.variables)


_LINES = {h.User: USER, h.ControlCancelRequest: CANCEL, h.UpdateEnvironmentVariables: VARIABLES}


def find_name(declaration: type[Struct]) -> str:
    return _LINES.get(declaration) or str(declaration.__struct_config__.tag)  # pyright: ignore[reportArgumentType]


ROUTES: tuple[RequestRoute, ...] = (
    RequestRoute(h.User, _user),
    RequestRoute(h.ControlCancelRequest, _cancel_request, when="now"),
    RequestRoute(h.UpdateEnvironmentVariables, _set_variables),
    RequestRoute(h.Initialize, _initialize),
    RequestRoute(h.Interrupt, _interrupt, urgent=_is_for_running_turn),
    RequestRoute(h.SetPermissionMode, _set_permission_mode),
    RequestRoute(h.SetModel, _set_model),
    RequestRoute(h.SetMaxThinkingTokens, _set_thinking),
    RequestRoute(h.GetSettings, _get_settings),
    RequestRoute(h.ApplyFlagSettings, _apply_settings),
    RequestRoute(h.McpStatus, _mcp_status, when="late"),
    RequestRoute(h.McpToggle, _mcp_toggle),
    RequestRoute(h.McpReconnect, _mcp_reconnect),
    RequestRoute(h.McpSetServers, _mcp_set_servers),
    RequestRoute(h.McpServerMessage, _mcp_message, when="late"),
    RequestRoute(h.McpCall, _mcp_call, when="late"),
    RequestRoute(h.McpReadResource, _mcp_read_resource, when="late"),
    RequestRoute(h.GetContextUsage, _context_usage),
    RequestRoute(h.CancelAsyncMessage, _cancel_message),
    RequestRoute(h.StopTask, _stop_task, when="late"),
    RequestRoute(h.BackgroundTasks, _background_tasks),
    RequestRoute(h.RenameSession, _rename),
    RequestRoute(h.GenerateSessionTitle, _generate_title),
    RequestRoute(h.ListPermissionRules, _list_rules),
    RequestRoute(h.GetSessionCost, _session_cost),
    RequestRoute(h.GetUsage, _usage),
    RequestRoute(h.ReadFile, _read_file),
    RequestRoute(h.ReloadSkills, _reload_skills),
    RequestRoute(h.GetBinaryVersion, _version),
    RequestRoute(h.ListModels, _list_models),
    RequestRoute(h.EndSession, _end_session),
)


def routes() -> RouteTable:
    """Return the routes of the protocol."""
    return RouteTable(find_name, ROUTES)
