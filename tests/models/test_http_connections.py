"""Connections to a provider: shared, kept, replaced, encrypted, and those that cannot be opened."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.models.posting import OK, fetch, post
from tests.models.raw_server import answering, raw_server, read_request, saying_nothing, until
from tests.support.connections import count_idle
from tests.support.tls_server import tls_server

from fairlead.core.runtime import CancelToken
from fairlead.errors import ProviderError
from fairlead.models.http.http_client import Http
from fairlead.models.http.http_connection import explain
from fairlead.testing import ProviderServer

if TYPE_CHECKING:
    import trustme


async def test_requests_share_a_connection() -> None:
    async with ProviderServer([{"text": "x"}]) as server:
        http = Http(env={})
        for _ in range(3):
            await fetch(http, f"{server.url}/v1/messages")
        assert [request.connection for request in server.requests] == [0, 0, 0]
        await http.close()
        await server.until(lambda server: server.disconnections == 1)


async def test_requests_at_the_same_time_have_connections_of_their_own() -> None:
    async with ProviderServer([{"text": "x", "holdAfter": 1}]) as server:
        http = Http(env={})
        both = asyncio.gather(*(fetch(http, f"{server.url}/messages") for _ in range(2)))
        await server.until(lambda server: len(server.requests) == 2)
        assert server.connections == 2
        server.release()
        await both
        await http.close()


async def test_a_connection_whose_answer_was_not_read_to_the_end_is_not_used_again() -> None:
    async with ProviderServer([{"text": "x" * 100_000, "hangAfter": 1}, {"text": "y"}]) as server:
        http = Http(env={})
        async with http.stream(post(f"{server.url}/messages"), CancelToken()) as response:
            assert await response.read(10)
        await server.until(lambda server: server.disconnections == 1)
        await fetch(http, f"{server.url}/messages")
        assert server.requests[1].connection == 1
        await http.close()


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["", "although its run has ended"])
async def test_when_the_rest_is_noise_the_connection_is_kept_once_it_has_come(is_cancelled: bool) -> None:
    async with ProviderServer([{"raw": ["first", "second"], "holdAfter": 1}]) as server:
        http, cancel = Http(env={}), CancelToken()
        async with http.stream(post(f"{server.url}/messages"), cancel) as response:
            assert await anext(aiter(response.chunks())) == b"first"
            response.rest_is_noise = True
        if is_cancelled:
            cancel.fire()
        server.release()
        await until(lambda: count_idle(http) == 1)
        await fetch(http, f"{server.url}/messages")
        assert server.connections == 1
        await http.close()


async def test_a_connection_that_the_server_closed_meanwhile_is_replaced() -> None:
    async with ProviderServer([{"text": "x"}]) as server:
        http = Http(env={})
        await fetch(http, f"{server.url}/messages")
        server.close_connections()
        await server.until(lambda server: server.disconnections == 1)
        assert (await fetch(http, f"{server.url}/messages"))[0] == 200
        assert server.connections == 2
        await http.close()


async def test_a_kept_connection_that_ends_without_a_byte_is_replaced_once() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await read_request(reader)  # the second request gets no answer

    async with raw_server(talk) as server:
        http = Http(env={})
        await fetch(http, server.url)
        assert await fetch(http, server.url) == (200, b"ok")
        assert server.connections == 2
        await http.close()


async def test_a_kept_connection_that_breaks_within_its_answer_is_not_replaced() -> None:
    async with raw_server(answering(OK, b"HTTP/1.1 200 OK\r\ncontent-")) as server:
        http = Http(env={})
        await fetch(http, server.url)
        with pytest.raises(ProviderError, match="in the head of its answer") as caught:
            await fetch(http, server.url)
        assert caught.value.transient
        assert server.connections == 1
        await http.close()


async def test_a_fresh_connection_without_an_answer_is_an_error_at_once() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)

    async with raw_server(talk) as server:
        with pytest.raises(ProviderError, match="closed the connection without an answer") as caught:
            await fetch(Http(env={}), server.url)
        assert caught.value.transient
        assert server.connections == 1


async def test_a_farewell_on_an_idle_connection_is_not_taken_for_an_answer() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        if server.connections == 1:
            await writer.drain()
            await released.wait()
            writer.write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        await reader.read()

    released = asyncio.Event()
    async with raw_server(talk) as server:
        http = Http(env={})
        await fetch(http, server.url)
        released.set()
        await until(lambda: count_idle(http) == 0)
        assert await fetch(http, server.url) == (200, b"ok")
        assert server.connections == 2
        await http.close()


async def test_a_refused_connection_says_so() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(ProviderError, match=f"connection refused by 127.0.0.1:{port}") as caught:
            await fetch(Http(env={}), f"http://127.0.0.1:{port}")
    assert caught.value.transient


def test_an_unknown_host_says_so() -> None:
    error = explain(socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "nowhere.test", 443)
    assert "nowhere.test could not be found" in str(error)
    assert error.transient


@pytest.mark.parametrize("url", ["", "api.example.com", "ftp://127.0.0.1/", "http://", "http://127.0.0.1:x/", "http://[::1/"])
async def test_malformed_urls_are_reported(url: str) -> None:
    with pytest.raises(ProviderError, match="is not an http:// or https:// URL"):
        await fetch(Http(env={}), url)


async def test_a_host_name_that_cannot_be_one_says_so() -> None:
    with pytest.raises(ProviderError, match="is not a host name"):
        await fetch(Http(env={}), f"http://{'a' * 64}.test/")


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding", "Connection"])
async def test_a_header_that_says_where_a_request_ends_cannot_be_configured(name: str) -> None:
    async with raw_server(saying_nothing()) as server:
        with pytest.raises(ProviderError, match=f"{name}.* Remove it from the headers"):
            async with Http(env={}).stream(post(server.url, b"{}", [(name, "5")]), CancelToken()):
                pass


async def test_every_address_of_a_host_is_tried() -> None:
    # `localhost` may be ::1 first, where no server listens.
    async with raw_server(answering(OK)) as server:
        assert await fetch(Http(env={}), f"http://localhost:{server.port}/") == (200, b"ok")


# TLS


async def test_https_with_an_authority_of_ones_own(authority: trustme.CA, authority_file: str) -> None:
    async with tls_server(authority) as server:
        http = Http(env={"SSL_CERT_FILE": authority_file})
        for _ in range(2):
            status, body = await fetch(http, f"{server.url}/v1/messages")
            assert status == 200
            assert b"message_stop" in body
        assert server.connections == 1
        await http.close()


async def test_a_certificate_of_an_unknown_authority_is_refused(authority: trustme.CA) -> None:
    async with tls_server(authority) as server:
        with pytest.raises(ProviderError, match=r"could not be verified.*SSL_CERT_FILE") as caught:
            await fetch(Http(env={}), f"{server.url}/v1/messages")
        assert not caught.value.transient


async def test_a_certificate_of_another_host_is_refused(authority: trustme.CA, authority_file: str) -> None:
    async with tls_server(authority, "other.test") as server:
        with pytest.raises(ProviderError, match="could not be verified"):
            await fetch(Http(env={"SSL_CERT_FILE": authority_file}), f"{server.url}/v1/messages")


async def test_https_to_a_server_of_http_says_so() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with raw_server(talk) as server:
        with pytest.raises(ProviderError, match=r"TLS handshake with .* failed.*If it speaks http, write http://"):
            await fetch(Http(env={}), server.url.replace("http", "https"))


async def test_certificates_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.pem")
    with pytest.raises(ProviderError, match=r"SSL_CERT_FILE .*none\.pem"):
        await fetch(Http(env={"SSL_CERT_FILE": missing}), "https://127.0.0.1:9/")


async def test_a_connection_that_takes_too_long_to_open_is_given_up() -> None:
    client = Http(connect_timeout=0.1, env={})
    client.load("https://")  # or a busy machine spends that time on TLS, and never gets to the server
    async with raw_server(saying_nothing()) as server:
        with pytest.raises(ProviderError, match=r"timeout.*within 0\.1 s") as caught:
            await fetch(client, server.url.replace("http", "https"))
        assert caught.value.transient
        await asyncio.wait_for(server.left.wait(), 5)
