"""Examples of the lines, requests and frames, for the schema and the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.protocol.claude import frames

_SESSION = "5f2c6f0e-7a77-4c39-9a5a-0b8e9d1c2f31"
_UUID = "0c6f5c1e-29b4-4d3c-8e61-3f6f5d2a9b10"
_PROMPT = "9d0f3a52-4b8e-4f0c-9f6a-2d1c7e5b8a44"
_CALL = "toolu_01"
_COMMON: dict[str, Any] = {"session_id": _SESSION, "uuid": _UUID}
_IN_TURN: dict[str, Any] = {"parent_tool_use_id": None, **_COMMON}
_TIME = "2026-11-18T09:37:55.969Z"
_USAGE = {"input_tokens": 1200, "output_tokens": 40, "cache_read_input_tokens": 800, "cache_creation_input_tokens": 0}

#: Examples of what a host sends, by the name of the declaration.
LINE_EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "User": {"type": "user", "message": {"role": "user", "content": "What does this project do?"}, "uuid": _PROMPT},
    "ControlRequest": {"type": "control_request", "request_id": "req_1", "request": {"subtype": "interrupt"}},
    "ControlResponse": {
        "type": "control_response",
        "response": {"subtype": "success", "request_id": "req_1", "response": {"still_queued": []}},
    },
    "ControlCancelRequest": {"type": "control_cancel_request", "request_id": "req_1"},
    "KeepAlive": {"type": "keep_alive"},
    "UpdateEnvironmentVariables": {"type": "update_environment_variables", "variables": {"CI": "1"}},
}

_MODEL = {"value": "claude-sonnet-4-5", "displayName": "Claude Sonnet 4.5", "description": "anthropic/claude-sonnet-4-5"}
_CATEGORY = {"id": "messages", "name": "Messages", "tokens": 1840, "color": "text", "kind": "used"}

#: Examples of the control requests of a host, by name.
REQUEST_EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "initialize": {"hooks": None, "appendSystemPrompt": "Answer in German."},
    "interrupt": {},
    "set_permission_mode": {"mode": "acceptEdits"},
    "set_model": {"model": "claude-haiku-4-5"},
    "set_max_thinking_tokens": {"max_thinking_tokens": 8000},
    "get_settings": {},
    "apply_flag_settings": {"settings": {"model": "claude-haiku-4-5"}},
    "mcp_status": {},
    "mcp_toggle": {"serverName": "docs", "enabled": False},
    "mcp_reconnect": {"serverName": "docs"},
    "mcp_set_servers": {"servers": {"docs": {"command": "docs-server", "args": ["--root", "."]}}},
    "mcp_message": {
        "server_name": "docs",
        "message": {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
    },
    "mcp_call": {"tool": "mcp__docs__search", "arguments": {"query": "limits"}},
    "mcp_read_resource": {"serverName": "docs", "uri": "docs://limits"},
    "get_context_usage": {},
    "cancel_async_message": {"message_uuid": _PROMPT},
    "stop_task": {"task_id": "a4c2d90e1b7f35a68"},
    "background_tasks": {},
    "rename_session": {"title": "Fix the tests"},
    "generate_session_title": {"description": "Fix the tests that fail on Windows", "persist": True},
    "list_permission_rules": {},
    "get_session_cost": {},
    "get_usage": {},
    "read_file": {"path": "README.md"},
    "reload_skills": {},
    "get_binary_version": {},
    "list_models": {},
    "end_session": {},
}

#: Examples of the results of these requests, by name.
RESULT_EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "initialize": {
        "commands": [{"name": "compact", "description": "Summarise the conversation", "argumentHint": "[instructions]"}],
        "agents": [{"name": "general-purpose", "description": "Researches and changes files"}],
        "models": [_MODEL],
        "account": {"apiKeySource": "ANTHROPIC_API_KEY", "apiProvider": "firstParty", "tokenSource": "none"},
        "output_style": "default",
        "available_output_styles": ["default"],
        "pid": 4711,
        "claude_code_version": "2.1.326",
        "current_permission_mode": "default",
        "hook_on_failure_supported": True,
        "session_state": "idle",
        "capabilities": ["interrupt_receipt_v1"],
    },
    "interrupt": {"still_queued": []},
    "set_permission_mode": {"mode": "acceptEdits"},
    "set_model": {"model": "claude-haiku-4-5"},
    "get_settings": {"effective": {}, "sources": [], "applied": {"model": "claude-sonnet-4-5", "effort": None}},
    "mcp_status": {"mcpServers": [{"name": "docs", "status": "connected"}]},
    "mcp_set_servers": {"added": ["docs"], "removed": [], "errors": {}},
    "mcp_call": {"content": [{"type": "text", "text": "Limits end a run."}]},
    "mcp_read_resource": {"contents": [{"uri": "docs://limits", "text": "Limits end a run."}]},
    "generate_session_title": {"title": "Fix the tests that fail on Windows"},
    "list_permission_rules": {
        "state": {
            "rules": [{"behavior": "allow", "source": "cliArg", "rule": "Bash(git *)", "editability": "session"}],
            "workspaceDirectories": [],
            "originalCwd": "/home/ada/project",
            "managedOnly": False,
        }
    },
    "read_file": {
        "contents": "# The project",
        "absPath": "/home/ada/project/README.md",
        "lossy": False,
        "requested_path": "README.md",
    },
    "reload_skills": {"skills": [{"name": "review", "description": "Reviews a change", "argumentHint": ""}]},
    "get_session_cost": {"text": "Total cost: $0.0420"},
    "get_usage": {
        "session": {
            "total_cost_usd": 0.042,
            "total_api_duration_ms": 5200,
            "total_duration_ms": 61000,
            "total_lines_added": 0,
            "total_lines_removed": 0,
            "model_usage": {},
        },
        "subscription_type": None,
        "rate_limits_available": False,
        "rate_limits": None,
        "behaviors": None,
    },
    "get_context_usage": {
        "categories": [_CATEGORY],
        "totalTokens": 1840,
        "maxTokens": 200000,
        "rawMaxTokens": 200000,
        "percentage": 1,
        "gridRows": [],
        "model": "claude-sonnet-4-5",
        "memoryFiles": [],
        "mcpTools": [],
        "agents": [],
        "isAutoCompactEnabled": True,
    },
    "cancel_async_message": {"cancelled": True},
    "get_binary_version": {"version": "2.1.326"},
    "list_models": {"models": [_MODEL]},
}

#: Examples of the control requests of the agent, each with an answer.
ANSWER_EXAMPLES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "can_use_tool": (
        {"tool_name": "Bash", "display_name": "Bash", "input": {"command": "make test"}, "tool_use_id": _CALL},
        {"behavior": "allow", "updatedInput": {"command": "make test"}},
    ),
    "mcp_message": (
        {"server_name": "docs", "message": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}},
        {"mcp_response": {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}},
    ),
}

_TASK = {"task_id": "a1b2c3d4", "tool_use_id": _CALL}
_TASK_USAGE = {"total_tokens": 5120, "tool_uses": 3, "duration_ms": 9300}

FRAME_EXAMPLES: Mapping[type[frames.Frame], Mapping[str, Any]] = {
    frames.Init: {
        "type": "system",
        "subtype": "init",
        "cwd": "/home/ada/project",
        "tools": ["Task", "Bash", "Read"],
        "mcp_servers": [],
        "model": "claude-sonnet-4-5",
        "permissionMode": "default",
        "slash_commands": ["compact"],
        "apiKeySource": "ANTHROPIC_API_KEY",
        "claude_code_version": "2.1.326",
        "output_style": "default",
        "agents": ["general-purpose"],
        "skills": [],
        "plugins": [],
        "capabilities": ["interrupt_receipt_v1"],
        "fast_mode_state": "off",
        **_COMMON,
    },
    frames.Assistant: {
        "type": "assistant",
        "message": {
            "id": "msg_01",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [{"type": "text", "text": "It carries lines."}],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _USAGE,
        },
        "timestamp": _TIME,
        "user_message_uuid": _PROMPT,
        "user_message_uuids": [_PROMPT],
        **_IN_TURN,
    },
    frames.UserFrame: {
        "type": "user",
        "message": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": _CALL, "content": "hi", "is_error": False}],
        },
        "timestamp": _TIME,
        "tool_use_result": {"stdout": "hi", "stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False},
        **_IN_TURN,
    },
    frames.StreamEvent: {
        "type": "stream_event",
        "event": {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "It carries"}},
        **_IN_TURN,
    },
    frames.Result: {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "It carries lines.",
        "num_turns": 1,
        "duration_ms": 1830,
        "duration_api_ms": 1790,
        "stop_reason": "end_turn",
        "total_cost_usd": 0.0042,
        "usage": _USAGE,
        "modelUsage": {
            "claude-sonnet-4-5": {
                "inputTokens": 1200,
                "outputTokens": 40,
                "cacheReadInputTokens": 800,
                "cacheCreationInputTokens": 0,
                "webSearchRequests": 0,
                "costUSD": 0.0042,
                "contextWindow": 200000,
                "maxOutputTokens": 64000,
            }
        },
        "permission_denials": [],
        "terminal_reason": "completed",
        "queued_turn_count": 0,
        "result_index": 0,
        **_COMMON,
    },
    frames.Status: {"type": "system", "subtype": "status", "status": None, "permissionMode": "acceptEdits", **_COMMON},
    frames.CompactBoundary: {
        "type": "system",
        "subtype": "compact_boundary",
        "compact_metadata": {"trigger": "manual", "pre_tokens": 90000, "post_tokens": 4200},
        **_COMMON,
    },
    frames.ApiRetry: {
        "type": "system",
        "subtype": "api_retry",
        "attempt": 1,
        "max_retries": 10,
        "retry_delay_ms": 500,
        "error_status": 529,
        "error": "overloaded",
        **_COMMON,
    },
    frames.ModelFallback: {
        "type": "system",
        "subtype": "model_fallback",
        "trigger": "overloaded",
        "original_model": "claude-sonnet-4-5",
        "fallback_model": "claude-haiku-4-5",
        "content": "claude-sonnet-4-5 is overloaded, so claude-haiku-4-5 answers.",
        **_COMMON,
    },
    frames.PermissionDenied: {
        "type": "system",
        "subtype": "permission_denied",
        "tool_name": "Bash",
        "tool_use_id": _CALL,
        "message": "No rule allows this call, and there is no user to ask.",
        **_COMMON,
    },
    frames.Informational: {
        "type": "system",
        "subtype": "informational",
        "level": "error",
        "content": "A line of the host is not valid JSON.",
        **_COMMON,
    },
    frames.HookStarted: {
        "type": "system",
        "subtype": "hook_started",
        "hook_id": "5b0a8d1e-1c56-4a5e-9d0c-1f3f5d0c7a11",
        "hook_name": "PreToolUse:Bash",
        "hook_event": "PreToolUse",
        **_COMMON,
    },
    frames.HookResponse: {
        "type": "system",
        "subtype": "hook_response",
        "hook_id": "5b0a8d1e-1c56-4a5e-9d0c-1f3f5d0c7a11",
        "hook_name": "PreToolUse:Bash",
        "hook_event": "PreToolUse",
        "output": "",
        "stdout": "",
        "stderr": "",
        "exit_code": 0,
        "outcome": "success",
        **_COMMON,
    },
    frames.SessionStateChanged: {"type": "system", "subtype": "session_state_changed", "state": "idle", **_COMMON},
    frames.TaskStarted: {
        "type": "system",
        "subtype": "task_started",
        **_TASK,
        "description": "Look around",
        "task_type": "local_agent",
        "subagent_type": "general-purpose",
        "prompt": "Where are the tests?",
        **_COMMON,
    },
    frames.TaskProgress: {
        "type": "system",
        "subtype": "task_progress",
        **_TASK,
        "description": "Read tests/README.md",
        "usage": _TASK_USAGE,
        "last_tool_name": "Read",
        **_COMMON,
    },
    frames.TaskUpdated: {
        "type": "system",
        "subtype": "task_updated",
        "task_id": "a1b2c3d4",
        "patch": {"status": "completed", "end_time": 1794994675969},
        **_COMMON,
    },
    frames.TaskNotification: {
        "type": "system",
        "subtype": "task_notification",
        **_TASK,
        "status": "completed",
        "output_file": "",
        "summary": "Look around",
        "usage": _TASK_USAGE,
        **_COMMON,
    },
    frames.SessionTitleChanged: {"type": "system", "subtype": "session_title_changed", "title": "Fix the tests", **_COMMON},
    frames.ConversationReset: {"type": "conversation_reset", "new_conversation_id": _PROMPT, "trigger": "clear", **_COMMON},
    frames.CommandLifecycle: {"type": "command_lifecycle", "command_uuid": _PROMPT, "state": "started", **_COMMON},
    frames.TranscriptMirror: {
        "type": "transcript_mirror",
        "filePath": "/home/ada/.claude/projects/-home-ada-demo/3c1f5b7e-0b1d-4c55-9a53-7a0c7c9c1d11.jsonl",
        "entries": [{"type": "custom-title", "customTitle": "Fix the tests"}],
        **_COMMON,
    },
}
