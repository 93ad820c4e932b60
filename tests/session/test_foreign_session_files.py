"""Session files that other programs wrote or damaged: what is read of them, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.session.session_log import texts, user, written

from fairlead.errors import SessionError
from fairlead.session.history.entries import OtherEntry
from fairlead.session.history.reading import read_session, read_transcript
from fairlead.session.history.store import SessionFile


def test_a_torn_last_line_is_cut_at_whatever_byte(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    written(path, "one", "two", "thrée")
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for end in range(start, len(whole) + 1):
        path.write_bytes(whole[:end])
        read, noticed = read_session(path)
        assert path.read_bytes() == whole[:end]
        file, log, problems = SessionFile.open(path)
        log.message(user("four"))
        file.close()
        complete = end >= len(whole) - 1
        torn = start < end < len(whole) - 1
        assert texts(read) == ["one", "two"] + ["thrée"] * complete
        assert texts(log) == [*texts(read), "four"]
        assert noticed == ([f"The last line of {path} is incomplete and was left out."] if torn else [])
        cut = f"The last line of {path} was incomplete and was cut off ({end - start} bytes)."
        assert problems == ([cut] if torn else [])
        assert path.read_bytes().startswith(whole[: len(whole) if complete else start])
        again, problems = read_session(path)
        assert (texts(again), problems) == (texts(log), [])


def test_unreadable_and_unknown_lines_stay_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    log = written(path, "one", "two", "three")
    lines = path.read_bytes().split(b"\n")
    lines[2] = lines[2][:40]
    hologram = b'{"type":"hologram","id":"12","parentId":"%b","timestamp":"t","size":1.0}' % (log.leaf or "").encode()
    lines[4:4] = [b"", hologram, lines[0], b'{"type":"title","title":"no id"}', b"\xff\xfe"]
    path.write_bytes(b"\n".join(lines))
    before = path.read_bytes()
    file, opened, problems = SessionFile.open(path)
    assert problems == [f"Line {number} of {path} cannot be read and was skipped." for number in (3, 9)]
    assert isinstance(opened.get("12"), OtherEntry)
    opened.message(user("four"))
    file.close()
    assert texts(opened) == ["one", "three", "four"]
    assert path.read_bytes()[: len(before)] == before
    assert hologram in opened.entries_json()


def test_half_surrogate_pairs_and_broken_utf8_load(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    written(path, "one", "SECOND", "THIRD")
    path.write_bytes(path.read_bytes().replace(b"SECOND", b"\\ud83d!").replace(b"THIRD", b"\xff!"))
    log, problems = read_session(path)
    assert (texts(log), problems) == (["one", "\ufffd!", "\ufffd!"], [])
    log.messages_json().decode()
    log.tree_json().decode()
    log.entries_json().decode()
    transcript = read_transcript(path)  # what a host gets that follows the file of a sub-agent
    assert [json.loads(bytes(message))["content"][0]["text"] for message in transcript.messages] == ["one", "\ufffd!", "\ufffd!"]


def test_a_title_before_the_header_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    written(path, "one")
    path.write_bytes(b'{"type":"title","v":1,"title":"t","pad":"   "}\n' + path.read_bytes())
    assert texts(read_session(path)[0]) == ["one"]


@pytest.mark.parametrize(
    "contents",
    [
        *(b"", b"\n", b"hello\n", b'{"type":"message","id":"1"}\n', b'{"type":"session","version":3}\n', b'{"type":"sess'),
        b'{"id":"1","text":"a line of some other program"}\n{"id":"2"}\n',
    ],
)
def test_a_file_without_header_is_refused_and_left_alone(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "one.jsonl"
    path.write_bytes(contents)
    for use in (read_session, SessionFile.open):
        with pytest.raises(SessionError, match=re.escape(f"{path} is not a session file")):
            use(path)
    assert path.read_bytes() == contents


def test_a_file_of_a_later_version_is_read_but_not_written(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    written(path, "one")
    path.write_bytes(path.read_bytes().replace(b'"version":3', b'"version":4'))
    assert texts(read_session(path)[0]) == ["one"]
    with pytest.raises(SessionError, match="is of version 4"):
        SessionFile.open(path)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    for use in (read_session, SessionFile.open):
        with pytest.raises(SessionError, match=r"one\.jsonl does not exist\.$"):
            use(tmp_path / "one.jsonl")
