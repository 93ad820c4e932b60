"""A real model server with a small window: llama.cpp with a model of 135 million parameters.

The model makes little sense. What counts is what the server accepts, and what it refuses in which words.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import peers
from tests.session.scene import file_of
from tests.support.windows import an_agent

from fairlead.core.messages import AssistantMessage, ImageContent
from fairlead.errors import ProviderError

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

WINDOW = 1024
HUGE = "begin " + "word " * 2_500 + "the end"
#: Short answers, so that it takes seconds; of the window nothing is said.
MODEL = {"id": "smol", "maxTokens": 16}
#: Seconds for a few answers on a busy machine.
PATIENCE = 240
#: A picture of one pixel.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    """The URL of the server, without a path."""
    python, weights = peers.LLAMA.command()
    script = Path(__file__).with_name("llama_server.py")
    with subprocess.Popen(
        [python, str(script), weights, str(WINDOW)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        url = next(line.split()[1].decode() for line in server.stdout if line.startswith(b"URL "))
        yield url
        server.stdin.close()
        server.kill()


@pytest.mark.parametrize("api", ["openai-completions", "openai-responses", "anthropic-messages"])
async def test_a_session_outgrows_the_window_and_continues(tmp_path: Path, llama: str, api: str) -> None:
    async with an_agent(tmp_path, llama, api, model=MODEL) as agent, asyncio.timeout(PATIENCE):
        model = agent.session.model
        assert model is not None
        for prompt in ("Hello.", HUGE, "And now?"):
            await agent.ask(prompt)
        assert agent.session.models.window(model) == WINDOW
        answers = [each for each in agent.session.messages if isinstance(each, AssistantMessage)]
        assert answers[-1].stop_reason in ("stop", "length") and answers[-1].usage.output <= 16
        assert HUGE in file_of(agent.session).read_text()


async def test_an_image_that_it_cannot_read_fails_once(tmp_path: Path, llama: str) -> None:
    async with an_agent(tmp_path, llama, model=MODEL) as agent, asyncio.timeout(PATIENCE):
        with pytest.raises(ProviderError, match="mmproj") as caught:
            await agent.ask("What is this?", images=[ImageContent(PIXEL, "image/png")])
        assert "is not sent to this model again" in str(caught.value)
        await agent.ask("And now?")
        failures = [each for each in agent.session.messages if getattr(each, "error_message", None)]
        assert len(failures) == 1


@pytest.mark.parametrize(
    ("change", "explained"), [("https", "speaks http, not https"), ("path", r"404 .*\[URL: http://127.0.0.1:\d+/elsewhere/v1/")]
)
async def test_a_wrong_address_is_explained(tmp_path: Path, llama: str, change: str, explained: str) -> None:
    url = llama.replace("http", "https") if change == "https" else f"{llama}/elsewhere"
    async with an_agent(tmp_path, url, model=MODEL) as agent, asyncio.timeout(10):
        with pytest.raises(ProviderError, match=explained):
            await agent.ask("Hello.")
