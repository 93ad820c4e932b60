"""The jobs and sessions of a fleet over HTTP, for `fairlead serve --db`.

Everything is in the database, so any server can serve any session, also one whose prompts run on another machine. The server
checks who asks before a request comes here. Every client that it lets in may use all jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from fairlead.errors import DatabaseUnavailable, JobConflict, JobError, JobNotFound
from fairlead.jobs.jobs_client import Jobs
from fairlead.jobs.task import Job
from fairlead.protocol.http.fleet import FLEET_OPERATIONS, SessionPrompt
from fairlead.protocol.http.operations import Operation

#: Seconds without an event after which a comment shows that the connection still works.
_HEARTBEAT_SECONDS = 15.0
#: The statuses and short names of errors; the first that fits counts.
_ERRORS: tuple[tuple[type[Exception], int, str], ...] = (
    (JobNotFound, 404, "not_found"),
    (JobConflict, 409, "conflict"),
    (DatabaseUnavailable, 503, "unavailable"),
    (JobError, 400, "bad_request"),
    (msgspec.DecodeError, 400, "bad_request"),
    (UnicodeDecodeError, 400, "bad_request"),
)

Endpoint = Callable[[Request], Awaitable[Response]]


class FleetRoutes:
    """Answers requests about the jobs of a database."""

    def __init__(self, jobs: Jobs, *, request_bytes: int) -> None:
        self._jobs = jobs
        self._request_bytes = request_bytes
        self._is_over = asyncio.Event()

    def end_streams(self) -> None:
        """End all responses that are still being sent, because the server stops."""
        self._is_over.set()

    @property
    def operations(self) -> Sequence[Operation]:
        """What the routes do, for the OpenAPI document."""
        return FLEET_OPERATIONS

    def routes(self) -> list[BaseRoute]:
        """Return the routes, for a server that has checked who asks."""
        return [
            Route(operation.path, _with_errors(getattr(self, operation.name)), methods=[operation.method])
            for operation in FLEET_OPERATIONS
        ]

    async def list_jobs(self, request: Request) -> Response:
        return _json(await self._jobs.list())

    async def submit_jobs(self, request: Request) -> Response:
        jobs: Job | list[Job] = msgspec.json.decode(await self._body(request), type=Job | list[Job])
        return _json(await self._jobs.submit(*(jobs if isinstance(jobs, list) else [jobs])))

    async def get_job(self, request: Request) -> Response:
        return _json(await self._jobs.get(request.path_params["id"]))

    async def job_events(self, request: Request) -> Response:
        id, after = request.path_params["id"], request.headers.get("last-event-id") or request.query_params.get("after", "0")
        if not (after.isascii() and after.isdigit() and len(after) < 16):
            raise JobError(f"after: expected the number of an event, got {after!r}.")
        await self._jobs.get(id)
        return StreamingResponse(self._stream(id, int(after)), media_type="text/event-stream")

    async def _stream(self, id: str, after: int) -> AsyncGenerator[bytes]:
        async with aclosing(self._jobs.events(id, after=after)) as events:
            waiting = asyncio.ensure_future(anext(events, None))
            over = asyncio.ensure_future(self._is_over.wait())
            try:
                while not self._is_over.is_set():
                    done, _ = await asyncio.wait([waiting, over], timeout=_HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                    if not done:
                        yield b":\n\n"
                    if waiting not in done:
                        continue
                    event = waiting.result()
                    if event is None:
                        return
                    data = msgspec.json.encode({"type": event.type, **event.data})
                    yield b"id: %d\ndata: %b\n\n" % (event.number, data)
                    waiting = asyncio.ensure_future(anext(events, None))
            finally:
                waiting.cancel()
                over.cancel()
                await asyncio.gather(waiting, over, return_exceptions=True)

    async def _body(self, request: Request) -> bytes:
        """Read a body. Raises JobError if it is too large."""
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > self._request_bytes:
                raise JobError(f"The request is larger than {self._request_bytes} bytes.")
        return bytes(body)

    async def job_patch(self, request: Request) -> Response:
        return Response(await self._jobs.patch(request.path_params["id"]) or "", media_type="text/plain; charset=utf-8")

    async def cancel_job(self, request: Request) -> Response:
        return _json((await self._jobs.cancel(request.path_params["id"]))[0])

    async def retry_job(self, request: Request) -> Response:
        return _json((await self._jobs.retry(request.path_params["id"]))[0])

    async def session_jobs(self, request: Request) -> Response:
        return _json(await self._jobs.list(session=request.path_params["id"]))

    async def prompt_session(self, request: Request) -> Response:
        body = msgspec.json.decode(await self._body(request), type=SessionPrompt)
        fields: dict[str, Any] = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
        prompt = fields.pop("prompt")
        return _json(await self._jobs.prompt(request.path_params["id"], prompt, **fields))

    async def session_transcript(self, request: Request) -> Response:
        session = request.path_params["id"]
        text = await self._jobs.transcript(session)
        if text is None:
            raise JobNotFound(f"There is no session {session!r}.")
        return Response(text, media_type="application/x-ndjson")


def _with_errors(endpoint: Endpoint) -> Endpoint:
    """Answer errors of jobs with a status and a text, as the other routes of the server do."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except tuple(error for error, _, _ in _ERRORS) as error:
            status, code = next((status, code) for kind, status, code in _ERRORS if isinstance(error, kind))
            return _json({"error": {"code": code, "message": str(error)}}, status)

    return answer


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
