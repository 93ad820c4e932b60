"""The page of a session: its parts, its outline, totals and content security policy, and which files it may overwrite."""

from __future__ import annotations

import base64
import errno
import gzip
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from fairlead.core.lenient import scrub_text
from fairlead.errors import ConfigError, SessionError
from fairlead.export.ansi import Palette
from fairlead.export.articles import SAFE_ID, Articles, EntryTree, OutlineNode, Row, ToolPairs, describe
from fairlead.export.content_blocks import (
    TokensAndCost,
    call_subject,
    count,
    mapping,
    number,
    plain_text,
    snippet,
    text,
    tool_calls,
    total,
    usage_of,
    utc_time,
)
from fairlead.stores.deleting import remove_leftovers_in
from fairlead.stores.headers import HEADER_LIMIT, decode_object, header_in, refuse_endless, without_title
from fairlead.stores.session_files import temporary

_ASSETS = Path(__file__).with_name("assets")
#: The browser renders entries in groups as they come into view. With thousands of separate boxes it scrolls badly.
_GROUP = 25
#: Marks a page as one that an export made, which a later export may replace.
GENERATOR = b'<meta name="generator" content="fairlead export">'


def render(
    header: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    leaf: str | None,
    *,
    unreadable: int = 0,
    source: bytes | None = None,
) -> bytes:
    """Return the page of a session as UTF-8.

    Args:
        header: the header of the session file, as a JSON object.
        entries: the entries of the session file, as JSON objects.
        leaf: the id of the entry that the shown branch ends with; None for the last entry.
        unreadable: the number of unreadable lines in the file, which the page mentions.
        source: the session file, which readers can then download from the page.
    """
    tree = EntryTree(entries, leaf)
    palette = Palette()
    articles = Articles(tree, palette, header.get("timestamp"))
    usages = [usage_of(node.entry) for node in tree.nodes]
    name = escape(_name(entries))
    body = "".join(
        (
            (_ASSETS / "toolbar.html").read_text("utf-8"),
            '<div class="columns">\n',
            outline(tree, articles.pairs),
            '<main id="main" tabindex="-1">\n',
            _heading(name, header, tree, usages, can_download=source is not None),
            "".join(_groups(tree, articles)) or '<p class="none">This session is empty.</p>\n',
            _footer(unreadable, "" if source is None else _download(source, header)),
            "</main>\n</div>\n",
            (_ASSETS / "help.html").read_text("utf-8"),
            f'<script type="application/json" id="session">{_data(tree, usages)}</script>\n',
        )
    )
    return scrub_text(_document(name, body, palette)).encode()


def _groups(tree: EntryTree, articles: Articles) -> Iterator[str]:
    for start in range(0, len(tree.nodes), _GROUP):
        nodes = tree.nodes[start : start + _GROUP]
        hidden = " hidden" if tree.path.isdisjoint(nodes) else ""
        yield f'<div class="group"{hidden}>\n{"".join(map(articles.article, nodes))}</div>\n'


def _document(name: str, body: str, palette: Palette) -> str:
    """Return the whole document. Its policy allows only this style and this script, by their hashes."""
    style = (_ASSETS / "page.css").read_text("utf-8") + palette.css()
    script = (_ASSETS / "page.js").read_text("utf-8")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {policy_hash(script)}",
            f"style-src {policy_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
        )
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"{GENERATOR.decode()}\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>{name}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}<script>{script}</script>\n</body>\n</html>\n"
    )


def policy_hash(source: str) -> str:
    """Return the hash of a style or script as a content security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def _name(entries: Sequence[Mapping[str, Any]]) -> str:
    names = [text(entry.get("name")) for entry in entries if entry.get("type") == "session_info"]
    if names and names[-1].strip():
        return snippet(names[-1])
    messages = (mapping(entry.get("message")) for entry in entries)
    prompts = (plain_text(message.get("content")) for message in messages if message.get("role") == "user")
    return snippet(next((prompt for prompt in prompts if prompt.strip()), "")) or "Session"


def _heading(name: str, header: Mapping[str, Any], tree: EntryTree, usages: list[TokensAndCost], *, can_download: bool) -> str:
    facts: list[str] = []
    if started := utc_time(header.get("timestamp")):
        facts.append(f'<time datetime="{started[0]}">{started[1]}</time>')
    if text(header.get("cwd")):
        facts.append(f"<code>{escape(text(header['cwd']))}</code>")
    facts.append(count(len(tree.nodes), "entry", "entries"))
    branches = tree.branches()
    if branches > 1:
        facts.append(count(branches, "branch", "branches"))
    if models := _models(tree):
        facts.append(f"<span>{escape(', '.join(models))}</span>")
    if can_download:
        facts.append('<a href="#download">download</a>')
    everything = total(usages)
    totals = f"<dt>Session</dt><dd>{escape(everything.words())}</dd>" if everything else ""
    if everything and branches > 1:
        totals += '<dt>This branch</dt><dd id="branch-total"></dd>'
    return f'<div class="heading"><h1>{name}</h1>\n<p>{" · ".join(facts)}</p>\n{f"<dl>{totals}</dl>" if totals else ""}</div>\n'


def _models(tree: EntryTree) -> list[str]:
    names = (text(mapping(node.entry.get("message")).get("model")) for node in tree.nodes)
    return list(dict.fromkeys(name for name in names if name))


def _footer(unreadable: int, download: str) -> str:
    missing = f"{count(unreadable, 'line')} of the file could not be read and {'is' if unreadable == 1 else 'are'} missing here. "
    zone = '<span id="zone">Times are UTC.</span>'
    return f"<footer>{missing if unreadable else ''}{zone} Exported by fairlead. {download}</footer>\n"


def _download(source: bytes, header: Mapping[str, Any]) -> str:
    """Return a link to the session file, which is in the page, compressed. The script unpacks it for the reader."""
    data = base64.b64encode(gzip.compress(source, 6, mtime=0)).decode()
    session_id = text(header.get("id"))
    name = f"session-{session_id}" if SAFE_ID.fullmatch(session_id) else "session"
    address = f"data:application/gzip;base64,{data}"
    return f'<a id="download" download="{name}.jsonl.gz" href="{address}">Download the session as JSONL</a>'


def _data(tree: EntryTree, usages: list[TokensAndCost]) -> str:
    """Return the data for the page's script as JSON of numbers: the parent of each article, and what it used."""
    parents = [node.parent.index if node.parent else -1 for node in tree.nodes]
    amounts = [[each.input, each.output, each.cache, each.cost] if each else 0 for each in usages]
    leaf = tree.leaf.index if tree.leaf else -1
    return json.dumps({"parents": parents, "uses": amounts, "leaf": leaf}, separators=(",", ":"))


_DEEPEST_INDENT = 8
_TYPES_WITH_TEXT = ("message", "custom_message", "compaction", "branch_summary")
#: The kinds that readers can choose, with their names. "user" also has summaries, labels and the beginnings of branches.
_FILTERS = {"user": "Prompts", "answers": "Answers", "tools": "Tools", "errors": "Errors", "all": "All"}


def outline(tree: EntryTree, pairs: ToolPairs) -> str:
    """Return the outline: a choice of what it lists, and the list."""
    rows: list[str] = []
    counts = dict.fromkeys(_FILTERS, 0)
    for row, subject, kinds in _list_rows(tree, pairs):
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


def _list_rows(tree: EntryTree, pairs: ToolPairs) -> Iterator[tuple[Row, OutlineNode, list[str]]]:
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


@dataclass(frozen=True, slots=True)
class SessionObjects:
    """A session file: its header and entries as JSON objects, and the number of its unreadable lines."""

    header: Mapping[str, Any]
    entries: Sequence[Mapping[str, Any]]
    unreadable: int
    #: The file.
    source: bytes


def export_file(source: Path, target: Path | None = None, *, force: bool = False) -> Path:
    """Write the page of a session file.

    Args:
        source: The session file. It is only read, and may be in use.
        target: The page; by default `fairlead-session-<name of the file>.html` in the working directory.
        force: Whether to replace a file that no export made. A session is never replaced.

    Returns:
        The path of the page. A page that an export made before is replaced atomically.

    Raises:
        ConfigError: `source` is not a session file, or the page cannot be written there.
    """
    target = target or default_target(source)
    check_target(target, force=force)
    session = _read(source)
    write_page(target, _page(session, None), force=force)
    return target


def render_file(source: Path) -> bytes:
    """Return the page of a session file as UTF-8. Raises ConfigError if `source` is not a session file."""
    return _page(_read(source), None)


def default_target(source: Path) -> Path:
    """Return the name of the page of a session file, in the working directory."""
    return Path(f"fairlead-session-{source.stem}.html")


def export_lines(lines: Sequence[bytes], leaf: str | None, target: Path) -> None:
    """Write the page of an open session.

    Takes the header and the entries as lines of JSON, the id of the current entry, and the path of the page. Raises ConfigError
    if the page cannot be written, or if the target is a session or another file that no export made.
    """
    check_target(target)
    write_page(target, _page(_parse(lines, b"\n".join((*lines, b""))), leaf))


def check_target(target: Path, *, force: bool = False) -> None:
    """Raise ConfigError if a page must not be written there: it would replace a session, or a file that no export made.

    With `force`, only sessions are protected.
    """
    if target.suffix.lower() == ".jsonl" or Path(os.path.realpath(target)).suffix.lower() == ".jsonl":
        raise ConfigError(f"Cannot write the page {target}: files with names in .jsonl are for sessions. Choose another name.")
    try:
        if not os.path.isfile(target):
            return  # it does not exist, or writing it reports what is wrong
        with target.open("rb") as file:
            beginning = file.read(HEADER_LIMIT)
    except OSError as error:
        raise ConfigError(f"Cannot write the page {target}: {error.strerror or error}.") from error
    if header_in(beginning) is not None or beginning.startswith(b'{"type":"session"'):  # also a torn header
        raise ConfigError(f"Cannot write the page {target}: it would replace a session. Choose another name.")
    if beginning and GENERATOR not in beginning and not force:
        raise ConfigError(
            f"Cannot write the page {target}: it would replace a file that fairlead did not make. Delete it, or choose another "
            "name; --force on the command line replaces it."
        )


def write_page(target: Path, page: bytes, *, force: bool = False) -> None:
    """Write a page, or replace one, after `check_target`. Raises ConfigError if that is not possible."""
    try:
        _replace(target, page, force)
    except OSError as error:
        raise ConfigError(f"Cannot write the page {target}: {error.strerror or error}.") from error


def _page(session: SessionObjects, leaf: str | None) -> bytes:
    return render(session.header, session.entries, leaf, unreadable=session.unreadable, source=session.source)


def _read(source: Path) -> SessionObjects:
    """Read everything that is readable in a session file. Raises ConfigError if it has no header or cannot be read."""
    try:
        refuse_endless(source, whole=True)
        data = source.read_bytes()
        lines = without_title(data.split(b"\n"))
    except SessionError as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        raise ConfigError(f"Cannot read the session {source}: {error.strerror or error}.") from error
    header = decode_object(lines[0])
    if header is None or header.get("type") != "session":
        raise ConfigError(f"{source} is not a session file: it does not begin with a session header.")
    return _parse(lines, data)


def _parse(lines: Sequence[bytes], source: bytes) -> SessionObjects:
    entries: list[Mapping[str, Any]] = []
    unreadable = 0
    for line in lines[1:]:
        if not line.strip():
            continue
        entry = decode_object(line)
        if entry is None:
            unreadable += 1
        else:
            entries.append(entry)
    return SessionObjects(decode_object(lines[0]) or {}, entries, unreadable, source)


def _replace(target: Path, page: bytes, force: bool) -> None:
    """Write beside the target and rename, so that no reader sees a partial page and a failure keeps the old one.

    A symbolic link stays a link. Only the owner can read the page, like the session. Raises OSError.
    """
    real = Path(os.path.realpath(target))
    if os.path.isdir(real):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if os.path.exists(real) and not os.path.isfile(real):
        raise OSError(errno.EEXIST, "Something that is not a file has this name")
    remove_leftovers_in(real.parent)
    handle, unfinished = temporary(real.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(page)
            file.flush()
            check_target(target, force=force)  # again, because rendering takes a while
            unfinished.replace(real)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
