"""Extensions that fail, hang, print or try to end the process: the agent continues."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from tests.extend.extended import calling, extended

from fairlead import Discovery
from fairlead.core.messages import ToolCall
from fairlead.testing import Turn

HEADER = "import asyncio, sys, time\nfrom fairlead.extension import *\n"
#: A deadline that a test does not wait long for.
SHORT = '{"extensionTimeoutSeconds": 0.4}'
LATE = "Stopped because it was not done after 0.4 seconds."
#: What a handler can do wrong, and what is told of it.
FAILURES = [
    ("raise RuntimeError('boom')", "boom"),
    ("raise KeyError('k')", "KeyError: 'k'"),
    ("raise ValueError", "ValueError"),
    ("sys.exit(1)", "SystemExit was raised, which does not end the agent."),
    ("raise KeyboardInterrupt", "KeyboardInterrupt was raised, which does not end the agent."),
    ("time.sleep(60)", LATE),
    ("while True: pass", LATE),
]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("def setup(fl):\n    raise RuntimeError('load failure')", "load failure"),
        ("def setup(fl:", "'(' was never closed (one.py, line 1)"),
        ("import nothing_of_the_kind", "No module named 'nothing_of_the_kind'"),
        ("x = 1", "one.py defines no function `setup(fl)`."),
        ("def setup(fl):\n    raise SystemExit(3)", "SystemExit was raised, which does not end the agent."),
        ("raise KeyboardInterrupt", "KeyboardInterrupt was raised, which does not end the agent."),
        ("class Odd(BaseException): pass\nraise Odd", "Odd was raised, which does not end the agent."),
        ("while True: pass", LATE),
        ("import time\ndef setup(fl):\n    time.sleep(60)", LATE),
        ("import asyncio\nasync def setup(fl):\n    await asyncio.sleep(60)", LATE),
        ("def setup(fl):\n    fl.send_message('a', 'b')", "The session has not started. Do this in a handler"),
    ],
)
async def test_an_extension_that_fails_to_load_is_reported_and_the_others_work(
    tmp_path: Path, source: str, error: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    good = "def setup(fl):\n    fl.on('turn_start', lambda event: fl.append_entry('here'))"
    async with extended(tmp_path, source, good, settings=SHORT, discovery=Discovery(extension_errors="continue")) as it:
        assert (await it.agent.ask("hi")).text == "ok"
        ((file, event, told),) = it.errors
        assert (file, event) == ("one.py", "load") and error in told
        assert it.notes("here") == [None]
        assert any("was not loaded" in warning for warning in it.agent.warnings)
    assert "Traceback" in caplog.text or "defines no function" in error or "never closed" in error
    assert "importlib" not in caplog.text or "does not end the agent" in error
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("kind", "body", "error"),
    [
        *((kind, *case) for kind in ("def", "async def") for case in FAILURES),
        ("async def", "raise asyncio.CancelledError", "It was cancelled, but not by the agent."),
        ("def", "raise asyncio.CancelledError", "CancelledError was raised, which does not end the agent."),
    ],
)
async def test_a_failing_or_blocking_handler_is_reported_and_the_run_continues(
    tmp_path: Path, kind: str, body: str, error: str
) -> None:
    source = f"{HEADER}def setup(fl):\n    @fl.on('turn_start')\n    {kind} hear(event, context):\n        {body}\n"
    before, rest = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0]
    async with extended(tmp_path, source, settings=SHORT) as it:
        assert (await it.agent.ask("hi")).text == "ok"
        assert it.errors == [("one.py", "turn_start", error)]
        assert (await it.agent.ask("again")).text == "ok"
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] <= rest


async def test_an_error_of_an_extension_shows_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADE_UP_API_KEY", "a-key-that-no-host-may-see")
    source = """
        import os

        def setup(fl):
            @fl.on("agent_start")
            def fail(event):
                raise RuntimeError(f"cannot use {os.environ['MADE_UP_API_KEY']}")
    """
    async with extended(tmp_path, source) as scene:
        await scene.agent.ask("go")
        assert [error for _, _, error in scene.errors] == ["cannot use [redacted]"]


async def test_a_handler_that_waits_too_long_is_cancelled_and_one_that_does_not_heed_it_is_broken_off(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    @fl.on("turn_start")
    async def slow(event):
        await asyncio.sleep(60)
    @fl.on("turn_end", timeout=0.5)
    async def stubborn(event):
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                fl.append_entry("cancelled")
"""
    )
    async with extended(tmp_path, source, settings=SHORT) as it:
        assert (await it.agent.ask("hi")).text == "ok"
        left = "Stopped because it was not done after 0.5 seconds. It ignored its cancellation and was abandoned."
        assert it.errors == [("one.py", "turn_start", LATE), ("one.py", "turn_end", left)]
        assert it.notes("cancelled") == [None]


async def test_a_handler_that_is_cancelled_can_clean_up(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    @fl.on("turn_start", timeout=0.1)
    async def slow(event):
        try:
            await asyncio.sleep(60)
        finally:
            time.sleep(0.1)  # cleaning up takes a moment
            fl.append_entry("cleaned up")
"""
    )
    async with extended(tmp_path, source, settings=SHORT) as it:
        assert (await it.agent.ask("hi")).text == "ok"
        assert it.notes("cleaned up") == [None]
        assert [error for _, _, error in it.errors] == ["Stopped because it was not done after 0.1 seconds."]


async def test_a_tool_call_that_is_not_decided_on_in_time_does_not_happen(tmp_path: Path) -> None:
    source = HEADER + "def setup(fl):\n    @fl.on('tool_call')\n    async def ask(event):\n        await asyncio.sleep(60)\n"
    async with extended(tmp_path, source, settings=SHORT, turns=[calling("bash", command="touch made"), Turn(text="ok")]) as it:
        await it.agent.ask("hi")
        assert it.results == [(LATE, True)] and not (tmp_path / "project" / "made").exists()


async def test_an_abort_does_not_wait_for_a_handler(tmp_path: Path) -> None:
    source = (
        HEADER
        + """
def setup(fl):
    @fl.on("tool_call")
    async def ask(event, context):
        context.abort()
        await asyncio.sleep(60)
"""
    )
    async with extended(tmp_path, source, turns=[calling("bash", command="true"), Turn(text="ok")]) as it:
        async for _ in it.agent.run("hi"):
            pass
        assert it.results[0][1]


async def test_prints_of_extensions_go_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = (
        HEADER
        + """
print("at import")
def setup(fl):
    print("in setup")
    @fl.on("turn_start")
    async def hear(event):
        print("in a handler")
        await asyncio.sleep(0)
        print("after a wait")
    @fl.register_tool
    def shout(text: str) -> str:
        "Shouts."
        print("on a thread")
        return text.upper()
"""
    )
    turns = [Turn(tool_calls=[ToolCall("c1", "shout", {"text": "a"})]), Turn(text="ok")]
    async with extended(tmp_path, source, turns=turns) as it:
        sys.stdout.write("mine\n")
        await it.agent.ask("hi")
        sys.stdout.write("still mine\n")
        assert it.results == [("A", False)]
    printed = capsys.readouterr()
    assert printed.out == "mine\nstill mine\n"
    for line in ("at import", "in setup", "in a handler", "after a wait", "on a thread"):
        assert line in printed.err


@pytest.mark.timeout(method="thread")  # the other method has a timer of the same kind
async def test_a_timer_of_the_program_goes_off_when_it_would_have(tmp_path: Path) -> None:
    source = HEADER + "def setup(fl):\n    fl.on('turn_start', lambda event: time.sleep(0.01))\n"
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
    signal.setitimer(signal.ITIMER_REAL, 20)
    try:
        async with extended(tmp_path, source) as it:
            await it.agent.ask("hi")
            left, _ = signal.getitimer(signal.ITIMER_REAL)
            assert 0 < left <= 20 and it.errors == []
            signal.raise_signal(signal.SIGALRM)
            assert rung == [signal.SIGALRM]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
