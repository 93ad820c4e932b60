"""What a provider calls the levels of thinking."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.core.model import THINKING_LEVELS, Model, ThinkingLevel

#: The models of the first GPT-5 generation, the only ones that know "minimal" and think by default.
_FIRST_GPT_5 = frozenset({"gpt-5", "gpt-5-mini", "gpt-5-nano"})

_EFFORTS: Mapping[str, str | None] = {
    "off": None,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
}


def provider_level(model: Model, level: ThinkingLevel, names: Mapping[str, str | None]) -> str | None:
    """What the provider of `model` calls `level`: by the model's own map, else by `names`.

    For a level that the model lacks it is the nearest lower one, else the nearest higher one. None
    means that there is nothing to say: the provider's default holds.
    """
    called = {**names, **(model.thinking_level_map or {})}
    if level == "off":
        return called.get("off")
    at = THINKING_LEVELS.index(level)
    nearest = (*reversed(THINKING_LEVELS[1 : at + 1]), *THINKING_LEVELS[at + 1 :])
    return next((name for candidate in nearest if (name := called.get(candidate)) is not None), None)


def openai_efforts(model: Model) -> Mapping[str, str | None]:
    """OpenAI's efforts by level: those that every model with efforts accepts.

    "minimal", "xhigh" and "none" are refused by most models; a model's `thinking_level_map` allows them.
    """
    undated = model.id.rpartition("/")[2].partition("-20")[0]
    if undated in _FIRST_GPT_5:
        return {**_EFFORTS, "off": "minimal", "minimal": "minimal"}
    return _EFFORTS
