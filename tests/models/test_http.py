from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import h11
import pytest
from tests.models.raw_server import Talk, answering, raw_server, read_request, saying_nothing, until
from tests.support.tls_server import tls_server

from fairlead.core.runtime import CancelToken
from fairlead.errors import ProviderError
from fairlead.models.http.client import Http, HttpRequest, RequestAborted
from fairlead.models.http.connection import HttpConnection, explain
from fairlead.models.http.exchange import receive_head
from fairlead.testing import ProviderServer

if TYPE_CHECKING:
    import trustme

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def post(url: str, body: bytes = b"{}", headers: list[tuple[str, str]] | None = None) -> HttpRequest:
    return HttpRequest("POST", url, headers or [], body)


async def fetch(http: Http, url: str, body: bytes = b"{}", cancel: CancelToken | None = None) -> tuple[int, bytes]:
    async with http.stream(post(url, body), cancel or CancelToken()) as response:
        return response.status, await response.read()


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


async def test_when_the_rest_is_noise_the_connection_is_kept_once_it_has_come() -> None:
    async with ProviderServer([{"raw": ["first", "second"], "holdAfter": 1}]) as server:
        http = Http(env={})
        async with http.stream(post(f"{server.url}/messages"), CancelToken()) as response:
            assert await anext(aiter(response.chunks())) == b"first"
            response.rest_is_noise = True
        server.release()
        await until(lambda: http.idle_connections == 1)
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
        await until(lambda: http.idle_connections == 0)
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
async def test_what_is_no_url_says_so(url: str) -> None:
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


def test_a_change_of_protocol_that_was_not_requested_is_named() -> None:
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


async def test_a_reader_that_takes_its_time_is_no_silence_of_the_server() -> None:
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


async def test_a_slow_upload_is_no_silence() -> None:
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


async def test_an_answer_that_comes_before_the_whole_request_was_read_is_heard() -> None:
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


# aborting


async def test_nothing_is_sent_after_an_abort() -> None:
    async with raw_server(saying_nothing()) as server:
        cancel = CancelToken()
        cancel.fire()
        with pytest.raises(RequestAborted):
            await fetch(Http(env={}), server.url, cancel=cancel)
        assert server.connections == 0


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("size", [2, 32 << 20], ids=["waiting for the head", "sending"])
async def test_an_abort_ends_connecting_sending_and_waiting_at_once(scheme: str, size: int) -> None:
    # A server that says nothing holds up https in the handshake, http after the request.
    async with raw_server(saying_nothing()) as server:
        cancel = CancelToken()
        url = server.url.replace("http", scheme)
        request = asyncio.create_task(fetch(Http(env={}), url, b"x" * size, cancel))
        await server.connected.wait()
        cancel.fire()
        with pytest.raises(RequestAborted):
            await asyncio.wait_for(request, 5)
        await asyncio.wait_for(server.left.wait(), 5)


async def test_an_abort_ends_reading_at_once() -> None:
    async with ProviderServer([{"text": "x" * 1000, "hangAfter": 2}]) as server:
        cancel = CancelToken()
        http = Http(env={})
        with pytest.raises(RequestAborted):
            async with http.stream(post(f"{server.url}/messages"), cancel) as response:
                async for _ in response.chunks():
                    asyncio.get_running_loop().call_soon(cancel.fire)
        await asyncio.wait_for(server.until(lambda server: server.disconnections == 1), 5)
        assert http.idle_connections == 0


async def test_nothing_is_read_after_an_abort() -> None:
    async with raw_server(answering(OK)) as server:
        cancel = CancelToken()
        with pytest.raises(RequestAborted):
            async with Http(env={}).stream(post(server.url), cancel) as response:
                cancel.fire()
                await response.read()


async def test_a_cancelled_task_closes_its_connection() -> None:
    async with ProviderServer([{"text": "x", "hangAfter": 1}]) as server:
        request = asyncio.create_task(fetch(Http(env={}), f"{server.url}/messages"))
        await server.until(lambda server: len(server.requests) == 1)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await asyncio.wait_for(server.until(lambda server: server.disconnections == 1), 5)


async def test_an_abort_after_the_answer_leaves_the_connection_alone() -> None:
    async with ProviderServer([{"text": "x"}]) as server:
        http, cancel = Http(env={}), CancelToken()
        await fetch(http, f"{server.url}/messages", cancel=cancel)
        cancel.fire()
        await fetch(http, f"{server.url}/messages")
        assert server.connections == 1
        await http.close()


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


async def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
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


async def test_a_first_read_that_brings_the_head_and_a_great_deal_of_the_body_loses_nothing() -> None:
    body = b"x" * 200_000

    async def read() -> bytes:
        return b"HTTP/1.1 200 OK\r\n\r\n" + body

    wire = h11.Connection(h11.CLIENT)
    wire.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    wire.send(h11.EndOfMessage())
    answer, rest = await receive_head(wire, read)
    assert (answer.status_code, rest) == (200, body)


async def _drop_by_drop(pieces: list[bytes]) -> list[bytes]:
    """What a reader gets of pieces that are sent one by one, each when the one before could have been read; then the end."""
    ours, theirs = socket.socketpair()
    with theirs:
        _, connection = await asyncio.get_running_loop().create_connection(HttpConnection, sock=ours)
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


async def test_large_pieces_are_read_as_they_come() -> None:
    pieces = [b"x" * 5000] * 60
    assert len(await _drop_by_drop(pieces)) >= 50
