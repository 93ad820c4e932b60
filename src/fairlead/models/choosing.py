"""Chooses the model for people who have not named one.

The order is: what the settings and the keys allow, a model server that runs on this machine, weights on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from fairlead.config.settings import Settings
from fairlead.core.model import Model

if TYPE_CHECKING:
    from fairlead.models.registry import Registry

NOTHING_FOUND = (
    "No model can be used: no provider's key is set, and no model server was found on this machine. Set a key, such as "
    "ANTHROPIC_API_KEY; or start Ollama, LM Studio, llama.cpp or vLLM; or run a small model here with `fairlead local`. "
    "docs/local-models.md has the lines to type."
)


class ModelChoice(Struct, frozen=True):
    """A model and the reason for it, as one sentence; None and what to do if there is no model."""

    model: Model | None
    why: str
    #: Whether the model runs on this machine, although the user has not asked for that.
    is_local: bool = False


async def choose_model(registry: Registry, settings: Settings, env: Mapping[str, str]) -> ModelChoice:
    """Choose the best available model. Searches this machine only if no key and no setting gives a model.

    Args:
        registry: the known models. It gets the servers and weights that are found as providers.
        settings: the settings of the user and the project.
        env: the environment variables.

    Returns:
        The choice.

    Raises:
        ConfigError: `FAIRLEAD_LOCAL_SERVERS` cannot be used.
    """
    model = registry.default(settings)
    if model is not None:
        return ModelChoice(model, f"{model.provider}/{model.id} answers: {registry.reason_for_default(model, settings)}.")
    from fairlead.models.local.servers import find_servers

    found = await find_servers(env)
    for server in found:
        registry.unlisted.use_found(server)
    for server in found:
        model = registry.find(server.name, server.models[0].id)
        if model is not None:
            where = server.base_url.removesuffix("/v1")
            return ModelChoice(model, f"No key is set: {model.provider}/{model.id} answers, at {where} on this machine.", True)
    model = _downloaded(registry)
    if model is not None:
        why = f"No key is set and no model server runs: {model.provider}/{model.id} answers, whose weights you downloaded."
        return ModelChoice(model, why, True)
    return ModelChoice(None, NOTHING_FOUND)


def _downloaded(registry: Registry) -> Model | None:
    """Return a model whose weights the user has downloaded with fairlead, if llama.cpp is installed to run it."""
    from fairlead.models.local.llama import is_installed
    from fairlead.models.local.weights import DOWNLOADS, models_folder

    folder = models_folder(registry.home)
    ready = [each for each in DOWNLOADS if os.path.exists(folder / each.file)]
    return registry.find("local", ready[0].name) if ready and is_installed() else None
