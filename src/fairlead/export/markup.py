"""Markdown and code as HTML, with the libraries of the `html` extra if they are installed, else as plain text.

The result has only elements that this module writes, for any text: HTML in Markdown is escaped, links are limited to http,
https and mailto, and an image in Markdown becomes a link to it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererProtocol
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

#: Highlighting is the slowest part of an export. Beyond these numbers of characters, code is not highlighted.
_HIGHLIGHTED_BLOCK = 30_000
_HIGHLIGHTED_PAGE = 2_000_000
#: Longer messages are not parsed, because that would take too long.
_LONGEST_MARKDOWN = 200_000
#: Seconds of CPU for one block. Ordinary code takes a tenth of it.
_BLOCK_SECONDS = 0.5
#: Seconds of CPU that the parser and the highlighter may use for one page. The rest of the page is plain text then.
_MOST_SECONDS = 10.0

_MARKS = re.compile(r"[*_`#~\[\]<>|\\&]|^[ \t]*(?:[-+=]|\d+[.)])|^(?: {4}|\t)|  $", re.MULTILINE)
#: How many characters after an opening fence are searched for its language.
_LONGEST_LANGUAGE = 100
_ADDRESS = re.compile(r"\bhttps?://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}]")
_LINKED = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_TASK = re.compile(r"\[([ xX])\][ \t]+")
_SUFFIX = re.compile(r"\.\w{1,12}$")
#: The languages whose lexers were tested with hostile input. The patterns of others can block the interpreter for minutes.
_LANGUAGES = frozenset(
    """bash batch c clojure cmake c++ cpp csharp css dart diff docker elixir erlang fsharp go graphql groovy haskell hcl html http
    java javascript js json jsx julia kotlin less lua make markdown nginx nim nix objective-c perl php powershell properties
    protobuf pycon python pytb r rb rst ruby rust sass scala scss sh solidity sql swift tcl terraform tex toml ts tsx typescript
    vb.net vim xml yaml zig""".split()
)
_TOKEN_CLASSES = {
    "Comment": "tc",
    "Comment.Preproc": "ta",
    "Keyword": "tk",
    "Keyword.Constant": "tm",
    "Operator.Word": "tk",
    "Literal.String": "ts",
    "Literal.Number": "tm",
    "Name.Attribute": "ta",
    "Name.Builtin": "tb",
    "Name.Class": "tf",
    "Name.Constant": "tm",
    "Name.Decorator": "ta",
    "Name.Exception": "tb",
    "Name.Function": "tf",
    "Name.Tag": "tk",
    "Name.Variable": "tb",
    "Generic.Deleted": "del",
    "Generic.Heading": "tk",
    "Generic.Inserted": "add",
    "Generic.Subheading": "hunk",
}


class Markup:
    """Renders the texts of one page."""

    def __init__(self) -> None:
        self._highlighter = _highlighter()
        self._parser = _parser(self.code)
        self._seconds_left = _MOST_SECONDS
        #: Whether `_timed` is active: code within Markdown is highlighted while the whole text is timed.
        self._is_timed = False

    def markdown(self, text: str, *, breaks: bool = False) -> str:
        """Render a message. With `breaks` every line end is kept, as users expect who type into a text box."""
        if self._parser and self._seconds_left > 0 and len(text) <= _LONGEST_MARKDOWN and _MARKS.search(text):
            with self._timed():
                return self._parser.render(text, {"breaks": breaks})
        return "".join(self._plain(text, breaks or not self._parser))

    def code(self, text: str, language: str = "", *, file: str = "") -> str:
        """Render a block of code in `language`, or in the language of a file with the name `file`."""
        return f"<pre><code>{self.highlight(text, language, file=file)}</code></pre>\n"

    def highlight(self, text: str, language: str = "", *, file: str = "") -> str:
        """Render code without the elements around it; see `code`."""
        if not self._highlighter or self._seconds_left <= 0:
            return escape(text)
        with self._timed():
            return self._highlighter(text, language, file)

    @contextmanager
    def _timed(self) -> Generator[None]:
        """Measure the CPU time of the block. Only this thread counts, so other work of the process does not use up the limit."""
        if self._is_timed:
            yield
            return
        began, self._is_timed = time.thread_time(), True
        try:
            yield
        finally:
            self._is_timed = False
            self._seconds_left -= time.thread_time() - began

    def _plain(self, text: str, breaks: bool) -> Iterator[str]:
        """Yield paragraphs and fenced code."""
        lines: list[str] = []
        fence, language = "", ""
        for line in text.split("\n"):
            if not fence and (opening := _opening(line)) is not None:
                yield from _paragraphs("\n".join(lines), breaks)
                (fence, language), lines = opening, []
            elif fence and line.startswith(fence) and not line.strip("`~ \t"):
                yield self.code("\n".join(lines), language)
                fence, lines = "", []
            else:
                lines.append(line)
        if fence:
            yield self.code("\n".join(lines), language)
        else:
            yield from _paragraphs("\n".join(lines), breaks)


def link(address: str, label: str) -> str:
    """Return a link to a web or mail address; for other addresses, only the label. The label is HTML."""
    if not _LINKED.match(address):
        return label
    return f'<a href="{escape(address)}" rel="noopener noreferrer" target="_blank">{label}</a>'


def link_addresses(text: str) -> str:
    """Escape a text and turn its web addresses into links."""
    parts: list[str] = []
    at = 0
    for match in _ADDRESS.finditer(text):
        parts += (escape(text[at : match.start()]), link(match[0], escape(match[0])))
        at = match.end()
    return "".join((*parts, escape(text[at:])))


def _opening(line: str) -> tuple[str, str] | None:
    """Return the fence that opens a block of code in this line, and its language; None if there is none."""
    mark = line[:1]
    if mark not in ("`", "~") or not line.startswith(mark * 3):
        return None
    words = line.lstrip(mark)
    if "`" in words:
        return None
    return line[: len(line) - len(words)], words[:_LONGEST_LANGUAGE].split(maxsplit=1)[0] if words.strip() else ""


def _paragraphs(text: str, breaks: bool) -> Iterator[str]:
    for paragraph in re.split(r"\n[ \t]*\n", text):
        if paragraph.strip():
            words = link_addresses(paragraph.strip("\n"))
            yield f"<p>{words.replace(chr(10), '<br>' + chr(10)) if breaks else words}</p>\n"


def _highlighter() -> Callable[[str, str, str], str] | None:
    """Return a function that highlights code, given its language or a file name; None without Pygments."""
    try:
        from pygments.lexer import Lexer  # noqa: PLC0415  an extra
        from pygments.lexers import find_lexer_class_by_name, find_lexer_class_for_filename, get_all_lexers  # noqa: PLC0415  an extra
    except ImportError:
        return None
    aliases = {alias for _, names, _, _ in get_all_lexers(plugins=False) for alias in names}
    options = {"stripnl": False, "ensurenl": False}
    lexers: dict[str, Lexer | None] = {}
    classes: dict[Any, str] = {}
    left = _HIGHLIGHTED_PAGE

    def lexer(language: str, file: str) -> Lexer | None:
        name = language.lower()
        suffix = _SUFFIX.search(file)
        key = name or (suffix[0].lower() if suffix else "")
        if key and key not in lexers:
            if name:
                found = find_lexer_class_by_name(name) if name in aliases else None
            else:
                found = find_lexer_class_for_filename(f"file{key}")
            lexers[key] = found(**options) if found and not _LANGUAGES.isdisjoint(found.aliases) else None
        return lexers.get(key)

    def highlight(text: str, language: str, file: str) -> str:
        nonlocal left
        chosen = lexer(language, file) if len(text) <= min(left, _HIGHLIGHTED_BLOCK) else None
        if not chosen:
            return escape(text)
        left -= len(text)
        try:
            return "".join(_spans(_in_time(chosen.get_tokens(text.replace("\r\n", "\n"))), classes))
        except TimeoutError:
            # Most lexers look ahead from every token, and take quadratic time for some texts.
            lexers.update((key, None) for key, each in lexers.items() if each is chosen)
            return escape(text)

    return highlight


def _in_time(tokens: Iterable[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    """Yield the tokens of one block. Raises TimeoutError if they take too long."""
    until = time.thread_time() + _BLOCK_SECONDS
    for token in tokens:
        if time.thread_time() > until:
            raise TimeoutError
        yield token


def _spans(tokens: Any, classes: dict[Any, str]) -> Iterator[str]:
    """Yield the elements of tokens. Adjacent tokens with one class share an element. `classes` caches the classes of tokens."""
    current = ""
    pending: list[str] = []
    for kind, value in tokens:
        name = classes.get(kind)
        if name is None:
            name = classes[kind] = _token_class(str(kind))
        if name != current and not value.isspace():
            yield _span(current, "".join(pending))
            current, pending = name, []
        pending.append(value)
    yield _span(current, "".join(pending))


def _token_class(kind: str) -> str:
    """Return the class of a kind of token, such as `Token.Name.Function.Magic`, or of the nearest kind above it."""
    name = kind.removeprefix("Token").removeprefix(".")
    while name and name not in _TOKEN_CLASSES:
        name = name.rpartition(".")[0]
    return _TOKEN_CLASSES.get(name, "")


def _span(name: str, text: str) -> str:
    return f'<span class="{name}">{escape(text)}</span>' if name else escape(text)


def _parser(code: Callable[[str, str], str]) -> MarkdownIt | None:
    """Return a parser for CommonMark with tables and strikethrough. Rules that write unsafe or unsuitable HTML are replaced."""
    try:
        from markdown_it import MarkdownIt  # noqa: PLC0415  an extra
    except ImportError:
        return None
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])

    def valid_link(url: str) -> bool:
        return bool(_LINKED.match(url.strip()))

    parser.validateLink = valid_link
    rules: Mapping[str, Callable[[Sequence[Token], int, MutableMapping[str, Any]], str]] = {
        "text": _text,
        "softbreak": lambda tokens, at, env: "<br>\n" if env.get("breaks") else "\n",
        "image": lambda tokens, at, env: link(str(tokens[at].attrGet("src") or ""), escape(tokens[at].content or "image")),
        "link_open": _link_open,
        "link_close": _link_close,
        "heading_open": lambda tokens, at, env: f"<{_heading(tokens[at])}>",
        "heading_close": lambda tokens, at, env: f"</{_heading(tokens[at])}>\n",
        "fence": lambda tokens, at, env: code(tokens[at].content.removesuffix("\n"), tokens[at].info.strip().split(" ")[0]),
        "code_block": lambda tokens, at, env: code(tokens[at].content.removesuffix("\n"), ""),
        "table_open": lambda tokens, at, env: '<div class="wide" tabindex="0"><table>\n',
        "table_close": lambda tokens, at, env: "</table></div>\n",
        "th_open": lambda tokens, at, env: _cell("th", tokens[at]),
        "td_open": lambda tokens, at, env: _cell("td", tokens[at]),
    }
    for name, rule in rules.items():
        parser.add_render_rule(name, _bind_rule(rule))
    parser.core.ruler.push("task_lists", _mark_tasks)
    return parser


def _mark_tasks(state: StateCore) -> None:
    """Turn `[ ]` and `[x]` at the beginning of list items into check boxes."""
    for at in range(2, len(state.tokens)):
        token = state.tokens[at]
        if token.type != "inline" or state.tokens[at - 2].type != "list_item_open" or not token.children:
            continue
        first = token.children[0]
        task = _TASK.match(first.content) if first.type == "text" else None
        if task:
            state.tokens[at - 2].attrSet("class", "task")
            first.content = first.content[task.end() :]
            first.meta["task"] = task[1] != " "


def _bind_rule(rule: Callable[[Sequence[Token], int, MutableMapping[str, Any]], str]) -> Callable[..., str]:
    """Return the rule with the signature that the renderer calls."""

    def render(
        renderer: RendererProtocol, tokens: Sequence[Token], at: int, options: object, env: MutableMapping[str, Any]
    ) -> str:
        return rule(tokens, at, env)

    return render


def _text(tokens: Sequence[Token], at: int, env: MutableMapping[str, Any]) -> str:
    words = escape(tokens[at].content) if env.get("in_link") else link_addresses(tokens[at].content)
    done = tokens[at].meta.get("task")
    return words if done is None else f"{_box(done)} {words}"


def _box(done: bool) -> str:
    return f'<input type="checkbox" disabled{" checked" if done else ""} aria-label="{"done" if done else "to do"}">'


def _link_open(tokens: Sequence[Token], at: int, env: MutableMapping[str, Any]) -> str:
    env["in_link"] = True
    return link(str(tokens[at].attrGet("href") or ""), "").removesuffix("</a>") or "<a>"


def _link_close(tokens: Sequence[Token], at: int, env: MutableMapping[str, Any]) -> str:
    env["in_link"] = False
    return "</a>"


def _heading(token: Token) -> str:
    """Return the element of a heading in a message, below the h1 and h2 of the page."""
    return f"h{min(6, int(token.tag[1:]) + 2)}"


def _cell(tag: str, token: Token) -> str:
    """Return a table cell. The parser aligns it with an inline style, which the page's policy forbids, so a class does it."""
    side = str(token.attrGet("style") or "").removeprefix("text-align:")
    return f'<{tag} class="{side}">' if side in ("left", "right", "center") else f"<{tag}>"
