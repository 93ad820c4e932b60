"""A conversation as a provider will accept it.

Conversations move between models, runs are aborted and tools are cut off; providers refuse what that leaves
behind. Messages that need no change stay the same objects, and replacements are remembered, so that
adapters can keep their encodings.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from fairlead.core.messages import (
    AssistantBlock,
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from fairlead.core.model import Model

NO_RESULT = "No result provided"
NO_IMAGE = "(an image was here; this model reads text only)"
EMPTY_MESSAGE = "(empty message)"

_ID_LIMITS: Mapping[str, int] = {"openai-completions": 40}
_ID_LIMIT = 64
_PLAIN_ID = re.compile(r"[a-zA-Z0-9_-]+")

#: What a replacement depends on besides the message: api, provider and id of the model, and whether it reads images.
_Reader: TypeAlias = tuple[str, str, str, bool]


def acceptable(messages: list[ModelMessage], model: Model) -> list[ModelMessage]:
    """`messages` as the provider of `model` takes them.

    Left out: failed and aborted answers with the results of their calls, results of no call, empty blocks,
    hidden thinking of other models. Replaced: unsigned or other models' thinking, by text; images, by a note, if the
    model reads none; ids of other models' tool calls that the API does not allow. Added: results for
    calls that have none. Results follow the answer that asked for them, in the order of its calls.
    """
    reader = (model.api, model.provider, model.id, "image" in model.input)
    accepted: list[ModelMessage] = []
    turn: _Turn | None = None
    for message in messages:
        if isinstance(message, ToolResultMessage):
            if turn is not None:
                turn.results.setdefault(message.tool_call_id, message)
            continue
        if isinstance(message, UserMessage):
            (accepted if turn is None else turn.after).append(_remembered(message, reader).replacement or message)
            continue
        if turn is not None:
            turn.settle(accepted, reader)
            turn = None
        if message.stop_reason in ("error", "aborted"):
            continue
        known = _remembered(message, reader)
        if known.left_out:
            continue
        accepted.append(known.replacement or message)
        if calls := message.tool_calls():
            turn = _Turn(message, calls, known)
    if turn is not None:
        turn.settle(accepted, reader)
    return accepted


class _Replaced:
    """What a message became for one model. It must not hold the message itself, or none would ever be freed."""

    __slots__ = ("left_out", "made_results", "reader", "replacement")

    def __init__(self, reader: _Reader, replacement: ModelMessage | None, *, left_out: bool = False) -> None:
        self.reader = reader
        #: None: it stays as it is.
        self.replacement = replacement
        self.left_out = left_out
        #: The results made up for calls of an assistant message, by call id.
        self.made_results: dict[str, ToolResultMessage] = {}


class _Turn:
    """An answer with tool calls, while its results are collected."""

    __slots__ = ("after", "calls", "known", "message", "results")

    def __init__(self, message: AssistantMessage, calls: list[ToolCall], known: _Replaced) -> None:
        self.message = message
        self.calls = calls
        self.known = known
        self.results: dict[str, ToolResultMessage] = {}
        #: User messages that came before the last result did.
        self.after: list[ModelMessage] = []

    def settle(self, accepted: list[ModelMessage], reader: _Reader) -> None:
        foreign = _is_foreign(self.message, reader)
        for call in self.calls:
            call_id = _plain_id(call.id, reader) if foreign else call.id
            result = self.results.get(call.id)
            if result is None:
                accepted.append(self._made_up(call, call_id))
            else:
                accepted.append(_remembered(result, reader, call_id).replacement or result)
        accepted.extend(self.after)

    def _made_up(self, call: ToolCall, call_id: str) -> ToolResultMessage:
        made = self.known.made_results.get(call_id)
        if made is None:
            made = ToolResultMessage(call_id, call.name, [TextContent(NO_RESULT)], True, self.message.timestamp)
            self.known.made_results[call_id] = made
        return made


#: By the id of the original, which a weak reference guards: messages cannot be hashed.
_known: dict[int, tuple[weakref.ref[ModelMessage], _Replaced]] = {}


def _remembered(message: ModelMessage, reader: _Reader, call_id: str = "") -> _Replaced:
    key = id(message)
    entry = _known.get(key)
    if entry is not None and entry[1].reader == reader and entry[0]() is message:
        return entry[1]
    if isinstance(message, AssistantMessage):
        replaced = _for_assistant(message, reader)
    elif isinstance(message, UserMessage):
        replaced = _for_user(message, reader)
    else:
        replaced = _for_result(message, reader, call_id)

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


def _for_result(message: ToolResultMessage, reader: _Reader, call_id: str) -> _Replaced:
    content = _readable(message.content, reader)
    if content == message.content and call_id == message.tool_call_id:
        return _Replaced(reader, None)
    return _Replaced(reader, msgspec.structs.replace(message, content=content, tool_call_id=call_id))


def _readable(content: list[UserBlock], reader: _Reader) -> list[UserBlock]:
    reads_images = reader[3]
    readable: list[UserBlock] = []
    for block in content:
        if isinstance(block, ImageContent):
            readable.append(block if reads_images else TextContent(NO_IMAGE))
        elif block.text.strip():
            readable.append(block)
    return readable


def _for_assistant(message: AssistantMessage, reader: _Reader) -> _Replaced:
    foreign = _is_foreign(message, reader)
    content = [block for old in message.content if (block := _block(old, foreign, reader)) is not None]
    if content == message.content:
        return _Replaced(reader, None)
    return _Replaced(reader, msgspec.structs.replace(message, content=content), left_out=not content)


def _block(block: AssistantBlock, foreign: bool, reader: _Reader) -> AssistantBlock | None:
    """The block as the model may see it; None to leave it out."""
    if isinstance(block, ToolCall):
        return ToolCall(_plain_id(block.id, reader), block.name, block.arguments) if foreign else block
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


def _plain_id(call_id: str, reader: _Reader) -> str:
    """A tool call's id within the limits of the API; different ids stay different."""
    limit = _ID_LIMITS.get(reader[0], _ID_LIMIT)
    # The Responses API names a call and its item, as `call|item`; the call is unique by itself.
    plain = call_id.split("|", 1)[0]
    if _PLAIN_ID.fullmatch(plain) and len(plain) <= limit:
        return plain
    from zlib import crc32

    digest = f"_{crc32(call_id.encode('utf-8', 'replace')):08x}"
    return re.sub(r"[^a-zA-Z0-9_-]", "_", plain)[: limit - len(digest)] + digest
