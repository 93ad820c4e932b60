"""What may go wrong between a request and its message, through the whole way of an adapter."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from email.utils import format_datetime
from typing import Any

import pytest
from tests.models.asking import a_model, a_request, ask, outcome, serving
from tests.models.raw_server import raw_server, read_request, saying_nothing, until
from tests.support.connections import count_idle

from fairlead.core.model import Model, StreamEnd, StreamEvent
from fairlead.core.partial_message import PartialMessage
from fairlead.core.runtime import CancelToken
from fairlead.core.secrets import learn
from fairlead.errors import ConfigError
from fairlead.models.adapters import ADAPTERS, open_stream
from fairlead.models.apis.adapter import retry_after, stream_message
from fairlead.models.credentials import RequestAuth
from fairlead.models.http.http_client import Http, HttpRequest

API = "anthropic-messages"


class FunctionReader:
    """Calls a function for each event."""

    def __init__(self, read: Callable[[bytes, bytes], None]) -> None:
        self.read = read

    def on_close(self) -> None:
        pass


async def collect(
    url: str,
    on_event: Callable[[bytes, bytes], None],
    *,
    cancel: CancelToken | None = None,
    http: Http | None = None,
    model: Model | None = None,
) -> list[StreamEvent]:
    client = http or Http(env={})
    partial = PartialMessage(model or a_model(API), 1)
    request = HttpRequest("POST", f"{url}/messages", [], b"{}")
    events: list[StreamEvent] = []
    async for batch in stream_message(client, lambda: request, partial, FunctionReader(on_event), cancel or CancelToken()):
        events += batch
    await client.close()
    return events


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 429, 500, 502, 529])
def test_an_http_error_is_shown_as_it_came(status: int) -> None:
    end = outcome(API, {"status": status, "error": {"oh": "no"}}).end
    assert end.message.stop_reason == "error"
    shown, _, added = (end.message.error_message or "").partition(" [URL: ")
    assert shown == f'{status} {{"oh": "no"}}' and bool(added) == (status == 404)
    assert end.message.content == []
    assert (end.status, end.retry_after) == (status, None)
    assert end.transient == (status in (408, 409, 429, 500, 502, 529))


def test_an_error_without_a_body_is_reported() -> None:
    assert outcome(API, {"status": 503, "raw": ""}).message.error_message == "503 Service Unavailable (no body)"


def test_a_long_error_page_is_cut() -> None:
    text = outcome(API, {"status": 500, "raw": "<html>" * 10_000}).message.error_message
    assert text is not None and text.startswith("500 <html>") and len(text) < 5_000


def test_a_server_may_ask_to_wait() -> None:
    end = outcome(API, {"status": 429, "headers": {"retry-after": "7"}}).end
    assert (end.status, end.retry_after, end.transient) == (429, 7.0, True)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_ways_to_ask_for_patience(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_date_to_wait_for() -> None:
    from datetime import UTC, datetime, timedelta

    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    seconds = retry_after({"retry-after": date})
    assert seconds is not None and 90 < seconds <= 100


def test_a_dropped_connection_keeps_what_came() -> None:
    end = outcome(API, {"text": "partial text that will be lost", "dropAfter": 2}).end
    assert end.message.stop_reason == "error"
    assert end.message.error_message is not None and end.message.error_message.startswith("terminated")
    assert end.message.text() == "partial text tha"
    assert end.transient


async def test_a_hanging_server_is_given_up_and_what_came_is_kept() -> None:
    async with serving({"text": "some text", "hangAfter": 1}) as server:
        http = Http(idle_timeout=0.1, env={})
        adapter = open_stream(a_model(API, server.url), RequestAuth(), http, lambda: 1)
        events = [event async for batch in adapter(a_request(), CancelToken()) for event in batch]
    end = events[-1]
    assert isinstance(end, StreamEnd)
    assert end.message.error_message is not None and "No data for 0.1 s" in end.message.error_message
    assert end.message.text() == "some tex"
    assert end.transient


async def test_a_server_that_is_not_there_is_an_error_in_the_message() -> None:
    events = await collect("http://127.0.0.1:9", lambda name, data: None)
    assert len(events) == 1
    assert isinstance(events[0], StreamEnd)
    assert "connection refused" in (events[0].message.error_message or "")
    assert events[0].transient


async def test_an_answer_without_end_is_cut_off_and_kept() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        while True:
            writer.write((b": " + b"nothing" * 1000 + b"\n\n") * 100)
            await writer.drain()

    async with raw_server(talk) as server:
        events = await collect(server.url, lambda name, data: None)
    end = events[-1]
    assert isinstance(end, StreamEnd)
    assert end.message.error_message == "The provider sent more than 128 MiB; the answer was cut off."
    assert not end.transient


def test_json_instead_of_events_is_shown() -> None:
    answer = {"raw": '{"error": "no such model"}', "headers": {"content-type": "application/json; charset=utf-8"}}
    end = outcome(API, answer).end
    assert end.message.error_message is not None
    assert end.message.error_message.endswith('instead of a stream of events: {"error": "no such model"}')
    assert not end.transient


def test_events_labelled_as_json_are_still_read() -> None:
    answer = {"text": "fine", "headers": {"content-type": "application/json"}}
    assert outcome(API, answer).message.text() == "fine"


@pytest.mark.parametrize("raw", ["<html>Sign in to the network</html>", "data: {not json\n\n", "data: [1]\n\n"])
def test_an_answer_that_makes_no_sense_is_shown(raw: str) -> None:
    end = outcome(API, raw).end
    assert end.message.error_message is not None
    assert "without an event that could be read" in end.message.error_message
    assert raw.strip() in end.message.error_message


async def test_an_answer_that_is_one_endless_line_is_cut_off_and_its_connection_closed() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ")
        while True:
            writer.write(b"x" * (1 << 20))
            await writer.drain()

    async with raw_server(talk) as server:
        events = await collect(server.url, lambda name, data: None)
        await server.left.wait()
    (end,) = events
    assert isinstance(end, StreamEnd)
    assert "an event of more than 64 MiB" in (end.message.error_message or "")
    assert not end.transient


def test_an_event_that_cannot_be_read_is_logged_without_its_content(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "fairlead.models")
    outcome(API, "data: {my secret\n\ndata: {another secret\n\n")
    (message,) = [record.getMessage() for record in caplog.records if "could not be read" in record.getMessage()]
    assert "secret" not in message


async def test_the_trace_of_an_unexpected_failure_is_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "fairlead.models")
    learn("sk-very-secret-key")

    def fail(name: bytes, data: bytes) -> None:
        raise KeyError("sk-very-secret-key")

    async with serving({"text": "hi"}) as server:
        await collect(f"{server.url}/v1", fail)
    assert "Traceback" in caplog.text and "KeyError" in caplog.text and "sk-very" not in caplog.text


def test_an_empty_answer_is_an_error() -> None:
    assert "without a single byte" in (outcome(API, "").message.error_message or "")


def test_a_stream_that_ends_too_early_is_an_error_that_may_pass() -> None:
    start = 'data: {"type":"message_start","message":{"id":"m"}}\n\n'
    text = 'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"half"}}\n\n'
    end = outcome(API, start + text + "data: {garbage\n\n").end
    assert end.message.stop_reason == "error"
    assert "ended without a final event (1 events could not be read)" in (end.message.error_message or "")
    assert end.message.text() == "half"
    assert end.transient


def test_the_last_event_may_lack_its_empty_line() -> None:
    start = 'data: {"type":"message_start","message":{"id":"m"}}\n\n'
    assert outcome(API, start + 'data: {"type":"message_stop"}').message.stop_reason == "stop"


async def test_a_mistake_of_an_adapter_ends_in_the_message() -> None:
    def on_event(name: bytes, data: bytes) -> None:
        raise KeyError("index")

    async with serving({"text": "x"}) as server:
        events = await collect(server.url, on_event)
    end = events[-1]
    assert isinstance(end, StreamEnd)
    assert end.message.error_message == "Unexpected KeyError while reading the model's answer: 'index'"


async def test_a_request_that_cannot_be_made_ends_in_the_message() -> None:
    def request() -> HttpRequest:
        raise TypeError("no such tool")

    partial = PartialMessage(a_model(API), 1)
    stream = stream_message(Http(env={}), request, partial, FunctionReader(lambda name, data: None), CancelToken())
    (end,) = [event async for batch in stream for event in batch]
    assert isinstance(end, StreamEnd)
    assert end.message.error_message == "Unexpected TypeError while reading the model's answer: no such tool"


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_an_abort_before_the_first_byte_ends_the_message(scheme: str) -> None:
    async with raw_server(saying_nothing()) as server:
        cancel = CancelToken()
        url = server.url.replace("http", scheme)
        running = asyncio.create_task(collect(url, lambda name, data: None, cancel=cancel))
        await server.connected.wait()
        cancel.fire()
        events = await asyncio.wait_for(running, 5)
    (end,) = events
    assert isinstance(end, StreamEnd)
    assert end.message.stop_reason == "aborted"


def test_pieces_that_arrive_together_are_one_delta() -> None:
    events = outcome(API, {"raw": (
        'data: {"type":"message_start","message":{"id":"m"}}\n\n'
        + 'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word "}}\n\n' * 50
        + 'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\ndata: {"type":"message_stop"}\n\n'
    )}).events  # fmt: skip
    assert [type(event).__name__ for event in events] == ["StreamStart", "BlockStart", "BlockDelta", "BlockEnd", "StreamEnd"]


async def test_pieces_are_handed_on_as_they_come() -> None:
    async with serving({"text": "onetwo", "chunk": 3, "holdAfter": 1}) as server:
        http = Http(env={})
        adapter = open_stream(a_model(API, server.url), RequestAuth(), http, lambda: 1)
        batches = adapter(a_request(), CancelToken())
        seen: list[Any] = []
        while not any(getattr(event, "delta", None) == "one" for event in seen):
            seen += await anext(batches)
        server.release()
        async for batch in batches:
            seen += batch
        assert seen[-1].message.text() == "onetwo"
        await http.close()


async def test_a_message_is_done_before_its_answer_ends_and_the_connection_is_kept_then() -> None:
    raw = 'data: {"type":"message_start","message":{"id":"m"}}\n\ndata: {"type":"message_stop"}\n\n'
    async with serving({"raw": raw, "holdAfter": 1}) as server:
        http = Http(env={})
        adapter = open_stream(a_model(API, server.url), RequestAuth(), http, lambda: 1)
        async for _ in adapter(a_request(), CancelToken()):
            pass
        assert count_idle(http) == 0
        server.release()
        await until(lambda: count_idle(http) == 1)
        await http.close()


async def test_an_error_whose_body_breaks_off_still_has_its_status() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 529 Overloaded\r\ncontent-length: 900\r\n\r\nhalf")

    async with raw_server(talk) as server:
        events = await collect(server.url, lambda name, data: None)
    (end,) = events
    assert isinstance(end, StreamEnd)
    assert (end.status, end.transient) == (529, True)


def test_every_known_api_has_an_adapter() -> None:
    for api in ADAPTERS:
        open_stream(a_model(api), RequestAuth(), Http(env={}), lambda: 1)


def test_an_unknown_api_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match=r'unknown API "smoke-signals".*anthropic-messages, openai-completions'):
        open_stream(a_model("smoke-signals"), RequestAuth(), Http(env={}), lambda: 1)


async def test_one_http_serves_many_conversations_at_once() -> None:
    async with serving({"text": "hello"}) as server:
        results = await asyncio.gather(*(ask(server, API) for _ in range(20)))
        assert {result.message.text() for result in results} == {"hello"}


def test_an_endpoint_does_not_show_its_secrets() -> None:
    shown = repr(RequestAuth("sk-secret", {"Authorization": "Bearer secret"}))
    assert "secret" not in shown
    assert "Authorization" in shown
