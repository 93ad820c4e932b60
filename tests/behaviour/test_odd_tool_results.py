"""Whatever a tool of an extension, an MCP server or the host returns as JSON: the run continues, and no result is lost."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, cast

import pytest
from tests.extend.extended import calling, extended, scripted
from tests.extend.mcp_scene import calls as mcp_calls
from tests.extend.mcp_scene import raw_server, scene
from tests.session.family import Cast, a_parent, task_call
from tests.session.scene import talk
from tests.support.host_tools import PROMPT, offer, tool
from tests.support.stage import calls, says, stage

from fairlead.core import events as e
from fairlead.core.messages import ToolResultMessage
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.testing import Turn

#: How many results each kind of tool returns in one run.
COUNT = 30
TEXT = '[{"type":"text","text":"kept"}]'
LEAVES = (
    *("null", "true", "false", "0", "-0.0", "1e400", "-1e400", "9" * 400, "1e-400", "0.1", str(2**53), str(2**64)),
    *('""', '"text"', '"\\ud800"', '"\\udc00\\ud800"', '"\\u0000\\u001b[2J"', '"\\u2028\\ufeff"', f'"{"x" * 70_000}"', '"kept"'),
    *("[" * depth + "]" * depth for depth in (3, 90, 260, 900)),
    *('{"a":' * depth + "1" + "}" * depth for depth in (90, 400)),
    *(
        '{"type":"text"}',
        '{"type":"text","text":5}',
        '{"type":"image","data":"!","mimeType":5}',
        '{"type":"video"}',
        '{"type":[]}',
    ),
)
KEYS = ("a", "type", "text", "content", "details", "isError", "__proto__", "constructor", "then", "toJSON", "\\ud800", "")


def odd_json(r: random.Random, depth: int = 0) -> str:
    """Some JSON."""
    if depth > 3 or r.random() < 0.4:
        return r.choice(LEAVES)
    parts = [odd_json(r, depth + 1) for _ in range(r.randrange(4))]
    if r.random() < 0.5:
        return f"[{','.join(parts)}]"
    return "{" + ",".join(f'"{r.choice(KEYS)}":{part}' for part in parts) + "}"


def odd_result(r: random.Random) -> tuple[str, bool]:
    """Some JSON as the result of a tool, and whether its content is the usual one."""
    if r.random() < 0.2:
        return odd_json(r), False
    is_usual = r.random() < 0.7
    fields = {"content": TEXT if is_usual else odd_json(r)}
    for name in ("details", "isError", "structuredContent", "usage", "_meta", "terminate"):
        if r.random() < 0.5:
            fields[name] = odd_json(r)
    return "{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}", is_usual


def odd_results(seed: int) -> list[tuple[str, bool]]:
    r = random.Random(seed)
    return [odd_result(r) for _ in range(COUNT)]


def check(results: list[tuple[str, bool]], texts: list[str]) -> None:
    """Check that there is a result for each call, with its text if that could be read."""
    assert len(texts) == len(results)
    lost = [result for (result, is_usual), text in zip(results, texts, strict=True) if is_usual and "kept" not in text]
    assert [each[:300] for each in lost] == []


@pytest.mark.parametrize("seed", range(4))
async def test_tools_of_typescript_extensions(tmp_path: Path, seed: int) -> None:
    results = odd_results(seed)
    (tmp_path / "results").write_text("\n".join(result for result, _ in results))
    body = f"""
  const {{ readFileSync }} = await import("node:fs");
  const lines = readFileSync({json.dumps(str(tmp_path / "results"))}, "utf8").split("\\n");
  pi.registerTool({{
    name: "odd", label: "Odd", description: "Odd", parameters: Type.Object({{ at: Type.Number() }}),
    async execute(id: string, {{ at }}: any, signal: any, onUpdate: any) {{
      onUpdate(JSON.parse(lines[at]));
      return JSON.parse(lines[at]);
    }},
  }} as any);
"""
    turns = [*[calling("odd", at=at) for at in range(COUNT)], Turn(text="done")]
    async with scripted(tmp_path, body, turns=turns, keep=True) as it:
        assert str(await it.agent.ask("hi")) == "done" and it.errors == []
        check(results, [text for text, _ in it.results])
        path = it.agent.session.history.path
    saved = [json.loads(line) for line in Path(str(path)).read_text().split("\n") if line]
    assert len([entry for entry in saved if entry.get("message", {}).get("role") == "toolResult"]) == COUNT


@pytest.mark.parametrize("seed", range(4))
async def test_tools_of_python_extensions(tmp_path: Path, seed: int) -> None:
    results = odd_results(seed)
    (tmp_path / "results").write_text("\n".join(result for result, _ in results))
    source = f"""
    import json
    from pathlib import Path
    from fairlead import ToolResult

    lines = Path({str(tmp_path / "results")!r}).read_text().splitlines()

    def setup(fl):
        @fl.register_tool
        def odd(at: int):
            "Odd."
            value = json.loads(lines[at])
            if not isinstance(value, dict):
                return value
            return ToolResult(value.get("content"), value.get("details"), failed=value.get("isError"), usage=value.get("usage"))
    """
    turns = [*[calling("odd", at=at) for at in range(COUNT)], Turn(text="done")]
    async with extended(tmp_path, source, turns=turns) as it:
        assert str(await it.agent.ask("hi")) == "done"
        check(results, [text for text, _ in it.results])


@pytest.mark.parametrize("seed", range(4))
async def test_tools_of_mcp_servers(tmp_path: Path, seed: int) -> None:
    results = odd_results(seed)
    lines = [f'{{"jsonrpc":"2.0","id":%s,"result":{result}}}' for result, _ in results]
    (tmp_path / "lines").write_text("\n".join(lines))
    turns = [*[mcp_calls("mcp__raw__ok", at=at) for at in range(COUNT)], Turn(text="done")]
    async with scene(tmp_path, {"raw": raw_server("lines", tmp_path / "lines", timeout=20_000)}, turns) as told:
        assert str(await told.agent.ask("go")) == "done"
        check(results, [text for text, _ in told.texts()])


@pytest.mark.parametrize("dialect", ["pi", "omp"])
@pytest.mark.parametrize("seed", range(2))
def test_tools_of_the_host(tmp_path: Path, dialect: str, seed: int) -> None:
    """An answer that does not fit its declaration is an error that names the problem; the others are kept."""
    results = odd_results(seed)
    turns = [*[calls(("odd", {"at": at})) for at in range(COUNT)], says("done")]
    with stage(tmp_path, dialect, turns) as host:
        offer(host, tool("odd"))
        host.send(PROMPT)
        for number, (result, _) in enumerate(results, 1):
            call = host.until("host_tool_call", nth=number)
            host.write(f'{{"type":"host_tool_update","id":"{call["id"]}","partialResult":{result}}}\n'.encode())
            host.write(f'{{"type":"host_tool_result","id":"{call["id"]}","result":{result}}}\n'.encode())
        host.until("agent_settled")
        ends = [frame for frame in host.frames if frame["type"] == "tool_execution_end"]
        check(results, [json.dumps(frame["result"]) for frame in ends])
        malformed = [end for end in ends if end["isError"]]
        assert all("returned a malformed result: " in end["result"]["content"][0]["text"] for end in malformed)


@pytest.mark.parametrize("seed", range(4))
async def test_tools_that_sub_agents_use(tmp_path: Path, seed: int) -> None:
    results: list[Any] = [json.loads(result) for result, _ in odd_results(seed)]

    async def run(arguments: dict[str, Any], context: ToolContext) -> Any:
        value: Any = results[arguments["at"]]
        if not isinstance(value, dict):
            return value
        fields = cast("dict[str, Any]", value)
        given: dict[str, Any] = {"failed": fields.get("isError"), "usage": fields.get("usage")}
        return ToolResult(cast("Any", fields.get("content")), fields.get("details"), **given)

    odd = Tool("odd", "Odd", {"type": "object"}, run)
    child = [*[calling("odd", at=at) for at in range(COUNT)], Turn(text="found it")]
    actors = Cast(start=[task_call("Look around"), Turn(text="done")], Look=child)
    parent = a_parent(actors, tmp_path, tools=[odd])
    told: list[e.Event] = []
    parent.subscribe(told.append)
    await talk(parent, "start")
    await parent.close()
    [result] = [message for message in parent.messages if isinstance(message, ToolResultMessage)]
    assert "found it" in str(result.content) and len(actors.requests("Look")) == COUNT + 1
