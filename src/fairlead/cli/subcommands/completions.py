"""`fairlead completions`: scripts that complete the command line in bash, zsh and fish.

They are generated from the tables of flags and subcommands, so they know what this version knows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from fairlead.cli.advice import nearest
from fairlead.cli.console import print_exact
from fairlead.cli.flags import FLAGS, Flag
from fairlead.cli.subcommands.subcommand import Subcommand
from fairlead.cli.subcommands.table import SUBCOMMANDS, command_named
from fairlead.config.home import Home
from fairlead.core.model import THINKING_LEVELS
from fairlead.models.catalog import PROVIDERS
from fairlead.models.registry import Registry
from fairlead.wire.dialects import DIALECTS, Program

_PROGRAM = "fairlead"
#: Subcommands that also take the flags of the main command.
_WITH_MAIN_FLAGS = ("acp", "local")
#: What completes a value, by the name of the value in the help.
_FOLDERS = ("DIR",)
_FILES = ("FILE", "PATH", "SAMPLE", "PAGE")


class _Values(Struct, frozen=True):
    """What can follow: certain words, files, folders; none of them if it can be anything."""

    words: tuple[str, ...] = ()
    files: bool = False
    folders: bool = False


#: Names that no shell expands or splits.
_PLAIN = re.compile(r"[\w.@+/-]+", re.ASCII)


class _Place(Struct, frozen=True):
    """The main command, with an empty name, or a subcommand: its flags, and what its words can be.

    The files and folders in `first` can be any word, the names only the first one.
    """

    name: str
    summary: str
    flags: tuple[Flag, ...]
    first: _Values


def completions(words: Sequence[str], program: Program) -> int:
    """Print the script for a shell. Returns the exit code. Raises UsageError."""
    command = command_named("completions")
    options = command.parse(words)
    if len(options.words) != 1:
        raise command.usage_error()
    shell = options.words[0]
    if shell not in _SHELLS:
        raise command.usage_error(f"There are no completions for {shell}.{nearest(shell, _SHELLS)}")
    models = [f"{model.provider}/{model.id}" for model in Registry.load(Home.find(os.environ), os.environ).all()]
    print_exact(script(shell, [name for name in models if _PLAIN.fullmatch(name)]).rstrip("\n"))
    return 0


def script(shell: str, models: Sequence[str]) -> str:
    """Return the script for a shell. `models` complete the value of `--model`."""
    known = _Known(tuple(models))
    main = _Place("", "", FLAGS, _Values(files=True))
    return _SHELLS[shell](known, [main, *(_place(command, known) for command in SUBCOMMANDS if not command.is_hidden)])


class _Known(Struct, frozen=True):
    """The names that values can have."""

    models: tuple[str, ...]

    def of(self, flag: Flag) -> _Values:
        """Return what completes the value of a flag."""
        named = {"--provider": tuple(PROVIDERS), "--dialect": tuple(DIALECTS), "--thinking": THINKING_LEVELS}
        if flag.metavar == "PATTERN":  # `local --model` takes other names
            named["--model"] = self.models
        words = flag.choices or named.get(flag.names[-1], ())
        kinds = flag.metavar.split("|")
        files = any(kind in _FILES for kind in kinds)
        return _Values(words, files=files, folders=not files and any(kind in _FOLDERS for kind in kinds))

    def first(self, words: Iterable[str]) -> _Values:
        """Return what completes the first word of a subcommand."""
        kinds = {
            "<dialect>": tuple(DIALECTS),
            "<provider>": tuple(PROVIDERS),
            "<command>": tuple(command.name for command in SUBCOMMANDS if not command.is_hidden),
        }
        given = list(words)
        plain = tuple(name for word in given for name in kinds.get(word, () if word.startswith("<") else (word,)))
        return _Values(plain, files="<file>" in given, folders="<folder>" in given)


def _place(command: Subcommand, known: _Known) -> _Place:
    more = FLAGS if command.name in _WITH_MAIN_FLAGS else ()
    taken = {name for flag in command.flags for name in flag.names}
    flags = (*command.flags, *(flag for flag in more if not taken & set(flag.names)))
    if not any("--help" in flag.names for flag in flags):
        flags = (*flags, Flag(("-h", "--help"), "help", "switch", "explain this command"))
    return _Place(command.name, command.summary, flags, known.first(command.words))


def _takes_value(flag: Flag) -> bool:
    return flag.kind in ("value", "list")


# bash

_BASH = """\
# Completions of fairlead for bash. Load them with: source <(fairlead completions bash)
_fairlead() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command="" first="" words="" kind="" line
    [[ $prev == "=" ]] && prev=${{COMP_WORDS[COMP_CWORD-2]}}
    [[ $cur == "=" ]] && cur=""
    if (( COMP_CWORD > 1 )) && [[ ${{COMP_WORDS[1]}} != -* ]]; then command=${{COMP_WORDS[1]}}; fi
    case "$command" in
{known}    *) command="" ;;
    esac
    case "$command $prev" in
{values}    *)
        case "$command" in
{places}        esac ;;
    esac
    if (( COMP_CWORD > 2 )); then
        for line in "${{COMP_WORDS[@]:2:COMP_CWORD-2}}"; do [[ " $first " == *" $line "* ]] && first=""; done
    fi
    words="$first $words"
    COMPREPLY=()
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
        [[ $cur == @* ]] && compgen -P @ -f -- "${{cur#@}}"
        compgen -W "$words" -- "$cur"
        [[ $kind == file ]] && compgen -f -- "$cur"
        [[ $kind == folder ]] && compgen -d -- "$cur"
    )
    if [[ -n $kind ]]; then compopt -o filenames 2>/dev/null; fi
}}
complete -F _fairlead {program}
"""


def _bash(known: _Known, places: Sequence[_Place]) -> str:
    values: list[str] = []
    offered: list[str] = []
    commands = [place.name for place in places if place.name]
    for place in places:
        for flag in filter(_takes_value, place.flags):
            patterns = "|".join(f'"{place.name} {name}"' for name in flag.names)
            values.append(f"    {patterns}) {_bash_values(known.of(flag))} ;;\n")
        names = [name for flag in place.flags for name in flag.names]
        if place.name:
            rest = _bash_values(replace(place.first, words=tuple(names)))
            offered.append(f"        {place.name}) first='{' '.join(place.first.words)}'; {rest} ;;\n")
        else:
            main = f"if (( COMP_CWORD == 1 )); then words='{' '.join(commands)}'; fi; words+=' {' '.join(names)}'; kind=file"
            offered.append(f"        '') {main} ;;\n")
    names = "|".join(commands)
    return _BASH.format(known=f"    {names}) ;;\n", values="".join(values), places="".join(offered), program=_PROGRAM)


def _bash_values(values: _Values) -> str:
    words = " ".join(values.words)
    kind = "file" if values.files else "folder" if values.folders else ""
    return f"words='{words}'; kind={kind}" if kind else f"words='{words}'"


# zsh

_ZSH = """\
#compdef fairlead
# Completions of fairlead for zsh. Load them with: source <(fairlead completions zsh)
_fairlead() {{
  local -a subcommands=(
{commands}  )
  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
    compset -P @ || _describe -t commands command subcommands
    _files
    return
  fi
  case $words[2] in
{places}  *) _arguments -s : {main} '*:prompt or file:{{compset -P @; _files}}' ;;
  esac
}}
if [[ $funcstack[1] == _fairlead ]]; then _fairlead "$@"; else compdef _fairlead {program}; fi
"""


def _zsh(known: _Known, places: Sequence[_Place]) -> str:
    main, *others = places
    commands = "".join(f"    {_quote(f'{place.name}:{place.summary}')}\n" for place in others)
    lines = [
        f"  {place.name}) shift words; (( CURRENT-- )); _arguments -s : {_zsh_flags(known, place)} {_zsh_words(place)} ;;\n"
        for place in others
    ]
    return _ZSH.format(commands=commands, places="".join(lines), main=_zsh_flags(known, main), program=_PROGRAM)


def _zsh_words(place: _Place) -> str:
    """Return what the first word can be, and what the others can be."""
    others = replace(place.first, words=())
    return f"{_quote(f'1:word:{_zsh_action(place.first)}')} {_quote(f'*:word:{_zsh_action(others)}')}"


def _zsh_flags(known: _Known, place: _Place) -> str:
    specs: list[str] = []
    for flag in place.flags:
        text = flag.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
        value = f":{flag.metavar.replace(':', ' ')}:{_zsh_action(known.of(flag))}" if _takes_value(flag) else ""
        repeats = "*" if flag.kind == "list" else ""
        specs += [_quote(f"{repeats}{name}[{text}]{value}") for name in flag.names]
    return " ".join(specs)


def _zsh_action(values: _Values) -> str:
    if values.words and (values.files or values.folders):
        files = "_files" if values.files else "_files -/"
        return f"{{compadd -- {' '.join(values.words)}; {files}}}"
    if values.words:
        return f"({' '.join(values.words)})"
    return "_files" if values.files else "_files -/" if values.folders else ""


# fish

#: Completes `@FILE`.
_FISH_ATTACHED = (
    "complete -c fairlead -n \"string match -q -- '@*' (commandline -ct)\""
    " -a '@(__fish_complete_path (commandline -ct | string sub -s 2))'"
)


def _fish(known: _Known, places: Sequence[_Place]) -> str:
    main, *others = places
    names = " ".join(place.name for place in others)
    lines = ["# Completions of fairlead for fish. Load them with: fairlead completions fish | source", _FISH_ATTACHED]
    for place in others:
        text = _quote_fish(place.summary)
        lines.append(f"complete -c fairlead -n __fish_use_subcommand -a {place.name} -d {text}")
    lines += _fish_flags(known, main, f"not __fish_seen_subcommand_from {names}")
    for place in others:
        condition = f"__fish_seen_subcommand_from {place.name}"
        lines += _fish_flags(known, place, condition)
        lines += _fish_words(place.first, condition)
    return "\n".join(lines) + "\n"


def _fish_words(values: _Values, condition: str) -> list[str]:
    lines: list[str] = []
    if values.words:
        words = " ".join(values.words)
        is_first = _quote_fish(f"{condition}; and not __fish_seen_subcommand_from {words}")
        lines.append(f"complete -c fairlead -n {is_first} -a {_quote_fish(words)}")
    if values.folders:
        lines.append(f"complete -c fairlead -n {_quote_fish(condition)} -a '(__fish_complete_directories)'")
    if not values.files:
        lines.append(f"complete -c fairlead -n {_quote_fish(condition)} -f")
    return lines


def _fish_flags(known: _Known, place: _Place, condition: str) -> list[str]:
    return [
        f"complete -c fairlead -n {_quote_fish(condition)} {_fish_names(flag)}{_fish_value(known, flag)}"
        f" -d {_quote_fish(flag.help)}"
        for flag in place.flags
    ]


def _fish_names(flag: Flag) -> str:
    return " ".join(
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" if len(name) == 2 else f"-o {name[1:]}"
        for name in flag.names
    )


def _fish_value(known: _Known, flag: Flag) -> str:
    if not _takes_value(flag):
        return ""
    values = known.of(flag)
    if values.folders:
        return " -x -a '(__fish_complete_directories)'"
    if values.files:
        return " -r -F"
    return f" -x -a {_quote_fish(' '.join(values.words))}" if values.words else " -x"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _quote_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SHELLS: dict[str, Callable[[_Known, Sequence[_Place]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
