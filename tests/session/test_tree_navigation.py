"""From one branch of a conversation to another, with and without a summary of the branch that was left."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.session.scene import (
    PATIENCE,
    Listener,
    WithSummaries,
    a_kept_session,
    entry_of,
    file_of,
    file_size_limit,
    held,
    running,
    said,
    saved,
    settled,
    talk,
    texts,
)

from fairlead.core import events as e
from fairlead.core.messages import BranchSummaryMessage, ToolCall, Usage
from fairlead.errors import (
    BadCommand,
    CompactingError,
    CompactionCancelled,
    ConfigError,
    EntryNotFound,
    FairleadError,
    ProviderError,
    SessionError,
)
from fairlead.session.context.budget import totals
from fairlead.session.history.entries import BranchSummaryEntry
from fairlead.session.history.reading import read_session
from fairlead.session.session import Session
from fairlead.testing import Scripted, Turn


async def a_tree(tmp_path: Path, summaries: list[Turn] | None = None, **changes: Any) -> tuple[Session, WithSummaries]:
    """A session with two exchanges: one, a; two, b. The next answers are c."""
    model = WithSummaries([Turn(text="a"), Turn(text="b"), Turn(text="c")], summaries or [Turn(text="What was left.")])
    session = a_kept_session(model, tmp_path, **changes)
    await talk(session, "one", "two")
    return session, model


async def test_going_to_an_answer_makes_a_branch_after_it(tmp_path: Path) -> None:
    session, model = await a_tree(tmp_path)
    log = session.history.log
    target, end = entry_of(log, "a"), log.leaf
    arrival = await session.navigate(target, summarise=False)
    assert (arrival.leaf, arrival.text, arrival.summary) == (target, None, None)
    assert (log.leaf, texts(session.messages)) == (target, ["one", "a"])
    await talk(session, "instead")
    assert texts(model.answers.requests[-1].messages) == ["one", "a", "instead"]
    assert saved(file_of(session)) == ["one", "a", "instead", "c"]
    await session.navigate(end, summarise=False)
    assert said(session) == ["one", "two"], "nothing of the other branch is lost"
    assert model.summaries.requests == []
    await session.close()


async def test_going_to_a_message_of_the_users_is_going_before_it_with_its_text(tmp_path: Path) -> None:
    session, _ = await a_tree(tmp_path)
    log = session.history.log
    arrival = await session.navigate(entry_of(log, "two"), summarise=False)
    assert (arrival.leaf, arrival.text) == (entry_of(log, "a"), "two")
    assert texts(session.messages) == ["one", "a"]
    await session.close()


async def test_going_to_a_message_of_an_extension_is_going_before_it_with_its_text(tmp_path: Path) -> None:
    session, _ = await a_tree(tmp_path)
    log = session.history.log
    before = log.leaf
    sent = log.custom_message("note", "remember", display=True).id
    await talk(session, "three")
    arrival = await session.navigate(sent)
    assert (arrival.leaf, arrival.text, log.leaf) == (before, "remember", before)
    await session.close()


async def test_instructions_replace_those_for_summaries_and_the_summary_gets_the_label(tmp_path: Path) -> None:
    session, model = await a_tree(tmp_path)
    log = session.history.log
    target = entry_of(log, "a")
    options: dict[str, Any] = {"instructions": "One haiku.", "replace_instructions": True}
    arrival = await session.navigate(target, summarise=True, label="left", **options)
    (asked,) = texts(model.summaries.requests[-1].messages)
    assert asked.endswith("</conversation>\n\nOne haiku.")
    assert {id: each.text for id, each in log.labels.items()} == {arrival.summary: "left"}
    assert arrival.leaf == log.leaf != arrival.summary, "what comes next follows the label"
    await session.navigate(entry_of(log, "b"), label="end")
    assert log.labels[entry_of(log, "b")].text == "end"
    await session.close()


@pytest.mark.parametrize("target", ["the beginning", "the first message"])
async def test_going_to_the_beginning_forgets_everything(tmp_path: Path, target: str) -> None:
    session, model = await a_tree(tmp_path)
    log = session.history.log
    arrival = await session.navigate(None if target == "the beginning" else entry_of(log, "one"), summarise=False)
    assert arrival.leaf == log.leaf and session.messages == []
    assert arrival.text == (None if target == "the beginning" else "one")
    await talk(session, "anew")
    assert texts(model.answers.requests[-1].messages) == ["anew"]
    await session.close()


async def test_an_unknown_target_is_refused_and_the_run_continues(tmp_path: Path) -> None:
    turn, go = held()
    session = a_kept_session(Scripted([turn]), tmp_path)
    await running(session)
    with pytest.raises(EntryNotFound, match=r"^Entry nowhere not found$"):
        await session.navigate("nowhere", summarise=True)
    assert session.activity.is_streaming
    go.set()
    await settled(session)
    assert texts(session.messages) == ["running", "held"]
    await session.close()


async def test_going_elsewhere_ends_the_run_first(tmp_path: Path) -> None:
    turn, _ = held()
    session = a_kept_session(Scripted([Turn(text="a"), turn]), tmp_path)
    await talk(session, "one")
    heard = await running(session)
    target = entry_of(session.history.log, "a")
    async with asyncio.timeout(PATIENCE):
        await session.navigate(target, summarise=False)
    assert heard.kinds()[-3:] == ["AgentEnd", "AgentSettled", "BranchChanged"]
    assert [event.leaf for event in heard.of(e.BranchChanged)] == [target]
    assert texts(session.messages) == ["one", "a"], "its last answer is on the branch that was left"
    await session.close()


async def test_a_summary_tells_the_model_of_the_branch_that_was_left(tmp_path: Path) -> None:
    call = ToolCall("c1", "read", {"path": "seen.txt"})
    summary = Turn(text="What was left.", usage=Usage(input=1000, output=10))
    model = WithSummaries([Turn(text="a"), Turn(tool_calls=[call]), Turn(text="b"), Turn(text="c")], [summary])
    session = a_kept_session(model, tmp_path)
    await talk(session, "one", "two")
    log = session.history.log
    end, spent = log.leaf, totals(log).tokens.total
    heard = Listener(session)
    arrival = await session.navigate(entry_of(log, "a"), summarise=True, instructions="mind the files")
    assert heard.of(e.CompactionStart) == [], "it is no compaction"
    assert arrival.leaf == arrival.summary == log.leaf
    entry = log.get(arrival.summary or "")
    assert isinstance(entry, BranchSummaryEntry)
    assert (entry.from_id, entry.parent_id) == (end, entry_of(log, "a"))
    assert entry.summary.startswith("What was left.") and "\nseen.txt\n" not in entry.summary, "the call had failed"
    assert totals(log).tokens.total == spent + 1010

    (request,) = model.summaries.requests
    (asked,) = texts(request.messages)
    assert "[User]: two" in asked and "[User]: one" not in asked, "only what is left is summarised"
    assert "mind the files" in asked
    await talk(session, "on")
    told = texts(model.answers.requests[-1].messages)
    assert (told[:2], told[3]) == (["one", "a"], "on") and "What was left." in told[2]
    assert isinstance(read_session(file_of(session))[0].messages()[2], BranchSummaryMessage)
    await session.close()


@pytest.mark.parametrize("left", ["nothing", "a label", "a command that the model is not told of"])
async def test_an_empty_branch_gets_no_summary(tmp_path: Path, left: str) -> None:
    session, model = await a_tree(tmp_path)
    log = session.history.log
    end = entry_of(log, "b")
    if left == "a label":
        log.label(end, "here")
    elif left != "nothing":
        await session.host.bash("true", exclude_from_context=True)
    arrival = await session.navigate(end, summarise=True)
    assert (arrival.summary, log.leaf, model.summaries.requests) == (None, end, [])
    assert texts(session.messages) == ["one", "a", "two", "b"]
    await session.close()


async def test_an_aborted_summary_leaves_the_conversation_where_it_stood(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def for_ever() -> None:
        asked.set()
        await asyncio.Event().wait()

    session, _ = await a_tree(tmp_path, [Turn(text="x", pause=for_ever)])
    log = session.history.log
    before, entries = log.leaf, len(log)
    moving = asyncio.create_task(session.navigate(None, summarise=True))
    async with asyncio.timeout(PATIENCE):
        await asked.wait()
        assert session.activity.is_compacting
        await session.abort()
        with pytest.raises(CompactionCancelled):
            await moving
    assert (log.leaf, len(log), session.activity.is_compacting) == (before, entries, False)
    assert said(session) == ["one", "two"]
    await talk(session, "on")
    assert said(session) == ["one", "two", "on"]
    await session.close()


async def test_a_prompt_is_refused_while_a_branch_is_being_left(tmp_path: Path) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def pause() -> None:
        asked.set()
        await go.wait()

    session, _ = await a_tree(tmp_path, [Turn(text="What was left.", pause=pause)])
    moving = asyncio.create_task(session.navigate(None, summarise=True))
    async with asyncio.timeout(PATIENCE):
        await asked.wait()
        with pytest.raises(CompactingError):
            await session.prompt("too soon")
        go.set()
        await moving
    await talk(session, "now")
    assert said(session) == ["now"]
    await session.close()


@pytest.mark.parametrize("trouble", ["the model fails", "no model", "the disk is full"])
async def test_a_summary_that_fails_leaves_the_conversation_where_it_stood(tmp_path: Path, trouble: str) -> None:
    failing = [Turn(error="out of order")] if trouble == "the model fails" else None
    session, _ = await a_tree(tmp_path, failing)
    log = session.history.log
    before, entries = log.leaf, len(log)
    size = file_of(session).stat().st_size
    expected: type[FairleadError] = ProviderError
    if trouble == "no model":
        session.models.model = None
        expected = ConfigError
    elif trouble == "the disk is full":
        expected = SessionError
    with file_size_limit(size if expected is SessionError else 1 << 20), pytest.raises(expected):
        await session.navigate(entry_of(log, "a"), summarise=True)
    assert (log.leaf, len(log), file_of(session).stat().st_size) == (before, entries, size)
    assert texts(session.messages) == ["one", "a", "two", "b"]
    assert not session.activity.is_compacting
    await session.close()


async def test_messages_that_wait_go_along_to_another_branch(tmp_path: Path) -> None:
    session, _ = await a_tree(tmp_path)
    await session.steer("waits")
    await session.navigate(entry_of(session.history.log, "a"), summarise=False)
    await talk(session, "on")
    assert said(session) == ["one", "on", "waits"]
    await session.close()


async def test_labels_are_there_again_on_every_branch(tmp_path: Path) -> None:
    session, _ = await a_tree(tmp_path)
    log = session.history.log
    first = entry_of(log, "a")
    await session.navigate(entry_of(log, "two"), summarise=False)
    log.label(first, "here")
    log.label(entry_of(log, "b"), "there")
    log.label(entry_of(log, "b"), None)
    await session.close()
    again = a_kept_session(Scripted([Turn(text="x")]), tmp_path, file=file_of(session))
    labels = again.history.log.labels
    assert {target: label.text for target, label in labels.items()} == {first: "here"}
    await again.close()


async def test_nothing_can_be_labelled_that_is_not_there(tmp_path: Path) -> None:
    session, _ = await a_tree(tmp_path)
    with pytest.raises(EntryNotFound):
        session.history.log.label("nowhere", "x")
    with pytest.raises(BadCommand, match="Session name cannot be empty"):
        session.history.set_name(" \n")
    assert session.history.name is None
    await session.close()
