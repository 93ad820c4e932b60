"""Fuzzes what providers send: HTTP bodies, server-sent events, and the events of every API."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from tests.endurance.entries import Figures, Options
from tests.endurance.mutation import Mutator, assert_linear, encoded, run_cases
from tests.models.asking import a_model
from tests.support.json_values import is_object

from fairlead.core.messages import AssistantMessage, TextContent, ThinkingContent, ToolCall
from fairlead.core.model import BlockDelta, BlockEnd, BlockStart, StreamEnd, StreamEvent, StreamStart
from fairlead.core.partial_message import PartialMessage, parse_arguments, preview_arguments
from fairlead.errors import ProviderError
from fairlead.models.apis.adapter import EventReader, _EventFeed  # pyright: ignore[reportPrivateUsage]
from fairlead.models.apis.anthropic import AnthropicReader
from fairlead.models.apis.google import GoogleReader
from fairlead.models.apis.openai_completions import ChatReader
from fairlead.models.apis.openai_responses import ResponsesReader
from fairlead.models.http.framing import ChunkedBody, FixedBody, MalformedBody, SSEDecoder
from fairlead.testing.formats import ScriptTurn, ServerSentEvent, anthropic_events, chat_events, google_events, responses_events

NAME = "streams"
TITLE = "Answers of providers in every API: mutated events, HTTP chunks and server-sent events, split at any byte"

Events = Callable[[ScriptTurn, dict[str, Any]], Any]
Reader = Callable[[PartialMessage], EventReader]
#: By API: how a provider writes a turn, and what reads it.
APIS: dict[str, tuple[Events, Reader]] = {
    "anthropic-messages": (anthropic_events, AnthropicReader),
    "openai-completions": (chat_events, ChatReader),
    "openai-completions with calls in the text": (chat_events, partial(ChatReader, tools_in_text=("bash", "read"))),
    "openai-responses": (responses_events, ResponsesReader),
    "google-generative-ai": (google_events, GoogleReader),
}

_CALLS: list[Any] = [
    {"name": "bash", "arguments": {"command": "echo 'a\nb' | grep \\n", "timeout": 5}},
    {"name": "read", "arguments": {"path": "ü/😀.py", "deep": {"a": [1, 2.5, None, True, "x"]}}},
]
_TEXT_CALL = 'I will look.\n<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>\nDone.'
TURNS: list[ScriptTurn] = [
    {"text": "Hello, wörld 😀 and \u2028 more.", "chunk": 3},
    {"thinking": "Let me think about é.", "text": "Well.", "chunk": 4},
    {"toolCalls": _CALLS, "chunk": 5},
    {"thinking": "Hm", "text": "First", "toolCalls": _CALLS[:1], "usage": {"input": 5, "output": 7, "cacheRead": 3}},
    {"text": "cut off", "stopReason": "length"},
    {"text": _TEXT_CALL, "chunk": 6},
    {"text": '```json\n{"name": "bash", "arguments": {"command": "ls"}}\n```'},
    {"text": ""},
]


def body_of(events: Sequence[ServerSentEvent]) -> bytes:
    """Return events as a provider writes them."""
    text = ""
    for event in events:
        data = event.data if isinstance(event.data, str) else json.dumps(event.data)
        text += (f"event: {event.name}\n" if event.name else "") + f"data: {data}\n\n"
    return text.encode()


class Streams:
    """The checks of one API."""

    def __init__(self, api: str) -> None:
        self._api = api
        events, self._reader = APIS[api]
        self._answers = [list(events(turn, {"model": "m", "stream": True})) for turn in TURNS]
        self._seeds = [body_of(answer) for answer in self._answers]
        kinds = {_kind(event) for answer in self._answers for event in answer}
        self._tokens = [b"data: ", b"event: ", b"data", b"\n\ndata: [DONE]\n\n", b"\ndata: ", *sorted(kinds)]

    def check(self, source: random.Random) -> None:
        """The message is finished with what arrived, whatever arrived, and however the network cut it."""
        mutator = Mutator(source, self._seeds, self._tokens)
        data = self._hostile_events(mutator) if source.random() < 0.6 else mutator.data()
        events = self._read([data])
        _check_events(events)
        again = self._read(list(mutator.chunks(data)))
        _check_events(again)
        assert _comparable(_end(again)) == _comparable(_end(events)), data

    def _hostile_events(self, mutator: Mutator) -> bytes:
        source = mutator.random
        events = list(source.choice(self._answers))
        for _ in range(source.randrange(1, 4)):
            at = source.randrange(len(events)) if events else 0
            match source.randrange(6):
                case 0 if events:
                    del events[at]
                case 1 if events:
                    events.insert(at, events[source.randrange(len(events))])
                case 2:
                    events.insert(at, source.choice(source.choice(self._answers) or [ServerSentEvent(False, None, "x")]))
                case 3 if len(events) > 1:
                    other = source.randrange(len(events))
                    events[at], events[other] = events[other], events[at]
                case _ if events and is_object(events[at].data):
                    changed = encoded(mutator.json(events[at].data), source).decode("utf-8", "surrogateescape")
                    events[at] = events[at]._replace(data=changed)
                case _:
                    pass
        text = b""
        for event in events:
            data = event.data if isinstance(event.data, str) else json.dumps(event.data)
            name = f"event: {event.name}\n".encode() if event.name and source.random() < 0.9 else b""
            text += name + b"data: " + data.encode("utf-8", "surrogateescape") + b"\n\n"
        return text

    def _read(self, chunks: Sequence[bytes]) -> list[StreamEvent]:
        """Feed chunks as `stream_message` does."""
        partial_message = PartialMessage(a_model(self._api.partition(" ")[0]), 1)
        feed = _EventFeed(partial_message, self._reader(partial_message))
        events: list[StreamEvent] = []
        for chunk in chunks:
            feed.read(feed.decode(chunk))
            if partial_message.finished is not None:
                break
            events += partial_message.take()
        else:
            feed.end()
        return events + partial_message.take()


def _check_events(events: list[StreamEvent]) -> None:
    """The events are in order, their deltas add up to the blocks, and the message can be written to a file and read again."""
    end = _end(events)
    texts: dict[int, str] = {}
    started: dict[int, type] = {}
    for number, event in enumerate(events):
        match event:
            case StreamStart():
                assert number == 0, events
            case BlockStart():
                assert event.index == len(started), events
                started[event.index] = type(event.block)
                texts[event.index] = ""
            case BlockDelta():
                texts[event.index] += event.delta
                event.delta.encode()
            case BlockEnd():
                assert type(event.block) is started[event.index]
            case StreamEnd():
                assert number == len(events) - 1
    message = end.message
    assert [type(block) for block in message.content] == list(started.values())
    for index, block in enumerate(message.content):
        if isinstance(block, TextContent):
            assert block.text == texts[index]
        elif isinstance(block, ThinkingContent):
            assert block.thinking == texts[index]
        else:
            assert isinstance(block, ToolCall) and isinstance(block.id, str) and isinstance(block.name, str)
    calls = [block.id for block in message.content if isinstance(block, ToolCall)]
    assert len(set(calls)) == len(calls), f"two calls have one id: {calls}"
    assert set(end.bad_arguments) <= set(calls)
    text = msgspec.json.encode(message)
    again = msgspec.json.decode(text, type=AssistantMessage)
    assert msgspec.json.encode(again) == text
    assert (message.stop_reason == "error") == (message.error_message is not None)


def _end(events: list[StreamEvent]) -> StreamEnd:
    assert events and isinstance(events[-1], StreamEnd), events
    return events[-1]


def _comparable(end: StreamEnd) -> Any:
    """Return what does not depend on chance: ids that fairlead makes up are random."""
    value: Any = msgspec.to_builtins(end.message)
    for number, block in enumerate(value["content"]):
        if block["type"] == "toolCall" and block["id"].startswith("call_"):
            block["id"] = f"made-up-{number}"
    return value, sorted(end.bad_arguments.values()), end.status, end.transient


def _kind(event: ServerSentEvent) -> bytes:
    """Return the name of an event, or the type that its data names."""
    return str(event.name or (event.data.get("type") if is_object(event.data) else "")).encode()


# Server-sent events and HTTP bodies


def server_sent_events(source: random.Random) -> None:
    """Events are the same, wherever the network cut the stream, and are those of a simple reading of the standard."""
    parts = (
        b"data: ",
        b"data:",
        b"data",
        b"event: ",
        b"event:x",
        b":",
        b"id: 1",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"x",
        b" ",
        b"{}",
    )
    data = b"".join(source.choice((*parts, b"\xef\xbb\xbf", b"\xff", b"\0", "é".encode())) for _ in range(source.randrange(40)))
    mutator = Mutator(source, [b""])
    decoder = SSEDecoder()
    found = [event for chunk in mutator.chunks(data) for event in decoder.feed(chunk)] + decoder.end()
    assert found == _plainly(data), data


def _plainly(data: bytes) -> list[tuple[bytes, bytes]]:
    """Read a whole stream as the standard says, except that the last event may lack its empty line."""
    lines = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    events: list[tuple[bytes, bytes]] = []
    name, values = b"", list[bytes]()
    for line in (*lines, b""):
        if not line:
            if values:
                events.append((name, b"\n".join(values)))
            name, values = b"", []
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            values.append(value)
        elif field == b"event":
            name = value
    return events


def chunked_bodies(source: random.Random) -> None:
    """A body in chunks is the same, wherever the network cut it; if it is malformed, it is refused and not misread."""
    payload = b"".join(source.choice((b"abc", b"\r\n", b"0\r\n\r\n", b"\0", b"x" * 300)) for _ in range(source.randrange(5)))
    mutator = Mutator(source, [b""])
    parts = list(mutator.chunks(payload))
    sizes = [source.choice((b"%x\r\n", b"%X\r\n", b"0%x\r\n", b"%x;a=b\r\n", b"%x \r\n")) % len(part) for part in parts]
    body = b"".join(size + part + b"\r\n" for size, part in zip(sizes, parts, strict=True))
    body += source.choice((b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"000;x\r\n\r\n"))
    hostile = source.random() < 0.6
    if hostile:
        body = Mutator(source, [body], (b"\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n")).data()

    def read(pieces: Sequence[bytes]) -> tuple[bytes, bool, bool]:
        chunked = ChunkedBody()
        found = b""
        try:
            for piece in pieces:
                found += chunked.feed(piece)
        except MalformedBody:
            return b"", False, True
        return found, chunked.complete, chunked.surplus

    whole = read([body])
    assert read(list(mutator.chunks(body))) == whole, body
    if not hostile:
        assert whole == (payload, True, False), body
    fixed = FixedBody(len(payload))
    assert b"".join(map(fixed.feed, [*parts, b"more"])) == payload and fixed.complete and fixed.surplus


def arguments(source: random.Random) -> None:
    """Arguments of calls are an object, or refused; previews of their beginnings never fail."""
    mutator = Mutator(source, [json.dumps(call["arguments"]).encode() for call in _CALLS])
    text = mutator.data().decode("utf-8", source.choice(("replace", "surrogateescape")))
    parsed = parse_arguments(text)
    assert parsed is None or msgspec.json.encode(parsed)
    for end in {source.randrange(len(text) + 1), len(text)}:
        msgspec.json.encode(preview_arguments(text[:end]))


def checks() -> dict[str, Callable[[random.Random], object]]:
    """Return the checks by name."""
    found: dict[str, Callable[[random.Random], object]] = {api: Streams(api).check for api in APIS}
    return {**found, "events": server_sent_events, "bodies": chunked_bodies, "arguments": arguments}


def growth() -> None:
    """Check that an answer costs work in proportion to its length."""

    def read(api: str, turn: Callable[[int], ScriptTurn], size: int) -> Callable[[], object]:
        events, reader = APIS[api]
        body = body_of(list(events(turn(size), {"model": "m"})))

        def work() -> None:
            message = PartialMessage(a_model(api.partition(" ")[0]), 1)
            feed = _EventFeed(message, reader(message))
            for at in range(0, len(body), 512):
                feed.read(feed.decode(body[at : at + 512]))
                message.take()
            feed.end()

        return work

    turns: list[Callable[[int], ScriptTurn]] = [
        lambda size: {"text": "word " * (size // 5), "chunk": 40},
        lambda size: {"text": "x" * size, "chunk": size},
        lambda size: {"text": "\n<tool_call>{" * (size // 13), "chunk": 40},
        lambda size: {"thinking": "é" * size, "chunk": 40},
        lambda size: {"toolCalls": [{"name": "bash", "arguments": {"command": '\\"' * (size // 2)}}], "chunk": 40},
    ]
    for api in APIS:
        for turn in turns:
            assert_linear(lambda size, api=api, turn=turn: read(api, turn, size), size=1 << 13)

    def decoded(size: int, piece: bytes, chunk: int) -> Callable[[], object]:
        data = piece * (size // len(piece))
        decoder = SSEDecoder()
        return lambda: [decoder.feed(data[at : at + chunk]) for at in range(0, len(data), chunk)]

    for piece in (b"data: x\n", b"\r", b"\r\n", b"\n", b"x", b"data:\r", b":\n\n"):
        assert_linear(lambda size, piece=piece: decoded(size, piece, 100), size=1 << 17)


def run(options: Options) -> Figures:
    figures = run_cases(options, checks(), short=2_000, long=1_000_000)
    if not options.short:
        try:
            growth()
        except (AssertionError, ProviderError) as error:
            figures.problems.append(f"the work grows faster than the answer: {error}")
    return figures
