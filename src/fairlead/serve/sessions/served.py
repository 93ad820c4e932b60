"""What a client of the server can do with a session, whether this server works in it or only watches it.

The tree of a session, as clients see it, has messages and summaries, without entries that only record a setting. An answer that
another process receives from a model is collected as it arrives.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fairlead.core.messages import AssistantBlock, AssistantMessage, TextContent, ThinkingContent
from fairlead.protocol.http import http_objects as o
from fairlead.serve.sessions.feed import Feed
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.entries import BranchSummaryEntry, CompactionEntry, Entry, MessageEntry
from fairlead.session.history.log import Log
from fairlead.wire.pi.paced_updates import end_field, start_fields, update_head

#: How many characters of an entry are shown.
LONGEST_TEXT = 200


def tree_of(log: Log | None) -> o.Tree:
    """Return the tree of a session; None: of one that has not begun."""
    if log is None:
        return o.Tree(entries=[], leaf_id=None)
    # The nearest entry that is shown, at or above each entry.
    nearest: dict[str, str | None] = {}
    shown: list[o.TreeEntry] = []
    for entry in log.entries():
        above = nearest.get(entry.parent_id or "")
        described = _describe(entry)
        if described is None:
            nearest[entry.id] = above
            continue
        nearest[entry.id] = entry.id
        kind, text = described
        shown.append(
            o.TreeEntry(
                id=entry.id,
                parent_id=above,
                kind=kind,
                text=" ".join(text[: LONGEST_TEXT * 2].split())[:LONGEST_TEXT],
                timestamp=entry.timestamp,
            )
        )
    return o.Tree(entries=shown, leaf_id=nearest.get(log.leaf or ""))


def _describe(entry: Entry) -> tuple[str, str] | None:
    """Return the kind and the text of an entry; None if it is not shown."""
    match entry:
        case MessageEntry(message=raw):
            try:
                message = msgspec.json.decode(raw, type=dict[str, Any])
            except (msgspec.DecodeError, UnicodeError):
                return None
            return str(message.get("role")), _text(message)
        case CompactionEntry(summary=summary):
            return "compaction", summary
        case BranchSummaryEntry(summary=summary):
            return "branch_summary", summary
        case _:
            return None


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return str(message.get("command") or "")
    blocks: list[dict[str, Any]] = [block for block in content if isinstance(block, dict)]  # pyright: ignore[reportUnknownVariableType]
    texts = [str(block["text"]) for block in blocks if block.get("type") == "text" and block.get("text")]
    calls = [str(block.get("name")) for block in blocks if block.get("type") == "toolCall"]
    return " ".join(texts) or (f"calls {', '.join(calls)}" if calls else "")


class ForkedConversation(Struct):
    """The beginning of a session that is forked from another one."""

    conversation: Conversation
    cwd: Path
    approval: o.Approval
    #: The message before which the new session ends, to be edited and sent again.
    text: str | None


class ServedSession(Protocol):
    """A session that clients share. `HubSession` and `WatchedSession` implement it.

    Every method raises Refusal if the session cannot do that: workers run some sessions, which then take prompts, aborts and
    resumes only.
    """

    id: str
    feed: Feed
    #: How many requests are using the session now, and when the last one ended.
    uses: int
    last_used: float

    # Looking

    def state(self) -> o.SessionState: ...

    def snapshot(self, most_messages: int | None = None) -> bytes:
        """Return a `Snapshot` as JSON, with the newest messages only if there is a limit."""
        ...

    def tree(self) -> o.Tree:
        """Return all branches of the session."""
        ...

    async def complete(self, before: str) -> o.Completions:
        """Suggest how a text continues at its end."""
        ...

    # Acting

    async def prompt(self, body: o.Prompt) -> o.AcceptedPrompt:
        """Start a run, or queue the message. Raises what `Session.prompt` raises."""
        ...

    async def steer(self, body: o.QueuedMessage) -> o.AcceptedPrompt: ...

    async def follow_up(self, body: o.QueuedMessage) -> o.AcceptedPrompt: ...

    async def abort(self) -> None:
        """Stop what is running."""
        ...

    async def resume(self) -> None:
        """Continue the last run if it was interrupted. Raises NothingToResume."""
        ...

    async def compact(self, instructions: str | None) -> Any:
        """Compact the session, also if the client leaves meanwhile. Returns the result."""
        ...

    async def change(self, changes: o.Changes) -> None:
        """Change the model, the thinking level, the name or the approval mode. Raises BadCommand and ModelNotFound."""
        ...

    async def move(self, body: o.Move) -> o.Moved:
        """Go to another entry. Raises what `Session.navigate` raises."""
        ...

    def fork(self, body: o.Fork) -> ForkedConversation:
        """Return the beginning of a new session: everything up to an entry. Raises EntryNotFound."""
        ...

    def clear_queue(self) -> o.ClearedQueue:
        """Remove the messages that wait. Raises SessionError if that cannot be written."""
        ...

    def answer(self, question: str, body: Any) -> None:
        """Answer a question to the user."""
        ...


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
