"""An example of every event, and of every reply of a host."""

from __future__ import annotations

from typing import Any

# Values that several examples share

NOW = 1763190428000
SESSION_ID = "019a8652-6f10-7c3b-9f2e-4d1a5c0b8e77"
SESSION_FILE = f"/home/ada/.fairlead/sessions/--work-parser--/2026-11-15T06-27-08-281Z_{SESSION_ID}.jsonl"
OTHER_FILE = "/home/ada/.fairlead/sessions/--work-parser--/2026-11-14T09-02-51-007Z_019a8215-9c7f.jsonl"

COST = {"input": 0.0081, "output": 0.0018, "cacheRead": 0, "cacheWrite": 0, "total": 0.0099}
USAGE = {"input": 2710, "output": 118, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2828, "cost": COST}

MODEL = {
    "id": "claude-sonnet-4-5",
    "name": "Claude Sonnet 4.5",
    "api": "anthropic-messages",
    "provider": "anthropic",
    "baseUrl": "https://api.anthropic.com",
    "reasoning": True,
    "input": ["text", "image"],
    "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75},
    "contextWindow": 200000,
    "maxTokens": 64000,
}

IMAGE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
USER = {
    "role": "user",
    "content": [{"type": "text", "text": "Fix the parser"}],
    "timestamp": NOW,
    "attribution": "user",
}
CALL = {"type": "toolCall", "id": "toolu_01", "name": "bash", "arguments": {"command": "ls"}}


def assistant(*blocks: dict[str, Any], stop: str = "stop") -> dict[str, Any]:
    """An assistant message."""
    return {
        "role": "assistant",
        "content": list(blocks),
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "usage": USAGE,
        "stopReason": stop,
        "timestamp": NOW,
    }


SAID = assistant({"type": "text", "text": "The parser is fixed."})
ASKED = assistant(
    {"type": "thinking", "thinking": "I have to see it first.", "thinkingSignature": "EqQB"},
    CALL,
    stop="toolUse",
)
OUTPUT = {"content": [{"type": "text", "text": "parser.py\n"}]}
TOOL_RESULT = {
    "role": "toolResult",
    "toolCallId": "toolu_01",
    "toolName": "bash",
    **OUTPUT,
    "isError": False,
    "timestamp": NOW,
}

ENTRY = {
    "type": "message",
    "id": "a1b2c3d4",
    "parentId": None,
    "timestamp": "2026-11-15T06:27:08.281Z",
    "message": USER,
}
LABEL_ENTRY = {
    "type": "label",
    "id": "b2c3d4e5",
    "parentId": "a1b2c3d4",
    "timestamp": "2026-11-15T06:27:09.004Z",
    "targetId": "a1b2c3d4",
    "label": "before the change",
}

COMPACTION = {
    "summary": "## Goal\nFix the parser.",
    "firstKeptEntryId": "b2c3d4e5",
    "tokensBefore": 168310,
    "details": {"readFiles": ["parser.py"], "modifiedFiles": []},
    "estimatedTokensAfter": 20114,
}

TASK = {"id": "task-1", "content": "Write a failing test", "status": "in_progress"}
PHASES = [{"id": "phase-1", "name": "Work", "tasks": [TASK]}]

ACTIVITY = {
    "index": 0,
    "id": "0-Callers",
    "agent": "task",
    "agentSource": "bundled",
    "status": "running",
    "task": "Find the callers of parse().",
    "assignment": "Find the callers of parse().",
    "description": "Callers",
    "recentTools": [{"tool": "grep", "args": "parse(", "endMs": NOW}],
    "recentOutput": ["There are three."],
    "toolCount": 1,
    "requests": 2,
    "tokens": 5120,
    "cost": 0.02,
    "durationMs": 8400,
    "resolvedModel": "anthropic/claude-sonnet-4-5",
}

_CALL: dict[str, Any] = {"toolCallId": "toolu_01", "toolName": "bash"}
_SUBAGENT: dict[str, Any] = {
    "index": 0,
    "agent": "task",
    "agentSource": "bundled",
    "parentToolCallId": "toolu_01",
    "detached": False,
}

#: By type: the line without it.
LINE_EXAMPLES: dict[str, dict[str, Any]] = {
    # The connection
    "ready": {
        "protocolVersion": 1,
        "supportedProtocolVersions": [1, 2],
        "maxFrameBytes": 1048576,
        "maxReassembledFrameBytes": 67108864,
    },
    "rpc_chunk": {"chunkId": "c1", "index": 0, "count": 2, "byteLength": 1400, "data": "eyJ0eXBlIjoi"},
    # Runs
    "agent_start": {},
    "agent_end": {"messages": [USER, SAID], "willRetry": False},
    "agent_settled": {"aborted": False},
    "session_settled": {},
    "prompt_result": {"id": "1", "agentInvoked": True, "status": "completed", "sessionSettled": True},
    "turn_start": {},
    "turn_end": {"message": ASKED, "toolResults": [TOOL_RESULT]},
    "message_start": {"message": assistant()},
    "message_update": {
        "assistantMessageEvent": {
            "type": "text_delta",
            "contentIndex": 0,
            "delta": "The parser is fixed.",
            "partial": SAID,
        },
        "usage": USAGE,
        "message": SAID,
    },
    "message_end": {"message": SAID},
    "tool_execution_start": {**_CALL, "args": {"command": "ls"}},
    "tool_execution_update": {**_CALL, "args": {"command": "ls"}, "partialResult": OUTPUT},
    "tool_execution_end": {**_CALL, "result": OUTPUT, "isError": False, "durationMs": 12},
    "auto_retry_start": {"attempt": 1, "maxAttempts": 3, "delayMs": 2000, "errorMessage": "529 overloaded"},
    "auto_retry_end": {"success": True, "attempt": 1},
    "summarization_retry_scheduled": {"attempt": 1, "maxAttempts": 3, "delayMs": 2000, "errorMessage": "529 overloaded"},
    "summarization_retry_attempt_start": {"source": "compaction", "reason": "threshold"},
    "summarization_retry_finished": {},
    "compaction_start": {"reason": "threshold"},
    "compaction_end": {"reason": "threshold", "aborted": False, "willRetry": False, "result": COMPACTION},
    "auto_compaction_start": {"reason": "threshold", "action": "context-full"},
    "auto_compaction_end": {"action": "context-full", "aborted": False, "willRetry": False, "result": COMPACTION},
    "bash_execution_update": {"id": "1", "delta": "parser.py\n"},
    # Questions to the host, and its answers
    "host_tool_call": {"id": "h1", "toolCallId": "toolu_01", "toolName": "open_file", "arguments": {"path": "parser.py"}},
    "host_tool_cancel": {"id": "h2", "targetId": "h1"},
    "host_uri_request": {"id": "u1", "operation": "read", "url": "notes://today"},
    "host_uri_cancel": {"id": "u2", "targetId": "u1"},
    "host_tool_update": {"id": "h1", "partialResult": OUTPUT},
    "host_tool_result": {"id": "h1", "result": {"content": [{"type": "text", "text": "It is open."}]}},
    "host_uri_result": {"id": "u1", "content": "Call Grace.", "contentType": "text/markdown"},
    "extension_ui_request": {
        "id": "q1",
        "method": "select",
        "title": 'Allow bash?\n\nrm -r build\n\n"Approve for session" covers the same command.',
        "options": ["Approve", "Approve for session", "Deny"],
        "timeout": 300000,
        "approval": True,
        "toolName": "bash",
        "toolCallId": "toolu_01",
        "arguments": {"command": "rm -r build"},
    },
    "extension_ui_response": {"id": "q1", "value": "Approve"},
    # What else happens
    "ttsr_triggered": {
        "rules": [
            {
                "name": "no-print",
                "path": "/home/ada/parser/.fairlead/rules/no-print.md",
                "content": "Use the logger.",
                "_source": {
                    "provider": "native",
                    "providerName": "fairlead",
                    "path": "/home/ada/parser/.fairlead/rules/no-print.md",
                    "level": "project",
                },
                "alwaysApply": False,
                "condition": ["print\\("],
                "scope": ["tool:edit"],
            }
        ]
    },
    "todo_reminder": {"todos": [TASK], "attempt": 1, "maxAttempts": 3},
    "todo_auto_clear": {},
    "entry_appended": {"entry": LABEL_ENTRY},
    "session_info_changed": {"name": "The parser"},
    "queue_update": {"steering": ["Leave the tests alone"], "followUp": []},
    "thinking_level_changed": {"level": "high"},
    "model_changed": {},
    "notice": {"level": "error", "message": "No space left on device", "source": "session"},
    "available_commands_update": {
        "commands": [{"name": "skill:review", "source": "skill", "description": "Review it", "input": {"hint": "arguments"}}]
    },
    "subagent_lifecycle": {"payload": {**_SUBAGENT, "id": "0-Callers", "description": "Callers", "status": "started"}},
    "subagent_progress": {
        "payload": {
            **_SUBAGENT,
            "task": "Find the callers of parse().",
            "assignment": "Find the callers of parse().",
            "progress": ACTIVITY,
        }
    },
    "subagent_event": {"payload": {"id": "0-Callers", "event": {"type": "turn_start"}}},
    "extension_error": {"extensionPath": "session", "event": "write", "error": "No space left on device"},
}

#: Frames that only pi-2025 has, or has in another form.
EXAMPLES_2025: dict[str, dict[str, Any]] = {
    "compaction": {"summary": "## Goal\nFix the parser.", "tokensBefore": 168310, "auto": True},
    "error": {"error": "Unknown command: get_state"},
    "tool_execution_end": {**_CALL, "result": "ls: no such command", "isError": True},
}
