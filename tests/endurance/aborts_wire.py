"""Disturbs runs of a real agent over real pipes, at random moments."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

from tests.endurance.faults_order import Order
from tests.endurance.kills_conversations import DIALECTS, SETTINGS, SUMMARY
from tests.endurance.kills_guest import wild_turn
from tests.support.host import Frame
from tests.support.session_file import missing, read_strictly, repeated, text_of
from tests.support.stage import Stage, stage

DEEDS = ("abort", "abort", "steer", "follow_up", "prompt", "queued prompt", "abort_and_prompt", "compact")


def disturb_process(root: Path, chance: random.Random, rounds: int, number: int) -> Counter[str]:
    """Play rounds with one agent, then check its frames and its file. Returns what was done, and how often."""
    turns = [SUMMARY, *(wild_turn(chance) for _ in range(rounds * 3))]
    dialect = DIALECTS[number % len(DIALECTS)]
    deeds: Counter[str] = Counter()
    with stage(root, dialect, turns, settings=SETTINGS, flags=["--exclude-tools", "todo_write"]) as host:
        file = Path(host.request("get_state")["data"]["sessionFile"])
        for each in range(rounds):
            play(host, chance, each, deeds)
        assert host.leave() == 0
    assert "Traceback" not in host.stderr(), host.stderr()
    check_frames(host.frames, dialect)
    check_file(file, host.frames)
    return deeds


def play(host: Stage, chance: random.Random, number: int, deeds: Counter[str]) -> None:
    """Start a run, disturb it, and wait until the session is idle."""
    deeds["round"] += 1
    deeds["wire"] += 1
    since = host.mark()
    host.send({"id": f"{number}", "type": "prompt", "message": f"prompt {number}"})
    for place in range(chance.choice((1, 1, 2))):
        moment(host, chance)
        deed = chance.choice(DEEDS)
        deeds[deed] += 1
        command: Frame = {"id": f"{number}.{place}", "type": "prompt" if deed == "queued prompt" else deed}
        if deed not in ("abort", "compact"):
            command["message"] = f"{deed} {number}.{place}"
        if deed == "queued prompt":
            command["streamingBehavior"] = "followUp"
        host.send(command)
        host.response(command["id"], since=since)
    host.request("abort")
    host.request("clear_queue")
    host.request("abort")  # a prompt that was accepted late may have begun another run
    host.wait_for(lambda frame: frame["type"] == "agent_settled", "agent_settled", since=since)
    state = host.request("get_state")["data"]
    assert not state["isStreaming"] and not state["isCompacting"], state


def moment(host: Stage, chance: random.Random) -> None:
    """Wait for a number of frames, or for some milliseconds."""
    if chance.random() < 0.5:
        goal, deadline = host.mark() + chance.randrange(1, 40), time.monotonic() + 0.2
        while host.mark() < goal and time.monotonic() < deadline:
            time.sleep(0.001)
    else:
        time.sleep(chance.uniform(0, 0.05))


def check_frames(frames: list[Frame], dialect: str) -> None:
    order = Order(holds_end=dialect != "pi")
    order.hear_all(frames)
    assert not order.problems, order.problems[:10]
    assert not order.is_running, "the last run has not settled"
    answers = Counter((frame["id"], frame["success"]) for frame in frames if frame["type"] == "response")
    # omp and xcsh acknowledge a prompt, and may refuse it then: one answer of each kind.
    assert not [id for (id, _), count in answers.items() if count > 1], "a command was answered twice"


def check_file(file: Path, frames: list[Frame]) -> None:
    lines = read_strictly(file)
    told = [frame["message"] for frame in frames if frame["type"] == "message_end"]
    assert not (lost := missing(told, lines.messages)), f"told and not in the file: {lost[:3]}"
    heard = [text_of(message) for message in told if message["role"] == "user"]
    assert lines.user_texts() == heard and not repeated(heard)
