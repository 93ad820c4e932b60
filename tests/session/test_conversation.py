"""One conversation: what is added, what is told of it, and what happens when it cannot be written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.session.scene import entry_of, file_size_limit, in_the_way, kept_in, texts

from fairlead.core.events import CompactionResult, FileLists
from fairlead.core.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CompactionSummaryMessage,
    Message,
    StopReason,
    TextContent,
    Usage,
    UserMessage,
    user_message,
)
from fairlead.errors import EntryNotFound, SessionError
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.log import Log
from fairlead.session.history.reading import read_session
from fairlead.testing import SCRIPTED_MODEL


def ask(text: str) -> UserMessage:
    return user_message(text, None, 1)


def answer(text: str, tokens: int = 0, stop: StopReason = "stop") -> AssistantMessage:
    content = [TextContent(text)] if text else []
    return AssistantMessage([*content], "scripted", "scripted", "scripted-1", Usage(input=tokens), stop, 1)


def summary(kept: str) -> CompactionResult:
    return CompactionResult("in short", kept, 100, FileLists())


def path_of(conversation: Conversation) -> Path:
    assert conversation.path is not None
    return conversation.path


def on_disk(conversation: Conversation) -> list[str]:
    return texts(read_session(path_of(conversation))[0].messages())


def full(conversation: Conversation) -> int:
    """The size at which the conversation's file is full."""
    return path_of(conversation).stat().st_size


# Beginning


def test_a_conversation_that_is_only_looked_at_does_not_begin(tmp_path: Path) -> None:
    conversation = kept_in(tmp_path / "sessions").new()
    looked = conversation.messages, conversation.for_model(), conversation.count, conversation.name, conversation.last_answer()
    assert looked == ([], [], 0, None, None)
    assert conversation.context_tokens() == 0
    assert not conversation.has_begun and not conversation.is_saved
    assert conversation.close()
    assert path_of(conversation).parent.is_dir()
    assert not path_of(conversation).exists()


def test_a_choice_makes_the_file_which_goes_again_if_nothing_else_follows(tmp_path: Path) -> None:
    conversation = kept_in(tmp_path / "sessions").new()
    conversation.on_begin = lambda log: log.model_change("p", "m") and None
    conversation.choose_model(SCRIPTED_MODEL)
    conversation.choose_level("high")
    lines = [json.loads(line) for line in path_of(conversation).read_bytes().splitlines()]
    assert [line["type"] for line in lines] == ["session", "model_change", "thinking_level_change"]
    assert conversation.close()
    assert list((tmp_path / "sessions").rglob("*.jsonl")) == []


def test_how_it_begins_is_written_down_once_and_before_all_else(tmp_path: Path) -> None:
    conversation = kept_in(tmp_path / "sessions").new()
    begun: list[Log] = []

    def begin(log: Log) -> None:
        begun.append(log)
        log.thinking_level_change("low")

    conversation.on_begin = begin
    conversation.ask(ask("one"))
    conversation.add(answer("two"))
    assert begun == [conversation.log]
    lines = [json.loads(line) for line in path_of(conversation).read_bytes().splitlines()]
    assert [line["type"] for line in lines] == ["session", "thinking_level_change", "message", "message"]
    assert lines[0]["id"] == conversation.id


def test_nothing_is_saved_before_the_first_message(tmp_path: Path) -> None:
    conversation = kept_in(tmp_path / "sessions").new()
    conversation.log.session_info("a name")
    assert conversation.name == "a name"
    assert not conversation.is_saved and not path_of(conversation).exists()
    conversation.ask(ask("one"))
    assert conversation.is_saved
    assert read_session(path_of(conversation))[0].name == "a name"


def test_a_choice_made_after_the_beginning_is_written_down(tmp_path: Path) -> None:
    conversation = kept_in(tmp_path / "sessions").new()
    conversation.ask(ask("one"))
    conversation.choose_model(SCRIPTED_MODEL)
    conversation.choose_level("high")
    log, _ = read_session(path_of(conversation))
    chosen = log.model()
    assert chosen is not None and (chosen.provider, chosen.id) == ("scripted", "scripted-1")
    assert log.thinking_level() == "high"


# What is told of it


def test_messages_and_counts_follow_every_change(tmp_path: Path) -> None:
    conversation = kept_in(tmp_path / "sessions").new()
    log = conversation.log

    def check(expected: list[str], told: int) -> None:
        afresh = Conversation.of(log)
        assert texts(conversation.messages) == expected
        assert (conversation.messages, conversation.count) == (afresh.messages, afresh.count)
        assert len(conversation.for_model()) == told
        assert conversation.for_model() == afresh.for_model()

    check([], 0)
    conversation.ask(ask("one"))
    conversation.add(answer("two"))
    check(["one", "two"], 2)
    conversation.add(BashExecutionMessage("ls", "", False, False, 1, exclude_from_context=True))
    check(["one", "two", "BashExecutionMessage"], 2)
    conversation.ask(ask("three"))
    conversation.compact(summary(entry_of(log, "three")))
    check(["CompactionSummaryMessage", "three"], 2)
    conversation.move(entry_of(log, "two"))
    check(["one", "two"], 2)
    log.branch_summary(None, "what happened elsewhere")
    conversation.forget_computed()
    check(["one", "two", "BranchSummaryMessage"], 3)
    conversation.move(None)
    check([], 0)


def test_a_move_to_nowhere_changes_nothing(tmp_path: Path) -> None:
    conversation = kept_in(tmp_path / "sessions").new()
    conversation.ask(ask("one"))
    leaf = conversation.log.leaf
    with pytest.raises(EntryNotFound, match=r"^Entry nowhere not found$"):
        conversation.move("nowhere")
    assert conversation.log.leaf == leaf


def test_each_request_gets_the_same_message_objects_in_a_new_list(tmp_path: Path) -> None:
    conversation = kept_in(tmp_path / "sessions").new()
    conversation.add(BashExecutionMessage("ls", "x", False, False, 1, exit_code=0))
    conversation.ask(ask("one"))
    first, again = conversation.for_model(), conversation.for_model()
    assert len(first) == 2 and all(a is b for a, b in zip(first, again, strict=True))
    first.clear()
    assert len(conversation.for_model()) == 2


def test_messages_of_unknown_roles_are_counted_but_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text(
        '{"type":"session","version":3,"id":"x","timestamp":"","cwd":""}\n'
        '{"type":"message","id":"1","parentId":null,"timestamp":"","message":{"role":"system","sections":{}}}\n'
        '{"type":"message","id":"2","parentId":"1","timestamp":"","message":{"role":"user","content":"hi","timestamp":1}}\n'
    )
    conversation = kept_in(tmp_path / "sessions").open(str(path))
    assert (conversation.count, texts(conversation.messages)) == (2, ["hi"])
    conversation.close()


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([ask("one")], None),
        ([ask("one"), answer("two"), ask("three")], "two"),
        ([ask("one"), answer("two"), answer("", stop="aborted")], "two"),
        ([ask("one"), answer("two"), answer("hal", stop="aborted")], "hal"),
        ([ask("one"), answer("two"), answer("", stop="error")], ""),
    ],
    ids=["none", "the last", "not an empty one that was aborted", "what there was of it", "a failed one"],
)
def test_the_last_answer(tmp_path: Path, messages: list[Message], expected: str | None) -> None:
    conversation = kept_in(tmp_path / "sessions").new()
    for message in messages:
        conversation.add(message)
    last = conversation.last_answer()
    assert (last.text() if last else None) == expected


def test_an_answer_that_failed_stays_in_the_file_but_is_kept_from_the_model(tmp_path: Path) -> None:
    conversation = kept_in(tmp_path / "sessions").new()
    conversation.ask(ask("one"))
    assert conversation.drop_last_answer() is None, "there is none"
    conversation.add(answer("good"))
    conversation.ask(ask("two"))
    conversation.add(answer("bad", stop="error"))
    assert texts(conversation.for_model()) == ["one", "good", "two", "bad"]
    failed = conversation.log.leaf
    told = conversation.drop_last_answer()
    assert told is not None
    edit = json.loads(bytes(told))
    assert (edit["type"], edit["targetId"], edit["replacement"]) == ("context_edit", failed, None)
    assert texts(conversation.for_model()) == ["one", "good", "two"] and conversation.count == 3
    assert on_disk(conversation) == ["one", "good", "two"]
    assert b'"bad"' in path_of(conversation).read_bytes()


def test_context_usage_comes_from_the_last_answer_still_in_context(tmp_path: Path) -> None:
    conversation = kept_in(tmp_path / "sessions").new()
    conversation.ask(ask("x" * 40))
    assert conversation.context_tokens() == 10, "estimated until somebody knows"
    conversation.add(answer("one", tokens=500))
    conversation.ask(ask("y" * 40))
    assert conversation.context_tokens() == 510
    conversation.add(answer("two", tokens=900))
    assert conversation.context_tokens() == 900
    conversation.drop_last_answer()
    assert conversation.context_tokens() == 510
    kept = entry_of(conversation.log, "y" * 40)
    conversation.compact(summary(kept))
    assert conversation.context_tokens() is None
    conversation.move(kept)
    assert conversation.context_tokens() == 510, "the compaction is on another branch"


def test_a_summary_stands_for_what_it_replaces(tmp_path: Path) -> None:
    conversation = kept_in(tmp_path / "sessions").new()
    conversation.ask(ask("one"))
    conversation.add(answer("two"))
    conversation.ask(ask("three"))
    conversation.compact(summary(entry_of(conversation.log, "three")))
    first, second = conversation.messages
    assert isinstance(first, CompactionSummaryMessage) and (first.summary, first.tokens_before) == ("in short", 100)
    assert texts([second]) == ["three"]
    assert on_disk(conversation) == ["CompactionSummaryMessage", "three"]


# Bad luck


def test_changes_that_cannot_be_saved_are_refused_without_effect(tmp_path: Path) -> None:
    conversation = kept_in(tmp_path / "sessions").new()
    troubles: list[SessionError] = []
    conversation.on_trouble = troubles.append
    with in_the_way(tmp_path / "sessions"):
        with pytest.raises(SessionError, match=r"^Cannot write session file .*: File exists"):
            conversation.ask(ask("refused"))
        with pytest.raises(SessionError):
            conversation.note("fairlead.queue", {"op": "clear"})
    assert (conversation.messages, conversation.count, conversation.is_saved) == ([], 0, False)
    assert troubles == [], "whoever asked knows already"
    conversation.ask(ask("one"))
    assert on_disk(conversation) == ["one"]
    assert len(conversation.log) == 1


def test_unwritten_events_are_held_and_written_before_later_ones(tmp_path: Path) -> None:
    conversation = kept_in(tmp_path / "sessions").new()
    troubles: list[SessionError] = []
    conversation.on_trouble = troubles.append
    conversation.ask(ask("one"))
    with file_size_limit(full(conversation)):
        conversation.add(answer("two"))
        conversation.choose_level("low")
        conversation.add(answer("three"))
        assert not conversation.flush()
        with pytest.raises(SessionError):
            conversation.ask(ask("refused"))
    assert texts(conversation.messages) == ["one", "two", "three"]
    assert on_disk(conversation) == ["one"]
    assert len(troubles) == 1, "told once, not for every message"
    conversation.ask(ask("four"))
    assert on_disk(conversation) == ["one", "two", "three", "four"]
    assert read_session(path_of(conversation))[0].thinking_level() == "low"


def test_a_summary_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    conversation = kept_in(tmp_path / "sessions").new()
    conversation.ask(ask("one"))
    conversation.ask(ask("two"))
    with file_size_limit(full(conversation)), pytest.raises(SessionError):
        conversation.compact(summary(entry_of(conversation.log, "two")))
    assert texts(conversation.messages) == ["one", "two"]


@pytest.mark.parametrize("how", ["ask", "add", "note", "flush"])
def test_a_write_failure_is_reported_again_after_a_successful_write(tmp_path: Path, how: str) -> None:
    conversation = kept_in(tmp_path / "sessions").new()
    troubles: list[SessionError] = []
    conversation.on_trouble = troubles.append
    conversation.ask(ask("one"))
    with file_size_limit(full(conversation)):
        conversation.add(answer("two"))
    match how:
        case "ask":
            conversation.ask(ask("three"))
        case "add":
            conversation.add(answer("three"))
        case "note":
            conversation.note("test", {})
        case _:
            assert conversation.flush()
    with file_size_limit(full(conversation)):
        conversation.add(answer("four"))
    assert len(troubles) == 2


def test_a_conversation_is_not_let_go_of_before_all_of_it_is_written(tmp_path: Path) -> None:
    sessions = kept_in(tmp_path / "sessions")
    conversation = sessions.new()
    conversation.ask(ask("one"))
    with file_size_limit(full(conversation)):
        conversation.add(answer("two"))
        assert not conversation.close()
    with pytest.raises(SessionError, match="in use by another session of this process"):
        sessions.open(str(path_of(conversation)))
    assert conversation.close()
    again = sessions.open(str(path_of(conversation)))
    assert texts(again.messages) == ["one", "two"]
    again.close()
