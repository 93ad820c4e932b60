"""Conversations that could not be written: what is told, and when they are written after all."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.session.scene import (
    Listener,
    a_kept_session,
    file_of,
    file_size_limit,
    full_disk,
    held,
    in_the_way,
    running,
    saved,
    settled,
    talk,
    texts,
)

from fairlead.core import events as e
from fairlead.errors import SessionError
from fairlead.session.history.store import SessionFile
from fairlead.session.session import Session
from fairlead.testing import Scripted, Turn


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


async def test_an_unwritable_answer_is_reported_once_and_stays_in_the_conversation(tmp_path: Path) -> None:
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
