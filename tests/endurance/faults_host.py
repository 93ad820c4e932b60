"""What a host does wrong, while its agent works."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tests.endurance.faults_machine import RUNNING
from tests.endurance.faults_scene import Scene, SceneFault
from tests.support.host import Frame

#: The ids of commands that are part of every run.
OWN = ("first", "go", "compact", "beside")
#: Lines that are not commands. Each has one answer, which says so.
MALFORMED = (
    b"this is not json",
    b'{"id":"t","type":"get_state"',
    b"[1,2]",
    b"null",
    b"{}",
    b"\x00",
    b"\xef\xbb\xbf{}",
)
NESTED = (b"[" * 10_000 + b"]" * 10_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000, b'{"type":"get_state","id":' + b"[" * 10_000)
NOT_TEXT = (b"\xff\xfe\x00\x80", b'"\xff"')
SURROGATE = b'{"id":"half","type":"set_session_name","name":"half \\ud800 a pair"}'
HUGE = b'{"id":"huge","type":"get_state","ignored":"' + b"x" * (24 << 20) + b'"}'
#: How many requests fill every buffer of an agent whose output is read slowly.
MANY = 400


def _answers(scene: Scene, line: bytes) -> list[Frame]:
    """Send a line and a command after it, and return the responses up to that of the command."""
    since = scene.host.mark()
    scene.host.write(line + b'\n{"id":"after","type":"get_last_assistant_text"}\n')
    scene.host.response("after", since=since)
    found = [frame for frame in scene.host.frames[since:] if frame["type"] == "response"]
    before = found[: [frame.get("id") for frame in found].index("after")]
    return [frame for frame in before if frame.get("id") not in OWN]


def _refused(*lines: bytes) -> Callable[[Scene], None]:
    def do(scene: Scene) -> None:
        for line in lines:
            found = _answers(scene, line)
            assert len(found) == 1 and not found[0]["success"] and "Failed to parse" in found[0]["error"], (line[:40], found)

    return do


def _half_a_pair(scene: Scene) -> None:
    (answer,) = _answers(scene, SURROGATE)
    assert answer["id"] == "half" and answer["success"], answer
    name = scene.host.request("get_state")["data"]["sessionName"]
    assert name.startswith("half") and "\ud800" not in name, name


def _huge(scene: Scene) -> None:
    (answer,) = _answers(scene, HUGE)
    assert answer["id"] == "huge", answer


def _unasked(scene: Scene) -> None:
    for kind in (b"extension_ui_response", b"host_tool_result", b"host_tool_update", b"host_uri_result"):
        assert _answers(scene, b'{"id":"never","type":"%b","value":"x"}' % kind) == []


def _same_id(scene: Scene) -> None:
    found = _answers(scene, b'{"id":"same","type":"get_state"}\n{"id":"same","type":"get_commands"}')
    assert sorted((frame["id"], frame["command"]) for frame in found) == [("same", "get_commands"), ("same", "get_state")], found


def _unknown(scene: Scene) -> None:
    (answer,) = _answers(scene, b'{"id":"what","type":"no_such_command"}')
    assert not answer["success"] and "no_such_command" in answer["error"], answer  # omp and xcsh do not echo the id here
    (answer,) = _answers(scene, b'{"id":"what","type":"prompt","message":5}')
    assert (answer["id"], answer["success"]) == ("what", False), answer


def _second_prompt(scene: Scene) -> None:
    scene.host.send({"id": "second", "type": "prompt", "message": "and this"})
    refused = scene.host.until("response", id="second", success=False)
    assert "streamingBehavior" in refused["error"] or "process" in refused["error"] or "busy" in refused["error"], refused


def _stop_reading(scene: Scene) -> None:
    scene.host.slow_down(0.1, 1 << 14)
    for number in range(MANY):
        scene.host.send({"id": f"many {number}", "type": "get_messages"})


def _read_again(scene: Scene) -> None:
    scene.host.slow_down(0, 1 << 20)
    scene.host.response(f"many {MANY - 1}")
    answers: list[Any] = [frame.get("id") for frame in scene.host.frames if frame["type"] == "response"]
    many = [id for id in answers if str(id).startswith("many")]
    assert many == [f"many {number}" for number in range(MANY)], many


def _close_input(scene: Scene) -> None:
    scene.host.close_input()


def _close_output(scene: Scene) -> None:
    """Put an empty file in the place of the pipe that the host reads, and ask for something."""
    assert scene.host.process.stdout is not None
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, scene.host.process.stdout.fileno())
    os.close(empty)
    try:
        for _ in range(3):
            scene.host.send({"id": "unread", "type": "get_state"})
    except BrokenPipeError:
        pass  # it has exited


HOST_FAULTS = (
    SceneFault("malformed lines", _refused(*MALFORMED)),
    SceneFault("deep nesting", _refused(*NESTED)),
    SceneFault("invalid UTF-8", _refused(*NOT_TEXT)),
    SceneFault("lone surrogate", _half_a_pair),
    SceneFault("24 MB line", _huge),
    SceneFault("unasked answers", _unasked),
    SceneFault("same id twice", _same_id),
    SceneFault("unknown commands", _unknown),
    SceneFault("second prompt", _second_prompt, tuple(stage for stage in RUNNING if stage != "retry")),
    SceneFault("slow reader", _stop_reading, undo=_read_again),
    SceneFault("input closed", _close_input, exits=0),
    SceneFault("output closed", _close_output, exits=0),
)
