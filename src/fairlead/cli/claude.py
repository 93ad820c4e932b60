"""The command line of hosts that start `claude`: its flags, its one-shot modes, and the process that serves the host.

The flags have the names and meanings of Claude Code, and are parsed as it does. One that has no meaning here is accepted with a
line in the log. An unknown flag is one line on stderr and exit code 1.
"""

from __future__ import annotations

import os
import re
import select
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fairlead.agent.options import AgentOptions, Discovery, Storage
from fairlead.agent.tool_sets.claude import AGENTS, TOOL_NAMES, check_output_schema, read_agents
from fairlead.cli import code_cache
from fairlead.cli.console import complain, configure_logging, print_exact, remark
from fairlead.cli.event_loop import new_event_loop
from fairlead.config import trust
from fairlead.config.home import ClaudeFiles, ClaudeSource, Home, user_folder, working_directory
from fairlead.config.project_files import read_bytes
from fairlead.config.settings import RetrySettings
from fairlead.config.settings_files import load_settings
from fairlead.errors import ConfigError, SessionError
from fairlead.models.registry import Registry
from fairlead.session.behaviour import Behaviour
from fairlead.session.history.claude_files import ClaudeArchive, Mirror, Resume
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.current import ConversationStore
from fairlead.wire.claude.claude_codec import encode
from fairlead.wire.claude.claude_narrator import WantedFrames, make_refusal
from fairlead.wire.claude.claude_server import ClaudeOptions, serve_host
from fairlead.wire.claude.consent import APPROVALS
from fairlead.wire.claude.permission_rules import Destination, PermissionRules, read_rules, split_bare
from fairlead.wire.claude.user_settings import EFFORTS, UserSettings, choose_level, read_agent_files, read_settings
from fairlead.wire.dialects import Program
from fairlead.wire.stdio import take_over

#: Seconds that a prompt on the command line waits for more on standard input.
INPUT_PATIENCE = 3.0
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_SOURCES: Sequence[ClaudeSource] = ("user", "project", "local")
Kind: TypeAlias = Literal["switch", "value", "list", "optional"]

#: The flags by their field in `ClaudeFlags`, with their kind. A `list` takes all words up to the next flag, and may be repeated.
_FLAGS: Mapping[str, tuple[Kind, str]] = {
    "print": ("switch", "-p --print"),
    "output_format": ("value", "--output-format"),
    "input_format": ("value", "--input-format"),
    "verbose": ("switch", "--verbose"),
    "model": ("value", "--model"),
    "system_prompt": ("value", "--system-prompt"),
    "system_prompt_file": ("value", "--system-prompt-file"),
    "append_system_prompt": ("value", "--append-system-prompt"),
    "append_system_prompt_file": ("value", "--append-system-prompt-file"),
    "tools": ("list", "--tools"),
    "allowed_tools": ("list", "--allowedTools --allowed-tools"),
    "disallowed_tools": ("list", "--disallowedTools --disallowed-tools"),
    "permission_mode": ("value", "--permission-mode"),
    "permission_prompt_tool": ("value", "--permission-prompt-tool"),
    "permission_prompts": ("value", "--permission-prompts"),
    "skip_permissions": ("switch", "--dangerously-skip-permissions"),
    "may_skip_permissions": ("switch", "--allow-dangerously-skip-permissions"),
    "max_turns": ("value", "--max-turns"),
    "max_budget_usd": ("value", "--max-budget-usd"),
    "max_thinking_tokens": ("value", "--max-thinking-tokens"),
    "effort": ("value", "--effort"),
    "fallback_model": ("value", "--fallback-model"),
    "thinking": ("value", "--thinking"),
    "partial": ("switch", "--include-partial-messages"),
    "replay": ("switch", "--replay-user-messages"),
    "hook_events": ("switch", "--include-hook-events"),
    "subagent_texts": ("switch", "--forward-subagent-text"),
    "agents": ("value", "--agents"),
    "agent": ("value", "--agent"),
    "json_schema": ("value", "--json-schema"),
    "mcp_config": ("list", "--mcp-config"),
    "strict_mcp_config": ("switch", "--strict-mcp-config"),
    "settings": ("value", "--settings"),
    "setting_sources": ("value", "--setting-sources"),
    "add_dir": ("list", "--add-dir"),
    "resume_latest": ("switch", "-c --continue"),
    "resume": ("optional", "-r --resume"),
    "fork_session": ("switch", "--fork-session"),
    "session_id": ("value", "--session-id"),
    "resume_at": ("value", "--resume-session-at"),
    "resume_drops_turn": ("value", "--resume-drops-turn"),
    "session_mirror": ("switch", "--session-mirror"),
    "no_persistence": ("switch", "--no-session-persistence"),
    "version": ("switch", "-v --version"),
    "help": ("switch", "-h --help"),
}
#: Flags that are accepted and have no meaning here.
_IGNORED: Mapping[Kind, str] = {
    "switch": """--debug-to-stderr --await-initialize --bare --ide
        --no-chrome --chrome --disable-slash-commands --mcp-debug""",
    "value": """--task-budget --thinking-display --debug-file
    --managed-settings --project-config-root --name --system-prompt-snapshot --prompt-suggestions""",
    "list": "--plugin-dir --betas --file",
    "optional": "-d --debug",
}
_CHOICES: Mapping[str, Sequence[str]] = {
    "output_format": ("text", "json", "stream-json"),
    "input_format": ("text", "stream-json"),
    "permission_mode": tuple(APPROVALS),
    "permission_prompts": ("host", "none"),
    "effort": EFFORTS,
    "thinking": ("adaptive", "enabled", "disabled"),
}


class ClaudeFlags(Struct, kw_only=True):
    """The parsed command line."""

    print: bool = False
    output_format: str | None = None
    input_format: str = "text"
    verbose: bool = False
    model: str | None = None
    system_prompt: str | None = None
    system_prompt_file: str | None = None
    append_system_prompt: str | None = None
    append_system_prompt_file: str | None = None
    tools: list[str] | None = None
    allowed_tools: list[str] | None = None
    disallowed_tools: list[str] | None = None
    permission_mode: str | None = None
    permission_prompt_tool: str | None = None
    permission_prompts: str = "host"
    skip_permissions: bool = False
    may_skip_permissions: bool = False
    max_turns: str | None = None
    max_budget_usd: str | None = None
    max_thinking_tokens: str | None = None
    effort: str | None = None
    fallback_model: str | None = None
    thinking: str | None = None
    partial: bool = False
    replay: bool = False
    hook_events: bool = False
    subagent_texts: bool = False
    agents: str | None = None
    agent: str | None = None
    json_schema: str | None = None
    mcp_config: list[str] | None = None
    strict_mcp_config: bool = False
    settings: str | None = None
    #: None: all of user, project and local.
    setting_sources: str | None = None
    add_dir: list[str] | None = None
    resume_latest: bool = False
    #: "" for the latest session; None: no flag.
    resume: str | None = None
    fork_session: bool = False
    session_id: str | None = None
    resume_at: str | None = None
    resume_drops_turn: str | None = None
    session_mirror: bool = False
    no_persistence: bool = False
    version: bool = False
    help: bool = False
    words: list[str] = []
    ignored: list[str] = []


def parse(argv: Sequence[str]) -> ClaudeFlags:
    """Parse the command line. Raises ConfigError."""
    known: dict[str, tuple[Kind, str]] = {
        name: (kind, field) for field, (kind, names) in _FLAGS.items() for name in names.split()
    }
    known |= {name: (kind, "") for kind, names in _IGNORED.items() for name in names.split()}
    flags = ClaudeFlags()
    words = list(reversed(argv))
    while words:
        word = words.pop()
        if word == "--":
            flags.words += reversed(words)
            break
        if not word.startswith("-") or word == "-":
            flags.words += [word] if word else []
            continue
        name, has_value, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name not in known:
            raise ConfigError(f"unknown option '{name}'")
        kind, field = known[name]
        found = _take(kind, name, value if has_value else None, words)
        if not field:
            flags.ignored.append(name)
        elif kind == "list":
            setattr(flags, field, [*(getattr(flags, field) or ()), *found])
        else:
            _check_choice(name, field, found)
            setattr(flags, field, found)
    return flags


def _take(kind: Kind, name: str, value: str | None, words: list[str]) -> Any:
    """Return the value of a flag."""
    if kind == "switch":
        return True
    if kind == "optional":
        if value is None:
            value = words.pop() if words and not words[-1].startswith("-") else ""
        return value
    if value is None and not words:
        raise ConfigError(f"option '{name}' needs a value")
    first = words.pop() if value is None else value
    if kind == "value":
        return first
    found = [first]
    while value is None and words and not words[-1].startswith("-"):
        found.append(words.pop())
    return found


def _check_choice(name: str, field: str, value: Any) -> None:
    choices = _CHOICES.get(field)
    if choices is not None and value not in choices:
        raise ConfigError(f"option '{name}': expected {', '.join(choices)}, got '{value}'")


def split_rules(texts: Sequence[str] | None) -> list[str]:
    """Return the rules in lists: they are separated by commas or spaces outside parentheses."""
    found: list[str] = []
    for text in texts or ():
        depth, rule = 0, ""
        for letter in text:
            depth += (letter == "(") - (letter == ")")
            if depth <= 0 and letter in ", \t\n":
                found.append(rule)
                rule = ""
            else:
                rule += letter
        found.append(rule)
    return [rule.strip() for rule in found if rule.strip()]


# Running


def run(argv: Sequence[str], program: Program) -> int:
    """Run the command line of a host that starts `claude`. Returns the exit code."""
    if argv[:2] == ["auth", "status"]:
        return _print_auth_status()
    try:
        flags = parse(argv)
        if flags.version:
            print_exact(program.version_line if program.release is not None else "2.1.326 (Claude Code)")
            return 0
        _check(flags)
        configure_logging(os.environ, default="error", verbose=False, log_file=None)
        for name in flags.ignored:
            remark(f"{name} has no effect here")
        problem = _check_session(flags)
        prompt = None if flags.input_format == "stream-json" or problem is not None else _read_prompt(flags)
        options = _claude_options(flags, program)
    except ConfigError as error:
        complain(f"error: {error}")
        return 1
    if problem is not None:
        return _refuse_start(options, problem)
    _serve(options, prompt)


def _check(flags: ClaudeFlags) -> None:
    """Raise ConfigError for flags that contradict each other."""
    if flags.output_format == "stream-json" and not flags.verbose:
        raise ConfigError("--output-format=stream-json needs --verbose with --print")
    if flags.input_format == "stream-json" and flags.output_format != "stream-json":
        raise ConfigError("--input-format=stream-json needs --output-format=stream-json")
    skips = flags.skip_permissions or flags.may_skip_permissions or flags.permission_mode == "bypassPermissions"
    if skips and not _may_skip():
        raise ConfigError("consent cannot be skipped for the user root. Set IS_SANDBOX=1 inside a sandbox")


def _print_auth_status() -> int:
    """Print where the key comes from, and where sessions are."""
    key = "ANTHROPIC_API_KEY" if os.environ.get("ANTHROPIC_API_KEY") else None
    folder = config_folder(os.environ)
    status = {
        "loggedIn": key is not None or Registry.load(Home.find(os.environ), os.environ).has_usable(),
        "authMethod": "none" if key is None else "api_key",
        "apiProvider": "firstParty",
        "apiKeySource": key,
        "projectsDirectory": str(folder / "projects"),
        "configDirectory": str(folder),
        "loginExpiresAt": None,
    }
    print_exact(msgspec.json.format(msgspec.json.encode(status), indent=2).decode())
    return 0


def config_folder(env: Mapping[str, str]) -> Path:
    """Return the folder that holds the sessions of Claude Code."""
    named = env.get("CLAUDE_CONFIG_DIR")
    return Path(named).absolute() if named else Path(env.get("HOME") or Path.home()) / ".claude"


def _read_prompt(flags: ClaudeFlags) -> str:
    """Return the prompt: the words of the command line, and what is on standard input. Raises ConfigError if there is none."""
    parts = [" ".join(flags.words)]
    if not sys.stdin.isatty() and (not flags.words or _has_input()):
        parts.append(sys.stdin.buffer.read().decode(errors="replace"))
    prompt = "\n".join(part.strip() for part in parts if part.strip())
    if not prompt:
        raise ConfigError("there is no prompt: give one as an argument or on standard input")
    return prompt


def _has_input() -> bool:
    """Whether something comes on standard input soon. A host may leave it open although the prompt is an argument."""
    return bool(select.select([sys.stdin], [], [], INPUT_PATIENCE)[0])


def _claude_options(flags: ClaudeFlags, program: Program) -> ClaudeOptions:
    """Return how to serve the host that gave these flags. Raises ConfigError."""
    env: Mapping[str, str] = os.environ
    emits = env.get("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") == "1"
    reads = env.get("CLAUDE_CODE_SDK_READS_SESSION_STATE") == "1"
    cwd = str(working_directory())
    files, settings = _read_user_files(flags, Path(cwd))
    env = {**env, **settings.env}
    mode = _choose_mode(flags, settings)
    removed, denied = split_bare(split_rules(flags.disallowed_tools))
    rules = {"cliArg": [*read_rules(split_rules(flags.allowed_tools), "allow", cwd), *read_rules(denied, "deny", cwd)]}
    commands = {**env, "CLAUDECODE": "1", "GIT_EDITOR": "true"}
    agents, problems = read_agent_files(files, Path(cwd), user_folder(env), list(AGENTS))
    named = {} if flags.agents is None else read_agents(_read_object("--agents", flags.agents), problems.append)
    remarks = [*settings.remarks, *problems]
    for text in remarks:
        remark(text)
    mirrored: list[tuple[Path, bytes]] = []
    agent = _agent_options(
        flags,
        removed,
        commands,
        settings,
        lambda path, lines: mirrored.extend((path, line) for line in lines),
    )
    return ClaudeOptions(
        agent=replace(agent, behaviour=replace(agent.behaviour, claude_files=files)),
        environment=commands,
        agents={**read_agents(agents), **named},
        remarks=remarks,
        settings=settings.sources,
        mirrored=mirrored,
        mcp_servers={**_read_own_servers(flags, env), **_read_servers(flags.mcp_config or ())},
        tools=[name for name in _read_tools(flags.tools) if name not in removed],
        schema=None if flags.json_schema is None else _read_schema(flags.json_schema),
        acting_as=flags.agent,
        version="2.1.326" if program.release is None else program.release.version,
        mode="default" if mode == "manual" else mode,
        may_bypass=settings.may_bypass and (flags.may_skip_permissions or flags.skip_permissions),
        asks=flags.permission_prompt_tool if flags.permission_prompts == "host" else None,
        hooks=settings.hooks,
        shows_hooks=flags.hook_events,
        rules=PermissionRules({**rules, **settings.rules}, _rule_files(env, cwd), cwd),
        wanted=WantedFrames(partial=flags.partial, replay=flags.replay, subagent_texts=flags.subagent_texts),
        output="text" if flags.output_format is None else flags.output_format,
        verbose=flags.verbose,
        fallbacks=split_rules([flags.fallback_model] if flags.fallback_model else []),
        max_turns=_number("--max-turns", flags.max_turns, int),
        max_budget=_number("--max-budget-usd", flags.max_budget_usd, float),
        state_frames="host" if emits else "sdk" if reads else "no one",
    )


def _read_user_files(flags: ClaudeFlags, cwd: Path) -> tuple[ClaudeFiles, UserSettings]:
    """Return which files of Claude Code's users are read, and what the settings say. Raises ConfigError."""
    env = os.environ
    given = flags.setting_sources
    sources: list[ClaudeSource] = [name for name in _SOURCES if given is None or name in given.replace(" ", "").split(",")]

    @cache
    def is_trusted() -> bool:
        home = Home.find(env)
        default = load_settings(home, cwd)[0].default_project_trust
        return trust.TrustDecider(home, default=default).is_trusted(cwd)

    files = ClaudeFiles(folder=config_folder(env), sources=sources, is_trusted=is_trusted)
    return files, read_settings(files, cwd, flags.settings, user_folder(env))


def _choose_mode(flags: ClaudeFlags, settings: UserSettings) -> str:
    """Return the permission mode: that of the flags, or else of the settings. Raises ConfigError."""
    given = "bypassPermissions" if flags.skip_permissions else flags.permission_mode
    if given is None and settings.mode == "bypassPermissions" and not _may_skip():
        settings.remarks.append("permissions.defaultMode: consent cannot be skipped for the user root")
        return "default"
    mode = given or settings.mode or "default"
    if mode == "bypassPermissions" and not settings.may_bypass:
        if given is not None:
            raise ConfigError("the settings forbid to skip consent (permissions.disableBypassPermissionsMode)")
        return "default"
    return mode


def _may_skip() -> bool:
    return not hasattr(os, "geteuid") or os.geteuid() != 0 or os.environ.get("IS_SANDBOX") == "1"


def _read_tools(texts: list[str] | None) -> Sequence[str]:
    """Return the tools that are offered. `""` means none, and `default` all."""
    if texts is None:
        return TOOL_NAMES
    named = ["Agent" if name == "Task" else name for name in split_rules(texts)]
    return TOOL_NAMES if "default" in named else [name for name in TOOL_NAMES if name in named]


def _read_own_servers(flags: ClaudeFlags, env: Mapping[str, str]) -> dict[str, Any]:
    """Return the MCP servers that the user has added to Claude Code, by name. A file that cannot be read has none."""
    if flags.strict_mcp_config or (flags.setting_sources is not None and "user" not in flags.setting_sources.split(",")):
        return {}
    folder = Path(env["CLAUDE_CONFIG_DIR"]) if env.get("CLAUDE_CONFIG_DIR") else user_folder(env)
    try:
        data = read_bytes(folder / ".claude.json")
        return {} if data is None else msgspec.json.decode(data, type=_McpConfig).mcp_servers
    except (ConfigError, ValueError) as error:
        remark(f"{folder / '.claude.json'}: its MCP servers are left out: {error}")
        return {}


def _read_servers(configs: Sequence[str]) -> dict[str, Any]:
    """Return the MCP servers that the host wants, by name. Raises ConfigError."""
    servers: dict[str, Any] = {}
    for config in configs:
        text = config if config.lstrip().startswith("{") else _read_text("--mcp-config", config)
        try:
            servers |= msgspec.json.decode(text, type=_McpConfig).mcp_servers
        except msgspec.DecodeError as error:
            raise ConfigError(f"option '--mcp-config': {error}") from None
    return servers


class _McpConfig(Struct, rename="camel"):
    mcp_servers: dict[str, Any] = {}


def _read_schema(text: str) -> dict[str, Any]:
    schema = _read_object("--json-schema", text)
    try:
        check_output_schema(schema)
    except ConfigError as error:
        raise ConfigError(f"option '--json-schema': {error}") from None
    return schema


def _read_object(name: str, text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ConfigError(f"option '{name}': {error}") from None


def _rule_files(env: Mapping[str, str], cwd: str) -> dict[str, Destination]:
    """Return the files of settings that answers of the host may change, by their names in updates."""
    project = Path(cwd) / ".claude"
    return {
        "userSettings": Destination(config_folder(env) / "settings.json", None),
        "projectSettings": Destination(project / "settings.json", project),
        "localSettings": Destination(project / "settings.local.json", project),
    }


def _agent_options(
    flags: ClaudeFlags,
    removed: Sequence[str],
    env: Mapping[str, str],
    settings: UserSettings,
    mirror: Mirror,
) -> AgentOptions:
    sources = None if flags.setting_sources is None else flags.setting_sources.split(",")
    system_prompt = flags.system_prompt
    if flags.system_prompt_file is not None:
        system_prompt = _read_text("--system-prompt-file", flags.system_prompt_file)
    appended = [flags.append_system_prompt] if flags.append_system_prompt else []
    if flags.append_system_prompt_file is not None:
        appended.append(_read_text("--append-system-prompt-file", flags.append_system_prompt_file))
    return AgentOptions(
        model=env.get("ANTHROPIC_MODEL") or settings.model if flags.model in (None, "default") else flags.model,
        system_prompt=system_prompt,
        append_system_prompt=appended,
        thinking=choose_level(flags.thinking, flags.effort, flags.max_thinking_tokens) or settings.effort,
        exclude_tools=[pattern for name in removed if name.startswith("mcp__") for pattern in (name, f"{name}__*")],
        cwd=working_directory(),
        add_dirs=[Path(folder) for folder in [*(flags.add_dir or ()), *settings.folders]],
        discovery=Discovery(
            find_extensions=False,
            find_mcp=not flags.strict_mcp_config and (sources is None or "project" in sources),
        ),
        sandbox="workspace" if settings.wants_sandbox else None,
        keep=not flags.no_persistence,
        store=Storage(config_folder(os.environ) / "projects", layout="claude"),
        env=env,
        max_turns=0,
        behaviour=Behaviour(
            mode="rpc",
            schedule="exclusive",
            waits_for_key=False,
            warn=remark,
            retry=_retry(env),
            conversation=partial(_open_session, flags, mirror),
        ),
    )


def _read_resume(flags: ClaudeFlags) -> Resume:
    return Resume(
        name=flags.resume or ("" if flags.resume_latest or flags.resume == "" else None),
        new_id=flags.session_id,
        is_copy=flags.fork_session or flags.no_persistence,
        at=flags.resume_at,
        drops=flags.resume_drops_turn,
    )


def _open_session(flags: ClaudeFlags, mirror: Mirror, sessions: ConversationStore) -> Conversation:
    if flags.session_mirror and isinstance(sessions.archive, ClaudeArchive):
        sessions.archive.mirror = mirror
    return _read_resume(flags).open(sessions)


def _check_session(flags: ClaudeFlags) -> str | None:
    """Return why the session that the flags name cannot be used; None if it can. Raises ConfigError for an id that is in use."""
    archive = ClaudeArchive(projects=config_folder(os.environ) / "projects", cwd=working_directory())
    if flags.session_id is not None:
        if not _UUID.fullmatch(flags.session_id):
            raise ConfigError("option '--session-id': expected a UUID")
        if not flags.resume and not flags.resume_latest and archive.find_file(flags.session_id) is not None:
            raise ConfigError(f"Session ID {flags.session_id} is already in use.")
    try:
        _read_resume(flags).check(archive)
    except SessionError as error:
        return str(error)
    return None


def _refuse_start(options: ClaudeOptions, problem: str) -> int:
    """Say that the session cannot be resumed, in the form that the host wants. Returns the exit code."""
    if options.output == "text":
        complain(problem)
    else:
        print_exact(encode(make_refusal(problem)).decode().strip())
    return 1


def _retry(env: Mapping[str, str]) -> RetrySettings:
    named = env.get("CLAUDE_CODE_MAX_RETRIES", "")
    return RetrySettings(max_retries=int(named) if named.isdecimal() else 10, base_delay_ms=500)


def _number(name: str, text: str | None, kind: type[int] | type[float]) -> Any:
    if text is None:
        return None
    try:
        value = kind(text)
    except ValueError:
        value = -1
    if value <= 0:
        raise ConfigError(f"option '{name}': expected a positive number, got '{text}'")
    return value


def _read_text(name: str, path: str) -> str:
    try:
        data = read_bytes(Path(path))
    except ConfigError as error:
        raise ConfigError(f"{name} {error}") from error
    if data is None:
        raise ConfigError(f"{name} {path}: there is no such file")
    return data.decode("utf-8", "replace")


def _serve(options: ClaudeOptions, prompt: str | None) -> NoReturn:
    """Serve the host; with a prompt, a host that sends that prompt and leaves."""
    stdin, stdout = take_over()
    if prompt is not None:
        stdin = _prompt_as_input(prompt)

    code = new_event_loop().run_until_complete(serve_host(options, stdin, stdout))
    code_cache.save()
    sys.stderr.flush()
    os._exit(code)  # a blocked writer must not keep the process alive


def _prompt_as_input(prompt: str) -> int:
    """Return the end of a pipe that holds a prompt as a host would send it."""
    line = msgspec.json.encode({"type": "user", "message": {"role": "user", "content": prompt}}) + b"\n"
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write(line)

    threading.Thread(target=write, daemon=True).start()
    return reading
