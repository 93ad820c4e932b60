"""All frames of the family, and all answers of a host."""

from __future__ import annotations

from fairlead.protocol.pi import frames
from fairlead.protocol.pi.frames import Frame
from fairlead.protocol.pi.host_commands import HOST_ANSWERS, Answer
from fairlead.protocol.pi.ui_frames import ExtensionUiRequest, ExtensionUiResponse

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
    frames.HostToolCall,
    frames.HostToolCancel,
    frames.HostUriRequest,
    frames.HostUriCancel,
    ExtensionUiRequest,
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

ANSWERS: tuple[type[Answer], ...] = (*HOST_ANSWERS, ExtensionUiResponse)
