"""Sessions in the layout of Claude Code, which its SDKs list, read, rename, fork and delete without the agent."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.core import lenient
from fairlead.core.messages import AssistantBlock, AssistantMessage
from fairlead.errors import SessionError
from fairlead.session.history.claude_lines import LineMaker, LineReader, ReadLines, Tails, block_id
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.entries import Entry, MessageEntry, role_of
from fairlead.session.history.file_archive import FileArchive
from fairlead.session.history.log import Log
from fairlead.session.history.store import SessionFile, begins
from fairlead.stores.headers import refuse_endless
from fairlead.stores.notes_files import NotesFile
from fairlead.stores.paths import Durability, iso
from fairlead.stores.session_files import LinesFile, cannot, close, open_to_append

if TYPE_CHECKING:
    from fairlead.session.history.sessions import ConversationStore

#: A longer name of a project's folder is cut, and gets a hash.
_LONGEST = 200
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def new_uuid() -> str:
    """Return a new UUID of version 4."""
    digits = f"{int.from_bytes(os.urandom(16)) & ~(0xF << 76) & ~(0xC << 60) | 4 << 76 | 8 << 60:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def project_folder(projects: Path, cwd: Path) -> Path:
    """Return the folder for the sessions of a working directory."""
    path = unicodedata.normalize("NFC", os.path.realpath(cwd))
    name = re.sub(r"[^a-zA-Z0-9]", "-", path)
    return projects / (name if len(name) <= _LONGEST else f"{name[:_LONGEST]}-{_hash(path)}")


def _hash(text: str) -> str:
    """Return the hash that Claude Code puts behind a name that is cut: 32 bits in base 36."""
    value = 0
    for letter in text:
        value = (value * 31 + ord(letter)) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >= 1 << 31 else value)
    digits = ""
    while value or not digits:
        value, digit = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


class ClaudeFile(SessionFile):
    """The sink of a log whose file has the layout of Claude Code. Blocks of an answer can be kept while it arrives."""

    def __init__(self, path: Path, log: Log, durability: Durability = "flush", tails: Tails | None = None) -> None:
        LinesFile.__init__(self, path, self._encode_all, durability)
        self.eager = False
        self._log = log
        #: Stays empty: Claude Code's layout has lines for notes.
        self._notes = NotesFile(path, log.header.id, list, durability)
        self._maker = LineMaker(log.header, tails or Tails())
        self._unwritten: list[bytes] = []
        #: The id of the answer that arrives, or of the last one, and how many of its blocks are kept.
        self.answer = ""
        self._kept = 0
        log.new_id = new_uuid

    @classmethod
    def create(cls, path: Path, log: Log, *, durability: Durability = "flush") -> ClaudeFile:
        file = cls(path, log, durability)
        file.pending = file._encode_all()
        if any(begins(entry) for entry in log.entries_with_notes()):
            file.begin()
        log.sink = file
        return file

    @classmethod
    def open(cls, path: Path, *, durability: Durability = "flush") -> tuple[ClaudeFile, Log, list[str]]:
        handle: int | None = None
        try:
            handle, data = open_to_append(path)
            contents, problems = parse(path, data)
            file = cls(path, contents.log, durability, contents.tails)
            file.continue_after(data, handle)
            complete = data.rfind(b"\n") + 1
            if complete < len(data):
                if _decode(data[complete:]) is None:
                    problems.append(f"The last line of {path} was incomplete and was cut off ({len(data) - complete} bytes).")
                    file.cut_torn_line(complete)
                else:
                    file.end_last_line()
        except OSError as error:
            close(handle)
            raise cannot("open", path, error) from error
        except BaseException:
            close(handle)
            raise
        file.begun = True
        contents.log.sink = file
        return file, contents.log, problems

    def write(self, entry: Entry, line: bytes) -> None:
        """Append the pending lines and those of an entry. Raises SessionError if it cannot; the file is then unchanged."""
        kept = 0
        if role_of(entry) == "assistant":
            kept, self._kept, self.answer = (self._kept if entry.id == self.answer else 0), 0, entry.id
        lines = self._maker.encode(entry, kept=kept)
        if not (self.begun or self.eager or begins(entry)):
            self.pending += lines
            return
        self._unwritten = lines
        self._write_out(lines)
        self._unwritten = []
        self.begun = True

    def hold(self, line: bytes) -> None:
        """Remember the lines of the entry that could not be written, and write them before the next ones."""
        self.pending += self._unwritten
        self._unwritten = []
        self.begun = True

    def keep_block(self, message: AssistantMessage, index: int, block: AssistantBlock) -> str:
        """Write a block of an answer that is still arriving. Returns the uuid of its line. Raises SessionError."""
        log = self._log
        if not index or not self.answer:
            self.answer = log.reserved_ids.setdefault("assistant", new_uuid())
            self._kept = 0
        if index == self._kept:
            parent = self._maker.tails.at(log.leaf)
            line = self._maker.block(self.answer, index, block, message, iso(message.timestamp), parent)
            self._write_out([line])
            self._kept = index + 1
        return block_id(self.answer, index)

    def _encode_all(self) -> list[bytes]:
        maker = LineMaker(self._log.header, Tails())
        return [line for entry in self._log.entries_with_notes() for line in maker.encode(entry)]


def _decode(line: bytes) -> dict[str, object] | None:
    try:
        value = lenient.decode(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


def parse(path: Path, data: bytes) -> tuple[ReadLines, list[str]]:
    """Read a file. Returns its contents, and a sentence for each line that cannot be read. Raises SessionError."""
    reader, problems = LineReader(path.stem), list[str]()
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        value = _decode(line) if line.strip() else {}
        if value is None:
            if number < len(lines):
                problems.append(f"Line {number} of {path} cannot be read and was skipped.")
        else:
            reader.read(value)
    contents = reader.finish()
    if data.strip() and not len(contents.log):
        raise SessionError(f"{path} is not a session file of Claude Code: it has no messages.")
    return contents, problems


class ClaudeArchive(FileArchive, kw_only=True):
    """Keeps the sessions of a working directory in its folder below `projects`."""

    projects: Path
    cwd: Path

    def find_file(self, name: str) -> Path | None:
        """Return the file of the session with an id or a title; None if there is none."""
        folder = project_folder(self.projects, self.cwd)
        if re.fullmatch(_UUID, name):
            found = [folder / f"{name}.jsonl", *self.projects.glob(f"*/{name}.jsonl")]
            return next((path for path in found if path.is_file()), None)
        marks = f'"customTitle":"{name}"'.encode()
        for path in self._newest_first(folder):
            if marks in path.read_bytes():
                return path
        return None

    def find_latest(self) -> Path | None:
        """Return the session of the working directory that changed last; None if there is none."""
        return next(iter(self._newest_first(project_folder(self.projects, self.cwd))), None)

    def _newest_first(self, folder: Path) -> list[Path]:
        files = [path for path in folder.glob("*.jsonl") if re.fullmatch(_UUID, path.stem)]
        return sorted(files, key=lambda path: path.stat().st_mtime_ns, reverse=True)

    # As an archive

    @property
    def keeps(self) -> bool:
        return not self.copies

    def place(self, cwd: Path) -> Path | None:
        return None if self.copies else project_folder(self.projects, cwd)

    def path_of_new(self, folder: Path | None, session_id: str, now_ms: int) -> Path | None:
        return None if folder is None else folder / f"{session_id}.jsonl"

    def sink(self, log: Log, path: Path | None) -> SessionFile | None:
        return None if path is None else ClaudeFile.create(path, log, durability=self.durability)

    def open(self, sessions: ConversationStore, name: str) -> Conversation:
        file, log, problems = ClaudeFile.open(Path(name), durability=self.durability)
        conversation = Conversation.of(log, file)
        conversation.problems = problems
        return conversation

    def copy(self, sessions: ConversationStore, name: str, *, finds: bool = False) -> Conversation:
        path = Path(name)
        try:
            refuse_endless(path, whole=True)
            contents, problems = parse(path, path.read_bytes())
        except OSError as error:
            raise cannot("read", path, error) from error
        conversation = sessions.fork_log(contents.log, str(path), self.place(sessions.workspace.cwd))
        conversation.problems = problems
        return conversation


def entry_of_line(log: Log, uuid: str) -> str | None:
    """Return the entry that has a line with this uuid; None if there is none."""
    if uuid in log:
        return uuid
    for entry in log.back():
        if isinstance(entry, MessageEntry) and role_of(entry) == "assistant":
            counts = [len(message.content) for message in log.read(entry) if isinstance(message, AssistantMessage)]
            if any(block_id(entry.id, index) == uuid for count in counts for index in range(1, count)):
                return entry.id
    return None
