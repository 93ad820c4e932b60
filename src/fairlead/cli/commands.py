"""The commands that print or write something and exit: `export`, `schema`, `trust` and `--list-models`.

Each subcommand is a function that takes the words after its name and the program that fairlead was started as.
It returns the exit code.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.cli.console import complain, say
from fairlead.cli.flags import UsageError
from fairlead.errors import ConfigError
from fairlead.wire.dialects import Dialect, Program, chosen_dialect

if TYPE_CHECKING:
    from fairlead.agent import Agent
    from fairlead.core.model import Model


def export(words: Sequence[str], program: Program) -> int:
    """Write a session file as an HTML page, and print its path. Raises UsageError, SessionError or ConfigError."""
    if not 1 <= len(words) <= 2 or words[0].startswith("-"):
        raise UsageError("usage: fairlead export SESSION.jsonl [PAGE.html]")
    from fairlead.export import export_file

    say(str(export_file(Path(words[0]), Path(words[1]) if len(words) == 2 else None)))
    return 0


def trust(words: Sequence[str], program: Program) -> int:
    """Trust the project in a folder (by default the current one), never trust it, forget the decision, or list all decisions."""
    from fairlead.config.home import Home
    from fairlead.config.trust import all_decisions, real_folder, save_decision

    flags = [word for word in words if word.startswith("-")]
    paths = [word for word in words if not word.startswith("-")]
    if len(flags) > 1 or len(paths) > 1 or not set(flags) <= {"--remove", "--never", "--list"}:
        raise UsageError("usage: fairlead trust [PATH] [--remove | --never | --list]")
    home = Home.find(os.environ, peer=program.home)
    if flags == ["--list"]:
        for folder, trusted in sorted(all_decisions(home).items()):
            say(f"{'trusted' if trusted else 'never  '}  {folder}")
        return 0
    folder = real_folder(Path(paths[0]).expanduser() if paths else Path.cwd())
    if flags == ["--remove"]:
        save_decision(home, folder, None)
        say(f"There is no decision about {folder} any more.")
        return 0
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a directory.")
    save_decision(home, folder, not flags)
    say(f"{folder} and the folders in it are {'never ' if flags else ''}trusted.")
    return 0


def schema(words: Sequence[str], program: Program) -> int:
    """Print the protocol of a dialect as JSON Schema or TypeScript. Raises UsageError."""
    dialect, typescript = _schema_options(words)
    try:
        chosen = chosen_dialect(dialect, os.environ, program)
    except ConfigError as error:
        raise UsageError(str(error)) from None
    text = types_text(chosen) if typescript else schema_text(chosen)
    say(text.removesuffix("\n"))
    return 0


def schema_text(dialect: Dialect) -> str:
    """Return the JSON Schema of a dialect."""
    return json.dumps(dialect.load().schema(dialect.name), indent=2, ensure_ascii=False) + "\n"


def types_text(dialect: Dialect) -> str:
    """Return the TypeScript types of a dialect."""
    return dialect.load().types(dialect.name, f"The protocol of {dialect.name}, as fairlead speaks it")


def _schema_options(words: Sequence[str]) -> tuple[str | None, bool]:
    dialect, typescript = None, False
    left = list(reversed(words))
    while left:
        word, has_value, value = left.pop().partition("=")
        if word == "--typescript" and not has_value:
            typescript = True
        elif word == "--dialect" and (has_value or left):
            dialect = value if has_value else left.pop()
        else:
            raise UsageError("usage: fairlead schema [--dialect NAME] [--typescript]")
    return dialect, typescript


def list_models(agent: Agent, search: str) -> int:
    """Print the models that have a key and whose names contain all words of `search`. Returns the exit code."""
    words = search.lower().split()
    models = [
        model for model in agent.registry.available() if all(word in f"{model.provider}/{model.id}".lower() for word in words)
    ]
    if not models:
        hint = f" matches {search!r}" if search else " can be used: no provider has a key. Set one, such as ANTHROPIC_API_KEY"
        complain(f"No model{hint}.")
        return 1
    rows = [("provider", "model", "context", "max-out", "thinking", "images", "$/M in", "$/M out"), *map(_model_row, models)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _model_row(model: Model) -> tuple[str, ...]:
    return (
        model.provider,
        model.id,
        _thousands(model.context_window),
        _thousands(model.max_tokens),
        "yes" if model.reasoning else "no",
        "yes" if "image" in model.input else "no",
        f"{model.cost.input:g}",
        f"{model.cost.output:g}",
    )


def _thousands(count: int) -> str:
    return f"{round(count / 1e6, 1):g}M" if count >= 1_000_000 else f"{round(count / 1000, 1):g}K"
