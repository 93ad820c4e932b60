"""An example of every command, and of the `data` of its response."""

from __future__ import annotations

from typing import Any

from fairlead.protocol.pi import line_examples as values


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
    "model": values.MODEL,
    "thinkingLevel": "medium",
    "isStreaming": False,
    "isSettled": True,
    "isCompacting": False,
    "steeringMode": "one-at-a-time",
    "followUpMode": "one-at-a-time",
    "interruptMode": "wait",
    "sessionFile": values.SESSION_FILE,
    "sessionId": values.SESSION_ID,
    "autoCompactionEnabled": True,
    "messageCount": 2,
    "pendingMessageCount": 0,
    "queuedMessageCount": 0,
    "todoPhases": values.PHASES,
    "contextUsage": {"tokens": 2828, "contextWindow": 200000, "percent": 1.414},
}
_STATS = {
    "sessionFile": values.SESSION_FILE,
    "sessionId": values.SESSION_ID,
    "userMessages": 1,
    "assistantMessages": 1,
    "toolCalls": 0,
    "toolResults": 0,
    "totalMessages": 2,
    "tokens": {"input": 2710, "output": 118, "cacheRead": 0, "cacheWrite": 0, "total": 2828},
    "cost": 0.0099,
}
_SESSION = {
    "path": values.SESSION_FILE,
    "id": values.SESSION_ID,
    "cwd": "/home/ada/parser",
    "created": values.NOW,
    "modified": values.NOW,
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
    "lastUpdate": values.NOW,
    "progress": values.ACTIVITY,
}

#: By name: the command without its type, and the data; null where the response has none.
COMMAND_EXAMPLES: dict[str, dict[str, Any]] = {
    "prompt": _example({"disposition": "started"}, message="What is in this picture?", images=[values.IMAGE]),
    "steer": _example({"disposition": "queued"}, message="Leave the tests alone"),
    "follow_up": _example({"disposition": "queued"}, message="Then run the tests"),
    "abort": _example(),
    "abort_and_prompt": _example(message="Do something else"),
    "clear_queue": _example({"steering": ["Leave the tests alone"], "followUp": []}),
    "get_state": _example(_STATE),
    "get_session_stats": _example(_STATS),
    "get_messages": _example({"messages": [values.USER, values.SAID]}),
    "get_last_assistant_text": _example({"text": "The parser is fixed."}),
    "set_model": _example(values.MODEL, provider="anthropic", modelId="claude-sonnet-4-5"),
    "cycle_model": _example({"model": values.MODEL, "isScoped": False, "thinkingLevel": "medium"}),
    "get_available_models": _example({"models": [values.MODEL]}),
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
    "new_session": _example({"cancelled": False}, parentSession=values.OTHER_FILE),
    "switch_session": _example({"cancelled": False}, sessionPath=values.OTHER_FILE),
    "fork": _example(_FORKED, entryId="a1b2c3d4"),
    "branch": _example(_FORKED, entryId="a1b2c3d4"),
    "clone": _example({"cancelled": False}),
    "list_sessions": _example({"sessions": [_SESSION]}, all=True),
    "delete_session": _example(sessionPath=values.OTHER_FILE),
    "set_session_name": _example(name="The parser"),
    "get_fork_messages": _example(_FORK_MESSAGES),
    "get_branch_messages": _example(_FORK_MESSAGES),
    "get_entries": _example({"entries": [values.LABEL_ENTRY], "leafId": "b2c3d4e5"}, since="a1b2c3d4"),
    "get_tree": _example(
        {
            "tree": [
                {
                    "entry": values.ENTRY,
                    "children": [{"entry": values.LABEL_ENTRY, "children": []}],
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
    "get_messages_page": _example({"messages": [values.USER], "totalMessages": 2, "nextCursor": "1"}, limit=1),
    "compact": _example(values.COMPACTION, customInstructions="Keep what was decided about the grammar"),
    "set_auto_compaction": _example(enabled=True),
    "resume": _example(),
    "export_html": _example({"path": "/home/ada/parser/session.html"}, outputPath="session.html"),
    "reload": _example({"extensions": ["careful", "notes"]}),
    # Sub-agents
    "set_subagent_subscription": _example({"level": "progress"}, level="progress"),
    "get_subagents": _example({"subagents": [_SNAPSHOT]}),
    "get_subagent_messages": _example(
        {
            "sessionFile": values.OTHER_FILE,
            "fromByte": 0,
            "nextByte": 512,
            "reset": False,
            "entries": [
                {
                    "type": "session",
                    "version": 3,
                    "id": values.SESSION_ID,
                    "timestamp": "2026-11-15T06:27:08.281Z",
                    "cwd": "/home/ada/parser",
                },
                values.ENTRY,
            ],
            "messages": [values.USER],
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
        {"cancelled": False, "resumed": True, "sessionId": values.SESSION_ID, "sessionFile": values.SESSION_FILE},
        sessionDir="/home/ada/parser/.sessions",
    ),
    "handoff": _example({"savedPath": values.SESSION_FILE}, customInstructions="Name the open questions"),
    "set_todos": _example(
        {"todoPhases": values.PHASES}, phases=[{"name": "Work", "tasks": [{"content": "Write a failing test"}]}]
    ),
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
