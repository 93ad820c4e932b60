"""Extensions, and programs that they or the settings start, that send without end: they are ended, and the session continues."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.extend.extended import calling, extended

from fairlead.errors import NoCredentials
from fairlead.extend.extensions import context
from fairlead.models.config_value import command_output
from fairlead.testing import Turn

FLOOD = r"""
import fs from "node:fs";
const words = fs.readFileSync("/proc/self/cmdline", "utf8").split("\0");
const OUTBOX = Number(words[words.findIndex((word) => word.endsWith("main.mjs")) + 2]);
const say = (message) => fs.writeSync(OUTBOX, JSON.stringify(message) + "\n");
export default function (pi) {
  pi.on("turn_start", () => { for (let n = 0; n < 50_000; n++) say({ id: 1e6 + n, method: "waitForIdle" }); });
  pi.on("tool_call", () => undefined);
}
"""


async def test_a_flood_of_requests_ends_the_process(tmp_path: Path) -> None:
    turns = [calling("bash", command="echo hi"), Turn(text="done")]
    async with extended(tmp_path, FLOOD, turns=turns, suffix="mjs") as it:
        assert str(await it.agent.ask("hi")) == "done"
        [(text, is_error)] = it.results
        assert is_error and "an extension made more than 10,000 requests at once" in text


OUTPUT = """
export default function (pi) {
  pi.on("user_bash", () => ({ operations: { exec: async (command, cwd, { onData }) => {
    const line = Buffer.from("x".repeat(1023) + "\\n");
    const piece = Buffer.concat(Array(1024).fill(line));
    for (let n = 0; n < 40; n++) onData(piece);
    return { exitCode: 0 };
  } } }));
}
"""


async def test_of_endless_output_of_an_extensions_command_the_end_is_kept(tmp_path: Path) -> None:
    async with extended(tmp_path, OUTPUT, suffix="mjs") as it:
        done = await it.agent.session.host.bash("go")
        assert done.message.truncated and done.truncation.total_lines <= 16 * 1024


EXEC = """
def setup(fl):
    @fl.register_command("run")
    async def go(arguments, context):
        done = await fl.exec("sh", ["-c", "yes; echo not reached >&2"])
        fl.append_entry("done", [done.killed, done.stderr, len(done.stdout)])
"""


async def test_a_program_of_an_extension_that_writes_without_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "MOST_OUTPUT", 1 << 20)
    async with extended(tmp_path, EXEC) as it:
        async with asyncio.timeout(30):
            await it.command("/run")
        assert it.notes("done") == [[True, "", 1 << 20]] and it.errors == []


def test_a_command_that_prints_a_key_without_end_is_killed() -> None:
    with pytest.raises(NoCredentials, match="comes from a command that printed more than 1 MiB: yes"):
        command_output("yes", "The key", os.environ)
