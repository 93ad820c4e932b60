from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import fairlead.testing
from fairlead.testing import ProviderServer

PATHS = {
    "anthropic": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "google": "/v1beta/models/gemini:streamGenerateContent?alt=sse",
}


def post(url: str, body: Any = None) -> str:
    request = urllib.request.Request(url, json.dumps(body or {}).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def events(stream: str) -> list[Any]:
    data = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in data]


def asked(text: str) -> Any:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS.keys())
def test_the_same_turn_in_every_format(path: str) -> None:
    turn = {
        "thinking": "thought",
        "text": "spoken",
        "chunk": 3,
        "repeat": 2,
        "toolCalls": [{"name": "bash", "arguments": {"command": "ls"}, "id": "call_9"}],
        "usage": {"input": 1, "output": 20, "cacheRead": 300, "cacheWrite": 4000, "reasoning": 5},
    }
    with ProviderServer([turn]) as server:
        stream = post(server.url + path)
    for expected in ("tho", "ugh", "spo", "ken", "call_9", "bash"):
        assert expected in stream
    assert stream.count('"spo"') >= 2


def test_openai_counts_cached_tokens_as_part_of_the_prompt() -> None:
    with ProviderServer([{"text": "x", "usage": {"input": 1, "output": 2, "cacheRead": 30}}]) as server:
        usage = events(post(server.url + PATHS["chat"]))[-2]["usage"]
        assert (usage["prompt_tokens"], usage["total_tokens"]) == (31, 33)
        usage = events(post(server.url + PATHS["responses"]))[-1]["response"]["usage"]
        assert (usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]) == (31, 30)
        usage = events(post(server.url + PATHS["google"]))[-1]["usageMetadata"]
        assert (usage["promptTokenCount"], usage["cachedContentTokenCount"]) == (31, 30)


@pytest.mark.parametrize(("reason", "end"), [("max_output_tokens", "response.incomplete"), ("failed", "response.failed")])
def test_a_response_may_end_otherwise(reason: str, end: str) -> None:
    with ProviderServer([{"text": "x", "stopReason": reason}]) as server:
        assert events(post(server.url + PATHS["responses"]))[-1]["type"] == end


def test_the_last_turn_repeats() -> None:
    with ProviderServer([{"text": "one"}, {"text": "two"}]) as server:
        said = [post(server.url + PATHS["chat"]) for _ in range(3)]
    assert ["one" in stream for stream in said] == [True, False, False]
    assert ["two" in stream for stream in said] == [False, True, True]


def test_a_looping_script_starts_over() -> None:
    with ProviderServer([{"text": "one"}, {"text": "two"}], loop=True) as server:
        said = [post(server.url + PATHS["chat"]) for _ in range(3)]
    assert ["one" in stream for stream in said] == [True, False, True]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("anthropic", asked("about fish")),
        ("chat", {"messages": [{"role": "user", "content": "about fish"}]}),
        ("responses", {"input": "about fish"}),
        ("google", {"contents": [{"role": "user", "parts": [{"text": "about fish"}]}]}),
    ],
)
def test_a_turn_may_match_what_is_asked(path: str, body: Any) -> None:
    with ProviderServer([{"text": "any"}, {"match": "fish", "text": "carp"}]) as server:
        assert "carp" in post(server.url + PATHS[path], body)
        assert "carp" not in post(server.url + PATHS[path], asked("birds"))


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS.keys())
def test_errors_have_the_providers_form(path: str) -> None:
    with ProviderServer([{"status": 429, "error": "slow down", "headers": {"retry-after": "3"}}]) as server:
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(server.url + path)
        with caught.value as answer:
            assert answer.code == 429
            assert answer.headers["retry-after"] == "3"
            assert json.loads(answer.read())["error"]["message"] == "slow down"


def test_an_error_may_be_given_as_it_is() -> None:
    with ProviderServer([{"status": 400, "error": {"detail": "odd"}}]) as server:
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(server.url + PATHS["chat"])
        with caught.value as answer:
            assert json.loads(answer.read()) == {"detail": "odd"}


def test_a_raw_body_is_sent_as_it_is() -> None:
    with ProviderServer([{"raw": ["half ", "😀", b"\xc3", "\udcbf"]}]) as server:
        assert post(server.url + PATHS["chat"]) == "half 😀ÿ"


def test_a_drop_loses_nothing_that_was_sent_before() -> None:
    with ProviderServer([{"text": "abcdef", "chunk": 1, "dropAfter": 3}]) as server:
        with pytest.raises(http.client.IncompleteRead) as caught:
            post(server.url + PATHS["chat"])
        assert b'"content":"c"' in caught.value.partial
        assert b'"content":"d"' not in caught.value.partial


def test_requests_and_connections_are_counted() -> None:
    with ProviderServer([{"text": "x"}]) as server:
        post(server.url + PATHS["google"], {"contents": []})
        post(server.url + PATHS["chat"], {"model": "m"})
        first, second = server.requests
    assert (first.path, first.query) == ("/v1beta/models/gemini:streamGenerateContent", "alt=sse")
    assert second.body == {"model": "m"}
    assert (first.connection, second.connection, server.connections) == (0, 1, 2)


async def test_a_held_turn_continues_when_released() -> None:
    async with ProviderServer([{"text": "abcdef", "chunk": 3, "holdAfter": 1}]) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"POST /messages HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
        received = await reader.readuntil(b'"abc"')
        assert b'"def"' not in received
        server.release()
        await reader.readuntil(b'"def"')
        writer.close()
        await server.until(lambda server: server.disconnections == 1)


async def test_a_hanging_turn_ends_when_the_client_leaves() -> None:
    async with ProviderServer([{"text": "abcdef", "chunk": 3, "hangAfter": 1}]) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"POST /messages HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
        await reader.readuntil(b'"abc"')
        assert server.disconnections == 0
        writer.close()
        await asyncio.wait_for(server.until(lambda server: server.disconnections == 1), 5)


async def test_a_port_that_is_taken_is_an_error_in_both_forms() -> None:
    with ProviderServer([]) as server:
        with pytest.raises(OSError), ProviderServer([], port=server.port):
            pass
        with pytest.raises(OSError):
            await ProviderServer([], port=server.port).start()


@pytest.mark.parametrize("script", [{"turns": [{"text": "from the command"}]}, [{"text": "from the command"}]])
def test_the_command_plays_a_script_and_logs_requests(script: Any, tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    command = [sys.executable, "-m", "fairlead.testing.provider", "--script", "-", "--log", str(log)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(script))
        process.stdin.close()
        try:
            word, port = process.stdout.readline().split()
            assert word == "PORT"
            said = post(f"http://127.0.0.1:{port}/v1/chat/completions", {"model": "m"})
            line = json.loads(log.read_text().splitlines()[0])
        finally:
            process.terminate()
    assert '"from the"' in said
    assert line["path"] == "/v1/chat/completions"
    assert line["body"] == {"model": "m"}


@pytest.mark.parametrize("script", ["[", "7", '{"turn": []}', '["hello"]', '[{"txet": "hello"}]'])
def test_the_command_explains_a_script_that_it_cannot_play(script: str) -> None:
    command = [sys.executable, "-m", "fairlead.testing.provider", "--script", "-"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and "error: " in done.stderr


def test_the_command_needs_nothing_of_the_rest() -> None:
    code = """
import sys
import fairlead.testing.provider
extra = [name for name in sys.modules if name.startswith(("fairlead.core", "fairlead.models", "msgspec", "h11"))]
assert not extra, extra
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)


def test_public_names_are_there() -> None:
    for name in fairlead.testing.__all__:
        assert getattr(fairlead.testing, name) is not None
    with pytest.raises(AttributeError):
        _ = fairlead.testing.Nothing  # pyright: ignore


def test_a_key_of_a_turn_that_means_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"Turn 2 of the script has an unknown key: delay_ms\. Did you mean delayMs\?"):
        ProviderServer([{"text": "fine"}, {"text": "slow", "delay_ms": 5}])
