"""Builds the agent that a command line asks for."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from msgspec.structs import replace

from fairlead import __version__
from fairlead.agent import Agent
from fairlead.agent.options import AgentOptions, Discovery, Storage
from fairlead.cli.console import complain, remark
from fairlead.cli.flags import Arguments, Flag, UsageError, parse, unknown_flag
from fairlead.config.home import expand_user, working_directory
from fairlead.config.project_files import read_bytes
from fairlead.config.settings import ApprovalMode
from fairlead.core.events import AgentStart, Event
from fairlead.core.lenient import scrub_text
from fairlead.errors import ConfigError
from fairlead.models.model_patterns import LEVEL_NAMES
from fairlead.session.behaviour import Behaviour
from fairlead.sessions import catalogue as session_places
from fairlead.stores import listing
from fairlead.tools import DEFAULT_TOOLS

if TYPE_CHECKING:
    from fairlead.core.model import ThinkingLevel
    from fairlead.models.http.exchange import HttpTap
    from fairlead.models.model_patterns import ModelChoice
    from fairlead.wire.dialects import Program
    from fairlead.wire.pi.profile import Profile


#: How pi names the extensions that it brings along. What they do is part of fairlead, or there is no such thing.
_BUILT_IN = "builtin:"
#: What the modes of omp are called here, and the units of `--max-time`, in seconds.
_OMP_MODES: Mapping[str, ApprovalMode] = {"always-ask": "ask", "write": "write", "yolo": "auto"}
_UNITS = {"s": 1, "m": 60, "h": 3600}
_MOST_SECONDS = 1e9
#: The largest number of digits in a number that a flag takes.
_DIGITS = 9


def build_agent(arguments: Arguments, profile: Profile | None, program: Program) -> Agent:
    agent = Agent(agent_options(arguments, profile, program))
    log_choices(agent, None if profile is None else profile.name)
    return agent


def agent_options(
    arguments: Arguments, profile: Profile | None, program: Program, http_tap: HttpTap | None = None
) -> AgentOptions:
    """Return the options of the agent that the flags describe, with the defaults of a dialect and the home of a program.

    `http_tap` sees the requests to providers.
    """
    options = AgentOptions(
        exclude_tools=_names(arguments.exclude_tools),
        add_dirs=_directories(arguments.add_dir),
        append_system_prompt=[_text_or_file(text) for text in arguments.append_system_prompt],
        extensions=[path for path in arguments.extension if not path.startswith(_BUILT_IN)],
        discovery=Discovery(
            context_files=not arguments.no_context_files,
            rules=not arguments.no_rules,
            find_skills=not arguments.no_skills,
            find_prompt_templates=not arguments.no_prompt_templates,
            skills=arguments.skill,
            prompt_templates=arguments.prompt_template,
            find_mcp=not arguments.no_mcp,
            mcp_config=arguments.mcp_config,
            find_extensions=not arguments.no_extensions,
            **list_given(arguments, "extension_errors"),
        ),
        trust=_read_trust(arguments),
        isolated=arguments.isolated,
        cwd=working_directory(),
        keep=not arguments.no_session,
        resume=arguments.resume or arguments.resume_named == "" or arguments.session == "" or _resumes_latest(arguments),
        **list_given(arguments, "provider", "base_url", "model_file", "model", "api_key"),
        **list_given(arguments, "fork", "session_id", "sandbox"),
        store=Storage(arguments.session_dir, **list_given(arguments, "durability")),
        thinking=_level(arguments.thinking),
        approval=_approval(arguments),
        max_turns=_count("--max-turns", arguments.max_turns),
        max_cost=_dollars("--max-cost", arguments.max_cost),
    )
    if arguments.session and arguments.resume_named:
        raise ConfigError("--session and --resume ask for different sessions. Give one of them.")
    options.session = arguments.session or arguments.resume_named or None
    if arguments.system_prompt is not None:
        options.system_prompt = _text_or_file(arguments.system_prompt)
    options.behaviour = _behaviour(arguments, profile, program, http_tap)
    if arguments.tools is not None:
        _choose_tools(options, _names(arguments.tools))
    elif arguments.no_tools:
        options.tools = []
    return options


def _behaviour(arguments: Arguments, profile: Profile | None, program: Program, http_tap: HttpTap | None) -> Behaviour:
    """Return the behaviour that the flags describe, with that of a profile."""
    behaviour = Behaviour() if profile is None else profile.behaviour
    default_tools, small_model_tools = behaviour.default_tools, DEFAULT_TOOLS
    if profile is not None:
        if arguments.mode == "rpc-ui":
            default_tools = (*default_tools, "ask")
        names_dialect = arguments.dialect is not None or program.dialect is not None
        if names_dialect:  # a host of that program expects its tools, whatever the model is
            small_model_tools = default_tools
        elif arguments.mode in (None, "text"):  # people
            default_tools = DEFAULT_TOOLS
    return replace(
        behaviour,
        default_tools=() if arguments.no_builtin_tools else default_tools,
        small_model_tools=small_model_tools,
        mode=_mode(arguments),
        least_approval=_least_approval(arguments, program),
        peer_home=program.home,
        models=_names(arguments.models),
        extension_flags=_for_extensions(arguments),
        session_name=arguments.name,
        provider_session_id=arguments.provider_session_id,
        warn=remark,
        alert=_alert,
        http_tap=http_tap,
    )


def _least_approval(arguments: Arguments, program: Program) -> ApprovalMode:
    """Return the mode in which the program that fairlead stands in for would serve an ACP client."""
    serves_acp = "acp" in (arguments.mode, arguments.dialect)
    return program.dialect.acp_approval if serves_acp and program.dialect is not None else "auto"


def _alert(warning: str) -> None:
    complain(f"fairlead: {warning}")


def _choose_tools(options: AgentOptions, entries: Sequence[str]) -> None:
    """Use the tools of `--tools`: names and patterns, or only changes to the default such as `+grep`. Raises ConfigError."""
    changes = [entry for entry in entries if entry.startswith(("+", "-"))]
    if not changes:
        options.tools = entries
        return
    if len(changes) < len(entries):
        raise ConfigError("--tools: tool names cannot be mixed with +name or -name entries")
    if patterns := [entry for entry in changes if "*" in entry]:
        raise ConfigError(f"--tools: +name and -name entries take exact tool names, not patterns: {', '.join(patterns)}")
    added = [entry[1:] for entry in changes if entry[0] == "+"]
    removed = [entry[1:] for entry in changes if entry[0] == "-"]
    behaviour = options.behaviour
    options.behaviour = replace(
        behaviour,
        default_tools=[*dict.fromkeys([*behaviour.default_tools, *added])],
        small_model_tools=[*dict.fromkeys([*behaviour.small_model_tools, *added])],
    )
    options.exclude_tools = [*options.exclude_tools, *removed]


def _level(name: str | None) -> ThinkingLevel | None:
    """Return the thinking level with this name. An unknown one leaves a remark and the default level."""
    if name is None:
        return None

    if name.lower() not in LEVEL_NAMES:
        remark(f'Invalid thinking level "{name}". The levels are: {", ".join(LEVEL_NAMES)}')
    return LEVEL_NAMES.get(name.lower())


def _approval(arguments: Arguments) -> ApprovalMode | None:
    """Return the stricter of `--approval` and what a flag of omp asks for. None if there is no such flag."""
    wanted: list[ApprovalMode] = []
    if arguments.approval is not None:
        wanted.append(cast("ApprovalMode", arguments.approval))
    named = arguments.approval_mode or ("yolo" if arguments.yolo else None)
    if named is not None:
        wanted.append(_OMP_MODES[named])
    return max(wanted, key=get_args(ApprovalMode).index, default=None)


def _directories(names: Sequence[str]) -> list[Path]:
    """Return the directories with these names. Raises ConfigError if one does not exist."""
    folders = [expand_user(name).absolute() for name in names]
    for folder in folders:
        if not os.path.isdir(folder):
            raise ConfigError(f"--add-dir {folder}: there is no such directory.")
    return folders


async def choose_model(agent: Agent) -> ModelChoice:
    """Choose a model for a person who has not named one, and say on stderr if it runs on this machine. Raises ConfigError.

    Without a model nothing is said: a prompt may be a command of an extension, which needs none.
    """
    choice = await agent.choose_model()
    if choice.is_local:
        complain(f"fairlead: {choice.why}")
    return choice


def limit_time(agent: Agent, arguments: Arguments, on_abort: Callable[[], None] | None = None) -> None:
    """Abort the run that is active when the time of `--max-time` is over, and every later run.

    Calls `on_abort` before it does.
    """
    if arguments.max_time is None:
        return

    loop = asyncio.get_running_loop()
    seconds = max_seconds(arguments.max_time)
    aborts: set[asyncio.Task[None]] = set()

    def abort() -> None:
        if on_abort is not None:
            on_abort()
        aborts.add(loop.create_task(agent.session.abort()))

    def abort_if_late(event: Event) -> None:
        if loop.time() >= end:
            loop.call_soon(abort)

    end = loop.time() + seconds
    loop.call_later(seconds, abort)
    agent.session.subscribe(abort_if_late, kinds=(AgentStart,))


def max_seconds(text: str) -> float:
    """Return the seconds of a time such as `90`, `5s`, `10m` or `1h`. Raises UsageError."""
    number, factor = text.strip(), 1
    if number[-1:] in _UNITS:
        number, factor = number[:-1], _UNITS[number[-1:]]
    try:
        seconds = float(number) * factor
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < _MOST_SECONDS:
        raise UsageError(f"--max-time: expected a number of seconds, or a time such as 5s, 10m or 1h, got {text!r}.")
    return seconds


def _for_extensions(arguments: Arguments) -> dict[str, str | None]:
    """Return the flags that extensions may read: those that fairlead does not have, and the limits, which it gained later."""
    flags = {name.lstrip("-"): value for name, value in arguments.ignored.items()}
    gained = {"max-turns": arguments.max_turns, "max-cost": arguments.max_cost}
    flags |= {name: value for name, value in gained.items() if value is not None}
    return {**flags, **arguments.unknown}


def _dollars(flag: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        amount = float(text.removeprefix("$"))
    except ValueError:
        amount = 0.0
    if not 0 < amount < math.inf:
        raise UsageError(f"{flag}: expected an amount in US dollars above 0, such as 2.50, got {text!r}.")
    return amount


def _count(flag: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise UsageError(f"{flag}: expected a whole number of at least 0, got {text!r}.")
    return int(text)


def _mode(arguments: Arguments) -> Literal["rpc", "print", "json"]:
    if arguments.mode == "json":
        return "json"
    return "print" if arguments.mode in (None, "text") else "rpc"


def _read_trust(arguments: Arguments) -> bool | None:
    """Whether the flags trust the project for this run; None if they do not say."""
    if arguments.approve and arguments.no_approve:
        raise ConfigError("--approve and --no-approve contradict each other. Give one of them.")
    return True if arguments.approve else False if arguments.no_approve else None


def log_choices(agent: Agent, dialect: str | None) -> None:
    """Log the version, the dialect, and the model, tools and home in use."""
    log = logging.getLogger("fairlead.cli")
    if not log.isEnabledFor(logging.INFO):
        return
    session, home = agent.session, agent.home
    model = session.model
    chosen = f"{model.provider}/{model.id} at {model.base_url}, thinking {session.thinking}" if model else "none"
    log.info("version %s%s", __version__, f", dialect {dialect}" if dialect else "")
    log.info("model %s", chosen)
    log.info("tools %s", ", ".join(session.tools.active) or "none")
    log.info("home %s%s", home.root, ", not read" if home.isolated else "")


def list_given(arguments: Arguments, *names: str) -> dict[str, Any]:
    """Return the values of these flags, without the flags that were not given."""
    return {name: value for name in names if (value := getattr(arguments, name)) is not None}


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()] if text else []


def _resumes_latest(arguments: Arguments) -> bool:
    """Whether an interrupted run is resumed without naming its session."""
    named = arguments.session or arguments.resume_named or arguments.session_id or arguments.fork
    return arguments.resume_run and named is None


def _text_or_file(text: str) -> str:
    """Return the contents of the file with this name if it exists, otherwise the text itself."""
    try:
        is_file = len(text) < 1024 and os.path.isfile(text)
    except (OSError, ValueError):
        is_file = False  # too long for a name, or in a directory that cannot be read: use it as a text
    data = read_bytes(Path(text)) if is_file else None
    return scrub_text(text if data is None else data.decode("utf-8", "replace"))


@contextmanager
def stdout_to_stderr() -> Generator[None]:
    """Send what extensions and their child processes print to stderr while the block runs."""
    sys.stdout.flush()
    kept = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, sys.stdout.fileno())
        os.close(kept)


async def parse_extension_flags(agent: Agent, argv: Sequence[str], arguments: Arguments) -> Arguments:
    """Parse the command line again if it has flags of extensions. Raises UsageError for a flag that no extension has."""
    if not arguments.unknown:
        return arguments
    await agent.extensions.load()
    known = [
        Flag((f"--{flag.name}",), "", "switch" if flag.type == "boolean" else "value", flag.description, "VALUE")
        for flag in agent.extensions.flags()
    ]
    for name in arguments.unknown:
        if not any(f"--{name}" in flag.names for flag in known):
            raise UsageError(unknown_flag(f"--{name}", [name for flag in known for name in flag.names]))
    return parse(argv, known)


def with_resumed_name(argv: Sequence[str], word: str, places: session_places.SessionPlaces) -> Sequence[str] | None:
    """Return a command line in which `--resume NAME` is `--resume=FILE`; None if no session has the name `word` or an
    id with it. `last` is the session that changed last. Raises SessionError if `word` is part of several ids.

    `--resume` needs no value, so the word after it may also be a prompt. It is a name if a session has it.
    """
    found = [places.choose(word)] if word == session_places.LAST else listing.sessions_named(word, places.folder, places.root)
    if not found and len(word.split()) == 1 and listing.matching_sessions(word, places.folder, places.root):
        found = [places.choose(word)]  # part of an id that is too short to be taken for one by itself
    if not found:
        return None
    at = next(index for index, flag in enumerate(argv) if flag in ("-r", "--resume") and argv[index + 1 : index + 2] == [word])
    return [*argv[:at], f"--resume={found[0]}", *argv[at + 2 :]]
