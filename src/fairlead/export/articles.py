"""The entries of a session as a tree, and as articles of the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from fairlead.core.messages import readable_error
from fairlead.export.ansi import Palette
from fairlead.export.content_blocks import (
    Contents,
    call_file,
    call_subject,
    count,
    diff,
    mapping,
    number,
    plain_text,
    pretty_json,
    snippet,
    strings,
    text,
    tool_calls,
    usage_of,
    utc_time,
)
from fairlead.export.markup import Markup
from fairlead.session.history.entries import OLD_NOTES

_NAMES = {
    "compaction": "Context compacted",
    "branch_summary": "Summary of another branch",
    "model_change": "Model",
    "label": "Label",
}


@dataclass(frozen=True, slots=True)
class ArticleParts:
    """The parts of an article: its CSS class, its heading and content, and remarks beside the heading, all HTML."""

    css_class: str
    heading: str
    content: str
    remarks: str = ""
    failed: bool = False


class Articles:
    """Renders the articles of one page. Call `article` in the order of the file."""

    def __init__(self, tree: EntryTree, palette: Palette, started: Any) -> None:
        self._tree = tree
        self._day = (utc_time(started) or ("", ""))[1][:10]
        self._contents = Contents(Markup(), palette)
        self.pairs = ToolPairs(tree)
        self._entries: dict[str, Callable[[Mapping[str, Any]], ArticleParts]] = {
            "custom_message": lambda entry: self._custom(entry),
            "compaction": self._compaction,
            "branch_summary": self._branch_summary,
            "model_change": self._model_change,
            "thinking_level_change": lambda entry: _event("Thinking level", text(entry.get("thinkingLevel"))),
            "label": self._label,
            "session_info": lambda entry: _event("Session named", text(entry.get("name"))),
        }
        self._messages: dict[str, Callable[[Mapping[str, Any]], ArticleParts]] = {
            "user": lambda message: ArticleParts("user", "You", self._contents.blocks(message.get("content"), breaks=True)),
            "bashExecution": self._bash,
            "custom": self._custom,
            "hookMessage": self._custom,
            "system": self._system,
            "branchSummary": self._branch_summary,
            "compactionSummary": self._compaction,
        }

    def article(self, node: OutlineNode) -> str:
        """Render an entry."""
        shown = self._parts(node)
        remarks = [shown.remarks] if shown.remarks else []
        usage = usage_of(node.entry)
        if usage:
            remarks.append(escape(usage.words()))
        classes = f"entry {shown.css_class}{' failed' if shown.failed else ''}"
        label = f'<span class="label">{escape(node.label)}</span>' if node.label else ""
        hidden = "" if node in self._tree.path else " hidden"
        meta = f'<span class="meta">{" · ".join(remarks)}</span>' if remarks else ""
        return (
            f'<article class="{classes}" id="{node.anchor}" data-lines="{_lines(shown.content)}" tabindex="-1"{hidden}>\n'
            f"<header><h2>{shown.heading}</h2>{label}{meta}{self._siblings(node)}{self._permalink(node)}</header>\n"
            f'<div class="content">{shown.content}</div>\n</article>\n'
        )

    def _permalink(self, node: OutlineNode) -> str:
        """Render the time of an entry as a link to it, without the date on the first day of the session."""
        time = utc_time(node.entry.get("timestamp"))
        shown = f'<time datetime="{time[0]}">{time[1].removeprefix(self._day).strip()}</time>' if time else "link"
        return f'<a class="when" href="#{node.anchor}" title="Link to this entry">{shown}</a>'

    def _siblings(self, node: OutlineNode) -> str:
        """Render the links to the previous and the next branch where several branches begin."""
        siblings = self._tree.siblings(node)
        if len(siblings) == 1:
            return ""
        at = node.sibling_index
        before = _step(siblings[at - 1].anchor if at else None, "prev", "Previous branch")
        after = _step(siblings[at + 1].anchor if at + 1 < len(siblings) else None, "next", "Next branch")
        return f'<span class="branches">{before}<span>Branch {at + 1} of {len(siblings)}</span>{after}</span>'

    def _parts(self, node: OutlineNode) -> ArticleParts:
        kind = text(node.entry.get("type"))
        if kind != "message":
            return self._entries.get(kind, self._format_unknown)(node.entry)
        message = mapping(node.entry.get("message"))
        role = text(message.get("role"))
        if role == "assistant":
            return self._assistant(node, message)
        if role == "toolResult":
            return self._tool_result(node, message)
        show = self._messages.get(role)
        return show(message) if show else self._format_unknown({"type": role or "message", **message})

    def _assistant(self, node: OutlineNode, message: Mapping[str, Any]) -> ArticleParts:
        results = self.pairs.results.get(node, {})
        content = self._contents.blocks(message.get("content"), answered=results)
        parts = [content]
        reason = message.get("stopReason")
        error = readable_error(text(message.get("errorMessage")))
        if reason == "error":
            parts.append(_notice("bad", f"Error: {error}" if error else "Error: the model gave no reason."))
        elif reason == "aborted":
            parts.append(_notice("warn", f"Aborted: {error}" if error else "Aborted."))
        elif reason == "length":
            parts.append(_notice("warn", "Cut off: the answer reached its length limit."))
        css_class = "assistant"
        if results and not "".join(parts).strip():
            css_class = "assistant calls-only"
            parts.append(_links_to(results))
        model = text(message.get("model"))
        return ArticleParts(css_class, "Assistant", "".join(parts), escape(model), failed=reason == "error")

    def _tool_result(self, node: OutlineNode, message: Mapping[str, Any]) -> ArticleParts:
        """Render a tool call and its result as one card. An edit is shown once: as the result has it, else as the call has it."""
        call = self.pairs.calls.get(node, {})
        details = mapping(message.get("details"))
        changes = text(details.get("diff")) or text(details.get("patch"))
        failed = message.get("isError") is True
        file = call_file(call) if text(message.get("toolName")) == "read" and not failed else ""
        output = self._contents.output(message.get("content"), file=file)
        arguments = self._contents.arguments(call, with_diff=not changes)
        content = arguments + (diff(changes) if changes else "") + output
        about = call_subject(call)
        state = " <small>failed</small>" if failed else ""
        heading = f"{escape(text(message.get('toolName')) or 'Tool')}{state}"
        remarks = f"<code>{escape(about)}</code>" if about else ""
        return ArticleParts("result", heading, content or '<p class="none">No output.</p>', remarks, failed=failed)

    def _bash(self, message: Mapping[str, Any]) -> ArticleParts:
        command = self._contents.command(text(message.get("command")))
        output = self._contents.terminal(text(message.get("output")))
        code = message.get("exitCode")
        notices: list[str] = []
        if message.get("cancelled") is True:
            notices.append(_notice("warn", "Cancelled."))
        elif number(code):
            notices.append(_notice("bad", f"Exit code {number(code):.0f}"))
        if message.get("truncated") is True:
            path = text(message.get("fullOutputPath"))
            notices.append(_notice("warn", f"Output truncated. Full output: {path}" if path else "Output truncated."))
        remarks = "not shown to the model" if message.get("excludeFromContext") is True else ""
        return ArticleParts("bash", "You ran", command + output + "".join(notices), remarks)

    def _custom(self, message: Mapping[str, Any]) -> ArticleParts:
        name = escape(text(message.get("customType")) or "Message")
        content = self._contents.blocks(message.get("content"))
        if message.get("display") is False:
            return ArticleParts("event", name, _fold("Not displayed in the conversation", content))
        return ArticleParts("custom", name, content)

    def _system(self, message: Mapping[str, Any]) -> ArticleParts:
        sections = [f"{name}\n\n{text(value)}" for name, value in mapping(message.get("sections")).items() if text(value)]
        words = "\n\n".join([plain_text(message.get("content")), *sections]).strip()
        return ArticleParts("event", "System prompt", _fold(count(len(words), "character"), self._contents.terminal(words)))

    def _compaction(self, entry: Mapping[str, Any]) -> ArticleParts:
        before = number(entry.get("tokensBefore"))
        remarks = f"{before:,.0f} tokens before" if before else ""
        content = _fold("Summary", self._contents.markdown(text(entry.get("summary"))) + _file_lists(entry))
        return ArticleParts("summary", "Context compacted", content, remarks)

    def _branch_summary(self, entry: Mapping[str, Any]) -> ArticleParts:
        origin = self._tree.find(text(entry.get("fromId")))
        remarks = f'<a href="#{origin.anchor}">where it ended</a>' if origin else ""
        content = _fold("Summary", self._contents.markdown(text(entry.get("summary"))) + _file_lists(entry))
        return ArticleParts("summary", "Summary of another branch", content, remarks)

    def _model_change(self, entry: Mapping[str, Any]) -> ArticleParts:
        return _event("Model", "/".join(part for part in (text(entry.get("provider")), text(entry.get("modelId"))) if part))

    def _label(self, entry: Mapping[str, Any]) -> ArticleParts:
        target = self._tree.find(text(entry.get("targetId")))
        name = text(entry.get("label"))
        words = f"<span>{escape(name)}</span>" if name else "removed"
        place = f' on <a href="#{target.anchor}">{escape(snippet(describe(target.entry), 60))}</a>' if target else ""
        return ArticleParts("event", "Label", f"<p>{words}{place}</p>")

    def _format_unknown(self, entry: Mapping[str, Any]) -> ArticleParts:
        kind = text(entry.get("type")) or "entry"
        name = text(entry.get("customType"))
        data = {key: value for key, value in entry.items() if key not in ("id", "parentId", "timestamp", "type", "customType")}
        code = self._contents.json(pretty_json(data))
        return ArticleParts("event", escape(f"{kind} {name}".strip()), _fold("Data", code) if data else "")


def describe(entry: Mapping[str, Any]) -> str:
    """Return an entry in a few words, for the outline."""
    message = mapping(entry.get("message"))
    words = plain_text(message.get("content")) or plain_text(entry.get("content")) or text(message.get("command"))
    if words.strip():
        return snippet(words.replace("**", "").replace("`", "").lstrip("# "))
    call = next(iter(tool_calls(message.get("content"))), None)
    if call:
        return f"{text(call.get('name'))} {call_subject(call)}".strip()
    if error := readable_error(text(message.get("errorMessage"))):
        return snippet(f"Error: {error}")
    kind = text(entry.get("type"))
    name = _NAMES.get(kind) or (text(message.get("role")) or kind or "entry").replace("_", " ")
    detail = next((text(entry[key]) for key in ("modelId", "thinkingLevel", "name", "label") if text(entry.get(key))), "")
    return snippet(f"{name} {detail}")


def _links_to(results: Mapping[str, OutlineNode]) -> str:
    """Render links to the cards of tool calls, for a message that has nothing else."""
    names = ((node.anchor, text(mapping(node.entry.get("message")).get("toolName")) or "tool") for node in results.values())
    links = ", ".join(f'<a href="#{anchor}">{escape(name)}</a>' for anchor, name in names)
    return f'<p class="none">Calls {links}</p>\n'


def _event(name: str, value: str) -> ArticleParts:
    return ArticleParts("event", escape(name), f"<p>{escape(value)}</p>")


def _notice(kind: str, words: str) -> str:
    return f'<p class="notice {kind}">{escape(words)}</p>\n'


def _fold(name: str, content: str) -> str:
    return f"<details><summary>{escape(name)}</summary>\n{content}</details>\n"


def _file_lists(entry: Mapping[str, Any]) -> str:
    details = mapping(entry.get("details"))
    parts: list[str] = []
    for key, name in (("readFiles", "Read"), ("modifiedFiles", "Modified")):
        files = "".join(f"<li><code>{escape(file)}</code></li>" for file in strings(details.get(key)))
        if files:
            parts.append(f"<p>{name}</p><ul>{files}</ul>\n")
    return "".join(parts)


def _step(anchor: str | None, name: str, words: str) -> str:
    return f'<a class="{name}" href="#{anchor}" aria-label="{words}"></a>' if anchor else f'<span class="{name}"></span>'


def _lines(content: str) -> int:
    """Estimate the height of an article, which the page uses until it has rendered it. Folded text counts little."""
    return min(60, len(content) // 160 + content.count("\n"))


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
    Notes of the session about an entry are left out: they would count as branches.
    """

    def __init__(self, entries: Sequence[Mapping[str, Any]], leaf: str | None) -> None:
        self.nodes: list[OutlineNode] = []
        self.roots: list[OutlineNode] = []
        self._by_id: dict[str, OutlineNode] = {}
        anchors: set[str] = set()
        for index, entry in enumerate(entries):
            parent = self._parent(entry)
            if entry.get("type") == "note":
                continue
            if parent is not None and entry.get("type") == "custom" and entry.get("customType") in OLD_NOTES:
                self._by_id.setdefault(text(entry.get("id")), parent)
                continue
            node = OutlineNode(entry, index, _anchor(entry, index, anchors), parent)
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
