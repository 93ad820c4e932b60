"""What the chat does to a terminal, and what it leaves behind. Real keys in a real terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from tests.support.tmux import ChatInTmux, chat_in_tmux

pytestmark = pytest.mark.system

DONE = {"text": "All done."}


def chat_process(chat: ChatInTmux) -> int:
    """The process id of the chat."""
    shell = int(chat._tmux("display-message", "-p", "#{pane_pid}"))  # pyright: ignore[reportPrivateUsage]
    children = subprocess.run(["pgrep", "-P", str(shell)], capture_output=True, text=True, check=True)
    return int(children.stdout.split()[0])


def assert_restored(chat: ChatInTmux) -> None:
    """The shell echoes what is typed, and the cursor is visible."""
    chat.type("echo it is back")
    chat.wait_for("shell$ echo it is back")
    chat.press("Enter")
    chat.wait_for("\nit is back")
    assert chat._tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, "143"), (signal.SIGHUP, "129")])
def test_a_signal_ends_the_chat_and_restores_the_terminal(tmp_path: Path, number: int, code: str) -> None:
    with chat_in_tmux(tmp_path, [{"text": "begun and more to come", "holdAfter": 1}]) as chat:
        chat.start()
        chat.send("hello")
        chat.wait_for("begun")
        os.kill(chat_process(chat), number)
        assert chat.wait_for_end() == code
        assert "\nbegun" in chat.screen() and "Interrupted" in chat.screen()  # what was said so far stays
        assert_restored(chat)


def test_a_crash_restores_the_terminal_and_says_what_happened(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        (tmp_path / "sitecustomize.py").write_text(
            "import fairlead.chat.chat_commands as c\nasync def boom(self, argument):\n    raise ZeroDivisionError('boom')\n"
            "c.Commands._cost = boom\n"
        )
        chat.type(f"export PYTHONPATH={tmp_path}")
        chat.press("Enter")
        chat.start()
        chat.command("/cost")
        assert chat.wait_for_end() == "1"
        assert "ZeroDivisionError: boom" in chat.screen(history=True)
        assert_restored(chat)


def test_a_chat_that_cannot_start_leaves_no_answer_of_the_terminal_to_the_shell(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.type("clear; fairlead --model antropic/claude; echo code=$?")
        chat.press("Enter")
        assert chat.wait_for_end() == "1"
        assert "Did you mean anthropic/" in chat.screen(joined=True)
        assert_restored(chat)  # the answer would stand before what is typed
        assert "command not found" not in chat.screen()


def test_ctrl_z_gives_the_terminal_back_until_the_user_continues(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.type("set -m")
        chat.press("Enter")
        chat.start()
        chat.type("half a thought")
        chat.wait_for("> half a thought")
        chat.press("C-z")
        chat.wait_for("Stopped")
        assert_restored(chat)
        chat.type("fg")
        chat.press("Enter")
        chat.wait_for("> half a thought")
        chat.press("Enter")
        chat.wait_for("All done.")
        assert chat.prompts() == ["half a thought"]


def test_output_of_other_code_becomes_a_note(tmp_path: Path) -> None:
    noisy = (
        "import os, subprocess, sys\n"
        "def setup(fl):\n"
        '    @fl.register_command("noise")\n'
        "    def noise(arguments, context):\n"
        '        print("printed")\n'
        '        print("to stderr", file=sys.stderr)\n'
        '        os.write(1, b"raw\\x1b[2J\\x1b[H bytes\\n")\n'
        '        subprocess.run(["sh", "-c", "echo from a child >&2"])\n'
    )
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        (chat.home / "extensions").mkdir()
        (chat.home / "extensions/noisy.py").write_text(noisy)
        chat.start()
        chat.command("/noise")
        screen = chat.wait_for("from a child")
        for text in ("printed", "to stderr", "raw bytes"):
            assert text in screen
        assert screen.count("/help lists") == 1
        assert len(re.findall("^> ", screen, re.MULTILINE)) == 1


def test_resizing_leaves_nothing_behind(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"text": "word " * 200 + "end.", "delayMs": 10}], columns=100, rows=30) as chat:
        chat.start()
        chat.send("hello")
        for size in ((60, 20), (120, 40), (40, 12), (80, 24), (100, 30)):
            chat.resize(*size)
            chat.wait_for(lambda screen, columns=size[0]: 0 < len(screen.splitlines()[-1]) < columns)
        chat.wait_for(lambda screen: "end." in screen and "Esc stops" not in screen)
        everything = chat.screen(history=True)
        assert everything.count("Esc stops") == 0
        assert everything.count("claude-opus") == 1


@pytest.mark.parametrize(("columns", "rows"), [(40, 12), (20, 6), (200, 60)])
def test_all_sizes_work(tmp_path: Path, columns: int, rows: int) -> None:
    with chat_in_tmux(tmp_path, [{"text": "A short answer."}], columns=columns, rows=rows) as chat:
        chat.type("fairlead; echo code=$?")
        chat.press("Enter")
        chat.wait_for("claude"[: columns - 1])
        chat.type("hi")
        chat.wait_for("> hi")
        chat.press("Enter")
        chat.wait_for("A short answer.", history=True)
        chat.type("/he")
        chat.wait_for("▸ /help")
        chat.press("C-c")
        chat.leave()


def test_no_color_has_no_colours(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"text": "```python\nx = 1\n```"}], env={"NO_COLOR": "1"}) as chat:
        chat.start()
        chat.send("hello")
        chat.wait_for("x = 1")
        assert not re.search(r"\x1b\[(3[0-8]|4[0-8]|9[0-7])[;m]", chat.screen(colours=True))


def test_output_to_a_pipe_is_plain_and_needs_a_prompt(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [{"text": "Plain **answer**."}]) as chat:
        chat.type("fairlead 'hello' | cat -v")
        chat.press("Enter")
        chat.wait_for("\nPlain **answer**.")
        chat.type("clear; fairlead < /dev/null")
        chat.press("Enter")
        chat.wait_for("nothing to do")


def test_without_its_packages_the_chat_names_them(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['prompt_toolkit'] = None\n")
        chat.type(f"PYTHONPATH={tmp_path} fairlead; echo code=$?")
        chat.press("Enter")
        assert chat.wait_for_end() == "1"
        said = chat.screen().replace("\n", "")
        assert "The chat needs packages" in said and "install" in said and "toolkit" in said


def test_a_chat_that_was_stopped_from_outside_takes_the_terminal_back(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.type("set -m")
        chat.press("Enter")
        chat.start()
        chat.type("half a thought")
        chat.wait_for("> half a thought")
        os.kill(chat_process(chat), signal.SIGSTOP)
        chat.wait_for("Stopped")
        chat.type("fg")
        chat.press("Enter")
        chat.wait_for(lambda screen: screen.count("> half a thought") == 2)
        chat.type(" more")
        chat.wait_for("> half a thought more")
        chat.press("Enter")
        chat.wait_for("All done.")
        assert chat.prompts() == ["half a thought more"]


def editor_that_waits(folder: Path) -> dict[str, str]:
    script = folder / "waits.sh"
    script.write_text(f"#!/bin/sh\necho $$ >> {folder}/editors\nexec sleep 30\n")
    script.chmod(0o755)
    return {"EDITOR": str(script)}


def test_ctrl_c_in_the_editor_keeps_the_text_of_the_chat(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE], env=editor_that_waits(tmp_path)) as chat:
        chat.start()
        chat.type("precious")
        chat.wait_for("> precious")
        chat.press("C-g", "C-g")
        chat.wait_until((tmp_path / "editors").exists, bool)
        chat.press("C-c")
        chat.wait_for(lambda screen: "failed with status" in " ".join(screen.split()))
        chat.wait_for("> precious")
        assert len((tmp_path / "editors").read_text().split()) == 1


def test_the_end_of_the_chat_ends_the_editor_too(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE], env=editor_that_waits(tmp_path)) as chat:
        chat.start()
        chat.press("C-g")
        chat.wait_until(lambda: (tmp_path / "editors").exists() and (tmp_path / "editors").read_text(), bool)
        editor = int((tmp_path / "editors").read_text())
        os.kill(chat_process(chat), signal.SIGTERM)
        assert chat.wait_for_end() == "143"
        chat.wait_until(lambda: Path(f"/proc/{editor}").exists(), lambda exists: not exists)
