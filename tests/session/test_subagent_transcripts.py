"""The names of sub-agents, and the files in which their conversations are kept."""

from __future__ import annotations

from pathlib import Path

from msgspec import UNSET
from tests.session.family import DONE, Cast, a_parent, statuses, subagents_of, task_call, told
from tests.session.scene import file_of, in_the_way, talk
from tests.support.session_file import read_strictly

from fairlead.core.messages import ToolCall
from fairlead.stores.deleting import delete_session
from fairlead.stores.listing import list_all_sessions, list_sessions
from fairlead.stores.paths import transcripts_folder
from fairlead.testing import Turn


async def test_ids_are_unique_and_fit_for_file_names(tmp_path: Path) -> None:
    wanted = ["One", "one", "One", "a/b: ../c", "", "x" * 100, "-"]
    tasks = [{"id": id, "description": "d", "assignment": "look"} for id in wanted]
    call = Turn(tool_calls=[ToolCall("call", "task", {"agent": "explore", "tasks": tasks})])
    cast = Cast(start=[call, DONE], look=[DONE])
    session = a_parent(cast, tmp_path)
    await talk(session, "start")
    assert list(statuses(session)) == ["One", "one-2", "One-3", "a-b-c", "explore", "x" * 48, "explore-2"]
    await session.close()


async def test_conversations_are_kept_beside_the_session_in_folders_that_are_nested_like_the_agents(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("outer", "other"), DONE], outer=[task_call("inner"), DONE], inner=[DONE], other=[DONE])
    session = a_parent(cast, tmp_path, keep=True)
    await talk(session, "start")
    file = file_of(session)
    folder = transcripts_folder(file)
    files = {snapshot.id: Path(str(snapshot.session_file)) for snapshot in subagents_of(session).snapshots()}
    assert files == {
        "outer": folder / "0-outer.jsonl",
        "other": folder / "1-other.jsonl",
        "outer.inner": folder / "0-outer" / "0-inner.jsonl",
    }
    parents = {"outer": file, "other": file, "outer.inner": files["outer"]}
    for id, path in files.items():
        lines = read_strictly(path)
        assert lines.torn == b""
        assert lines.header["parentSession"] == str(parents[id])
        assert lines.user_texts() == [id.rpartition(".")[2]]
        assert path.stat().st_mode & 0o777 == 0o600
        session.history.sessions.open(str(path)).close()  # nobody holds it any more
    assert read_strictly(file).torn == b""
    session.history.conversation.close()


async def test_a_session_that_is_deleted_takes_the_conversations_of_its_sub_agents_along(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("outer"), DONE], outer=[task_call("inner"), DONE], inner=[DONE])
    session = a_parent(cast, tmp_path, keep=True)
    await talk(session, "start")
    await session.close()
    file = file_of(session)
    folder = transcripts_folder(file)
    (folder / "0-outer" / "notes.txt").write_text("somebody else's")
    delete_session(file)
    assert sorted(tmp_path.rglob("*")) == [
        file.parent,
        folder,
        folder / "0-outer",
        folder / "0-outer" / "notes.txt",
    ]


async def test_the_conversations_of_sub_agents_are_not_listed_as_sessions(tmp_path: Path) -> None:
    session = a_parent(Cast(start=[task_call("look"), DONE], look=[DONE]), tmp_path, keep=True)
    await talk(session, "start")
    await session.close()
    file = file_of(session)
    assert [info.path for info in list_sessions(file.parent)] == [str(file)]
    for root in (file.parent, file.parent.parent):
        assert [info.path for info in list_all_sessions(root)] == [str(file)]


async def test_sub_agents_of_a_session_in_memory_leave_no_files(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("look"), DONE], look=[DONE])
    session = a_parent(cast, tmp_path)
    await talk(session, "start")
    assert [snapshot.session_file for snapshot in subagents_of(session).snapshots()] == [UNSET]
    assert subagents_of(session).transcript_of("look") is None
    await session.close()
    assert list(tmp_path.iterdir()) == []


async def test_a_session_that_is_opened_again_finds_its_old_transcripts_and_overwrites_none(tmp_path: Path) -> None:
    parts = {"start": [task_call("look"), DONE], "look": [Turn(text="first")]}
    session = a_parent(Cast(**parts), tmp_path, keep=True)
    await talk(session, "start")
    await session.close()
    old = subagents_of(session).transcript_of("look")
    assert old is not None
    before = old.read_bytes()

    session = a_parent(Cast(**parts), tmp_path, file=file_of(session))
    assert subagents_of(session).snapshots() == []
    assert subagents_of(session).is_transcript(old)
    await talk(session, "start")
    assert list(statuses(session)) == ["look-2"]
    assert old.read_bytes() == before
    await session.close()


async def test_only_files_in_the_sessions_own_folder_are_its_transcripts(tmp_path: Path) -> None:
    session = a_parent(Cast(start=[task_call("look"), DONE], look=[DONE]), tmp_path, keep=True)
    await talk(session, "start")
    file = file_of(session)
    folder = transcripts_folder(file)
    other = tmp_path / "other.jsonl"
    other.write_text("{}")
    (folder / "link.jsonl").symlink_to(other)
    subagents = subagents_of(session)
    assert subagents.is_transcript(folder / "0-look.jsonl")
    for refused in (file, other, folder / "link.jsonl", folder / ".." / "x.jsonl", folder / "0-look.txt", folder):
        assert not subagents.is_transcript(refused), refused
    await session.close()


async def test_where_no_file_can_be_made_the_sub_agent_fails_and_says_why(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("look"), DONE], look=[DONE])
    session = a_parent(cast, tmp_path, keep=True)
    folder = transcripts_folder(file_of(session))
    with in_the_way(folder):
        await talk(session, "start")
    assert statuses(session) == {"look": "failed"}
    assert str(folder) in told(session)
    assert session.activity.last_end is not None
    assert session.activity.last_end.message.text() == "all done"
    await session.close()


async def test_another_conversation_has_sub_agents_of_its_own(tmp_path: Path) -> None:
    session = a_parent(Cast(start=[task_call("look"), DONE], look=[DONE]), tmp_path, keep=True)
    await talk(session, "start")
    assert list(statuses(session)) == ["look"]
    await session.history.new()
    assert statuses(session) == {}
    await talk(session, "start")
    assert list(statuses(session)) == ["look"]
    await session.close()
