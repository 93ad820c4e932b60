"""The outline of the page: links to entries, which readers can filter by kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fairlead.export.articles import describe
from fairlead.export.contents import call_subject, mapping, number, plain_text, snippet, text, tool_calls
from fairlead.export.tree import EntryTree, OutlineNode, Row, ToolPairs

_DEEPEST_INDENT = 8
_TYPES_WITH_TEXT = ("message", "custom_message", "compaction", "branch_summary")
#: The kinds that readers can choose, with their names. "user" also has summaries, labels and the beginnings of branches.
_FILTERS = {"user": "Prompts", "answers": "Answers", "tools": "Tools", "errors": "Errors", "all": "All"}


def outline(tree: EntryTree, pairs: ToolPairs) -> str:
    """Return the outline: a choice of what it lists, and the list."""
    rows: list[str] = []
    counts = dict.fromkeys(_FILTERS, 0)
    for row, subject, kinds in _listed(tree, pairs):
        rows.append(_item(tree, pairs, row, subject, kinds))
        for kind in kinds:
            counts[kind] += 1
    choices = "".join(
        f'<input type="radio" name="outline" class="aside" id="outline-{kind}" value="{kind}"'
        f"{' checked' if kind == 'user' else ''}>"
        f'<label for="outline-{kind}">{name} <small>{counts[kind]:,}</small></label>\n'
        for kind, name in _FILTERS.items()
    )
    return (
        f'<nav id="outline" aria-label="Outline">\n<fieldset class="filters"><legend class="aside">List in the outline</legend>\n'
        f"{choices}</fieldset>\n<ol>\n{''.join(rows)}</ol>\n</nav>\n"
    )


def _listed(tree: EntryTree, pairs: ToolPairs) -> Iterator[tuple[Row, OutlineNode, list[str]]]:
    """Yield the rows of the outline, each with the entry that it describes and its kinds."""
    listed: set[OutlineNode] = set()
    for row in tree.walk():
        siblings = tree.siblings(row.node)
        begins_branch = len(siblings) > 1
        subject = _first_message(row.node) if begins_branch else row.node
        kinds = _kinds(row.node, pairs)
        if row.node in listed or not (kinds or row.node.label or begins_branch):
            continue
        listed.add(subject)
        if (row.node.label or begins_branch) and "user" not in kinds:
            kinds.append("user")
        yield row, subject, [*kinds, "all"]


def _kinds(node: OutlineNode, pairs: ToolPairs) -> list[str]:
    entry = node.entry
    if entry.get("type") in ("compaction", "branch_summary"):
        return ["user"]
    message = mapping(entry.get("message"))
    kinds: list[str] = []
    role = message.get("role")
    if role == "user":
        kinds.append("user")
    elif role == "assistant":
        if plain_text(message.get("content")).strip():
            kinds.append("answers")
        if len(tool_calls(message.get("content"))) > len(pairs.results.get(node, {})):
            kinds.append("tools")
    elif role in ("toolResult", "bashExecution"):
        kinds.append("tools")
    if has_failed(message):
        kinds.append("errors")
    return kinds


def has_failed(message: Mapping[str, Any]) -> bool:
    """Whether a message is an answer that failed or was aborted, or a tool or command that failed."""
    return bool(
        message.get("isError") is True or message.get("stopReason") in ("error", "aborted") or number(message.get("exitCode"))
    )


def _item(tree: EntryTree, pairs: ToolPairs, row: Row, subject: OutlineNode, kinds: list[str]) -> str:
    siblings = tree.siblings(row.node)
    branch = f"Branch {row.node.sibling_index + 1} of {len(siblings)}: " if len(siblings) > 1 else ""
    landmark = "turning" if row.node.entry.get("type") in ("compaction", "branch_summary") else ""
    names = [
        f"d{min(row.depth, _DEEPEST_INDENT)}",
        *(f"k-{kind}" for kind in kinds if kind != "all"),
        landmark,
        "fork" if branch else "",
    ]
    label = f'<span class="label">{escape(row.node.label)}</span> ' if row.node.label else ""
    return (
        f'<li class="{" ".join(filter(None, names))}" data-at="{row.node.index}"><a href="#{row.node.anchor}">'
        f'<span class="aside">{branch}</span>{label}{escape(_words(subject, pairs))}</a></li>\n'
    )


def _words(node: OutlineNode, pairs: ToolPairs) -> str:
    message = mapping(node.entry.get("message"))
    if message.get("role") != "toolResult":
        return describe(node.entry)
    return snippet(f"{text(message.get('toolName')) or 'tool'} {call_subject(pairs.calls.get(node, {}))}".strip())


def _first_message(node: OutlineNode) -> OutlineNode:
    """Return the first message of a branch, which may begin with a change of model; the node itself if it has none."""
    first = node
    while first.entry.get("type") not in _TYPES_WITH_TEXT and len(first.children) == 1:
        first = first.children[0]
    return first if first.entry.get("type") in _TYPES_WITH_TEXT else node
