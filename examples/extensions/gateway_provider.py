"""Adds the models of a gateway that speaks a known API: `--gateway http://localhost:8080 --model gateway/small`.

The key comes from the environment, as in models.json.
"""

from __future__ import annotations

from fairlead.extension import Fairlead


def setup(fl: Fairlead) -> None:
    url = fl.register_flag("gateway", "string", description="Where the gateway is")
    if url:
        models = [{"id": "small", "contextWindow": 32_000, "maxTokens": 4_000}, {"id": "large", "reasoning": True}]
        fl.register_provider("gateway", {"baseUrl": url, "api": "anthropic-messages", "apiKey": "GATEWAY_KEY", "models": models})
