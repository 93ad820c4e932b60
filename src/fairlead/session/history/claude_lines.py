"""The lines of a session file of Claude Code, from the entries of a log and back.

Claude Code has a line for each block of an answer and for each result of a tool. The lines name the one before them in
`parentUuid`, and a result names its call. What else an entry has is in lines of types that other readers skip: `fairlead-entry`
holds an entry that Claude Code does not know, and `fairlead-message` what an answer has besides its blocks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct, to_builtins

from fairlead.core import lenient
from fairlead.core.messages import (
    AssistantBlock,
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserBlock,
    UserMessage,
    decode_message,
    encode_message,
)
from fairlead.session.history.entries import (
    CompactionEntry,
    Entry,
    MessageEntry,
    SessionInfoEntry,
    decode_line,
    encode_line,
    is_note,
)
from fairlead.session.history.log import Log
from fairlead.stores.headers import VERSION, Header

#: The version of Claude Code whose files these are like.
FORMAT_VERSION = "2.1.326"
ENTRY, ANSWER = "fairlead-entry", "fairlead-message"
_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "toolUse": "tool_use"}
_STOPPED_BY = {"end_turn": "stop", "max_tokens": "length", "tool_use": "toolUse", "stop_sequence": "stop"}


def block_id(answer: str, index: int) -> str:
    """Return the uuid of the line for a block of an answer."""
    if not index:
        return answer
    digits = hashlib.md5(f"{answer}/{index}".encode(), usedforsecurity=False).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"


class Tails:
    """The last line of the tree at each entry. An entry that Claude Code does not know has that of its parent."""

    def __init__(self) -> None:
        self._tails: dict[str, str | None] = {}
        #: The lines of calls, by the id of the call.
        self.calls: dict[str, str] = {}

    def at(self, entry: str | None) -> str | None:
        return None if entry is None else self._tails.get(entry)

    def set(self, entry: str, line: str | None) -> None:
        self._tails[entry] = line


class LineMaker:
    """Makes the lines of one session. `more` are fields that all lines of the tree have."""

    def __init__(self, header: Header, tails: Tails, more: Mapping[str, Any] | None = None) -> None:
        self.tails = tails
        self._header = header
        self._common = {
            "isSidechain": False,
            "userType": "external",
            "entrypoint": "sdk-cli",
            "cwd": header.cwd,
            "sessionId": header.id,
            "version": FORMAT_VERSION,
            "gitBranch": "",
            **(more or {}),
        }

    def encode(self, entry: Entry, *, kept: int = 0) -> list[bytes]:
        """Return the lines of an entry. The first blocks of an answer, as many as are `kept`, have lines already."""
        tails, parent = self.tails, self.tails.at(entry.parent_id)
        message = decode_message(entry.message) if isinstance(entry, MessageEntry) else None
        match message:
            case UserMessage():
                tails.set(entry.id, entry.id)
                told = {"role": "user", "content": _encode_user(message)}
                return [self._line("user", entry.id, parent, entry.timestamp, message=told, fairleadParent=entry.parent_id)]
            case AssistantMessage():
                lines = [
                    self.block(entry.id, index, block, message, entry.timestamp, parent)
                    for index, block in enumerate(message.content)
                    if index >= kept
                ]
                tails.set(entry.id, block_id(entry.id, len(message.content) - 1) if message.content else parent)
                return [*lines, self._answer_line(entry, message)]
            case ToolResultMessage():
                tails.set(entry.id, entry.id)
                return [self._result_line(entry, message, parent)]
            case _:
                pass
        if isinstance(entry, SessionInfoEntry):
            tails.set(entry.id, parent)
            name = {"type": "custom-title", "customTitle": entry.name or "", "sessionId": self._header.id}
            return [_encode(name)]
        if isinstance(entry, CompactionEntry):
            return self._compaction_lines(entry, parent)
        tails.set(entry.id, parent)
        return [self._entry_line(entry)]

    def block(
        self, answer: str, index: int, block: AssistantBlock, message: AssistantMessage, timestamp: str, parent: str | None
    ) -> bytes:
        """Return the line of a block. `parent` is the line before the first one of the answer."""
        uuid = block_id(answer, index)
        if isinstance(block, ToolCall):
            self.tails.calls[block.id] = uuid
        told = {
            "id": f"msg_{answer.replace('-', '')}" if message.response_id is None else message.response_id,
            "type": "message",
            "role": "assistant",
            "model": message.model,
            "content": [encode_block(block)],
            "stop_reason": _STOP_REASONS.get(message.stop_reason),
            "stop_sequence": None,
            "usage": encode_usage(message.usage),
        }
        before = parent if not index else block_id(answer, index - 1)
        return self._line("assistant", uuid, before, timestamp, message=told, fairleadEntry=answer)

    def _line(self, kind: str, uuid: str, parent: str | None, timestamp: str, **more: Any) -> bytes:
        return _encode({"parentUuid": parent, "type": kind, **more, "uuid": uuid, "timestamp": timestamp, **self._common})

    def _result_line(self, entry: Entry, message: ToolResultMessage, parent: str | None) -> bytes:
        block = {
            "tool_use_id": message.tool_call_id,
            "type": "tool_result",
            "content": _encode_result(message.content),
            "is_error": message.is_error,
        }
        call = self.tails.calls.get(message.tool_call_id)
        more: dict[str, Any] = {"message": {"role": "user", "content": [block]}}
        if message.details is not UNSET:
            more["toolUseResult"] = message.details
        if call is not None:
            more["sourceToolAssistantUUID"] = call
        more["fairlead"] = {"toolName": message.tool_name, "durationMs": message.duration_ms}
        return self._line("user", entry.id, call or parent, entry.timestamp, **more, fairleadParent=entry.parent_id)

    def _answer_line(self, entry: Entry, message: AssistantMessage) -> bytes:
        value: dict[str, Any] = msgspec.json.decode(encode_message(message))
        value["content"] = len(message.content)
        fields = {"type": ANSWER, "entry": entry.id, "parent": entry.parent_id, "timestamp": entry.timestamp}
        return _encode({**fields, "message": value, "sessionId": self._header.id})

    def _entry_line(self, entry: Entry) -> bytes:
        return _encode({"type": ENTRY, "entry": Raw(encode_line(entry)), "sessionId": self._header.id})

    def _compaction_lines(self, entry: CompactionEntry, parent: str | None) -> list[bytes]:
        """Return the boundary and the summary as Claude Code has them, and the entry itself."""
        metadata = {"trigger": "auto", "preTokens": entry.tokens_before}
        summary = block_id(entry.id, 1)
        self.tails.set(entry.id, summary)
        boundary = self._line(
            "system",
            entry.id,
            None,
            entry.timestamp,
            subtype="compact_boundary",
            content="Conversation compacted",
            logicalParentUuid=parent,
            compactMetadata=metadata,
            fairleadEntry=entry.id,
        )
        told = {"role": "user", "content": entry.summary}
        said = self._line("user", summary, entry.id, entry.timestamp, message=told, isCompactSummary=True, fairleadEntry=entry.id)
        return [boundary, said, self._entry_line(entry)]


def _encode(value: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(lenient.scrub(to_builtins(value)))


def encode_block(block: AssistantBlock) -> dict[str, Any]:
    """Return a block of an answer in the form of the Messages API."""
    match block:
        case TextContent():
            return {"type": "text", "text": block.text}
        case ThinkingContent():
            return {"type": "thinking", "thinking": block.thinking, "signature": block.thinking_signature or ""}
        case ToolCall():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.arguments}


def encode_usage(usage: Usage) -> dict[str, Any]:
    """Return the tokens of a model call in the form of the Messages API."""
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
    }


def _encode_user(message: UserMessage) -> str | list[dict[str, Any]]:
    content = message.content
    if isinstance(content, str):
        return content
    if len(content) == 1 and isinstance(content[0], TextContent):
        return content[0].text
    return encode_blocks(content)


def _encode_result(content: list[UserBlock]) -> str | list[dict[str, Any]]:
    if len(content) == 1 and isinstance(content[0], TextContent):
        return content[0].text
    return encode_blocks(content)


def encode_blocks(content: Sequence[UserBlock]) -> list[dict[str, Any]]:
    """Return blocks in the form of the Messages API."""
    return [
        {"type": "text", "text": block.text}
        if isinstance(block, TextContent)
        else {"type": "image", "source": {"type": "base64", "media_type": block.mime_type, "data": block.data}}
        for block in content
    ]


# Reading


class _Draft(Struct):
    """An entry that is being put together."""

    id: str
    parent: str | None
    timestamp: str
    #: The message of the entry; None: `entry` is complete.
    message: dict[str, Any] | None = None
    entry: tuple[Entry, bytes] | None = None


class ReadLines(Struct):
    """The contents of a file."""

    log: Log
    tails: Tails


class LineReader:
    """Reads the lines of a session. Lines of unknown types, and those of sub-agents, are skipped."""

    def __init__(self, session_id: str) -> None:
        self._id = session_id
        self._cwd = self._began = ""
        self._drafts: dict[str, _Draft] = {}
        #: The entry that a line belongs to; None for one before the first entry.
        self._owners: dict[str, str | None] = {}
        #: The entries without a line of the tree that follow a line, the last of each.
        self._heads: dict[str | None, str] = {}
        #: The answers by the id that their provider gave them, and the last result of the calls of each answer.
        self._answers: dict[str, str] = {}
        self._last_results: dict[str, str] = {}
        self._tool_names: dict[str, str] = {}
        self._tails = Tails()

    def finish(self) -> ReadLines:
        """Return what was read."""
        header = Header(version=VERSION, id=self._id, timestamp=self._began, cwd=self._cwd)
        return ReadLines(Log(header, [_complete(draft) for draft in self._drafts.values()]), self._tails)

    def read(self, value: Mapping[str, Any]) -> None:
        """Read one line."""
        kind, uuid = value.get("type"), value.get("uuid")
        if kind == ENTRY:
            self._read_entry(value)
        elif kind == ANSWER:
            self._read_answer(value)
        elif kind == "custom-title":
            self._read_title(value)
        if not isinstance(uuid, str) or value.get("isSidechain") is True:
            return
        self._cwd = self._cwd or str(value.get("cwd") or "")
        self._began = self._began or str(value.get("timestamp") or "")
        parent = value.get("parentUuid")
        parent = parent if isinstance(parent, str) else None
        before = self._heads.get(parent) or (None if parent is None else self._owners.get(parent))
        exact = value.get("fairleadParent")
        before = exact if isinstance(exact, str) and exact in self._drafts else before
        message = value.get("message")
        if isinstance(value.get("fairleadEntry"), str) and kind != "assistant":
            self._owners[uuid] = value["fairleadEntry"]  # the entry has its own line
        elif kind == "user" and isinstance(message, dict):
            self._read_user(uuid, before, value, cast("dict[str, Any]", message))
        elif kind == "assistant" and isinstance(message, dict) and not value.get("isApiErrorMessage"):
            self._read_block(uuid, before, value, cast("dict[str, Any]", message))
        else:
            self._owners[uuid] = before

    def _add(self, draft: _Draft, line: str | None) -> None:
        self._drafts[draft.id] = draft
        self._tails.set(draft.id, line)

    def _after(self, owner: str | None) -> str | None:
        """Return the entry that follows what `owner` names: calls that ran together have results beside each other."""
        draft = None if owner is None else self._drafts.get(owner)
        if draft is not None and draft.message is not None and draft.message.get("role") == "toolResult":
            return self._last_results.get(draft.message["answer"], owner)
        return owner

    def _read_user(self, uuid: str, before: str | None, value: Mapping[str, Any], message: dict[str, Any]) -> None:
        content = message.get("content")
        blocks = _objects(content)
        results = [block for block in blocks if block.get("type") == "tool_result"]
        if value.get("isCompactSummary"):
            parent = next(reversed(self._drafts), None)
            text = content if isinstance(content, str) else "\n".join(_texts(blocks))
            entry = CompactionEntry(uuid, parent, _time(value), text, uuid)
            self._owners[uuid] = uuid
            self._add(_Draft(uuid, parent, _time(value), None, (entry, encode_line(entry))), uuid)
        elif results:
            self._read_results(uuid, before, value, results)
        else:
            told = {"role": "user", "content": content if isinstance(content, str) else _decode_blocks(blocks)}
            self._owners[uuid] = uuid
            self._add(_Draft(uuid, self._after(before), _time(value), told), uuid)

    def _read_results(self, uuid: str, before: str | None, value: Mapping[str, Any], results: list[dict[str, Any]]) -> None:
        extra = value.get("fairlead")
        extra = cast("dict[str, Any]", extra) if isinstance(extra, dict) else {}
        for number, block in enumerate(results):
            ident = block_id(uuid, number)
            call = str(block.get("tool_use_id", ""))
            owner = self._owners.get(self._tails.calls.get(call, ""), before) or ""
            content = block.get("content", "")
            told: dict[str, Any] = {
                "role": "toolResult",
                "toolCallId": call,
                "toolName": self._tool_names.get(call) or str(extra.get("toolName") or ""),
                "content": _decode_blocks(_objects(content) or [{"type": "text", "text": str(content)}]),
                "isError": block.get("is_error") is True,
                "answer": owner,
            }
            if "toolUseResult" in value:
                told["details"] = value["toolUseResult"]
            if isinstance(extra.get("durationMs"), int):
                told["durationMs"] = extra["durationMs"]
            exact = value.get("fairleadParent") == before
            parent = before if exact else self._last_results.get(owner) or before
            self._last_results[owner] = ident
            self._owners[uuid] = ident
            self._add(_Draft(ident, parent, _time(value), told), uuid)

    def _read_block(self, uuid: str, before: str | None, value: Mapping[str, Any], message: dict[str, Any]) -> None:
        content = message.get("content")
        blocks: list[Any] = [_decode_answer_block(block) for block in cast("list[Any]", content or [])]
        blocks = [block for block in blocks if block is not None]
        given = str(value.get("fairleadEntry") or "")
        known = given or self._answers.get(str(message.get("id")), "")
        for block in blocks:
            if block["type"] == "toolCall":
                self._tails.calls[block["id"]] = uuid
                self._tool_names[block["id"]] = block["name"]
        if known in self._drafts and self._drafts[known].message is not None:
            told = cast("dict[str, Any]", self._drafts[known].message)
            told["content"] += blocks
            told["usage"] = _decode_usage(message.get("usage"))
            told["stopReason"] = _read_stop_reason(message, told["content"])
            self._owners[uuid] = known
            self._tails.set(known, uuid)
            return
        told = {
            "role": "assistant",
            "content": blocks,
            "api": "anthropic-messages",
            "provider": "anthropic",
            "model": str(message.get("model") or ""),
            "usage": _decode_usage(message.get("usage")),
            "stopReason": _read_stop_reason(message, blocks),
            "responseId": str(message.get("id") or ""),
        }
        ident = given or uuid
        self._answers[str(message.get("id"))] = ident
        self._owners[uuid] = ident
        self._add(_Draft(ident, self._after(before), _time(value), told), uuid)

    def _read_answer(self, value: Mapping[str, Any]) -> None:
        ident, message = value.get("entry"), value.get("message")
        if not isinstance(ident, str) or not isinstance(message, dict):
            return
        told = cast("dict[str, Any]", message)
        draft = self._drafts.get(ident)
        if draft is None:
            parent = value.get("parent")
            parent = parent if isinstance(parent, str) else None
            self._add(_Draft(ident, parent, _time(value), {**told, "content": []}), self._tails.at(parent))
        elif draft.message is not None:
            draft.message = {**told, "content": draft.message["content"]}
            parent = value.get("parent")
            draft.parent = parent if isinstance(parent, str) and parent in self._drafts else draft.parent

    def _read_entry(self, value: Mapping[str, Any]) -> None:
        try:
            entry, line = decode_line(msgspec.json.encode(value.get("entry")))
        except ValueError:
            return
        tail = self._tails.at(entry.parent_id)
        if isinstance(entry, CompactionEntry):
            tail = block_id(entry.id, 1)
        self._add(_Draft(entry.id, entry.parent_id, "", None, (entry, line)), tail)
        if not is_note(entry):
            self._heads[tail] = entry.id

    def _read_title(self, value: Mapping[str, Any]) -> None:
        title, parent = str(value.get("customTitle") or ""), next(reversed(self._drafts), None)
        ident = block_id(title, len(self._drafts) + 1)
        entry = SessionInfoEntry(ident, parent, _time(value), title)
        self._heads[self._tails.at(parent)] = ident
        self._add(_Draft(ident, parent, "", None, (entry, encode_line(entry))), self._tails.at(parent))


def _complete(draft: _Draft) -> tuple[Entry, bytes]:
    if draft.entry is not None:
        return draft.entry
    told = {key: value for key, value in (draft.message or {}).items() if key != "answer"}
    value = {"type": "message", "id": draft.id, "parentId": draft.parent, "timestamp": draft.timestamp}
    told.setdefault("timestamp", 0)
    return decode_line(msgspec.json.encode({**value, "message": told}))


def _time(value: Mapping[str, Any]) -> str:
    return str(value.get("timestamp") or "")


def _texts(blocks: Iterable[Any]) -> list[str]:
    return [str(block.get("text", "")) for block in blocks]


def _objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; nothing for another value."""
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


def _decode_blocks(blocks: Iterable[Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for block in blocks:
        match block:
            case {"type": "text", "text": str(text)}:
                found.append({"type": "text", "text": text})
            case {"type": "image", "source": {"data": str(data), "media_type": str(kind)}}:
                found.append({"type": "image", "data": data, "mimeType": kind})
            case _:
                pass
    return found


def _decode_answer_block(block: Any) -> dict[str, Any] | None:
    match block:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "thinking", "thinking": str(text)}:
            return {"type": "thinking", "thinking": text, "thinkingSignature": block.get("signature") or None}
        case {"type": "tool_use", "id": str(ident), "name": str(name)}:
            given = block.get("input")
            return {"type": "toolCall", "id": ident, "name": name, "arguments": given if isinstance(given, dict) else {}}
        case _:
            return None


def _read_stop_reason(message: Mapping[str, Any], blocks: list[Any]) -> str:
    known = _STOPPED_BY.get(str(message.get("stop_reason")))
    return known or ("toolUse" if any(block["type"] == "toolCall" for block in blocks) else "stop")


def _decode_usage(usage: Any) -> dict[str, Any]:
    given = cast("dict[str, Any]", usage) if isinstance(usage, dict) else {}
    counts = [
        count if isinstance(count := given.get(name), int) else 0
        for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    ]
    return to_builtins(Usage(*counts, total_tokens=sum(counts)))
