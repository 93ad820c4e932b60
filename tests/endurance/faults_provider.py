"""A provider on loopback that plays one script, stops at a chosen stage of it, and misbehaves there in a chosen way.

The script of each agent, by its requests:

    1st prompt    a long text, so that there is something to compact
    2nd prompt    thinking, text and a call of bash; then a call of task, whose sub-agent gets a text; then a text
    compact       a summary
    later         a text
"""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from fairlead.testing.formats import anthropic_error, anthropic_events

#: The stages of a run, in order. A provider is concerned by all but those in which it is not asked anything.
STAGES = (
    "before", "request", "first piece", "thinking", "text", "arguments", "end", "tool", "between", "subagent", "retry",
    "compaction",
)  # fmt: skip
#: Stages at which a request has arrived, and nothing of its answer was sent.
STARTS = ("request", "between", "subagent", "retry", "compaction")
#: Stages in the middle of an answer.
STREAMS = ("first piece", "thinking", "text", "arguments", "subagent", "end", "compaction")
#: Stages in which the connection is idle.
IDLE = ("before", "tool")

FINAL = "All of it is done."
FINE = "Fine."
SUMMARY = "What happened so far. " * 8
ASSIGNMENT = "look around"
WORDS = "so it goes, " * 12

#: Seconds that a stage waits for the test. Longer than the test waits for anything.
_PATIENCE = 60.0
#: Seconds during which connections are refused: longer than the first retry waits.
_REFUSED = 0.25
#: What stands between the stage and the bytes after which it is reached.
_DELTAS = {"first piece": ("thinking_delta", 1), "thinking": ("thinking_delta", 4), "text": ("text_delta", 4)}


class Wire:
    """One connection of a client, for faults."""

    def __init__(self, connection: socket.socket, provider: FaultyProvider) -> None:
        self.connection = connection
        self.provider = provider
        self.has_begun = False

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def head(self, status: int = 200, **headers: str) -> None:
        lines = {"content-type": "text/event-stream", "transfer-encoding": "chunked"} | headers
        named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
        self.send(f"HTTP/1.1 {status} X\r\n{named}\r\n".encode())
        self.has_begun = True

    def chunk(self, data: bytes) -> None:
        if not self.has_begun:
            self.head()
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def whole(self, status: int, body: bytes, **headers: str) -> None:
        lines = {"content-type": "application/json", "content-length": str(len(body))} | headers
        named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
        self.send(f"HTTP/1.1 {status} X\r\n{named}\r\n".encode() + body)

    def events(self, turn: Mapping[str, Any]) -> None:
        """Send a whole answer."""
        for event in anthropic_events(turn, {}):
            self.chunk(encoded(event.name, event.data))
        self.send(b"0\r\n\r\n")

    def reset(self) -> None:
        """Close the connection in the hard way."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


#: Does something wrong with a connection, which is closed after that if the result is False.
Misbehave = Callable[[Wire], object]


@dataclass(frozen=True)
class ProviderFault:
    """Something that a provider does wrong.

    Attributes:
        name: What the table calls it.
        do: What it does.
        stages: Where it can happen.
        error: What the error of the run says. None: the run recovers, by another attempt or because nothing is wrong.
    """

    name: str
    do: Misbehave
    stages: tuple[str, ...]
    error: str | None = None
    #: What the run says in the end. After 413 the history is compacted, and the script does not know where it is.
    final: str = f"{FINAL}|{FINE}"
    #: A compaction that was asked for is not repeated by itself.
    fails_compaction: bool = True
    #: Whether the agent waits with its next request, as the provider wished.
    blocks_next: bool = False


def _status(code: int, text: str = "scripted", **headers: str) -> Misbehave:
    return lambda wire: wire.whole(code, json.dumps(anthropic_error(code, text)).encode(), **headers)


def _refuse(wire: Wire) -> None:
    wire.reset()
    wire.provider.refuse()


def _hang(wire: Wire) -> None:
    if not wire.has_begun:
        wire.head()
    with suppress(OSError):
        while wire.connection.recv(1 << 16):
            pass


def _truncated_gzip(wire: Wire) -> None:
    events = b"".join(encoded(event.name, event.data) for event in anthropic_events({"text": WORDS}, {}))
    wire.head(content_encoding="gzip")
    wire.chunk(gzip.compress(events)[:-40])
    wire.send(b"0\r\n\r\n")


def _bad_arguments(wire: Wire) -> bool:
    wire.events({"toolCalls": [{"name": "bash", "arguments": '{"command": "echo never'}]})
    return True


def _html(wire: Wire) -> bool:
    body = b"<html><body>Welcome to the proxy</body></html>"
    wire.whole(200, body, content_type="text/html")
    return True


#: An answer without content is an end like any other; so is a refusal.
def _answer(**turn: Any) -> Misbehave:
    def do(wire: Wire) -> bool:
        wire.events(turn)
        return True

    return do


_EVERYWHERE = (*STARTS, "first piece", "thinking", "text", "arguments", "end")
PROVIDER_FAULTS = (
    *(ProviderFault(str(code), _status(code), STARTS, "scripted") for code in (400, 401, 403, 404)),
    *(ProviderFault(str(code), _status(code), STARTS) for code in (408, 413, 429, 500, 502, 503, 529)),
    ProviderFault("429, retry-after", _status(429, retry_after="1"), STARTS),
    ProviderFault(
        "429, retry in a day",
        _status(429, retry_after="86400"),
        ("request", "between", "retry", "compaction"),
        "scripted",
        blocks_next=True,
    ),
    ProviderFault("refused", _refuse, (*_EVERYWHERE, *IDLE)),
    ProviderFault("reset", Wire.reset, (*_EVERYWHERE, *IDLE)),
    ProviderFault("dropped", lambda wire: None, (*_EVERYWHERE, *IDLE)),
    ProviderFault("hanging", _hang, _EVERYWHERE),
    ProviderFault("not JSON", lambda wire: wire.chunk(b"data: {not json\n\n"), _EVERYWHERE),
    ProviderFault("not UTF-8", lambda wire: wire.chunk(b'data: {"type": "\xff\xfe"}\n\n'), _EVERYWHERE),
    ProviderFault("not HTTP", lambda wire: wire.send(b"zz\r\nwhat is this\r\n"), STARTS, "did not answer in HTTP"),
    ProviderFault("broken chunks", lambda wire: wire.send(b"zz\r\nwhat is this\r\n"), STREAMS),
    ProviderFault("ended early", lambda wire: (wire.chunk(b": over\n\n"), wire.send(b"0\r\n\r\n")), _EVERYWHERE),
    ProviderFault("error event", lambda wire: wire.chunk(encoded("error", anthropic_error(529, "Overloaded"))), _EVERYWHERE),
    ProviderFault("empty answer", _answer(), STARTS, final=""),
    ProviderFault("refusal", _answer(text="I cannot help.", stopReason="refusal"), STARTS, "refus"),
    ProviderFault("arguments not JSON", _bad_arguments, ("request", "between")),
    ProviderFault("HTML", _html, STARTS),
    ProviderFault("truncated gzip", _truncated_gzip, STARTS, "compressed"),
)


def encoded(name: str | None, data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


class FaultyProvider:
    """The server. Use it with `with`.

    Args:
        stage: the stage at which something happens, once.
        fault: what the provider does wrong then. None: it waits there for `release`, and does nothing wrong.
        command: the shell command that the model runs.
    """

    def __init__(self, stage: str, fault: ProviderFault | None, command: str) -> None:
        self.stage = stage
        self.fault = fault
        self.requests = 0
        self.reached = threading.Event()
        self._command = command
        self._released = threading.Event()
        self._done = threading.Event()
        self._listening = self._listen(0)
        self.port: int = self._listening.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._has_refused = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._done.set()
        self._released.set()
        _close(self._listening)
        for connection in list(self._open):
            _close(connection)
        for thread in list(self._threads):
            thread.join(_PATIENCE)

    def release(self) -> None:
        """Let the answer continue after the stage."""
        self._released.set()

    def misbehave_when_idle(self) -> None:
        """Do the fault's deed to all connections, which are idle."""
        assert self.fault is not None
        for connection in list(self._open):
            with suppress(OSError):
                self.fault.do(Wire(connection, self))
                connection.shutdown(socket.SHUT_RD)  # wakes the thread that reads, which closes the connection
        self.reached.set()

    def refuse(self) -> None:
        """Refuse connections for a moment."""
        _close(self._listening)

        def listen_again() -> None:
            time.sleep(_REFUSED)
            if not self._done.is_set():
                self._listening = self._listen(self.port)
                self._accept()

        self._start(listen_again)

    def _listen(self, port: int) -> socket.socket:
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen()
        return listening

    def _start(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        listening = self._listening
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                self._open.add(connection)
                self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection.makefile("rb") as reader:
            while self._answer(Wire(connection, self), _read(reader)):
                pass
        self._open.discard(connection)
        connection.close()

    def _answer(self, wire: Wire, body: Any) -> bool:
        """Answer one request. Returns whether the connection stays open."""
        if body is None:
            return False
        if "messages" not in body:  # a question about the model's window
            wire.whole(404, b"{}")
            return True
        self.requests += 1
        turn, stage = self._turn(body)
        if self.stage == "retry" and stage == "request" and not self._has_refused:
            self._has_refused = True
            wire.whole(503, b"{}")
            return True
        is_here = self.stage in (stage, "retry" if stage == "request" else stage)
        if is_here and self._is_at_start and not self.reached.is_set():
            return self._reach(wire, turn)
        for event, place in self._places(turn, stage):
            wire.chunk(event)
            if place == self.stage and not self.reached.is_set() and not self._reach(wire, None):
                return False
        wire.send(b"0\r\n\r\n")
        return True

    @property
    def _is_at_start(self) -> bool:
        """Whether the stage is reached before the first byte of an answer."""
        return self.stage in STARTS and (self.fault is None or self.stage not in STREAMS or "text" not in self.fault.stages)

    def _reach(self, wire: Wire, turn: Mapping[str, Any] | None) -> bool:
        """Do what happens at the stage, before an answer or in the middle of one. Returns whether the connection stays open."""
        self.reached.set()
        if self.fault is not None:
            return self.fault.do(wire) is True
        self._released.wait(_PATIENCE)
        if turn is not None:
            wire.events(turn)
        return True

    def _turn(self, body: Any) -> tuple[Mapping[str, Any], str]:
        """Return the answer to a request, and the stage in which the request is."""
        text, results = _asked(body)
        if "transcript above" in text or "<conversation>" in text:
            return {"text": SUMMARY}, "compaction"
        if ASSIGNMENT in text:
            return {"text": WORDS}, "subagent"
        if text == "first":
            return {"text": WORDS * 10}, ""
        if text != "go":
            return {"text": FINE}, ""
        if results == 0:
            call = {"name": "bash", "arguments": {"command": self._command}}
            return {"thinking": WORDS, "text": WORDS, "toolCalls": [call]}, "request"
        if results == 1:
            task = {"id": "look", "description": "look", "assignment": ASSIGNMENT}
            return {"toolCalls": [{"name": "task", "arguments": {"agent": "task", "tasks": [task]}}]}, "between"
        return {"text": FINAL}, ""

    def _places(self, turn: Mapping[str, Any], stage: str) -> Iterator[tuple[bytes, str | None]]:
        """Yield the events of an answer, each with the stage that is reached after it."""
        seen: dict[str, int] = {}
        for event in anthropic_events(turn, {}):
            kind = event.data.get("delta", {}).get("type", event.data["type"])
            seen[kind] = seen.get(kind, 0) + 1
            place = None
            if stage == "request":
                place = next((name for name, delta in _DELTAS.items() if delta == (kind, seen[kind])), None)
                if (kind, seen[kind]) == ("input_json_delta", 2):
                    place = "arguments"
                elif kind == "content_block_stop" and seen[kind] == 3:
                    place = "end"
            elif (kind, seen[kind]) == ("text_delta", 3):
                place = stage
            yield encoded(event.name, event.data), place


def _asked(body: Any) -> tuple[str, int]:
    """Return the last text of the user in a request, and how many tool results follow it."""
    results = 0
    for message in reversed(body["messages"]):
        content = message["content"]
        if message["role"] == "user":
            blocks: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else content
            results += sum(block["type"] == "tool_result" for block in blocks)
            texts = [block["text"] for block in blocks if block["type"] == "text"]
            if texts:
                return "".join(texts), results
    return "", results


def _read(reader: Any) -> Any:
    """Read one request. Returns its body, or None at the end of the connection."""
    length = 0
    first = reader.readline()
    if not first:
        return None
    while (line := reader.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return json.loads(reader.read(length) or b"{}")


def _close(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
