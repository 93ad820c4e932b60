"""A session, with a model that plays a script."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.session.scene import Listener, a_session, a_tool, held, said, settled

from fairlead.core import events as e
from fairlead.core.messages import BashExecutionMessage, ToolCall, UserMessage, user_text
from fairlead.core.model import Model, ThinkingLevel
from fairlead.core.runtime import CancelToken
from fairlead.core.secrets import learn
from fairlead.core.tool import ToolContext, ToolResult
from fairlead.errors import BadCommand, BusyError, ConfigError, ModelNotFound
from fairlead.session.context.tokens import bash_text, for_model
from fairlead.session.session_events import report
from fairlead.stores.paths import new_session_id
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

PLAIN = structs.replace(SCRIPTED_MODEL, id="plain", reasoning=False)
THIRD = structs.replace(SCRIPTED_MODEL, id="third")


# Running


async def test_a_prompt_runs_until_the_session_has_settled(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(text="Hello.")]), tmp_path)
    heard = Listener(session)
    message = await session.prompt("hi")
    assert session.activity.is_streaming
    await settled(session)
    assert not session.activity.is_streaming
    assert heard.kinds()[0] == "AgentStart" and heard.kinds()[-2:] == ["AgentEnd", "AgentSettled"]
    assert session.messages[0] is message
    assert session.activity.last_end is not None and session.activity.last_end.message.text() == "Hello."


async def test_without_a_model_a_prompt_changes_nothing(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(text="x")]), tmp_path, model=None)
    with pytest.raises(ConfigError, match=r"No model selected\.\n\nSet a provider's key"):
        await session.prompt("hi")
    assert not session.activity.is_streaming and session.messages == []
    assert session.models.levels() == ["off"]


async def test_a_second_prompt_is_refused_and_the_run_continues(tmp_path: Path) -> None:
    turn, go = held()
    session = a_session(Scripted([turn]), tmp_path)
    await session.prompt("first")
    with pytest.raises(BusyError):
        await session.prompt("second")
    go.set()
    await settled(session)
    assert said(session) == ["first"]


async def test_of_two_prompts_at_once_one_is_refused(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(text="x")]), tmp_path)
    results = await asyncio.gather(session.prompt("a"), session.prompt("b"), return_exceptions=True)
    assert [type(result) for result in results] == [UserMessage, BusyError]
    await settled(session)
    assert said(session) == ["a"]


async def test_steering_and_follow_ups_given_while_idle_go_with_the_next_prompt(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(text="x")]), tmp_path)
    heard = Listener(session)
    await session.follow_up("afterwards")
    await session.steer("by the way")
    assert not session.activity.is_streaming
    assert heard[-1] == e.QueueUpdate(["by the way"], ["afterwards"])
    await session.prompt("go")
    await settled(session)
    assert said(session) == ["go", "by the way", "afterwards"]


async def test_an_abort_waits_for_the_end_and_keeps_the_queues(tmp_path: Path) -> None:
    turn, _ = held()
    session = a_session(Scripted([turn, Turn(text="again")]), tmp_path)
    heard = Listener(session)
    await session.prompt("go")
    await heard.until(e.MessageEnd)
    await session.steer("left")
    await session.follow_up("rest")
    async with asyncio.timeout(20):
        await session.abort()
    assert heard.kinds()[-1] == "AgentSettled"
    assert session.activity.last_end is not None and session.activity.last_end.message.stop_reason == "aborted"
    assert session.queue.update() == e.QueueUpdate(["left"], ["rest"])
    await session.prompt("go on")
    await settled(session)
    assert said(session) == ["go", "go on", "left", "rest"]


async def test_an_abort_while_idle_does_nothing(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(text="x")]), tmp_path)
    heard = Listener(session)
    await session.abort()
    assert heard == []
    await session.prompt("hi")
    await settled(session)
    assert session.activity.last_end is not None and session.activity.last_end.message.stop_reason == "stop"


async def test_a_cleared_queue_gives_its_texts_back(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(text="x")]), tmp_path)
    await session.steer("a")
    await session.follow_up("b")
    assert session.queue.clear() == (["a"], ["b"])
    assert len(session.queue) == 0


async def test_a_thousand_queued_messages_are_delivered_in_order(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(text="x")]), tmp_path)
    session.queue.follow_up.mode = "all"
    texts = [f"message {number}" for number in range(1000)]
    for text in texts:
        await session.follow_up(text)
    await session.prompt("go")
    await settled(session)
    assert said(session) == ["go", *texts]


async def test_a_removed_listener_receives_no_events(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(text="x")]), tmp_path)
    heard: list[e.Event] = []
    forget = session.subscribe(heard.append)
    forget()
    await session.steer("a")
    assert heard == []


class Valve:
    """A gate that the test closes and opens."""

    def __init__(self) -> None:
        self.paused = True
        self._waited = asyncio.Event()
        self._opened = asyncio.Event()

    def open(self) -> None:
        self.paused = False
        self._opened.set()

    async def is_waited_for(self) -> None:
        async with asyncio.timeout(20):
            await self._waited.wait()

    async def wait(self, cancel: CancelToken) -> None:
        self._waited.set()
        forget = cancel.on_fire(self._opened.set)
        await self._opened.wait()
        forget()


async def test_a_paused_gate_stops_the_run_until_it_opens(tmp_path: Path) -> None:
    model = Scripted([Turn(text="x")])
    session = a_session(model, tmp_path)
    valve = Valve()
    session.subscribe(lambda event: None, gate=valve)
    heard = Listener(session)
    await session.prompt("hi")
    await valve.is_waited_for()
    assert heard.kinds() == ["AgentStart"] and model.requests == []
    valve.open()
    await settled(session)
    assert heard.kinds()[-1] == "AgentSettled" and len(model.requests) == 1


async def test_an_abort_frees_a_run_from_a_paused_gate(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(text="x")]), tmp_path)
    valve = Valve()
    session.subscribe(lambda event: None, gate=valve)
    await session.prompt("hi")
    await valve.is_waited_for()
    async with asyncio.timeout(20):
        await session.abort()
    assert session.activity.last_end is not None and session.activity.last_end.message.stop_reason == "aborted"


# Models and thinking


def test_a_level_is_clamped_to_the_model_and_changes_are_announced(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(text="x")]), tmp_path, models=[SCRIPTED_MODEL, PLAIN])
    heard = Listener(session)
    session.models.set_thinking("high")
    session.models.set_thinking("high")
    session.models.set_thinking("xhigh")
    assert (session.thinking, heard) == ("high", [e.ThinkingLevelChanged("high", "medium")])
    session.models.set_model("scripted", "plain")
    assert (session.thinking, heard[-1]) == ("off", e.ThinkingLevelChanged("off", "high"))
    assert session.models.cycle_thinking() is None
    session.models.set_model("scripted", "scripted-1")
    assert session.thinking == "high", "what was asked for is remembered"


def test_levels_are_cycled_from_the_last_to_the_first(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(text="x")]), tmp_path, thinking="high")
    assert [session.models.cycle_thinking() for _ in range(3)] == ["off", "minimal", "low"]


async def test_the_model_is_asked_at_the_level_in_force(tmp_path: Path) -> None:
    model = Scripted([Turn(text="x")])
    session = a_session(model, tmp_path, thinking="xhigh")
    await session.prompt("hi")
    await settled(session)
    assert model.requests[0].thinking == "high"
    assert model.requests[0].system_prompt == "You are a test."


def test_an_unknown_model_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(text="x")]), tmp_path)
    with pytest.raises(ModelNotFound, match="Model not found: nobody/nothing"):
        session.models.set_model("nobody", "nothing")
    assert session.model == SCRIPTED_MODEL


def test_models_are_cycled_through_all_that_are_available(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(text="x")]), tmp_path, models=[SCRIPTED_MODEL, PLAIN, THIRD])
    assert [session.models.cycle_model() for _ in range(3)] == [(PLAIN, False), (THIRD, False), (SCRIPTED_MODEL, False)]


def test_models_are_cycled_through_the_chosen_ones_with_their_levels(tmp_path: Path) -> None:
    scoped: list[tuple[Model, ThinkingLevel | None]] = [(SCRIPTED_MODEL, None), (THIRD, "low")]
    session = a_session(Scripted([Turn(text="x")]), tmp_path, models=[SCRIPTED_MODEL, PLAIN, THIRD], scoped=scoped)
    assert session.models.cycle_model() == (THIRD, True)
    assert session.thinking == "low"
    assert session.models.cycle_model() == (SCRIPTED_MODEL, True)
    session.models.set_model("scripted", "plain")
    assert session.models.cycle_model() == (SCRIPTED_MODEL, True), "from outside the set, its first"


def test_a_single_model_is_not_cycled(tmp_path: Path) -> None:
    assert a_session(Scripted([Turn(text="x")]), tmp_path).models.cycle_model() is None


# Tools


async def test_the_active_tools_are_those_of_the_next_request(tmp_path: Path) -> None:
    model = Scripted([Turn(text="x")])
    session = a_session(model, tmp_path, [a_tool("one"), a_tool("two")])
    session.tools.activate(["two", "two"])
    assert session.tools.active == ["two"]
    with pytest.raises(BadCommand, match=r"Unknown tool: three, four\. The tools are: one, two"):
        session.tools.activate(["three", "one", "four"])
    assert session.tools.active == ["two"]
    await session.prompt("hi")
    await settled(session)
    assert [tool.name for tool in model.requests[0].tools] == ["two"]


async def test_tool_updates_are_emitted_until_the_tool_ends(tmp_path: Path) -> None:
    kept: list[ToolContext] = []

    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        kept.append(context)
        context.update(ToolResult.text("half"))
        return ToolResult.text("whole")

    model = Scripted([Turn(tool_calls=[ToolCall("c1", "one", {"x": 1})]), Turn(text="x")])
    session = a_session(model, tmp_path, [a_tool("one", run)])
    heard = Listener(session)
    await session.prompt("hi")
    await settled(session)
    kept[0].update(ToolResult.text("too late"))
    updates = [event for event in heard if isinstance(event, e.ToolUpdate)]
    assert updates == [e.ToolUpdate("c1", "one", {"x": 1}, ToolResult.text("half"))]


# The host's own commands


async def test_a_command_reaches_the_model_with_the_next_prompt(tmp_path: Path) -> None:
    model = Scripted([Turn(text="x")])
    session = a_session(model, tmp_path)
    done = await session.host.bash("echo out; exit 3")
    assert (done.message.output, done.message.exit_code) == ("out\n", 3)
    await session.host.bash("echo secret", exclude_from_context=True)
    assert len(session.messages) == 2
    await session.prompt("hi")
    await settled(session)
    first, second = model.requests[0].messages
    assert isinstance(first, UserMessage) and isinstance(second, UserMessage)
    assert user_text(first) == "Ran `echo out; exit 3`\n```\nout\n\n```\n\nCommand exited with code 3"
    assert user_text(second) == "hi"


async def test_a_command_during_a_run_joins_the_conversation_after_it(tmp_path: Path) -> None:
    turn, go = held()
    session = a_session(Scripted([turn]), tmp_path)
    heard = Listener(session)
    await session.prompt("hi")
    await heard.until(e.MessageEnd)
    await session.host.bash("true")
    assert [type(m) for m in session.messages] == [UserMessage]
    go.set()
    await settled(session)
    assert isinstance(session.messages[-1], BashExecutionMessage)
    assert len(session.messages) == 3


async def test_aborting_a_command_stops_the_latest_one(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(text="x")]), tmp_path)
    first = session.host.bash("tail -f /dev/null")
    await asyncio.sleep(0)
    second = session.host.bash("tail -f /dev/null")
    await asyncio.sleep(0)
    session.host.abort_bash()
    async with asyncio.timeout(20):
        assert (await second).message.cancelled
        assert not first.done()
        session.host.abort_all_commands()
        assert (await first).message.cancelled
    session.host.abort_bash()


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (BashExecutionMessage("true", "", False, False, 1, exit_code=0), "Ran `true`\n(no output)"),
        (BashExecutionMessage("x", "out", True, False, 1), "Ran `x`\n```\nout\n```\n\n(command cancelled)"),
        (
            BashExecutionMessage("x", "tail", False, True, 1, exit_code=0, full_output_path="/log"),
            "Ran `x`\n```\ntail\n```\n\n[Output truncated. Full output: /log]",
        ),
    ],
    ids=["no output", "cancelled", "truncated"],
)
def test_how_the_model_reads_of_a_command(message: BashExecutionMessage, text: str) -> None:
    assert bash_text(message) == text
    told = for_model(message)
    assert isinstance(told, UserMessage) and told.content == text


# Small things


def test_session_ids_sort_by_age() -> None:
    ids = [new_session_id() for _ in range(100)]
    assert len(set(ids)) == 100
    assert all(id[14] == "7" and id[19] in "89ab" and len(id) == 36 for id in ids)
    assert sorted(id[:13] for id in ids) == [id[:13] for id in ids]


async def test_the_context_in_use_is_that_of_the_last_good_answer(tmp_path: Path) -> None:
    session = a_session(Scripted([Turn(text="x"), Turn(error="broken")]), tmp_path)
    assert session.history.conversation.context_tokens() == 0
    for _ in range(2):
        await session.prompt("hi")
        await settled(session)
    # The last good answer said 150; the prompt after it is estimated.
    assert session.history.conversation.context_tokens() == 151


def test_a_bug_is_logged_without_secrets_and_nothing_is_printed(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    learn("sk-a-long-secret")
    report(ValueError("the key is sk-a-long-secret"))
    assert "ValueError: the key is [redacted]" in caplog.text
    assert capsys.readouterr() == ("", "")
