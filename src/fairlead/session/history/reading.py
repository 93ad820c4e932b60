"""Reading session files of any version, also damaged ones.

Versions before 3, which `migrate` brings to version 3:

    1   a list: entries have no ids, and a compaction counts lines to say what it keeps
    2   a tree, as in version 3, where extensions' messages have the role `hookMessage`
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core import lenient
from fairlead.errors import SessionError
from fairlead.session.history.entries import Entry, NotAnEntry, NoteEntry, decode_line
from fairlead.session.history.log import Log
from fairlead.stores.headers import TITLE, VERSION, Header, decode_object, read_header, refuse_endless
from fairlead.stores.notes_files import notes_path, read_notes
from fairlead.stores.session_files import cannot


class ParsedSession(Struct):
    """A session file, parsed."""

    log: Log
    problems: list[str]
    #: The number of bytes that are complete lines. A torn line may follow them.
    good: int
    #: Whether the last line is complete except for its line end.
    unended: bool
    #: The lines of the file in version 3, if it has an older version.
    migrated: list[bytes] | None


def read_session(path: Path) -> tuple[Log, list[str]]:
    """Read a session without changing its file. Another process may be writing it meanwhile.

    Returns the conversation, and a sentence for each problem in the file. Raises SessionError if it is not a session file or
    cannot be read.
    """
    try:
        refuse_endless(path, whole=True)
        data = path.read_bytes()
    except OSError as error:
        raise cannot("read", path, error) from error
    contents = parse(path, data)
    if contents.good < len(data):
        contents.problems.append(f"The last line of {path} is incomplete and was left out.")
    return contents.log, contents.problems


def parse(path: Path, data: bytes) -> ParsedSession:
    """Parse the bytes of a session file. Raises SessionError if they do not begin with a header."""
    lines = data.split(b"\n")
    tail = lines.pop()
    unended = bool(tail) and _is_entry_or_header(tail)
    if unended:
        lines.append(tail)
    if not is_utf8(data):
        lines = [line if is_utf8(line) else line.decode("utf-8", "replace").encode() for line in lines]
    start, header = _find_header(path, lines)
    version = 1 if header.version is UNSET else header.version
    migrated: list[bytes] | None = None
    if version < VERSION:
        migrated = lines = migrate(lines, version)
        header = read_header(lines[start]) or header
    records: list[tuple[Entry, bytes]] = []
    gaps: list[int] = []
    problems: list[str] = []
    for number in range(start + 1, len(lines)):
        line = lines[number]
        try:
            records.append(decode_line(line))
        except NotAnEntry:
            continue
        except ValueError:
            if line.strip():
                gaps.append(len(records))
                problems.append(f"Line {number + 1} of {path} cannot be read and was skipped.")
    good = len(data) if unended else len(data) - len(tail)
    try:
        notes = read_notes(path, header.id)
    except OSError as error:
        raise cannot("read", notes_path(path), error) from error
    if notes:
        records, gaps = _insert_notes(records, gaps, notes)
    return ParsedSession(Log(header, records, gaps=gaps), problems, good, unended, migrated)


_Records: TypeAlias = list[tuple[Entry, bytes]]


def _insert_notes(records: _Records, gaps: list[int], notes: list[bytes]) -> tuple[_Records, list[int]]:
    """Return the entries of a file with the notes beside it, in the order in which they were written, and the gaps among them.

    A note about an entry that the file has lost comes last.
    """
    known = {entry.id for entry, _ in records}
    following: dict[str | None, _Records] = {}
    lost: _Records = []
    for text in notes:
        with suppress(ValueError):
            note, line = decode_line(text)
            if isinstance(note, NoteEntry):
                is_lost = note.after is not None and note.after not in known
                (lost if is_lost else following.setdefault(note.after, [])).append((note, line))
    merged, gaps_ahead, moved = following.pop(None, []), list(reversed(gaps)), list[int]()
    for number, record in enumerate(records):
        while gaps_ahead and gaps_ahead[-1] <= number:
            gaps_ahead.pop()
            moved.append(len(merged))
        merged.append(record)
        merged += following.pop(record[0].id, [])
    return [*merged, *lost], [*moved, *(len(merged) for _ in gaps_ahead)]


def _find_header(path: Path, lines: list[bytes]) -> tuple[int, Header]:
    """Return the header and the index of its line: the first one, or the second after omp's title."""
    for number, line in enumerate(lines[:2]):
        header = read_header(line)
        if header is not None:
            return number, header
        if not line.startswith(TITLE):
            break
    raise SessionError(f"{path} is not a session file: it does not begin with a session header.")


def _is_entry_or_header(line: bytes) -> bool:
    try:
        decode_line(line)
    except NotAnEntry:
        return read_header(line) is not None
    except ValueError:
        return False
    return True


def is_utf8(data: bytes) -> bool:
    """Whether some bytes are valid UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# Older versions


def migrate(lines: Sequence[bytes], version: int) -> list[bytes]:
    """Convert the lines of a file of version 1 or 2, with its header, to version 3.

    Only what must change is changed: unreadable lines and unknown fields stay as they are. So the new file has everything that
    the old one has, and no copy of the old one is needed. The same lines always get the same ids, so two readers agree.
    """
    values = [decode_object(line) for line in lines]
    if version < 2:
        _link([value for value in values if value is not None])
    for value in values:
        if value is None:
            continue
        if value.get("type") == "session":
            value["version"] = VERSION
        message = value.get("message")
        if isinstance(message, dict) and cast("dict[str, Any]", message).get("role") == "hookMessage":
            message["role"] = "custom"
    return [line if value is None else msgspec.json.encode(value) for line, value in zip(lines, values, strict=True)]


def _link(values: list[dict[str, Any]]) -> None:
    """Turn a list of entries into a tree without branches. The index of a compaction counts the header too."""
    parent: str | None = None
    for number, value in enumerate(values):
        if value.get("type") != "session":
            value["id"] = f"{number:08x}"
            value["parentId"] = parent
            parent = value["id"]
    for value in values:
        kept = value.pop("firstKeptEntryIndex", None) if value.get("type") == "compaction" else None
        if isinstance(kept, int) and 0 <= kept < len(values) and values[kept].get("type") != "session":
            value["firstKeptEntryId"] = values[kept]["id"]


class Transcript(Struct):
    """The complete lines of a session file from the byte `start` to the byte `end`, where the next piece begins."""

    start: int
    end: int
    #: Whether the file was shorter than asked for, so that it was read from its beginning.
    reset: bool
    #: Header and entries, as JSON; and the messages in them.
    lines: list[bytes]
    messages: list[Raw]


class _Line(Struct):
    type: str = ""
    message: Raw | UnsetType = UNSET


def read_transcript(path: Path, start: int = 0) -> Transcript:
    """The content of a session file from a byte on. A file that does not exist yet is empty. Raises SessionError."""
    start = max(start, 0)
    try:
        refuse_endless(path)
        with path.open("rb") as file:
            size = file.seek(0, 2)
            reset = start > size
            start = 0 if reset else start
            file.seek(start)
            data = file.read()
    except FileNotFoundError:
        return Transcript(start, start, False, [], [])
    except OSError as error:
        raise SessionError(f"Cannot read session file {path}: {error.strerror or error}.") from error
    end = data.rfind(b"\n") + 1
    lines: list[bytes] = []
    messages: list[Raw] = []
    if not is_utf8(data):  # frames are: U+FFFD stands for what is not
        lines_of_file = [text.decode("utf-8", "replace").encode() for text in data[:end].split(b"\n")]
    else:
        lines_of_file = data[:end].split(b"\n")
    decoder = msgspec.json.Decoder(_Line)
    for text in lines_of_file:
        try:
            line = decoder.decode(text)
        except (msgspec.DecodeError, UnicodeError):
            text = lenient.repair_json(text)  # pi writes halves of surrogate pairs, which frames must not have
            try:
                line = decoder.decode(text)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                continue  # empty, or only the end of a line
        except RecursionError:
            continue
        lines.append(text)
        if line.type == "message" and not isinstance(line.message, UnsetType):
            messages.append(line.message)
    return Transcript(start, start + end, reset, lines, messages)
