"""docs/models.md says which model each provider gets by default, and what it costs."""

from __future__ import annotations

from pathlib import Path

from fairlead.models.catalog import PROVIDERS, read_catalog

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def test_the_page_about_models_has_the_default_model_of_each_provider_and_its_price() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text().splitlines() if line.startswith("| `")
    ]
    shown = {row[0].strip("`"): row[1:] for row in rows if row[0].strip("`") in PROVIDERS}
    models = read_catalog().models
    assert list(shown) == list(PROVIDERS), "in the order in which a default is looked for"
    for name, provider in PROVIDERS.items():
        keys, model, price, addresses = shown[name]
        cost = next(each.cost for each in models[name] if each.id == provider.default_model)
        assert keys == " or ".join(f"`{variable}`" for variable in provider.key_variables)
        assert model == f"`{provider.default_model}`"
        assert price == f"${cost.input:g} / ${cost.output:g}"
        assert all(f"`{variable}`" in addresses for variable in provider.url_variables)
