"""The tree of a conversation, held against a naive model of it."""

from __future__ import annotations

import json
import tracemalloc
import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.messages import AssistantMessage, CompactionSummaryMessage, Message, TextContent, Usage, UserMessage
from fairlead.errors import EntryNotFound, FairleadError
from fairlead.session.history.entries import CALLS, RUN, Entry, MessageEntry, Replacement, decode_line
from fairlead.session.history.log import Log, ModelChoice
from fairlead.session.history.tree import Label
from fairlead.stores.headers import Header, new_header

HEADER = new_header("session", "/work", 0)


def user(text: str) -> UserMessage:
    return UserMessage([TextContent(text)], 1)


def answer(text: str, model: str = "m", stop: Any = "stop") -> AssistantMessage:
    return AssistantMessage([TextContent(text)], "api", "p", model, Usage(), stop, 2)


def texts(messages: list[Message]) -> list[str]:
    found: list[str] = []
    for message in messages:
        if isinstance(message, CompactionSummaryMessage):
            found.append(f"<{message.summary}>")
        elif isinstance(message, AssistantMessage):
            found.append(message.text())
        else:
            assert isinstance(message, UserMessage)
            assert isinstance(message.content, list)
            found.append("".join(block.text for block in message.content if isinstance(block, TextContent)))
    return found


def reopened(log: Log) -> Log:
    header, *lines = log.lines()
    assert json.loads(header)["id"] == log.header.id
    return Log(log.header, [decode_line(line) for line in lines])


class Keeper:
    """A sink that remembers, and fails when told to."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.held: list[bytes] = []
        self.broken = False

    def write(self, entry: Entry, line: bytes) -> None:
        if self.broken:
            raise FairleadError("full")
        assert decode_line(line)[0] == entry
        self.written.append(line)

    def hold(self, line: bytes) -> None:
        self.held.append(line)


# Adding


def test_each_entry_continues_the_one_before() -> None:
    log = Log(HEADER, now_ms=lambda: 1767323045678)
    assert log.leaf is None
    first = log.model_change("p", "m")
    second = log.message(user("hi"))
    assert (first.parent_id, second.parent_id, log.leaf) == (None, first.id, second.id)
    assert second.timestamp == "2026-01-02T03:04:05.678Z"
    assert len(second.id) == 8
    assert int(second.id, 16) >= 0


def test_an_entry_is_kept_before_it_counts() -> None:
    log, keeper = Log(HEADER), Keeper()
    log.sink = keeper
    log.message(user("one"))
    keeper.broken = True
    before = log.entries(), log.leaf
    for add in (
        lambda: log.message(user("two")),
        lambda: log.model_change("p", "m"),
        lambda: log.custom("kind", {"a": 1}),
        lambda: log.session_info("name"),
    ):
        with pytest.raises(FairleadError, match="full"):
            add()
        assert (log.entries(), log.leaf) == before
    assert texts(log.messages()) == ["one"]
    assert keeper.held == []
    keeper.broken = False
    log.message(user("three"))
    assert texts(log.messages()) == ["one", "three"]
    assert len(keeper.written) == 2


def test_events_that_cannot_be_written_are_held() -> None:
    log, keeper = Log(HEADER), Keeper()
    log.sink = keeper
    keeper.broken = True
    with pytest.raises(FairleadError, match="full"):
        log.message(answer("said"), keep=True)
    assert texts(log.messages()) == ["said"]
    assert keeper.held == log.lines()[1:]


def test_all_kinds_of_entries_survive_a_round_trip() -> None:
    log = Log(HEADER)
    log.model_change("p", "m")
    log.thinking_level_change("high")
    said = log.message(user("hi"))
    log.message(answer("ho"))
    log.compaction("short", said.id, 5, details={"readFiles": []}, usage=Usage(input=1), from_hook=True)
    log.branch_summary(said.id, "elsewhere")
    log.branch_summary(None, "from nowhere")
    log.custom("state")
    log.custom_message("note", "text", display=True, details=[1])
    log.label(said.id, " here ")
    log.session_info("name")
    log.context_edit(said.id, Replacement("other"))
    again = reopened(log)
    assert [type(entry) for entry in again.entries()] == [type(entry) for entry in log.entries()]
    assert again.lines() == log.lines()
    assert (again.messages(), again.model(), again.thinking_level()) == (log.messages(), log.model(), log.thinking_level())
    assert again.leaf == log.leaf


def test_text_that_utf8_cannot_hold_is_kept_with_a_replacement() -> None:
    log = Log(HEADER)
    log.message(user("half \ud83d"))
    log.custom("kind", {"text": "\udc00"})
    assert texts(reopened(log).messages()) == ["half \ufffd"]


# Looking


def test_unknown_ids_are_reported() -> None:
    log = Log(HEADER)

    def label(id: str) -> None:
        log.label(id, "l")

    for ask in (log.get, log.entries, log.children, log.path, log.move, label):
        with pytest.raises(EntryNotFound, match=r"^Entry nope not found$"):
            ask("nope")
    with pytest.raises(EntryNotFound):
        log.context_edit("nope", None)
    with pytest.raises(EntryNotFound):
        log.compaction("s", "nope", 1)
    assert len(log) == 0


def test_labels_are_given_replaced_and_taken() -> None:
    log = Log(HEADER, now_ms=lambda: 0)
    a, b = log.message(user("a")), log.message(user("b"))
    log.label(a.id, "first")
    log.label(b.id, "second")
    log.label(a.id, "third")
    log.label(b.id, "  ")
    assert log.labels == {a.id: Label("third", "1970-01-01T00:00:00.000Z")}
    assert log.tree()[0].label == log.labels[a.id]
    node = json.loads(log.tree_json())[0]
    assert (node["label"], node["labelTimestamp"]) == ("third", "1970-01-01T00:00:00.000Z")
    assert "label" not in node["children"][0]


def test_the_last_name_counts_and_an_empty_one_takes_it_away() -> None:
    log = Log(HEADER)
    assert log.name is None
    log.session_info("one")
    log.session_info(" two ")
    assert log.name == "two"
    log.session_info("")
    assert log.name is None


def test_branches_are_shown_oldest_first() -> None:
    times = iter([5, 20, 10])
    log = Log(HEADER, now_ms=lambda: next(times))
    start = log.message(user("start"))
    late = log.message(user("late"))
    log.move(start.id)
    early = log.message(user("early"))
    assert [child.entry.id for child in log.tree()[0].children] == [early.id, late.id]
    assert [child.id for child in log.children(start.id)] == [late.id, early.id]


def test_a_very_long_conversation_has_a_tree() -> None:
    log = Log(HEADER)
    for number in range(20_000):
        log.custom("n", number)
    nested = log.tree_json()
    assert nested.count(b'"children":[') == 20_000
    assert nested.endswith(b"]}" * 20_000 + b"]")
    node, depth = log.tree()[0], 1
    while node.children:
        node, depth = node.children[0], depth + 1
    assert depth == 20_000


def test_user_messages_can_be_listed() -> None:
    log = Log(HEADER)
    one = log.message(user("one"))
    log.message(answer("reply"))
    log.message(user(""))
    two = log.message(UserMessage("two", 1))
    log.move(one.id)
    three = log.message(user("three"))
    assert log.user_messages() == [(one.id, "one"), (three.id, "three")]
    log.move(two.id)
    assert log.user_messages() == [(one.id, "one"), (two.id, "two")]


# The conversation as the model is told of it


def test_a_compaction_stands_for_what_it_does_not_keep() -> None:
    log = Log(HEADER)
    log.message(user("1"))
    kept = log.message(user("2"))
    log.message(answer("3"))
    log.compaction("sum", kept.id, 10)
    log.message(user("4"))
    assert texts(log.messages()) == ["<sum>", "2", "3", "4"]
    log.compaction("sum 2", kept.id, 10)
    assert texts(log.messages()) == ["<sum 2>", "2", "3", "4"]
    log.compaction("all", None, 10)
    assert texts(log.messages()) == ["<all>"]
    log.message(user("5"))
    assert texts(log.messages()) == ["<all>", "5"]


def test_system_prompts_of_pi_are_shown_to_hosts_until_a_compaction() -> None:
    log = Log(HEADER)
    system = {"role": "system", "content": "", "sections": {"cwd": "/w"}, "timestamp": 1}
    record = {"type": "message", "id": "5", "parentId": None, "timestamp": "t", "message": system}
    log = Log(HEADER, [decode_line(json.dumps(record).encode())])
    log.message(user("hi"))
    assert texts(log.messages()) == ["hi"]
    assert json.loads(log.messages_json())[0] == system
    log.compaction("sum", "5", 1)
    assert [message["role"] for message in json.loads(log.messages_json())] == ["compactionSummary", "user"]


def test_edits_hold_on_their_branch_and_the_last_one_counts() -> None:
    log = Log(HEADER)
    failed = log.message(answer("failed", stop="error"))
    assert texts(log.messages()) == ["failed"]
    log.context_edit(failed.id, Replacement("better"))
    assert texts(log.messages()) == ["better"]
    log.context_edit(failed.id, None)
    assert log.messages() == []
    assert log.messages_json() == b"[]"
    log.move(failed.id)
    assert texts(log.messages()) == ["failed"]


def test_the_last_choice_or_answer_decides_the_model() -> None:
    log = Log(HEADER)
    assert (log.model(), log.thinking_level()) == (None, None)
    start = log.model_change("p", "chosen")
    log.thinking_level_change("high")
    assert (log.model(), log.thinking_level()) == (ModelChoice("p", "chosen"), "high")
    log.message(answer("x", model="answered"))
    assert log.model() == ModelChoice("p", "answered")
    log.model_change("q", "again")
    assert log.model() == ModelChoice("q", "again")
    log.move(start.id)
    assert (log.model(), log.thinking_level()) == (ModelChoice("p", "chosen"), None)


def test_messages_are_the_same_objects_whenever_asked_for() -> None:
    log = Log(HEADER)
    said = user("hi")
    log.message(said)
    assert log.messages()[0] is said
    again = reopened(log)
    assert again.messages()[0] is again.messages()[0]


# Files that are not as they should be


def record(id: str, parent: str | None) -> tuple[Entry, bytes]:
    message = {"role": "user", "content": [{"type": "text", "text": id}], "timestamp": 1}
    value = {"type": "message", "id": id, "parentId": parent, "timestamp": "t", "message": message}
    return decode_line(json.dumps(value).encode())


def test_an_orphan_begins_a_conversation() -> None:
    log = Log(HEADER, [record("a", None), record("b", "lost"), record("c", "c")])
    assert [entry.id for entry in log.children(None)] == ["a", "b", "c"]


def test_an_orphan_after_a_gap_continues_what_was_before_it() -> None:
    log = Log(HEADER, [record("a", None), record("b", "a"), record("d", "lost"), record("e", "d")], gaps=[2])
    assert [entry.id for entry in log.path()] == ["a", "b", "d", "e"]
    assert texts(log.messages()) == ["a", "b", "d", "e"]
    assert texts(reopened(log.fork(HEADER)).messages()) == ["a", "b", "d", "e"]


def test_parents_that_come_later_make_no_circle() -> None:
    log = Log(HEADER, [record("a", "b"), record("b", "a")])
    assert [entry.id for entry in log.path()] == ["a", "b"]


def test_entries_written_twice_count_once() -> None:
    log = Log(HEADER, [record("a", None), record("b", "a"), record("a", None), record("b", "a")])
    assert [entry.id for entry in log.entries()] == ["a", "b"]


@pytest.mark.parametrize("number", ["1e999", "9" * 5000])
def test_a_number_that_is_too_large_can_be_shown_and_forked(number: str) -> None:
    fields = '"type":"custom","id":"a","parentId":"lost","timestamp":"t","customType":"x"'
    log = Log(HEADER, [decode_line(f'{{{fields},"data":{{"much":{number},"here":"too"}}}}'.encode())])
    [shown] = log.plain(log.entries())
    assert shown["data"] == {"much": float("inf"), "here": "too"}
    assert [entry.id for entry in log.fork(HEADER).entries()] == ["a"]


# Any tree


class Naive:
    """A conversation as a dictionary of parents."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.parent: dict[str, str | None] = {}
        self.text: dict[str, str] = {}

    def path(self, leaf: str | None) -> list[str]:
        return [] if leaf is None else [*self.path(self.parent[leaf]), leaf]


steps = st.lists(st.one_of(st.just("add"), st.just("edit"), st.integers(min_value=-1, max_value=40)), max_size=40)


@settings(max_examples=150, deadline=None)
@given(steps, st.data())
def test_any_tree_agrees_with_a_naive_one(steps: list[str | int], data: st.DataObject) -> None:
    log, naive = Log(HEADER), Naive()
    removed: dict[str, str] = {}
    for number, step in enumerate(steps):
        if isinstance(step, int):
            log.move(naive.order[step % len(naive.order)] if step >= 0 and naive.order else None)
            continue
        parent = log.leaf
        if step == "edit" and (said := [id for id in naive.path(parent) if id in naive.text]):
            target = data.draw(st.sampled_from(said))
            entry: Any = log.context_edit(target, None)
            removed[entry.id] = target
        else:
            entry = log.message(user(str(number)))
            naive.text[entry.id] = str(number)
        naive.order.append(entry.id)
        naive.parent[entry.id] = parent

    for view in (log, reopened(log)):
        assert [entry.id for entry in view.entries()] == naive.order
        assert json.loads(view.entries_json()) == [json.loads(line) for line in log.lines()[1:]]
        assert flat(json.loads(view.tree_json())) == {(id, naive.parent[id]) for id in naive.order}
        for id in naive.order:
            view.move(id)
            path = naive.path(id)
            gone = {removed[step] for step in path if step in removed}
            expected = [naive.text[step] for step in path if step in naive.text and step not in gone]
            assert [entry.id for entry in view.path()] == path
            assert texts(view.messages()) == expected
            assert [message["content"][0]["text"] for message in json.loads(view.messages_json())] == expected
            assert [child.id for child in view.children(id)] == [each for each in naive.order if naive.parent[each] == id]
            assert [entry.id for entry in view.entries(id)] == naive.order[naive.order.index(id) + 1 :]
            fork = view.fork(Header(3, "fork", "t", "/w"), before=id)
            assert [entry.id for entry in fork.entries()] == path[:-1]
            clone = view.fork(Header(3, "clone", "t", "/w"))
            assert [entry.id for entry in clone.path()] == path
            assert clone.messages() == view.messages()


def flat(nodes: list[Any], parent: str | None = None) -> set[tuple[str, str | None]]:
    pairs: set[tuple[str, str | None]] = set()
    for node in nodes:
        assert node["entry"]["parentId"] == parent
        pairs |= {(node["entry"]["id"], parent)} | flat(node["children"], node["entry"]["id"])
    return pairs


def test_a_fork_keeps_ids_and_labels_and_leaves_the_original_alone() -> None:
    log = Log(HEADER, now_ms=lambda: 0)
    one, two = log.message(user("one")), log.message(answer("two"))
    log.label(one.id, "early")
    three = log.message(user("three"))
    log.label(two.id, "late")
    log.label(one.id, None)
    log.label(three.id, "not there")
    before = log.lines()
    fork = log.fork(new_header("fork", "/work", 0, "/parent.jsonl"), before=three.id)
    assert fork.header.parent_session == "/parent.jsonl"
    assert fork.labels == {two.id: Label("late", "1970-01-01T00:00:00.000Z")}
    assert [entry.id for entry in fork.entries() if isinstance(entry, MessageEntry)] == [one.id, two.id]
    fork.message(user("another"))
    assert texts(fork.messages()) == ["one", "two", "another"]
    assert log.lines() == before


def test_a_fork_at_the_first_entry_is_empty() -> None:
    log = Log(HEADER)
    fork = log.fork(HEADER, before=log.message(user("one")).id)
    assert (len(fork), fork.leaf) == (0, None)


def test_hosts_do_not_see_notes() -> None:
    log = Log(HEADER)
    first = log.message(user("Go"))
    log.note(CALLS, {"op": "started", "id": "1"})
    log.note(RUN, {"op": "ended"})
    second = log.message(answer("On"))
    assert (second.parent_id, log.leaf, len(log.lines())) == (first.id, second.id, 5)
    assert log.entries() == [first, second]
    assert log.entries(first.id) == [second]
    assert b"fairlead." not in log.entries_json() + log.tree_json()
    again = Log(log.header, [decode_line(line) for line in log.lines()[1:]])
    assert (again.leaf, again.entries_json(), again.tree_json()) == (log.leaf, log.entries_json(), log.tree_json())


def test_messages_of_a_branch_that_was_left_are_freed_and_read_again_when_it_returns() -> None:
    log = Log(HEADER)
    first = log.message(user("stays")).id
    left, left_answer = user("left"), answer("left too")
    log.message(left)
    leaf = log.message(left_answer).id
    freed = weakref.ref(left), weakref.ref(left_answer)
    kept = log.messages()[0]
    del left, left_answer
    log.move(first)
    assert [each() for each in freed] == [None, None]
    assert log.messages() == [kept] and log.messages()[0] is kept
    log.move(leaf)
    assert texts(log.messages()) == ["stays", "left", "left too"]


def test_a_new_message_is_kept_once() -> None:
    log, message = Log(HEADER), user("x" * 1_000_000)
    tracemalloc.start()
    log.message(message)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 1_600_000, "its JSON is a part of the line"
