"""Providers that stream without end and say nothing: the answer ends with an error, and an abort takes effect at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.models.asking import a_model, a_request, sse
from tests.models.raw_server import raw_server, read_request
from tests.support.host import Host
from tests.support.surroundings import rpc, surroundings

from fairlead.core.model import BlockStart, StreamEnd, StreamEvent
from fairlead.core.runtime import CancelToken
from fairlead.errors import ProviderError
from fairlead.models.credentials import RequestAuth
from fairlead.models.http.framing import SSEDecoder
from fairlead.models.http.http_client import Http
from fairlead.models.model_streams import open_stream

Piece = Callable[[int], str]

ANTHROPIC, CHAT, RESPONSES, GOOGLE = "anthropic-messages", "openai-completions", "openai-responses", "google-generative-ai"


def chat(**delta: Any) -> str:
    return sse({"id": "x", "choices": [{"index": 0, "delta": delta}]})


def called(n: int, name: str = "bash") -> str:
    return chat(tool_calls=[{"index": n, "id": f"c{n}", "function": {"name": name, "arguments": ""}}])


def block(n: int, kind: str = "text") -> str:
    started: dict[str, Any] = {"type": kind, "text": "", "thinking": "", "id": f"c{n}", "name": "bash", "input": {}}
    return sse({"type": "content_block_start", "index": n, "content_block": started})


def item(n: int, kind: str) -> str:
    return sse(
        {"type": "response.output_item.added", "output_index": n, "item": {"type": kind, "call_id": f"c{n}", "name": "bash"}}
    )


def part(**fields: Any) -> str:
    return sse({"candidates": [{"index": 0, "content": {"parts": [fields]}}]})


#: Streams that begin something again and again, and the most that may begin.
GROWING: dict[str, tuple[str, Piece, str]] = {
    "blocks": (ANTHROPIC, lambda n: block(n) + sse({"type": "content_block_stop", "index": n}), "4,096 blocks"),
    "blocks that never end": (ANTHROPIC, block, "4,096 blocks"),
    "the same block": (ANTHROPIC, lambda n: block(0), "4,096 blocks"),
    "thinking": (ANTHROPIC, lambda n: block(n, "thinking"), "4,096 blocks"),
    "hidden thinking": (ANTHROPIC, lambda n: block(n, "redacted_thinking"), "4,096 blocks"),
    "calls": (ANTHROPIC, lambda n: block(n, "tool_use"), "4,096 blocks"),
    "chat in turns": (CHAT, lambda n: chat(**{"reasoning_content" if n % 2 else "content": "a"}), "4,096 blocks"),
    "chat calls": (CHAT, called, "4,096 tool calls"),
    "chat calls without a name": (CHAT, lambda n: called(n, ""), "4,096 tool calls"),
    "chat reasoning details": (CHAT, lambda n: chat(reasoning_details=[{"type": "x", "index": n}]), "4,096 pieces of reasoning"),
    "response messages": (RESPONSES, lambda n: item(n, "message"), "4,096 blocks"),
    "response reasoning": (RESPONSES, lambda n: item(0, "reasoning"), "4,096 blocks"),
    "response calls": (RESPONSES, lambda n: item(n, "function_call"), "4,096 blocks"),
    "signed parts": (GOOGLE, lambda n: part(text="", thoughtSignature="a"), "4,096 blocks"),
    "thoughts in turns": (GOOGLE, lambda n: part(text="a", thought=bool(n % 2)), "4,096 blocks"),
    "function calls": (GOOGLE, lambda n: part(functionCall={"name": "bash", "args": {}}), "4,096 blocks"),
}

#: Streams of events that add nothing.
IDLE: dict[str, tuple[str, Piece]] = {
    "pings": (ANTHROPIC, lambda n: sse({"type": "ping"})),
    "comments": (ANTHROPIC, lambda n: ": hi\n\n"),
    "empty lines": (CHAT, lambda n: "\n"),
    "empty events": (CHAT, lambda n: "data:\n\n"),
    "garbage": (RESPONSES, lambda n: "data: {\n\n"),
    "empty deltas": (
        ANTHROPIC,
        lambda n: sse({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ""}}),
    ),
    "ends of blocks": (ANTHROPIC, lambda n: sse({"type": "content_block_stop", "index": 0})),
    "empty chat deltas": (CHAT, lambda n: chat(content="")),
    "empty fragments": (CHAT, lambda n: called(0)),
    "items on the server": (RESPONSES, lambda n: item(0, "web_search")),
    "empty response deltas": (RESPONSES, lambda n: sse({"type": "response.output_text.delta", "output_index": 0, "delta": ""})),
    "empty parts": (GOOGLE, lambda n: part(text="")),
}


async def answer(api: str, piece: Piece, on_batch: Callable[[list[StreamEvent]], None], cancel: CancelToken) -> StreamEnd:
    """Ask a provider that streams such pieces without end, and return how the answer ends."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        for first in count(0, 2000):
            writer.write("".join(piece(first + n) for n in range(2000)).encode())
            await writer.drain()
            await asyncio.sleep(0)

    http = Http(env={})
    last: StreamEvent | None = None
    async with raw_server(talk) as server:
        async for batch in open_stream(a_model(api, server.url), RequestAuth("sk"), http, lambda: 1)(a_request(), cancel):
            on_batch(batch)
            last = batch[-1] if batch else last
        await http.close()
    assert isinstance(last, StreamEnd)
    return last


def ignore(batch: list[StreamEvent]) -> None:
    pass


@pytest.mark.parametrize(("api", "piece", "limit"), GROWING.values(), ids=GROWING)
async def test_an_answer_with_too_many_parts_is_cut_off(api: str, piece: Piece, limit: str) -> None:
    end = await answer(api, piece, ignore, CancelToken())
    assert end.message.error_message == f"The provider started more than {limit}; the answer was cut off."
    assert not end.transient and len(end.message.content) <= 4096


@pytest.mark.parametrize(("api", "piece"), IDLE.values(), ids=IDLE)
async def test_an_endless_answer_without_text_is_cut_off(api: str, piece: Piece) -> None:
    end = await answer(api, again(piece), ignore, CancelToken())
    assert end.message.error_message == (
        "The provider sent more than 250,000 events in a row that add nothing to its answer; it was cut off."
    )


def again(piece: Piece) -> Piece:
    """Return what makes the same piece each time, and makes it once: these streams are long."""
    text = piece(1)
    return lambda n: text


async def test_an_abort_takes_effect_amid_what_has_arrived() -> None:
    api, piece, _ = GROWING["blocks"]
    cancel, seen = CancelToken(), list[StreamEvent]()

    def abort(batch: list[StreamEvent]) -> None:
        seen.extend(batch)
        asyncio.get_running_loop().call_soon(cancel.fire)

    end = await answer(api, piece, abort, cancel)
    assert end.message.stop_reason == "aborted"
    assert sum(isinstance(event, BlockStart) for event in seen) <= 256


def test_an_event_of_many_lines_is_refused_before_they_are_split() -> None:
    with pytest.raises(ProviderError, match="an event of more than 65,536 lines"):
        SSEDecoder().feed(b":\n" * 100_000 + b"\n")


@pytest.mark.parametrize("dialect", ["pi", "omp"])
async def test_a_host_sees_the_end_of_an_answer_of_empty_blocks(tmp_path: Path, dialect: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        for first in count(0, 100):
            writer.write("".join(block(first + n) for n in range(100)).encode())
            await writer.drain()
            await asyncio.sleep(0)

    def prompt(url: str) -> list[dict[str, Any]]:
        around = surroundings(tmp_path, url)
        models = json.loads((around.home / "models.json").read_text())
        for provider in models["providers"].values():
            provider["api"] = ANTHROPIC
        (around.home / "models.json").write_text(json.dumps(models))
        with Host(rpc(dialect), around.cwd, around.env) as host:
            return host.prompt("hi")

    async with raw_server(talk) as server:
        frames = await asyncio.to_thread(prompt, server.url)
    [ended] = [frame for frame in frames if frame["type"] == "message_end" and frame["message"]["role"] == "assistant"]
    assert ended["message"]["errorMessage"].startswith("The provider started more than 4,096 blocks")
