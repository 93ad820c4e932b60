"""What handlers of extensions written for pi change in an event, without returning it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.extend.extended import calling, notes, scripted, user_texts
from tests.extend.test_node_models import served

from fairlead.core.messages import AssistantMessage, TextContent
from fairlead.testing import Turn


async def test_messages_for_the_model_are_added_removed_and_edited_in_place(tmp_path: Path) -> None:
    body = """
  const change = {
    first: (messages) => messages.push({ role: "user", content: [{ type: "text", text: "pushed" }], timestamp: 5 }),
    second: (messages) => { messages[0].content = [{ type: "text", text: "edited" }]; },
    third: (messages) => messages.splice(0, messages.length - 1),
    fourth: () => {},
  };
  pi.on("context", (event) => { change[event.messages.at(-1).content[0].text]?.(event.messages); });
  pi.on("context", (event) => note(event.messages.length));
"""
    async with scripted(tmp_path, body) as it:
        for text in ("first", "second", "third", "fourth"):
            await it.agent.ask(text)
        said = [user_texts(request.messages) for request in it.model.requests]
        assert said == [["first", "pushed"], ["edited", "second"], ["third"], ["first", "second", "third", "fourth"]]
        assert user_texts(it.agent.session.messages) == ["first", "second", "third", "fourth"]
        assert it.errors == []
    assert notes(tmp_path) == [2, 3, 1, 7]


async def test_the_system_prompt_is_edited_in_place_and_its_loss_is_reported(tmp_path: Path) -> None:
    body = """
  pi.on("context_with_system", (event) => {
    if (event.messages.length === 2) event.messages[0].content = "Be brief.";
    else return { messages: event.messages.slice(1) };
  });
"""
    async with scripted(tmp_path, body) as it:
        await it.agent.ask("one")
        assert it.errors == []
        await it.agent.ask("two")
        assert [request.system_prompt for request in it.model.requests] == ["Be brief.", ""]
        ((file, event, error),) = it.errors
        assert (file, event) == ("one.ts", "context_with_system") and "removed the leading system message" in error


async def test_results_and_answers_are_edited_in_place(tmp_path: Path) -> None:
    body = """
  pi.on("tool_result", (event) => { event.content[0].text = event.content[0].text.toUpperCase(); });
  pi.on("tool_result", (event) => { event.content = []; note(event.isError); });
  pi.on("message_end", (event) => {
    if (event.message.role === "assistant" && event.message.content[0].type === "text") event.message.content[0].text += "!";
  });
"""
    async with scripted(tmp_path, body, turns=[calling("bash", command="echo one"), Turn(text="ok")]) as it:
        assert str(await it.agent.ask("hi")) == "ok!"
        assert it.results == [("ONE\n", False)]
        last = it.agent.session.messages[-1]
        assert isinstance(last, AssistantMessage) and last.content == [TextContent("ok!")]
        assert it.errors == []
    assert notes(tmp_path) == [False]


@pytest.mark.parametrize("change", ["event.payload.temperature = 0.5;", "return { ...event.payload, temperature: 0.5 };"])
async def test_a_request_is_changed_in_place_or_replaced(tmp_path: Path, change: str) -> None:
    body = f"""
  pi.on("before_provider_request", (event) => {{ {change} }});
  pi.on("before_provider_request", (event) => {{ note(event.payload.temperature); }});
"""
    async with served(tmp_path, body, {"text": "Hello."}) as (agent, server):
        await agent.ask("hi")
        assert server.requests[0].body["temperature"] == 0.5
    assert notes(tmp_path) == [0.5]


async def test_headers_of_a_request_are_shown_before_its_payload(tmp_path: Path) -> None:
    body = """
  pi.on("before_provider_request", () => { note("payload"); });
  pi.on("before_provider_headers", () => { note("headers"); });
  pi.on("after_provider_response", () => { note("response"); });
"""
    async with served(tmp_path, body, {"text": "Hello."}) as (agent, _):
        await agent.ask("hi")
    assert notes(tmp_path) == ["headers", "payload", "response"]
