"""Encodes session events as frames of the pi family."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead import __version__
from fairlead.core import events, lenient
from fairlead.core.message_updates import MessageUpdate
from fairlead.core.messages import Message
from fairlead.protocol.pi import frames
from fairlead.wire.pi.paced_updates import FrameOutlet, QueueUpdates, Updates
from fairlead.wire.pi.profile import Profile

_encoder = msgspec.json.Encoder()
_Encode = Callable[[Any], frames.Frame]

_FRAMES: dict[type, _Encode] = {
    events.AgentStart: lambda e: frames.AgentStart(),
    events.AgentSettled: lambda e: frames.AgentSettled(e.aborted),
    events.TurnStart: lambda e: frames.TurnStart(),
    events.TurnEnd: lambda e: frames.TurnEnd(e.message, e.tool_results),
    events.MessageStart: lambda e: frames.MessageStart(e.message),
    events.MessageEnd: lambda e: frames.MessageEnd(e.message),
    events.ToolStart: lambda e: frames.ToolExecutionStart(e.call_id, e.tool_name, e.arguments, _parent(e)),
    events.ToolUpdate: lambda e: frames.ToolExecutionUpdate(
        e.call_id, e.tool_name, e.arguments, frames.ToolResult(e.partial.content, e.partial.details), _parent(e)
    ),
    events.ToolEnd: lambda e: tool_end(e),
    events.RetryStart: lambda e: frames.AutoRetryStart(e.attempt, e.max_attempts, e.delay_ms, e.error),
    events.RetryEnd: lambda e: frames.AutoRetryEnd(e.success, e.attempt, UNSET if e.error is None else e.error),
    events.SummaryRetryScheduled: lambda e: frames.SummarizationRetryScheduled(e.attempt, e.max_attempts, e.delay_ms, e.error),
    events.SummaryRetryStart: lambda e: frames.SummarizationRetryAttemptStart(e.source, UNSET if e.reason is None else e.reason),
    events.SummaryRetryEnd: lambda e: frames.SummarizationRetryFinished(),
    events.CompactionStart: lambda e: frames.CompactionStart(e.reason),
    events.CompactionEnd: lambda e: _compaction_end(e, frames.CompactionEnd, reason=e.reason),
    events.StreamRuleTriggered: lambda e: frames.TtsrTriggered(e.rules),
    events.TodoReminder: lambda e: frames.TodoReminder(e.todos, e.attempt, e.max_attempts),
    events.TodoAutoClear: lambda e: frames.TodoAutoClear(),
    events.SessionInfoChanged: lambda e: frames.SessionInfoChanged(UNSET if e.name is None else e.name),
    events.EntryAppended: lambda e: frames.EntryAppended(e.entry),
    events.ThinkingLevelChanged: lambda e: frames.ThinkingLevelChanged(e.level),
    events.ExtensionError: lambda e: frames.ExtensionError(e.extension_path, e.event, e.error),
}


def _parent(event: events.ToolStart | events.ToolUpdate | events.ToolEnd) -> str | UnsetType:
    return UNSET if event.parent_call_id is None else event.parent_call_id


def tool_end(event: events.ToolEnd, *, structured: bool = False) -> frames.ToolExecutionEnd:
    """Return the frame for the end of a tool call. With `structured`, it has the result as data too, if the tool offers that."""
    result = frames.ToolOutcome(event.result.content, UNSET if event.result.details is None else event.result.details)
    if event.result.ends_run:
        result.terminate = True
    if event.result.usage is not None:
        result.usage = event.result.usage
    if structured and event.structured is not None:
        result.structured_content = event.structured()
    if structured and event.is_error and event.result.failed:
        result.details, result.is_error = UNSET if result.details == {} else result.details, True
    duration = UNSET if event.duration_ms is None else event.duration_ms
    return frames.ToolExecutionEnd(event.call_id, event.tool_name, result, event.is_error, duration, _parent(event))


SUBAGENT_EVENTS = (events.SubagentLifecycle, events.SubagentProgress, events.SubagentEvent)

#: Events without their own frame, and events that only hosts which subscribe to them get.
_APART = (
    events.TodosChanged,
    events.CommandsChanged,
    events.ApprovalModeChanged,
    events.ToolRunning,
    events.SessionReplaced,
    events.BranchChanged,
    events.ModelSelected,
    events.UiPromptStart,
    events.UiPromptEnd,
    events.ToolApprovalRequested,
    events.ToolApprovalResolved,
    *SUBAGENT_EVENTS,
)

#: Events that have another frame in omp 18.
_OMP_EVENTS = (events.ModelSelected, events.ExtensionError, events.SummaryRetryScheduled)

#: The frames of omp and xcsh, which do not get frames about compactions that they requested.
_AUTO_COMPACTION: dict[type, _Encode] = {
    events.CompactionStart: lambda e: frames.AutoCompactionStart(e.reason),
    events.CompactionEnd: lambda e: _compaction_end(e, frames.AutoCompactionEnd),
}


def retry_text(event: events.SummaryRetryScheduled) -> str:
    """Return a sentence about an attempt to write a summary that follows."""
    again = f"The summary is requested again in {event.delay_ms / 1000:g} s (attempt {event.attempt} of {event.max_attempts})"
    return f"{again}: {event.error}"


def _compaction_end(event: events.CompactionEnd, frame: Callable[..., frames.Frame], **fields: Any) -> frames.Frame:
    return frame(
        aborted=event.aborted,
        will_retry=event.will_retry,
        result=UNSET if event.result is None else event.result,
        error_message=UNSET if event.error is None else event.error,
        **fields,
    )


#: Frames that a host with an event filter gets anyway: answers and questions.
NEVER_FILTERED = frozenset(
    """response ready error prompt_result session_settled rpc_chunk extension_ui_request
    host_tool_call host_tool_cancel host_uri_request host_uri_cancel""".split()
)


class Spliced(Struct):
    """The data of a response as pieces of JSON. A long history is thus copied once, and not encoded again."""

    pieces: tuple[bytes, ...]


#: Frames that hold whole messages, which may be long.
_LONG = (frames.MessageEnd, frames.TurnEnd, frames.AgentEnd, frames.Response)


def encode(frame: frames.Frame) -> bytes:
    """Encode a frame as a line."""
    try:
        if isinstance(frame, _LONG):
            return _encoder.encode_lines((frame,))  # slower than the next line, but without a copy
        return _encoder.encode(frame) + b"\n"
    except UnicodeEncodeError:  # it contains text that is not valid Unicode
        ident: Raw | UnsetType = UNSET
        if isinstance(frame, frames.Response):
            ident, frame = frame.id, msgspec.structs.replace(frame, id=UNSET)
        values = lenient.scrub(msgspec.to_builtins(frame))
        return _encoder.encode(values if ident is UNSET else {**values, "id": ident}) + b"\n"


def encode_spliced(response: frames.Response, data: Spliced, max_frame: int | None) -> bytes:
    """Encode a response with this data, or an error if the response is too long to be sent in chunks."""
    line = b"".join((encode(response)[:-2], b',"data":', *data.pieces, b"}\n"))
    if max_frame is None or len(line) <= frames.REASSEMBLED_BOUND:
        return line
    error = "RPC response exceeded the transport limit. get_messages_page gives the messages of a session in parts."
    return encode(frames.Response(id=response.id, command=response.command, success=False, error=error))


class EventFrames:
    """Sends the events of a session to the host, as one profile encodes them."""

    def __init__(self, outlet: FrameOutlet, profile: Profile, updates: Updates) -> None:
        self._outlet = outlet
        self._profile = profile
        self._updates = updates
        self._queues = QueueUpdates(outlet, updates.pacing, self._queue_update)
        self._wanted: frozenset[str] | None = None
        #: Whether the host gets the frames of a class, for those that there were so far.
        self._sends: dict[type[frames.Frame], bool] = {}
        #: The messages of ends that are held back. omp, xcsh and pi-2025 get one `agent_end`, when nothing more will happen.
        self._held: list[Message] | None = None

    def send(self, frame: frames.Frame) -> None:
        """Send a frame, unless the profile or the host's filter excludes it."""
        kind = type(frame)
        if kind not in self._sends:
            self._sends[kind] = self.wants(str(frame.__struct_config__.tag))
        if self._sends[kind]:
            self._outlet.send(encode(frame))

    def greet(self) -> None:
        """Send the first frame, if the profile has one."""
        if self._profile.ready == "version":
            self.send(frames.Ready(__version__))
        elif self._profile.ready == "protocols":
            self.send(
                frames.Ready(
                    protocol_version=1,
                    supported_protocol_versions=[1, frames.BOUNDED_VERSION],
                    max_frame_bytes=frames.BOUND,
                    max_reassembled_frame_bytes=frames.REASSEMBLED_BOUND,
                )
            )

    def want(self, names: Collection[str] | None) -> None:
        """From now on, send only events of these types, or all events for None."""
        self._updates.flush()
        self._wanted = None if names is None else frozenset(names)
        self._sends.clear()
        self._updates.muted = not self.wants("message_update")

    def wants(self, name: str) -> bool:
        """Whether the host gets frames of this type."""
        if name in self._profile.hidden_events:
            return False
        return self._wanted is None or name in self._wanted or name in NEVER_FILTERED

    def send_event(self, event: events.Event) -> None:
        """Send the frames of an event, if it has any. Some are merged, or held back until later ones."""
        if isinstance(event, MessageUpdate):
            self._updates.update(event.event, event.partial)
            return
        if isinstance(event, events.QueueUpdate):
            if self.wants("queue_update"):
                self._queues.update(event)
            return
        if isinstance(event, events.MessageStart):
            self._updates.begin()
            event = events.MessageStart(self._convert_message(event.message))
        elif isinstance(event, events.MessageEnd):
            self._updates.flush()
            event = events.MessageEnd(self._convert_message(event.message))
        elif isinstance(event, events.StreamRuleTriggered):
            self._updates.flush()
        if isinstance(event, events.ToolUpdate) and self._outlet.behind:
            return  # the next update and the end of the tool repeat this output
        if isinstance(event, events.AgentSettled):
            self.flush()
            self.settle()
        if isinstance(event, events.AgentEnd):
            self._agent_end(event)
        elif isinstance(event, events.CompactionStart | events.CompactionEnd) and not self._profile.sends_all_compactions:
            if event.reason != "manual":
                self.send(_AUTO_COMPACTION[type(event)](event))
        elif isinstance(event, events.ToolEnd):
            self.send(tool_end(event, structured=self._profile.structured_results))
        elif self._profile.omp_events and isinstance(event, _OMP_EVENTS):
            self._omp_event(event)
        elif not isinstance(event, _APART):
            self.send(_FRAMES[type(event)](event))

    def _omp_event(self, event: events.ModelSelected | events.ExtensionError | events.SummaryRetryScheduled) -> None:
        if isinstance(event, events.ModelSelected):
            self.send(frames.ModelChanged())
        elif isinstance(event, events.SummaryRetryScheduled):
            self.send(frames.Notice("warning", retry_text(event), "compaction"))
        elif event.extension_path == "session":  # the agent itself reports a problem
            self.send(frames.Notice("error", event.error, event.event))
        else:
            self.send(frames.ExtensionError(event.extension_path, event.event, event.error))

    def flush(self) -> None:
        """Send the queue update that is held back, if there is one."""
        self._queues.flush()

    def _queue_update(self, event: events.QueueUpdate) -> int:
        if not self.wants("queue_update"):  # the host has changed its filter since
            return 0
        frame = encode(frames.QueueUpdate(event.steering, event.follow_up))
        self._outlet.send(frame)
        return len(frame)

    def _convert_message(self, message: Message) -> Message:
        """Return a message in the form that this dialect uses."""
        return message

    def settle(self) -> None:
        """Send the `agent_end` that was held back until the session settled."""
        messages, self._held = self._held, None
        if messages is not None:
            self._send_end(messages, UNSET)

    def _agent_end(self, event: events.AgentEnd) -> None:
        messages = list(map(self._convert_message, event.messages))
        if self._profile.sends_will_retry:
            self._send_end(messages, event.will_retry)
        else:
            self._held = [*(self._held or ()), *messages]

    def _send_end(self, messages: list[Message], will_retry: bool | UnsetType) -> None:
        if not self.wants("agent_end"):
            return
        is_terminal = True if self._profile.omp_events else UNSET
        encoded = encode(frames.AgentEnd(messages=messages, will_retry=will_retry, is_terminal=is_terminal))
        limit = self._outlet.max_frame
        if limit is not None and len(encoded) > limit:
            # The host already got a message_end for every message of the run, so only their number is sent.
            none: list[Message] = []
            short = frames.AgentEnd(messages=none, will_retry=will_retry, is_terminal=is_terminal, message_count=len(messages))
            encoded = encode(short)
        self._outlet.send(encoded)
