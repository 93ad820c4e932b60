"""Reaching an MCP server, in either of the two ways: a child process, or streamable HTTP."""

from __future__ import annotations

import asyncio
import select
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from fairlead import __version__
from fairlead.core.secrets import learn_headers, learn_url, learn_variables, redacted
from fairlead.errors import ConfigError
from fairlead.extend.mcp.child import Child, NotAMessage, transport
from fairlead.extend.mcp.config import ServerConfig
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from mcp import Client, types
    from mcp.client import Transport


#: Seconds that a server on the network has to hear that a session is over.
_FAREWELL = 0.2
#: Seconds until nobody is there who answers, and until a stream in which nothing comes counts as broken.
_HTTP_CONNECT, _HTTP_SILENCE = 30.0, 300.0


class Link:
    """The way to a server. `lost` has the reason, as the end of a sentence, once it is broken."""

    def __init__(self) -> None:
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.child: Child | None = None
        #: The last HTTP status that was an error.
        self.status: int | None = None
        self.session_id: str | None = None


@asynccontextmanager
async def connected(
    link: Link, config: ServerConfig, workspace: Workspace, on_message: Callable[[types.ServerNotification], Awaitable[None]]
) -> AsyncGenerator[Client]:
    """A client of the server, ready for requests, as long as the block lasts."""
    from mcp import Client, types

    say = Voice(config.name)

    async def heard(message: types.ServerNotification | Exception) -> None:
        if isinstance(message, NotAMessage):
            say(str(message))
        elif not isinstance(message, Exception):
            await on_message(message)

    async def logged(params: types.LoggingMessageNotificationParams) -> None:
        say(redacted(f"[{params.level}] {params.data}"))

    client = Client(
        await _transport(link, config, workspace),
        client_info=types.Implementation(name="fairlead", version=__version__),
        message_handler=heard,
        logging_callback=logged,
        log_level="info",
        cache=None,
    )
    async with client:
        yield client


async def _transport(link: Link, config: ServerConfig, workspace: Workspace) -> Transport:
    if config.url:
        return cast("Transport", _http(link, config))
    cwd = workspace.cwd if config.cwd is None else workspace.resolve(config.cwd)
    program, *arguments = config.command
    if "/" in program:
        program = str(workspace.resolve(program))
    learn_variables(config.env.items())
    link.child = await Child.start([program, *arguments], {**workspace.env, **config.env}, str(cwd))
    link.lost = link.child.lost
    return transport(link.child)


@asynccontextmanager
async def _http(link: Link, config: ServerConfig) -> AsyncGenerator[tuple[Any, Any]]:
    import anyio
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def look(response: httpx2.Response) -> None:
        if response.status_code >= 400:
            link.status = response.status_code
        link.session_id = response.headers.get("mcp-session-id", link.session_id)

    learn_headers(config.headers.items())
    learn_url(config.url)
    try:
        http = httpx2.AsyncClient(
            headers=dict(config.headers),
            timeout=httpx2.Timeout(_HTTP_CONNECT, read=_HTTP_SILENCE),
            event_hooks={"response": [look]},
        )
    except (ValueError, TypeError) as error:
        raise ConfigError(f"its headers cannot be sent: {error}.") from None
    async with http, streamable_http_client(config.url, http_client=http, terminate_on_close=False) as streams:
        try:
            yield streams
        finally:
            if link.session_id is not None:
                # Bounded, unlike the package's own: a process that has to exit cannot wait for somebody else's server.
                with anyio.move_on_after(_FAREWELL, shield=True):
                    await _say_goodbye(http, config.url, link.session_id)


async def _say_goodbye(http: Any, url: str, session_id: str) -> None:
    import contextlib

    import httpx2

    with contextlib.suppress(httpx2.HTTPError):
        await http.delete(url, headers={"mcp-session-id": session_id})


class Voice:
    """What a server says, on standard error, as far as somebody reads that. A flood is cut short."""

    #: The characters that are shown of something, and how many things are shown in how many seconds.
    LONGEST, MOST, SECONDS = 1000, 100, 10.0

    def __init__(self, server: str) -> None:
        self._server = server
        self._since = float("-inf")
        self._said = 0

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now - self._since > self.SECONDS:
            self._since, self._said = now, 0
        self._said += 1
        if self._said > self.MOST or not _is_read():
            return
        visible = "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text[: self.LONGEST])
        more = " …" if len(text) > self.LONGEST else ""
        sys.stderr.write(f"mcp:{self._server}: {visible}{more}\n")
        if self._said == self.MOST:
            sys.stderr.write(f"mcp:{self._server}: says too much; for {self.SECONDS:g} seconds nothing more of it is shown.\n")


def _is_read() -> bool:
    """Whether standard error can be written without waiting for whoever should read it."""
    try:
        return bool(select.select([], [sys.stderr], [], 0)[1])
    except (OSError, ValueError):  # it is no file that can be asked
        return True


def why(error: BaseException, link: Link) -> str:
    """What went wrong, as the end of a sentence."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseException", error.exceptions[0])
    text = redacted(str(error)).rstrip(".") or type(error).__name__
    if link.lost.done():
        return link.lost.result()
    if isinstance(error, ConfigError):
        return text
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, ValueError):
        return f"its answer cannot be understood: {in_short(error)}"
    if link.status is not None:
        return f"{text} (HTTP status {link.status})"
    return text


def in_short(error: Exception) -> str:
    """What the package says of something that cannot be understood, on one line."""
    return redacted(" ".join(str(error).split()))[:300]


Page = TypeVar("Page", bound="Paged")
Item = TypeVar("Item")

#: Pages of a list that no server has reason to exceed.
_MOST = 1000


class Paged(Protocol):
    next_cursor: str | None


async def all_pages(fetch: Callable[..., Awaitable[Page]], items: Callable[[Page], list[Item]]) -> list[Item]:
    """All of a list. It ends early if the server leads in a circle."""
    from mcp import types

    page = await fetch()
    found = items(page)
    seen: set[str] = set()
    while page.next_cursor is not None and page.next_cursor not in seen and len(seen) < _MOST:
        seen.add(page.next_cursor)
        page = await fetch(params=types.PaginatedRequestParams(cursor=page.next_cursor))
        found = found + items(page)
    return found
