"""What the results and updates of Opal's tools hold besides text, and the form of a result on Opal's wire.

The `details` of a result may have
    meta      an object for the host only, the wire's `result.meta`: `{"diff": {...}}` from write_file and edit_file
    output    an object that replaces the text as the wire's `result.output`: from tasks

An update with text is a new piece of output, the wire's `tool_output`. An update without text reports something else in its
`details`
    skill       `{"name", "description"}`: use_skill has found that skill
    sub_agent   `{"id", "label", "model", "tools"}`: sub_agent is about to start a sub-agent with that id
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairlead.core.messages import TextContent
from fairlead.core.tool import ToolResult

META, OUTPUT, SKILL, SUB_AGENT = "meta", "output", "skill", "sub_agent"


def outcome(result: ToolResult, is_error: bool) -> dict[str, Any]:
    """A result in its form on the wire: `{ok: true, output, meta?}` or `{ok: false, error}`."""
    if is_error:
        return {"ok": False, "error": text_of(result)}
    details = result.details or {}
    told: dict[str, Any] = {"ok": True, "output": details.get(OUTPUT, text_of(result))}
    return {**told, "meta": details[META]} if META in details else told


def text_of(result: ToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


_COMMAND, _PROMPT, _QUESTION = 57, 54, 60


def meta(tool_name: str, arguments: Mapping[str, Any]) -> str:
    """Describe a call. The arguments are as the model wrote them and not validated."""
    describe = _DESCRIPTIONS.get(tool_name)
    return tool_name if describe is None else describe(arguments)


def _with(word: str, key: str, otherwise: str) -> Callable[[Mapping[str, Any]], str]:
    def describe(arguments: Mapping[str, Any]) -> str:
        value = _text(arguments, key)
        return f"{word} {value}" if value else otherwise

    return describe


def _shell(arguments: Mapping[str, Any]) -> str:
    action, process = _text(arguments, "action"), _text(arguments, "id")
    if action in _ON_PROCESSES and process:
        return f"{_ON_PROCESSES[action]} {process}"
    command = _text(arguments, "command")
    return f"Run `{_cut(command, _COMMAND)}`" if command else "Run command"


def _tasks(arguments: Mapping[str, Any]) -> str:
    action, ids, ops = _text(arguments, "action"), arguments.get("id"), arguments.get("ops")
    if action == "batch":
        return f"Batch {len(ops)} ops" if isinstance(ops, list) else "Tasks"  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(ids, list) and action in ("update", "delete"):
        return f"{'Update' if action == 'update' else 'Delete'} {len(ids)} tasks"  # pyright: ignore[reportUnknownArgumentType]
    return _ON_TASKS.get(action, "Tasks")


def _sub_agent(arguments: Mapping[str, Any]) -> str:
    prompt = _text(arguments, "prompt")
    return f"Sub-agent: {_cut(prompt, _PROMPT)}" if prompt else "Sub-agent"


def _ask_user(arguments: Mapping[str, Any]) -> str:
    return _cut(_text(arguments, "question"), _QUESTION) or "Ask user"


def _debug_state(_: Mapping[str, Any]) -> str:
    return "Inspect runtime state"


def _text(arguments: Mapping[str, Any], key: str) -> str:
    value = arguments.get(key)
    return value if isinstance(value, str) else ""


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}..."


_ON_PROCESSES = {"wait": "Wait for", "input": "Input to", "kill": "Kill"}
_ON_TASKS = {"insert": "Add task", "list": "Query tasks", "update": "Update task", "delete": "Remove task"}
_DESCRIPTIONS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "read_file": _with("Read", "path", "Read file"),
    "write_file": _with("Write", "path", "Write file"),
    "edit_file": _with("Edit", "path", "Edit file"),
    "grep": _with("Grep", "pattern", "Grep"),
    "shell": _shell,
    "sub_agent": _sub_agent,
    "tasks": _tasks,
    "use_skill": _with("Loading skill:", "skill_name", "Loading skill"),
    "ask_user": _ask_user,
    "debug_state": _debug_state,
}
