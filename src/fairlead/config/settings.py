"""settings.json: the user's, then the project's on top of it, key by key.

Names are pi's where pi has the setting. Every key is optional. A key with an unusable value is reported and its default used.
Keys that mean nothing to fairlead are ignored: other programs read the file too.

A project comes with its repository, often from a stranger. One that is not trusted may set what is in FOR_ANY_PROJECT alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta, Struct, field

from fairlead.config import files, json_files
from fairlead.config.home import Home
from fairlead.core.model import ThinkingLevel
from fairlead.core.queues import InterruptMode, QueueMode
from fairlead.errors import ConfigError

#: Settings of which only a stricter value is taken from a project, and that are read as strictly as they may be meant.
GUARDING = ("approvals", "protectedPaths", "sandbox")
#: What every project may set, trusted or not. A setting belongs here only if no value of it can do harm: a stranger's repository
#: must not choose where prompts are sent, what is kept of them and where, what they cost, or which of the user's rules hold.
FOR_ANY_PROJECT = GUARDING
#: What no project may set, not even a trusted one: the programs that run here, whom to trust, and the time that extensions have,
#: since those that watch over calls would otherwise not be loaded.
NOT_FOR_PROJECTS = ("shellPath", "shellCommandPrefix", "defaultProjectTrust", "extensionTimeoutSeconds")

#: Lists of paths, which begin at the folder of the file they are in. A project adds to the user's.
PATHS = ("skills", "prompts", "extensions")

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


#: The settings that belong together in a group, by the names of their fields in `Settings`.
SettingsGroup: TypeAlias = Literal[
    "compaction", "retry", "images", "tools", "task", "tasks", "todo", "ask", "approvals", "mcp", "output", "stream_rules"
]


class _Group(Struct, rename="camel", frozen=True):
    pass


class CompactionSettings(_Group, frozen=True):
    """When older parts of a conversation are replaced by a summary."""

    enabled: bool = True
    #: Tokens of the context window to leave free; None: the dialect's default.
    reserve_tokens: Count | None = None
    #: Tokens of the newest messages that a compaction leaves alone.
    keep_recent_tokens: Count = 20_000


class RetrySettings(_Group, frozen=True):
    """What to do when a provider fails in a way that may pass."""

    enabled: bool = True
    max_retries: Count = 3
    #: The first delay; each further one is twice as long.
    base_delay_ms: Count = 2_000
    max_agent_delay_ms: Count = 60_000


class ImageSettings(_Group, frozen=True):
    #: Make images smaller that providers would refuse.
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
    #: How deep sub-agents may be nested; 0: there are none.
    max_recursion_depth: Count = 2
    #: Names of agents that are not to be used.
    disabled_agents: list[str] = []
    #: The model of an agent, by the agent's name: a pattern as for `--model`.
    agent_model_overrides: dict[str, str] = {}


class TodoSettings(_Group, frozen=True):
    """The todo list of the model. The defaults are those of omp and xcsh."""

    #: Offer the model a todo list.
    enabled: bool = True
    #: Remind the model of open todos when it stops early.
    reminders: bool = True
    #: How often for one prompt.
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
    #: Seconds that a prompt waits for MCP servers that are being connected; the tools of slower ones come later.
    wait_seconds: Annotated[float, Meta(gt=0)] = 10


class OutputSettings(_Group, frozen=True):
    """How frames leave: see "Streaming without swelling" in the documentation."""

    #: Bytes of frames that wait for a slow host before the run pauses.
    queue_bytes: Positive = 8 * 1024 * 1024
    #: Bytes of the longest line that a host may send.
    line_bytes: Positive = 64 * 1024 * 1024
    #: Milliseconds between two updates of a message, at least.
    pace_ms: Count = 16
    #: Bytes a second that updates in full form may take.
    bytes_per_second: Positive = 512 * 1024
    #: Bytes of a message from which its updates leave in delta form.
    full_update_bytes: Count = 256 * 1024


class RuleSettings(_Group, frozen=True):
    """Stream rules; what a rule's own file says comes first."""

    #: Compare what a model writes with the stream rules.
    enabled: bool = True
    #: What happens to an answer that a rule cut off: `discard` takes it out of what the model sees next, `keep` leaves it there.
    context_mode: Literal["discard", "keep"] = "discard"
    #: What a rule may cut off: `always`, `prose-only` (text and thinking), `tool-only` or `never`.
    interrupt_mode: RuleInterruptMode = "always"
    #: Whether a rule is told `once` in a session, or again `after-gap`.
    repeat_mode: RepeatMode = "once"
    #: For `after-gap`: the number of turns that have to come in between.
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
    #: Set for rules of a project, and for those that cannot be understood: they do not turn a refusal into a question.
    only_stricter: bool = False


class ApprovalSettings(_Group, frozen=True):
    """Which tool calls need the user's consent."""

    #: What happens to calls that no rule matches: `auto` runs them, `ask` asks the user, `deny` refuses them.
    mode: ApprovalMode = "auto"
    #: Of all rules that fit a call, the strictest holds.
    rules: list[ApprovalRule] = []
    #: Seconds to wait for an answer; without one the call is refused.
    timeout_seconds: Annotated[float, Meta(gt=0)] = 300


class Settings(_Group, frozen=True):
    """Everything a user can set, with the defaults."""

    default_provider: str | None = None
    default_model: str | None = None
    default_thinking_level: ThinkingLevel | None = None
    #: Tokens for each thinking level, where the provider takes a number.
    thinking_budgets: dict[ThinkingLevel, Count] = {}
    steering_mode: QueueMode = "one-at-a-time"
    follow_up_mode: QueueMode = "one-at-a-time"
    #: None: the dialect's default.
    interrupt_mode: InterruptMode | None = None
    #: Patterns of the models that `cycle_model` goes through; None: all available ones.
    enabled_models: list[str] | None = None
    shell_path: str | None = None
    #: A line that is put before every shell command.
    shell_command_prefix: str | None = None
    session_dir: str | None = None
    #: Skills beside those in the usual folders: files, or folders in which to look for some.
    skills: list[str] = []
    #: Prompt templates beside those in the usual folders: files, or folders of such.
    prompts: list[str] = []
    #: Whether `/skill:name` in a prompt stands for the skill `name`.
    enable_skill_commands: bool = True
    #: Extensions beside those in the usual folders: files, or folders. A project's own count once it is trusted.
    extensions: list[str] = []
    #: Seconds that an extension has to be loaded, and to answer each time that the agent waits for it.
    extension_timeout_seconds: Annotated[float, Meta(gt=0)] = 30
    #: What happens to extensions and servers of a project without a decision about trust.
    default_project_trust: DefaultTrust = "ask"
    #: How many model calls one prompt may take before the run ends with an error; 0: any number.
    max_turns: Count = 0
    #: How often in a row the model may make the same calls and get the same results before the run ends with an error. From the
    #: second time on, the result says so. 0: as often as it likes.
    max_repeated_calls: Count = 4
    #: How long a provider's stream may be silent; 0 means no limit.
    http_idle_timeout_ms: Count = 300_000
    compaction: CompactionSettings = CompactionSettings()
    retry: RetrySettings = RetrySettings()
    images: ImageSettings = ImageSettings()
    tools: ToolSettings = ToolSettings()
    task: TaskSettings = TaskSettings()
    tasks: TasksSettings = TasksSettings()
    todo: TodoSettings = TodoSettings()
    ask: AskSettings = AskSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    #: Files that the file tools leave alone, beside those with fairlead's and pi's keys: paths and patterns. `!path` lifts
    #: the protection.
    protected_paths: list[str] = []
    #: `workspace`: commands run in a sandbox in which they can change the working directory alone, and have no network.
    sandbox: SandboxMode = "off"
    mcp: McpSettings = McpSettings()
    output: OutputSettings = OutputSettings()
    #: The stream rules. Settings files have the name that omp gives them.
    stream_rules: RuleSettings = field(default=RuleSettings(), name="ttsr")


def load_settings(home: Home, cwd: Path, *, approve: bool | None = None) -> tuple[Settings, list[str]]:
    """Load the settings for a run in `cwd`.

    Whether the project is trusted is decided by what is known now, without asking: `approve`, trust.json, then
    `defaultProjectTrust`. A project that is trusted later has its settings from the next start on.

    Args:
        approve: Whether the project is trusted in this run; None: what the user has said before.

    Returns:
        The settings, and a sentence for everything in the files that could not be used.
    """
    warnings: list[str] = []
    merged: dict[str, Any] = {}
    for level, path in home.settings_files(cwd):
        try:
            if files.is_absent(path):
                continue
            within = home.boundary(cwd) if level == "project" else None
            values = _read(home, path, within, merged)
            if within is not None:
                from fairlead.config.restrictions import for_project

                values = for_project(values, home, cwd, path, approve, merged.get("defaultProjectTrust"), warnings)
            if any(key in values for key in GUARDING):
                from fairlead.config.restrictions import restricted

                merged = merged | restricted(values, merged, path, warnings, of_project=within is not None)
            values = usable(values, path, warnings, home)
            merged = _merge(merged, {**values, **{key: [*merged.get(key, ()), *values[key]] for key in PATHS if key in values}})
        except ConfigError as error:
            warnings.append(str(error))
    return (msgspec.convert(merged, Settings) if merged else Settings()), warnings


def _read(home: Home, path: Path, within: Path | None, merged: dict[str, Any]) -> dict[str, Any]:
    """Return what a settings file says. Raises ConfigError, and makes `merged` stricter, if that cannot be found out."""
    largest = files.LARGEST_FILE if within is None else files.LARGEST_PROJECT_FILE
    data: bytes | None = None
    try:
        data = files.read_if_present(path, within=within, largest=largest)
        return {} if data is None else parse_settings(home, path, data)
    except ConfigError as error:
        from fairlead.config.restrictions import closed

        changed, meaning = closed(data, merged, of_project=within is not None)
        merged |= changed
        raise ConfigError(f"{error} {meaning}".rstrip()) from error


def parse_settings(home: Home, path: Path, data: bytes) -> dict[str, Any]:
    """Return what a settings file says, under fairlead's names. Raises ConfigError if it cannot be understood."""
    if path.suffix == ".json":
        values = json_files.parse_object(path, data)
    else:
        from fairlead.config import yaml_files

        values = yaml_files.parse_object(path, data)
    if home.is_of_peer(path):
        from fairlead.config.peer_settings import from_peer

        return from_peer(values, omp=home.has_omp_layout)
    return values


def remark(texts: Sequence[str]) -> None:
    """Log what hosts of a peer should not see on stderr, because the peer does not mention it there either."""
    import logging

    logging.getLogger("fairlead.config").info("%s", "\n".join(texts))


def usable(values: dict[str, Any], path: Path, warnings: list[str], home: Home) -> dict[str, Any]:
    """Return the settings of a file that can be used, with paths that begin at its directory. Each other one leaves a warning.

    A file of a peer may have values that only the peer understands, which is only worth a line in the log.
    """
    of_peer = home.is_of_peer(path)
    problems: list[str] = [] if of_peer else warnings
    found = _usable(values, Settings, path, "", problems)
    if of_peer and problems:
        remark(problems)
    for key in PATHS:
        if key in found:
            found[key] = [name if name.startswith("~") else str(path.parent / name) for name in found[key]]
    return found


def persist_setting(home: Home, key: str, value: Any) -> None:
    """Write one key (`"steeringMode"`, `"retry.enabled"`) to the user's settings; None takes it out.

    A `"defaultModel"` may be given with its provider: `"provider/id"`.
    Raises ConfigError if the value is not one the key can have, or the file cannot be changed.
    """
    if home.isolated:
        raise ConfigError("Settings are not saved in an isolated run.")
    if key == "defaultModel" and isinstance(value, str):
        _write_model(home, value)
        return
    problems: list[str] = []
    if value is not None:
        group, dot, name = key.partition(".")
        _usable({group: {name: value} if dot else value}, Settings, home.settings_path, "", problems)
    if problems:
        raise ConfigError(problems[0])
    _write(home.settings_path, key, value)


def _write_model(home: Home, name: str) -> None:
    if home.has_omp_layout:
        _write(home.settings_path, "modelRoles.default", name)
        return
    provider, slash, model_id = name.partition("/")
    if slash:
        _write(home.settings_path, "defaultProvider", provider)
    _write(home.settings_path, "defaultModel", model_id if slash else name)


def _write(path: Path, key: str, value: Any) -> None:
    if path.suffix == ".json":
        json_files.change_object(path, key, value)
        return
    from fairlead.config import yaml_files

    yaml_files.change_value(path, key, value)


def _usable(values: dict[str, Any], group: type[Struct], path: Path, prefix: str, warnings: list[str]) -> dict[str, Any]:
    """`values` without those that `group` cannot hold, each of which leaves a warning. null means absent."""
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(group)}
    usable: dict[str, Any] = {}
    for key, value in values.items():
        kind = fields.get(key)
        if kind is None or value is None:
            continue
        name = f"{prefix}{key}"
        if isinstance(kind, type) and issubclass(kind, Struct):
            if isinstance(value, dict):
                usable[key] = _usable(cast("dict[str, Any]", value), kind, path, f"{name}.", warnings)
            else:
                warnings.append(_unusable(path, name, "an object", value))
            continue
        try:
            msgspec.convert(value, cast("Any", kind))
        except msgspec.ValidationError:
            warnings.append(_unusable(path, name, _expected(kind), value))
        else:
            usable[key] = value
    return usable


def _unusable(path: Path, name: str, expected: str, value: Any) -> str:
    return f"{path}: {name}: expected {expected}, found {json_files.found(value)}. The default is used."


def _expected(kind: Any) -> str:
    """Return what a setting of this type can be, in words."""
    from msgspec import inspect

    return _in_words(inspect.type_info(kind))


def _in_words(info: Any) -> str:
    from msgspec import inspect

    match info:
        case inspect.UnionType(types=types):
            return " or ".join(_in_words(each) for each in types if not isinstance(each, inspect.NoneType))
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(f'"{value}"' for value in values)
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType():
            return "a string"
        case inspect.IntType(ge=least):
            return "a whole number" if least is None else f"a whole number of at least {least}"
        case inspect.FloatType(gt=bound):
            return "a number" if bound is None else f"a number above {bound:g}"
        case inspect.ListType():
            return "a list of strings"
        case inspect.DictType(value_type=inspect.StrType()):
            return "an object of strings"
        case _:
            return "an object of thinking levels and numbers"


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` on top of `base`; objects are merged, everything else is replaced."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            value = _merge(cast("dict[str, Any]", old), cast("dict[str, Any]", value))
        merged[key] = value
    return merged
