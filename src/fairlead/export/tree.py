"""The entries of a session as a tree, with an anchor in the page for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.export.contents import mapping, text, tool_calls

#: Ids that can be part of an address or a file name as they are.
SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(slots=True, eq=False)
class OutlineNode:
    """An entry. `anchor` is its id in the page, `index` its position in the file."""

    entry: Mapping[str, Any]
    index: int
    anchor: str
    parent: OutlineNode | None
    #: Its position among the children of its parent.
    sibling_index: int = 0
    children: list[OutlineNode] = field(default_factory=lambda: list[OutlineNode]())
    label: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the outline. `depth` is the number of side branches around it."""

    node: OutlineNode
    depth: int


class EntryTree:
    """All entries in the order of the file. A parent always comes before its children.

    Damaged files and files written by hand make a tree too: an entry whose parent is missing follows the entry before it.
    """

    def __init__(self, entries: Sequence[Mapping[str, Any]], leaf: str | None) -> None:
        self.nodes: list[OutlineNode] = []
        self.roots: list[OutlineNode] = []
        self._by_id: dict[str, OutlineNode] = {}
        anchors: set[str] = set()
        for index, entry in enumerate(entries):
            node = OutlineNode(entry, index, _anchor(entry, index, anchors), self._parent(entry))
            self.nodes.append(node)
            siblings = self.siblings(node)
            node.sibling_index = len(siblings)
            siblings.append(node)
            self._by_id.setdefault(text(entry.get("id")), node)
        self._apply_labels()
        last = self.nodes[-1] if self.nodes else None
        self.leaf: OutlineNode | None = self._by_id.get(leaf, last) if leaf else last
        self.path: set[OutlineNode] = set(self._ancestry(self.leaf))

    def siblings(self, node: OutlineNode) -> list[OutlineNode]:
        """Return the children of the node's parent, including the node."""
        return node.parent.children if node.parent else self.roots

    def find(self, entry_id: str) -> OutlineNode | None:
        """Return the node of an entry; None if there is none with this id."""
        return self._by_id.get(entry_id)

    def branches(self) -> int:
        """Return the number of branches: of entries without children."""
        return sum(not node.children for node in self.nodes)

    def walk(self) -> Iterator[Row]:
        """Yield the nodes depth first. The main branch, to the leaf or else the newest, comes last and is not indented."""
        stack = self._rows(self.roots, 0)
        while stack:
            row = stack.pop()
            yield row
            stack += self._rows(row.node.children, row.depth)

    def _rows(self, branches: list[OutlineNode], depth: int) -> list[Row]:
        """Return the rows of branches in reverse order."""
        if not branches:
            return []
        main = next((node for node in branches if node in self.path), branches[-1])
        return [Row(main, depth), *(Row(node, depth + 1) for node in reversed(branches) if node is not main)]

    def _parent(self, entry: Mapping[str, Any]) -> OutlineNode | None:
        previous = self.nodes[-1] if self.nodes else None
        if "parentId" in entry and entry["parentId"] is None:
            return None
        return self._by_id.get(text(entry.get("parentId")) or "\0", previous)

    def _ancestry(self, node: OutlineNode | None) -> Iterator[OutlineNode]:
        while node:
            yield node
            node = node.parent

    def _apply_labels(self) -> None:
        for node in self.nodes:
            target = self.find(text(node.entry.get("targetId"))) if node.entry.get("type") == "label" else None
            if target:
                target.label = text(node.entry.get("label"))


def _anchor(entry: Mapping[str, Any], index: int, taken: set[str]) -> str:
    """Return `entry-<id>`, or `entry-.<index>` for an id that is missing, taken or not usable in an address."""
    entry_id = text(entry.get("id"))
    anchor = f"entry-{entry_id}"
    if not SAFE_ID.fullmatch(entry_id) or anchor in taken:
        anchor = f"entry-.{index}"
    taken.add(anchor)
    return anchor


class ToolPairs:
    """Which tool call each result answers. Providers use an id again in later messages, so the nearest message counts."""

    def __init__(self, tree: EntryTree) -> None:
        #: The call that a result answers.
        self.calls: dict[OutlineNode, Mapping[str, Any]] = {}
        #: The results of a message's calls, by the ids of the calls.
        self.results: dict[OutlineNode, dict[str, OutlineNode]] = {}
        for node in tree.nodes:
            message = mapping(node.entry.get("message"))
            if message.get("role") != "toolResult":
                continue
            caller = _caller(node)
            call_id = text(message.get("toolCallId"))
            content = mapping(caller.entry.get("message")).get("content") if caller else None
            call = next((block for block in tool_calls(content) if text(block.get("id")) == call_id), None)
            if caller and call is not None:
                self.calls[node] = call
                self.results.setdefault(caller, {}).setdefault(call_id, node)


def _caller(result: OutlineNode) -> OutlineNode | None:
    """Return the message of the model that a tool's result follows."""
    node = result.parent
    while node is not None:
        role = mapping(node.entry.get("message")).get("role")
        if role == "assistant":
            return node
        if role == "user":
            return None
        node = node.parent
    return None
