"""Collects all commands, frames and replies of the family, and the lines of each dialect, for its schema."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from fairlead.core.messages import AssistantBlock, Message, UserBlock
from fairlead.protocol.pi import commands, frames, host_requests, omp_commands, session_commands, update_frames
from fairlead.protocol.pi.commands import BASIC_COMMANDS, Command
from fairlead.protocol.pi.frames import Frame, Response
from fairlead.protocol.pi.host_requests import HOST_COMMANDS, REPLIES, UI_REQUEST_FIELDS, ExtensionUiRequest
from fairlead.protocol.pi.omp_commands import OMP_COMMANDS, SUBAGENT_COMMANDS
from fairlead.protocol.pi.pi_examples import COMMAND_EXAMPLES, COMMAND_EXAMPLES_2025, EXAMPLES_2025, LINE_EXAMPLES
from fairlead.protocol.pi.session_commands import COMMANDS_2025, EVENTS_2025, SESSION_COMMANDS, Compaction, Error
from fairlead.protocol.pi.update_frames import InnerEvent
from fairlead.protocol.schema.builder import NULL, Refinements, reference
from fairlead.protocol.schema.family import Lines, Variants
from fairlead.session.history.entries import MessageEntry, OtherEntry, ShownEntry
from fairlead.session.rules.stream_rules import Rule
from fairlead.session.todos.todos import TodoPhase, TodoTask
from fairlead.stores.headers import Header
from fairlead.wire.pi.profile import Profile

#: All commands, by name.
COMMANDS: dict[str, type[Command]] = BASIC_COMMANDS | {
    str(command.__struct_config__.tag): command
    for command in (*SESSION_COMMANDS, *SUBAGENT_COMMANDS, *HOST_COMMANDS, *OMP_COMMANDS)
}

FRAMES: tuple[type[Frame], ...] = (
    frames.Response,
    frames.Ready,
    frames.RpcChunk,
    frames.AgentStart,
    frames.AgentEnd,
    frames.AgentSettled,
    frames.SessionSettled,
    frames.PromptResult,
    frames.TurnStart,
    frames.TurnEnd,
    frames.MessageStart,
    update_frames.MessageUpdate,
    frames.MessageEnd,
    frames.ToolExecutionStart,
    frames.ToolExecutionUpdate,
    frames.ToolExecutionEnd,
    frames.AutoRetryStart,
    frames.AutoRetryEnd,
    frames.SummarizationRetryScheduled,
    frames.SummarizationRetryAttemptStart,
    frames.SummarizationRetryFinished,
    frames.CompactionStart,
    frames.CompactionEnd,
    frames.AutoCompactionStart,
    frames.AutoCompactionEnd,
    frames.BashExecutionUpdate,
    host_requests.HostToolCall,
    host_requests.HostToolCancel,
    host_requests.HostUriRequest,
    host_requests.HostUriCancel,
    host_requests.ExtensionUiRequest,
    frames.TtsrTriggered,
    frames.TodoReminder,
    frames.TodoAutoClear,
    frames.EntryAppended,
    frames.SessionInfoChanged,
    frames.QueueUpdate,
    frames.ThinkingLevelChanged,
    frames.ModelChanged,
    frames.Notice,
    frames.AvailableCommandsUpdate,
    frames.SubagentLifecycle,
    frames.SubagentProgress,
    frames.SubagentEvent,
    frames.ExtensionError,
)

# Fields that the code checks piece by piece or passes on: the declarations call them JSON, the schema says what they contain


class GivenTask(Struct):
    """A task in `set_todos`. A missing or repeated id is replaced with a new one."""

    content: str
    id: str | None = None
    status: Literal["pending", "in_progress", "completed", "abandoned"] | None = None
    notes: str | None = None
    details: str | None = None


class GivenPhase(Struct):
    """A group of tasks in `set_todos`."""

    name: str
    tasks: list[GivenTask]
    id: str | None = None


class TreeNode(Struct, rename="camel"):
    """An entry and the entries that follow it, oldest first."""

    entry: dict[str, Any]
    children: list[TreeNode]
    label: str | UnsetType = UNSET
    label_timestamp: str | UnsetType = UNSET


_ENTRY = get_args(ShownEntry)
_SUBSCRIPTION = Literal["off", "progress", "events"]

_REFINEMENTS: Refinements = {
    (commands.Prompt, "streaming_behavior"): {"anyOf": [{"type": "string", "suggested": ["steer", "followUp"]}, NULL]},
    (commands.SlashCommand, "source"): Literal["extension", "prompt", "skill"],
    (omp_commands.SetSubagentSubscription, "level"): _SUBSCRIPTION,
    (omp_commands.SubagentSubscription, "level"): _SUBSCRIPTION,
    (frames.RpcSessionState, "todo_phases"): list[TodoPhase],
    (omp_commands.SetTodos, "phases"): list[GivenPhase],
    (omp_commands.TodoPhases, "todo_phases"): list[TodoPhase],
    (omp_commands.SetEventFilter, "events"): list[str] | None,
    (session_commands.Entries, "entries"): [_ENTRY],
    (session_commands.Tree, "tree"): list[TreeNode],
    (TreeNode, "entry"): _ENTRY,
    (omp_commands.SubagentMessages, "entries"): [(Header, *_ENTRY)],
    (omp_commands.SubagentMessages, "messages"): list[Message],
    (MessageEntry, "message"): Message,
    (frames.EntryAppended, "entry"): _ENTRY,
    (frames.TtsrTriggered, "rules"): list[Rule],
    (frames.TodoReminder, "todos"): list[TodoTask],
    (frames.SubagentEventPayload, "event"): reference("Event"),
}

_UNIONS: dict[str, Any] = {
    "Message": Message,
    "UserBlock": UserBlock,
    "AssistantBlock": AssistantBlock,
    "AssistantMessageEvent": InnerEvent,
    "SessionEntry": ShownEntry,
}


def lines(profile: Profile) -> Lines:
    """Return the lines of one dialect."""
    return msgspec.structs.replace(whole_family(), events=events(profile))


def lines_2025() -> Lines:
    """Return the lines of pi-2025."""
    return msgspec.structs.replace(
        whole_family(),
        commands=COMMANDS_2025,
        answers=(),
        events=[frame for frame in (*FRAMES, Compaction, Error) if _tag(frame) in EVENTS_2025],
        responses=False,
        command_examples=COMMAND_EXAMPLES_2025,
        line_examples=LINE_EXAMPLES | EXAMPLES_2025,
    )


def whole_family() -> Lines:
    """Return the lines of all dialects except pi-2025."""
    return Lines(
        commands=COMMANDS,
        answers=REPLIES,
        events=[frame for frame in FRAMES if frame is not Response],
        responses=True,
        refinements=_REFINEMENTS,
        unions=_UNIONS,
        open_ended=(OtherEntry,),
        variants={ExtensionUiRequest: Variants(by="method", fields=UI_REQUEST_FIELDS, suffix="UiRequest")},
        command_examples=COMMAND_EXAMPLES,
        line_examples=LINE_EXAMPLES,
    )


def events(profile: Profile) -> list[type[Frame]]:
    """Return the frames that hosts of this dialect may get, except for responses."""
    unsent = {_tag(Response), *profile.hidden_events}
    if profile.ready == "none":
        unsent.add("ready")
    if not profile.prompt_results:
        unsent |= {"prompt_result", "session_settled"}
    if not profile.omp_events:
        unsent |= {"available_commands_update", "notice", "model_changed"}
    compaction = "auto_compaction" if profile.sends_all_compactions else "compaction"
    unsent |= {f"{compaction}_start", f"{compaction}_end"}
    return [frame for frame in FRAMES if _tag(frame) not in unsent]


def _tag(frame: type[Frame]) -> str:
    return str(frame.__struct_config__.tag)
