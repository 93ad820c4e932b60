"""Extensions written for pi that misbehave: they can neither hold up nor end a run, and their gates fail closed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.extend.extended import calling, extended

from fairlead.testing import Turn

TURNS = [calling("bash", command="true"), calling("bash", command="true"), Turn(text="done")]
QUICK = json.dumps({"extensionTimeoutSeconds": 3})


def factory(body: str) -> str:
    return f"export default function (pi) {{ {body} }}"


async def test_a_gate_that_blocks_its_process_refuses_the_call_and_all_later_ones(tmp_path: Path) -> None:
    gate = factory('pi.on("tool_call", () => { for (;;) {} });')
    async with extended(tmp_path, gate, turns=TURNS, settings=QUICK, suffix="mjs") as it:
        assert str(await it.agent.ask("hi")) == "done"
        first, second = it.results
        assert first == ("Stopped because it was not done after 3 seconds.", True)
        assert second[1] and ("not done after" in second[0] or "an extension blocked it" in second[0])
        await it.agent.reload_extensions()


async def test_a_process_that_is_blocked_ends_after_its_agent_was_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    (tmp_path / "block.mjs").write_text(
        'import { writeFileSync } from "node:fs";'
        f"export default function () {{ writeFileSync({json.dumps(str(pid))}, String(process.pid)); for (;;) {{}} }}"
    )
    command = [sys.executable, "-m", "fairlead", "--mode", "rpc", "--isolated", "-e", str(tmp_path / "block.mjs")]
    agent = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL)
    node = os.pidfd_open(int(await asyncio.to_thread(pid.read_text)))
    try:
        agent.kill()
        await agent.wait()
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(node, ended.set)
        async with asyncio.timeout(40):
            await ended.wait()
    except TimeoutError:
        signal.pidfd_send_signal(node, signal.SIGKILL)
        raise
    finally:
        asyncio.get_running_loop().remove_reader(node)
        os.close(node)


@pytest.mark.parametrize("how", ['process.kill(process.pid, "SIGKILL")', "process.abort()", "process.reallyExit(3)"])
async def test_a_gate_whose_process_is_gone_refuses_calls_until_a_reload(tmp_path: Path, how: str) -> None:
    gate = factory(
        'pi.on("tool_call", (event) => { if (event.input.command === "true") return; return { block: true, reason: "here" }; });'
        f'pi.registerCommand("die", {{ handler: async () => {{ {how}; }} }});'
    )
    turns = [calling("bash", command="true"), Turn(text="a"), calling("bash", command="true"), Turn(text="b")]
    async with extended(tmp_path, gate, turns=[*turns, calling("bash", command="x"), Turn(text="c")], suffix="mjs") as it:
        await it.agent.ask("hi")
        assert it.results[-1] == ("(no output)", False)
        await it.command("/die")
        await it.agent.ask("hi")
        text, is_error = it.results[-1]
        assert is_error and "The Node process that runs extensions has ended" in text
        assert [(path, event) for path, event, _ in it.errors] == [("command:die", "command")]
        await it.agent.reload_extensions()
        await it.agent.ask("hi")
        assert it.results[-1] == ("here", True)


async def test_an_extension_cannot_end_the_process(tmp_path: Path) -> None:
    one = factory(
        'pi.on("tool_call", () => { process.exit(1); });'
        'pi.on("agent_start", () => { setTimeout(() => { throw new Error("late"); }); Promise.reject(new Error("lost")); });'
    )
    two = factory('pi.on("agent_end", () => { pi.appendEntry("alive"); });')
    async with extended(tmp_path, one, two, turns=TURNS, suffix="mjs") as it:
        assert str(await it.agent.ask("hi")) == "done"
        assert it.results[0] == ("process.exit(1) was called, which does not end the agent.", True)
    assert {("one.mjs", "uncaught", "late"), ("one.mjs", "uncaught", "lost")} <= set(it.errors)
    assert len(it.notes("alive")) == 1


async def test_a_flood_does_not_hold_up_the_run(tmp_path: Path) -> None:
    flood = factory(
        'pi.on("agent_start", (event, ctx) => { for (let n = 0; n < 3000; n++) { ctx.ui.notify("x".repeat(100)); } });'
        'pi.on("turn_start", () => { setInterval(() => pi.getActiveTools(), 0); });'
    )
    async with extended(tmp_path, flood, turns=TURNS, suffix="mjs") as it:
        assert str(await it.agent.ask("hi")) == "done"
        assert it.errors == []


async def test_a_handler_that_fails_changes_nothing_else(tmp_path: Path) -> None:
    source = factory(
        'pi.on("turn_start", async () => { throw new Error("exploded"); });'
        'pi.on("message_end", () => ({ message: 5 }));'
        'pi.on("turn_end", () => { const loop = {}; loop.self = loop; return loop; });'
    )
    async with extended(tmp_path, source, suffix="mjs") as it:
        assert str(await it.agent.ask("hi")) == "ok"
        errors = {event: error for _, event, error in it.errors}
        assert "cannot be used" in errors["message_end"] and errors["turn_start"] == "exploded"
        assert "circular" in errors["turn_end"].lower()


async def test_a_project_runs_no_script_unless_it_is_trusted(tmp_path: Path) -> None:
    folder = tmp_path / "project" / ".fairlead" / "extensions"
    folder.mkdir(parents=True)
    (folder / "theirs.ts").write_text(factory('pi.registerCommand("theirs", { handler: async () => {} });'))
    for approve, names in ((None, []), (False, []), (True, ["theirs"])):
        async with extended(tmp_path, trust=approve) as it:
            await it.agent.session.extensions.ready()
            assert [command.name for command in it.agent.session.additions.slash_commands()] == names


async def test_the_process_cleans_up_after_the_agent_has_ended(tmp_path: Path) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    os.mkfifo(done)
    body = f"""
import {{ existsSync, writeFileSync }} from "node:fs";
export default function (pi) {{
  pi.on("session_shutdown", async () => {{
    while (!existsSync({json.dumps(str(go))})) await pi.exec("sleep", ["0.05"], {{ cwd: "/" }});
    writeFileSync({json.dumps(str(done))}, "cleaned up");
  }});
}}
"""
    async with extended(tmp_path, body, suffix="mjs") as it:
        await it.agent.ask("hi")
    go.touch()
    assert await asyncio.to_thread(done.read_text) == "cleaned up"
