"""The options of an agent as typed keywords of `Agent(...)`, so that editors and type checkers know each of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

from msgspec import Meta
from msgspec.structs import replace

from fairlead.agent.assembly import Shared
from fairlead.agent.options import (
    AgentOptions,
    Discovery,
    Hooks,
    OnApproval,
    RateLimits,
    Storage,
    Telemetry,
    suggestion,
)
from fairlead.agent.tool_sets import McpServer, ToolSet
from fairlead.config.settings import ApprovalMode, RateLimit, SandboxMode
from fairlead.core.model import Model, ModelStream, ThinkingLevel
from fairlead.core.tool import Tool
from fairlead.stores.store import SessionStore

F = TypeVar("F", bound=Callable[..., None])


def _assembles(signature: F) -> F:
    """Make an `__init__` that has this signature and calls `assemble` with the options.

    Only the keywords that the caller gives override `options`, so the defaults of the signature are for readers.
    """

    @wraps(signature)
    def init(self: AgentKeywords, options: AgentOptions | None = None, *, shared: Shared | None = None, **keywords: Any) -> None:
        self.assemble(_with_keywords(options, keywords), shared)

    return cast("F", init)


class AgentKeywords(ABC):
    """The constructor of `Agent`. Its keywords are the public fields of `AgentOptions`: a test compares them."""

    @_assembles  # noqa: B027 (it makes the method from the signature)
    def __init__(
        self,
        options: AgentOptions | None = None,
        *,
        shared: Shared | None = None,
        model: str | Model | None = None,
        thinking: ThinkingLevel | None = None,
        tools: Sequence[str | Tool | Callable[..., Any]] | ToolSet | None = None,
        cwd: str | Path = ".",
        system_prompt: str | None = None,
        approval: ApprovalMode | None = None,
        sandbox: SandboxMode | None = None,
        max_cost: Annotated[float, Meta(gt=0)] | None = None,
        timeout: Annotated[float, Meta(gt=0)] | None = None,
        session: str | Path | None = None,
        api_key: str | None = None,
        provider: str | None = None,
        base_url: str | None = None,
        model_file: str | Path | None = None,
        stream: ModelStream | None = None,
        append_system_prompt: Sequence[str] = (),
        extra_tools: Sequence[Tool | Callable[..., Any]] = (),
        exclude_tools: Sequence[str] = (),
        mcp_servers: Mapping[str, McpServer] = {},
        extensions: Sequence[str | Path] = (),
        hooks: Hooks | None = None,
        max_turns: Annotated[int, Meta(ge=0)] | None = None,
        rate_limits: Mapping[str, RateLimit] | RateLimits | None = None,
        on_approval: OnApproval | None = None,
        trust: bool | None = None,
        add_dirs: Sequence[str | Path] = (),
        env: Mapping[str, str] | None = None,
        isolated: bool = False,
        discovery: Discovery = Discovery(),  # noqa: B008 (it is frozen)
        session_id: str | None = None,
        resume: bool = False,
        fork: str | Path | None = None,
        keep: bool | None = None,
        store: SessionStore | Storage | None = None,
        telemetry: Telemetry | bool | None = None,
    ) -> None:
        """Create an agent. It connects and loads nothing before that is needed.

        Args:
            options: Options that the other keywords override. None: the defaults.
            shared: Connections and models that it shares with other agents. Closing the agent leaves them open.
            model: The model: a pattern (`provider/id`, an id, a glob, each with `:level`), or a `Model` that `stream` calls.
                None: the default of the settings, or the first one with a key.
            thinking: How much the model thinks before it answers.
            tools: The tools that the model may use, and no others: names, patterns in which `*` stands for anything, functions
                and `Tool`s. Or a set that replaces the built-in ones, such as `opal_tools()`. None: the usual built-in tools.
            cwd: The directory where the tools work.
            system_prompt: Replaces fairlead's part of the system prompt.
            approval: What to do when a tool wants to change something and no rule applies: `auto`, `ask` or `deny`. None: what
                the settings say.
            sandbox: `workspace` runs commands in a sandbox. None: what the settings say.
            max_cost: How many US dollars a prompt may cost, with retries, sub-agents and repairs. None: no limit.
            timeout: How many seconds a prompt may take. None: no limit.
            session: Resume a session: the path of its file, or the beginning of its id. A path that does not exist starts one
                there.
            api_key: The key for the provider, instead of one from the environment.
            provider: The provider of the model.
            base_url: The address of the provider's server. A provider that is not known speaks OpenAI's Chat Completions API.
            model_file: A GGUF file whose weights llama.cpp runs on this machine. It is the model, unless `model` names another.
            stream: Calls the model yourself; needs a `Model` as `model`.
            append_system_prompt: Texts that follow the system prompt.
            extra_tools: Functions and `Tool`s that the model may use besides those that `tools` names.
            exclude_tools: Tools that the model may not use: names or patterns.
            mcp_servers: MCP servers of this agent alone, by name.
            extensions: Additional extensions: files or directories.
            hooks: The program's own functions to call before and after tool calls, before prompts, and with events.
            max_turns: How many model calls a prompt may take. 0: no limit. None: what the settings say.
            rate_limits: What all agents of the process together may ask of a provider's key, by the name of the provider; `*`
                is any other provider. A `RateLimits` also has the priority of this agent. None: the limits of the settings.
            on_approval: Called with each tool call that needs approval, instead of asking the user. It returns `Allow`, `Deny`,
                True or False; all else refuses the call. Without `approval`, the mode is then `ask`, unless the settings deny.
            trust: Whether the project is trusted: its extensions may run and its settings apply. None: what the user decided
                earlier.
            add_dirs: Other directories of the workspace. The model is told about them. A sandbox lets commands read them.
            env: The environment for keys and commands. None: the environment of this process.
            isolated: Read no user configuration. Keys come only from the environment or `api_key`.
            discovery: What to look for in the home of the user and in the project, and where else to look: instructions,
                rules, skills, prompt templates, MCP servers and extensions.
            session_id: Resume the session with exactly this id, or start it.
            resume: Resume the session that changed last. If there is none, start a new one.
            fork: Start with a copy of a session: the path of its file, or the beginning of its id.
            keep: Whether to save sessions in files. None: only one that is named, or if `store` names a directory. False: not
                even those.
            store: Keeps the sessions instead of files; see `fairlead.stores`. `session`, `fork` and `session_id` are then ids.
                A `Storage` can also name the directory for files, and says more about both.
            telemetry: What to record with OpenTelemetry. None records if the program has imported `opentelemetry.trace` before
                it makes the agent, and False never.

        Raises:
            BadOption: An option has an invalid value. It is a ConfigError and a ValueError.
            TypeError: There is no such option, or a function in `tools` or `extra_tools` cannot be a tool.
            ConfigError: An option or a setting cannot be used on this machine.
            ModelNotFound: There is no such model.
            SessionError: The session to resume does not exist or cannot be used.
        """

    @abstractmethod
    def assemble(self, options: AgentOptions, shared: Shared | None) -> None:
        """Create everything that the agent consists of."""


def _with_keywords(options: object, keywords: Mapping[str, Any]) -> AgentOptions:
    """Return the options with the keywords in place, checked. Raises TypeError and BadOption."""
    if options is None:
        options = AgentOptions()
    elif not isinstance(options, AgentOptions):
        hint = ' Did you mean Agent(model="...")?' if isinstance(options, str) else ""
        raise TypeError(f"options: expected AgentOptions, found {type(options).__name__}.{hint}")
    known = [name for name in AgentOptions.__struct_fields__ if name != "behaviour"]
    unknown = [name for name in keywords if name not in known]
    if unknown:
        raise TypeError(f"Agent has no option {unknown[0]!r}.{suggestion(unknown[0], known)}")
    options = replace(options, **keywords)
    options.check()
    return options.with_own_tools()
