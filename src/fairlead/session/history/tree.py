"""A conversation's entries as a tree, and the JSON that pi has for it."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from fairlead.session.history.entries import Entry


class Label(Struct, frozen=True):
    """A bookmark."""

    text: str
    #: When it was given, as in entries.
    timestamp: str


class Node(Struct):
    """An entry and its JSON, with what came after it, oldest first."""

    entry: Entry
    line: bytes
    children: list[Node]
    label: Label | None = None


def tree_json(roots: list[Node]) -> bytes:
    """The nodes as a JSON array. It is nested as deeply as a conversation is long, so nothing here calls itself."""
    parts: list[bytes] = [b"["]
    waiting: list[Node | bytes] = _separated(roots)
    while waiting:
        item = waiting.pop()
        if isinstance(item, bytes):
            parts.append(item)
            continue
        parts += (b'{"entry":', item.line, b',"children":[')
        end = b"]}"
        if item.label is not None:
            text, timestamp = msgspec.json.encode(item.label.text), msgspec.json.encode(item.label.timestamp)
            end = b'],"label":%b,"labelTimestamp":%b}' % (text, timestamp)
        waiting.append(end)
        waiting += _separated(item.children)
    parts.append(b"]")
    return b"".join(parts)


def _separated(nodes: list[Node]) -> list[Node | bytes]:
    """Nodes with commas between them, last first."""
    items: list[Node | bytes] = []
    for node in reversed(nodes):
        items += (node, b",")
    return items[:-1]
