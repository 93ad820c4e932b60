"""Cancels at random moments: each prompt gets exactly one answer, and the session takes the next prompt."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from tests.support.acp import Client, acp
from tests.support.stage import bash, calls, says

SETTINGS = {
    "approvals": {"mode": "auto", "rules": [{"tool": "write", "action": "ask"}]},
    "retry": {"maxRetries": 2, "baseDelayMs": 20},
}
TURNS = [
    says("some words " * 20, delayMs=1),
    calls(bash("echo begin; sleep 0.05; echo end"), text="I run this"),
    calls(("write", {"path": "x", "content": "y"})),
    calls(("ask", {"questions": [{"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]}]})),
    {"status": 503, "error": "busy"},
    says("short"),
]


def play(tmp_path: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    with acp(tmp_path, [*TURNS] * rounds, settings=SETTINGS) as client:
        session = client.new()
        for _ in range(rounds):
            prompts = [client.begin(session, "go")]
            _act(client, session, prompts, chance)
            client.cancel(session)
            for prompt in prompts:
                answer = client.answer_to(prompt)
                assert answer.get("result", {}).get("stopReason") in ("cancelled", "end_turn"), answer
            client.host.frames.clear()


def _act(client: Client, session: str, prompts: list[int], chance: random.Random) -> None:
    """Let some time pass, answer some questions, and send more prompts."""
    end = time.monotonic() + chance.random() * 0.12
    seen = 0
    while time.monotonic() < end:
        frames = client.host.frames[seen:]
        seen += len(frames)
        for frame in frames:
            if frame.get("method") == "session/request_permission" and chance.random() < 0.7:
                client.permit(frame, "allow_once")
            elif frame.get("method") == "elicitation/create" and chance.random() < 0.7:
                client.answer(frame, action="accept", content={"answer": "a"})
        if chance.random() < 0.05:
            prompts.append(client.begin(session, "and this"))
        time.sleep(0.005)


def test_every_prompt_is_answered_once_whenever_it_is_cancelled(tmp_path: Path) -> None:
    play(tmp_path, 25, seed=1)


@pytest.mark.system
@pytest.mark.timeout(900)
def test_every_prompt_is_answered_once_in_five_hundred_rounds(tmp_path: Path) -> None:
    play(tmp_path, 500, seed=2)
