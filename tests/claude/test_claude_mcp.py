"""MCP servers of a host: those that live in it, and those that it names."""

from __future__ import annotations

import json
import sys
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.claude.host import ClaudeHost, Frame, claude
from tests.support.stage import calls, says

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TOOLS: list[Frame] = [
    {"name": "add-up", "description": "Adds", "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}}}},
    {"name": "other", "description": "Others", "inputSchema": {"type": "object", "properties": {}}},
]
ADD = calls(("mcp__my-calc__add-up", {"a": 2}))
IN_HOST = ("--mcp-config", json.dumps({"mcpServers": {"my-calc": {"type": "sdk", "name": "my-calc"}}}))
FREE = ("--allowedTools", "mcp__my-calc")


@pytest.fixture(autouse=True)
def patience(tmp_path: Path) -> None:
    """Let prompts wait longer for servers: loading the package takes long on a busy machine."""
    (tmp_path / "home" / ".fairlead").mkdir(parents=True)
    (tmp_path / "home" / ".fairlead" / "settings.json").write_text('{"mcp": {"waitSeconds": 60}}')


#: Takes a message and returns the body of the host's answer; None: it never answers.
Server = Callable[[Frame], Frame | None]


def answers(**results: Any) -> Server:
    """A server that answers as it should, with these results of tools."""

    def answer(message: Frame) -> Frame:
        method, params = message["method"], message.get("params", {})
        usual: Mapping[str, Any] = {
            "initialize": {
                "protocolVersion": params.get("protocolVersion"),
                "capabilities": {"tools": {"listChanged": True}, "resources": {}},
                "serverInfo": {"name": "calc", "version": "1.0.0"},
            },
            "tools/list": {"tools": TOOLS},
            "tools/call": results.get("call", {"content": [{"type": "text", "text": "5"}]}),
            "resources/read": {"contents": [{"uri": params.get("uri", ""), "text": "a text"}]},
        }
        result = usual.get(method, {})
        return {"subtype": "success", "response": {"mcp_response": {"jsonrpc": "2.0", "id": message.get("id"), "result": result}}}

    return answer


def serve(host: ClaudeHost, server: Server) -> list[Frame]:
    """Answer the messages to servers in the host from now on. Returns the list of those that come."""
    seen: list[Frame] = []

    def work() -> None:
        number = 0
        while True:
            number += 1
            try:
                frame = host.until("control_request", nth=number)
            except AssertionError:  # the test is over
                return
            if frame["request"]["subtype"] != "mcp_message":
                continue
            message = frame["request"]["message"]
            seen.append(message)
            body = server(message)
            if body is not None:
                host.send({"type": "control_response", "response": {"request_id": frame["request_id"], **body}})

    threading.Thread(target=work, daemon=True).start()
    return seen


def results(host: ClaudeHost) -> list[Frame]:
    """The frames with results of tools."""
    return [frame for frame in host.of("user") if "tool_use_result" in frame]


def content(frame: Frame) -> Any:
    return frame["message"]["content"][0]["content"]


def statuses(host: ClaudeHost) -> dict[str, str]:
    return {server["name"]: server["status"] for server in host.control("mcp_status")["response"]["mcpServers"]}


def methods(seen: list[Frame]) -> list[str]:
    return [message["method"] for message in seen]


def test_a_server_in_the_host_brings_tools_and_learns_which_call_it_answers(tmp_path: Path) -> None:
    with claude(tmp_path, [ADD, says("done")], *IN_HOST, *FREE) as host:
        seen = serve(host, answers())
        host.control("initialize")
        assert host.ask("go")["result"] == "done"
        init = host.until("system", subtype="init")
        assert init["mcp_servers"] == [{"name": "my-calc", "status": "connected", "source": "sdk"}]
        assert {"mcp__my-calc__add-up", "mcp__my-calc__other"} <= set(init["tools"])
        assert methods(seen) == ["initialize", "notifications/initialized", "tools/list", "tools/call"]
        [call] = [message["params"] for message in seen if message["method"] == "tools/call"]
        assert (call["name"], call["arguments"]) == ("add-up", {"a": 2})
        [result] = results(host)
        assert call["_meta"]["claudecode/toolUseId"] == result["message"]["content"][0]["tool_use_id"]
        assert content(result) == result["tool_use_result"] == [{"type": "text", "text": "5"}]


def test_structured_content_takes_the_place_of_the_blocks(tmp_path: Path) -> None:
    told = {"content": [{"type": "text", "text": "five"}], "structuredContent": {"sum": 5}}
    with claude(tmp_path, [ADD, says("done")], *IN_HOST, *FREE) as host:
        serve(host, answers(call=told))
        host.ask("go")
        [result] = results(host)
        assert json.loads(content(result)) == {"sum": 5}
        assert result["tool_use_result"] == {"content": '{"sum":5}', "structuredContent": {"sum": 5}}


def test_images_of_tools_reach_the_model_and_the_host(tmp_path: Path) -> None:
    told = {"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}, {"type": "text", "text": "a dot"}]}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    with claude(tmp_path, [ADD, says("done")], *IN_HOST, *FREE) as host:
        serve(host, answers(call=told))
        host.ask("go")
        [result] = results(host)
        assert content(result) == result["tool_use_result"] == [image, {"type": "text", "text": "a dot"}]
        assert PNG in json.dumps(host.provider.requests[1].body)


@pytest.mark.parametrize(
    "body",
    [
        {"subtype": "error", "error": "no such server"},
        {"subtype": "success", "response": {}},
        {"subtype": "success"},
        {"subtype": "success", "response": {"mcp_response": 5}},
        {"subtype": "success", "response": {"mcp_response": {"jsonrpc": "2.0", "id": 0}}},
        {"subtype": "success", "response": {"mcp_response": {"result": {"tools": "none"}}}},
    ],
)
def test_a_host_that_answers_nonsense_has_a_server_that_failed(body: Frame, tmp_path: Path) -> None:
    with claude(tmp_path, [says("done")], *IN_HOST) as host:
        serve(host, lambda message: body)
        assert host.control("initialize")["subtype"] == "success"
        assert host.ask("go")["result"] == "done"
        assert statuses(host) == {"my-calc": "failed"}
        assert host.until("system", subtype="init")["mcp_servers"][0]["status"] == "failed"


def test_nonsense_for_a_call_is_an_error_of_the_call(tmp_path: Path) -> None:
    bodies: list[Frame] = [
        {"subtype": "error", "error": "the tool broke"},
        {"subtype": "success", "response": {"mcp_response": [1]}},
        {"subtype": "success", "response": {"mcp_response": {"error": {"code": -1, "message": "not today"}}}},
    ]
    good, left = answers(), list(bodies)

    def server(message: Frame) -> Frame | None:
        return left.pop(0) if message["method"] == "tools/call" else good(message)

    with claude(tmp_path, [ADD, ADD, ADD, says("done")], *IN_HOST, *FREE) as host:
        serve(host, server)
        assert host.ask("go")["result"] == "done"
        texts = [frame["tool_use_result"] for frame in results(host)]
        assert "the tool broke" in texts[0] and "not a valid message" in texts[1] and "not today" in texts[2]


def test_a_server_that_never_answers_does_not_hold_up_an_interrupt_or_the_process(tmp_path: Path) -> None:
    with claude(tmp_path, [says("done")], *IN_HOST) as host:
        host.send({"type": "control_request", "request_id": "first", "request": {"subtype": "initialize"}})
        host.until("control_request")
        host.say("go")
        assert host.control("interrupt")["subtype"] == "success"
        assert host.until("result")["subtype"] == "error_during_execution"
        assert host.leave() == 1


def test_an_interrupt_tells_the_server_that_its_call_is_cancelled(tmp_path: Path) -> None:
    good = answers()
    with claude(tmp_path, [ADD, says("again")], *IN_HOST, *FREE) as host:
        seen = serve(host, lambda message: None if message["method"] == "tools/call" else good(message))
        host.say("go")
        host.wait_for(lambda f: f["type"] == "control_request" and f["request"]["message"]["method"] == "tools/call", "a call")
        host.control("interrupt")
        assert host.until("result")["terminal_reason"] == "aborted_tools"
        host.wait_for(
            lambda f: f["type"] == "control_request" and f["request"]["message"]["method"] == "notifications/cancelled",
            "the cancellation",
        )
        call = next(message for message in seen if message["method"] == "tools/call")
        question = host.wait_for(lambda f: f["type"] == "control_cancel_request", "the question is withdrawn")
        asked = next(f for f in host.of("control_request") if f["request_id"] == question["request_id"])
        assert asked["request"]["message"]["id"] == call["id"]
        assert host.ask("more")["result"] == "again"


def test_calls_fail_when_the_host_has_left(tmp_path: Path) -> None:
    good = answers()
    with claude(tmp_path, [ADD, says("done")], *IN_HOST, *FREE) as host:
        serve(host, lambda message: None if message["method"] == "tools/call" else good(message))
        host.say("go")
        host.wait_for(lambda f: f["type"] == "control_request" and f["request"]["message"]["method"] == "tools/call", "a call")
        assert host.leave() == 0
        assert "the host has left" in results(host)[0]["tool_use_result"]
        assert host.until("result")["result"] == "done"


def test_a_server_in_the_host_can_change_its_tools(tmp_path: Path) -> None:
    good, tools = answers(), [*TOOLS]

    def server(message: Frame) -> Frame | None:
        body = good(message)
        if body is not None and message["method"] == "tools/list":
            body["response"]["mcp_response"]["result"] = {"tools": tools}
        return body

    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    with claude(tmp_path, [says("one"), says("two")], *IN_HOST) as host:
        serve(host, server)
        host.ask("go")
        tools.append({**TOOLS[0], "name": "new"})
        assert host.control("mcp_message", server_name="my-calc", message=changed)["subtype"] == "success"
        host.wait_for(
            lambda f: f["type"] == "control_request" and f["request"]["message"]["method"] == "tools/list", "another list", nth=2
        )
        host.ask("more")
        assert "mcp__my-calc__new" in host.of("system", subtype="init")[-1]["tools"] or "mcp__my-calc__new" in json.dumps(
            host.provider.requests[-1].body
        )


def test_only_a_server_in_the_host_gets_messages(tmp_path: Path) -> None:
    with claude(tmp_path, [says("one")]) as host:
        assert "not found" in host.control("mcp_message", server_name="x", message={})["error"]


def test_servers_come_and_go_while_the_process_runs(tmp_path: Path) -> None:
    with claude(tmp_path, [says("one"), says("two")], *IN_HOST) as host:
        serve(host, answers())
        host.ask("go")
        wanted = {"other": {"type": "sdk", "name": "other"}, "gone": {"command": "/no/such/program"}, "bad": {"type": "odd"}}
        set_ = host.control("mcp_set_servers", servers={**wanted, "my-calc": {"command": "x"}})["response"]
        assert set_["added"] == ["other", "gone"] and set_["removed"] == []
        assert set(set_["errors"]) == {"gone", "bad", "my-calc"} and "/no/such/program" in set_["errors"]["gone"]
        assert statuses(host) == {"my-calc": "connected", "other": "connected", "gone": "failed"}
        host.ask("more")
        assert "mcp__other__other" in host.of("system", subtype="init")[-1]["tools"]
        again = host.control("mcp_set_servers", servers={"other": wanted["other"]})["response"]
        assert again == {"added": [], "removed": ["gone"], "errors": {}}
        assert host.control("mcp_set_servers", servers={})["response"]["removed"] == ["other"]
        assert statuses(host) == {"my-calc": "connected"}


def test_a_server_that_is_disabled_has_no_tools_and_comes_back(tmp_path: Path) -> None:
    with claude(tmp_path, [ADD, says("one"), says("two"), ADD, says("three")], *IN_HOST, *FREE) as host:
        serve(host, answers())
        host.control("initialize")
        assert host.control("mcp_toggle", serverName="my-calc", enabled=False)["subtype"] == "success"
        assert statuses(host) == {"my-calc": "disabled"}
        host.ask("go")
        assert "not found" in results(host)[0]["tool_use_result"]
        assert not any(tool.startswith("mcp__") for tool in host.until("system", subtype="init")["tools"])
        assert host.control("mcp_toggle", serverName="my-calc", enabled=True)["subtype"] == "success"
        host.ask("more")
        assert host.ask("and more")["result"] == "three"
        assert content(results(host)[1]) == [{"type": "text", "text": "5"}]
        assert host.control("mcp_reconnect", serverName="my-calc")["subtype"] == "success"
        assert statuses(host) == {"my-calc": "connected"}


@pytest.mark.parametrize("written", ['{"mcpServers": {"x": {"type": "sdk"}}', "/no/such/file.json", '{"mcpServers": []}'])
def test_a_configuration_that_cannot_be_read_ends_the_start(written: str, tmp_path: Path) -> None:
    with claude(tmp_path, [], "--mcp-config", written) as host:
        assert host.leave() == 1
    assert host.frames == []


def test_servers_of_the_project_need_trust_and_strict_leaves_all_files_out(tmp_path: Path) -> None:
    marker = tmp_path / "started"
    server = {"command": sys.executable, "args": ["-c", f"open({str(marker)!r}, 'w')"]}
    (tmp_path / "cwd").mkdir()
    (tmp_path / "cwd" / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": server}}))
    for flags in ((), ("--strict-mcp-config",), ("--setting-sources=",)):
        with claude(tmp_path, [says("ok")], *flags) as host:
            assert host.ask("go")["result"] == "ok"
            assert statuses(host) == {}
            host.leave()
    assert not marker.exists()


def test_tools_of_servers_are_refused_by_name(tmp_path: Path) -> None:
    with claude(tmp_path, [says("ok")], *IN_HOST, "--disallowedTools", "mcp__my-calc__other,Bash") as host:
        serve(host, answers())
        host.ask("go")
        assert [tool for tool in host.until("system", subtype="init")["tools"] if "mcp__" in tool] == ["mcp__my-calc__add-up"]


def test_the_host_calls_tools_and_reads_resources_of_servers(tmp_path: Path) -> None:
    good = answers()
    with claude(tmp_path, [], *IN_HOST) as host:
        serve(host, lambda message: None if message.get("params", {}).get("name") == "other" else good(message))
        host.control("initialize")
        called = host.control("mcp_call", tool="mcp__my-calc__add-up", arguments={"a": 2})["response"]
        assert called["content"] == [{"type": "text", "text": "5"}]
        assert "no tool" in host.control("mcp_call", tool="mcp__my-calc__none")["error"]
        assert "0.01 seconds" in host.control("mcp_call", tool="mcp__my-calc__other", timeout_ms=10)["error"]
        read = host.control("mcp_read_resource", serverName="my-calc", uri="docs://x")["response"]
        assert [each["text"] for each in read["contents"]] == ["a text"]
        assert host.control("mcp_read_resource", serverName="none", uri="docs://x")["error"] == "Server not found: none"


def test_the_host_learns_which_server_a_tool_belongs_to(tmp_path: Path) -> None:
    flags = ("--permission-prompt-tool", "stdio")
    with claude(tmp_path, [ADD, says("done")], *IN_HOST, *flags) as host:
        serve(host, answers())
        host.say("go")
        asked = host.wait_for(
            lambda f: f["type"] == "control_request" and f["request"]["subtype"] == "can_use_tool", "a question"
        )
        assert asked["request"]["mcp_server"] == {"name": "my-calc", "source": "sdk"}
        assert asked["request"]["display_name"] == "add-up"


@pytest.mark.parametrize(
    ("flags", "found"),
    [((), {"mine": "failed"}), (("--strict-mcp-config",), {}), (("--setting-sources=project",), {})],
)
def test_servers_of_the_user_of_claude_code(flags: tuple[str, ...], found: dict[str, str], tmp_path: Path) -> None:
    settings = {"numStartups": 5, "mcpServers": {"mine": {"command": "/no/such/program"}}}
    (tmp_path / "home" / ".claude.json").write_text(json.dumps(settings))
    with claude(tmp_path, [], *flags) as host:
        assert statuses(host) == found


def test_a_broken_file_of_the_user_leaves_its_servers_out(tmp_path: Path) -> None:
    (tmp_path / "home" / ".claude.json").write_text("{")
    with claude(tmp_path, []) as host:
        assert statuses(host) == {}


def test_servers_of_initialize_in_the_host_are_replaced(tmp_path: Path) -> None:
    later = {"later": {"type": "sdk", "name": "later"}}
    with claude(tmp_path, []) as host:
        serve(host, answers())
        host.control("initialize", sdkMcpServers=["first", "second"])
        kept = {"second": {"type": "sdk", "name": "second"}}
        set_ = host.control("mcp_set_servers", servers={**later, **kept})["response"]
        assert set_ == {"added": ["later"], "removed": ["first"], "errors": {}}
        assert statuses(host) == {"second": "connected", "later": "connected"}


def test_a_picture_too_large_for_two_copies_in_a_line_is_whole_once(tmp_path: Path) -> None:
    data = b64encode(b64decode(PNG) + bytes(450_000)).decode()
    told = {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
    with claude(tmp_path, [ADD, says("done")], *IN_HOST, *FREE) as host:
        serve(host, answers(call=told))
        host.ask("go")
        [result] = results(host)
        assert len(json.dumps(result)) < 1 << 20
        assert content(result)[0]["source"]["data"] == data


def test_initialize_may_come_again(tmp_path: Path) -> None:
    with claude(tmp_path, [says("done")]) as host:
        seen = serve(host, answers())
        for _ in range(2):
            assert host.control("initialize", sdkMcpServers=["calc"])["subtype"] == "success"
        host.ask("go")
        assert methods(seen) == ["initialize", "notifications/initialized", "tools/list"]


def test_without_the_package_servers_fail_and_say_why(tmp_path: Path) -> None:
    (tmp_path / "shadow" / "mcp").mkdir(parents=True)
    (tmp_path / "shadow" / "mcp" / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'mcp'\")")
    with claude(tmp_path, [says("done")], *IN_HOST, env={"PYTHONPATH": str(tmp_path / "shadow")}) as host:
        serve(host, answers())
        assert host.control("initialize")["subtype"] == "success"
        assert host.ask("go")["result"] == "done"
        assert host.until("system", subtype="init")["mcp_servers"] == [{"name": "my-calc", "status": "failed", "source": "sdk"}]
        [server] = host.control("mcp_status")["response"]["mcpServers"]
        assert server["status"] == "failed" and "not installed" in server["error"]
        assert "not found" in host.control("mcp_reconnect", serverName="my-calc")["error"]
