"""Connects to an MCP server, through a child process, streamable HTTP, or HTTP with server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import msgspec

from fairlead import __version__
from fairlead.core.lenient import json_data
from fairlead.core.secrets import learn_headers, learn_url, learn_variables, redacted
from fairlead.errors import ConfigError, FairleadError
from fairlead.extend.mcp import sdk
from fairlead.extend.mcp.config import Exchange, ServerConfig
from fairlead.extend.mcp.limits import MOST_BYTES, Limits
from fairlead.extend.mcp.process import NotAMessage, ServerProcess, process_transport, read_messages
from fairlead.platform.programs import find_program, search_path, user_folder, working_folders
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Transport


_log = logging.getLogger("fairlead.extend.mcp")

#: Seconds to wait while telling an HTTP server that a session is over.
_GOODBYE_TIMEOUT = 0.2
#: Seconds to wait for an HTTP connection, and for data on it.
_HTTP_CONNECT, _HTTP_SILENCE = 30.0, 300.0
#: The size of a compressed answer is unknown until it has filled the memory.
_UNCOMPRESSED = {"accept-encoding": "identity"}
#: npm's setting for the shell that runs a server, and that shell. It goes to the folder that the environment names.
_SCRIPT_SHELL = "npm_config_script_shell"
_SHELL = Path(__file__).with_name("shell_in_folder.sh")
#: Programs that look for packages, settings or versions in the directory that they start in, and those that may run them.
_LOOK_AROUND = frozenset(
    """asdf bun bundle bundler bunx cargo composer conda corepack dart deno devbox direnv dnx docker-compose dotnet go gradle
    jbang just make mamba micromamba mise mix mvn nix npm pdm pipenv pipx pixi pnpm pnpx podman-compose poetry rake rustup rye
    swift task ts-node tsx uv uvx volta yarn yarnpkg zig hatch""".split()
)
_WRAPPERS = frozenset("bash cmd dash doppler env fish ionice ksh nice nohup op setsid sh stdbuf time timeout zsh".split())
_BETWEEN_WORDS = re.compile(r"[\s;&|()<>'\"`=]+")
#: A path that says by itself that it begins in the working directory.
_RELATIVE = re.compile(r"\.\.?(/.*)?")
_PYTHON = re.compile(r"python[\d.]*")
#: Options of Python that may come before `-m`, and the word that has that one.
_PYTHON_OPTION = re.compile(r"-[bBdEiIOPqsSuvx]+|-[WX].*")
_PYTHON_MODULE = re.compile(r"-([bBdEiIOPqsSuvx]*)m(.*)")
#: What `python -m` does, without the working directory among the folders of modules. Older versions do not know the option -P.
_RUN_MODULE = (
    "import sys; sys.path[:1] = filter(None, sys.path[:1]); sys.argv[:1] = (); import runpy; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


class McpConnection:
    """The state of a connection. Once it is broken, `lost` holds the reason, worded as the end of a sentence."""

    def __init__(self) -> None:
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.process: ServerProcess | None = None
        #: Takes a message that a server in another program sends by itself.
        self.receive: Callable[[dict[str, Any]], Awaitable[None]] | None = None
        #: The last HTTP status of 400 or above.
        self.status: int | None = None
        self.session_id: str | None = None
        #: Whether the user has to sign in at the server first.
        self.needs_sign_in = False
        self.limits = Limits(self.give_up)

    def give_up(self, reason: str) -> None:
        """End the connection, for a reason that is the end of a sentence."""
        if self.process is not None:
            self.process.give_up(reason)
        elif not self.lost.done():
            self.lost.set_result(reason)

    async def note_and_limit(self, response: sdk.httpx2.Response, config: ServerConfig) -> None:
        """Remember what the status of a response from the server says, and limit its body."""
        await self.limits.hold(response)
        url, server = response.request.url, sdk.httpx2.URL(config.url)
        if (url.host, url.port) != (server.host, server.port) or url.path.startswith("/.well-known/"):
            return  # a question on the way to a sign-in
        self.needs_sign_in = response.status_code == 401 and config.may_sign_in
        if response.status_code >= 400:
            self.status = response.status_code


@asynccontextmanager
async def connected_client(
    connection: McpConnection,
    config: ServerConfig,
    workspace: Workspace | None,
    on_message: Callable[[sdk.types.ServerNotification], Awaitable[None]],
    auth: httpx2.Auth | None = None,
) -> AsyncGenerator[sdk.Client]:
    """Connect to a server, and yield a client that is ready for requests.

    Only a server that is a program needs a workspace. `auth` authenticates requests over HTTP.
    """
    relay = MessageLog(config.name)

    async def on_any_message(message: sdk.types.ServerNotification | Exception) -> None:
        if isinstance(message, NotAMessage):
            relay(str(message))
        elif not isinstance(message, Exception):
            await on_message(message)

    async def on_log(params: sdk.types.LoggingMessageNotificationParams) -> None:
        relay(redacted(f"[{params.level}] {params.data}"))

    client = sdk.Client(
        connection.limits.transport(await _transport(connection, config, workspace, auth)),
        client_info=sdk.types.Implementation(name="fairlead", version=__version__),
        mode="auto" if config.exchange is None else "legacy",
        message_handler=on_any_message,
        logging_callback=on_log,
        log_level="info",
        cache=None,
    )
    async with client:
        yield client


async def _transport(
    connection: McpConnection, config: ServerConfig, workspace: Workspace | None, auth: httpx2.Auth | None
) -> Transport:
    if config.exchange is not None:
        return cast("Transport", _hosted(connection, config.exchange))
    if config.url:
        return cast("Transport", (_sse if config.is_sse else _http)(connection, config, auth))
    assert workspace is not None, "a program runs in a workspace"
    command, environment, cwd = _program(config, workspace)
    learn_variables(config.env.items())
    connection.process = await ServerProcess.start(command, environment, cwd)
    connection.lost = connection.process.lost
    return process_transport(connection.process)


@asynccontextmanager
async def _hosted(connection: McpConnection, exchange: Exchange) -> AsyncGenerator[tuple[Any, Any]]:
    """Exchange messages with a server in another program, which answers each of them by itself."""
    to_us, incoming = sdk.anyio.create_memory_object_stream[Any](math.inf)
    from_us, outgoing = sdk.anyio.create_memory_object_stream[Any](0)
    asking: dict[Any, sdk.anyio.CancelScope] = {}

    async def receive(message: Any) -> None:
        for item in read_messages(msgspec.json.encode(json_data(message))):
            await to_us.send(item if isinstance(item, NotAMessage) else sdk.SessionMessage(item))

    async def ask(message: dict[str, Any]) -> None:
        ident = message.get("id")
        with sdk.anyio.CancelScope() as scope:
            asking[ident] = scope
            try:
                answer = await exchange(message)
            except FairleadError as error:
                answer = {"error": {"code": sdk.INTERNAL_ERROR, "message": str(error)}}
            fields = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
            if ident is not None and "method" in message:
                await receive({**fields, "jsonrpc": "2.0", "id": ident})
        if asking.get(ident) is scope:
            del asking[ident]

    async def send() -> None:
        async with outgoing:
            async for item in outgoing:
                message = item.message.model_dump(mode="json", by_alias=True, exclude_unset=True)
                group.start_soon(ask, message)
                await asyncio.sleep(0)  # messages leave in this order
                if message.get("method") == "notifications/cancelled" and (gone := asking.get(message["params"]["requestId"])):
                    gone.cancel()

    connection.receive = receive
    async with to_us, from_us, incoming, sdk.anyio.create_task_group() as group:
        group.start_soon(send)
        try:
            yield incoming, from_us
        finally:
            connection.receive = None
            group.cancel_scope.cancel()


def _program(config: ServerConfig, workspace: Workspace) -> tuple[list[str], dict[str, str], str]:
    """Return the command, the environment and the directory to start a server with."""
    cwd = str(workspace.cwd if config.cwd is None else workspace.resolve(config.cwd))
    environment = {**workspace.env, **config.env}
    name, *arguments = config.command
    program = str(workspace.resolve(name)) if "/" in name else None
    if config.origin.scope == "project":
        return [program or name, *arguments], environment, cwd
    # A project that is not trusted must not decide what the name in the user's configuration means.
    path, folders = environment.get("PATH", os.defpath), working_folders(workspace.cwd, *workspace.more)
    program = program or find_program(name, path, outside=folders)
    if program is None:
        raise ConfigError(f"there is no program {name} on the PATH outside the working directory.")
    environment["PATH"] = search_path(path, outside=folders)  # a script names an interpreter, which is looked for there
    if any(Path(os.path.realpath(cwd)).is_relative_to(os.path.realpath(each)) for each in folders):
        is_named = config.cwd is not None and Path(config.cwd).is_absolute()
        arguments, cwd = _without_project(Path(name).name, arguments, environment, cwd, is_named=is_named)
    return [program, *arguments], environment, cwd


def _without_project(
    name: str, arguments: list[str], environment: dict[str, str], cwd: str, *, is_named: bool
) -> tuple[list[str], str]:
    """Return the arguments and the directory with which a program that finds code in its directory does not look into `cwd`.

    npx would run what `node_modules` has, and ask the registry that `.npmrc` names. It starts in the user's home, and the shell
    with which it runs the server changes to `cwd`. `python -m` would import modules from there. Programs that cannot be told
    start in the user's home, unless the user has named `cwd`.
    """
    if name == "npx" or (name == "npm" and arguments[:1] in (["exec"], ["x"])):
        # npm takes each setting in any case; the name that we set must be the only one.
        for each in [each for each in environment if each.lower() == _SCRIPT_SHELL]:
            del environment[each]
        environment |= {_SCRIPT_SHELL: str(_SHELL), "FAIRLEAD_SERVER_FOLDER": cwd}
        return arguments, user_folder()
    if _PYTHON.fullmatch(name) and (module := _module_run(arguments)) is not None:
        options, words = module
        return [*options, "-c", _RUN_MODULE, *words], cwd
    if not is_named and _looks_around(name, arguments):
        environment["PWD"] = user_folder()
        return [str(Path(cwd, word)) if _RELATIVE.fullmatch(word) else word for word in arguments], user_folder()
    return arguments, cwd


def _looks_around(name: str, arguments: list[str]) -> bool:
    """Return whether a command line runs a program that takes code or configuration from the directory it starts in."""
    if name in ("docker", "podman"):
        return "compose" in arguments
    words = (Path(word).name for text in arguments for word in _BETWEEN_WORDS.split(text))
    return name in _LOOK_AROUND or (name in _WRAPPERS and any(word in ("npx", *_LOOK_AROUND) for word in words))


def _module_run(arguments: list[str]) -> tuple[list[str], list[str]] | None:
    """Return the options of Python before `-m`, and the module with its arguments; None if the words do not run a module."""
    options, rest = list[str](), arguments
    while rest:
        if (found := _PYTHON_MODULE.fullmatch(rest[0])) is not None:
            options += [f"-{found[1]}"] if found[1] else []
            words = [*([found[2]] if found[2] else []), *rest[1:]]
            return (options, words) if words else None
        if not _PYTHON_OPTION.fullmatch(rest[0]):
            return None
        taken = 2 if rest[0] in ("-W", "-X") else 1
        options, rest = [*options, *rest[:taken]], rest[taken:]
    return None


@asynccontextmanager
async def _http(connection: McpConnection, config: ServerConfig, auth: sdk.httpx2.Auth | None) -> AsyncGenerator[tuple[Any, Any]]:
    async def note_response(response: sdk.httpx2.Response) -> None:
        await connection.note_and_limit(response, config)
        connection.session_id = response.headers.get("mcp-session-id", connection.session_id)

    learn_headers(config.headers.items())
    learn_url(config.url)
    try:
        http = sdk.httpx2.AsyncClient(
            headers={**_UNCOMPRESSED, **config.headers},
            timeout=sdk.httpx2.Timeout(_HTTP_CONNECT, read=_HTTP_SILENCE),
            auth=auth,
            event_hooks={"response": [note_response]},
        )
    except (ValueError, TypeError) as error:
        raise ConfigError(f"its headers cannot be sent: {error}.") from None
    open_streams = sdk.streamable_http_client(
        config.url, http_client=http, terminate_on_close=False, max_sse_event_size=MOST_BYTES
    )
    async with http, open_streams as streams:
        try:
            yield streams
        finally:
            if connection.session_id is not None:
                # With a time limit, unlike in the `mcp` package: a process that must exit cannot wait for a server.
                with sdk.anyio.move_on_after(_GOODBYE_TIMEOUT, shield=True):
                    await _end_http_session(http, config.url, connection.session_id)


@asynccontextmanager
async def _sse(connection: McpConnection, config: ServerConfig, auth: sdk.httpx2.Auth | None) -> AsyncGenerator[tuple[Any, Any]]:
    async def note_response(response: sdk.httpx2.Response) -> None:
        await connection.note_and_limit(response, config)

    def make_http(
        headers: dict[str, str] | None = None, timeout: sdk.httpx2.Timeout | None = None, auth: sdk.httpx2.Auth | None = None
    ) -> sdk.httpx2.AsyncClient:
        return sdk.httpx2.AsyncClient(
            headers=_UNCOMPRESSED | (headers or {}), timeout=timeout, auth=auth, event_hooks={"response": [note_response]}
        )

    learn_headers(config.headers.items())
    learn_url(config.url)
    async with sdk.sse_client(
        config.url,
        dict(config.headers),
        timeout=_HTTP_CONNECT,
        sse_read_timeout=_HTTP_SILENCE,
        httpx_client_factory=make_http,
        auth=auth,
    ) as streams:
        yield streams


async def _end_http_session(http: Any, url: str, session_id: str) -> None:
    with contextlib.suppress(sdk.httpx2.HTTPError):
        await http.delete(url, headers={"mcp-session-id": session_id})


class MessageLog:
    """Logs the messages of a server. A flood of messages is cut off."""

    #: How many characters of a message are shown, and how many messages in how many seconds.
    MAX_CHARS, MAX_MESSAGES, SECONDS = 1000, 100, 10.0

    def __init__(self, server: str) -> None:
        self._server = server
        self._since = float("-inf")
        self._count = 0

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now - self._since > self.SECONDS:
            self._since, self._count = now, 0
        self._count += 1
        if self._count > self.MAX_MESSAGES:
            return
        visible = "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text[: self.MAX_CHARS])
        more = " …" if len(text) > self.MAX_CHARS else ""
        _log.info("mcp:%s: %s%s", self._server, visible, more)
        if self._count == self.MAX_MESSAGES:
            _log.info("mcp:%s: too many messages; the rest of %g seconds is not shown.", self._server, self.SECONDS)


def failure_reason(error: BaseException, connection: McpConnection, config: ServerConfig) -> str:
    """Return why a connection failed, worded as the end of a sentence."""
    if connection.needs_sign_in:
        return f"it needs you to sign in, with {sign_in_command(config)}"
    error = innermost(error)
    text = redacted(str(error)).rstrip(".") or type(error).__name__
    if connection.lost.done():
        return connection.lost.result()
    if isinstance(error, ConfigError):
        return text
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, ValueError):
        return f"its answer cannot be understood: {one_line(error)}"
    if connection.status is not None:
        return f"{text} (HTTP status {connection.status})"
    return text


def innermost(error: BaseException) -> BaseException:
    """Return the first error in a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseException", error.exceptions[0])
    return error


def sign_in_command(config: ServerConfig) -> str:
    """Return the command that signs in at a server."""
    name = config.name if config.name.replace("-", "").replace("_", "").isalnum() else f"'{config.name}'"
    where = "" if config.origin.scope in ("user", "project") else f" --url {redacted(config.url)}"
    return f"`fairlead mcp login {name}{where}`"


def one_line(error: Exception) -> str:
    """Return the text of an error on one line, shortened and without secrets."""
    return redacted(" ".join(str(error).split()))[:300]


Page = TypeVar("Page", bound="Paged")
Item = TypeVar("Item", bound="Entry")

#: The largest number of pages that are fetched.
_MAX_PAGES = 1000
#: The most entries of a list, and the most characters of all of them as JSON.
_MAX_ENTRIES, _MAX_CHARS = 10_000, 16 * 1024 * 1024


class Entry(Protocol):
    def model_dump_json(self) -> str: ...


class Paged(Protocol):
    next_cursor: str | None


async def all_pages(fetch: Callable[..., Awaitable[Page]], items: Callable[[Page], list[Item]]) -> list[Item]:
    """Fetch all pages of a list. Stops early if a server repeats a page. Raises ValueError if the list is too long."""
    found: list[Item] = []
    size = 0
    seen: set[str] = set()
    page = await fetch()
    while True:
        more = items(page)
        found += more
        size += sum(len(each.model_dump_json()) for each in more)
        if len(found) > _MAX_ENTRIES or size > _MAX_CHARS:
            raise ValueError(f"a list has more than {_MAX_ENTRIES:,} entries or {_MAX_CHARS >> 20} MiB")
        if page.next_cursor is None or page.next_cursor in seen or len(seen) >= _MAX_PAGES:
            return found
        seen.add(page.next_cursor)
        page = await fetch(params=sdk.types.PaginatedRequestParams(cursor=page.next_cursor))
