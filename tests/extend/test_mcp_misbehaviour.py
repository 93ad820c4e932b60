"""MCP servers that are old, odd, slow or broken."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.extend.mcp_scene import calls, raw_server, real_server, scene
from tests.support.gates import Gate, wait_for_exit
from tests.support.raw_mcp_http import SessionServer

from fairlead import Agent, Tool, ToolContext, ToolResult
from fairlead.config.extras import install_command
from fairlead.core import events as e
from fairlead.extend.mcp.server import RESTARTS
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn


async def test_a_server_of_the_older_protocol_works(tmp_path: Path) -> None:
    async with scene(tmp_path, {"raw": raw_server("plain")}, [calls("mcp__raw__ok"), Turn(text="ok")]) as told:
        await told.agent.ask("go")
        assert told.texts() == [("ok was called", False)] and told.errors() == []


async def test_a_list_in_pages_is_read_to_its_end_also_if_it_leads_in_a_circle(tmp_path: Path) -> None:
    async with scene(tmp_path, {"raw": raw_server("pages")}) as told:
        await told.agent.ask("go")
        assert set(told.offered()) == {"mcp__raw__one", "mcp__raw__two", "mcp__raw__three"}


async def test_names_become_legal_and_unusable_parameters_are_left_out_with_a_warning(tmp_path: Path) -> None:
    async with scene(tmp_path, {"my server": raw_server("odd")}) as told:
        await told.agent.ask("go")
        offered = told.offered()
        assert {"mcp__my_server__good_tool_with_spaces", "mcp__my_server__a_b"} <= set(offered)
        assert len(offered) == 4 and all(len(name) <= 64 for name in offered)
        remote, broken = sorted(told.agent.warnings, reverse=True)
        assert '"remote" of the MCP server "my server"' in remote and "references outside the schema" in remote
        assert '"broken"' in broken


async def test_lines_that_are_not_messages_are_only_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("INFO", "fairlead.extend.mcp")
    async with scene(tmp_path, {"raw": raw_server("noisy")}, [calls("mcp__raw__ok"), Turn(text="ok")]) as told:
        await told.agent.ask("go")
        assert told.texts() == [("ok was called", False)]
    assert "mcp:raw: wrote a line that is not a JSON-RPC message: Starting up..." in caplog.text
    assert capsys.readouterr() == ("", "")


def sloppy(folder: Path, tool: str) -> tuple[list[e.Event], str, bool]:
    """The events and the result of a call to a tool of a sloppy server."""

    async def main() -> tuple[list[e.Event], str, bool]:
        turns = [calls(f"mcp__raw__{tool}"), Turn(text="ok")]
        async with scene(folder, {"raw": raw_server("sloppy")}, turns) as told:
            await told.agent.ask("go")
            assert told.errors() == []
            ((text, is_error),) = told.texts()
            return told.events, text, is_error

    return asyncio.run(main())


def test_a_long_result_is_cut_also_if_it_comes_in_pieces(tmp_path: Path) -> None:
    _, text, is_error = sloppy(tmp_path, "pieces")
    assert not is_error and len(text) < 60_000 and "of 1.9MB, 50 lines. Full output: " in text


def test_an_image_that_a_provider_would_refuse_is_a_note(tmp_path: Path) -> None:
    assert sloppy(tmp_path, "images")[1:] == ("[An image (image/png) that is broken: it is not base64.]", False)


@pytest.mark.parametrize(
    ("tool", "outcome"),
    [
        ("half", ("half \ufffd", False)),
        ("nan", ('{"x":null}', False)),
        ("infinite", ('{"x":null}', False)),
        ("deep", ('{"x":' + "[" * 99 + '"[nested too deeply to be kept]"' + "]" * 99 + "}", False)),
        ("list", ('{"result":[1,2]}', False)),
        ("video", ('{"type":"video","data":"x"}\nand text', False)),
        ("string", ("only text", False)),
        ("null", ('The call of "null" failed: the server\'s answer is not a valid message', True)),
        ("refused", ('The call of "refused" failed: not today', True)),
    ],
)
def test_an_odd_answer_is_an_answer(tmp_path: Path, tool: str, outcome: tuple[str, bool]) -> None:
    assert sloppy(tmp_path, tool)[1:] == outcome


def test_a_flood_of_progress_and_rubbish_is_thinned_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "fairlead.extend.mcp")
    events, text, _ = sloppy(tmp_path, "chatty")
    updates = [event for event in events if isinstance(event, e.ToolUpdate)]
    assert text == "at last" and 100 <= len(updates) < 500
    assert all(len(str(event.partial.content)) < 1200 for event in updates)
    said = caplog.text
    assert "\x1b" not in said and "mcp:raw: too many messages" in said and said.count("rubbish") < 500


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (raw_server("dies", 4), "it exited with code 4"),
        ({"command": "no-such-program-anywhere"}, "there is no program no-such-program-anywhere on the PATH"),
        ({"command": "./orphan"}, "/orphan exists, but the interpreter in its first line does not"),
        (raw_server("plain", cwd="/no/such/folder"), "its working directory /no/such/folder does not exist"),
        ({"url": "http://127.0.0.1:9/mcp"}, "connection"),
        (raw_server("invalid"), "its answer cannot be understood"),
    ],
)
async def test_an_unreachable_server_is_reported_and_the_run_continues(
    tmp_path: Path, entry: dict[str, object], reason: str
) -> None:
    orphan = tmp_path / "orphan"
    orphan.write_text("#!/no/such/interpreter\n")
    orphan.chmod(0o755)
    servers = {"bad": entry, "good": raw_server("plain")}
    async with scene(tmp_path, servers, [calls("mcp__good__ok"), Turn(text="ok")]) as told:
        assert (await told.agent.ask("go")).text == "ok"
        assert told.texts() == [("ok was called", False)]
        path, event, error = told.errors()[0]
        assert (path, event) == ("mcp:bad", "connect")
        assert 'The MCP server "bad" could not be connected' in error and reason.lower() in error.lower()
        assert error in told.agent.warnings


#: Refuses calls with an error, or with a result that is one, and quotes its environment in both.
_QUOTING = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    method, token = message["method"], os.environ["SERVICE_TOKEN"]
    answer = {"error": {"code": -1, "message": f"{token} is not valid"}}
    if method == "initialize":
        info = {"name": "quoting", "version": "1"}
        answer = {"result": {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}, "serverInfo": info}}
    elif method == "tools/list":
        answer = {"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("raises", "returns")]}}
    elif method == "tools/call" and message["params"]["name"] == "returns":
        content = [{"type": "text", "text": f"{token} is not valid"}]
        answer = {"result": {"content": content, "structuredContent": {"sent": token}, "isError": True}}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


async def test_a_secret_that_a_server_quotes_in_an_error_is_left_out(tmp_path: Path) -> None:
    secret = "made-up-token-0123456789"
    entry = {"command": sys.executable, "args": ["-c", _QUOTING], "env": {"SERVICE_TOKEN": secret}}
    turns = [calls("mcp__q__raises"), calls("mcp__q__returns"), Turn(text="ok")]
    async with scene(tmp_path, {"q": entry}, turns) as told:
        await told.agent.ask("go")
        (raised, _), (returned, _) = told.texts()
        assert raised.endswith("[redacted] is not valid") and returned == "[redacted] is not valid"
        assert secret not in str([end.result for end in told.ends()])


async def test_a_key_in_the_address_of_a_server_is_shown_in_no_error(tmp_path: Path) -> None:
    class Quoting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = f"{self.path} {self.headers['Authorization']} is not valid"
            error = {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": -32000, "message": text}}
            body = json.dumps(error).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Quoting) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}/mcp?api_key=made-up-key-0123456789"
            entry = {"url": address, "headers": {"Authorization": "Bearer made-up-bearer-0123"}}
            async with scene(tmp_path, {"web": entry}) as told:
                await told.agent.ask("go")
                (_, _, error) = told.errors()[0]
                assert "is not valid" in error and "made-up" not in error
        finally:
            server.shutdown()
            thread.join()


async def test_http_sessions_send_headers_restart_when_lost_and_are_deleted(tmp_path: Path) -> None:
    with SessionServer() as server:
        entry = {"url": server.url, "headers": {"X-Token": "${TOKEN}"}}
        turns = [calls("mcp__web__ok"), Turn(text="ok"), calls("mcp__web__ok"), Turn(text="ok")]
        async with scene(tmp_path, {"web": entry}, turns, env={**os.environ, "TOKEN": "secret"}) as told:
            await told.agent.ask("go")
            server.sessions.clear()
            await told.agent.ask("go on")
            assert told.texts() == [("ok was called", False)] * 2
            assert told.errors() == []
        assert server.tokens == {"secret"} and server.begun == 2
        assert server.ended[-1] == "session-2"


async def test_a_slow_server_holds_a_prompt_up_for_a_bounded_time_and_its_tools_come_later(tmp_path: Path) -> None:
    with Gate(tmp_path / "gate") as gate:
        servers = {"slow": raw_server("silent", tmp_path / "gate"), "quick": raw_server("plain")}
        async with scene(tmp_path, servers, isolated=False, env=waiting(tmp_path, 0.05)) as told:
            await told.agent.ask("go")
            assert not [name for name in told.offered() if name.startswith("mcp__slow")]
            gate.open()
            await told.until_there_is("mcp__slow__ok")
            await told.agent.ask("go on")
            assert "mcp__slow__ok" in told.offered()
            assert told.errors() == []


async def test_an_abort_does_not_wait_for_a_server_that_is_being_connected(tmp_path: Path) -> None:
    with Gate(tmp_path / "gate"):
        servers = {"slow": raw_server("silent", tmp_path / "gate")}
        async with scene(tmp_path, servers, isolated=False, env=waiting(tmp_path, 3_600)) as told:
            await told.agent.session.prompt("go")
            await told.until(e.TurnStart)
            await told.agent.session.abort()
            end = told.agent.session.activity.last_end
            assert end is not None and end.message.stop_reason == "aborted"


def waiting(folder: Path, seconds: float) -> dict[str, str]:
    """An environment with a home whose settings say how long a prompt waits for servers."""
    home = folder / "home"
    home.mkdir()
    (home / "settings.json").write_text(json.dumps({"mcp": {"waitSeconds": seconds}}))
    return {**os.environ, "FAIRLEAD_HOME": str(home)}


async def test_a_server_that_ends_again_and_again_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.extend.mcp.server._PAUSES", (0.0,))
    turns = [*(calls("mcp__raw__die", attempt=attempt) for attempt in range(RESTARTS + 2)), Turn(text="ok")]
    async with scene(tmp_path, {"raw": raw_server("plain")}, turns) as told:
        await told.agent.ask("go")
        assert all(is_error for _, is_error in told.texts())
        assert len(told.errors()) == RESTARTS + 1
        assert "It is not reconnected" in told.errors()[-1][2] and "It is not reconnected" in told.texts()[-1][0]


async def test_child_processes_of_a_server_end_with_it(tmp_path: Path) -> None:
    numbers = tmp_path / "number"
    async with scene(tmp_path, {"raw": raw_server("parent", numbers)}, [calls("mcp__raw__die"), Turn(text="ok")]) as told:
        await told.agent.ask("go")
        assert "exited with code 7" in told.texts()[0][0], "although something holds its output open"
        wait_for_exit(int(numbers.read_text()))


async def test_a_tool_whose_name_is_taken_is_left_out_with_a_warning(tmp_path: Path) -> None:
    async def mine(arguments: dict[str, object], context: ToolContext) -> ToolResult:
        return ToolResult.text("mine")

    tool = Tool("mcp__raw__ok", "Mine.", {"type": "object"}, mine)
    turns = [calls("mcp__raw__ok"), Turn(text="ok")]
    async with scene(tmp_path, {"raw": raw_server("plain")}, turns, extra_tools=[tool]) as told:
        await told.agent.ask("go")
        assert told.texts() == [("mine", False)]
        [warning] = told.agent.warnings
        assert "A tool named mcp__raw__ok already exists" in warning


async def test_only_the_tools_that_were_asked_for_are_active(tmp_path: Path) -> None:
    async with scene(tmp_path, {"raw": raw_server("plain")}, tools=["read", "mcp__raw__ok"]) as told:
        await told.agent.ask("go")
        assert told.offered() == ["mcp__raw__ok"] and told.agent.warnings == []
    async with scene(tmp_path, {"raw": raw_server("plain")}, exclude_tools=["mcp__raw__die"]) as told:
        await told.agent.ask("go")
        assert told.offered() == ["mcp__raw__ok"]


async def test_without_the_package_a_warning_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "mcp" or name.startswith("mcp.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    async with scene(tmp_path, {"raw": raw_server("plain")}) as told:
        await told.agent.ask("go")
        [warning] = told.agent.warnings
        assert warning.endswith(f"Install it with: {install_command('mcp')}")


async def test_an_agent_without_servers_never_loads_the_package(tmp_path: Path) -> None:
    async with Agent(model=SCRIPTED_MODEL, stream=Scripted([Turn(text="ok")]), cwd=tmp_path, isolated=True) as agent:
        await agent.ask("/mcp:is plain text here")
        assert agent.session.additions.servers is None


async def test_closing_while_a_server_is_being_connected_leaves_nothing_behind(tmp_path: Path) -> None:
    with Gate(tmp_path / "gate"):
        async with scene(tmp_path, {"real": real_server(), "slow": raw_server("silent", tmp_path / "gate")}) as told:
            assert told.agent.session.additions.servers is not None
            told.agent.warm_up()
            await asyncio.sleep(0)
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("fairlead-mcp")]
