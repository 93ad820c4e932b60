"""A client for `fairlead serve`, its sessions and its jobs: requests over HTTP, and events without gaps."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias, get_args, get_origin
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.client.decoding import Event, FrameDecoder, decode_value
from fairlead.client.generated.http import HttpMethods
from fairlead.client.network import ConnectionBroke, Response, ServerAddress, ServerRefused, open_request, path_part
from fairlead.client.server_events import EVENTS, BranchChanged, Resync, SessionReplaced
from fairlead.errors import NoAnswer
from fairlead.protocol.http.fleet import ENDED, FLEET_OPERATIONS, JobEvent, JobResult
from fairlead.protocol.http.http_objects import Snapshot
from fairlead.protocol.http.operations import OPERATIONS, Operation

#: Seconds that the server has to answer, unless the caller says otherwise.
TIMEOUT = 30.0
#: Operations that take long by nature and have no time limit by default.
LATE = frozenset({"abort", "compact", "move"})
#: Operations that get an id, so that the client can repeat them if the connection breaks. The server accepts each id once.
WITH_ID = frozenset({"prompt", "steer", "follow_up", "prompt_session"})
#: Operations that the client repeats: a job has its own id.
REPEATABLE = WITH_ID | {"submit_jobs", "cancel_job"}
#: How often a request is sent at most.
MOST_ATTEMPTS = 6
#: Seconds without anything from the server, which sends a sign of life every 15 seconds, after which a connection is dead.
SILENCE = 45.0
#: Seconds to wait before the first new attempt, and at most.
FIRST_WAIT, LONGEST_WAIT = 0.1, 10.0
#: Statuses that mean: try again later.
TRANSIENT = frozenset({429, 502, 503, 504})

_OPERATIONS = {operation.name: operation for operation in (*OPERATIONS, *FLEET_OPERATIONS)}


class NumberedEvent(Struct, frozen=True):
    """An event of a session and its number, which is one more than that of the event before."""

    number: int
    event: Event


#: What `ServerClient.follow` yields.
Followed: TypeAlias = Snapshot | NumberedEvent


class ServerClient(HttpMethods):
    """The sessions of a server, which continue when clients leave and which several clients share.

        server = ServerClient("https://host:8787", token=token)
        session = await server.create_session()
        await server.prompt(session.id, "What is in this folder?")
        async for each in server.follow(session.id):
            ...

    Every operation of the HTTP interface is a method, also those of a fleet (`fairlead serve --db`). Each request opens
    its own connection, so there is nothing to close.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str,
        tls: ssl.SSLContext | None = None,
        insecure: bool = False,
        timeout: float | None = TIMEOUT,
        patience: float | None = 300.0,
    ) -> None:
        """Take the address of a server, and the token of a user.

        `tls` replaces the default TLS settings. `insecure` allows http to other machines. `timeout` is the number of seconds that
        the server has to answer. `patience` is the number of seconds for which `follow` tries to reach a server that is away;
        None means no limit. Raises ClientError if the address or the token cannot be used.
        """
        self._address = ServerAddress(url, token, tls=tls, insecure=insecure)
        self._timeout = timeout
        self._patience = patience
        self._decoder = FrameDecoder(EVENTS)

    async def follow(self, session_id: str, *, messages: int | None = None) -> AsyncGenerator[Followed]:
        """Yield a snapshot of a session, and then its events for as long as it exists.

        The events continue the snapshot: none is missing and none comes twice, even if the connection breaks. If the server no
        longer has what was missed, because the reader was slow or the server restarted, another snapshot comes, and the events
        continue that one. `messages` is the number of the newest messages in snapshots; None means all.

        Raises CommandRefused if the session does not exist or the server refuses the token, and AgentGone if the server could not
        be reached for `patience` seconds.
        """
        snapshot = await self.get_session(session_id, messages=messages)
        yield snapshot
        last = snapshot.last_event
        away = _Away(self._patience)
        while True:
            try:
                async with aclosing(self._listen(session_id, last, away)) as listening:
                    async for number, event in listening:
                        needs_snapshot = isinstance(event, Resync)
                        if number == last + 1 and not needs_snapshot:
                            last = number
                            yield NumberedEvent(number, event)
                            if isinstance(event, SessionReplaced):
                                session_id = event.session_id
                            needs_snapshot = isinstance(event, SessionReplaced | BranchChanged)
                            last = 0 if needs_snapshot else last  # a new connection asks for the snapshot again
                        if needs_snapshot:
                            snapshot = await self.get_session(session_id, messages=messages)
                            last = snapshot.last_event
                            yield snapshot
                        elif number > last:
                            break  # something was lost on the way: ask for it again
                await away.wait(None)
            except (ConnectionBroke, NoAnswer, ServerRefused) as error:
                if isinstance(error, ServerRefused) and error.status not in TRANSIENT:
                    raise
                await away.wait(error)

    async def follow_job(self, job_id: str, *, after: int = 0) -> AsyncGenerator[JobEvent]:
        """Yield the events of a job of a fleet after a number, and new ones as they come, until the job has ended.

        None is missing and none comes twice, even if the connection breaks: the client connects again after the last number.

        Raises CommandRefused if the job does not exist or the server refuses the token, and AgentGone if the server could not be
        reached for `patience` seconds.
        """
        away = _Away(self._patience)
        # How many streams in a row have ended without an event: a server that stops ends them too.
        empty = 0
        while True:
            problem: Exception | None = None
            empty += 1
            try:
                async with aclosing(self._stream("job_events", job_id, after, away)) as stream:
                    async for number, data in stream:
                        if number != after + 1:
                            break  # something was lost on the way: ask for it again
                        fields = msgspec.json.decode(data, type=dict[str, Any])
                        after, kind, empty = number, fields.pop("type"), 0
                        yield JobEvent(job_id, number, kind, fields)
                        away.resets()
                        if kind in ENDED and (await self.get_job(job_id)).has_ended:
                            return
                if empty > 1 and (await self.get_job(job_id)).has_ended:
                    return
            except (ConnectionBroke, NoAnswer, ServerRefused) as error:
                if isinstance(error, ServerRefused) and error.status not in TRANSIENT:
                    raise
                problem, empty = error, 0
            await away.wait(problem)

    async def wait_for_job(self, job_id: str) -> JobResult:
        """Wait until a job of a fleet has ended, and return its result. Raises what `follow_job` raises."""
        async with aclosing(self.follow_job(job_id)) as events:
            async for _ in events:
                pass
        return await self.get_job(job_id)

    async def _listen(self, session_id: str, last: int, away: _Away) -> AsyncGenerator[tuple[int, Event]]:
        """Yield the events of a session after a number, with their numbers, until the connection ends."""
        async with aclosing(self._stream("listen", session_id, last, away)) as stream:
            async for number, data in stream:
                event = self._decoder.decode(data)
                away.resets()
                if isinstance(event, Event):
                    yield number, event

    async def _stream(self, name: str, id: str, last: int, away: _Away) -> AsyncGenerator[tuple[int, bytes]]:
        """Yield what the server sends after a number, with the numbers, until the connection ends."""
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(last)}
        path = _OPERATIONS[name].path.replace("{id}", path_part(id))
        try:
            async with asyncio.timeout(SILENCE):
                response = await self._open(_OPERATIONS[name], path, None, headers)
        except TimeoutError:
            raise ConnectionBroke(f"The server at {self._address.url} did not answer in time.", was_sent=True) from None
        try:
            away.ends()
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                raise self._address.make_not_fairlead_error("it sends no events")
            async for number, data in _server_sent_events(response):
                yield number, data
        finally:
            await response.close()

    # Requests

    async def _call(self, name: str, timeout: float | UnsetType | None, /, **fields: Any) -> Any:
        operation = _OPERATIONS[name]
        seconds = (None if name in LATE else self._timeout) if timeout is UNSET else timeout
        path = operation.path
        for part, field in operation.ids:
            path = path.replace(part, path_part(fields.pop(field)))
        query = {each.name: fields.pop(each.name) for each in operation.parameters if each.place == "query"}
        given = {name: value for name, value in query.items() if value is not None}
        path += f"?{urlencode(given)}" if given else ""
        body = None
        if operation.body is not None:
            if name in WITH_ID:
                fields["id"] = fields["id"] or os.urandom(16).hex()
            if "images" in fields:
                fields["images"] = list(fields["images"])
            is_struct = isinstance(operation.body, type)
            body = msgspec.json.encode(operation.body(**fields) if is_struct else next(iter(fields.values())))
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(operation, path, body)
        except TimeoutError:
            raise NoAnswer(f"The server at {self._address.url} did not answer {name} within {seconds:g} seconds.") from None

    async def _exchange(self, operation: Operation, path: str, body: bytes | None) -> Any:
        away = _Away(None)
        for attempt in range(1, MOST_ATTEMPTS + 1):
            try:
                response = await self._open(operation, path, body, {})
                try:
                    return self._result(operation, await response.read())
                finally:
                    await response.close()
            except ConnectionBroke as error:
                may_repeat = operation.name in REPEATABLE or operation.method == "GET"
                # A server that was there a moment ago may be restarting. One that never answered is reported at once.
                was_there = error.was_sent or attempt > 1
                if not was_there or not may_repeat or attempt == MOST_ATTEMPTS:
                    raise
                await away.wait(error)

    def _result(self, operation: Operation, data: bytes) -> Any:
        if operation.result is None:
            return None if operation.content == "application/json" else data.decode(errors="replace")
        is_list = get_origin(operation.result) is list
        try:
            found = msgspec.json.decode(data, type=list[dict[str, Raw]] if is_list else dict[str, Raw])
        except msgspec.DecodeError:
            raise self._address.make_not_fairlead_error(f"it answers {operation.name} with something that is not JSON") from None
        declared = get_args(operation.result)[0] if is_list else operation.result
        required = [each.encode_name for each in msgspec.structs.fields(declared) if each.required]
        if any(name not in each for each in (found if isinstance(found, list) else [found]) for name in required):
            raise self._address.make_not_fairlead_error(f"it answers {operation.name} with something else")
        return decode_value(Raw(data), operation.result)

    async def _open(self, operation: Operation, path: str, body: bytes | None, headers: dict[str, str]) -> Response:
        """Send a request, and return the response if it is a success."""
        response = await open_request(self._address, operation.method, path, body=body, headers=headers, timeout=None)
        if response.status == operation.status:
            return response
        try:
            if response.status >= 400:
                raise await response.refusal(operation.name)
            raise self._address.make_not_fairlead_error(f"it answers {operation.name} with status {response.status}")
        finally:
            await response.close()


class _Away:
    """Waits before each new attempt to reach a server, longer each time, and gives up after `patience` seconds."""

    def __init__(self, patience: float | None) -> None:
        self._patience = patience
        self._since: float | None = None
        self._wait = FIRST_WAIT

    def ends(self) -> None:
        """Note that the server answers."""
        self._since = None

    def resets(self) -> None:
        """Note that the server works, so that the next wait is short."""
        self._wait = FIRST_WAIT

    async def wait(self, error: Exception | None) -> None:
        """Wait, or raise the error if the server was away for too long."""
        now = time.monotonic()
        self._since = self._since or now
        if error is not None and self._patience is not None and now - self._since > self._patience:
            raise error
        asked = error.retry_after if isinstance(error, ServerRefused) else None
        # Many clients of a server that comes back must not come at the same moment.
        await asyncio.sleep(max(min(asked or 0, LONGEST_WAIT), self._wait * random.uniform(0.5, 1)))
        self._wait = min(self._wait * 2, LONGEST_WAIT)


async def _server_sent_events(response: Response) -> AsyncGenerator[tuple[int, bytes]]:
    """Yield the number and the data of each event. What is incomplete at the end is dropped, as the format prescribes."""
    buffer = bytearray()
    number: int | None = None
    data: list[bytes] = []
    async for piece in response.pieces(SILENCE):
        buffer += piece
        if b"\n" not in piece:
            continue
        *lines, rest = bytes(buffer).split(b"\n")
        buffer = bytearray(rest)
        for line in lines:
            name, _, value = line.removesuffix(b"\r").partition(b":")
            value = value.removeprefix(b" ")
            if name == b"id" and value.isdigit():
                number = int(value)
            elif name == b"data":
                data.append(value)
            elif not name and not value and data:
                if number is not None:
                    yield number, b"\n".join(data)
                data = []
