"""MCP servers that extensions add: pi's `registerMcpServer`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.extend.extended import calling, extended
from tests.extend.mcp_scene import raw_server, real_server

from fairlead.testing import Turn

COUNT = calling("mcp__real__count", to=2)


def factory(body: str) -> str:
    return f"export default function (pi) {{ {body} }}"


def register(name: str, server: object) -> str:
    return f"pi.registerMcpServer({json.dumps(name)}, {json.dumps(server)});"


async def test_a_server_of_an_extension_brings_tools_until_it_is_removed(tmp_path: Path) -> None:
    source = factory(
        register("real", real_server())
        + 'pi.registerCommand("more", { handler: async () => {'
        + register("late", raw_server("ok"))
        + 'pi.appendEntry("servers", pi.getMcpServers().map((each) => [each.name, typeof each.config.command])); } });'
        'pi.registerCommand("less", { handler: async () => { pi.unregisterMcpServer("real"); pi.unregisterMcpServer("x"); } });'
    )
    turns = [COUNT, Turn(text="a"), Turn(text="b"), COUNT, Turn(text="c"), Turn(text="d")]
    async with extended(tmp_path, source, turns=turns, suffix="mjs") as it:
        assert str(await it.agent.ask("hi")) == "a"
        assert it.results == [("counted", False)]
        await it.command("/more")
        assert str(await it.agent.ask("hi")) == "b"
        assert {"mcp__real__count", "mcp__late__ok"} <= {tool.name for tool in it.model.requests[-1].tools}
        assert it.notes("servers") == [[["real", "string"], ["late", "string"]]]
        await it.command("/less")
        assert str(await it.agent.ask("hi")) == "c"
        assert "not found" in it.results[-1][0]
        await it.agent.reload_extensions()
        assert str(await it.agent.ask("hi")) == "d"
        names = {tool.name for tool in it.model.requests[-1].tools}
        assert "mcp__real__count" in names and "mcp__late__ok" not in names
        assert it.errors == []


async def test_a_server_of_the_user_comes_before_one_of_an_extension(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "mcp.json").write_text(json.dumps({"mcpServers": {"real": real_server()}}))
    source = factory(register("real", {"command": "/does/not/exist"}))
    async with extended(tmp_path, source, turns=[COUNT, Turn(text="a")], suffix="mjs") as it:
        assert str(await it.agent.ask("hi")) == "a"
        assert it.results == [("counted", False)] and it.errors == []


async def test_servers_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    source = factory(
        'const tried = [["a b", {}], ["a", null], ["a", { command: "x", timeout: -1 }], ["a", { url: "ftp://x" }], ["a", {}],'
        '["a", { type: "sse", url: "http://x" }], ["a", { command: "x", exposure: "open" }],'
        '["a", { command: "x", toolExposure: { b: "open" } }], ["a", { command: "x", args: [1] }],'
        '["a", { url: "http://x", oauth: { callbackPort: 0 } }],'
        '["a", { url: "http://127.0.0.1:9", oauth: { scope: "s" } }]].map(([name, config]) => {'
        "try { pi.registerMcpServer(name, config); }"
        "catch (error) { return error.message.split('\": ').slice(1).join('\": '); } });"
        'pi.on("session_start", () => { pi.appendEntry("tried", tried); });'
    )
    async with extended(tmp_path, source, suffix="mjs") as it:
        await it.agent.ask("hi")
        tried = it.notes("tried")[0]
        exposures = '"codemode", "deferred", "direct", "hidden"'
        assert tried[:8] == [
            'invalid server name "a b" (use letters, digits, "_" and "-")',
            'server "a" needs either "command" (stdio) or "url" (streamable HTTP)',
            'server "a": timeout must be a positive number of seconds',
            'server "a": url must be an http or https URL',
            'server "a" needs either "command" (stdio) or "url" (streamable HTTP)',
            'server "a": legacy SSE transport is not supported; use the streamable HTTP URL',
            f'server "a": exposure must be one of {exposures}',
            f'server "a": toolExposure "b" must be one of {exposures}',
        ]
        assert "args" in tried[8] and "oauth.callbackPort" in tried[9] and tried[10:] == [None]


async def test_tools_that_the_extension_hides_are_not_offered(tmp_path: Path) -> None:
    hiding = {**real_server(), "toolExposure": {"c*": "hidden", "echo": "direct"}}
    source = factory(register("real", hiding) + register("none", {**raw_server("ok"), "exposure": "hidden"}))
    async with extended(tmp_path, source, suffix="mjs") as it:
        await it.agent.ask("hi")
        names = {tool.name for tool in it.model.requests[-1].tools if tool.name.startswith("mcp__")}
        assert "mcp__real__echo" in names and "mcp__real__count" not in names and it.errors == []
        assert not any(name.startswith("mcp__none") for name in names)


async def test_handlers_learn_about_servers_that_are_registered_later(tmp_path: Path) -> None:
    source = factory(
        register("early", raw_server("ok"))
        + 'pi.on("mcp_servers_change", (event) => { pi.appendEntry("told", event.servers.map((each) => each.name)); });'
        'pi.on("mcp_servers_change", () => { throw new Error("boom"); });'
        'pi.registerCommand("more", { handler: async () => {' + register("late", raw_server("ok")) + "} });"
        'pi.registerCommand("less", { handler: async () => { pi.unregisterMcpServer("early"); } });'
    )
    async with extended(tmp_path, source, suffix="mjs") as it:
        await it.command("/more")
        await it.command("/less")
        assert it.notes("told") == [["early", "late"], ["late"]]
        assert it.errors == [("one.mjs", "mcp_servers_change", "boom")] * 2
