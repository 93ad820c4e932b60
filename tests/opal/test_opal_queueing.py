"""Prompts and aborts that an Opal client sends while the agent is busy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.gates import wait_for_exit
from tests.support.opal import batch, opal, request, said, types
from tests.support.stage import BEGAN, ENDLESS, HELD, LASTING, WAIT, calls, says


def shell(command: str, **rest: Any) -> tuple[str, dict[str, Any]]:
    return "shell", {"command": command, **rest}


# Queueing


def test_a_prompt_while_busy_is_queued_and_delivered_between_turns(tmp_path: Path) -> None:
    turns = [calls(shell(f"{BEGAN}; {WAIT}")), says("I heard.")]
    with opal(tmp_path, turns) as client:
        session = client.start()
        client.send("agent/prompt", session_id=session, text="go")
        client.host.began.wait()
        since = client.host.mark()
        assert client.call("agent/prompt", session_id=session, text="and this") == {"queued": True}
        client.until("message_queued", session, text="and this")
        client.host.go.open()
        client.ended(session)
        events = client.events(session, since=since)
        assert types(events)[:3] == ["message_queued", "tool_execution_end", "message_applied"]
        assert events[2]["text"] == "and this"
        assert types(events)[-1] == "agent_end"
        heard = client.host.provider.requests[1].body["messages"]
        assert "and this" in json.dumps(heard[-1])


def test_prompts_queued_during_an_answer_are_delivered_in_order_after_it(tmp_path: Path) -> None:
    with opal(tmp_path, [HELD, says("All three.")]) as client:
        session = client.start()
        client.send("agent/prompt", session_id=session, text="go")
        client.until("message_delta", session)
        assert client.call("agent/state", session_id=session)["status"] == "streaming"
        since = client.host.mark()
        for text in ("one", "two", "three"):
            assert client.call("agent/prompt", session_id=session, text=text) == {"queued": True}
        client.host.provider.release()
        client.ended(session)
        events = client.events(session, since=since)
        assert [event["text"] for event in events if event["type"] == "message_applied"] == ["one", "two", "three"]
        # As recorded from Opal: usage, then what was applied, then the end of the turn that it came after.
        after = types([event for event in events if event["type"] not in ("message_queued", "message_delta")])
        assert after == ["usage_update", "message_applied", "turn_end", "message_start", "usage_update", "agent_end"]
        assert next(event["message"] for event in events if event["type"] == "turn_end").startswith("word word")
        assert len(client.host.provider.requests) == 2
        assert [event["type"] for event in client.events(session)].count("agent_start") == 1


def test_a_template_prompt_is_announced_unexpanded(tmp_path: Path) -> None:
    with opal(tmp_path, [HELD, says("ok")]) as client:
        prompts = client.host.around.home / "prompts"
        prompts.mkdir()
        (prompts / "greet.md").write_text("Say hello to $1")
        session = client.start()
        client.send("agent/prompt", session_id=session, text="/greet Ann")
        client.until("message_applied", session, text="/greet Ann")
        client.until("message_delta", session)
        client.call("agent/prompt", session_id=session, text="/greet Bob")
        client.host.provider.release()
        client.ended(session)
        client.until("message_applied", session, text="/greet Bob")
        assert "Say hello to Bob" in json.dumps(client.host.provider.requests[1].body["messages"])


def test_a_queue_survives_an_abort(tmp_path: Path) -> None:
    with opal(tmp_path, [ENDLESS, says("both")]) as client:
        session = client.start()
        client.send("agent/prompt", session_id=session, text="go")
        client.until("message_delta", session)
        client.call("agent/prompt", session_id=session, text="later")
        client.call("agent/abort", session_id=session)
        assert client.ended(session)["type"] == "agent_abort"
        events = client.prompt(session, "now")
        assert [event["text"] for event in events if event["type"] == "message_applied"] == ["now", "later"]


# Aborting


def test_an_abort_is_answered_before_its_event(tmp_path: Path) -> None:
    with opal(tmp_path, [ENDLESS, says("again")]) as client:
        session = client.start()
        client.send("agent/prompt", session_id=session, text="go")
        client.until("message_delta", session)
        since = client.host.mark()
        ident = client.send("agent/abort", session_id=session)
        state = client.send("agent/state", session_id=session)
        client.ended(session, since=since)
        client.response(state)
        frames = [frame for frame in client.host.frames[since:] if frame.get("params", {}).get("type") != "message_delta"]
        assert frames[0] == {"jsonrpc": "2.0", "id": ident, "result": {}}
        assert frames[1]["params"] == {"type": "agent_abort", "session_id": session}
        assert frames[2]["result"]["status"] == "idle"
        assert said(client.prompt(session, "go on")) == "again"


def test_an_abort_kills_the_children_of_tools_and_ends_their_calls(tmp_path: Path) -> None:
    with opal(tmp_path, [calls(shell(LASTING), shell("echo quick"))]) as client:
        session = client.start()
        client.send("agent/prompt", session_id=session, text="go")
        client.host.began.wait()
        since = client.host.mark()
        client.call("agent/abort", session_id=session)
        client.ended(session, since=since)
        wait_for_exit(int((client.host.around.cwd / "shell").read_text()))
        events = client.events(session)
        started = [event["call_id"] for event in events if event["type"] == "tool_execution_start"]
        ended = [event["call_id"] for event in events if event["type"] == "tool_execution_end"]
        assert sorted(started) == sorted(ended)
        assert events[-1]["type"] == "agent_abort"
        history = client.call("session/history", session_id=session)["messages"]
        assert {message["call_id"] for message in history if message["role"] == "tool_result"} == set(started)


def test_idle_and_repeated_aborts_emit_events(tmp_path: Path) -> None:
    with opal(tmp_path, [ENDLESS, says("fine")]) as client:
        session = client.start()
        client.call("agent/abort", session_id=session)
        client.until("agent_abort", session)
        client.send("agent/prompt", session_id=session, text="go")
        client.until("message_delta", session)
        since = client.host.mark()
        client.host.write(batch(request("x", "agent/abort", session_id=session), request("y", "agent/abort", session_id=session)))
        client.until("agent_abort", session, since=since, nth=2)
        assert client.is_idle(session)
        assert said(client.prompt(session, "go")) == "fine"


def test_a_prompt_right_behind_an_abort_begins_a_new_run(tmp_path: Path) -> None:
    with opal(tmp_path, [ENDLESS, says("new")]) as client:
        session = client.start()
        client.send("agent/prompt", session_id=session, text="go")
        client.until("message_delta", session)
        since = client.host.mark()
        client.host.write(
            batch(
                request("x", "agent/abort", session_id=session),
                request("y", "agent/prompt", session_id=session, text="again"),
            )
        )
        assert client.response("y")["result"] == {"queued": False}
        client.until("agent_end", session, since=since)
        assert types(client.events(session, since=since))[-1] == "agent_end"


def test_an_abort_applies_to_the_prompt_before_it_even_if_that_waits(tmp_path: Path) -> None:
    stubborn = "trap '' TERM; " + LASTING
    with opal(tmp_path, [calls(shell(stubborn)), HELD]) as client:
        session = client.start()
        client.call("agent/prompt", session_id=session, text="one")
        client.host.began.wait()
        since = client.host.mark()
        client.host.send_together(
            request("abort", "agent/abort", session_id=session),
            request("prompt", "agent/prompt", session_id=session, text="two"),
            request("abort again", "agent/abort", session_id=session),
            request("state", "agent/state", session_id=session),
        )
        assert client.response("state")["result"]["status"] == "idle"
        ids = [frame["id"] for frame in client.host.frames[since:] if "id" in frame]
        assert ids == ["abort", "prompt", "abort again", "state"]
