"""MCP servers of a real process, over real pipes: when they start, how they end, and what the host sees of them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.extend.mcp_scene import raw_server, real_server
from tests.support.gates import wait_for_exit
from tests.support.host import PATIENCE, SOON
from tests.support.stage import Stage, calls, says, stage
from tests.support.surroundings import rpc, surroundings

from fairlead.testing import ProviderServer


def written(path: Path, **servers: dict[str, Any]) -> str:
    path.write_text(json.dumps({"mcpServers": servers}))
    return str(path)


#: Settings with which the first prompt waits until the servers are ready, also on a busy machine.
PATIENT = {"mcp": {"waitSeconds": 100}}


def tools_asked(host: Stage) -> list[str]:
    """The tools of MCP servers in the last request to the model."""
    tools: list[dict[str, Any]] = host.provider.requests[-1].body.get("tools") or []
    return [tool["name"] for tool in tools if tool["name"].startswith("mcp_")]


@pytest.mark.parametrize("dialect", ["pi", "omp"])
def test_a_host_sees_calls_progress_and_commands_of_a_server(tmp_path: Path, dialect: str) -> None:
    config = written(tmp_path / "servers.json", real=real_server())
    turns = [calls(("mcp__real__count", {"to": 2})), says("done"), says("reviewed")]
    with stage(tmp_path, dialect, turns, flags=["--mcp-config", config]) as host:
        frames = host.prompt("go")
        updates = [frame["partialResult"]["details"] for frame in frames if frame["type"] == "tool_execution_update"]
        assert updates == [{"progress": 1, "total": 2}, {"progress": 2, "total": 2}]
        end = next(frame for frame in frames if frame["type"] == "tool_execution_end")
        assert end["toolName"] == "mcp__real__count" and end["result"]["content"] == [{"type": "text", "text": "counted"}]
        listed = {command["name"]: command for command in host.request("get_commands")["data"]["commands"]}
        command = listed["mcp:real:review"]
        assert (command["source"], command["sourceInfo"]["path"]) == ("prompt", config)
        frames = host.prompt("/mcp:real:review app.py")
        assert any("Review app.py and look at everything." in json.dumps(frame) for frame in frames)
        assert host.leave() == 0


@pytest.mark.parametrize("ending", ["end of input", "SIGTERM"])
def test_no_server_outlives_the_process_which_does_not_wait_for_it(tmp_path: Path, ending: str) -> None:
    number = tmp_path / "number"
    config = written(tmp_path / "servers.json", raw=raw_server("stubborn", number))
    with stage(tmp_path, "pi", [calls(("mcp__raw__ok", {}))], flags=["--mcp-config", config]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.until("tool_execution_start")
        if ending == "SIGTERM":
            host.signal(signal.SIGTERM)
            assert host.exit_code(SOON) == 143
        else:
            host.close_input()
            assert host.exit_code(SOON) == 0
        wait_for_exit(int(number.read_text()))
        assert not [frame for frame in host.frames if frame["type"] == "extension_error"]


def test_an_idle_process_ends_its_servers(tmp_path: Path) -> None:
    number = tmp_path / "number"
    config = written(tmp_path / "servers.json", raw=raw_server("stubborn", number))
    with stage(tmp_path, "pi", flags=["--mcp-config", config]) as host:
        host.prompt("go")
        host.close_input()
        assert host.exit_code(SOON) == 0
        wait_for_exit(int(number.read_text()))


def test_servers_of_the_user_are_found_and_those_of_a_project_wait_for_trust(tmp_path: Path) -> None:
    entry = {"mcpServers": {"theirs": raw_server("plain")}}
    files = {".mcp.json": json.dumps(entry), ".fairlead/mcp.json": json.dumps(entry)}
    with stage(tmp_path, "pi", files=files, settings=PATIENT) as host:
        written(host.around.home / "mcp.json", mine=raw_server("plain"))
        with again(host) as other:
            other.send({"id": "p", "type": "prompt", "message": "go"})
            question = other.until("extension_ui_request", method="confirm")
            assert "Trust" in question["title"]
            other.send({"type": "extension_ui_response", "id": question["id"], "confirmed": False})
            other.until("agent_settled")
            assert tools_asked(other) == ["mcp__mine__ok", "mcp__mine__die"]
            assert other.stderr() == ""
        (host.around.home / "settings.json").write_text(json.dumps({"defaultProjectTrust": "always", **PATIENT}))
        with again(host) as other:
            other.prompt("go")
            assert tools_asked(other) == ["mcp__mine__ok", "mcp__mine__die", "mcp__theirs__ok", "mcp__theirs__die"]
        with again(host, "--no-mcp") as other:
            other.prompt("go")
            assert tools_asked(other) == []


def test_an_isolated_run_has_only_the_servers_that_it_is_given(tmp_path: Path) -> None:
    config = written(tmp_path / "servers.json", given=raw_server("plain"))
    with stage(tmp_path, "pi") as host:
        written(host.around.home / "mcp.json", mine=raw_server("plain"))
        env = {"ANTHROPIC_API_KEY": "sk", "ANTHROPIC_BASE_URL": host.provider.url}
        with again(host, "--isolated", "--mcp-config", config, model="anthropic/claude-sonnet-4-5", env=env) as other:
            other.prompt("go")
            if not tools_asked(other):  # it has no settings, so the first prompt waits for 10 seconds only
                other.prompt("again")
            assert tools_asked(other) == ["mcp__given__ok", "mcp__given__die"]


def test_print_mode_has_tools_and_prompts_of_servers(tmp_path: Path) -> None:
    with ProviderServer([calls(("mcp__raw__ok", {})), says("It was called.")]) as provider:
        around = surroundings(tmp_path, provider.url)
        written(around.home / "mcp.json", raw=raw_server("plain"))
        argv = [sys.executable, "-m", "fairlead", "--model", "fake/fake-1", "-p"]

        def ask(text: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*argv, text],
                cwd=around.cwd,
                env=around.env,
                timeout=PATIENCE,
                check=False,
                capture_output=True,
                encoding="utf-8",
                stdin=subprocess.DEVNULL,
            )

        done = ask("Call it.")
        assert done.stdout == "It was called.\n", done.stderr
        assert "ok was called" in json.dumps(provider.requests[-1].body["messages"][-1])
        refused = ask("/mcp:raw:none")
        assert refused.returncode == 1 and "There is no prompt /mcp:raw:none" in refused.stderr


def test_a_start_reads_no_file_of_servers_and_loads_nothing_for_them(tmp_path: Path) -> None:
    around = surroundings(tmp_path, "http://127.0.0.1:9")
    (around.home / "mcp.json").write_text("{ this would be warned of")
    script = """
import sys
from fairlead import Agent
agent = Agent(model="fake/fake-1")
assert agent.warnings == [], agent.warnings
print(sorted(name for name in sys.modules if name.split(".")[0] in ("mcp", "mcp_types", "anyio", "pydantic", "httpx2")))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=around.cwd,
        env=around.env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout == "[]\n"


def again(host: Stage, *flags: str, model: str = "fake/fake-1", env: dict[str, str] | None = None) -> Stage:
    """Another process with the environment of `host`."""
    other = Stage(rpc("pi", *flags, model=model), host.around.cwd, {**host.around.env, **(env or {})})
    other.provider, other.arrivals, other.around = host.provider, host.arrivals, host.around
    return other
