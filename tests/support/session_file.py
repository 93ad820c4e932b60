"""A strict reader of session files: it knows the format, and nothing of the program that wrote the file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

Entry = dict[str, Any]
Message = dict[str, Any]


@dataclass(frozen=True)
class SessionLines:
    """A session file, line by line."""

    header: Entry
    entries: list[Entry]
    #: What follows the last line's end: a write that was cut short.
    torn: bytes
    #: What fairlead notes in the file beside it.
    notes: list[Entry]

    def of(self, kind: str) -> list[Entry]:
        return [entry for entry in self.entries if entry["type"] == kind]

    @property
    def messages(self) -> list[Message]:
        """All messages of all branches, as they were told."""
        return [message for entry in self.entries if (message := message_of(entry)) is not None]

    def with_role(self, role: str) -> list[Message]:
        return [message for message in self.messages if message["role"] == role]

    def user_texts(self) -> list[str]:
        """What the user said and the conversation has heard."""
        return [text_of(message) for message in self.with_role("user")]

    def queued(self) -> list[Message]:
        """Everything that was ever queued: messages of the user's, and commands that waited for the end of a run."""
        notes = [entry["data"] for entry in self.notes if entry["customType"] == "fairlead.queue"]
        return [note["message"] for note in notes if note["op"] == "add"]

    def in_order(self) -> Iterator[Entry]:
        """The entries and the notes, in the order in which they were written."""
        following: dict[str | None, list[Entry]] = {}
        for note in self.notes:
            following.setdefault(note["after"], []).append(note)
        yield from following.get(None, [])
        for entry in self.entries:
            yield entry
            yield from following.get(entry["id"], [])

    def waiting(self) -> list[Message]:
        """What was queued and neither heard nor taken back, oldest first."""
        waiting: list[Message] = []
        for entry in self.in_order():
            match entry:
                case {"type": "message", "message": message} if message in waiting:
                    waiting.remove(message)
                case {"customType": "fairlead.queue", "data": {"op": "add", "message": message}}:
                    waiting.append(message)
                case {"customType": "fairlead.queue", "data": {"op": "remove", "message": message}} if message in waiting:
                    waiting.remove(message)
                case {"customType": "fairlead.queue", "data": {"op": "clear"} as data}:
                    spared = data.get("except", [])
                    waiting = [message for message in waiting if message["role"] == "bashExecution" or message in spared]
                case {"customType": "fairlead.queue", "data": {"op": "fork"}}:
                    waiting = []
                case _:
                    pass
        return waiting

    def back(self) -> Iterator[Entry]:
        """The entries from the last one to the beginning of its conversation."""
        by_id = {entry["id"]: entry for entry in self.entries}
        entry = self.entries[-1] if self.entries else None
        while entry is not None:
            yield entry
            entry = by_id.get(entry["parentId"])

    def last_part(self) -> list[Message]:
        """The messages since the last compaction, without those that the model no longer sees."""
        hidden: set[str] = set()
        found: list[Message] = []
        for entry in self.back():
            if entry["type"] == "compaction":
                break
            if entry["type"] == "context_edit":
                hidden.add(entry["targetId"])
            elif entry["id"] not in hidden and (message := message_of(entry)) is not None:
                found.append(message)
        return found[::-1]

    def model(self) -> str | None:
        """The model that was chosen, or that answered, last."""
        for entry in self.back():
            if entry["type"] == "model_change":
                return entry["modelId"]
            if entry["type"] == "message" and entry["message"]["role"] == "assistant":
                return entry["message"]["model"]
        return None

    def name(self) -> str | None:
        names = [entry["name"] for entry in self.of("session_info")]
        return names[-1] if names else None


def read_strictly(path: Path) -> SessionLines:
    """The contents of a session file, in which nothing may be wrong but a last line without an end."""
    *lines, torn = path.read_bytes().split(b"\n")
    header, *entries = [json.loads(line.decode("utf-8", "strict")) for line in lines]
    assert (header["type"], header["version"]) == ("session", 3), path
    known: set[str | None] = {None}
    for entry in entries:
        assert entry["type"] != "session", f"{path}: a second header"
        assert entry["id"] not in known, f"{path}: two entries with the id {entry['id']}"
        assert entry["parentId"] in known, f"{path}: {entry['id']} follows {entry['parentId']}, which does not come before it"
        known.add(entry["id"])
    notes = read_notes(path)
    assert all(note["type"] == "note" and {note["parentId"], note["after"]} <= known for note in notes), path
    return SessionLines(header, entries, torn, notes)


def notes_path(path: Path) -> Path:
    """The file with the notes about a session file."""
    return Path(f"{path}.notes")


def read_notes(path: Path) -> list[Entry]:
    """The notes beside a session file, in which nothing may be wrong but a last line without an end."""
    if not notes_path(path).exists():
        return []
    header, *notes = [json.loads(line) for line in notes_path(path).read_bytes().split(b"\n")[:-1]]
    assert header == {"type": "notes", "session": json.loads(path.read_bytes().split(b"\n")[0])["id"]}, path
    return notes


def copy_session(source: Path, target: Path) -> Path:
    """Copy a session file with its notes. Returns the copy."""
    target.write_bytes(source.read_bytes())
    if notes_path(source).exists():
        notes_path(target).write_bytes(notes_path(source).read_bytes())
    return target


def message_of(entry: Entry) -> Message | None:
    """The message in an entry, if that is what it is for."""
    match entry["type"]:
        case "message":
            return entry["message"]
        case "custom_message":
            told = {key: entry[key] for key in ("customType", "content", "display", "details") if key in entry}
            return {"role": "custom", **told, "timestamp": round(datetime.fromisoformat(entry["timestamp"]).timestamp() * 1000)}
        case _:
            return None


def text_of(message: Message) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def missing(wanted: Iterable[Any], found: Iterable[Any]) -> list[Any]:
    """What of the first is not among the second."""
    there = {_key(value) for value in found}
    return [value for value in wanted if _key(value) not in there]


def repeated(values: Iterable[Any]) -> list[str]:
    """What is there more than once."""
    return [value for value, count in Counter(map(_key, values)).items() if count > 1]


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
