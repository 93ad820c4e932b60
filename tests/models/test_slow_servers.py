"""Servers that never fall silent and never come to the point: each phase of an answer has an end."""

from __future__ import annotations

import asyncio
from itertools import cycle

import pytest
from tests.models.raw_server import RawServer, Talk, raw_server

from fairlead.core.runtime import CancelToken
from fairlead.errors import ProviderError
from fairlead.models.apis.sending import send
from fairlead.models.http.http_client import Http, HttpRequest

#: Seconds of silence that are allowed here, and between two drops.
IDLE, DROP = 0.3, 0.02


def dripping(start: bytes, drops: bytes) -> Talk:
    """Says `start`, then `drops` byte by byte, over and over, until the client leaves."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(start)
        for byte in cycle(drops):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(DROP)

    return talk


def ask(talk: Talk, patience: float | None = None) -> bytes:
    async def main() -> bytes:
        async with raw_server(talk) as server:
            return await body_of(server, patience)

    return asyncio.run(main())


async def body_of(server: RawServer, patience: float | None) -> bytes:
    http = Http(idle_timeout=IDLE)
    try:
        async with asyncio.timeout(30), http.stream(HttpRequest("POST", server.url, [], b"{}"), CancelToken()) as response:
            return await response.read(patience=patience)
    finally:
        await http.close()


@pytest.mark.parametrize(
    ("start", "drops", "words"),
    [
        pytest.param(b"", b"HTTP/1.1 200 OK\r\nx-a: " + b"a" * 60_000, "complete head", id="head"),
        pytest.param(b"", b"HTTP/1.1 102 Processing\r\n\r\n", "complete head", id="interim responses"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", b"x-a: b\r\n" * 5_000, "complete head", id="headers"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1;" + b"a" * 4_000, "framing", id="chunk extension"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", b"x-trailer: a\r\n" * 4_000, "framing", id="trailers"
        ),
    ],
)
def test_a_trickling_response_is_cut_off(start: bytes, drops: bytes, words: str) -> None:
    with pytest.raises(ProviderError, match=words) as caught:
        ask(dripping(start, drops))
    assert caught.value.transient


def test_interim_answers_are_counted() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1_000 + b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await reader.read()

    with pytest.raises(ProviderError, match="interim responses"):
        ask(talk)


def test_of_a_body_in_drops_what_has_come_in_time_is_shown() -> None:
    assert ask(dripping(b"HTTP/1.1 500 Oops\r\n\r\nbecause ", b"."), patience=0.5).startswith(b"because .")


async def test_a_server_that_is_not_ready_and_says_so_in_drops_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.models.apis.sending._BODY_SECONDS", 0.5)
    http = Http(idle_timeout=IDLE)
    async with raw_server(dripping(b"HTTP/1.1 503 Busy\r\n\r\ntoo busy ", b".")) as server, asyncio.timeout(30):
        request = HttpRequest("POST", server.url, [], b"{}")
        async with send(http, request, CancelToken()) as (_, body):
            await http.close()
    assert (body or b"").startswith(b"too busy .")


@pytest.mark.parametrize("digits", [19, 400, 5_000])
def test_a_length_that_cannot_be_is_a_providers_error(digits: int) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %b\r\n\r\n" % (b"9" * digits))
        await reader.read()

    with pytest.raises(ProviderError, match="which is impossible"):
        ask(talk)
