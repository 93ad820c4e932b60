"""Model servers with a small context window, which they enforce by counting; and agents that use them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.json_values import is_array, is_object

from fairlead import Agent, AgentOptions
from fairlead.testing import ProviderServer
from fairlead.testing.formats import last_user_text

APIS = ("openai-completions", "openai-responses", "anthropic-messages", "google-generative-ai")
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def size_of(body: Any) -> int:
    """The tokens of a request: one for each three characters of text, which is more than fairlead estimates."""
    parts = (body.get(key) for key in ("system", "instructions", "systemInstruction", "messages", "input", "contents", "tools"))
    return sum(map(_text_size, parts)) // 3


def _text_size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if is_object(value):
        return sum(map(_text_size, value.values()))
    return sum(map(_text_size, value)) if is_array(value) else 0


def longest_answer(body: Any) -> int:
    """The limit of the answer that a request names, under any name; 0 if it names none."""
    found = [body[name] for name in _LIMITS if name in body]
    return found[0] if found else body.get("generationConfig", {}).get("maxOutputTokens", 0)


def llama(window: int) -> Callable[[Any], str | dict[str, Any] | None]:
    """llama.cpp: the prompt alone counts, and the error has all numbers."""

    def refuse(body: Any) -> dict[str, Any] | None:
        size = size_of(body)
        if size < window:
            return None
        text = f"request ({size} tokens) exceeds the available context size ({window} tokens), try increasing it"
        fields = {"code": 400, "message": text, "type": "exceed_context_size_error", "n_prompt_tokens": size, "n_ctx": window}
        return {"error": fields}

    return refuse


def vllm(window: int) -> Callable[[Any], str | dict[str, Any] | None]:
    """vLLM: the answer that is asked for counts too."""

    def refuse(body: Any) -> str | None:
        size, answer = size_of(body), longest_answer(body)
        if size + answer <= window:
            return None
        return (
            f"This model's maximum context length is {window} tokens. However, you requested {size + answer} tokens "
            f"({size} in the messages, {answer} in the completion). Please reduce the length of the messages or completion."
        )

    return refuse


def mute(window: int) -> Callable[[Any], str | dict[str, Any] | None]:
    """Bedrock: not a single number."""
    return lambda body: "Input is too long for requested model." if size_of(body) >= window else None


STYLES = {"llama.cpp": llama, "vllm": vllm, "mute": mute}


class SmallServer(ProviderServer):
    """Answers `reply` to what fits its window, `summary` to requests for one, and refuses the rest in a style of `STYLES`."""

    def __init__(
        self,
        window: int,
        style: str = "llama.cpp",
        *,
        reply: Callable[[Any], dict[str, Any]] = lambda body: {"text": "understood"},
        summary: dict[str, Any] | None = None,
        listed: bool = False,
    ) -> None:
        refuse = STYLES[style](window)
        #: The bodies that were answered, and how many were refused.
        self.answered: list[Any] = []
        self.refused = 0

        def turn(body: Any) -> dict[str, Any]:
            problem = refuse(body)
            if problem is not None:
                self.refused += 1
                return {"status": 400, "error": problem}
            if "<conversation>" in last_user_text(body):
                return summary or {"text": "Notes: the user said things."}
            self.answered.append(body)
            return {"usage": {"input": size_of(body), "output": 5}, **reply(body)}

        models = [{"id": "m", "max_model_len": window}] if listed else []
        super().__init__(turn, models=models)


def an_agent(root: Path, url: str, api: str = "openai-completions", *, settings: Any = None, **options: Any) -> Agent:
    """An agent whose only model, `small/m`, is declared without any sizes."""
    home = root / "home"
    home.mkdir(exist_ok=True)
    model = {"id": "m", "input": ["text", "image"], **options.pop("model", {})}
    base = url if api == "anthropic-messages" else f"{url}/v1"
    provider = {"baseUrl": base, "api": api, "models": [model]}
    (home / "models.json").write_text(json.dumps({"providers": {"small": provider, **options.pop("providers", {})}}))
    (home / "settings.json").write_text(json.dumps(settings or {"retry": {"baseDelayMs": 0}}))
    env = {"FAIRLEAD_HOME": str(home), "PATH": os.environ["PATH"]}
    defaults: dict[str, Any] = {"model": f"small/{model['id']}", "tools": (), "cwd": root, "env": env, "keep": True}
    return Agent(AgentOptions(**{**defaults, **options}))
