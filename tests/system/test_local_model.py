"""A model that really runs here: llama.cpp in a child process, with weights of 135 million parameters."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from bench import peers
from bench.model_tasks import TEMPLATE

from fairlead import Agent
from fairlead.errors import ProviderError
from fairlead.models.local.llama import LlamaServer

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]
PATIENCE = 240


@pytest.fixture(scope="module")
def weights() -> Path:
    return Path(peers.LLAMA.command()[1])


def an_agent(tmp_path: Path, weights: Path) -> Agent:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "FAIRLEAD_HOME": str(tmp_path / "home")}
    return Agent(model_file=weights, cwd=tmp_path, env=env, tools=[], system_prompt="Be brief.", isolated=True)


def children() -> dict[int, str]:
    """The model processes of this test process, by id."""
    found = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=False)
    lines = (line.split(None, 1) for line in found.stdout.splitlines())
    return {int(pid): args for pid, args in lines if "llama_child" in args}


def ends(process: int) -> bool:
    """Wait until the process of a file descriptor has ended."""
    try:
        return bool(select.select([process], [], [], PATIENCE)[0])
    finally:
        os.close(process)


async def test_it_starts_when_asked_restarts_when_killed_and_ends_with_the_agent(tmp_path: Path, weights: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        before = set(children())
        async with an_agent(tmp_path, weights) as agent:
            assert set(children()) == before
            first = await agent.ask("Say hello.")
            assert first.text and first.usage.input > 5
            (pid,) = set(children()) - before

            assert len(children()[pid].split()) == 4  # no secret on the command line
            os.kill(pid, signal.SIGKILL)
            assert (await agent.ask("Say hello again.")).text
            (again,) = set(children()) - before - {pid}
            process = os.pidfd_open(again)
        assert await asyncio.to_thread(ends, process)


def test_its_port_needs_the_key(weights: Path) -> None:
    server = LlamaServer("m", weights, 512)
    try:
        address = server.address()
        with pytest.raises(HTTPError, match="401") as refused:
            urlopen(f"{address.url}/models")
        refused.value.close()
        with urlopen(Request(f"{address.url}/models", headers={"authorization": f"Bearer {address.key}"})) as answer:
            assert b'"m"' in answer.read()
    finally:
        server.stop()


def test_it_chooses_the_likeliest_words(weights: Path) -> None:
    server = LlamaServer("m", weights, 512)
    question = {"model": "m", "messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 24}
    try:
        address = server.address()
        headers = {"authorization": f"Bearer {address.key}", "content-type": "application/json"}
        answers: list[str] = []
        for _ in range(3):
            with urlopen(Request(f"{address.url}/chat/completions", json.dumps(question).encode(), headers)) as answer:
                answers.append(json.load(answer)["choices"][0]["message"]["content"])
        assert answers == [answers[0]] * 3
    finally:
        server.stop()


def test_a_template_replaces_that_of_the_model(weights: Path) -> None:
    server = LlamaServer("m", weights, 512, TEMPLATE.read_text())
    tool: dict[str, Any] = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"at": "me"}'}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "seen"},
    ]
    asked = json.dumps({"messages": messages, "tools": [{"type": "function", "function": tool}]}).encode()
    try:
        address = server.address()
        headers = {"authorization": f"Bearer {address.key}", "content-type": "application/json"}
        with urlopen(Request(f"{address.url.removesuffix('/v1')}/apply-template", asked, headers)) as answer:
            prompt: str = json.load(answer)["prompt"]
    finally:
        server.stop()
    assert prompt.startswith("<|im_start|>system\n# Tools\n") and '"name": "look"' in prompt and "Be brief.<|im_end|>" in prompt
    said = '<|im_start|>assistant\n```json\n{"name": "look", "arguments": {"at": "me"}}\n```<|im_end|>\n'
    result = "<|im_start|>user\n<tool_response>\nseen\n</tool_response><|im_end|>\n"
    assert prompt.endswith(f"<|im_start|>user\nHi.<|im_end|>\n{said}{result}<|im_start|>assistant\n")


def test_it_ends_when_its_parent_is_killed(weights: Path) -> None:
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom fairlead.models.local.llama import LlamaServer\n"
        "server = LlamaServer('m', Path(sys.argv[1]), 512)\nserver.address()\nprint(server.pid, flush=True)\ntime.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(weights)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        process = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    assert ends(process)


async def test_a_file_that_cannot_be_run_is_explained(tmp_path: Path, weights: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(weights.read_bytes()[: 5 << 20])
    async with asyncio.timeout(PATIENCE), an_agent(tmp_path, broken) as agent:
        with pytest.raises(ProviderError, match=r"llama\.cpp could not run .*broken\.gguf"):
            await agent.ask("Say hello.")


async def test_an_abort_does_not_wait_for_the_start(tmp_path: Path, weights: Path) -> None:
    async with asyncio.timeout(PATIENCE), an_agent(tmp_path, weights) as agent:
        started = asyncio.Event()
        agent.session.subscribe(lambda event: started.set())
        asking = asyncio.create_task(agent.ask("Say hello."))
        await started.wait()
        await agent.session.abort()
        with pytest.raises(Exception, match="abort"):
            await asking
        assert (await agent.ask("Say hello.")).text
