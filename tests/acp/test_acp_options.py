"""Modes and options of an ACP session. Changes take effect at once, and both sides learn about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.acp import Client, acp
from tests.support.stage import bash, calls, says

MODES = ["auto", "write", "ask", "deny"]


def values(result: dict[str, Any]) -> dict[str, Any]:
    return {option["id"]: option["currentValue"] for option in result["configOptions"]}


def begun(client: Client) -> tuple[str, dict[str, Any]]:
    result = client.call("session/new", cwd=client.cwd, mcpServers=[])
    return result["sessionId"], result


def test_a_session_shows_its_mode_as_a_mode_and_as_an_option(tmp_path: Path) -> None:
    with acp(tmp_path, flags=["--approval", "ask"]) as client:
        _, result = begun(client)
        assert result["modes"]["currentModeId"] == "ask"
        assert [mode["id"] for mode in result["modes"]["availableModes"]] == MODES
        assert values(result)["mode"] == "ask"


@pytest.mark.parametrize("way", ["mode", "option"])
def test_the_approval_mode_changes_at_run_time(tmp_path: Path, way: str) -> None:
    def change(client: Client, session: str, mode: str) -> None:
        if way == "mode":
            client.call("session/set_mode", sessionId=session, modeId=mode)
        else:
            client.call("session/set_config_option", sessionId=session, configId="mode", value=mode)

    with acp(tmp_path, [calls(bash("echo x >> out")), says("ok")] * 4) as client:
        session, _ = begun(client)
        assert client.prompt(session) == "end_turn"
        change(client, session, "deny")
        assert client.prompt(session) == "end_turn"
        change(client, session, "ask")
        prompt = client.begin(session, "go")
        client.permit(client.asked("session/request_permission"), "allow_once")
        client.answer_to(prompt)
        change(client, session, "auto")
        assert client.prompt(session) == "end_turn"
        assert Path(client.cwd, "out").read_text() == "x\nx\nx\n"
        asked = [frame for frame in client.host.frames if frame.get("method") == "session/request_permission"]
        assert len(asked) == 1
        other = "config_option_update" if way == "mode" else "current_mode_update"
        assert len(client.updates(session, other)) == 3


def test_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    with acp(tmp_path) as client:
        session, _ = begun(client)
        assert client.refusal("session/set_mode", sessionId=session, modeId="nope")["code"] == -32602
        assert client.refusal("session/set_config_option", sessionId=session, configId="mode", value="nope")["code"] == -32602
        assert client.refusal("session/set_config_option", sessionId=session, configId="mode", value=True)["code"] == -32602


EXTENSION = """
def setup(fl):
    @fl.register_command("quicker", description="Another model")
    async def quicker(arguments, context):
        fl.set_model("fake/fake-2")

    @fl.register_command("more", description="Another command")
    async def more(arguments, context):
        fl.register_command("added", lambda arguments, context: None, description="Added")
"""


def test_a_change_by_an_extension_is_announced(tmp_path: Path) -> None:
    with acp(tmp_path, files={"ext.py": EXTENSION}, flags=["-e", "ext.py"]) as client:
        session, _ = begun(client)
        client.until("available_commands_update")
        assert client.prompt(session, "/quicker") == "end_turn"
        assert values(client.until("config_option_update"))["model"] == "fake/fake-2"


def test_the_todos_of_the_model_are_a_plan(tmp_path: Path) -> None:
    tasks = [{"content": "first", "status": "completed"}, {"content": "second", "status": "in_progress"}]
    ops = {"ops": [{"op": "replace", "phases": [{"name": "Work", "tasks": [*tasks, {"content": "third"}]}]}]}
    with acp(tmp_path, [calls(("todo_write", ops)), says("ok")]) as client:
        session, _ = begun(client)
        client.prompt(session)
        plan = client.updates(session, "plan")[-1]
        assert [(entry["content"], entry["status"]) for entry in plan["entries"]] == [
            ("first", "completed"),
            ("second", "in_progress"),
            ("third", "pending"),
        ]
        client.call("session/close", sessionId=session)
        since = client.host.mark()
        client.call("session/load", sessionId=session, cwd=client.cwd, mcpServers=[])
        assert client.updates(session, "plan", since=since)[-1] == plan
