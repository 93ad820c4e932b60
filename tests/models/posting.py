"""One request over HTTP, and its answer."""

from __future__ import annotations

from fairlead.core.runtime import CancelToken
from fairlead.models.http.http_client import Http, HttpRequest

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def post(url: str, body: bytes = b"{}", headers: list[tuple[str, str]] | None = None) -> HttpRequest:
    return HttpRequest("POST", url, headers or [], body)


async def fetch(http: Http, url: str, body: bytes = b"{}", cancel: CancelToken | None = None) -> tuple[int, bytes]:
    async with http.stream(post(url, body), cancel or CancelToken()) as response:
        return response.status, await response.read()
