"""The agent is killed at random moments, again and again: its sessions have everything that its host was told.

`tests.endurance.kills_conversations` plays the conversations. A failure prints the seed of its conversation:
`CRASH_SEED=<seed> make test-system ARGS="-k crashes"` plays that one alone.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest
from tests.endurance.kills_conversations import CALM, DIALECTS, LIVES, SETTINGS, SUMMARY, is_end_of
from tests.endurance.kills_guest import Phases
from tests.endurance.kills_processes import kill_conversations
from tests.support.session_file import text_of
from tests.support.stage import WAIT, bash, calls, says, stage

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

CONVERSATIONS = 26
#: What happens so often that no hundred kills miss it.
USUAL: Phases = {"starting", "accepting", "streaming", "tools", "command", "compacting", "stopping", "idle"}


def test_everything_reported_to_a_host_survives_many_kills() -> None:
    seed = os.environ.get("CRASH_SEED")
    seeds = [int(seed)] if seed else random.sample(range(1_000_000), CONVERSATIONS)
    kills, problems = kill_conversations(seeds)
    counts = Counter(phase for phases in kills for phase in phases)
    print(f"\n{len(kills)} kills:", ", ".join(f"{count} {phase}" for phase, count in counts.most_common()))
    assert not problems, "\n".join(problems)
    assert len(kills) == len(seeds) * LIVES
    assert seed or counts.keys() >= USUAL, counts


# Moments that chance seldom finds. Leaving the stage kills the agent.


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_command_run_before_the_first_message_is_saved(dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    with stage(tmp_path / "killed", dialect, flags=["--session", str(path)]) as host:
        host.request("bash", command="echo first")
    with stage(tmp_path / "calm", dialect, flags=["--session", str(path)]) as host:
        (message,) = host.request("get_messages")["data"]["messages"]
        assert (message["command"], message["output"]) == ("echo first", "first\n")


def test_a_message_that_a_turn_has_taken_up_is_not_taken_back_with_the_others(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    turns = [
        {**SUMMARY, "holdAfter": 1},
        says("word " * 1_000),
        calls(bash(WAIT), usage={"input": 19_000, "output": 100}),
    ]
    flags = ["--session", str(path)]
    with stage(tmp_path / "killed", "pi", turns, flags=flags, model="fake/fake-small", settings=SETTINGS) as host:
        host.prompt("first")
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.until("tool_execution_start")
        host.request("steer", message="one")
        host.request("steer", message="two")
        host.go.open()
        host.until_asked(3)  # for a summary, between two turns
        assert host.request("clear_queue")["data"] == {"steering": ["two"], "followUp": []}
    with stage(tmp_path / "calm", "pi", [CALM], flags=flags, model="fake/fake-1") as host:
        frames = host.prompt("go on")
        assert [text_of(frame["message"]) for frame in frames if is_end_of("user", frame)] == ["go on", "one"]
