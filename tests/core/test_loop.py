"""The loop, driven by a scripted model and tools that live in the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from fairlead.core import events as e
from fairlead.core.limits import Limits
from fairlead.core.loop import LoopCallbacks, TurnSetup, run_agent
from fairlead.core.message_updates import MessageUpdate
from fairlead.core.messages import Message, ToolCall, ToolResultMessage, UserMessage, user_message, user_text
from fairlead.core.model import BlockDelta, ModelRequest, ModelStream, StreamEnd, StreamEvent
from fairlead.core.queues import Queues
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import RunTool, Schedule, Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.session.asyncio_runtime import AsyncioRuntime
from fairlead.testing import SCRIPTED_MODEL, Scripted
from fairlead.testing import Turn as Answer

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Stage:
    """A run with everything around it recorded."""

    def __init__(self, model: ModelStream, tools: list[Tool] | None = None, schedule: Schedule = "together") -> None:
        self.model = model
        self.tools = {tool.name: tool for tool in tools or []}
        self.schedule: Schedule = schedule
        self.queues = Queues()
        self.cancel = CancelToken()
        self.runtime = AsyncioRuntime()
        self.limits = Limits()
        self.messages: list[Message] = []
        self.added: list[Message] = []
        self.bugs: list[Exception] = []
        self.events: list[e.Event] = []
        self.watch: Callable[[Any], str | None] | None = None
        #: How much had happened at each moment between two turns.
        self.between: list[int] = []
        self.on_event: Callable[[e.Event], object] = lambda event: None

    async def go(self, text: str = "go") -> StreamEnd:
        async def next_turn() -> TurnSetup:
            request = ModelRequest("", list(self.messages), [], "off")  # type: ignore[arg-type]
            return TurnSetup(SCRIPTED_MODEL, self.model, request, self.tools, self.schedule, 8)

        async def emit(event: e.Event) -> None:
            self.tell(event)

        async def between() -> None:
            self.between.append(len(self.events))

        run = LoopCallbacks(
            next_turn=next_turn,
            between=between,
            watch=self.watch,
            add=self.messages.append,
            emit=emit,
            update=emit,
            notify=self.tell,
            report=self.bugs.append,
            queues=self.queues,
            runtime=self.runtime,
            cancel=self.cancel,
            limits=self.limits,
        )
        prompt = user_message(text, None, 1)
        self.messages.append(prompt)
        return await run_agent(run, [prompt], self.added)

    def tell(self, event: e.Event) -> None:
        self.events.append(event)
        self.on_event(event)

    def steps(self) -> list[str]:
        """The run in short: kinds of events, with what matters of each; updates are left out."""
        return [step for event in self.events if (step := _step(event))]


def _step(event: e.Event) -> str:
    match event:
        case MessageUpdate() | e.ToolUpdate() | e.ToolRunning():
            return ""
        case e.MessageStart(message) | e.MessageEnd(message):
            kind = "start" if isinstance(event, e.MessageStart) else "end"
            return f"{kind} {_name(message)}"
        case e.ToolStart():
            return f"tool {event.arguments.get('name', event.call_id)}"
        case e.ToolEnd():
            return f"tool {'failed' if event.is_error else 'done'}: {event.result.content[0].text}"  # type: ignore[union-attr]
        case _:
            return type(event).__name__


def _name(message: Message) -> str:
    if isinstance(message, UserMessage):
        return f"user {user_text(message)}"
    if isinstance(message, ToolResultMessage):
        return f"result {message.content[0].text}"  # type: ignore[union-attr]
    return f"{message.__struct_config__.tag} {getattr(message, 'stop_reason', '')}".strip()


def tool(act: RunTool, name: str = "act", **changes: Any) -> Tool:
    return Tool(name, "acts", SCHEMA, act, **changes)


async def echo(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    return ToolResult.text(f"did {arguments['name']}")


def calls(*names: str, tool: str = "act") -> Answer:
    return Answer(tool_calls=[ToolCall(f"c{i}", tool, {"name": name}) for i, name in enumerate(names)])


def play(stage: Stage, text: str = "go") -> StreamEnd:
    return asyncio.run(asyncio.wait_for(stage.go(text), 10))


def test_a_plain_answer_is_one_turn() -> None:
    stage = Stage(Scripted([Answer(text="Hello.")]))
    play(stage)
    assert stage.steps() == [
        *("TurnStart", "start user go", "end user go"),
        *("start assistant stop", "end assistant stop", "TurnEnd"),
    ]
    assert stage.added == stage.messages


def test_the_loop_is_idle_for_a_moment_between_turns() -> None:
    stage = Stage(Scripted([calls("a"), calls("b"), Answer(text="Done.")]), [tool(echo)])
    play(stage)
    around = [(type(stage.events[at - 1]), type(stage.events[at])) for at in stage.between]
    assert around == [(e.TurnEnd, e.TurnStart)] * 2


def test_a_watcher_can_cut_off_an_answer_and_cancel_its_request() -> None:
    closed: list[bool] = []
    script = Scripted([Answer(text="one two three")])

    async def model(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        try:
            async for batch in script(request, cancel):
                for event in batch:
                    yield [event]
        finally:
            closed.append(True)

    stage = Stage(model)
    stage.watch = lambda event: "seen enough" if isinstance(event, BlockDelta) else None
    end = play(stage)
    assert (end.message.stop_reason, end.message.error_message) == ("aborted", "seen enough")
    assert closed == [True]
    assert stage.steps()[-2:] == ["end assistant aborted", "TurnEnd"]
    assert stage.added[-1] is end.message


def test_tool_results_open_the_next_turn() -> None:
    model = Scripted([calls("a"), Answer(text="Done.")])
    stage = Stage(model, [tool(echo)])
    play(stage)
    assert stage.steps()[5:] == [
        *("tool a", "tool done: did a", "start result did a", "end result did a", "TurnEnd"),
        *("TurnStart", "start assistant stop", "end assistant stop", "TurnEnd"),
    ]
    assert [type(message).__name__ for message in model.requests[1].messages] == [
        *("UserMessage", "AssistantMessage", "ToolResultMessage")
    ]


def test_together_starts_all_tools_and_gives_results_in_call_order_after_the_last_end() -> None:
    first_may_end = asyncio.Event()

    async def act(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        if arguments["name"] == "slow":
            await first_may_end.wait()
        else:
            first_may_end.set()
        return ToolResult.text(arguments["name"])

    stage = Stage(Scripted([calls("slow", "quick"), Answer(text="x")]), [tool(act)])
    play(stage)
    assert stage.steps()[5:13] == [
        *("tool slow", "tool quick", "tool done: quick", "tool done: slow"),
        *("start result slow", "end result slow", "start result quick", "end result quick"),
    ]


def test_exclusive_runs_tools_that_change_the_machine_alone_and_in_order() -> None:
    running: list[str] = []
    overlaps: list[tuple[str, ...]] = []

    async def act(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        running.append(arguments["name"])
        overlaps.append(tuple(running))
        await asyncio.sleep(0)
        running.remove(arguments["name"])
        return ToolResult.text(arguments["name"])

    answer = Answer(
        tool_calls=[
            ToolCall("1", "write", {"name": "w1"}),
            ToolCall("2", "read", {"name": "r1"}),
            ToolCall("3", "read", {"name": "r2"}),
            ToolCall("4", "write", {"name": "w2"}),
        ]
    )
    tools = [tool(act, "read"), tool(act, "write", exclusive=True)]
    stage = Stage(Scripted([answer, Answer(text="x")]), tools, "exclusive")
    play(stage)
    assert overlaps == [("w1",), ("r1",), ("r1", "r2"), ("w2",)]
    assert stage.steps()[5:9] == ["tool w1", "tool done: w1", "start result w1", "end result w1"]


def test_sequential_runs_one_tool_after_another() -> None:
    stage = Stage(Scripted([calls("a", "b"), Answer(text="x")]), [tool(echo)], "sequential")
    play(stage)
    assert [step for step in stage.steps() if step.startswith(("tool", "end result"))] == [
        *("tool a", "tool done: did a", "end result did a", "tool b", "tool done: did b", "end result did b")
    ]


def test_no_more_tools_run_at_once_than_allowed() -> None:
    running = 0
    most = 0

    async def act(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return ToolResult.text("x")

    stage = Stage(Scripted([calls(*map(str, range(30))), Answer(text="x")]), [tool(act)])
    play(stage)
    assert most == 8
    assert len([event for event in stage.events if isinstance(event, e.ToolEnd)]) == 30


def test_a_call_that_cannot_run_gets_an_error_and_the_run_continues() -> None:
    answer = Answer(
        tool_calls=[ToolCall("1", "nosuch", {"a": 1}), ToolCall("2", "act", {}), ToolCall("3", "act", {"name": "ok"})]
    )
    stage = Stage(Scripted([answer, Answer(text="x")]), [tool(echo)])
    assert play(stage).message.stop_reason == "stop"
    ends = [event for event in stage.events if isinstance(event, e.ToolEnd)]
    texts = [event.result.content[0].text for event in ends]  # type: ignore[union-attr]
    assert texts[0] == "Tool nosuch not found\nThe tools are: act."
    assert texts[1] == 'Validation failed for tool "act":\n  - name: missing\n\nReceived arguments:\n{}'
    assert texts[2] == "did ok"
    assert [event.is_error for event in ends] == [True, True, False]
    assert ends[0].result.details == {}


def test_arguments_that_are_not_json_are_shown_to_the_model() -> None:
    async def stream(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        from fairlead.core.partial_message import PartialMessage

        partial = PartialMessage(SCRIPTED_MODEL, 1)
        if len(request.messages) > 1:
            partial.finish("stop")
        else:
            partial.start_tool_call(0, "c", "act")
            partial.add(0, '{"name": "unfin')
            partial.finish("toolUse")
        yield partial.take()

    stage = Stage(stream, [tool(echo)])
    play(stage)
    [end] = [event for event in stage.events if isinstance(event, e.ToolEnd)]
    text = end.result.content[0].text  # type: ignore[union-attr]
    assert end.is_error and "not a JSON object" in text and '{"name": "unfin' in text


def test_a_tool_that_raises_anything_is_an_error_of_that_tool_alone() -> None:
    async def act(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        if arguments["name"] == "bug":
            raise KeyError("oops")
        raise ToolError("It broke.", {"why": 1})

    stage = Stage(Scripted([calls("bug", "known"), Answer(text="x")]), [tool(act)])
    assert play(stage).message.stop_reason == "stop"
    ends = {event.call_id: event for event in stage.events if isinstance(event, e.ToolEnd)}
    assert ends["c0"].result.content[0].text == "KeyError: 'oops'"  # type: ignore[union-attr]
    assert [type(bug) for bug in stage.bugs] == [KeyError]
    assert ends["c1"].result == ToolResult.text("It broke.", {"why": 1})


def test_a_tool_that_never_ends_is_cut_off() -> None:
    async def act(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        await asyncio.Event().wait()
        raise AssertionError

    stage = Stage(Scripted([calls("a"), Answer(text="x")]), [tool(act, timeout=0.01)])
    play(stage)
    assert "tool failed: act did not finish within 0.01 seconds and was stopped." in stage.steps()


def test_updates_of_a_tool_that_has_ended_are_dropped() -> None:
    kept: list[ToolContext] = []

    async def act(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        context.update(ToolResult.text("half"))
        kept.append(context)
        return ToolResult.text("all")

    stage = Stage(Scripted([calls("a"), Answer(text="x")]), [tool(act)])
    stage.on_event = lambda event: kept[0].update(ToolResult.text("late")) if isinstance(event, e.TurnEnd) and kept else None
    play(stage)
    assert [event.partial for event in stage.events if isinstance(event, e.ToolUpdate)] == [ToolResult.text("half")]


def test_steering_is_delivered_after_the_turn_one_at_a_time() -> None:
    stage = Stage(Scripted([calls("a", "b"), Answer(text="1"), Answer(text="2")]), [tool(echo)])
    stage.on_event = _queue_on(stage, e.ToolStart, ["left", "right"])
    play(stage)
    steps = stage.steps()
    assert [step for step in steps if step.startswith(("tool done", "start user", "TurnStart", "QueueUpdate"))] == [
        *("TurnStart", "start user go", "tool done: did a", "tool done: did b"),
        *("TurnStart", "QueueUpdate", "start user left", "TurnStart", "QueueUpdate", "start user right"),
    ]


def test_all_steering_messages_fit_into_one_turn() -> None:
    stage = Stage(Scripted([calls("a"), Answer(text="1")]), [tool(echo)])
    stage.queues.steering.mode = "all"
    stage.on_event = _queue_on(stage, e.ToolStart, ["left", "right"])
    play(stage)
    assert stage.steps().count("TurnStart") == 2


def test_immediate_steering_skips_the_calls_that_have_not_started() -> None:
    stage = Stage(Scripted([calls("a", "b", "c"), Answer(text="1")]), [tool(echo, exclusive=True)], "exclusive")
    stage.queues.interrupt = "immediate"
    stage.on_event = _queue_on(stage, e.ToolStart, ["stop that"])
    play(stage)
    assert [step for step in stage.steps() if step.startswith(("tool", "start user"))] == [
        *("start user go", "tool a", "tool done: did a"),
        *("tool b", "tool failed: Skipped due to queued user message."),
        *("tool c", "tool failed: Skipped due to queued user message.", "start user stop that"),
    ]


def test_follow_ups_wait_until_the_agent_would_stop() -> None:
    stage = Stage(Scripted([calls("a"), Answer(text="1"), Answer(text="2"), Answer(text="3")]), [tool(echo)])
    stage.queues.follow_up.add(user_message("then this", None, 1))
    stage.queues.follow_up.add(user_message("and that", None, 1))
    play(stage)
    assert [step for step in stage.steps() if step.startswith(("start user", "end assistant"))] == [
        *("start user go", "end assistant toolUse", "end assistant stop", "start user then this"),
        *("end assistant stop", "start user and that", "end assistant stop"),
    ]


def test_steering_that_waited_while_idle_follows_the_prompt_in_its_turn() -> None:
    stage = Stage(Scripted([Answer(text="1")]))
    stage.queues.steering.add(user_message("by the way", None, 1))
    play(stage)
    assert stage.steps()[:6] == [
        *(
            "TurnStart",
            "start user go",
            "end user go",
            "QueueUpdate",
            "start user by the way",
            "end user by the way",
        )
    ]


def test_an_abort_in_the_middle_of_an_answer_keeps_what_had_arrived() -> None:
    stage = Stage(Scripted([Answer(text="a long answer", chunk=2, pause=lambda: asyncio.sleep(0))]))
    stage.queues.follow_up.add(user_message("later", None, 1))
    stage.on_event = lambda event: stage.cancel.fire() if isinstance(event, MessageUpdate) else None
    end = play(stage)
    assert end.message.stop_reason == "aborted" and end.message.error_message == "Request was aborted"
    assert end.message.text() == "a "
    assert stage.steps()[-2:] == ["end assistant aborted", "TurnEnd"]
    assert len(stage.queues) == 1


def test_an_abort_during_tools_gives_every_call_a_result_and_ends_with_an_empty_answer() -> None:
    async def act(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        done = asyncio.Event()
        context.cancel.on_fire(done.set)
        await done.wait()
        raise ToolError("so far\n\nCommand aborted")

    stage = Stage(Scripted([calls("a", "b")]), [tool(act, exclusive=True)], "exclusive")
    stage.on_event = lambda event: (
        asyncio.get_running_loop().call_soon(stage.cancel.fire) if isinstance(event, e.ToolStart) else None
    )
    end = play(stage)
    assert end.message.stop_reason == "aborted" and end.message.content == []
    assert stage.steps()[5:] == [
        *("tool a", "tool failed: so far\n\nCommand aborted"),
        *("start result so far\n\nCommand aborted", "end result so far\n\nCommand aborted"),
        *("tool b", "tool failed: Command aborted", "start result Command aborted", "end result Command aborted"),
        *("TurnEnd", "TurnStart", "start assistant aborted", "end assistant aborted", "TurnEnd"),
    ]


def test_a_failed_request_shows_the_final_message_in_both_frames() -> None:
    async def stream(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        from fairlead.core.partial_message import PartialMessage

        partial = PartialMessage(SCRIPTED_MODEL, 1)
        partial.fail("401 no", status=401)
        yield partial.take()

    stage = Stage(stream)
    end = play(stage)
    assert end.status == 401
    assert stage.steps()[3:] == ["start assistant error", "end assistant error", "TurnEnd"]


def test_a_stream_that_breaks_its_promise_is_an_error_of_that_message() -> None:
    async def raises(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        from fairlead.core.partial_message import PartialMessage

        partial = PartialMessage(SCRIPTED_MODEL, 1)
        partial.start_text(0)
        partial.add(0, "half")
        yield partial.take()
        raise ValueError("bad luck")

    async def stops(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        return
        yield []

    end = play(Stage(raises))
    assert (end.message.error_message, end.message.text()) == ("ValueError: bad luck", "half")
    assert "stopped without an end" in (play(Stage(stops)).message.error_message or "")


def _queue_on(stage: Stage, kind: type, texts: list[str]) -> Callable[[e.Event], None]:
    """Queues steering messages at the first event of a kind."""

    def hook(event: e.Event) -> None:
        if isinstance(event, kind) and texts:
            for text in texts:
                stage.queues.steering.add(user_message(text, None, 1))
            texts.clear()

    return hook


async def test_an_answer_that_repeats_itself_ends_the_run_and_its_request() -> None:
    closed = False

    async def endless(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        nonlocal closed
        try:
            async for events in Scripted([Answer(text="and again " * 100_000, chunk=100)])(request, cancel):
                yield events
        finally:
            closed = True

    class Hurried(AsyncioRuntime):
        """Ten seconds pass with every look at the clock."""

        seconds = 0

        def now_ms(self) -> int:
            self.seconds += 10
            return self.seconds * 1000

    stage = Stage(endless)
    stage.runtime, stage.limits = Hurried(), Limits(max_repeated_text=2_000)
    end = await stage.go()
    assert end.is_final and end.message.stop_reason == "error" and "repeated itself" in (end.message.error_message or "")
    assert 2_000 <= len(end.message.text()) <= 4_000 and end.message is stage.messages[-1]
    assert closed
    assert stage.steps()[-2:] == ["end assistant error", "TurnEnd"]
