"""One MCP server: connected when it is needed, kept, and restarted after it ended by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from msgspec import Struct

from fairlead.core.runtime import CancelToken
from fairlead.core.secrets import redacted
from fairlead.errors import ToolError
from fairlead.extend.mcp import sdk
from fairlead.extend.mcp.config import McpStyle, ServerConfig
from fairlead.extend.mcp.connection import McpConnection, all_pages, connected_client, failure_reason, one_line
from fairlead.session.subagents.subagent import cut
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    import httpx2
    from mcp import Client, ClientSession, types

    from fairlead.extend.mcp.config import SignIns


T = TypeVar("T")

#: Reports a problem: the server, the kind of problem, and a sentence.
ReportProblem: TypeAlias = Callable[["McpServer", str, str], None]

#: Seconds that connecting may take. The program may have to be downloaded first.
CONNECT_LIMIT = 120.0
#: How often a server is restarted if no request succeeds in between, and the seconds before each restart.
RESTARTS = 5
_PAUSES = (0.0, 1.0, 2.0, 4.0, 8.0)
_GIVEN_UP = f"It is not reconnected, because this was the {RESTARTS + 1}th failure in a row."
#: Seconds that a server has to exit when asked, and to wait for the reason of its end.
_END_WAIT, _REASON_WAIT = 0.15, 0.5
#: How the `mcp` package words that a server has forgotten a session (HTTP status 404), and that the connection is closed. The
#: error code of the latter does not suffice, since servers use it for other errors too.
_FORGOTTEN, _CLOSED = "Session terminated", ("Connection closed", "SSE stream ")
#: How many characters of an error message from a server are shown.
_MAX_REFUSAL_CHARS = 4000
#: Seconds to wait for a server to confirm a subscription to changes.
_SUBSCRIBE_TIMEOUT = 2.0
#: Seconds between two fetches of an offer that changes again and again.
_REFRESH_PAUSE = 0.5


class Offer(Struct, frozen=True):
    """What a connected server offers."""

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
        sign_ins: SignIns,
        style: McpStyle,
    ) -> None:
        self.config = config
        self.style = style
        self.key = key
        self.offer = Offer([], [], False)
        self._workspace = workspace
        self._on_offer = on_offer
        self._report_problem = report_problem
        self._sign_ins = sign_ins
        self._client: Client | None = None
        self._connection: McpConnection | None = None
        self._connection_task: asyncio.Task[None] | None = None
        #: Done when the current attempt to connect, or to fetch changes, has succeeded or failed.
        self._attempt: asyncio.Future[None] | None = None
        self._began_at = 0.0
        self._failures = 0
        self._retry_at = 0.0
        self._reason = ""
        self._closing = False
        self._was_connected = False
        #: Whether it must not be connected until `reconnect`.
        self.is_disabled = False
        self._fetch_lock = asyncio.Lock()
        #: Whether the offer has changed since it was last asked for, and whether it is being fetched again.
        self._is_offer_old = self._is_refreshing = False

    @property
    def state(self) -> str:
        """What the user should know about the connection, in a few words."""
        if self._client is not None:
            tools, prompts = len(self.offer.tools), len(self.offer.prompts)
            more = f", {prompts} prompt{'s' * (prompts != 1)}" if prompts else ""
            return f"connected: {tools} tool{'s' * (tools != 1)}{more}"
        if self.is_disabled:
            return "disabled"
        if self._attempt is not None and not self._attempt.done():
            return "connecting"
        if self._connection is not None and self._connection.needs_sign_in:
            return f"needs a sign-in: fairlead mcp login {self.config.name}"
        return f"not connected: {self._reason}" if self._reason else "not connected"

    @property
    def status(self) -> Literal["connected", "disabled", "pending", "needs-auth", "failed"]:
        """The same for programs."""
        if self._client is not None:
            return "connected"
        if self.is_disabled:
            return "disabled"
        if self._connection is not None and self._connection.needs_sign_in:
            return "needs-auth"
        return "failed" if self._reason else "pending"

    @property
    def problem(self) -> str:
        """Why it is not connected, as a sentence; empty if it never failed."""
        if not self._reason or self._client is not None:
            return ""
        return f'The MCP server "{self.config.name}" could not be connected: {self._reason}.'

    @property
    def info(self) -> dict[str, str] | None:
        """The name and the version that the server gives itself; None while it is not connected."""
        info = None if self._client is None else self._client.server_info
        return None if info is None else {"name": info.name, "version": info.version}

    # Connecting

    async def disable(self) -> None:
        """Disconnect, and stay so until `reconnect`."""
        self.is_disabled = True
        await self.close()
        self._client = None
        self.offer = Offer([], [], False)

    async def reconnect(self, timeout: float) -> None:
        """Connect again, whatever has failed before, and wait for that. Raises ToolError if it fails."""
        await self.close()
        self._client = None
        self._closing = self.is_disabled = self._was_connected = False
        self._failures, self._retry_at, self._reason = 0, 0.0, ""
        self._start_connecting()
        await self.wait_until_settled(timeout, CancelToken())
        if self._client is None:
            raise ToolError(self.problem or f'The MCP server "{self.config.name}" is not connected yet.')

    async def receive(self, message: dict[str, Any]) -> bool:
        """Take a message that a server in another program sends by itself. Returns whether it is connected."""
        receive = None if self._connection is None else self._connection.receive
        if receive is not None:
            await receive(message)
        return receive is not None

    def connect(self) -> None:
        """Begin to connect, unless that was done before or has failed too often or too recently.

        A server that has ended since is restarted by the next request only.
        """
        is_due = self._failures <= RESTARTS and time.monotonic() >= self._retry_at
        if self._connection_task is None and not self._was_connected and is_due and not self.is_disabled:
            self._start_connecting()

    async def wait_until_settled(self, timeout: float, cancel: CancelToken) -> None:
        """Wait until connecting has succeeded or failed, `timeout` seconds have passed since it began, or `cancel` fires."""
        if self._attempt is not None and not self._attempt.done():
            await wait_or_cancel(cancel, self._attempt, self._began_at + timeout - time.monotonic())

    async def close(self) -> None:
        """End the connection. A server process is asked to exit, then killed."""
        self._closing = True
        process = None if self._connection is None else self._connection.process
        if process is not None:
            process.terminate()
            await asyncio.wait([process.exited], timeout=_END_WAIT)
        task, self._connection_task = self._connection_task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if process is not None:  # it is killed by now
            await asyncio.wait([process.exited], timeout=_END_WAIT)

    def kill(self) -> None:
        """Kill the server process, for a process that is about to exit."""
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
        """Connect, stay connected, and disconnect. The `mcp` package requires that one task does all of it."""
        connection = self._connection = McpConnection()
        try:
            await asyncio.sleep(max(0.0, self._retry_at - time.monotonic()))
            async with (
                asyncio.timeout(CONNECT_LIMIT) as limit,
                connected_client(connection, self.config, self._workspace, self._on_notification, self._auth()) as client,
                _subscribed_to_changes(client),
            ):
                await self._fetch_offer(client)
                limit.reschedule(None)
                self._client = client
                self._was_connected = True
                attempt.set_result(None)
                await asyncio.shield(connection.lost)
            self._on_end(attempt, connection.lost.result())
        except Exception as error:
            self._on_end(attempt, failure_reason(error, connection, self.config))
        finally:
            if self._connection is connection:  # otherwise a request found it broken and another has replaced it
                self._client = None
            if not attempt.done():
                attempt.set_result(None)

    def _auth(self) -> httpx2.Auth | None:
        """Return what authenticates requests with the sign-in at the server; None if there is none. Raises ConfigError."""
        if not self.config.may_sign_in or not (self._sign_ins.of(self.config) or {}).get("tokens"):
            return None
        from fairlead.extend.mcp.oauth import StoredOAuth  # noqa: PLC0415  an extra

        return StoredOAuth(self.config, self._sign_ins)

    def _on_end(self, attempt: asyncio.Future[None], reason: str) -> None:
        if self._closing:
            return
        was_connected, is_news = attempt.done(), reason != self._reason
        self._client = self._connection_task = None
        self._reason = reason
        if self._connection is None or not self._connection.needs_sign_in:  # which may happen at any time
            self._failures += 1
        self._retry_at = time.monotonic() + _PAUSES[max(0, min(self._failures, len(_PAUSES)) - 1)]
        if was_connected:
            hope = "It is reconnected when it is next needed." if self._failures <= RESTARTS else _GIVEN_UP
            self._report_problem(self, "crash", f"The {self._end_message()} {hope}")
        elif is_news:
            self._report_problem(self, "connect", f'The MCP server "{self.config.name}" could not be connected: {reason}.')

    def _end_message(self) -> str:
        """Return how the server ended, as a sentence without its first word."""
        how = "can no longer be reached" if self.config.url else "has ended"
        return f'MCP server "{self.config.name}" {how}: {self._reason}.'

    async def _fetch_offer(self, client: Client) -> None:
        """Fetch what the server offers."""
        async with self._fetch_lock:
            has, session = client.server_capabilities, client.session
            tools = await all_pages(session.list_tools, lambda page: page.tools) if has.tools else []
            prompts = await all_pages(session.list_prompts, lambda page: page.prompts) if has.prompts else []
            self.offer = Offer(tools, prompts, has.resources is not None)
        self._on_offer(self)

    async def _on_notification(self, message: sdk.types.ServerNotification) -> None:
        if not isinstance(message, sdk.types.ToolListChangedNotification | sdk.types.PromptListChangedNotification):
            return
        client = self._client
        if client is None:  # the offer is about to be fetched anyway
            return
        self._is_offer_old = True
        if self._is_refreshing:  # it then fetches the offer once more
            return
        self._is_refreshing = True
        try:
            while self._is_offer_old and self._client is client:
                self._is_offer_old = False
                await self._refresh(client)
                await asyncio.sleep(_REFRESH_PAUSE)
        finally:
            self._is_refreshing = False

    async def _refresh(self, client: Client) -> None:
        """Fetch an offer that has changed."""
        attempt = self._new_attempt()
        try:
            await self._fetch_offer(client)
        except sdk.MCPError:
            pass  # it has ended meanwhile, which is reported elsewhere
        except ValueError as error:
            text = f'The MCP server "{self.config.name}" sent a new list of tools that cannot be understood: '
            self._report_problem(self, "list", text + one_line(error))
        finally:
            attempt.set_result(None)

    # Requests

    async def request(self, what: str, ask: Callable[[ClientSession], Awaitable[T]], cancel: CancelToken) -> T:
        """Send a request and return the answer. Connects first if necessary.

        Raises ToolError if there is no answer, also when `cancel` fires; the server is then told that the request is cancelled.
        """
        try:
            return await self._request(what, ask, cancel)
        except _SessionForgotten:
            # The server has done nothing yet, and expects a new session.
            self._drop_connection()
            return await self._request(what, ask, cancel)

    async def _request(self, what: str, ask: Callable[[ClientSession], Awaitable[T]], cancel: CancelToken) -> T:
        session = await self._session(what, cancel)
        asking = asyncio.ensure_future(ask(session))
        forget = cancel.on_fire(asking.cancel)
        try:
            answer = await asking
        except asyncio.CancelledError:
            if not cancel.fired:
                raise
            raise ToolError(f"{what} was aborted.") from None
        except sdk.MCPError as error:
            if error.message == _FORGOTTEN:
                raise _SessionForgotten(f"{what} failed: the server has forgotten the session.") from None
            if error.code == sdk.types.CONNECTION_CLOSED and error.message.startswith(_CLOSED):
                raise ToolError(f"{what} failed: {await self._explain_end()}") from None
            self._failures = 0
            raise ToolError(f"{what} failed: {cut(redacted(error.message), _MAX_REFUSAL_CHARS)}") from None
        except (ValueError, RuntimeError) as error:
            raise ToolError(f"{what} failed: the server's answer cannot be understood: {one_line(error)}") from None
        finally:
            forget()
        self._failures = 0
        return answer

    async def _session(self, what: str, cancel: CancelToken) -> ClientSession:
        if self.is_disabled:
            raise ToolError(f'{what} failed: the MCP server "{self.config.name}" is disabled.')
        if self._client is None:
            if self._connection_task is None and self._failures > RESTARTS:
                raise ToolError(f"{what} failed: the {self._end_message()} {_GIVEN_UP}")
            if self._connection_task is None:
                self._start_connecting()
            assert self._attempt is not None, "a server that is connecting has an attempt"
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

    async def _explain_end(self) -> str:
        """Wait for the reason why the server ended, and return it as a sentence."""
        if self._connection_task is not None:
            await asyncio.wait([self._connection_task], timeout=_REASON_WAIT)
        if self._connection_task is not None and self._attempt is not None:
            # The connection is broken, although its task has not noticed yet. The next request makes a new one.
            self._drop_connection()
            self._on_end(self._attempt, "the connection was lost")
        return f"the {self._end_message()}"


class _SessionForgotten(ToolError):
    """An HTTP server has forgotten the session that a request belongs to."""


@asynccontextmanager
async def _subscribed_to_changes(client: Client) -> AsyncGenerator[None]:
    """Subscribe to changes of the server's lists. Servers with a protocol before 2026 send them without a subscription."""
    begun = asyncio.Event()

    async def listen() -> None:
        try:
            async with client.listen(tools_list_changed=True, prompts_list_changed=True) as changes:
                begun.set()
                async for _ in changes:
                    pass  # the client's message handler gets the change, too
        except (sdk.ListenNotSupportedError, sdk.SubscriptionLost, sdk.MCPError):
            pass  # a server need not support this
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


async def wait_or_cancel(cancel: CancelToken, future: asyncio.Future[Any], timeout: float | None) -> None:
    """Wait for a future until it is done, `cancel` fires or `timeout` seconds have passed. The future itself is not cancelled."""
    fired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    forget = cancel.on_fire(lambda: fired.done() or fired.set_result(None))
    try:
        limit = None if timeout is None else max(timeout, 0.0)
        await asyncio.wait([future, fired], timeout=limit, return_when=asyncio.FIRST_COMPLETED)
    finally:
        forget()
        fired.cancel()
