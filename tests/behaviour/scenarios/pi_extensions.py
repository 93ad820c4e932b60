"""What hosts of pi see of an extension: its commands, questions, messages and failures, and how it ends the process."""

from __future__ import annotations

from typing import Any

from tests.behaviour.play import Repertoire
from tests.support.stage import Stage, says

PI_EXTENSIONS = Repertoire(reasoning="fake-1")
scenario = PI_EXTENSIONS.scenario

#: The extension that the transcripts were made with, as one of fairlead's.
EXTENSION = """
import json
from fairlead.extension import CommandContext, Fairlead


def setup(fl: Fairlead) -> None:
    armed = []

    @fl.register_command("ui", description="Exercise the UI")
    async def exercise(arguments: str, context: CommandContext) -> None:
        ui = context.ui
        ui.notify("plain")
        ui.notify("warned", "warning")
        ui.notify("bad", "error")
        ui.set_status("k", "busy")
        ui.set_status("k", None)
        ui.set_widget("w", ["line 1", "line 2"])
        ui.set_widget("w", ["below"], "belowEditor")
        ui.set_widget("w", None)
        ui.set_title("the title")
        ui.set_editor_text("prefilled")
        ui.set_editor_text("pasted")
        answers = {
            "select": await ui.select("Pick", ["a", "b"]),
            "confirm": await ui.confirm("Sure?", "Really sure?"),
            "input": await ui.input("Name", "placeholder"),
            "editor": await ui.editor("Edit", "line 1\\nline 2"),
            "selectCancelled": await ui.select("Pick2", ["a", "b"]),
            "confirmCancelled": await ui.confirm("Sure2?", "m"),
            "selectTimeout": await ui.select("Pick3", ["a"], timeout=0.3),
            "confirmTimeout": await ui.confirm("Sure3?", "m", timeout=0.3),
            "inputTimeout": await ui.input("In3", timeout=0.3),
            "hasUI": context.has_ui,
        }
        ui.notify(json.dumps(answers))

    @fl.register_command("boom", description="Throws")
    async def boom() -> None:
        raise RuntimeError("boom from command")

    @fl.register_command("say", description="Speaks as the user")
    async def say(arguments: str) -> None:
        fl.send_user_message("from ext: " + arguments)

    @fl.register_command("msg", description="Adds a message")
    async def add_message() -> None:
        fl.send_message("note", "custom content", display=True, details={"a": 1})
        fl.append_entry("mystate", {"n": 1})

    @fl.register_command("log", description="Prints")
    async def log() -> None:
        print("stray stdout")

    @fl.register_command("bye", description="Ends the process")
    async def bye(arguments: str, context: CommandContext) -> None:
        context.shutdown()

    @fl.register_command("armboom")
    async def arm() -> None:
        armed.append(True)

    @fl.on("turn_start")
    async def explode() -> None:
        if armed:
            raise RuntimeError("turn_start exploded")
"""

ALONG: dict[str, Any] = {"flags": ["-e", "ext.py"], "files": {"ext.py": EXTENSION}}

#: What the host answers to one question after another; None lets its time run out.
ANSWERS: list[dict[str, Any] | None] = [
    {"value": "b"},
    {"confirmed": True},
    {"value": "typed"},
    {"value": "edited\ntext"},
    {"cancelled": True},
    {"cancelled": True},
    None,
    None,
    None,
]
QUESTIONS = ("select", "confirm", "input", "editor")


@scenario(says("x"), **ALONG)
def ext_ui(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.request("get_commands")
    host.send({"id": "r2", "type": "prompt", "message": "/ui"})
    for number, answer in enumerate(ANSWERS, 1):
        question = host.wait_for(lambda frame: frame.get("method") in QUESTIONS, f"question {number}", nth=number)
        if answer is not None:
            host.send({"type": "extension_ui_response", "id": question["id"], **answer})
    host.response("r2")


@scenario(says("x"), says("y"), says("z"), **ALONG)
def ext_errors_and_messages(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.request("prompt", message="/boom")
    host.prompt("/say hello", id="r2")
    host.request("prompt", message="/msg")
    host.request("prompt", message="/log")
    host.request("get_messages")
    host.prompt("/unknowncmd foo", id="r6")
    host.request("steer", message="/say x")
    host.request("prompt", message="/armboom")
    host.prompt("boom turn")


@scenario(says("x"), **ALONG)
def ext_shutdown(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.request("prompt", message="/bye")
    host.exit_code()


@scenario(
    says("x"), flags=["-e", "ext.py"], files={"ext.py": "def setup(fl):\n    raise RuntimeError('load failure')\n"}, exit_code=1
)
def ext_load_error(host: Stage) -> None:
    host.exit_code()
