"""The entries of a session as a tree, and the JSON form that pi has for it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from fairlead.session.history.entries import Entry, LabelEntry


class Label(Struct, frozen=True):
    """A bookmark on an entry."""

    text: str
    #: When it was set, in the format of entries.
    timestamp: str


class EntryNode(Struct):
    """An entry, its JSON, and the entries that follow it, oldest first."""

    entry: Entry
    line: bytes
    children: list[EntryNode]
    label: Label | None = None


def labels_in(entries: Iterable[Entry]) -> dict[str, Label]:
    """Return the labels that hold after `entries`, by the id of the labelled entry."""
    labels: dict[str, Label] = {}
    for entry in entries:
        if isinstance(entry, LabelEntry):
            labels.pop(entry.target_id, None)
            if entry.label:
                labels[entry.target_id] = Label(entry.label, entry.timestamp)
    return labels


def build_tree(
    entries: Sequence[Entry],
    lines: Sequence[bytes],
    parents: Sequence[int],
    labels: Mapping[str, Label],
    hidden: Container[int] = (),
) -> list[EntryNode]:
    """Return the roots of the tree. `lines` are the JSON of the entries, `parents` the positions of their parents (-1: none).

    The entries at the `hidden` positions are left out.
    """
    nodes = [EntryNode(entry, line, [], labels.get(entry.id)) for entry, line in zip(entries, lines, strict=True)]
    roots: list[EntryNode] = []
    for position, (node, parent) in enumerate(zip(nodes, parents, strict=True)):
        if position not in hidden:
            (roots if parent < 0 else nodes[parent].children).append(node)
    for node in nodes:
        if len(node.children) > 1:
            node.children.sort(key=lambda child: child.entry.timestamp)
    return roots


def tree_json(roots: list[EntryNode]) -> bytes:
    """Return the nodes as a JSON array. It is nested as deeply as the conversation is long, so this function does not recurse."""
    parts: list[bytes] = [b"["]
    stack: list[EntryNode | bytes] = _separate(roots)
    while stack:
        item = stack.pop()
        if isinstance(item, bytes):
            parts.append(item)
            continue
        parts += (b'{"entry":', item.line, b',"children":[')
        end = b"]}"
        if item.label is not None:
            text, timestamp = msgspec.json.encode(item.label.text), msgspec.json.encode(item.label.timestamp)
            end = b'],"label":%b,"labelTimestamp":%b}' % (text, timestamp)
        stack.append(end)
        stack += _separate(item.children)
    parts.append(b"]")
    return b"".join(parts)


def _separate(nodes: list[EntryNode]) -> list[EntryNode | bytes]:
    """Return the nodes in reverse order, with commas between them."""
    items: list[EntryNode | bytes] = []
    for node in reversed(nodes):
        items += (node, b",")
    return items[:-1]
