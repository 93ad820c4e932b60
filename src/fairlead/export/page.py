"""The page: the articles, the outline beside them, the totals, and the policy that keeps it all data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from fairlead.core.lenient import scrub_text
from fairlead.export.ansi import Palette
from fairlead.export.entries import Articles, describe
from fairlead.export.tree import Node, Tree
from fairlead.export.usage import Used, total, used
from fairlead.export.values import count, mapping, moment, plain, snippet, text

_ASSETS = Path(__file__).with_name("assets")
_DEEPEST_INDENT = 8
#: Entries are drawn in groups as they come into view. A browser that minds thousands of boxes scrolls badly.
_GROUP = 25
_TELLING = ("message", "custom_message", "compaction", "branch_summary")


def render(
    header: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    leaf: str | None,
    *,
    title: str | None = None,
    unreadable: int = 0,
) -> bytes:
    """The page of a session, given as the objects of its file.

    It opens on the branch that ends in the entry `leaf`, or in the last one. Without a title it bears the session's
    name, or else begins with its first prompt. `unreadable` lines of the file are owned up to.
    """
    tree = Tree(entries, leaf)
    palette = Palette()
    articles = Articles(tree, palette, header.get("timestamp"))
    uses = [used(node.entry) for node in tree.nodes]
    name = escape(title or _name(entries))
    body = "".join(
        (
            (_ASSETS / "toolbar.html").read_text("utf-8"),
            '<div class="columns">\n',
            f'<nav id="outline" aria-label="Outline">\n<ol>\n{"".join(_outline(tree))}</ol>\n</nav>\n',
            '<main id="main" tabindex="-1">\n',
            _heading(name, header, tree, uses),
            "".join(_groups(tree, articles)) or '<p class="none">This session is empty.</p>\n',
            _footer(unreadable),
            "</main>\n</div>\n",
            (_ASSETS / "help.html").read_text("utf-8"),
            f'<script type="application/json" id="session">{_data(tree, uses)}</script>\n',
        )
    )
    return scrub_text(_document(name, body, palette)).encode()


def _groups(tree: Tree, articles: Articles) -> Iterator[str]:
    for start in range(0, len(tree.nodes), _GROUP):
        nodes = tree.nodes[start : start + _GROUP]
        hidden = " hidden" if tree.path.isdisjoint(nodes) else ""
        yield f'<div class="group"{hidden}>\n{"".join(map(articles.article, nodes))}</div>\n'


def _document(name: str, body: str, palette: Palette) -> str:
    """The style and the script are named by their hashes: nothing else in the page can be either."""
    style = (_ASSETS / "page.css").read_text("utf-8") + palette.css()
    script = (_ASSETS / "page.js").read_text("utf-8")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
        )
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>{name}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}<script>{script}</script>\n</body>\n</html>\n"
    )


def _hash(source: str) -> str:
    import base64
    import hashlib

    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def _name(entries: Sequence[Mapping[str, Any]]) -> str:
    names = [text(entry.get("name")) for entry in entries if entry.get("type") == "session_info"]
    if names and names[-1].strip():
        return snippet(names[-1])
    messages = (mapping(entry.get("message")) for entry in entries)
    prompts = (plain(message.get("content")) for message in messages if message.get("role") == "user")
    return snippet(next((prompt for prompt in prompts if prompt.strip()), "")) or "Session"


def _heading(name: str, header: Mapping[str, Any], tree: Tree, uses: list[Used]) -> str:
    facts: list[str] = []
    if started := moment(header.get("timestamp")):
        facts.append(f'<time datetime="{started[0]}">{started[1]}</time>')
    if text(header.get("cwd")):
        facts.append(f"<code>{escape(text(header['cwd']))}</code>")
    facts.append(count(len(tree.nodes), "entry").replace("entrys", "entries"))
    branches = tree.branches()
    if branches > 1:
        facts.append(count(branches, "branch").replace("branchs", "branches"))
    if models := _models(tree):
        facts.append(f"<span>{escape(', '.join(models))}</span>")
    everything = total(uses)
    totals = f"<dt>Session</dt><dd>{escape(everything.words())}</dd>" if everything else ""
    if everything and branches > 1:
        totals += '<dt>This branch</dt><dd id="branch-total"></dd>'
    return f'<div class="heading"><h1>{name}</h1>\n<p>{" · ".join(facts)}</p>\n{f"<dl>{totals}</dl>" if totals else ""}</div>\n'


def _models(tree: Tree) -> list[str]:
    names = (text(mapping(node.entry.get("message")).get("model")) for node in tree.nodes)
    return list(dict.fromkeys(name for name in names if name))


def _footer(unreadable: int) -> str:
    lost = f"{count(unreadable, 'line')} of the file could not be read and {'is' if unreadable == 1 else 'are'} missing here. "
    return f"<footer>{lost if unreadable else ''}Times are UTC. Exported by fairlead.</footer>\n"


def _outline(tree: Tree) -> Iterator[str]:
    """Prompts, summaries, labels, and the beginning of every branch."""
    told: set[Node] = set()
    for row in tree.walk():
        siblings = tree.siblings(row.node)
        kind = _landmark(row.node)
        if row.node in told or not (kind or row.node.label or len(siblings) > 1):
            continue
        subject = row.node if len(siblings) == 1 else _first_message(row.node)
        told.add(subject)
        branch = f"Branch {row.node.place + 1} of {len(siblings)}: " if len(siblings) > 1 else ""
        classes = f"d{min(row.depth, _DEEPEST_INDENT)} {kind}{' fork' if branch else ''}"
        label = f'<span class="label">{escape(row.node.label)}</span> ' if row.node.label else ""
        yield (
            f'<li class="{classes}" data-at="{row.node.index}"><a href="#{row.node.anchor}"><span class="aside">{branch}</span>'
            f"{label}{escape(describe(subject.entry))}</a></li>\n"
        )


def _first_message(node: Node) -> Node:
    """What a branch is about, if it begins with a change of the model or the like: the first message in it."""
    first = node
    while first.entry.get("type") not in _TELLING and len(first.children) == 1:
        first = first.children[0]
    return first if first.entry.get("type") in _TELLING else node


def _landmark(node: Node) -> str:
    entry = node.entry
    if mapping(entry.get("message")).get("role") == "user":
        return "prompt"
    return "turning" if entry.get("type") in ("compaction", "branch_summary") else ""


def _data(tree: Tree, uses: list[Used]) -> str:
    """What the script needs beside the articles: each one's parent, and what it used. Numbers alone."""
    import json

    parents = [node.parent.index if node.parent else -1 for node in tree.nodes]
    amounts = [[use.input, use.output, use.cache, use.cost] if use else 0 for use in uses]
    leaf = tree.leaf.index if tree.leaf else -1
    return json.dumps({"parents": parents, "uses": amounts, "leaf": leaf}, separators=(",", ":"))
