"""Sessions in the layout of Claude Code, which its SDKs list, read, rename, fork and delete without the agent."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from fairlead.core import lenient
from fairlead.core.messages import AssistantBlock, AssistantMessage, UserMessage, user_text
from fairlead.errors import SessionError
from fairlead.session.history.claude_lines import LineMaker, LineReader, ReadLines, Tails, block_id
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.entries import Entry, MessageEntry, role_of
from fairlead.session.history.file_archive import FileArchive
from fairlead.session.history.log import Log
from fairlead.session.history.store import SessionFile, begins
from fairlead.stores.headers import refuse_endless
from fairlead.stores.notes_files import NotesFile
from fairlead.stores.paths import Durability, iso, transcripts_folder
from fairlead.stores.session_files import LinesFile, cannot, close, open_to_append

if TYPE_CHECKING:
    from fairlead.session.history.archive import Archive
    from fairlead.session.history.current import ConversationStore

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


#: Called with the lines that were written to a file.
Mirror: TypeAlias = Callable[[Path, list[bytes]], None]


class ClaudeFile(SessionFile):
    """The sink of a log whose file has the layout of Claude Code. Blocks of an answer can be kept while it arrives."""

    def __init__(
        self,
        path: Path,
        log: Log,
        durability: Durability = "flush",
        tails: Tails | None = None,
        mirror: Mirror | None = None,
        owner: str | None = None,
    ) -> None:
        LinesFile.__init__(self, path, self._encode_all, durability)
        self.eager = False
        self._log = log
        #: Stays empty: Claude Code's layout has lines for notes.
        self._notes = NotesFile(path, log.header.id, list, durability)
        #: What the lines of a sub-agent have besides those of other sessions.
        self._sidechain = {} if owner is None else {"sessionId": owner, "isSidechain": True, "agentId": agent_id(path)}
        self._maker = LineMaker(log.header, tails or Tails(), self._sidechain)
        self._mirror = mirror
        self._unwritten: list[bytes] = []
        #: The id of the answer that arrives, or of the last one, and how many of its blocks are kept.
        self.answer = ""
        self._kept = 0
        log.new_id = new_uuid

    @classmethod
    def create(
        cls,
        path: Path,
        log: Log,
        *,
        durability: Durability = "flush",
        mirror: Mirror | None = None,
        owner: str | None = None,
    ) -> ClaudeFile:
        """Store a new conversation in a new file. That of a sub-agent belongs to the session with the id `owner`."""
        file = cls(path, log, durability, mirror=mirror, owner=owner)
        file.pending = file._encode_all()
        if any(begins(entry) for entry in log.entries_with_notes()):
            file.begin()
        log.sink = file
        return file

    @classmethod
    def open(
        cls, path: Path, *, durability: Durability = "flush", mirror: Mirror | None = None
    ) -> tuple[ClaudeFile, Log, list[str]]:
        handle: int | None = None
        try:
            handle, data = open_to_append(path)
            contents, problems = parse(path, data)
            file = cls(path, contents.log, durability, contents.tails, mirror)
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

    def _write_out(self, new: list[bytes]) -> None:
        lines = [*self.pending, *new]
        super()._write_out(new)
        if self._mirror is not None and lines:
            self._mirror(self.path, lines)

    def place_of_subagent(self, name: str) -> Path:
        """Return the file for the conversation of a sub-agent."""
        return transcripts_folder(self.path) / "subagents" / f"agent-{name}.jsonl"

    def _encode_all(self) -> list[bytes]:
        maker = LineMaker(self._log.header, Tails(), self._sidechain)
        return [line for entry in self._log.entries_with_notes() for line in maker.encode(entry)]


def agent_id(path: Path) -> str:
    """Return the id of the sub-agent whose conversation is in a file."""
    return path.stem.removeprefix("agent-")


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
    mirror: Mirror | None = None
    #: The id of the session whose sub-agents are kept; None: other sessions.
    owner: str | None = None

    def find_file(self, name: str) -> Path | None:
        """Return the file of the session with an id or a title; None if there is none."""
        folder = project_folder(self.projects, self.cwd)
        if re.fullmatch(_UUID, name):
            found = [folder / f"{name}.jsonl", *self.projects.glob(f"*/{name}.jsonl")]
            return next((path for path in found if path.is_file()), None)
        marks = f'"customTitle":"{name}"'.encode()
        return next((path for path in self._newest_first(folder) if _has(path, marks)), None)

    def find_latest(self) -> Path | None:
        """Return the session of the working directory that changed last; None if there is none."""
        return next(iter(self._newest_first(project_folder(self.projects, self.cwd))), None)

    def _newest_first(self, folder: Path) -> list[Path]:
        found: list[tuple[int, Path]] = []
        for path in folder.glob("*.jsonl"):
            with suppress(OSError, SessionError):  # it may be gone by now
                if re.fullmatch(_UUID, path.stem) and path.is_file():
                    refuse_endless(path, whole=True)
                    found.append((path.stat().st_mtime_ns, path))
        return [path for _, path in sorted(found, reverse=True)]

    # As an archive

    @property
    def keeps(self) -> bool:
        return not self.copies

    def place(self, cwd: Path) -> Path | None:
        return None if self.copies else project_folder(self.projects, cwd)

    def path_of_new(self, folder: Path | None, session_id: str, now_ms: int) -> Path | None:
        return None if folder is None else folder / f"{session_id}.jsonl"

    def sink(self, log: Log, path: Path | None) -> SessionFile | None:
        if path is None:
            return None
        return ClaudeFile.create(path, log, durability=self.durability, mirror=self.mirror, owner=self.owner)

    def for_subagents(self, parent: Conversation) -> tuple[Archive, str | None, str | None]:
        return replace(self, owner=self.owner or parent.id), self.name_of(parent), None

    def open(self, sessions: ConversationStore, name: str) -> Conversation:
        file, log, problems = ClaudeFile.open(Path(name), durability=self.durability, mirror=self.mirror)
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


def _has(path: Path, text: bytes) -> bool:
    """Return whether a line of a file has a text."""
    try:
        with path.open("rb") as file:
            return any(text in line for line in file)
    except OSError:
        return False


class Resume(Struct, frozen=True, kw_only=True):
    """Which session to begin with, as a host names it."""

    #: An id or a title; "" for the latest session; None for a new session.
    name: str | None = None
    #: The id of a new session.
    new_id: str | None = None
    #: Whether to continue in a copy.
    is_copy: bool = False
    #: The line after which the rest is left out.
    at: str | None = None
    #: The prompt that begins the only turn after that line. Any other is not left out.
    drops: str | None = None

    def find(self, archive: ClaudeArchive) -> Path | None:
        """Return the file; None for a new session. Raises SessionError if there is no such session."""
        if not self.name:
            return None if self.name is None else archive.find_latest()
        path = archive.find_file(self.name)
        if path is None:
            raise SessionError(f"No conversation found with session ID: {self.name}")
        return path

    def check(self, archive: ClaudeArchive) -> None:
        """Raise SessionError if the session cannot be resumed, before it is opened."""
        path = self.find(archive)
        if path is not None and self.at is not None:
            refuse_endless(path, whole=True)
            self._find_entry(parse(path, path.read_bytes())[0].log)

    def open(self, sessions: ConversationStore) -> Conversation:
        """Return the conversation. Raises SessionError."""
        archive = sessions.archive
        assert isinstance(archive, ClaudeArchive)
        path = self.find(archive)
        if path is None:
            return sessions.new(id=self.new_id)
        conversation = sessions.copy(str(path)) if self.is_copy else sessions.open(str(path))
        if self.at is not None:
            conversation.move(self._find_entry(conversation.log))
        return conversation

    def _find_entry(self, log: Log) -> str:
        entry = entry_of_line(log, self.at or "")
        if entry is None:
            raise SessionError(f"No message found with message.uuid of: {self.at}")
        if self.drops is not None:
            self._check_dropped(log, entry)
        return entry

    def _check_dropped(self, log: Log, last: str) -> None:
        """Raise SessionError if more than the one turn would be left out."""
        path = log.path()
        kept = next((number for number, entry in enumerate(path) if entry.id == last), None)
        after = [] if kept is None else path[kept + 1 :]
        users = [entry for entry in after if role_of(entry) == "user"]
        wrong = [entry.id for entry in users if entry.id != self.drops and not _is_of_turn(log, entry)]
        if kept is None or wrong or (users and users[0].id != self.drops):
            found = (
                f"the prompt {wrong[0]} would be lost too" if wrong else f"the turn after {self.at} is not that of {self.drops}"
            )
            raise SessionError(f"Resume rejected by --resume-drops-turn: {found}")


def _is_of_turn(log: Log, entry: Entry) -> bool:
    """Whether a message in the name of the user says that the turn was interrupted."""
    texts = [user_text(message) for message in log.read(entry) if isinstance(message, UserMessage)]
    return all(text.startswith("[Request interrupted by user") for text in texts)


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
