"""What a protocol supplies to the dispatcher: messages, a codec that reads and answers them, and a table of routes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Raw, Struct, UnsetType

from fairlead.errors import FairleadError

#: How a host refers to a request, exactly as it wrote it.
Id: TypeAlias = Raw | UnsetType
When: TypeAlias = Literal["in_turn", "late", "now"]


class UnknownRequest(FairleadError):
    """No route has the name of the request."""


class Route(Struct, frozen=True):
    """How one kind of request is served."""

    #: The type that declares the request.
    declaration: Any
    #: Takes the server and the decoded request. Returns the result, or a coroutine that does.
    handler: Callable[..., Any]
    when: When = "in_turn"
    #: Whether the request waits until extensions are loaded.
    needs_extensions: bool = True
    #: Called with the server, the request and the requests before it that have not started yet, when the request arrives
    #: while another holds up the line. Returns True to serve the request now, out of turn.
    urgent: Callable[[Any, Request, Iterable[Request]], bool] | None = None


class Request(Struct, eq=False):
    """A host asks for something. `body` is what the codec decodes the parameters from."""

    name: str
    id: Id
    body: Any
    #: The decoded parameters, once it is the request's turn.
    parameters: Any = None
    route: Route | None = None
    #: Whether the request has acted before its turn; see `Route.urgent`.
    has_acted: bool = False


class Reply(Struct, frozen=True):
    """A host answers a question, or reports progress on it."""

    name: str
    id: Id
    #: The id of the question; None if the reply does not name one.
    question: str | None
    body: Any
    #: Why the host should be told that the reply makes no sense.
    problem: FairleadError | None = None


class Problem(Struct, frozen=True):
    """A line that is neither. The host is told so when the line has its turn."""

    id: Id
    error: FairleadError


Message: TypeAlias = Request | Reply | Problem


class Answer(Struct):
    """A result, and what happens once it has been sent. `is_sent` if the host has its answer already."""

    result: Any = None
    then: Callable[[], Coroutine[Any, Any, None] | None] | None = None
    is_sent: bool = False


class Late(Struct):
    """What an in-turn handler returns to go on beside later requests after all."""

    work: Coroutine[Any, Any, Any]


class Codec(Protocol):
    """Turns lines into messages, and answers into lines. An answer may take no line, or several."""

    def read(self, line: bytes | None) -> Message | None:
        """Read one line; None stands for a line that was too long. Returns None if there is nothing to do."""
        ...

    def parameters(self, request: Request, declaration: Any) -> Any:
        """Decode the parameters of a request. Raises FairleadError."""
        ...

    def result(self, request: Request, result: Any) -> Sequence[bytes]: ...

    def error(self, message: Message, error: BaseException) -> Sequence[bytes]: ...


class Service(Protocol):
    """What a protocol's server offers to its dispatcher. Handlers get the same object."""

    @property
    def codec(self) -> Codec: ...

    @property
    def routes(self) -> Routes: ...

    @property
    def send(self) -> Callable[[bytes], None]: ...

    def receive_reply(self, reply: Reply) -> None:
        """Take the host's answer to a question. Raises FairleadError to tell the host that it is malformed."""
        ...

    def hold(self, request: Request) -> Coroutine[Any, Any, Any] | None:
        """What has to end before the request may start; None if nothing has to."""
        ...

    def serving(self, request: Request) -> AbstractContextManager[Any]:
        """Entered while a request that holds up the line is served, until its answer has been sent."""
        ...


class Routes:
    """The routes of a protocol by name. `more` are tables to load when the first one lacks a name; urgent routes and those that
    act on arrival have to be in the first."""

    def __init__(self, name_of: Callable[[Any], str], first: Iterable[Route], *more: Callable[[], Iterable[Route]]) -> None:
        self._name_of = name_of
        self._found = self._by_name(first)
        self._more = list(more)
        #: The routes that may act before their turn.
        self.early: Mapping[str, Route] = {
            name: route for name, route in self._found.items() if route.when == "now" or route.urgent is not None
        }

    def find(self, name: str) -> Route | None:
        while name not in self._found and self._more:
            self._found.update(self._by_name(self._more.pop(0)()))
        return self._found.get(name)

    def all(self) -> Mapping[str, Route]:
        """Every route, with all tables loaded."""
        self.find("")
        return self._found

    def _by_name(self, routes: Iterable[Route]) -> dict[str, Route]:
        return {self._name_of(route.declaration): route for route in routes}
