"""The prompts of earlier chats."""

from __future__ import annotations

import stat
from pathlib import Path

from fairlead.chat.input.editor import MOST_PROMPTS, PromptHistory


def test_prompts_outlast_the_chat_in_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "home" / "history.jsonl"
    first = PromptHistory(path)
    first.add("one")
    first.add("two\nlines")
    first.add("two\nlines")
    assert PromptHistory(path).prompts == ["one", "two\nlines"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_chats_add_to_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    one, other = PromptHistory(path), PromptHistory(path)
    assert one.prompts == other.prompts == []
    one.add("from one")
    other.add("from the other")
    assert PromptHistory(path).prompts == ["from one", "from the other"]


def test_going_back_and_forth_keeps_the_draft() -> None:
    history = PromptHistory(None)
    history.add("one")
    history.add("two")
    assert history.older("draft") == "two"
    assert history.older("two") == "one"
    assert history.older("one") is None
    assert history.newer("one") == "two"
    assert history.newer("two") == "draft"
    assert history.newer("draft") is None


def test_an_edited_prompt_is_a_new_draft() -> None:
    history = PromptHistory(None)
    history.add("one")
    history.add("two")
    assert history.older("") == "two"
    assert history.older("two, changed") == "two"
    assert history.newer("two") == "two, changed"


def test_the_history_file_has_a_size_limit(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(f'"prompt {number}"\n' for number in range(3 * MOST_PROMPTS)) + "not json\n")
    assert len(PromptHistory(path).prompts) == MOST_PROMPTS
    assert len(path.read_text().splitlines()) == MOST_PROMPTS
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert PromptHistory(path).prompts[-1] == f"prompt {3 * MOST_PROMPTS - 1}"


def test_a_file_that_cannot_be_written_changes_nothing_for_the_user(tmp_path: Path) -> None:
    history = PromptHistory(tmp_path)  # a directory
    history.add("one")
    assert history.prompts == ["one"]
