"""What hosts of omp and of xcsh see of an extension: its commands, questions, tools and failures, and how it ends the process."""

from __future__ import annotations

from typing import Any

from tests.behaviour.play import Repertoire
from tests.support.stage import Stage, bash, calls, says

OMP_EXTENSIONS = Repertoire(reasoning="fake-2")
scenario = OMP_EXTENSIONS.scenario

#: The extension that the transcripts were made with, as one of fairlead's.
EXTENSION = """
import json
from fairlead.extension import Block, CommandContext, Fairlead, TextContent, ToolCallEvent, ToolResult


def setup(fl: Fairlead) -> None:
    @fl.register_command("ui", description="ui")
    async def exercise(arguments: str, context: CommandContext) -> None:
        ui = context.ui
        ui.notify("note", "info")
        ui.set_status("k", "st")
        ui.set_status("k", None)
        ui.set_widget("w", ["l1", "l2"])
        ui.set_title("ttl")
        ui.set_editor_text("edtext")
        answers = {
            "a": await ui.select("Pick", ["a", "b"]),
            "b": await ui.confirm("Sure", "really?", timeout=0.4),
            "c": await ui.input("Name", "ph"),
            "d": await ui.editor("Edit", "pre"),
            "e": await ui.input("Name2", "ph2", timeout=0.3),
            "f": await ui.select("Pick2", ["x", "y"]),
        }
        ui.notify(json.dumps(answers, separators=(",", ":")), "warning")

    @fl.register_command("boom", description="boom")
    async def boom() -> None:
        raise RuntimeError("boom error")

    @fl.register_command("ask", description="ask")
    async def ask(arguments: str) -> None:
        fl.send_user_message("from ext " + arguments)

    @fl.register_command("bye", description="bye")
    async def bye(arguments: str, context: CommandContext) -> None:
        context.shutdown()

    @fl.on("turn_start")
    async def fail() -> None:
        raise RuntimeError("handler failed")

    @fl.on("tool_call")
    async def block(event: ToolCallEvent) -> Block | None:
        return Block("blocked by ext") if event.tool_name == "bash" and "blockme" in event.arguments["command"] else None

    @fl.register_tool(description="ext tool", label="Ext")
    async def exttool(q: str = "") -> ToolResult:
        return ToolResult([TextContent("ext " + q)], details={"z": 1})
"""

ALONG: dict[str, Any] = {"flags": ["-e", "ext.py"], "files": {"ext.py": EXTENSION}}


def answer(host: Stage, since: int, method: str, **said: Any) -> int:
    """Wait for the next question of a kind, and answer it and one that was never asked, or let its time run out."""
    question = host.until("extension_ui_request", since=since, method=method)
    if said:
        host.send({"type": "extension_ui_response", "id": "bogus-id", "value": "zzz"})
        host.send({"type": "extension_ui_response", "id": question["id"], **said})
    return host.frames.index(question) + 1


@scenario(calls(bash("echo blockme"), ("exttool", {"q": "hi"})), says("ok"), says("ok2"), env={"PI_RPC_EMIT_TITLE": "1"}, **ALONG)
def extension_ui(host: Stage) -> None:
    host.request("get_state", id="s")
    host.send({"id": "p1", "type": "prompt", "message": "/ui"})
    place = answer(host, 0, "select", value="b")
    place = answer(host, place, "confirm")
    place = answer(host, place, "input", value="typed")
    place = answer(host, place, "editor", cancelled=True)
    place = answer(host, place, "input")
    place = answer(host, place, "select", cancelled=True)
    host.until("extension_ui_request", since=place, method="notify")
    host.response("p1")
    host.request("prompt", id="p2", message="/boom")
    host.prompt("/ask hello", id="p3")
    host.request("get_messages", id="m")
    host.request("prompt", id="p4", message="/bye")
    host.exit_code()


@scenario(says("ok"), **ALONG)
def title_default(host: Stage) -> None:
    """The host leaves while it is asked something."""
    host.send({"id": "p1", "type": "prompt", "message": "/ui"})
    host.until("extension_ui_request", method="select")
