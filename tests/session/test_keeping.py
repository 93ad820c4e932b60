"""How conversations come to be: new ones, old ones, forks; and which of them a session begins with."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs
from tests.session.scene import (
    Listener,
    a_kept_session,
    a_session,
    a_workspace,
    entry_of,
    file_of,
    held,
    in_the_way,
    kept_in,
    said,
    talk,
    texts,
)

from fairlead.core import events as e
from fairlead.core.model import ThinkingLevel
from fairlead.errors import ConfigError, SessionError
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.current import ConversationStore
from fairlead.session.history.file_archive import FileArchive
from fairlead.session.history.reading import read_session
from fairlead.stores.folders import SessionFolders
from fairlead.stores.paths import session_folder
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

THIRD = structs.replace(SCRIPTED_MODEL, id="third")


def header_of(path: Path) -> dict[str, Any]:
    return json.loads(path.read_bytes().splitlines()[0])


async def a_file(tmp_path: Path, *prompts: str, folder: str = "sessions") -> Path:
    """A session file in which the user said this, and the model each time "Yes."."""
    session = a_session(Scripted([Turn(text="Yes.")]), tmp_path, sessions=kept_in(tmp_path / folder))
    await talk(session, *(prompts or ("one",)))
    await session.close()
    return file_of(session)


# New ones


def test_a_new_conversation_is_kept_in_the_folder_of_its_working_directory(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    archive = FileArchive(folders=SessionFolders(root=root))
    sessions = ConversationStore(workspace=a_workspace(Path("/home/me/app")), now_ms=lambda: 0, archive=archive)
    conversation = sessions.new()
    assert conversation.path == root / "--home-me-app--" / f"1970-01-01T00-00-00-000Z_{conversation.id}.jsonl"
    sessions.workspace.cwd = Path("/elsewhere")
    assert sessions.place() == root / "--elsewhere--"
    sessions.archive.use(tmp_path / "one")
    assert sessions.place() == tmp_path / "one", "one folder for all working directories"


async def test_without_a_place_conversations_are_in_memory(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(text="x")]), tmp_path)
    await talk(session, "one")
    assert session.history.path is None and not session.history.conversation.is_saved
    assert session.history.sessions.fork(session.history.conversation).path is None
    await session.close()
    assert list(tmp_path.iterdir()) == []


async def test_a_new_conversation_says_who_it_is_and_where_it_comes_from(tmp_path: Path) -> None:
    sessions = kept_in(tmp_path / "sessions")
    conversation = sessions.new(id="chosen", parent="/other.jsonl", path=tmp_path / "deep" / "down" / "mine.jsonl")
    session = a_session(Scripted([Turn(text="x")]), tmp_path, sessions=sessions, conversation=conversation)
    assert session.history.id == "chosen"
    await talk(session, "one")
    header = header_of(tmp_path / "deep" / "down" / "mine.jsonl")
    assert (header["id"], header["parentSession"], header["cwd"]) == ("chosen", "/other.jsonl", str(tmp_path))
    await session.close()


# Old ones


async def test_an_old_conversation_continues_where_it_ended(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    model = Scripted([Turn(text="Again.")])
    session = a_kept_session(model, tmp_path, file=path)
    assert session.history.id == header_of(path)["id"]
    await talk(session, "two")
    assert texts(model.requests[0].messages) == ["one", "Yes.", "two"]
    assert model.requests[0].session_id == session.history.id
    await session.close()
    assert texts(read_session(path)[0].messages()) == ["one", "Yes.", "two", "Again."]


async def test_problems_of_a_session_file_are_reported(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    with path.open("ab") as file:
        file.write(b'{"type":"mess')
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path, file=path)
    assert session.history.problems == [f"The last line of {path} was incomplete and was cut off (13 bytes)."]


@pytest.mark.parametrize("contents", [None, b""], ids=["missing", "empty"])
async def test_where_no_session_is_a_new_one_is_kept(tmp_path: Path, contents: bytes | None) -> None:
    path = tmp_path / "named.jsonl"
    if contents is not None:
        path.write_bytes(contents)
    sessions = kept_in(tmp_path / "sessions")
    conversation, created = sessions.open_or_new(str(path))
    assert created and not conversation.has_begun
    session = a_session(Scripted([Turn(text="x")]), tmp_path, sessions=sessions, conversation=conversation)
    await talk(session, "one")
    await session.close()
    conversation, created = sessions.open_or_new(str(path))
    assert not created and texts(conversation.messages) == ["one", "x"]
    conversation.close()


def test_a_non_session_file_is_not_overwritten_by_a_new_session(tmp_path: Path) -> None:
    sessions = kept_in(tmp_path / "sessions")
    (tmp_path / "notes.txt").write_text("precious")
    with pytest.raises(SessionError, match="is not a session file"):
        sessions.open_or_new(str(tmp_path / "notes.txt"))
    with pytest.raises(SessionError, match="Is a directory"):
        sessions.open_or_new(str(tmp_path))
    with pytest.raises(SessionError, match="Not a directory"):
        sessions.open_or_new(str(tmp_path / "notes.txt" / "x.jsonl"))
    assert (tmp_path / "notes.txt").read_text() == "precious"


# What a session takes over from an old one


def with_choices(tmp_path: Path) -> Path:
    """A session file in which the third model was chosen, and a high level."""

    async def main() -> Path:
        session = a_kept_session(Scripted([Turn(text="x")], model=THIRD), tmp_path, models=[SCRIPTED_MODEL, THIRD])
        session.models.set_model("scripted", "third")
        session.models.set_thinking("high")
        await talk(session, "one")
        await session.close()
        return file_of(session)

    return asyncio.run(main())


def choices(path: Path) -> tuple[str, str | None]:
    log, _ = read_session(path)
    model = log.model()
    assert model is not None
    return model.id, log.thinking_level()


def test_the_model_and_the_level_are_those_of_the_conversation(tmp_path: Path) -> None:
    path = with_choices(tmp_path)
    before = path.read_bytes()
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path, file=path, models=[SCRIPTED_MODEL, THIRD], thinking="low")
    assert (session.model, session.thinking, session.history.problems) == (THIRD, "high", [])
    assert path.read_bytes() == before, "there is nothing to write down"


@pytest.mark.parametrize("first", ["model", "thinking"])
def test_a_model_or_level_that_was_named_goes_first_and_is_written_down(tmp_path: Path, first: str) -> None:
    path = with_choices(tmp_path)
    named = {f"{first}_is_explicit": True}
    models = [SCRIPTED_MODEL, THIRD]
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path, file=path, models=models, thinking="low", **named)
    expected = ("scripted-1", "high") if first == "model" else ("third", "low")
    assert session.model is not None
    assert (session.model.id, session.thinking) == choices(path) == expected


def test_a_model_that_is_gone_is_named_and_another_answers(tmp_path: Path) -> None:
    path = with_choices(tmp_path)
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path, file=path)
    instead = "The session's model scripted/third is not available: scripted/scripted-1 answers instead."
    assert (session.model, session.history.problems) == (SCRIPTED_MODEL, [instead])
    assert choices(path) == ("scripted-1", "high")


def test_a_session_opens_without_any_model(tmp_path: Path) -> None:
    path = with_choices(tmp_path)
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path, file=path, model=None)
    assert session.model is None and said(session) == ["one"]
    assert session.history.problems == ["The session's model scripted/third is not available: choose another."]


def test_a_level_that_is_unknown_here_is_not_taken_over(tmp_path: Path) -> None:
    path = with_choices(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"thinkingLevel":"high"', b'"thinkingLevel":"galactic"'))
    level: ThinkingLevel = "low"
    session = a_kept_session(Scripted([Turn(text="x")]), tmp_path, file=path, thinking=level)
    assert session.thinking == "low"
    assert choices(path)[1] == "low"


async def test_a_reopened_conversation_works_in_its_own_directory(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    sessions = kept_in(tmp_path / "sessions", cwd=there)
    session = a_session(Scripted([Turn(text="x")]), there, sessions=sessions)
    await talk(session, "one")
    await session.close()
    again = a_kept_session(Scripted([Turn(text="x")]), tmp_path, file=file_of(session))
    assert again.host.workspace.cwd == there
    done = await again.host.bash("pwd")
    assert done.message.output == f"{there}\n"
    await again.close()
    there.rmdir()
    lost = a_kept_session(Scripted([Turn(text="x")]), tmp_path, file=file_of(session))
    gone = f"The session's working directory {there} no longer exists; work continues in {tmp_path}."
    assert (lost.host.workspace.cwd, lost.history.problems) == (tmp_path, [gone])


# Forks


async def test_a_fork_has_what_came_before_and_leaves_its_source_alone(tmp_path: Path) -> None:
    source = await a_file(tmp_path, "one", "two")
    before = source.read_bytes()
    sessions = kept_in(tmp_path / "elsewhere")
    opened = sessions.open(str(source))
    whole = sessions.fork(opened)
    part = sessions.fork(opened, before=entry_of(opened.log, "two"))
    assert texts(whole.messages) == ["one", "Yes.", "two", "Yes."]
    assert texts(part.messages) == ["one", "Yes."]
    for fork in (whole, part):
        assert fork.path is not None and fork.path.parent == source.parent, "a fork is kept beside its source"
        assert header_of(fork.path)["parentSession"] == str(source)
        assert header_of(fork.path)["id"] == fork.id != opened.id
        assert texts(read_session(fork.path)[0].messages()) == texts(fork.messages), "it is on disk at once"
    assert source.read_bytes() == before


async def test_a_fork_before_the_first_message_is_empty_but_knows_its_source(tmp_path: Path) -> None:
    source = await a_file(tmp_path)
    sessions = kept_in(tmp_path / "sessions")
    opened = sessions.open(str(source))
    fork = sessions.fork(opened, before=entry_of(opened.log, "one"))
    opened.close()
    assert fork.messages == [] and fork.path is not None and not fork.path.exists()
    session = a_session(Scripted([Turn(text="x")]), tmp_path, sessions=sessions, conversation=fork)
    await talk(session, "anew")
    assert header_of(fork.path)["parentSession"] == str(source)
    await session.close()


def test_a_fork_of_what_was_never_saved_names_no_source(tmp_path: Path) -> None:
    sessions = kept_in(tmp_path / "sessions")
    fork = sessions.fork(sessions.new())
    assert fork.log.header.parent_session is None


async def test_a_fork_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    sessions = kept_in(tmp_path / "sessions")
    with in_the_way(tmp_path / "elsewhere"):
        sessions.archive.use(tmp_path / "elsewhere")
        with pytest.raises(SessionError, match="Cannot write session file"):
            sessions.copy(str(await a_file(tmp_path)))


async def test_a_file_in_use_can_be_forked(tmp_path: Path) -> None:
    turn, go = held()
    session = a_kept_session(Scripted([turn]), tmp_path)
    heard = Listener(session)
    await session.prompt("one")
    await heard.until(e.MessageEnd)
    with file_of(session).open("ab") as file:  # as a reader finds it in the middle of a write
        file.write(b'{"type":"mess')
    fork = kept_in(tmp_path / "forks").copy(str(file_of(session)))
    assert texts(fork.messages) == ["one"]
    assert fork.problems == [f"The last line of {file_of(session)} is incomplete and was left out."]
    assert fork.path is not None and fork.path.parent == tmp_path / "forks"
    go.set()
    await session.close()


# Which one to begin with


def chosen(tmp_path: Path, sessions: ConversationStore | None = None, **named: Any) -> Conversation | None:
    """The conversation to begin with, by the name of a session. Ids are looked for below `tmp_path` too."""
    options: dict[str, Any] = {"session": None, "resume": False, "fork": None, "session_id": None}
    sessions = sessions or kept_in(tmp_path / "sessions")
    cast("FileArchive", sessions.archive).root = tmp_path
    given: dict[str, Any] = {name: str(value) if isinstance(value, Path) else value for name, value in named.items()}
    return sessions.begin_with(**(options | given))


async def test_the_latest_session_is_resumed_or_a_new_one_begun(tmp_path: Path) -> None:
    assert chosen(tmp_path, resume=True) is None
    older, newer = await a_file(tmp_path, "older"), await a_file(tmp_path, "newer")
    os.utime(older, (1, 1))
    conversation = chosen(tmp_path, resume=True)
    assert conversation is not None and conversation.path == newer
    assert conversation.close()
    os.utime(newer, (0, 0))
    conversation = chosen(tmp_path, resume=True)
    assert conversation is not None and conversation.path == older


async def test_a_session_is_named_by_its_path_or_the_beginning_of_its_id(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    for name in (path, str(path), header_of(path)["id"], header_of(path)["id"][:20]):
        conversation = chosen(tmp_path, session=name)
        assert conversation is not None and conversation.path == path and texts(conversation.messages) == ["one", "Yes."]
        conversation.close()
    with pytest.raises(SessionError):
        chosen(tmp_path, session="ffffffff")


def test_a_path_where_nothing_is_yet_is_where_the_new_session_is_kept(tmp_path: Path) -> None:
    conversation = chosen(tmp_path, session=tmp_path / "mine.jsonl")
    assert conversation is not None and conversation.path == tmp_path / "mine.jsonl" and not conversation.has_begun


async def test_an_exact_id_is_found_or_begun(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    known = header_of(path)["id"]
    conversation = chosen(tmp_path, session_id=known)
    assert conversation is not None and conversation.path == path
    conversation.close()
    conversation = chosen(tmp_path, session_id=known[:20])
    assert conversation is not None and conversation.id == known[:20] and not conversation.has_begun
    assert conversation.path is not None and conversation.path.name.endswith(f"_{known[:20]}.jsonl")


async def test_a_session_is_begun_as_a_fork_of_another(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    for name in (path, header_of(path)["id"]):
        conversation = chosen(tmp_path, fork=name)
        assert conversation is not None and conversation.path not in (None, path)
        assert texts(conversation.messages) == ["one", "Yes."] and conversation.log.header.parent_session == str(path)


@pytest.mark.parametrize("how", ["session", "resume", "session_id"])
async def test_a_session_that_is_not_to_be_kept_is_copied_and_its_file_left_alone(tmp_path: Path, how: str) -> None:
    path = await a_file(tmp_path, folder=session_folder(tmp_path, tmp_path).name)
    before = path.read_bytes()
    sessions = ConversationStore(workspace=a_workspace(tmp_path), now_ms=lambda: 0, archive=FileArchive(copies=True))
    named = {"session": path, "resume": True, "session_id": header_of(path)["id"]}[how]
    conversation = chosen(tmp_path, sessions, **{how: named})
    session = a_session(Scripted([Turn(text="x")]), tmp_path, sessions=sessions, conversation=conversation)
    await talk(session, "two")
    assert said(session) == ["one", "two"] and session.history.path is None
    await session.close()
    assert path.read_bytes() == before
    assert len(list(path.parent.iterdir())) == 1


def test_two_wishes_at_once_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--continue and --fork ask for different sessions. Give one of them\.$"):
        chosen(tmp_path, resume=True, fork="x")
    with pytest.raises(ConfigError, match=r"^--session and --session-id ask"):
        chosen(tmp_path, session="x", session_id="y")
