"""Which tools of the host's there are: registering, replacing, hiding, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.host import Frame
from tests.support.host_tools import ECHO, PROMPT, begin, echo, ends, ends_in_short, of_type, offer, output, result, told, tool
from tests.support.json_values import Json
from tests.support.stage import Stage, calls, says, stage

every_dialect = pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])


def known(host: Stage) -> dict[str, bool]:
    """All tools by name, and whether the model may use them."""
    return {each["name"]: each["active"] for each in host.request("get_tools")["data"]["tools"]}


@every_dialect
def test_registered_tools_are_shown_to_the_host_and_to_the_model(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect) as host:
        before = list(known(host))
        labelled = {**ECHO, "name": " echo ", "description": " Say something again ", "label": "Echo"}
        assert offer(host, labelled, tool("ping")) == ["echo", "ping"]
        shown = host.request("get_tools")["data"]["tools"]
        assert [each["name"] for each in shown] == [*before, "echo", "ping"]
        assert shown[-2] == {**ECHO, "label": "Echo", "active": True}
        assert shown[-1] == {**tool("ping"), "label": "ping", "active": True}
        dump = host.request("get_state", verbose=True)["data"]["dumpTools"]
        assert dump[-2:] == [ECHO, tool("ping")]
        host.prompt("go")
        assert told(host, 0)[-2:] == ["echo", "ping"]


INVALID: list[tuple[list[Any], str]] = [
    ([{}], "Host tool at index 0 must provide a non-empty name"),
    ([ECHO, "no object"], "Host tool at index 1 must provide a non-empty name"),
    ([{**ECHO, "name": "  "}], "Host tool at index 0 must provide a non-empty name"),
    ([{**ECHO, "name": 5}], "Host tool at index 0 must provide a non-empty name"),
    ([{"name": "x"}], 'Host tool "x" must provide a non-empty description'),
    ([{**ECHO, "description": " "}], 'Host tool "echo" must provide a non-empty description'),
    ([{"name": "x", "description": "y"}], 'Host tool "x" must provide a JSON Schema object'),
    ([{**ECHO, "parameters": [1]}], 'Host tool "echo" must provide a JSON Schema object'),
    ([{**ECHO, "timeoutMs": -1}], 'Host tool "echo" must provide a timeoutMs of 0 or more'),
    ([{**ECHO, "timeoutMs": "1s"}], "tools[0].timeoutMs: expected a number, got a string"),
    ([{**ECHO, "hidden": "no"}], "tools[0].hidden: expected true or false, got a string"),
    ([ECHO, {**ECHO, "name": "echo "}], "RPC host tool names must be unique"),
    ([tool("new"), tool("bash")], 'RPC host tool "bash" conflicts with an existing tool'),
    ([tool("new"), tool("grep")], 'RPC host tool "grep" conflicts with an existing tool'),
]


@every_dialect
def test_a_set_that_cannot_be_used_is_refused_and_changes_nothing(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect) as host:
        offer(host, tool("old"))
        before = host.request("get_tools")["data"]
        for tools, error in INVALID:
            answer = host.request("set_host_tools", tools=tools)
            assert (answer["command"], answer["success"], answer["error"]) == ("set_host_tools", False, error)
        without_tools: list[Json] = [{}, {"tools": None}, {"tools": {}}]
        for missing in without_tools:
            assert host.request("set_host_tools", **missing)["error"].startswith("tools: ")
        assert host.request("get_tools")["data"] == before


@every_dialect
def test_another_set_takes_the_place_of_the_one_before(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, [calls(echo()), says("ok")]) as host:
        before = known(host)
        offer(host, ECHO, tool("ping"))
        assert offer(host, tool("ping"), tool("pong")) == ["ping", "pong"]
        assert known(host) == {**before, "ping": True, "pong": True}
        host.prompt("go")
        assert ends_in_short(host) == [("Tool echo not found", True)]
        assert offer(host) == []
        assert known(host) == before


def test_a_set_that_is_registered_during_a_run_is_there_for_the_next_model_call(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [calls(echo()), calls(("ping", {})), says("ok")]) as host:
        call = begin(host)
        offer(host, tool("ping"))
        host.send(result(call, output("from a tool that is gone")))
        second = host.until("host_tool_call", nth=2)
        assert second["toolName"] == "ping"
        host.send(result(second, output("pong")))
        host.until("agent_settled")
        assert ends(host) == [("from a tool that is gone", False), ("pong", False)]
        assert ("echo" in told(host, 0), "ping" in told(host, 0)) == (True, False)
        assert ("echo" in told(host, 1), "ping" in told(host, 1)) == (False, True)


def test_a_tool_that_was_taken_back_while_the_model_answered_is_not_asked_for(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [calls(echo(), text="Let me think about it.", holdAfter=1), says("ok")]) as host:
        offer(host, ECHO)
        host.send(PROMPT)
        host.update("text_delta")
        offer(host, tool("echoes"))
        host.provider.release()
        host.until("agent_settled")
        [(text, is_error)] = ends(host)
        assert is_error and text.startswith("Tool echo not found\nDid you mean echoes? The tools are: ")
        assert of_type(host, "host_tool_call") == []


def test_hidden_tools_are_kept_from_the_model_until_they_are_named(tmp_path: Path) -> None:
    secret: Frame = tool("secret", hidden=True)
    with stage(tmp_path, "omp", [calls(("secret", {})), says("ok"), calls(("secret", {})), says("ok")]) as host:
        assert offer(host, secret, tool("ping")) == ["secret", "ping"]
        assert (known(host)["secret"], known(host)["ping"]) == (False, True)
        host.prompt("go")
        host.request("set_active_tools", tools=["secret"])
        host.send({**PROMPT, "id": "p2"})
        host.send(result(host.until("host_tool_call"), output("hush")))
        host.until("agent_settled", nth=2)
        assert ends_in_short(host) == [("Tool secret not found", True), ("hush", False)]
        assert ("secret" in told(host, 0), "secret" in told(host, 2)) == (False, True)


def test_a_tool_that_stays_is_as_active_as_it_was(tmp_path: Path) -> None:
    with stage(tmp_path, "omp") as host:
        offer(host, tool("on"), tool("off"), tool("secret", hidden=True))
        host.request("set_active_tools", tools=["on", "secret"])
        offer(host, tool("new"), tool("off"), tool("on"), tool("secret", hidden=True))
        active = [name for name, is_active in known(host).items() if is_active]
        assert sorted(active) == ["new", "on", "secret"]


def test_tools_of_the_host_stay_when_the_session_changes(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [calls(echo()), says("ok")]) as host:
        offer(host, ECHO)
        host.request("new_session")
        host.send(PROMPT)
        host.send(result(host.until("host_tool_call"), output("still here")))
        host.until("agent_settled")
        assert ends(host) == [("still here", False)]


@pytest.mark.parametrize(
    "schema", [{"type": 5}, {"$ref": "#/nope"}, {"properties": {"a": {"pattern": "("}}}, {"$ref": "http://x/"}]
)
def test_a_schema_that_nothing_can_be_checked_against_is_refused(schema: dict[str, Any], tmp_path: Path) -> None:
    with stage(tmp_path, "omp") as host:
        answer = host.request("set_host_tools", tools=[{"name": "x", "description": "x", "parameters": schema}])
        assert answer["error"].startswith('Host tool "x": ')
        assert "x" not in [tool["name"] for tool in host.request("get_tools")["data"]["tools"]]
