"""models.json: the user's own providers and models, and changes to the built-in ones.

The format is pi's; omp and xcsh write the same as YAML. Keys and headers stay as written here; `credentials` finds out what
they stand for.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, cast

import msgspec
from msgspec import Struct

from fairlead.config import json_files, project_files
from fairlead.config.settings_parsing import unknown_key
from fairlead.core.messages import PromptCache
from fairlead.core.model import Model, Price
from fairlead.errors import ConfigError
from fairlead.models.apis import openai_completions_compat
from fairlead.models.catalog import PROVIDERS

T = TypeVar("T")
Inputs = list[Literal["text", "image"]]


class PartialPrice(Struct, rename="camel", frozen=True):
    """The prices that an override changes. A whole number stays one: hosts show it as the user wrote it."""

    input: int | float | None = None
    output: int | float | None = None
    cache_read: int | float | None = None
    cache_write: int | float | None = None

    def apply_to(self, price: Price) -> Price:
        """Return `price` with these changes."""
        return Price(
            price.input if self.input is None else self.input,
            price.output if self.output is None else self.output,
            price.cache_read if self.cache_read is None else self.cache_read,
            price.cache_write if self.cache_write is None else self.cache_write,
        )


#: The fields of a model that an entry replaces as they are.
_CHANGEABLE = ("name", "api", "reasoning", "thinking_level_map", "input", "context_window", "max_tokens", "prompt_cache")


class ModelChange(Struct, rename="camel", frozen=True):
    """What an entry says about a model. None means that it says nothing."""

    name: str | None = None
    api: str | None = None
    base_url: str | None = None
    reasoning: bool | None = None
    thinking_level_map: dict[str, str | None] | None = None
    input: Inputs | None = None
    context_window: int | None = None
    max_tokens: int | None = None
    cost: PartialPrice | None = None
    compat: dict[str, Any] | None = None
    prompt_cache: PromptCache | None = None
    headers: dict[str, str] | None = None

    def apply_to(self, model: Model) -> Model:
        """Return `model` with these changes. Headers are not part of a model: see `ProviderEntry.headers_for`."""
        values = {name: value for name in _CHANGEABLE if (value := getattr(self, name)) is not None}
        if self.base_url:
            values["base_url"] = self.base_url.rstrip("/")
        if self.cost is not None:
            values["cost"] = self.cost.apply_to(model.cost)
        if self.compat is not None:
            values["compat"] = {**(model.compat or {}), **self.compat}
        return msgspec.structs.replace(model, **values)


class ModelEntry(ModelChange, rename="camel", frozen=True, kw_only=True):
    """A model that the user describes in full."""

    id: str


M = TypeVar("M", bound=ModelChange)


class OAuthEntry(Struct, rename="camel", frozen=True):
    """How to log in at a provider with a code that the user enters on its web page."""

    #: Where to ask for a code, and where to exchange it for a token.
    device_url: str
    token_url: str
    client_id: str
    scope: str | None = None


class ProviderEntry(Struct, rename="camel", frozen=True):
    """What models.json says about one provider."""

    base_url: str | None = None
    api: str | None = None
    api_key: str | None = None
    headers: dict[str, str] | None = None
    #: Also send the key as `Authorization: Bearer`, besides the API's own way.
    auth_header: bool | None = None
    compat: dict[str, Any] | None = None
    oauth: OAuthEntry | None = None
    #: `none`: its models need no key. omp and xcsh have this.
    auth: str | None = None
    models: list[ModelEntry] | None = None
    model_overrides: dict[str, ModelChange] | None = None

    def make_models(self, provider: str, env: Mapping[str, str]) -> Iterator[Model]:
        """Make the models that the entry describes in full. `env` may name another server for a built-in provider."""
        known = PROVIDERS.get(provider)
        api = self.api or (known.api if known else "")
        base_url = (self.base_url or (known.url(env) if known else "")).rstrip("/")
        for model in self.models or ():
            base = Model(
                model.id, model.id, api, provider, base_url, False, ["text"], Price(), 128_000, 16_384, compat=self.compat
            )
            yield self._override(model.apply_to(base))

    def adjust(self, model: Model) -> Model:
        """Return a built-in model of the provider with the changes that the entry asks for."""
        return self._override(ModelChange(base_url=self.base_url, api=self.api, compat=self.compat).apply_to(model))

    def headers_for(self, model_id: str) -> dict[str, str]:
        """Return the extra headers for a model, as written: the provider's, then the model's, then its override's."""
        override = (self.model_overrides or {}).get(model_id)
        given = [self.headers, *(each.headers for each in self.models or () if each.id == model_id)]
        given.append(override.headers if override else None)
        return {name: value for headers in given if headers for name, value in headers.items()}

    def merge(self, news: Self) -> Self:
        """Return the entry with everything that `news` mentions. Headers are added to those that it has."""
        values = {name: value for name in self.__struct_fields__ if (value := getattr(news, name)) is not None}
        if self.headers and news.headers:
            values["headers"] = {**self.headers, **news.headers}
        return msgspec.structs.replace(self, **values)

    def _override(self, model: Model) -> Model:
        change = (self.model_overrides or {}).get(model.id)
        return model if change is None else change.apply_to(model)


class ModelsFile(Struct, frozen=True):
    """The content of models.json."""

    #: By name: providers to add, and built-in ones to change.
    providers: dict[str, ProviderEntry] | None = None


def read_models_json(path: Path, warnings: list[str], *, checks_keys: bool = False) -> dict[str, ProviderEntry]:
    """Read the providers of a models.json.

    Args:
        path: the file. It may be missing.
        warnings: gets a sentence for each thing that cannot be used and is left out.
        checks_keys: whether each key that fairlead does not know leaves a warning. Files of a peer may have such keys.

    Returns:
        The entries by provider, in the order of the file.
    """
    try:
        data = project_files.read_bytes(path)
        if data is None:
            return {}
        if path.suffix == ".json":
            try:
                providers = msgspec.json.decode(data, type=ModelsFile).providers or {}
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                providers = _read_piecewise(path, json_files.parse_object(path, data), warnings)
        else:
            from fairlead.config import yaml_files  # noqa: PLC0415  loads yaml, in 12 ms

            providers = _read_piecewise(path, yaml_files.parse_object(path, data), warnings)
        if checks_keys:
            warnings += _unknown_keys(path, data)
    except ConfigError as error:
        warnings.append(str(error))
        return {}
    return {
        name: _only_reachable(path, name, _check_entry(path, name, entry, warnings), warnings)
        for name, entry in providers.items()
    }


def provider_entry(name: str, config: dict[str, Any], *, complete: bool = True) -> ProviderEntry:
    """Read the description of a provider that an extension adds.

    Args:
        name: the provider's name.
        config: its description, in the format of models.json.
        complete: whether the description must say how to reach its models.

    Raises:
        ConfigError: a part of the description cannot be used.
    """
    problems: list[str] = []
    here = Path("register_provider")
    entry = _read_piecewise(here, {"providers": {name: config}}, problems).get(name) or ProviderEntry()
    entry = _check_entry(here, name, entry, problems)
    if complete:
        entry = _only_reachable(here, name, entry, problems)
    if problems:
        raise ConfigError("\n".join(problems))
    return entry


def _unknown_keys(path: Path, data: bytes) -> list[str]:
    """Return a warning for each key of a models.json that means nothing here."""
    found: list[str] = []

    def check(value: Any, declared: type[Struct], where: str) -> dict[str, Any]:
        fields = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        known = declared.__struct_encode_fields__
        for key in fields:
            if key not in known and not (key == "$schema" and not where):
                found.append(f"{path}: {unknown_key(where + key, [where + name for name in known])}")
        return fields

    def check_model(value: Any, declared: type[Struct], where: str) -> None:
        check(check(value, declared, where).get("cost"), PartialPrice, f"{where}cost.")

    content = check(json_files.parse_object(path, data), ModelsFile, "")
    providers: Any = content.get("providers")
    for name, value in cast("dict[str, Any]", providers if isinstance(providers, dict) else {}).items():
        where = f"providers.{name}."
        entry = check(value, ProviderEntry, where)
        check(entry.get("oauth"), OAuthEntry, f"{where}oauth.")
        models: Any = entry.get("models")
        for index, model in enumerate(cast("list[Any]", models) if isinstance(models, list) else []):
            check_model(model, ModelEntry, f"{where}models[{index}].")
        overrides: Any = entry.get("modelOverrides")
        for id, change in cast("dict[str, Any]", overrides if isinstance(overrides, dict) else {}).items():
            check_model(change, ModelChange, f"{where}modelOverrides.{id}.")
    return found


def _check_entry(path: Path, provider: str, entry: ProviderEntry, warnings: list[str]) -> ProviderEntry:
    """Drop values that no model can have. Each leaves a warning, and so does each setting that fairlead does not support."""
    where = f"{path}: providers.{provider}"
    _check_compat(where, entry.compat, warnings)
    models, overrides = entry.models, entry.model_overrides
    if models is not None:
        models = [_check_model(f"{where}.models[{index}]", model, warnings) for index, model in enumerate(models)]
    if overrides is not None:
        overrides = {id: _check_model(f"{where}.modelOverrides.{id}", change, warnings) for id, change in overrides.items()}
    return msgspec.structs.replace(entry, models=models, model_overrides=overrides)


def _check_model(where: str, model: M, warnings: list[str]) -> M:
    _check_compat(where, model.compat, warnings)
    unusable: dict[str, None] = {}
    for field, key, tokens in (
        ("context_window", "contextWindow", model.context_window),
        ("max_tokens", "maxTokens", model.max_tokens),
    ):
        if tokens is not None and tokens < 1:
            warnings.append(f"{where}.{key}: expected a whole number of at least 1, found {tokens}. The default is used.")
            unusable[field] = None
    return msgspec.structs.replace(model, **unusable) if unusable else model


def _check_compat(where: str, compat: dict[str, Any] | None, warnings: list[str]) -> None:
    as_text = (compat or {}).get("toolCallsAsText")
    if as_text is not None and not isinstance(as_text, bool):
        warnings.append(f"{where}.compat.toolCallsAsText: expected true or false, found {json_files.describe_value(as_text)}.")
    style = (compat or {}).get("thinkingFormat")
    if style is None:
        return
    if style in openai_completions_compat.UNSUPPORTED_THINKING_FORMATS:
        warnings.append(f'{where}.compat.thinkingFormat: "{style}" is not supported. The model is used, but not asked to think.')


def _only_reachable(path: Path, provider: str, entry: ProviderEntry, warnings: list[str]) -> ProviderEntry:
    """Drop models without a base URL or an API. Each leaves a warning."""
    if entry.models is None or provider in PROVIDERS:
        return entry
    reachable: list[ModelEntry] = []
    for index, model in enumerate(entry.models):
        missing = [
            key for key, value in (("baseUrl", model.base_url or entry.base_url), ("api", model.api or entry.api)) if not value
        ]
        if missing:
            where = f"providers.{provider}.models[{index}]"
            warnings.append(f"{path}: {where}: needs {' and '.join(missing)}, here or for the whole provider. Left out.")
        else:
            reachable.append(model)
    return msgspec.structs.replace(entry, models=reachable)


def _read_piecewise(path: Path, content: dict[str, Any], warnings: list[str]) -> dict[str, ProviderEntry]:
    """Read each provider and each model separately, and drop those that cannot be read. Each leaves a warning."""
    providers = content.get("providers")
    if providers is None:
        return {}
    if not isinstance(providers, dict):
        raise ConfigError(f"{path}: providers: expected an object, found {json_files.describe_value(providers)}.")
    result: dict[str, ProviderEntry] = {}
    for name, value in cast("dict[str, Any]", providers).items():
        where = f"providers.{name}"
        if not isinstance(value, dict):
            warnings.append(f"{path}: {where}: expected an object, found {json_files.describe_value(value)}. Left out.")
            continue
        fields = dict(cast("dict[str, Any]", value))
        models = fields.pop("models", None)
        entry = _convert(path, where, fields, ProviderEntry, warnings)
        if entry is None:
            continue
        if models is not None and not isinstance(models, list):
            warnings.append(f"{path}: {where}.models: expected a list, found {json_files.describe_value(models)}. Left out.")
            models = None
        if models is not None:
            read = (
                _convert(path, f"{where}.models[{index}]", model, ModelEntry, warnings)
                for index, model in enumerate(cast("list[Any]", models))
            )
            entry = msgspec.structs.replace(entry, models=[model for model in read if model is not None])
        result[name] = entry
    return result


def _convert(path: Path, where: str, value: Any, kind: type[T], warnings: list[str]) -> T | None:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        warnings.append(f"{path}: {where}{place.rstrip('`')}: {text[:1].lower()}{text[1:]}. Left out.")
        return None
