"""The events of a run say what they are: text, thinking and tool arguments arrive as different types."""

from __future__ import annotations

from pathlib import Path

from fairlead import Agent, events
from fairlead.messages import AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

LOOK = Turn(thinking="I should look.", text="I will look.", tool_calls=[ToolCall("1", "bash", {"command": "echo here"})])


def an_agent(cwd: Path) -> Agent:
    return Agent(model=SCRIPTED_MODEL, stream=Scripted([LOOK, Turn(text="Done.")]), cwd=cwd, isolated=True)


async def test_each_kind_of_piece_has_its_own_type_and_attribute(tmp_path: Path) -> None:
    text, thinking, json = "", "", ""
    async with an_agent(tmp_path) as agent:
        async for event in agent.run("go"):
            match event:
                case events.TextDelta():
                    text += event.text
                case events.ThinkingDelta():
                    thinking += event.thinking
                case events.ToolArgumentsDelta():
                    json += event.json
                case _:
                    pass
    assert (text, thinking, json) == ("I will look.Done.", "I should look.", '{"command":"echo here"}')


async def test_only_text_has_the_attribute_text(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        seen = [event async for event in agent.run("go")]
    assert "".join(event.text for event in seen if hasattr(event, "text")) == "I will look.Done."  # type: ignore[union-attr]


async def test_every_piece_is_a_message_update_between_the_start_and_the_end_of_its_block(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        updates = [event async for event in agent.run("go") if isinstance(event, events.MessageUpdate)]
    kinds = list(dict.fromkeys((type(update), update.event.index) for update in updates))
    assert [kind for kind, index in kinds if index == 0][:3] == [events.BlockStarted, events.ThinkingDelta, events.BlockEnded]
    assert [kind for kind, index in kinds if index == 2] == [
        events.BlockStarted,
        events.ToolArgumentsDelta,
        events.BlockEnded,
    ]


async def test_every_message_says_its_role(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        async for _ in agent.run("go"):
            pass
        assert [message.role for message in agent.session.messages] == ["user", "assistant", "toolResult", "assistant"]
    assert (UserMessage.role, AssistantMessage.role, ToolResultMessage.role) == ("user", "assistant", "toolResult")
