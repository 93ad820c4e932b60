"""Random resizes of a real terminal: each text is on the screen or in the scrollback once, whatever the sizes were."""

from __future__ import annotations

import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.support.answers import WORD, a_size, an_answer, copies
from tests.support.tmux import ChatInTmux, chat_in_tmux

pytestmark = pytest.mark.system


def everything(chat: ChatInTmux) -> str:
    return chat.screen(history=True, joined=True)


def wait_for_frames(chat: ChatInTmux, count: int) -> None:
    """Wait until the screen has changed a few times, or changes no more."""
    looks = [chat.screen()]

    def changes() -> int:
        looks.append(chat.screen())
        return sum(before != after for before, after in pairwise(looks))

    chat.wait_until(changes, lambda changed: changed >= count or len(set(looks[-40:])) == 1 < len(looks) - 40, "a frame")


@pytest.mark.parametrize("seed", range(6))
def test_each_word_of_an_answer_is_there_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    text = an_answer(chance, 12)
    turn: dict[str, Any] = {"text": f"{text}\n\nend.", "chunk": 12, "delayMs": 15}
    columns, rows = a_size(chance)
    with chat_in_tmux(tmp_path, [turn], columns=columns, rows=max(15, rows)) as chat:
        chat.start()
        chat.send("tell me")
        sizes = list[tuple[int, int]]()
        while "end." not in chat.screen():
            sizes.append(a_size(chance))
            chat.resize(*sizes[-1])
            wait_for_frames(chat, chance.choice((1, 4, 8)))
            assert not copies(everything(chat)), sizes
        chat.resize(200, 50)
        chat.wait_for(lambda screen: "~/project" in screen and "Esc stops" not in screen)
        shown = everything(chat)
        assert not copies(shown), sizes
        assert sorted(WORD.findall(shown)) == sorted(WORD.findall(text)), sizes
        in_order = re.compile(r"\b[wcl]\d{3}\b")
        assert in_order.findall(shown) == in_order.findall(text), sizes


COMMAND = ": the-command; for i in $(seq 100 999); do echo out$i is a line of output with about sixty columns; sleep 0.05; done"


def a_step(chance: random.Random, size: tuple[int, int]) -> tuple[int, int]:
    """Another size: at the least half as wide, and two thirds as high."""
    columns = int(size[0] * chance.choice((0.5, 0.7, 0.9, 1, 1.3, 2)))
    rows = int(size[1] * chance.choice((0.7, 0.9, 1, 1.3)))
    return min(200, max(40, columns)), min(50, max(16, rows))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("asks", [False, True])
def test_a_call_that_runs_or_waits_for_approval_is_there_once(tmp_path: Path, seed: int, asks: bool) -> None:
    chance = random.Random(seed)
    arguments = {"command": COMMAND}
    turns = [{"text": an_answer(chance, 6)}, {"text": "I will run it.", "toolCalls": [{"name": "bash", "arguments": arguments}]}]
    size = (100, 30)
    with chat_in_tmux(tmp_path, turns, columns=size[0], rows=size[1]) as chat:
        chat.start(*(["--approval", "ask"] if asks else []))
        chat.send("tell me")
        chat.wait_for(lambda screen: "$0.0" in screen and "Esc stops" not in screen)
        chat.send("run it")
        chat.wait_for("for this session" if asks else "out1")
        sizes = list[tuple[int, int]]()
        for _ in range(7):
            size = a_step(chance, size)
            sizes.append(size)
            chat.resize(*size)
            wait_for_frames(chat, 4)
            shown = everything(chat)
            assert not copies(shown), sizes
            # The question repeats the title of the call.
            assert 1 <= shown.count("the-command") <= 1 + asks, sizes
            assert shown.count("Esc stops") == 1, sizes
            assert shown.count("n deny") == asks, sizes
            assert shown.count("> Ask for") == (not asks), sizes


OLD = "".join(f"the c{number:03} line of the file, which is about sixty columns long\n" for number in range(15))
NEW = OLD.replace("the c0", "the c1")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_wild", [False, True], ids=["steps", "any size"])
def test_a_diff_that_waits_for_approval_is_there_once(tmp_path: Path, seed: int, is_wild: bool) -> None:
    chance = random.Random(seed)
    edit = {"name": "edit", "arguments": {"path": "a.txt", "edits": [{"oldText": OLD, "newText": NEW}]}}
    turns = [{"text": an_answer(chance, 3).replace("c", "w")}, {"text": "I will edit it.", "toolCalls": [edit]}, {"text": "end."}]
    lines = sorted(WORD.findall(OLD + NEW))
    assert len(lines) == 30

    def check(chat: ChatInTmux) -> None:
        shown = everything(chat)
        assert not copies(shown), sizes
        assert sorted(word for word in WORD.findall(shown) if word[0] == "c") == lines, sizes

    size = (100, 30)
    sizes = list[tuple[int, int]]()

    def resize(chat: ChatInTmux) -> None:
        nonlocal size
        size = a_size(chance) if is_wild else a_step(chance, size)
        sizes.append(size)
        chat.resize(*size)

    with chat_in_tmux(tmp_path, turns, columns=size[0], rows=size[1]) as chat:
        (chat.folder / "a.txt").write_text(OLD)
        chat.start("--approval", "ask")
        chat.send("tell me")
        chat.wait_for(lambda screen: "$0.0" in screen and "Esc stops" not in screen)
        chat.send("edit it")
        chat.wait_for("for this session")
        for _ in range(7):
            resize(chat)
            wait_for_frames(chat, 4)
            check(chat)
            shown = everything(chat)
            if is_wild:  # a narrow window wraps and clips these
                shown = re.sub(r"\s+", "", shown)
                assert shown.count("Allowedit?") == 1, sizes
                assert max(map(shown.count, ("ndeny", "Escstops", "needsapproval"))) <= 1, sizes
            else:
                assert shown.count("Allow edit?") == shown.count("n deny") == shown.count("Esc stops") == 1, sizes
                assert shown.count("needs approval") == 1, sizes
        chat.resize(100, 30)
        wait_for_frames(chat, 4)
        chat.press("y")
        chat.wait_for(lambda screen: "\nend." in screen and "> Ask for" in screen)
        for _ in range(3):
            resize(chat)
            chat.wait_until_steady()
            check(chat)
        assert everything(chat).count("+15 -15 · allowed") == 1


@pytest.mark.parametrize("narrow", [(25, 7), (20, 6), (40, 7), (25, 12)])
def test_a_question_in_a_low_window_is_there_once_if_it_becomes_narrow(tmp_path: Path, narrow: tuple[int, int]) -> None:
    edit = {"name": "edit", "arguments": {"path": "a.txt", "edits": [{"oldText": OLD, "newText": NEW}]}}
    turns = [{"text": "I will edit it.", "toolCalls": [edit]}]
    with chat_in_tmux(tmp_path, turns, columns=101, rows=20) as chat:
        (chat.folder / "a.txt").write_text(OLD)
        chat.start("--approval", "ask")
        chat.send("edit it")
        chat.wait_for("for this session")
        for size in ((101, 7), narrow):
            chat.resize(*size)
            chat.wait_until_steady()
        shown = re.sub(r"\s+", "", everything(chat))
        assert shown.count("Allowedit?") == 1
        assert shown.count("needsapproval") <= 1


@pytest.mark.parametrize("size", [(100, 30), (100, 50), (160, 40)])
def test_a_list_in_a_terminal_with_free_rows_is_there_once_if_it_becomes_half_as_wide(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    with chat_in_tmux(tmp_path, [], columns=size[0], rows=size[1]) as chat:
        chat.start()
        chat.command("/model")
        chat.wait_for("Enter pick")
        chat.resize(size[0] // 2, size[1])
        chat.wait_until_steady()
        shown = everything(chat)
        assert shown.count("▸ anthropic/") == shown.count("Enter pick") == shown.count("Model\n/") == 1


TALL = " ".join(f"w{number:03}" for number in range(300))
TABLE = "| a | b |\n|---|---|\n" + "\n".join(f"| t{number:03} and more | t{number + 500:03} with text |" for number in range(60))


@pytest.mark.parametrize("text", [TALL, f"- one\n- {TALL}", TABLE], ids=["paragraph", "item", "table"])
@pytest.mark.parametrize("sizes", [[(100, 15), (33, 15), (100, 15)], [(33, 30), (25, 30), (60, 20)]])
def test_an_open_block_higher_than_the_screen_is_there_once(tmp_path: Path, sizes: list[tuple[int, int]], text: str) -> None:
    turn: dict[str, Any] = {"text": f"{text}\n\nend.", "chunk": 20, "holdAfter": len(text) // 20 - 1}
    with chat_in_tmux(tmp_path, [turn], columns=sizes[0][0], rows=sizes[0][1]) as chat:
        chat.start()
        chat.send("tell me")
        chat.wait_for(WORD.findall(text)[-12])
        for size in (*sizes, *sizes):
            chat.resize(*size)
            chat.wait_until_steady()
            shown = everything(chat)
            assert not copies(shown)
            assert len(WORD.findall(shown)) >= len(WORD.findall(text)) - 12
        chat.server.release()
        chat.wait_for(lambda screen: "end." in screen and "Esc stops" not in screen)
        assert sorted(WORD.findall(everything(chat))) == sorted(WORD.findall(text))
