"""The tree of a session, as clients see it: messages and summaries, without entries that only record a setting."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.protocol.http import objects as o
from fairlead.session.history.entries import BranchSummaryEntry, CompactionEntry, Entry, MessageEntry
from fairlead.session.history.log import Log

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
        described = _described(entry)
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


def _described(entry: Entry) -> tuple[str, str] | None:
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
