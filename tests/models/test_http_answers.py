"""Answers over HTTP: how they are framed, read and paced, and answers that are broken, silent or refused."""

from __future__ import annotations

import asyncio
import socket

import h11
import pytest
from tests.models.posting import OK, fetch, post
from tests.models.raw_server import Talk, answering, raw_server, read_request, saying_nothing

from fairlead.core.runtime import CancelToken
from fairlead.errors import ProviderError
from fairlead.models.http.framing import receive_head
from fairlead.models.http.http_client import Http
from fairlead.models.http.http_connection import HttpConnection
from fairlead.testing import ProviderServer


def fetch_from(talk: Talk, *, http: Http | None = None) -> tuple[int, bytes]:
    """One request to a server that talks so."""

    async def run() -> tuple[int, bytes]:
        client = http or Http(env={})
        async with raw_server(talk) as server:
            try:
                return await fetch(client, server.url)
            finally:
                await client.close()

    return asyncio.run(run())


def error_from(talk: Talk, *, http: Http | None = None) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        fetch_from(talk, http=http)
    return caught.value


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    ],
)
def test_a_body_is_read_to_its_end_however_it_is_framed(answer: bytes) -> None:
    assert fetch_from(answering(answer)) == (200, b"hello")


async def test_the_request_arrives_as_it_was_meant() -> None:
    async with ProviderServer([{"text": "x"}]) as server:
        http = Http(env={})
        headers = [("X-Key", " secret "), ("User-Agent", "mine")]
        async with http.stream(post(f"{server.url}/v1/messages?a=b c", b'{"n":1}', headers), CancelToken()) as response:
            await response.read()
            assert response.headers["content-type"] == "text/event-stream"
        request = server.requests[0]
        assert request.body == {"n": 1}
        assert request.query == "a=b%20c"
        assert request.headers["x-key"] == "secret"
        assert request.headers["user-agent"] == "mine"
        assert request.headers["host"] == f"127.0.0.1:{server.port}"
        assert request.headers["accept-encoding"] == "identity"
        await http.close()


def test_an_answer_that_is_not_http_is_shown() -> None:
    assert "Its answer begins: 'SSH-2.0-OpenSSH_9" in str(error_from(answering(b"SSH-2.0-OpenSSH_9\r\n\r\n")))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnonsense\r\n",
    ],
)
def test_an_answer_that_breaks_off_is_terminated(answer: bytes) -> None:
    error = error_from(answering(answer))
    assert str(error).startswith("terminated")
    assert error.transient


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        (b"content-length: x", "bad Content-Length"),
        (b"content-length: 1\r\ncontent-length: 2", "conflicting Content-Length"),
        (b"transfer-encoding: gzip, chunked", "Only Transfer-Encoding: chunked"),
        (b"no colon", "illegal header line"),
        (b"x: " + b"y" * 200_000, "longer than 64 KiB"),
    ],
)
def test_a_head_that_breaks_the_rules_is_named_and_not_asked_for_again(head: bytes, problem: str) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
        await reader.read()

    error = error_from(talk)
    assert "whose head breaks the rules of HTTP" in str(error) and problem in str(error)
    assert len(str(error)) < 400
    assert not error.transient


def test_a_change_of_protocol_that_was_not_requested_is_reported() -> None:
    error = error_from(answering(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n"))
    assert "101, a change of protocol that was not requested" in str(error)
    assert not error.transient


def test_a_connection_that_ends_within_the_head_may_do_better_the_next_time() -> None:
    error = error_from(answering(b"HTTP/1.1 200 OK\r\ncontent-le"))
    assert "closed the connection in the head of its answer" in str(error)
    assert error.transient


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello"])
def test_a_silent_server_is_given_up(sent: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(sent)
        await reader.read()

    error = error_from(talk, http=Http(idle_timeout=0.05, env={}))
    assert "No data for 0.05 s" in str(error)
    assert error.transient


async def test_a_slow_reader_does_not_trigger_the_idle_timeout() -> None:
    go_on = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello")
        await go_on.wait()
        writer.write(b"world")
        await reader.read()

    async with raw_server(talk) as server:
        http = Http(idle_timeout=0.05, env={})
        async with http.stream(post(server.url), CancelToken()) as response:
            chunks = aiter(response.chunks())
            assert await anext(chunks) == b"hello"
            await asyncio.sleep(0.15)  # three times the limit, spent by the reader
            go_on.set()
            assert await anext(chunks) == b"world"
        await http.close()


async def test_a_server_that_keeps_talking_may_take_longer_than_the_limit() -> None:
    async with ProviderServer([{"text": "x" * 20, "chunk": 1, "delayMs": 25}]) as server:
        http = Http(idle_timeout=0.3, env={})
        started = asyncio.get_running_loop().time()
        assert b"message_stop" in (await fetch(http, f"{server.url}/messages"))[1]
        assert asyncio.get_running_loop().time() - started > 0.3
        await http.close()


async def test_a_slow_upload_does_not_trigger_the_idle_timeout() -> None:
    size = 24 << 20

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        left = size
        while left:
            left -= len(await reader.read(1 << 20))
            await asyncio.sleep(0.03)
        writer.write(OK)

    async with raw_server(talk, buffered=1 << 20) as server:
        http = Http(idle_timeout=0.3, env={})
        started = asyncio.get_running_loop().time()
        assert await fetch(http, server.url, b"x" * size) == (200, b"ok")
        assert asyncio.get_running_loop().time() - started > 0.3, "the upload was too fast to show anything"
        await http.close()


async def test_an_early_answer_is_read_before_the_upload_ends() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig")
        await writer.drain()
        await asyncio.Event().wait()

    async with raw_server(talk) as server:
        assert await fetch(Http(env={}), server.url, b"x" * (16 << 20)) == (413, b"big")


def test_redirects_are_reported_not_followed() -> None:
    error = error_from(answering(b"HTTP/1.1 308 Moved\r\nlocation: https://elsewhere.test/v1\r\ncontent-length: 0\r\n\r\n"))
    assert "https://elsewhere.test/v1" in str(error)
    assert error.status == 308
    assert not error.transient


def test_a_compressed_answer_is_refused() -> None:
    error = error_from(answering(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nxx"))
    assert "compressed (gzip)" in str(error)


@pytest.mark.parametrize("value", ["sk-\nsecret", "sk-secret\x00", "sk-secret…"])
async def test_a_key_that_no_header_can_hold_is_refused_without_being_shown(value: str) -> None:
    with pytest.raises(ProviderError, match="'x-api-key' has characters that HTTP forbids") as caught:
        async with raw_server(saying_nothing()) as server:
            request = post(server.url, headers=[("x-api-key", value)])
            async with Http(env={}).stream(request, CancelToken()):
                pass
    assert "secret" not in str(caught.value)


# TLS


async def test_a_first_read_that_brings_the_head_and_a_great_deal_of_the_body_loses_nothing() -> None:
    body = b"x" * 200_000

    async def read() -> bytes:
        return b"HTTP/1.1 200 OK\r\n\r\n" + body

    wire = h11.Connection(h11.CLIENT)
    wire.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    wire.send(h11.EndOfMessage())
    answer, rest = await receive_head(wire, read)
    assert (answer.status_code, rest) == (200, body)


async def _drop_by_drop(pieces: list[bytes], read_interval: float = 0.016) -> list[bytes]:
    """What a reader gets of pieces that are sent one by one, each when the one before could have been read; then the end."""
    ours, theirs = socket.socketpair()
    with theirs:
        _, connection = await asyncio.get_running_loop().create_connection(HttpConnection, sock=ours)
        connection.read_interval = read_interval
        reads: list[bytes] = []

        async def read() -> None:
            while piece := await connection.read(20):
                reads.append(piece)

        reading = asyncio.create_task(read())
        for piece in pieces:
            theirs.sendall(piece)
            for _ in range(4):  # long enough for a reader that is woken to read
                await asyncio.sleep(0)
        theirs.shutdown(socket.SHUT_WR)
        await asyncio.wait_for(reading, 20)
        connection.abort()
    return reads


async def test_an_answer_in_drops_is_read_less_often_once_it_has_begun() -> None:
    pieces = [b"%d " % number if number % 50 != 49 else b"x" * 5000 for number in range(120)]
    reads = await _drop_by_drop(pieces)
    assert b"".join(reads) == b"".join(pieces)
    assert reads[0] == b"0 "
    assert 16 < len(reads) < 60


async def test_a_longer_interval_means_fewer_reads() -> None:
    reads = await _drop_by_drop([b"%d " % number for number in range(120)], read_interval=0.3)
    assert b"".join(reads) == b"".join(b"%d " % number for number in range(120))
    assert 16 < len(reads) < 22


async def test_large_pieces_are_read_as_they_come() -> None:
    pieces = [b"x" * 5000] * 60
    assert len(await _drop_by_drop(pieces)) >= 50


@pytest.mark.parametrize(("gap", "pauses"), [(0.010, True), (0.020, False)])
async def test_reading_pauses_only_for_pieces_that_a_pause_can_bring_together(
    monkeypatch: pytest.MonkeyPatch, gap: float, pauses: bool
) -> None:
    now = 1000.0
    monkeypatch.setattr("fairlead.models.http.http_connection.monotonic", lambda: now)
    ours, theirs = socket.socketpair()
    with theirs:
        _, connection = await asyncio.get_running_loop().create_connection(HttpConnection, sock=ours)
        transport = connection._transport  # pyright: ignore[reportPrivateUsage]
        assert isinstance(transport, asyncio.Transport)
        for _ in range(20):
            connection.data_received(b"x")
            now += gap
        assert transport.is_reading() is not pauses
        connection.abort()
