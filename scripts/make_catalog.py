"""Write src/fairlead/models/catalog.json: the models that fairlead knows without configuration.

    python scripts/make_catalog.py           write it from the installed genai-prices, dated today
    python scripts/make_catalog.py --check   fail if it is stale

Prices and context windows come from genai-prices. catalog_facts.toml adds what that package does not know. If a price
depends on the length of the prompt, the catalog has the price for short prompts. If it depends on the day or the hour, the
catalog has the price at noon UTC on its date. A check uses the recorded date and requires the recorded version of
genai-prices, so it does not fail without a reason.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from datetime import UTC, date, datetime, time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from genai_prices.data import providers as priced_providers

from fairlead.core.model import THINKING_LEVELS, Price
from fairlead.models.catalog import PROVIDERS, Catalog, CatalogModel, CatalogSource

SOURCE = "genai-prices"
FACTS = Path(__file__).with_name("catalog_facts.toml")
CATALOG = Path(__file__).parents[1] / "src" / "fairlead" / "models" / "catalog.json"


class Facts(msgspec.Struct, forbid_unknown_fields=True):
    """What the hand-kept table says of one model."""

    output: int
    levels: str = ""
    images: bool = False
    adaptive: bool = False
    context: int | None = None
    name: str | None = None
    compat: dict[str, Any] = {}


class ProviderFacts(msgspec.Struct, forbid_unknown_fields=True):
    source: str
    models: dict[str, Facts]
    compat: dict[str, Any] = {}


def make(day: date) -> Catalog:
    """The catalog as the sources give it for `day`."""
    facts = msgspec.convert(tomllib.loads(FACTS.read_text()), dict[str, ProviderFacts])
    if set(facts) != set(PROVIDERS):
        sys.exit(f"The providers of {FACTS.name} and of fairlead.models.catalog differ: {sorted(set(facts) ^ set(PROVIDERS))}")
    priced = {provider.id: provider for provider in priced_providers}
    noon = datetime.combine(day, time(12), UTC)
    models = {
        name: [
            _model(priced[facts[name].source], facts[name], model_id, each, noon) for model_id, each in facts[name].models.items()
        ]
        for name in PROVIDERS
    }
    return Catalog(CatalogSource(SOURCE, version(SOURCE), day.isoformat()), models)


def _model(priced: Any, provider: ProviderFacts, model_id: str, facts: Facts, when: datetime) -> CatalogModel:
    known = priced.find_model(model_id)
    if known is None or known.deprecated:
        sys.exit(f"{SOURCE} has {'no' if known is None else 'a deprecated'} model {model_id} of {priced.id}: change {FACTS.name}")
    prices = known.get_prices(when)
    name, context = facts.name or known.name, facts.context or known.context_window
    if not name or not context:
        sys.exit(f"{SOURCE} has no name or context window for {priced.id} {model_id}: add it to {FACTS.name}")
    compat = {**provider.compat, **facts.compat, **({"thinking": "adaptive"} if facts.adaptive else {})}
    return CatalogModel(
        model_id,
        name,
        context,
        facts.output,
        Price(*(_dollars(prices, kind) for kind in ("input", "output", "cache_read", "cache_write"))),
        bool(facts.levels),
        facts.images,
        _level_map(model_id, facts.levels),
        compat or None,
    )


def _dollars(prices: Any, kind: str) -> float:
    price = getattr(prices, f"{kind}_mtok")
    return 0.0 if price is None else round(float(getattr(price, "base", price)), 6)


def _level_map(model_id: str, levels: str) -> dict[str, str | None] | None:
    """The map of a model's thinking levels, with only what differs from having off to high by their own names."""
    if levels in ("", "any"):
        return None
    given = {level: name or level for level, _, name in (item.partition("=") for item in levels.split())}
    if unknown := set(given) - set(THINKING_LEVELS):
        sys.exit(f"{FACTS.name}: {model_id}: unknown levels {sorted(unknown)}")
    names: dict[str, str | None] = {}
    for level in THINKING_LEVELS:
        if level in given:
            if given[level] != "off":
                names[level] = given[level]
        elif level not in ("xhigh", "max"):  # models have these only if the map names them
            names[level] = None
    return names


def encode(catalog: Catalog) -> bytes:
    """One model per line, so that a change reads well."""
    lines = [f'{{"source":{msgspec.json.encode(catalog.source).decode()},"models":{{']
    for index, (provider, models) in enumerate(catalog.models.items()):
        lines.append(f'"{provider}":[')
        lines += [msgspec.json.encode(model).decode() + ("," if model is not models[-1] else "") for model in models]
        lines.append("]," if index < len(catalog.models) - 1 else "]")
    return "\n".join([*lines, "}}", ""]).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if the file is not what the sources give")
    if not parser.parse_args().check:
        CATALOG.write_bytes(encode(make(datetime.now(UTC).date())))
        print(f"wrote {CATALOG}")
        return
    recorded = msgspec.json.decode(CATALOG.read_bytes(), type=Catalog).source
    installed = version(SOURCE)
    if recorded.version != installed:
        sys.exit(
            f"{CATALOG.name} was made with {SOURCE} {recorded.version}, but {installed} is installed: change one or the other"
        )
    if encode(make(date.fromisoformat(recorded.date))) != CATALOG.read_bytes():
        sys.exit(f"{CATALOG.name} is stale: run python scripts/make_catalog.py")


if __name__ == "__main__":
    main()
