"""Questions in the chat: approvals, and the dialogs of extensions. Real keys in a real terminal."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.tmux import chat_in_tmux

pytestmark = pytest.mark.system

DONE = {"text": "All done."}


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"text": "On it.", "toolCalls": [{"name": name, "arguments": arguments}]}


def test_a_change_is_shown_as_a_diff_and_allowed_once(tmp_path: Path) -> None:
    edit = calls("edit", path="a.txt", edits=[{"oldText": "old line", "newText": "new line"}])
    with chat_in_tmux(tmp_path, [edit, DONE]) as chat:
        (chat.folder / "a.txt").write_text("above\nold line\nbelow\n")
        chat.start("--approval", "ask")
        chat.send("change it")
        screen = chat.wait_for("y once")
        assert "Allow edit?" in screen and "old line" in screen and "new line" in screen
        assert (chat.folder / "a.txt").read_text() == "above\nold line\nbelow\n"
        chat.press("y")
        chat.wait_for("All done.")
        assert (chat.folder / "a.txt").read_text() == "above\nnew line\nbelow\n"


def test_a_command_is_shown_and_allowed_for_the_session(tmp_path: Path) -> None:
    command = calls("bash", command="echo ran >> log.txt")
    with chat_in_tmux(tmp_path, [command, command, DONE]) as chat:
        chat.start("--approval", "ask")
        chat.send("run it twice")
        chat.wait_for(lambda screen: "Allow bash?" in screen and "echo ran >> log.txt" in screen)
        chat.press("a")
        chat.wait_for("All done.")
        assert (chat.folder / "log.txt").read_text() == "ran\nran\n"


def test_enter_chooses_no_approval_mode_that_the_user_has_not_named(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, []) as chat:
        chat.start("--approval", "ask")
        chat.type("/approval ")
        chat.wait_for(lambda screen: "deny" in screen)
        chat.press("Enter")
        chat.wait_for("Esc")
        chat.press("Escape")
        chat.wait_for("approval ask")


def test_a_call_is_denied_with_a_reason_for_the_model(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [calls("bash", command="rm -rf x"), DONE]) as chat:
        chat.start()
        chat.command("/approval ask")
        chat.wait_for("approval ask")
        chat.send("clean up")
        chat.wait_for("Allow bash?")
        chat.press("n")
        chat.wait_for("Reason:")
        chat.type("use the trash instead")
        chat.press("Enter")
        chat.wait_for("All done.")
        assert "use the trash instead" in json.dumps(chat.server.requests[1].body)


def test_escape_in_an_approval_stops_the_agent(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [calls("bash", command="touch made"), DONE]) as chat:
        chat.start("--approval", "ask")
        chat.send("make it")
        chat.wait_for("Allow bash?")
        chat.press("Escape")
        chat.wait_for(lambda screen: "Allow bash?" not in screen and "Esc stops" not in screen)
        assert not (chat.folder / "made").exists() and len(chat.server.requests) == 1


def test_a_long_diff_can_be_read_to_its_end(tmp_path: Path) -> None:
    content = "\n".join(f"line number {number}" for number in range(100))
    with chat_in_tmux(tmp_path, [calls("write", path="long.txt", content=content), DONE]) as chat:
        chat.start("--approval", "ask")
        chat.send("write it")
        screen = chat.wait_for("scroll")
        assert "line number 99" not in screen and "y once" in screen
        for _ in range(12):
            chat.press("PageDown")
        chat.wait_for("line number 99")
        chat.press("y")
        chat.wait_for("All done.")
        assert (chat.folder / "long.txt").read_text() == content


EXTENSION = """
def setup(fl):
    @fl.register_command("ask")
    async def ask(arguments, context):
        ui = context.ui
        colour = await ui.select("Which colour?", ["red", "green", "blue"])
        sure = await ui.confirm("Sure?", "It cannot be undone.")
        name = await ui.input("Your name?", "first and last")
        text = await ui.editor("Your text:", "given")
        ui.notify(f"answers: {colour} {sure} {name} {text!r}", "warning")

    @fl.register_command("decorate")
    def decorate(arguments, context):
        context.ui.set_status("build", "build ok")
        context.ui.set_widget("list", ["above the editor"])
        context.ui.set_widget("more", ["below the editor"], "belowEditor")
        context.ui.set_title("a title")
        context.ui.set_editor_text("prepared text")
"""


def test_dialogs_of_an_extension(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        (chat.home / "extensions").mkdir()
        (chat.home / "extensions/asker.py").write_text(EXTENSION)
        chat.start()
        chat.command("/ask")
        chat.wait_for("Which colour?")
        chat.press("Down", "Enter")
        chat.wait_for("It cannot be undone.")
        chat.press("y")
        chat.wait_for("first and last")
        chat.type("Ada L")
        chat.press("Enter")
        chat.wait_for("Your text:")
        chat.wait_for("> given")
        chat.type(" more")
        chat.press("C-j")
        chat.type("second")
        chat.press("Enter")
        chat.wait_for("answers: green True Ada L 'given more\\nsecond'")
        chat.command("/ask")
        chat.wait_for("Which colour?")
        chat.press("Escape")
        chat.wait_for("Sure?")
        chat.press("n")
        chat.wait_for("Your name?")
        chat.press("Escape")
        chat.wait_for("Your text:")
        chat.press("Escape")
        chat.wait_for("answers: None False None None")


def test_decorations_of_an_extension(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        (chat.home / "extensions").mkdir()
        (chat.home / "extensions/decorator.py").write_text(EXTENSION)
        chat.start()
        chat.command("/decorate")
        screen = chat.wait_for("> prepared text")
        assert screen.index("above the editor") < screen.index("prepared") < screen.index("below the editor")
        assert "build ok" in screen
        assert chat.title() == "fairlead · a title"


def test_letters_of_a_text_in_the_making_do_not_answer_an_approval(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{**calls("bash", command="touch ran"), "firstDelayMs": 800}, DONE]) as chat:
        chat.start("--approval", "ask")
        chat.send("go")
        for _ in range(16):
            chat.type("ya")
            time.sleep(0.1)
        chat.wait_for("Allow bash?")
        assert not (chat.folder / "ran").exists()
        time.sleep(1)
        chat.press("n")
        chat.wait_for("Reason:")
        chat.press("Enter")
        chat.wait_for("> " + "ya" * 16)
