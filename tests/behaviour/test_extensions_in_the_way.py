"""Extensions that hang, block or leave something running: an abort, a shutdown and the end of the host do not wait for them."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.host import PATIENCE, SOON
from tests.support.stage import Stage, says, stage
from tests.support.surroundings import FAIRLEAD, Surroundings, surroundings

from fairlead.testing import ProviderServer

HEADER = "import asyncio, os, threading, time\nfrom fairlead.extension import *\n"
FLAGS = ["-e", "ext.py"]

HANGING = (
    HEADER
    + """
def setup(fl):
    @fl.on("{event}")
    async def hang(event, context):
        context.ui.set_status("hanging", "{event}")
        await asyncio.sleep(600)
"""
)
BLOCKING = (
    HEADER
    + """
def setup(fl):
    @fl.on("input")
    def block_input(event, context):
        context.ui.set_status("hanging", "input")
        time.sleep(600)
    @fl.register_command("block")
    def block(arguments, context):
        context.ui.set_status("hanging", "command")
        while True:
            pass
"""
)


def until_it_hangs(host: Stage, command: dict[str, str]) -> None:
    host.send({"id": "c", **command})
    host.until("extension_ui_request", method="setStatus", statusKey="hanging")


# Code that waits

PROMPT, MOVE = {"type": "prompt", "message": "go"}, {"type": "new_session"}


@pytest.mark.parametrize(("event", "command"), [("session_start", PROMPT), ("session_shutdown", MOVE), ("input", PROMPT)])
@pytest.mark.parametrize("dialect", ["pi", "omp"])
def test_an_abort_and_a_shutdown_do_not_wait_for_a_hook(
    tmp_path: Path, dialect: str, event: str, command: dict[str, str]
) -> None:
    with stage(tmp_path, dialect, flags=FLAGS, files={"ext.py": HANGING.format(event=event)}) as host:
        until_it_hangs(host, command)
        assert host.request("abort")["success"]
        assert host.response("c")
        host.send({"id": "d", **PROMPT})
        host.send({"id": "bye", "type": "shutdown"})
        assert host.exit_code(SOON) == 0
        answered = {frame.get("id") for frame in host.frames if frame["type"] == "response"}
        assert {"c", "d", "bye"} <= answered


def test_a_shutdown_does_not_wait_for_a_hook_that_looks_at_what_is_queued(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", flags=FLAGS, files={"ext.py": HANGING.format(event="input")}) as host:
        until_it_hangs(host, {"type": "steer", "message": "x"})
        host.send({"id": "bye", "type": "shutdown"})
        assert host.exit_code(SOON) == 0
        assert host.response("c")["error"] == "Not done: the agent was told to shut down."
        assert host.response("bye")["success"]


# Code that blocks


@pytest.mark.parametrize("message", ["/block", "go"])
@pytest.mark.parametrize("ending", ["the host leaves", "SIGTERM", "SIGHUP"])
def test_a_process_ends_in_time_although_an_extension_blocks(tmp_path: Path, ending: str, message: str) -> None:
    with stage(tmp_path, "pi", flags=FLAGS, files={"ext.py": BLOCKING}) as host:
        until_it_hangs(host, {"type": "prompt", "message": message})
        if ending == "the host leaves":
            host.close_input()
        else:
            host.signal(signal.Signals[ending])
        assert host.exit_code(SOON) == {"the host leaves": 0, "SIGTERM": 143, "SIGHUP": 129}[ending]


def test_a_handler_that_raises_a_cancellation_ends_neither_the_prompt_nor_the_agent(tmp_path: Path) -> None:
    source = f"{HEADER}def setup(fl):\n    @fl.on('input')\n    def odd(event):\n        raise asyncio.CancelledError\n"
    with stage(tmp_path, "pi", flags=FLAGS, files={"ext.py": source}) as host:
        host.prompt("go")
        assert host.response("p")["success"]
        assert host.until("extension_error")["error"] == "CancelledError was raised, which does not end the agent."
        assert host.leave() == 0


# The command line

LEFTOVERS = {
    "a task that heeds no cancellation": """
async def heedless():
    while True:
        try:
            await asyncio.sleep(600)
        except BaseException:
            pass
tasks = []
def setup(fl):
    fl.on("session_start", lambda event: tasks.append(asyncio.get_running_loop().create_task(heedless())))
""",
    "a thread": "def setup(fl):\n    threading.Thread(target=time.sleep, args=(600,)).start()\n",
    "work at the end": "import atexit\ndef setup(fl):\n    atexit.register(time.sleep, 600)\n",
    "a farewell that blocks": "def setup(fl):\n    fl.on('session_shutdown', lambda event: time.sleep(600))\n",
}


def answer(around: Surroundings, *flags: str, program: tuple[str, ...] = (FAIRLEAD,)) -> subprocess.CompletedProcess[str]:
    argv = [*program, "-p", "--model", "fake/fake-1", "hi", *flags]
    return subprocess.run(
        argv, cwd=around.cwd, env=dict(around.env), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
    )


@pytest.mark.parametrize("left", LEFTOVERS)
def test_tasks_left_by_an_extension_do_not_block_the_exit(tmp_path: Path, left: str) -> None:
    with ProviderServer([says("ok")]) as provider:
        around = surroundings(tmp_path, provider.url, files={"ext.py": HEADER + LEFTOVERS[left]})
        done = answer(around, *FLAGS)
    assert (done.returncode, done.stdout) == (0, "ok\n")


PRINTING = (
    HEADER
    + """
os.write(1, b"stray\\n")
def setup(fl):
    os.system("echo stray")
    fl.register_flag("shiny")
"""
)


@pytest.mark.parametrize("flags", [["--shiny"], ["--mode", "json", "--shiny"], ["--list-models"]])
def test_output_printed_while_extensions_load_is_kept_out_of_the_answer(tmp_path: Path, flags: list[str]) -> None:
    with ProviderServer([says("ok")]) as provider:
        around = surroundings(tmp_path, provider.url, files={"ext.py": PRINTING})
        done = answer(around, *FLAGS, *flags)
    assert done.returncode == 0 and "stray" not in done.stdout and done.stderr.count("stray") == 2


def test_a_module_run_in_a_project_runs_nothing_of_the_project(tmp_path: Path) -> None:
    ran = f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\ndef setup(fl): pass\n"
    announced = {
        "evil-1.dist-info/entry_points.txt": "[fairlead.extensions]\nevil = evil:setup\n",
        "evil-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1\n",
    }
    with ProviderServer([says("ok")]) as provider:
        modules = {f"{name}.py": ran for name in ("evil", "uuid", "inspect", "hashlib")}
        around = surroundings(tmp_path, provider.url, files={**announced, **modules})
        done = answer(around, program=(sys.executable, "-m", "fairlead"))
    assert (done.returncode, done.stdout) == (0, "ok\n") and not (tmp_path / "ran").exists()
