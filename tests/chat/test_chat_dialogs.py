"""The questions of the chat, key by key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead import Allow, ApprovalRequest, Deny, FileChange, NewRule, RuleOffer
from fairlead.chat.chat_ui import Approval
from fairlead.chat.dialogs import Ask, Choice, Confirm, Dialog, EditorDialog, Line, Picker
from fairlead.chat.view.panels import Proposal
from fairlead.chat.view.text import width, without_styles
from fairlead.chat.view.theme import DARK, PLAIN


def press(dialog: Dialog[Any], *keys: str) -> None:
    for key in keys:
        dialog.key(key, key if len(key) == 1 else "")


def shown(dialog: Dialog[Any], columns: int = 60, rows: int = 12) -> list[str]:
    lines, _ = dialog.draw(PLAIN, columns, rows)
    assert len(lines) <= rows and all(width(line) <= columns for line in lines)
    return [without_styles(line) for line in lines]


def fruit(**options: Any) -> Picker:
    return Picker("Fruit?", [Choice(name, name.upper()) for name in ("apple", "banana", "cherry")], **options)


async def test_a_picker_narrows_down_and_picks() -> None:
    picker = fruit()
    press(picker, "a", "n")
    assert [line for line in shown(picker) if "banana" in line] == ["▸ banana"]
    assert not any("cherry" in line for line in shown(picker))
    press(picker, "c-m")
    assert picker.answer.result() == "BANANA"


async def test_a_picker_wraps_around_and_can_be_dismissed() -> None:
    picker = fruit()
    press(picker, "up")
    assert "▸ cherry" in shown(picker)
    press(picker, "down")
    assert "▸ apple" in shown(picker)
    press(picker, "escape", "c-m")
    assert picker.answer.result() is None


async def test_without_a_filter_digits_pick() -> None:
    picker = fruit(filtered=False)
    assert "  2. banana" in shown(picker)
    press(picker, "9", "2")
    assert picker.answer.result() == "BANANA"


async def test_a_long_label_leaves_room_for_the_detail_beside_it() -> None:
    choices = [
        Choice("why does the build fail on the second machine only?", 1, "16 Nov 22:56 · 14 messages"),
        Choice("hi", 2, "now"),
    ]
    picker = Picker("Sessions", choices)
    assert shown(picker, 72)[2:4] == [
        "▸ why does the build fail on the second mac…  16 Nov 22:56 · 14 messages",
        "  hi" + " " * 42 + "now",
    ]
    assert shown(picker, 40)[2] == "▸ why does the build fail …  16 Nov 22:…"
    assert shown(picker, 20)[2] == "▸ why does the buil…"


async def test_enter_with_no_match_does_nothing() -> None:
    picker = fruit(empty="no fruit")
    press(picker, "x", "c-m")
    assert not picker.answer.done() and any("no fruit" in line for line in shown(picker))


async def test_a_long_list_shows_where_it_stands() -> None:
    picker = Picker("Number?", [Choice(f"number {number}", number, "detail " * 20) for number in range(100)])
    press(picker, *["down"] * 50)
    lines = shown(picker, 40, 8)
    assert any(line.startswith("▸ number 50") for line in lines) and lines[-1].startswith("51 of 100")


@pytest.mark.parametrize(("key", "answer"), [("y", True), ("n", False), ("c-m", True), ("escape", None)])
async def test_yes_or_no(key: str, answer: bool | None) -> None:
    dialog = Confirm("Really?", "It is final.")
    assert shown(dialog)[:2] == ["Really?", "It is final."]
    press(dialog, key)
    assert dialog.answer.result() == answer


async def test_a_secret_is_typed_but_not_shown() -> None:
    dialog = Ask("Key?", secret=True)
    press(dialog, *"s3cret")
    dialog.key("<bracketed-paste>", "-more\n")
    assert "s3cret" not in "".join(shown(dialog))
    press(dialog, "c-m")
    assert dialog.answer.result() == "s3cret-more"


def test_a_line_is_edited() -> None:
    line = Line("hello big world")
    for key in ("c-w", "home", "delete", "H", "end", "backspace", "left", "c-k"):
        line.key(key, key if len(key) == 1 else "")
    assert line.text == "Hello bi"
    assert not line.key("f5", "")


def test_a_line_that_is_too_long_shows_its_end() -> None:
    text, cursor = Line("x" * 50 + "END").draw(20)
    assert text.endswith("END") and cursor < 20


def request(**fields: Any) -> ApprovalRequest:
    return ApprovalRequest("bash", "1", {}, "Allow bash?", **fields)


def an_approval(request: ApprovalRequest, stop: Callable[[], None] = lambda: None) -> Approval:
    def propose(request: ApprovalRequest, *, is_whole: bool = False) -> Proposal:
        proposal = Proposal(request, PLAIN, Path("/p"), is_whole=is_whole)
        if not proposal.is_short:
            proposal.final_lines(60, is_long=False)
        return proposal

    dialog = Approval(request, propose, stop)
    dialog.appear()
    return dialog


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["y"], Allow()),
        (["a"], Allow(for_session=True)),
        (["n", *"no way", "c-m"], Deny("no way")),
        (["n", "c-m"], Deny("")),
        (["n", "escape", "y"], Allow()),
    ],
)
async def test_answers_to_an_approval(keys: list[str], answer: object) -> None:
    stopped: list[bool] = []
    dialog = an_approval(request(subject="make", kind="execute"), lambda: stopped.append(True))
    assert any("make" in line for line in shown(dialog))
    press(dialog, *keys)
    assert dialog.answer.result() == answer and not stopped


@pytest.mark.parametrize("words", ["check status", "really?", "Try again"])
async def test_words_that_the_user_types_on_do_not_answer_an_approval(words: str) -> None:
    dialog = an_approval(request(subject="make", kind="execute"))
    press(dialog, *words)
    assert not dialog.answer.done()
    press(dialog, "escape")
    assert dialog.answer.result() == Deny()


def an_offer(*patterns: str) -> RuleOffer:
    return RuleOffer("bash", patterns, "/p", lambda rule: None if rule.pattern.startswith("git") else "It has to be about git.")


@pytest.mark.parametrize(
    ("keys", "rule"),
    [
        (["r", "c-m"], NewRule("git diff --stat")),
        (["r", "down", "c-m"], NewRule("git diff *")),
        (["r", "down", "down", "c-i", "c-m"], NewRule("git diff --stat", everywhere=True)),
        (["r", "c-w", "-", "-", "c", "c-m"], NewRule("git diff --c")),
        (["r", "home", "x", "c-m", "delete", "backspace", "c-m"], None),
    ],
)
async def test_an_approval_can_write_a_rule_that_the_user_sees_and_edits(keys: list[str], rule: NewRule | None) -> None:
    dialog = an_approval(request(subject="git diff --stat", kind="execute", rules=an_offer("git diff --stat", "git diff *")))
    assert "r always…" in shown(dialog)[-1]
    press(dialog, *keys)
    assert (dialog.answer.result() == Allow(rule=rule)) if rule else not dialog.answer.done()


async def test_the_rule_is_shown_with_the_place_where_it_holds_or_what_is_wrong_with_it() -> None:
    dialog = an_approval(request(subject="git diff", kind="execute", rules=an_offer("git diff", "git diff *")))
    press(dialog, "r", "down")
    assert shown(dialog)[2:4] == ["Always allow: git diff *", "  for bash in this project, /p"]
    press(dialog, "c-i")
    assert shown(dialog)[3] == "  for bash in every project"
    press(dialog, "home", "x")
    assert shown(dialog)[2:4] == ["Always allow: xgit diff *", "  It has to be about git."]
    press(dialog, "escape", "y")
    assert dialog.answer.result() == Allow()


async def test_no_rule_is_offered_where_none_can_be_written() -> None:
    dialog = an_approval(request(subject="make", kind="execute"))
    assert "always" not in shown(dialog)[-1]
    press(dialog, "r", "c-m")
    assert not dialog.answer.done()


async def test_escape_denies_and_stops_the_agent() -> None:
    stopped: list[bool] = []
    dialog = an_approval(request(subject="make", kind="execute"), lambda: stopped.append(True))
    press(dialog, "x", "c-m", "escape")
    assert dialog.answer.result() == Deny() and stopped == [True]


async def test_a_question_about_a_long_diff_is_low_and_names_the_file() -> None:
    new = "".join(f"line {number}\n" for number in range(100))
    dialog = an_approval(request(kind="edit", changes=(FileChange("/p/src/a.txt", "", new),)))
    for rows in (2, 4, 8, 20):
        assert shown(dialog, rows=rows) == ["Allow bash? src/a.txt", "y once · a for this session · n deny · Esc stop"]


async def test_a_question_says_how_much_is_folded_until_all_is_shown() -> None:
    new = "".join(f"line {number}\n" for number in range(1000))
    dialog = an_approval(request(kind="edit", changes=(FileChange("/p/a.txt", "", new),)))
    assert "  800 lines are folded · Ctrl+O shows all" in shown(dialog)
    press(dialog, "c-o")
    assert not any("folded" in line for line in shown(dialog)) and not dialog.answer.done()


async def test_a_question_says_that_a_change_is_not_known() -> None:
    dialog = an_approval(request(kind="edit", subject="/p/huge.txt"))
    assert shown(dialog)[1:3] == ["  /p/huge.txt", "  The change cannot be shown."]


async def test_a_question_in_a_low_terminal_says_that_lines_do_not_fit() -> None:
    dialog = an_approval(request(subject="one\ntwo\nthree", kind="execute"))
    assert shown(dialog, rows=4) == ["Allow bash?", "  $ one", "… 2 more lines do not fit", shown(dialog)[-1]]


async def test_text_of_a_model_cannot_send_escape_sequences() -> None:
    dialog = an_approval(request(subject="echo \x1b[2J\x1b]0;title\x07hi", kind="execute"))
    assert "\x1b" not in "".join(shown(dialog))
    picker = Picker("\x1b[31mred", [Choice("\x1b[2Jx", 1, "\x07")])
    assert "\x1b" not in "".join(shown(picker)) and "\x07" not in "".join(shown(picker))


async def test_several_lines_are_written() -> None:
    dialog = EditorDialog("Text?", "given")
    dialog.editor.insert(" and\nmore")
    lines, cursor = dialog.draw(PLAIN, 40, 8)
    assert lines[:3] == ["Text?", "> given and", "  more"] and cursor == (2, 6)
    dialog.send()
    assert dialog.answer.result() == "given and\nmore"


@pytest.mark.parametrize("command", ["rm -rf ~ #\recho safe", "echo \x1b]0;rm -rf ~\x07safe", "rm -rf ~" + "\x08" * 8 + "ls"])
async def test_an_approval_hides_no_part_of_a_command(command: str) -> None:
    dialog = an_approval(request(subject=command, kind="execute"))
    assert any("rm -rf ~" in line for line in shown(dialog))


async def test_a_narrow_approval_names_all_keys() -> None:
    dialog = an_approval(request(subject="make", kind="execute"))
    assert dialog.draw(PLAIN, 19, 6)[0][-1] == "y/a allow · n deny"
    assert dialog.draw(PLAIN, 39, 6)[0][-1] == "y once · a session · n deny · Esc stop"
    assert dialog.draw(PLAIN, 79, 6)[0][-1] == "y once · a for this session · n deny · Esc stop"


async def test_typed_digits_find_labels_not_places_in_the_list() -> None:
    picker = Picker("Sessions", [Choice(f"prompt {900 - number}", number) for number in range(40)] + [Choice("prompt 33", "it")])
    press(picker, *"prompt 33", "c-m")
    assert picker.answer.result() == "it"


async def test_a_confirmation_says_that_its_message_is_longer_than_the_screen() -> None:
    dialog = Confirm("Sure?", "word " * 200)
    lines = bare_lines(dialog, 30, 8)
    assert len(lines) == 8 and lines[-2].startswith("… ") and "more lines" in lines[-2]
    assert not any("more lines" in line for line in bare_lines(Confirm("Sure?", "word"), 30, 8))


def bare_lines(dialog: Dialog[Any], columns: int, rows: int) -> list[str]:
    return [without_styles(line) for line in dialog.draw(DARK, columns, rows)[0]]
