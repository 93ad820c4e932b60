"""What a protocol supplies to the dispatcher: messages, a codec that decodes and answers them, and a table of routes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Raw, Struct, UnsetType

from fairlead.errors import FairleadError

#: The id of a request, exactly as the host wrote it.
Id: TypeAlias = Raw | UnsetType
When: TypeAlias = Literal["in_turn", "late", "now"]


class UnknownRequest(FairleadError):
    """The protocol has no request with this name."""


class RequestCancelled(FairleadError):
    """The host cancelled the request before it was answered."""


class RequestRoute(Struct, frozen=True):
    """How to serve one kind of request."""

    #: The type that declares the request.
    declaration: Any
    #: Takes the server and the decoded request. Returns the result, or a coroutine that returns it.
    handler: Callable[..., Any]
    when: When = "in_turn"
    #: Whether the request waits until extensions are loaded.
    needs_extensions: bool = True
    #: Called when the request arrives while another one blocks the queue. Takes the server, the request and the earlier
    #: requests that have not started yet. Returns True to serve the request now, before its turn.
    urgent: Callable[[Any, Request, Iterable[Request]], bool] | None = None
    #: Called when the host cancels a request that has started. Takes the server and the decoded request, whose handler then ends
    #: by itself. None: its work is interrupted, and its answer is an error.
    cancel: Callable[[Any, Any], object] | None = None


class Request(Struct, eq=False):
    """A request from the host. The codec decodes the parameters from `body`. Without an id, it gets no answer."""

    name: str
    id: Id
    body: Any
    #: The decoded parameters. None until it is the request's turn.
    parameters: Any = None
    route: RequestRoute | None = None
    #: Whether the request took effect before its turn; see `RequestRoute.urgent`.
    has_acted: bool = False
    #: Whether the host no longer wants it; see `Dispatcher.cancel`.
    is_cancelled: bool = False
    #: Stops the work on the request; None if it has not started.
    stop: Callable[[], object] | None = None
    #: Whether its result was sent before the work on it has ended; see `Dispatcher.acknowledge`.
    is_acknowledged: bool = False


class HostReply(Struct, frozen=True):
    """The host's answer to a question, or a report of progress on it."""

    name: str
    id: Id
    #: The id of the question; None if the reply does not name one.
    question: str | None
    body: Any
    #: The error to send to the host if the reply is malformed.
    problem: FairleadError | None = None


class Problem(Struct, frozen=True):
    """A line that is neither a request nor a reply. The error is sent when it is the line's turn."""

    id: Id
    error: FairleadError


Message: TypeAlias = Request | HostReply | Problem


class Answer(Struct):
    """A result, and what to do after it was sent."""

    result: Any = None
    then: Callable[[], Coroutine[Any, Any, None] | None] | None = None


class Late(Struct):
    """Returned by an in-turn handler to finish its work without making later requests wait."""

    work: Coroutine[Any, Any, Any]


class Codec(Protocol):
    """Decodes lines into messages, and encodes answers as lines. An answer may have any number of lines, even none."""

    def read(self, line: bytes | None) -> Message | None:
        """Decode one line, or None for a line that was too long. Returns None if there is nothing to do."""
        ...

    def parameters(self, request: Request, declaration: Any) -> Any:
        """Decode the parameters of a request. Raises FairleadError if they are invalid."""
        ...

    def result(self, request: Request, result: Any) -> Sequence[bytes]:
        """Return the lines that send the result of a request."""
        ...

    def error(self, message: Message, error: BaseException) -> Sequence[bytes]:
        """Return the lines that report an error to the host."""
        ...


class Service(Protocol):
    """What the dispatcher needs from the server of a protocol. Handlers get the same object."""

    @property
    def codec(self) -> Codec: ...

    @property
    def routes(self) -> RouteTable: ...

    @property
    def send(self) -> Callable[[bytes], None]: ...

    def call_when_written(self, action: Callable[[], object]) -> None:
        """Call `action`, which sends an answer, when everything that it may tell about is durable."""
        ...

    def receive_reply(self, reply: HostReply) -> None:
        """Handle the host's reply to a question. Raises FairleadError if the host should get an error for it."""
        ...

    def prerequisite(self, request: Request) -> Coroutine[Any, Any, Any] | None:
        """Return what has to end before the request may start, or None if it may start now."""
        ...

    def serving(self, request: Request) -> AbstractContextManager[Any]:
        """Return a context that is active while an in-turn request is served, until its answer was sent."""
        ...


class RouteTable:
    """The routes of a protocol by name.

    Each of `loaders` returns another table. They are called in order when a name is not in the tables so far. Urgent routes and
    `now` routes must be in the first table.
    """

    def __init__(
        self, name_of: Callable[[Any], str], first: Iterable[RequestRoute], *loaders: Callable[[], Iterable[RequestRoute]]
    ) -> None:
        self._name_of = name_of
        self._found = self._by_name(first)
        self._loaders = list(loaders)
        #: The routes whose requests may take effect before their turn.
        self.early: Mapping[str, RequestRoute] = {
            name: route for name, route in self._found.items() if route.when == "now" or route.urgent is not None
        }

    def find(self, name: str) -> RequestRoute | None:
        """Return the route with this name, or None."""
        while name not in self._found and self._loaders:
            self._found.update(self._by_name(self._loaders.pop(0)()))
        return self._found.get(name)

    def all(self) -> Mapping[str, RequestRoute]:
        """Load all tables, and return every route by name."""
        self.find("")
        return self._found

    def _by_name(self, routes: Iterable[RequestRoute]) -> dict[str, RequestRoute]:
        return {self._name_of(route.declaration): route for route in routes}
