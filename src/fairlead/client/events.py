"""The events of the pi family, as a client gets them.

`make generate` writes this module from the declarations. Do not edit it.
"""

from __future__ import annotations

from fairlead.client.decoding import Event, Restarted, UnknownEvent, UnparsedLine
from fairlead.protocol.pi import frames, host_requests, session_commands, update_frames
from fairlead.protocol.pi.update_frames import (
    InnerEvent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolcallDelta,
    ToolcallEnd,
    ToolcallStart,
)

__all__ = [
    "AgentEnd",
    "AgentSettled",
    "AgentStart",
    "AutoCompactionEnd",
    "AutoCompactionStart",
    "AutoRetryEnd",
    "AutoRetryStart",
    "AvailableCommandsUpdate",
    "BashExecutionUpdate",
    "Compaction",
    "CompactionEnd",
    "CompactionStart",
    "EntryAppended",
    "Error",
    "Event",
    "ExtensionError",
    "ExtensionUiRequest",
    "HostToolCall",
    "HostToolCancel",
    "HostUriCancel",
    "HostUriRequest",
    "InnerEvent",
    "MessageEnd",
    "MessageStart",
    "MessageUpdate",
    "ModelChanged",
    "Notice",
    "PromptResult",
    "QueueUpdate",
    "Ready",
    "Restarted",
    "SessionInfoChanged",
    "SessionSettled",
    "SubagentEvent",
    "SubagentLifecycle",
    "SubagentProgress",
    "SummarizationRetryAttemptStart",
    "SummarizationRetryFinished",
    "SummarizationRetryScheduled",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "ThinkingDelta",
    "ThinkingEnd",
    "ThinkingLevelChanged",
    "ThinkingStart",
    "TodoAutoClear",
    "TodoReminder",
    "ToolExecutionEnd",
    "ToolExecutionStart",
    "ToolExecutionUpdate",
    "ToolcallDelta",
    "ToolcallEnd",
    "ToolcallStart",
    "TtsrTriggered",
    "TurnEnd",
    "TurnStart",
    "UnknownEvent",
    "UnparsedLine",
]


class Ready(frames.Ready, Event, tag="ready"):
    """The first frame in omp and xcsh: the agent accepts commands."""


class AgentStart(frames.AgentStart, Event, tag="agent_start"):
    """A run started."""


class AgentEnd(frames.AgentEnd, Event, tag="agent_end"):
    """A run ended."""


class AgentSettled(frames.AgentSettled, Event, tag="agent_settled"):
    """The work is over."""


class SessionSettled(frames.SessionSettled, Event, tag="session_settled"):
    """The name that omp has for `agent_settled`."""


class PromptResult(frames.PromptResult, Event, tag="prompt_result"):
    """How one accepted prompt ended (omp)."""

    id: str | None = None  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues]


class TurnStart(frames.TurnStart, Event, tag="turn_start"):
    """A turn started: one model call and the tools that it asks for."""


class TurnEnd(frames.TurnEnd, Event, tag="turn_end"):
    """The turn ended."""


class MessageStart(frames.MessageStart, Event, tag="message_start"):
    """A message started."""


class MessageUpdate(update_frames.MessageUpdate, Event, tag="message_update"):
    """Part of an assistant message arrived."""


class MessageEnd(frames.MessageEnd, Event, tag="message_end"):
    """A message is complete."""


class ToolExecutionStart(frames.ToolExecutionStart, Event, tag="tool_execution_start"):
    """A tool call is about to run."""


class ToolExecutionUpdate(frames.ToolExecutionUpdate, Event, tag="tool_execution_update"):
    """The whole output of a running tool so far, not only the new part."""


class ToolExecutionEnd(frames.ToolExecutionEnd, Event, tag="tool_execution_end"):
    """A tool call ended."""


class AutoRetryStart(frames.AutoRetryStart, Event, tag="auto_retry_start"):
    """A model call failed with an error that may be temporary."""


class AutoRetryEnd(frames.AutoRetryEnd, Event, tag="auto_retry_end"):
    """The retries are over: one succeeded, all failed, or the host cancelled them."""


class SummarizationRetryScheduled(frames.SummarizationRetryScheduled, Event, tag="summarization_retry_scheduled"):
    """A request for a summary failed with an error that may be temporary."""


class SummarizationRetryAttemptStart(frames.SummarizationRetryAttemptStart, Event, tag="summarization_retry_attempt_start"):
    """A request for a summary is sent again."""


class SummarizationRetryFinished(frames.SummarizationRetryFinished, Event, tag="summarization_retry_finished"):
    """The retries for a summary are over: one succeeded, all failed, or the host cancelled them (pi)."""


class CompactionStart(frames.CompactionStart, Event, tag="compaction_start"):
    """A compaction started: a summary will replace the older part of the conversation (pi)."""


class CompactionEnd(frames.CompactionEnd, Event, tag="compaction_end"):
    """A compaction ended."""


class AutoCompactionStart(frames.AutoCompactionStart, Event, tag="auto_compaction_start"):
    """An automatic compaction started (omp and xcsh)."""


class AutoCompactionEnd(frames.AutoCompactionEnd, Event, tag="auto_compaction_end"):
    """An automatic compaction ended (omp and xcsh)."""


class BashExecutionUpdate(frames.BashExecutionUpdate, Event, tag="bash_execution_update"):
    """New output of a `bash` command."""

    id: str | None = None  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues]


class HostToolCall(host_requests.HostToolCall, Event, tag="host_tool_call"):
    """The model calls a host tool."""


class HostToolCancel(host_requests.HostToolCancel, Event, tag="host_tool_cancel"):
    """The `host_tool_call` with the id `targetId` was cancelled: the run was aborted, or the tool timed out."""


class HostUriRequest(host_requests.HostUriRequest, Event, tag="host_uri_request"):
    """The model reads a host URI, or writes `content` to it."""


class HostUriCancel(host_requests.HostUriCancel, Event, tag="host_uri_cancel"):
    """The `host_uri_request` with the id `targetId` was cancelled."""


class ExtensionUiRequest(host_requests.ExtensionUiRequest, Event, tag="extension_ui_request"):
    """Ask or show the user of the host something."""


class TtsrTriggered(frames.TtsrTriggered, Event, tag="ttsr_triggered"):
    """The model broke these stream rules."""


class TodoReminder(frames.TodoReminder, Event, tag="todo_reminder"):
    """The model stopped although todos are left."""


class TodoAutoClear(frames.TodoAutoClear, Event, tag="todo_auto_clear"):
    """The list no longer contains todos that were completed a while ago."""


class EntryAppended(frames.EntryAppended, Event, tag="entry_appended"):
    """The session has a new entry that no other event describes, such as one that hides a failed answer from the
    model."""


class SessionInfoChanged(frames.SessionInfoChanged, Event, tag="session_info_changed"):
    """The name of the session changed."""


class QueueUpdate(frames.QueueUpdate, Event, tag="queue_update"):
    """The queue changed: the texts of all queued messages."""


class ThinkingLevelChanged(frames.ThinkingLevelChanged, Event, tag="thinking_level_changed"):
    """The thinking level changed."""


class ModelChanged(frames.ModelChanged, Event, tag="model_changed"):
    """Another model was chosen."""


class Notice(frames.Notice, Event, tag="notice"):
    """Something that the user should know (omp)."""


class AvailableCommandsUpdate(frames.AvailableCommandsUpdate, Event, tag="available_commands_update"):
    """The slash commands that there are: sent after `ready`, and whenever they have changed (omp)."""


class SubagentLifecycle(frames.SubagentLifecycle, Event, tag="subagent_lifecycle"):
    """A sub-agent started or ended."""


class SubagentProgress(frames.SubagentProgress, Event, tag="subagent_progress"):
    """What a sub-agent has done so far, at most five times a second and once at its end."""


class SubagentEvent(frames.SubagentEvent, Event, tag="subagent_event"):
    """An event of a sub-agent's run."""


class ExtensionError(frames.ExtensionError, Event, tag="extension_error"):
    """An extension failed; the run continues."""


class Compaction(session_commands.Compaction, Event, tag="compaction"):
    """A summary has replaced the older part of the conversation."""


class Error(session_commands.Error, Event, tag="error"):
    """A command is invalid or failed, or a compaction failed."""


#: All events by type.
EVENTS: dict[str, type[Event]] = {
    "ready": Ready,
    "agent_start": AgentStart,
    "agent_end": AgentEnd,
    "agent_settled": AgentSettled,
    "session_settled": SessionSettled,
    "prompt_result": PromptResult,
    "turn_start": TurnStart,
    "turn_end": TurnEnd,
    "message_start": MessageStart,
    "message_update": MessageUpdate,
    "message_end": MessageEnd,
    "tool_execution_start": ToolExecutionStart,
    "tool_execution_update": ToolExecutionUpdate,
    "tool_execution_end": ToolExecutionEnd,
    "auto_retry_start": AutoRetryStart,
    "auto_retry_end": AutoRetryEnd,
    "summarization_retry_scheduled": SummarizationRetryScheduled,
    "summarization_retry_attempt_start": SummarizationRetryAttemptStart,
    "summarization_retry_finished": SummarizationRetryFinished,
    "compaction_start": CompactionStart,
    "compaction_end": CompactionEnd,
    "auto_compaction_start": AutoCompactionStart,
    "auto_compaction_end": AutoCompactionEnd,
    "bash_execution_update": BashExecutionUpdate,
    "host_tool_call": HostToolCall,
    "host_tool_cancel": HostToolCancel,
    "host_uri_request": HostUriRequest,
    "host_uri_cancel": HostUriCancel,
    "extension_ui_request": ExtensionUiRequest,
    "ttsr_triggered": TtsrTriggered,
    "todo_reminder": TodoReminder,
    "todo_auto_clear": TodoAutoClear,
    "entry_appended": EntryAppended,
    "session_info_changed": SessionInfoChanged,
    "queue_update": QueueUpdate,
    "thinking_level_changed": ThinkingLevelChanged,
    "model_changed": ModelChanged,
    "notice": Notice,
    "available_commands_update": AvailableCommandsUpdate,
    "subagent_lifecycle": SubagentLifecycle,
    "subagent_progress": SubagentProgress,
    "subagent_event": SubagentEvent,
    "extension_error": ExtensionError,
    "compaction": Compaction,
    "error": Error,
}
