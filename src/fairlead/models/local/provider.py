"""The provider `local`: weights on this machine, run by llama.cpp."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from fairlead.config.home import Home
from fairlead.core.model import Model, ModelStream
from fairlead.errors import ConfigError
from fairlead.models.local.gguf import GgufFacts, read_gguf
from fairlead.models.local.llama import LlamaServer, LlamaStream
from fairlead.models.local.weights import (
    FoundWeights,
    best_weights,
    download_named,
    find_weights,
    free_memory,
    writes_calls_as_text,
)
from fairlead.models.models_json import ModelEntry, ProviderEntry

#: The largest window to ask for, in tokens: the memory it takes and the time until the first word grow with it.
LARGEST_WINDOW = 16_384
#: The window of a model whose file does not state one.
_USUAL_WINDOW = 8192
#: What a model of the provider has as its address. The real one has a port that is chosen when the server starts.
_ADDRESS = "http://127.0.0.1/local"


class LocalModels:
    """The models of the provider `local`, and the processes that run them."""

    def __init__(self, home: Home, env: Mapping[str, str], file: Path | None = None) -> None:
        """Look for weights.

        Args:
            home: the home, whose folder `models` has what was downloaded.
            env: the environment variables, which say where other programs keep their weights.
            file: a GGUF file that the user names. It comes first.

        Raises:
            ConfigError: `file` cannot be used.
        """
        self._found: dict[str, _Local] = {}
        self._streams: dict[str, LlamaStream] = {}
        self._servers: list[LlamaServer] = []
        if file is not None:
            facts = read_gguf(file)
            self._found[file.stem] = _Local(FoundWeights(file.stem, file, file.stat().st_size, "you"), facts)
        for weights in find_weights(home, env):
            self._found.setdefault(weights.name, _Local(weights))

    def entry(self) -> ProviderEntry:
        """Return the provider, with the models whose weights are on this machine."""
        models = [_entry(name, each.read()) for name, each in self._found.items()]
        return ProviderEntry(base_url=_ADDRESS, api="openai-completions", auth="none", models=models)

    def best(self) -> FoundWeights | None:
        """Return the weights on this machine to use if none are named; None if there are none but the last resort."""
        return best_weights(self.found(), free_memory())

    def found(self) -> list[FoundWeights]:
        """Return all weights on this machine."""
        return [each.weights for each in self._found.values()]

    def stream(self, model: Model) -> ModelStream:
        """Return what asks a model. The server starts with the first request."""
        if model.id not in self._streams:
            server = LlamaServer(model.id, self._found[model.id].weights.path, model.context_window)
            self._servers.append(server)
            self._streams[model.id] = LlamaStream(model, server)
        return self._streams[model.id]

    def close(self) -> None:
        """End all servers."""
        for server in self._servers:
            server.stop()


class _Local(Struct):
    """A file, and what it says once it was read."""

    weights: FoundWeights
    facts: GgufFacts | None = None

    def read(self) -> GgufFacts | None:
        """Return what the file says about its model; None if it cannot be read, which llama.cpp reports when it is used."""
        if self.facts is None:
            try:
                self.facts = read_gguf(self.weights.path)
            except ConfigError:
                return None
        return self.facts


def _entry(name: str, facts: GgufFacts | None) -> ModelEntry:
    window = min((facts.window if facts else None) or _USUAL_WINDOW, LARGEST_WINDOW)
    called = f"{name} {facts.name}" if facts else name
    as_text = writes_calls_as_text(called, has_tools=facts is not None and facts.has_tools)
    compat = {"toolCallsAsText": True} if as_text else None
    return ModelEntry(id=name, context_window=window, max_tokens=window // 4, compat=compat)


def missing_weights(name: str) -> str:
    """Return the error text for weights that are not on this machine. It says what to do."""
    if download_named(name) is None:
        return f"The weights of local/{name} are not on this machine. `fairlead local --list` shows those that are."
    return f"The weights of local/{name} are not on this machine. Download them with: fairlead local --model {name} --download"
