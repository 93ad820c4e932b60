"""When a conversation is compacted, where it is cut, and what is collected from the part before the cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from fairlead.core.events import FileLists
from fairlead.core.messages import (
    AssistantBlock,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CustomMessage,
    Message,
    StopReason,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from fairlead.errors import AlreadyCompacted, FairleadError, NothingToCompact
from fairlead.session.compaction.cut import Item, plan
from fairlead.session.context.tokens import estimate_all, should_compact

# Conversations, in which `n` tokens are 4n characters


def user(tokens: int = 1) -> UserMessage:
    return UserMessage("u" * 4 * tokens, 1)


def answer(tokens: int = 1, *calls: ToolCall, used: int = 0, stop: StopReason = "stop") -> AssistantMessage:
    content: list[AssistantBlock] = [TextContent("a" * 4 * tokens), *calls]
    return AssistantMessage(content, "api", "provider", "model", Usage(total_tokens=used), stop, 1)


def call(id: str, name: str = "read", **arguments: Any) -> ToolCall:
    return ToolCall(id, name, arguments)


def result(id: str, tokens: int = 1, *, is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(id, "read", [TextContent("r" * 4 * tokens)], is_error, 1)


def bash(tokens: int = 1, *, excluded: bool = False) -> BashExecutionMessage:
    return BashExecutionMessage("", "b" * 4 * tokens, False, False, 1, exclude_from_context=excluded)


OTHER = "other"


def path(*entries: Message | Item | str) -> list[Item]:
    """Items named by their place: `i0`, `i1`, ..."""
    items: list[Item] = []
    for index, entry in enumerate(entries):
        if isinstance(entry, Item):
            items.append(structs.replace(entry, id=f"i{index}"))
        elif isinstance(entry, str):
            items.append(Item(f"i{index}", None, "other"))
        else:
            items.append(Item(f"i{index}", entry))
    return items


def compacted(first_kept: str, summary: str = "old notes", details: FileLists | None = None) -> Item:
    return Item("", None, "compaction", summary, first_kept, details or FileLists())


# Where to cut


def test_the_cut_is_where_the_recent_messages_add_up() -> None:
    items = path(user(), answer(), user(5), answer(5))
    assert plan(items, 10).first_kept_id == "i2"
    assert plan(items, 11).first_kept_id == "i1"
    assert plan(items, 5).first_kept_id == "i3"


def test_a_cut_at_a_users_message_splits_no_turn() -> None:
    items = path(user(), answer(), user(5), answer(5))
    made = plan(items, 10)
    assert made.to_summarise == [items[0].message, items[1].message]
    assert made.turn_prefix == []
    assert made.kept_tokens == 10


def test_a_cut_within_a_turn_sets_its_beginning_apart() -> None:
    items = path(user(), answer(), user(), answer(5))
    made = plan(items, 5)
    assert made.to_summarise == [items[0].message, items[1].message]
    assert made.turn_prefix == [items[2].message]


@pytest.mark.parametrize("first", [bash(), CustomMessage("x", "abcd", True, 1), BranchSummaryMessage("abcd", "id", 1)])
def test_any_message_to_the_model_begins_a_turn(first: Message) -> None:
    at_it = plan(path(user(), answer(), first, answer(5)), 6)
    assert (at_it.first_kept_id, at_it.turn_prefix) == ("i2", [])
    after_it = plan(path(user(), answer(), first, answer(5)), 5)
    assert (after_it.first_kept_id, after_it.turn_prefix) == ("i3", [first])


def test_no_cut_is_at_a_tool_result() -> None:
    items = path(user(), answer(1, call("c")), result("c", 50), answer(5))
    assert plan(items, 20).first_kept_id == "i3"


def test_no_cut_is_between_a_call_and_a_later_result() -> None:
    both = answer(1, call("c"), call("d"))
    items = path(user(), answer(), both, result("c"), bash(9), result("d"), answer())
    assert plan(items, 3).first_kept_id == "i6"


def test_results_that_the_model_has_not_seen_stay_however_large() -> None:
    items = path(user(), answer(), user(), answer(1, call("c"), call("d")), result("c", 90), result("d", 90))
    assert plan(items, 20).first_kept_id == "i3"


def test_a_result_belongs_to_the_latest_call_of_its_id() -> None:
    items = path(user(), answer(1, call("c")), result("c"), user(), answer(1, call("c")), result("c"), answer())
    assert plan(items, 6).first_kept_id == "i3"


def test_entries_other_than_messages_stay_with_the_cut_after_them() -> None:
    items = path(user(), answer(), OTHER, OTHER, user(5))
    assert plan(items, 5).first_kept_id == "i2"


def test_keeping_nothing_still_keeps_the_last_message() -> None:
    assert plan(path(user(), answer(), user()), 0).first_kept_id == "i2"


@pytest.mark.parametrize(
    "items",
    [
        path(),
        path(OTHER, OTHER),
        path(user(), answer()),
        path(user(500)),
        path(OTHER, user(500)),
        path(bash(9, excluded=True), answer(0, stop="aborted"), user(500)),
        path(result("lost", 500)),
    ],
)
def test_without_older_messages_there_is_nothing_to_compact(items: list[Item]) -> None:
    with pytest.raises(NothingToCompact, match=r"^Nothing to compact \(session too small\)$") as caught:
        plan(items, 100)
    assert isinstance(caught.value, FairleadError)


# After an earlier compaction


@pytest.mark.parametrize("after", [(), (OTHER,), (OTHER, OTHER)])
def test_without_messages_since_the_last_one_it_is_already_compacted(after: tuple[str, ...]) -> None:
    with pytest.raises(AlreadyCompacted, match=r"^Already compacted$"):
        plan(path(user(), answer(50), compacted("i1"), *after), 0)


def test_the_range_begins_at_what_the_last_compaction_kept() -> None:
    items = path(user(50), answer(50), user(2), answer(2), compacted("i2"), user(3), answer(3))
    made = plan(items, 6)
    assert made.to_summarise == [items[2].message, items[3].message]
    assert made.first_kept_id == "i5"
    assert made.previous_summary == "old notes"
    more = plan(items, 8)
    assert (more.first_kept_id, more.turn_prefix) == ("i3", [items[2].message])


def test_a_compaction_that_names_a_lost_entry_kept_nothing() -> None:
    items = path(user(50), compacted("gone"), user(2), answer(2))
    made = plan(items, 2)
    assert (made.to_summarise, made.turn_prefix) == ([], [items[2].message])


def test_the_rest_of_a_turn_split_earlier_is_history() -> None:
    items = path(user(), answer(2), answer(2), compacted("i1"), answer(2), answer(2))
    made = plan(items, 2)
    assert made.to_summarise == [items[1].message, items[2].message, items[4].message]
    assert made.turn_prefix == []


def test_the_latest_of_several_compactions_counts() -> None:
    items = path(user(), compacted("i0", "first"), user(2), answer(2), compacted("i2", "second"), user(3))
    made = plan(items, 3)
    assert made.previous_summary == "second"
    assert made.to_summarise == [items[2].message, items[3].message]


# The size before


def test_the_size_before_is_the_last_usage_and_what_follows() -> None:
    assert plan(path(user(), answer(100, used=150), user(1), answer(0, stop="error")), 100).tokens_before == 151


def test_a_usage_from_before_the_last_compaction_is_stale() -> None:
    kept = (user(), answer(5, used=9000), compacted("i1", "s" * 40))
    assert plan(path(*kept, user(3)), 3).tokens_before == 10 + 5 + 3
    assert plan(path(*kept, user(3), answer(1, used=70), user(2)), 2).tokens_before == 72


# Files


def test_files_are_collected_from_what_is_summarised() -> None:
    items = path(
        user(),
        answer(1, call("1", path="b"), call("2", path="a"), call("3", "write", path="w"), call("4", "edit", path="b")),
        *[result(str(n)) for n in range(1, 5)],
        answer(1, call("5", "bash", command="x"), call("6", path=7), call("7"), call("8", path="missing")),
        *[result(str(n)) for n in range(5, 8)],
        result("8", is_error=True),
        user(),
        answer(1, call("9", path="kept")),
        result("9"),
    )
    made = plan(items, 6)
    assert (made.read_files, made.modified_files) == (["a"], ["b", "w"])


def test_files_add_up_over_compactions() -> None:
    before = FileLists(["a", "x"], ["m"])
    items = path(user(), compacted("i0", details=before), answer(1, call("1", "edit", path="x")), result("1"), user())
    made = plan(items, 1)
    assert (made.read_files, made.modified_files) == (["a"], ["m", "x"])


def test_the_previous_summary_is_handed_on_without_its_file_lists() -> None:
    before = FileLists(["a"], ["m"])
    text = "notes\n\n<read-files>\na\n</read-files>\n\n<modified-files>\nm\n</modified-files>"
    items = path(user(), compacted("i0", text, before), answer(), user())
    assert plan(items, 1).previous_summary == "notes"


# Any conversation at all


@st.composite
def conversations(draw: st.DrawFn) -> list[Item]:
    """Turns with tool calls, whose results may come late, never, or mixed with other messages; perhaps compacted before."""
    entries: list[Message | Item | str] = []
    size = st.integers(0, 12)
    for turn in range(draw(st.integers(0, 6))):
        if draw(st.booleans()):
            entries.append(OTHER)
        entries.append(draw(st.sampled_from([user, bash]))(draw(size)))
        for step in range(draw(st.integers(0, 3))):
            ids = [f"{turn}.{step}.{n}" for n in range(draw(st.integers(0, 3)))]
            entries.append(answer(draw(size), *map(call, ids), used=draw(size)))
            for id in draw(st.permutations(ids)):
                if draw(st.integers(0, 9)):
                    entries.append(result(id, draw(size)))
                if not draw(st.integers(0, 4)):
                    entries.append(draw(st.sampled_from([OTHER, user(2), bash(2, excluded=True)])))
    if entries and draw(st.booleans()):
        items = path(*entries)
        first_kept = draw(st.sampled_from(_clean_cuts(items) or [0]))
        where = draw(st.sampled_from([i for i in _clean_cuts(items) if i > first_kept] or [len(items)]))
        entries.insert(where, compacted(f"k{first_kept}"))
        items = path(*entries)
        kept = structs.replace(items[first_kept], id=f"k{first_kept}")
        return [*items[:first_kept], kept, *items[first_kept + 1 :]]
    return path(*entries)


def _clean_cuts(items: Sequence[Item]) -> list[int]:
    return [i for i, item in enumerate(items) if isinstance(item.message, UserMessage) and not _orphans(items[:i], items[i:])]


def _orphans(before: Sequence[Item], kept: Sequence[Item]) -> list[str]:
    """The results that stay although the calls they answer go."""
    gone = {one.id for item in before if isinstance(item.message, AssistantMessage) for one in item.message.tool_calls()}
    return [
        item.message.tool_call_id
        for item in kept
        if isinstance(item.message, ToolResultMessage) and item.message.tool_call_id in gone
    ]


@given(conversations(), st.integers(0, 40))
def test_cuts_lose_no_message_and_never_separate_call_and_result(items: list[Item], keep: int) -> None:
    last = max((i for i, item in enumerate(items) if item.kind == "compaction"), default=None)
    start = 0 if last is None else [item.id for item in items].index(items[last].first_kept_id)
    whole = [item.message for item in items[start:] if item.message is not None]
    try:
        made = plan(items, keep)
    except AlreadyCompacted:
        assert last is not None and all(item.message is None for item in items[last + 1 :])
        return
    except NothingToCompact:
        # Everything is recent, or everything before the recent part must stay with it or says nothing.
        assert estimate_all(whole) < keep or _nothing_to_remove(items[start:], keep)
        return

    first = [item.id for item in items].index(made.first_kept_id)
    assert first > start
    kept = [item.message for item in items[first:] if item.message is not None]
    assert [id(m) for m in made.to_summarise + made.turn_prefix + kept] == [id(m) for m in whole]
    assert not isinstance(kept[0], ToolResultMessage)
    assert not _orphans(items[start:first], items[first:])
    assert made.kept_tokens == estimate_all(kept)

    # Enough stays, or a little less because the message that would make it enough could not be the first.
    if made.kept_tokens < keep:
        removed = [i for i in range(start, first) if items[i].message is not None]
        enough = max(i for i in removed if estimate_all(_said(items[i:])) >= keep)
        for index in range(enough, first):
            message = items[index].message
            assert message is None or isinstance(message, ToolResultMessage) or _orphans(items[start:index], items[index:])

    # A split turn is one: its prefix begins it, and what follows belongs to it.
    if made.turn_prefix:
        assert isinstance(made.turn_prefix[0], UserMessage | BashExecutionMessage)
        assert all(isinstance(message, AssistantMessage | ToolResultMessage) for message in [*made.turn_prefix[1:], kept[0]])


def _said(items: Sequence[Item]) -> list[Message]:
    return [item.message for item in items if item.message is not None]


def _nothing_to_remove(entries: Sequence[Item], keep: int) -> bool:
    """Whether every clean cut that keeps at most what is wanted, or the last one, has nothing before it."""
    clean = [
        i
        for i, item in enumerate(entries)
        if item.message is not None and not isinstance(item.message, ToolResultMessage) and not _orphans(entries[:i], entries[i:])
    ]
    enough = max((i for i, item in enumerate(entries) if item.message and estimate_all(_said(entries[i:])) >= keep), default=0)
    cut = next((i for i in clean if i >= enough), clean[-1] if clean else 0)
    return estimate_all(_said(entries[:cut])) == 0


# When


@pytest.mark.parametrize(
    ("tokens", "window", "reserve", "expected"),
    [
        (183_616, 200_000, 16_384, False),
        (183_617, 200_000, 16_384, True),
        (180_001, 200_000, 20_000, True),
        (199_999, 200_000, 0, False),
        (None, 200_000, 16_384, False),
        (5, 0, 16_384, False),
        (4_096, 8_192, 16_384, False),
        (4_097, 8_192, 16_384, True),
    ],
)
def test_it_is_time_when_the_reserve_is_touched(tokens: int | None, window: int, reserve: int, expected: bool) -> None:
    assert should_compact(tokens, window, reserve) is expected
