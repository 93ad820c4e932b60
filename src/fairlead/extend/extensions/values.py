"""Values that pass between extensions and the session, also what models of extensions yield.

What extensions hand over is checked first: a value of the wrong type would break something far away. What they get is a copy, so
that they cannot change the session by accident.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping, Sequence
from contextlib import aclosing
from copy import deepcopy
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, get_args

import msgspec
from msgspec.structs import replace

from fairlead.core import lenient
from fairlead.core.events import Event, QueueUpdate, SubagentEvent, ToolEnd
from fairlead.core.message_updates import MessageUpdate
from fairlead.core.messages import Message, ModelMessage, ThinkingContent, ToolCall, Usage
from fairlead.core.model import Model, ModelRequest, ModelStream, StreamEvent
from fairlead.core.partial_message import PartialMessage
from fairlead.core.runtime import CancelToken
from fairlead.errors import ConfigError, ProviderError
from fairlead.extend.extensions.calling import error_text
from fairlead.extend.extensions.extension_events import RESULTS, Replace, Resources
from fairlead.session.history.entries import CustomEntry
from fairlead.session.slash_commands import Completion

if TYPE_CHECKING:
    from fairlead.session.history.log import Log


class UnusableAnswer(ConfigError):
    """A handler has answered, but its answer cannot be read. It may have wanted to stop or to change what comes next."""


def check_result(event: str, result: Any) -> Any:
    """Return the result of a handler, checked against what handlers of the event may return.

    Raises UnusableAnswer if it is something else.
    """
    allowed = RESULTS.get(event)
    if result is None or allowed is None:
        return None
    kind = next((each for each in allowed if isinstance(result, each)), None)
    if kind is None:
        expected = ", ".join(each.__name__ for each in allowed)
        raise UnusableAnswer(f"A handler of {event} must return {expected} or None, not {type(result).__name__}.")
    try:
        if kind is Replace:
            return _replace(result)
        if kind is Resources:
            return Resources(*(_paths(name, getattr(result, name)) for name in ("skills", "prompts")))
        return convert(kind, result, kind.__name__)
    except TypeError as error:
        raise UnusableAnswer(f"The result of a handler of {event} cannot be used. {error}") from None


def convert(kind: Any, value: Any, what: str) -> Any:
    """Return a copy of `value` that has the type `kind` and can be written as JSON. Lone surrogates become U+FFFD.

    Raises TypeError, whose text begins with `what`.
    """
    try:
        return msgspec.convert(lenient.scrub(msgspec.to_builtins(value, str_keys=True)), kind)
    except (TypeError, ValueError, RecursionError) as error:  # msgspec's own exceptions are among these
        raise TypeError(f"{what}: {error}") from None


def suggestions(found: Any) -> list[Completion]:
    """Return the suggestions that an extension made for the arguments of its command. Raises TypeError."""
    given: list[Completion | str] | None = convert(list[Completion | str] | None, found, "completions")
    return [Completion(each) if isinstance(each, str) else each for each in given or []]


def object_or_empty(value: Any) -> dict[str, Any]:
    """Return the value if it is an object of JSON, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def check_types(kind: Any, /, **given: Any) -> None:
    """Raise TypeError, naming the parameter, unless all values have the type `kind`."""
    for name, value in given.items():
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise TypeError(f"{name}: {error}") from None


def _replace(result: Replace) -> Replace:
    """Check a `Replace`. Its messages stay the same objects, because that is how unchanged ones are recognised."""
    check_types(str | None, system_prompt=result.system_prompt)
    if result.messages is None:
        return result
    messages = _list("messages", result.messages)
    known = get_args(ModelMessage)
    for message in messages:
        if not isinstance(message, known):
            raise TypeError(f"messages: {type(message).__name__} is not a message for a model.")
        convert(type(message), message, "messages")
    return Replace(messages, result.system_prompt)


def _paths(name: str, given: Any) -> list[str]:
    paths = _list(name, given)
    if not all(isinstance(each, str | PurePath) for each in paths) or any("\0" in str(each) for each in paths):
        raise TypeError(f"{name}: expected paths.")
    return [str(each) for each in paths]


def _list(name: str, given: Any) -> list[Any]:
    if not isinstance(given, list | tuple):
        raise TypeError(f"{name}: expected a list, not {type(given).__name__}.")
    return list(cast("list[Any]", given))


T = TypeVar("T")
M = TypeVar("M", bound=Message)

_decoders: dict[type, msgspec.json.Decoder[object]] = {}


def copy_message(message: M) -> M:
    """Copy a message, through JSON: that is five times as fast as `deepcopy`."""
    kind = type(message)
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(msgspec.json.encode(message))  # pyright: ignore[reportReturnType]
    except (msgspec.MsgspecError, UnicodeError, TypeError):  # a tool's details that cannot be written as JSON
        return deepcopy(message)


def copy_event(event: Event) -> Event:
    """Copy an event, as far as handlers could change it. A message that is still arriving is not copied each time."""
    if isinstance(event, MessageUpdate | SubagentEvent):
        return event
    if isinstance(event, ToolEnd):  # what returns the result as data refers to what the tool worked with, so it is not copied
        return replace(deepcopy(replace(event, structured=None)), structured=event.structured)
    return event.copy() if isinstance(event, QueueUpdate) else deepcopy(event)


def restore_unchanged(originals: Sequence[M], copies: Sequence[M], changed: Sequence[M]) -> list[M]:
    """Return `changed` with every unchanged copy replaced by its original: what was computed from originals stays valid."""
    known = {id(copy): original for original, copy in zip(originals, copies, strict=True)}
    kept: list[M] = []
    for message in changed:
        original = known.get(id(message))
        kept.append(original if original is not None and original == message else message)
    return kept


_PREFIX = "fairlead.state."


class State(MutableMapping[str, Any]):
    """A dict of JSON values that is saved in the session, in `custom` entries of the type `fairlead.state.<extension>`.

    It follows the session's tree: on another branch it has the values it had there. It is saved whenever the code that changed it
    returns or waits for something. Changes inside its values are saved too.

    Setting a key raises TypeError if the key is not a string or the value cannot be written as JSON.
    """

    def __init__(self, name: str) -> None:
        self.custom_type = _PREFIX + name
        self._values: dict[str, Any] = {}
        self._written = b"{}"
        self._touched = False

    def __getitem__(self, key: str) -> Any:
        self._touched = True  # the caller may change the value it gets
        return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"The keys of a state must be strings, not {type(key).__name__}.")
        try:
            msgspec.json.encode(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"{key!r} cannot be saved in a state, because it is not a JSON value: {error}") from None
        self._touched = True
        self._values[key] = value

    def __delitem__(self, key: str) -> None:
        del self._values[key]
        self._touched = True

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"State({self._values!r})"

    def restore(self, log: Log | None) -> None:
        """Load the values that were saved last on the current branch of `log`."""
        found: Any = None
        if log is not None:
            mine = (entry for entry in log.back() if isinstance(entry, CustomEntry) and entry.custom_type == self.custom_type)
            entry = next(mine, None)
            found = None if entry is None else entry.data
        self._values = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        self._written = msgspec.json.encode(self._values, order="sorted")
        # A copy, because the entry keeps its own values.
        self._values = msgspec.json.decode(self._written)
        self._touched = False

    def take_changes(self) -> dict[str, Any] | None:
        """Return the values to save, or None if nothing changed since the last call. Raises if they cannot be written as JSON."""
        if not self._touched:
            return None
        self._touched = False
        encoded = msgspec.json.encode(self._values, order="sorted")
        if encoded == self._written:
            return None
        self._written = encoded
        return msgspec.json.decode(encoded)


#: Text, thinking, a tool call, or the usage so far.
Piece: TypeAlias = str | ThinkingContent | ToolCall | Usage
#: Asks a model: `async def stream(model, request, cancel)`, which yields pieces.
ProviderStream: TypeAlias = Callable[[Model, ModelRequest, CancelToken], AsyncIterator[Piece]]

#: Returned instead of a piece when the wait for it was cancelled.
_STOPPED = object()


def model_stream(ask: ProviderStream, wrap: Callable[[Any], Any]) -> Callable[[Model], ModelStream]:
    """Return a function that makes the stream of a model from the function of an extension. `wrap` runs each step of it."""

    def of(model: Model) -> ModelStream:
        async def stream(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
            partial = PartialMessage(model, time.time_ns() // 1_000_000)
            answer = _Answer(partial)
            try:
                pieces = cast("Any", ask(model, request, cancel))
                async with aclosing(pieces):
                    while not cancel.fired:
                        piece = await _next(wrap(pieces.__anext__()), cancel)
                        if piece is _STOPPED:
                            break
                        answer.add(piece)
                        yield partial.take()
                partial.abort() if cancel.fired else answer.finish()
            except StopAsyncIteration:
                answer.finish()
            except ProviderError as error:
                partial.fail(str(error), status=error.status, retry_after=error.retry_after, transient=error.transient)
            except Exception as error:  # what the extension raises ends this answer only
                partial.fail(error_text(error))
            yield partial.take()

        return stream

    return of


async def _next(piece: Any, cancel: CancelToken) -> Any:
    """Return the next piece, or `_STOPPED` if `cancel` fires before it arrives."""
    coming = asyncio.ensure_future(piece)
    forget = cancel.on_fire(coming.cancel)
    try:
        return await coming
    except asyncio.CancelledError:
        if cancel.fired:
            return _STOPPED
        me = asyncio.current_task()
        if me is not None and me.cancelling():
            raise
        raise RuntimeError("It was cancelled, but not by the agent.") from None
    finally:
        forget()


class _Answer:
    """The message while its pieces arrive. Neighbouring pieces of one kind form one block."""

    def __init__(self, partial: PartialMessage) -> None:
        self._partial = partial
        self._blocks = 0
        self._kind: str | None = None
        self._calls = False

    def add(self, piece: Any) -> None:
        partial = self._partial
        if isinstance(piece, ThinkingContent | ToolCall | Usage):
            piece = convert(type(piece), piece, type(piece).__name__)
        match piece:
            case str():
                self._open("text", lambda key: partial.start_text(key))
                partial.add(self._blocks, piece)
            case ThinkingContent():
                self._open("thinking", lambda key: partial.start_thinking(key))
                partial.add(self._blocks, piece.thinking)
                if piece.thinking_signature:
                    partial.sign(self._blocks, piece.thinking_signature)
            case ToolCall():
                self._close()
                self._open("call", lambda key: partial.start_tool_call(key, piece.id, piece.name))
                partial.add(self._blocks, msgspec.json.encode(piece.arguments).decode())
                self._close()
                self._calls = True
            case Usage():
                partial.usage = piece
            case _:
                raise TypeError(f"A stream must yield str, ThinkingContent, ToolCall or Usage, not {type(piece).__name__}.")

    def finish(self) -> None:
        self._partial.finish("toolUse" if self._calls else "stop")

    def _open(self, kind: str, start: Callable[[int], None]) -> None:
        if self._kind == kind:
            return
        self._close()
        self._kind = kind
        self._blocks += 1
        start(self._blocks)

    def _close(self) -> None:
        if self._kind is not None:
            self._partial.end(self._blocks)
            self._kind = None
