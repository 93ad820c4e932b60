"""The parts of a conversation as the chat shows them: answers, thinking, prompts and remarks. Panels of tools are elsewhere.

A part gives its lines in order: `finished` those that are final since the last call, `open` those that may still change. Open
lines with letters can be settled: they are final as they were drawn, and the part continues after them (see
`chat.view.scrollback`).

For each frame, `finish` of the open parts adds the lines that never change again to `unwritten`, `live` returns those of the
parts that are still open, and `written` confirms both. Without that, the next frame begins where this one began.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple, Protocol

from fairlead.chat.view.markdown import MarkdownStream
from fairlead.chat.view.panels import SPINNER, ToolPanel, cut, image_text
from fairlead.chat.view.scrollback import Drawn, rest_of, rows_if_halved, without
from fairlead.chat.view.text import clip, plain, width, wrap
from fairlead.chat.view.theme import Theme
from fairlead.chat.view.tool_titles import format_elapsed
from fairlead.messages import ImageContent

#: How many lines of a prompt are shown, and how many lines of folded thinking while it arrives.
_LONGEST_PROMPT = 30
#: How many lines of an error or a warning are shown: some servers answer with a whole page.
_LONGEST_ERROR = 9
_THINKING_TAIL = 3


class Part(Protocol):
    """Something in the conversation."""

    #: What it is. Remarks and panels stand closer together than others.
    kind: str
    #: Whether nothing will be added to it.
    done: bool

    @property
    def is_moving(self) -> bool:
        """Whether it changes with time alone."""
        ...

    def final_lines(self, columns: int, is_long: bool) -> list[str]: ...

    def take_back(self) -> None:
        """Return the lines of the last `finished` once more with the next one: they were not written."""
        ...

    def open(self, columns: int, tail: int) -> list[Drawn]: ...

    def settle(self, letters: str) -> None: ...


class LiveLine(NamedTuple):
    """A line of the open parts."""

    #: None for a blank line between two parts.
    part: Part | None
    drawn: Drawn


def end_of_text(lines: Sequence[LiveLine], count: int) -> int:
    """Return how many lines become final if `count` of them should: not those that can change, but whole rows of tables."""
    end = 0
    while end < len(lines) and lines[end].drawn.letters is not None and (end < count or lines[end].drawn.is_more):
        end += 1
    while end and not lines[end - 1].drawn.letters and not lines[end - 1].drawn.is_more:
        end -= 1  # an empty line is final only before another line
    return end


class Answer:
    """Text of the model, as Markdown."""

    kind = "answer"
    is_moving = False

    def __init__(self, theme: Theme) -> None:
        self._stream = MarkdownStream(theme)
        self.done = False

    def add(self, text: str) -> None:
        self._stream.feed(text)

    def end(self) -> None:
        self.done = True
        self._stream.close()

    def final_lines(self, columns: int, is_long: bool) -> list[str]:
        return self._stream.take_final_lines(columns)

    def take_back(self) -> None:
        self._stream.take_back()

    def open(self, columns: int, tail: int) -> list[Drawn]:
        return self._stream.open(columns)

    def settle(self, letters: str) -> None:
        self._stream.settle(letters)


class Thinking:
    """The model's reasoning: one line with the time it took, or all of it if the user wants to read it."""

    kind = "thinking"

    def __init__(self, theme: Theme, now: Callable[[], float], is_folded: Callable[[], bool]) -> None:
        self._theme = theme
        self._now = now
        self._is_folded = is_folded
        self._began = now()
        self._seconds = 0.0
        #: Complete lines that were not shown, the line that is arriving, and whether anything was shown.
        self._lines: list[str] = []
        self._partial = ""
        self._shown = False
        self._settled = ""
        #: The lines, and both of these, as they were before the last `finished`.
        self._taken: tuple[list[str], bool, str] = ([], False, "")
        self.done = False

    @property
    def is_moving(self) -> bool:
        return not self.done

    def add(self, text: str) -> None:
        *complete, self._partial = (self._partial + text).split("\n")
        self._lines += complete

    def end(self) -> None:
        if not self.done:
            self.done = True
            self._seconds = self._now() - self._began

    def final_lines(self, columns: int, is_long: bool) -> list[str]:
        if self._is_folded() and not self._shown:
            if self._seconds < 1 and not self._lines and not self._partial.strip():
                return []
            spent = f" for {format_elapsed(self._seconds, 1)}" if self._seconds >= 1 else ""
            return [self._theme.paint("thinking", f"✻ Thought{spent}")] if self.done else []
        lines, self._lines = self._lines, []
        self._taken = (lines, self._shown, self._settled)
        if self.done and self._partial.strip():
            lines = [*lines, self._partial]
        drawn, self._settled = without(self._draw(lines, columns), self._settled)
        self._shown = self._shown or bool(drawn)
        return drawn

    def take_back(self) -> None:
        lines, self._shown, self._settled = self._taken
        self._lines = [*lines, *self._lines]
        self._taken = ([], self._shown, self._settled)

    def open(self, columns: int, tail: int) -> list[Drawn]:
        if not self._is_folded() or self._shown:
            lines = self._draw([self._partial], columns) if self._partial.strip() else []
            return rest_of(lines, self._settled)[0]
        return [Drawn(line, None) for line in self._fold(columns, tail)]

    def settle(self, letters: str) -> None:
        self._shown = True
        self._settled += letters

    def _fold(self, columns: int, tail: int) -> list[str]:
        theme, now = self._theme, self._now()
        picture = theme.paint("accent", SPINNER[int(now * 10) % len(SPINNER)])
        head = f"{picture} {theme.paint('thinking', f'Thinking {format_elapsed(now - self._began, 1)}')}"
        recent = [line for line in (*self._lines[-_THINKING_TAIL:], self._partial) if line.strip()]
        lines = [line for text in recent for line in wrap(plain(text[-2000:]), columns - 2)]
        return [head, *(self._theme.paint("thinking", f"  {line}") for line in lines[-min(tail, _THINKING_TAIL) :] if tail)]

    def _draw(self, lines: Sequence[str], columns: int) -> list[str]:
        text = [plain(line).rstrip() for line in lines]
        if not self._shown:
            while text and not text[0]:
                text.pop(0)
        wrapped = [part for line in text for part in wrap(line, columns - 2)]
        mark = "  " if self._shown or not wrapped else "✻ "
        return [
            self._theme.paint("thinking", f"{mark if number == 0 else '  '}{line}".rstrip())
            for number, line in enumerate(wrapped)
        ]


class Fixed:
    """Something that is complete at once. It is drawn when it is shown."""

    is_moving = False
    done = True

    def __init__(self, kind: str, draw: Callable[[int, bool], list[str]]) -> None:
        self.kind = kind
        self._draw = draw
        self._settled = ""

    def final_lines(self, columns: int, is_long: bool) -> list[str]:
        return without(self._draw(columns, is_long), self._settled)[0]

    def take_back(self) -> None:
        """Do nothing: `finished` always returns all lines."""

    def open(self, columns: int, tail: int) -> list[Drawn]:
        return rest_of(self._draw(columns, False), self._settled)[0]

    def settle(self, letters: str) -> None:
        self._settled += letters


def remark(theme: Theme, text: str, role: str, mark: str = "") -> Fixed:
    """Return a remark of the program."""

    def draw(columns: int, is_long: bool) -> list[str]:
        indent = " " * (len(mark) + 1 if mark else 0)
        lines = [part for line in plain(text).strip("\n").split("\n") for part in wrap(line, columns - len(indent))]
        if role in ("error", "warning") and not is_long:
            lines = cut(lines, _LONGEST_ERROR)
        first = f"{mark} " if mark else ""
        return [theme.paint(role, (first if number == 0 else indent) + line) for number, line in enumerate(lines)]

    return Fixed("note", draw)


def make_explanations(theme: Theme, lists: Mapping[str, Mapping[str, str]]) -> Fixed:
    """Return lists of names and explanations, by their titles, in two columns."""
    names = max((width(name.strip()) for rows in lists.values() for name in rows), default=0)

    def draw(columns: int, is_long: bool) -> list[str]:
        # In a narrow terminal, an explanation stands below its name.
        indent = names + 4 if columns >= 2 * names + 4 else 4
        lines: list[str] = []
        for title, rows in lists.items():
            lines += [*([""] if lines else []), theme.paint("strong", title)]
            for name, text in rows.items():
                head = theme.paint("accent", f"  {name.strip()}")
                first, *rest = wrap(text, max(1, columns - indent))
                if indent > names:
                    lines.append(head + " " * (indent - width(head)) + first)
                else:
                    lines += [clip(head, columns), " " * indent + first]
                lines += [" " * indent + line for line in rest]
        return lines

    return Fixed("lists", draw)


def prompt(theme: Theme, text: str, images: Sequence[ImageContent], mark: str = ">", role: str = "user") -> Fixed:
    """Return a message of the user."""

    def draw(columns: int, is_long: bool) -> list[str]:
        lines = [part for line in plain(text, 4).strip("\n").split("\n") for part in wrap(line, columns - 2)]
        if len(lines) > _LONGEST_PROMPT and not is_long:
            left_out = len(lines) - _LONGEST_PROMPT
            lines = [*lines[:_LONGEST_PROMPT], theme.paint("dim", f"… {left_out:,} more lines")]
        painted = [theme.paint(role, line) for line in lines] if any(lines) else []
        painted += [theme.paint("dim", clip(image_text(image), columns - 2)) for image in images]
        first = theme.paint("accent", mark)
        return [f"{first if number == 0 else ' '} {line}".rstrip() for number, line in enumerate(painted or [""])]

    return Fixed("prompt", draw)


def text_of(theme: Theme, text: str) -> Answer:
    """Return a whole text of the model."""
    answer = Answer(theme)
    answer.add(text)
    answer.end()
    return answer


#: How many lines of output each running call shows, from a high terminal to a low one.
_TAILS = (5, 2, 0)


class OpenParts:
    """Parts in their order, and what the terminal shows of them.

    Args:
        now: The clock.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        #: Parts that are not final or not yet taken, oldest first.
        self._parts: deque[Part] = deque()
        #: Whether tool output is shown at length.
        self._is_long = False
        #: The kind of the last part with final lines, and whether a panel with a body was last.
        self._last = ""
        #: Whether the first part has given lines already.
        self._begun = False
        self._touched = True
        self._drawn_at = 0
        #: Final lines that were not yet written, the parts that have given them, those of them that are complete, and `_last` and
        #: `_begun` before them.
        self._unwritten: list[str] = []
        self._asked: list[Part] = []
        self._complete: list[Part] = []
        self._before: tuple[str, bool] | None = None
        #: Live lines that become final with the next frame, those that were drawn last and those that are on the screen.
        self._leaving: list[LiveLine] = []
        self._drawn: list[LiveLine] = []
        self._on_screen: list[LiveLine] = []

    def _add(self, part: Part) -> None:
        self._parts.append(part)
        self._touched = True

    def _add_final(self, part: Part) -> None:
        """Add a part that is complete before those that can still change, so that it is final at once."""
        self._take_back()
        can_change = (at for at, other in enumerate(self._parts) if not other.done and not isinstance(other, Answer))
        index = next(can_change, len(self._parts))
        self._begun = self._begun and index > 0
        self._parts.insert(index, part)
        self._touched = True

    @property
    def changed(self) -> bool:
        """Whether `finish` or `live` would return something new."""
        return self._touched or (int(self._now() * 10) != self._drawn_at and any(part.is_moving for part in self._parts))

    def finish(self, columns: int) -> None:
        """Move the lines that have become final to `unwritten`. They have at most `columns` cells."""
        self._take_back()
        self._before = (self._last, self._begun)
        self._unwritten = self._take_final_lines(columns)

    @property
    def unwritten(self) -> Sequence[str]:
        """The final lines that `written` has not confirmed: those of `finish`, and those that `live` has no room for."""
        return self._unwritten

    def confirm_written(self) -> None:
        """Confirm that the terminal shows the final lines and the last `live`."""
        self._settle(self._leaving)
        self._forget_frame()
        self._on_screen = self._drawn

    def _take_back(self) -> None:
        """Undo a `finish` and a `live` that were not confirmed: the terminal does not show their lines."""
        if self._before is None:
            return
        for part in self._asked:
            part.take_back()
        self._parts.extendleft(reversed(self._complete))
        self._last, self._begun = self._before
        self._forget_frame()

    def _forget_frame(self) -> None:
        self._unwritten, self._asked, self._complete, self._leaving, self._before = [], [], [], [], None

    def settle(self, count: int) -> int:
        """Make live lines final that have left the screen. Call `finish` after it.

        Args:
            count: How many of the live lines on the screen have left it, at least in part.

        Returns:
            How many are final as they are: fewer if some of them can change, one or more beyond `count` if those belong together.
        """
        self._take_back()
        count = end_of_text(self._on_screen, count)
        settled, self._on_screen = self._on_screen[:count], self._on_screen[count:]
        self._settle(settled)
        return count

    def _settle(self, lines: Sequence[LiveLine]) -> None:
        for line in lines:
            if line.part is None or not line.drawn.letters:
                continue
            line.part.settle(line.drawn.letters)
            if self._parts and line.part is self._parts[0]:
                self._begun, self._last = True, line.part.kind

    def _take_final_lines(self, columns: int) -> list[str]:
        taken: list[str] = []
        while self._parts:
            part = self._parts[0]
            self._asked.append(part)
            lines = part.final_lines(columns, self._is_long) if part.done or not isinstance(part, ToolPanel) else []
            if lines and not self._begun and self._gap(self._last, part.kind):
                taken.append("")
            taken += lines
            self._begun = self._begun or bool(lines)
            if lines:
                self._last = part.kind if part.kind != "tool" or len(lines) > 1 else "line"
            if not part.done:
                break
            self._complete.append(self._parts.popleft())
            self._begun = False
        return taken

    def live(self, columns: int, rows: int, spare: int | None = None, *, only_text: bool = False) -> list[str]:
        """Return the open parts. Call `finish` first.

        Args:
            columns: The most cells of a line.
            rows: The most lines. If there are more, the first become final if they can; otherwise only the last are shown.
                Without any rows, nothing is shown and nothing becomes final.
            spare: How many rows lines that can change should take at most if the terminal becomes half as wide.
            only_text: Whether to leave out the lines that can change, and those below them.
        """
        self._touched = False
        self._drawn_at = int(self._now() * 10)
        lines: list[LiveLine] = []
        for tail in _TAILS if rows > 0 else ():
            lines = self._live_lines(columns, tail)
            if only_text:
                lines = list(takewhile(lambda line: line.drawn.letters is not None, lines))
            if len(lines) <= rows and (
                spare is None
                or rows_if_halved([line.drawn.text for line in lines if line.drawn.letters is None], columns) <= spare
            ):
                break
        if (more := len(lines) - max(0, rows)) > 0:
            count = end_of_text(lines, more)
            self._leaving = lines[:count]
            self._unwritten += [line.drawn.text for line in self._leaving]
            lines = lines[max(count, more) :]
        self._drawn = lines
        return [line.drawn.text for line in lines]

    def text_lines(self) -> int:
        """Return how many of the last live lines, from the first, become final if they leave the screen."""
        return next((number for number, line in enumerate(self._drawn) if line.drawn.letters is None), len(self._drawn))

    def _live_lines(self, columns: int, tail: int) -> list[LiveLine]:
        lines: list[LiveLine] = []
        last, begun = self._last, self._begun
        for part in self._parts:
            opened = part.open(columns, tail)
            if not opened:
                continue
            if not begun and self._gap(last, part.kind):
                lines.append(LiveLine(None, Drawn("", "")))
            lines += [LiveLine(part, line) for line in opened]
            last, begun = (part.kind if part.kind != "tool" or len(opened) > 1 else "line"), False
        return lines

    @staticmethod
    def _gap(before: str, kind: str) -> bool:
        """Whether a blank line stands between two parts.

        Remarks stand together. So do panels of one line, and a proposal and its outcome.
        """
        together = (("note", "note"), ("line", "tool"), ("proposal", "tool"), ("proposal", "note"))
        return before != "" and (before, kind) not in together
