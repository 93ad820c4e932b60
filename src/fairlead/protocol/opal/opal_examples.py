"""An example of each declared object, in its form on the wire."""

from __future__ import annotations

from typing import Any

SESSION = "54fa1c3e9b0d4f62a7c85e1203d49b76"

_USAGE = {
    "prompt_tokens": 5210,
    "completion_tokens": 312,
    "total_tokens": 5522,
    "context_window": 200000,
    "current_context_tokens": 2710,
}
_MODEL = {"provider": "anthropic", "id": "claude-sonnet-4-5", "thinking_level": "high"}
_AUTH = {
    "status": "ready",
    "provider": "anthropic",
    "providers": [
        {"id": "anthropic", "name": "Anthropic", "method": "api_key", "ready": True, "env_var": "ANTHROPIC_API_KEY"},
    ],
}
_CONFIG = {
    "features": {"sub_agents": True, "skills": True, "debug": False},
    "tools": {"all": ["read_file", "shell", "debug_state"], "enabled": ["read_file", "shell"], "disabled": ["debug_state"]},
    "distribution": None,
}

#: By method: the params of a request, and the result of its response.
METHOD_EXAMPLES: dict[str, dict[str, Any]] = {
    "session/start": {
        "params": {
            "working_dir": "/home/ada/parser",
            "session": True,
            "features": {"debug": False},
            "tools": ["read_file", "shell"],
        },
        "result": {
            "session_id": SESSION,
            "session_dir": f"/home/ada/.fairlead/opal/{SESSION}",
            "context_files": ["/home/ada/parser/AGENTS.md"],
            "available_skills": ["release-notes"],
            "node_name": "nonode@nohost",
            "auth": _AUTH,
        },
    },
    "agent/prompt": {"params": {"session_id": SESSION, "text": "Fix the parser"}, "result": {"queued": False}},
    "agent/abort": {"params": {"session_id": SESSION}, "result": {}},
    "agent/resume": {"params": {"session_id": SESSION}, "result": {}},
    "agent/state": {
        "params": {"session_id": SESSION},
        "result": {
            "session_id": SESSION,
            "status": "idle",
            "model": _MODEL,
            "message_count": 2,
            "tools": ["read_file", "shell"],
            "token_usage": _USAGE,
        },
    },
    "session/list": {
        "params": {},
        "result": {"sessions": [{"id": SESSION, "title": "Fixing the parser", "modified": "2026-11-15T06:27:18"}]},
    },
    "session/branch": {"params": {"session_id": SESSION, "entry_id": "9c41d2aa07b6e513"}, "result": {}},
    "session/compact": {"params": {"session_id": SESSION, "keep_recent": 10}, "result": {}},
    "session/history": {
        "params": {"session_id": SESSION},
        "result": {
            "messages": [
                {"id": "9c41d2aa07b6e513", "role": "user", "content": "Fix the parser", "is_error": False},
                {
                    "id": "1f0be25d44c07a98",
                    "role": "assistant",
                    "content": "",
                    "is_error": False,
                    "thinking": "I have to see it first.",
                    "tool_calls": [{"call_id": "call_1", "name": "read_file", "arguments": {"path": "parser.py"}}],
                },
                {
                    "id": "60d7c8b1f3a2494e",
                    "role": "tool_result",
                    "content": "1:a3|import re",
                    "is_error": False,
                    "call_id": "call_1",
                    "name": "read_file",
                },
            ]
        },
    },
    "session/delete": {"params": {"session_id": SESSION}, "result": {"ok": True}},
    "models/list": {
        "params": {},
        "result": {
            "models": [
                {
                    "id": "claude-sonnet-4-5",
                    "name": "Claude Sonnet 4.5",
                    "provider": "anthropic",
                    "supports_thinking": True,
                    "thinking_levels": ["low", "medium", "high"],
                }
            ]
        },
    },
    "model/set": {
        "params": {"session_id": SESSION, "model_id": "anthropic/claude-sonnet-4-5", "thinking_level": "high"},
        "result": {"model": _MODEL},
    },
    "thinking/set": {"params": {"session_id": SESSION, "level": "low"}, "result": {"thinking_level": "low"}},
    "auth/status": {"params": {}, "result": {"authenticated": True, "auth": _AUTH}},
    "auth/login": {
        "params": {},
        "result": {
            "user_code": "WDJB-MJHT",
            "verification_uri": "https://example.com/device",
            "device_code": "GmRhmhcxhwAzkoEqiMEg",
            "interval": 5,
        },
    },
    "auth/poll": {"params": {"device_code": "GmRhmhcxhwAzkoEqiMEg", "interval": 5}, "result": {"authenticated": True}},
    "auth/set_key": {"params": {"provider": "anthropic", "api_key": "sk-ant-..."}, "result": {"ok": True}},
    "tasks/list": {
        "params": {"session_id": SESSION},
        "result": {
            "tasks": [
                {
                    "id": "2",
                    "label": "Write the tests",
                    "status": "blocked",
                    "prompt": "",
                    "result": "",
                    "notes": "",
                    "blocked_by": "1",
                    "parent_id": "",
                    "created_at": "2026-11-15 06:27:08.281458",
                    "updated_at": "2026-11-15 06:27:08.281458",
                }
            ]
        },
    },
    "settings/get": {"params": {}, "result": {"settings": {"default_model": "claude-sonnet-4-5"}}},
    "settings/save": {
        "params": {"settings": {"default_model": "claude-sonnet-4-5"}},
        "result": {"settings": {"default_model": "claude-sonnet-4-5"}},
    },
    "opal/config/get": {"params": {"session_id": SESSION}, "result": _CONFIG},
    "opal/config/set": {"params": {"session_id": SESSION, "tools": ["read_file", "shell"]}, "result": _CONFIG},
    "opal/ping": {"params": {}, "result": {}},
    "opal/version": {"params": {}, "result": {"server_version": "0.1.0", "protocol_version": "0.1.0"}},
}

SERVER_REQUEST_EXAMPLES: dict[str, dict[str, Any]] = {
    "client/confirm": {
        "params": {
            "session_id": SESSION,
            "title": "Allow shell?",
            "message": "rm -r build",
            "actions": ["allow", "deny", "allow_session"],
            "tool": "shell",
            "call_id": "toolu_01",
            "args": {"command": "rm -r build"},
        },
        "result": {"action": "allow"},
    },
    "client/input": {
        "params": {"session_id": SESSION, "prompt": "The key of the staging server", "sensitive": True},
        "result": {"text": "k-1234"},
    },
    "client/ask_user": {
        "params": {"session_id": SESSION, "question": "Which parser?", "choices": ["the old one", "the new one"]},
        "result": {"answer": "the new one"},
    },
}


def _event(type: str, **fields: Any) -> dict[str, Any]:
    return {"type": type, "session_id": SESSION, **fields}


_CALL = {"tool": "shell", "call_id": "call_1"}
_DIFF = {
    "path": "parser.py",
    "lines_added": 1,
    "lines_removed": 1,
    "hunks": [
        {
            "old_start": 1,
            "new_start": 1,
            "lines": [
                {"op": "del", "text": "import re", "old_no": 1},
                {"op": "ins", "text": "import regex", "new_no": 1},
                {"op": "eq", "text": "", "old_no": 2, "new_no": 2},
            ],
        }
    ],
}

#: By type: the params of the notification.
EVENT_EXAMPLES: dict[str, dict[str, Any]] = {
    example["type"]: example
    for example in (
        _event("agent_start"),
        _event("agent_end", usage=_USAGE),
        _event("agent_abort"),
        _event("agent_recovered"),
        _event("error", reason="The provider answered 401: the key is not valid."),
        _event("message_queued", text="And the tests"),
        _event("message_applied", text="And the tests"),
        _event("message_start"),
        _event("message_delta", delta="The parser "),
        _event("thinking_start"),
        _event("thinking_delta", delta="I have to see it first."),
        _event("turn_end", message="Let me look."),
        _event("usage_update", usage=_USAGE),
        _event("status_update", message="Reading the parser"),
        _event("tool_execution_start", **_CALL, args={"command": "ls"}, meta="Run `ls`"),
        _event("tool_output", **_CALL, chunk="parser.py\n"),
        _event(
            "tool_execution_end",
            tool="edit_file",
            call_id="call_2",
            result={"ok": True, "output": "File written: /home/ada/parser/parser.py", "meta": {"diff": _DIFF}},
        ),
        _event("context_discovered", files=["/home/ada/parser/AGENTS.md"]),
        _event("skill_loaded", name="release-notes", description="How to write release notes"),
        _event(
            "sub_agent_event",
            parent_call_id="call_3",
            sub_session_id="sub-0c9a4d1be7f24c18a35d60b2f7e81904",
            inner={
                "type": "sub_agent_start",
                "model": "claude-sonnet-4-5",
                "label": "Find the callers",
                "tools": ["read_file", "grep"],
            },
        ),
    )
}
