"""Code with colours, for text that arrives line by line.

Pygments is imported when the first code in a known language appears.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from fairlead.chat.view.text import RESET
from fairlead.chat.view.theme import Theme

#: A part of a code block is complete at the first blank line after this many lines, and at the latest after the second number.
#: Its lines are final then. Comments over several lines seldom contain blank lines, so few of them are divided.
_SHORTEST_PART = 16
_LONGEST_PART = 64
#: Parts and lines of more characters are not highlighted, because that may take long.
_MOST_CHARACTERS = 10_000
_LONGEST_LINE = 1000
#: The languages whose lexers were tested with hostile input. The patterns of others can block the interpreter for minutes.
_LANGUAGES = frozenset(
    """bash batch c clojure cmake c++ cpp csharp css dart diff docker dockerfile elixir erlang fsharp go graphql groovy haskell
    hcl html http java javascript js json jsx julia kotlin less lua make makefile markdown nginx nim nix objective-c perl php
    powershell properties protobuf py pycon python python3 pytb r rb rs rst ruby rust sass scala scss sh shell solidity sql swift
    tcl terraform tex toml ts tsx typescript vb.net vim xml yaml yml zig zsh""".split()
)
_COLOURS: dict[str, dict[str, int | str]] = {
    "dark": {
        "Comment": "3;38;5;244",
        "Comment.Preproc": 139,
        "Keyword": 110,
        "Keyword.Constant": 173,
        "Operator.Word": 110,
        "Literal.String": 150,
        "Literal.String.Escape": 180,
        "Literal.Number": 173,
        "Name.Attribute": 180,
        "Name.Builtin": 116,
        "Name.Class": 222,
        "Name.Constant": 173,
        "Name.Decorator": 139,
        "Name.Exception": 116,
        "Name.Function": 222,
        "Name.Tag": 110,
        "Name.Variable": 116,
        "Generic.Heading": "1",
        "Generic.Subheading": 110,
        "Generic.Inserted": 114,
        "Generic.Deleted": 174,
        "Generic.Prompt": 244,
        "Generic.Traceback": 174,
    },
    "light": {
        "Comment": "3;38;5;243",
        "Comment.Preproc": 90,
        "Keyword": 25,
        "Keyword.Constant": 130,
        "Operator.Word": 25,
        "Literal.String": 28,
        "Literal.String.Escape": 94,
        "Literal.Number": 130,
        "Name.Attribute": 94,
        "Name.Builtin": 30,
        "Name.Class": 94,
        "Name.Constant": 130,
        "Name.Decorator": 90,
        "Name.Exception": 30,
        "Name.Function": 94,
        "Name.Tag": 25,
        "Name.Variable": 30,
        "Generic.Heading": "1",
        "Generic.Subheading": 25,
        "Generic.Inserted": 28,
        "Generic.Deleted": 124,
        "Generic.Prompt": 243,
        "Generic.Traceback": 124,
    },
}


class Code:
    """One block of code. Lines go in as they arrive and come out with colours."""

    def __init__(self, theme: Theme, language: str) -> None:
        self._lexer = _lexer(language) if theme.highlighting else None
        self._styles = _Styles.of(theme.highlighting)
        #: The lines of the part that is not complete yet, and how they look so far.
        self._part: list[str] = []
        self._so_far: list[str] = []
        #: The state of the lexer at the start of the part, and after the lines so far.
        self._state: list[str] = ["root"]
        self._state_so_far: list[str] = ["root"]

    def add(self, line: str) -> list[str]:
        """Add a complete line. Returns the lines that are final now."""
        self._part.append(line)
        count = len(self._part)
        if self._lexer is None or count >= _LONGEST_PART or (count >= _SHORTEST_PART and not line.strip()):
            return self.end()
        return []

    def end(self) -> list[str]:
        """Return the lines that were not final yet: the code is complete, or a part of it is."""
        lines, self._state = self._highlight(self._part, self._state)
        self._part, self._so_far, self._state_so_far = [], [], self._state
        return lines

    def open(self) -> list[str]:
        """Return the lines that are not final yet, as far as they can be highlighted."""
        while len(self._so_far) < len(self._part):
            (line,), self._state_so_far = self._highlight([self._part[len(self._so_far)]], self._state_so_far)
            self._so_far.append(line)
        return self._so_far

    def arriving(self, lines: Sequence[str]) -> list[str]:
        """Return lines with colours that come after those of `open` and were not added. The last one may be incomplete."""
        return self._highlight(lines, self._state_so_far)[0]

    def _highlight(self, lines: Sequence[str], state: list[str]) -> tuple[list[str], list[str]]:
        too_long = sum(map(len, lines)) > _MOST_CHARACTERS or any(len(line) > _LONGEST_LINE for line in lines)
        if self._lexer is None or too_long or not lines:
            return list(lines), state
        text = "\n".join(lines) + "\n"
        tokens, state = _tokens(self._lexer, text, state)
        return self._styles.lines(tokens)[: len(lines)], state


class _Styles:
    """The styles of tokens in one theme."""

    _known: dict[str, _Styles] = {}

    @classmethod
    def of(cls, name: str) -> _Styles:
        if name not in cls._known:
            cls._known[name] = cls(_COLOURS.get(name, {}))
        return cls._known[name]

    def __init__(self, colours: dict[str, int | str]) -> None:
        self._openers = {
            name: f"\x1b[38;5;{colour}m" if isinstance(colour, int) else f"\x1b[{colour}m" for name, colour in colours.items()
        }
        self._by_token: dict[Any, str] = {}

    def lines(self, tokens: Sequence[tuple[Any, str]]) -> list[str]:
        """Return the lines of tokens. Adjacent tokens with one style share it."""
        lines: list[str] = []
        line: list[str] = []
        current = ""
        for token, text in tokens:
            opener = self._opener(token)
            for number, part in enumerate(text.split("\n")):
                if number:
                    lines.append("".join(line) + (RESET if current else ""))
                    line, current = [], ""
                if opener != current and part.strip():
                    line.append((RESET if current else "") + opener)
                    current = opener
                line.append(part)
        return [*lines, "".join(line) + (RESET if current else "")]

    def _opener(self, token: Any) -> str:
        opener = self._by_token.get(token)
        if opener is None:
            name = ".".join(token)
            while name and name not in self._openers:
                name = name.rpartition(".")[0]
            opener = self._by_token[token] = self._openers.get(name, "")
        return opener


@cache
def _lexer(language: str) -> Any:
    """Return a lexer; None if the language is not known or Pygments is not installed."""
    name = language.lower()
    if name not in _LANGUAGES:
        return None
    try:
        from pygments.lexers import find_lexer_class_by_name  # noqa: PLC0415  an extra

        return find_lexer_class_by_name(name)()
    except (ImportError, ValueError):
        return None


def _tokens(lexer: Any, text: str, state: list[str]) -> tuple[list[tuple[Any, str]], list[str]]:
    """Return the tokens of a text, and the state of the lexer after it.

    Pygments does not return that state. Its class for lexers with a context does, and it can run the rules of most others.
    """
    from pygments.lexer import ExtendedRegexLexer, LexerContext, RegexLexer  # noqa: PLC0415  an extra

    if isinstance(lexer, RegexLexer) and type(lexer).get_tokens_unprocessed in (
        RegexLexer.get_tokens_unprocessed,
        ExtendedRegexLexer.get_tokens_unprocessed,
    ):
        context: Any = LexerContext(text, 0, list(state))
        run: Any = ExtendedRegexLexer.get_tokens_unprocessed
        try:
            return [(token, part) for _, token, part in run(lexer, None, context)], list(context.stack)
        except (TypeError, KeyError, AttributeError):  # rules that do without a context
            pass
    return [(token, part) for _, token, part in lexer.get_tokens_unprocessed(text)], ["root"]
