"""ACP clients of omp and xcsh: what these ask before, fairlead asks before under their names."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.acp import Client
from tests.support.stage import bash, calls, says, stage

TURNS = [calls(bash("echo hi > made")), says("done")]


@pytest.mark.parametrize("program", ["omp@18", "xcsh@19"])
def test_commands_need_consent_under_the_name_of_a_program_that_asks(program: str, tmp_path: Path) -> None:
    with stage(tmp_path, program, TURNS, flags=["--mode", "acp"]) as host:
        client = Client(host)
        client.initialize()
        session = client.new()
        prompt = client.begin(session, "go")
        request = client.asked("session/request_permission")
        assert not (host.around.cwd / "made").exists()
        client.permit(request, "reject_once")
        assert client.answer_to(prompt)["result"]["stopReason"] == "end_turn"
        assert not (host.around.cwd / "made").exists()


@pytest.mark.parametrize("flags", [["--approval", "auto"], ["--approval-mode", "yolo"]])
def test_the_command_line_can_let_commands_run(flags: list[str], tmp_path: Path) -> None:
    with stage(tmp_path, "omp@18", TURNS, flags=["--mode", "acp", *flags]) as host:
        client = Client(host)
        client.initialize()
        assert client.prompt(client.new()) == "end_turn"
        assert (host.around.cwd / "made").read_text() == "hi\n"


def test_settings_that_are_stricter_hold(tmp_path: Path) -> None:
    turns = [calls(bash("echo hi > made")), says("done")]
    with stage(tmp_path, "omp@18", turns, flags=["--mode", "acp"], settings={"approvals": {"mode": "deny"}}) as host:
        client = Client(host)
        client.initialize()
        assert client.prompt(client.new()) == "end_turn"
        assert not (host.around.cwd / "made").exists()


def test_rpc_hosts_are_not_asked(tmp_path: Path) -> None:
    with stage(tmp_path, "omp@18", TURNS) as host:
        host.prompt("go")
        assert (host.around.cwd / "made").read_text() == "hi\n"
