"""A conversation on disk: an append-only file of JSON lines, one `write` per entry, one writer at a time.

    file = SessionFile.create(path, log)            # a new session; the file appears with the user's first message
    file, log, problems = SessionFile.open(path)    # an existing session, to resume

`LinesFile` writes, and notices what other programs do to the file. `NotesFile` writes the notes into another file beside it.
This module says which entry creates them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET

from fairlead.errors import SessionError
from fairlead.session.history import reading
from fairlead.session.history.entries import (
    NOTE_MARK,
    QUEUE,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    ModelChangeEntry,
    NoteEntry,
    ThinkingLevelChangeEntry,
    role_of,
)
from fairlead.session.history.log import Log
from fairlead.stores.headers import VERSION
from fairlead.stores.notes_files import NotesFile, notes_path
from fairlead.stores.paths import Durability
from fairlead.stores.session_files import LinesFile, cannot, close, open_to_append

if TYPE_CHECKING:
    from fairlead.session.history.reading import ParsedSession


class SessionFile(LinesFile):
    """The sink of a log: see `fairlead.session.history.log.Sink`."""

    def __init__(self, path: Path, log: Log, durability: Durability = "flush") -> None:
        super().__init__(path, log.lines_of_file, durability)
        #: Whether any entry creates the file. Set when a host relies on an entry being stored.
        self.eager = False
        self._log = log
        self._notes = NotesFile(path, log.header.id, log.lines_of_notes, durability)

    @classmethod
    def create(cls, path: Path, log: Log, *, durability: Durability = "flush") -> SessionFile:
        """Store a new conversation, or a fork, in a new file.

        The file is created with the first message of the user or the model, with the first command that the user runs, or by
        `begin`. Raises SessionError if it has to be created now and cannot be.
        """
        file = cls(path, log, durability)
        file.pending, file._notes.pending = log.lines_of_file(), log.lines_of_notes()
        if any(begins(entry) for entry in log.entries_with_notes()):
            file.begin()
        log.sink = file
        return file

    @classmethod
    def open(cls, path: Path, *, durability: Durability = "flush") -> tuple[SessionFile, Log, list[str]]:
        """Resume the session in a file. A file of an older version is rewritten.

        Returns the file, the conversation, and a sentence for each problem in the file. Raises SessionError if it is not a
        session file, cannot be written, or is in use by another process.
        """
        handle: int | None = None
        try:
            handle, data = open_to_append(path)
            contents = reading.parse(path, data)
            version = contents.log.header.version
            if version is not UNSET and version > VERSION:
                raise SessionError(
                    f"{path} is of version {version}; this program can read it, but writes version {VERSION} only."
                )
            file = cls(path, contents.log, durability)
            file.continue_after(data, handle)
            file._repair(contents, len(data))
        except OSError as error:
            close(handle)
            raise cannot("open", path, error) from error
        except BaseException:
            close(handle)
            raise
        file.begun = True
        contents.log.sink = file
        return file, contents.log, contents.problems

    def write(self, entry: Entry, line: bytes) -> None:
        """Append the pending lines and an entry. Raises SessionError if it cannot; the file is then unchanged."""
        is_note = isinstance(entry, NoteEntry)
        if not (self.begun or self.eager or begins(entry)):
            (self._notes.pending if is_note else self.pending).append(line)
            return
        self._write_out([] if is_note else [line])
        self.begun = True
        if is_note:
            self._write_notes([line])
        elif self._notes.pending:
            self._write_notes([])

    def begin(self) -> None:
        """Create the file now with all lines so far. Raises SessionError if that fails; the next write tries again."""
        super().begin()
        self.flush_pending()

    def hold(self, line: bytes) -> None:
        """Remember a line that could not be written, and write it before the next one."""
        if line.startswith(NOTE_MARK):
            self._notes.pending.append(line)
            self.begun = True
        else:
            super().hold(line)

    def flush_pending(self) -> None:
        """Try again to write the pending lines. Raises SessionError and keeps them if it still fails."""
        super().flush_pending()
        if self.begun and self._notes.pending:
            self._write_notes([])

    def close(self) -> None:
        """Close the file and release its lock. Pending lines are not written.

        A file that this object created is deleted if it has no more than the choice of a model or a thinking level.
        """
        self.release(deletes=lambda: not is_worth_keeping(self._log))
        self._notes.close()

    def _write_notes(self, new: list[bytes]) -> None:
        try:
            self._notes.write(new)
        except OSError as error:
            raise cannot("write", notes_path(self.path), error) from error

    def _repair(self, contents: ParsedSession, size: int) -> None:
        torn = size - contents.good
        if torn:
            contents.problems.append(f"The last line of {self.path} was incomplete and was cut off ({torn} bytes).")
        if contents.migrated is not None:
            self.rewrite(contents.migrated)
        elif torn:
            self.cut_torn_line(contents.good)
        elif contents.unended:
            self.end_last_line()


def begins(entry: Entry) -> bool:
    """Whether an entry causes the file to be created: a message, a queued message or a command that the user ran."""
    if isinstance(entry, CustomEntry):
        return entry.custom_type == QUEUE
    return isinstance(entry, CustomMessageEntry) or role_of(entry) in ("user", "assistant", "bashExecution")


def is_worth_keeping(log: Log) -> bool:
    """Whether a log has more than the choice of a model or thinking level, the state of an extension, or a prompt that failed."""
    held = 0
    for entry in log.entries_with_notes():
        if not isinstance(entry, CustomEntry):
            if not isinstance(entry, ModelChangeEntry | ThinkingLevelChangeEntry):
                return True
        elif entry.custom_type == QUEUE:
            data: Any = entry.data
            op: Any = cast("dict[str, Any]", data).get("op") if isinstance(data, dict) else None
            held += (op == "add") - (op == "remove")
        elif entry.custom_type.startswith("fairlead."):
            return True
    return held > 0
