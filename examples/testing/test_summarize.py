"""Tests of a host without a model and without a key: `pytest examples/testing`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from summarize import summarize

from fairlead.testing import MakeAgent, MakeProcess, MakeReplay

WRITE = {"toolCalls": [{"name": "write", "arguments": {"path": "notes.txt", "content": "changed"}}]}


# A scripted model


def test_the_summary_is_the_answer_of_the_model(fairlead_process: MakeProcess) -> None:
    with fairlead_process("Three notes about lamps.").sync_client() as client:
        assert summarize(client, "notes.txt") == "Three notes about lamps."


def test_the_agent_may_change_nothing(fairlead_process: MakeProcess) -> None:
    agent = fairlead_process(WRITE, "I could not write.", flags=["--approval", "ask"])
    with agent.sync_client() as client:
        assert summarize(client, "notes.txt") == "I could not write."
    assert not (agent.cwd / "notes.txt").exists()


def test_a_failure_of_the_provider_is_reported(fairlead_process: MakeProcess) -> None:
    with fairlead_process({"status": 400, "error": "no such model"}).sync_client() as client:
        assert "no such model" in summarize(client, "notes.txt")


# A recording


def test_a_recorded_session(fairlead_replay: MakeReplay) -> None:
    recording = Path(__file__).with_name("summarize.jsonl")
    with fairlead_replay(recording).sync_client() as client:
        assert summarize(client, "notes.txt") == "The file has three notes about lamps."


# An agent in this process


def test_a_program_that_uses_the_library(fairlead_agent: MakeAgent) -> None:
    async def work() -> str:
        async with fairlead_agent("Three notes about lamps.") as agent:
            return str(await agent.ask("Summarize notes.txt in one sentence."))

    assert asyncio.run(work()) == "Three notes about lamps."
