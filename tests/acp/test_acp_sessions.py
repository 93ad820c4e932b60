"""Sessions of an ACP client: begun, listed, loaded, resumed, closed and deleted, in the files of every other mode."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.acp import acp, acp_again
from tests.support.stage import bash, calls, says
from tests.support.surroundings import FAIRLEAD

AUTH_REQUIRED, NOT_FOUND, INVALID_PARAMS = -32000, -32002, -32602


def test_the_first_answer_says_what_the_agent_can_do(tmp_path: Path) -> None:
    with acp(tmp_path, able=None) as client:
        said = client.initialize()
        assert said["protocolVersion"] == 1
        assert said["agentInfo"]["name"] == "fairlead"
        able = said["agentCapabilities"]
        assert able["loadSession"] and able["promptCapabilities"] == {"image": True, "embeddedContext": True}
        assert set(able["sessionCapabilities"]) == {"list", "delete", "resume", "close", "additionalDirectories"}
        assert [method.get("type", "agent") for method in said["authMethods"]] == ["agent"]


def test_a_prompt_streams_its_answer_and_ends_the_turn(tmp_path: Path) -> None:
    with acp(tmp_path, [{"thinking": "hm", "text": "hello there"}]) as client:
        session = client.new()
        assert client.prompt(session) == "end_turn"
        assert client.said(session) == "hello there"
        chunks = client.updates(session, "agent_message_chunk", "agent_thought_chunk")
        assert len({chunk["messageId"] for chunk in chunks}) == 1
        usage = client.updates(session, "usage_update")[-1]
        assert usage["size"] == 200_000 and usage["used"] > 0 and usage["cost"]["currency"] == "USD"
        assert client.updates(session, "session_info_update")[0]["title"] == "hi"


def test_load_shows_the_conversation_and_then_answers(tmp_path: Path) -> None:
    turns = [
        {"text": "look", "toolCalls": [{"name": "bash", "arguments": {"command": "echo one"}}]},
        {"text": "done"},
        {"text": "again"},
    ]
    with acp(tmp_path, turns) as client:
        session = client.new()
        client.prompt(session, "first question")
        client.call("session/close", sessionId=session)
        since = client.host.mark()
        result = client.call("session/load", sessionId=session, cwd=client.cwd, mcpServers=[])
        assert result["configOptions"]
        shown = client.updates(session, since=since)
        kinds = [update["sessionUpdate"] for update in shown]
        assert kinds[:4] == ["user_message_chunk", "agent_message_chunk", "tool_call", "agent_message_chunk"]
        assert shown[0]["content"]["text"] == "first question"
        call = shown[2]
        assert (call["status"], call["kind"], call["rawInput"]) == ("completed", "execute", {"command": "echo one"})
        assert "one" in call["content"][0]["content"]["text"]
        frames = client.host.frames[since:]
        answer = next(place for place, frame in enumerate(frames) if "result" in frame)
        chunks = [place for place, frame in enumerate(frames) if "_message_chunk" in str(frame.get("params"))]
        assert max(chunks) < answer
        assert client.prompt(session, "second") == "end_turn"
        assert len(client.host.provider.requests[-1].body["messages"]) > 4


def test_a_session_continues_in_another_process_and_another_mode(tmp_path: Path) -> None:
    with acp(tmp_path, [{"text": "one"}, {"text": "two"}]) as client:
        session = client.new()
        client.prompt(session, "from the editor")
        client.host.close_input()
        client.host.process.wait(10)
        with acp_again(client) as other:
            since = other.host.mark()
            other.call("session/resume", sessionId=session, cwd=other.cwd)
            assert other.updates(session, "user_message_chunk", "agent_message_chunk", since=since) == []
            other.prompt(session, "more")
            assert "from the editor" in str(other.host.provider.requests[-1].body["messages"])


def test_a_conversation_from_a_terminal_continues_in_an_editor(tmp_path: Path) -> None:
    with acp(tmp_path, [says("in the terminal"), says("in the editor")]) as client:
        around = client.host.around
        command = [FAIRLEAD, "-p", "--model", "fake/fake-1", "asked in the terminal"]
        subprocess.run(command, cwd=around.cwd, env=dict(around.env), check=True, capture_output=True, stdin=subprocess.DEVNULL)
        (listed,) = client.call("session/list", cwd=client.cwd)["sessions"]
        assert listed["title"] == "asked in the terminal"
        client.call("session/load", sessionId=listed["sessionId"], cwd=client.cwd, mcpServers=[])
        assert client.said(None, "user_message_chunk") == "asked in the terminal"
        assert client.said() == "in the terminal"
        assert client.prompt(listed["sessionId"], "and now") == "end_turn"


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_a_session_that_does_not_exist_is_an_error_and_not_a_new_session(tmp_path: Path, method: str) -> None:
    with acp(tmp_path) as client:
        error = client.refusal(method, sessionId="nope", cwd=client.cwd, mcpServers=[])
        assert error["code"] == NOT_FOUND and "nope" in error["message"]
        assert client.refusal("session/prompt", sessionId="nope", prompt=[{"type": "text", "text": "x"}])["code"] == NOT_FOUND
        assert client.call("session/list")["sessions"] == []


def test_sessions_are_listed_in_pages_and_by_directory(tmp_path: Path) -> None:
    with acp(tmp_path, [{"text": "ok"}] * 60) as client:
        (tmp_path / "elsewhere").mkdir()
        ids = [client.new() for _ in range(51)]
        for number, session in enumerate(ids):
            client.prompt(session, f"question {number}")
        other = client.new(cwd=str(tmp_path / "elsewhere"))
        client.prompt(other, "elsewhere")
        first = client.call("session/list")
        rest = client.call("session/list", cursor=first["nextCursor"])
        listed = [*first["sessions"], *rest["sessions"]]
        assert len(first["sessions"]) == 50 and "nextCursor" not in rest
        assert {each["sessionId"] for each in listed} == {*ids, other}
        assert listed[0] | {"updatedAt": ""} == {
            "sessionId": other,
            "cwd": str(tmp_path / "elsewhere"),
            "title": "elsewhere",
            "updatedAt": "",
        }
        there = client.call("session/list", cwd=str(tmp_path / "elsewhere"))["sessions"]
        assert [each["sessionId"] for each in there] == [other]
        assert client.refusal("session/list", cursor="?")["code"] == INVALID_PARAMS


def test_a_closed_session_takes_no_prompts_and_a_deleted_one_is_gone(tmp_path: Path) -> None:
    with acp(tmp_path, [{"text": "ok"}] * 3) as client:
        kept, gone = client.new(), client.new()
        client.prompt(kept)
        client.prompt(gone)
        client.call("session/close", sessionId=kept)
        assert client.refusal("session/prompt", sessionId=kept, prompt=[{"type": "text", "text": "x"}])["code"] == NOT_FOUND
        client.call("session/delete", sessionId=gone)
        assert [each["sessionId"] for each in client.call("session/list")["sessions"]] == [kept]
        assert client.refusal("session/load", sessionId=gone, cwd=client.cwd, mcpServers=[])["code"] == NOT_FOUND
        assert client.refusal("session/delete", sessionId=gone)["code"] == NOT_FOUND


def test_closing_a_session_cancels_its_prompt(tmp_path: Path) -> None:
    with acp(tmp_path, [{"text": "word " * 60, "hangAfter": 1}]) as client:
        session = client.new()
        prompt = client.begin(session, "go")
        client.until("agent_message_chunk")
        client.call("session/close", sessionId=session)
        assert client.answer_to(prompt)["result"] == {"stopReason": "cancelled"}


def test_the_directories_of_a_session_are_used(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with acp(tmp_path, [calls(bash("pwd")), says("ok")]) as client:
        session = client.new(cwd=str(tmp_path / "one"), additionalDirectories=[str(tmp_path / "two")])
        client.prompt(session)
        assert str(tmp_path / "one") in str(client.updates(session, "tool_call_update")[-1]["content"])
        assert str(tmp_path / "two") in str(client.host.provider.requests[0].body)
        for wrong in ("relative", str(tmp_path / "missing"), "/nul\x00"):
            assert client.refusal("session/new", cwd=wrong, mcpServers=[])["code"] == INVALID_PARAMS


def test_without_a_key_a_session_asks_for_a_login(tmp_path: Path) -> None:
    with acp(tmp_path, model=None, api_key="", env={"FAIRLEAD_HOME": str(tmp_path / "empty")}) as client:
        error = client.refusal("session/new", cwd=client.cwd, mcpServers=[])
        assert error["code"] == AUTH_REQUIRED
        assert "fairlead login" in error["message"] and "ANTHROPIC_API_KEY" in error["message"]


def test_a_list_of_something_that_is_not_a_directory_is_refused(tmp_path: Path) -> None:
    with acp(tmp_path) as client:
        for cwd in ("a\0b", "relative"):
            assert client.refusal("session/list", cwd=cwd)["code"] == INVALID_PARAMS


@pytest.mark.parametrize("method", ["session/close", "session/load", "session/delete"])
def test_a_session_is_closed_though_the_request_for_that_is_cancelled(tmp_path: Path, method: str) -> None:
    stubborn = "trap 'echo > $HOME/began' TERM; echo > $HOME/began; while :; do sleep 1; done"
    with acp(tmp_path, [says("one"), calls(bash(stubborn)), says("next")]) as client:
        session = client.new()
        client.prompt(session)
        prompt = client.begin(session, "go")
        client.host.began.wait()
        where: dict[str, Any] = {"cwd": client.cwd, "mcpServers": []}
        closing = client.send(method, sessionId=session, **(where if method == "session/load" else {}))
        client.host.began.wait()  # it has begun: the command is being stopped
        client.tell("$/cancel_request", requestId=closing)
        client.answer_to(closing)
        assert client.answer_to(prompt)["result"] == {"stopReason": "cancelled"}
        client.call("session/load", sessionId=session, **where)
        assert client.prompt(session, "again") == "end_turn"
