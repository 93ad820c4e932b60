"""Values that several examples share."""

from __future__ import annotations

from typing import Any

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
