"""Markdown blocks as lines for a terminal: tokens of markdown-it in, styled lines out.

Tables have columns that fit, or show one record after another where they do not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from fairlead.chat.view.code import Code
from fairlead.chat.view.scrollback import Drawn, common, letters_of, without_first
from fairlead.chat.view.text import RESET, fold, plain, width, wrap
from fairlead.chat.view.theme import Theme

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


Alignment: TypeAlias = Literal["left", "right", "center"]
Row: TypeAlias = list[str]

_BETWEEN = " │ "
#: The narrowest column of a table that does not fit. Narrower ones are hard to read, so the rows become records then.
_NARROWEST_COLUMN = 7


@dataclass(frozen=True, slots=True)
class Table:
    """A table. Its cells are styled lines."""

    theme: Theme
    header: Row
    rows: Sequence[Row]
    alignments: Sequence[Alignment]

    def lines(self, columns: int) -> list[str]:
        """Return the table as lines of at most `columns` cells. Long cells wrap."""
        return [line for group in self._groups(columns) for line in group]

    def draw(self, columns: int, settled: str = "") -> tuple[list[Drawn], str]:
        """Return the lines of the rows that are not settled. Only whole rows can be settled. See `Drawing`."""
        lines: list[Drawn] = []
        before = ""
        for row, group in zip((self.header, *self.rows), self._groups(columns), strict=True):
            letters = letters_of("".join(row))
            if settled:
                counts = common(settled, letters)
                settled = settled[counts[0] :] if counts is not None else ""
                if counts is not None and counts[1] == len(letters):
                    continue
                if counts is not None:
                    row = _without_first(row, counts[1])
                    letters = letters[counts[1] :]
                    group = Table(self.theme, self.header, [row], self.alignments)._groups(columns, self._natural())[1]
            before += letters
            if group:
                lines += [Drawn(group[0], before), *(Drawn(line, "", is_more=True) for line in group[1:])]
                before = ""
        return lines, settled

    def _natural(self) -> list[int]:
        return [
            max(width(row[index]) for row in (self.header, *self.rows) if index < len(row)) for index in range(len(self.header))
        ]

    def _groups(self, columns: int, natural: Sequence[int] | None = None) -> list[list[str]]:
        """Return the lines of the header and of each row. `natural` is the width of each column, if there is room for it."""
        theme = self.theme
        widths = _fitting(natural or self._natural(), columns - len(_BETWEEN) * (len(self.header) - 1))
        if widths is None:
            return [[], *_records(theme, self.header, self.rows, columns)] if self.rows else [_names(theme, self.header, columns)]
        between = theme.paint("border", _BETWEEN)
        head = _row_lines([theme.paint("strong", cell) for cell in self.header], widths, self.alignments, between)
        head.append(theme.paint("border", "─┼─".join("─" * each for each in widths)))
        return [head, *(_row_lines(row, widths, self.alignments, between) for row in self.rows)]


def _without_first(row: Row, count: int) -> Row:
    """Return a row without its first letters."""
    left: Row = []
    for cell in row:
        length = len(letters_of(cell))
        left.append(without_first(cell, count) if count < length else "")
        count = max(0, count - length)
    return left


def _fitting(natural: Sequence[int], room: int) -> list[int] | None:
    """Return the width of each column, the widest ones reduced if needed; None if they do not fit."""
    if sum(natural) <= room:
        return [max(1, each) for each in natural]
    widths = [max(1, each) for each in natural]
    left, open_columns = room, len(natural)
    for index in sorted(range(len(natural)), key=lambda index: natural[index]):
        share = left // open_columns
        if widths[index] > share:
            if share < _NARROWEST_COLUMN:
                return None
            widths[index] = share
        left -= widths[index]
        open_columns -= 1
    return widths


def _row_lines(row: Row, widths: Sequence[int], alignments: Sequence[Alignment], between: str) -> list[str]:
    cells = [wrap(row[index] if index < len(row) else "", each) for index, each in enumerate(widths)]
    lines: list[str] = []
    for number in range(max(map(len, cells))):
        parts = [
            _pad(cell[number] if number < len(cell) else "", widths[index], alignments[index]) for index, cell in enumerate(cells)
        ]
        lines.append(between.join(parts).rstrip())
    return lines


def _pad(text: str, columns: int, alignment: Alignment) -> str:
    room = max(0, columns - width(text))
    if alignment == "right":
        return " " * room + text
    if alignment == "center":
        return " " * (room // 2) + text + " " * (room - room // 2)
    return text + " " * room


def _records(theme: Theme, header: Row, rows: Sequence[Row], columns: int) -> list[list[str]]:
    """Return each row as a record: one line or more for each cell, after the name of its column."""
    records: list[list[str]] = []
    for number, row in enumerate(rows):
        lines = [theme.paint("border", "─" * min(columns, 20))] if number else []
        for name, cell in zip(header, row, strict=False):
            lines += wrap(f"{theme.paint('strong', name)}: {cell}", columns)
        records.append(lines)
    return records


def _names(theme: Theme, header: Row, columns: int) -> list[str]:
    return [line for name in header for line in wrap(theme.paint("strong", name), columns)]


#: How far code is indented.
CODE_INDENT = "  "
_LONGEST_RULE = 60
#: Marks and indentation leave at least this many columns for text, or are left out: a wide character needs two.
_NARROWEST = 2
_TASK = re.compile(r"\[([ xX])\] +")
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
#: Inline tokens that begin a style, and its role in the theme.
_INLINE_STYLES = {"strong_open": "strong", "em_open": "emphasis", "s_open": "strike", "link_open": "link"}


class Node(Struct):
    """A block and the blocks in it."""

    token: Token
    children: list[Node] = []

    @property
    def kind(self) -> str:
        return self.token.type.removesuffix("_open")

    @property
    def start(self) -> int:
        """The number of the first source line."""
        return self.token.map[0] if self.token.map else 0

    @property
    def end(self) -> int:
        """The number of the line after the last that is not blank."""
        if self.kind in ("bullet_list", "ordered_list", "list_item", "blockquote") and self.children:
            return self.children[-1].end
        return self.token.map[1] if self.token.map else 0


_parser: MarkdownIt | None = None


def parser() -> MarkdownIt:
    """Return the parser of all Markdown. The first call imports markdown-it."""
    global _parser
    if _parser is None:
        from markdown_it import MarkdownIt  # noqa: PLC0415  an extra

        _parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        # Text is parsed when it is drawn: most parsing only finds out which blocks are final.
        _parser.disable(["reference", "inline", "text_join"])
    return _parser


def tree(text: str) -> list[Node]:
    """Return the blocks of a document."""
    roots: list[Node] = []
    open_nodes: list[Node] = []
    for token in parser().parse(text):
        if token.nesting < 0:
            open_nodes.pop()
            continue
        node = Node(token)
        (open_nodes[-1].children if open_nodes else roots).append(node)
        if token.nesting > 0:
            open_nodes.append(node)
    return roots


class Blocks:
    """Draws blocks in one theme."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme

    def lines(self, node: Node, columns: int) -> list[str]:
        """Return one block as lines of at most `columns` cells."""
        columns = max(1, columns)
        match node.kind:
            case "paragraph":
                return wrap(self._inline(node.children[0].token), columns)
            case "heading":
                return self._heading(node, columns)
            case "fence" | "code_block":
                source = node.token.content.split("\n")
                return self.code(source if source[-1] else source[:-1], node.token.info, columns)
            case "blockquote":
                edge = "▎ " if columns >= 2 + _NARROWEST else ""
                lines = self._inside(node, columns - len(edge))
                return [self._theme.paint("border", edge) + self._theme.paint("quote", line) for line in lines]
            case "bullet_list" | "ordered_list":
                return self._list(node, columns)
            case "table":
                return self.table(node).lines(columns)
            case "hr":
                return [self._theme.paint("border", "─" * min(columns, _LONGEST_RULE))]
            case "html_block":
                text = plain(node.token.content).rstrip("\n")
                return [line for source in text.split("\n") for line in fold(source, columns)]
            case _:
                return self._inside(node, columns)

    def code(self, source: Sequence[str], info: str, columns: int) -> list[str]:
        """Return code as indented lines with colours. `info` begins with the language."""
        code = Code(self._theme, language(info))
        highlighted = [line for text in source for line in code.add(text)] + code.end()
        return indented_code(highlighted, columns)

    def item(self, node: Node, number: int | None, columns: int) -> list[str]:
        """Return an item of a list. `number` is None for a bullet."""
        mark = "• " if number is None else f"{number}. "
        task = _task_of(node)
        if task is not None:
            mark = "☑ " if task else "☐ "
        if columns < len(mark) + _NARROWEST:
            mark = ""
        indent = " " * len(mark)
        lines = self._inside(node, columns - len(mark), skip_task=task is not None) or [""]
        first = self._theme.paint("dim" if task is None else "accent", mark)
        return [(first + lines[0]).rstrip(), *(indent + line if line else "" for line in lines[1:])]

    def _inside(self, node: Node, columns: int, *, skip_task: bool = False) -> list[str]:
        """Return the blocks in a block, with a blank line where the source has one."""
        lines: list[str] = []
        before: Node | None = None
        for child in node.children:
            if before is not None and child.start > before.end:
                lines.append("")
            if skip_task and before is None:
                text = _TASK.sub("", self._inline(child.children[0].token), count=1)
                lines += wrap(text, max(1, columns))
            else:
                lines += self.lines(child, columns)
            before = child
        return lines

    def _list(self, node: Node, columns: int) -> list[str]:
        lines: list[str] = []
        before: Node | None = None
        for item, number in zip(node.children, numbers(node), strict=True):
            if before is not None and item.start > before.end:
                lines.append("")
            lines += self.item(item, number, columns)
            before = item
        return lines

    def _heading(self, node: Node, columns: int) -> list[str]:
        text = self._inline(node.children[0].token)
        role = "heading" if node.token.tag in ("h1", "h2") else "strong"
        lines = wrap(self._theme.paint(role, text), columns)
        if node.token.tag == "h1":
            lines.append(self._theme.paint("border", "─" * min(columns, max(map(width, lines)))))
        return lines

    def table(self, node: Node) -> Table:
        """Return a block that is a table."""
        header: Row = []
        rows: list[Row] = []
        alignments: list[Alignment] = []
        for part in node.children:
            for row in part.children:
                cells = [self._inline(cell.children[0].token).replace("\n", " ") for cell in row.children]
                if part.kind == "thead":
                    header = cells
                    alignments = [_alignment(cell.token) for cell in row.children]
                else:
                    rows.append(cells)
        return Table(self._theme, header, rows, alignments)

    def _inline(self, token: Token) -> str:
        """Return text with its styles. Line breaks stay as the model wrote them."""
        tokens: list[Token] = []
        markdown = parser()
        markdown.inline.parse(token.content, markdown, {}, tokens)
        return _Inline(self._theme).text(tokens)


class _Inline:
    """Joins inline tokens to styled text."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._parts: list[str] = []
        self._styles: list[str] = []
        #: Where the text of the open link begins, and its address.
        self._link: tuple[int, str] = (0, "")

    def text(self, tokens: Sequence[Token]) -> str:
        for token in tokens:
            self._add(token)
        return "".join(self._parts)

    def _add(self, token: Token) -> None:
        kind = token.type
        if kind == "text":
            self._put(token.content)
        elif kind in ("softbreak", "hardbreak"):
            self._parts.append("\n")
        elif kind == "code_inline":
            self._put(token.content if self._theme.code else f"`{token.content}`", self._theme.code)
        elif kind in _INLINE_STYLES:
            self._styles.append(getattr(self._theme, _INLINE_STYLES[kind]))
            if kind == "link_open":
                self._link = (len(self._parts), str(token.attrs.get("href", "")))
        elif kind.endswith("_close"):
            self._styles.pop()
            if kind == "link_close":
                self._end_link()
        elif kind == "image":
            self._put(f"[image: {token.content or 'without a name'}]", self._theme.link)
            self._put(f" ({token.attrs.get('src', '')})", self._theme.dim)
        elif kind == "html_inline" and _BREAK.fullmatch(token.content):
            self._parts.append("\n")
        else:
            self._put(token.content)

    def _put(self, text: str, style: str = "") -> None:
        text = plain(text)
        opener = "".join(self._styles) + style
        self._parts.append(f"{opener}{text}{RESET}" if opener and text else text)

    def _end_link(self) -> None:
        start, address = self._link
        said = "".join(self._parts[start:])
        if plain(address).removeprefix("mailto:") not in said:
            self._put(f" ({address})", self._theme.dim)


def language(info: str) -> str:
    """Return the language that the first line of a code block names."""
    words = info.split(maxsplit=1)
    return words[0].strip("{}.").partition(":")[0] if words else ""


def indented_code(lines: Sequence[str], columns: int) -> list[str]:
    """Return lines of code, indented and broken where they are too long."""
    indent = CODE_INDENT if columns >= len(CODE_INDENT) + _NARROWEST else ""
    room = columns - len(indent)
    return [indent + part if part else "" for line in lines for part in fold(line, room)]


def numbers(node: Node) -> list[int | None]:
    """Return the numbers of a list's items; None for bullets."""
    if node.kind == "bullet_list":
        return [None] * len(node.children)
    first = int(node.token.attrs.get("start", 1))
    return [first + index for index in range(len(node.children))]


def _task_of(node: Node) -> bool | None:
    """Whether an item's task is done; None if the item is not a task."""
    if not node.children or node.children[0].kind != "paragraph":
        return None
    match = _TASK.match(node.children[0].children[0].token.content)
    return None if match is None else match[1] != " "


def _alignment(token: Token) -> Alignment:
    style = str(token.attrs.get("style", ""))
    return "right" if "right" in style else "center" if "center" in style else "left"
