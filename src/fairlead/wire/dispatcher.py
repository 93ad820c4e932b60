"""The dispatcher: takes messages, calls handlers and sends answers. It works for every protocol.

A protocol supplies a codec (bytes to messages, answers to bytes) and routes (which handler serves which request, and when).
The dispatcher does the rest:

- Requests take effect in the order they arrive, so a getter sees everything that came before it.
- A `late` request starts in its turn and is answered when its work ends. Later requests do not wait for it.
- A `now` request and a reply to a question take effect as soon as they arrive.
- While a request blocks the queue, or the host does not read, urgent requests (aborts) may take effect before their turn.
- The host can cancel a request. It is still answered.
- An error becomes the request's answer. A bug in one handler costs one answer, never the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, cast

from msgspec import UNSET, UnsetType

from fairlead.core.runtime import CancelToken
from fairlead.errors import FairleadError
from fairlead.wire.host_connection import Connection
from fairlead.wire.routing import (
    Answer,
    HostReply,
    Id,
    Late,
    Message,
    Problem,
    Request,
    RequestCancelled,
    RequestRoute,
    Service,
    UnknownRequest,
)

_log = logging.getLogger("fairlead.wire")

#: Seconds that running work may take after the host has asked to shut down.
LEAVING_PATIENCE = 0.5
CANCELLED = "The request was cancelled."


class Dispatcher:
    """Serves one connection for one service."""

    def __init__(self, connection: Connection, service: Service) -> None:
        #: The number of messages that have had their turn.
        self.handled = 0
        #: Set this to end `serve` after the current request.
        self.stopping = False
        #: Called once, after the first answer was sent.
        self.after_first_answer: Callable[[], None] | None = None
        #: The request that a handler was last called for.
        self.current: Request | None = None
        self._connection = connection
        self._service = service
        self._codec = service.codec
        self._late: set[asyncio.Task[None]] = set()
        #: The work on the request whose turn it is, or was last.
        self._turn: asyncio.Future[None] | None = None
        self._queue_is_blocked = False
        #: The queued requests that may take effect before their turn.
        self._early: deque[Request] = deque()
        #: The request whose turn it is, while it waits for its prerequisite.
        self._postponed: Request | None = None
        self._leaving = CancelToken()
        #: The requests that are being worked on, by their id.
        self._running: dict[bytes, Request] = {}
        connection.on_arrival = self._receive_line

    async def serve(self) -> None:
        """Serve the host until its input ends or `stopping` is set."""
        output = self._connection.output
        while not self.stopping:
            try:
                message = await self._connection.next()
            except EOFError:
                return
            if self._early and self._early[0] is message:
                self._early.popleft()
            work = self._take(message)
            self.handled += 1
            if work is not None:
                self._turn = asyncio.ensure_future(work)
                await self._block_queue(self._turn)
            self._finish_first_answer()
            if output.paused and not self.stopping:
                await self._block_queue(output.wait(self._leaving))

    def leave(self) -> None:
        """Stop waiting for the host to read, and soon for running work too, because the host wants to shut down."""
        self._leaving.fire()

    def cancel(self, id: bytes) -> None:
        """Cancel the request with this id, because the host no longer wants it. It is answered in any case.

        A request that waits for its turn is answered with an error. A finished or unknown one is ignored.
        """
        request = self._running.get(id) or next((each for each in self._waiting() if id_bytes(each.id) == id), None)
        if request is None or request.is_cancelled:
            return
        route = request.route
        if request.stop is not None and route is not None and route.cancel is not None:
            route.cancel(self._service, request.parameters)
            return
        request.is_cancelled = True
        if request.stop is not None:
            request.stop()

    def _waiting(self) -> Iterator[Request]:
        """Return the requests that have not started."""
        if self._postponed is not None:
            yield self._postponed
        yield from (message for message in self._connection.list_queued() if isinstance(message, Request))

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` without making later requests wait for it."""
        task = asyncio.create_task(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def late_answers(self) -> None:
        """Wait until the late requests are answered, and the one whose turn it is."""
        running = self._late if self._turn is None else {*self._late, self._turn}
        if running:
            await asyncio.wait(running)

    def acknowledge(self, request: Request, result: Any = None) -> None:
        """Send the result of a request before the work on it has ended. It gets no other result, but may still get an error."""
        if not request.is_acknowledged:
            request.is_acknowledged = True
            self.answer(request, result)

    def answer(self, request: Request, result: Any = None) -> None:
        """Send the result of a request."""
        lines = list(self._codec.result(request, result))
        self._service.call_when_written(lambda: [self._service.send(line) for line in lines])

    # Arrival

    def _receive_line(self, line: bytes | None) -> Message | None:
        """Read a line, and act on it immediately if it must not wait. Returns the message to queue, or None if it is done."""
        try:
            message = self._codec.read(line)
        except Exception as error:  # a line that breaks the codec must not stop the next one
            _report()
            return Problem(UNSET, FairleadError(f"{type(error).__name__}: {error}"))
        if isinstance(message, HostReply):
            self._receive_reply(message)
            return None
        if not isinstance(message, Request) or message.name not in self._service.routes.early:
            return message
        if self._acts_now(message):
            return None
        self._early.append(message)
        return message

    def _acts_now(self, request: Request) -> bool:
        """Serve a request before its turn if it must not wait. Returns False if it stays in the queue."""
        route = self._service.routes.early[request.name]
        try:
            if route.when != "now" and not (self._queue_is_blocked and self._is_urgent(route, request)):
                return False
            work = self._take(request)
            if work is not None:
                self.run_in_background(work)
            self._finish_first_answer()
        except Exception:  # a bug in an urgent action: the request stays in the queue
            _report()
            return False
        return True

    def _is_urgent(self, route: RequestRoute, request: Request) -> bool:
        if route.urgent is None:
            return False
        return route.urgent(self._service, request, self._list_waiting_before(request))

    def _list_waiting_before(self, request: Request) -> Iterator[Request]:
        """Return the requests that arrived before `request` and have not started yet."""
        return takewhile(lambda message: message is not request, self._waiting())

    def _receive_reply(self, reply: HostReply) -> None:
        try:
            if reply.problem is not None:
                raise reply.problem
            self._service.receive_reply(reply)
        except FairleadError as error:
            self._fail(reply, error)
        except Exception:
            _report()

    # Turns

    async def _block_queue(self, work: Awaitable[None]) -> None:
        """Do work that later requests wait for. Urgent requests may take effect meanwhile."""
        task = asyncio.ensure_future(work)
        # The work starts before any later request takes effect: an abort must find the run that it is meant for.
        await asyncio.sleep(0)
        if task.done():
            return task.result()
        self._queue_is_blocked = True
        try:
            self._reconsider()
            await self._wait_unless_leaving(task)
        finally:
            self._queue_is_blocked = False

    def _reconsider(self) -> None:
        """Let urgent requests that are already queued take effect now."""
        for request in list(self._early):
            if self._acts_now(request):
                self._early.remove(request)
                self._connection.remove(request)

    async def _wait_unless_leaving(self, task: asyncio.Future[None]) -> None:
        """Wait for a task. Once the host wants to shut down, cancel it after a short time."""
        loop, me = asyncio.get_running_loop(), asyncio.current_task()
        forget = self._leaving.on_fire(lambda: loop.call_later(LEAVING_PATIENCE, task.cancel))
        try:
            await task
        except asyncio.CancelledError:
            if me is not None and me.cancelling():
                raise
        finally:
            forget()

    def _take(self, message: Message) -> Coroutine[Any, Any, None] | None:
        """Act on a message whose turn it is. Returns the work that later messages have to wait for, or None."""
        if isinstance(message, Problem):
            self._fail(message, message.error)
        if not isinstance(message, Request):
            return None
        with self._answering(message):
            if message.is_cancelled:
                raise RequestCancelled(CANCELLED)
            message.route = self._service.routes.find(message.name)
            if message.route is None:
                raise UnknownRequest(message.name)
            message.parameters = self._codec.parameters(message, message.route.declaration)
            message.body = None  # it may be long
            prerequisite = self._service.prerequisite(message)
            return self._start(message) if prerequisite is None else self._start_after(prerequisite, message)
        return None

    async def _start_after(self, prerequisite: Coroutine[Any, Any, Any], request: Request) -> None:
        with self._answering(request):
            self._postponed = request
            try:
                await prerequisite
            finally:
                self._postponed = None
            if request.is_cancelled:
                raise RequestCancelled(CANCELLED)
            work = self._start(request)
            if work is not None:
                await self._block_queue(work)

    def _start(self, request: Request) -> Coroutine[Any, Any, None] | None:
        route = cast("RequestRoute", request.route)
        with self._answering(request):
            self.current = request
            _log.debug("serve %s %r", request.name, request.id)
            result = route.handler(self._service, request.parameters)
            if not isinstance(result, Coroutine):
                self._succeed(request, result)
                return None
            work = self._stoppable(request, cast("Coroutine[Any, Any, Any]", result))
            if route.when == "in_turn":
                return self._finish_in_turn(request, work)
            self.run_in_background(self._finish(request, work))
        return None

    async def _finish_in_turn(self, request: Request, work: Coroutine[Any, Any, Any]) -> None:
        with self._service.serving(request):
            await self._finish(request, work)

    async def _finish(self, request: Request, work: Coroutine[Any, Any, Any]) -> None:
        with self._answering(request):
            result = await work
            if isinstance(result, Late):
                self.run_in_background(self._finish(request, self._stoppable(request, result.work)))
                await asyncio.sleep(0)  # the work starts before any later request
                return
            following = self._succeed(request, result)
            if following is not None:
                await following

    def _stoppable(self, request: Request, work: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        """Let `cancel` stop the work on a request."""
        key = id_bytes(request.id)
        if key is None:
            return work
        self._running[key] = request
        # The work may be stopped before its first step.
        request.stop = lambda: None

        async def stoppable() -> Any:
            task = asyncio.current_task()
            assert task is not None
            try:
                if request.is_cancelled:
                    work.close()
                    raise RequestCancelled(CANCELLED)
                request.stop = task.cancel
                return await work
            except asyncio.CancelledError:
                if not request.is_cancelled:
                    raise
                task.uncancel()
                raise RequestCancelled(CANCELLED) from None
            finally:
                request.stop = None
                if self._running.get(key) is request:
                    del self._running[key]

        return stoppable()

    # Answers

    def _succeed(self, request: Request, result: Any) -> Coroutine[Any, Any, None] | None:
        """Send a result. Returns the work that its `then` started, or None."""
        answer = result if isinstance(result, Answer) else Answer(result)
        try:
            if not request.is_acknowledged:
                self.answer(request, answer.result)
        finally:
            following = None
            if answer.then is not None:
                with _reporting():  # the host has its answer already: an error here must not become a second one
                    following = answer.then()
        return following

    @contextmanager
    def _answering(self, request: Request) -> Generator[None]:
        """Send an error in the block as the answer to a request."""
        try:
            yield
        except FairleadError as error:
            self._fail(request, error)
        except Exception as error:
            _report()
            self._fail(request, error)
        except asyncio.CancelledError as error:
            self._fail(request, error)
            raise

    def _fail(self, message: Message, error: BaseException) -> None:
        for line in self._codec.error(message, error):
            self._service.send(line)

    def _finish_first_answer(self) -> None:
        if self.after_first_answer is not None:
            self.after_first_answer()
            self.after_first_answer = None


def id_bytes(id: Id) -> bytes | None:
    """Return the id of a request as the host wrote it; None if it has none."""
    return None if isinstance(id, UnsetType) else bytes(id)


@contextmanager
def _reporting() -> Generator[None]:
    try:
        yield
    except Exception:
        _report()


def _report() -> None:
    """Log the current exception as a bug in fairlead."""
    _log.exception("A bug in fairlead; the host gets an error, and the next request is served.")
