"""One MCP server: connected when it is needed, kept, and started again after it has ended by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec import Struct

from fairlead.core.runtime import Cancel
from fairlead.core.secrets import redacted
from fairlead.errors import ToolError
from fairlead.extend.mcp.config import ServerConfig
from fairlead.session.subagents.subagent import cut
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from mcp import Client, ClientSession, types

    from fairlead.extend.mcp.connection import McpConnection


T = TypeVar("T")

#: Told what is wrong with a server: which, of what kind it is, and a sentence.
ReportProblem: TypeAlias = Callable[["McpServer", str, str], None]

#: Seconds that connecting may take: the program may first have to be downloaded.
CONNECT_LIMIT = 120.0
#: How often a server is started again before one of its calls has succeeded, and the seconds before each further time.
RESTARTS = 5
_PAUSES = (0.0, 1.0, 2.0, 4.0, 8.0)
_GIVEN_UP = f"It is not tried again: this was the {RESTARTS + 1}th time in a row."
#: Seconds that a server has to leave by itself, and that the reason of its end may take to become known.
_END_WAIT, _REASON_WAIT = 0.15, 0.5
#: How the package words that a server has forgotten a session (HTTP status 404), and that there is no way to it any more. Servers
#: use the code of the latter for whatever they like.
_FORGOTTEN, _CLOSED = "Session terminated", ("Connection closed", "SSE stream ")
#: Characters of a refusal that are passed on.
_MAX_REFUSAL_CHARS = 4000
#: Seconds that a server has to say that it will tell of changes.
_SUBSCRIBE_TIMEOUT = 2.0


class Offer(Struct, frozen=True):
    """What a connected server has."""

    tools: list[types.Tool]
    prompts: list[types.Prompt]
    resources: bool


class McpServer:
    """One configured MCP server, and the connection to it.

    `offer` is what the server offered when it was last asked; it stays while the server is not connected. `on_offer` gets
    every new offer. `report_problem` is called when the server cannot be connected ("connect"), has ended by itself ("crash") or
    has sent a list that cannot be understood ("list").
    """

    def __init__(
        self,
        config: ServerConfig,
        key: str,
        workspace: Workspace,
        on_offer: Callable[[McpServer], None],
        report_problem: ReportProblem,
    ) -> None:
        self.config = config
        self.key = key
        self.offer = Offer([], [], False)
        self._workspace = workspace
        self._on_offer = on_offer
        self._report_problem = report_problem
        self._client: Client | None = None
        self._connection: McpConnection | None = None
        self._connection_task: asyncio.Task[None] | None = None
        #: Done when the present attempt to connect, or to learn of changes, is over, one way or the other.
        self._attempt: asyncio.Future[None] | None = None
        self._began_at = 0.0
        self._failures = 0
        self._retry_at = 0.0
        self._reason = ""
        self._closing = False
        self._was_connected = False
        self._fetch_lock = asyncio.Lock()

    # Connecting

    def connect(self) -> None:
        """Begin to connect, unless that has been done, or has failed so often or recently that it is left alone.

        One that has ended since is not started again before somebody calls it.
        """
        is_due = self._failures <= RESTARTS and time.monotonic() >= self._retry_at
        if self._connection_task is None and not self._was_connected and is_due:
            self._start_connecting()

    async def wait_until_settled(self, timeout: float, cancel: Cancel) -> None:
        """Wait until it is connected or has failed to, but at most until `timeout` seconds after it began, or an abort."""
        if self._attempt is not None and not self._attempt.done():
            await wait_or_cancel(cancel, self._attempt, self._began_at + timeout - time.monotonic())

    async def close(self) -> None:
        """End it: asked first, then made to."""
        self._closing = True
        if self._connection is not None and self._connection.process is not None:
            self._connection.process.terminate()
            await asyncio.wait([self._connection.process.lost], timeout=_END_WAIT)
        task, self._connection_task = self._connection_task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def kill(self) -> None:
        """End it at once, for a process that is about to exit."""
        self._closing = True
        if self._connection is not None and self._connection.process is not None:
            self._connection.process.kill()

    def _start_connecting(self) -> None:
        self._connection_task = asyncio.create_task(self._run_connection(self._new_attempt()), name=f"fairlead-mcp-{self.key}")

    def _new_attempt(self) -> asyncio.Future[None]:
        self._began_at = time.monotonic()
        attempt = self._attempt = asyncio.get_running_loop().create_future()
        return attempt

    async def _run_connection(self, attempt: asyncio.Future[None]) -> None:
        """Connect, stay connected, and end. All of it in one task, as the package demands."""
        from fairlead.extend.mcp.connection import McpConnection, connected_client, failure_reason

        connection = self._connection = McpConnection()
        try:
            await asyncio.sleep(max(0.0, self._retry_at - time.monotonic()))
            async with (
                asyncio.timeout(CONNECT_LIMIT) as limit,
                connected_client(connection, self.config, self._workspace, self._on_notification) as client,
                _subscribed_to_changes(client),
            ):
                await self._fetch_offer(client)
                limit.reschedule(None)
                self._client = client
                self._was_connected = True
                attempt.set_result(None)
                await asyncio.shield(connection.lost)
            self._ended(attempt, connection.lost.result())
        except Exception as error:
            self._ended(attempt, failure_reason(error, connection))
        finally:
            if self._connection is connection:  # else another has taken its place, because a call found this one broken
                self._client = None
            if not attempt.done():
                attempt.set_result(None)

    def _ended(self, attempt: asyncio.Future[None], reason: str) -> None:
        if self._closing:
            return
        was_connected, is_news = attempt.done(), reason != self._reason
        self._client = self._connection_task = None
        self._reason = reason
        self._failures += 1
        self._retry_at = time.monotonic() + _PAUSES[min(self._failures, len(_PAUSES)) - 1]
        if was_connected:
            hope = "It is tried again when it is next needed." if self._failures <= RESTARTS else _GIVEN_UP
            self._report_problem(self, "crash", f"The {self._end_message()} {hope}")
        elif is_news:
            self._report_problem(self, "connect", f'The MCP server "{self.config.name}" could not be connected: {reason}.')

    def _end_message(self) -> str:
        how = "cannot be reached any more" if self.config.url else "has ended"
        return f'MCP server "{self.config.name}" {how}: {self._reason}.'

    async def _fetch_offer(self, client: Client) -> None:
        """Ask what the server has."""
        from fairlead.extend.mcp.connection import all_pages

        async with self._fetch_lock:
            has, session = client.server_capabilities, client.session
            tools = await all_pages(session.list_tools, lambda page: page.tools) if has.tools else []
            prompts = await all_pages(session.list_prompts, lambda page: page.prompts) if has.prompts else []
            self.offer = Offer(tools, prompts, has.resources is not None)
        self._on_offer(self)

    async def _on_notification(self, message: types.ServerNotification) -> None:
        from mcp import MCPError, types

        from fairlead.extend.mcp.connection import one_line

        if not isinstance(message, types.ToolListChangedNotification | types.PromptListChangedNotification):
            return
        client = self._client
        if client is None:  # what it has is about to be asked for anyway
            return
        attempt = self._new_attempt()
        try:
            await self._fetch_offer(client)
        except MCPError:
            pass  # it has ended meanwhile, which is told elsewhere
        except ValueError as error:
            text = f'The MCP server "{self.config.name}" says that it has other tools now, which cannot be understood: '
            self._report_problem(self, "list", text + one_line(error))
        finally:
            attempt.set_result(None)

    # Asking

    async def request(self, what: str, ask: Callable[[ClientSession], Awaitable[T]], cancel: Cancel) -> T:
        """The server's answer; it is connected first if need be. Raises ToolError if there is none, also because of an abort.

        An abort, and being cut off, is told to the server.
        """
        try:
            return await self._request(what, ask, cancel)
        except _SessionForgotten:
            # The server has done nothing yet, and expects to be greeted again.
            self._drop_connection()
            return await self._request(what, ask, cancel)

    async def _request(self, what: str, ask: Callable[[ClientSession], Awaitable[T]], cancel: Cancel) -> T:
        session = await self._session(what, cancel)
        from mcp import MCPError, types

        from fairlead.extend.mcp.connection import one_line

        asking = asyncio.ensure_future(ask(session))
        forget = cancel.on_fire(asking.cancel)
        try:
            answer = await asking
        except asyncio.CancelledError:
            if not cancel.fired:
                raise
            raise ToolError(f"{what} was aborted.") from None
        except MCPError as error:
            if error.message == _FORGOTTEN:
                raise _SessionForgotten(f"{what} failed: the server does not know this client any more.") from None
            if error.code == types.CONNECTION_CLOSED and error.message.startswith(_CLOSED):
                raise ToolError(f"{what} failed: {await self._why_ended()}") from None
            self._failures = 0
            raise ToolError(f"{what} failed: {cut(redacted(error.message), _MAX_REFUSAL_CHARS)}") from None
        except (ValueError, RuntimeError) as error:
            raise ToolError(f"{what} failed: the server's answer cannot be understood: {one_line(error)}") from None
        finally:
            forget()
        self._failures = 0
        return answer

    async def _session(self, what: str, cancel: Cancel) -> ClientSession:
        if self._client is None:
            if self._connection_task is None and self._failures > RESTARTS:
                raise ToolError(f"{what} failed: the {self._end_message()} {_GIVEN_UP}")
            if self._connection_task is None:
                self._start_connecting()
            assert self._attempt is not None, "whoever has begun has an attempt"
            await wait_or_cancel(cancel, self._attempt, None)
        if cancel.fired:
            raise ToolError(f"{what} was aborted.")
        if self._client is None:
            raise ToolError(f'{what} failed: the MCP server "{self.config.name}" could not be connected: {self._reason}.')
        return self._client.session

    def _drop_connection(self) -> None:
        if self._connection_task is not None:
            self._connection_task.cancel()
        self._connection_task = self._client = None

    async def _why_ended(self) -> str:
        """The end of the server that a call was waiting for, as a sentence."""
        if self._connection_task is not None:
            await asyncio.wait([self._connection_task], timeout=_REASON_WAIT)
        if self._connection_task is not None and self._attempt is not None:
            # The way to it is broken, although nobody has noticed yet; the next call makes a new one.
            self._drop_connection()
            self._ended(self._attempt, "the connection was lost")
        return f"the {self._end_message()}"


class _SessionForgotten(ToolError):
    """A server on the network has forgotten the session that a request belongs to."""


@asynccontextmanager
async def _subscribed_to_changes(client: Client) -> AsyncGenerator[None]:
    """Have the server tell of changes, from now on. Those of the protocol before 2026 do so unasked."""
    from mcp import MCPError
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

    begun = asyncio.Event()

    async def listen() -> None:
        try:
            async with client.listen(tools_list_changed=True, prompts_list_changed=True) as changes:
                begun.set()
                async for _ in changes:
                    pass  # the client's message handler hears of it, too
        except (ListenNotSupportedError, SubscriptionLost, MCPError):
            pass  # a server need not offer this
        finally:
            begun.set()

    listening = asyncio.create_task(listen())
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(_SUBSCRIBE_TIMEOUT):
                await begun.wait()
        yield
    finally:
        listening.cancel()


async def wait_or_cancel(cancel: Cancel, waited_for: asyncio.Future[Any], timeout: float | None) -> None:
    """Wait for something, but no longer than until `cancel` fires, or the time is over. What is waited for goes on."""
    fired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    forget = cancel.on_fire(lambda: fired.done() or fired.set_result(None))
    try:
        limit = None if timeout is None else max(timeout, 0.0)
        await asyncio.wait([waited_for, fired], timeout=limit, return_when=asyncio.FIRST_COMPLETED)
    finally:
        forget()
        fired.cancel()
