"""All commands, frames and replies of the pi family, and the types of fields that the wire carries as plain JSON."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from fairlead.protocol.pi import frames, host_requests
from fairlead.protocol.pi.commands import BASIC_COMMANDS, Command
from fairlead.protocol.pi.frames import Frame
from fairlead.protocol.pi.host_requests import HOST_COMMANDS
from fairlead.protocol.pi.omp_commands import OMP_COMMANDS, SUBAGENT_COMMANDS
from fairlead.protocol.pi.session_commands import SESSION_COMMANDS

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
    frames.MessageUpdate,
    frames.MessageEnd,
    frames.ToolExecutionStart,
    frames.ToolExecutionUpdate,
    frames.ToolExecutionEnd,
    frames.AutoRetryStart,
    frames.AutoRetryEnd,
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
