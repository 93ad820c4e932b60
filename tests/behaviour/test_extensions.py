"""Extensions in a real agent over pipes: when they are loaded, what the host sees of them, how they end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.host import Frame
from tests.support.loaded import LOADED
from tests.support.opal import opal
from tests.support.stage import ENDLESS, HELD, bash, calls, says, stage

NAMES = ("ext.py", "-e", "ext.py")


def types(frames: list[Frame]) -> list[str]:
    """What was sent, without deltas."""
    return [frame["type"] for frame in frames if frame["type"] != "message_update"]


#: What an extension is made of that nearly every test needs.
SOURCE = """
import asyncio, os
from fairlead.extension import *

def setup(fl):
    armed = []
    @fl.register_command("boom", description="Throws")
    async def boom(arguments, context):
        raise RuntimeError("boom from command")
    @fl.register_command("say", description="Speaks")
    async def say(arguments, context):
        fl.send_user_message("from ext: " + arguments)
    @fl.register_command("msg")
    async def msg(arguments, context):
        fl.send_message("note", "custom content", details={"a": 1})
    @fl.register_command("log")
    async def log(arguments, context):
        print("stray stdout")
        os.system("echo from a child")
    @fl.register_command("bye")
    async def bye(arguments, context):
        context.shutdown()
    @fl.register_command("ask")
    async def ask(arguments, context):
        context.ui.notify(str(await context.ui.select("Pick", ["a", "b"])))
    @fl.register_command("arm")
    async def arm(arguments, context):
        armed.append(1)
    @fl.on("turn_start")
    async def turn(event):
        if armed:
            raise RuntimeError("turn_start exploded")
"""


@pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])
def test_commands_are_listed_and_run_before_their_answer_in_pi_and_after_it_in_omp(tmp_path: Path, dialect: str) -> None:
    with stage(tmp_path, dialect, flags=["-e", "ext.py"], files={"ext.py": SOURCE}) as host:
        command = host.request("get_commands")["data"]["commands"][0]
        assert command == {
            "name": "boom",
            "description": "Throws",
            "source": "extension",
            "sourceInfo": {
                "path": str(host.around.cwd / "ext.py"),
                "source": "cli",
                "scope": "temporary",
                "origin": "top-level",
            },
        }
        since = host.mark()
        assert host.request("prompt", message="/boom")["success"]
        assert host.request("prompt", message="/msg")["success"]
        error = host.until("extension_error", since=since)
        assert error == {
            "type": "extension_error",
            "extensionPath": "command:boom",
            "event": "command",
            "error": "boom from command",
        }
        host.until("message_end", since=since)
        told = [frame["type"] for frame in host.frames[since:] if frame["type"] != "prompt_result"]
        message = ["message_start", "message_end"]
        if dialect == "pi":
            assert told == ["extension_error", "response", *message, "response"]
        else:
            assert told == ["response", "extension_error", "response", *message], "each is acknowledged first"
        assert not host.provider.requests
        assert host.leave() == 0


def test_messages_of_a_command_to_the_agent_follow_its_answer(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", flags=["-e", "ext.py"], files={"ext.py": SOURCE}) as host:
        host.request("prompt", message="/arm")
        since = host.mark()
        host.prompt("/say hello")
        told = types(host.frames[since:])
        assert told[:4] == ["response", "agent_start", "extension_error", "turn_start"]
        error = host.until("extension_error", since=since)
        assert (error["extensionPath"], error["event"]) == (str(host.around.cwd / "ext.py"), "turn_start")
        assert host.until("message_start", since=since)["message"]["content"][0]["text"] == "from ext: hello"
        refused = host.request("steer", message="/say x")
        assert refused["error"] == (
            'Extension command "/say" cannot be queued. Use prompt() or execute the command when not streaming.'
        )


def test_a_command_that_asks_the_user_holds_nothing_up(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [HELD], flags=["-e", "ext.py"], files={"ext.py": SOURCE}) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        host.send({"id": "ask", "type": "prompt", "message": "/ask"})
        question = host.until("extension_ui_request", method="select")
        assert host.request("get_state")["data"]["isStreaming"]
        host.send({"type": "extension_ui_response", "id": question["id"], "value": "b"})
        assert host.until("extension_ui_request", method="notify")["message"] == "b"
        assert host.response("ask")["success"]
        host.provider.release()
        host.until("agent_settled")


def test_omp_answers_when_a_command_waits_and_reports_its_end(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", flags=["-e", "ext.py"], files={"ext.py": SOURCE}) as host:
        assert host.request("prompt", id="ask", message="/ask")["success"]
        question = host.until("extension_ui_request", method="select")
        host.prompt("go", id="go")
        assert host.until("prompt_result", id="go")["agentInvoked"]
        host.send({"type": "extension_ui_response", "id": question["id"], "value": "b"})
        assert not host.until("prompt_result", id="ask")["agentInvoked"]
        host.prompt("/say hello", id="say")
        result = host.until("prompt_result", id="say")
        assert (result["agentInvoked"], result["status"]) == (True, "completed")
        assert [frame["id"] for frame in host.frames if frame["type"] == "prompt_result"] == ["go", "ask", "say"]
        assert [frame["id"] for frame in host.frames if frame["type"] == "response"] == ["ask", "go", "say"]


def test_the_process_ends_after_the_answer_if_an_extension_wants_it_to(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", flags=["-e", "ext.py"], files={"ext.py": SOURCE}) as host:
        assert host.request("prompt", message="/bye")["success"]
        assert host.exit_code() == 0


def test_it_ends_only_when_the_run_has_settled(tmp_path: Path) -> None:
    source = "def setup(fl):\n    fl.on('turn_start', lambda event, context: context.shutdown())\n"
    with stage(tmp_path, "pi", flags=["-e", "ext.py"], files={"ext.py": source}) as host:
        host.prompt("hi")
        assert host.exit_code() == 0
        assert types(host.frames)[-2:] == ["agent_end", "agent_settled"]


def test_an_extension_that_fails_to_load_is_reported_and_the_agent_works(tmp_path: Path) -> None:
    source = "def setup(fl):\n    raise RuntimeError('load failure')\n"
    with stage(tmp_path, "pi", flags=["-e", "ext.py", "--extension-errors", "continue"], files={"ext.py": source}) as host:
        assert host.request("get_state")["success"]
        frames = host.prompt("hi")
        error = host.until("extension_error")
        assert (error["extensionPath"], error["event"], error["error"]) == (
            str(host.around.cwd / "ext.py"),
            "load",
            "load failure",
        )
        assert "agent_end" in types(frames)
        assert "RuntimeError: load failure" in host.stderr()


def test_nothing_that_is_printed_reaches_the_protocol(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", flags=["-e", "ext.py"], files={"ext.py": SOURCE}) as host:
        assert host.request("prompt", message="/log")["success"]
        assert host.leave() == 0
        assert types(host.frames) == ["response"]
        assert "stray stdout" in host.stderr() and "from a child" in host.stderr()


# When they are loaded

#: An extension whose import takes until the test says so.
WAITING = """
import os
with open(os.environ["HOME"] + "/began", "w") as began:
    began.write("x")
with open(os.environ["HOME"] + "/go") as go:
    go.readline()
def setup(fl):
    fl.register_command("here", lambda: None)
"""


def test_getters_do_not_wait_for_extensions_and_commands_do(tmp_path: Path) -> None:
    flags = ["-e", "ext.py", "--extension-errors", "continue"]
    with stage(tmp_path, "pi", flags=flags, files={"ext.py": WAITING}) as host:
        assert host.request("get_state")["success"]
        host.began.wait()
        host.send({"id": "c", "type": "get_commands"})
        host.go.open()
        assert [each["name"] for each in host.response("c")["data"]["commands"]] == ["here"]


def test_extensions_load_without_any_command(tmp_path: Path) -> None:
    source = "def setup(fl):\n    fl.on('session_start', lambda event, context: context.ui.set_status('k', event.reason))\n"
    with stage(tmp_path, "pi", flags=["-e", "ext.py"], files={"ext.py": source}) as host:
        assert host.until("extension_ui_request")["statusText"] == "startup"


def test_a_start_with_extensions_loads_nothing_of_them(tmp_path: Path) -> None:
    files = {f"ext{number}.py": "def setup(fl):\n    pass\n" for number in range(3)}
    with stage(tmp_path, "pi", files=files) as host:
        folder = host.around.home / "extensions"
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
        shown = subprocess.run(
            [sys.executable, "-c", LOADED, "--mode", "rpc", "--dialect", "pi"],
            input=b'{"type":"get_state"}\n',
            env=dict(host.around.env),
            cwd=host.around.cwd,
            capture_output=True,
            timeout=30,
            check=True,
        ).stderr.decode()
    loaded = {name for name in shown.split() if name.startswith("fairlead.extend")}
    assert loaded == {
        "fairlead.extend",
        "fairlead.extend.additions",
        "fairlead.extend.extensions",
        "fairlead.extend.extensions.late",
    }


def test_extensions_are_reloaded_without_leaving_the_session(tmp_path: Path) -> None:
    source = "def setup(fl):\n    fl.register_command('{}', lambda: None)\n"
    with stage(tmp_path, "pi", [says("ok"), ENDLESS], flags=["-e", "ext.py"], files={"ext.py": source.format("old")}) as host:
        host.prompt("hi")
        before = host.request("get_state")["data"]["sessionId"]
        (host.around.cwd / "ext.py").write_text(source.format("new"))
        assert host.request("reload")["data"] == {"extensions": ["ext"]}
        assert [each["name"] for each in host.request("get_commands")["data"]["commands"]] == ["new"]
        assert host.request("get_state")["data"]["sessionId"] == before
        host.send({"id": "p2", "type": "prompt", "message": "go on"})
        host.update("text_delta", since=host.mark())
        refused = host.request("reload")
        assert not refused["success"] and "while the agent is running" in refused["error"]
        host.request("abort")


# Providers


def test_requests_to_a_provider_are_seen_and_changed(tmp_path: Path) -> None:
    source = """
def setup(fl):
    @fl.on("before_provider_request")
    def change(event):
        event.payload["max_tokens"] = 7
    fl.on("before_provider_headers", lambda event: event.headers.update({"x-mine": "yes"}))
    fl.on("after_provider_response", lambda event, context: context.ui.notify(str(event.status)))
"""
    with stage(tmp_path, "pi", flags=["-e", "ext.py"], files={"ext.py": source}) as host:
        host.prompt("hi")
        request = host.provider.requests[-1]
        assert request.body["max_tokens"] == 7 and request.headers["x-mine"] == "yes"
        assert host.until("extension_ui_request")["message"] == "200"


def test_a_model_of_an_extension_can_be_chosen_at_the_start(tmp_path: Path) -> None:
    source = """
from fairlead.extension import *
async def stream(model, request, cancel):
    yield ThinkingContent("hm")
    yield "Hello, "
    yield request.messages[-1].content[0].text
    yield Usage(input=3, output=2)
def setup(fl):
    models = [{"id": "echo", "reasoning": True, "cost": {"input": 1, "output": 1}}]
    fl.register_provider("mine", {"models": models}, stream=stream)
"""
    with stage(tmp_path, "pi", flags=["-e", "ext.py"], files={"ext.py": source}, model="mine/echo") as host:
        assert host.request("get_available_models")["success"]
        assert host.request("get_state")["data"]["model"]["id"] == "echo"
        host.prompt("world")
        assert host.request("get_last_assistant_text")["data"]["text"] == "Hello, world"
        assert host.request("get_session_stats")["data"]["tokens"]["input"] == 3


def test_a_model_that_no_extension_has_is_an_error_at_the_start(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", flags=["-e", "ext.py"], files={"ext.py": SOURCE}, model="mine/echo") as host:
        assert host.exit_code() == 1
        assert "mine/echo" in host.stderr() and host.frames == []


def test_commands_of_the_host_can_be_run_by_an_extension(tmp_path: Path) -> None:
    source = """
from fairlead.extension import *
def setup(fl):
    fl.on("user_bash", lambda event: Ran("elsewhere\\n", exit_code=4) if "away" in event.command else None)
"""
    with stage(tmp_path, "pi", flags=["-e", "ext.py"], files={"ext.py": source}) as host:
        done = host.request("bash", command="away")["data"]
        assert (done["output"], done["exitCode"]) == ("elsewhere\n", 4)
        assert host.request("bash", command="echo here")["data"]["output"] == "here\n"


# Trust and flags


def test_the_user_is_asked_whether_a_project_is_trusted_and_the_answer_is_kept(tmp_path: Path) -> None:
    files = {".fairlead/extensions/theirs.py": SOURCE}
    with stage(tmp_path, "pi", files=files) as host:
        host.send({"id": "c", "type": "get_commands"})
        question = host.until("extension_ui_request", method="confirm")
        assert str(host.around.cwd) in question["message"]
        host.send({"type": "extension_ui_response", "id": question["id"], "confirmed": True})
        assert host.response("c")["data"]["commands"][0]["sourceInfo"]["scope"] == "project"
        host.leave()
        cwd = str(host.around.cwd.resolve())
        saved = json.loads((host.around.home / "trust.json").read_text())
        assert list(saved) == [cwd] and list(saved[cwd]["code"][cwd]) == [".fairlead/extensions"]


def test_an_untrusted_project_runs_no_code_and_the_session_works(tmp_path: Path) -> None:
    files = {".fairlead/extensions/theirs.py": "raise RuntimeError('ran')"}
    with stage(tmp_path, "pi", files=files, flags=["--verbose"]) as host:
        host.send({"id": "p", "type": "prompt", "message": "hi"})
        question = host.until("extension_ui_request", method="confirm")
        host.send({"type": "extension_ui_response", "id": question["id"], "cancelled": True})
        host.until("agent_settled")
        assert "fairlead trust" in host.stderr() and "RuntimeError" not in host.stderr()
        assert not (host.around.home / "trust.json").exists()


@pytest.mark.parametrize("flag", ["--approve", "--no-approve"])
def test_flags_decide_about_a_project_for_one_run(tmp_path: Path, flag: str) -> None:
    with stage(tmp_path, "pi", flags=[flag], files={".fairlead/extensions/theirs.py": SOURCE}) as host:
        assert bool(host.request("get_commands")["data"]["commands"]) == (flag == "--approve")


FLAGS = """
def setup(fl):
    plan, depth = fl.register_flag("plan"), fl.register_flag("depth", "string", "shallow")
    fl.register_command("flags", lambda arguments, context: context.ui.notify(f"{plan} {depth} {fl.get_flag('depth')}"))
"""


@pytest.mark.parametrize(
    ("flags", "shown"),
    [([], "None shallow shallow"), (["--plan"], "True shallow shallow"), (["--depth", "deep", "--plan"], "True deep deep")],
)
def test_flags_of_extensions_are_accepted(tmp_path: Path, flags: list[str], shown: str) -> None:
    with stage(tmp_path, "pi", flags=["-e", "ext.py", *flags], files={"ext.py": FLAGS}) as host:
        host.request("prompt", message="/flags")
        assert host.until("extension_ui_request")["message"] == shown


@pytest.mark.parametrize("flags", [["--plann"], ["-e", "ext.py", "--plann"], ["-ne", "--plann"]])
def test_a_flag_that_no_extension_has_is_refused(tmp_path: Path, flags: list[str]) -> None:
    with stage(tmp_path, "pi", flags=flags, files={"ext.py": FLAGS}) as host:
        assert host.exit_code() == 2
        assert "Unknown flag --plann." in host.stderr() and host.frames == []


# Many calls at once


def test_a_slow_question_about_one_call_holds_up_no_other(tmp_path: Path) -> None:
    source = """
def setup(fl):
    @fl.on("tool_call")
    async def ask(event, context):
        if "first" in event.arguments["command"]:
            await context.ui.confirm("Run it?")
"""
    turns = [calls(bash("echo first"), bash("echo second")), says("ok")]
    settings = {"extensionTimeoutSeconds": 0.2}  # which does not count while the user is asked
    with stage(tmp_path, "pi", turns, flags=["-e", "ext.py"], files={"ext.py": source}, settings=settings) as host:
        host.send({"id": "p", "type": "prompt", "message": "hi"})
        question = host.until("extension_ui_request", method="confirm")
        assert host.until("tool_execution_end")["result"]["content"][0]["text"] == "second\n"
        host.request("bash", command="sleep 0.4")
        host.send({"type": "extension_ui_response", "id": question["id"], "confirmed": True})
        host.until("agent_settled")
        assert [frame["isError"] for frame in host.frames if frame["type"] == "tool_execution_end"] == [False, False]


def test_state_follows_a_branch_of_opal_too(tmp_path: Path) -> None:
    source = """
def setup(fl):
    @fl.register_tool
    def count() -> int:
        "Count."
        fl.state["n"] = fl.state.get("n", 0) + 1
        return fl.state["n"]
"""
    turns = [turn for _ in range(3) for turn in (calls(("count", {})), says("Done."))]
    with opal(tmp_path, turns, flags=["-e", "ext.py"], files={"ext.py": source}) as client:
        session = client.start()
        counted = [_counted(client.prompt(session, text)) for text in ("one", "two")]
        answer = client.call("session/history", session_id=session)["messages"][3]
        client.call("session/branch", session_id=session, entry_id=answer["id"])
        counted.append(_counted(client.prompt(session, "three")))
        assert counted == ["1", "2", "2"]


def _counted(events: list[Frame]) -> str:
    (end,) = [event for event in events if event["type"] == "tool_execution_end"]
    return end["result"]["output"]
