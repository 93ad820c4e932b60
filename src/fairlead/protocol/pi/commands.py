"""The commands that most hosts use. A class declares a command, its fields and its documentation.

`null` for an optional field means that it is absent. Every command may carry an `id` of any JSON type, which its response
echoes. `result` is the type of the response's `data`.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core.messages import ImageContent, Message
from fairlead.core.model import Model, ThinkingLevel
from fairlead.core.queues import InterruptMode, QueueMode
from fairlead.protocol.pi.frames import RpcSessionState, SessionStats


class Command(Struct, tag_field="type", rename="camel", omit_defaults=True):
    id: Raw | UnsetType = UNSET
    #: The type of the response's `data`; None if it has none.
    result: ClassVar[Any] = None
    #: Whether some dialects leave the `data` out.
    result_is_optional: ClassVar[bool] = False
    #: Takes a command as JSON and returns what is wrong with it, in the words that hosts of a peer know; None if all is well.
    fault: ClassVar[Callable[[dict[str, Any]], str | None] | None] = None


class Persisted(Command, kw_only=True):
    #: Also write the value to the user's settings. Otherwise only this session changes.
    persist: bool | None = None


# Prompting


class Attachment(Struct, rename="camel", omit_defaults=True):
    """A file that comes with a message, as base64. The model sees an image; of a document its `extractedText`, or its content if
    that is text. Of any other document it gets the name, the type and the size."""

    type: Literal["image", "document"]
    content: str
    id: str | None = None
    file_name: str | None = None
    mime_type: str | None = None
    size: int | None = None
    extracted_text: str | None = None
    preview: str | None = None


class Disposition(Struct):
    """What happened to a message. A message that an extension `handled` starts no run."""

    disposition: Literal["started", "queued", "handled"]


class Prompt(Command, tag="prompt", kw_only=True):
    """Start a run with a message from the user.

    In pi, the response arrives when the prompt is accepted. In omp and xcsh it does not wait for extensions, or for the command
    that prints a key: what fails afterwards is a second response, with the same id and the error. The work is over at
    `agent_settled`. If a run is in progress, `streamingBehavior` says how to queue the message: `followUp`, or `steer` (which
    any other text means too).
    """

    message: str
    images: list[ImageContent] | None = None
    streaming_behavior: str | None = None
    #: The same as `set_locale` (xcsh).
    locale: str | None = None
    #: Files that come with the message, as in pi-2025.
    attachments: list[Attachment] | None = None
    result: ClassVar[Any] = Disposition
    result_is_optional: ClassVar[bool] = True


class Steer(Command, tag="steer", kw_only=True):
    """Queue a message for the current run. The model gets it after the current turn or, with the interrupt mode `immediate`,
    after the tool that is running. If no run is in progress, the message waits for the next prompt."""

    message: str
    images: list[ImageContent] | None = None
    #: Files that come with the message, as in pi-2025.
    attachments: list[Attachment] | None = None
    result: ClassVar[Any] = Disposition
    result_is_optional: ClassVar[bool] = True


class FollowUp(Command, tag="follow_up", kw_only=True):
    """Queue a message that the model gets when the run would otherwise end."""

    message: str
    images: list[ImageContent] | None = None
    #: Files that come with the message, as in pi-2025.
    attachments: list[Attachment] | None = None
    result: ClassVar[Any] = Disposition
    result_is_optional: ClassVar[bool] = True


class Abort(Command, tag="abort"):
    """Stop the run. The response follows the last event of the run. The part of the answer that has arrived is kept, and so are
    the queues."""


class AbortAndPrompt(Command, tag="abort_and_prompt", kw_only=True):
    """Stop the current run, if any, then start another one with this message."""

    message: str
    images: list[ImageContent] | None = None
    #: Files that come with the message, as in pi-2025.
    attachments: list[Attachment] | None = None


class ClearedQueue(Struct, rename="camel"):
    steering: list[str]
    follow_up: list[str]


class ClearQueue(Command, tag="clear_queue"):
    """Remove all queued messages. The response contains their texts."""

    result: ClassVar[Any] = ClearedQueue


# State


class GetState(Command, tag="get_state"):
    """Get the state of the session. `verbose` adds the system prompt and the tools as the model sees them."""

    verbose: bool | None = None
    result: ClassVar[Any] = RpcSessionState


class GetSessionStats(Command, tag="get_session_stats"):
    """Get totals of the session: messages, tokens, cost."""

    result: ClassVar[Any] = SessionStats


class Messages(Struct):
    messages: list[Message]


class GetMessages(Command, tag="get_messages"):
    """Get the messages of the conversation."""

    result: ClassVar[Any] = Messages


class LastText(Struct):
    text: str | None


class GetLastAssistantText(Command, tag="get_last_assistant_text"):
    """Get the text of the last answer, or null if there is none."""

    result: ClassVar[Any] = LastText


# Model


class SetModel(Persisted, tag="set_model", kw_only=True):
    """Use another model, starting with the next model call. A thinking level that the model lacks becomes the nearest one."""

    provider: str
    model_id: str
    result: ClassVar[Any] = Model


class CycledModel(Struct, rename="camel"):
    model: Model
    is_scoped: bool
    thinking_level: ThinkingLevel | UnsetType = UNSET


class CycleModel(Command, tag="cycle_model"):
    """Switch to the next model of `--models` or, without that flag, of all available ones. Null if there is no other."""

    result: ClassVar[Any] = CycledModel | None


class AvailableModels(Struct):
    models: list[Model]


class GetAvailableModels(Command, tag="get_available_models"):
    """List the models for which there are credentials."""

    result: ClassVar[Any] = AvailableModels


# Thinking


class ChosenLevel(Struct):
    """The level in force."""

    level: ThinkingLevel


class SetThinkingLevel(Persisted, tag="set_thinking_level", kw_only=True):
    """Set how much the model thinks. A level that the model lacks becomes the nearest one, which the response names.

    `auto` is the default level.
    """

    level: ThinkingLevel | Literal["auto"]
    result: ClassVar[Any] = ChosenLevel


class CycleThinkingLevel(Command, tag="cycle_thinking_level"):
    """Switch to the next thinking level. Null for a model without reasoning."""

    result: ClassVar[Any] = ChosenLevel | None


class ThinkingLevels(Struct):
    levels: list[ThinkingLevel]


class GetAvailableThinkingLevels(Command, tag="get_available_thinking_levels"):
    """List the thinking levels of the current model."""

    result: ClassVar[Any] = ThinkingLevels


# Queue modes


class SetSteeringMode(Persisted, tag="set_steering_mode", kw_only=True):
    """Set how many steering messages a turn takes from the queue."""

    mode: QueueMode


class SetFollowUpMode(Persisted, tag="set_follow_up_mode", kw_only=True):
    """Set how many follow-up messages a turn takes from the queue."""

    mode: QueueMode


class SetInterruptMode(Persisted, tag="set_interrupt_mode", kw_only=True):
    """Set whether a steering message waits for all tools of a turn or skips those that have not started."""

    mode: InterruptMode


# Commands, retries and tools


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
    """Run a shell command for the user, independently of any run. `bash_execution_update` events carry its output while it
    runs. The model sees the output with the next prompt, unless `excludeFromContext` is set. The response arrives when the
    command ends."""

    command: str
    exclude_from_context: bool | None = None
    result: ClassVar[Any] = BashResult


class AbortBash(Command, tag="abort_bash"):
    """Stop the `bash` command that was started last."""


class SetAutoRetry(Persisted, tag="set_auto_retry", kw_only=True):
    """Turn automatic retries of failed model calls on or off."""

    enabled: bool


class AbortRetry(Command, tag="abort_retry"):
    """Cancel the wait for the next retry, if there is one. The run ends with the error."""


class ToolInfo(Struct):
    name: str
    label: str
    description: str
    parameters: dict[str, Any]
    active: bool


class Tools(Struct):
    tools: list[ToolInfo]


class GetTools(Command, tag="get_tools"):
    """List all tools, and which of them the model may use."""

    result: ClassVar[Any] = Tools


class ActiveTools(Struct):
    tools: list[str]


class SetActiveTools(Command, tag="set_active_tools", kw_only=True):
    """Choose the tools that the model may use, starting with the next model call."""

    tools: list[str]
    result: ClassVar[Any] = ActiveTools


# Slash commands


class SourceInfo(Struct, rename="camel"):
    """Where a slash command comes from."""

    path: str
    #: `auto`: found in a default folder; `local`: named in the settings; `cli`: named on the command line. With `origin`
    #: `package`, the package as the settings name it.
    source: str
    scope: Literal["user", "project", "temporary"]
    origin: Literal["top-level", "package"] = "top-level"
    #: The configuration folder, or the folder of the package, that contains it.
    base_dir: str | UnsetType = UNSET


class SlashCommand(Struct, rename="camel", kw_only=True):
    """A command that a prompt can begin with, such as `/name`."""

    name: str
    #: Left out for a command of an extension that has none.
    description: str | UnsetType = UNSET
    #: `extension`: code of an extension; `prompt`: a prompt template; `skill`: a skill.
    source: str
    source_info: SourceInfo


class SlashCommands(Struct):
    commands: list[SlashCommand]


class GetCommands(Command, tag="get_commands"):
    """List the slash commands of extensions, prompt templates and skills. A message that begins with one is expanded to its
    text, or runs it."""

    result: ClassVar[Any] = SlashCommands


class GetAvailableCommands(Command, tag="get_available_commands"):
    """The name that omp has for `get_commands`."""

    result: ClassVar[Any] = SlashCommands


# The connection


class SetUpdates(Command, tag="set_updates", kw_only=True):
    """Set the form of `message_update`: `full` repeats the message so far, `delta` has only the new part."""

    updates: Literal["full", "delta"]


class Shutdown(Command, tag="shutdown"):
    """Stop the run, respond, and exit with code 0."""


#: These commands are loaded at start. The others are loaded when a host first uses one.
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

#: The replies of a host to our questions. A reply to a question that is not open is ignored.
ANSWER_NAMES: frozenset[str] = frozenset({"extension_ui_response", "host_tool_update", "host_tool_result", "host_uri_result"})
