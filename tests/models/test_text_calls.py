"""Calls in text: what a model writes as JSON becomes a call, however it arrives; everything else stays text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.models.asking import a_model, a_request, a_result, an_answer, outcome, sse

from fairlead.config.home import Home
from fairlead.core.messages import TextContent, ToolCall, UserMessage
from fairlead.core.model import BlockDelta, ToolSpec
from fairlead.core.partial_message import PartialMessage
from fairlead.models.apis.response_reading import BlockWriter
from fairlead.models.apis.text_calls import TextCallReader, call_text, with_tools
from fairlead.models.registry import Registry

API = "openai-completions"
TOOLS = [ToolSpec("bash", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}})]
LS = {"command": "ls"}
OBJECT = json.dumps({"name": "bash", "arguments": LS})


def read(text: str, size: int) -> list[Any]:
    """What becomes of an answer that arrives in pieces of `size` characters: texts, and calls as (name, arguments)."""
    partial = PartialMessage(a_model(API), 1)
    reader = TextCallReader(partial, BlockWriter(partial), ["bash", "write"])
    for start in range(0, len(text), size):
        reader.feed(text[start : start + size])
    reader.end()
    partial.finish("stop")
    assert partial.finished is not None
    content = partial.finished.message.content
    assert reader.found_calls == any(isinstance(block, ToolCall) for block in content)
    return [(block.name, block.arguments) if isinstance(block, ToolCall) else getattr(block, "text", None) for block in content]


CALL = ("bash", LS)


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"<tool_call>\n{OBJECT}\n</tool_call>", [CALL]),
        (f"<tool_call>\n{OBJECT}\n", [CALL]),  # the closing tag is a stop word
        (f"I look.\n<tool_call>{OBJECT}</tool_call>\n", ["I look.\n", CALL]),
        (f"```json\n{OBJECT}\n```", [CALL]),
        (f"```\n{OBJECT}\n```\n", [CALL]),
        (f"First:\n\n```json\n{OBJECT}\n```\nThen more.", ["First:\n\n", CALL, "Then more."]),
        (OBJECT, [CALL]),
        (f"Sure.\n{OBJECT}", ["Sure.\n", CALL]),
        (f"<tools>{OBJECT}</tools>", [CALL]),
        (f"{OBJECT}\n{OBJECT}", [CALL, CALL]),
        ('{"name": "bash", "parameters": {"command": "ls"}}', [CALL]),
        ('{"tool": "bash", "args": {"command": "ls"}}', [CALL]),
        ('{"name": "bash", "command": "ls"}', [CALL]),
        ('{"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}', [CALL]),
        ('```json\n{"type": "function", "function": {"name": "bash", "arguments": {"command": "ls"}}}\n```', [CALL]),
        (
            '<tool_call>\n{"name": "write", "arguments": {"path": "a", "content": "x = {\\"a\\": \\"}\\\\\\\\\\"}\nprint(1)\n"}}',
            [("write", {"path": "a", "content": 'x = {"a": "}\\\\"}\nprint(1)\n'})],
        ),
        # not calls
        ("Plain text with { braces } and `code`.", ["Plain text with { braces } and `code`."]),
        ('```json\n{"name": "other", "arguments": {}}\n```', ['```json\n{"name": "other", "arguments": {}}\n```']),
        ('{"name": "bash", "arguments": [1]}', ['{"name": "bash", "arguments": [1]}']),
        ('```python\nprint("hi")\n```', ['```python\nprint("hi")\n```']),
        ('<tool_call>\n{"name": "bash", "argum', ['<tool_call>\n{"name": "bash", "argum']),
        ("a < b and <b>c</b>\n  indented\n", ["a < b and <b>c</b>\n  indented\n"]),
        ("{'name': 'bash'}", ["{'name': 'bash'}"]),
    ],
)
def test_a_call_is_found_however_it_is_written_and_arrives(text: str, found: list[Any], size: int) -> None:
    assert read(text, size) == found


def test_text_is_not_held_back() -> None:
    partial = PartialMessage(a_model(API), 1)
    reader = TextCallReader(partial, BlockWriter(partial), ["bash"])
    partial.open()
    partial.take()
    reader.feed("I will look at ")
    assert partial.take()[-1] == BlockDelta(0, "I will look at ")


def test_a_long_call_costs_no_more_than_its_length() -> None:
    body = json.dumps({"name": "write", "arguments": {"path": "a", "content": "line {}\n" * 30_000}})
    ((name, arguments),) = read(f"<tool_call>\n{body}\n", 4)
    assert name == "write" and len(arguments["content"]) == 240_000


def test_the_request_has_the_tools_as_text_and_the_answer_a_call() -> None:
    chunks = [f"<tool_call>\n{OBJECT[:10]}", OBJECT[10:]]
    answer = sse(
        *({"choices": [{"index": 0, "delta": {"content": text}}]} for text in chunks),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    )
    earlier = an_answer(API, TextContent("I look."), ToolCall("c1", "bash", LS), stop_reason="toolUse")
    messages = [UserMessage("go", 1), earlier, a_result("c1", TextContent("a.py"))]
    request = a_request(*messages, tools=TOOLS, system_prompt="Stop when done.")
    done = outcome(API, answer, request, compat={"toolCallsAsText": True})
    body = done.asked.body
    assert "tools" not in body and body["stop"] == ["</tool_call>", "<tool_response>"]
    system, *rest = body["messages"]
    assert '"name":"bash"' in system["content"] and system["content"].endswith("\n\nStop when done.")
    assert rest == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "I look.\n" + call_text(ToolCall("c1", "bash", LS))},
        {"role": "user", "content": "<tool_response>\na.py\n</tool_response>"},
    ]
    assert done.message.stop_reason == "toolUse"
    (found,) = done.message.tool_calls()
    assert (found.name, found.arguments) == ("bash", LS)


def test_without_tools_the_system_prompt_is_unchanged() -> None:
    assert with_tools("Be brief.", []) == "Be brief."


def test_a_wrong_value_in_models_json_is_a_warning(tmp_path: Any) -> None:
    model = {"id": "m", "compat": {"toolCallsAsText": "yes"}}
    provider = {"baseUrl": "http://127.0.0.1:9/v1", "api": API, "models": [model]}
    (tmp_path / "models.json").write_text(json.dumps({"providers": {"mine": provider}}))
    registry = Registry.load(Home(tmp_path), {})
    registry.all()
    (warning,) = registry.warnings
    assert warning.endswith('providers.mine.models[0].compat.toolCallsAsText: expected true or false, found "yes".')
