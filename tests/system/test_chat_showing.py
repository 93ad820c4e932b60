"""What the chat shows of an agent's work: text, thinking, tools, colours. Real keys in a real terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.tmux import chat_in_tmux

pytestmark = pytest.mark.system

DONE = {"text": "All done."}
CODE = {"text": "Look:\n\n```python\ndef f():\n    return 1\n```\n\n**bold** and `name`."}


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"text": "On it.", "toolCalls": [{"name": name, "arguments": arguments}]}


def colour_before(text: str, screen: str) -> str:
    """The last colour that is set before a text."""
    return re.findall(r"\x1b\[[0-9;]*m", screen[: screen.index(text)])[-1]


def test_markdown_is_drawn_and_code_is_highlighted(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [CODE]) as chat:
        chat.start()
        chat.send("show me")
        screen = chat.wait_for("bold and name.")
        assert "```" not in screen and "**" not in screen
        coloured = chat.screen(colours=True)
        assert "38;5;" in colour_before("def ", coloured)
        assert colour_before("def ", coloured) == colour_before("return ", coloured)
        assert "\x1b[1m" in coloured


def test_a_light_background_gets_darker_colours(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [CODE], env={"COLORFGBG": "0;15"}) as chat:
        chat.start()
        chat.send("show me")
        chat.wait_for("bold and name.")
        assert colour_before("def ", chat.screen(colours=True)) == "\x1b[38;5;25m"


def test_thinking_is_folded_until_the_user_unfolds_it(tmp_path: Path) -> None:
    turns = [
        {"thinking": "A hidden thought.", "text": "First."},
        {"thinking": "A visible thought.\nIn two lines.", "text": "Second."},
    ]
    with chat_in_tmux(tmp_path, turns) as chat:
        chat.start()
        chat.send("one")
        screen = chat.wait_for("First.")
        assert "✻ Thought" in screen and "hidden" not in screen
        chat.press("C-t")
        chat.wait_for("Thinking is shown")
        chat.send("two")
        screen = chat.wait_for("Second.")
        assert "✻ A visible thought." in screen and "  In two lines." in screen


def test_a_running_tool_shows_the_end_of_its_output_and_then_how_it_ended(tmp_path: Path) -> None:
    command = "for n in $(seq 1 40); do echo line-$n; done; while [ ! -e go ]; do sleep 0.05; done; exit 3"
    with chat_in_tmux(tmp_path, [calls("bash", command=command), DONE]) as chat:
        chat.start()
        chat.send("run it")
        screen = chat.wait_for("line-40")
        assert "line-12" not in screen and "Esc stops" in screen
        (chat.folder / "go").touch()
        screen = chat.wait_for("All done.")
        assert "exit 3" in screen


def test_ctrl_o_shows_the_output_of_tools_in_full(tmp_path: Path) -> None:
    command = calls("bash", command="seq 101 140")
    with chat_in_tmux(tmp_path, [command, DONE, command, DONE], rows=60) as chat:
        chat.start()
        chat.send("short")
        screen = chat.wait_for("All done.")
        assert "│ 140" in screen and "│ 110" not in screen
        chat.press("C-o")
        chat.wait_for("in full")
        chat.send("long")
        chat.wait_for(lambda text: "│ 110" in text and text.count("All done.") == 2, history=True)


def test_a_change_of_a_file_is_a_coloured_diff(tmp_path: Path) -> None:
    edit = calls("edit", path="a.txt", edits=[{"oldText": "old line", "newText": "new line"}])
    with chat_in_tmux(tmp_path, [edit, DONE]) as chat:
        (chat.folder / "a.txt").write_text("above\nold line\nbelow\n")
        chat.start()
        chat.send("change it")
        chat.wait_for("All done.")
        coloured = chat.screen(colours=True)
        removed, added = (re.search(rf"([^\n]*){word}\x1b[^\n]* line", coloured) for word in ("old", "new"))
        assert removed is not None and "38;5;174m- " in removed[1]
        assert added is not None and "38;5;114m+ " in added[1]


def test_the_footer_says_where_what_and_how_much(tmp_path: Path) -> None:
    turn = {"text": "An answer.", "usage": {"input": 500_000, "output": 10_000}}
    with chat_in_tmux(tmp_path, [turn], columns=110) as chat:
        chat.start()
        footer = chat.wait_for("claude").splitlines()[-1]
        assert footer.startswith("~/project · claude-opus") and "0% of 1M" in footer and "$" not in footer
        chat.send("hello")
        chat.wait_for(lambda screen: re.search(r"51% of 1M · \$\d", screen) is not None)


def test_ctrl_l_draws_again_what_another_program_has_overwritten(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.type("half a thought")
        chat.wait_for("> half a thought")
        tty = chat._tmux("display-message", "-p", "#{pane_tty}").strip()  # pyright: ignore[reportPrivateUsage]
        Path(tty).write_text("\r\x1b[2Kgarbage\r")
        chat.wait_for("garbage")
        chat.press("C-l")
        screen = chat.wait_for("> half a thought")
        assert "garbage" not in screen


def test_reload_finds_a_new_extension(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        (chat.home / "extensions").mkdir()
        (chat.home / "extensions/late.py").write_text(
            'def setup(fl):\n    @fl.register_command("late")\n    def late(arguments, context):\n        print("it ran")\n'
        )
        chat.command("/reload")
        chat.wait_for("Extensions: late")
        chat.command("/late")
        chat.wait_for("it ran")


@pytest.mark.parametrize("term", ["xterm-256color", "screen", "vt100"])
def test_the_chat_works_in_other_terminals(tmp_path: Path, term: str) -> None:
    with chat_in_tmux(tmp_path, [CODE], env={"TERM": term}) as chat:
        chat.start()
        chat.send("show me")
        screen = chat.wait_for(lambda screen: re.search("bold and `?name`?\\.", screen) is not None)
        assert screen.count("> Ask for") == 1
        assert ("38;5;" in chat.screen(colours=True)) == (term != "vt100")
        chat.leave()


def test_a_terminal_that_cannot_move_its_cursor_is_reported(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE], env={"TERM": "dumb"}) as chat:
        chat.type("fairlead; echo code=$?")
        chat.press("Enter")
        assert chat.wait_for_end() == "1"
        assert "fairlead -p PROMPT" in chat.screen()


def test_the_chat_works_and_resizes_in_a_terminal_inside_another_one(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.type("clear; script -q -c fairlead typescript; echo code=$?")
        chat.press("Enter")
        chat.wait_for("/help lists")
        chat.send("hello")
        chat.wait_for("All done.")
        chat.resize(50, 12)
        chat.wait_for(lambda screen: 0 < len(screen.splitlines()[-1]) < 50)
        chat.wait_until_steady()
        everything = chat.screen(history=True)
        assert everything.count("All done.") == 1 and everything.count("> Ask for") == 1
        chat.leave()


def test_a_session_of_the_chat_is_saved_line_by_line(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.send("remember this")
        chat.wait_for("All done.")
        (file,) = (chat.home / "sessions").rglob("*.jsonl")
        entries = [json.loads(line) for line in file.read_text().splitlines()]
        assert [entry["message"]["role"] for entry in entries if entry["type"] == "message"] == ["user", "assistant"]
