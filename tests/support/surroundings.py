"""What an agent under test is surrounded by: a home, a project folder, models, an environment. Nothing of the user's."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: The command as it is installed beside the interpreter that runs the tests.
FAIRLEAD = str(Path(sys.executable).with_name("fairlead"))

_PRICES = {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75}


@dataclass(frozen=True)
class Surroundings:
    """Folders under `root`, and the environment that points to them."""

    root: Path
    env: Mapping[str, str]

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def cwd(self) -> Path:
        return self.root / "project"


def surroundings(
    root: Path,
    provider_url: str,
    *,
    reasoning: str = "fake-1",
    settings: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
    api_key: str = "sk-fake",
    models: Sequence[Mapping[str, Any]] = (),
) -> Surroundings:
    """A home whose models are all at `provider_url`; of those only `reasoning` thinks, and `fake-small` remembers little.

    `files` go into the project. `models` are more models that think, each with what differs.
    """
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(root / "home"),
        "FAIRLEAD_HOME": str(root / "home"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "FAIRLEAD_LOCAL_SERVERS": "",  # not those of the machine
    }
    made = Surroundings(root, env)
    made.home.mkdir(parents=True)
    made.cwd.mkdir()
    (made.home / "models.json").write_text(json.dumps(_models(provider_url, reasoning, api_key, models)))
    if settings is not None:
        (made.home / "settings.json").write_text(json.dumps(settings))
    for name, text in (files or {}).items():
        path = made.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return made


def rpc(dialect: str, *flags: str, model: str | None = "fake/fake-1") -> Sequence[str]:
    """The command line of an agent that serves a host of that dialect, or of a release of its program ("pi@0.73")."""
    chosen = ["--model", model] if model else []
    start = ["--as", dialect, "--mode", "rpc"] if "@" in dialect else ["--mode", "rpc", "--dialect", dialect]
    return [FAIRLEAD, *start, *chosen, *flags]


def _models(url: str, reasoning: str, api_key: str, more: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    def model(id: str) -> dict[str, Any]:
        return {
            "id": id,
            "name": id,
            "reasoning": id == reasoning,
            "input": ["text", "image"],
            "cost": _PRICES,
            "contextWindow": 20_000 if id == "fake-small" else 200_000,
            "maxTokens": 4_096 if id == "fake-small" else 16_384,
        }

    def provider(url: str, api: str, *ids: str) -> dict[str, Any]:
        return {"baseUrl": url, "api": api, "apiKey": api_key, "models": [model(id) for id in ids]}

    fake = provider(url, "anthropic-messages", "fake-1", "fake-2", "fake-small")
    fake["models"] += [{**model(each["id"]), "reasoning": True, **each} for each in more]
    return {
        "providers": {
            "fake": fake,
            "fakeoai": provider(f"{url}/v1", "openai-completions", "fake-oai"),
        }
    }
