"""Model servers that already run on this machine are found, and described as far as they describe themselves."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fairlead import Agent
from fairlead.config.home import Home
from fairlead.config.settings import Settings
from fairlead.errors import ConfigError
from fairlead.models.local import local_servers
from fairlead.models.local.local_servers import FoundServer, addresses, find_servers, is_trusted_listener
from fairlead.models.model_patterns import choose_model
from fairlead.models.registry import Registry

LISTED = {"object": "list", "data": [{"id": "nomic-embed-text"}, {"id": "qwen3:4b"}, {"id": "other"}]}


@contextmanager
def serving(routes: Mapping[str, Any]) -> Generator[str]:
    """A web server on loopback that answers these paths with JSON, and others with 404. Yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            found = routes.get(self.path)
            data = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def found_at(name: str, routes: Mapping[str, Any], **env: str) -> list[FoundServer]:
    with serving(routes) as url:
        return await find_servers({"FAIRLEAD_LOCAL_SERVERS": f"{name}={url}", **env})


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_servers, "NAMED_PATIENCE", 10.0)  # a busy machine


@pytest.mark.parametrize(
    ("name", "listed", "window"),
    [
        ("llama.cpp", {"id": "m", "meta": {"n_ctx": 8192}}, 8192),
        ("vllm", {"id": "m", "max_model_len": 40_960}, 40_960),
        ("vllm", {"id": "m"}, 32_768),
    ],
)
async def test_the_id_and_the_window_come_from_the_list(name: str, listed: dict[str, Any], window: int) -> None:
    (server,) = await found_at(name, {"/v1/models": {"data": [listed]}})
    (model,) = server.models
    assert (server.name, model.id, model.context_window) == (name, "m", window)
    assert server.base_url.endswith("/v1")


async def test_models_that_only_embed_are_left_out() -> None:
    (server,) = await found_at("vllm", {"/v1/models": LISTED})
    assert [model.id for model in server.models] == ["qwen3:4b", "other"]
    assert not await found_at("vllm", {"/v1/models": {"data": [{"id": "nomic-embed-text"}]}})


@pytest.mark.parametrize(
    ("shown", "running", "env", "window"),
    [
        ({}, {"models": [{"name": "qwen3:4b", "context_length": 16_384}]}, {}, 16_384),
        ({"parameters": "stop x\nnum_ctx    8192"}, {"models": []}, {}, 8192),
        ({}, {"models": []}, {"OLLAMA_CONTEXT_LENGTH": "12000"}, 12_000),
        ({}, {"models": []}, {}, 4096),
    ],
)
async def test_of_ollama_the_window_is_the_one_in_force(shown: Any, running: Any, env: dict[str, str], window: int) -> None:
    routes = {"/v1/models": LISTED, "/api/show": shown, "/api/ps": running}
    (server,) = await found_at("ollama", routes, **env)
    assert server.models[0].context_window == window


async def test_a_model_of_ollama_without_tools_writes_calls_as_text() -> None:
    routes = {"/v1/models": LISTED, "/api/show": {"capabilities": ["completion"]}, "/api/ps": {}}
    (server,) = await found_at("ollama", routes)
    assert server.models[0].compat == {"toolCallsAsText": True}
    (server,) = await found_at("ollama", {**routes, "/api/show": {"capabilities": ["completion", "tools"]}})
    assert server.models[0].compat is None


async def test_of_lm_studio_a_loaded_model_comes_first_with_its_window() -> None:
    own = [
        {"id": "big", "state": "not-loaded", "max_context_length": 131_072},
        {"id": "vec", "type": "embeddings"},
        {"id": "now", "state": "loaded", "loaded_context_length": 10_000, "max_context_length": 131_072},
    ]
    (server,) = await found_at("lmstudio", {"/api/v0/models": {"data": own}, "/v1/models": LISTED})
    assert [(model.id, model.context_window) for model in server.models] == [("now", 10_000), ("big", 4096)]


@pytest.mark.parametrize("answer", [b"<html>", {"data": []}, {"data": "x"}, [1], {"data": [{"id": 5}]}, None])
async def test_another_web_server_at_the_address_is_ignored(answer: Any) -> None:
    assert await found_at("vllm", {"/v1/models": answer}) == []


async def test_a_server_that_does_not_answer_does_not_delay_the_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute, serving({"/v1/models": LISTED}) as url:
        env = {"FAIRLEAD_LOCAL_SERVERS": f"slow=http://127.0.0.1:{mute.getsockname()[1]},vllm={url}"}
        assert [server.name for server in await find_servers(env)] == ["vllm"]


def test_the_usual_addresses_and_others() -> None:
    assert [url.rpartition(":")[2] for _, url in addresses({})] == ["11434", "1234", "8080", "8000"]
    assert addresses({"FAIRLEAD_LOCAL_SERVERS": ""}) == []
    assert addresses({"FAIRLEAD_LOCAL_SERVERS": " a=http://x:1/ , b=https://y"}) == [("a", "http://x:1"), ("b", "https://y")]
    for wrong in ("x", "x=ftp://y", "=http://y", "x=http://["):
        with pytest.raises(ConfigError, match="expected name=URL pairs"):
            addresses({"FAIRLEAD_LOCAL_SERVERS": wrong})


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the system does not say who listens")
def test_a_listener_of_another_user_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert is_trusted_listener(url)
        mine = os.getuid()

        def of_another(port: int) -> list[int]:
            return [mine + 1000]

        monkeypatch.setattr(local_servers, "_listening_users", of_another)
        assert not is_trusted_listener(url)


async def test_a_key_wins_over_a_server(tmp_path: Path) -> None:
    with serving({"/v1/models": LISTED}) as url:
        env = {"FAIRLEAD_LOCAL_SERVERS": f"vllm={url}", "OPENAI_API_KEY": "sk-x"}
        choice = await choose_model(Registry.load(Home(tmp_path), env), Settings(), env)
        assert choice.model is not None and choice.model.provider == "openai" and not choice.is_local
        assert "OPENAI_API_KEY is set" in choice.why


async def test_without_a_key_the_first_server_answers(tmp_path: Path) -> None:
    with serving({"/v1/models": LISTED}) as url:
        env = {"FAIRLEAD_LOCAL_SERVERS": f"gone=http://127.0.0.1:9,vllm={url}", "FAIRLEAD_HOME": str(tmp_path)}
        async with Agent(cwd=tmp_path, env=env) as agent:
            assert agent.session.model is None
            choice = await agent.choose_model()
            assert choice.model is not None and choice.is_local
            assert agent.session.model == choice.model
            assert choice.model.base_url == f"{url}/v1"
            assert choice.why == f"No key is set: vllm/qwen3:4b answers, at {url} on this machine."
            assert {model.id for model in agent.registry.available()} == {"qwen3:4b", "other"}


async def test_without_any_model_the_choice_says_how_to_get_one(tmp_path: Path) -> None:
    env = {"FAIRLEAD_LOCAL_SERVERS": "", "FAIRLEAD_HOME": str(tmp_path)}
    async with Agent(cwd=tmp_path, env=env) as agent:
        choice = await agent.choose_model()
        assert choice.model is None and "fairlead local" in choice.why and "ANTHROPIC_API_KEY" in choice.why
