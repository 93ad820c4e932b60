"""Files of pi's first two versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.json_values import is_object

from fairlead.session.history.reading import migrate, read_session
from fairlead.session.history.store import SessionFile


def lines(*values: Any) -> list[bytes]:
    return [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]


def said(text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "timestamp": "2025-11-01T00:00:00.000Z",
        "message": {"role": "user", "content": text, "timestamp": 1},
    }


V1 = lines(
    {"type": "session", "id": "old", "timestamp": "2025-11-01T00:00:00.000Z", "cwd": "/w", "provider": "p"},
    said("one"),
    b"{torn in the middle",
    said("two"),
    said("three"),
    {
        "type": "compaction",
        "timestamp": "2025-11-01T00:00:00.000Z",
        "summary": "so far",
        "firstKeptEntryIndex": 3,
        "tokensBefore": 9,
    },
    said("four"),
)


def test_a_list_becomes_a_tree_without_branches() -> None:
    header, *rest = [json.loads(line) if line.startswith(b'{"') else line for line in migrate(V1, 1)]
    assert header == {**json.loads(V1[0]), "version": 3}
    assert rest[1] == b"{torn in the middle"
    entries = [entry for entry in rest if is_object(entry)]
    assert [entry["parentId"] for entry in entries] == [None, *(entry["id"] for entry in entries[:-1])]
    assert len({entry["id"] for entry in entries}) == 5


def test_a_compaction_names_what_it_counted() -> None:
    entries = [json.loads(line) for line in migrate(V1, 1) if line.startswith(b'{"')]
    compaction = next(entry for entry in entries if entry["type"] == "compaction")
    assert "firstKeptEntryIndex" not in compaction
    kept = next(entry for entry in entries if entry.get("id") == compaction["firstKeptEntryId"])
    assert kept["message"]["content"] == "three"


def test_messages_of_hooks_become_custom_ones() -> None:
    hook = {"type": "message", "id": "1", "parentId": None, "timestamp": "t", "message": {"role": "hookMessage", "content": "x"}}
    header, changed = (json.loads(line) for line in migrate(lines({"type": "session", "version": 2, "id": "s"}, hook), 2))
    assert header["version"] == 3
    assert changed == {**hook, "message": {"role": "custom", "content": "x"}}


def test_two_readers_of_an_old_file_agree_and_leave_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_bytes(b"\n".join(V1) + b"\n")
    before = path.read_bytes()
    (first, problems), (second, _) = read_session(path), read_session(path)
    assert first.entries() == second.entries()
    assert [text for _, text in first.user_messages()] == ["one", "two", "three", "four"]
    assert [json.loads(first.messages_json())[i].get("content") for i in range(3)] == [None, "three", "four"]
    assert problems == [f"Line 3 of {path} cannot be read and was skipped."]
    assert path.read_bytes() == before


def test_a_writer_migrates_an_old_file_and_continues(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_bytes(b"\n".join(V1) + b"\n" + b'{"torn":')
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    file, log, problems = SessionFile.open(link)
    assert len(problems) == 2
    log.session_info("renamed")
    file.close()
    assert link.is_symlink()
    assert [item.name for item in sorted(tmp_path.iterdir())] == ["link.jsonl", "old.jsonl"]
    written = path.read_bytes().split(b"\n")
    assert json.loads(written[0])["version"] == 3
    assert b"{torn in the middle" in written
    again, _ = read_session(path)
    assert again.entries() == log.entries()
    assert again.name == "renamed"


def test_the_lock_is_kept_while_a_file_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_bytes(b"\n".join(V1) + b"\n")
    file, _, _ = SessionFile.open(path)
    try:
        SessionFile.open(path)
    except Exception as error:
        assert "is in use by another session of this process" in str(error)
    else:
        raise AssertionError("opened twice")
    finally:
        file.close()
