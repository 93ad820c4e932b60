"""The conversation as the summarising model reads it, and what it is asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.messages import (
    AssistantBlock,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from fairlead.session.compaction.summary import (
    HISTORY_TASK,
    TURN_PREFIX_TASK,
    UPDATE_NOTE,
    file_lists,
    join_summaries,
    request_text,
    take,
    transcript,
)


def answer(*content: AssistantBlock) -> AssistantMessage:
    return AssistantMessage(list(content), "api", "provider", "model", Usage(), "stop", 1)


def result(text: str, *, is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage("c", "read", [TextContent(text)], is_error, 1)


def test_a_conversation_reads_as_labelled_paragraphs() -> None:
    messages: list[Message] = [
        UserMessage("fix it", 1),
        answer(
            ThinkingContent("hm"),
            TextContent("I look."),
            ToolCall("c", "read", {"path": "a.py", "limit": 3}),
            ToolCall("d", "ls", {}),
        ),
        result("x = 1"),
        result("no such file", is_error=True),
        answer(TextContent("Done.")),
    ]
    assert transcript(messages) == [
        "[User]: fix it",
        "[Assistant thinking]: hm",
        "[Assistant]: I look.",
        '[Assistant tool calls]: read(path="a.py", limit=3); ls()',
        "[Tool result]: x = 1",
        "[Tool result (error)]: no such file",
        "[Assistant]: Done.",
    ]


def test_other_messages_read_as_the_model_saw_them() -> None:
    shown = transcript(
        [
            BashExecutionMessage("ls", "a.py", False, False, 1, exit_code=0),
            CustomMessage("note", "remember", True, 1),
            BranchSummaryMessage("went astray", "id", 1),
            UserMessage([TextContent("look"), ImageContent("aGk=", "image/png")], 1),
        ]
    )
    assert shown[:2] == ["[User]: Ran `ls`\n```\na.py\n```", "[User]: remember"]
    assert "went astray" in shown[2]
    assert shown[3] == "[User]: look\n[image]"


def test_empty_and_hidden_messages_are_left_out_of_the_summary() -> None:
    hidden = BashExecutionMessage("secret", "out", False, False, 1, exclude_from_context=True)
    assert transcript([hidden, answer(), answer(TextContent(" ")), UserMessage(" \n", 1), result("")]) == []


@pytest.mark.parametrize(("length", "more"), [(2000, None), (2001, 1), (50_000, 48_000)])
def test_tool_output_is_cut_at_2000_characters(length: int, more: int | None) -> None:
    rest = "" if more is None else f"\n[... {more} more characters]"
    long = "a" * length
    assert transcript([result(long)]) == [f"[Tool result]: {'a' * 2000}{rest}"]
    (bash,) = transcript([BashExecutionMessage("cat f", long, False, False, 1)])
    assert bash == f"[User]: Ran `cat f`\n```\n{'a' * 2000}{rest}\n```"


def test_long_arguments_are_cut_and_long_messages_are_not() -> None:
    call = ToolCall("c", "write", {"path": "a", "content": "b" * 5000})
    (paragraph,) = transcript([answer(call)])
    assert len(paragraph) < 2200 and paragraph.startswith('[Assistant tool calls]: write(path="a", content="bbb')
    assert transcript([UserMessage("c" * 5000, 1)]) == ["[User]: " + "c" * 5000]


@given(st.lists(st.text("ab", min_size=1, max_size=30), min_size=1, max_size=20), st.integers(10, 60))
def test_portions_hold_every_paragraph_in_order_and_keep_to_the_limit(paragraphs: list[str], limit: int) -> None:
    taken: list[str] = []
    rest = list(paragraphs)
    while rest:
        before = len(rest)
        text, left = take(rest, limit)
        rest = list(left)
        pieces = paragraphs[len(paragraphs) - before : len(paragraphs) - len(rest)]
        assert pieces
        if len(pieces[0]) <= limit:
            assert text == "\n\n".join(pieces) and len(text) <= limit
        taken += pieces
    assert taken == paragraphs


def test_a_paragraph_too_long_for_a_portion_loses_its_middle() -> None:
    text, rest = take(["a" * 50 + "b" * 50, "next"], 20)
    assert text == f"{'a' * 10}\n[... 80 characters left out ...]\n{'b' * 10}"
    assert rest == ["next"]


def test_the_request_has_the_conversation_then_the_task() -> None:
    text = request_text(HISTORY_TASK, "[User]: hi", None, None)
    assert text == f"<conversation>\n[User]: hi\n</conversation>\n\n{HISTORY_TASK}"


def test_a_previous_summary_is_to_be_updated() -> None:
    text = request_text(HISTORY_TASK, "[User]: hi", "old notes", None)
    assert "<previous-summary>\nold notes\n</previous-summary>" in text
    assert text.endswith(UPDATE_NOTE)


@pytest.mark.parametrize("task", [HISTORY_TASK, TURN_PREFIX_TASK])
def test_the_users_instructions_come_last(task: str) -> None:
    assert request_text(task, "c", "old", "  the tests \n").endswith("attention to this: the tests")
    assert request_text(task, "c", None, "  ") == request_text(task, "c", None, None)


def test_the_history_is_asked_for_under_the_headings_that_hosts_know() -> None:
    headings = [line.lstrip("# ") for line in HISTORY_TASK.splitlines() if line.startswith("#")]
    assert headings == [
        "Goal",
        "Constraints & Preferences",
        "Progress",
        "Done",
        "In Progress",
        "Blocked",
        "Key Decisions",
        "Next Steps",
        "Critical Context",
    ]


def test_a_split_turn_follows_the_history() -> None:
    assert join_summaries("history", "") == "history"
    assert join_summaries("history", "prefix") == "history\n\n---\n\n**Turn Context (split turn):**\n\nprefix"


def test_file_lists_name_only_what_there_is() -> None:
    assert file_lists([], []) == ""
    assert file_lists(["a", "b"], []) == "\n\n<read-files>\na\nb\n</read-files>"
    assert file_lists(["a"], ["c"]) == "\n\n<read-files>\na\n</read-files>\n\n<modified-files>\nc\n</modified-files>"
