"""Extensions in the Node process that send without end: the process is ended with the reason, and the session continues."""

from __future__ import annotations

from pathlib import Path

from tests.extend.extended import calling, extended

from fairlead.testing import Turn

FLOOD = r"""
import fs from "node:fs";
const say = (message) => fs.writeSync(+process.argv[3], JSON.stringify(message) + "\n");
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
