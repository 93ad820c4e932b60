"""Events for handlers in pi's form, and the system prompt in its parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from fairlead.config.project_files import read_bytes
from fairlead.core import events as core
from fairlead.core.message_updates import MessageUpdate
from fairlead.core.messages import (
    CustomMessage,
    TextContent,
    ThinkingContent,
    UserMessage,
)
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import StructuredResult, ToolResult, as_structured
from fairlead.errors import ConfigError
from fairlead.extend.extensions import extension_events as e
from fairlead.extend.node.results import decode
from fairlead.stores.headers import milliseconds

if TYPE_CHECKING:
    from pathlib import Path

    from fairlead.session.session import Session


class Events:
    """Converts the events of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        #: How many turns of the run have started. Handlers receive a turn before it counts here.
        self._turns = 0
        self.close = session.subscribe(self._count_turns, kinds=(core.AgentStart, core.TurnStart))

    def encode(self, name: str, event: Any) -> dict[str, Any]:
        """Return an event as pi's handlers get it."""
        encode = _ENCODERS.get(name)
        fields = {} if encode is None else encode(event)
        if name in ("turn_start", "turn_end"):
            fields = {**self._turn_fields(name), **fields}
        elif name == "before_agent_start":
            fields["systemPromptOptions"] = prompt_options(self._session)
        elif name in ("context", "context_with_system"):
            fields["messages"] = self._with_custom_messages(fields["messages"])
        elif name == "session_before_tree":
            fields["preparation"]["commonAncestorId"] = self._common_ancestor(event)
        elif name == "session_tree" and event.summary_entry_id is not None:
            log = self._session.history.log
            fields["summaryEntry"] = log.plain([log.get(event.summary_entry_id)])[0]
        return {"type": name, **fields}

    def decode(self, name: str, event: Any, reply: Mapping[str, Any]) -> Any:
        """Return what a handler returned as our type, and apply what it changed in the event. Raises ConfigError or TypeError."""
        decoded, changed = decode(name, event, reply), reply.get("changed")
        if name != "before_agent_start" or not isinstance(changed, dict):
            return decoded
        opening = e.Open() if decoded is None else decoded
        prompt = build_changed_prompt(self._session, event.system_prompt, cast("dict[str, Any]", changed))
        return decoded if prompt is None or opening.system_prompt is not None else e.Open(opening.messages, prompt)

    def _turn_fields(self, name: str) -> dict[str, Any]:
        if name == "turn_start":
            return {"turnIndex": self._turns, "timestamp": time.time_ns() // 1_000_000}
        return {"turnIndex": max(self._turns - 1, 0)}

    def _count_turns(self, event: core.Event) -> None:
        if isinstance(event, core.AgentStart):
            self._turns = 0
        else:
            self._turns += 1

    def _with_custom_messages(self, messages: list[Any]) -> list[Any]:
        """Replace what the model sees of custom messages by these messages, which handlers recognise by their type."""
        custom = {each.timestamp: each for each in self._session.messages if isinstance(each, CustomMessage)}

        def original(message: Any) -> Any:
            if not isinstance(message, UserMessage):
                return message
            found = custom.get(message.timestamp)
            return found if found is not None and found.content == message.content else message

        return [original(message) for message in messages] if custom else messages

    def _common_ancestor(self, plan: Any) -> str | None:
        """Return the last entry that the branch of the target and the one that is left have in common."""
        log = self._session.history.conversation.log
        if plan.target_id is None or plan.target_id not in log:
            return None
        here = {entry.id for entry in log.path()}
        return next((entry.id for entry in reversed(log.path(plan.target_id)) if entry.id in here), None)


def is_emitted_by_pi(name: str, event: Any) -> bool:
    """Return whether pi emits an event of ours, too: there, going to another session selects no model."""
    return name != "model_select" or event.source != "restore"


def cancel_token(name: str, event: Any) -> CancelToken | None:
    """Return what fires the signal in an event; None if the event has no signal."""
    if name in ("session_before_compact", "session_before_tree", "user_bash"):
        return event.cancel
    return None


def _messages(event: Any) -> dict[str, Any]:
    return {"messages": event.messages}


def _context_with_system(event: Any) -> dict[str, Any]:
    system = {"role": "system", "content": event.system_prompt, "timestamp": 0}
    return {"messages": [system, *event.messages]}


def _input(event: Any) -> dict[str, Any]:
    return _without_none(text=event.text, images=event.images, source=event.source, streamingBehavior=event.behavior)


def _before_agent_start(event: Any) -> dict[str, Any]:
    if event.message is not None:
        return {"messageType": "custom", "message": event.message, "systemPrompt": event.system_prompt}
    return _without_none(messageType="user", prompt=event.prompt, images=event.images, systemPrompt=event.system_prompt)


def _before_compact(plan: Any) -> dict[str, Any]:
    summarised = [message for entry in plan.to_summarise if (message := _message_of(entry)) is not None]
    before = [entry["summary"] for entry in plan.branch if entry.get("type") == "compaction"]
    preparation: dict[str, Any] = {
        "firstKeptEntryId": plan.first_kept_entry_id,
        "messagesToSummarize": summarised,
        "turnPrefixMessages": [],
        "isSplitTurn": False,
        "tokensBefore": plan.tokens_before,
        "previousSummary": before[-1] if before else None,
    }
    return {
        "preparation": preparation,
        "branchEntries": plan.branch,
        "customInstructions": plan.instructions,
        "reason": plan.reason,
        "willRetry": plan.reason == "overflow",
        "signal": None,
    }


def _message_of(entry: dict[str, Any]) -> dict[str, Any] | None:
    """Return what the model sees of an entry, as a message of pi; None if it sees nothing."""
    match entry.get("type"):
        case "message":
            return entry["message"]
        case "custom_message":
            names = ("customType", "content", "display", "details")
            return {"role": "custom", **{name: entry[name] for name in names if name in entry}, "timestamp": _time_of(entry)}
        case "branch_summary":
            fields = {"summary": entry["summary"], "fromId": entry["fromId"], "timestamp": _time_of(entry)}
            return {"role": "branchSummary", **fields}
        case _:
            return None


def _time_of(entry: dict[str, Any]) -> int:
    return milliseconds(entry["timestamp"])


def _before_tree(plan: Any) -> dict[str, Any]:
    left = plan.left_behind
    preparation = {
        "targetId": plan.target_id,
        "oldLeafId": plan.old_leaf_id,
        "commonAncestorId": left[0].get("parentId") if left else plan.old_leaf_id,
        "entriesToSummarize": plan.left_behind,
        "userWantsSummary": plan.wants_summary,
        **_without_none(customInstructions=plan.instructions, replaceInstructions=plan.replace_instructions, label=plan.label),
    }
    return {"preparation": preparation, "signal": None}


def _message_update(event: MessageUpdate) -> dict[str, Any]:
    snapshot = event.partial.snapshot()
    piece = event.event
    block = snapshot.content[piece.index]
    kind = "text" if isinstance(block, TextContent) else "thinking" if isinstance(block, ThinkingContent) else "toolcall"
    update: dict[str, Any] = {"contentIndex": piece.index, "partial": snapshot}
    if isinstance(piece, BlockStart):
        update["type"] = f"{kind}_start"
    elif isinstance(piece, BlockDelta):
        update |= {"type": f"{kind}_delta", "delta": piece.delta}
    else:
        assert isinstance(piece, BlockEnd)
        update["type"] = f"{kind}_end"
        update |= {"toolCall": block} if kind == "toolcall" else {"content": getattr(block, kind)}
    return {"message": snapshot, "assistantMessageEvent": update}


def tool_result(result: ToolResult) -> dict[str, Any]:
    """Return the result of a tool in pi's form."""
    flags = {"terminate": result.ends_run or None, "isError": result.failed or None}
    fields = _without_none(content=result.content, details=result.details, **flags, usage=result.usage)
    if isinstance(result, StructuredResult):
        fields["structuredContent"] = result.structured()
    return fields


def _tool_result(event: e.ToolResultEvent) -> dict[str, Any]:
    return {
        "toolCallId": event.call_id,
        "toolName": event.tool_name,
        "input": event.arguments,
        "content": event.content,
        "details": event.details,
        "isError": event.is_error,
        **_without_none(parentToolCallId=event.parent_call_id, usage=event.usage),
        **({} if event.structured is None else {"structuredContent": event.structured()}),
    }


def _tool_call(event: e.ToolCallEvent) -> dict[str, Any]:
    parent = _without_none(parentToolCallId=event.parent_call_id)
    return {"toolCallId": event.call_id, "toolName": event.tool_name, **parent, "input": event.arguments}


def _tool(event: Any) -> dict[str, Any]:
    parent = _without_none(parentToolCallId=event.parent_call_id)
    fields: dict[str, Any] = {"toolCallId": event.call_id, "toolName": event.tool_name, **parent}
    match event:
        case core.ToolStart():
            fields["args"] = event.arguments
        case core.ToolUpdate():
            fields |= {"args": event.arguments, "partialResult": tool_result(event.partial)}
        case _:
            result = event.result if event.structured is None else as_structured(event.result, event.structured)
            fields |= _without_none(result=tool_result(result), isError=event.is_error, durationMs=event.duration_ms)
    return fields


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


_ENCODERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "project_trust": lambda event: {"cwd": str(event.cwd)},
    "resources_discover": lambda event: {"cwd": str(event.cwd), "reason": event.reason},
    "session_start": lambda event: _without_none(reason=event.reason, previousSessionFile=event.previous),
    "session_shutdown": lambda event: _without_none(reason=event.reason, targetSessionFile=event.target),
    "session_before_switch": lambda event: _without_none(reason=event.reason, targetSessionFile=event.target),
    "session_before_fork": lambda event: {"entryId": event.entry_id, "position": event.position},
    "session_before_compact": _before_compact,
    "session_compact": lambda event: {
        "compactionEntry": event.entry,
        "fromExtension": event.from_extension,
        "reason": event.reason,
        "willRetry": event.reason == "overflow",
    },
    "session_compact_failed": lambda event: {
        **_without_none(errorMessage=event.error),
        "reason": event.reason,
        "aborted": event.aborted,
        "willRetry": event.will_retry,
        "fromExtension": False,
    },
    "session_before_tree": _before_tree,
    "session_tree": lambda event: {
        "newLeafId": event.new_leaf_id,
        "oldLeafId": event.old_leaf_id,
        **({} if event.summary_entry_id is None else {"fromExtension": event.from_extension}),
    },
    "session_info_changed": lambda event: _without_none(name=event.name),
    "input": _input,
    "before_agent_start": _before_agent_start,
    "context": _messages,
    "context_with_system": _context_with_system,
    "before_provider_request": lambda event: {"payload": event.payload},
    "before_provider_headers": lambda event: {"headers": event.headers},
    "after_provider_response": lambda event: {"status": event.status, "headers": event.headers},
    "provider_stream_event": lambda event: {
        "data": event.data,
        "provider": event.provider,
        "api": event.api,
        "model": event.model,
    },
    "agent_end": _messages,
    "agent_settled": lambda event: {"aborted": event.aborted},
    "turn_end": lambda event: {"message": event.message, "toolResults": event.tool_results},
    "message_start": lambda event: {"message": event.message},
    "message_update": _message_update,
    "message_end": lambda event: {"message": event.message},
    "tool_execution_start": _tool,
    "tool_execution_update": _tool,
    "tool_execution_end": _tool,
    "tool_call": _tool_call,
    "tool_result": _tool_result,
    "user_bash": lambda event: {
        "command": event.command,
        "excludeFromContext": event.exclude_from_context,
        "cwd": str(event.cwd),
    },
    "model_select": lambda event: _without_none(model=event.model, previousModel=event.previous, source=event.source),
    "thinking_level_select": lambda event: {"level": event.level, "previousLevel": event.previous},
    "ui_prompt_start": lambda event: {"reason": "ui_prompt", "kind": event.kind, "title": event.title},
    "ui_prompt_end": lambda event: {"reason": "ui_prompt", "kind": event.kind, "title": event.title},
    "cache_warming_decision": lambda event: {
        "warmCost": event.warm_cost,
        "missCost": event.miss_cost,
        "continuationProbability": event.continuation_probability,
        "action": event.action,
    },
    "entry_appended": lambda event: {"entry": event.entry},
    "queue_update": lambda event: {"steering": event.steering, "followUp": event.follow_up},
}


def prompt_options(session: Session) -> dict[str, Any]:
    """Return the parts of the system prompt as pi's extensions see them."""
    additions, tools = session.additions, session.tools.active_tools()
    files = [{"path": str(path), "content": _text(path)} for path in additions.context_files()]
    return {
        "cwd": str(session.host.workspace.cwd),
        "selectedTools": list(tools),
        "hiddenTools": [name for name in tools if name not in session.tools.list_declared()],
        "toolSnippets": {name: tool.snippet for name, tool in tools.items() if tool.snippet},
        "toolGuidelines": {name: list(tool.guidelines) for name, tool in tools.items() if tool.guidelines},
        "promptGuidelines": [],
        "sections": {},
        # What is appended already is part of the prompt. An extension may add to this.
        "appendSystemPrompt": "",
        "contextFiles": files,
        "skills": [{"name": skill.name, "description": skill.description} for skill in additions.skills()],
    }


def _text(path: Path) -> str:
    """Return the text of a file with instructions; nothing if it can no longer be read."""
    try:
        return (read_bytes(path) or b"").decode("utf-8", "replace")
    except ConfigError:
        return ""


def build_changed_prompt(session: Session, prompt: str, options: Mapping[str, Any]) -> str | None:
    """Return the system prompt with what an extension added to its parts; None if it added nothing.

    A changed selection of tools applies at once.
    """
    chosen = options.get("selectedTools")
    if isinstance(chosen, list):
        names = [name for name in cast("list[str]", chosen) if name in session.tools]
        if names != session.tools.active:
            session.tools.activate(names)
    forced = options.get("forceSystemPrompt")
    if isinstance(forced, str):
        return forced
    sections = cast("dict[str, Any]", options.get("sections") or {})
    parts = [f"<{name}>\n{text}\n</{name}>" for name, text in sections.items() if text]
    rules = [f"- {str(rule).removeprefix('- ')}" for rule in options.get("promptGuidelines") or ()]
    appended = options.get("appendSystemPrompt")
    more = [*parts, "\n".join(rules), appended if isinstance(appended, str) else ""]
    added = [part for part in more if part]
    return "\n\n".join([prompt, *added]) if added else None
