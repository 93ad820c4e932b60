"""What hosts of pi 1.5 get, and what hosts of older releases get instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.host import Frame
from tests.support.stage import ENDLESS, Stage, bash, calls, says, stage

RELEASES = ["pi@1.5", "pi@0.87", "pi@0.73"]
WORK = calls(("write", {"path": "a.txt", "content": "alpha"}), ("read", {"path": "notes.txt"}), bash("echo out; exit 3"))


def ends(host: Stage) -> dict[str, Frame]:
    """The ends of tool calls, by the name of the tool."""
    return {frame["toolName"]: frame for frame in host.frames if frame["type"] == "tool_execution_end"}


def work(host: Stage, message: str = "work") -> None:
    """Prompt and wait for the last event that every release has."""
    host.send({"id": "p", "type": "prompt", "message": message})
    host.until("agent_end")
    host.request("get_state")


@pytest.mark.parametrize("release", RELEASES)
def test_the_settled_event_is_sent_only_to_hosts_that_know_it(release: str, tmp_path: Path) -> None:
    with stage(tmp_path, release) as host:
        work(host)
        settled = [frame for frame in host.frames if frame["type"] == "agent_settled"]
    assert settled == ([] if release == "pi@0.73" else [{"type": "agent_settled", "aborted": False}])


@pytest.mark.parametrize("release", RELEASES)
def test_only_hosts_of_1_5_get_results_as_data(release: str, tmp_path: Path) -> None:
    with stage(tmp_path, release, [WORK, says("done")]) as host:
        (tmp_path / "project" / "notes.txt").write_text("alpha")
        work(host)
        read, failed = ends(host)["read"]["result"], ends(host)["bash"]["result"]
    if release != "pi@1.5":
        assert "structuredContent" not in read and set(failed) == {"content", "details"}
        return
    assert read["structuredContent"] == read["content"][0]["text"]
    data = failed["structuredContent"]
    assert (data["output"], data["truncated"], data["exit_code"]) == ("out\n", False, 3)
    assert data["wall_time_seconds"] >= 0
    assert failed["isError"] is True and "details" not in failed


def test_a_long_output_is_complete_as_data(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(bash("seq 1 20000"), bash("yes | head -c 2000000")), says("done")]) as host:
        host.prompt("work")
        long, longer = (frame["result"]["structuredContent"] for frame in host.frames if frame["type"] == "tool_execution_end")
        if len(long["output"]) > len(longer["output"]):
            long, longer = longer, long
        assert (long["output"].split(), long["truncated"]) == ([str(number) for number in range(1, 20001)], False)
        assert (len(longer["output"]), longer["truncated"]) == (1 << 20, True)
        assert Path(longer["full_output_path"]).stat().st_size == 2_000_000


@pytest.mark.parametrize("release", RELEASES)
def test_the_text_of_write_is_that_of_the_release(release: str, tmp_path: Path) -> None:
    with stage(tmp_path, release, [WORK, says("done")]) as host:
        work(host)
        text = ends(host)["write"]["result"]["content"][0]["text"]
    assert text == ("Successfully wrote 5 bytes to a.txt" if release == "pi@0.73" else "Successfully wrote to a.txt")


@pytest.mark.parametrize("release", RELEASES)
def test_first_entries_of_a_new_session_depend_on_the_release(release: str, tmp_path: Path) -> None:
    with stage(tmp_path, release) as host:
        host.request("set_thinking_level", level="low")
        host.request("set_model", provider="fake", modelId="fake-2")
        host.request("set_model", provider="fake", modelId="fake-1")
        kept = host.request("get_state")["data"]["thinkingLevel"]
        host.request("set_model", provider="fake", modelId="fake-2")
        host.request("new_session")
        state = host.request("get_state")["data"]
    keeps = release == "pi@0.73"
    assert kept == ("low" if keeps else "off")
    assert (state["model"]["id"], state["thinkingLevel"]) == (("fake-2", "off") if keeps else ("fake-1", "medium"))


def test_calls_and_answers_say_how_long_they_took(tmp_path: Path) -> None:
    wrong = calls(("nosuchtool", {}), ("bash", {}), bash("true"))
    with stage(tmp_path, "pi", [wrong, says("done")]) as host:
        host.prompt("work")
        took = {
            frame["toolCallId"][-1]: frame.get("durationMs") for frame in host.frames if frame["type"] == "tool_execution_end"
        }
        messages = host.request("get_messages")["data"]["messages"]
        written = (host.around.home / host.request("get_state")["data"]["sessionFile"]).read_text()
    assert took["0"] is None and took["1"] is None and isinstance(took["2"], int)
    assert [message.get("durationMs") for message in messages if message["role"] == "toolResult"] == list(took.values())
    answers = [message for message in messages if message["role"] == "assistant"]
    assert all(isinstance(answer["durationMs"], int) and answer["thinkingLevel"] == "medium" for answer in answers)
    assert [answer["rawStopReason"] for answer in answers] == ["tool_use", "end_turn"]
    assert answers[0]["usage"]["cost"]["totalFromProvider"] is False and answers[0]["usage"]["cacheWrite1h"] == 0
    assert written.count('"durationMs"') == 3 and "structuredContent" not in written


def test_an_abort_in_one_write_with_its_prompt_ends_the_run(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [ENDLESS]) as host:
        host.send_together({"id": "p", "type": "prompt", "message": "go"}, {"id": "a", "type": "abort"})
        assert host.response("p")["data"] == {"disposition": "started"}
        assert host.until("agent_settled")["aborted"] is True
        assert host.response("a")["success"]


def test_a_session_that_is_left_aborts_its_run(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [ENDLESS]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        host.request("new_session")
        assert host.until("agent_settled")["aborted"] is True


def test_giving_up_a_retry_is_not_an_abort(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [{"status": 529, "error": "Overloaded"}], settings={"retry": {"baseDelayMs": 60_000}}) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.until("auto_retry_start")
        host.request("abort_retry")
        assert host.until("agent_settled")["aborted"] is False
