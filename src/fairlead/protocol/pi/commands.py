"""What a host may send. A class is a command; its fields are the command's; its docstring is its documentation.

`null` for an optional field means absent. Every command may carry an `id` of any JSON type, which its
response echoes. `result` is the type of the response's `data`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import UNSET, Struct, UnsetType

from fairlead.core.messages import ImageContent, Message
from fairlead.core.model import Model, ThinkingLevel
from fairlead.core.queues import InterruptMode, QueueMode
from fairlead.protocol.pi.command import Command, Persisted
from fairlead.protocol.pi.state import SessionStats, State

# Prompting


class Prompt(Command, tag="prompt", kw_only=True):
    """Give the agent something to do.

    Answered when the prompt is accepted; its work is over at `agent_settled`. While the agent is busy,
    `streamingBehavior` says how to queue the message: `followUp`, or `steer` (any other text means `steer`).
    """

    message: str
    images: list[ImageContent] | None = None
    streaming_behavior: str | None = None
    #: xcsh: as in `set_locale`.
    locale: str | None = None


class Steer(Command, tag="steer", kw_only=True):
    """Queue a message that the agent hears as soon as it can listen: after the current turn, or with the interrupt
    mode `immediate` after the tool that runs. While the agent is idle the message waits for the next prompt."""

    message: str
    images: list[ImageContent] | None = None


class FollowUp(Command, tag="follow_up", kw_only=True):
    """Queue a message that the agent hears when it would otherwise stop."""

    message: str
    images: list[ImageContent] | None = None


class Abort(Command, tag="abort"):
    """Stop the run. Answered after the run's last event; what had arrived is kept, and so are the queues."""


class AbortAndPrompt(Command, tag="abort_and_prompt", kw_only=True):
    """Stop the run, if there is one, then start another with this message."""

    message: str
    images: list[ImageContent] | None = None


class ClearedQueue(Struct, rename="camel"):
    steering: list[str]
    follow_up: list[str]


class ClearQueue(Command, tag="clear_queue"):
    """Forget all queued messages; the answer has their texts."""

    result: ClassVar[Any] = ClearedQueue


# State


class GetState(Command, tag="get_state"):
    """How the session stands. `verbose` adds the system prompt and the tools as the model is told of them."""

    verbose: bool | None = None
    result: ClassVar[Any] = State


class GetSessionStats(Command, tag="get_session_stats"):
    """What the conversation came to: messages, tokens, cost."""

    result: ClassVar[Any] = SessionStats


class Messages(Struct):
    messages: list[Message]


class GetMessages(Command, tag="get_messages"):
    """The conversation."""

    result: ClassVar[Any] = Messages


class LastText(Struct):
    text: str | None


class GetLastAssistantText(Command, tag="get_last_assistant_text"):
    """The text of the last answer; null if there is none."""

    result: ClassVar[Any] = LastText


# Model


class SetModel(Persisted, tag="set_model", kw_only=True):
    """Use another model from the next model call on. The thinking level is fitted to it."""

    provider: str
    model_id: str
    result: ClassVar[Any] = Model


class CycledModel(Struct, rename="camel"):
    model: Model
    is_scoped: bool
    thinking_level: ThinkingLevel | UnsetType = UNSET


class CycleModel(Command, tag="cycle_model"):
    """Use the next of the models given with `--models`, else of all available ones. Null if there is no other."""

    result: ClassVar[Any] = CycledModel | None


class AvailableModels(Struct):
    models: list[Model]


class GetAvailableModels(Command, tag="get_available_models"):
    """The models for which there are credentials."""

    result: ClassVar[Any] = AvailableModels


# Thinking


class SetThinkingLevel(Persisted, tag="set_thinking_level", kw_only=True):
    """How much the model thinks; fitted to what it can."""

    level: ThinkingLevel


class CycledLevel(Struct):
    level: ThinkingLevel


class CycleThinkingLevel(Command, tag="cycle_thinking_level"):
    """The next thinking level; null for a model without reasoning."""

    result: ClassVar[Any] = CycledLevel | None


class ThinkingLevels(Struct):
    levels: list[ThinkingLevel]


class GetAvailableThinkingLevels(Command, tag="get_available_thinking_levels"):
    """The thinking levels of the current model."""

    result: ClassVar[Any] = ThinkingLevels


# Queue modes


class SetSteeringMode(Persisted, tag="set_steering_mode", kw_only=True):
    """How many steering messages a turn takes."""

    mode: QueueMode


class SetFollowUpMode(Persisted, tag="set_follow_up_mode", kw_only=True):
    """How many follow-ups a turn takes."""

    mode: QueueMode


class SetInterruptMode(Persisted, tag="set_interrupt_mode", kw_only=True):
    """Whether steering waits for all tools of a turn, or skips those that have not started."""

    mode: InterruptMode


# The machine


class BashResult(Struct, rename="camel"):
    output: str
    cancelled: bool
    truncated: bool
    exit_code: int | UnsetType = UNSET
    full_output_path: str | UnsetType = UNSET
    total_lines: int | UnsetType = UNSET
    total_bytes: int | UnsetType = UNSET
    output_lines: int | UnsetType = UNSET
    output_bytes: int | UnsetType = UNSET


class Bash(Command, tag="bash", kw_only=True):
    """Run a shell command for the user, beside whatever the agent does. Its output comes as `bash_execution_update` while
    it runs. The model sees it with the next prompt, unless `excludeFromContext` is set. Answered when the command ends."""

    command: str
    exclude_from_context: bool | None = None
    result: ClassVar[Any] = BashResult


class AbortBash(Command, tag="abort_bash"):
    """Stop the latest of the running `bash` commands."""


class SetAutoRetry(Persisted, tag="set_auto_retry", kw_only=True):
    """Whether a model call that failed in a way that may pass is tried again by itself."""

    enabled: bool


class AbortRetry(Command, tag="abort_retry"):
    """Give up waiting for the next attempt of a failed model call, if one is waited for."""


class ToolInfo(Struct):
    name: str
    label: str
    description: str
    parameters: dict[str, Any]
    active: bool


class Tools(Struct):
    tools: list[ToolInfo]


class GetTools(Command, tag="get_tools"):
    """All tools, and which of them the model may use."""

    result: ClassVar[Any] = Tools


class ActiveTools(Struct):
    tools: list[str]


class SetActiveTools(Command, tag="set_active_tools", kw_only=True):
    """Choose the tools that the model may use from its next call on."""

    tools: list[str]
    result: ClassVar[Any] = ActiveTools


# Slash commands


class SourceInfo(Struct, rename="camel"):
    """Where something of the user's comes from."""

    path: str
    #: `auto`: found in a usual folder; `local`: named in the settings; `cli`: named on the command line.
    source: str
    scope: Literal["user", "project", "temporary"]
    origin: Literal["top-level", "package"] = "top-level"
    #: The folder of configuration that it belongs to.
    base_dir: str | UnsetType = UNSET


class SlashCommand(Struct, rename="camel"):
    """What a prompt can begin with, such as `/name`."""

    name: str
    description: str
    #: `extension`: it runs code of an extension; `prompt`: a template; `skill`.
    source: str
    source_info: SourceInfo


class SlashCommands(Struct):
    commands: list[SlashCommand]


class GetCommands(Command, tag="get_commands"):
    """The slash commands: those of extensions, prompt templates, skills. A message that begins with one stands for what it is
    made of, or runs it."""

    result: ClassVar[Any] = SlashCommands


class GetAvailableCommands(Command, tag="get_available_commands"):
    """The name of `get_commands` in omp."""

    result: ClassVar[Any] = SlashCommands


# The connection


class SetUpdates(Command, tag="set_updates", kw_only=True):
    """The form of `message_update`: `full` repeats the message so far, `delta` has only what is new."""

    updates: Literal["full", "delta"]


class Shutdown(Command, tag="shutdown"):
    """Stop the run, answer, and exit with code 0."""


#: The commands that nearly every host needs. `all_commands` has them all; it is loaded when another one is asked for.
BASIC_COMMANDS: dict[str, type[Command]] = {
    str(command.__struct_config__.tag): command
    for command in (
        Prompt,
        Steer,
        FollowUp,
        Abort,
        AbortAndPrompt,
        ClearQueue,
        GetState,
        GetSessionStats,
        GetMessages,
        GetLastAssistantText,
        SetModel,
        CycleModel,
        GetAvailableModels,
        SetThinkingLevel,
        CycleThinkingLevel,
        GetAvailableThinkingLevels,
        SetSteeringMode,
        SetFollowUpMode,
        SetInterruptMode,
        Bash,
        AbortBash,
        SetAutoRetry,
        AbortRetry,
        GetTools,
        SetActiveTools,
        GetCommands,
        GetAvailableCommands,
        SetUpdates,
        Shutdown,
    )
}

#: A host's answers to questions of ours. One that answers no open question is dropped without a word.
ANSWER_NAMES: frozenset[str] = frozenset({"extension_ui_response", "host_tool_update", "host_tool_result", "host_uri_result"})
