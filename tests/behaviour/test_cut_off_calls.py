"""Tool calls that break off: they are not made, the model is told why, and what was broken does not go back to the provider."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.opal import opal, outcomes
from tests.support.stage import Turn, bash, calls, says, stage

from fairlead import Agent
from fairlead.core.model import Model, Price
from fairlead.testing import ProviderServer

BROKEN = '{"path": "f.txt", "content": "precious garbage that breaks'
#: How each API says that an answer reached the limit, and where a model of it is.
APIS = {
    "anthropic-messages": ("max_tokens", ""),
    "openai-completions": ("length", "/v1"),
    "openai-responses": ("max_output_tokens", "/v1"),
    "google-generative-ai": ("MAX_TOKENS", "/v1beta"),
}


def broken(tool: str = "write", arguments: Any = BROKEN, stop: str = "max_tokens", **rest: Any) -> Turn:
    return calls((tool, arguments), stopReason=stop, **rest)


@pytest.mark.parametrize("api", APIS)
async def test_calls_that_were_cut_off_are_not_sent_back(api: str, tmp_path: Path) -> None:
    stop, path = APIS[api]

    async def ask(url: str) -> str:
        model = Model("m", "m", api, "fake", url + path, False, ["text"], Price(), 100_000, 4_000)
        async with Agent(model=model, provider="fake", api_key="k", cwd=tmp_path, isolated=True, env={}) as agent:
            return (await agent.ask("go")).text

    with ProviderServer([broken(stop=stop), says("I will write less.")]) as provider:
        assert await ask(provider.url) == "I will write less."
    sent = json.dumps(provider.requests[1].body)
    assert "precious" not in sent
    assert "was not made: the answer reached the output token limit" in sent
    assert "Send less in one call" in sent
    assert not (tmp_path / "f.txt").exists()


@pytest.mark.parametrize("arguments", [BROKEN, "", "{", '{"path": "f.txt", "content": "x"', '[{"path": "f.txt"}'])
def test_a_host_sees_that_the_call_was_cut_off(tmp_path: Path, arguments: str) -> None:
    with stage(tmp_path, "pi", [broken(arguments=arguments), says("ok")]) as host:
        frames = host.prompt("go")
        (end,) = [frame for frame in frames if frame["type"] == "tool_execution_end"]
        assert end["isError"] and end["result"]["content"][0]["text"].startswith("The call of write was not made")
        assert list(host.around.cwd.iterdir()) == []
        [call] = host.provider.requests[1].body["messages"][1]["content"]
        assert call["input"] == {}


def test_a_tool_that_needs_no_arguments_is_not_run_when_they_may_be_missing(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [broken("ls", ""), says("ok")]) as host:
        (end,) = [frame for frame in host.prompt("go") if frame["type"] == "tool_execution_end"]
        assert end["isError"]
    with stage(tmp_path / "whole", "omp", [calls(("ls", "")), says("ok")]) as host:
        (end,) = [frame for frame in host.prompt("go") if frame["type"] == "tool_execution_end"]
        assert not end["isError"]


def test_complete_calls_of_an_answer_that_was_cut_off_are_made(tmp_path: Path) -> None:
    turn = calls(bash("echo whole"), ("write", BROKEN), stopReason="max_tokens")
    with stage(tmp_path, "pi", [turn, says("ok")]) as host:
        ends = {end["toolName"]: end for end in host.prompt("go") if end["type"] == "tool_execution_end"}
        assert ends["bash"]["result"]["content"][0]["text"] == "whole\n"
        assert ends["write"]["isError"]


def test_an_opal_client_sees_it_too(tmp_path: Path) -> None:
    with opal(tmp_path, [broken("write_file"), says("ok")]) as client:
        events = client.prompt(client.start(), "go")
        assert outcomes(events)["write_file"]["error"].startswith("The call of write_file was not made")
        assert "precious" not in json.dumps(client.host.provider.requests[1].body)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"command": ls}', "Expecting value at line 1 column 13, between '{\"command\": ' and 'ls}'"),
        ('["ls"]', "it is a list"),
        ('"ls"', "it is a string"),
        ("7", "it is a number"),
        ('{"command": NaN}', "NaN is not JSON"),
        ('{"command": "' + "x" * 9_000, "it breaks off after 9013 characters, with 'xxx"),
        ('{"a": 1} and more', "Extra data at line 1 column 10, between '{\"a\": 1} ' and 'and more'"),
        ("[" * 100_000, "it is nested too deeply"),
    ],
)
def test_arguments_that_are_not_json_are_an_error_that_says_what_is_wrong(tmp_path: Path, arguments: str, problem: str) -> None:
    with stage(tmp_path, "pi", [calls(("bash", arguments)), says("ok")]) as host:
        (end,) = [frame for frame in host.prompt("go") if frame["type"] == "tool_execution_end"]
        text = end["result"]["content"][0]["text"]
        first = f'Validation failed for tool "bash":\n  - the arguments are not a JSON object: {problem}'
        assert text.startswith(first)
        assert len(text) < 500


def test_a_tool_that_does_not_exist_is_answered_with_those_that_do(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", [calls(("raed", {}), ("x" * 5_000, {})), says("ok")]) as host:
        near, far = (frame for frame in host.prompt("go") if frame["type"] == "tool_execution_end")
        assert near["result"]["content"][0]["text"] == (
            "Tool raed not found\nDid you mean read? The tools are: read, bash, edit, write."
        )
        assert len(far["result"]["content"][0]["text"]) < 300
    with stage(tmp_path / "none", "pi", [calls(("bash", {})), says("ok")], flags=["--no-tools"]) as host:
        (end,) = (frame for frame in host.prompt("go") if frame["type"] == "tool_execution_end")
        assert end["result"]["content"][0]["text"] == "Tool bash not found\nThere are no tools: answer without them."
