"""Changes a conversation into one that a provider accepts.

Conversations move between models, runs are aborted and tools are cut off. Providers refuse what that leaves behind. Messages
that need no change stay the same objects, and replacements are remembered, so that adapters can keep their encodings.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TypeAlias
from zlib import crc32

import msgspec

from fairlead.core import images
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

#: The longest side of an image that an API accepts, in pixels.
_LONGEST_SIDES: Mapping[str, int] = {"anthropic-messages": 8000}
_LONGEST_SIDE = 30_000

_ID_LIMITS: Mapping[str, int] = {"openai-completions": 40}
_ID_LIMIT = 64
_PLAIN_ID = r"[a-zA-Z0-9_-]+"

#: The tool names that an API accepts. A model may have made up a name that is not among them.
_NAMES: Mapping[str, str] = {
    "anthropic-messages": r"[a-zA-Z0-9_-]{1,128}",
    "google-generative-ai": r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}",
}
_NAME_LIMIT = 64
_NAME = rf"[a-zA-Z0-9_-]{{1,{_NAME_LIMIT}}}"

#: The model that gets the messages: its api, provider and id, and whether it accepts images.
_Target: TypeAlias = tuple[str, str, str, bool]

#: The id and the name of a tool call, as they are sent.
_Label: TypeAlias = tuple[str, str]
_NO_LABEL: _Label = ("", "")


def sendable_messages(
    messages: list[ModelMessage], model: Model, before: PrefixCache[ModelMessage] | None = None
) -> list[ModelMessage]:
    """Return the messages as the provider of `model` accepts them.

    Left out: failed and aborted answers with the results of their calls, results without a call, empty blocks, and hidden
    thinking of other models. Replaced: unsigned thinking and that of other models, by text; images, by a note, if the model
    accepts none; ids and names of tool calls that the API does not allow; ids that two calls of one answer share. Added:
    results for calls that have none. Results follow the answer that made the calls, in the order of the calls. Of several
    results with the same id, each goes to one call, in order.

    Args:
        messages: the conversation.
        model: the model that gets it.
        before: remembers how the messages of the last request were converted.
    """
    target = (model.api, model.provider, model.id, "image" in model.input)
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
            (accepted if turn is None else turn.after).append(_replace_message(message, target).replacement or message)
            continue
        if turn is not None:
            turn.settle(accepted, target)
            turn = None
        done, count = place, len(accepted)  # later messages do not change what came before
        if message.stop_reason in ("error", "aborted"):
            continue
        known = _replace_message(message, target)
        if known.left_out:
            continue
        accepted.append(known.replacement or message)
        if calls := message.tool_calls():
            turn = _Turn(message, calls, known)
    if turn is None:
        done, count = len(messages), len(accepted)
    else:
        turn.settle(accepted, target)
    before.keep(messages[:done], accepted[:count])
    return accepted


class _Replaced:
    """What a message became for one model. It must not hold the message itself, which could then never be freed."""

    __slots__ = ("label", "labels", "left_out", "made_results", "replacement", "target")

    def __init__(
        self,
        target: _Target,
        replacement: ModelMessage | None,
        *,
        left_out: bool = False,
        labels: Sequence[_Label] = (),
        label: _Label = _NO_LABEL,
    ) -> None:
        self.target = target
        #: None if the message stays as it is.
        self.replacement = replacement
        self.left_out = left_out
        #: The labels of an assistant message's calls.
        self.labels = labels
        #: The label of the call that a tool result belongs to.
        self.label = label
        #: Results that were made up for calls of an assistant message, by call id.
        self.made_results: dict[str, ToolResultMessage] = {}


class _Turn:
    """An answer with tool calls, while the results are collected."""

    __slots__ = ("after", "calls", "known", "message", "results")

    def __init__(self, message: AssistantMessage, calls: list[ToolCall], known: _Replaced) -> None:
        self.message = message
        self.calls = calls
        self.known = known
        self.results: dict[str, list[ToolResultMessage]] = {}
        #: User messages that came before the last result.
        self.after: list[ModelMessage] = []

    def settle(self, accepted: list[ModelMessage], target: _Target) -> None:
        for call, label in zip(self.calls, self.known.labels, strict=True):
            results = self.results.get(call.id)
            if results:
                result = results.pop(0)
                accepted.append(_replace_message(result, target, label).replacement or result)
            else:
                accepted.append(self._make_up_result(label))
        accepted.extend(self.after)

    def _make_up_result(self, label: _Label) -> ToolResultMessage:
        id, name = label
        made = self.known.made_results.get(id)
        if made is None:
            made = ToolResultMessage(id, name, [TextContent(NO_RESULT)], True, self.message.timestamp)
            self.known.made_results[id] = made
        return made


#: By the `id()` of the original, since messages cannot be hashed. The weak reference tells whether it is still the same one.
_known: dict[int, tuple[weakref.ref[ModelMessage], _Replaced]] = {}


def _replace_message(message: ModelMessage, target: _Target, label: _Label = _NO_LABEL) -> _Replaced:
    """Return what `message` became. `label` is the label of the call that a tool result belongs to."""
    key = id(message)
    entry = _known.get(key)
    if entry is not None and entry[1].target == target and entry[1].label == label and entry[0]() is message:
        return entry[1]
    if isinstance(message, AssistantMessage):
        replaced = _for_assistant(message, target)
    elif isinstance(message, UserMessage):
        replaced = _for_user(message, target)
    else:
        replaced = _for_result(message, target, label)

    def forget(dead: weakref.ref[ModelMessage]) -> None:
        current = _known.get(key)
        if current is not None and current[0] is dead:
            del _known[key]

    _known[key] = (weakref.ref(message, forget), replaced)
    return replaced


def _for_user(message: UserMessage, target: _Target) -> _Replaced:
    if isinstance(message.content, str):
        if message.content.strip():
            return _Replaced(target, None)
        return _Replaced(target, msgspec.structs.replace(message, content=EMPTY_MESSAGE))
    content = _readable(message.content, target)
    if not content:
        return _Replaced(target, msgspec.structs.replace(message, content=EMPTY_MESSAGE))
    return _Replaced(target, None if content == message.content else msgspec.structs.replace(message, content=content))


def _for_result(message: ToolResultMessage, target: _Target, label: _Label) -> _Replaced:
    content = _readable(message.content, target)
    if content == message.content and label == (message.tool_call_id, message.tool_name):
        return _Replaced(target, None, label=label)
    id, name = label
    replacement = msgspec.structs.replace(message, content=content, tool_call_id=id, tool_name=name)
    return _Replaced(target, replacement, label=label)


def _readable(content: list[UserBlock], target: _Target) -> list[UserBlock]:
    reads_images = target[3]
    readable: list[UserBlock] = []
    for block in content:
        if isinstance(block, ImageContent):
            problem = _problem(block, target[0]) if reads_images else NO_IMAGE
            readable.append(block if problem is None else TextContent(problem))
        elif block.text.strip():
            readable.append(block)
    return readable


def _problem(image: ImageContent, api: str) -> str | None:
    """Return the note to send instead of an image that the provider would refuse; None if the image can be sent.

    A provider that refuses an image refuses the whole conversation.
    """
    found = images.read_encoded_dimensions(image.data)
    if found is None:
        return None
    kind, sides = found
    if images.is_too_large(kind, sides) or max(sides) > _LONGEST_SIDES.get(api, _LONGEST_SIDE):
        return f"(an image of {sides[0]}x{sides[1]} pixels was here; it is too large to be sent)"
    return None


def _for_assistant(message: AssistantMessage, target: _Target) -> _Replaced:
    foreign = _is_foreign(message, target)
    labels = _labels(message.tool_calls(), foreign, target)
    labels_left = iter(labels)
    content: list[AssistantBlock] = []
    for block in message.content:
        kept = _call(block, next(labels_left), foreign) if isinstance(block, ToolCall) else _adapt_block(block, foreign)
        if kept is not None:
            content.append(kept)
    if content == message.content:
        return _Replaced(target, None, labels=labels)
    replacement = msgspec.structs.replace(message, content=content)
    return _Replaced(target, replacement, left_out=not content, labels=labels)


def _call(call: ToolCall, label: _Label, foreign: bool) -> ToolCall:
    if not foreign and label == (call.id, call.name):
        return call
    return ToolCall(*label, call.arguments, None if foreign else call.thought_signature)


def _adapt_block(block: TextContent | ThinkingContent, foreign: bool) -> AssistantBlock | None:
    """Return text or thinking as the model may see it; None to leave it out."""
    if isinstance(block, TextContent):
        if not block.text.strip():
            return None
        return TextContent(block.text) if foreign else block
    if not foreign and block.thinking_signature:
        return block
    if block.redacted or not block.thinking.strip():
        return None
    return TextContent(block.thinking)


def _is_foreign(message: AssistantMessage, target: _Target) -> bool:
    """Tell whether another model wrote the message. Signatures are valid for their own model only."""
    return (message.api, message.provider, message.model) != target[:3]


def _labels(calls: list[ToolCall], foreign: bool, target: _Target) -> list[_Label]:
    """Return the labels of the calls of one answer. No two have the same id."""
    labels: list[_Label] = []
    taken: set[str] = set()
    for call in calls:
        id = _plain_id(call.id, target) if foreign else call.id
        if _extract_sent_id(id) in taken:
            id = _another_id(_extract_sent_id(id), taken, target)
        taken.add(_extract_sent_id(id))
        labels.append((id, _plain_name(call.name, target)))
    return labels


def _extract_sent_id(call_id: str) -> str:
    """Return the part of an id that is sent. The Responses API has ids of the form `call|item`; only the call is sent."""
    return call_id.partition("|")[0]


def _another_id(id: str, taken: set[str], target: _Target) -> str:
    """Return an id like `id` that is not taken."""
    limit = _ID_LIMITS.get(target[0], _ID_LIMIT)
    suffixes = (f"_{number}" for number in count(len(taken) + 1))
    others = (id[: limit - len(suffix)] + suffix for suffix in suffixes)
    return next(other for other in others if other not in taken)


def _plain_id(call_id: str, target: _Target) -> str:
    """Return a tool call's id within the limits of the API. Different ids stay different."""
    limit = _ID_LIMITS.get(target[0], _ID_LIMIT)
    plain = _extract_sent_id(call_id)
    if re.fullmatch(_PLAIN_ID, plain) and len(plain) <= limit:
        return plain
    digest = f"_{crc32(call_id.encode('utf-8', 'replace')):08x}"
    return re.sub(r"[^a-zA-Z0-9_-]", "_", plain)[: limit - len(digest)] + digest


def _plain_name(name: str, target: _Target) -> str:
    """Return a tool's name as the API accepts it. The name may be one that a model made up."""
    allowed = _NAMES.get(target[0], _NAME)
    if re.fullmatch(allowed, name):
        return name
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:_NAME_LIMIT]
    if not re.fullmatch(allowed, plain):
        # It is empty, or starts with a character that may not come first.
        plain = f"_{plain}"[:_NAME_LIMIT] if plain else UNNAMED_TOOL
    return plain
