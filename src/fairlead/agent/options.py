"""The options of an agent."""

# Annotations are evaluated here, not kept as strings: `check` reads them at every start and must cost almost nothing.
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin

from msgspec import Meta, Struct
from msgspec.structs import replace

from fairlead.agent.mcp_server import McpServer
from fairlead.agent.tool_sets import ToolSet
from fairlead.config.home import PeerHome
from fairlead.config.settings import ApprovalMode, RateLimit, SandboxMode, SettingsGroup
from fairlead.core.approval import ApprovalAnswer, ApprovalRequest
from fairlead.core.model import Model, ModelStream, ThinkingLevel
from fairlead.core.queues import InterruptMode
from fairlead.core.tool import Schedule, Tool
from fairlead.errors import BadOption
from fairlead.extend.extensions.late import Mode, OnError
from fairlead.models.http.exchange import HttpTap
from fairlead.session.context.tokens import DEFAULT_RESERVE_TOKENS
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.sessions import ConversationStore
from fairlead.stores.paths import Durability
from fairlead.stores.store import SessionStore
from fairlead.tools import BUILTIN_NAMES, DEFAULT_TOOLS

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from fairlead.core.events import Event
    from fairlead.extend.extensions.events import Amend, Block, Handled, Input, ToolCallEvent, ToolResultEvent, Transform

#: Tools that are created together with the part of the session they act on, and only if the model may use them.
TODO_WRITE, TASK, ASK = "todo_write", "task", "ask"

#: What `on_approval` returns: an answer, True or False, or None for no answer.
Decision: TypeAlias = ApprovalAnswer | bool | None
OnApproval: TypeAlias = Callable[[ApprovalRequest], Decision | Awaitable[Decision]]

T = TypeVar("T")
#: What a hook returns: a value, from a plain function or from a coroutine function.
Returned: TypeAlias = T | Awaitable[T]


class Hooks(Struct, frozen=True, kw_only=True):
    """Functions of the program that an agent calls. Each may be a plain or a coroutine function.

    The first three get the values that handlers of extensions get, and return the same; see `fairlead.extension`. They come after
    all extensions, so that they see what really happens, and they also cover the tool calls of sub-agents. A plain function runs
    on a thread and may block. A hook that raises, or that takes longer than the setting `extensionTimeoutSeconds`, stops what it
    was asked about: the tool does not run, its result is replaced by the error, and the prompt raises the error.
    """

    #: Called before a tool runs. `Block(reason)` prevents that. Changes to `event.arguments` apply, after another check against
    #: the tool's schema. Approvals come later, and see the changed arguments.
    before_tool: "Callable[[ToolCallEvent], Returned[Block | None]] | None" = None
    #: Called with the result of each tool that ran. `Amend` changes it.
    after_tool: "Callable[[ToolResultEvent], Returned[Amend | None]] | None" = None
    #: Called with each message of the user. `Transform` changes it. `Handled()` drops it: no run starts.
    before_prompt: "Callable[[Input], Returned[Transform | Handled | None]] | None" = None
    #: Called with each event, in order. A plain function runs on the event loop, while the agent waits, and must not block. A
    #: coroutine function runs beside the agent, which waits only when too many events have piled up. What it raises is logged.
    on_event: "Callable[[Event], Returned[object]] | None" = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise TypeError(f"hooks: {name}: expected a function or None, found {value!r}.")


class Telemetry(Struct, frozen=True, kw_only=True):
    """What an agent records with OpenTelemetry."""

    #: Whether spans hold the prompts, answers, and arguments and results of tools. They may be long, and hold secrets.
    content: bool = False
    #: The name of the agent in spans.
    agent_name: str = "fairlead"
    #: Where spans and metrics go; None: the providers that the program has set for the whole process.
    tracer_provider: "TracerProvider | None" = None
    meter_provider: "MeterProvider | None" = None


class Confinement(Struct, frozen=True, kw_only=True):
    """What a session may not leave. Links are resolved before anything is compared.

    It restricts which session a client can open and where that works, not what the tools can reach: a sandbox does that.
    """

    #: The directory that holds every working directory; None: they may be anywhere.
    root: Path | None = None
    #: The directory that holds every session file; None: they may be anywhere.
    sessions: Path | None = None
    #: Whether several users share the home, so that no session may change its keys, settings and decisions.
    shares_home: bool = False

    def allows(self, folder: str | Path) -> bool:
        """Whether a session may work in a directory, which need not exist. Raises ValueError if no path can be so."""
        return self.root is None or Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(self.root))


class AgentOptions(Struct, kw_only=True):
    """The options of an agent. The defaults are those of the command."""

    #: A pattern (`provider/id`, an id, a glob, each with `:level`), or a model with its own `stream`.
    model: str | Model | None = None
    stream: ModelStream | None = None
    provider: str | None = None
    #: The address of the provider's server. A provider that is not known speaks OpenAI's Chat Completions API.
    base_url: str | None = None
    #: A GGUF file whose weights llama.cpp runs on this machine. It is the model, unless `model` names another.
    model_file: str | Path | None = None
    #: Patterns for the models to cycle through.
    models: Sequence[str] = ()
    api_key: str | None = None
    thinking: ThinkingLevel | None = None
    #: Limits of all agents of the process, by the name of the provider, `*` for any other; None: those of the settings.
    rate_limits: Mapping[str, RateLimit] | None = None
    #: Of the requests that wait for such a limit, those with a higher priority come first.
    priority: int = 0
    cwd: str | Path = "."
    #: Other directories of the workspace. The model is told about them. A sandbox lets commands read them.
    add_dirs: Sequence[str | Path] = ()
    #: The environment for keys and commands. None: the environment of this process.
    env: Mapping[str, str] | None = None
    #: Replaces fairlead's part of the system prompt.
    system_prompt: str | None = None
    append_system_prompt: Sequence[str] = ()
    #: Guidelines to add to fairlead's part of the system prompt.
    advice: Sequence[str] = ()
    #: Whether a prompt first looks for the key of its model, and is refused without one. Otherwise its run starts and fails.
    waits_for_key: bool = True
    #: Whether to read AGENTS.md and CLAUDE.md, and to look for skills and prompt templates in the usual directories.
    context_files: bool = True
    find_skills: bool = True
    find_prompt_templates: bool = True
    #: Additional skills and templates: files, or directories of files.
    skills: Sequence[str | Path] = ()
    prompt_templates: Sequence[str | Path] = ()
    #: Whether to look for MCP servers in the usual files, and additional files to read.
    find_mcp: bool = True
    mcp_config: Sequence[str | Path] = ()
    #: MCP servers of this agent alone, by name. They need no file and no trust, and replace servers of the same name in files.
    mcp_servers: Mapping[str, McpServer] = {}
    #: Additional extensions, as files or directories, and whether to look for others in the usual directories, in the
    #: settings and in installed packages.
    extensions: Sequence[str | Path] = ()
    find_extensions: bool = True
    #: What to do when an extension in `extensions` or in the user's settings cannot be loaded: `exit` refuses every prompt,
    #: `continue` reports the error and works without the extension.
    extension_errors: OnError = "exit"
    #: The program's own functions to call before and after tool calls, before prompts, and with events.
    hooks: Hooks | None = None
    #: Flags for extensions, each with its value if it has one.
    extension_flags: Mapping[str, str | None] = {}
    #: How the agent is used. Extensions can read this.
    mode: Mode = "library"
    #: The tools that the model may use, and no others: names, patterns in which `*` stands for anything, functions, and `Tool`s.
    #: None: `default_tools`.
    tools: Sequence[str | Tool | Callable[..., Any]] | None = None
    exclude_tools: Sequence[str] = ()
    default_tools: Sequence[str] = DEFAULT_TOOLS
    #: Those of `default_tools` that a model with a small context window may use.
    small_model_tools: Sequence[str] = DEFAULT_TOOLS
    #: Tools that replace the built-in ones. None: the built-in tools.
    tool_set: ToolSet | None = None
    #: Functions and `Tool`s that the model may use besides those that `tools` or `default_tools` names.
    extra_tools: Sequence[Tool | Callable[..., Any]] = ()
    #: Whether the stream rules of the user and the project apply.
    rules: bool = True
    #: Whether the project may run its own extensions and servers. None: what the user decided earlier.
    approve: bool | None = None
    #: What to do when a tool wants to change something and no rule in the settings applies: `auto`, `ask` or `deny`. None: what
    #: the settings say.
    approval: ApprovalMode | None = None
    #: Called with each tool call that needs approval, instead of asking the user. It returns `Allow`, `Deny`, True or False; all
    #: else refuses the call. Without `approval`, the mode is then `ask`, unless the settings deny.
    on_approval: OnApproval | None = None
    #: `workspace` runs commands in a sandbox. None: what the settings say.
    sandbox: SandboxMode | None = None
    #: How many model calls a prompt may take before its run ends with an error. 0: no limit. None: what the settings say.
    max_turns: Annotated[int, Meta(ge=0)] | None = None
    #: How many US dollars a prompt to `Agent.run` or `Agent.ask` may cost, with its retries, sub-agents and repairs, before its
    #: run ends with an error. None: no limit.
    max_cost: Annotated[float, Meta(gt=0)] | None = None
    #: How many seconds a prompt to `Agent.run` or `Agent.ask` may take before its run is aborted. None: no limit.
    timeout: Annotated[float, Meta(gt=0)] | None = None
    #: Read no user configuration. Keys come only from the environment or `api_key`.
    isolated: bool = False
    #: Where a program that fairlead stands in for keeps its files. They are used unless `FAIRLEAD_HOME` is set.
    peer_home: PeerHome | None = None
    #: Whether to save conversations in files, in the home or in `session_dir`. None: save only one that the options below
    #: name. False: not even that one; it is copied into memory.
    keep: bool | None = None
    session_dir: str | Path | None = None
    #: Resume a session: the path of its file, or the beginning of its id. If the file does not exist, start a session there.
    session: str | Path | None = None
    #: Resume the session that changed last. If there is none, start a new session.
    resume: bool = False
    #: Start with a copy of a session: the path of its file, or the beginning of its id.
    fork: str | Path | None = None
    #: Resume the session with exactly this id, or start it.
    session_id: str | None = None
    #: A function that chooses the conversation, instead of the options above.
    conversation: Callable[[ConversationStore], Conversation] | None = None
    #: Keeps the sessions instead of files. `session`, `fork` and `session_id` are then ids. The owner of leases is named
    #: `lease_owner`; None: a name that no other process has. A session whose lease cannot be renewed for so many seconds is lost.
    store: SessionStore | None = None
    lease_owner: str | None = None
    lease_seconds: Annotated[float, Meta(gt=0)] = 15.0
    session_name: str | None = None
    #: The id of the session that providers and hosts of omp see. None: the id of the conversation.
    provider_session_id: str | None = None
    #: With `fsync`, saved entries also survive a power cut.
    durability: Durability = "flush"
    #: How many tokens of the context window compaction leaves free, unless the user's settings say otherwise.
    compaction_reserve: Annotated[int, Meta(ge=0)] = DEFAULT_RESERVE_TOKENS
    #: Whether the model makes a plan before the first prompt of a session, unless the user's settings say otherwise.
    eager_todos: bool = False
    #: Whether queued messages are dropped when the session goes to another conversation.
    drops_queue: bool = False
    #: Whether a thinking level that a model lacks comes back with a model that has it.
    keeps_level: bool = True
    #: Whether a new session keeps the model and the thinking level of the one before. Otherwise it begins with the first ones.
    keeps_model: bool = True
    #: Whether the result of `write` says how many bytes were written.
    counts_written_bytes: bool = True
    schedule: Schedule = "together"
    interrupt: InterruptMode = "wait"
    #: What to record with OpenTelemetry. True and a `Telemetry` need the package `opentelemetry-api`. None records if the program
    #: has imported `opentelemetry.trace` before it makes the agent, and False never.
    telemetry: Telemetry | bool | None = None
    #: What the session may not leave; None: it may work anywhere, and open every session file.
    confinement: Confinement | None = None
    #: Groups of settings that keep their built-in defaults, whatever the user's files say.
    reset_settings: Sequence[SettingsGroup] = ()
    #: Called with a sentence for each part of the configuration that cannot be used.
    warn: Callable[[str], None] | None = None
    #: Called instead of `warn` for what protects the user: settings and stream rules. None: `warn`.
    alert: Callable[[str], None] | None = None
    #: Sees the requests to providers and their responses, except those of logins.
    http_tap: HttpTap | None = None
    #: Seconds between two reads of an answer that arrives in small pieces. A longer time takes less CPU and delays updates.
    read_interval: float = 0.016

    def wants_tool(self, name: str) -> bool:
        """Whether the model may use a tool that is added later."""
        names = self.tool_names()
        return not self.excludes_tool(name) and (names is None or _is_named(name, names))

    def excludes_tool(self, name: str) -> bool:
        """Whether `exclude_tools` names a tool."""
        return _is_named(name, self.exclude_tools)

    def wanted_tools(self) -> list[str]:
        """Return the names of the tools that the model may use. Not valid for a `tool_set` without `tools`."""
        names = self.tool_names()
        chosen = self.default_tools if names is None else names
        if any(map(is_pattern, chosen)):
            known = dict.fromkeys([*BUILTIN_NAMES, TODO_WRITE, TASK, *self.default_tools])
            chosen = [name for name in (*known, *chosen) if not is_pattern(name) and self.wants_tool(name)]
        wanted = dict.fromkeys([*chosen, *(tool.name for tool in self.own_tools())])
        return [name for name in wanted if not self.excludes_tool(name)]

    def with_own_tools(self) -> "AgentOptions":
        """Return the options with a tool in `extra_tools` for each function and `Tool`, so that `tools` has only names.

        Raises TypeError if a function cannot be a tool, and BadOption if a name is taken.
        """
        named = self.tools is None or all(isinstance(each, str) for each in self.tools)
        if named and all(isinstance(each, Tool) for each in self.extra_tools):
            return self
        from fairlead.agent.functions import made_tools

        taken = [*BUILTIN_NAMES, TODO_WRITE, TASK, ASK]
        listed = None if self.tools is None else made_tools("tools", self.tools, taken)
        own = [each for each in listed or () if not isinstance(each, str)]
        return replace(
            self,
            tools=None if listed is None else [each if isinstance(each, str) else each.name for each in listed],
            extra_tools=made_tools("extra_tools", [*own, *self.extra_tools], taken),
        )

    def tool_names(self) -> list[str] | None:
        """Return the names and patterns in `tools`, or None if it is not given."""
        return None if self.tools is None else [each for each in self.tools if isinstance(each, str)]

    def own_tools(self) -> list[Tool]:
        """Return the tools that the program brings. Valid after `with_own_tools`."""
        return [each for each in self.extra_tools if isinstance(each, Tool)]

    def check(self) -> None:
        """Raise BadOption if the value of an option does not match its type above.

        Protection must not fail open: a misspelt mode would otherwise mean no protection.
        """
        defaults = AgentOptions()
        given = [name for name in self.__struct_fields__ if getattr(self, name) is not getattr(defaults, name)]
        hints = AgentOptions.__annotations__
        for name in given:
            value = getattr(self, name)
            check_value(name, value, hints[name])
            if any("\0" in str(path) for path in _paths(value, hints[name])):
                raise BadOption(f"{name}: expected a path, found {value!r}, which contains a NUL character.")
        for name, server in self.mcp_servers.items():
            for field in server.__struct_fields__:
                check_value(f"mcp_servers: {name}: {field}", getattr(server, field), McpServer.__annotations__[field])


def check_value(name: str, value: Any, hint: Any) -> None:
    """Raise BadOption if the value of the option `name` does not match its type."""
    if not _fits(value, hint):
        raise BadOption(f"{name}: expected {_in_words(hint)}, found {_found(value, hint)}.{_meant(value, hint)}")


def _paths(value: Any, hint: Any) -> Sequence[Any]:
    """Return the paths in the value of an option, if the option takes paths."""
    alternatives = _alternatives(hint)
    if value is None:
        return ()
    if Path in alternatives:
        return [value]
    is_list = any(get_origin(each) is Sequence and Path in _alternatives(get_args(each)[0]) for each in alternatives)
    return value if is_list else ()


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a question that names the closest of the `known` names, or an empty string."""
    from difflib import get_close_matches

    close = get_close_matches(name.lower(), list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def is_pattern(entry: str) -> bool:
    """Whether an entry of `tools` or `exclude_tools` is a pattern."""
    return "*" in entry


def _is_named(name: str, entries: Sequence[str]) -> bool:
    if name in entries:
        return True
    if not any(map(is_pattern, entries)):
        return False
    from fnmatch import fnmatchcase

    return any(is_pattern(entry) and fnmatchcase(name, entry) for entry in entries)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value matches a type. Here True is not an int, and a string is not a sequence of strings."""
    origin, parameters = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in parameters)
    if origin is Literal:
        return isinstance(value, str) and value in parameters
    if origin is Annotated:
        (meta,) = parameters[1:]
        return _fits(value, parameters[0]) and (meta.ge is None or value >= meta.ge) and (meta.gt is None or value > meta.gt)
    if origin is Sequence:
        is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return is_list and all(_fits(each, parameters[0]) for each in cast("Sequence[Any]", value))
    if origin is Mapping:
        items = cast("Mapping[Any, Any]", value).items() if isinstance(value, Mapping) else None
        return items is not None and all(_fits(key, parameters[0]) and _fits(each, parameters[1]) for key, each in items)
    if hint is SessionStore:
        return isinstance(value, SessionStore) and not isinstance(value, type)
    if origin is Callable or getattr(hint, "_is_protocol", False):
        return callable(value)
    if hint in (int, float):
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    return isinstance(value, hint)


def _in_words(hint: Any) -> str:
    """Describe the values that an option takes, for an error message."""
    origin, parameters = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_in_words(each) for each in parameters)
    if origin is Literal:
        return " or ".join(repr(each) for each in parameters)
    if origin is Annotated:
        (meta,) = parameters[1:]
        return f"{_in_words(parameters[0])} {f'of at least {meta.ge}' if meta.gt is None else f'greater than {meta.gt}'}"
    if origin is Sequence:
        return f"a list in which each item is {_in_words(parameters[0])}"
    if origin is Mapping:
        return f"a mapping in which each key is {_in_words(parameters[0])} and each value {_in_words(parameters[1])}"
    if (origin is Callable or getattr(hint, "_is_protocol", False)) and hint is not SessionStore:
        return "something to call"
    named = {NoneType: "None", bool: "True or False", int: "a whole number", float: "a number", str: "a string"}
    return named.get(cast("Any", hint)) or _with_article(hint.__name__)


def _found(value: Any, hint: Any) -> str:
    """Describe a value that does not match its type. In a list, name the first item that is to blame."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = cast("Sequence[Any]", value)
        for each in _alternatives(hint):
            if get_origin(each) is Sequence:
                index = next((index for index, item in enumerate(items) if not _fits(item, get_args(each)[0])), None)
                if index is not None:
                    return f"{_shown(items[index])} as item {index}"
    return _shown(value)


def _meant(value: Any, hint: Any) -> str:
    """Suggest the closest of the names that an option takes."""
    names = [name for each in _alternatives(hint) if get_origin(each) is Literal for name in get_args(each)]
    return suggestion(value, names) if isinstance(value, str) else ""


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _shown(value: Any) -> str:
    if isinstance(value, str | int | float) or value is None:
        return repr(value)
    return f"the class {value.__name__}" if isinstance(value, type) else _with_article(type(cast("object", value)).__name__)


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
