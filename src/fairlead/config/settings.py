"""The settings that a user can have, with their defaults. `settings_files` reads and writes them."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

from fairlead.core.model import ThinkingLevel
from fairlead.core.queues import InterruptMode, QueueMode

Count: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]

#: What a stream rule may cut off: everything, text and thinking, calls of tools, nothing.
RuleInterruptMode: TypeAlias = Literal["always", "prose-only", "tool-only", "never"]
RepeatMode: TypeAlias = Literal["once", "after-gap"]

#: What happens to calls that no rule matches, the strictest last: they run, the user is asked unless they change files of the
#: workspace, the user is asked, or they are refused.
ApprovalMode: TypeAlias = Literal["auto", "write", "ask", "deny"]
ApprovalAction: TypeAlias = Literal["allow", "ask", "deny"]
#: What happens to a project without a decision about trust.
DefaultTrust: TypeAlias = Literal["ask", "always", "never"]
SandboxMode: TypeAlias = Literal["off", "workspace"]
#: When the prompt caches of providers are kept warm.
WarmingMode: TypeAlias = Literal["off", "streaming", "idle"]


#: The settings that belong together in a group, by the names of their fields in `Settings`.
SettingsGroup: TypeAlias = Literal[
    "compaction", "retry", "images", "tools", "task", "tasks", "todo", "ask", "approvals", "mcp", "output", "stream_rules"
]
#: Settings of which only a stricter value is taken from a project, and that are read as strictly as they may be meant.
GUARDING = ("approvals", "protectedPaths", "sandbox")
#: What every project may set, trusted or not. A setting belongs here only if no value of it can do harm: a stranger's repository
#: must not choose where prompts are sent, what is kept of them and where, what they cost, or which of the user's rules hold.
FOR_ANY_PROJECT = GUARDING
#: What no project may set, not even a trusted one: the programs that run here, who gets keys, whom to trust, and the time that
#: extensions have, since those that watch over calls would otherwise not be loaded.
NOT_FOR_PROJECTS = (
    "shellPath",
    "shellCommandPrefix",
    "passKeys",
    "defaultProjectTrust",
    "extensionTimeoutSeconds",
    "cacheWarming",
)
#: Lists of paths, which begin at the folder of the file they are in. A project adds to the user's.
PATHS = ("skills", "prompts", "extensions")


class _Group(Struct, rename="camel", frozen=True):
    pass


class CompactionSettings(_Group, frozen=True):
    """When older parts of a conversation are replaced with a summary."""

    #: Whether a session is compacted by itself when its context is nearly full.
    enabled: bool = True
    #: Tokens of the context window to leave free; None: the dialect's default.
    reserve_tokens: Count | None = None
    #: Tokens of the newest messages that a compaction leaves alone.
    keep_recent_tokens: Count = 20_000


class RetrySettings(_Group, frozen=True):
    """What to do when a provider fails in a way that may pass."""

    #: Whether a failed model call is repeated.
    enabled: bool = True
    #: How often one model call is repeated at most.
    max_retries: Count = 3
    #: The first delay; each further one is twice as long.
    base_delay_ms: Count = 2_000
    #: The longest delay. If a provider asks for a longer one, the run ends with an error.
    max_agent_delay_ms: Count = 60_000


class RateLimit(_Group, frozen=True):
    """What all agents of a process together may ask of one key of a provider. None: any number."""

    #: Requests at the same time.
    concurrency: Positive | None = None
    requests_per_minute: Positive | None = None
    #: Tokens that are sent and received.
    tokens_per_minute: Positive | None = None


class ImageSettings(_Group, frozen=True):
    #: Shrink images that providers would refuse.
    auto_resize: bool = True
    #: Never send an image to a model.
    block_images: bool = False


class ToolSettings(_Group, frozen=True):
    #: Seconds until a tool is cut off; bash has no limit unless its call names one.
    timeout_seconds: Annotated[float, Meta(gt=0)] = 120
    #: How many tools may run at once.
    concurrent: Positive = 8


class TaskSettings(_Group, frozen=True):
    """What sub-agents may do. In omp and xcsh the defaults hold, as they do in those programs."""

    #: How many sub-agents may work at once, those of sub-agents included.
    max_concurrency: Positive = 32
    #: How deeply sub-agents may be nested; 0: there are none.
    max_recursion_depth: Count = 2
    #: Names of agents that are switched off.
    disabled_agents: list[str] = []
    #: The model of an agent, by the agent's name: a pattern as for `--model`.
    agent_model_overrides: dict[str, str] = {}


class TodoSettings(_Group, frozen=True):
    """The todo list of the model. The defaults are those of omp and xcsh."""

    #: Offer the model a todo list.
    enabled: bool = True
    #: Remind the model of open todos when it stops early.
    reminders: bool = True
    #: How many reminders one prompt gets at most.
    reminders_max: Count = 3
    #: Have the model plan before it begins with the first prompt of a session; None: the dialect's default.
    eager: bool | None = None


class TasksSettings(_Group, frozen=True):
    #: Seconds until a completed todo leaves the list; negative: it stays.
    todo_clear_delay: float = 60


class AskSettings(_Group, frozen=True):
    """The questions that the model asks the user."""

    #: Seconds that the user has to answer a question from the model; 0 means no limit.
    timeout: Count = 0


class McpSettings(_Group, frozen=True):
    #: Seconds that a prompt waits for MCP servers that are still connecting; the tools of slower ones come later.
    wait_seconds: Annotated[float, Meta(gt=0)] = 10


class OutputSettings(_Group, frozen=True):
    """How frames leave: see "Streaming without swelling" in the documentation."""

    #: Bytes of frames that wait for a slow host before the run pauses.
    queue_bytes: Positive = 8 * 1024 * 1024
    #: Bytes of the longest line that a host may send.
    line_bytes: Positive = 64 * 1024 * 1024
    #: The shortest time between two updates of a message, in milliseconds.
    pace_ms: Count = 16
    #: How many bytes per second full updates may take.
    bytes_per_second: Positive = 512 * 1024
    #: The size of a message in bytes from which its updates are sent in delta form.
    full_update_bytes: Count = 256 * 1024


class RuleSettings(_Group, frozen=True):
    """Stream rules; what a rule's own file says comes first."""

    #: Compare what a model writes with the stream rules.
    enabled: bool = True
    #: What happens to an answer that a rule cut off: `discard` takes it out of what the model sees next, `keep` leaves it there.
    context_mode: Literal["discard", "keep"] = "discard"
    #: What a rule may cut off: `always`, `prose-only` (text and thinking), `tool-only` or `never`.
    interrupt_mode: RuleInterruptMode = "always"
    #: Whether the model is told about a rule `once` in a session, or again `after-gap`.
    repeat_mode: RepeatMode = "once"
    #: For `after-gap`: the number of turns before the model is told again.
    repeat_gap: Count = 10
    #: The names of rules to leave out.
    disabled_rules: list[str] = []


class ApprovalRule(_Group, frozen=True):
    """What happens to some calls of some tools."""

    action: ApprovalAction
    #: The names of the tools, with `*` for any characters.
    tool: str = "*"
    #: What the call is about: a command, the path of a file, the arguments as JSON. With `*`; None: whatever it is about.
    pattern: str | None = None
    #: The absolute path of the directory in which a session must work for the rule to hold, and from which its pattern starts.
    #: None: it holds everywhere. Only rules of the user have it.
    project: str | None = None
    #: Set for rules of a project, and for those that cannot be understood: they do not turn a refusal into a question.
    only_stricter: bool = False


class ApprovalSettings(_Group, frozen=True):
    """Which tool calls need the user's consent."""

    #: What happens to calls that no rule matches: `auto` runs them, `ask` asks the user, `write` asks except about files of the
    #: workspace, `deny` refuses them.
    mode: ApprovalMode = "auto"
    #: Rules for single tools, commands and files. Of those that match a call, the strictest wins.
    rules: list[ApprovalRule] = []
    #: Seconds to wait for an answer; without one the call is refused.
    timeout_seconds: Annotated[float, Meta(gt=0)] = 300


class Settings(_Group, frozen=True):
    """Everything a user can set, with the defaults."""

    #: The provider of the model that answers if `--model` names none.
    default_provider: str | None = None
    #: The model that answers if `--model` names none.
    default_model: str | None = None
    #: How much the model thinks if `--thinking` does not say so.
    default_thinking_level: ThinkingLevel | None = None
    #: Tokens for each thinking level, where the provider takes a number.
    thinking_budgets: dict[ThinkingLevel, Count] = {}
    #: Whether messages that arrive during a run are delivered together (`all`) or one at each opportunity.
    steering_mode: QueueMode = "one-at-a-time"
    #: The same for messages that wait for the end of a run.
    follow_up_mode: QueueMode = "one-at-a-time"
    #: Whether a steering message stops the calls of a turn that have not started (`immediate`), or waits for the end of the turn
    #: (`wait`); None: the dialect's default.
    interrupt_mode: InterruptMode | None = None
    #: Patterns of the models that `cycle_model` goes through; None: all available ones.
    enabled_models: list[str] | None = None
    #: Whether requests are repeated to keep the prompt cache of a provider warm: not at all (`off`), while a run is active
    #: (`streaming`), or for half an hour after it, too (`idle`). Only for models whose `promptCache` is known.
    cache_warming: WarmingMode = "streaming"
    #: The shell that runs commands; null: `bash` from `PATH`, else `/bin/sh`. A name is looked up on `PATH`, outside the
    #: working directory.
    shell_path: str | None = None
    #: A line that is put before every shell command.
    shell_command_prefix: str | None = None
    #: Names of the variables with keys of providers that commands and other programs of tools may see; `*`: all.
    pass_keys: list[str] = []
    #: Where sessions are stored; null: `sessions` in the home.
    session_dir: str | None = None
    #: Skills in addition to those in the usual folders: files, or folders to search.
    skills: list[str] = []
    #: Prompt templates in addition to those in the usual folders: files, or folders to search.
    prompts: list[str] = []
    #: Whether `/skill:name` in a prompt stands for the skill `name`.
    enable_skill_commands: bool = True
    #: Extensions in addition to those in the usual folders: files or folders. Those of a project count once it is trusted.
    extensions: list[str] = []
    #: Seconds that an extension may take to load, and to answer each time that the agent waits for it.
    extension_timeout_seconds: Annotated[float, Meta(gt=0)] = 30
    #: What happens to extensions and servers of a project without a decision about trust.
    default_project_trust: DefaultTrust = "ask"
    #: How many model calls one prompt may take before the run ends with an error; 0: any number.
    max_turns: Count = 0
    #: How often in a row the model may make the same calls and get the same results before the run ends with an error. From the
    #: second time on, the result says so. 0: as often as it likes.
    max_repeated_calls: Count = 4
    #: How many characters of an answer may be the same passage again and again, for at least 10 seconds, before the answer is
    #: stopped. The arguments of a tool may be four times as long. 0: any number.
    max_repeated_text: Count = 4_000
    #: How long a provider's stream may be silent; 0 means no limit.
    http_idle_timeout_ms: Count = 300_000
    compaction: CompactionSettings = CompactionSettings()
    retry: RetrySettings = RetrySettings()
    #: Limits by the name of the provider; `*` stands for every provider that is not named.
    rate_limits: dict[str, RateLimit] = {}
    images: ImageSettings = ImageSettings()
    tools: ToolSettings = ToolSettings()
    task: TaskSettings = TaskSettings()
    tasks: TasksSettings = TasksSettings()
    todo: TodoSettings = TodoSettings()
    ask: AskSettings = AskSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    #: Files that the file tools must not touch, in addition to those that hold keys: paths and patterns. `!path` lifts the
    #: protection. Those of a project apply only in that project.
    protected_paths: list[str] = []
    #: `workspace`: commands run in a sandbox, in which they can change only the working directory and have no network.
    sandbox: SandboxMode = "off"
    mcp: McpSettings = McpSettings()
    output: OutputSettings = OutputSettings()
    #: The stream rules. Settings files have the name that omp gives them.
    stream_rules: RuleSettings = field(default=RuleSettings(), name="ttsr")
