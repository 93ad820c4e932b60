"""`fairlead --help`, `fairlead help` and `fairlead version`. The texts are generated from the tables of flags and subcommands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from fairlead.cli.console import print_text
from fairlead.cli.flags import COMMON_FLAGS, FLAG_SECTIONS, FLAGS, Flag, UsageError
from fairlead.cli.subcommands.subcommand import Group, Subcommand, help_of
from fairlead.cli.subcommands.table import SUBCOMMANDS, command_named, find, suggestion

if TYPE_CHECKING:
    from fairlead.wire.dialects import Program

_TITLES: dict[Group, str] = {
    "start": "Start",
    "sessions": "Sessions",
    "models": "Models and keys",
    "projects": "Projects",
    "hosts": "Editors, hosts and programs",
    "fleet": "Jobs on one machine or many",
    "help": "Help",
}
_INTRODUCTION = """\
fairlead: a coding agent for terminals, editors and programs.

  fairlead [PROMPT]              chat in the terminal
  fairlead -p PROMPT [@FILE...]  answer a prompt and exit; piped input comes before it
  fairlead --mode rpc            serve a host on standard input and output
  fairlead COMMAND [--help]      run one of these commands, or explain it"""
_KEYS = """\
Keys come from the environment (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY ...), from `fairlead login` or
from models.json. `fairlead doctor` shows what was found and what is missing."""
_ALL, _PAGES = "flags", "pages"
#: The pages of the documentation: in an installed package, else in a checkout.
_DOCS = (Path(__file__).parents[2] / "docs", Path(__file__).parents[4] / "docs")


def show_help(words: Sequence[str], program: Program) -> int:
    """Print the overview, the help of one subcommand, all flags, or a page of the documentation.

    Returns the exit code. Raises UsageError.
    """
    if len(words) > 1:
        raise command_named("help").usage_error()
    topic = words[0] if words else None
    if topic is None:
        print_text(overview(program))
    elif topic == _ALL:
        print_text(all_flags())
    elif topic == _PAGES:
        print_text("\n".join(f"{name:28}{title}" for name, title in list_pages()))
    elif (page := find_page(topic)) is not None and (topic == page.name or find(topic, program) is None):
        print_text(page.read_text(encoding="utf-8").rstrip())
    else:
        command = find(topic, program)
        if command is None:
            near = suggestion(topic, program)
            hint = f" Did you mean `fairlead help {near}`?" if near else ""
            lists = "`fairlead --help` lists the commands, and `fairlead help pages` the documentation."
            raise UsageError(f"There is no command {topic}.{hint} {lists}")
        print_text(help_of(command))
    return 0


def list_pages() -> list[tuple[str, str]]:
    """Return the pages of the documentation: the file name and the title of each."""
    folder = next((folder for folder in _DOCS if (folder / "README.md").is_file()), None)
    pages = [] if folder is None else sorted(folder.glob("*.md"))
    return [(page.name, page.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")) for page in pages]


def find_page(name: str) -> Path | None:
    """Find a page of the documentation by its file name, with or without `.md`."""
    file = name if name.endswith(".md") else f"{name}.md"
    if "/" in file:
        return None
    return next((folder / file for folder in _DOCS if (folder / file).is_file()), None)


def show_version(words: Sequence[str], program: Program) -> int:
    """Print the version. Returns the exit code. Raises UsageError."""
    if words:
        raise command_named("version").usage_error()
    print_text(program.version_line)
    return 0


def overview(program: Program) -> str:
    """Return what `fairlead --help` prints: the commands and the common flags. Under a peer's name it has all flags."""
    commands = [command for command in SUBCOMMANDS if not command.is_hidden and find(command.name, program) is not None]
    parts = [_INTRODUCTION]
    for group in get_args(Group):
        if rows := [command for command in commands if command.group == group]:
            parts.append("\n".join([_TITLES[group], *map(_command_line, rows)]))
    if program.dialect is not None:
        return "\n\n".join([*parts, all_flags(long_first=True), _KEYS])
    common = [flag for flag in FLAGS if any(name in COMMON_FLAGS for name in flag.names)]
    parts.append("\n".join(["Common flags (`fairlead help flags` lists all)", *_flag_lines(common)]))
    return "\n\n".join([*parts, _KEYS])


def all_flags(*, long_first: bool = False) -> str:
    """Return what `fairlead help flags` prints.

    `long_first` puts long names first, as pi does: hosts look at the start of the lines of `pi --help` for what it can do.
    """
    return "\n\n".join("\n".join([title, *_flag_lines(flags, long_first)]) for title, flags in FLAG_SECTIONS.items())


def _command_line(command: Subcommand) -> str:
    return f"  {command.name:14}{command.summary}"


def _flag_lines(flags: Iterable[Flag], long_first: bool = False) -> list[str]:
    return [line for flag in flags for line in _flag_line(flag, long_first)]


def _flag_line(flag: Flag, long_first: bool) -> list[str]:
    names = sorted(flag.names, key=lambda name: long_first and not name.startswith("--"))
    value = f"[{flag.metavar}]" if flag.kind in ("optional", "session") else flag.metavar
    left = f"  {', '.join(names)} {value}".rstrip()
    return [f"{left:34}{flag.help}"] if len(left) < 34 else [left, f"{'':34}{flag.help}"]
