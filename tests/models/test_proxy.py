from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest
from tests.models.raw_server import Talk, answering, raw_server, saying_nothing
from tests.support.tls_server import tls_server

from fairlead.core.runtime import CancelToken
from fairlead.errors import ProviderError
from fairlead.models.http.http_client import Http, HttpRequest, RequestAborted
from fairlead.models.http.proxy import proxy_for
from fairlead.testing import ProviderServer

if TYPE_CHECKING:
    import trustme


def chosen(url: str, env: Mapping[str, str]) -> str | None:
    scheme, _, rest = url.partition("://")
    host, _, port = rest.rpartition(":")
    proxy = proxy_for(scheme, host.strip("[]"), int(port), env)
    return None if proxy is None else f"{proxy.host}:{proxy.port}"


@pytest.mark.parametrize(
    ("url", "env", "expected"),
    [
        ("https://a.test:443", {}, None),
        ("https://a.test:443", {"HTTPS_PROXY": "http://p.test:1"}, "p.test:1"),
        ("https://a.test:443", {"HTTPS_PROXY": "p.test:1"}, "p.test:1"),
        ("https://a.test:443", {"HTTPS_PROXY": "http://p.test"}, "p.test:1080"),
        ("https://a.test:443", {"HTTPS_PROXY": "http://[::1]:3"}, "::1:3"),
        ("https://a.test:443", {"https_proxy": "lower.test:1", "HTTPS_PROXY": "upper.test:1"}, "lower.test:1"),
        ("https://a.test:443", {"HTTP_PROXY": "http://p.test:1"}, None),
        ("http://a.test:80", {"HTTP_PROXY": "http://p.test:1"}, "p.test:1"),
        ("http://a.test:80", {"HTTP_PROXY": "http://p.test:1", "REQUEST_METHOD": "GET"}, None),
        ("http://a.test:80", {"http_proxy": "http://p.test:1", "REQUEST_METHOD": "GET"}, "p.test:1"),
        ("http://a.test:80", {"ALL_PROXY": "http://p.test:1"}, "p.test:1"),
        ("https://a.test:443", {"ALL_PROXY": "all.test:1", "HTTPS_PROXY": "p.test:1"}, "p.test:1"),
        ("https://a.test:443", {"ALL_PROXY": "all.test:1", "HTTPS_PROXY": ""}, None),
        ("http://127.0.0.1:80", {"ALL_PROXY": "p.test:1"}, "p.test:1"),
    ],
)
def test_the_proxy_of_a_url(url: str, env: Mapping[str, str], expected: str | None) -> None:
    assert chosen(url, env) == expected


@pytest.mark.parametrize(
    ("no_proxy", "url", "direct"),
    [
        ("*", "https://a.test:443", True),
        ("a.test", "https://a.test:443", True),
        ("A.Test", "https://a.TEST:443", True),
        (".a.test", "https://a.test:443", True),
        ("a.test", "https://deep.a.test:443", True),
        ("a.test", "https://nota.test:443", False),
        ("b.test, a.test", "https://a.test:443", True),
        ("b.test a.test", "https://a.test:443", True),
        ("a.test:443", "https://a.test:443", True),
        ("a.test:8443", "https://a.test:443", False),
        ("127.0.0.1", "http://127.0.0.1:80", True),
        ("127.0.0.1", "http://127.0.0.10:80", False),
        ("0.1", "http://127.0.0.1:80", False),
        ("127.0.0.1:81", "http://127.0.0.1:80", False),
        ("10.0.0.0/8", "http://10.1.2.3:80", True),
        ("10.0.0.0/8", "http://11.1.2.3:80", False),
        ("::1", "http://[::1]:80", True),
        ("[::1]:80", "http://[::1]:80", True),
        ("[::1]:81", "http://[::1]:80", False),
        ("", "https://a.test:443", False),
        (",", "https://a.test:443", False),
    ],
)
def test_no_proxy_patterns_match_hosts(no_proxy: str, url: str, direct: bool) -> None:
    env = {"ALL_PROXY": "http://p.test:1", "NO_PROXY": no_proxy}
    assert (chosen(url, env) is None) == direct


@pytest.mark.parametrize("value", ["https://p.test:1", "socks5://p.test:1"])
def test_kinds_of_proxies_that_cannot_be_used_are_reported(value: str) -> None:
    with pytest.raises(ProviderError, match=f"HTTPS_PROXY names a {value.split(':')[0]}:// proxy"):
        chosen("https://a.test:443", {"HTTPS_PROXY": value})


@pytest.mark.parametrize("value", ["http://", "http://p.test:port", "http://["])
def test_an_invalid_proxy_is_named_without_its_password(value: str) -> None:
    with pytest.raises(ProviderError, match="HTTPS_PROXY is not the URL of a proxy"):
        chosen("https://a.test:443", {"HTTPS_PROXY": value})


class Proxying:
    """A real proxy: tunnels for CONNECT, forwards other requests; keeps the heads it was sent."""

    def __init__(self, credentials: str | None = None) -> None:
        self.heads: list[str] = []
        self._credentials = credentials

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        if self._credentials is not None and self._credentials not in _credentials(head):
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            return
        method, target, _ = head.split("\r\n")[0].split(" ")
        place = target if method == "CONNECT" else target.split("/")[2]
        host, _, port = place.rpartition(":")
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            return
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            far_writer.write(head.replace(f"http://{place}", "").encode())
        try:
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            far_writer.transport.abort()


def _credentials(head: str) -> list[str]:
    lines = [line for line in head.split("\r\n") if line.lower().startswith("proxy-authorization: basic ")]
    return [b64decode(line.split(" ")[2]).decode() for line in lines]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.transport.abort()


async def fetch(http: Http, url: str, cancel: CancelToken | None = None) -> bytes:
    async with http.stream(HttpRequest("POST", url, [], b"{}"), cancel or CancelToken()) as response:
        return await response.read()


async def test_https_goes_through_a_tunnel_with_the_proxys_credentials(authority: trustme.CA, authority_file: str) -> None:
    proxying = Proxying("me@home:pass word")
    async with tls_server(authority) as server, raw_server(proxying.talk) as proxy:
        env = {"SSL_CERT_FILE": authority_file, "HTTPS_PROXY": f"http://me%40home:pass%20word@127.0.0.1:{proxy.port}"}
        http = Http(env=env)
        for _ in range(2):
            assert b"message_stop" in await fetch(http, f"{server.url}/v1/messages")
        assert [head.split("\r\n")[0] for head in proxying.heads] == [f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"]
        assert "proxy-authorization" not in server.requests[0].headers
        await http.close()


async def test_http_asks_the_proxy_for_the_whole_url() -> None:
    proxying = Proxying("user:secret")
    async with ProviderServer([{"text": "x"}]) as server, raw_server(proxying.talk) as proxy:
        http = Http(env={"http_proxy": f"http://user:secret@127.0.0.1:{proxy.port}"})
        assert b"message_stop" in await fetch(http, f"{server.url}/v1/messages?a=b")
        assert proxying.heads[0].startswith(f"POST {server.url}/v1/messages?a=b HTTP/1.1\r\n")
        await http.close()


async def test_no_proxy_reaches_the_server_directly() -> None:
    proxying = Proxying()
    async with ProviderServer([{"text": "x"}]) as server, raw_server(proxying.talk) as proxy:
        http = Http(env={"http_proxy": f"http://127.0.0.1:{proxy.port}", "no_proxy": "127.0.0.1"})
        assert b"message_stop" in await fetch(http, f"{server.url}/v1/messages")
        assert proxying.heads == []
        await http.close()


def failing_proxy(talk: Talk, user: str = "") -> ProviderError:
    async def run() -> None:
        async with raw_server(talk) as proxy:
            await fetch(Http(env={"HTTPS_PROXY": f"http://{user}127.0.0.1:{proxy.port}"}), "https://127.0.0.1:9/")

    with pytest.raises(ProviderError) as caught:
        asyncio.run(run())
    return caught.value


def test_a_proxy_that_wants_credentials_says_so_without_showing_those_given() -> None:
    error = failing_proxy(Proxying("right:right").talk, "wrong:secret@")
    assert "requires a user and a password" in str(error)
    assert "secret" not in str(error)
    assert not error.transient


def test_a_proxy_that_cannot_reach_the_server_says_so() -> None:
    error = failing_proxy(Proxying().talk)
    assert "refused to connect to 127.0.0.1:9: 502 Bad Gateway" in str(error)
    assert error.transient


def test_a_proxy_that_hangs_up_says_so() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    assert "ended the connection to 127.0.0.1:9 without an answer" in str(failing_proxy(talk))


async def test_a_proxy_that_does_not_run_is_named_as_a_proxy() -> None:
    http = Http(env={"HTTP_PROXY": "http://127.0.0.1:9"})
    with pytest.raises(ProviderError, match=r"refused by the proxy 127\.0\.0\.1:9, .* NO_PROXY=models\.test does without it"):
        await fetch(http, "http://models.test/v1")
    await http.close()


async def test_an_abort_does_not_wait_for_a_proxy() -> None:
    async with raw_server(saying_nothing()) as proxy:
        cancel = CancelToken()
        http = Http(env={"HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}"})
        request = asyncio.create_task(fetch(http, "https://127.0.0.1:9/", cancel))
        await proxy.connected.wait()
        cancel.fire()
        with pytest.raises(RequestAborted):
            await asyncio.wait_for(request, 5)
        await asyncio.wait_for(proxy.left.wait(), 5)


def test_a_proxy_whose_answer_makes_no_sense_is_shown() -> None:
    error = failing_proxy(answering(b"SSH-2.0-OpenSSH_9\r\n\r\n"))
    assert str(error).startswith("The proxy 127.0.0.1:") and "did not answer in HTTP" in str(error)
    assert not error.transient
