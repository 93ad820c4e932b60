"""What a session knows after its process was killed: queued messages, commands, the choice of model, the name."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.support.host import Frame
from tests.support.session_host import another, conversation, kept, messages, session_file, stage, state, texts
from tests.support.stage import BEGAN, ENDLESS, HELD, WAIT, Stage, bash, calls, says

pytestmark = pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])


def kill(host: Stage) -> None:
    host.signal(signal.SIGKILL)
    host.exit_code()


def heard(frames: list[Frame]) -> list[str]:
    said = [frame["message"] for frame in frames if frame["type"] == "message_end"]
    return texts(message for message in said if message["role"] == "user")


def test_queued_messages_are_delivered_with_the_next_prompt(dialect: str, tmp_path: Path) -> None:
    image = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
    with stage(tmp_path, dialect) as host:
        file = session_file(host)
        host.request("follow_up", message="last")
        host.request("steer", message="second", images=[image])
        host.request("steer", message="third")
        kill(host)
        with another(host, dialect, "--session", str(file)) as again:
            opened = state(again)
            assert (opened["pendingMessageCount"], opened["queuedMessageCount"], opened["messageCount"]) == (3, 3, 0)
            assert heard(again.prompt("first")) == ["first", "second", "third", "last"]
            assert "aGVsbG8=" in str(again.provider.requests[0].body)
            assert state(again)["pendingMessageCount"] == 0
            kill(again)
        with another(host, dialect, "--session", str(file)) as third:
            assert state(third)["pendingMessageCount"] == 0
            assert [text for text in conversation(third) if text != "ok"] == ["first", "second", "third", "last"]


def test_a_crashed_run_keeps_queued_messages_and_repeats_no_delivered_ones(dialect: str, tmp_path: Path) -> None:
    turns = [calls(bash(f"{BEGAN}; {WAIT}")), ENDLESS, says("after")]
    with stage(tmp_path, dialect, turns) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.began.wait()
        host.request("steer", message="heard")
        host.go.open()
        host.update("text_delta")
        host.request("prompt", message="not heard", streamingBehavior="followUp", id="q")
        file = session_file(host)
        kill(host)
        with another(host, dialect, "--session", str(file)) as again:
            assert texts(message for message in messages(again) if message["role"] == "user") == ["go", "heard"]
            assert state(again)["pendingMessageCount"] == 1
            assert heard(again.prompt("next")) == ["next", "not heard"]


def test_a_cleared_queue_stays_empty(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        file = session_file(host)
        host.request("steer", message="taken back")
        assert host.request("clear_queue")["data"] == {"steering": ["taken back"], "followUp": []}
        host.request("follow_up", message="stays")
        kill(host)
        with another(host, dialect, "--session", str(file)) as again:
            assert state(again)["pendingMessageCount"] == 1
            assert again.request("clear_queue")["data"] == {"steering": [], "followUp": ["stays"]}
            kill(again)
        with another(host, dialect, "--session", str(file)) as third:
            assert state(third)["pendingMessageCount"] == 0


def test_a_command_of_the_hosts_during_a_run_is_not_lost(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [ENDLESS, says("after")]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        host.request("bash", command="echo shown")
        host.request("bash", command="echo secret", excludeFromContext=True)
        file = session_file(host)
        kill(host)
        with another(host, dialect, "--session", str(file)) as again:
            assert [message["role"] for message in messages(again)] == ["user", "bashExecution", "bashExecution"]
            again.prompt("next")
            told = str(again.provider.requests[1].body["messages"])
            assert "shown" in told and "secret" not in told
            kill(again)
        with another(host, dialect, "--session", str(file)) as third:
            roles = ["user", "bashExecution", "bashExecution", "user", "assistant"]
            assert [message["role"] for message in messages(third)] == roles


def test_the_model_the_level_and_the_name_come_back(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("one")
        host.request("set_model", provider="fakeoai", modelId="fake-oai")
        host.request("set_model", provider="fake", modelId="fake-1")
        host.request("set_thinking_level", level="low")
        host.request("set_session_name", name="kept")
        before = state(host)
        kill(host)
        with another(host, dialect, "--session", before["sessionFile"], model=None) as again:
            assert state(again) == before
            again.request("set_model", provider="fake", modelId="fake-2")
            kill(again)
        size = len(kept(before["sessionFile"]).entries)
        with another(host, dialect, "--session", before["sessionFile"], model=None) as third:
            assert state(third)["model"]["id"] == "fake-2"
        assert len(kept(before["sessionFile"]).entries) == size, "opening writes nothing"
        with another(host, dialect, "--session", before["sessionFile"], "--thinking", "high", model="fake/fake-1") as fourth:
            assert (state(fourth)["model"]["id"], state(fourth)["thinkingLevel"]) == ("fake-1", "high")


def test_an_abort_is_the_end_of_a_run_also_in_the_file(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [HELD, says("after")]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        file = session_file(host)
        assert host.leave() == 0
        assert kept(file).messages[-1].items() >= {"stopReason": "aborted", "role": "assistant"}.items()
        with another(host, dialect, "--session", str(file)) as again:
            again.prompt("next")
            assert conversation(again) == ["go", "word wor", "next", "after"]
