"""The options of an agent."""

# Annotations are evaluated here, not kept as strings: `check` reads them at every start and must cost almost nothing.
import difflib
import fnmatch
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import replace

from fairlead.agent.tool_sets import McpServer, ToolSet
from fairlead.config.settings import ApprovalMode, RateLimit, SandboxMode
from fairlead.core.approval import ApprovalAnswer, ApprovalRequest
from fairlead.core.model import Model, ModelStream, ThinkingLevel
from fairlead.core.tool import Tool
from fairlead.errors import BadOption
from fairlead.extend.extensions.late import OnError
from fairlead.session.behaviour import Behaviour, Confinement
from fairlead.stores.paths import Durability
from fairlead.stores.store import SessionStore
from fairlead.tools import BUILTIN_NAMES

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from fairlead.core.events import Event
    from fairlead.extend.extensions.extension_events import (
        Amend,
        Block,
        Handled,
        Input,
        ToolCallEvent,
        ToolResultEvent,
        Transform,
    )

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


class Discovery(Struct, frozen=True, kw_only=True):
    """Which files of the user and the project an agent looks for in the usual places, and where else it looks."""

    #: Whether to read AGENTS.md and CLAUDE.md.
    context_files: bool = True
    #: Whether the stream rules of the user and the project apply.
    rules: bool = True
    #: Whether to look for skills in the usual directories, and additional ones: files, or directories of files.
    find_skills: bool = True
    skills: Sequence[str | Path] = ()
    #: The same for prompt templates.
    find_prompt_templates: bool = True
    prompt_templates: Sequence[str | Path] = ()
    #: Whether to look for MCP servers in the usual files, and additional files to read.
    find_mcp: bool = True
    mcp_config: Sequence[str | Path] = ()
    #: Whether to look for extensions in the usual directories, in the settings and in installed packages.
    find_extensions: bool = True
    #: What to do when an extension in `extensions` or in the user's settings cannot be loaded: `exit` refuses every prompt,
    #: `continue` reports the error and works without the extension.
    extension_errors: OnError = "exit"


class RateLimits(Struct, frozen=True, kw_only=True):
    """What all agents of a process together may ask of a provider's key, and which of them come first."""

    #: Limits by the name of the provider, `*` for any other; None: those of the settings.
    limits: Mapping[str, RateLimit] | None = None
    #: Of the requests that wait for such a limit, those of agents with a higher priority come first.
    priority: int = 0


class Storage(Struct, frozen=True):
    """Where an agent saves its sessions, and how."""

    #: The directory for session files. None: one in the home.
    folder: str | Path | None = None
    #: With `fsync`, entries in session files also survive a power cut.
    durability: Durability = "flush"
    #: Keeps the sessions instead of files; see `fairlead.stores`.
    store: SessionStore | None = None
    #: The name under which the agent has the leases of its sessions in `store`. None: one that no other process has.
    lease_owner: str | None = None
    #: How long such a lease lasts. The agent renews it. A session that could not be renewed for so long is lost, and its run
    #: ends with `SessionLost`.
    lease_seconds: Annotated[float, Meta(gt=0)] = 15.0
    #: The layout of session files: that of pi; or that of Claude Code, whose SDKs find them in `folder`.
    layout: Literal["pi", "claude"] = "pi"


class AgentOptions(Struct, kw_only=True):
    """The options of an agent. The defaults are those of the command."""

    # The most used

    #: A pattern (`provider/id`, an id, a glob, each with `:level`), or a model with its own `stream`.
    model: str | Model | None = None
    thinking: ThinkingLevel | None = None
    #: The tools that the model may use, and no others: names, patterns in which `*` stands for anything, functions, and `Tool`s.
    #: Or a set of tools that replaces the built-in ones. None: the usual built-in tools.
    tools: Sequence[str | Tool | Callable[..., Any]] | ToolSet | None = None
    cwd: str | Path = "."
    #: Replaces fairlead's part of the system prompt.
    system_prompt: str | None = None
    #: What to do when a tool wants to change something and no rule in the settings applies: `auto`, `ask` or `deny`. None: what
    #: the settings say.
    approval: ApprovalMode | None = None
    #: `workspace` runs commands in a sandbox. None: what the settings say.
    sandbox: SandboxMode | None = None
    #: How many US dollars a prompt to `Agent.run` or `Agent.ask` may cost, with its retries, sub-agents and repairs, before its
    #: run ends with an error. None: no limit.
    max_cost: Annotated[float, Meta(gt=0)] | None = None
    #: How many seconds a prompt to `Agent.run` or `Agent.ask` may take before its run is aborted. None: no limit.
    timeout: Annotated[float, Meta(gt=0)] | None = None
    #: Resume a session: the path of its file, or the beginning of its id. If the file does not exist, start a session there.
    session: str | Path | None = None

    # Model and prompt

    api_key: str | None = None
    provider: str | None = None
    #: The address of the provider's server. A provider that is not known speaks OpenAI's Chat Completions API.
    base_url: str | None = None
    #: A GGUF file whose weights llama.cpp runs on this machine. It is the model, unless `model` names another.
    model_file: str | Path | None = None
    #: Calls the model yourself; needs a `Model` as `model`.
    stream: ModelStream | None = None
    append_system_prompt: Sequence[str] = ()

    # Tools

    #: Functions and `Tool`s that the model may use besides those that `tools` names.
    extra_tools: Sequence[Tool | Callable[..., Any]] = ()
    exclude_tools: Sequence[str] = ()
    #: MCP servers of this agent alone, by name. They need no file and no trust, and replace servers of the same name in files.
    mcp_servers: Mapping[str, McpServer] = {}
    #: Additional extensions, as files or directories.
    extensions: Sequence[str | Path] = ()
    #: The program's own functions to call before and after tool calls, before prompts, and with events.
    hooks: Hooks | None = None

    # Limits

    #: How many model calls a prompt may take before its run ends with an error. 0: no limit. None: what the settings say.
    max_turns: Annotated[int, Meta(ge=0)] | None = None
    #: Limits of all agents of the process, by the name of the provider, `*` for any other; None: those of the settings.
    rate_limits: Mapping[str, RateLimit] | RateLimits | None = None

    # Approvals

    #: Called with each tool call that needs approval, instead of asking the user. It returns `Allow`, `Deny`, True or False; all
    #: else refuses the call. Without `approval`, the mode is then `ask`, unless the settings deny.
    on_approval: OnApproval | None = None
    #: Whether the project is trusted: it may run its own extensions and servers, and its settings apply. None: what the user
    #: decided earlier.
    trust: bool | None = None

    # Files

    #: Other directories of the workspace. The model is told about them. A sandbox lets commands read them.
    add_dirs: Sequence[str | Path] = ()
    #: The environment for keys and commands. None: the environment of this process.
    env: Mapping[str, str] | None = None
    #: Read no user configuration. Keys come only from the environment or `api_key`.
    isolated: bool = False
    #: What to look for in the home of the user and in the project, and where else to look.
    discovery: Discovery = Discovery()

    # Sessions

    #: Resume the session with exactly this id, or start it.
    session_id: str | None = None
    #: Resume the session that changed last. If there is none, start a new session.
    resume: bool = False
    #: Start with a copy of a session: the path of its file, or the beginning of its id.
    fork: str | Path | None = None
    #: Whether to save conversations in files. None: only if the options above name one, or `store` a directory. False: not even
    #: those; they are copied into memory.
    keep: bool | None = None
    #: Keeps the sessions instead of files: `session`, `fork` and `session_id` are then ids. A `Storage` can also name the
    #: directory for files, and says more about both.
    store: SessionStore | Storage | None = None

    # Watching

    #: What to record with OpenTelemetry. True and a `Telemetry` need the package `opentelemetry-api`. None records if the program
    #: has imported `opentelemetry.trace` before it makes the agent, and False never.
    telemetry: Telemetry | bool | None = None

    #: What profiles and our own front ends say. `Agent` does not take it as a keyword.
    behaviour: Behaviour = Behaviour()

    @property
    def storage(self) -> Storage:
        """Where the sessions are saved, and how."""
        return self.store if isinstance(self.store, Storage) else Storage(store=self.store)

    @property
    def rates(self) -> RateLimits:
        """The rate limits, with the priority of the agent."""
        return self.rate_limits if isinstance(self.rate_limits, RateLimits) else RateLimits(limits=self.rate_limits)

    @property
    def tool_set(self) -> ToolSet | None:
        """The tools that replace the built-in ones."""
        return self.tools if isinstance(self.tools, ToolSet) else None

    def wants_tool(self, name: str) -> bool:
        """Whether the model may use a tool that is added later."""
        names = self.tool_names()
        return not self.excludes_tool(name) and (names is None or _is_named(name, names))

    def excludes_tool(self, name: str) -> bool:
        """Whether `exclude_tools` names a tool."""
        return _is_named(name, self.exclude_tools)

    def list_wanted_tools(self) -> list[str]:
        """Return the names of the tools that the model may use. Not valid for a `ToolSet` without `only`."""
        names = self.tool_names()
        chosen = self.behaviour.default_tools if names is None else names
        if any(map(is_pattern, chosen)):
            known = dict.fromkeys([*BUILTIN_NAMES, TODO_WRITE, TASK, *self.behaviour.default_tools])
            chosen = [name for name in (*known, *chosen) if not is_pattern(name) and self.wants_tool(name)]
        wanted = dict.fromkeys([*chosen, *(tool.name for tool in self.own_tools())])
        return [name for name in wanted if not self.excludes_tool(name)]

    def with_own_tools(self) -> "AgentOptions":
        """Return the options with a tool in `extra_tools` for each function and `Tool`, so that `tools` has only names.

        Raises TypeError if a function cannot be a tool, and BadOption if a name is taken.
        """
        listed = None if isinstance(self.tools, ToolSet) else self.tools
        named = listed is None or all(isinstance(each, str) for each in listed)
        if named and all(isinstance(each, Tool) for each in self.extra_tools):
            return self
        from fairlead.agent.function_tools import make_tools  # noqa: PLC0415  compiles many patterns

        taken = [*BUILTIN_NAMES, TODO_WRITE, TASK, ASK]
        made = None if listed is None else make_tools("tools", listed, taken)
        own = [each for each in made or () if not isinstance(each, str)]
        return replace(
            self,
            tools=self.tools if made is None else [each if isinstance(each, str) else each.name for each in made],
            extra_tools=make_tools("extra_tools", [*own, *self.extra_tools], taken),
        )

    def tool_names(self) -> list[str] | None:
        """Return the names and patterns in `tools`, or None if it is not given."""
        names = self.tools.only if isinstance(self.tools, ToolSet) else self.tools
        return None if names is None else [each for each in names if isinstance(each, str)]

    def own_tools(self) -> list[Tool]:
        """Return the tools that the program brings. Valid after `with_own_tools`."""
        return [each for each in self.extra_tools if isinstance(each, Tool)]

    def check(self) -> None:
        """Raise BadOption if the value of an option does not match its type above.

        Protection must not fail open: a misspelt mode would otherwise mean no protection.
        """
        _check_fields("", self)
        for name, server in self.mcp_servers.items():
            _check_fields(f"mcp_servers: {name}: ", server)
        for name, limit in (self.rates.limits or {}).items():
            _check_fields(f"rate_limits: {name}: ", limit, get_type_hints(RateLimit, include_extras=True))


#: Values of options that have options themselves.
_NESTED = (Discovery, RateLimits, Storage, Telemetry, Behaviour, Confinement)


def _check_fields(where: str, options: Struct, hints: Mapping[str, Any] | None = None) -> None:
    """Check the fields of options that do not have their default value, and the fields of those that are structs of options."""
    kind = type(options)
    defaults, hints = kind(), hints or kind.__annotations__
    for name in [name for name in kind.__struct_fields__ if getattr(options, name) is not getattr(defaults, name)]:
        value, hint = getattr(options, name), hints[name]
        if isinstance(hint, str):  # its type is imported late, and checks its values itself
            continue
        check_value(where + name, value, hint)
        if any("\0" in str(path) for path in _paths(value, hint)):
            raise BadOption(f"{where}{name}: expected a path, found {value!r}, which contains a NUL character.")
        if isinstance(value, _NESTED):
            _check_fields(f"{where}{name}: ", value)


def check_value(name: str, value: Any, hint: Any) -> None:
    """Raise BadOption if the value of the option `name` does not match its type."""
    if not _fits(value, hint):
        raise BadOption(f"{name}: expected {_in_words(hint)}, found {_describe_value(value, hint)}.{_suggest(value, hint)}")


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
    close = difflib.get_close_matches(name.lower(), list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def is_pattern(entry: str) -> bool:
    """Whether an entry of `tools` or `exclude_tools` is a pattern."""
    return "*" in entry


def _is_named(name: str, entries: Sequence[str]) -> bool:
    if name in entries:
        return True
    if not any(map(is_pattern, entries)):
        return False

    return any(is_pattern(entry) and fnmatch.fnmatchcase(name, entry) for entry in entries)


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


def _describe_value(value: Any, hint: Any) -> str:
    """Describe a value that does not match its type. In a list, name the first item that is to blame."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = cast("Sequence[Any]", value)
        for each in _alternatives(hint):
            if get_origin(each) is Sequence:
                index = next((index for index, item in enumerate(items) if not _fits(item, get_args(each)[0])), None)
                if index is not None:
                    return f"{_format_value(items[index])} as item {index}"
    return _format_value(value)


def _suggest(value: Any, hint: Any) -> str:
    """Suggest the closest of the names that an option takes."""
    names = [name for each in _alternatives(hint) if get_origin(each) is Literal for name in get_args(each)]
    return suggestion(value, names) if isinstance(value, str) else ""


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _format_value(value: Any) -> str:
    if isinstance(value, str | int | float) or value is None:
        return repr(value)
    return f"the class {value.__name__}" if isinstance(value, type) else _with_article(type(cast("object", value)).__name__)


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
