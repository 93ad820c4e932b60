"""Values that pass between extensions and the session.

What extensions hand over is checked first: a value of the wrong type would break something far away. What they get is a copy, so
that they cannot change the session by accident.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import PurePath
from typing import Any, TypeVar, cast, get_args

import msgspec

from fairlead.core import lenient
from fairlead.core.events import Event, MessageUpdate, QueueUpdate, SubagentEvent
from fairlead.core.messages import Message, ModelMessage
from fairlead.errors import ConfigError
from fairlead.extend.extensions.results import RESULTS, Replace, Resources


def checked_result(event: str, result: Any) -> Any:
    """Return the result of a handler, checked against what handlers of the event may return.

    Raises ConfigError if it is something else.
    """
    allowed = RESULTS.get(event)
    if result is None or allowed is None:
        return None
    kind = next((each for each in allowed if isinstance(result, each)), None)
    if kind is None:
        expected = ", ".join(each.__name__ for each in allowed)
        raise ConfigError(f"A handler of {event} must return {expected} or None, not {type(result).__name__}.")
    try:
        if kind is Replace:
            return _replace(result)
        if kind is Resources:
            return Resources(*(_paths(name, getattr(result, name)) for name in ("skills", "prompts")))
        return converted(kind, result, kind.__name__)
    except TypeError as error:
        raise ConfigError(f"The result of a handler of {event} cannot be used. {error}") from None


def converted(kind: Any, value: Any, what: str) -> Any:
    """Return a copy of `value` that has the type `kind` and can be written as JSON. Lone surrogates become U+FFFD.

    Raises TypeError, whose text begins with `what`.
    """
    try:
        return msgspec.convert(lenient.scrub(msgspec.to_builtins(value, str_keys=True)), kind)
    except (TypeError, ValueError, RecursionError) as error:  # msgspec's own exceptions are among these
        raise TypeError(f"{what}: {error}") from None


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
        converted(type(message), message, "messages")
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
    return event.copy() if isinstance(event, QueueUpdate) else deepcopy(event)


def restore_unchanged(originals: Sequence[M], copies: Sequence[M], changed: Sequence[M]) -> list[M]:
    """Return `changed` with every unchanged copy replaced by its original: what was computed from originals stays valid."""
    known = {id(copy): original for original, copy in zip(originals, copies, strict=True)}
    kept: list[M] = []
    for message in changed:
        original = known.get(id(message))
        kept.append(original if original is not None and original == message else message)
    return kept
