"""A models.json with models of one's own, and the registry that reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairlead.config.home import Home
from fairlead.models.registry import Registry

COST = {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75}
FAKE: dict[str, Any] = {
    "baseUrl": "http://127.0.0.1:9",
    "api": "anthropic-messages",
    "apiKey": "sk-fake",
    "models": [
        {
            "id": "fake-1",
            "name": "Fake One",
            "reasoning": True,
            "input": ["text", "image"],
            "contextWindow": 200000,
            "maxTokens": 8192,
            "cost": COST,
        },
        {"id": "fake-2"},
    ],
}


def write(folder: Path, providers: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "models.json"
    path.write_text(providers if isinstance(providers, str) else json.dumps({"providers": providers}))
    return path


def load(home: Home, env: dict[str, str] | None = None, **options: Any) -> Registry:
    return Registry.load(home, env or {}, **options)


def names(models: list[Any]) -> list[str]:
    return [f"{model.provider}/{model.id}" for model in models]
