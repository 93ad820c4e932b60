"""Writes a recording, on its own thread, so that neither the disk nor the search for secrets delays the agent."""

from __future__ import annotations

import os
import threading
import time
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from fairlead import __version__
from fairlead.core.secrets import learn_headers, learn_url, redacted
from fairlead.errors import ConfigError
from fairlead.models.http.exchange import HttpRequest, RequestAborted
from fairlead.replay.cleaning import ChunkJoiner, Cleaner, clean_headers, clean_url, is_json
from fairlead.replay.recording import (
    VERSION,
    BodyPiece,
    ExchangeEnd,
    Header,
    HostLine,
    InputEnd,
    ProcessExit,
    ProviderRequest,
    ProviderResponse,
    SentFrame,
)

#: The recording ends if more bytes than this wait to be written.
MOST_WAITING = 256 << 20
#: Seconds to write the rest when the process ends. Most have written everything by then.
CLOSE_PATIENCE = 4.0


class Recorder:
    """Implements `fairlead.wire.host_connection.FrameTap`. `request_sent` is an `HttpTap`."""

    def __init__(self, descriptor: int, path: Path, header: Header, warn: Callable[[str], None]) -> None:
        self.path = path
        self._descriptor = descriptor
        self._warn = warn
        self._started = time.monotonic()
        self._cleaner = Cleaner()
        self._frames = ChunkJoiner()
        #: What to write: functions that return the entry, and roughly the bytes each keeps in memory.
        self._work: deque[tuple[Callable[[], Any], int]] = deque()
        self._waiting = 0
        self._wake = threading.Condition()
        self._closing = False
        self._is_over = False
        #: Why the recording ended early.
        self._problem: str | None = None
        self._exchanges = 0
        #: The length of the file up to its last whole line.
        self._length = 0
        self._write(msgspec.json.encode(header) + b"\n")
        self._thread = threading.Thread(target=self._run, name="fairlead-recorder", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls, path: Path, *, dialect: str, release: str | None, overwrite: bool, warn: Callable[[str], None]) -> Recorder:
        """Start a recording.

        Args:
            path: the file to create, or an existing folder in which to create one.
            dialect: the dialect that the process speaks.
            release: the release of the program that fairlead stands in for, if any.
            overwrite: whether to replace an existing file.
            warn: called, from another thread, if the recording ends because it cannot be written.

        Raises:
            ConfigError: the file exists already, or it cannot be written.
        """
        date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        header = Header(version=VERSION, dialect=dialect, release=release, fairlead=__version__, date=date)
        if os.path.isdir(path):
            path = path / f"{dialect}-{date.replace(':', '')}-{os.getpid()}.jsonl"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_NONBLOCK if overwrite else os.O_EXCL)
            descriptor = os.open(path, flags, 0o600)
            if overwrite:
                os.fchmod(descriptor, 0o600)
                os.ftruncate(descriptor, 0)
            return cls(descriptor, path, header, warn)
        except FileExistsError:
            raise ConfigError(f"--record: {path} exists. Give another name, or --record-overwrite to replace it.") from None
        except OSError as error:
            raise ConfigError(f"--record: cannot write {path}: {error.strerror}.") from error

    # On the event loop

    def line_received(self, line: bytes | None) -> None:
        ms = self._ms()
        self._add(lambda: self._host_line(ms, line), 0 if line is None else len(line))

    def frame_sent(self, frame: bytes) -> None:
        ms = self._ms()
        self._add(lambda: self._frame(ms, frame), len(frame))

    def input_ended(self) -> None:
        ms = self._ms()
        self._add(lambda: InputEnd(ms), 0)

    def request_sent(self, request: HttpRequest) -> RecordedExchange:
        """Record a request to a provider. Returns the object that records the response."""
        # The secrets of this request must be known before any entry is written.
        learn_headers(request.headers)
        learn_url(request.url)
        self._exchanges += 1
        return RecordedExchange(self, self._exchanges, request, self._cleaner.body)

    def add(self, make: Callable[[float], Any], size: int = 0) -> None:
        """Write the entry that `make` returns for the current time. It is called on the thread of the recorder."""
        ms = self._ms()
        self._add(lambda: make(ms), size)

    def _ms(self) -> float:
        return round((time.monotonic() - self._started) * 1000, 3)

    def _add(self, make: Callable[[], Any], size: int) -> None:
        with self._wake:
            if self._is_over or self._closing:
                return
            if self._waiting > MOST_WAITING:
                self._give_up(f"more than {MOST_WAITING >> 20} MiB wait to be written")
                return
            self._work.append((make, size))
            self._waiting += size
            self._wake.notify()

    def close(self, code: int) -> None:
        """Record the exit code, and wait briefly until everything is written."""
        ms = self._ms()
        self._add(lambda: ProcessExit(ms, code), 0)
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join(CLOSE_PATIENCE)

    # On the thread of the recorder

    def _run(self) -> None:
        while (make := self._next()) is not None:
            try:
                entry = make()
                if entry is not None:
                    self._write(self._cleaner.encode(entry))
            except OSError as error:
                with self._wake:
                    self._give_up(error.strerror or str(error))
            except Exception as error:  # a bug in the recorder must not end the recording
                self._warn(f"An entry is missing in the recording {self.path}: {error!r}")
        os.close(self._descriptor)
        if self._problem is not None:
            self._warn(f"The recording {self.path} ends here: {self._problem}. The agent continues.")

    def _next(self) -> Callable[[], Any] | None:
        """Wait for the next entry to write. Returns None at the end of the recording."""
        with self._wake:
            while not self._work and not self._closing and not self._is_over:
                self._wake.wait()
            if not self._work:
                self._is_over = True
                return None
            make, size = self._work.popleft()
            self._waiting -= size
            return make

    def _write(self, line: bytes) -> None:
        """Append a line. Raises OSError, and leaves only whole lines in the file, if it cannot be written."""
        view = memoryview(line)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            os.ftruncate(self._descriptor, self._length)
            raise
        self._length += len(line)

    def _give_up(self, why: str) -> None:
        """End the recording early. The thread of the recorder reports it, since that may block."""
        self._is_over = True
        self._problem = why
        self._work.clear()
        self._wake.notify()

    def _host_line(self, ms: float, line: bytes | None) -> HostLine | None:
        if line is None:
            return HostLine(ms, text=None)
        if not line.strip():
            return None
        return self._cleaner.host_line(ms, line)

    def _frame(self, ms: float, frame: bytes) -> SentFrame | None:
        whole = self._frames.add(frame)
        return None if whole is None else SentFrame(ms, self._cleaner.frame(whole))


class RecordedExchange:
    """Implements `fairlead.models.http.exchange.ExchangeTap`."""

    def __init__(self, recorder: Recorder, number: int, request: HttpRequest, clean: Callable[[int, str], str]) -> None:
        self._recorder = recorder
        self._clean = clean
        self._number = number
        #: The beginning of a line of the body whose end has not arrived yet.
        self._unended: list[bytes] = []
        recorder.add(lambda ms: self._request(ms, request), len(request.body))

    def head_received(self, status: int, headers: Mapping[str, str]) -> None:
        kept = dict(headers)
        self._recorder.add(
            lambda ms: ProviderResponse(ms=ms, exchange=self._number, status=status, headers=clean_headers(kept.items()))
        )

    def body_received(self, data: bytes) -> None:
        self._recorder.add(lambda ms: self._piece(ms, data), len(data))

    def exchange_ended(self, error: BaseException | None) -> None:
        self._recorder.add(lambda ms: self._rest(ms))
        aborted = isinstance(error, RequestAborted | GeneratorExit) or type(error).__name__ == "CancelledError"
        text = msgspec.UNSET if error is None or aborted else str(error)
        self._recorder.add(lambda ms: ExchangeEnd(ms=ms, exchange=self._number, error=text, aborted=aborted))

    def _request(self, ms: float, request: HttpRequest) -> ProviderRequest:
        body = request.body if is_json(request.body) else msgspec.json.encode(request.body.decode("utf-8", "replace"))
        return ProviderRequest(
            ms=ms,
            exchange=self._number,
            method=request.method,
            url=clean_url(request.url),
            headers=clean_headers(request.headers),
            body=msgspec.Raw(body),
        )

    def _piece(self, ms: float, data: bytes) -> BodyPiece | None:
        """Return the lines that are complete now. A secret or a character that two reads split is whole in its line."""
        whole, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._unended.append(data)
            return None
        text = b"".join((*self._unended, whole, newline))
        self._unended = [rest]
        return self._body(ms, text)

    def _rest(self, ms: float) -> BodyPiece | None:
        rest = b"".join(self._unended)
        self._unended.clear()
        return self._body(ms, rest) if rest else None

    def _body(self, ms: float, data: bytes) -> BodyPiece:
        try:
            return BodyPiece(ms=ms, exchange=self._number, text=self._clean(self._number, data.decode()))
        except UnicodeDecodeError:
            clean = redacted(data.decode("latin1")).encode("latin1")
            return BodyPiece(ms=ms, exchange=self._number, base64=b64encode(clean).decode())
