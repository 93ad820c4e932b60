"""`fairlead models` and `--list-models`: the models that exist, which of them have a key, and what they cost."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from fairlead.cli.advice import nearest
from fairlead.cli.build import build_agent, parse_extension_flags, stdout_to_stderr
from fairlead.cli.console import complain, print_exact, print_text
from fairlead.cli.event_loop import run
from fairlead.cli.flags import Arguments
from fairlead.cli.subcommands.table import command_named
from fairlead.core.lenient import one_line
from fairlead.models.local.local_servers import find_servers
from fairlead.models.model_patterns import NOTHING_FOUND

if TYPE_CHECKING:
    from fairlead.agent import Agent
    from fairlead.core.model import Model
    from fairlead.models.registry import Registry
    from fairlead.wire.dialects import Program

_NO_KEY = "no key"


def models(words: Sequence[str], program: Program) -> int:
    """List models, those with a key by default. Returns the exit code, 1 if there is none. Raises UsageError."""
    options = command_named("models").parse(words)
    agent = _agent([], Arguments(isolated=options.has("isolated")), program)
    _add_local_servers(agent)
    wanted = " ".join(options.words).lower().split()
    registry = agent.registry
    usable = {(model.provider, model.id) for model in registry.available()}
    found = _matching(registry.all(), wanted)
    shown = found if options.has("all") else [model for model in found if (model.provider, model.id) in usable]
    if not shown and wanted:  # a search also finds models that only lack a key
        shown = found
    if options.has("json"):
        print_exact(json.dumps([_as_data(model, registry, usable) for model in shown], indent=2, ensure_ascii=False))
        return 0 if shown else 1
    if not shown:
        complain(_explain_empty_list(registry, " ".join(options.words)))
        return 1
    rows = [(*_HEADINGS, "key"), *((*_row(model), _key(model, registry, usable)) for model in shown)]
    _print(rows)
    hidden = len(found) - len(shown)
    if hidden and not wanted:
        complain(f"{hidden} more models have no key. `fairlead models --all` lists them.")
    return 0


def list_for_flag(argv: Sequence[str], arguments: Arguments, program: Program) -> int:
    """Print the models that have a key and match `--list-models`. Returns the exit code."""
    agent = _agent(argv, arguments, program)
    search = arguments.list_models or ""
    if program.lists_models_as_pi:
        return _list_as_pi(agent.registry.available(), search)
    words = search.lower().split()
    found = [
        model for model in agent.registry.available() if all(word in f"{model.provider}/{model.id}".lower() for word in words)
    ]
    if not found:
        if search:
            complain(f"No model matches {search!r}.")
        else:
            complain(
                "No provider has a key. Set one, such as ANTHROPIC_API_KEY; `fairlead models` also finds servers on this machine."
            )
        return 1
    _print([_HEADINGS, *map(_row, found)])
    return 0


def _list_as_pi(models: Sequence[Model], search: str) -> int:
    """Print models as pi does: by name and without prices. The letters of each word of `search` need not be side by side."""
    words = search.lower().replace("/", " ").split()
    found = sorted((model for model in models if all(_follow(word, _name(model)) for word in words)), key=_name)
    if found:
        _print([row[:6] for row in (_HEADINGS, *map(_row, found))])
    elif models:
        print_text(f'No models matching "{search}"')
    else:
        print_text("No models available. Set an API key in the environment, such as ANTHROPIC_API_KEY.")
    return 0


def _name(model: Model) -> str:
    return f"{model.provider} {model.id}".lower()


def _follow(word: str, name: str) -> bool:
    letters = iter(name)
    return all(letter in letters for letter in word)


def _matching(models: Sequence[Model], words: Sequence[str]) -> list[Model]:
    return [model for model in models if all(word in f"{model.provider}/{model.id}".lower() for word in words)]


def _agent(argv: Sequence[str], arguments: Arguments, program: Program) -> Agent:
    """Build an agent, with its extensions, which may add models."""
    agent = build_agent(arguments, None, program)
    if arguments.unknown or agent.extensions.exist():

        async def load() -> None:
            await parse_extension_flags(agent, argv, arguments)
            await agent.extensions.load()

        with stdout_to_stderr():
            run(load())
    return agent


def _add_local_servers(agent: Agent) -> None:
    """Add the models of servers that run on this machine."""
    for server in run(find_servers(os.environ)):
        agent.registry.unlisted.use_found(server)


def _explain_empty_list(registry: Registry, search: str) -> str:
    if search:
        near = nearest(search, [model.id for model in registry.all()])
        return f"No model matches {search!r}.{near} `fairlead models --all` lists all."

    return NOTHING_FOUND


_HEADINGS = ("provider", "model", "context", "max-out", "thinking", "images", "$/M in", "$/M out")


def _row(model: Model) -> tuple[str, ...]:
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


def _key(model: Model, registry: Registry, usable: set[tuple[str, str]]) -> str:
    """Say briefly where the key of a model comes from."""
    if (model.provider, model.id) not in usable:
        return _NO_KEY
    source = registry.key_source(model.provider)
    if source is None:
        return "needs none"
    return source.removeprefix("the environment variable ").removeprefix("the ")


def _as_data(model: Model, registry: Registry, usable: set[tuple[str, str]]) -> dict[str, Any]:
    is_usable = (model.provider, model.id) in usable
    source = registry.key_source(model.provider) if is_usable else None
    return {**msgspec.to_builtins(model), "isUsable": is_usable, "keySource": source}


def _print(rows: Sequence[Sequence[str]]) -> None:
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        print_text("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _thousands(count: int) -> str:
    return f"{round(count / 1e6, 1):g}M" if count >= 1_000_000 else f"{round(count / 1000, 1):g}K"
