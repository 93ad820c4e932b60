"""Tools of extensions written for pi that requests do not declare, and how the model finds them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.extend.extended import calling, notes, scripted
from tests.extend.mcp_scene import real_server

from fairlead.testing import Turn

TOOLS = """
  const tool = (name, exposure, description) => ({ name, exposure, description, parameters: Type.Object({}),
    execute: async () => ({ content: [{ type: "text", text: name }], details: {} }) });
  pi.registerTool(tool("lookup_weather", "deferred", "Look up the weather of a city"));
  pi.registerTool(tool("search_issues", "deferred", "Search the issues of the project"));
"""


async def test_the_model_finds_deferred_tools_and_calls_them(tmp_path: Path) -> None:
    turns = [
        calling("lookup_weather"),
        calling("tool_search", query="nothing like it"),
        calling("tool_search", query="weather in Paris", limit=1),
        calling("lookup_weather"),
        Turn(text="ok"),
    ]
    body = f'{TOOLS}pi.on("session_start", () => note(pi.getAllTools().find((each) => each.name === "tool_search").exposure));'
    async with scripted(tmp_path, body, turns=turns) as it:
        await it.agent.ask("hi")
        refused, nothing, found, ran = it.results
        assert refused[1] and nothing == ("No matching tools found.", False) and ran == ("lookup_weather", False)
        assert found[0].endswith("from your next call:\n- lookup_weather: Look up the weather of a city")
        declared = [{tool.name for tool in request.tools} for request in it.model.requests]
        assert ["lookup_weather" in names for names in declared] == [False, False, False, True, True]
        assert all("tool_search" in names and "search_issues" not in names for names in declared)
        assert it.errors == []
    assert notes(tmp_path) == ["model-only"]


async def test_no_search_is_offered_for_tools_that_only_other_tools_call(tmp_path: Path) -> None:
    body = (
        TOOLS.replace('"deferred"', '"codemode"')
        + """
  pi.registerTool({ ...tool("outer", "direct", "Outer"), execute: async (id, args, signal, onUpdate, ctx) =>
    (await ctx.executeTool("search_issues", {})).result });
"""
    )
    async with scripted(tmp_path, body, turns=[calling("outer"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        assert ("search_issues", False) in it.results
        assert not {"tool_search", "search_issues"} & {tool.name for tool in it.model.requests[0].tools}


async def test_a_tool_that_is_hidden_later_cannot_be_called(tmp_path: Path) -> None:
    body = (
        TOOLS
        + """
  pi.registerTool(tool("mine", "direct", "Mine"));
  pi.on("input", () => { pi.registerTool(tool("mine", "hidden", "Mine")); note(pi.getActiveTools().includes("mine")); });
"""
    )
    async with scripted(tmp_path, body, turns=[calling("mine"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        assert it.results[0][1]
        assert "mine" not in {tool.name for tool in it.model.requests[0].tools}
    assert notes(tmp_path) == [False]


async def test_an_extension_brings_its_own_search(tmp_path: Path) -> None:
    body = TOOLS + 'pi.registerTool(tool("tool_search", "model-only", "Mine"));'
    async with scripted(tmp_path, body, turns=[calling("tool_search"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        assert it.results == [("tool_search", False)] and it.errors == []


async def test_tools_of_a_server_are_found_and_called_by_others(tmp_path: Path) -> None:
    config = {**real_server(), "exposure": "codemode", "toolExposure": {"cou*": "direct"}}
    body = f"""
  pi.registerMcpServer("docs", {json.dumps(config)});
  const list = {{ name: "list", description: "List", parameters: Type.Object({{}}) }};
  pi.registerTool({{ ...list, execute: async (id, args, signal, onUpdate, ctx) => {{
    note(ctx.tools.map((each) => each.name).filter((name) => name.startsWith("mcp__docs__")).length > 1);
    const {{ required, properties }} = ctx.tools.find((each) => each.name === "mcp__docs__echo")!.outputSchema as any;
    note([required, properties.structuredContent.properties.result.type]);
    const listed = (name: string): any => pi.getAllTools().find((each) => each.name === name);
    const echo = listed("mcp__docs__echo");
    note([echo.annotations, echo.namespace, "annotations" in listed("mcp__docs__count")]);
    return {{ content: [], details: {{}} }};
  }} }});
"""
    turns = [calling("list"), calling("tool_search", query="docs echo"), calling("mcp__docs__echo", text="hi"), Turn(text="ok")]
    async with scripted(tmp_path, body, turns=turns) as it:
        await it.agent.ask("hi")
        assert it.results[-1] == ("echo: hi", False)
        declared = [[tool.name for tool in request.tools if tool.name.startswith("mcp__docs__")] for request in it.model.requests]
        assert declared[0] == ["mcp__docs__count"] and "mcp__docs__echo" in declared[2]
        assert it.errors == []
    namespace = {"name": "mcp__docs", "aliases": ["docs"]}
    assert notes(tmp_path) == [True, [["content"], "string"], [{"readOnlyHint": True}, namespace, False]]


async def test_a_tool_asks_the_provider_to_enforce_its_schema(tmp_path: Path) -> None:
    body = """
  const tool = (name, constrainedSampling) => pi.registerTool({ name, constrainedSampling, description: name,
    parameters: Type.Object({}), execute: async () => ({ content: [], details: {} }) });
  tool("preferred", { type: "json_schema", strict: "prefer" });
  tool("required", { type: "json_schema", strict: "require" });
  tool("plain", false);
  tool("grammatical", { type: "grammar", variants: { openai_lark: "start: /a/" } });
"""
    async with scripted(tmp_path, body, turns=[Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        told = {tool.name: tool.strict for tool in it.model.requests[0].tools}
        assert told.items() >= {"preferred": "prefer", "required": "require", "plain": None, "grammatical": None}.items()
