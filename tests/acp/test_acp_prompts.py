"""Prompts of an ACP client: what they may contain, and that each gets exactly one answer, whatever happens."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from tests.support.acp import acp
from tests.support.stage import BEGAN, ENDLESS, HELD, LASTING, bash, calls, says

PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
    )
).decode()


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_a_prompt_may_have_images_links_and_resources(tmp_path: Path) -> None:
    with acp(tmp_path) as client:
        session = client.new()
        blocks = [
            text("look at "),
            {"type": "resource_link", "uri": "file:///project/a%20b.py#L3", "name": "a b.py"},
            text(" and "),
            {"type": "resource", "resource": {"uri": "file:///project/notes.md", "text": "remember the milk"}},
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///project/p.png", "blob": PIXEL, "mimeType": "image/png"}},
            {"type": "resource", "resource": {"uri": "file:///project/x.bin", "blob": "AAAA", "mimeType": "application/x"}},
        ]
        assert client.call("session/prompt", sessionId=session, prompt=blocks) == {"stopReason": "end_turn"}
        body = str(client.host.provider.requests[0].body)
        assert "look at [@a b.py](/project/a b.py#L3) and [@notes.md](/project/notes.md)" in body
        assert '<context ref="/project/notes.md">\\nremember the milk\\n</context>' in body
        assert body.count(PIXEL) == 2
        assert "x.bin" in body and "not shown" in body


def test_audio_an_empty_prompt_and_nonsense_are_refused(tmp_path: Path) -> None:
    with acp(tmp_path) as client:
        session = client.new()
        for prompt in ([{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}], [], [text(" ")], [{"type": "smell"}], "hi"):
            error = client.refusal("session/prompt", sessionId=session, prompt=prompt)
            assert error["code"] == -32602, error
        assert client.prompt(session) == "end_turn"


def test_optional_fields_that_are_wrong_count_as_absent(tmp_path: Path) -> None:
    with acp(tmp_path, able={"fs": "yes", "session": {"notices": 5}, "elicitation": None, "later": {"x": 1}}) as client:
        session = client.new(additionalDirectories=None, _meta={"trace": 1})
        assert client.prompt(session) == "end_turn"


@pytest.mark.parametrize("data", ["!!!", "", "AAAA", base64.b64encode(b"<svg/>").decode()])
def test_an_image_that_no_model_accepts_does_not_get_into_the_conversation(tmp_path: Path, data: str) -> None:
    with acp(tmp_path) as client:
        session = client.new()
        image = {"type": "image", "data": data, "mimeType": "image/png"}
        assert client.refusal("session/prompt", sessionId=session, prompt=[text("look"), image])["code"] == -32602
        resource = {"type": "resource", "resource": {"uri": "file:///a.svg", "blob": data, "mimeType": "image/svg+xml"}}
        assert client.call("session/prompt", sessionId=session, prompt=[text("look"), resource]) == {"stopReason": "end_turn"}
        body = str(client.host.provider.requests[0].body)
        assert "a.svg" in body and "not shown" in body and "'type': 'image'" not in body


def test_an_image_gets_the_type_that_it_really_has(tmp_path: Path) -> None:
    with acp(tmp_path) as client:
        image = {"type": "image", "data": PIXEL, "mimeType": "image/jpeg"}
        client.call("session/prompt", sessionId=client.new(), prompt=[image])
        assert "image/png" in str(client.host.provider.requests[0].body)


def test_an_address_that_cannot_be_parsed_stays_as_it_is(tmp_path: Path) -> None:
    with acp(tmp_path) as client:
        blocks = [
            {"type": "resource_link", "uri": "http://[", "name": "odd"},
            {"type": "resource", "resource": {"uri": "file://[x", "text": "inside"}},
        ]
        assert client.call("session/prompt", sessionId=client.new(), prompt=blocks) == {"stopReason": "end_turn"}
        assert "[@odd](http://[)" in str(client.host.provider.requests[0].body)


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (says("a", stopReason="max_tokens"), "max_tokens"),
        (says("a", stopReason="refusal"), "refusal"),
        (says("a"), "end_turn"),
    ],
)
def test_the_stop_reason_is_that_of_the_model(tmp_path: Path, turn: Any, reason: str) -> None:
    with acp(tmp_path, [turn]) as client:
        assert client.prompt(client.new()) == reason


def test_a_limit_of_turns_is_a_stop_reason(tmp_path: Path) -> None:
    with acp(tmp_path, [calls(bash("true"))] * 3, flags=["--max-turns", "2"]) as client:
        assert client.prompt(client.new()) == "max_turn_requests"


def test_a_failed_model_call_is_a_message_and_the_end_of_the_turn(tmp_path: Path) -> None:
    turns = [{"status": 400, "error": "no such thing"}, says("fine")]
    with acp(tmp_path, turns) as client:
        session = client.new()
        assert client.prompt(session) == "end_turn"
        assert "no such thing" in client.said()
        assert client.prompt(session) == "end_turn"


def test_a_key_that_the_provider_refuses_asks_for_a_login(tmp_path: Path) -> None:
    with acp(tmp_path, [{"status": 401, "error": "bad key"}]) as client:
        error = client.refusal("session/prompt", sessionId=client.new(), prompt=[text("hi")])
        assert error["code"] == -32000 and "fairlead login" in error["data"]["message"]


# Cancelling


def test_cancel_ends_a_turn_while_the_model_answers(tmp_path: Path) -> None:
    with acp(tmp_path, [ENDLESS, says("next")]) as client:
        session = client.new()
        prompt = client.begin(session, "go")
        client.until("agent_message_chunk")
        client.cancel(session)
        assert client.answer_to(prompt)["result"] == {"stopReason": "cancelled"}
        assert client.prompt(session, "again") == "end_turn"


def test_cancel_ends_a_turn_while_a_tool_runs(tmp_path: Path) -> None:
    with acp(tmp_path, [calls(bash(LASTING)), says("next")]) as client:
        session = client.new()
        prompt = client.begin(session, "go")
        client.host.began.wait()
        client.cancel(session)
        assert client.answer_to(prompt)["result"] == {"stopReason": "cancelled"}
        client.host.lasting_command_ended()
        assert client.prompt(session, "again") == "end_turn"


def test_cancel_ends_a_turn_during_a_permission_request(tmp_path: Path) -> None:
    with acp(tmp_path, [calls(bash("true")), says("next")], flags=["--approval", "ask"]) as client:
        session = client.new()
        prompt = client.begin(session, "go")
        asked = client.asked("session/request_permission")
        client.cancel(session)
        assert client.answer_to(prompt)["result"] == {"stopReason": "cancelled"}
        withdrawn = client.asked("$/cancel_request")
        assert withdrawn["params"] == {"requestId": asked["id"]}
        client.answer(asked, outcome={"outcome": "cancelled"})
        assert client.prompt(session, "again") == "end_turn"


def test_cancel_ends_a_turn_during_an_elicitation(tmp_path: Path) -> None:
    question = calls(("ask", {"questions": [{"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]}]}))
    with acp(tmp_path, [question, says("next")]) as client:
        session = client.new()
        prompt = client.begin(session, "go")
        client.asked("elicitation/create")
        client.cancel(session)
        assert client.answer_to(prompt)["result"] == {"stopReason": "cancelled"}
        assert client.prompt(session, "again") == "end_turn"


def test_cancel_ends_a_turn_during_a_retry(tmp_path: Path) -> None:
    turns = [{"status": 503, "error": "busy"}, says("next")]
    settings = {"retry": {"enabled": True, "maxRetries": 3, "baseDelayMs": 60_000}}
    with acp(tmp_path, turns, settings=settings) as client:
        session = client.new()
        prompt = client.begin(session, "go")
        client.until("notice")
        client.cancel(session)
        assert client.answer_to(prompt)["result"] == {"stopReason": "cancelled"}
        assert client.prompt(session, "again") == "end_turn"


def test_a_cancel_right_behind_its_prompt_still_cancels_it(tmp_path: Path) -> None:
    with acp(tmp_path, [ENDLESS, says("next")]) as client:
        session = client.new()
        client.host.send_together(
            {"jsonrpc": "2.0", "id": 900, "method": "session/prompt", "params": {"sessionId": session, "prompt": [text("go")]}},
            {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}},
            {"jsonrpc": "2.0", "id": 901, "method": "session/prompt", "params": {"sessionId": session, "prompt": [text("go")]}},
        )
        assert client.answer_to(900)["result"] == {"stopReason": "cancelled"}
        client.until("agent_message_chunk")
        client.cancel(session)
        assert client.answer_to(901)["result"] == {"stopReason": "cancelled"}


def test_a_prompt_can_be_cancelled_by_its_request_id(tmp_path: Path) -> None:
    with acp(tmp_path, [ENDLESS, says("next")]) as client:
        session = client.new()
        prompt = client.begin(session, "go")
        client.until("agent_message_chunk")
        client.tell("$/cancel_request", requestId=prompt)
        assert client.answer_to(prompt)["result"] == {"stopReason": "cancelled"}
        client.tell("$/cancel_request", requestId=12345)
        assert client.prompt(session, "again") == "end_turn"


def test_cancel_without_a_turn_and_unknown_notifications_change_nothing(tmp_path: Path) -> None:
    with acp(tmp_path) as client:
        session = client.new()
        client.cancel(session)
        client.cancel("nope")
        client.tell("_vendor/something", x=1)
        assert client.prompt(session) == "end_turn"
        assert client.refusal("_vendor/unknown")["code"] == -32601


# Prompts during a run


def test_a_second_prompt_steers_the_run_and_both_are_answered(tmp_path: Path) -> None:
    with acp(tmp_path, [calls(bash(f"{BEGAN}; read _ < $HOME/go")), says("both done")]) as client:
        session = client.new()
        first = client.begin(session, "one")
        client.host.began.wait()
        second = client.begin(session, "two")
        client.host.go.open()
        assert client.answer_to(first)["result"] == {"stopReason": "end_turn"}
        assert client.answer_to(second)["result"] == {"stopReason": "end_turn"}
        assert "two" in str(client.host.provider.requests[-1].body["messages"])
        assert client.updates(session, "user_message_chunk") == []


def test_cancel_answers_every_prompt_of_the_run(tmp_path: Path) -> None:
    with acp(tmp_path, [ENDLESS, says("next")]) as client:
        session = client.new()
        first = client.begin(session, "one")
        client.until("agent_message_chunk")
        second, third = client.begin(session, "two"), client.begin(session, "three")
        client.cancel(session)
        for prompt in (first, second, third):
            assert client.answer_to(prompt)["result"] == {"stopReason": "cancelled"}
        assert client.prompt(session, "again") == "end_turn"
        said = str(client.host.provider.requests[-1].body["messages"])
        assert "two" not in said and "again" in said


def test_sessions_work_at_the_same_time(tmp_path: Path) -> None:
    with acp(tmp_path, [HELD, says("quick")]) as client:
        slow, quick = client.new(), client.new()
        waiting = client.begin(slow, "slow")
        client.until("agent_message_chunk")
        assert client.prompt(quick, "quick") == "end_turn"
        client.host.provider.release()
        assert client.answer_to(waiting)["result"] == {"stopReason": "end_turn"}


# The end of the process


def test_nothing_is_left_behind_when_the_editor_goes_away(tmp_path: Path) -> None:
    with acp(tmp_path, [calls(bash(LASTING))]) as client:
        client.begin(client.new(), "go")
        client.host.began.wait()
        assert client.host.leave() == 0
        client.host.lasting_command_ended()


def test_cancel_ends_a_turn_during_a_compaction(tmp_path: Path) -> None:
    summary = {"match": "## Original Request", **ENDLESS}
    turns = [says("long " * 3000, usage={"input": 19_000, "output": 900}), summary, says("next")]
    with acp(tmp_path, turns, model="fake/fake-small", settings={"compaction": {"keepRecentTokens": 100}}) as client:
        session = client.new()
        prompt = client.begin(session, "word " * 300)
        client.until("compaction_update", status="in_progress")
        client.cancel(session)
        assert client.answer_to(prompt)["result"] == {"stopReason": "cancelled"}
        client.until("compaction_update", status="cancelled")


def test_an_interrupted_run_is_continued_by_a_command(tmp_path: Path) -> None:
    turns = [{"status": 400, "error": "no such thing"}, says("fine"), says("text")]
    with acp(tmp_path, turns) as client:
        session = client.new()
        since = client.host.mark()
        assert client.prompt(session) == "end_turn"
        offered = [{"name": "resume", "description": "Continue the run that was interrupted"}]
        client.until("available_commands_update", since=since, availableCommands=offered)
        since = client.host.mark()
        assert client.prompt(session, "/resume") == "end_turn"
        assert client.said(session, since=since) == "fine"
        (first, second) = [each.body for each in client.host.provider.requests]
        assert first["messages"] == second["messages"]
        # After that, it is a text like any other.
        assert client.prompt(session, "/resume") == "end_turn"
        assert "/resume" in str(client.host.provider.requests[-1].body)
