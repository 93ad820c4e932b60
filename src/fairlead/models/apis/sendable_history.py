"""A conversation as a provider will accept it.

Conversations move between models, runs are aborted and tools are cut off; providers refuse what that leaves
behind. Messages that need no change stay the same objects, and replacements are remembered, so that
adapters can keep their encodings.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TypeAlias

import msgspec

from fairlead.core.images import encoded_dimensions, is_too_large
from fairlead.core.messages import (
    AssistantBlock,
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from fairlead.core.model import Model
from fairlead.models.apis.request_building import PrefixCache

NO_RESULT = "No result provided"
NO_IMAGE = "(an image was here; this model reads text only)"
EMPTY_MESSAGE = "(empty message)"
UNNAMED_TOOL = "unnamed_tool"

#: Pixels of a side that an API takes.
_SIDES: Mapping[str, int] = {"anthropic-messages": 8000}
_SIDE = 30_000

_ID_LIMITS: Mapping[str, int] = {"openai-completions": 40}
_ID_LIMIT = 64
_PLAIN_ID = re.compile(r"[a-zA-Z0-9_-]+")

#: The names of tools that an API takes back; one that a model made up may be none of them.
_NAMES: Mapping[str, re.Pattern[str]] = {
    "anthropic-messages": re.compile(r"[a-zA-Z0-9_-]{1,128}"),
    "google-generative-ai": re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"),
}
_NAME_LIMIT = 64
_NAME = re.compile(rf"[a-zA-Z0-9_-]{{1,{_NAME_LIMIT}}}")

#: What a replacement depends on besides the message: api, provider and id of the model, and whether it reads images.
_Reader: TypeAlias = tuple[str, str, str, bool]

#: The id and the name of a tool call, as the provider gets them.
_Label: TypeAlias = tuple[str, str]
_NO_LABEL: _Label = ("", "")


def sendable_messages(
    messages: list[ModelMessage], model: Model, before: PrefixCache[ModelMessage] | None = None
) -> list[ModelMessage]:
    """`messages` as the provider of `model` takes them. `before` remembers what became of those of the last request.

    Left out: failed and aborted answers with the results of their calls, results of no call, empty blocks,
    hidden thinking of other models. Replaced: unsigned or other models' thinking, by text; images, by a note, if the
    model reads none; ids of other models' tool calls that the API does not allow; names of tools that it does not
    allow; ids that two calls of one answer share. Added: results for calls that have none. Results follow the answer
    that asked for them, in the order of its calls; of results with the same id, each goes to one call, in order.
    """
    reader = (model.api, model.provider, model.id, "image" in model.input)
    before = before or PrefixCache()
    done, accepted = before.resume(messages)
    count = len(accepted)
    turn: _Turn | None = None
    for place in range(done, len(messages)):
        message = messages[place]
        if isinstance(message, ToolResultMessage):
            if turn is not None:
                turn.results.setdefault(message.tool_call_id, []).append(message)
            continue
        if isinstance(message, UserMessage):
            (accepted if turn is None else turn.after).append(_remembered(message, reader).replacement or message)
            continue
        if turn is not None:
            turn.settle(accepted, reader)
            turn = None
        done, count = place, len(accepted)  # nothing that comes later changes what came before
        if message.stop_reason in ("error", "aborted"):
            continue
        known = _remembered(message, reader)
        if known.left_out:
            continue
        accepted.append(known.replacement or message)
        if calls := message.tool_calls():
            turn = _Turn(message, calls, known)
    if turn is None:
        done, count = len(messages), len(accepted)
    else:
        turn.settle(accepted, reader)
    before.keep(messages[:done], accepted[:count])
    return accepted


class _Replaced:
    """What a message became for one model. It must not hold the message itself, or none would ever be freed."""

    __slots__ = ("label", "labels", "left_out", "made_results", "reader", "replacement")

    def __init__(
        self,
        reader: _Reader,
        replacement: ModelMessage | None,
        *,
        left_out: bool = False,
        labels: Sequence[_Label] = (),
        label: _Label = _NO_LABEL,
    ) -> None:
        self.reader = reader
        #: None: it stays as it is.
        self.replacement = replacement
        self.left_out = left_out
        #: Those of the calls of an assistant message.
        self.labels = labels
        #: That of the call to which a result belongs.
        self.label = label
        #: The results made up for calls of an assistant message, by call id.
        self.made_results: dict[str, ToolResultMessage] = {}


class _Turn:
    """An answer with tool calls, while its results are collected."""

    __slots__ = ("after", "calls", "known", "message", "results")

    def __init__(self, message: AssistantMessage, calls: list[ToolCall], known: _Replaced) -> None:
        self.message = message
        self.calls = calls
        self.known = known
        self.results: dict[str, list[ToolResultMessage]] = {}
        #: User messages that came before the last result did.
        self.after: list[ModelMessage] = []

    def settle(self, accepted: list[ModelMessage], reader: _Reader) -> None:
        for call, label in zip(self.calls, self.known.labels, strict=True):
            results = self.results.get(call.id)
            if results:
                result = results.pop(0)
                accepted.append(_remembered(result, reader, label).replacement or result)
            else:
                accepted.append(self._made_up(label))
        accepted.extend(self.after)

    def _made_up(self, label: _Label) -> ToolResultMessage:
        id, name = label
        made = self.known.made_results.get(id)
        if made is None:
            made = ToolResultMessage(id, name, [TextContent(NO_RESULT)], True, self.message.timestamp)
            self.known.made_results[id] = made
        return made


#: By the id of the original, which a weak reference guards: messages cannot be hashed.
_known: dict[int, tuple[weakref.ref[ModelMessage], _Replaced]] = {}


def _remembered(message: ModelMessage, reader: _Reader, label: _Label = _NO_LABEL) -> _Replaced:
    """What `message` became; `label` is that of the call to which a result belongs."""
    key = id(message)
    entry = _known.get(key)
    if entry is not None and entry[1].reader == reader and entry[1].label == label and entry[0]() is message:
        return entry[1]
    if isinstance(message, AssistantMessage):
        replaced = _for_assistant(message, reader)
    elif isinstance(message, UserMessage):
        replaced = _for_user(message, reader)
    else:
        replaced = _for_result(message, reader, label)

    def forget(dead: weakref.ref[ModelMessage]) -> None:
        current = _known.get(key)
        if current is not None and current[0] is dead:
            del _known[key]

    _known[key] = (weakref.ref(message, forget), replaced)
    return replaced


def _for_user(message: UserMessage, reader: _Reader) -> _Replaced:
    if isinstance(message.content, str):
        if message.content.strip():
            return _Replaced(reader, None)
        return _Replaced(reader, msgspec.structs.replace(message, content=EMPTY_MESSAGE))
    content = _readable(message.content, reader)
    if not content:
        return _Replaced(reader, msgspec.structs.replace(message, content=EMPTY_MESSAGE))
    return _Replaced(reader, None if content == message.content else msgspec.structs.replace(message, content=content))


def _for_result(message: ToolResultMessage, reader: _Reader, label: _Label) -> _Replaced:
    content = _readable(message.content, reader)
    if content == message.content and label == (message.tool_call_id, message.tool_name):
        return _Replaced(reader, None, label=label)
    id, name = label
    replacement = msgspec.structs.replace(message, content=content, tool_call_id=id, tool_name=name)
    return _Replaced(reader, replacement, label=label)


def _readable(content: list[UserBlock], reader: _Reader) -> list[UserBlock]:
    reads_images = reader[3]
    readable: list[UserBlock] = []
    for block in content:
        if isinstance(block, ImageContent):
            problem = _problem(block, reader[0]) if reads_images else NO_IMAGE
            readable.append(block if problem is None else TextContent(problem))
        elif block.text.strip():
            readable.append(block)
    return readable


def _problem(image: ImageContent, api: str) -> str | None:
    """What the model is told instead of an image that its provider would refuse, and with it the whole conversation."""
    found = encoded_dimensions(image.data)
    if found is None:
        return None
    kind, sides = found
    if is_too_large(kind, sides) or max(sides) > _SIDES.get(api, _SIDE):
        return f"(an image of {sides[0]}x{sides[1]} pixels was here; it is too large to be sent)"
    return None


def _for_assistant(message: AssistantMessage, reader: _Reader) -> _Replaced:
    foreign = _is_foreign(message, reader)
    labels = _labels(message.tool_calls(), foreign, reader)
    waiting = iter(labels)
    content: list[AssistantBlock] = []
    for block in message.content:
        kept = _call(block, next(waiting), foreign) if isinstance(block, ToolCall) else _said(block, foreign)
        if kept is not None:
            content.append(kept)
    if content == message.content:
        return _Replaced(reader, None, labels=labels)
    replacement = msgspec.structs.replace(message, content=content)
    return _Replaced(reader, replacement, left_out=not content, labels=labels)


def _call(call: ToolCall, label: _Label, foreign: bool) -> ToolCall:
    if not foreign and label == (call.id, call.name):
        return call
    return ToolCall(*label, call.arguments, None if foreign else call.thought_signature)


def _said(block: TextContent | ThinkingContent, foreign: bool) -> AssistantBlock | None:
    """Text or thinking as the model may see it; None to leave it out."""
    if isinstance(block, TextContent):
        if not block.text.strip():
            return None
        return TextContent(block.text) if foreign else block
    if not foreign and block.thinking_signature:
        return block
    if block.redacted or not block.thinking.strip():
        return None
    return TextContent(block.thinking)


def _is_foreign(message: AssistantMessage, reader: _Reader) -> bool:
    """Whether another model wrote it: signatures hold for their own model only."""
    return (message.api, message.provider, message.model) != reader[:3]


def _labels(calls: list[ToolCall], foreign: bool, reader: _Reader) -> list[_Label]:
    """What the calls of one answer are called: no two have the same id."""
    labels: list[_Label] = []
    taken: set[str] = set()
    for call in calls:
        id = _plain_id(call.id, reader) if foreign else call.id
        if _sent_id(id) in taken:
            id = _another_id(_sent_id(id), taken, reader)
        taken.add(_sent_id(id))
        labels.append((id, _plain_name(call.name, reader)))
    return labels


def _sent_id(call_id: str) -> str:
    """The Responses API names a call and its item, as `call|item`; the call is unique by itself, and all that is sent."""
    return call_id.partition("|")[0]


def _another_id(id: str, taken: set[str], reader: _Reader) -> str:
    """An id like `id` that is not taken."""
    limit = _ID_LIMITS.get(reader[0], _ID_LIMIT)
    suffixes = (f"_{number}" for number in count(len(taken) + 1))
    others = (id[: limit - len(suffix)] + suffix for suffix in suffixes)
    return next(other for other in others if other not in taken)


def _plain_id(call_id: str, reader: _Reader) -> str:
    """A tool call's id within the limits of the API; different ids stay different."""
    limit = _ID_LIMITS.get(reader[0], _ID_LIMIT)
    plain = _sent_id(call_id)
    if _PLAIN_ID.fullmatch(plain) and len(plain) <= limit:
        return plain
    from zlib import crc32

    digest = f"_{crc32(call_id.encode('utf-8', 'replace')):08x}"
    return re.sub(r"[^a-zA-Z0-9_-]", "_", plain)[: limit - len(digest)] + digest


def _plain_name(name: str, reader: _Reader) -> str:
    """The name of a tool as the API takes it. A model that calls what does not exist may call it anything."""
    allowed = _NAMES.get(reader[0], _NAME)
    if allowed.fullmatch(name):
        return name
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:_NAME_LIMIT]
    if not allowed.fullmatch(plain):
        # Empty, or begins with what may not stand first.
        plain = f"_{plain}"[:_NAME_LIMIT] if plain else UNNAMED_TOOL
    return plain
