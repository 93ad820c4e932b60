"""What one extension has brought."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from fairlead.core.tool import Tool
from fairlead.extend.extensions.bus import EventBus
from fairlead.extend.extensions.finding import Found
from fairlead.extend.extensions.loading import module_name
from fairlead.extend.extensions.state import State

#: What a handler can be given: an event, or the arguments of a command, and the context.
_MOST = 2

FlagType: TypeAlias = Literal["boolean", "string"]
FlagValue: TypeAlias = bool | str | None


class Flag(Struct, frozen=True):
    """A flag of the command line that an extension has."""

    name: str
    type: FlagType
    default: FlagValue
    description: str


class Handler(Struct, eq=False, frozen=True):
    """Somebody who listens. `takes` is how many of the event and the context the function wants."""

    owner: Extension
    function: Callable[..., Any]
    takes: int
    timeout: float | None

    def bind(self, *given: Any) -> Callable[[], Any]:
        return lambda: self.function(*given[: self.takes])


class Command(Struct, eq=False, frozen=True):
    """Something that a user can begin a prompt with."""

    name: str
    description: str
    handler: Handler


class Extension:
    """An extension that was loaded, or is being loaded, and all that goes when it goes."""

    def __init__(self, found: Found, bus: EventBus) -> None:
        self.found = found
        self.name = found.name
        self.path = found.shown_path
        self.module_name = module_name(found)
        self.bus = bus
        self.state = State(found.name)
        self.tools: dict[str, Tool] = {}
        self.commands: dict[str, Command] = {}
        self.flags: dict[str, Flag] = {}
        self.providers: set[str] = set()
        #: Until it fails to load, or another takes its place.
        self.is_alive = True

    def be_alive(self) -> None:
        """Raises RuntimeError in what is left of an extension that was loaded anew."""
        if not self.is_alive:
            raise RuntimeError(f"The extension {self.name} was reloaded: what is left of it cannot act any more.")


def handler_of(owner: Extension, function: Callable[..., Any], timeout: float | None = None) -> Handler:
    """A handler that gets as many of the arguments for it as it needs. Raises TypeError if it wants more.

    What has a default is the author's own: `lambda event, name=name: ...` is how a loop binds a variable.
    """
    if not callable(function):
        raise TypeError(f"A handler is a function, not {type(function).__name__}.")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # one that is written in C
        return Handler(owner, function, _MOST, timeout)
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return Handler(owner, function, _MOST, timeout)
    places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    needed = sum(each.default is each.empty for each in places)
    if needed > _MOST or any(each.kind is each.KEYWORD_ONLY and each.default is each.empty for each in parameters):
        name = getattr(function, "__name__", "The handler")
        raise TypeError(f"{name} must take at most {_MOST} arguments: the event (or the arguments of a command) and the context.")
    return Handler(owner, function, needed, timeout)
