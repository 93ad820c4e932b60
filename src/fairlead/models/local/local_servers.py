"""Finds model servers that already run on this machine, and the models they offer.

Only people's commands search, and only when no key is set and no model is named. A model that is named after a server, such as
`ollama/qwen3:8b`, asks that server alone. A search is one round of requests in parallel and takes at most `PATIENCE` seconds.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fairlead.core.runtime import CancelToken
from fairlead.errors import ConfigError, ProviderError
from fairlead.models.apis.response_reading import decode_json, record, records
from fairlead.models.context_windows import read_window
from fairlead.models.http.http_client import Http, HttpRequest, RequestAborted
from fairlead.models.models_json import ModelEntry, ProviderEntry

#: Seconds for the whole search.
PATIENCE = 0.2
#: Seconds for the search at addresses that the user has named.
NAMED_PATIENCE = 2.0
#: Seconds that a server which the user has named has to list its models.
_LIST_PATIENCE = 3.0
#: Names other addresses to search: `name=URL` pairs separated by commas. Empty: search nowhere.
ADDRESSES_VARIABLE = "FAIRLEAD_LOCAL_SERVERS"
#: The usual addresses, in the order in which a model is chosen.
USUAL_ADDRESSES: tuple[tuple[str, str], ...] = (
    ("ollama", "http://127.0.0.1:11434"),
    ("lmstudio", "http://127.0.0.1:1234"),
    ("llama.cpp", "http://127.0.0.1:8080"),
    ("vllm", "http://127.0.0.1:8000"),
)
#: The window that Ollama and LM Studio give a model by default, in tokens. They cut longer prompts silently.
DEFAULT_WINDOW = 4096
#: The window to assume for a server that states none.
_UNSTATED_WINDOW = 32_768
_LONGEST_LIST = 4 << 20
_MOST_MODELS = 200
#: Models that do not answer prompts.
_NOT_FOR_CHAT = re.compile(r"embed|rerank|whisper|bge-|clip|tts", re.IGNORECASE)
_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d+)", re.MULTILINE)


class FoundServer(Struct, frozen=True):
    """A server that answered, and its models, the one to use first."""

    name: str
    base_url: str
    models: list[ModelEntry]

    def entry(self) -> ProviderEntry:
        """Return the server as a provider."""
        return ProviderEntry(base_url=self.base_url, api="openai-completions", auth="none", models=self.models)


def addresses(env: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the name and URL of each server to look for. Raises ConfigError if the environment names them wrongly."""
    given = env.get(ADDRESSES_VARIABLE)
    if given is None:
        return list(USUAL_ADDRESSES)
    pairs: list[tuple[str, str]] = []
    for part in filter(None, (part.strip() for part in given.split(","))):
        name, equals, url = part.partition("=")
        if not equals or not name.strip() or not _is_web_address(url.strip()):
            raise ConfigError(f"{ADDRESSES_VARIABLE}: expected name=URL pairs separated by commas, got {part!r}.")
        pairs.append((name.strip(), url.strip().rstrip("/")))
    return pairs


def _is_web_address(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https")
    except ValueError:  # half a pair of brackets
        return False


async def find_servers(env: Mapping[str, str], name: str | None = None, model_id: str | None = None) -> list[FoundServer]:
    """Ask all usual addresses for their models, at the same time.

    Args:
        env: the environment variables. `FAIRLEAD_LOCAL_SERVERS` names other addresses.
        name: the only server to ask.
        model_id: the model to describe in detail, instead of the first one.

    Returns:
        The servers that answered with at least one model, in the order of the addresses.

    Raises:
        ConfigError: `FAIRLEAD_LOCAL_SERVERS` cannot be used.
    """
    http = Http(env={})  # without a proxy, which could not reach these servers
    probes = [_Probe(http, each, url, model_id) for each, url in addresses(env) if name in (None, each)]
    tasks = [asyncio.create_task(probe.run(env)) for probe in probes]
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=NAMED_PATIENCE if ADDRESSES_VARIABLE in env else PATIENCE)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await http.close()
    return [found for probe in probes if (found := probe.find()) is not None]


def find_servers_now(env: Mapping[str, str], name: str | None = None, model_id: str | None = None) -> list[FoundServer]:
    """Do what `find_servers` does, for callers that cannot await it. Blocks for as long. Raises ConfigError."""
    addresses(env)  # raises here, and not in the thread
    found: list[FoundServer] = []
    search = threading.Thread(target=lambda: found.extend(asyncio.run(find_servers(env, name, model_id))), daemon=True)
    search.start()
    search.join()
    return found


async def list_served_models(http: Http, base_url: str, headers: Sequence[tuple[str, str]] = ()) -> list[ModelEntry]:
    """Return the models that the OpenAI-compatible server at `base_url` lists; none if it lists none or cannot be reached."""
    try:
        async with asyncio.timeout(_LIST_PATIENCE):
            body = await _get(http, f"{base_url.rstrip('/')}/models", headers)
    except (ProviderError, TimeoutError):
        return []
    return [_entry(each, None) for each in _for_chat(body) or _entries(body)]


class _Probe:
    """The search at one address. It keeps what it has learned when its time is over."""

    def __init__(self, http: Http, name: str, url: str, model_id: str | None) -> None:
        self._http = http
        self._name = name
        self._url = url
        self._model_id = model_id
        self._models: list[ModelEntry] = []

    def find(self) -> FoundServer | None:
        return FoundServer(self._name, f"{self._url}/v1", self._models) if self._models else None

    async def run(self, env: Mapping[str, str]) -> None:
        if not is_trusted_listener(self._url):
            return
        try:
            if self._name == "lmstudio":
                self._models = _read_lmstudio_list(await _get(self._http, f"{self._url}/api/v0/models"))
            if not self._models:
                self._models = await self._list_models(env)
            if self._name == "ollama" and self._models:
                chosen = next((index for index, model in enumerate(self._models) if model.id == self._model_id), 0)
                self._models[chosen] = await self._describe_by_ollama(self._models[chosen])
        except (ProviderError, RequestAborted):
            return

    async def _list_models(self, env: Mapping[str, str]) -> list[ModelEntry]:
        window = _UNSTATED_WINDOW
        if self._name == "ollama":
            window = _positive_int(env.get("OLLAMA_CONTEXT_LENGTH")) or DEFAULT_WINDOW
        return [_entry(each, window) for each in _for_chat(await _get(self._http, f"{self._url}/v1/models"))]

    async def _describe_by_ollama(self, model: ModelEntry) -> ModelEntry:
        """Add what only Ollama's own API says: the window in force, and whether the model's template supports tools."""
        shown, running = await asyncio.gather(
            _get(self._http, f"{self._url}/api/show", body={"model": model.id}),
            _get(self._http, f"{self._url}/api/ps"),
        )
        loaded = next((each for each in records(running.get("models")) if each.get("name") == model.id), dict[str, Any]())
        written = _NUM_CTX.search(str(shown.get("parameters") or ""))
        window = read_window(loaded) or (int(written[1]) if written else None) or model.context_window
        capabilities: Any = shown.get("capabilities")
        lacks_tools = isinstance(capabilities, list) and "tools" not in capabilities
        return replace(model, context_window=window, compat={"toolCallsAsText": True} if lacks_tools else None)


def _for_chat(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of a model list that can answer prompts."""
    return [each for each in _entries(body) if not _NOT_FOR_CHAT.search(each["id"])]


def _entries(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of a model list."""
    return [each for each in records(body.get("data")) if isinstance(each.get("id"), str) and each["id"]][:_MOST_MODELS]


def _read_lmstudio_list(body: dict[str, Any]) -> list[ModelEntry]:
    """Read LM Studio's own list, which says which models are loaded and with which window. Loaded models come first."""
    entries = [each for each in _for_chat(body) if each.get("type") != "embeddings"]
    entries.sort(key=lambda each: each.get("state") != "loaded")
    return [
        _entry({"id": each["id"], "loaded_context_length": each.get("loaded_context_length")}, DEFAULT_WINDOW) for each in entries
    ]


def _entry(listed: dict[str, Any], window: int | None) -> ModelEntry:
    """Describe a listed model. `window` is for a model whose window the server does not state; None if it is not known."""
    size = read_window(listed) or window
    if size is None:
        return ModelEntry(id=str(listed["id"]))
    return ModelEntry(id=str(listed["id"]), context_window=size, max_tokens=min(16_384, max(size // 4, 256)))


async def _get(
    http: Http, url: str, headers: Sequence[tuple[str, str]] = (), body: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the JSON object at `url`, asked for with POST if there is a body. An empty object for anything else."""
    given = [("accept", "application/json"), *headers]
    content = b""
    if body is not None:
        content = msgspec.json.encode(body)
        given.append(("content-type", "application/json"))
    request = HttpRequest("GET" if body is None else "POST", url, given, content)
    async with http.stream(request, CancelToken()) as response:
        if response.status != 200:
            return {}
        text = (await response.read(_LONGEST_LIST)).decode("utf-8", "replace")
    return record(decode_json(text))


def _positive_int(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


def is_trusted_listener(url: str) -> bool:
    """Return whether a server that a search found may be used.

    On a machine with several users, another user could listen on a usual port, and so receive prompts and control this agent.
    On Linux the listener must belong to this user or to a system account. Elsewhere the owner is not known.
    """
    address = urlsplit(url)
    owners = _listening_users(address.port or 80)
    if owners is None:
        return True
    return all(owner == os.getuid() or owner < 1000 for owner in owners)


def _listening_users(port: int) -> list[int] | None:
    """Return the users whose processes listen on a TCP port of this machine; None if the system does not say."""
    users: list[int] = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            if table.endswith("tcp"):
                return None
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 7 and fields[3] == "0A" and fields[1].endswith(f":{port:04X}"):
                users.append(int(fields[7]))
    return users
