"""A fake provider of models: an HTTP server on loopback that answers from a script.

It has the streaming formats of Anthropic Messages, OpenAI Chat Completions, OpenAI Responses and Google
streamGenerateContent. The path of a request chooses the format.

    async with ProviderServer([{"text": "Hello"}]) as server:    # or `with`, which runs it in a thread
        ...send a prompt to the model at server.url...
        server.requests[0].body

    python -m fairlead.testing.provider --script turns.json [--port 0] [--log requests.jsonl]

The program prints `PORT <n>` when it is ready. A script is {"turns": [TURN, ...], "loop": false}, or only the list of turns.
Turn k answers request k. After the last turn, that turn is repeated; with "loop" the list starts again. The keys of a TURN:

    thinking, text   strings, sent in pieces of `chunk` characters (8)
    repeat           how many times to send the text
    toolCalls        [{"name", "arguments", "id"?}]; a string as `arguments` is sent unchanged
    usage            {"input", "output", "cacheRead", "cacheWrite", "reasoning"}
    stopReason       the stop reason, as the provider's API names it
    delayMs          a pause after each piece, or a list of the pauses; firstDelayMs: before the first
    dropAfter        close the connection after this many pieces
    hangAfter        send nothing more after this many pieces, until the client disconnects
    holdAfter        send nothing more after this many pieces, until `ProviderServer.release()`
    garbageAfter     send an event that is not JSON after this many pieces
    status, error    respond with this HTTP status, and with an error of this text or with this JSON as body
    headers          additional headers of the response
    raw              the body, sent unchanged: a string, or a list of strings that are one HTTP chunk each
    match            use this turn for every request whose last user text contains this string
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO, cast

from fairlead.testing.formats import FORMATS, Format, Script, ScriptTurn, ServerSentEvent

if TYPE_CHECKING:
    import threading
    from ssl import SSLContext
    from types import TracebackType


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request that a `ProviderServer` answered from its script."""

    path: str
    query: str
    #: The names are in lower case.
    headers: Mapping[str, str]
    #: The body, decoded from JSON.
    body: Any
    #: The number of its connection, starting at 0.
    connection: int


class ProviderServer:
    """A fake provider on loopback. Use it with `async with`, or with `with` in code that is not asynchronous.

    Args:
        turns: the answers, one after the other (the module's docstring lists the keys of a turn); or a function that takes the
            body of a request and returns the turn that answers it.
        models: the entries of the list that GET /v1/models returns.
        loop: whether the turns start again after the last one. Otherwise the last one is repeated.
        port: the port to listen on; 0 chooses a free one.
        ssl: a context to serve https.
        log: a file for the requests, each as a line of JSON.

    Entering the context raises OSError if the port cannot be used. `requests` has the requests so far.
    """

    def __init__(
        self,
        turns: Sequence[ScriptTurn] | Callable[[Any], ScriptTurn],
        *,
        models: Sequence[Mapping[str, Any]] = (),
        loop: bool = False,
        port: int = 0,
        ssl: SSLContext | None = None,
        log: TextIO | None = None,
    ) -> None:
        self.requests: list[ReceivedRequest] = []
        #: How many connections were opened and closed.
        self.connections = 0
        self.disconnections = 0
        self.port = port
        self._turn_for: Callable[[Any], ScriptTurn] = turns if callable(turns) else Script(turns, loop=loop).turn_for
        self._models = list(models)
        self._ssl = ssl
        self._log = log
        self._server: asyncio.Server | None = None
        self._writers: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}
        self._watchers: list[tuple[Callable[[ProviderServer], bool], asyncio.Future[None]]] = []
        self._released: asyncio.Event | None = None
        self._thread: _ServerThread | None = None

    @property
    def url(self) -> str:
        """The server's address without a path. The caller may add `/v1` or `/v1beta`; the server ignores it."""
        return f"{'https' if self._ssl else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        self._thread = _ServerThread(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._thread is not None
        self._thread.end()

    async def start(self) -> None:
        """Start listening. Raises OSError if the port cannot be used."""
        self._released = asyncio.Event()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=1 << 26, ssl=self._ssl)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the server and all of its connections."""
        assert self._server is not None
        self._server.close()
        tasks = list(self._writers)
        self.close_connections()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def serve_forever(self) -> None:
        """Serve until the task is cancelled."""
        assert self._server is not None
        await self._server.serve_forever()

    def close_connections(self) -> None:
        """Close all connections, as a server does with idle ones."""
        for writer in self._writers.values():
            writer.transport.abort()

    def release(self) -> None:
        """Let all turns continue after their `holdAfter`, those that wait there now and later ones."""
        assert self._released is not None
        if self._thread is None:
            self._released.set()
        else:
            self._thread.loop.call_soon_threadsafe(self._released.set)

    async def until(self, condition: Callable[[ProviderServer], bool]) -> None:
        """Wait until `condition` holds for the server, for example `lambda server: server.disconnections == 1`."""
        if not condition(self):
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watchers.append((condition, changed))
            await changed

    def _notify(self) -> None:
        for condition, changed in self._watchers:
            if not changed.done() and condition(self):
                changed.set_result(None)
        self._watchers = [watcher for watcher in self._watchers if not watcher[1].done()]

    # One connection

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._writers[task] = writer
        number = self.connections
        self.connections += 1
        self._notify()
        # Clients may disconnect at any time, and `stop` cancels this task: both are normal ends.
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._answer_one(reader, writer, number):
                pass
        del self._writers[task]
        writer.transport.abort()
        self.disconnections += 1
        self._notify()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> bool:
        """Answer one request. Return whether the connection can be used again."""
        method, target, headers, raw = await _read_request(reader)
        path, _, query = target.partition("?")
        format = next((format for end, format in FORMATS.items() if path.endswith(end)), None)
        if method == "GET" or format is None:
            listed = json.dumps({"object": "list", "data": self._models}).encode()
            _write_response(writer, 200 if method == "GET" else 404, listed, {})
            await writer.drain()
            return True
        body = json.loads(raw or b"{}")
        request = ReceivedRequest(path, query, headers, body, connection)
        self.requests.append(request)
        self._record(request)
        self._notify()
        turn = self._turn_for(body)
        if turn.get("status", 200) != 200 and "raw" not in turn:
            await asyncio.sleep(turn.get("firstDelayMs", 0) / 1000)
            error = turn.get("error", "scripted")
            shown = format.error_body(turn["status"], error) if isinstance(error, str) else error
            _write_response(writer, turn["status"], json.dumps(shown).encode(), turn.get("headers", {}))
            await writer.drain()
            return True
        return await self._stream(reader, writer, turn, body, format)

    async def _stream(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, turn: ScriptTurn, body: Any, format: Format
    ) -> bool:
        headers = {"content-type": "text/event-stream", "cache-control": "no-cache", "request-id": "req_fake"}
        _write_head(writer, turn.get("status", 200), {**headers, "transfer-encoding": "chunked", **turn.get("headers", {})})
        await writer.drain()
        await asyncio.sleep(turn.get("firstDelayMs", 0) / 1000)
        frames = _raw_frames(turn["raw"]) if "raw" in turn else map(_frame, format.events(turn, body))
        sent = 0
        for is_piece, frame in frames:
            _write_chunk(writer, frame)
            if is_piece:
                sent += 1
                if not await self._after_piece(sent, turn, reader, writer):
                    return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _after_piece(self, sent: int, turn: ScriptTurn, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Do what the turn asks for after this many pieces. Return whether to continue."""
        assert self._released is not None
        if sent == turn.get("garbageAfter"):
            _write_chunk(writer, b"data: {not json\n\n")
        if sent == turn.get("dropAfter"):
            await _wait_flushed(writer)
            return False
        if sent == turn.get("hangAfter"):
            await writer.drain()
            await reader.read()
            return False
        if sent == turn.get("holdAfter"):
            await writer.drain()
            await self._released.wait()
        delay: Any = turn.get("delayMs", 0)
        if isinstance(delay, list):
            pauses = cast("list[float]", delay)
            delay = pauses[sent - 1] if sent <= len(pauses) else 0
        if delay:
            await writer.drain()
            await asyncio.sleep(delay / 1000)
        elif sent % 64 == 0:
            await writer.drain()
        return True

    def _record(self, request: ReceivedRequest) -> None:
        if self._log is not None:
            line = {"t": time.time(), "path": request.path, "headers": request.headers, "body": request.body}
            self._log.write(json.dumps(line) + "\n")
            self._log.flush()


class _ServerThread:
    """Runs a server in a thread, for code that is not asynchronous."""

    def __init__(self, server: ProviderServer) -> None:
        self._server = server
        self.loop = asyncio.new_event_loop()
        self._failure: BaseException | None = None
        self._stopping = asyncio.Event()
        started = threading.Event()
        self._thread: threading.Thread = threading.Thread(target=self._run, args=(started,), name="provider-server", daemon=True)
        self._thread.start()
        started.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self, started: threading.Event) -> None:
        async def serve() -> None:
            try:
                await self._server.start()
            except OSError as error:
                self._failure = error
                return
            finally:
                started.set()
            await self._stopping.wait()
            await self._server.stop()

        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(serve())


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1")
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    if headers.get("transfer-encoding") != "chunked":
        return method, target, headers, await reader.readexactly(int(headers.get("content-length", 0)))
    parts: list[bytes] = []
    while size := int(await reader.readline(), 16):
        parts.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return method, target, headers, b"".join(parts)


def _frame(event: ServerSentEvent) -> tuple[bool, bytes]:
    data = event.data if isinstance(event.data, str) else json.dumps(event.data, separators=(",", ":"))
    name = f"event: {event.name}\n" if event.name else ""
    return event.is_piece, f"{name}data: {data}\n\n".encode()


def _raw_frames(raw: str | bytes | Sequence[str | bytes]) -> Iterable[tuple[bool, bytes]]:
    parts = [raw] if isinstance(raw, (str, bytes)) else raw
    return [(True, part if isinstance(part, bytes) else part.encode("utf-8", "surrogateescape")) for part in parts]


def _write_head(writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str]) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode("latin1"))


def _write_response(writer: asyncio.StreamWriter, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    _write_head(writer, status, {"content-type": "application/json", "content-length": str(len(body)), **headers})
    writer.write(body)


def _write_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    if data:  # an empty chunk would end the body
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))


async def _wait_flushed(writer: asyncio.StreamWriter) -> None:
    """Wait until everything was handed to the system, so that closing the connection loses nothing."""
    writer.transport.set_write_buffer_limits(high=0)
    await writer.drain()


def _decode_script(text: str) -> tuple[list[ScriptTurn], bool]:
    """Return the turns of a script, and whether they start again after the last one. Raises ValueError."""
    decoded: Any = json.loads(text)
    script = cast("dict[str, Any]", decoded if isinstance(decoded, dict) else {"turns": decoded})
    turns: Any = script.get("turns")
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in cast("list[Any]", turns)):
        raise ValueError('Expected a script such as {"turns": [{"text": "Hello"}], "loop": false}, or only its list of turns.')
    return cast("list[ScriptTurn]", turns), bool(script.get("loop", False))


async def _play(server: ProviderServer) -> None:
    async with server:
        sys.stdout.write(f"PORT {server.port}\n")
        sys.stdout.flush()
        await server.serve_forever()


def main() -> None:
    """Run the server as a program."""
    parser = argparse.ArgumentParser(
        prog="python -m fairlead.testing.provider", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--script", required=True, help="a JSON file, or - for standard input")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", help="append each request to this file, as a line of JSON")
    arguments = parser.parse_args()
    with ExitStack() as files, suppress(KeyboardInterrupt):
        try:
            text = sys.stdin.read() if arguments.script == "-" else Path(arguments.script).read_text(encoding="utf-8")
            turns, loop = _decode_script(text)
            log = files.enter_context(Path(arguments.log).open("a", encoding="utf-8")) if arguments.log else None
            server = ProviderServer(turns, loop=loop, port=arguments.port, log=log)
        except (OSError, ValueError) as error:
            parser.error(str(error))
        asyncio.run(_play(server))


if __name__ == "__main__":
    main()
