"""Images that a model's server cannot read: one failure each, and no conversation that is stuck with them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from tests.session.scene import file_of
from tests.support.windows import APIS, an_agent

from fairlead.core import events as e
from fairlead.core.messages import ImageContent
from fairlead.errors import ProviderError
from fairlead.session.context.unreadable_images import UNREADABLE
from fairlead.session.history.entries import IMAGES
from fairlead.testing import ProviderServer

IMAGE = ImageContent("aW1hZ2U=", "image/png")
OTHER = ImageContent("b3RoZXI=", "image/png")

#: What servers say, and with which status.
REFUSALS: dict[str, tuple[int, str]] = {
    "llama.cpp": (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
    "litellm": (500, "litellm.InternalServerError: OpenAIException - image input is not supported - hint: mmproj"),
    "vllm": (400, "smol is not a multimodal model"),
    "anthropic": (400, "messages.0.content.1.image.source.base64: invalid base64 data"),
    "anthropic, unreadable": (400, "Could not process image"),
    "openai": (400, "You uploaded an unsupported image. Please make sure your image is valid."),
    "deepseek": (400, "unknown variant `image_url`, expected `text`"),
    "openrouter": (404, "No endpoints found that support image input"),
    "google": (400, "Unable to process input image. Please retry or report."),
    "plain text only": (422, "content: Input should be a valid string"),
}


def has_image(body: Any) -> bool:
    text = json.dumps(body)
    return IMAGE.data in text or OTHER.data in text


def refusing(status: int, text: str, images: Callable[[Any], bool] = has_image) -> ProviderServer:
    return ProviderServer(lambda body: {"status": status, "error": text} if images(body) else {"text": "fine"})


@pytest.mark.parametrize("name", REFUSALS)
async def test_an_image_that_cannot_be_read_fails_once_and_is_then_replaced_by_a_note(tmp_path: Path, name: str) -> None:
    async with refusing(*REFUSALS[name]) as server, an_agent(tmp_path, server.url) as agent, asyncio.timeout(20):
        heard: list[e.Event] = []
        agent.session.subscribe(heard.append)
        with pytest.raises(ProviderError, match="is not sent to this model again"):
            await agent.ask("look", images=[IMAGE])
        assert len(server.requests) == 1, "another attempt would fail as well"
        assert not any(isinstance(event, e.RetryStart | e.CompactionStart) for event in heard)
        assert (await agent.ask("and now?")).text == "fine"
        assert UNREADABLE in json.dumps(server.requests[-1].body) and "look" in json.dumps(server.requests[-1].body)


@pytest.mark.parametrize("api", APIS)
async def test_the_note_is_sent_over_every_api_and_after_opening_the_session_again(tmp_path: Path, api: str) -> None:
    async with refusing(500, "image input is not supported") as server:
        async with an_agent(tmp_path, server.url, api) as agent, asyncio.timeout(20):
            with pytest.raises(ProviderError):
                await agent.ask("look", images=[IMAGE])
            file = file_of(agent.session)
        async with an_agent(tmp_path, server.url, api, session=file) as agent, asyncio.timeout(20):
            assert (await agent.ask("and now?")).text == "fine"
        assert UNREADABLE in json.dumps(server.requests[-1].body)
        assert IMAGE.data in file.read_text(), "the file keeps the image"


async def test_images_that_the_model_has_read_before_stay(tmp_path: Path) -> None:
    def only_the_other(body: Any) -> bool:
        return OTHER.data in json.dumps(body)

    server = refusing(400, "Could not process image", only_the_other)
    async with server, an_agent(tmp_path, server.url) as agent, asyncio.timeout(20):
        assert (await agent.ask("look", images=[IMAGE])).text == "fine"
        with pytest.raises(ProviderError):
            await agent.ask("and this?", images=[OTHER])
        assert (await agent.ask("and now?")).text == "fine"
        sent = json.dumps(server.requests[-1].body)
        assert IMAGE.data in sent and OTHER.data not in sent


async def test_another_model_gets_the_image(tmp_path: Path) -> None:
    async with refusing(500, "image input is not supported") as blind, ProviderServer([{"text": "a cat"}]) as seeing:
        model = {"id": "eye", "input": ["text", "image"]}
        eye = {"eye": {"baseUrl": f"{seeing.url}/v1", "api": "openai-completions", "models": [model]}}
        async with an_agent(tmp_path, blind.url, providers=eye) as agent, asyncio.timeout(20):
            with pytest.raises(ProviderError):
                await agent.ask("look", images=[IMAGE])
            agent.session.models.set_model("eye", "eye")
            assert (await agent.ask("and you?")).text == "a cat"
            assert IMAGE.data in json.dumps(seeing.requests[-1].body)


async def test_each_of_two_models_gets_the_images_that_it_can_read(tmp_path: Path) -> None:
    refusal = (400, "Could not process image")
    first = refusing(*refusal, lambda body: IMAGE.data in json.dumps(body))
    second = refusing(*refusal, lambda body: OTHER.data in json.dumps(body))
    async with first, second:
        model = {"id": "eye", "input": ["text", "image"]}
        eye = {"eye": {"baseUrl": f"{second.url}/v1", "api": "openai-completions", "models": [model]}}
        async with an_agent(tmp_path, first.url, providers=eye) as agent, asyncio.timeout(20):
            session = agent.session
            usual = session.model
            assert usual is not None
            log = session.history.conversation.lasting_log
            for provider, id, image in ((usual.provider, usual.id, IMAGE), ("eye", "eye", OTHER)):
                digest = blake2b(image.data.encode(), digest_size=16).hexdigest()
                log.custom(IMAGES, {"provider": provider, "model": id, "images": [digest]})
            assert (await agent.ask("look", images=[IMAGE, OTHER])).text == "fine"
            session.models.set_model("eye", "eye")
            assert (await agent.ask("and you?")).text == "fine"
            sent = json.dumps(second.requests[-1].body)
            assert IMAGE.data in sent and OTHER.data not in sent


@pytest.mark.parametrize(
    ("status", "text"), [(429, "rate limit for images"), (503, "the image service is overloaded"), (500, "Internal Server Error")]
)
async def test_failures_that_pass_are_not_the_images_fault(tmp_path: Path, status: int, text: str) -> None:
    turns = [{"status": status, "error": text}, {"text": "a cat"}]
    async with ProviderServer(turns) as server, an_agent(tmp_path, server.url) as agent, asyncio.timeout(20):
        assert (await agent.ask("look", images=[IMAGE])).text == "a cat"
        assert IMAGE.data in json.dumps(server.requests[-1].body)


async def test_without_images_an_error_that_mentions_one_is_like_any_other(tmp_path: Path) -> None:
    turns = [{"status": 500, "error": "image input is not supported"}, {"text": "fine"}]
    async with ProviderServer(turns) as server, an_agent(tmp_path, server.url) as agent, asyncio.timeout(20):
        assert (await agent.ask("hello")).text == "fine", "a 500 is tried again"


async def test_a_model_that_reads_only_text_is_announced_once_for_each_image(tmp_path: Path) -> None:
    model = {"id": "blind", "input": ["text"]}
    async with ProviderServer([{"text": "fine"}]) as server:
        blind = {"blind": {"baseUrl": f"{server.url}/v1", "api": "openai-completions", "models": [model]}}
        async with an_agent(tmp_path, server.url, providers=blind) as agent, asyncio.timeout(20):
            said: list[str] = []
            agent.session.subscribe(lambda event: said.append(event.error) if isinstance(event, e.ExtensionError) else None)
            agent.session.models.set_model("blind", "blind")
            await agent.ask("look", images=[IMAGE])
            note = "blind reads only text, and gets a note instead. Choose a model that reads images."
            assert said == [f"The image is not sent: {note}"]
            await agent.ask("and now?")
            await agent.ask("and these?", images=[IMAGE, OTHER])
            assert said[1:] == [f"The image is not sent: {note}"], "the first one is known already"
            assert IMAGE.data not in json.dumps(server.requests[-1].body)
