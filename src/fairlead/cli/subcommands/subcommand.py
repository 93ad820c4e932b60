"""What subcommands share: their rows in the table, the parsers of their flags, their help, and tables for people."""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct

from fairlead.cli.advice import nearest
from fairlead.cli.flags import Flag, UsageError

if TYPE_CHECKING:
    from fairlead.wire.dialects import Program


Run: TypeAlias = "Callable[[Sequence[str], Program], int]"
#: The headings of `fairlead --help`, in its order.
Group: TypeAlias = Literal["start", "sessions", "models", "projects", "hosts", "fleet", "help"]


class Subcommand(Struct, frozen=True, kw_only=True):
    """One subcommand: a row of the table."""

    name: str
    group: Group
    #: What it does, in a few words for the list of all subcommands.
    summary: str
    #: The function that runs it, as `module:function`; `.module` is in the package above.
    run: str
    #: What may follow its name, one entry per form: `[PATH] [--list]`.
    usage: tuple[str, ...] = ("",)
    #: More about it than the summary says, for its `--help`.
    about: str = ""
    #: Its own flags. `Flag.name` is their key in `Options.values`.
    flags: tuple[Flag, ...] = ()
    #: What its first word can be, for completions: names of actions, or a kind of value such as `<file>`.
    words: tuple[str, ...] = ()
    #: Command lines without the leading `fairlead`.
    examples: tuple[str, ...]
    #: Whether it also exists when fairlead was started under the name of another program.
    for_peers: bool = False
    #: Whether `fairlead --help` leaves it out.
    is_hidden: bool = False

    def load(self) -> Run:
        """Import the module and return the function."""
        module, _, function = self.run.partition(":")
        return getattr(import_module(f".{module}", __package__), function)

    def usage_error(self, problem: str = "") -> UsageError:
        """Return the error for an invalid command line, with the forms that are valid."""
        return UsageError("\n".join([*filter(None, [problem]), usage_text(self)]))

    def parse(self, words: Sequence[str]) -> Options:
        """Split words into the subcommand's flags and the rest. Raises UsageError for an unknown flag or a missing value."""
        known = {name: flag for flag in self.flags for name in flag.names}
        values: dict[str, Any] = {}
        rest: list[str] = []
        left = list(reversed(words))
        while left:
            word = left.pop()
            if word == "--":
                rest += reversed(left)
                break
            if not word.startswith("-") or word == "-":
                rest.append(word)
                continue
            name, has_value, value = word.partition("=") if word.startswith("--") else (word, "", "")
            if name not in known:
                raise self.usage_error(f"fairlead {self.name} has no flag {name}.{nearest(name, known)}")
            flag = known[name]
            if flag.kind == "switch":
                if has_value:
                    raise self.usage_error(f"{name} takes no value.")
                values[flag.name] = True
                continue
            if not has_value:
                if not left:
                    raise self.usage_error(f"{name} needs a value: {flag.metavar}.")
                value = left.pop()
            if flag.choices and value not in flag.choices:
                raise self.usage_error(f"{name}: expected {' or '.join(flag.choices)}, got {value!r}.")
            values[flag.name] = [*values.get(flag.name, ()), value] if flag.kind == "list" else value
        return Options(values, rest)


class Options(Struct):
    """The parsed words of a subcommand: the values of its flags by name (True for a switch), and the other words."""

    values: dict[str, Any]
    words: list[str]

    def has(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str) -> str | None:
        return self.values.get(name)

    def texts(self, name: str) -> list[str]:
        return self.values.get(name, [])


def usage_text(command: Subcommand) -> str:
    """Return the valid forms of a command line, one per line."""
    return "\n".join(
        f"{'usage:' if index == 0 else '      '} fairlead {command.name} {form}".rstrip()
        for index, form in enumerate(command.usage)
    )


def help_of(command: Subcommand) -> str:
    """Return what `fairlead COMMAND --help` prints."""
    parts = [usage_text(command), command.about or f"{command.summary[0].upper()}{command.summary[1:]}."]
    if command.flags:
        lefts = [f"{', '.join(flag.names)} {flag.metavar}".rstrip() for flag in command.flags]
        width = max(map(len, lefts)) + 2
        parts.append("\n".join(f"  {left:{width}}{flag.help}" for left, flag in zip(lefts, command.flags, strict=True)))
    word = "Example" if len(command.examples) == 1 else "Examples"
    parts.append("\n".join([f"{word}:", *(f"  fairlead {example}".rstrip() for example in command.examples)]))
    return "\n\n".join(parts)


#: The width of a table that does not go to a terminal.
_WIDTH_OF_FILES = 160
#: The zero width space and joiner, and the selector of emoji.
_ZERO_WIDTH = "\u200b\u200d\ufe0f"


def width_of(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) or char in _ZERO_WIDTH else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def clip(text: str, cells: int) -> str:
    """Return a text in at most this many cells, with `…` for what is left out."""
    if width_of(text) <= cells:
        return text
    kept = text[:cells]
    while kept and width_of(kept) > cells - 1:
        kept = kept[:-1]
    return f"{kept.rstrip()}…"


def end_of(text: str, cells: int) -> str:
    """Return the end of a text in at most this many cells, with `…` for what is left out: it says most about a path."""
    if width_of(text) <= cells:
        return text
    kept = text[-cells:]
    while kept and width_of(kept) > cells - 1:
        kept = kept[1:]
    return f"…{kept}"


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: str = "",
    flexible: int | None = None,
    shortened: Callable[[str, int], str] = clip,
) -> str:
    """Return a table as lines of text.

    Args:
        heads: The names of the columns.
        rows: The cells, in the order of `heads`.
        right: The names of the columns that are aligned to the right, with spaces between them.
        flexible: The index of the column that is shortened if the table is wider than the terminal.
        shortened: Returns a text of that column in at most so many cells.
    """
    columns = range(len(heads))
    widths = [max(width_of(row[column]) for row in (heads, *rows)) for column in columns]
    if flexible is not None:
        others = sum(widths) - widths[flexible] + 2 * (len(heads) - 1)
        widths[flexible] = min(widths[flexible], max(12, terminal_width() - others - 1))
    right_columns = [name in right.split() for name in heads]
    lines: list[str] = []
    for row in (heads, *rows):
        cells = [(shortened if column == flexible else clip)(row[column], widths[column]) for column in columns]
        padded = [
            f"{' ' * (widths[column] - width_of(cell))}{cell}"
            if right_columns[column]
            else f"{cell}{' ' * (widths[column] - width_of(cell))}"
            for column, cell in enumerate(cells)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def terminal_width() -> int:
    """Return the number of columns for tables on standard output."""
    return shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else _WIDTH_OF_FILES
