"""Messages that wait: written down before they are acknowledged, there again when the session is opened again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.session.scene import (
    Listener,
    a_kept_session,
    a_tool,
    entry_of,
    file_of,
    full_disk,
    held,
    in_the_way,
    kept_in,
    said,
    settled,
    talk,
    texts,
)
from tests.support.session_file import copy_session

from fairlead.core import events as e
from fairlead.core.messages import BashExecutionMessage, ImageContent, ToolCall, UserMessage, user_message
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import SessionError
from fairlead.session.history.entries import QUEUE
from fairlead.session.history.log import Log
from fairlead.session.history.reading import read_session
from fairlead.session.history.run_log import CLEARED, QueuedMessage, QueueName, addition, find_undelivered
from fairlead.session.session import Session
from fairlead.stores.headers import new_header
from fairlead.testing import Scripted, Turn

BASH = BashExecutionMessage("true", "", False, False, 1, exit_code=0)


def user(text: str, timestamp: int = 1) -> UserMessage:
    return user_message(text, None, timestamp)


def queues(session: Session) -> tuple[list[str], list[str]]:
    return session.queue.steering.texts(), session.queue.follow_up.texts()


def after_a_crash(session: Session, name: str = "crash.jsonl") -> Path:
    """What another process would find now, if this one were no more."""
    return copy_session(file_of(session), file_of(session).with_name(name))


def reopened(tmp_path: Path, path: Path, *turns: Turn) -> Session:
    return a_kept_session(Scripted(turns or [Turn(text="x")]), tmp_path, file=path)


# As entries


def a_log(*steps: Any) -> Log:
    """A log of messages that begin to wait (line and message), of messages that are heard, and of other data of the queue."""
    log = Log(new_header("id", "/work", 0))
    for step in steps:
        match step:
            case (str(), _):
                log.custom(QUEUE, addition(*step))
            case UserMessage() | BashExecutionMessage():
                log.message(step)
            case _:
                log.custom(QUEUE, step)
    # As a file would have it, not as it is in memory.
    records = [(entry, line) for entry, line in zip(log.entries(), log.lines()[1:], strict=True)]
    return Log(log.header, records)


def steering(text: str, timestamp: int = 1) -> tuple[QueueName, UserMessage]:
    return "steering", user(text, timestamp)


def follow_up(text: str, timestamp: int = 1) -> tuple[QueueName, UserMessage]:
    return "followUp", user(text, timestamp)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], []),
        ([user("one")], []),
        ([follow_up("b"), steering("a")], [follow_up("b"), steering("a")]),
        ([steering("a"), user("one"), steering("b"), user("a")], [steering("b")]),
        ([steering("a"), steering("a"), user("a")], [steering("a")]),
        ([steering("a", 1), steering("a", 2), user("a", 2)], [steering("a", 1)]),
        ([user("a"), steering("a")], [steering("a")]),
        ([steering("a"), follow_up("b"), CLEARED], []),
        ([steering("a"), CLEARED, steering("b")], [steering("b")]),
        ([("bash", BASH), steering("a"), CLEARED], [("bash", BASH)]),
        ([("bash", BASH), user("one"), BASH], []),
    ],
    ids=[
        "nothing",
        "nothing queued",
        "oldest first",
        "not what was heard",
        "each once",
        "by its time",
        "not what was said before",
        "not what was taken back",
        "what came after that",
        "a command has happened and cannot be taken back",
        "a command that has its place",
    ],
)
def test_undelivered_messages_are_found_in_the_log(steps: list[Any], expected: list[tuple[QueueName, Any]]) -> None:
    assert find_undelivered(a_log(*steps)) == [QueuedMessage(*each) for each in expected]


@pytest.mark.parametrize(
    "data",
    [
        None,
        "add",
        [],
        {},
        {"op": "add"},
        {"op": "add", "queue": "steering"},
        {"op": "add", "queue": "other", "message": {"role": "user", "content": "x", "timestamp": 1}},
    ],
    ids=repr,
)
def test_unknown_queue_entries_are_ignored(data: Any) -> None:
    assert find_undelivered(a_log(data, {"op": "add", "queue": "steering", "message": {"role": "later"}}, steering("a"))) == [
        QueuedMessage(*steering("a"))
    ]


def test_state_of_others_does_not_wait() -> None:
    log = a_log(steering("a"))
    log.custom("somebody.else", addition(*steering("b")))
    log.custom("somebody.else", CLEARED)
    assert find_undelivered(log) == [QueuedMessage(*steering("a"))]


def test_a_message_delivered_on_another_branch_counts_as_delivered() -> None:
    log = a_log(steering("a"))
    place = log.leaf
    log.message(user("a"))
    log.move(place)
    assert find_undelivered(log) == []


# Opened again


async def test_queued_messages_are_on_disk_when_the_call_returns(tmp_path: Path) -> None:
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path)
    await session.steer("first")
    assert queues(reopened(tmp_path, after_a_crash(session, "1.jsonl"))) == (["first"], [])
    await session.follow_up("second")
    await session.steer("third")
    again = reopened(tmp_path, after_a_crash(session, "2.jsonl"))
    assert queues(again) == (["first", "third"], ["second"])
    assert said(again) == []
    await session.close()


async def test_messages_queued_during_a_run_survive_its_crash_and_are_delivered_once(tmp_path: Path) -> None:
    turn, go = held()
    session = a_kept_session(Scripted([turn, Turn(text="x")]), tmp_path)
    heard = Listener(session)
    await session.prompt("one")
    await heard.until(e.MessageEnd)
    await session.follow_up("later")
    await session.steer("now")
    crashed = after_a_crash(session)
    go.set()
    await settled(session)
    assert said(session) == ["one", "now", "later"]
    await session.close()
    assert queues(reopened(tmp_path, file_of(session))) == ([], []), "what was heard does not come again"

    again = reopened(tmp_path, crashed)
    assert (queues(again), said(again)) == ((["now"], ["later"]), ["one"])
    await talk(again, "go on")
    assert said(again) == ["one", "go on", "now", "later"]
    await again.close()
    assert queues(reopened(tmp_path, crashed)) == ([], [])


async def test_messages_left_by_an_abort_are_there_again(tmp_path: Path) -> None:
    turn, _ = held()
    session = a_kept_session(Scripted([turn]), tmp_path)
    heard = Listener(session)
    await session.prompt("one")
    await heard.until(e.MessageEnd)
    await session.steer("left")
    await session.close()
    assert queues(reopened(tmp_path, file_of(session))) == (["left"], [])


async def test_images_wait_with_their_text(tmp_path: Path) -> None:
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path)
    queued = await session.steer("look", [ImageContent("aGk=", "image/png")])
    await session.close()
    assert list(reopened(tmp_path, file_of(session)).queue.steering) == [queued]


async def test_messages_that_were_taken_back_do_not_come_again(tmp_path: Path) -> None:
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path)
    await session.steer("a")
    await session.follow_up("b")
    assert session.queue.clear() == (["a"], ["b"])
    assert queues(reopened(tmp_path, after_a_crash(session))) == ([], [])
    size = file_of(session).stat().st_size
    assert session.queue.clear() == ([], [])
    assert file_of(session).stat().st_size == size, "nothing was taken back"
    await session.close()


async def test_a_message_that_cannot_be_kept_is_refused_and_not_queued(tmp_path: Path) -> None:
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path)
    heard = Listener(session)
    with in_the_way(tmp_path / "sessions"):
        with pytest.raises(SessionError, match="Cannot write session file"):
            await session.steer("a")
        with pytest.raises(SessionError, match="Cannot write session file"):
            await session.follow_up("b")
    assert queues(session) == ([], []) and heard == []
    await talk(session, "one")
    assert said(session) == ["one"]
    await session.close()


async def test_a_queue_can_be_taken_back_on_a_full_disk(tmp_path: Path) -> None:
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path)
    await session.steer("a")
    with full_disk(session):
        assert session.queue.clear() == (["a"], [])
    await session.close()
    assert queues(reopened(tmp_path, file_of(session))) == ([], [])


# Commands of the host's


async def test_a_command_that_ended_during_a_run_survives_its_crash(tmp_path: Path) -> None:
    turn, go = held()
    session = a_kept_session(Scripted([turn]), tmp_path)
    heard = Listener(session)
    await session.prompt("one")
    await heard.until(e.MessageEnd)
    done = await session.host.bash("echo out")
    crashed = after_a_crash(session)
    go.set()
    await settled(session)
    expected = ["one", "held", "BashExecutionMessage"]
    assert texts(session.messages) == expected
    await session.close()

    model = Scripted([Turn(text="x")])
    again = a_kept_session(model, tmp_path, file=crashed)
    assert again.messages[1:] == [done.message]
    await talk(again, "two")
    assert texts(model.requests[0].messages)[1] == "Ran `echo out`\n```\nout\n\n```"
    await again.close()
    for path, count in ((crashed, 4), (file_of(session), 3)):
        assert len(reopened(tmp_path, path).messages) == count, "it is there once"


async def test_a_command_never_comes_between_a_call_and_its_result(tmp_path: Path) -> None:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        await session.host.bash("true")
        return ToolResult.text("done")

    model = Scripted([Turn(tool_calls=[ToolCall("c1", "one", {})]), Turn(text="x")])
    session = a_kept_session(model, tmp_path, tools=[a_tool("one", run)])
    await talk(session, "go")
    kinds = ["UserMessage", "AssistantMessage", "ToolResultMessage", "AssistantMessage", "BashExecutionMessage"]
    assert [type(message).__name__ for message in session.messages] == kinds
    assert [type(message).__name__ for message in model.requests[1].messages] == kinds[:3]
    assert [type(message).__name__ for message in read_session(file_of(session))[0].messages()] == kinds
    await session.close()


# Other conversations


async def test_a_queue_stays_with_its_conversation(tmp_path: Path) -> None:
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path)
    first = file_of(session)
    await session.steer("of the first")
    heard = Listener(session)
    await session.history.new()
    assert queues(session) == ([], [])
    assert heard.of(e.QueueUpdate) == [e.QueueUpdate([], [])]
    await session.follow_up("of the second")
    heard.clear()
    await session.history.switch(str(first))
    assert queues(session) == (["of the first"], [])
    assert heard.of(e.QueueUpdate) == [e.QueueUpdate(["of the first"], [])]
    await talk(session, "go")
    assert said(session) == ["go", "of the first"]
    await session.close()


async def test_switching_conversations_with_empty_queues_emits_no_queue_update(tmp_path: Path) -> None:
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path)
    heard = Listener(session)
    await session.history.new()
    assert heard.of(e.QueueUpdate) == []


@pytest.mark.parametrize("how", ["clone", "fork", "file"])
async def test_a_fork_does_not_deliver_messages_queued_in_its_source(tmp_path: Path, how: str) -> None:
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path)
    await talk(session, "one")
    await session.steer("waits")
    await session.follow_up("waits too")
    source = file_of(session)
    match how:
        case "clone":
            await session.history.clone()
        case "fork":
            await session.prompt("two")
            await session.fork(entry_of(session.history.log, "two"))
        case _:
            forked = kept_in(tmp_path / "forks").copy(str(source))
            forked.close()
            await session.history.switch(str(forked.path))
    assert queues(session) == ([], []) and said(session) == ["one"]
    await session.close()
    assert queues(reopened(tmp_path, file_of(session))) == ([], []), "nor when it is opened again"
    if how != "fork":  # there the run had heard them
        assert queues(reopened(tmp_path, source)) == (["waits"], ["waits too"])


async def test_a_fork_does_not_repeat_a_command_that_came_later_in_its_source(tmp_path: Path) -> None:
    turn, go = held()
    session = a_kept_session(Scripted([turn]), tmp_path)
    heard = Listener(session)
    await session.prompt("one")
    await heard.until(e.MessageEnd)
    await session.host.bash("true")
    go.set()
    await settled(session)
    await session.navigate(entry_of(session.history.log, "held"), summarise=False)
    assert texts(session.messages) == ["one", "held"]
    await session.history.clone()
    assert texts(session.messages) == ["one", "held"]
    await session.close()
    assert texts(reopened(tmp_path, file_of(session)).messages) == ["one", "held"]


async def test_text_that_utf8_cannot_hold_waits_with_a_replacement(tmp_path: Path) -> None:
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path)
    await session.steer("half \ud83d")
    assert queues(reopened(tmp_path, after_a_crash(session))) == (["half \ufffd"], [])
    await session.history.clone()
    assert queues(session) == ([], [])
    await session.close()
