"""Markdown that arrives in pieces.

A block is final as soon as nothing that follows can change it: when the next block begins, or after a blank line. Items of a
list are final when the next item begins, and code by the part (see `chat.view.code`). What is final is parsed and drawn once,
so the cost grows linearly with the text, and the open rest stays small. The lines are the same however the text is divided.

Reference definitions (`[name]: address`) are shown as they are: a link that waits for one could never be final.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from itertools import takewhile

from fairlead.chat.view.code import Code
from fairlead.chat.view.markdown_blocks import Blocks, Node, indented_code, language, numbers, parser, tree
from fairlead.chat.view.scrollback import Drawing, Drawn, Lines, draw_all
from fairlead.chat.view.text import fold, plain
from fairlead.chat.view.theme import Theme

#: Columns between tab stops, as in most code that models write.
_TAB = 4
#: Drawing an open block takes at most this part of the time, however long it grows.
_SHARE = 0.1
#: Seconds. A block that takes less is drawn in every frame.
_CHEAP = 0.004
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LISTS = ("bullet_list", "ordered_list")


class MarkdownStream:
    """One text in Markdown. Pieces go in with `feed`, lines come out with `finished` and `open`."""

    def __init__(self, theme: Theme, clock: Callable[[], float] = time.monotonic) -> None:
        self._theme = theme
        self._blocks = Blocks(theme)
        self._clock = clock
        #: Pieces since the last time that lines were asked for.
        self._pieces: list[str] = []
        #: A carriage return at the end of what was fed. A line feed after it belongs to it.
        self._return = ""
        #: The end of the text: complete lines of blocks that may still change, and a line that is still arriving.
        self._lines: list[str] = []
        self._partial = ""
        #: The code block that is open; None outside code.
        self._fence: _Fence | None = None
        self._place = _Place()
        #: What is final and not yet taken, and letters at its start that are in the scrollback already.
        self._ready: list[Drawing] = []
        self._settled = ""
        #: Both as they were before the last `finished`.
        self._taken: tuple[list[Drawing], str] = ([], "")
        self._closed = False
        #: The last open lines, for which columns, and whether they are still true.
        self._drawn: tuple[int, list[Drawn]] = (0, [])
        self._stale = True
        self._not_before = 0.0

    def feed(self, text: str) -> None:
        """Add a piece of the text."""
        # A carriage return ends a line, as Markdown has it. It must not overwrite what was said.
        text = self._return + text
        self._return = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n")
        if text:
            self._pieces.append(text)
            self._stale = True

    def close(self) -> None:
        """End the text: everything is final now."""
        self._closed = True
        self._stale = True

    def take_final_lines(self, columns: int) -> list[str]:
        """Return the lines that have become final since the last call, of at most `columns` cells."""
        if self._stale and (self._closed or self._clock() >= self._not_before):
            parser()  # importing it does not count as work
            began = time.thread_time()
            self._advance()
            self._delay_next(began)
            if self._ready:
                self._drawn = (0, [])
        ready, self._ready = self._ready, []
        self._taken = (ready, self._settled)
        lines, self._settled = draw_all(ready, columns, self._settled)
        return [line.text for line in lines]

    def take_back(self) -> None:
        """Return the lines of the last `finished` once more with the next one."""
        self._ready, self._settled = self._taken
        self._taken = ([], self._settled)
        self._drawn = (0, [])

    def settle(self, letters: str) -> None:
        """Leave out letters at the start of what follows: lines of `open` that are final as they were drawn."""
        self._settled += letters
        self._drawn = (0, [])

    def open(self, columns: int) -> list[Drawn]:
        """Return the lines that may still change. They come after those of `finished`."""
        known_columns, lines = self._drawn
        if known_columns == columns and (not self._stale or self._clock() < self._not_before):
            return lines
        began = time.thread_time()
        lines = self._open_lines(columns)
        self._drawn = (columns, lines)
        self._stale = False
        self._delay_next(began)
        return lines

    def _delay_next(self, began: float) -> None:
        """Wait with the next drawing, if this one has taken long."""
        cost = time.thread_time() - began
        if cost > _CHEAP:
            self._not_before = self._clock() + cost / _SHARE

    def _advance(self) -> None:
        """Take in what was fed, and move what is final to `_ready`."""
        text = self._partial + "".join(self._pieces)
        self._pieces.clear()
        *complete, self._partial = text.split("\n")
        if self._closed and self._partial:
            complete.append(self._partial)
            self._partial = ""
        if not complete and not self._closed:
            return
        self._lines += [plain(line, _TAB) for line in complete]
        while self._lines and (self._take_code() if self._fence else self._take_blocks()):
            pass
        if self._closed and self._fence:
            self._emit_code(self._fence.code.end())
            self._fence = None

    def _take_code(self) -> bool:
        """Move complete lines into the open code block. Returns whether the block has ended."""
        assert self._fence is not None
        fence, final = self._fence, list[str]()
        for number, line in enumerate(self._lines):
            if fence.is_end(line):
                self._emit_code(final + fence.code.end())
                self._fence = None
                self._lines = self._lines[number + 1 :]
                self._place.blank = False
                return True
            final += fence.code.add(fence.content(line))
        self._lines = []
        self._emit_code(final)
        return False

    def _emit_code(self, lines: list[str]) -> None:
        if lines:
            self._ready.append(Lines(lambda columns: indented_code(lines, columns)))

    def _take_blocks(self) -> bool:
        """Move the blocks that are final to `_ready`. Returns whether more can be taken from the lines that are left."""
        self._skip_blank_lines()
        if not self._lines:
            return False
        roots = tree("\n".join(self._lines))
        if not roots:  # nothing visible, such as an empty comment
            return False
        last = roots[-1]
        for node in roots[:-1]:
            self._ready += self._drawing(node, self._place)
        if last.kind == "fence" and (fence := _Fence.open(self._theme, self._lines, last)):
            self._begin_code(last, fence)
            return True
        if self._closed or self._ends_with(last):
            self._ready += self._drawing(last, self._place)
            self._cut(len(self._lines))
        elif last.kind in _LISTS and len(last.children) > 1 and self._can_start_with(last.children[-1]):
            self._ready += self._drawing(last, self._place, but_last_item=True)
            self._cut(last.children[-1].start)
        else:
            self._cut(last.start)
        return False

    def _ends_with(self, node: Node) -> bool:
        """Whether a blank line has ended the last block."""
        may_continue = node.kind in (*_LISTS, "code_block", "html_block")
        return not may_continue and node.end < len(self._lines) and not self._lines[-1].strip()

    def _can_start_with(self, item: Node) -> bool:
        """Whether an item means the same without the items before it. One that is indented far would be code."""
        return not self._lines[item.start].startswith("    ")

    def _skip_blank_lines(self) -> None:
        count = next((number for number, line in enumerate(self._lines) if line.strip()), len(self._lines))
        if count:
            self._lines = self._lines[count:]
            self._place.blank = True

    def _begin_code(self, node: Node, fence: _Fence) -> None:
        if self._place.gap("fence", self._is_blank_before(node.start)):
            self._ready.append(_blank_line)
        self._place.previous, self._place.in_list = "fence", False
        self._fence = fence
        self._lines = self._lines[node.start + 1 :]

    def _drawing(self, node: Node, place: _Place, *, but_last_item: bool = False) -> list[Drawing]:
        """Return what draws a block at a place in the text, or a list without its last item. The place moves behind it."""
        drawing: list[Drawing] = []
        blocks = self._blocks
        if node.kind not in _LISTS:
            place.in_list = False
            if place.gap(node.kind, self._is_blank_before(node.start)):
                drawing.append(_blank_line)
            drawing.append(blocks.table(node) if node.kind == "table" else Lines(lambda columns: blocks.lines(node, columns)))
            place.previous = node.kind
            return drawing
        counted = place.continue_numbers(numbers(node))
        for item, number in zip(node.children[:-1] if but_last_item else node.children, counted, strict=False):
            if place.gap("item" if place.in_list else node.kind, self._is_blank_before(item.start)):
                drawing.append(_blank_line)
            drawing.append(_item(blocks, item, number))
            place.previous, place.in_list = node.kind, True
        place.in_list, place.number = but_last_item, counted[-1]
        return drawing

    def _is_blank_before(self, line: int) -> bool:
        return self._place.blank if line == 0 else not self._lines[line - 1].strip()

    def _cut(self, line: int) -> None:
        if line:
            self._place.blank = not self._lines[line - 1].strip()
            self._lines = self._lines[line:]

    def _open_lines(self, columns: int) -> list[Drawn]:
        return draw_all(self._open_drawings(), columns, self._settled)[0]

    def _open_drawings(self) -> list[Drawing]:
        pending = self._partial + "".join(self._pieces)
        partial = plain(pending, _TAB)
        if self._fence:
            fence = self._fence
            # Whole lines are among them if `finished` has had to wait.
            arriving = takewhile(lambda line: not fence.may_end(line), partial.split("\n") if partial else ())
            lines = [*fence.code.open(), *fence.code.arriving([fence.content(line) for line in arriving])]
            return [Lines(lambda columns: indented_code(lines, columns))]
        if not self._lines and not partial.strip():
            return []
        if "\n" in partial and len(partial) > 100_000:  # lines are asked for too seldom to parse them all
            return [Lines(lambda columns: [line for text in partial.split("\n")[-50:] for line in fold(text, columns)])]
        source, place = self._lines, self._place
        self._lines, self._place = [*source, *_close_marks(partial).split("\n")], place.copy()
        try:
            return [draw for node in tree("\n".join(self._lines)) for draw in self._drawing(node, self._place)]
        finally:
            self._lines, self._place = source, place


class _Place:
    """Where in the text the next block begins."""

    __slots__ = ("blank", "in_list", "number", "previous")

    def __init__(self, previous: str = "", blank: bool = False, in_list: bool = False, number: int | None = None) -> None:
        #: The kind of the block before; empty at the start.
        self.previous = previous
        #: Whether the last line that was taken is blank.
        self.blank = blank
        #: Whether the next item continues the list before it, and its number.
        self.in_list = in_list
        self.number = number

    def copy(self) -> _Place:
        return _Place(self.previous, self.blank, self.in_list, self.number)

    def continue_numbers(self, counted: list[int | None]) -> list[int | None]:
        """Return the numbers of items that may continue the list before them."""
        if not self.in_list or self.number is None:
            return counted
        return [self.number + index for index in range(len(counted))]

    def gap(self, kind: str, blank: bool) -> bool:
        """Whether a blank line comes before a block: always between blocks, except for a list as tight as its source."""
        if not self.previous:
            return False
        if kind == "item" or (kind in _LISTS and self.previous == "paragraph"):
            return blank
        return True


class _Fence:
    """A code block between fences that has no end yet."""

    def __init__(self, code: Code, mark: str, indent: int) -> None:
        self.code = code
        self._mark = mark
        self._indent = indent

    @classmethod
    def open(cls, theme: Theme, lines: list[str], node: Node) -> _Fence | None:
        """Return the fence of a code block that is the last block; None if the block has ended."""
        first = lines[node.start]
        match = _FENCE.match(first)
        if match is None:
            return None
        fence = cls(Code(theme, language(node.token.info)), match[1], len(first) - len(first.lstrip(" ")))
        ends = node.end - 1 > node.start and fence.is_end(lines[node.end - 1])
        return None if ends else fence

    def is_end(self, line: str) -> bool:
        text = line.strip()
        return len(line) - len(line.lstrip(" ")) < 4 and len(text) >= len(self._mark) and not text.strip(self._mark[0])

    def may_end(self, partial: str) -> bool:
        """Whether a line that is still arriving may become the end."""
        text = partial.strip()
        return bool(text) and not text.strip(self._mark[0])

    def content(self, line: str) -> str:
        """Return a line without the indentation that the opening fence has."""
        return line[min(self._indent, len(line) - len(line.lstrip(" "))) :]


def _item(blocks: Blocks, item: Node, number: int | None) -> Drawing:
    return Lines(lambda columns: blocks.item(item, number, columns))


_blank_line = Lines(lambda columns: [""])


def _close_marks(partial: str) -> str:
    """Return a line that is still arriving with its open code and bold text closed, so that no marks flicker."""
    line = partial.rpartition("\n")[2]
    if line.lstrip().startswith(("```", "~~~")):
        return partial
    if line.count("`") % 2:
        return partial + "`" if not line.endswith("`") else partial[:-1]
    if line.count("**") % 2:
        return partial[:-2] if line.endswith("**") else partial.rstrip() + "**"
    return partial
