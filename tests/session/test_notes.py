"""What fairlead notes about a session stays out of the session file, which programs made for pi read."""

from __future__ import annotations

import json
from pathlib import Path

from tests.session.killed import Counted, as_killed, call, resumed
from tests.session.scene import a_kept_session, file_of, said, talk
from tests.support.session_file import notes_path, read_notes, read_strictly

from fairlead.session.history.reading import read_session
from fairlead.stores.deleting import delete_session
from fairlead.stores.listing import list_sessions
from fairlead.testing import Scripted, Turn

DONE = Turn(text="done")


async def noted(tmp_path: Path) -> Path:
    """A session whose process was killed while a tool ran and a message waited. Returns its file."""
    writes = Counted("writes", waits=True)
    session = a_kept_session(Scripted([Turn(tool_calls=[call("writes", "c1")]), DONE]), tmp_path, tools=[writes.tool])
    await session.prompt("Go.")
    await writes.called()
    await session.follow_up("And then?")
    file = as_killed(session)
    await session.abort()
    await session.close()
    return file


async def test_a_session_file_has_only_what_pi_knows(tmp_path: Path) -> None:
    lines = read_strictly(await noted(tmp_path))
    assert {entry["type"] for entry in lines.entries} <= {"message", "model_change", "thinking_level_change"}
    assert [note["customType"] for note in lines.notes] == ["fairlead.calls", "fairlead.queue"]
    assert lines.notes[-1]["after"] == lines.notes[-1]["parentId"] == lines.entries[-1]["id"]


async def test_notes_are_in_their_place_when_a_session_is_read_again(tmp_path: Path) -> None:
    file = await noted(tmp_path)
    log, problems = read_session(file)
    assert problems == []
    assert [entry.id for entry in log.entries_with_notes()] == [entry["id"] for entry in read_strictly(file).in_order()]
    assert log.find_end() == log.leaf == read_strictly(file).entries[-1]["id"]


async def test_a_torn_note_is_cut_off(tmp_path: Path) -> None:
    file = await noted(tmp_path)
    notes = notes_path(file)
    before = read_notes(file)
    notes.write_bytes(notes.read_bytes() + notes.read_bytes()[-40:-1])
    session = await resumed(a_kept_session(Scripted([DONE, DONE]), tmp_path, file=file))
    assert said(session) == ["Go.", "And then?"]
    assert read_notes(file)[: len(before)] == before


async def test_notes_about_another_session_are_ignored_and_overwritten(tmp_path: Path) -> None:
    file = await noted(tmp_path)
    notes_path(file).write_text('{"type":"notes","session":"another"}\n{"type":"note"}\nno JSON\n')
    session = a_kept_session(Scripted([DONE, DONE]), tmp_path, file=file)
    assert len(session.queue) == 0
    await session.queue.send_message("note", "waits", deliver="next_turn")
    assert [note["customType"] for note in read_notes(file)] == ["fairlead.queue"]
    await session.close()


async def test_notes_that_another_program_deletes_are_written_again(tmp_path: Path) -> None:
    session = a_kept_session(Scripted([DONE]), tmp_path)
    await talk(session, "hi")
    await session.queue.send_message("note", "first", deliver="next_turn")
    before = read_notes(file_of(session))
    notes_path(file_of(session)).unlink()
    await session.queue.send_message("note", "second", deliver="next_turn")
    assert read_notes(file_of(session))[: len(before)] == before
    assert len(read_notes(file_of(session))) == len(before) + 1
    await session.close()


async def test_notes_are_deleted_with_their_session(tmp_path: Path) -> None:
    file = await noted(tmp_path)
    delete_session(file)
    assert not notes_path(file).exists()


async def test_notes_without_their_session_are_deleted(tmp_path: Path) -> None:
    file = await noted(tmp_path)
    kept, orphaned = notes_path(file), notes_path(file.with_name("deleted-by-a-host.jsonl"))
    orphaned.write_bytes(kept.read_bytes())
    list_sessions(file.parent)
    assert (kept.exists(), orphaned.exists()) == (True, False)


async def test_a_file_with_notes_among_its_entries_can_be_continued(tmp_path: Path) -> None:
    file = await noted(tmp_path)
    lines = file.read_text().splitlines()
    last = json.loads(lines[-1])["id"]
    old = {"type": "custom", "id": "aaaa0001", "parentId": last, "timestamp": "2026-11-19T10:00:00.000Z"}
    started = {**old, "customType": "fairlead.calls", "data": {"op": "started", "id": "c1"}}
    waiting = {"role": "user", "content": [{"type": "text", "text": "waited"}], "timestamp": 1}
    added = {"op": "add", "queue": "followUp", "message": waiting}
    queued = {**old, "id": "aaaa0002", "customType": "fairlead.queue", "data": added}
    file.write_text("\n".join([*lines, json.dumps(started), json.dumps(queued)]) + "\n")
    notes_path(file).unlink()
    session = await resumed(a_kept_session(Scripted([DONE, DONE]), tmp_path, file=file))
    assert said(session) == ["Go.", "waited"]
    log = session.history.log
    assert "aaaa0001" not in [entry.id for entry in log.entries()]
    assert log.get("aaaa0002") in log.path()
