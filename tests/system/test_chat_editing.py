"""The editor of the chat: several lines, pastes, history, completion, another editor. Real keys in a real terminal."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest
from tests.support.tmux import ChatInTmux, chat_in_tmux

pytestmark = pytest.mark.system

DONE = {"text": "All done."}


def sent(chat: ChatInTmux) -> str:
    chat.wait_for("All done.")
    return chat.prompts()[-1]


def test_new_lines_in_all_four_ways(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.type("one")
        chat.press("C-j")
        chat.type("two\\")
        chat.press("Enter")
        chat.type("three")
        chat.type("\x1b[13;2u")  # Shift+Enter in the kitty protocol
        chat.type("four")
        chat.type("\x1b[27;2;13~")  # Shift+Enter of xterm
        chat.type("five")
        chat.wait_for("> one\n  two\n  three\n  four\n  five")
        chat.press("Enter")
        assert sent(chat) == "one\ntwo\nthree\nfour\nfive"


def test_wide_characters_and_the_cursor(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.type("日本語 ok")
        chat.wait_for("> 日本語 ok")
        chat.press("Left", "Left")
        chat.wait_until(chat.cursor, lambda cursor: cursor[1] == 2 + 6 + 1, "the cursor before ok")
        chat.type("x")
        chat.press("Enter")
        assert sent(chat) == "日本語 xok"


def test_keys_step_over_an_emoji_of_several_characters(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.type("a👍🏽b👍🏽c")
        chat.wait_for("> a👍🏽b👍🏽c")
        chat.press("Left", "BSpace")
        chat.wait_for("> a👍🏽bc")
        chat.press("Left", "Left", "DC", "Enter")
        assert sent(chat) == "abc"


def test_pasted_characters_that_reorder_text_are_visible_and_sent_as_they_are(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.paste("safe\u202egnihton\u202c end")
        chat.wait_for("> safe\ufffdgnihton\ufffd end")
        chat.press("Enter")
        assert sent(chat) == "safe\u202egnihton\u202c end"


def test_long_pastes_are_folded_and_sent_in_full(tmp_path: Path) -> None:
    pasted = "\n".join(f"row {number}" for number in range(120))
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.type("read: ")
        chat.paste(pasted)
        chat.wait_for("> read: [paste #1, 120 lines]")
        chat.paste("short\none")
        chat.wait_for("  one")
        chat.press("Enter")
        assert sent(chat) == f"read: {pasted}short\none"


def test_history_lasts_and_can_be_searched(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        for prompt in ("first prompt", "second thing", "third prompt"):
            chat.send(prompt)
            chat.wait_until(chat.prompts, lambda prompts, prompt=prompt: prompts[-1:] == [prompt], prompt)
            chat.wait_for(lambda screen: "Esc stops" not in screen)
        chat.leave()
        assert stat.S_IMODE((chat.home / "chat-history.jsonl").stat().st_mode) == 0o600
        chat.start()
        chat.type("draft")
        chat.press("Up", "Up")
        chat.wait_for("> second thing")
        chat.press("Down", "Down")
        chat.wait_for("> draft")
        chat.press("C-c", "C-r")
        chat.wait_for("Earlier prompts")
        chat.type("first")
        chat.wait_for(lambda screen: "▸ first prompt" in screen and "second thing" not in screen)
        chat.press("Enter")
        chat.wait_for("> first prompt")


def test_files_are_completed_and_ignored_ones_are_not(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        for name in ("src/application.py", "docs/my notes.md", "build/application.o"):
            path = chat.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        (chat.folder / ".gitignore").write_text("build/\n")
        subprocess.run(["git", "init", "-q", chat.folder], check=True)
        chat.start()
        chat.type("read @appl")
        screen = chat.wait_for("▸ src/application.py")
        assert "build" not in screen
        chat.press("Tab")
        chat.wait_for("> read @src/application.py")
        chat.type("and @notes")
        chat.wait_for("▸ docs/my notes.md")
        chat.press("Enter")
        chat.wait_for('and @"docs/my notes.md"')
        chat.press("Enter")
        assert sent(chat) == 'read @src/application.py and @"docs/my notes.md"'


def test_enter_sends_a_prompt_that_ends_with_the_whole_name_of_a_file(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        (chat.folder / "notes.md").write_text("")
        chat.start()
        chat.type("read @notes.md")
        chat.wait_for("▸ notes.md")
        chat.press("Enter")
        assert sent(chat) == "read @notes.md"


def test_commands_of_all_kinds_are_completed(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        for name, text in (
            ("prompts/review.md", "---\ndescription: Review a file\n---\nReview $1 carefully."),
            ("skills/poetry/SKILL.md", "---\nname: poetry\ndescription: Write poems\n---\nRhyme."),
            (
                "extensions/greeter.py",
                'def setup(fl):\n    @fl.register_command("greet", description="Say hello")\n'
                '    def greet(name, context):\n        context.ui.notify(f"Hello, {name}!")\n',
            ),
        ):
            path = chat.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        chat.start()
        for typed, shown in (("/rev", "Review a file"), ("/poe", "Write poems"), ("/gre", "Say hello"), ("/comp", "summary")):
            chat.type(typed)
            chat.wait_for(shown)
            chat.press("C-c")
            chat.wait_for(lambda screen, typed=typed: f"> {typed}" not in screen)
        chat.type("/gre")
        chat.wait_for("▸ /greet")
        chat.press("Tab")
        chat.type("you")
        chat.press("Enter")
        chat.wait_for("Hello, you!")
        chat.type("/rev")
        chat.wait_for("▸ /review")
        chat.press("Enter")
        chat.type("main.py")
        chat.press("Enter")
        assert sent(chat) == "Review main.py carefully."


def test_extensions_suggest_arguments_of_their_commands(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        for name, text in (
            (
                "greeter.py",
                "def setup(fl):\n    def names(typed):\n"
                '        return [name for name in ("Ann", "Anton", "Bert") if name.startswith(typed)]\n'
                '    @fl.register_command("greet", complete=names)\n'
                '    def greet(name, context):\n        context.ui.notify(f"Hello, {name}!")\n',
            ),
            (
                "deploy.ts",
                'export default (pi: any) => pi.registerCommand("deploy", {\n'
                "  getArgumentCompletions: async (typed: string) =>\n"
                '    [{ value: `${typed}ing`, label: "LABEL", description: "a place" }],\n'
                "  handler: async (args: string, ctx: any) => ctx.ui.notify(`Deploying: ${args}`),\n"
                "});\n",
            ),
        ):
            path = chat.home / "extensions" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        chat.start()
        chat.type("/greet A")
        chat.wait_for("▸ Ann")
        chat.type("nt")
        chat.wait_for(lambda screen: "▸ Anton" in screen and "Ann" not in screen)
        chat.press("Tab")
        chat.press("Enter")
        chat.wait_for("Hello, Anton!")
        chat.type("/deploy stag")
        chat.wait_for("▸ LABEL  a place")
        chat.press("Enter")
        chat.wait_for("Deploying: staging")
        chat.type("/greet C")
        chat.press("Enter")
        chat.wait_for("Hello, C!")


def test_escape_closes_the_menu_and_keeps_the_text(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE]) as chat:
        chat.start()
        chat.type("/co")
        chat.wait_for("▸ /compact")
        chat.press("Down")
        chat.wait_for("▸ /copy")
        chat.press("Escape")
        chat.wait_for(lambda screen: "▸" not in screen and "> /co" in screen)


@pytest.mark.parametrize("keys", [["C-g"], ["C-x", "C-e"]])
def test_the_text_can_be_edited_in_another_editor(tmp_path: Path, keys: list[str]) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nread -p "in the editor: " word < /dev/tty\nprintf "%s and $word" "$(cat "$1")" > "$1"\n')
    editor.chmod(0o755)
    with chat_in_tmux(tmp_path, [DONE], env={"VISUAL": f"bash {editor}"}) as chat:
        chat.start()
        chat.type("from here")
        chat.press(*keys)
        chat.wait_for("in the editor:")
        chat.type("there")
        chat.press("Enter")
        chat.wait_for("> from here and there")
        chat.press("Enter")
        assert sent(chat) == "from here and there"


def test_an_editor_that_does_not_exist_changes_nothing(tmp_path: Path) -> None:
    with chat_in_tmux(tmp_path, [DONE], env={"VISUAL": "", "EDITOR": "no-such-editor"}) as chat:
        chat.start()
        chat.type("my text")
        chat.press("C-g")
        chat.wait_for("no-such-editor")
        chat.wait_for("> my text")
