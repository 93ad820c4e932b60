"""The footer of the chat."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fairlead.chat.status import Facts, dollars, footer_lines, git_branch, queue_lines, short_folder
from fairlead.chat.view.text import width
from fairlead.chat.view.theme import PLAIN
from fairlead.chat.view.tool_titles import format_elapsed

FACTS = Facts("~/src/app", "main", None, "claude-x", "high", 12.4, 200_000, 0.0312, 2, "ask")


def test_a_wide_footer_says_everything() -> None:
    (line,) = footer_lines(FACTS, {}, PLAIN, 100)
    assert line == "~/src/app (main) · claude-x · 12% of 200k · 2 queued · $0.0312 · approval ask · thinking high"


@pytest.mark.parametrize("columns", range(10, 120, 7))
def test_no_footer_is_too_wide_and_the_model_comes_first(columns: int) -> None:
    lines = footer_lines(FACTS, {"a": "working on\nit", "b": "2 files"}, PLAIN, columns)
    assert all(width(line) <= columns for line in lines)
    assert "claude-x"[: columns - 2] in lines[0]
    assert lines[1].startswith("working on"[: columns - 1])


def test_names_cannot_send_escape_sequences() -> None:
    facts = Facts("/tmp/\x1b[2Jfolder", None, "a\x1b]0;name\x07\nb", "model\x1b[31m")
    assert footer_lines(facts, {"a": "\x1b[1mok"}, PLAIN, 80) == ["a b · /tmp/folder · model", "ok"]


def test_a_chat_without_a_model_says_what_to_do() -> None:
    assert "/login" in footer_lines(Facts("~"), {}, PLAIN, 80)[0]


@pytest.mark.parametrize(("seconds", "text"), [(3.9, "3s"), (65, "1m 05s"), (3725, "1h 02m")])
def test_elapsed_time(seconds: float, text: str) -> None:
    assert format_elapsed(seconds, whole_from=0) == text


@pytest.mark.parametrize(("amount", "text"), [(0, "$0.00"), (0.0312, "$0.0312"), (12.345, "$12.35")])
def test_money(amount: float, text: str) -> None:
    assert dollars(amount) == text


def test_the_branch_comes_from_the_repository_around_a_folder(tmp_path: Path) -> None:
    assert git_branch(tmp_path) is None
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", "-b", "topic/one", repository], check=True)
    (repository / "sub").mkdir()
    assert git_branch(repository / "sub") == "topic/one"
    (repository / ".git/HEAD").write_text("0123456789abcdef\n")
    assert git_branch(repository) == "01234567"


def test_the_branch_of_a_worktree(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/HEAD").write_text("ref: refs/heads/side\n")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/.git").write_text(f"gitdir: {tmp_path}/real\n")
    assert git_branch(tmp_path / "tree") == "side"


def test_the_users_own_folder_is_a_tilde() -> None:
    assert short_folder(Path("/home/me/src"), "/home/me") == "~/src"
    assert short_folder(Path("/home/meg"), "/home/me") == "/home/meg"


def test_messages_that_wait() -> None:
    assert queue_lines(["now\nthis"], ["then"], PLAIN, 40, 3) == ["  next: now this", "  later: then"]
    assert queue_lines(["a", "b"], ["c", "d"], PLAIN, 40, 3) == ["  next: a", "  next: b", "  and 2 more"]
