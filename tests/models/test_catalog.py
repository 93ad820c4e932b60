from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from fairlead.models.catalog import PROVIDERS, catalog_models, read_catalog

ROOT = Path(__file__).parents[2]
APIS = {"anthropic-messages", "openai-completions", "openai-responses", "google-generative-ai"}


def test_the_checked_in_catalog_is_what_its_sources_give() -> None:
    check = [sys.executable, str(ROOT / "scripts" / "make_catalog.py"), "--check"]
    result = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_stale_catalog_fails_the_check(tmp_path: Path) -> None:
    script = (ROOT / "scripts" / "make_catalog.py").read_text()
    changed = json.loads((ROOT / "src/fairlead/models/catalog.json").read_text())
    changed["models"]["anthropic"][0]["cost"]["input"] += 1
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "make_catalog.py").write_text(script)
    (tmp_path / "scripts" / "catalog_facts.toml").write_bytes((ROOT / "scripts" / "catalog_facts.toml").read_bytes())
    copy = tmp_path / "src" / "fairlead" / "models" / "catalog.json"
    copy.parent.mkdir(parents=True)
    copy.write_text(json.dumps(changed))
    check = [sys.executable, str(tmp_path / "scripts" / "make_catalog.py"), "--check"]
    result = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "catalog.json is stale" in result.stderr


def test_every_provider_has_its_default_model() -> None:
    models = {(model.provider, model.id) for model in catalog_models({})}
    assert [name for name, provider in PROVIDERS.items() if (name, provider.default_model) not in models] == []


def test_every_model_is_complete_and_named_once() -> None:
    models = catalog_models({})
    assert len({(model.provider, model.id) for model in models}) == len(models)
    for model in models:
        assert model.name and model.api in APIS and model.base_url.startswith("https://"), model
        assert 0 < model.max_tokens <= model.context_window, model
        assert model.cost.input > 0 and model.cost.output > 0, model
        levels = model.levels()
        assert (levels == ["off"]) is not model.reasoning, model
        assert model.clamp("medium") in levels, model


def test_levels_are_called_what_each_api_calls_them() -> None:
    models = catalog_models({})
    for model in (model for model in models if model.provider == "anthropic"):
        # The API takes either an effort, which has names, or a number of tokens, which has none.
        assert ((model.compat or {}).get("thinking") == "adaptive") is (model.thinking_level_map is not None), model
    for model in (model for model in models if model.provider == "google"):
        assert all(name is None or name.isupper() for name in (model.thinking_level_map or {}).values()), model


def test_prices_are_those_of_the_source() -> None:
    from datetime import UTC, datetime

    from genai_prices.data import providers

    source = read_catalog().source
    noon = datetime.fromisoformat(f"{source.date}T12:00").replace(tzinfo=UTC)
    priced = next(provider for provider in providers if provider.id == "anthropic")
    for model in (model for model in catalog_models({}) if model.provider == "anthropic"):
        known = priced.find_model(model.id)
        assert known is not None
        price: Any = known.get_prices(noon).input_mtok
        assert model.cost.input == float(getattr(price, "base", price)), model


def test_the_source_is_recorded() -> None:
    source = read_catalog().source
    assert source.name == "genai-prices"
    assert source.version and source.date


def test_the_environment_names_another_server() -> None:
    env = {
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:1/",
        "OPENAI_BASE_URL": "http://127.0.0.1:2/v1",
        "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:3",
    }
    urls = {model.provider: model.base_url for model in catalog_models(env)}
    assert urls["anthropic"] == "http://127.0.0.1:1"
    assert urls["openai"] == "http://127.0.0.1:2/v1"
    assert urls["google"] == "http://127.0.0.1:3/v1beta"
    assert urls["groq"] == "https://api.groq.com/openai/v1"
    assert PROVIDERS["google"].url({"GEMINI_BASE_URL": "http://127.0.0.1:3/v1beta/"}) == "http://127.0.0.1:3/v1beta"
