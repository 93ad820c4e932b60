"""Kills the command line at random moments of a run and resumes it, until the run is done: nothing is done twice.

fairlead -p PROMPT                         the first attempt
fairlead --continue --resume-run -p        each attempt after a kill
"""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.host import PATIENCE
from tests.support.session_file import read_strictly, text_of
from tests.support.stage import Turn
from tests.support.surroundings import FAIRLEAD, Surroundings, surroundings

from fairlead.core.calls.turn import INTERRUPTED
from fairlead.testing import ProviderServer

#: How many turns of a run call tools.
TURNS = 4
#: Kills of one run at most. The next attempt is left alone.
MOST_KILLS = 8


def run_with_kills(root: Path, seed: int) -> int:
    """Complete one run in spite of kills, and check what it left. Returns how many attempts were killed."""
    chance = random.Random(f"run {seed}")
    kills = 0
    with ProviderServer(lambda body: answer(body, seed)) as provider:
        around = surroundings(root, provider.url)
        (around.cwd / "notes").write_text("what there is to read")
        while not attempt(around, chance, is_last=kills == MOST_KILLS):
            kills += 1
    check(around)
    return kills


def answer(body: Any, seed: int) -> Turn:
    """Return the next turn, chosen by the answers that the request has: every attempt continues where the last one ended."""
    number = sum(message["role"] == "assistant" for message in body["messages"])
    chance = random.Random(f"{seed}.{number}")
    if number >= TURNS:
        return {"text": "All of it is done.", "chunk": 2, "delayMs": 1}
    calls: list[dict[str, Any]] = []
    for place in range(chance.randint(1, 3)):
        name = f"call_{number}_{place}"
        command = f"sleep {chance.uniform(0, 0.05):.3f}; echo {name} >> ledger; sleep {chance.uniform(0, 0.05):.3f}"
        is_read = chance.random() < 0.3
        arguments = {"path": "notes"} if is_read else {"command": command}
        calls.append({"id": name, "name": "read" if is_read else "bash", "arguments": arguments})
    return {"text": "Next.", "toolCalls": calls, "delayMs": chance.choice((0, 1))}


def attempt(around: Surroundings, chance: random.Random, *, is_last: bool) -> bool:
    """Start or resume the run and kill it after a while. Returns whether it was done before that."""
    has_begun = any((around.home / "sessions").rglob("*.jsonl"))
    work = ["--continue", "--resume-run", "-p"] if has_begun else ["-p", "Do all of it."]
    command = [FAIRLEAD, "--model", "fake/fake-1", *work]
    with subprocess.Popen(
        command,
        cwd=around.cwd,
        env=around.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        if not is_last:
            time.sleep(chance.uniform(0.1, 2))
            process.kill()
        said, errors = process.communicate(timeout=4 * PATIENCE)
    if process.returncode == 1 and "no interrupted run" in errors:
        return True  # the attempt before this one was killed after its run had ended
    assert process.returncode == -9 or (process.returncode, said) == (0, "All of it is done.\n"), (process.returncode, errors)
    return process.returncode == 0


def check(around: Surroundings) -> None:
    """Check what the run left: each message once, a result for each call, no command that ran twice."""
    (path,) = (around.home / "sessions").rglob("*.jsonl")
    lines = read_strictly(path)
    assert (lines.torn, lines.waiting()) == (b"", [])
    assert lines.user_texts() == ["Do all of it."]
    answers = [each for each in lines.with_role("assistant") if each["stopReason"] not in ("aborted", "error")]
    assert [each["stopReason"] for each in answers] == [*["toolUse"] * TURNS, "stop"]
    calls = [block for each in answers for block in each["content"] if block["type"] == "toolCall"]
    results = lines.with_role("toolResult")
    # Calls that run at the same time may end in any order.
    asked, given = sorted(call["id"] for call in calls), sorted(each["toolCallId"] for each in results)
    assert asked == given, (asked, given)
    ledger = around.cwd / "ledger"
    ran = Counter(ledger.read_text().split() if ledger.exists() else [])
    assert not [name for name, count in ran.items() if count > 1], ran
    texts = {each["toolCallId"]: text_of(each) for each in results}
    for call in calls:
        text = texts[call["id"]]
        if call["name"] == "read":
            assert text.startswith("what there is to read"), text
        elif text != INTERRUPTED:
            assert text == "(no output)" and ran[call["id"]] == 1, (call["id"], text)
