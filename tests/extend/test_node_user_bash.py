"""Shell commands of the user that extensions written for pi run elsewhere."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.extend.extended import extended, notes, scripted

from fairlead.errors import ToolError

INVALID = "Invalid user_bash handler result"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ('throw new Error("no connection");', "no connection"),
        ('return { operations: { exec: async () => { throw new Error("lost"); } } };', "lost"),
        ("return null;", INVALID),
        ("return {};", INVALID),
        ("return { operations: {} };", INVALID),
        ('return { result: "text" };', INVALID),
        ('return { result: { output: "text" } };', INVALID),
        ('return { operations: { exec: async () => ({}) }, result: { output: "" } };', INVALID),
    ],
)
async def test_a_command_does_not_run_here_if_the_handler_fails(tmp_path: Path, answer: str, error: str) -> None:
    async with scripted(tmp_path, f'pi.on("user_bash", async () => {{ {answer} }});') as it:
        with pytest.raises(ToolError, match=error):
            await it.agent.session.host.bash("touch ran")
        assert not (tmp_path / "project" / "ran").exists()
        ((file, event, text),) = it.errors
        assert (file, event) == ("one.ts", "user_bash") and text.startswith(error)


async def test_a_command_does_not_run_here_if_a_python_handler_fails(tmp_path: Path) -> None:
    source = """
    def setup(fl):
        @fl.on("user_bash")
        async def handle(event, context):
            raise RuntimeError("no connection")
    """
    async with extended(tmp_path, source) as it:
        with pytest.raises(ToolError, match="no connection"):
            await it.agent.session.host.bash("touch ran")
        assert not (tmp_path / "project" / "ran").exists()


async def test_operations_run_for_as_long_as_the_command_takes_and_can_be_aborted(tmp_path: Path) -> None:
    body = """
  pi.on("user_bash", (event) => event.command === "here" ? undefined : { operations: { exec: async (command, cwd, { onData, signal }) => {
    note("runs");
    onData(Buffer.from(command));
    await new Promise((done) => { setTimeout(done, 3200); signal.addEventListener("abort", done); });
    if (signal.aborted) note("aborted");
    return { exitCode: signal.aborted ? null : 3 };
  } } });
"""  # noqa: E501
    async with scripted(tmp_path, body, settings='{"extensionTimeoutSeconds": 3}') as it:
        host = it.agent.session.host
        done = await host.bash("slow")
        assert (done.message.output, done.message.exit_code) == ("slow", 3)
        running = asyncio.ensure_future(host.bash("aborted"))
        while notes(tmp_path) != ["runs", "runs"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        host.abort_bash()
        assert (await running).message.cancelled
        while notes(tmp_path) != ["runs", "runs", "aborted"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert it.errors == []


async def test_output_of_operations_is_shown_while_they_run_and_cleaned(tmp_path: Path) -> None:
    body = """
  pi.on("user_bash", () => ({ operations: { exec: async (command, cwd, { onData }) => {
    onData(Buffer.from("\\u001b[31mred\\u001b[0m\\r\\n"));
    const accent = Buffer.from("\\u00e9");
    onData(accent.subarray(0, 1));
    onData(accent.subarray(1));
    return { exitCode: null };
  } } }));
"""
    async with scripted(tmp_path, body) as it:
        shown: list[str] = []
        message = (await it.agent.session.host.bash("go", on_output=shown.append)).message
        assert shown == ["red\n", "\u00e9"]
        assert (message.output, message.exit_code, message.cancelled, message.full_output_path) == (
            "red\n\u00e9",
            None,
            False,
            None,
        )
        assert it.errors == []


async def test_long_output_of_operations_is_kept_in_a_file(tmp_path: Path) -> None:
    body = """
  pi.on("user_bash", () => ({ operations: { exec: async (command, cwd, { onData }) => {
    for (let number = 0; number < 3000; number++) onData(Buffer.from(`line ${number}\\n`));
    return { exitCode: 0 };
  } } }));
"""
    async with scripted(tmp_path, body) as it:
        done = await it.agent.session.host.bash("go")
        assert done.message.truncated and done.message.output.startswith("line 1000\n")
        assert done.truncation.total_lines == 3000
        assert done.message.full_output_path is not None
        assert Path(done.message.full_output_path).read_text().startswith("line 0\n")


async def test_a_python_handler_shows_output_while_the_command_runs(tmp_path: Path) -> None:
    source = """
    from fairlead.extension import Ran

    def setup(fl):
        @fl.on("user_bash")
        def handle(event):
            event.show("some ")
            event.show("output")
            return Ran("some output", 4)
    """
    async with extended(tmp_path, source) as it:
        shown: list[str] = []
        done = await it.agent.session.host.bash("go", on_output=shown.append)
        assert (shown, done.message.output, done.message.exit_code) == (["some ", "output"], "some output", 4)
