"""Finds the files in a folder that a command line names: its program, its script, its modules, and what its environment loads.

Programs that fairlead starts outside the sandbox, such as MCP servers and commands that print keys, run these files. What code
loads on its own account, such as the other modules of a script, cannot be known here.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from fairlead.config import project_files
from fairlead.errors import ConfigError

#: `${NAME}`, or `${NAME:-default}`.
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
#: How the working directory is written in a shell.
_HERE = re.compile(r"\$PWD\b|\$\{PWD\}|\$\(pwd\)|`pwd`")
#: Programs whose first word is a file or a folder with code.
_PYTHON = re.compile(r"(python|pypy)[0-9.]*$")
_INTERPRETER = re.compile(r"(python|pypy|node|deno|bun|tsx|ts-node|ruby|perl|php|lua|bash|dash|sh|zsh|java)[0-9.]*$")
#: Programs that run others, which they look for in a project: in which folders, and the files that say what a name stands for.
#: Of those with the same purpose, the first one that exists counts, so that a new one could replace another.
_NODE = ("node_modules/.bin", "node_modules")
_VENV = (".venv/bin", "venv/bin")
_COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml", "compose.override.yaml")
_RUNNERS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    **dict.fromkeys(("npx", "pnpx", "bunx"), (_NODE, ())),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), (_NODE, ("package.json",))),
    **dict.fromkeys(("uv", "poetry", "pdm", "hatch", "rye", "pipenv"), (_VENV, ("pyproject.toml",))),
    **dict.fromkeys(("uvx", "pipx"), ((), ())),
    **dict.fromkeys(("make", "gmake"), ((), ("GNUmakefile", "makefile", "Makefile"))),
    **dict.fromkeys(("compose", "docker-compose", "podman-compose"), ((), _COMPOSE)),
    "cargo": ((), ("Cargo.toml", "build.rs")),
    "composer": ((), ("composer.json",)),
    "deno": ((), ("deno.json", "deno.jsonc")),
    "go": ((), ("go.work", "go.mod")),
    "gradle": ((), ("settings.gradle", "settings.gradle.kts", "build.gradle", "build.gradle.kts")),
    "just": ((), ("justfile", ".justfile", "Justfile")),
    "mise": ((), ("mise.toml", ".mise.toml")),
    "mix": ((), ("mix.exs",)),
    "nix": ((), ("flake.nix",)),
    "nix-shell": ((), ("shell.nix", "default.nix")),
    "pixi": ((), ("pixi.toml",)),
    "rake": ((), ("rakefile", "Rakefile", "rakefile.rb", "Rakefile.rb")),
    "task": ((), ("Taskfile.yml", "taskfile.yml", "Taskfile.yaml", "taskfile.yaml")),
}
#: Those of them that run a project of Python by the name of its package or script, and their subcommands.
_OF_PYTHON = frozenset(("uv", "uvx", "poetry", "pdm", "hatch", "rye", "pipenv", "pipx"))
_SUBCOMMANDS = frozenset(("run", "tool", "exec", "x", "--"))
#: The name of a package, before its version. A path such as `./server` names none.
_PACKAGE = re.compile(r"(?:@[^/@]+/)?[^./@][^/@]*")
#: An object in a module, or in a file: `server.main:app`, `server/main.py:mcp`.
_OBJECT = re.compile(r"([\w./-]+):[\w.()]+")
#: Files that these are, if they are not the program or its first word, hold data that servers write.
_DATA = frozenset((".csv", ".db", ".jsonl", ".log", ".md", ".sqlite", ".sqlite3", ".tsv", ".txt"))
#: Endings that a program adds to the name of a module, and those of other files that are code even before they exist.
_ENDINGS = (".js", ".cjs", ".mjs", ".ts", ".py")
_CODE = frozenset((*_ENDINGS, ".cts", ".mts", ".sh", ".bash", ".rb", ".pl", ".json", ".toml"))
#: What separates the commands of a shell.
_SEPARATORS = ";&|()"
#: Variables with files and folders from which programs load code.
LOADING = frozenset(
    (
        *("PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "NODE_PATH", "NODE_OPTIONS", "LD_LIBRARY_PATH", "LD_PRELOAD"),
        *("DYLD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "PERL5LIB", "RUBYLIB", "RUBYOPT", "CLASSPATH", "BASH_ENV", "ENV"),
    )
)
#: A word that is longer names no file. More words, and more folders among them, are not looked at.
_LONGEST = 4096
#: The kernel reads no more of the first line of a script.
_LONGEST_SHEBANG = 256
_MOST_WORDS = 200
_MOST_FOLDERS = 5
#: Files that make an interpreter run a folder.
_ENTRIES = ("__main__.py", "package.json", "index.js", "index.mjs", "index.ts", "mod.ts")


class Command(Struct, frozen=True):
    """A command line, with the variables that are added to its environment, and the folder it starts in.

    `path` are the folders in which its programs are looked for; none if those in a project do not count.
    """

    words: Sequence[str]
    cwd: Path
    env: Mapping[str, str] = {}
    path: Sequence[Path] = ()


def expand_variables(value: Any, env: Mapping[str, str]) -> Any:
    """Replace the variables in all strings of `value`. Raises ConfigError if one is not set and has no default."""
    if isinstance(value, str):
        return VARIABLE.sub(lambda found: _value(found, env), value)
    if isinstance(value, list):
        return [expand_variables(item, env) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: expand_variables(item, env) for key, item in cast("dict[str, Any]", value).items()}
    return value


def _value(found: re.Match[str], env: Mapping[str, str]) -> str:
    name, default = found[1], found[2]
    value = env.get(name)
    if default is not None:
        return value or default  # as in a shell, an empty variable counts as not set
    if value is None:
        raise ConfigError(f"the environment has no variable {name}. Set it, or write ${{{name}:-default}}.")
    return value


def files_named_by(command: Command, root: Path) -> list[Path]:
    """Return the paths below `root` that a command line names as code. They need not exist.

    `root` itself and what is outside it are left out, and so are files with data and folders without code.
    """
    found: dict[Path, None] = {}
    own = [folder for folder in command.path if any(each.is_relative_to(root) for each in _places(folder))]
    pending = list(_find_named(command, own))
    while pending:
        path = pending.pop(0)
        for each in _places(path):
            if each != root and each.is_relative_to(root) and each not in found:
                found[each] = None
                pending += _interpreters(each, own)
    return list(found)


def _places(path: Path) -> tuple[Path, Path]:
    """Return a path as it is written, and where it leads: a link may lead into a folder that is named by its real path."""
    return Path(os.path.normpath(path)), Path(os.path.realpath(path))


def _interpreters(path: Path, folders: Sequence[Path]) -> list[Path]:
    """Return what the first line of a script names: its interpreter, and the programs for which `env` looks in `folders`."""
    try:
        data = project_files.read_start(path, _LONGEST_SHEBANG)
    except OSError:
        return []
    if not data.startswith(b"#!"):
        return []
    program, *words = os.fsdecode(data[2:].partition(b"\n")[0]).replace("\0", "").split() or [""]
    named = [folder / word for folder in folders for word in words if "/" not in word and not word.startswith("-")]
    return [path.parent / program, *named] if program else []


def shell_command(text: str, cwd: Path) -> Command:
    """Return a command line that a shell reads."""
    return Command(("sh", "-c", text), cwd)


def _find_named(command: Command, path: Sequence[Path]) -> Iterator[Path]:
    """Yield what a command line may run. `path` are the folders of PATH that may hold its programs."""
    words = [word for text in command.words[:_MOST_WORDS] for word in _split(text, command.cwd)][:_MOST_WORDS]
    # Words may name folders from which others start, as in `uv --directory server run main.py`.
    inner = dict.fromkeys(folder for word in words if os.path.isdir(folder := command.cwd / _argument(word)))
    folders = [command.cwd, *list(inner)[:_MOST_FOLDERS]]
    program = ""
    is_code = True
    for at, word in enumerate(words):
        if not word.strip(_SEPARATORS):
            is_code = True
            continue
        name = os.path.basename(word)  # noqa: PTH119
        is_option = word.startswith("-") or "=" in word
        is_program = is_code or name in _RUNNERS or _INTERPRETER.match(name) is not None
        if "/" not in word and word.strip(".") and not is_option:
            yield from (folder / word for folder in path if is_program or os.path.lexists(folder / word))
        if is_code and not word.strip("./"):  # `node .`; the folder as a whole would be too much: it may be that of the project
            yield from (command.cwd / word / entry for entry in _ENTRIES)
        after = words[at + 1] if at + 1 < len(words) else ""
        places = [_files(folder, _argument(word), is_code=is_code and not is_option) for folder in folders]
        existing = [path for found in places for path in found if os.path.lexists(path)]
        yield from existing or [path for found in places for path in found]
        for folder in folders:
            if word.startswith("-m") and _PYTHON.match(program):
                yield from _module(folder, word[2:] or after)
            if name in _RUNNERS:
                yield from (folder / manifest for manifest in _RUNNERS[name][1])
            elif program in _RUNNERS and not is_option and (package := _PACKAGE.match(word)):
                yield from (folder / place / package[0] for place in _RUNNERS[program][0])
                if program in _OF_PYTHON and word not in _SUBCOMMANDS:
                    yield from _sources(folder, word, is_value=at > 0 and words[at - 1].startswith("-"))
        if word.partition("=")[0] in LOADING:
            yield from _find_loaded(command.cwd, *word.split("=", 1)) if "=" in word else ()
        if _INTERPRETER.match(name) or name in _RUNNERS:
            program, is_code = name, True
        elif not is_option:
            is_code = False
    for text in command.words[:_MOST_WORDS]:  # a name with spaces in it
        yield from (path for path in _files(command.cwd, text[:_LONGEST], is_code=True) if os.path.lexists(path))
    for name, value in command.env.items():
        yield from _find_loaded(command.cwd, name, value)


def _split(text: str, cwd: Path) -> list[str]:
    """Return the words of an argument, which may be a command line itself."""
    text = _HERE.sub(lambda _: str(cwd), text[:_LONGEST]).replace("\0", "")
    if not any(char.isspace() or char in _SEPARATORS or char in "'\"" for char in text):
        return [text]
    try:
        lexer = shlex.shlex(text, posix=True, punctuation_chars=_SEPARATORS)
        lexer.whitespace_split = True
        return list(lexer)
    except ValueError:
        return text.split()


def _argument(word: str) -> str:
    """Return what may be a path: the value in `--name=value` and `NAME=value`, else the word."""
    name, equals, value = word.partition("=")
    return value if equals and "/" not in name else word


def _module(folder: Path, name: str) -> Iterator[Path]:
    top = name.partition(".")[0]
    if top.isidentifier():
        yield from (folder / f"{top}.py", folder / top)


def _sources(folder: Path, word: str, *, is_value: bool) -> Iterator[Path]:
    """Yield what of a project of Python has the name of a package or script. `is_value` says that it may belong to an option."""
    if (name := word.replace("-", "_").replace(".", "_")).isidentifier() and not is_value:
        found = (place / each for place in (folder / "src", folder) for each in (name, f"{name}.py"))
        yield from filter(os.path.lexists, found)


def _files(folder: Path, word: str, *, is_code: bool) -> list[Path]:
    """Return the path that a word stands for if it is that of code, or would be if it existed.

    `is_code` says that a program, or what an interpreter runs, is expected in this place.
    """
    path = folder / word
    if os.path.isdir(path):
        return [path] if is_code and any(os.path.lexists(path / name) for name in _ENTRIES) else []
    if not os.path.lexists(path) and (found := _OBJECT.fullmatch(word)) is not None:
        names = (found[1], found[1].replace(".", "/") + ".py", found[1].replace(".", "/") + "/__init__.py")
        return [other for name in names if os.path.isfile(other := folder / name)]
    if os.path.lexists(path):
        return [path] if is_code or path.suffix.lower() not in _DATA else []
    if not word or not path.name:
        return []
    if ended := [other for ending in _ENDINGS if os.path.isfile(other := path.with_name(path.name + ending))]:
        return ended
    return [path] if path.suffix.lower() in _CODE or (is_code and "/" in word) else []


def _find_loaded(cwd: Path, name: str, value: str) -> Iterator[Path]:
    """Yield what a variable makes programs load."""
    parts = [_argument(part) for word in _split(value, cwd) for part in word.split(os.pathsep) if part]
    for part in parts:
        path = cwd / part
        is_named = name.upper() in LOADING and ("/" in part or os.path.lexists(path))
        if is_named or (os.path.isfile(path) and os.access(path, os.X_OK)):
            yield path
