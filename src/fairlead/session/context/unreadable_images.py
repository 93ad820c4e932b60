"""Remembers the images that a model's server could not read, so that they are not sent to it again, and says which a model that
reads only text does not get."""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING

from msgspec import Struct, ValidationError, convert, structs, to_builtins

from fairlead.core.events import ExtensionError
from fairlead.core.messages import (
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    UserBlock,
)
from fairlead.core.model import Model, ModelRequest, ModelStream, StreamEnd, StreamEvent
from fairlead.core.runtime import CancelToken
from fairlead.session.context import overflow
from fairlead.session.context.tokens import is_good_answer
from fairlead.session.history.entries import IMAGES, CustomEntry

if TYPE_CHECKING:
    from fairlead.session.history.conversation import Conversation

UNREADABLE = "(an image was here; the model's server could not read it)"

#: The HTTP statuses with which servers refuse an image; llama.cpp uses 500. An error within a stream has none.
_STATUSES = frozenset({None, 400, 404, 415, 422, 500, 501})
_ABOUT_IMAGES = (
    r"\bimages?\b|image_url|input_image|inline_?data|mmproj|multi-?modal|\bvision\b",
    r"(?:invalid|malformed|incorrect|decod).{0,40}base64|base64.{0,40}(?:invalid|malformed|incorrect|decod)",
    r"unsupported.{0,20}(?:media|mime)|(?:media|mime).?type.{0,40}(?:support|invalid)",
    # Servers of text-only models, whose chat template or schema has no lists.
    r"content.{0,60}(?:must|should|expected|valid).{0,20}(?:\ba )?str(?:ing)?\b",
)
_TEMPORARY = r"rate.?limit|too many requests|overloaded|\bquota\b|per (?:minute|day)"


def is_refusal(end: StreamEnd) -> bool:
    """Whether a request failed because of its images. Call it only for a request that had images."""
    text = end.message.error_message or ""
    if end.message.stop_reason != "error" or end.status not in _STATUSES:
        return False
    if overflow.is_overflow(text, end.status):
        return False
    about_images, temporary = _patterns()
    return about_images.search(text) is not None and temporary.search(text) is None


@functools.cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile("|".join(_ABOUT_IMAGES), re.IGNORECASE | re.DOTALL), re.compile(_TEMPORARY, re.IGNORECASE)


class _EntryData(Struct):
    """The data of an entry in the session file."""

    provider: str
    model: str
    #: Digests of the images.
    images: list[str]


class UnreadableImages:
    """The images of one conversation that servers could not read. They are stored in the session file."""

    def __init__(self, conversation: Conversation, notify: Callable[[ExtensionError], object]) -> None:
        self.conversation = conversation
        self._notify = notify
        #: Digests of the images that the user knows a model to get no image of, by provider and model id.
        self._announced: dict[tuple[str, str], set[str]] = {}
        #: Digests of images, by provider and model id.
        self._unreadable: dict[tuple[str, str], set[str]] = {}
        #: The messages of the last request whose images were replaced, by `id()`, and the model of that request. The original is
        #: kept beside the replacement, so that no other message can get the same `id()`.
        self._replaced: dict[int, tuple[ModelMessage, ModelMessage]] = {}
        self._replaced_for: tuple[str, str] | None = None
        #: Digests of the images of the last request and of the one before, stored in the same way.
        self._digests: dict[int, tuple[ImageContent, str]] = {}
        self._earlier_digests: dict[int, tuple[ImageContent, str]] = {}
        #: The messages of the last request, if none of them had an image. A request repeats them, and adds to them.
        self._without_images: list[ModelMessage] = []
        self._read_entries()

    def prepare(self, request: ModelRequest, model: Model, stream: ModelStream) -> ModelStream:
        """Replace the images in `request` that the model's server could not read before.

        Returns the stream to use. If the request still has images, that stream notices if the server cannot read those either.
        """
        key = (model.provider, model.id)
        unreadable = self._unreadable.get(key)
        if unreadable:
            before = self._replaced if self._replaced_for == key else {}
            self._replaced, self._replaced_for = {}, key
            self._earlier_digests, self._digests = self._digests, {}
            request.messages = [self._without(message, unreadable, before) for message in request.messages]
        if not self._has_images(request.messages):
            return stream
        if "image" not in model.input:
            self._announce(request.messages, model)
            return stream
        return self._noticing(stream, model)

    def _announce(self, messages: Sequence[ModelMessage], model: Model) -> None:
        """Say that a model does not get images, once for each of them."""
        known = self._announced.setdefault((model.provider, model.id), set())
        new = {self._digest(image) for message in messages for image in _images(message)} - known
        if new:
            known |= new
            what = "The image is" if len(new) == 1 else f"{len(new)} images are"
            text = f"{what} not sent: {model.id} reads only text, and gets a note instead. Choose a model that reads images."
            self._notify(ExtensionError("session", "images", text))

    def _has_images(self, messages: list[ModelMessage]) -> bool:
        known = len(self._without_images)
        new = messages[known:] if messages[:known] == self._without_images else messages
        if any(map(_images, new)):
            return True
        self._without_images = list(messages)
        return False

    def _noticing(self, stream: ModelStream, model: Model) -> ModelStream:
        async def noticing(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
            async for batch in stream(request, cancel):
                end = batch[-1] if batch else None
                if isinstance(end, StreamEnd) and is_refusal(end):
                    count = self._remember(_suspects(request.messages, model), model)
                    end.message.error_message = f"{end.message.error_message}\n{_explain(count)}"
                    end.refused = True
                yield batch

        return noticing

    def _remember(self, images: Sequence[ImageContent], model: Model) -> int:
        self._replaced.clear()
        digests = sorted({self._digest(image) for image in images})
        self._unreadable.setdefault((model.provider, model.id), set()).update(digests)
        log = self.conversation.log
        data = to_builtins(_EntryData(model.provider, model.id, digests))
        self.conversation.keep(lambda: log.note(IMAGES, data))
        return len(digests)

    def _read_entries(self) -> None:
        if not self.conversation.has_begun:
            return

        for entry in self.conversation.log.entries_with_notes():
            if isinstance(entry, CustomEntry) and entry.custom_type == IMAGES:
                with suppress(ValidationError):  # another program may have written other data
                    data = convert(entry.data, _EntryData)
                    self._unreadable.setdefault((data.provider, data.model), set()).update(data.images)

    def _without(
        self, message: ModelMessage, unreadable: set[str], before: dict[int, tuple[ModelMessage, ModelMessage]]
    ) -> ModelMessage:
        if isinstance(message, AssistantMessage) or isinstance(message.content, str):
            return message
        known = before.get(id(message))
        if known is None or known[0] is not message:
            content: list[UserBlock] = [
                TextContent(UNREADABLE) if isinstance(block, ImageContent) and self._digest(block) in unreadable else block
                for block in message.content
            ]
            if content == message.content:
                return message
            known = (message, structs.replace(message, content=content))
        self._replaced[id(message)] = known
        return known[1]

    def _digest(self, image: ImageContent) -> str:
        known = self._digests.get(id(image)) or self._earlier_digests.get(id(image))
        if known is None or known[0] is not image:
            known = (image, blake2b(image.data.encode("utf-8", "replace"), digest_size=16).hexdigest())
        self._digests[id(image)] = known
        return known[1]


def _images(message: ModelMessage) -> list[ImageContent]:
    if isinstance(message, AssistantMessage) or isinstance(message.content, str):
        return []
    return [block for block in message.content if isinstance(block, ImageContent)]


def _suspects(messages: Sequence[ModelMessage], model: Model) -> list[ImageContent]:
    """Return the images that may be the cause: those since the model's last good answer; if there are none, all of them."""
    new: list[ImageContent] = []
    for message in reversed(messages):
        if is_good_answer(message) and (message.provider, message.model) == (model.provider, model.id):
            break
        new += _images(message)
    return new or [image for message in messages for image in _images(message)]


def _explain(count: int) -> str:
    what = "The image is" if count == 1 else f"The {count} images are"
    return (
        f"{what} not sent to this model again: from the next prompt on, a note stands in the place. "
        "Continue without, or choose a model that reads images."
    )
