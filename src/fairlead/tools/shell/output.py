"""Keeps the output of a command while it arrives: the end in memory, and all of it in a log once it is long."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fairlead.tools.truncate import MAX_BYTES, MAX_LINES, Truncation, format_size, tail

#: A log keeps this much of the beginning of an output, and this much of its end.
LOG_START, LOG_END = 28 * 1024 * 1024, 4 * 1024 * 1024
#: How much of the end gives way to the mark, so that a log does not grow when it is put in order: the disk may be full.
_MARK_ROOM = 160
#: The tail is cut back when it grows past twice this; characters, so never fewer bytes than a result may show.
_TAIL = 2 * MAX_BYTES


class Mark(NamedTuple):
    """A place in the output: how much came before it."""

    characters: int = 0
    bytes: int = 0
    newlines: int = 0


class CommandOutput:
    """Takes bytes, gives text. Memory stays flat however much comes.

    The log is made when the output no longer fits into a result, so a log exists exactly when a
    result has to name one. A log that cannot be written never disturbs the command.
    """

    def __init__(self, log_dir: Callable[[], Path], keep_log: Callable[[Path], None], *, clean: bool = False) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._cleaner = Cleaner() if clean else None
        self._log = _Log(log_dir, keep_log)
        self._parts: list[str] = []
        self._part_chars = 0
        self._total_characters = 0
        self._total_bytes = 0
        self._newlines = 0
        self._last_line_bytes = 0
        self._at_line_start = True

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """Take what the command wrote; returns it as text."""
        text = self._decode(data, final)
        if self._cleaner is not None:
            text = self._cleaner.feed(text, final=final)
        encoded = text.encode()
        self._log.add(data if self._cleaner is None else encoded)
        if text:
            self._count(encoded)
            self._parts.append(text)
            self._part_chars += len(text)
            self._total_characters += len(text)
            if self._part_chars > 2 * _TAIL:
                self._parts = ["".join(self._parts)[-_TAIL:]]
                self._part_chars = _TAIL
        if self._total_bytes > MAX_BYTES or self._total_lines() > MAX_LINES:
            self._log.spill()
        return text

    def finish(self) -> str:
        """No more will come. Returns what an unfinished character or escape sequence had held back."""
        text = self.feed(b"", final=True)
        self._log.close()
        return text

    def snapshot(self) -> Truncation:
        """Return the end of the output so far."""
        end = "".join(self._parts)
        self._parts = [end]
        return tail(end, self._total_lines(), self._total_bytes)

    def whole(self, most: int) -> tuple[str, bool]:
        """Return the output, at most its last `most` bytes, and whether that leaves something out."""
        if self.log_path is not None:
            with contextlib.suppress(OSError), Path(self.log_path).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - most))
                return log.read().decode("utf-8", "replace"), self._total_bytes > most
        end = "".join(self._parts)
        return end, len(end) < self._total_characters

    @property
    def mark(self) -> Mark:
        """The end of the output so far."""
        return Mark(self._total_characters, self._total_bytes, self._newlines)

    def since(self, mark: Mark) -> Truncation:
        """The end of what came after `mark`. If it is cut, lines and bytes are counted from the beginning, as in the log."""
        end = "".join(self._parts)
        self._parts = [end]
        new = self._total_characters - mark.characters
        shown = tail(end[-new:] if new else "", self._total_lines() - mark.newlines, self._total_bytes - mark.bytes)
        if shown.truncated:
            shown.total_lines, shown.total_bytes = self._total_lines(), self._total_bytes
        return shown

    @property
    def log_path(self) -> str | None:
        """The log, if there is one and it has all of the output; one that has not is named by `notice` alone, which says so."""
        return None if self._log.path is None or self.log_incomplete else str(self._log.path)

    @property
    def log_incomplete(self) -> bool:
        """There should be a log, but part of the output or all of it could not be saved."""
        return self._log.problem is not None

    def notice(self, shown: Truncation) -> str:
        """Return what a model is told about the part it does not see."""
        if shown.last_line_partial:
            size = format_size(self._last_line_bytes)
            what = f"Showing last {format_size(shown.output_bytes)} of line {shown.total_lines} (line is {size})"
        else:
            first = shown.total_lines - shown.output_lines + 1
            limit = f" ({format_size(shown.max_bytes)} limit)" if shown.truncated_by == "bytes" else ""
            what = f"Showing lines {first}-{shown.total_lines} of {shown.total_lines}{limit}"
        return f"[{what}. {self._log.account()}]"

    def _total_lines(self) -> int:
        return self._newlines + (0 if self._at_line_start else 1)

    def _count(self, encoded: bytes) -> None:
        self._total_bytes += len(encoded)
        self._newlines += encoded.count(b"\n")
        body = encoded.removesuffix(b"\n")
        line_start = body.rfind(b"\n") + 1
        continues = line_start == 0 and not self._at_line_start
        self._last_line_bytes = len(body) - line_start + (self._last_line_bytes if continues else 0)
        self._at_line_start = encoded.endswith(b"\n")


class _Log:
    """The file with all of an output, or the beginning and the end of a huge one.

    What comes after the beginning goes around in a ring, which `close` puts in order.
    """

    def __init__(self, log_dir: Callable[[], Path], keep_log: Callable[[Path], None]) -> None:
        self.path: Path | None = None
        self._log_dir = log_dir
        self._keep_log = keep_log
        self._pending: list[bytes] = []
        self._spilled = False
        self._file: int | None = None
        #: How much was written, the part that is no longer there included.
        self._total = 0
        #: Why it could not be made, or ends too early.
        self.problem: str | None = None

    def add(self, data: bytes) -> None:
        if not self._spilled:
            self._pending.append(data)
        elif self._file is not None:
            self._write(data)

    def spill(self) -> None:
        """Open the log and move what was kept in memory into it."""
        if self._spilled:
            return
        self._spilled = True
        pending, self._pending = b"".join(self._pending), []
        try:
            path = self._log_dir() / f"bash-{os.urandom(8).hex()}.log"
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            self.problem = os.strerror(error.errno or 0)
            return
        self.path = path
        self._keep_log(path)
        self._write(pending)

    def close(self) -> None:
        if self._file is None:
            return
        try:
            if self._total > LOG_START + LOG_END and self.problem is None:
                self._put_in_order(self._file)
            if not os.fstat(self._file).st_nlink and self.problem is None:
                self.problem = "it was deleted, because the session has too many logs"
        except OSError as error:
            self.problem = os.strerror(error.errno or 0)
        finally:
            os.close(self._file)
            self._file = None

    def account(self) -> str:
        if self.path is None:
            return f"The full output could not be saved: {self.problem}"
        if self.problem is not None:
            return f"Full output: {self.path} (incomplete: {self.problem})"
        if self._total > LOG_START + LOG_END:
            kept = f"{format_size(LOG_START)} and the last {format_size(LOG_END)}"
            return f"Full output: {self.path} (only the first {kept} of {format_size(self._total)})"
        return f"Full output: {self.path}"

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        view = memoryview(data)
        try:
            while view:  # a write near a size limit is short first, and fails when repeated
                place, room = self._total, LOG_START - self._total
                if room <= 0:
                    turn = (self._total - LOG_START) % LOG_END
                    place, room = LOG_START + turn, LOG_END - turn
                written = os.pwrite(self._file, view[:room], place)
                self._total += written
                view = view[written:]
        except OSError as error:
            self.problem = os.strerror(error.errno or 0)
            self.close()

    def _put_in_order(self, file: int) -> None:
        """Move the oldest part of the ring to its front, after a mark that says what is missing. Raises OSError."""
        turn = (self._total - LOG_START) % LOG_END
        end = bytearray(os.pread(file, LOG_END - turn, LOG_START + turn))
        end += os.pread(file, turn, LOG_START)
        missing = self._total - LOG_START - len(end) + _MARK_ROOM
        mark = f"\n\n[... {missing} bytes are missing here: a log keeps the beginning and the end of an output ...]\n\n"
        end[:_MARK_ROOM] = mark.encode()
        size = LOG_START + len(end)
        ordered = memoryview(end)
        while ordered:
            ordered = ordered[os.pwrite(file, ordered, size - len(ordered)) :]
        os.ftruncate(file, size)


class Cleaner:
    """Strips terminal control from text that arrives in pieces: escape sequences, carriage returns, control characters."""

    #: CSI, OSC and the other strings up to their terminator, and two-character escapes.
    _SEQUENCE = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|(?![\[\]PX^_])[ -/]*[0-~])"
    _CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufff9-\ufffb]"
    #: A sequence longer than this is not waited for.
    _LONGEST = 4096

    def __init__(self) -> None:
        self._strip = re.compile(f"{self._SEQUENCE}|{self._CONTROL}").sub
        self._complete = re.compile(self._SEQUENCE).match
        self._held = ""

    def feed(self, text: str, *, final: bool = False) -> str:
        text = self._held + text
        self._held = ""
        if not final:
            start = self._find_unfinished(text)
            text, self._held = text[:start], text[start:]
        return self._strip("", text)

    def _find_unfinished(self, text: str) -> int:
        """Return where a sequence starts that the end of `text` cuts off; the length of `text` if none does."""
        position = text.rfind("\x1b")
        if position > 0 and text[position:] in ("\x1b", "\x1b\\"):
            # It may be, or begin, the terminator of a string that started earlier.
            earlier = text.rfind("\x1b", 0, position)
            if earlier >= 0 and text[earlier + 1 : earlier + 2] in tuple("]PX^_"):
                position = earlier
        if position < 0 or len(text) - position > self._LONGEST or self._complete(text, position):
            return len(text)
        return position
