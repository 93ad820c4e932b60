"""An example of every command, of the `data` of its response, of every event, and of every reply of a host."""

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
        "options": ["Approve", "Approve for session", "Deny", "Always approve bash: rm -r build, in this project"],
        "timeout": 300000,
        "approval": True,
        "toolName": "bash",
        "toolCallId": "toolu_01",
        "arguments": {"command": "rm -r build"},
        "rules": ["rm -r build"],
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


def _example(data: Any = None, /, **fields: Any) -> dict[str, Any]:
    return {"command": {"id": "1", **fields}, "data": data}


_COMMANDS = [
    {
        "name": "review",
        "description": "Review the changes",
        "source": "prompt",
        "sourceInfo": {
            "path": "/home/ada/parser/.fairlead/prompts/review.md",
            "source": "auto",
            "scope": "project",
            "origin": "top-level",
            "baseDir": "/home/ada/parser/.fairlead",
        },
    }
]
_FORK_MESSAGES = {"messages": [{"entryId": "a1b2c3d4", "text": "Fix the parser"}]}
_FORKED = {"text": "Fix the parser", "cancelled": False}
_BASH = {
    "output": "parser.py\n",
    "exitCode": 0,
    "cancelled": False,
    "truncated": False,
    "totalLines": 1,
    "totalBytes": 10,
    "outputLines": 1,
    "outputBytes": 10,
}
_STATE = {
    "model": MODEL,
    "thinkingLevel": "medium",
    "isStreaming": False,
    "isSettled": True,
    "isCompacting": False,
    "steeringMode": "one-at-a-time",
    "followUpMode": "one-at-a-time",
    "interruptMode": "wait",
    "sessionFile": SESSION_FILE,
    "sessionId": SESSION_ID,
    "autoCompactionEnabled": True,
    "messageCount": 2,
    "pendingMessageCount": 0,
    "queuedMessageCount": 0,
    "todoPhases": PHASES,
    "contextUsage": {"tokens": 2828, "contextWindow": 200000, "percent": 1.414},
}
_STATS = {
    "sessionFile": SESSION_FILE,
    "sessionId": SESSION_ID,
    "userMessages": 1,
    "assistantMessages": 1,
    "toolCalls": 0,
    "toolResults": 0,
    "totalMessages": 2,
    "tokens": {"input": 2710, "output": 118, "cacheRead": 0, "cacheWrite": 0, "total": 2828},
    "cost": 0.0099,
}
_SESSION = {
    "path": SESSION_FILE,
    "id": SESSION_ID,
    "cwd": "/home/ada/parser",
    "created": NOW,
    "modified": NOW,
    "messageCount": 2,
    "firstMessage": "Fix the parser",
}
_HOST_TOOL = {
    "name": "open_file",
    "description": "Show a file to the user",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    "label": "Open a file",
}
_SNAPSHOT = {
    "id": "0-Callers",
    "index": 0,
    "agent": "task",
    "agentSource": "bundled",
    "description": "Callers",
    "status": "running",
    "task": "Find the callers of parse().",
    "assignment": "Find the callers of parse().",
    "parentToolCallId": "toolu_01",
    "lastUpdate": NOW,
    "progress": ACTIVITY,
}

#: By name: the command without its type, and the data; null where the response has none.
COMMAND_EXAMPLES: dict[str, dict[str, Any]] = {
    "prompt": _example({"disposition": "started"}, message="What is in this picture?", images=[IMAGE]),
    "steer": _example({"disposition": "queued"}, message="Leave the tests alone"),
    "follow_up": _example({"disposition": "queued"}, message="Then run the tests"),
    "abort": _example(),
    "abort_and_prompt": _example(message="Do something else"),
    "clear_queue": _example({"steering": ["Leave the tests alone"], "followUp": []}),
    "get_state": _example(_STATE),
    "get_session_stats": _example(_STATS),
    "get_messages": _example({"messages": [USER, SAID]}),
    "get_last_assistant_text": _example({"text": "The parser is fixed."}),
    "set_model": _example(MODEL, provider="anthropic", modelId="claude-sonnet-4-5"),
    "cycle_model": _example({"model": MODEL, "isScoped": False, "thinkingLevel": "medium"}),
    "get_available_models": _example({"models": [MODEL]}),
    "set_thinking_level": _example({"level": "high"}, level="high"),
    "cycle_thinking_level": _example({"level": "high"}),
    "get_available_thinking_levels": _example({"levels": ["off", "minimal", "low", "medium", "high"]}),
    "set_steering_mode": _example(mode="all"),
    "set_follow_up_mode": _example(mode="one-at-a-time", persist=True),
    "set_interrupt_mode": _example(mode="immediate"),
    "bash": _example(_BASH, command="ls"),
    "abort_bash": _example(),
    "set_auto_retry": _example(enabled=False),
    "abort_retry": _example(),
    "get_tools": _example(
        {
            "tools": [
                {
                    "name": "read",
                    "label": "read",
                    "description": "Read a file",
                    "parameters": {"type": "object"},
                    "active": True,
                }
            ]
        }
    ),
    "set_active_tools": _example({"tools": ["read", "grep"]}, tools=["read", "grep"]),
    "get_commands": _example({"commands": _COMMANDS}),
    "get_available_commands": _example({"commands": _COMMANDS}),
    "set_updates": _example(updates="delta"),
    "shutdown": _example(),
    # Sessions
    "new_session": _example({"cancelled": False}, parentSession=OTHER_FILE),
    "switch_session": _example({"cancelled": False}, sessionPath=OTHER_FILE),
    "fork": _example(_FORKED, entryId="a1b2c3d4"),
    "branch": _example(_FORKED, entryId="a1b2c3d4"),
    "clone": _example({"cancelled": False}),
    "list_sessions": _example({"sessions": [_SESSION]}, all=True),
    "delete_session": _example(sessionPath=OTHER_FILE),
    "set_session_name": _example(name="The parser"),
    "get_fork_messages": _example(_FORK_MESSAGES),
    "get_branch_messages": _example(_FORK_MESSAGES),
    "get_entries": _example({"entries": [LABEL_ENTRY], "leafId": "b2c3d4e5"}, since="a1b2c3d4"),
    "get_tree": _example(
        {
            "tree": [
                {
                    "entry": ENTRY,
                    "children": [{"entry": LABEL_ENTRY, "children": []}],
                    "label": "before the change",
                    "labelTimestamp": "2026-11-15T06:27:09.004Z",
                }
            ],
            "leafId": "b2c3d4e5",
        }
    ),
    "navigate_tree": _example(
        {"cancelled": False, "leafId": None, "editorText": "Fix the parser"}, targetId="a1b2c3d4", summarize=False
    ),
    "set_label": _example({"entryId": "b2c3d4e5"}, targetId="a1b2c3d4", label="before the change"),
    "get_messages_page": _example({"messages": [USER], "totalMessages": 2, "nextCursor": "1"}, limit=1),
    "compact": _example(COMPACTION, customInstructions="Keep what was decided about the grammar"),
    "set_auto_compaction": _example(enabled=True),
    "resume": _example(),
    "export_html": _example({"path": "/home/ada/parser/session.html"}, outputPath="session.html"),
    "reload": _example({"extensions": ["careful", "notes"]}),
    # Sub-agents
    "set_subagent_subscription": _example({"level": "progress"}, level="progress"),
    "get_subagents": _example({"subagents": [_SNAPSHOT]}),
    "get_subagent_messages": _example(
        {
            "sessionFile": OTHER_FILE,
            "fromByte": 0,
            "nextByte": 512,
            "reset": False,
            "entries": [
                {
                    "type": "session",
                    "version": 3,
                    "id": SESSION_ID,
                    "timestamp": "2026-11-15T06:27:08.281Z",
                    "cwd": "/home/ada/parser",
                },
                ENTRY,
            ],
            "messages": [USER],
        },
        subagentId="0-Callers",
    ),
    # What the host does for the agent
    "set_host_tools": _example({"toolNames": ["open_file"]}, tools=[_HOST_TOOL]),
    "set_host_uri_schemes": _example({"schemes": ["notes"]}, schemes=[{"scheme": "notes", "writable": True}]),
    # omp and xcsh
    "negotiate_protocol": _example({"protocolVersion": 2}, protocolVersion=2),
    "set_event_filter": _example({"events": ["agent_end", "message_end"]}, events=["agent_end", "message_end"]),
    "open_session": _example(
        {"cancelled": False, "resumed": True, "sessionId": SESSION_ID, "sessionFile": SESSION_FILE},
        sessionDir="/home/ada/parser/.sessions",
    ),
    "handoff": _example({"savedPath": SESSION_FILE}, customInstructions="Name the open questions"),
    "set_todos": _example({"todoPhases": PHASES}, phases=[{"name": "Work", "tasks": [{"content": "Write a failing test"}]}]),
    "set_fast_mode": _example({"enabled": False, "active": False}, enabled=False),
    "get_login_providers": _example(
        {"providers": [{"id": "anthropic", "name": "Anthropic", "available": False, "authenticated": True}]}
    ),
    "login": _example(providerId="anthropic"),
    "set_locale": _example({"locale": "pt-BR"}, locale="pt-BR"),
    "get_integrations": _example({"integrations": []}),
}

_ATTACHMENT = {
    "id": "a1",
    "type": "document",
    "fileName": "grammar.md",
    "mimeType": "text/markdown",
    "size": 12,
    "content": "VGhlIGdyYW1tYXIu",
    "extractedText": "The grammar.",
}

#: The same for pi's protocol of 2025.
COMMAND_EXAMPLES_2025: dict[str, dict[str, Any]] = {
    **COMMAND_EXAMPLES,
    "prompt": _example(message="What does this say?", attachments=[_ATTACHMENT]),
}
