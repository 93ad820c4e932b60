"""The options of an agent."""

# The declarations below are types at run time, not texts: `check` looks at them at every start, and must cost next to nothing.
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from msgspec import Meta, Struct

from fairlead.agent.tool_set import ToolSet
from fairlead.config.home import PeerHome
from fairlead.config.settings import ApprovalMode, SandboxMode, SettingsGroup
from fairlead.core.model import Model, ModelStream, ThinkingLevel
from fairlead.core.queues import InterruptMode
from fairlead.core.tool import Schedule, Tool
from fairlead.errors import BadOption
from fairlead.extend.extensions.late import Mode
from fairlead.session.context.tokens import DEFAULT_RESERVE_TOKENS
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.sessions import Durability, Sessions
from fairlead.tools import DEFAULT_TOOLS


class AgentOptions(Struct, kw_only=True):
    """The options of an agent. The defaults are those of the command."""

    #: A pattern (`provider/id`, an id, a glob, each with `:level`), or a model with its own `stream`.
    model: str | Model | None = None
    stream: ModelStream | None = None
    provider: str | None = None
    #: Patterns of models to cycle through.
    models: Sequence[str] = ()
    api_key: str | None = None
    thinking: ThinkingLevel | None = None
    cwd: str | Path = "."
    #: The environment that keys are looked up in and commands run with; this process's if None.
    env: Mapping[str, str] | None = None
    #: Replaces our part of the system prompt.
    system_prompt: str | None = None
    append_system_prompt: Sequence[str] = ()
    #: More guidelines in our part of it.
    advice: Sequence[str] = ()
    #: Whether a prompt waits until its model's key is found, and is refused if there is none. If not, its run fails instead.
    waits_for_key: bool = True
    #: Whether to read AGENTS.md and CLAUDE.md, and to look for skills and prompt templates in the usual directories.
    context_files: bool = True
    find_skills: bool = True
    find_prompt_templates: bool = True
    #: More files of skills and templates, or directories of them.
    skills: Sequence[str | Path] = ()
    prompt_templates: Sequence[str | Path] = ()
    #: Whether to look for MCP servers in the usual files, and more files that define some.
    find_mcp: bool = True
    mcp_config: Sequence[str | Path] = ()
    #: More extensions, as files or directories, and whether to look for them in the usual directories, in the settings and in
    #: installed packages.
    extensions: Sequence[str | Path] = ()
    find_extensions: bool = True
    #: Flags for extensions, each with its value if it has one.
    extension_flags: Mapping[str, str | None] = {}
    #: How the agent is used, for extensions that want to know.
    mode: Mode = "library"
    #: Names of the tools that the model may use; None: `default_tools`.
    tools: Sequence[str] | None = None
    exclude_tools: Sequence[str] = ()
    default_tools: Sequence[str] = DEFAULT_TOOLS
    #: Tools that replace the built-in ones; None: the built-in tools.
    tool_set: ToolSet | None = None
    #: More tools. The model may use them all.
    extra_tools: Sequence[Tool] = ()
    #: Apply the stream rules of the user and the project to what the model writes.
    rules: bool = True
    #: Whether the project may run its own code, extensions and servers; None: as the user has decided before.
    approve: bool | None = None
    #: What to do when a tool wants to change something and no rule of the settings applies: `auto`, `ask` or `deny`; None: what
    #: the settings say.
    approval: ApprovalMode | None = None
    #: `workspace` keeps commands in a sandbox; None: what the settings say.
    sandbox: SandboxMode | None = None
    #: How many model calls one prompt may take before the run ends with an error; 0: any number; None: what the settings say.
    max_turns: Annotated[int, Meta(ge=0)] | None = None
    #: Read no user configuration; keys come from the environment or `api_key` alone.
    isolated: bool = False
    #: Where a program that fairlead stands in for keeps its files. They are used unless `FAIRLEAD_HOME` is set.
    peer_home: PeerHome | None = None
    #: Keep conversations in files: below the home, or in `session_dir`. None: only one that the options below name;
    #: False: not even that one, it is copied into memory.
    keep: bool | None = None
    session_dir: str | Path | None = None
    #: Resume a session: the path of its file (if it does not exist, a new session is kept there), or the beginning of its id.
    session: str | Path | None = None
    #: Resume the session that changed last; without one, begin a new session.
    resume: bool = False
    #: Begin with a copy of a session: a path, or the beginning of an id.
    fork: str | Path | None = None
    #: Resume the session with exactly this id, or begin it.
    session_id: str | None = None
    #: Chooses the conversation, instead of the options above.
    conversation: Callable[[Sessions], Conversation] | None = None
    session_name: str | None = None
    #: `fsync`: what was written survives a power cut, too.
    durability: Durability = "flush"
    #: Tokens of the context window that compaction leaves free, unless the user's settings say otherwise.
    compaction_reserve: Annotated[int, Meta(ge=0)] = DEFAULT_RESERVE_TOKENS
    #: Have the model plan before the first prompt of a session, unless the user's settings say otherwise.
    eager_todos: bool = False
    schedule: Schedule = "together"
    interrupt: InterruptMode = "wait"
    #: Groups of settings for which the built-in defaults apply, whatever the user's files say.
    reset_settings: Sequence[SettingsGroup] = ()
    #: Called with everything in the user's configuration that cannot be used, as it is found.
    warn: Callable[[str], None] | None = None

    def wants_tool(self, name: str) -> bool:
        """Whether the model may use a tool that is added later."""
        return name not in self.exclude_tools and (self.tools is None or name in self.tools)

    def check(self) -> None:
        """Raise BadOption if an option has a value that its declaration above does not allow.

        Protection must not fail open: a misspelt mode would otherwise mean no protection.
        """
        defaults = AgentOptions()
        given = [name for name in self.__struct_fields__ if getattr(self, name) is not getattr(defaults, name)]
        hints = AgentOptions.__annotations__
        for name in given:
            value = getattr(self, name)
            if not _fits(value, hints[name]):
                raise BadOption(f"{name}: expected {_in_words(hints[name])}, found {_shown(value)}.")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value has a type. Here True is not an int, and a string is not a sequence of strings."""
    origin, parameters = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in parameters)
    if origin is Literal:
        return isinstance(value, str) and value in parameters
    if origin is Annotated:
        return _fits(value, parameters[0]) and all(meta.ge is None or value >= meta.ge for meta in parameters[1:])
    if origin is Sequence:
        is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return is_list and all(_fits(each, parameters[0]) for each in cast("Sequence[Any]", value))
    if origin is Mapping:
        return isinstance(value, Mapping)
    if origin is Callable or getattr(hint, "_is_protocol", False):
        return callable(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _in_words(hint: Any) -> str:
    """What an option takes, for an error."""
    origin, parameters = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_in_words(each) for each in parameters)
    if origin is Literal:
        return " or ".join(repr(each) for each in parameters)
    if origin is Annotated:
        return f"{_in_words(parameters[0])} of at least {parameters[1].ge}"
    if origin is Sequence:
        return f"a list in which each item is {_in_words(parameters[0])}"
    if origin is Mapping:
        return "a mapping"
    if origin is Callable or getattr(hint, "_is_protocol", False):
        return "something to call"
    return {NoneType: "None", bool: "True or False", int: "a whole number", str: "a string"}.get(hint, f"a {hint.__name__}")


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str | int | float) or value is None else f"a {type(cast('object', value)).__name__}"
