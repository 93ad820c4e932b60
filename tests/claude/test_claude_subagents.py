"""Sub-agents: the kinds that hosts define, their frames and transcripts, and how they are stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.claude.host import ClaudeHost, Frame, another, claude
from tests.support.stage import ENDLESS, Turn, calls, says

REVIEWER = {"description": "Reviews", "prompt": "You review.", "tools": ["Bash"]}
FREE = ("--allowedTools", "Bash,Agent")


def task(name: str = "Agent", **more: Any) -> Turn:
    arguments = {"description": "Look around", "prompt": "SUBTASK look", "run_in_background": False, **more}
    return {"match": "PARENT", **calls((name, arguments))}


SUB = says("Sub done.")


def bash() -> Turn:
    return {"match": "SUBTASK", **calls(("Bash", {"command": "echo from sub"}))}


def result_of_task(host: ClaudeHost) -> Frame:
    return next(f for f in host.of("user", parent_tool_use_id=None) if "tool_use_result" in f)


def sub_requests(host: ClaudeHost) -> list[Any]:
    """The requests of sub-agents."""
    return [each.body for each in host.provider.requests if "PARENT" not in json.dumps(each.body["messages"])]


def tools_of(request: Any) -> list[str]:
    return [tool["name"] for tool in request.get("tools", [])]


@pytest.mark.parametrize("name", ["Agent", "Task"])
def test_a_kind_of_the_host_has_its_prompt_and_its_tools(name: str, tmp_path: Path) -> None:
    with claude(tmp_path, [task(name, subagent_type="reviewer"), bash(), SUB, says("done")], *FREE) as host:
        host.control("initialize", agents={"reviewer": REVIEWER})
        assert host.ask("PARENT go")["result"] == "done"
        request = sub_requests(host)[0]
        assert "You review." in json.dumps(request["system"]) and tools_of(request) == ["Bash"]
        told = result_of_task(host)
        assert told["tool_use_result"]["agentType"] == "reviewer"
        assert told["message"]["content"][0]["content"][0] == {"type": "text", "text": "Sub done."}
        started = host.until("system", subtype="task_started")
        assert (started["subagent_type"], started["is_backgrounded"]) == ("reviewer", False)
        inner = [f for f in host.frames if f.get("parent_tool_use_id") is not None]
        assert {f["agent_id"] for f in inner} == {started["task_id"]} == {told["tool_use_result"]["agentId"]}


def test_tools_can_be_excluded_and_models_named(tmp_path: Path) -> None:
    kinds = {
        "careful": {
            "description": "d",
            "prompt": "p",
            "disallowedTools": ["Bash", "Write"],
            "model": "claude-haiku-4-5",
            "effort": "low",
        }
    }
    turns = [task(subagent_type="careful"), SUB, says("done")]
    with claude(tmp_path, turns, *FREE, "--agents", json.dumps(kinds)) as host:
        host.ask("PARENT go")
        request = sub_requests(host)[0]
        assert request["model"] == "claude-haiku-4-5"
        assert "Read" in tools_of(request) and not {"Bash", "Write"} & set(tools_of(request))
        assert "careful" in host.until("system", subtype="init")["agents"]


def test_definitions_that_cannot_be_used_are_left_out_and_noted(tmp_path: Path) -> None:
    kinds: dict[str, Any] = {"bad": {"prompt": 5}, "good": REVIEWER}
    with claude(tmp_path, [task(subagent_type="bad"), says("done")], *FREE) as host:
        agents = host.control("initialize", agents=kinds)["response"]["agents"]
        assert [each["name"] for each in agents] == ["general-purpose", "Explore", "Plan", "good"]
        host.ask("PARENT go")
        assert "There is no sub-agent 'bad'" in result_of_task(host)["tool_use_result"]


def test_the_session_itself_can_be_a_kind_of_agent(tmp_path: Path) -> None:
    flags = ("--agents", json.dumps({"reviewer": {**REVIEWER, "model": "claude-haiku-4-5"}}), "--agent", "reviewer")
    with claude(tmp_path, [says("done")], *flags, model=None) as host:
        host.ask("go")
        request = host.provider.requests[0].body
        assert "You review." in json.dumps(request["system"]) and tools_of(request) == ["Bash"]
        assert request["model"] == "claude-haiku-4-5"


def test_an_unknown_kind_for_the_session_is_an_error_for_every_prompt(tmp_path: Path) -> None:
    with claude(tmp_path, [says("done")], "--agent", "none") as host:
        result = host.ask("go")
        assert result["is_error"] and "There is no agent 'none'" in result["errors"][0]
        assert host.leave() == 1


def test_the_transcript_is_where_the_sdks_look_for_it(tmp_path: Path) -> None:
    with claude(tmp_path, [task(), bash(), SUB, says("done")], *FREE) as host:
        host.ask("PARENT go")
        session = host.until("result")["session_id"]
        call = result_of_task(host)["message"]["content"][0]["tool_use_id"]
        id = host.until("system", subtype="task_started")["task_id"]
        host.leave()
    [folder] = (tmp_path / "home/.claude/projects").glob("*")
    assert [path.name for path in folder.glob("*.jsonl")] == [f"{session}.jsonl"]
    file = folder / session / "subagents" / f"agent-{id}.jsonl"
    meta = json.loads(file.with_suffix(".meta.json").read_text())
    assert meta == {"agentType": "general-purpose", "description": "Look around", "toolUseId": call}
    lines = [line for line in map(json.loads, file.read_text().splitlines()) if line["type"] in ("user", "assistant")]
    assert [line["type"] for line in lines] == ["user", "assistant", "user", "assistant"]
    assert {(line["isSidechain"], line["agentId"], line["sessionId"]) for line in lines} == {(True, id, session)}
    assert [line["parentUuid"] for line in lines] == [None, *(line["uuid"] for line in lines[:-1])]


def test_no_transcript_is_written_without_persistence(tmp_path: Path) -> None:
    with claude(tmp_path, [task(), SUB, says("done")], *FREE, "--no-session-persistence") as host:
        assert host.ask("PARENT go")["result"] == "done"
        host.leave()
    assert not list((tmp_path / "home").rglob("*agent-*"))


def test_a_sub_agent_can_be_stopped_and_its_parent_goes_on(tmp_path: Path) -> None:
    with claude(tmp_path, [task(), {"match": "SUBTASK", **ENDLESS}, says("done")], *FREE) as host:
        host.say("PARENT go")
        id = host.until("system", subtype="task_started")["task_id"]
        assert host.control("background_tasks")["error_code"] == "unsupported_request"
        assert host.control("stop_task", task_id=id) == {"subtype": "success", "request_id": "test_2", "response": {}}
        kinds = [f.get("subtype", f["type"]) for f in host.frames]
        assert kinds.index("task_updated") < kinds.index("task_notification") < len(kinds)
        assert host.of("system", subtype="task_updated")[0]["patch"]["status"] == "killed"
        assert host.of("system", subtype="task_notification")[0]["status"] == "stopped"
        assert host.until("result")["result"] == "done"
        assert "No task runs" in host.control("stop_task", task_id=id)["error"]
        assert host.control("background_tasks")["response"] == {}


def test_a_limit_of_turns_ends_a_sub_agent(tmp_path: Path) -> None:
    kinds = {"short": {"description": "d", "prompt": "p", "maxTurns": 1}}
    with claude(tmp_path, [task(subagent_type="short"), bash(), says("done")], *FREE) as host:
        host.control("initialize", agents=kinds)
        assert host.ask("PARENT go")["result"] == "done"
        assert len(sub_requests(host)) == 1
        assert "1 turn" in result_of_task(host)["tool_use_result"]


def test_the_budget_stops_calls_and_sub_agents(tmp_path: Path) -> None:
    dear = {"usage": {"input": 1_000_000, "output": 50}}
    marker = tmp_path / "ran"
    touch = calls(("Bash", {"command": f"touch {marker}"}), **dear)
    budget = (*FREE, "--max-budget-usd", "1")
    with claude(tmp_path / "one", [touch, says("done")], *budget) as host:
        result = host.ask("go")
        assert (result["subtype"], len(host.provider.requests)) == ("error_max_budget_usd", 1)
        assert not [f for f in host.of("user") if "tool_use_result" in f]
        assert host.ask("again")["subtype"] == "error_max_budget_usd"
    with claude(tmp_path / "two", [task(), {"match": "SUBTASK", **touch}, says("done")], *budget) as host:
        result = host.ask("PARENT go")
        assert (result["subtype"], len(host.provider.requests)) == ("error_max_budget_usd", 2)
        assert result["total_cost_usd"] > 3
        assert host.until("system", subtype="task_notification")["status"] == "stopped"
    assert not marker.exists()


def test_what_sub_agents_cost_counts_after_a_resume_too(tmp_path: Path) -> None:
    with claude(tmp_path, [task(), SUB, says("done"), says("more")], *FREE) as host:
        first = host.ask("PARENT go")
        host.leave()
        assert first["modelUsage"]["claude-sonnet-4-5"]["inputTokens"] > first["usage"]["input_tokens"] > 0
        with another(host, "--resume", first["session_id"]) as again:
            second = again.ask("more")
            own = second["usage"]["input_tokens"]
            assert second["modelUsage"]["claude-sonnet-4-5"]["inputTokens"] == (
                first["modelUsage"]["claude-sonnet-4-5"]["inputTokens"] + own
            )
