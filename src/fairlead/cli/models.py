"""The list of models, for `--list-models`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.cli.console import complain, say

if TYPE_CHECKING:
    from fairlead.agent import Agent
    from fairlead.core.model import Model


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
