"""The frames of sub-agents: they name the call that started the sub-agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from fairlead.core import events
from fairlead.core.messages import AssistantMessage, TextContent, ThinkingContent, ToolCall
from fairlead.core.snapshots import LifecyclePayload, SubagentActivity
from fairlead.protocol.claude import frames

if TYPE_CHECKING:
    from fairlead.wire.claude.claude_narrator import Narrator

_STATUS: dict[str, Any] = {"completed": "completed", "failed": "failed", "aborted": "stopped"}


class _Known(Struct):
    """A sub-agent that works."""

    call_id: str
    agent: str
    description: str
    activity: SubagentActivity | None = None
    text: str = ""


class SubagentFrames:
    """Sends the frames of sub-agents."""

    def __init__(self, narrator: Narrator) -> None:
        self._narrator = narrator
        self._known: dict[str, _Known] = {}

    def send_event(self, event: events.SubagentLifecycle | events.SubagentProgress | events.SubagentEvent) -> None:
        if isinstance(event, events.SubagentLifecycle):
            if event.payload.status == "started":
                self._start(event.payload)
            else:
                self._end(event.payload)
        elif isinstance(event, events.SubagentProgress):
            self._send_progress(event.payload.progress)
        elif (known := self._known.get(event.id)) is not None:
            self._send_inner(event.id, known, event.event)

    def _start(self, payload: LifecyclePayload) -> None:
        narrator = self._narrator
        known = _Known(payload.parent_tool_call_id, payload.agent, payload.description)
        self._known[payload.id] = known
        prompt = narrator.arguments_of(known.call_id).get("prompt", "")
        narrator.send(
            frames.TaskStarted(
                task_id=payload.id,
                tool_use_id=known.call_id,
                description=known.description,
                task_type="local_agent",
                subagent_type=known.agent,
                is_backgrounded=False,
                prompt=prompt,
                **narrator.common,
            )
        )
        self._send_user(payload.id, known, [{"type": "text", "text": prompt}])

    def _send_progress(self, activity: SubagentActivity) -> None:
        known = self._known.get(activity.id)
        if known is None:
            return
        known.activity = activity
        narrator = self._narrator
        frame = frames.TaskProgress(
            task_id=activity.id,
            tool_use_id=known.call_id,
            description=known.description,
            subagent_type=known.agent,
            usage=_usage(activity),
            **narrator.common,
        )
        if activity.recent_tools:
            frame.last_tool_name = activity.recent_tools[-1].tool
        narrator.send(frame)

    def _end(self, payload: LifecyclePayload) -> None:
        narrator, known = self._narrator, self._known.pop(payload.id, None)
        if known is None:
            return
        status = _STATUS[payload.status]
        patch = {"status": "killed" if status == "stopped" else status, "end_time": narrator.now_ms()}
        narrator.send(frames.TaskUpdated(task_id=payload.id, patch=patch, **narrator.common))
        frame = frames.TaskNotification(
            task_id=payload.id,
            tool_use_id=known.call_id,
            status=status,
            output_file="" if not isinstance(payload.session_file, str) else payload.session_file,
            summary=known.text or known.description,
            **narrator.common,
        )
        if known.activity is not None:
            frame.usage = _usage(known.activity)
        narrator.send(frame)

    def _send_inner(self, id: str, known: _Known, event: events.Event) -> None:
        match event:
            case events.MessageEnd(message=AssistantMessage() as message):
                known.text = message.text() or known.text
                self._narrator.count(message)
                self._send_answer(id, known, message)
            case events.ToolEnd(parent_call_id=None):
                block, detail = self._narrator.encode_result(event.call_id, event.result, is_error=event.is_error)
                self._send_user(id, known, [block], tool_use_result=detail)
            case _:
                pass

    def _send_answer(self, id: str, known: _Known, message: AssistantMessage) -> None:
        narrator = self._narrator
        for block in message.content:
            if not isinstance(block, ToolCall) and not narrator.wants_subagent_texts:
                continue
            if isinstance(block, TextContent | ThinkingContent) and message.stop_reason in ("error", "aborted"):
                continue
            narrator.send(narrator.make_assistant(message, block, known.call_id, **self._names(id, known)))

    def _send_user(self, id: str, known: _Known, content: list[dict[str, Any]], **more: Any) -> None:
        narrator = self._narrator
        narrator.send(narrator.make_user(content, known.call_id, **self._names(id, known), **more))

    @staticmethod
    def _names(id: str, known: _Known) -> dict[str, Any]:
        return {"agent_id": id, "subagent_type": known.agent, "task_description": known.description}


def _usage(activity: SubagentActivity) -> frames.TaskUsage:
    return frames.TaskUsage(total_tokens=activity.tokens, tool_uses=activity.tool_count, duration_ms=activity.duration_ms)
