"""Tool calls and extensions written for pi: calls that end the run."""

from __future__ import annotations

from pathlib import Path

from tests.extend.extended import calling, extended, scripted

from fairlead.core.messages import ToolCall
from fairlead.testing import Turn

ENDING = """
  pi.on("tool_call", (event) => {
    const { command } = event.input as { command?: string };
    if (command?.includes("stop")) return { block: true, reason: "Stop here.", terminate: true };
    if (command?.includes("block")) return { block: true, reason: "Not that." };
    return { terminate: true } as any;
  });
  pi.registerTool({
    name: "finish", label: "Finish", description: "Finishes", parameters: Type.Object({}),
    async execute() {
      return { content: [{ type: "text", text: "failed, but done" }], details: {}, isError: true, terminate: true };
    },
  });
"""


async def test_a_blocked_call_ends_the_run_if_the_handler_says_so(tmp_path: Path) -> None:
    async with scripted(tmp_path, ENDING, turns=[calling("bash", command="stop"), Turn(text="not asked")]) as it:
        await it.agent.ask("hi")
        assert it.results == [("Stop here.", True)]
        assert len(it.model.requests) == 1


async def test_a_tool_that_failed_ends_the_run_if_its_result_says_so(tmp_path: Path) -> None:
    async with scripted(tmp_path, ENDING, turns=[calling("finish"), Turn(text="not asked")]) as it:
        await it.agent.ask("hi")
        assert it.results == [("failed, but done", True)]
        assert len(it.model.requests) == 1


async def test_the_run_continues_if_one_call_of_the_turn_does_not_end_it(tmp_path: Path) -> None:
    both = Turn(tool_calls=[ToolCall("c1", "bash", {"command": "stop"}), ToolCall("c2", "bash", {"command": "block"})])
    turns = [both, calling("bash", command="true"), Turn(text="ok")]
    async with scripted(tmp_path, ENDING, turns=turns) as it:
        assert str(await it.agent.ask("hi")) == "ok"
        assert it.results == [("Stop here.", True), ("Not that.", True), ("(no output)", False)]


async def test_a_blocked_call_of_a_python_extension_ends_the_run(tmp_path: Path) -> None:
    source = """
    from fairlead.extension import Block, Fairlead

    def setup(fl: Fairlead) -> None:
        fl.on("tool_call", lambda event: Block("Stop here.", ends_run=True))
    """
    async with extended(tmp_path, source, turns=[calling("bash", command="true"), Turn(text="not asked")]) as it:
        await it.agent.ask("hi")
        assert it.results == [("Stop here.", True)]
        assert len(it.model.requests) == 1
