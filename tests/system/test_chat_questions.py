"""Questions in the chat: approvals, and the dialogs of extensions. Real keys in a real terminal."""

from __future__ import annotations

import json
import os
import re
import signal
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


def test_a_long_diff_is_in_the_scrollback_once_and_the_question_is_low(tmp_path: Path) -> None:
    content = "\n".join(f"line number {number}" for number in range(100))
    with chat_in_tmux(tmp_path, [calls("write", path="long.txt", content=content), DONE]) as chat:
        chat.start("--approval", "ask")
        chat.send("write it")
        chat.wait_for(lambda screen: "line number 99" in screen and "y once" in screen)
        assert "? Write long.txt  new file  +100" in chat.screen(history=True)
        chat.press("y")
        chat.wait_for("All done.")
        shown = chat.screen(history=True)
        assert [len(re.findall(rf"line number {number}\b", shown)) for number in range(100)] == [1] * 100
        assert "● Write long.txt  +100 · allowed" in shown
        assert (chat.folder / "long.txt").read_text() == content


def test_a_very_long_diff_is_folded_until_the_user_wants_all_of_it(tmp_path: Path) -> None:
    content = "\n".join(f"line {number}" for number in range(1000))
    with chat_in_tmux(tmp_path, [calls("write", path="long.txt", content=content), DONE]) as chat:
        chat.start("--approval", "ask")
        chat.send("write it")
        chat.wait_for("801 lines are folded")
        shown = chat.screen(history=True)
        assert "… 801 more lines" in shown and "line 500" not in shown and "line 999" in shown
        chat.press("C-o")
        chat.wait_for(lambda screen: "are folded" not in screen and "y once" in screen)
        shown = chat.screen(history=True)
        assert all(re.search(rf"line {number}\b", shown) for number in range(1000))
        assert not (chat.folder / "long.txt").exists()


def edits(*names: str) -> dict[str, Any]:
    edit = [{"oldText": "old", "newText": "new"}]
    return {"text": "On it.", "toolCalls": [{"name": "edit", "arguments": {"path": name, "edits": edit}} for name in names]}


def test_several_calls_are_asked_about_one_after_the_other(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [edits("a.txt", "b.txt", "c.txt"), DONE], rows=40) as chat:
        for name in "abc":
            (chat.folder / f"{name}.txt").write_text(f"old {name}\n")
        chat.start("--approval", "ask")
        chat.send("change them")
        assert "new b" not in chat.wait_for("Allow edit? a.txt")
        chat.press("y")
        assert "new c" not in chat.wait_for("Allow edit? b.txt")
        chat.press("n")
        chat.wait_for("Reason:")
        chat.type("keep it")
        chat.press("Enter")
        chat.wait_for("Allow edit? c.txt")
        chat.press("y")
        chat.wait_for("All done.")
        shown = chat.screen(history=True)
        assert [shown.count(f"+ new {name}") for name in "abc"] == [1, 1, 1]
        assert "● Edit a.txt  +1 -1 · allowed" in shown and "● Edit c.txt  +1 -1 · allowed" in shown
        assert "✗ Edit b.txt  denied\n  │ the user refused it: keep it\n" in shown
        assert [(chat.folder / f"{name}.txt").read_text() for name in "abc"] == ["new a\n", "old b\n", "new c\n"]


def test_two_sub_agents_ask_at_once(tmp_path: Path) -> None:
    tasks = [{"id": name, "description": name, "assignment": name} for name in ("One", "Two")]
    task = calls("task", agent="task", tasks=tasks)
    turns = [task, edits("a.txt"), edits("a.txt"), {"text": "gone"}, {"text": "gone"}, DONE]
    with chat_in_tmux(tmp_path, turns, rows=40) as chat:
        (chat.folder / "a.txt").write_text("old line\n")
        chat.start("--approval", "ask", "--tools", "edit,task")
        chat.send("change it")
        screen = chat.wait_for("Allow edit? (sub-agent")
        assert screen.count("new line") == 1
        chat.press("n")
        chat.wait_for("Reason:")
        chat.press("Enter")
        chat.wait_for(lambda screen: "denied: the user refused it" in screen and "y once" in screen)
        chat.press("y")
        chat.wait_for("All done.")
        shown = chat.screen(history=True)
        assert shown.count("+ new line") == 2 and shown.count("● Edit a.txt  sub-agent") == 2
        assert len(re.findall(r"sub-agent (One|Two) · (allowed|denied)", shown)) == 2 and "did not run" not in shown


def test_an_abort_from_outside_closes_the_question(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [edits("a.txt"), DONE]) as chat:
        (chat.folder / "a.txt").write_text("old line\n")
        chat.start("--approval", "ask")
        chat.send("change it")
        chat.wait_for("Allow edit? a.txt")
        os.kill(chat.program(), signal.SIGINT)
        chat.wait_for(lambda screen: "Allow edit?" not in screen and "Esc stops" not in screen)
        shown = chat.screen(history=True)
        assert shown.count("+ new line") == 1 and "✗ Edit a.txt  denied" in shown and "■ Interrupted" in shown
        assert (chat.folder / "a.txt").read_text() == "old line\n"


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


LINE_BREAKS = """
def setup(fl):
    @fl.register_command("ask")
    async def ask(arguments, context):
        picked = await context.ui.select("Which?", ["one\\nthing", "another"])
        await context.ui.input("Your name?", "first\\nand last")
        context.ui.set_widget("list", ["above\\nthe editor"])
        context.ui.notify(f"picked: {picked!r}", "warning")
"""


def test_line_breaks_of_an_extension_leave_nothing_behind(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        (chat.home / "extensions").mkdir()
        (chat.home / "extensions/breaker.py").write_text(LINE_BREAKS)
        chat.start()
        before = chat.screen().partition("\n> ")[0]
        chat.command("/ask")
        chat.wait_for("▸ 1. one thing\n  2. another")
        chat.press("Enter")
        chat.wait_for("> first and last\nEnter send")
        chat.press("Enter")
        screen = chat.wait_for("picked: 'one\\nthing'")
        assert screen.startswith(f"{before.rstrip()}\npicked: 'one\\nthing'\n\nabove\nthe editor\n\n> Ask for")
