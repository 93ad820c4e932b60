"""Finds models by name, and chooses one for people who have not named any.

A pattern is `provider/id`, an id, part of an id or name, or a glob. Each may end in `:level`, a thinking level. Without a name,
the order is: what the settings and the keys allow, a model server that runs on this machine, weights on this machine.
"""

from __future__ import annotations

import difflib
import fnmatch
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from fairlead.config.settings import Settings
from fairlead.core.model import THINKING_LEVELS, Model, ThinkingLevel
from fairlead.errors import ModelNotFound
from fairlead.models.local import local_servers

if TYPE_CHECKING:
    from fairlead.models.registry import Registry


#: What a level may be called: `max` is the highest, `auto` leaves the choice to the default.
LEVEL_NAMES: Mapping[str, ThinkingLevel | None] = {
    "auto": None,
    "max": THINKING_LEVELS[-1],
    **{level: level for level in THINKING_LEVELS},
}

_LIST_ADVICE = "Use --list-models to see available models."
_KEY_ADVICE = "No provider has a key yet: set one, such as ANTHROPIC_API_KEY. `fairlead models --all` lists every model."

Choice: TypeAlias = tuple[Model, ThinkingLevel | None]
Naming: TypeAlias = Callable[[Model], str]
#: Gives the models to choose from, when they are needed.
Source: TypeAlias = Callable[[], Sequence[Model]]
#: Gives those of some models that can be used.
Usable: TypeAlias = Callable[[Sequence[Model]], list[Model]]


def match(pattern: str, sources: Sequence[Source], usable: Usable) -> Choice:
    """Find the model that `pattern` names.

    Args:
        pattern: a name as the module describes it, but not a glob.
        sources: the models to choose from. Exact names are looked up in each source in turn, so that later sources need not
            be read; everything else is looked up in the last one, which has all models.
        usable: tells which models can be used. They win over those that cannot.

    Returns:
        The model, and the thinking level that the pattern names, if it does.

    Raises:
        ModelNotFound: no model matches, or models of several providers do.
    """
    for source in sources:
        models = source()
        found = exact(pattern, models, full_name)
        if found:
            return found[0]
        found = exact(pattern, models, bare_id)
        if usable([model for model, _ in found]):
            return _one_of(pattern, found, usable)
    # A name without its provider means a model that can be used, even if another has exactly this name.
    candidates = sources[-1]()
    name, level = split_level(pattern)
    similar = matching(name, candidates) if name else []
    if can_be_used := usable(similar):
        return best(can_be_used), level
    if found := exact(pattern, candidates, bare_id):
        return _one_of(pattern, found, usable)
    if not similar:
        raise make_not_found_error(pattern, candidates, can_use_any=bool(usable(sources[-1]())))
    return best(similar), level


def match_all(pattern: str, sources: Sequence[Source], usable: Usable, warnings: list[str]) -> list[Choice]:
    """Find every model that a glob matches, or the one model that any other pattern names.

    Takes and raises the same as `match`. A glob means the models that can be used, or all it matches if none can. A level that
    does not exist is left out, with a sentence in `warnings`.
    """
    name, level = split_level(pattern)
    if not is_glob(name):
        try:
            return [match(pattern, sources, usable)]
        except Ambiguous:
            raise
        except ModelNotFound:
            without, colon, suffix = pattern.rpartition(":")
            if not colon or not without:
                raise
            found = match_all(without, sources, usable, warnings)
            warnings.append(f'Unknown thinking level "{suffix}" in "{pattern}". The default level is used.')
            return found
    models = sources[-1]()
    found = matching(name, models)
    if not found:
        raise make_not_found_error(pattern, models, can_use_any=bool(usable(models)))
    return [(model, level) for model in usable(found) or found]


def _one_of(pattern: str, choices: list[Choice], usable: Usable) -> Choice:
    can_be_used = usable([model for model, _ in choices])
    choices = [choice for choice in choices if choice[0] in can_be_used] or choices
    if len(choices) > 1:
        raise ambiguous(pattern, [model for model, _ in choices])
    return choices[0]


def unknown_model(pattern: str, models: Sequence[Model], base_of: Callable[[str], Model | None]) -> Choice | None:
    """Describe the model that a pattern names with its provider, if the provider is known and the model is not.

    Args:
        pattern: the pattern; a thinking level at its end is not part of the id.
        models: all models.
        base_of: returns a model of a provider. The described model has its features.
    """
    lower = pattern.lower()
    # A provider's name may contain a slash itself.
    known = {model.provider for model in models if lower.startswith(f"{model.provider.lower()}/")}
    if not known:
        return None
    provider = max(known, key=len)
    model_id, level = split_level(pattern[len(provider) + 1 :].strip())
    base = base_of(provider) or next(model for model in models if model.provider == provider)
    if not model_id or is_glob(model_id):
        return None
    reasoning = base.reasoning or level not in (None, "off")
    return replace(base, id=model_id, name=model_id, reasoning=reasoning), level


def qualify(provider: str | None, model: str) -> str:
    """Return the pattern that `--provider` and `--model` mean together."""
    if not provider or model.lower().startswith(f"{provider.lower()}/"):
        return model
    return f"{provider}/{model}"


class Ambiguous(ModelNotFound):
    """Several providers offer a model with this name."""


def split_level(pattern: str) -> tuple[str, ThinkingLevel | None]:
    """Split a pattern into the name and the level; None if it has no level. Any other `:` is part of the id, as in `qwen:7b`."""
    name, colon, suffix = pattern.rpartition(":")
    if colon and name and suffix.lower() in LEVEL_NAMES:
        return name, LEVEL_NAMES[suffix.lower()]
    return pattern, None


def split_list(patterns: Iterable[str]) -> list[str]:
    """Split comma-separated lists into their patterns."""
    return [part for pattern in patterns for part in (each.strip() for each in pattern.split(",")) if part]


def exact(pattern: str, models: Sequence[Model], naming: Naming) -> list[Choice]:
    """Find the models that have exactly this name, in any case: several if several providers offer the same id.

    The whole pattern is tried first, since an id may end in what looks like a level.
    """
    for text, level in dict.fromkeys(((pattern, None), split_level(pattern))):
        wanted = text.lower()
        found = [model for model in models if naming(model).lower() == wanted]
        same_case = [model for model in found if naming(model) == text]
        if found:
            return [(model, level) for model in same_case or found]
    return []


def matching(pattern: str, models: Sequence[Model]) -> list[Model]:
    """Find the models that a glob matches, or whose id or name contains `pattern`, in the given order.

    A provider before the first slash limits the search to its models. `4.5` and `4-5` match each other.
    """
    wanted = _loose(pattern)
    provider, _, rest = wanted.partition("/")
    within = [model for model in models if _loose(model.provider) == provider] if rest else []
    if within:
        models, wanted = within, rest
    if not is_glob(wanted):
        return [model for model in models if wanted in _loose(model.id) or wanted in _loose(model.name)]

    namings = (bare_id,) if within else (bare_id, full_name)
    return [model for model in models if any(fnmatch.fnmatchcase(_loose(naming(model)), wanted) for naming in namings)]


def best(models: Sequence[Model]) -> Model:
    """Choose the model that a short name most likely means.

    It is one of the first provider. An alias wins over a dated version, then the newest version, then the shortest id.
    """
    first = [model for model in models if model.provider == models[0].provider]
    return min(first, key=_rank)


def is_glob(pattern: str) -> bool:
    """Tell whether the pattern has wildcards."""
    return any(character in pattern for character in "*?[")


def full_name(model: Model) -> str:
    """Return `provider/id`."""
    return f"{model.provider}/{model.id}"


def bare_id(model: Model) -> str:
    """Return the id without the provider."""
    return model.id


def make_not_found_error(pattern: str, models: Sequence[Model], *, can_use_any: bool = True) -> ModelNotFound:
    """Make the error for a pattern that matches no model. It suggests similar names.

    Args:
        pattern: the pattern.
        models: the models that it could have matched.
        can_use_any: whether `--list-models` lists anything.
    """
    text = f'Model "{pattern}" not found. {_LIST_ADVICE if can_use_any else _KEY_ADVICE}'
    name = split_level(pattern)[0]
    near = _nearest(name, models) or _with_nearest_words(name, models)
    if near:
        return ModelNotFound(f"{text} Did you mean {_either(near)}?")
    provider, slash, _ = pattern.partition("/")
    similar = nearest_name(provider, {model.provider for model in models}) if slash else None
    return ModelNotFound(f"{text} Did you mean the provider {similar}?" if similar and similar != provider else text)


def ambiguous(pattern: str, models: Sequence[Model]) -> ModelNotFound:
    """Make the error for an id that several providers offer."""
    return Ambiguous(
        f'Model "{pattern}" is offered by several providers: name one of {", ".join(full_name(model) for model in models)}.'
    )


def _loose(name: str) -> str:
    return name.lower().replace(".", "-")


def _rank(model: Model) -> tuple[bool, list[int], int, str]:
    name = model.id.lower()
    dated = re.search(r"[-@](\d{8}|\d{6}|\d{4}-\d{2}-\d{2}|\d{2}-\d{2}|\d{2}-\d{4}|\d{4})$", name)
    # A number of three digits or more is a size or a date, not a version.
    version = [-int(number) for number in re.findall(r"(?<!\d)\d{1,2}(?!\d)", name)]
    # A longer version counts as newer: 5.5 over 5. The final 1 compares higher than any negated number.
    return dated is not None, [*version, 1], len(name), name


def _nearest(pattern: str, models: Sequence[Model]) -> list[str]:
    wanted = pattern.lower()
    naming: Naming = full_name if "/" in wanted else bare_id
    names: dict[str, str] = {}
    for model in models:
        names.setdefault(naming(model).lower(), full_name(model))
    return [names[name] for name in difflib.get_close_matches(wanted, names, n=3, cutoff=0.7)]


def _with_nearest_words(pattern: str, models: Sequence[Model]) -> list[str]:
    """Return the model that a pattern without a provider would name if its words were those of ids: `opsu` is `opus`."""
    if "/" in pattern:
        return []
    words = {word for model in models for word in re.findall(r"[a-z]{3,}", model.id.lower())}
    corrected = re.sub(r"[a-z]{3,}", lambda typed: nearest_name(typed[0], words) or typed[0], pattern.lower())
    similar = matching(corrected, models) if corrected else []
    return [full_name(best(similar))] if similar else []


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to a mistyped one, or None if none is similar."""
    found = difflib.get_close_matches(name.lower(), list(known), 1, 0.7)
    return found[0] if found else None


def _either(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


NOTHING_FOUND = (
    "No model can be used: no provider's key is set, and no model server was found on this machine. Set a key, such as "
    "ANTHROPIC_API_KEY; or start Ollama, LM Studio, llama.cpp or vLLM; or run a small model here with `fairlead local`. "
    "`fairlead help local-models` has the lines to type."
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
    found = await local_servers.find_servers(env)
    for server in found:
        registry.unlisted.use_found(server)
    for server in found:
        model = registry.find(server.name, server.models[0].id)
        if model is not None:
            where = server.base_url.removesuffix("/v1")
            return ModelChoice(model, f"No key is set: {model.provider}/{model.id} answers, at {where} on this machine.", True)
    model = _find_downloaded(registry)
    if model is not None:
        why = f"No key is set and no model server runs: {model.provider}/{model.id} answers, whose weights you downloaded."
        return ModelChoice(model, why, True)
    return ModelChoice(None, NOTHING_FOUND)


def _find_downloaded(registry: Registry) -> Model | None:
    """Return a model whose weights the user has downloaded with fairlead, if llama.cpp is installed to run it."""
    from fairlead.models.local.llama import is_installed  # noqa: PLC0415  an extra
    from fairlead.models.local.weights import DOWNLOADS, models_folder  # noqa: PLC0415  an extra

    folder = models_folder(registry.home)
    ready = [each for each in DOWNLOADS if os.path.exists(folder / each.file)]
    return registry.find("local", ready[0].name) if ready and is_installed() else None
