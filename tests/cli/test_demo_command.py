"""`fairlead demo`: what its script answers. tests/system/test_chat_demo.py plays it in a terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.cli.command import Command

from fairlead import Agent, Allow, ApprovalRequest, Deny
from fairlead.cli.subcommands import replay


def play(folder: Path, answer: Allow | Deny) -> tuple[Agent, list[ApprovalRequest]]:
    (folder / "mean.py").write_text(replay.PROGRAM)
    asked: list[ApprovalRequest] = []

    def decide(request: ApprovalRequest) -> Allow | Deny:
        asked.append(request)
        return answer

    stream = replay.ScriptedRepair(pace=0)
    return Agent(model=replay.MODEL, stream=stream, cwd=folder, isolated=True, approval="write", on_approval=decide), asked


async def test_the_demonstration_asks_once_and_repairs_the_program(tmp_path: Path) -> None:
    agent, asked = play(tmp_path, Allow())
    async with agent:
        answer = (await agent.ask(replay.TASK)).text
        assert answer.startswith(replay.WORKS) and "fairlead login" in answer
        assert "I am a script" in (await agent.ask("and now?")).text
    assert [request.tool_name for request in asked] == ["bash"]
    assert "if numbers else 0" in (tmp_path / "mean.py").read_text()


async def test_the_demonstration_does_not_claim_what_was_denied(tmp_path: Path) -> None:
    agent, _ = play(tmp_path, Deny())
    async with agent:
        assert (await agent.ask(replay.TASK)).text.startswith(replay.NOT_RUN)


async def test_the_demonstration_names_a_command_that_the_person_can_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = Path(sys.executable).with_name("fairlead")
    for path, command in ((str(installed.parent), "fairlead"), (str(tmp_path), str(installed))):
        monkeypatch.setenv("PATH", path)
        agent, _ = play(tmp_path, Deny())
        async with agent:
            assert f"run `{command} login`" in (await agent.ask(replay.TASK)).text


def test_demo_takes_no_arguments_and_needs_a_terminal(fairlead: Command) -> None:
    assert "takes no arguments" in fairlead("demo", "x").stderr
    assert "needs a terminal" in fairlead("demo").stderr
