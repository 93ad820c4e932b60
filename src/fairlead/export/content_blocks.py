"""The contents of messages as HTML: text, thinking, images, tool calls, and the output of tools.

A session file may contain any values, so the functions below `Contents` turn them into the types that a page needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any, cast

from fairlead.export import ansi
from fairlead.export.markup import Markup

#: Raster images only: an SVG is a document, with links and scripts.
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
#: Output with more lines than this shows its first lines, with the rest folded below.
_UNFOLDED_LINES = 24
_FIRST_LINES = 12

#: The arguments that describe a call best, in order of preference.
_SUBJECTS = ("command", "path", "file_path", "filePath", "pattern", "query", "url", "name")
_BEFORE = ("oldText", "old_string", "old_text")
_AFTER = ("newText", "new_string", "new_text")
_SHORT = 100
_LANGUAGES = {"bash": "bash", "shell": "bash", "python": "python"}


class Contents:
    """Renders the contents of the messages of one page."""

    def __init__(self, markup: Markup, palette: ansi.Palette) -> None:
        self._markup = markup
        self._palette = palette

    def blocks(self, content: Any, *, breaks: bool = False, answered: Container[str] = ()) -> str:
        """Render the content of a message, block by block.

        With `breaks`, line ends are kept. Tool calls with an id in `answered` are left out: they are shown with their results.
        """
        parts: list[str] = []
        for block in blocks(content):
            kind = block.get("type")
            if kind == "text":
                parts.append(self._markup.markdown(text(block.get("text")), breaks=breaks))
            elif kind == "thinking":
                parts.append(self._thinking(block))
            elif kind == "toolCall":
                if text(block.get("id")) not in answered:
                    parts.append(self._tool_call(block))
            elif kind == "image":
                parts.append(_image(block))
            else:
                parts.append(f'<p class="none">Content of type {escape(text(kind) or "unknown")} is not shown.</p>\n')
        return "".join(parts)

    def output(self, content: Any, *, file: str = "") -> str:
        """Render the result of a tool: images, and text as terminal output or, for the text of a `file`, as code."""
        parts: list[str] = []
        for block in blocks(content):
            if block.get("type") == "image":
                parts.append(_image(block))
            else:
                parts.append(self.terminal(text(block.get("text")), file=file))
        return "".join(parts)

    def arguments(self, call: Mapping[str, Any], *, with_diff: bool) -> str:
        """Render the arguments of a tool call, except the one that its heading shows; without `with_diff` also without edits."""
        return _arguments(call, self._markup, with_diff=with_diff)

    def markdown(self, words: str) -> str:
        return self._markup.markdown(words)

    def json(self, code: str) -> str:
        return self._markup.code(code, "json")

    def command(self, command: str) -> str:
        return f'<pre class="command"><code>{self._markup.highlight(command, "bash")}</code></pre>\n'

    def terminal(self, output: str, *, file: str = "") -> str:
        """Render output as a terminal shows it. The rest of long output is folded."""
        output = output.rstrip("\n")
        if not output.strip():
            return ""
        if file and "\x1b" not in output and (code := self._file(output, file)):
            return code
        lines = ansi.lines(output, self._palette)
        if len(lines) <= _UNFOLDED_LINES:
            return _output(lines)
        return _output(lines[:_FIRST_LINES]) + _rest(lines[_FIRST_LINES:])

    def _file(self, source: str, file: str) -> str:
        """Render the text of a file, highlighted. Tokens may span lines, so the folded rest is highlighted separately."""
        lines = source.split("\n")
        beginning = lines if len(lines) <= _UNFOLDED_LINES else lines[:_FIRST_LINES]
        code = [self._markup.highlight("\n".join(beginning), file=file)]
        if len(beginning) == len(lines):
            return _output(code)
        rest = lines[_FIRST_LINES:]
        return _output(code) + _rest([self._markup.highlight("\n".join(rest), file=file)], len(rest))

    def _thinking(self, block: Mapping[str, Any]) -> str:
        words = text(block.get("thinking"))
        if not words.strip():
            return '<p class="none">Thinking, withheld by the provider.</p>\n' if block.get("redacted") is True else ""
        return f'<details class="thinking"><summary>Thinking</summary>\n{self._markup.markdown(words, breaks=True)}</details>\n'

    def _tool_call(self, block: Mapping[str, Any]) -> str:
        name = f'<span class="tool">{escape(text(block.get("name")) or "tool")}</span>'
        about = call_subject(block)
        title = f"{name} <code>{escape(about)}</code>" if about else name
        arguments = _arguments(block, self._markup)
        if not arguments:
            return f'<div class="call"><div class="title">{title}</div></div>\n'
        return f'<details class="call" open><summary class="title">{title}</summary>\n{arguments}</details>\n'


def _output(lines: list[str]) -> str:
    code = "\n".join(lines)
    return f'<pre class="output"><code>{code}</code></pre>\n'


def _rest(lines: list[str], amount: int | None = None) -> str:
    name = count(amount or len(lines), "more line")
    return f'<details class="rest"><summary>{name}</summary>\n{_output(lines)}</details>\n'


def _image(block: Mapping[str, Any]) -> str:
    kind = text(block.get("mimeType")).lower()
    data = "".join(text(block.get("data")).split())
    if kind not in _IMAGES:
        return f'<p class="none">An image of type {escape(kind or "unknown")} is not shown.</p>\n'
    if not _BASE64.fullmatch(data):
        return '<p class="none">An image that cannot be read is not shown.</p>\n'
    return f'<img src="data:{kind};base64,{data}" alt="Image in the conversation" decoding="async">\n'


# Tool calls


def tool_calls(content: Any) -> list[Mapping[str, Any]]:
    """Return the tool calls in the content of a message."""
    return [block for block in blocks(content) if block.get("type") == "toolCall"]


def call_subject(call: Mapping[str, Any]) -> str:
    """Return what a tool call is about, on one line: its command, its file, its pattern."""
    arguments = mapping(call.get("arguments"))
    return next((snippet(text(arguments[name])) for name in _SUBJECTS if text(arguments.get(name)).strip()), "")


def call_file(call: Mapping[str, Any]) -> str:
    """Return the path of the file that a tool call names; an empty string if it names none."""
    arguments = mapping(call.get("arguments"))
    return text(arguments.get("path")) or text(arguments.get("file_path")) or text(arguments.get("filePath"))


def _arguments(call: Mapping[str, Any], markup: Markup, *, with_diff: bool = True) -> str:
    """Render the arguments of a tool call, except the one that its heading shows completely."""
    given = call.get("arguments")
    if not isinstance(given, Mapping):
        return markup.code(pretty_json(given), "json") if given is not None else ""
    values = mapping(given)
    parts: list[str] = []
    replaced = _replacements(values)
    if replaced and with_diff:
        parts.append(diff("\n".join(replaced)))
    shown = _find_subject_argument(call, values)
    for name, value in values.items():
        if name == shown or (replaced and name in (*_BEFORE, *_AFTER, "edits")):
            continue
        parts.append(_argument(name, value, call, markup))
    return "".join(parts)


def diff(changes: str) -> str:
    """Render a diff in colours: unified, or lines that begin with a sign and a number."""
    return f'<pre class="diff"><code>{"".join(_diff_lines(changes))}</code></pre>\n'


def _diff_lines(changes: str) -> Iterator[str]:
    for line in changes.rstrip("\n").split("\n"):
        kind = "meta" if line.startswith(("--- ", "+++ ", "diff ", "index ")) else "hunk" if line.startswith("@@") else line[:1]
        name = {"+": "add", "-": "del", "meta": "meta", "hunk": "hunk"}.get(kind)
        yield f'<span class="{name}">{escape(line)}\n</span>' if name else f"{escape(line)}\n"


def _find_subject_argument(call: Mapping[str, Any], values: Mapping[str, Any]) -> str | None:
    line = call_subject(call)
    return next((name for name in _SUBJECTS if line and values.get(name) == line), None)


def _replacements(values: Mapping[str, Any]) -> list[str]:
    """Return edits that have an old and a new text as lines of a diff."""
    found: list[str] = []
    for edit in [values, *objects(values.get("edits"))]:
        before = next((text(edit[name]) for name in _BEFORE if isinstance(edit.get(name), str)), None)
        after = next((text(edit[name]) for name in _AFTER if isinstance(edit.get(name), str)), None)
        if before is None or after is None:
            continue
        if found:
            found.append("@@")
        found += [f"-{line}" for line in before.split("\n")] + [f"+{line}" for line in after.split("\n")]
    return found


def _argument(name: str, value: Any, call: Mapping[str, Any], markup: Markup) -> str:
    if isinstance(value, str) and (len(value) > _SHORT or "\n" in value):
        language = _LANGUAGES.get(text(call.get("name")), "") if name in ("command", "code") else ""
        file = call_file(call) if name in ("content", "text") else ""
        shown = markup.code(value, language, file=file)
    elif isinstance(value, Mapping | list):
        shown = markup.code(pretty_json(value), "json")
    else:
        shown = f"<code>{escape(value if isinstance(value, str) else pretty_json(value))}</code>"
    return f'<div class="argument"><span class="name">{escape(name)}</span> {shown}</div>\n'


#: The largest number that every JSON parser keeps exact.
_LARGEST = 2**53 - 1
#: Longer JSON is not indented.
_LONGEST_INDENTED = 100_000


def text(value: Any) -> str:
    """Return a string; an empty one if `value` is not a string."""
    return value if isinstance(value, str) else ""


def number(value: Any) -> float:
    """Return a finite number; 0 if `value` is not a number. Numbers beyond the largest are reduced to it."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        return 0
    return min(max(value, -_LARGEST), _LARGEST)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object; an empty one if `value` is not an object."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return []
    return [cast("Mapping[str, Any]", item) for item in cast("Sequence[Any]", value) if isinstance(item, Mapping)]


def strings(value: Any) -> list[str]:
    """Return the strings in a list."""
    return [item for item in cast("list[Any]", value) if isinstance(item, str)] if isinstance(value, list) else []


def blocks(content: Any) -> list[Mapping[str, Any]]:
    """Return the content blocks of a message, whose content may also be a string."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)


def plain_text(content: Any) -> str:
    """Return the text blocks of a message's content, joined."""
    return "\n".join(text(block.get("text")) for block in blocks(content) if block.get("type") == "text")


def snippet(value: str, limit: int = 90) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(value[: limit * 4].split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def pretty_json(value: Any) -> str:
    """Return a value as indented JSON; on one line if the indents would be most of it."""
    try:
        line = json.dumps(value, ensure_ascii=False, default=str)
        if len(line) > _LONGEST_INDENTED:
            return line
        pretty = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    except (ValueError, RecursionError):  # an integer with thousands of digits, or deep nesting
        return "(a value that cannot be shown)"
    return pretty if len(pretty) < 10 * len(line) + 1000 else line


def count(amount: float, singular: str, plural: str = "") -> str:
    """Return `1 line` or `2,000 lines`. The plural ends in `s` unless it is given."""
    return f"{amount:,.0f} {singular if amount == 1 else plural or f'{singular}s'}"


def tokens(amount: float) -> str:
    """Format a number of tokens: `950`, `12.3k`, `1.2M`."""
    if amount < 1000:
        return f"{amount:.0f}"
    return f"{amount / 1000:.1f}k" if amount < 999_950 else f"{amount / 1e6:.1f}M"


def dollars(amount: float) -> str:
    """Format a cost, with more digits for small ones."""
    return f"${amount:.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}" if amount >= 0.0001 else "<$0.0001"


def utc_time(value: Any) -> tuple[str, str] | None:
    """Convert an ISO timestamp to UTC: for machines, and to the minute for people. None if it cannot be parsed."""
    try:
        time = datetime.fromisoformat(text(value)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ"), time.strftime("%Y-%m-%d %H:%M")


@dataclass(frozen=True, slots=True)
class TokensAndCost:
    """What a part of a session used."""

    input: float = 0
    output: float = 0
    cache: float = 0
    cost: float = 0

    def __bool__(self) -> bool:
        return any((self.input, self.output, self.cache, self.cost))

    def words(self) -> str:
        """Return `12.3k in · 950 out · 1.2M cached · $0.42`, without the parts that are zero."""
        amounts = [(self.input, "in"), (self.output, "out"), (self.cache, "cached")]
        parts = [f"{tokens(amount)} {name}" for amount, name in amounts if amount]
        return " · ".join([*parts, dollars(self.cost)] if self.cost else parts)


def usage_of(entry: Mapping[str, Any]) -> TokensAndCost:
    """Return the usage of an entry: of an assistant's message, a compaction, or a usage entry."""
    usage = mapping(mapping(entry.get("message")).get("usage") or entry.get("usage"))
    return TokensAndCost(
        number(usage.get("input")),
        number(usage.get("output")),
        number(usage.get("cacheRead")) + number(usage.get("cacheWrite")),
        number(mapping(usage.get("cost")).get("total")),
    )


def total(usages: Iterable[TokensAndCost]) -> TokensAndCost:
    """Return the sum of usages."""
    parts = list(usages)
    return TokensAndCost(
        sum(part.input for part in parts),
        sum(part.output for part in parts),
        sum(part.cache for part in parts),
        sum(part.cost for part in parts),
    )
