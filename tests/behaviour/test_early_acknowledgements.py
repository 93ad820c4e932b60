"""omp and xcsh acknowledge a prompt before what may take long: extensions and commands for keys. What fails then is late."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.host import Frame
from tests.support.session_file import read_strictly, text_of
from tests.support.stage import BEGAN, WAIT, Stage, another, says, stage

FLAGS = ["-e", "ext.py"]
HOOK = """
from fairlead.extension import *

def setup(fl):
    @fl.on("{event}")
    async def ask(event, context):
        await context.ui.confirm("May it go on?", "?")
"""
COMMAND = """
from fairlead.extension import *

def setup(fl):
    @fl.register_command("ask")
    async def ask(arguments, context):
        await context.ui.confirm("May it go on?", "?")
"""
#: The same in an extension written for pi, which blocks its process too, so that it cannot say that it waits.
BLOCKING = """
import { openSync, readSync } from "node:fs";
export default function (pi: any) {
  pi.registerCommand("ask", { handler: async () => { readSync(openSync(process.env.HOME + "/go", "r"), Buffer.alloc(1)); } });
}
"""
EARLY = pytest.mark.parametrize("dialect", ["omp", "xcsh"])
PROMPTS = pytest.mark.parametrize("command", ["prompt", "abort_and_prompt"])


def responses(host: Stage, id: str) -> list[bool]:
    """The responses with this id so far: whether each is a success."""
    return [frame["success"] for frame in host.frames if frame["type"] == "response" and frame.get("id") == id]


def answer(host: Stage, question: Frame) -> None:
    host.send({"type": "extension_ui_response", "id": question["id"], "confirmed": True})


@PROMPTS
@EARLY
@pytest.mark.parametrize("event", ["session_start", "input", "before_agent_start"])
def test_a_prompt_is_acknowledged_before_a_hook_that_waits(dialect: str, command: str, event: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("done")], flags=FLAGS, files={"ext.py": HOOK.format(event=event)}) as host:
        host.send({"id": "p", "type": command, "message": "go"})
        question = host.until("extension_ui_request", method="confirm")
        assert host.response("p")["success"], "the question is not answered yet"
        answer(host, question)
        host.until("agent_end")
        assert host.request("get_last_assistant_text")["data"]["text"] == "done"
        assert responses(host, "p") == [True]


@PROMPTS
@EARLY
def test_a_prompt_that_runs_a_command_of_an_extension_is_acknowledged_first(dialect: str, command: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, flags=FLAGS, files={"ext.py": COMMAND}) as host:
        host.send({"id": "p", "type": command, "message": "/ask"})
        question = host.until("extension_ui_request", method="confirm")
        assert responses(host, "p") == [True]
        answer(host, question)
        assert host.request("get_state")["data"]["isStreaming"] is False
        assert responses(host, "p") == [True]


@EARLY
def test_a_prompt_is_acknowledged_before_a_command_that_blocks_the_process_of_extensions(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, flags=["-e", "ext.ts"], files={"ext.ts": BLOCKING}) as host:
        host.send({"id": "p", "type": "prompt", "message": "/ask"})
        assert host.response("p")["success"]
        host.go.open()
        assert host.request("get_commands")["success"]
        if dialect == "omp":
            host.until("prompt_result", id="p", status="completed")


@PROMPTS
@EARLY
def test_a_prompt_is_acknowledged_before_a_command_that_prints_the_key(dialect: str, command: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("done")], api_key=f"!{BEGAN}; {WAIT}; echo sk-late") as host:
        host.send({"id": "p", "type": command, "message": "go"})
        host.began.wait()
        assert host.response("p")["success"]
        assert host.request("get_state")["data"]["isStreaming"], "later requests are served, and see the prompt"
        host.go.open()
        host.until("agent_end")
        assert responses(host, "p") == [True]


@PROMPTS
@EARLY
def test_a_prompt_that_fails_after_its_acknowledgement_has_one_late_error(dialect: str, command: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, api_key=f"!{BEGAN}; {WAIT}; exit 1") as host:
        host.send({"id": "p", "type": command, "message": "go"})
        host.began.wait()
        assert responses(host, "p") in ([], [True])
        host.go.open()
        error = host.until("response", id="p", success=False)
        assert error["command"] == command and "key" in error["error"].lower()
        assert responses(host, "p") == [True, False]
        if dialect == "omp":
            assert host.until("prompt_result", id="p")["status"] == "error"
        assert not any(frame["type"] == "agent_start" for frame in host.frames)
        assert host.request("get_state")["data"]["isStreaming"] is False


#: A hook that asks and then replaces what the user said.
REWRITING = """
from fairlead.extension import Transform

def setup(fl):
    @fl.on("input")
    async def ask(event, context):
        await context.ui.confirm("May it go on?", "?")
        return Transform(event.text + ", please")
"""


def saved(path: Path) -> tuple[list[str], list[str]]:
    """What the user said according to a session file, and what waits in it."""
    lines = read_strictly(path)
    return lines.user_texts(), [text_of(message) for message in lines.waiting()]


@PROMPTS
@EARLY
@pytest.mark.parametrize("event", ["session_start", "input", "before_agent_start"])
def test_an_acknowledged_prompt_survives_a_kill_while_a_hook_waits(
    dialect: str, command: str, event: str, tmp_path: Path
) -> None:
    path = tmp_path / "s.jsonl"
    flags = [*FLAGS, "--session", str(path)]
    with stage(tmp_path, dialect, [says("done")], flags=flags, files={"ext.py": HOOK.format(event=event)}) as host:
        host.send({"id": "p", "type": command, "message": "go"})
        host.until("extension_ui_request", method="confirm")
        assert host.response("p")["success"]
        host.process.kill()
        host.exit_code()
        assert saved(path) == ([], ["go"])
        with another(host, dialect, "--session", str(path)) as later:
            later.request("prompt", message="and now?")
            later.until("agent_end")
            assert later.request("get_state")["success"]
    assert sorted(saved(path)[0]) == ["and now?", "go"] and saved(path)[1] == []


@pytest.mark.parametrize(("source", "said"), [(HOOK.format(event="input"), "go"), (REWRITING, "go, please")])
@EARLY
def test_a_prompt_that_was_held_is_in_the_file_once(dialect: str, source: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    flags = [*FLAGS, "--session", str(path)]
    with stage(tmp_path, dialect, [says("done")], flags=flags, files={"ext.py": source}) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        answer(host, host.until("extension_ui_request", method="confirm"))
        host.until("agent_end")
        assert host.request("get_state")["data"]["isStreaming"] is False
        assert saved(path) == ([said], [])


@EARLY
def test_a_held_prompt_that_fails_waits_no_longer(dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    flags = [*FLAGS, "--session", str(path)]
    with stage(tmp_path, dialect, flags=flags, files={"ext.py": HOOK.format(event="input")}) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.until("extension_ui_request", method="confirm")
        assert host.request("abort")["success"]
        host.until("response", id="p", success=False)
        assert saved(path) == ([], [])
        host.leave()
        assert not list(tmp_path.glob("s.jsonl*")), "nothing was said in the session"


@EARLY
def test_an_abort_of_an_acknowledged_prompt_is_its_late_error(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, flags=FLAGS, files={"ext.py": HOOK.format(event="input")}) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.until("extension_ui_request", method="confirm")
        host.response("p")
        assert host.request("abort")["success"]
        host.until("response", id="p", success=False)
        assert responses(host, "p") == [True, False]


@EARLY
def test_a_shutdown_during_an_acknowledged_prompt_acknowledges_it_once(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, flags=FLAGS, files={"ext.py": HOOK.format(event="session_start")}) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.until("extension_ui_request", method="confirm")
        host.response("p")
        host.send({"id": "bye", "type": "shutdown"})
        assert host.exit_code() == 0
        assert responses(host, "p") == [True, False]


@EARLY
def test_prompts_in_one_write_keep_their_order_around_a_hook(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, flags=FLAGS, files={"ext.py": HOOK.format(event="input")}) as host:
        host.send_together(
            {"id": "p", "type": "prompt", "message": "one"},
            {"id": "q", "type": "prompt", "message": "two"},
            {"id": "s", "type": "get_state"},
        )
        question = host.until("extension_ui_request", method="confirm")
        assert host.response("s")["data"]["isStreaming"], "a getter sees the prompt before it"
        host.until("response", id="q", success=False)
        assert responses(host, "q") == [True, False] and responses(host, "p") == [True]
        answer(host, question)
        ended = host.until("agent_end")
        said = [each["content"][0]["text"] for each in ended["messages"] if each["role"] == "user"]
        assert said == ["one"]


@pytest.mark.parametrize("event", ["input", "before_agent_start"])
def test_in_pi_a_prompt_is_answered_when_it_has_been_accepted(event: str, tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [says("done")], flags=FLAGS, files={"ext.py": HOOK.format(event=event)}) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        question = host.until("extension_ui_request", method="confirm")
        assert responses(host, "p") == []
        answer(host, question)
        assert host.response("p")["success"]
        host.until("agent_settled")


#: Extensions that are still loading when the host prompts. They say so, and wait for the test.
SLOW = {
    "ext.py": """
import asyncio, os

async def setup(fl):
    open(os.environ["HOME"] + "/began", "w").write("x\\n")
    await asyncio.to_thread(lambda: open(os.environ["HOME"] + "/go").read(1))
    {then}
""",
    "ext.ts": """
import {{ promises as fs }} from "node:fs";
export default async function (pi: any) {{
  await fs.writeFile(process.env.HOME + "/began", "x\\n");
  await (await fs.open(process.env.HOME + "/go", "r")).read(Buffer.alloc(1), 0, 1);
  {then}
}}
""",
}
FAILS = {"ext.py": "raise ValueError('no rules')", "ext.ts": "throw new Error('no rules');"}
SLOWLY = pytest.mark.parametrize("name", list(SLOW))


@SLOWLY
@PROMPTS
@EARLY
def test_a_prompt_is_acknowledged_before_a_required_extension_is_loaded(
    dialect: str, command: str, name: str, tmp_path: Path
) -> None:
    source = SLOW[name].format(then="")
    with stage(tmp_path, dialect, [says("done")], flags=["-e", name], files={name: source}) as host:
        host.began.wait()
        host.send({"id": "p", "type": command, "message": "go"})
        assert host.response("p")["success"]
        assert host.frames[0]["type"] == "ready"
        assert host.provider.requests == []
        host.go.open()
        host.until("agent_end")
        assert host.request("get_last_assistant_text")["data"]["text"] == "done"
        assert responses(host, "p") == [True]


@SLOWLY
@EARLY
def test_an_extension_that_fails_after_an_acknowledgement_ends_the_process(dialect: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    flags = ["-e", name, "--session", str(path)]
    with stage(tmp_path, dialect, flags=flags, files={name: SLOW[name].format(then=FAILS[name])}) as host:
        host.began.wait()
        host.send({"id": "p", "type": "prompt", "message": "go"})
        assert host.response("p")["success"]
        assert saved(path) == ([], ["go"])
        host.go.open()
        error = host.until("response", id="p", success=False)
        assert "no rules" in error["error"]
        assert host.exit_code() == 1
        assert host.provider.requests == [] and responses(host, "p") == [True, False]


@EARLY
def test_other_commands_wait_until_a_required_extension_is_loaded(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, flags=["-e", "ext.py"], files={"ext.py": SLOW["ext.py"].format(then="")}) as host:
        host.began.wait()
        host.send({"id": "s", "type": "get_state"})
        host.go.open()
        assert host.response("s")["success"]
        assert host.frames[0]["type"] == "ready"


@EARLY
def test_a_prompt_during_the_load_of_an_extension_can_be_aborted(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, flags=["-e", "ext.py"], files={"ext.py": SLOW["ext.py"].format(then="")}) as host:
        host.began.wait()
        host.send({"id": "p", "type": "prompt", "message": "go"})
        assert host.response("p")["success"]
        assert host.request("abort")["success"]
        host.until("response", id="p", success=False)
        host.go.open()
        assert host.request("get_tools")["success"]
        assert host.provider.requests == []
