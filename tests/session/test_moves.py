"""From one conversation to another, and from one branch to another."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.session.scene import (
    PATIENCE,
    Listener,
    WithSummaries,
    a_kept_session,
    a_session,
    entry_of,
    file_of,
    file_size_limit,
    full_disk,
    held,
    in_the_way,
    kept_in,
    said,
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
from fairlead.session.history.store import SessionFile
from fairlead.session.session import Session
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

THIRD = structs.replace(SCRIPTED_MODEL, id="third")


async def running(session: Session) -> Listener:
    """Whoever listens to a run of the session, which goes on for as long as its turn is held."""
    heard = Listener(session)
    await session.prompt("running")
    await heard.until(e.MessageEnd)
    return heard


def saved(path: Path) -> list[str]:
    return texts(read_session(path)[0].messages())


async def another(tmp_path: Path, *prompts: str, **changes: Any) -> Path:
    """The file of another session, in which the user said this and the model each time "Yes."."""
    session = a_kept_session(Scripted([Turn(text="Yes.")]), tmp_path, **changes)
    await talk(session, *prompts)
    await session.close()
    return file_of(session)


# To a new conversation


async def test_a_run_ends_with_all_its_events_before_a_new_conversation_begins(tmp_path: Path) -> None:
    turn, _ = held()
    session = a_kept_session(Scripted([turn]), tmp_path)
    first, first_id = file_of(session), session.history.id
    heard = await running(session)
    async with asyncio.timeout(PATIENCE):
        await session.history.new(parent="/parent.jsonl")
    assert heard.kinds()[-5:] == ["MessageEnd", "TurnEnd", "AgentEnd", "AgentSettled", "SessionReplaced"]
    assert saved(first) == ["running", ""], "the aborted answer belongs to the conversation in which it was given"
    assert session.history.id != first_id and session.messages == [] and session.activity.last_end is None
    assert not session.activity.is_streaming
    SessionFile.open(first)[0].close()  # others may write it now
    assert session.history.log.header.parent_session == "/parent.jsonl"


async def test_commands_of_the_hosts_end_with_the_conversation_they_were_for(tmp_path: Path) -> None:
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path)
    await talk(session, "one")
    first = file_of(session)
    command = session.host.bash("tail -f /dev/null")
    async with asyncio.timeout(PATIENCE):
        await session.history.new()
    assert (await command).message.cancelled
    assert saved(first) == ["one", "x", "BashExecutionMessage"]
    assert session.messages == []
    await session.close()


async def test_a_new_conversation_keeps_the_model_and_level_of_the_session(tmp_path: Path) -> None:
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path, models=[SCRIPTED_MODEL, THIRD])
    await talk(session, "one")
    session.models.set_model("scripted", "third")
    session.models.set_thinking("high")
    await session.history.new()
    assert (session.model, session.thinking) == (THIRD, "high")
    await session.prompt("two")
    log, _ = read_session(file_of(session))
    chosen = log.model()
    assert chosen is not None and (chosen.id, log.thinking_level()) == ("third", "high")
    await session.close()


# To another file


async def test_a_switch_takes_over_what_the_other_conversation_chose(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    models = [SCRIPTED_MODEL, THIRD]
    other = a_session(Scripted([Turn(text="x")]), there, models=models, sessions=kept_in(tmp_path / "sessions", cwd=there))
    other.models.set_model("scripted", "third")
    other.models.set_thinking("high")
    await other.prompt("elsewhere")  # its answer would count as a choice of the model that gave it
    await other.close()
    path = file_of(other)
    path.write_bytes(b"\n".join(line for line in path.read_bytes().split(b"\n") if b'"assistant"' not in line))

    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path, models=models)
    await talk(session, "here")
    heard = Listener(session)
    assert await session.history.switch(str(path)) is False
    assert (session.history.id, said(session)) == (other.history.id, ["elsewhere"])
    assert (session.model, session.thinking, session.host.workspace.cwd) == (THIRD, "high", there)
    assert heard.outline(e.SessionReplaced, e.ThinkingLevelChanged, e.ExtensionError) == [
        "ThinkingLevelChanged",
        "SessionReplaced",
    ]
    await talk(session, "on")
    assert said(session) == ["elsewhere", "on"] and "on" in saved(path)
    await session.close()


async def test_what_is_wrong_with_the_other_conversation_is_told(tmp_path: Path) -> None:
    path = await another(tmp_path, "one")
    with path.open("ab") as file:
        file.write(b'{"type":')
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path)
    heard = Listener(session)
    await session.history.switch(str(path))
    problem = f"The last line of {path} was incomplete and was cut off (8 bytes)."
    assert heard == [e.SessionReplaced(), e.ExtensionError("session", "open", problem)]
    await session.close()


async def test_a_switch_ends_the_run_with_all_its_events(tmp_path: Path) -> None:
    path = await another(tmp_path, "one")
    turn, _ = held()
    session = a_kept_session(Scripted([turn]), tmp_path)
    heard = await running(session)
    async with asyncio.timeout(PATIENCE):
        await session.history.switch(str(path))
    assert heard.kinds()[-3:] == ["AgentEnd", "AgentSettled", "SessionReplaced"]
    await session.close()


async def test_a_switch_to_where_nothing_is_begins_there_with_the_first_prompt(tmp_path: Path) -> None:
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path)
    assert await session.history.switch("new/mine.jsonl") is True
    path = tmp_path / "new" / "mine.jsonl"
    assert file_of(session) == path and path.parent.is_dir() and not path.exists()
    await talk(session, "one")
    assert saved(path) == ["one", "x"]
    await session.close()


@pytest.mark.parametrize("name", ["as it is", "relative", "a link"])
async def test_a_switch_to_the_session_that_is_open_ends_the_run_and_goes_to_its_end(tmp_path: Path, name: str) -> None:
    turn, _ = held()
    session = a_kept_session(Scripted([Turn(text="a"), Turn(text="b"), turn]), tmp_path)
    await talk(session, "one", "two")
    path = file_of(session)
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    names = {"as it is": str(path), "relative": f"./sessions/../sessions/{path.name}", "a link": str(link)}
    conversation = session.history.conversation
    await session.navigate(entry_of(conversation.log, "a"), summarise=False)
    assert said(session) == ["one"]
    heard = Listener(session)
    assert await session.history.switch(names[name]) is False
    assert session.history.conversation is conversation and heard.of(e.SessionReplaced) == []
    assert said(session) == ["one", "two"]

    heard = await running(session)
    async with asyncio.timeout(PATIENCE):
        await session.history.switch(names[name])
    assert heard.kinds()[-1] == "AgentSettled" and said(session) == ["one", "two", "running"]
    await session.close()


async def test_a_switch_to_the_open_session_before_it_has_begun_changes_nothing(tmp_path: Path) -> None:
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path)
    conversation = session.history.conversation
    assert await session.history.switch(str(file_of(session))) is False
    assert session.history.conversation is conversation and not conversation.has_begun


def bad_names(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "notes.txt").write_text("precious")
    return {
        "blank": " ",
        "nul": "a\0b",
        "no session": str(tmp_path / "notes.txt"),
        "folder": str(tmp_path),
        "below a file": str(tmp_path / "notes.txt" / "x.jsonl"),
    }


@pytest.mark.parametrize("kind", ["blank", "nul", "no session", "folder", "below a file", "in use"])
async def test_a_switch_that_fails_leaves_everything_as_it_was_even_the_run(tmp_path: Path, kind: str) -> None:
    turn, go = held()
    session = a_kept_session(Scripted([turn]), tmp_path)
    await session.follow_up("later")
    heard = await running(session)
    conversation = session.history.conversation
    user = a_kept_session(Scripted([Turn(text="x")]), tmp_path)
    await talk(user, "mine")
    name = str(file_of(user)) if kind == "in use" else bad_names(tmp_path)[kind]
    with pytest.raises(FairleadError):
        await session.history.switch(name)
    assert session.activity.is_streaming and session.history.conversation is conversation
    assert session.queue.follow_up.texts() == ["later"]
    assert heard.of(e.SessionReplaced) == []
    go.set()
    await settled(session)
    assert said(session) == ["running", "later"]
    await session.close()
    await user.close()


async def test_the_home_of_nobody_is_no_crash(tmp_path: Path) -> None:
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path)
    assert await session.history.switch("~nobody-is-called-that/x.jsonl") is True


# To a fork


async def test_a_fork_goes_on_before_a_message_of_the_users(tmp_path: Path) -> None:
    model = Scripted([Turn(text="a"), Turn(text="b"), Turn(text="c")])
    session = a_kept_session(model, tmp_path)
    await talk(session, "one", "two")
    source = file_of(session)
    heard = Listener(session)
    assert await session.fork(entry_of(session.history.log, "two")) == "two"
    assert said(session) == ["one"] and heard == [e.SessionReplaced()]
    assert file_of(session) != source
    assert json.loads(file_of(session).read_bytes().splitlines()[0])["parentSession"] == str(source)
    await talk(session, "two, rather")
    assert saved(file_of(session)) == ["one", "a", "two, rather", "c"]
    assert saved(source) == ["one", "a", "two", "b"]
    SessionFile.open(source)[0].close()  # it was let go of
    await session.close()


@pytest.mark.parametrize("where", ["nowhere", "an answer"])
async def test_a_fork_elsewhere_is_refused_and_the_run_goes_on(tmp_path: Path, where: str) -> None:
    turn, go = held()
    session = a_kept_session(Scripted([Turn(text="a"), turn]), tmp_path)
    await talk(session, "one")
    await running(session)
    conversation = session.history.conversation
    entry = entry_of(conversation.log, "a") if where == "an answer" else "nowhere"
    with pytest.raises(EntryNotFound, match=rf"^Entry {entry} is not a message of the user\.$"):
        await session.fork(entry)
    assert session.activity.is_streaming and session.history.conversation is conversation
    go.set()
    await session.close()


async def test_a_clone_has_everything_even_the_end_of_the_run(tmp_path: Path) -> None:
    turn, _ = held()
    session = a_kept_session(Scripted([turn]), tmp_path)
    heard = await running(session)
    log = session.history.log
    log.label(entry_of(log, "running"), "start")
    session.history.set_name("a name")
    source = file_of(session)
    async with asyncio.timeout(PATIENCE):
        await session.history.clone()
    assert heard.kinds()[-2:] == ["AgentSettled", "SessionReplaced"]
    assert file_of(session) != source
    assert saved(file_of(session)) == saved(source) == ["running", ""]
    assert session.history.name == "a name"
    copy = session.history.log
    assert [label.text for label in copy.labels.values()] == ["start"]
    assert list(copy.labels) == [entry_of(copy, "running")]
    await session.close()


@pytest.mark.parametrize("how", ["fork", "clone"])
async def test_a_fork_that_cannot_be_written_leaves_the_conversation_as_it_was(tmp_path: Path, how: str) -> None:
    session = a_kept_session(Scripted([Turn(text="x" * 5000)]), tmp_path)
    await talk(session, "one", "two")
    conversation = session.history.conversation
    with file_size_limit(1000), pytest.raises(SessionError, match="File too large"):
        await (session.history.clone() if how == "clone" else session.fork(entry_of(conversation.log, "two")))
    assert session.history.conversation is conversation
    await talk(session, "three")
    assert saved(file_of(session))[::2] == ["one", "two", "three"]
    assert len(list((tmp_path / "sessions").iterdir())) == 1
    await session.close()


# Conversations that could not be written


async def with_unwritten_answer(tmp_path: Path) -> tuple[Session, Listener]:
    """A session that goes on with a new conversation, having left one whose answer did not fit on the disk."""
    turn, go = held("unwritten")
    session = a_kept_session(Scripted([turn, Turn(text="x")]), tmp_path)
    heard = await running(session)
    with full_disk(session):
        go.set()
        await settled(session)
        await session.history.new()
    return session, heard


def left_file(session: Session) -> Path:
    """The session file that is not the present one."""
    return next(path for path in (file_of(session).parent).iterdir() if path != file_of(session))


async def test_an_answer_that_cannot_be_written_is_told_of_once_and_stays_in_the_conversation(tmp_path: Path) -> None:
    turn, go = held("unwritten")
    session = a_kept_session(Scripted([turn, Turn(text="x")]), tmp_path)
    heard = await running(session)
    with full_disk(session):
        go.set()
        await settled(session)
        with pytest.raises(SessionError, match="File too large"):
            await session.prompt("refused")
        assert not session.activity.is_streaming
    (problem,) = heard.of(e.ExtensionError)
    assert (problem.extension_path, problem.event) == ("session", "write")
    assert problem.error.endswith("File too large. What could not be written is kept and will be written later.")
    assert texts(session.messages) == ["running", "unwritten"]
    await talk(session, "two")
    assert saved(file_of(session)) == ["running", "unwritten", "two", "x"]
    await session.close()


async def test_an_answer_that_could_not_be_written_is_tried_again_at_the_end_of_the_run(tmp_path: Path) -> None:
    turn, go = held("unwritten")
    session = a_kept_session(Scripted([turn]), tmp_path)
    await running(session)
    with ExitStack() as until_then:
        until_then.enter_context(full_disk(session))
        session.subscribe(lambda event: until_then.close() if isinstance(event, e.TurnEnd) else None)
        go.set()
        await settled(session)
    assert saved(file_of(session)) == ["running", "unwritten"]
    await session.close()


async def test_a_conversation_that_was_left_unwritten_is_written_when_there_is_room(tmp_path: Path) -> None:
    session, _ = await with_unwritten_answer(tmp_path)
    path = left_file(session)
    assert saved(path) == ["running"]
    await talk(session, "in the new one")
    assert saved(path) == ["running", "unwritten"]
    SessionFile.open(path)[0].close()  # and was let go of
    await session.close()


async def test_a_conversation_that_was_left_unwritten_is_written_at_the_end(tmp_path: Path) -> None:
    session, _ = await with_unwritten_answer(tmp_path)
    path = left_file(session)
    await session.close()
    assert saved(path) == ["running", "unwritten"]


@pytest.mark.parametrize("when", ["room again", "still full", "room again, during a run"])
async def test_a_conversation_that_was_left_unwritten_can_be_gone_back_to(tmp_path: Path, when: str) -> None:
    session, heard = await with_unwritten_answer(tmp_path)
    path = left_file(session)
    if when == "room again, during a run":
        await session.prompt("in the new one")
    with file_size_limit(path.stat().st_size if when == "still full" else 1 << 20):
        assert await session.history.switch(str(path)) is False
        assert texts(session.messages) == ["running", "unwritten"]
    assert heard.kinds()[-1] == "SessionReplaced"
    await talk(session, "on")
    assert saved(path) == ["running", "unwritten", "on", "x"]
    await session.close()
    SessionFile.open(path)[0].close()


async def test_a_prompt_that_cannot_be_kept_is_refused_and_can_be_repeated(tmp_path: Path) -> None:
    model = Scripted([Turn(text="x")])
    session = a_kept_session(model, tmp_path)
    heard = Listener(session)
    with in_the_way(tmp_path / "sessions"), pytest.raises(SessionError, match="Cannot write session file"):
        await session.prompt("one")
    assert (heard, model.requests, session.activity.is_streaming) == ([], [], False)
    await talk(session, "one")
    assert saved(file_of(session)) == ["one", "x"]
    await session.close()


# Within the tree


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


async def test_an_unknown_place_is_refused_and_the_run_goes_on(tmp_path: Path) -> None:
    turn, go = held()
    session = a_kept_session(Scripted([turn]), tmp_path)
    await running(session)
    with pytest.raises(EntryNotFound, match=r"^Entry nowhere not found\.$"):
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
    assert heard.kinds()[-2:] == ["AgentEnd", "AgentSettled"]
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
async def test_where_nothing_was_said_there_is_no_summary(tmp_path: Path, left: str) -> None:
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
