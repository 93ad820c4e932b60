"""An example of every event, and of every reply of a host."""

from __future__ import annotations

from typing import Any

from fairlead.protocol.pi import example_values as values

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
    "agent_end": {"messages": [values.USER, values.SAID], "willRetry": False},
    "agent_settled": {},
    "session_settled": {},
    "prompt_result": {"id": "1", "agentInvoked": True, "status": "completed", "sessionSettled": True},
    "turn_start": {},
    "turn_end": {"message": values.ASKED, "toolResults": [values.TOOL_RESULT]},
    "message_start": {"message": values.assistant()},
    "message_update": {
        "assistantMessageEvent": {
            "type": "text_delta",
            "contentIndex": 0,
            "delta": "The parser is fixed.",
            "partial": values.SAID,
        },
        "usage": values.USAGE,
        "message": values.SAID,
    },
    "message_end": {"message": values.SAID},
    "tool_execution_start": {**_CALL, "args": {"command": "ls"}},
    "tool_execution_update": {**_CALL, "args": {"command": "ls"}, "partialResult": values.OUTPUT},
    "tool_execution_end": {**_CALL, "result": values.OUTPUT, "isError": False},
    "auto_retry_start": {"attempt": 1, "maxAttempts": 3, "delayMs": 2000, "errorMessage": "529 overloaded"},
    "auto_retry_end": {"success": True, "attempt": 1},
    "compaction_start": {"reason": "threshold"},
    "compaction_end": {"reason": "threshold", "aborted": False, "willRetry": False, "result": values.COMPACTION},
    "auto_compaction_start": {"reason": "threshold", "action": "context-full"},
    "auto_compaction_end": {"action": "context-full", "aborted": False, "willRetry": False, "result": values.COMPACTION},
    "bash_execution_update": {"id": "1", "delta": "parser.py\n"},
    # Questions to the host, and its answers
    "host_tool_call": {"id": "h1", "toolCallId": "toolu_01", "toolName": "open_file", "arguments": {"path": "parser.py"}},
    "host_tool_cancel": {"id": "h2", "targetId": "h1"},
    "host_uri_request": {"id": "u1", "operation": "read", "url": "notes://today"},
    "host_uri_cancel": {"id": "u2", "targetId": "u1"},
    "host_tool_update": {"id": "h1", "partialResult": values.OUTPUT},
    "host_tool_result": {"id": "h1", "result": {"content": [{"type": "text", "text": "It is open."}]}},
    "host_uri_result": {"id": "u1", "content": "Call Grace.", "contentType": "text/markdown"},
    "extension_ui_request": {
        "id": "q1",
        "method": "select",
        "title": "Run rm -r build?",
        "options": ["Approve", "Approve for session", "Deny"],
        "timeout": 60000,
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
    "todo_reminder": {"todos": [values.TASK], "attempt": 1, "maxAttempts": 3},
    "todo_auto_clear": {},
    "entry_appended": {"entry": values.LABEL_ENTRY},
    "session_info_changed": {"name": "The parser"},
    "queue_update": {"steering": ["Leave the tests alone"], "followUp": []},
    "thinking_level_changed": {"level": "high"},
    "subagent_lifecycle": {"payload": {**_SUBAGENT, "id": "0-Callers", "description": "Callers", "status": "started"}},
    "subagent_progress": {
        "payload": {
            **_SUBAGENT,
            "task": "Find the callers of parse().",
            "assignment": "Find the callers of parse().",
            "progress": values.ACTIVITY,
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
