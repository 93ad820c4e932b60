"""What extensions add to a session: messages, now or later, and entries of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.session.scene import (
    Listener,
    a_kept_session,
    a_session,
    entry_of,
    file_of,
    full_disk,
    held,
    said,
    settled,
    talk,
    texts,
)
from tests.support.session_file import copy_session

from fairlead.core import events as e
from fairlead.core.messages import CustomMessage, TextContent, UserMessage, user_text
from fairlead.errors import BadCommand, CompactingError, ConfigError, EntryNotFound, NothingToCompact, SessionError
from fairlead.session.history.entries import QUEUE, TASKS, TODOS, CustomEntry
from fairlead.session.session import Session
from fairlead.testing import Scripted, Turn


def one_answer() -> Scripted:
    return Scripted([Turn(text="Yes.")])


def contents(session: Session) -> list[Any]:
    """What was said in the conversation, with the content of extensions' messages."""
    return [message.content if isinstance(message, CustomMessage) else texts([message])[0] for message in session.messages]


def after_a_crash(session: Session, name: str = "crash.jsonl") -> Path:
    """What another process would find now, if this one were no more."""
    return copy_session(file_of(session), file_of(session).with_name(name))


async def test_a_message_to_an_idle_session_is_added_at_once(tmp_path: Path) -> None:
    session = a_kept_session(one_answer(), tmp_path)
    await talk(session, "hi")
    heard = Listener(session)
    message = await session.queue.send_message("note", "custom content", details={"a": 1})
    assert heard == [e.MessageStart(message), e.MessageEnd(message)]
    assert not session.activity.is_streaming
    assert session.messages[-1] == message
    assert message == CustomMessage("note", "custom content", True, message.timestamp, {"a": 1})
    again = a_kept_session(one_answer(), tmp_path, file=after_a_crash(session))
    assert again.messages == session.messages


async def test_a_message_can_begin_a_run(tmp_path: Path) -> None:
    model = one_answer()
    session = a_session(model, tmp_path)
    heard = Listener(session)
    await session.queue.send_message("task", [TextContent("do this")], trigger_turn=True)
    assert session.activity.is_streaming
    await settled(session)
    assert contents(session) == [[TextContent("do this")], "Yes."]
    asked = model.requests[0].messages[0]
    assert isinstance(asked, UserMessage) and user_text(asked) == "do this"
    assert heard.kinds()[:4] == ["AgentStart", "TurnStart", "MessageStart", "MessageEnd"]


async def test_a_message_that_cannot_begin_a_run_changes_nothing(tmp_path: Path) -> None:
    session = a_session(one_answer(), tmp_path, model=None)
    with pytest.raises(ConfigError):
        await session.queue.send_message("task", "do this", trigger_turn=True)
    assert session.messages == [] and not session.activity.is_streaming
    busy = a_session(one_answer(), tmp_path)
    compaction = busy.compact()
    with pytest.raises(CompactingError):
        await busy.queue.send_message("task", "do this", trigger_turn=True)
    with pytest.raises(NothingToCompact):
        await compaction
    assert busy.messages == []


async def test_during_a_run_a_message_is_steering_or_a_follow_up(tmp_path: Path) -> None:
    turn, go = held("Yes.")
    session = a_kept_session(Scripted([turn, Turn(text="Then.")]), tmp_path)
    await session.prompt("go")
    await session.follow_up("the user's")
    await session.queue.send_message("note", "at the end", deliver="follow_up", trigger_turn=True)
    heard = Listener(session)
    await session.queue.send_message("note", "by the way")
    await session.queue.send_message("note", "as well", deliver="steer")
    assert session.queue.update() == e.QueueUpdate([], ["the user's"]), "hosts are shown what the user said"
    assert len(session.queue) == 4
    assert heard.kinds() == ["QueueUpdate"] * 2
    go.set()
    await settled(session)
    told = [each for each in contents(session) if each not in ("Yes.", "Then.")]
    assert told == ["go", "by the way", "as well", "the user's", "at the end"]


async def test_a_message_for_the_next_turn_waits_for_a_prompt_and_follows_it(tmp_path: Path) -> None:
    session = a_kept_session(one_answer(), tmp_path)
    await session.queue.send_message("note", "one", deliver="next_turn")
    await session.queue.send_message("note", "two", deliver="next_turn", trigger_turn=True)
    assert session.queue.clear() == ([], [])
    assert not session.activity.is_streaming and session.messages == []
    await talk(session, "hi", "again")
    assert contents(session) == ["hi", "one", "two", "Yes.", "again", "Yes."]


async def test_messages_that_wait_outlive_the_process(tmp_path: Path) -> None:
    session = a_kept_session(one_answer(), tmp_path)
    await talk(session, "hi")
    turn, _ = held()
    running = a_kept_session(Scripted([turn]), tmp_path, file=after_a_crash(session))
    await running.prompt("go")
    await running.queue.send_message("note", "steers", details={"deep": [1, 2.5, None]})
    await running.queue.send_message("note", [TextContent("follows")], deliver="follow_up", display=False)
    await running.queue.send_message("note", "goes with it", deliver="next_turn")
    again = a_kept_session(one_answer(), tmp_path, file=after_a_crash(running, "later.jsonl"))
    assert list(again.queue.steering) == list(running.queue.steering)
    assert list(again.queue.follow_up) == list(running.queue.follow_up)
    assert again.queue.next_turn == running.queue.next_turn
    await talk(again, "on")
    told = [each for each in contents(again) if each != "Yes."]
    assert told[2:] == ["on", "goes with it", "steers", [TextContent("follows")]]
    last = a_kept_session(one_answer(), tmp_path, file=after_a_crash(again, "last.jsonl"))
    assert len(last.queue) == 0 and last.queue.next_turn == [], "what was heard waits no longer"
    await running.abort()
    await running.history.clone()
    assert len(running.queue) == 0 and running.queue.next_turn == [], "it waits in the other one"


async def test_a_cleared_queue_has_no_messages_of_extensions_either(tmp_path: Path) -> None:
    turn, _ = held()
    session = a_kept_session(Scripted([turn]), tmp_path)
    await session.prompt("go")
    await session.queue.send_message("note", "steers")
    await session.steer("the user's")
    assert session.queue.clear() == (["the user's"], [])
    assert len(session.queue) == 0
    again = a_kept_session(one_answer(), tmp_path, file=after_a_crash(session))
    assert len(again.queue) == 0
    await session.abort()


async def test_a_message_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    session = a_kept_session(one_answer(), tmp_path)
    await talk(session, "hi")
    with full_disk(session):
        for deliver in (None, "next_turn"):
            with pytest.raises(SessionError):
                await session.queue.send_message("note", "lost?", deliver=deliver)
    assert contents(session) == ["hi", "Yes."] and session.queue.next_turn == []
    with pytest.raises(BadCommand, match="can keep only JSON data"):
        await session.queue.send_message("note", "odd", details={"what": object()})
    assert said(session) == ["hi"] and len(session.messages) == 2


async def test_an_extension_entry_is_saved_and_announced(tmp_path: Path) -> None:
    session = a_kept_session(one_answer(), tmp_path)
    await talk(session, "hi")
    heard = Listener(session)
    id = session.history.append_entry("my.state", {"count": 1, "half": "\ud83d"})
    entry = session.history.log.get(id)
    assert isinstance(entry, CustomEntry) and (entry.custom_type, entry.data) == ("my.state", {"count": 1, "half": "\ufffd"})
    (told,) = heard.of(e.EntryAppended)
    assert msgspec.json.decode(told.entry)["id"] == id
    assert len(session.messages) == 2, "the model is not told"
    assert session.history.append_entry("my.mark") in session.history.log


@pytest.mark.parametrize(
    ("custom_type", "data", "error"),
    [
        (QUEUE, {}, "kept by fairlead itself"),
        (TODOS, {}, "kept by fairlead itself"),
        (TASKS, {}, "kept by fairlead itself"),
        ("mine", {1, object()}, "JSON"),
    ],
    ids=["queue", "todos", "tasks", "not JSON"],
)
def test_an_entry_that_cannot_be_is_refused(tmp_path: Path, custom_type: str, data: Any, error: str) -> None:
    session = a_session(one_answer(), tmp_path)
    with pytest.raises(BadCommand, match=error):
        session.history.append_entry(custom_type, data)
    assert len(session.history.log) <= 2, "nothing but how a conversation begins"


async def test_an_entry_can_be_labelled(tmp_path: Path) -> None:
    session = a_session(one_answer(), tmp_path)
    await talk(session, "hi")
    log = session.history.log
    target = entry_of(log, "hi")
    session.history.set_label(target, "here")
    assert log.labels[target].text == "here"
    session.history.set_label(target, None)
    assert log.labels == {}
    with pytest.raises(EntryNotFound):
        session.history.set_label("nowhere", "here")
