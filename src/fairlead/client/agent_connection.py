"""The protocol of the pi family on a connection: commands, responses, events, and a restart after a crash."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import time
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead.client.connection import LONGEST_LINE, ByteReader, ByteWriter, Connection, log
from fairlead.client.decoding import (
    Chunk,
    ChunkAssembler,
    Event,
    FrameDecoder,
    Response,
    Restarted,
    UnknownEvent,
    decode_value,
    with_line,
)
from fairlead.client.event_stream import UpdateMerger
from fairlead.client.events import EVENTS, Compaction, Error, MessageUpdate, Ready
from fairlead.client.generated import Caller
from fairlead.client.process import AgentProcess, Launch, StopTimes
from fairlead.client.runs import Run, RunTracker
from fairlead.client.serving import HostServices
from fairlead.core import lenient
from fairlead.errors import AgentGone, ClientError, CommandRefused
from fairlead.protocol.pi.commands import BASIC_COMMANDS, Command
from fairlead.protocol.pi.host_requests import HOST_COMMANDS, ReplyLine
from fairlead.protocol.pi.omp_commands import OMP_COMMANDS, SUBAGENT_COMMANDS
from fairlead.protocol.pi.session_commands import SESSION_COMMANDS

if TYPE_CHECKING:
    from fairlead.client.network import Dial

#: Commands that have no time limit by default. Agents may answer them after later commands.
LATE = frozenset("prompt abort_and_prompt bash compact handoff login export_html navigate_tree reload".split())
#: Commands after which the session may be another one.
MOVES = frozenset("new_session switch_session fork branch clone open_session handoff".split())
#: Seconds that an agent has to answer, unless the caller says otherwise.
TIMEOUT = 30.0
#: A client gives up after this many restarts within `RESTART_WINDOW` seconds.
MOST_RESTARTS, RESTART_WINDOW = 3, 60.0
#: Bytes that the agent has not read, beyond which the progress of tools is not sent.
MOST_UNREAD = 1 << 20
#: The version of omp's protocol in which no answer is too long.
CHUNKED_VERSION = 2
#: Commands that succeed without any sign in pi-2025, which has no responses.
SILENT = frozenset({"prompt", "abort"})


class AgentConnection(Connection[str], Caller):
    """Sends commands, matches responses to them, and follows the events."""

    def __init__(
        self,
        reader: ByteReader | None,
        writer: ByteWriter | None,
        launch: Launch | Dial | None,
        *,
        timeout: float | None,
        restart: bool,
        stop_times: StopTimes,
        responses: bool,
    ) -> None:
        super().__init__(reader, writer, launch, timeout=timeout, stop_times=stop_times, merger=UpdateMerger())
        self._numbers = itertools.count(1)
        self._decoder = FrameDecoder(EVENTS)
        self._chunks = ChunkAssembler(LONGEST_LINE)
        self._services = HostServices(self.send, self._post, self._start_task)
        self._responses = responses
        self._tracker = RunTracker(self._raw_state, self._start_task, asks_state=responses)
        self._restart = restart and isinstance(launch, Launch)
        self._restarts: list[float] = []
        self._restarting = False
        self._aborting: asyncio.Task[None] | None = None
        self._session_file: str | None = None
        #: Set unless the agent is being restarted.
        self._usable = asyncio.Event()
        self._usable.set()

    async def send(self, line: ReplyLine) -> None:
        """Send an answer to a request of the agent, such as `HostUriResult`. Raises AgentGone."""
        await self._write(_encode_line(line))

    def _post(self, line: ReplyLine) -> None:
        """Send an update that the next one replaces, unless the agent is slow to read."""
        writer = self._writer
        if self._gone is None and writer is not None and writer.transport.get_write_buffer_size() < MOST_UNREAD:
            writer.write(_encode_line(line) + b"\n")

    # Commands

    async def _call(self, name: str, timeout: float | UnsetType | None, /, **fields: Any) -> Any:
        declared = command_types()[name]
        body = msgspec.to_builtins(declared(**fields))
        if name == "set_host_tools":
            body["tools"] = [_without_none(tool) for tool in body["tools"]]
        return decode_value(await self._command(name, body, timeout), declared.result)

    async def _command(
        self,
        name: str,
        fields: dict[str, Any],
        timeout: float | UnsetType | None = UNSET,
        *,
        id: str | None = None,
        at_once: bool = False,
    ) -> Raw | UnsetType:
        """Send a command and return the data of its response. Unless `at_once`, it waits for the end of a restart."""
        if not at_once:
            await self._usable.wait()
        if name == "abort":
            self._tracker.abort_asked()
        ident = id or self._next_id()
        line = msgspec.json.encode({"id": ident, **fields, "type": name})
        if name in SILENT and not self._responses:
            await self._write(line)
            if name == "abort":
                await self._tracker.wait_until_aborted(self._timeout)
            return UNSET
        response: Response = await self._exchange(ident, name, line, timeout, late=name in LATE)
        if name == "get_state":
            self._learn(response.data)
        if name in MOVES or name == "compact":
            self._tracker.session_replaced()
            if self._restart:
                self._start_task(self._learn_session())
        return response.data

    async def _prompt(self, name: str, fields: dict[str, Any], timeout: float | UnsetType | None) -> Run:
        if self._aborting is not None:
            await asyncio.wait([self._aborting])  # the prompt must not join the run that ends
        await self._publish(only_news=True)
        run = Run(self._next_id(), str(fields["message"]), self._waits)
        self._tracker.add(run, joins=name == "prompt")
        try:
            body = msgspec.to_builtins(command_types()[name](**fields))
            data = await self._command(name, body, timeout, id=run.id)
        except BaseException:
            self._tracker.remove(run)
            raise
        self._tracker.on_accept(run, None if data is UNSET else lenient.decode(bytes(data)))
        return run

    def _abort_in_background(self) -> None:
        """Abort what no caller waits for any more. The next prompt waits for that."""
        self._aborting = self._start_task(self._abort_quietly())

    async def _abort_quietly(self) -> None:
        with suppress(ClientError):
            await self._command("abort", {})

    async def _publish(self, *, only_news: bool = False, at_once: bool = False) -> None:
        """Send the tools and URI schemes of the host, or only what the agent does not know yet."""
        tools, uris = self._services, self._services.uris
        if tools.has_news or (tools.definitions() and not only_news):
            tools.has_news = False
            definitions = [_without_none(msgspec.to_builtins(tool)) for tool in tools.definitions()]
            await self._command("set_host_tools", {"tools": definitions}, at_once=at_once)
        if uris.has_news or (uris.schemes() and not only_news):
            uris.has_news = False
            schemes = [_without_none(msgspec.to_builtins(scheme)) for scheme in uris.schemes()]
            await self._command("set_host_uri_schemes", {"schemes": schemes}, at_once=at_once)

    async def _raw_state(self) -> dict[str, Any]:
        data = await self._command("get_state", {})
        state: Any = None if data is UNSET else lenient.decode(bytes(data))
        return cast("dict[str, Any]", state) if isinstance(state, dict) else {}

    def _next_id(self) -> str:
        return f"req_{next(self._numbers)}"

    # Lines

    def _handle_line(self, line: bytes) -> None:
        frame = self._decoder.decode(line)
        if isinstance(frame, Response):
            self._handle_response(frame, line)
        elif isinstance(frame, Chunk):
            if (whole := self._chunks.add(frame)) is not None:
                self._handle_line(whole)
        else:
            self._handle_event(frame)

    def _handle_event(self, event: Event) -> None:
        if type(event) is not MessageUpdate:  # by far the most frequent event, and only readers care
            self._tracker.handle(event)
            self._services.handle(event)
            if not self._responses:
                self._handle_without_responses(event)
        if isinstance(event, Ready) and CHUNKED_VERSION in (event.supported_protocol_versions or []):
            self._start_task(self._negotiate())
        self._hub.put(event, event.size)

    def _handle_response(self, response: Response, line: bytes) -> None:
        ident = response.id if isinstance(response.id, str) else None
        if response.id is None and not response.success:
            ident = self._culprit(response)
        request = self._requests.get(ident) if ident else None
        refusal = None if response.success else _refusal(response, request.name if request else "")
        if request is not None and not request.answer.done():
            if refusal is not None:
                request.answer.set_exception(refusal)
            else:
                if (run := self._tracker.find(ident)) is not None:
                    run.may_start = True
                request.answer.set_result(response)
        elif ident and (run := self._tracker.find(ident)) is not None:
            if refusal is not None:  # omp accepts a prompt first, and may refuse it later
                self._tracker.remove(run)
                run.fail(refusal)
        elif ident and ident.startswith("req_"):
            log.debug("ignored a late response to %s", ident)
        else:
            raw: Any = lenient.decode(line)
            self._handle_event(with_line(UnknownEvent("response"), raw))

    def _handle_without_responses(self, event: Event) -> None:
        """Let the events of pi-2025 stand in for responses.

        An error belongs to the oldest command that waits. If none waits, it belongs to the newest prompt that has no run.
        """
        waiting = [(id, request) for id, request in self._requests.items() if not request.answer.done()]
        if isinstance(event, Compaction) and not event.auto:
            for id, request in waiting:
                if request.name == "compact":
                    request.answer.set_result(Response(id, request.name, data=Raw(msgspec.json.encode(event.raw))))
        elif isinstance(event, Error):
            if waiting:
                _, request = waiting[0]
                request.answer.set_exception(CommandRefused(event.error, command=request.name))
            elif (run := self._tracker.newest_without_a_run()) is not None:
                self._tracker.remove(run)
                run.fail(CommandRefused(event.error, command="prompt"))

    def _culprit(self, response: Response) -> str | None:
        """The request that an error without an id is about.

        Older agents drop the id if they do not know the command, and old versions of omp and xcsh for every error. They answer
        in the order of the requests. So it is the oldest request with the name that the error mentions or, if it mentions none,
        the oldest request, preferably one that is answered in its turn.
        """
        waiting = [(id, request) for id, request in self._requests.items() if not request.answer.done()]
        unknown = re.match(r"Unknown command: (\w+)", response.error or "")
        name = unknown[1] if unknown and unknown[1] != "undefined" else response.command
        if name not in (None, "parse"):
            return next((id for id, request in waiting if request.name == name), None)
        return min(waiting, key=lambda each: each[1].late, default=(None, None))[0]

    async def _negotiate(self) -> None:
        """Let an agent split long frames that it would otherwise shorten."""
        with suppress(ClientError):
            await self._command("negotiate_protocol", {"protocolVersion": CHUNKED_VERSION}, at_once=True)

    # The end, and a new beginning

    async def _open(self) -> None:
        await super()._open()
        if self._restart:
            self._start_task(self._learn_session())

    def _handle_end(self, error: AgentGone) -> None:
        self._services.end()
        self._tracker.fail_all(error)
        self._usable.set()

    async def _handle_exit(self, error: AgentGone) -> None:
        if self._restarting:
            self._fail_requests(self._requests, error)
        elif self._restart and self._may_restart():
            self._start_task(self._restart_agent(error))
        else:
            if self._process is not None:
                await self._process.release()
            self._end(error)

    def _will_restart(self) -> bool:
        return self._restart and self._gone is None and self._reading is not None and self._reading.done()

    def _may_restart(self) -> bool:
        now = time.monotonic()
        self._restarts = [then for then in self._restarts if now - then < RESTART_WINDOW]
        self._restarts.append(now)
        return len(self._restarts) <= MOST_RESTARTS

    async def _restart_agent(self, error: AgentGone) -> None:
        """Start the agent again and resume its session. What waited for the old process raises AgentGone."""
        self._usable.clear()
        self._restarting = True
        lost, self._requests = self._requests, {}
        self._chunks.clear()
        self._services.end()
        try:
            resumed = await self._start_again()
        except ClientError as problem:
            self._fail_requests(lost, error)
            self._end(error)
            log.warning("the agent cannot be restarted: %s", problem)
            return
        finally:
            self._restarting = False
        where = f"resumed {resumed}" if resumed else "begun a new session"
        text = f"{error} It was restarted and has {where}."
        again = AgentGone(text, exit_code=error.exit_code, stderr=error.stderr, restarted=True)
        self._fail_requests(lost, again)
        self._tracker.fail_all(again)
        self._usable.set()
        self._handle_event(Restarted(resumed, error.exit_code))

    async def _start_again(self) -> str | None:
        """Start a process like the last one. Returns the session that it resumed."""
        assert isinstance(self._launch, Launch) and self._process is not None
        await self._process.release()
        self._process = await AgentProcess.start(self._launch)
        self._reader, self._writer = self._process.reader, self._process.writer
        self._reading = asyncio.get_running_loop().create_task(self._read())
        await self._publish(at_once=True)
        file = self._session_file
        if file is None or not await asyncio.to_thread(os.path.exists, file):
            await self._learn_session(at_once=True)
            return None
        await self._command("switch_session", {"sessionPath": file}, at_once=True)
        return file

    async def _learn_session(self, *, at_once: bool = False) -> None:
        """Find out which file to resume after a crash."""
        with suppress(ClientError):
            await self._command("get_state", {}, at_once=at_once)

    def _learn(self, data: Raw | UnsetType) -> None:
        state: Any = None if data is UNSET else lenient.decode(bytes(data))
        file: Any = cast("dict[str, Any]", state).get("sessionFile") if isinstance(state, dict) else None
        self._session_file = file if isinstance(file, str) else None


@cache
def command_types() -> dict[str, type[Command]]:
    """Return all commands of the family by name."""
    more = (*SESSION_COMMANDS, *HOST_COMMANDS, *OMP_COMMANDS, *SUBAGENT_COMMANDS)
    return BASIC_COMMANDS | {str(command.__struct_config__.tag): command for command in more}


def _refusal(response: Response, name: str) -> CommandRefused:
    command = name or response.command or ""
    return CommandRefused(response.error or f"{command} failed", command=command, code=response.code)


def _encode_line(line: ReplyLine) -> bytes:
    return msgspec.json.encode(_without_none(msgspec.to_builtins(line)))


def _without_none(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if value is not None}
