"""A conversation on disk: an append-only file of JSON lines, one `write` per entry, one writer at a time.

    file = SessionFile.create(path, log)            # a new session; the file appears with the user's first message
    file, log, problems = SessionFile.open(path)    # an existing session, to resume

`LinesFile` writes, and notices what other programs do to the file. This module says which entry creates it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET

from fairlead.errors import SessionError
from fairlead.session.history.entries import (
    QUEUE,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    ModelChangeEntry,
    ThinkingLevelChangeEntry,
    role_of,
)
from fairlead.session.history.log import Log
from fairlead.stores.headers import VERSION
from fairlead.stores.paths import Durability
from fairlead.stores.session_files import LinesFile, cannot, close, open_to_append

if TYPE_CHECKING:
    from fairlead.session.history.reading import ParsedSession


class SessionFile(LinesFile):
    """The sink of a log: see `fairlead.session.history.log.Sink`."""

    def __init__(self, path: Path, log: Log, durability: Durability = "flush") -> None:
        super().__init__(path, log.lines, durability)
        #: Whether any entry creates the file. Set when a host relies on an entry being stored.
        self.eager = False
        self._log = log

    @classmethod
    def create(cls, path: Path, log: Log, *, durability: Durability = "flush") -> SessionFile:
        """Store a new conversation, or a fork, in a new file.

        The file is created with the first message of the user or the model, with the first command that the user runs, or by
        `begin`. Raises SessionError if it has to be created now and cannot be.
        """
        file = cls(path, log, durability)
        file.pending = log.lines()
        if any(begins(entry) for entry in log.entries()):
            file.begin()
        log.sink = file
        return file

    @classmethod
    def open(cls, path: Path, *, durability: Durability = "flush") -> tuple[SessionFile, Log, list[str]]:
        """Resume the session in a file. A file of an older version is rewritten.

        Returns the file, the conversation, and a sentence for each problem in the file. Raises SessionError if it is not a
        session file, cannot be written, or is in use by another process.
        """
        from fairlead.session.history.reading import parse

        handle: int | None = None
        try:
            handle, data = open_to_append(path)
            contents = parse(path, data)
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
        if not (self.begun or self.eager or begins(entry)):
            self.pending.append(line)
            return
        self._write_out([line])
        self.begun = True

    def close(self) -> None:
        """Close the file and release its lock. Pending lines are not written.

        A file that this object created is deleted if it has no more than the choice of a model or a thinking level.
        """
        self.release(deletes=lambda: not any(is_worth_keeping(entry) for entry in self._log.entries()))

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


def is_worth_keeping(entry: Entry) -> bool:
    """Whether an entry is more than the choice of a model or thinking level, or the state of an extension."""
    if isinstance(entry, CustomEntry):
        return entry.custom_type.startswith("fairlead.")
    return not isinstance(entry, ModelChangeEntry | ThinkingLevelChangeEntry)
