"""models.json: providers and models of the user's own, and changes to the ones that are built in.

The format is pi's. Nothing is resolved here: keys and headers stay as written, see `credentials`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import msgspec
from msgspec import Struct

from fairlead.config import files
from fairlead.core.model import Price
from fairlead.errors import ConfigError
from fairlead.models.catalog import PROVIDERS

T = TypeVar("T")
Inputs = list[Literal["text", "image"]]


class PartialPrice(Struct, rename="camel", frozen=True):
    """The prices that an override changes."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None

    def on(self, price: Price) -> Price:
        """`price`, changed."""
        return Price(
            price.input if self.input is None else self.input,
            price.output if self.output is None else self.output,
            price.cache_read if self.cache_read is None else self.cache_read,
            price.cache_write if self.cache_write is None else self.cache_write,
        )


class ModelChange(Struct, rename="camel", frozen=True):
    """What an entry says of a model; None: nothing."""

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
    headers: dict[str, str] | None = None


class ModelEntry(ModelChange, rename="camel", frozen=True, kw_only=True):
    """A model of the user's own."""

    id: str


class ProviderEntry(Struct, rename="camel", frozen=True):
    """What models.json says of one provider."""

    base_url: str | None = None
    api: str | None = None
    api_key: str | None = None
    headers: dict[str, str] | None = None
    #: Send the key as `Authorization: Bearer`, besides the way the API has for it.
    auth_header: bool | None = None
    compat: dict[str, Any] | None = None
    models: list[ModelEntry] | None = None
    model_overrides: dict[str, ModelChange] | None = None


class _File(Struct, frozen=True):
    providers: dict[str, ProviderEntry] | None = None


def read_models_json(path: Path, warnings: list[str]) -> dict[str, ProviderEntry]:
    """The providers of a models.json, in the order of the file; none if there is no file.

    What cannot be used is left out, and a sentence about it is added to `warnings`.
    """
    try:
        data = files.read_bytes(path)
        if data is None:
            return {}
        try:
            providers = msgspec.json.decode(data, type=_File).providers or {}
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            providers = _read_piecewise(path, files.parse_object(path, data), warnings)
    except ConfigError as error:
        warnings.append(str(error))
        return {}
    return {name: _complete(path, name, entry, warnings) for name, entry in providers.items()}


def _complete(path: Path, provider: str, entry: ProviderEntry, warnings: list[str]) -> ProviderEntry:
    """The entry without models that nobody could reach."""
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
    """The providers and models that can be read, each for itself."""
    providers = content.get("providers")
    if providers is None:
        return {}
    if not isinstance(providers, dict):
        raise ConfigError(f"{path}: providers: expected an object, found {files.found(providers)}.")
    result: dict[str, ProviderEntry] = {}
    for name, value in cast("dict[str, Any]", providers).items():
        where = f"providers.{name}"
        if not isinstance(value, dict):
            warnings.append(f"{path}: {where}: expected an object, found {files.found(value)}. Left out.")
            continue
        fields = dict(cast("dict[str, Any]", value))
        models = fields.pop("models", None)
        entry = _convert(path, where, fields, ProviderEntry, warnings)
        if entry is None:
            continue
        if models is not None and not isinstance(models, list):
            warnings.append(f"{path}: {where}.models: expected a list, found {files.found(models)}. Left out.")
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
