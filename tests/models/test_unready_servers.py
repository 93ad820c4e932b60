"""Servers that are not ready, are somewhere else, or speak another protocol: what the user is told, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.models.asking import a_model, a_request, ask, outcome, serving
from tests.models.raw_server import raw_server, until

from fairlead.core.model import StreamEnd
from fairlead.core.runtime import CancelToken
from fairlead.errors import ProviderError
from fairlead.models.adapters import open_stream
from fairlead.models.apis.sending import send
from fairlead.models.credentials import RequestAuth
from fairlead.models.http.http_client import Http, HttpRequest
from fairlead.testing import ProviderServer

APIS = ("openai-completions", "openai-responses", "anthropic-messages", "google-generative-ai")
LOADING = {"status": 503, "error": {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}}


async def asked(server: ProviderServer, api: str, cancel: CancelToken | None = None) -> StreamEnd:
    http = Http(env={})
    stream = open_stream(a_model(api, server.url), RequestAuth("sk", {}), http, lambda: 1)
    events = [event async for batch in stream(a_request(), cancel or CancelToken()) for event in batch]
    await http.close()
    assert isinstance(events[-1], StreamEnd)
    return events[-1]


@pytest.mark.parametrize("api", APIS)
async def test_a_server_that_loads_its_model_is_waited_for(
    api: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async with ProviderServer([LOADING, LOADING, {"text": "ready"}]) as server, asyncio.timeout(20):
        end = await asked(server, api)
        assert (end.message.stop_reason, end.message.text()) == ("stop", "ready")
        assert len(server.requests) == 3
    (record,) = [record for record in caplog.records if record.name == "fairlead.models"]
    assert record.levelname == "WARNING", "one warning, however long it takes"
    assert record.getMessage().startswith("waiting for the model server at 127.0.0.1:")
    assert capfd.readouterr() == ("", ""), "a library writes to no stream by itself"


async def test_the_warning_about_a_loading_server_has_nothing_of_the_url_but_the_host(caplog: pytest.LogCaptureFixture) -> None:
    async with ProviderServer([LOADING, {"text": "ready"}]) as server, asyncio.timeout(20):
        http = Http(env={})
        url = f"{server.url.replace('://', '://user:secret@')}/v1/chat/completions?key=secret"
        async with send(http, HttpRequest("POST", url, [], b"{}"), CancelToken()) as (response, _):
            assert response.status == 200
        await http.close()
    assert "waiting for the model server" in caplog.text and "secret" not in caplog.text


@pytest.mark.parametrize(
    "text",
    ["Model mistral is currently loading", "The model is not ready yet", "litellm.ServiceUnavailableError: Loading model"],
)
async def test_other_words_for_loading_are_known(text: str) -> None:
    answers: list[Any] = [{"status": 503, "error": text}, {"text": "ready"}]
    async with ProviderServer(answers) as server, asyncio.timeout(20):
        assert (await asked(server, "openai-completions")).message.text() == "ready"


def test_any_other_503_is_an_error_at_once() -> None:
    end = outcome("openai-completions", {"status": 503, "error": "Service Unavailable"}).end
    assert (end.status, end.transient) == (503, True) and "Service Unavailable" in (end.message.error_message or "")


async def test_an_abort_ends_the_wait() -> None:
    async with ProviderServer([LOADING]) as server, asyncio.timeout(20):
        cancel = CancelToken()
        asking = asyncio.create_task(asked(server, "openai-completions", cancel))
        await until(lambda: len(server.requests) >= 2)
        cancel.fire()
        assert (await asking).message.stop_reason == "aborted"


async def test_the_wait_has_an_end_and_its_error_is_not_tried_again() -> None:
    from fairlead.session.run.retry import is_retryable

    async with ProviderServer([LOADING]) as server, asyncio.timeout(20):
        http = Http(env={})
        request = HttpRequest("POST", f"{server.url}/v1/chat/completions", [], b"{}")
        with pytest.raises(ProviderError, match="was still loading its model after 0 s") as caught:
            async with send(http, request, CancelToken(), patience=0):
                pass
        await http.close()
    error = caught.value
    async with serving({"text": "x"}) as server:
        end = (await ask(server, "openai-completions")).end
    end.message.stop_reason, end.message.error_message, end.status = "error", str(error), error.status
    assert not is_retryable(end)


# Somewhere else


@pytest.mark.parametrize("api", APIS)
def test_a_404_names_the_url_and_what_may_be_wrong_with_it(api: str) -> None:
    text = outcome(api, {"status": 404, "error": {"detail": "Not Found"}}).message.error_message or ""
    assert text.startswith('404 {"detail": "Not Found"} [URL: http://127.0.0.1:')
    assert "Check the provider's base URL" in text and "alt=sse" not in text


def test_a_404_that_is_about_the_model_does_not_blame_the_url() -> None:
    text = outcome("openai-completions", {"status": 404, "error": "The model `x` does not exist"}).message.error_message or ""
    assert "[URL: http://127.0.0.1:" in text and "base URL" not in text


# Another protocol


async def test_https_to_a_port_that_speaks_http_and_waits_for_more_fails_within_seconds() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # As llama.cpp does: what is not a request line is waited for to become one.
        head = await reader.read(3)
        if head != b"GET":
            await reader.read()
            return
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()

    async with raw_server(talk) as server, asyncio.timeout(10):
        request = HttpRequest("POST", server.url.replace("http", "https"), [], b"{}")
        with pytest.raises(ProviderError, match=r"speaks http, not https\. Write http://") as caught:
            async with Http(env={}).stream(request, CancelToken()):
                pass
        assert not caught.value.transient, "another attempt cannot help"


async def test_an_https_server_answering_plain_requests_is_not_reported_as_http() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(3) == b"GET":
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\nThe plain HTTP request was sent to HTTPS port")
            await writer.drain()

    async with raw_server(talk) as server, asyncio.timeout(20):
        request = HttpRequest("POST", server.url.replace("http", "https"), [], b"{}")
        with pytest.raises(ProviderError, match="closed the connection while it was being opened"):
            async with Http(env={}).stream(request, CancelToken()):
                pass


async def test_a_silent_server_is_not_reported_as_http() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_server(talk) as server, asyncio.timeout(30):
        request = HttpRequest("POST", server.url.replace("http", "https"), [], b"{}")
        with pytest.raises(ProviderError, match="did not answer within 9 s"):
            async with Http(env={}, connect_timeout=9).stream(request, CancelToken()):
                pass
