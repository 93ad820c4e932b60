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
from fairlead.agent.mcp_server import McpServer
from fairlead.agent.options import AgentOptions, Confinement, Hooks, OnApproval, Telemetry, suggestion
from fairlead.agent.tool_sets import ToolSet
from fairlead.config.home import PeerHome
from fairlead.config.settings import ApprovalMode, RateLimit, SandboxMode, SettingsGroup
from fairlead.core.model import Model, ModelStream, ThinkingLevel
from fairlead.core.queues import InterruptMode
from fairlead.core.tool import Schedule, Tool
from fairlead.extend.extensions.late import Mode, OnError
from fairlead.models.http.exchange import HttpTap
from fairlead.session.context.tokens import DEFAULT_RESERVE_TOKENS
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.sessions import ConversationStore
from fairlead.stores.paths import Durability
from fairlead.stores.store import SessionStore
from fairlead.tools import DEFAULT_TOOLS

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
    """The constructor of `Agent`. A test compares its keywords with the fields of `AgentOptions`."""

    @_assembles  # noqa: B027 (it makes the method from the signature)
    def __init__(
        self,
        options: AgentOptions | None = None,
        *,
        shared: Shared | None = None,
        model: str | Model | None = None,
        stream: ModelStream | None = None,
        provider: str | None = None,
        base_url: str | None = None,
        model_file: str | Path | None = None,
        models: Sequence[str] = (),
        api_key: str | None = None,
        thinking: ThinkingLevel | None = None,
        rate_limits: Mapping[str, RateLimit] | None = None,
        priority: int = 0,
        cwd: str | Path = ".",
        add_dirs: Sequence[str | Path] = (),
        env: Mapping[str, str] | None = None,
        system_prompt: str | None = None,
        append_system_prompt: Sequence[str] = (),
        advice: Sequence[str] = (),
        waits_for_key: bool = True,
        context_files: bool = True,
        find_skills: bool = True,
        find_prompt_templates: bool = True,
        skills: Sequence[str | Path] = (),
        prompt_templates: Sequence[str | Path] = (),
        find_mcp: bool = True,
        mcp_config: Sequence[str | Path] = (),
        mcp_servers: Mapping[str, McpServer] = {},
        extensions: Sequence[str | Path] = (),
        find_extensions: bool = True,
        extension_errors: OnError = "exit",
        hooks: Hooks | None = None,
        extension_flags: Mapping[str, str | None] = {},
        mode: Mode = "library",
        tools: Sequence[str | Tool | Callable[..., Any]] | None = None,
        exclude_tools: Sequence[str] = (),
        default_tools: Sequence[str] = DEFAULT_TOOLS,
        small_model_tools: Sequence[str] = DEFAULT_TOOLS,
        tool_set: ToolSet | None = None,
        extra_tools: Sequence[Tool | Callable[..., Any]] = (),
        rules: bool = True,
        approve: bool | None = None,
        approval: ApprovalMode | None = None,
        on_approval: OnApproval | None = None,
        sandbox: SandboxMode | None = None,
        max_turns: Annotated[int, Meta(ge=0)] | None = None,
        max_cost: Annotated[float, Meta(gt=0)] | None = None,
        timeout: Annotated[float, Meta(gt=0)] | None = None,
        isolated: bool = False,
        peer_home: PeerHome | None = None,
        keep: bool | None = None,
        session_dir: str | Path | None = None,
        session: str | Path | None = None,
        resume: bool = False,
        fork: str | Path | None = None,
        session_id: str | None = None,
        conversation: Callable[[ConversationStore], Conversation] | None = None,
        store: SessionStore | None = None,
        lease_owner: str | None = None,
        lease_seconds: Annotated[float, Meta(gt=0)] = 15.0,
        session_name: str | None = None,
        provider_session_id: str | None = None,
        durability: Durability = "flush",
        compaction_reserve: Annotated[int, Meta(ge=0)] = DEFAULT_RESERVE_TOKENS,
        eager_todos: bool = False,
        drops_queue: bool = False,
        keeps_level: bool = True,
        keeps_model: bool = True,
        counts_written_bytes: bool = True,
        schedule: Schedule = "together",
        interrupt: InterruptMode = "wait",
        telemetry: Telemetry | bool | None = None,
        confinement: Confinement | None = None,
        reset_settings: Sequence[SettingsGroup] = (),
        warn: Callable[[str], None] | None = None,
        alert: Callable[[str], None] | None = None,
        http_tap: HttpTap | None = None,
        read_interval: float = 0.016,
    ) -> None:
        """Create an agent. It connects and loads nothing before that is needed.

        Args:
            options: Options that the other keywords override. None: the defaults.
            shared: Connections and models that it shares with other agents. Closing the agent leaves them open.
            model: The model: a pattern (`provider/id`, an id, a glob, each with `:level`), or a `Model` that `stream` calls.
                None: the default of the settings, or the first one with a key.
            stream: Calls the model yourself; needs a `Model` as `model`.
            provider: The provider of the model.
            base_url: The address of the provider's server. A provider that is not known speaks OpenAI's Chat Completions API.
            model_file: A GGUF file whose weights llama.cpp runs on this machine. It is the model, unless `model` names another.
            models: Patterns for the models to cycle through.
            api_key: The key for the provider, instead of one from the environment.
            thinking: How much the model thinks before it answers.
            rate_limits: What all agents of the process together may ask of a provider's key, by the name of the provider; `*`
                is any other provider. None: the limits of the settings.
            priority: Of the requests that wait for such a limit, those with a higher priority come first.
            cwd: The directory where the tools work.
            add_dirs: Other directories of the workspace. The model is told about them. A sandbox lets commands read them.
            env: The environment for keys and commands. None: the environment of this process.
            system_prompt: Replaces fairlead's part of the system prompt.
            append_system_prompt: Texts that follow the system prompt.
            advice: Guidelines to add to fairlead's part of the system prompt.
            waits_for_key: Whether a prompt first looks for the key of its model, and is refused without one. Otherwise its run
                fails.
            context_files: Whether to read AGENTS.md and CLAUDE.md.
            find_skills: Whether to look for skills in the usual directories.
            find_prompt_templates: Whether to look for prompt templates in the usual directories.
            skills: Additional skills: files, or directories of files.
            prompt_templates: Additional prompt templates: files, or directories of files.
            find_mcp: Whether to look for MCP servers in the usual files.
            mcp_config: Additional files that configure MCP servers.
            mcp_servers: MCP servers of this agent alone, by name.
            extensions: Additional extensions: files or directories.
            find_extensions: Whether to look for other extensions: in the usual directories, the settings and installed
                packages.
            extension_errors: What to do when an extension that is named cannot be loaded: `exit` refuses every prompt,
                `continue` works without it.
            hooks: The program's own functions to call before and after tool calls, before prompts, and with events.
            extension_flags: Flags for extensions, each with its value if it has one.
            mode: How the agent is used. Extensions can read this.
            tools: The tools that the model may use, and no others: names, patterns in which `*` stands for anything, functions
                and `Tool`s. None: `default_tools`.
            exclude_tools: Tools that the model may not use: names or patterns.
            default_tools: The tools that the model may use if `tools` is None.
            small_model_tools: Those of `default_tools` that a model with a context window of at most 32,768 tokens may use.
            tool_set: Tools that replace the built-in ones.
            extra_tools: Functions and `Tool`s that the model may use besides those that `tools` or `default_tools` names.
            rules: Whether the stream rules of the user and the project apply.
            approve: Whether the project is trusted: its extensions may run and its settings apply. None: what the user decided
                earlier.
            approval: What to do when a tool wants to change something and no rule applies: `auto`, `ask` or `deny`. None: what
                the settings say.
            on_approval: Called with each tool call that needs approval, instead of asking the user. It returns `Allow`, `Deny`,
                True or False; all else refuses the call. Without `approval`, the mode is then `ask`, unless the settings deny.
            sandbox: `workspace` runs commands in a sandbox. None: what the settings say.
            max_turns: How many model calls a prompt may take. 0: no limit. None: what the settings say.
            max_cost: How many US dollars a prompt may cost, with retries, sub-agents and repairs. None: no limit.
            timeout: How many seconds a prompt may take. None: no limit.
            isolated: Read no user configuration. Keys come only from the environment or `api_key`.
            peer_home: Where a program that fairlead stands in for keeps its files.
            keep: Whether to save sessions in files. None: only one that is named below. False: not even that one.
            session_dir: The directory for session files.
            session: Resume a session: the path of its file, or the beginning of its id. A path that does not exist starts one
                there.
            resume: Resume the session that changed last. If there is none, start a new one.
            fork: Start with a copy of a session: the path of its file, or the beginning of its id.
            session_id: Resume the session with exactly this id, or start it.
            conversation: Chooses the conversation, instead of the options above.
            store: Keeps the sessions instead of files; see `fairlead.stores`. `session`, `fork` and `session_id` are then ids.
            lease_owner: The name under which the agent has the leases of its sessions. None: one that no other process has.
            lease_seconds: How long the lease of a session lasts. The agent renews it. A session that could not be renewed for
                so long is lost, and its run ends with `SessionLost`.
            session_name: The name of the session.
            provider_session_id: The id of the session that providers see. None: the id of the conversation.
            durability: With `fsync`, saved entries also survive a power cut.
            compaction_reserve: How many tokens of the context window compaction leaves free, unless the settings say
                otherwise.
            eager_todos: Whether the model makes a plan before the first prompt, unless the settings say otherwise.
            drops_queue: Whether queued messages are dropped when the session goes to another conversation.
            keeps_level: Whether a thinking level that a model lacks comes back with a model that has it.
            keeps_model: Whether a new session keeps the model and the thinking level of the one before.
            counts_written_bytes: Whether the result of `write` says how many bytes were written.
            schedule: How the tools of one turn run: together, or one after another.
            interrupt: Whether a steering message waits for the tools that run.
            telemetry: What to record with OpenTelemetry. None records if the program has imported `opentelemetry.trace` before
                it makes the agent, and False never.
            confinement: What the session may not leave; see `AgentOptions`.
            reset_settings: Groups of settings that keep their built-in defaults, whatever the user's files say.
            warn: Called with a sentence for each part of the configuration that cannot be used.
            alert: Called instead of `warn` for what protects the user: settings and stream rules. None: `warn`.
            http_tap: Sees the requests to providers and their responses, except those of logins.
            read_interval: Seconds between two reads of an answer that arrives in small pieces. A longer time takes less CPU and
                delays updates.

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
    known = AgentOptions.__struct_fields__
    unknown = [name for name in keywords if name not in known]
    if unknown:
        raise TypeError(f"Agent has no option {unknown[0]!r}.{suggestion(unknown[0], known)}")
    options = replace(options, **keywords)
    options.check()
    return options.with_own_tools()
