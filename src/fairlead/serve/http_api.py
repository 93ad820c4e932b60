"""The handlers of the HTTP interface, and the counters of what they do. `fairlead.protocol.http.operations` declares them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from fairlead import __version__
from fairlead.core import lenient
from fairlead.errors import FairleadError
from fairlead.protocol.http import http_objects as o
from fairlead.protocol.http.operations import OPERATIONS, Operation
from fairlead.protocol.schema.openapi import openapi_document
from fairlead.serve.access import CODE_SECONDS, COOKIE_SECONDS, Access
from fairlead.serve.guard import cookie_value, refuse, wrong_secret
from fairlead.serve.refusals import Refusal, bad_request, refusal_for
from fairlead.serve.sessions.hub import Hub
from fairlead.serve.streams import EventStream, send_over_websocket


class Metrics:
    """What the server has done since its start."""

    def __init__(self, hub: Hub, access: Access) -> None:
        self._hub = hub
        self._access = access
        self._responses: Counter[int] = Counter()
        #: The hosts that are connected over a WebSocket, by dialect.
        self.hosts: Counter[str] = Counter()

    def count_response(self, status: int) -> None:
        self._responses[status] += 1

    def text(self, user: str) -> str:
        """Return the metrics for a user: about the sessions of that user, and about the whole server if it has one user only."""
        hub = self._hub
        sessions = hub.sessions_of(user)
        own = [
            *_metric("sessions_open", "gauge", "Open sessions.", len(sessions)),
            *_metric("sessions_running", "gauge", "Sessions with a run.", sum(each.status != "idle" for each in sessions)),
            *_metric("listeners", "gauge", "Clients that listen to events.", sum(each.feed.listeners for each in sessions)),
            *_metric("questions_open", "gauge", "Questions without an answer.", sum(len(each.questions) for each in sessions)),
        ]
        if len(hub.spaces) > 1:  # the rest is about others too
            return "\n".join([*own, ""])
        others = [
            *_metric("sessions_opened_total", "counter", "Sessions that were opened.", hub.opened),
            *_metric("sessions_evicted_total", "counter", "Idle sessions that were evicted.", hub.evicted),
            *_metric("listeners_dropped_total", "counter", "Clients that read too slowly.", hub.dropped_listeners),
            *_metric("failed_logins_total", "counter", "Attempts with a wrong secret.", self._access.failures.total),
            *_metric("responses_total", "counter", "Responses.", {f'status="{code}"': n for code, n in self._responses.items()}),
            *_metric("hosts", "gauge", "Connected hosts.", {f'dialect="{name}"': n for name, n in self.hosts.items()}),
        ]
        return "\n".join([*own, *others, ""])


def _metric(name: str, kind: str, about: str, value: float | dict[str, int]) -> list[str]:
    full = f"fairlead_{name}"
    values = {f"{{{labels}}}": each for labels, each in sorted(value.items())} if isinstance(value, dict) else {"": value}
    return [f"# HELP {full} {about}", f"# TYPE {full} {kind}", *(f"{full}{labels} {each}" for labels, each in values.items())]


_log = logging.getLogger("fairlead.serve")

#: The most bytes of a request that needs no login.
LONGEST_LOGIN = 4096
#: Seconds in which the body of a request must arrive, without a login and with one.
BODY_SECONDS, BODY_SECONDS_OF_USER = 20.0, 300.0
#: The most digits of a number in a query.
_MOST_DIGITS = 18


class Call(Struct, frozen=True):
    """A request that has passed all checks."""

    user: str
    #: The parts of the path, by name.
    path: Mapping[str, str]
    query: QueryParams
    body: Any
    request: Request


Handler: TypeAlias = Callable[[Call], Awaitable[Any]]


class Api:
    """Serves the operations. `cookie` is the name of the cookie, which is `secure` if the server speaks TLS. `more` are the
    operations of additional routes, for the OpenAPI document.
    """

    def __init__(
        self,
        hub: Hub,
        access: Access,
        metrics: Metrics,
        *,
        cookie: str,
        secure: bool,
        request_bytes: int,
        more: Sequence[Operation] = (),
    ) -> None:
        self._hub = hub
        self._access = access
        self._metrics = metrics
        self._cookie = cookie
        self._secure = secure
        self._request_bytes = request_bytes
        self._more = more

    def routes(self) -> list[BaseRoute]:
        """Return a route for each operation."""
        routes: list[BaseRoute] = [
            Route(operation.path, self._endpoint(operation, getattr(self, operation.name)), methods=[operation.method])
            for operation in OPERATIONS
        ]
        listen = next(operation for operation in OPERATIONS if operation.name == "listen")
        return [*routes, WebSocketRoute(listen.path, self._listen_over_websocket)]

    def _endpoint(self, operation: Operation, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            try:
                body = await self._body(request, operation)
                user: str = request.state.user or ""
                result = await handler(Call(user, request.path_params, request.query_params, body, request))
            except FairleadError as error:
                return Refused(refusal_for(error))
            except ClientDisconnect:
                return Response(status_code=400)
            except Exception:
                _log.exception("A bug in fairlead: %s failed.", operation.name)
                return Refused(Refusal(500, "internal", "A bug in fairlead. The log of the server has more."))
            if isinstance(result, Response):
                return result
            if operation.result is None:
                return result if isinstance(result, EventStream) else Response(status_code=operation.status)  # pyright: ignore[reportReturnType]
            content = result if isinstance(result, bytes) else encode_result(result)
            return Response(content, operation.status, media_type=operation.content)

        return serve

    async def _body(self, request: Request, operation: Operation) -> Any:
        """Return the decoded body. Raises Refusal if it is too large, too slow or malformed."""
        limit, seconds = (LONGEST_LOGIN, BODY_SECONDS) if operation.is_public else (self._request_bytes, BODY_SECONDS_OF_USER)
        try:
            async with asyncio.timeout(seconds):
                data = await self._read(request, limit)
        except TimeoutError:
            raise Refusal(408, "too_slow", f"The body did not arrive within {seconds:g} seconds.") from None
        if operation.body is None or operation.body is o.Login:
            return data
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if data and kind != "application/json":
            raise Refusal(415, "not_json", "The body must be JSON, with the header `Content-Type: application/json`.")
        return decode_body(data or b"{}", operation.body)

    async def _read(self, request: Request, limit: int) -> bytes:
        pieces: list[bytes] = []
        size = 0
        async for piece in request.stream():
            size += len(piece)
            if size > limit:
                raise Refusal(413, "too_large", f"This request may have {limit} bytes.")
            pieces.append(piece)
        return b"".join(pieces)

    # Sessions

    async def create_session(self, call: Call) -> o.SessionState:
        return (await self._hub.create(call.user, call.body)).state()

    async def list_sessions(self, call: Call) -> o.SessionList:
        return await self._hub.list(call.user, call.query.get("cwd"), call.query.get("cursor"))

    async def get_session(self, call: Call) -> bytes:
        most = number(call.query.get("messages"), "messages")
        async with self._hub.reading(call.user, call.path["id"]) as session:
            return session.snapshot(most)

    async def change_session(self, call: Call) -> o.SessionState:
        async with self._hub.using(call.user, call.path["id"]) as session:
            await session.change(call.body)
            return session.state()

    async def delete_session(self, call: Call) -> None:
        await self._hub.delete(call.user, call.path["id"])

    async def prompt(self, call: Call) -> o.AcceptedPrompt:
        async with self._hub.using(call.user, call.path["id"]) as session:
            return await session.prompt(call.body)

    async def steer(self, call: Call) -> o.AcceptedPrompt:
        async with self._hub.using(call.user, call.path["id"]) as session:
            return await session.steer(call.body)

    async def follow_up(self, call: Call) -> o.AcceptedPrompt:
        async with self._hub.using(call.user, call.path["id"]) as session:
            return await session.follow_up(call.body)

    async def abort(self, call: Call) -> o.SessionState:
        async with self._hub.using(call.user, call.path["id"]) as session:
            await session.abort()
            return session.state()

    async def resume(self, call: Call) -> o.SessionState:
        async with self._hub.using(call.user, call.path["id"]) as session:
            await session.resume()
            return session.state()

    async def compact(self, call: Call) -> Any:
        async with self._hub.using(call.user, call.path["id"]) as session:
            return await session.compact(call.body.instructions)

    async def get_tree(self, call: Call) -> o.Tree:
        async with self._hub.reading(call.user, call.path["id"]) as session:
            return session.tree()

    async def fork(self, call: Call) -> o.Forked:
        async with self._hub.using(call.user, call.path["id"]) as session:
            return await self._hub.fork(call.user, session, call.body)

    async def move(self, call: Call) -> o.Moved:
        async with self._hub.using(call.user, call.path["id"]) as session:
            return await session.move(call.body)

    async def clear_queue(self, call: Call) -> o.ClearedQueue:
        async with self._hub.using(call.user, call.path["id"]) as session:
            return session.clear_queue()

    async def answer(self, call: Call) -> None:
        async with self._hub.using(call.user, call.path["id"]) as session:
            session.answer(call.path["question"], call.body)

    async def complete(self, call: Call) -> o.Completions:
        async with self._hub.reading(call.user, call.path["id"]) as session:
            return await session.complete(call.body.text)

    async def listen(self, call: Call) -> EventStream:
        after = _last_event(call.request)
        async with self._hub.reading(call.user, call.path["id"]) as session:
            return EventStream(session.feed.listen(after))

    async def _listen_over_websocket(self, websocket: WebSocket) -> None:
        try:
            after = _last_event(websocket)
            async with self._hub.reading(websocket.state.user, websocket.path_params["id"]) as session:
                listener = session.feed.listen(after)
        except FairleadError as error:
            await refuse(websocket.scope, websocket.send, refusal_for(error))
            return
        with listener:
            await websocket.accept()
            await send_over_websocket(listener, websocket.scope, websocket._receive, websocket._send)  # pyright: ignore[reportPrivateUsage]

    # The server

    async def list_models(self, call: Call) -> o.ModelList:
        return o.ModelList(models=self._hub.models(call.user))

    async def healthz(self, call: Call) -> o.Health:
        return o.Health(status="ok")

    async def readyz(self, call: Call) -> o.Health | Response:
        if self._hub.is_stopping:
            return Response(encode_result(o.Health(status="stopping")), 503, media_type="application/json")
        return o.Health(status="ok")

    async def metrics(self, call: Call) -> Response:
        return Response(self._metrics.text(call.user), media_type="text/plain; version=0.0.4")

    async def openapi(self, call: Call) -> bytes:
        return self._document

    @cached_property
    def _document(self) -> bytes:
        return msgspec.json.encode(openapi_document(__version__, self._more))

    # Logging in

    async def create_login_code(self, call: Call) -> o.LoginCode:
        return o.LoginCode(code=self._access.new_code(call.user), expires_in=CODE_SECONDS)

    async def log_in(self, call: Call) -> Response:
        """Check a secret, from JSON or from the form of the login page, and set the cookie."""
        kind = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_form = kind == "application/x-www-form-urlencoded"
        if is_form:
            secret = _form_field(call.body, "code")
        elif kind == "application/json":
            secret = decode_body(call.body, o.Login).code
        else:
            raise Refusal(415, "not_json", "The body must be JSON.")
        value = self._access.log_in(secret.strip())
        if value is None:
            text = "This code is not valid, or it was used before. Codes are valid for a short time."
            refusal = wrong_secret(self._access.failures, call.request.scope, Refusal(401, "wrong_code", text))
            if refusal.status == 429:
                await self._access.failures.hold_up()
            raise refusal
        response = RedirectResponse("/", 303) if is_form else Response(status_code=204)
        response.set_cookie(
            self._cookie, value, max_age=COOKIE_SECONDS, httponly=True, samesite="strict", secure=self._secure, path="/"
        )
        return response

    async def log_out(self, call: Call) -> Response:
        value = cookie_value(call.request.headers.get("cookie", ""), self._cookie)
        if value is not None:
            self._access.log_out(value)
        response = Response(status_code=204)
        response.delete_cookie(self._cookie, httponly=True, samesite="strict", secure=self._secure, path="/")
        return response


class Refused(Response):
    """A response that says why a request is refused."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__()
        self._refusal = refusal

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await refuse(scope, send, self._refusal)


def decode_body(data: bytes, declared: type[Any]) -> Any:
    """Decode a body. Raises Refusal if it is malformed."""
    try:
        return msgspec.json.decode(data, type=declared)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise bad_request(f"The body is malformed: {error}.") from None


def encode_result(value: Any) -> bytes:
    """Encode a result. Text that is not valid Unicode is mended."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(lenient.scrub(msgspec.to_builtins(value)))


def _form_field(data: bytes, name: str) -> str:
    """Return a field of a form. Raises Refusal."""
    try:
        return parse_qs(data.decode("latin-1"), max_num_fields=10).get(name, [""])[0]
    except ValueError:
        raise bad_request("The form is malformed.") from None


def _last_event(request: HTTPConnection) -> int | None:
    """Return the number of the last event that a client has. Raises Refusal."""
    given = number(request.headers.get("last-event-id"), "Last-Event-ID")
    return number(request.query_params.get("after"), "after") if given is None else given


def number(text: str | None, name: str) -> int | None:
    """Return the number in a query or a header. Raises Refusal."""
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise bad_request(f"{name}: expected a number, found {text[:50]!r}.")
    return int(text)
