"""`--base-url`: any OpenAI-compatible server, without a file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cli.command import Command
from tests.support.surroundings import surroundings

from fairlead.testing import ProviderServer

SERVED: list[dict[str, Any]] = [{"id": "first", "max_model_len": 4096}, {"id": "second"}]


def a_command(server: ProviderServer, tmp_path: Any) -> Command:
    return Command(server, surroundings(tmp_path, "http://127.0.0.1:9"))


def test_a_model_behind_an_address_needs_no_file(tmp_path: Any) -> None:
    with ProviderServer([{"text": "Hello!"}], models=SERVED) as server:
        done = a_command(server, tmp_path)("-p", "hi", "--base-url", f"{server.url}/v1", "--model", "second", "--isolated")
        assert (done.returncode, done.stdout, done.stderr) == (0, "Hello!\n", "")
        asked = server.requests[-1]
        assert asked.path == "/v1/chat/completions" and asked.body["model"] == "second"
        assert "authorization" not in asked.headers


def test_without_a_name_the_first_model_of_the_server_answers(tmp_path: Any) -> None:
    with ProviderServer([{"text": "Hello!"}], models=SERVED) as server:
        done = a_command(server, tmp_path)("-p", "hi", "--base-url", f"{server.url}/v1")
        assert (done.returncode, done.stdout) == (0, "Hello!\n")
        assert server.requests[-1].body["model"] == "first"


def test_a_resumed_session_keeps_its_model_if_the_server_has_it(tmp_path: Any) -> None:
    with ProviderServer([{"text": "Hello!"}], models=SERVED) as server:
        command = a_command(server, tmp_path)
        assert command("-p", "hi", "--base-url", f"{server.url}/v1", "--model", "second").returncode == 0
        done = command("-c", "-p", "again", "--base-url", f"{server.url}/v1")
        assert (done.returncode, done.stdout, done.stderr) == (0, "Hello!\n", "")
        assert [request.body["model"] for request in server.requests] == ["second", "second"]


def test_an_address_answers_a_resumed_session_of_another_provider(tmp_path: Any) -> None:
    with ProviderServer([{"text": "Hello!"}], models=SERVED) as server, ProviderServer([{"text": "Elsewhere."}]) as other:
        command = Command(other, surroundings(tmp_path, other.url))
        assert command("-p", "hi").stdout == "Elsewhere.\n"
        done = command("-c", "-p", "again", "--base-url", f"{server.url}/v1")
        assert (done.returncode, done.stdout, done.stderr) == (0, "Hello!\n", "")
        assert len(other.requests) == 1 and server.requests[-1].body["model"] == "first"


@pytest.mark.parametrize(
    ("flags", "env", "key"),
    [
        (["--api-key", "sk-flag"], {}, "sk-flag"),
        ([], {"FAIRLEAD_API_KEY": "sk-own"}, "sk-own"),
        (["--api-key", "sk-flag"], {"FAIRLEAD_API_KEY": "sk-own"}, "sk-flag"),
        # The key of another provider stays at home, unless its name is given with the address.
        ([], {"OPENAI_API_KEY": "sk-openai"}, None),
        (["--provider", "deepseek"], {"DEEPSEEK_API_KEY": "sk-deep"}, "sk-deep"),
    ],
)
def test_the_key_for_an_address(tmp_path: Any, flags: list[str], env: dict[str, str], key: str | None) -> None:
    with ProviderServer([{"text": "Hello!"}], models=SERVED) as server:
        command = a_command(server, tmp_path)
        done = command("-p", "hi", "--base-url", f"{server.url}/v1", "--model", "second", *flags, env=env)
        assert (done.returncode, done.stdout) == (0, "Hello!\n"), done.stderr
        assert server.requests[-1].headers.get("authorization") == (f"Bearer {key}" if key else None)


@pytest.mark.parametrize(
    ("flags", "env", "advice"),
    [
        ([], {}, "No key was sent. Give one with FAIRLEAD_API_KEY or --api-key."),
        ([], {"FAIRLEAD_API_KEY": "sk-own"}, "The key came from the environment variable FAIRLEAD_API_KEY. Check it."),
        (["--api-key", "sk-flag"], {"FAIRLEAD_API_KEY": "sk-own"}, "The key came from --api-key. Check it."),
    ],
)
def test_a_refused_key_for_an_address_names_its_origin(tmp_path: Any, flags: list[str], env: dict[str, str], advice: str) -> None:
    with ProviderServer([{"status": 401, "error": "bad key"}], models=SERVED) as server:
        command = a_command(server, tmp_path)
        done = command("-p", "hi", "--base-url", f"{server.url}/v1", "--model", "second", *flags, env=env)
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == advice


def test_a_server_that_does_not_answer_is_reported(tmp_path: Any) -> None:
    with ProviderServer([]) as server:
        done = a_command(server, tmp_path)("-p", "hi", "--base-url", "http://127.0.0.1:9/v1")
    assert done.returncode == 1 and done.stdout == ""
    why = "The server at http://127.0.0.1:9/v1 does not answer, or does not list its models."
    assert done.stderr == f"Error: {why} Start it, or name a model with --model.\n"


@pytest.mark.parametrize("address", ["localhost:11434", "http://[", "http://localhost:99999/v1", "http://:80/v1"])
def test_a_wrong_address_is_explained(tmp_path: Any, address: str) -> None:
    with ProviderServer([]) as server:
        done = a_command(server, tmp_path)("-p", "hi", "--base-url", address, "--model", "m")
        assert done.returncode == 1 and "expected an address such as http://localhost:11434/v1" in done.stderr


def test_a_host_can_use_an_address_too(tmp_path: Any) -> None:
    with ProviderServer([{"text": "Hello!"}]) as server:
        command = a_command(server, tmp_path)
        lines = '{"type":"prompt","message":"hi"}\n'
        flags = ["--mode", "rpc", "--on-eof", "finish", "--base-url", f"{server.url}/v1", "--model", "m"]
        assert "Hello!" in command(*flags, input=lines).stdout


def test_a_server_that_runs_is_used_and_named_on_stderr(tmp_path: Any) -> None:
    with ProviderServer([{"text": "Hello!"}], models=SERVED) as server:
        env = {"FAIRLEAD_LOCAL_SERVERS": f"vllm={server.url}"}
        done = a_command(server, tmp_path)("-p", "hi", "--isolated", env=env)
        assert (done.returncode, done.stdout) == (0, "Hello!\n"), done.stderr
        assert done.stderr == f"fairlead: No key is set: vllm/first answers, at {server.url} on this machine.\n"


@pytest.mark.parametrize("words", [["--model", "vllm/second"], ["--model", "second"], ["--provider", "vllm"]], ids=" ".join)
def test_a_model_of_a_server_that_runs_is_used_by_its_name(tmp_path: Any, words: list[str]) -> None:
    with ProviderServer([{"text": "Hello!"}], models=SERVED) as server:
        env = {"FAIRLEAD_LOCAL_SERVERS": f"vllm={server.url}"}
        done = a_command(server, tmp_path)("-p", "hi", "--isolated", *words, env=env)
        assert (done.returncode, done.stdout, done.stderr) == (0, "Hello!\n", "")
        assert server.requests[-1].body["model"] == ("second" if "--model" in words else "first")


def test_a_server_that_is_named_and_does_not_run_is_an_error(tmp_path: Any) -> None:
    with ProviderServer([{"text": "Hello!"}]) as server:
        env = {"FAIRLEAD_LOCAL_SERVERS": "ollama=http://127.0.0.1:9"}
        command = a_command(server, tmp_path)
        for words in (["--model", "ollama/qwen3:8b"], ["--provider", "ollama"]):
            done = command("-p", "hi", "--isolated", *words, env=env)
            problem = "No model server answers at http://127.0.0.1:9, where ollama would be. Start it, or name its address"
            assert done.returncode == 1 and problem in done.stderr


def test_a_session_continues_with_the_model_of_its_server(tmp_path: Any) -> None:
    with ProviderServer([{"text": "Hello!"}], models=SERVED) as server:
        env = {"FAIRLEAD_LOCAL_SERVERS": f"vllm={server.url}"}
        command, folder = a_command(server, tmp_path), str(tmp_path / "sessions")
        flags = ["--isolated", "--session-dir", folder]
        assert command("-p", "hi", *flags, "--model", "vllm/second", env=env).returncode == 0
        done = command("-p", "again", "--continue", *flags, env=env)
        assert (done.returncode, done.stdout, done.stderr) == (0, "Hello!\n", "")
        assert server.requests[-1].body["model"] == "second"


def test_a_wrong_address_in_models_json_is_explained(tmp_path: Any) -> None:
    with ProviderServer([]) as server:
        command = a_command(server, tmp_path)
        entry = {"baseUrl": "http://[", "api": "openai-completions", "apiKey": "k", "models": [{"id": "m"}]}
        (command.around.home / "models.json").write_text(json.dumps({"providers": {"q": entry}}))
        done = command("-p", "hi", "--model", "q/m")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: 'http://[/chat/completions' is not an http:// or https:// URL; check the provider's base URL.\n"
    )
