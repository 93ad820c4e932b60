"""What a host sees of a run, whatever its dialect: messages, updates, queues, aborts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.host import Frame
from tests.support.json_values import is_array, is_object
from tests.support.stage import BEGAN, ENDLESS, HELD, WAIT, bash, calls, says, stage

pytestmark = pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])

SCRATCH = {"index", "partialJson", "_i", "intent", "isWarning", "ttft"}


def keys(value: Any) -> Iterator[str]:
    """All keys of all objects in a JSON value, except in what the model gave as arguments."""
    if is_object(value):
        for key, item in value.items():
            yield key
            if key not in ("arguments", "args"):
                yield from keys(item)
    elif is_array(value):
        for item in value:
            yield from keys(item)


def messages(frames: list[Frame], role: str, kind: str = "message_end") -> list[Frame]:
    return [frame["message"] for frame in frames if frame["type"] == kind and frame["message"]["role"] == role]


#: xcsh has the model plan before the first prompt of a session, which would be in the way here.
NO_TODOS = ["--exclude-tools", "todo_write"]


def texts(found: list[Frame]) -> list[str]:
    return [message["content"][0]["text"] for message in found]


# Messages and updates


def test_a_run_in_all_its_frames(dialect: str, tmp_path: Path) -> None:
    turns = [{"thinking": "Need a tool.", "text": "Running.", **calls(bash("echo hi"))}, says("ok")]
    with stage(tmp_path, dialect, turns, flags=NO_TODOS) as host:
        frames = host.prompt("go")
    assert not SCRATCH & set(keys(frames))
    assert not messages(frames, "system")

    (user,) = messages(frames, "user", "message_start")
    assert user.items() >= {"content": [{"type": "text", "text": "go"}], "attribution": "user"}.items()
    assert messages(frames, "user") == [user]

    for started in messages(frames, "assistant", "message_start"):
        assert (started["content"], started["stopReason"]) == ([], "stop")
        assert started.items() >= {"api": "anthropic-messages", "provider": "fake", "model": "fake-1"}.items()

    first, second = messages(frames, "assistant")
    assert [block["type"] for block in first["content"]] == ["thinking", "text", "toolCall"]
    assert first["content"][2].items() >= {"name": "bash", "arguments": {"command": "echo hi"}}.items()
    assert (first["stopReason"], second["stopReason"]) == ("toolUse", "stop")
    assert first["responseId"]
    usage = first["usage"]
    assert usage["totalTokens"] == usage["input"] + usage["output"] + usage["cacheRead"] + usage["cacheWrite"]

    (result,) = messages(frames, "toolResult")
    assert result.items() >= {"toolName": "bash", "isError": False, "content": [{"type": "text", "text": "hi\n"}]}.items()
    turn_ends = [frame for frame in frames if frame["type"] == "turn_end"]
    assert [frame["message"] for frame in turn_ends] == [first, second]
    assert [frame["toolResults"] for frame in turn_ends] == [[result], []]
    (end,) = [frame for frame in frames if frame["type"] == "agent_end"]
    assert end["messages"] == [user, first, result, second]


def test_updates_carry_the_message_so_far_and_deltas_add_up(dialect: str, tmp_path: Path) -> None:
    arguments = {"command": "echo 'quoted \"text\" \u2028 \U0001f600'"}
    turns = [{"thinking": "Hm, " * 9, "text": 'Some "text" \u2028 \U0001f600' * 9, **calls(("bash", arguments))}, says("ok")]
    with stage(tmp_path, dialect, turns) as host:
        frames = host.prompt("go")
    first = messages(frames, "assistant")[0]
    deltas: dict[int, str] = {}
    for frame in frames[: frames.index({"type": "turn_start"}, 5)]:
        if frame["type"] != "message_update":
            continue
        inner = frame["assistantMessageEvent"]
        assert frame["message"] == inner["partial"]
        assert frame["message"]["role"] == "assistant"
        assert frame["usage"].keys() == first["usage"].keys()
        deltas[inner["contentIndex"]] = deltas.get(inner["contentIndex"], "") + inner.get("delta", "")
        match inner["type"]:
            case "toolcall_start":
                assert (inner["id"], inner["toolName"]) == (first["content"][2]["id"], "bash")
            case "toolcall_end":
                assert inner["toolCall"] == first["content"][2]
            case "text_end" | "thinking_end":
                assert inner["content"] == deltas[inner["contentIndex"]]
            case "text_delta":
                assert frame["message"]["content"][1]["text"] == deltas[1]
            case _:
                pass
    assert deltas[0] == first["content"][0]["thinking"] == "Hm, " * 9
    assert deltas[1] == first["content"][1]["text"]
    assert first["content"][2]["arguments"] == arguments


def test_an_image_comes_after_the_text_and_reaches_the_model(dialect: str, tmp_path: Path) -> None:
    image = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
    with stage(tmp_path, dialect) as host:
        frames = host.prompt("", images=[image], streamingBehavior=None)
        assert messages(frames, "user")[0]["content"] == [{"type": "text", "text": ""}, image]
        assert "aGVsbG8=" in str(host.provider.requests[0].body)


def test_an_image_has_its_real_type(dialect: str, tmp_path: Path) -> None:
    picture = b64encode(b"GIF89a" + bytes(20)).decode()
    with stage(tmp_path, dialect) as host:
        frames = host.prompt("", images=[{"type": "image", "data": f"{picture[:9]}\n{picture[9:]}", "mimeType": "image/png"}])
        assert messages(frames, "user")[0]["content"][1] == {"type": "image", "data": picture, "mimeType": "image/gif"}


def test_a_failed_request_ends_the_run_with_its_error(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [{"status": 400, "error": "that was wrong"}, says("fine")]) as host:
        frames = host.prompt("go")
        (started,) = messages(frames, "assistant", "message_start")
        (ended,) = messages(frames, "assistant")
        assert {**started, "durationMs": ended["durationMs"], "thinkingLevel": ended["thinkingLevel"]} == ended
        assert ended["stopReason"] == "error"
        assert "that was wrong" in ended["errorMessage"]
        host.prompt("again")
        assert host.request("get_last_assistant_text")["data"] == {"text": "fine"}


def test_the_first_wait_for_a_failing_provider_is_two_seconds_less_up_to_a_quarter(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [{"status": 529, "error": "Overloaded"}]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        waiting = host.until("auto_retry_start")
        host.request("abort")
    assert waiting.items() >= {"attempt": 1, "maxAttempts": 3}.items()
    assert "Overloaded" in waiting["errorMessage"]
    assert 1_500 <= waiting["delayMs"] <= 2_000


def test_there_is_no_last_text_at_first(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        assert host.request("get_last_assistant_text")["data"] == {"text": None}


def test_the_agent_is_busy_from_the_acknowledgement_until_it_has_settled(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [HELD]) as host:
        host.write(b'{"id":"p","type":"prompt","message":"slow"}\n{"id":"s","type":"get_state"}\n')
        assert host.response("s")["data"]["isStreaming"] is True
        host.update("text_delta")
        host.provider.release()
        host.until("agent_settled")
        assert host.request("get_state")["data"]["isStreaming"] is False


def test_the_fields_of_the_state(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, flags=NO_TODOS) as host:
        host.prompt("hi")
        state = host.request("get_state")["data"]
        assert (
            state.items()
            >= {
                "thinkingLevel": "medium",
                "isStreaming": False,
                "isCompacting": False,
                "steeringMode": "one-at-a-time",
                "followUpMode": "one-at-a-time",
                "messageCount": 2,
                "pendingMessageCount": 0,
                "queuedMessageCount": 0,
                "todoPhases": [],
            }.items()
        )
        assert state["model"].items() >= {"id": "fake-1", "provider": "fake", "reasoning": True, "contextWindow": 200_000}.items()
        assert {"sessionId", "interruptMode", "autoCompactionEnabled"} <= state.keys()
        assert state["contextUsage"].keys() == {"tokens", "contextWindow", "percent"}


# Setters


@pytest.mark.parametrize(
    ("command", "fields", "key"),
    [
        ("set_steering_mode", {"mode": "bogus"}, "steeringMode"),
        ("set_follow_up_mode", {"mode": 5}, "followUpMode"),
        ("set_interrupt_mode", {"mode": "sometimes"}, "interruptMode"),
        ("set_thinking_level", {"level": "bogus"}, "thinkingLevel"),
        ("set_thinking_level", {}, "thinkingLevel"),
        ("set_model", {"provider": "nope", "modelId": "fake-1"}, "model"),
    ],
)
def test_a_setter_refuses_what_is_outside_its_set(dialect: str, command: str, fields: Frame, key: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        before = host.request("get_state")["data"][key]
        answer = host.request(command, **fields)
        assert answer["success"] is False
        assert any(word in answer["error"] for word in ("mode", "level", "Model not found"))
        assert host.request("get_state")["data"][key] == before


def test_a_level_that_the_model_lacks_is_fitted_to_it(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, model="fake/fake-1") as host:
        assert host.request("set_thinking_level", level="xhigh")["success"] is True
        assert host.request("get_state")["data"]["thinkingLevel"] == "high"


def test_setters_leave_the_users_files_alone(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.request("set_thinking_level", level="low")
        host.request("set_steering_mode", mode="all")
        host.request("set_model", provider="fake", modelId="fake-2")
        assert not (host.around.home / "settings.json").exists()


def test_a_getter_sees_what_the_commands_before_it_did(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.write(
            b'{"type":"set_thinking_level","level":"low"}\n{"type":"set_model","provider":"fakeoai","modelId":"fake-oai"}\n'
            b'{"type":"steer","message":"x"}\n{"id":"s","type":"get_state"}\n'
        )
        state = host.response("s")["data"]
        assert (state["model"]["id"], state["pendingMessageCount"]) == ("fake-oai", 1)


# Queues


@pytest.mark.parametrize(
    ("mode", "turns_taken"), [("one-at-a-time", [["go"], ["a"], ["b"], ["c"]]), ("all", [["go"], ["a", "b"], ["c"]])]
)
def test_steering_comes_before_follow_ups(dialect: str, mode: str, turns_taken: list[list[str]], tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [HELD, says("A"), says("B"), says("C")]) as host:
        host.request("set_steering_mode", mode=mode)
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        host.request("follow_up", message="c")
        host.request("steer", message="a")
        host.request("steer", message="b")
        host.provider.release()
        host.until("agent_settled")
    heard: list[list[str]] = []
    for frame in host.frames:
        if frame["type"] == "turn_start":
            heard.append([])
        elif frame["type"] == "message_end" and frame["message"]["role"] == "user":
            heard[-1] += texts([frame["message"]])
    assert heard == turns_taken


def test_messages_queued_while_idle_are_sent_with_the_next_prompt(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("A"), says("B")]) as host:
        host.request("follow_up", message="last")
        host.request("steer", message="second")
        state = host.request("get_state")["data"]
        assert (state["isStreaming"], state["pendingMessageCount"], state["queuedMessageCount"]) == (False, 2, 2)
        frames = host.prompt("first")
        assert texts(messages(frames, "user")) == ["first", "second", "last"]
        assert [frame["type"] for frame in frames].count("agent_start") == 1
        assert len(host.provider.requests) == 2


def test_an_abort_keeps_the_queues(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [ENDLESS, says("A")]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        host.request("steer", message="kept")
        host.request("abort")
        assert host.request("get_state")["data"]["pendingMessageCount"] == 1
        assert texts(messages(host.prompt("next"), "user")) == ["next", "kept"]


def test_immediate_steering_skips_the_tools_that_have_not_started(dialect: str, tmp_path: Path) -> None:
    turn = calls(bash(f"{WAIT}; echo one"), bash("echo two"), ("read", {"path": "three"}))
    with stage(tmp_path, dialect, [turn, says("A")]) as host:
        host.request("set_interrupt_mode", mode="immediate")
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.until("tool_execution_update")
        host.request("steer", message="listen")
        host.go.open()
        host.until("agent_settled")
        results = messages(host.frames, "toolResult")
        skipped = ("Skipped due to queued user message.", True)
        assert [(result["content"][0]["text"], result["isError"]) for result in results] == [("one\n", False), skipped, skipped]
        assert texts(messages(host.frames, "user")) == ["go", "listen"]


# Aborts


def test_an_aborted_answer_keeps_what_had_arrived(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [ENDLESS, says("after")]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        answer = host.request("abort", id="a")
        assert host.frames[-1] == answer
        assert host.frames[-2] == {"type": "agent_settled", "aborted": True}
        (message,) = messages(host.frames, "assistant")
        assert message["content"] == [{"type": "text", "text": "word wor"}]
        assert (message["stopReason"], message["errorMessage"]) == ("aborted", "Request was aborted")
        host.prompt("again")
        assert host.request("get_last_assistant_text")["data"] == {"text": "after"}


def test_a_prompt_and_its_abort_in_one_write(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [ENDLESS]) as host:
        host.write(b'{"id":"p","type":"prompt","message":"go"}\n{"id":"a","type":"abort"}\n')
        assert host.response("a")["success"] is True
        assert host.response("p")["success"] is True
        assert host.frames[-2:] == [{"type": "agent_settled", "aborted": True}, host.response("a")]
        assert messages(host.frames, "assistant")[-1]["stopReason"] == "aborted"
        assert texts(messages(host.frames, "user")) == ["go"]


def test_an_aborted_tool_keeps_its_output_and_one_empty_answer_follows(dialect: str, tmp_path: Path) -> None:
    turn = calls(bash(f"echo started; {BEGAN}; sleep 60"))
    with stage(tmp_path, dialect, [turn, says("after")]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.began.wait()
        host.request("abort")
        end = host.until("tool_execution_end")
        assert end["isError"] is True
        assert end["result"]["content"][0]["text"].startswith("started\n")
        assert end["result"]["content"][0]["text"].endswith("\nCommand aborted")
        last = messages(host.frames, "assistant")[-1]
        assert last.items() >= {"content": [], "stopReason": "aborted", "errorMessage": "Request was aborted"}.items()
        assert len(host.provider.requests) == 1
        assert [frame["type"] for frame in host.frames].count("agent_end") == 1


def test_abort_and_prompt_answers_between_the_two_runs(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [ENDLESS, says("after")]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        host.send({"id": "ap", "type": "abort_and_prompt", "message": "rather this"})
        host.until("agent_settled", nth=2)
        order = [frame["type"] for frame in host.frames if frame["type"] in ("agent_start", "agent_settled")]
        assert order == ["agent_start", "agent_settled"] * 2
        place = host.frames.index(host.response("ap"))
        assert host.frames[place - 1] == {"type": "agent_settled", "aborted": True}
        assert host.frames[place + 1] == {"type": "agent_start"}


# The host's own commands


def test_a_bash_command_of_the_host_reaches_the_model_with_the_next_prompt(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [HELD, says("next")], flags=NO_TODOS) as host:
        host.send({"id": "p", "type": "prompt", "message": "slow"})
        host.update("text_delta")
        host.request("bash", command="echo shown")
        host.request("bash", command="echo secret", excludeFromContext=True)
        roles = [message["role"] for message in host.request("get_messages")["data"]["messages"]]
        assert "bashExecution" not in roles
        host.provider.release()
        host.until("agent_settled")
        host.prompt("what did I run?")
        roles = [message["role"] for message in host.request("get_messages")["data"]["messages"]]
        assert roles == ["user", "assistant", "bashExecution", "bashExecution", "user", "assistant"]
        assert "shown" in str(host.provider.requests[1].body["messages"])
        assert "secret" not in str(host.provider.requests[1].body["messages"])


# Starts


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--model", "nope/none"], "nope/none"),
        (["@a.txt"], "Error: @file arguments are not supported in RPC mode"),
    ],
)
def test_a_start_that_fails_says_why_on_stderr_alone(dialect: str, arguments: list[str], complaint: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, flags=arguments, files={"a.txt": "x"}) as host:
        assert host.exit_code() == 1
        assert host.frames == []
        assert host.stderr().count("\n") == 1
        assert complaint in host.stderr()


def test_plain_arguments_are_ignored_silently(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, flags=["do something"]) as host:
        host.request("get_state")
        assert host.leave() == 0
        greeting = ("ready", "available_commands_update")
        assert [frame["type"] for frame in host.frames if frame["type"] not in greeting] == ["response"]
        assert host.stderr() == ""
