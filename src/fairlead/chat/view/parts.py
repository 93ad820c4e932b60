"""The parts of a conversation as the chat shows them: answers, thinking, prompts and remarks. Panels of tools are elsewhere.

A part gives its lines in order: `finished` those that are final since the last call, `open` those that may still change. Open
lines with letters can be settled: they are final as they were drawn, and the part continues after them (see
`chat.view.scrollback`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from fairlead.chat.view.markdown import MarkdownStream
from fairlead.chat.view.panels import SPINNER, cut, image_text
from fairlead.chat.view.scrollback import Drawn, rest_of, without
from fairlead.chat.view.text import clip, plain, width, wrap
from fairlead.chat.view.theme import Theme
from fairlead.chat.view.titles import format_elapsed
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
