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
