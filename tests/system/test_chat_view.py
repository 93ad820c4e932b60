"""What stays in a real terminal's scrollback while the chat draws below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.tmux import chat_in_tmux

pytestmark = pytest.mark.system

#: Paragraphs of different lengths, with wide characters, each with its number at both ends.
PARAGRAPHS = [f"P{number:03} {'wort 你好 ' * (number % 9)}E{number:03}" for number in range(60)]
SIZES = [(60, 20), (40, 12), (100, 24), (70, 9), (31, 24), (120, 30), (80, 24)]


def test_every_paragraph_is_in_the_scrollback_once_however_the_terminal_is_resized(tmp_path: Path) -> None:
    turn = {"text": "\n\n".join(PARAGRAPHS), "chunk": 8, "delayMs": 8}
    with chat_in_tmux(tmp_path, [turn], columns=100, rows=24) as chat:
        chat.start()
        chat.send("tell me")
        for number, size in enumerate(SIZES):
            chat.wait_for(f"E{6 * number + 4:03}", history=True)
            chat.resize(*size)
        chat.wait_for("E059")
        text = chat.wait_for(lambda screen: "Working" not in screen, history=True)
        assert re.findall(r"P\d{3}", text) == [f"P{number:03}" for number in range(60)]
        assert re.findall(r"E\d{3}", text) == [f"E{number:03}" for number in range(60)]
        assert text.count("> Ask for a change") == 1
        assert text.count("Esc stops") == 0


def test_output_of_tools_cannot_move_the_cursor_or_set_the_title(tmp_path: Path) -> None:
    command = r"printf 'start\033[2J\033[1;1H\033]0;stolen\007\033[41mend\n'"
    turns = [{"text": "", "toolCalls": [{"name": "bash", "arguments": {"command": command}}]}, {"text": "Done\x1b]2;stolen\x07."}]
    with chat_in_tmux(tmp_path, turns) as chat:
        chat.start()
        chat.send("go")
        screen = chat.wait_for("Done.")
        assert "│ startend" in screen
        assert "> go" in screen
        assert "stolen" not in chat.title()


def test_a_command_cannot_hide_a_part_of_itself(tmp_path: Path) -> None:
    commands = ["echo one; rm -f one\r echo harmless", "rm -f two \x1b]0; echo harmless"]
    turn = {"text": "", "toolCalls": [{"name": "bash", "arguments": {"command": command}} for command in commands]}
    with chat_in_tmux(tmp_path, [turn, {"text": "First.\rSecond."}]) as chat:
        chat.start()
        chat.send("go")
        screen = chat.wait_for("Second.")
        assert "● $ echo one; rm -f one^M echo harmless" in screen
        assert "● $ rm -f two ^[]0; echo harmless" in screen
        assert "First.\nSecond." in screen


#: One open paragraph, and the sizes between 100x30 and 100x30 again: low, narrow, both, and loops of them.
WORDS = [f"w{number:03}" for number in range(240)]
LOOPS = [
    [(100, 6)],
    [(100, 12), (100, 8), (100, 5), (100, 20)],
    [(40, 5)],
    [(20, 8), (100, 8), (33, 20)],
    [(57, 9), (31, 4), (100, 4), (24, 12)],
    [(100, 4), (100, 30)] * 3,
]


def is_whole(text: str, words: list[str]) -> bool:
    """Whether each word is there once, in order, and the editor and the spinner are there once."""
    return re.findall(r"w\d{3}", text) == words and text.count("> Ask for") == 1 and text.count("> tell me") == 1


@pytest.mark.parametrize("sizes", LOOPS)
def test_a_terminal_that_was_lower_than_the_open_block_shows_each_line_once(tmp_path: Path, sizes: list[tuple[int, int]]) -> None:
    turn = {"text": " ".join(WORDS) + " end.", "chunk": 20, "holdAfter": 55}
    with chat_in_tmux(tmp_path, [turn], columns=100, rows=30) as chat:
        chat.start()
        chat.send("tell me")
        chat.wait_for("w219")
        for columns, rows in sizes:
            chat.resize(columns, rows)
            chat.wait_for(lambda screen, rows=rows: "> A" in screen and len(screen.splitlines()) <= rows)
            chat.wait_until_steady()
        chat.resize(100, 30)
        chat.wait_for(lambda text: is_whole(text, WORDS[:220]), history=True)
        chat.server.release()
        chat.wait_for(lambda text: is_whole(text, WORDS) and "Esc stops" not in text, history=True)


WIDE, NARROW = (100, 30), (33, 30)


@pytest.mark.parametrize("before", ["", "- one\n- ", "> "])
@pytest.mark.parametrize("sizes", [[WIDE, *[NARROW, WIDE] * 2], [NARROW, *[WIDE, NARROW] * 2], [WIDE, NARROW, (60, 30), WIDE]])
def test_a_terminal_that_was_narrow_shows_each_line_once(tmp_path: Path, sizes: list[tuple[int, int]], before: str) -> None:
    turn = {"text": f"{before}{' '.join(WORDS)}\n\nend.", "chunk": 20, "holdAfter": 55}
    columns, rows = sizes[0]
    with chat_in_tmux(tmp_path, [turn], columns=columns, rows=rows) as chat:
        chat.start()
        chat.send("tell me")
        chat.wait_for("w217")
        for size in sizes[1:]:
            chat.resize(*size)
            chat.wait_for(lambda screen, size=size: ("~/project" in screen) == (size != NARROW))
            chat.wait_until_steady()
            text = chat.screen(history=True, joined=True)
            shown = re.findall(r"w\d{3}", text)
            # Of more lines than the screen has, only the last are shown while they can change.
            assert shown == WORDS[int(shown[0][1:]) : int(shown[-1][1:]) + 1] and shown[-1] >= "w217"
            assert text.count("> Ask for") == 1 and text.count("> tell me") == 1 and text.count("Esc stops") == 1
        chat.server.release()
        chat.wait_for(lambda screen: "end." in screen and "Esc stops" not in screen)
        assert is_whole(chat.screen(history=True, joined=True), WORDS)


def test_a_long_answer_in_a_terminal_that_became_narrow_is_in_the_scrollback_once(tmp_path: Path) -> None:
    answer = " ".join(WORDS) + "\n\n" + "\n\n".join(PARAGRAPHS)
    turn = {"text": answer, "chunk": 20, "holdAfter": 55}
    with chat_in_tmux(tmp_path, [turn], columns=100, rows=30) as chat:
        chat.start()
        chat.send("tell me")
        chat.wait_for("w217")
        chat.resize(*NARROW)
        chat.wait_for(lambda screen: "~/project" not in screen)
        chat.wait_until_steady()
        chat.server.release()
        chat.wait_for(lambda screen: "E059" in screen and "Esc stops" not in screen)
        chat.resize(*WIDE)
        chat.wait_for("~/project")
        text = chat.screen(history=True, joined=True)
        assert is_whole(text, WORDS)
        assert re.findall(r"P\d{3}", text) == [f"P{number:03}" for number in range(60)]


def test_lines_that_become_final_in_a_low_terminal_are_there_once_when_it_is_high_again(tmp_path: Path) -> None:
    answer = " ".join(WORDS[:100]) + "\n\n" + " ".join(WORDS[100:200]) + "\n\nend."
    turn = {"text": answer, "chunk": 20, "holdAfter": 20}
    with chat_in_tmux(tmp_path, [turn], columns=100, rows=30) as chat:
        chat.start()
        chat.send("tell me")
        chat.wait_for("w078")
        chat.resize(60, 6)
        chat.wait_for(lambda screen: "> A" in screen and len(screen.splitlines()) <= 6)
        chat.wait_until_steady()
        chat.server.release()
        chat.wait_for(lambda screen: "end." in screen and "Esc stops" not in screen)
        chat.resize(100, 30)
        chat.wait_for(lambda text: is_whole(text, WORDS[:200]), history=True)
