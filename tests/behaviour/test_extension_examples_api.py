"""The examples of extensions that add and do something: each does over the pipes what it promises."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tests.behaviour.examples import (
    EXAMPLES,
    answer,
    asked,
    command,
    notices,
    playing,
    requests,
    results,
    statuses,
    system_prompt,
    widgets,
)
from tests.support.session_host import SUMMARY, conversation, session_file, state
from tests.support.stage import HELD, another, bash, calls, says

from fairlead.testing.provider import ReceivedRequest

LOOKING = {"read", "grep", "find", "ls"}


def tools(request: ReceivedRequest) -> set[str]:
    """The tools that the model was told of."""
    return {tool["name"] for tool in request.body["tools"]}


def test_sqlite_tool_reads_and_can_be_taken_away(tmp_path: Path) -> None:
    database = tmp_path / "boats.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE boats (name TEXT)")
        connection.executemany("INSERT INTO boats VALUES (?)", [("Anna",), ("Berta",)])
    connection.close()
    ask = {"database": "../boats.db", "query": "SELECT name FROM boats"}
    turns = [
        calls(("sqlite_query", {**ask, "limit": 1})),
        calls(("sqlite_query", {**ask, "query": "DELETE FROM boats"})),
        calls(("sqlite_query", {**ask, "limit": 0})),
        calls(("sqlite_query", {**ask, "database": "none.db"})),
        says("ok"),
        says("ok"),
    ]
    with playing(tmp_path, "sqlite_tool", turns=turns) as host:
        good, changed, invalid, missing = results(host.prompt("go"))
        assert good == ('[{"name":"Anna"}]', False)
        assert changed[1] and "readonly" in changed[0]
        assert invalid[1] and "limit" in invalid[0]
        assert missing == ("There is no database none.db.", True)
        (told,) = [tool for tool in host.provider.requests[0].body["tools"] if tool["name"] == "sqlite_query"]
        assert set(told["input_schema"]["properties"]) == {"database", "query", "limit"}
        command(host, "/no-sql")
        host.prompt("again")
        assert "sqlite_query" not in tools(host.provider.requests[-1])


def test_read_many_tool_calls_another_tool_for_each_file(tmp_path: Path) -> None:
    turns = [calls(("read_many", {"paths": ["tide", "none"]})), says("ok")]
    with playing(tmp_path, "read_many_tool", turns=turns, files={"tide": "high\n"}) as host:
        frames = host.prompt("go")
        nested = [frame["toolName"] for frame in frames if frame["type"] == "tool_execution_start"]
        assert nested == ["read_many", "read", "read"]
        text, failed = results(frames)[-1]
        assert not failed and text.startswith("tide:\nhigh\n") and "none: " in text


def test_wait_for_file_tool_shows_how_it_gets_on_and_can_be_called_off(tmp_path: Path) -> None:
    turns = [calls(("wait_for_file", {"path": "tide"})), says("ok"), calls(("wait_for_file", {"path": "never"})), says("ok")]
    with playing(tmp_path, "wait_for_file_tool", turns=turns) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        update = host.until("tool_execution_update")
        assert "waited 0." in update["partialResult"]["content"][0]["text"]
        (host.around.cwd / "tide").touch()
        host.until("agent_settled")
        assert results(host.frames) == [("tide is there.", False)]
        assert "Use wait_for_file instead of sleeping in bash." in system_prompt(host)
        since = host.mark()
        host.send({"id": "q", "type": "prompt", "message": "again"})
        host.until("tool_execution_update", since=since)
        host.request("abort")
        assert results(host.frames[since:])[0][1]


def test_bookmarks_bring_the_conversation_back(tmp_path: Path) -> None:
    with playing(tmp_path, "bookmarks", turns=[says("1"), says("2")]) as host:
        command(host, "/bookmark too-soon")
        host.prompt("one")
        command(host, "/bookmark start")
        host.prompt("two")
        host.send({"id": "b", "type": "prompt", "message": "/back"})
        assert answer(host, "select", value="start")["options"] == ["start"]
        assert host.response("b")["success"]
        assert conversation(host) == ["one", "1"]
        warning, back = notices(host)
        assert warning.startswith("Say something first") and back.endswith("entries back.")


def test_session_commands_go_from_one_conversation_to_another(tmp_path: Path) -> None:
    with playing(tmp_path, "session_commands", turns=[says("1"), says("2")]) as host:
        host.prompt("one")
        host.prompt("two")
        first = session_file(host)
        command(host, "/retry")
        assert conversation(host) == ["one", "1"] and requests(host, "set_editor_text")[0]["text"] == "two"
        command(host, "/fresh")
        assert conversation(host) == []
        command(host, f"/open {first}")
        assert conversation(host) == ["one", "1", "two", "2"]
        told = notices(host)
        assert len(set(told)) == 3 and told[-1] == f"In {state(host)['sessionId']} now."
        command(host, "/reload")
        command(host, "/fresh")
        assert conversation(host) == []


def test_batch_gives_one_thing_after_another(tmp_path: Path) -> None:
    with playing(tmp_path, "batch", turns=[says("1"), says("2"), says("3")]) as host:
        command(host, "/batch one; two; ; three")
        assert conversation(host) == ["one", "1", "two", "2", "three", "3"]
        assert statuses(host, "batch") == ["1 of 3", "2 of 3", "3 of 3", None]


def test_inbox_delivers_each_message_at_its_moment(tmp_path: Path) -> None:
    with playing(tmp_path, "inbox", turns=[says("0"), HELD, says("2"), says("3"), says("4")]) as host:
        command(host, "/remind bring rope")
        host.prompt("go")
        assert asked(host) == ["go", "bring rope"]
        since = host.mark()
        host.send({"id": "p", "type": "prompt", "message": "sail"})
        host.update("text_delta", since=since)
        command(host, "/later go home")
        command(host, "/interrupt turn left")
        host.provider.release()
        host.until("agent_settled", since=since)
        assert asked(host, 2)[-1] == "turn left" and asked(host, 3)[-1] == "go home"
        since = host.mark()
        command(host, "/deliver a letter")
        host.until("agent_settled", since=since)
        assert asked(host)[-1] == "a letter"
        customs = [each for each in host.request("get_messages")["data"]["messages"] if each["role"] == "custom"]
        assert [each["display"] for each in customs] == [False, True, True, True]
        assert customs[-1]["details"] == {"from": "inbox"}


def test_echo_provider_answers_itself(tmp_path: Path) -> None:
    with playing(tmp_path, "echo_provider", model="echo/parrot") as host:
        host.prompt("pieces of eight")
        assert host.request("get_last_assistant_text")["data"]["text"].strip() == "pieces of eight"
        assert results(host.prompt("run echo polly")) == [("polly\n", False)]
        thought = host.request("get_messages")["data"]["messages"][1]["content"][0]
        assert thought["thinking"] == "3 words. "
        assert host.request("get_session_stats")["data"]["tokens"]["input"] == 3 + 3 + 1
        assert not host.provider.requests
        command(host, "/no-echo")
        models = host.request("get_available_models")["data"]["models"]
        assert "echo" not in {model["provider"] for model in models}


def test_gateway_provider_is_asked_where_the_flag_says(tmp_path: Path) -> None:
    with playing(tmp_path, "gateway_provider") as first:
        assert "gateway" not in {each["provider"] for each in first.request("get_available_models")["data"]["models"]}
        url = first.provider.url
        flags = ["--gateway", url]
        with playing(tmp_path / "b", "gateway_provider", flags=flags, model="gateway/small", env={"GATEWAY_KEY": "k"}) as host:
            host.prompt("hi")
            assert host.request("get_state")["data"]["model"]["contextWindow"] == 32_000
        (request,) = first.provider.requests
        assert request.body["model"] == "small" and request.headers["x-api-key"] == "k"


def test_plan_mode_takes_tools_away_and_outlives_the_process(tmp_path: Path) -> None:
    with playing(tmp_path, "plan_mode", flags=["--plan", "--tools", "read,bash,grep"]) as host:
        host.prompt("one")
        assert tools(host.provider.requests[0]) == LOOKING and "You are planning" in system_prompt(host)
        file = session_file(host)
        assert host.leave() == 0
        flags = ["-e", str(EXAMPLES / "plan_mode.py"), "--tools", "read,bash,grep", "--session", str(file)]
        with another(host, "pi", *flags) as again:
            again.prompt("two")
            assert tools(again.provider.requests[-1]) == LOOKING
            command(again, "/plan")
            again.prompt("three")
            assert tools(again.provider.requests[-1]) == {"read", "grep", "bash"}
            assert "You are planning" not in system_prompt(again)
            assert statuses(again, "plan") == ["planning", None]


def test_builds_are_announced_over_the_bus(tmp_path: Path) -> None:
    turns = [calls(bash("make -v")), calls(bash("make none")), calls(bash("make -v")), calls(bash("true")), says("ok")]
    with playing(tmp_path, "build_watch", "build_notifier", turns=turns) as host:
        host.prompt("build it")
        entries = host.request("get_entries")["data"]["entries"]
        builds = [entry["data"] for entry in entries if entry.get("customType") == "build"]
        assert builds == [{"command": "make -v", "ok": True}, {"command": "make none", "ok": False}]


def test_quick_and_deep_choose_model_and_level(tmp_path: Path) -> None:
    with playing(tmp_path, "quick_and_deep") as host:
        command(host, "/quick fake/fake-small")
        command(host, "/deep")
        command(host, "/quick")
        host.leave()
        assert notices(host) == [
            "fake/fake-small, thinking: off",
            "fake/fake-1, thinking: high",
            "fake/fake-1, thinking: low",
        ]


def test_where_am_i_shows_what_can_be_looked_at(tmp_path: Path) -> None:
    with playing(tmp_path, "where_am_i", flags=["--approve"]) as host:
        host.request("set_session_name", name="Boat")
        host.prompt("hi")
        command(host, "/where")
        (lines,) = widgets(host, "where")
        assert lines is not None
        told = dict(line.split(": ", 1) for line in lines)
        now = state(host)
        assert told["extension"] == "where_am_i" and told["mode"] == "rpc" and told["messages"] == "2"
        assert told["directory"] == f"{host.around.cwd} (trusted)"
        assert told["session"] == f"{now['sessionId']}, Boat, {now['sessionFile']}"
        assert told["context"].endswith(" % of 200000") and told["commands"] == "where"
        assert told["idle"] == "True, messages wait: False"


def test_limits_stop_a_run_and_wrap_up_ends_the_process(tmp_path: Path) -> None:
    turns = [*[calls(bash("true"))] * 2, says("word " * 80), says("word " * 80), SUMMARY]
    settings = {"compaction": {"keepRecentTokens": 101}}
    with playing(tmp_path, "limits", turns=turns, flags=["--max-turns", "2"], settings=settings) as host:
        host.prompt("go")
        assert len(host.provider.requests) == 2
        host.prompt("on")
        host.prompt("and on")
        command(host, "/wrap-up keep the names")
        assert host.exit_code() == 0
        stopped, compacted = notices(host)
        assert stopped == "Stopped after 2 turns." and compacted.startswith("Compacted from ")
        assert "keep the names" in asked(host)[-1]


def test_release_wizard_asks_and_leaves_the_rest_to_the_model(tmp_path: Path) -> None:
    with playing(tmp_path, "release_wizard") as host:
        host.send({"id": "r", "type": "prompt", "message": "/release"})
        answer(host, "select", value="minor")
        assert answer(host, "input", value="1.3.0")["placeholder"] == "1.2.3"
        assert answer(host, "editor", value="- New sails")["prefill"] == "# 1.3.0\n\n- "
        assert answer(host, "confirm", confirmed=True)["message"] == "1.3.0, a minor release"
        assert host.response("r")["success"]
        host.until("agent_settled")
        assert asked(host) == ["Write these notes into CHANGELOG.md as the minor release 1.3.0:\n\n- New sails"]
        assert requests(host, "setTitle")[0]["title"] == "Release" and statuses(host, "release") == ["asking", None]
        assert requests(host, "setWidget")[0]["widgetPlacement"] == "belowEditor"
        assert requests(host, "open_url")[0]["url"].startswith("https://")
        assert requests(host, "set_editor_text")[0]["text"] == "Tag 1.3.0 and push the tag."
        host.send({"id": "n", "type": "prompt", "message": "/release"})
        for method in ("select", "input", "editor"):
            answer(host, method, nth=2, cancelled=True)
        assert host.response("n")["success"] and notices(host) == ["No release today."]
