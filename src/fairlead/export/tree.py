"""The entries of a session as a tree, each with its place in the page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.export.values import text

_SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(slots=True, eq=False)
class Node:
    """An entry; `anchor` is its id in the page, `index` its place in the file."""

    entry: Mapping[str, Any]
    index: int
    anchor: str
    parent: Node | None
    #: How many nodes begin where it does and come before it.
    place: int = 0
    children: list[Node] = field(default_factory=lambda: list[Node]())
    label: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the outline; `depth` is how many side branches it is within."""

    node: Node
    depth: int


class Tree:
    """All entries, in the order of the file; a parent always comes before its children.

    Files that were damaged or written by hand still make a tree: an entry whose parent is missing follows the one
    before it, so that the conversation reads on.
    """

    def __init__(self, entries: Sequence[Mapping[str, Any]], leaf: str | None) -> None:
        self.nodes: list[Node] = []
        self.roots: list[Node] = []
        self._by_id: dict[str, Node] = {}
        anchors: set[str] = set()
        for index, entry in enumerate(entries):
            node = Node(entry, index, _anchor(entry, index, anchors), self._parent(entry))
            self.nodes.append(node)
            siblings = self.siblings(node)
            node.place = len(siblings)
            siblings.append(node)
            self._by_id.setdefault(text(entry.get("id")), node)
        self._apply_labels()
        last = self.nodes[-1] if self.nodes else None
        self.leaf: Node | None = self._by_id.get(leaf, last) if leaf else last
        self.path: set[Node] = set(self._ancestry(self.leaf))

    def siblings(self, node: Node) -> list[Node]:
        """The node and those that begin where it does."""
        return node.parent.children if node.parent else self.roots

    def find(self, entry_id: str) -> Node | None:
        return self._by_id.get(entry_id)

    def branches(self) -> int:
        """How many ends the conversation has."""
        return sum(not node.children for node in self.nodes)

    def walk(self) -> Iterator[Row]:
        """Depth first. The way to the leaf, or else the newest branch, stays level; the others come before it, indented."""
        waiting = [Row(node, depth) for node, depth in reversed(self._placed(self.roots, 0))]
        while waiting:
            row = waiting.pop()
            yield row
            waiting += [Row(child, depth) for child, depth in reversed(self._placed(row.node.children, row.depth))]

    def _placed(self, branches: list[Node], depth: int) -> list[tuple[Node, int]]:
        if not branches:
            return []
        main = next((node for node in branches if node in self.path), branches[-1])
        return [*((node, depth + 1) for node in branches if node is not main), (main, depth)]

    def _parent(self, entry: Mapping[str, Any]) -> Node | None:
        previous = self.nodes[-1] if self.nodes else None
        if "parentId" in entry and entry["parentId"] is None:
            return None
        return self._by_id.get(text(entry.get("parentId")) or "\0", previous)

    def _ancestry(self, node: Node | None) -> Iterator[Node]:
        while node:
            yield node
            node = node.parent

    def _apply_labels(self) -> None:
        for node in self.nodes:
            target = self.find(text(node.entry.get("targetId"))) if node.entry.get("type") == "label" else None
            if target:
                target.label = text(node.entry.get("label"))


def _anchor(entry: Mapping[str, Any], index: int, taken: set[str]) -> str:
    """`entry-<id>`, or with its number for an id that is missing, taken or fit for no address."""
    entry_id = text(entry.get("id"))
    anchor = f"entry-{entry_id}"
    if not _SAFE_ID.fullmatch(entry_id) or anchor in taken:
        anchor = f"entry-.{index}"
    taken.add(anchor)
    return anchor
