"""An answer that another process receives from a model, as far as clients of this server have it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from fairlead.core.messages import AssistantBlock, AssistantMessage, TextContent, ThinkingContent
from fairlead.wire.pi.paced_updates import end_field, start_fields, update_head


class ArrivingAnswer:
    """Turns the pieces of an answer into `message_update` frames in delta form.

    Args:
        shell: The message without its content.
        entry: The number of the last entry of the session before it.
    """

    def __init__(self, shell: AssistantMessage, entry: int) -> None:
        self.entry = entry
        #: How many characters of the message have arrived.
        self.offset = 0
        self._shell = shell
        self._frames = _BlockFrames(msgspec.json.encode(shell.usage))
        self._blocks: list[tuple[AssistantBlock, list[str]]] = []

    def add(self, kind: str, index: int, text: str, offset: int) -> Iterator[bytes]:
        """Yield the frames of a piece. `offset` is where the message stands after it.

        A piece that does not continue what has arrived is left out: `finish` makes up for it.
        """
        if offset - len(text) != self.offset or not len(self._blocks) - 1 <= index <= len(self._blocks):
            return
        if index == len(self._blocks):
            block = ThinkingContent("") if kind == "thinking" else TextContent("")
            self._blocks.append((block, []))
            yield self._frames.start(index, block)
        block, pieces = self._blocks[index]
        pieces.append(text)
        self.offset = offset
        yield self._frames.delta(index, block, text)

    def message(self) -> AssistantMessage:
        """Return what has arrived."""
        return replace(self._shell, content=[_with_text(block, "".join(pieces)) for block, pieces in self._blocks])

    def finish(self, message: AssistantMessage) -> Iterator[bytes]:
        """Yield the frames that are missing until a message is complete."""
        frames = _BlockFrames(msgspec.json.encode(message.usage))
        for index, block in enumerate(message.content):
            known, pieces = self._blocks[index] if index < len(self._blocks) else (None, list[str]())
            text, sent = _text_of(block), "".join(pieces)
            if known is None:
                yield frames.start(index, block)
            if text.startswith(sent) and len(text) > len(sent) and (known is None or _kind(known) == _kind(block)):
                yield frames.delta(index, block, text[len(sent) :])
            yield frames.end(index, block)


def _with_text(block: AssistantBlock, text: str) -> AssistantBlock:
    return ThinkingContent(text) if isinstance(block, ThinkingContent) else TextContent(text)


class _BlockFrames:
    """Makes frames, without line ends, for a message whose tokens so far are `usage` as JSON."""

    def __init__(self, usage: bytes) -> None:
        self._tail = b'},"usage":%s}' % usage

    def start(self, index: int, block: AssistantBlock) -> bytes:
        return update_head(b"%s_start" % _kind(block), index, start_fields(block)) + self._tail

    def delta(self, index: int, block: AssistantBlock, text: str) -> bytes:
        return update_head(b"%s_delta" % _kind(block), index, b',"delta":' + msgspec.json.encode(text)) + self._tail

    def end(self, index: int, block: AssistantBlock) -> bytes:
        return update_head(b"%s_end" % _kind(block), index, b"".join(end_field(block))) + self._tail


def _kind(block: AssistantBlock) -> bytes:
    return b"text" if isinstance(block, TextContent) else b"thinking" if isinstance(block, ThinkingContent) else b"toolcall"


def _text_of(block: AssistantBlock) -> str:
    return block.text if isinstance(block, TextContent) else block.thinking if isinstance(block, ThinkingContent) else ""
