"""What a call that needs approval would do: a diff, a command, or its arguments.

It is written once above the question, as final text. A resize can leave copies of lines that still change in the scrollback, so
the question itself has only a few of them (see `chat.view.leftovers`).
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from fairlead import ApprovalRequest
from fairlead.chat.view import diffs
from fairlead.chat.view.panels import cut, edged
from fairlead.chat.view.settled import Drawn, rest_of, without
from fairlead.chat.view.text import fold, plain, visible, wrap
from fairlead.chat.view.theme import Theme
from fairlead.chat.view.titles import call_title

#: How many lines of a proposal are shown. The user can ask for the rest.
_MOST_LINES = 200
#: A command or other text is short if it has at most this many lines in a terminal of this many columns: then the question shows
#: it.
_SHORT, _NARROW = 3, 40
_EDGE_WIDTH = 4


class Proposal:
    """What one call would do, as a part of the conversation.

    Args:
        request: The call.
        theme: The colours.
        cwd: The working directory. Paths inside it are shown relative to it.
        is_whole: Whether no line is left out.
    """

    kind = "proposal"
    is_moving = False
    done = True

    def __init__(self, request: ApprovalRequest, theme: Theme, cwd: Path, *, is_whole: bool = False) -> None:
        self._request = request
        self._theme = theme
        self._is_whole = is_whole
        self._roots = cwd, Path(os.path.realpath(cwd))
        self._diff = request.diff or ""
        self._text = plain(visible(request.readable_subject or request.message), 4).strip("\n")
        #: How many lines were left out when it was drawn last.
        self.left_out = 0
        self._settled = ""

    @property
    def is_short(self) -> bool:
        """Whether the question shows it, so that the transcript does not have to."""
        return not self._diff and len(self.short(_NARROW)) <= _SHORT

    def short(self, columns: int) -> list[str]:
        """Return the command, or what else the call is about, as lines of at most `columns` cells."""
        if self._request.kind != "execute":
            return [f"  {line}" for line in wrap(self._text, columns - 2)]
        lines = _folded(self._text, columns - 4)
        return [f"  {self._theme.paint('accent', '$')} {lines[0]}", *(f"    {line}" for line in lines[1:])]

    @property
    def about(self) -> str:
        """The files that the call would change."""
        paths = [line.text for line in diffs.unified(self._diff) if line.kind == "file"]
        return ", ".join(map(self._name, dict.fromkeys(paths)))

    @property
    def is_unknown(self) -> bool:
        """Whether the call would change files, but how is not known: the change is too large, or the call would fail."""
        return self._request.kind == "edit" and not self._diff

    def finished(self, columns: int, is_long: bool) -> list[str]:
        """Return all lines. With `is_long`, none is left out."""
        return without(self._lines(columns, is_long), self._settled)[0]

    def take_back(self) -> None:
        """Do nothing: `finished` always returns all lines."""

    def open(self, columns: int, tail: int) -> list[Drawn]:
        return rest_of(self._lines(columns, False), self._settled)[0]

    def settle(self, letters: str) -> None:
        self._settled += letters

    def _lines(self, columns: int, is_long: bool) -> list[str]:
        head, body = self._changes(columns - _EDGE_WIDTH) if self._diff else self._other(columns - _EDGE_WIDTH)
        if self._request.subagent:
            head += self._theme.paint("dim", f"  {plain(visible(f'sub-agent {self._request.subagent}'))}")
        shown = body if is_long or self._is_whole else cut(body, _MOST_LINES, self._theme)
        self.left_out = len(body) - len(shown) + 1 if len(shown) < len(body) else 0
        first, *rest = wrap(head, columns - 2)
        return [f"{self._theme.paint('warning', '?')} {first}", *(f"  {line}" for line in rest), *edged(shown, self._theme)]

    def _changes(self, columns: int) -> tuple[str, list[str]]:
        theme, changes = self._theme, self._request.changes
        lines = [replace(line, text=self._name(line.text)) if line.kind == "file" else line for line in diffs.unified(self._diff)]
        facts = diffs.count_facts(lines, theme)
        if len(changes) == 1 and changes[0].old_text is None:
            facts.insert(0, theme.paint("dim", "new file"))
        verb, _ = call_title(self._request.tool_name, {})
        names = len(changes) > 1
        title = theme.paint("tool", verb) if names else f"{theme.paint('tool', verb)} {self.about}"
        return "  ".join((title, *facts)), diffs.draw(lines, theme, columns, names=names)

    def _other(self, columns: int) -> tuple[str, list[str]]:
        is_command = self._request.kind == "execute"
        title = "Command" if is_command else plain(visible(self._request.tool_name))
        return self._theme.paint("tool", title), _folded(self._text, columns)

    def _name(self, path: str) -> str:
        for root in self._roots:
            if Path(path).is_relative_to(root):
                path = str(Path(path).relative_to(root))
                break
        return plain(visible(path))


def _folded(text: str, columns: int) -> list[str]:
    return [part for line in text.split("\n") for part in fold(line, columns)]
