"""Where extensions step in during a run: what they hear and when, what the model is told, tool calls, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import structs
from tests.session.family import Cast, a_parent, result_of, task_call
from tests.session.hooked import TestHooks, Waits, answers
from tests.session.scene import PATIENCE, Listener, a_session, a_tool, held, said, settled, talk, texts

from fairlead.core import events as e
from fairlead.core.messages import (
    CustomMessage,
    ModelMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    user_message,
    user_text,
)
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.session.session import Session
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn


def one_answer() -> Scripted:
    return Scripted([Turn(text="Yes.")])


def told_result(session: Session) -> tuple[str, bool]:
    message = next(m for m in session.messages if isinstance(m, ToolResultMessage))
    return "".join(block.text for block in message.content if isinstance(block, TextContent)), message.is_error


# Hearing


async def test_extensions_receive_events_before_other_listeners(tmp_path: Path) -> None:
    async def fails(event: e.Event) -> None:
        session.host.notify(e.ExtensionError("an extension", "turn_start", "it failed"))

    session = a_session(one_answer(), tmp_path, hooks=TestHooks(turn_start=fails))
    heard = Listener(session)
    await talk(session, "hi")
    assert heard.kinds()[:4] == ["AgentStart", "ExtensionError", "TurnStart", "MessageStart"]


async def test_extensions_receive_all_events_of_a_run_in_order(tmp_path: Path) -> None:
    names = """agent_start agent_end agent_settled turn_start turn_end message_start message_update message_end
        tool_execution_start tool_execution_running tool_execution_end""".split()
    hooks = TestHooks(**{name: answers() for name in names})
    calls = Turn(tool_calls=[ToolCall("c", "act", {})], chunk=1 << 20)
    session = a_session(Scripted([calls, Turn(text="Yes.", chunk=1 << 20)]), tmp_path, [a_tool("act")], hooks=hooks)
    heard = Listener(session)
    await talk(session, "hi")
    assert hooks.events == heard, "the same, in the same order"
    assert hooks.told[:3] == ["start startup", "agent_start", "turn_start"]
    assert hooks.told[-2:] == ["agent_end", "(agent_settled)"], "the run waits for its end to be heard, not for what follows"


async def test_a_run_waits_for_extension_handlers_but_an_abort_does_not(tmp_path: Path) -> None:
    hears = Waits()
    model = one_answer()
    session = a_session(model, tmp_path, hooks=TestHooks(turn_start=hears))
    heard = Listener(session)
    await session.prompt("hi")
    await hears.asked()
    assert heard.kinds() == ["AgentStart"]
    async with asyncio.timeout(PATIENCE):
        await session.abort()
    assert hears.was_cut_off
    assert heard.kinds()[-3:] == ["TurnEnd", "AgentEnd", "AgentSettled"]


async def test_extensions_receive_model_and_level_changes(tmp_path: Path) -> None:
    other = structs.replace(SCRIPTED_MODEL, id="other")
    hooks = TestHooks(model_select=answers(), thinking_level_select=answers())
    session = a_session(one_answer(), tmp_path, models=[SCRIPTED_MODEL, other], hooks=hooks)
    session.models.set_model("scripted", "other")
    assert hooks.events == [], "before they are ready they are told nothing"
    await session.extensions.ready()
    session.models.cycle_model()
    session.models.set_model("scripted", "scripted-1")
    session.models.set_model("scripted", "other")
    session.models.set_thinking("high")
    assert hooks.events == [
        e.ModelSelected(SCRIPTED_MODEL, other, "cycle"),
        e.ModelSelected(other, SCRIPTED_MODEL, "set"),
        e.ThinkingLevelChanged("high", "medium"),
    ]


# What the model is told


async def test_context_hooks_change_the_request_but_not_the_session(tmp_path: Path) -> None:
    async def context(messages: list[ModelMessage], system_prompt: str) -> tuple[list[ModelMessage], str]:
        return [*messages[:-1], user_message("something else", None, 1)], f"{system_prompt} Be brief."

    model = one_answer()
    session = a_session(model, tmp_path, hooks=TestHooks(context=context))
    await talk(session, "one", "two")
    first, second = model.requests
    assert texts(second.messages) == ["one", "Yes.", "something else"]
    assert (first.system_prompt, second.system_prompt) == ("You are a test. Be brief.",) * 2
    assert said(session) == ["one", "two"]
    assert second.messages[0] is session.messages[0], "adapters keep the encoding of what is the same"


async def test_after_an_abort_the_model_is_not_asked_what_extensions_have_not_seen(tmp_path: Path) -> None:
    look = Waits()
    model = one_answer()
    session = a_session(model, tmp_path, hooks=TestHooks(context=look))
    await session.prompt("a secret")
    await look.asked()
    async with asyncio.timeout(PATIENCE):
        await session.abort()
    assert look.was_cut_off and model.requests == []
    assert session.activity.last_end is not None and session.activity.last_end.message.stop_reason == "aborted"


async def test_interceptors_see_each_provider_request(tmp_path: Path) -> None:
    class Nobody:
        async def request(self, payload: dict[str, Any], headers: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
            return payload, headers

        async def response(self, status: int, headers: Mapping[str, str]) -> None: ...

        @property
        def sees_stream(self) -> bool:
            return False

        async def stream_event(self, model: Any, data: Any) -> None: ...

    hooks = TestHooks()
    model = one_answer()
    session = a_session(model, tmp_path, hooks=hooks)
    await talk(session, "one")
    hooks.interceptor = nobody = Nobody()
    await talk(session, "two")
    assert [request.interceptor for request in model.requests] == [None, nobody]


# Tool calls


async def test_a_tool_call_can_be_blocked_and_changed_and_its_message_stays_as_it_was(tmp_path: Path) -> None:
    async def act(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult.text(f"did {arguments['what']['deep']}")

    async def changes(tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if arguments["what"]["deep"] == "no":
            raise ToolError("Not that.")
        arguments["what"]["deep"] = "changed"  # in place, as extensions do
        return arguments

    async def result(tool_name: str, result: ToolResult, is_error: bool) -> tuple[ToolResult, bool]:
        return ToolResult.text(f"<{tool_name}>"), is_error

    calls = [ToolCall("a", "act", {"what": {"deep": "yes"}}), ToolCall("b", "act", {"what": {"deep": "no"}})]
    model = Scripted([Turn(tool_calls=calls), Turn(text="Yes.")])
    hooks = TestHooks(tool_call=changes)
    session = a_session(model, tmp_path, [a_tool("act", act)], hooks=hooks)
    heard = Listener(session)
    await talk(session, "hi")
    ends = {event.call_id: (event.result.content[0], event.is_error) for event in heard.of(e.ToolEnd)}
    assert ends == {"a": (TextContent("did changed"), False), "b": (TextContent("Not that."), True)}
    assert [event.arguments for event in heard.of(e.ToolStart)] == [{"what": {"deep": "yes"}}, {"what": {"deep": "no"}}]
    hooks.on("tool_result", result)
    hooks.handlers.pop("tool_call")
    again = a_session(Scripted([Turn(tool_calls=calls[:1]), Turn(text="Yes.")]), tmp_path, [a_tool("act", act)], hooks=hooks)
    await talk(again, "hi")
    assert told_result(again) == ("<act>", False)


async def test_an_abort_ends_the_wait_for_an_extension_before_a_tool(tmp_path: Path) -> None:
    asks = Waits()
    ran: list[str] = []

    async def act(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        ran.append("it")
        return ToolResult.text("done")

    model = Scripted([Turn(tool_calls=[ToolCall("c", "act", {})])])
    session = a_session(model, tmp_path, [a_tool("act", act)], hooks=TestHooks(tool_call=asks))
    await session.prompt("go")
    await asks.asked()
    async with asyncio.timeout(PATIENCE):
        await session.abort()
    assert asks.was_cut_off and ran == []
    assert told_result(session) == ("Command aborted", True)


class Consent:
    """Implements `Approver`: refuses commands that contain a word."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.asked: list[str] = []

    def for_subagent(self, id: str | None) -> Consent:
        return self

    async def check(self, tool: Tool, call_id: str, arguments: dict[str, Any], cancel: CancelToken) -> None:
        command = str(arguments.get("command"))
        self.asked.append(f"{tool.name} {command}" if tool.name == "bash" else tool.name)
        if self.word in command:
            raise ToolError("Refused.")


async def test_the_tool_calls_of_sub_agents_are_asked_about_and_nothing_else_of_them(tmp_path: Path) -> None:
    async def changes(tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"command": f"{arguments['command']} ok"} if tool_name == "bash" else arguments

    def bash(command: str) -> Turn:
        return Turn(tool_calls=[ToolCall("c", "bash", {"command": command})], chunk=1 << 20)

    cast = Cast(
        start=[task_call("child work"), Turn(text="All done.")],
        child=[bash("echo one"), bash("echo forbidden"), Turn(text="Finished.")],
    )
    hooks = TestHooks(tool_call=changes, tool_result=answers_with_result, turn_start=answers(), context=unchanged, input=kept)
    consent = Consent("forbidden")
    session = a_parent(cast, tmp_path, hooks=hooks, approver=consent)
    await session.prompt("start")
    await settled(session)
    assert consent.asked == ["task", "bash echo one ok", "bash echo forbidden ok"]
    asked = cast.requests("child")[-1].messages
    results = [m.content[0].text for m in asked if isinstance(m, ToolResultMessage) and isinstance(m.content[0], TextContent)]
    assert results == ["one ok\n (seen)", "Refused."]
    assert hooks.told.count("turn_start") == hooks.told.count("context") == 2, "those of the first session alone"
    assert hooks.told.count("input") == 1
    assert not result_of(session).is_error


async def answers_with_result(tool_name: str, result: ToolResult, is_error: bool) -> tuple[ToolResult, bool]:
    block = result.content[0]
    assert isinstance(block, TextContent)
    return (ToolResult.text(f"{block.text} (seen)") if tool_name == "bash" else result), is_error


async def unchanged(messages: list[ModelMessage], system_prompt: str) -> tuple[list[ModelMessage], str]:
    return messages, system_prompt


async def kept(text: str, source: str, behavior: str | None) -> Any:
    from fairlead.session.hooks import Heard

    return Heard(text)


# The end


async def test_extensions_can_continue_a_run_with_messages(tmp_path: Path) -> None:
    wanted = [[CustomMessage("check", "Is that all?", True, 1)], []]
    seen: list[list[str]] = []

    async def before_settle(messages: list[Any]) -> list[CustomMessage]:
        seen.append(texts(messages))
        return wanted.pop(0)

    model = Scripted([Turn(text="Yes."), Turn(text="It is.")])
    session = a_session(model, tmp_path, hooks=TestHooks(agent_before_settle=before_settle))
    heard = Listener(session)
    await talk(session, "hi")
    assert texts(session.messages) == ["hi", "Yes.", "CustomMessage", "It is."]
    assert seen == [["hi", "Yes."], ["CustomMessage", "It is."]]
    assert heard.outline(e.AgentStart, e.AgentEnd, e.AgentSettled) == [*("AgentStart", "AgentEnd") * 2, "AgentSettled"]
    assert [each.will_retry for each in heard if isinstance(each, e.AgentEnd)] == [False, False]
    last = model.requests[-1].messages[-1]
    assert isinstance(last, UserMessage) and user_text(last) == "Is that all?"


async def test_extensions_do_not_continue_a_run_that_a_limit_ended(tmp_path: Path) -> None:
    hooks = TestHooks(agent_before_settle=answers([CustomMessage("check", "Is that all?", True, 1)]))
    again = Scripted([Turn(tool_calls=[ToolCall("1", "act", {})])])
    session = a_session(again, tmp_path, [a_tool("act")], hooks=hooks, max_repeated_calls=3)
    heard = Listener(session)
    await talk(session, "hi")
    assert len(again.requests) == 3
    assert heard.outline(e.AgentStart, e.AgentEnd, e.AgentSettled) == ["AgentStart", "AgentEnd", "AgentSettled"]
    done = one_answer()
    session = a_session(done, tmp_path, hooks=hooks, max_turns=1)
    await talk(session, "hi")
    assert texts(session.messages) == ["hi", "Yes."]


async def test_messages_queued_during_settle_hooks_are_delivered(tmp_path: Path) -> None:
    ends = Waits([])
    hooks = TestHooks(agent_before_settle=ends)
    session = a_session(one_answer(), tmp_path, hooks=hooks)
    heard = Listener(session)
    await session.prompt("hi")
    await ends.asked()
    await session.follow_up("one more")
    ends.go.set()
    await settled(session)
    assert said(session) == ["hi", "one more"]
    assert len(heard.of(e.AgentSettled)) == 1


async def test_an_abort_ends_the_settle_hooks_and_calls_none_after_it(tmp_path: Path) -> None:
    ends = Waits([CustomMessage("check", "Go on.", True, 1)])
    session = a_session(one_answer(), tmp_path, hooks=TestHooks(agent_before_settle=ends))
    await session.prompt("hi")
    await ends.asked()
    async with asyncio.timeout(PATIENCE):
        await session.abort()
    assert ends.was_cut_off and texts(session.messages) == ["hi", "Yes."]
    turn, _ = held()
    hooks = TestHooks(agent_before_settle=answers([]))
    other = a_session(Scripted([turn]), tmp_path, hooks=hooks)
    await other.prompt("hi")
    await other.abort()
    assert "agent_before_settle" not in hooks.told
