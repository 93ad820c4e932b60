"""From one conversation to another: a new one, another file, a fork or a clone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.session.scene import (
    PATIENCE,
    Listener,
    a_kept_session,
    a_session,
    entry_of,
    file_of,
    file_size_limit,
    held,
    kept_in,
    running,
    said,
    saved,
    settled,
    talk,
)

from fairlead.core import events as e
from fairlead.errors import EntryNotFound, FairleadError, SessionError
from fairlead.session.history.reading import read_session
from fairlead.session.history.store import SessionFile
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

THIRD = structs.replace(SCRIPTED_MODEL, id="third")


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


async def test_problems_of_the_target_conversation_are_reported(tmp_path: Path) -> None:
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


async def test_an_unknown_users_home_does_not_crash(tmp_path: Path) -> None:
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path)
    assert await session.history.switch("~nobody-is-called-that/x.jsonl") is True


# To a fork


async def test_a_fork_continues_before_a_user_message(tmp_path: Path) -> None:
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
async def test_a_refused_fork_leaves_the_run_alone(tmp_path: Path, where: str) -> None:
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
