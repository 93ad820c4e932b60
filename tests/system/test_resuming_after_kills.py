"""Workers are killed at random moments until their run is done: nothing is lost, and nothing is done twice.

A failure prints its seed: `RESUME_SEED=<seed> make test-system ARGS="-k resuming_after"` plays that one alone.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.system.killed_worker import TURNS

from fairlead.core.calls.turn import INTERRUPTED
from fairlead.session.history.reading import read_session

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

RUNS = 16
#: Workers of one run that are killed at most. The next one works in peace.
MOST_KILLS = 12
WORKER = Path(__file__).parent / "killed_worker.py"
ROOT = WORKER.parents[2]


def test_runs_of_killed_workers_are_completed_without_repeating_a_command(tmp_path: Path) -> None:
    wanted = os.environ.get("RESUME_SEED")
    seeds: list[str] = [wanted] if wanted else [f"run-{number}" for number in range(RUNS)]
    with ThreadPoolExecutor(2) as pool:
        kills = sum(pool.map(run, [tmp_path / seed for seed in seeds], seeds))
    print(f"\n{kills} kills in {len(seeds)} runs")
    assert wanted or kills > RUNS, "most runs are killed more than once"


def run(folder: Path, seed: str) -> int:
    """One run, and its end. Returns how many workers were killed."""
    folder.mkdir()
    (folder / "notes").write_text("what there is to read")
    chance = random.Random(seed)
    kills = 0
    while not work(folder, seed, None if kills == MOST_KILLS else chance.uniform(0, 0.4)):
        kills += 1
    try:
        check(folder)
    except AssertionError as error:
        raise AssertionError(f"RESUME_SEED={seed!r} failed after {kills} kills: {error}") from error
    return kills


def work(folder: Path, seed: str, seconds: float | None) -> bool:
    """Let a worker work, and kill it after some seconds. Returns whether it was done before that."""
    argv = [sys.executable, str(WORKER), str(folder), seed]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as process:
        assert process.stdout is not None
        process.stdout.readline()
        if seconds is not None:
            time.sleep(seconds)
            process.kill()
        said = process.stdout.read()  # not `communicate`, which does not see what `readline` has read ahead
        process.wait(timeout=120)
        if process.returncode == -9:
            return "done" in said
        assert (process.returncode, said) == (0, "done\n")
        return True


def check(folder: Path) -> None:
    """Check what the run has left: every message once, a result for each call, and no command that ran twice."""
    log, problems = read_session(next((folder / "sessions").glob("*.jsonl")))
    assert problems == []
    messages: list[dict[str, Any]] = json.loads(log.messages_json())
    assert [each["role"] for each in messages].count("user") == 1
    answers = [each for each in messages if each["role"] == "assistant"]
    assert [each["stopReason"] for each in answers] == [*["toolUse"] * TURNS, "stop"]
    calls = [block for each in answers for block in each["content"] if block["type"] == "toolCall"]
    results = {each["toolCallId"]: each for each in messages if each["role"] == "toolResult"}
    assert [call["id"] for call in calls] == [each["toolCallId"] for each in messages if each["role"] == "toolResult"]
    ran = Counter((folder / "ledger").read_text().split()) if (folder / "ledger").exists() else Counter[str]()
    assert not [name for name, count in ran.items() if count > 1], ran
    for call in calls:
        text = results[call["id"]]["content"][0]["text"]
        if call["name"] == "read":
            assert text == "what there is to read", text
        elif text != INTERRUPTED:
            assert text == "(no output)" and ran[call["id"]] == 1, (call["id"], text)
