"""More tool calls in one turn than may run at once: those that wait for a place look again whether they may start."""

from __future__ import annotations

from pathlib import Path

from tests.support.stage import BEGAN, WAIT, Stage, bash, calls, says, stage

#: How many run at once unless settings say otherwise.
AT_ONCE = 8
RUNNING = [bash(f"{BEGAN}; {WAIT}; echo {number}") for number in range(AT_ONCE)]
WAITING = [("write", {"path": f"{number}.txt", "content": "x"}) for number in range(2)]


def start(host: Stage) -> None:
    """Prompt, and return when all places are taken."""
    host.send({"id": "p", "type": "prompt", "message": "go"})
    for _ in RUNNING:
        host.began.wait()


def results(host: Stage) -> list[tuple[str, bool]]:
    ends = [frame["message"] for frame in host.frames if frame["type"] == "message_end"]
    return [(end["content"][0]["text"], end["isError"]) for end in ends if end["role"] == "toolResult"]


def assert_nothing_written(host: Stage) -> None:
    assert list(host.around.cwd.glob("*.txt")) == []


def test_calls_that_wait_for_a_place_get_one_when_others_have_ended(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(*RUNNING, *WAITING), says("ok")]) as host:
        start(host)
        assert_nothing_written(host)
        for _ in RUNNING:
            host.go.open()
        host.until("agent_settled")
        assert [is_error for _, is_error in results(host)] == [False] * (AT_ONCE + 2)
        assert len(list(host.around.cwd.glob("*.txt"))) == 2


def test_calls_that_wait_for_a_place_are_skipped_when_the_user_has_something_to_say(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(*RUNNING, *WAITING), says("ok")]) as host:
        start(host)
        # Only now: in this mode from the start, the tools that change something would run one by one.
        host.request("set_interrupt_mode", mode="immediate")
        host.request("steer", message="listen")
        for _ in RUNNING:
            host.go.open()
        host.until("agent_settled")
        ran = [(f"{number}\n", False) for number in range(AT_ONCE)]
        assert results(host) == [*ran, *[("Skipped due to queued user message.", True)] * 2]
        assert_nothing_written(host)


def test_calls_that_wait_for_a_place_do_not_start_after_an_abort(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(*RUNNING, *WAITING)]) as host:
        start(host)
        host.request("abort")
        # A tool that is started although the run was aborted would have words of its own for it.
        assert results(host) == [("Command aborted", True)] * (AT_ONCE + 2)
        assert_nothing_written(host)
