"""Markdown and code as HTML, with the libraries of the `html` extra where they are installed, plainly without them.

Whatever the text is, the result holds only elements that this module writes: HTML in Markdown is escaped, a link leads
nowhere but to http, https and mailto, and an image in Markdown is a link to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererProtocol
    from markdown_it.token import Token

#: Highlighting is the slowest part of an export. What lies beyond these numbers of characters stays plain.
_HIGHLIGHTED_BLOCK = 30_000
_HIGHLIGHTED_PAGE = 2_000_000
#: A longer message is no prose, and would take the parser long.
_LONGEST_MARKDOWN = 200_000

_MARKS = re.compile(r"[*_`#~\[\]<>|\\&]|^\s*(?:[-+=]|\d+[.)])|^(?: {4}|\t)|  $", re.MULTILINE)
_FENCE = re.compile(r"^(`{3,}|~{3,})[ \t]*([^\s`]*)[^\n`]*\n(.*?)(?:^\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_ADDRESS = re.compile(r"\bhttps?://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}]")
_LINKED = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_SUFFIX = re.compile(r"\.\w{1,12}$")
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

    def markdown(self, text: str, *, breaks: bool = False) -> str:
        """A message. With `breaks` every line ending is one on the page too, as people mean it who type into a box."""
        if self._parser and len(text) <= _LONGEST_MARKDOWN and _MARKS.search(text):
            return self._parser.render(text, {"breaks": breaks})
        return "".join(self._plain(text, breaks or not self._parser))

    def code(self, text: str, language: str = "", *, file: str = "") -> str:
        """A block of code in a language, or in that of a file of that name."""
        return f"<pre><code>{self.highlighted(text, language, file=file)}</code></pre>\n"

    def highlighted(self, text: str, language: str = "", *, file: str = "") -> str:
        return self._highlighter(text, language, file) if self._highlighter else escape(text)

    def _plain(self, text: str, breaks: bool) -> Iterator[str]:
        """Paragraphs, and what is fenced as code."""
        at = 0
        for match in _FENCE.finditer(text):
            yield from _paragraphs(text[at : match.start()], breaks)
            yield self.code(match[3].removesuffix("\n"), match[2])
            at = match.end()
        yield from _paragraphs(text[at:], breaks)


def link(address: str, label: str) -> str:
    """A link to a web or mail address; any other address gives the label alone. The label is HTML."""
    if not _LINKED.match(address):
        return label
    return f'<a href="{escape(address)}" rel="noopener noreferrer" target="_blank">{label}</a>'


def linked(text: str) -> str:
    """Escaped text, in which web addresses are links."""
    parts: list[str] = []
    at = 0
    for match in _ADDRESS.finditer(text):
        parts += (escape(text[at : match.start()]), link(match[0], escape(match[0])))
        at = match.end()
    return "".join((*parts, escape(text[at:])))


def _paragraphs(text: str, breaks: bool) -> Iterator[str]:
    for paragraph in re.split(r"\n[ \t]*\n", text):
        if paragraph.strip():
            words = linked(paragraph.strip("\n"))
            yield f"<p>{words.replace(chr(10), '<br>' + chr(10)) if breaks else words}</p>\n"


def _highlighter() -> Callable[[str, str, str], str] | None:
    """Colours code of a language, or of the language of a file's name; None without Pygments."""
    try:
        from pygments.lexer import Lexer
        from pygments.lexers import find_lexer_class_by_name, find_lexer_class_for_filename, get_all_lexers
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
                lexers[key] = find_lexer_class_by_name(name)(**options) if name in aliases else None
            else:
                found = find_lexer_class_for_filename(f"file{key}")
                lexers[key] = found(**options) if found else None
        return lexers.get(key)

    def highlight(text: str, language: str, file: str) -> str:
        nonlocal left
        chosen = lexer(language, file) if len(text) <= min(left, _HIGHLIGHTED_BLOCK) else None
        if not chosen:
            return escape(text)
        left -= len(text)
        return "".join(_spans(chosen.get_tokens(text.replace("\r\n", "\n")), classes))

    return highlight


def _spans(tokens: Any, classes: dict[Any, str]) -> Iterator[str]:
    """Neighbours of one class share an element; `classes` remembers what each kind of token looks like."""
    current, pending = "", ""
    for kind, value in tokens:
        name = classes.get(kind)
        if name is None:
            name = classes[kind] = _token_class(str(kind))
        if name != current and not value.isspace():
            yield _span(current, pending)
            current, pending = name, ""
        pending += value
    yield _span(current, pending)


def _token_class(kind: str) -> str:
    """The class of a token's kind, such as `Token.Name.Function.Magic`, or of the nearest kind above it."""
    name = kind.removeprefix("Token").removeprefix(".")
    while name and name not in _TOKEN_CLASSES:
        name = name.rpartition(".")[0]
    return _TOKEN_CLASSES.get(name, "")


def _span(name: str, text: str) -> str:
    return f'<span class="{name}">{escape(text)}</span>' if name else escape(text)


def _parser(code: Callable[[str, str], str]) -> MarkdownIt | None:
    """CommonMark with tables and strikethrough, with every rule that writes something dangerous or loud replaced."""
    try:
        from markdown_it import MarkdownIt
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
        parser.add_render_rule(name, _bound(rule))
    return parser


def _bound(rule: Callable[[Sequence[Token], int, MutableMapping[str, Any]], str]) -> Callable[..., str]:
    """The rule in the shape that the renderer calls."""

    def render(
        renderer: RendererProtocol, tokens: Sequence[Token], at: int, options: object, env: MutableMapping[str, Any]
    ) -> str:
        return rule(tokens, at, env)

    return render


def _text(tokens: Sequence[Token], at: int, env: MutableMapping[str, Any]) -> str:
    return escape(tokens[at].content) if env.get("in_link") else linked(tokens[at].content)


def _link_open(tokens: Sequence[Token], at: int, env: MutableMapping[str, Any]) -> str:
    env["in_link"] = True
    return link(str(tokens[at].attrGet("href") or ""), "").removesuffix("</a>") or "<a>"


def _link_close(tokens: Sequence[Token], at: int, env: MutableMapping[str, Any]) -> str:
    env["in_link"] = False
    return "</a>"


def _heading(token: Token) -> str:
    """The page's own headings are h1 and h2; those in a message come below."""
    return f"h{min(6, int(token.tag[1:]) + 2)}"


def _cell(tag: str, token: Token) -> str:
    """The parser asks for alignment by an inline style, which the page's policy forbids."""
    side = str(token.attrGet("style") or "").removeprefix("text-align:")
    return f'<{tag} class="{side}">' if side in ("left", "right", "center") else f"<{tag}>"
