"""Whoever is asked about a tool call: before it, whether it may happen, and after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from fairlead.core import events as e
from fairlead.core.calls.execution import ABORTED
from fairlead.core.loop import AfterCall, BeforeCall, LoopCallbacks, TurnSetup, run_agent
from fairlead.core.messages import Message, TextContent, ToolCall, user_message
from fairlead.core.model import ModelRequest
from fairlead.core.queues import Queues
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import Approver, Permission, Schedule, Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.session.asyncio_runtime import AsyncioRuntime
from fairlead.testing import SCRIPTED_MODEL, Scripted
from fairlead.testing import Turn as Answer

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Scene:
    """A run with one turn of calls, the names that the tool was run with, and what came of each call."""

    def __init__(self, *names: str, schedule: Schedule = "together", timeout: float | None = 120) -> None:
        calls = [ToolCall(f"c{index}", "act", {"name": name}) for index, name in enumerate(names)]
        self.model = Scripted([Answer(tool_calls=calls), Answer(text="done")])
        self.schedule: Schedule = schedule
        self.tool = Tool("act", "acts", SCHEMA, self._act, timeout=timeout)
        self.cancel = CancelToken()
        self.ran: list[str] = []
        self.bugs: list[Exception] = []
        self.events: list[e.Event] = []
        self.before_call: BeforeCall | None = None
        self.approver: Approver | None = None
        self.after_call: AfterCall | None = None

    async def _act(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        self.ran.append(arguments["name"])
        return ToolResult.text(f"did {arguments['name']}")

    async def go(self) -> None:
        messages: list[Message] = [user_message("go", None, 1)]

        async def next_turn() -> TurnSetup:
            request = ModelRequest("", [], [])
            return TurnSetup(SCRIPTED_MODEL, self.model, request, {"act": self.tool}, self.schedule, 8)

        async def emit(event: e.Event) -> None:
            self.events.append(event)

        async def between() -> None: ...

        run = LoopCallbacks(
            next_turn=next_turn,
            between=between,
            watch=None,
            add=messages.append,
            emit=emit,
            update=emit,
            notify=self.events.append,
            report=self.bugs.append,
            queues=Queues(),
            runtime=AsyncioRuntime(),
            cancel=self.cancel,
            before_call=self.before_call,
            approver=self.approver,
            after_call=self.after_call,
        )
        async with asyncio.timeout(10):
            await run_agent(run, messages[:], [])

    def results(self) -> dict[str, tuple[str, bool]]:
        """What came of each call: its text, and whether it is an error."""
        return {event.call_id: (_text(event.result), event.is_error) for event in self.events if isinstance(event, e.ToolEnd)}


def _text(result: ToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


class Asks:
    """Implements `Approver`: says no to some names, raising an error."""

    def __init__(self, **refused: Exception) -> None:
        self.asked: list[dict[str, Any]] = []
        self._refused = refused

    async def check(self, tool: Tool, call_id: str, arguments: dict[str, Any], cancel: CancelToken) -> Permission | None:
        self.asked.append(arguments)
        if arguments["name"] in self._refused:
            raise self._refused[arguments["name"]]


async def test_arguments_can_be_changed_before_a_tool_runs() -> None:
    async def changed(tool: Tool, call: ToolCall, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"name": arguments["name"].upper()}

    scene = Scene("a", "b")
    scene.before_call = changed
    scene.approver = approver = Asks()
    await scene.go()
    assert scene.ran == ["A", "B"]
    assert approver.asked == [{"name": "A"}, {"name": "B"}], "consent is asked for what will be done"
    assert [event.arguments for event in scene.events if isinstance(event, e.ToolStart)] == [{"name": "a"}, {"name": "b"}]


async def test_tool_start_follows_approval_with_the_final_arguments() -> None:
    class Changes(Asks):
        async def check(self, tool: Tool, call_id: str, arguments: dict[str, Any], cancel: CancelToken) -> Permission | None:
            assert e.ToolRunning not in {type(event) for event in scene.events if getattr(event, "call_id", "") == call_id}
            await super().check(tool, call_id, arguments, cancel)
            return Permission(arguments={"name": arguments["name"].upper()})

    scene = Scene("a", "no", schedule="sequential")
    scene.approver = Changes(no=ToolError("Not this one."))
    await scene.go()
    told = [event for event in scene.events if isinstance(event, e.ToolStart | e.ToolRunning | e.ToolEnd)]
    assert [(type(event).__name__, event.call_id) for event in told] == [
        ("ToolStart", "c0"),
        ("ToolRunning", "c0"),
        ("ToolEnd", "c0"),
        ("ToolStart", "c1"),
        ("ToolEnd", "c1"),
    ]
    assert scene.ran == ["A"] and told[1] == e.ToolRunning("c0", "act", {"name": "A"})


async def test_changed_arguments_are_checked_against_the_schema_again() -> None:
    async def broken(tool: Tool, call: ToolCall, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"name": {"first": 7}} if arguments["name"] == "a" else {}

    scene = Scene("a", "b")
    scene.before_call = broken
    scene.approver = approver = Asks()
    await scene.go()
    assert scene.ran == [] and approver.asked == []
    (first, is_error), (second, _) = scene.results().values()
    assert is_error and 'Validation failed for tool "act"' in first and "name: expected string, got object" in first
    assert "name: missing" in second


async def test_a_call_that_is_blocked_or_refused_fails_and_the_others_run() -> None:
    async def before(tool: Tool, call: ToolCall, arguments: dict[str, Any]) -> dict[str, Any]:
        if arguments["name"] == "blocked":
            raise ToolError("Not this one.", {"by": "a test"})
        return arguments

    looked_at: list[str] = []

    async def after(
        tool: Tool, call: ToolCall, arguments: dict[str, Any], result: ToolResult, is_error: bool
    ) -> tuple[ToolResult, bool]:
        looked_at.append(arguments["name"])
        return result, is_error

    scene = Scene("blocked", "refused", "fine")
    scene.before_call, scene.after_call = before, after
    scene.approver = Asks(refused=ToolError("Nobody allowed it."))
    await scene.go()
    assert scene.ran == looked_at == ["fine"]
    assert scene.results() == {"c0": ("Not this one.", True), "c1": ("Nobody allowed it.", True), "c2": ("did fine", False)}
    assert scene.bugs == []


async def test_a_failing_approver_refuses_the_call() -> None:
    scene = Scene("a")
    scene.approver = Asks(a=RuntimeError("a bug"))
    await scene.go()
    assert scene.ran == []
    assert scene.results() == {"c0": ("RuntimeError: a bug", True)}
    assert [str(bug) for bug in scene.bugs] == ["a bug"]


async def test_a_question_that_takes_long_holds_up_neither_the_other_calls_nor_the_tools_own_time() -> None:
    scene = Scene("slow", "quick", timeout=0.05)
    asked, others_ran = asyncio.Event(), asyncio.Event()

    class Slow:
        async def check(self, tool: Tool, call_id: str, arguments: dict[str, Any], cancel: CancelToken) -> None:
            if arguments["name"] == "slow":
                asked.set()
                await others_ran.wait()
                await asyncio.sleep(0.1)  # longer than the tool itself may take

    async def after(
        tool: Tool, call: ToolCall, arguments: dict[str, Any], result: ToolResult, is_error: bool
    ) -> tuple[ToolResult, bool]:
        others_ran.set()
        return result, is_error

    scene.approver, scene.after_call = Slow(), after
    await scene.go()
    assert scene.ran == ["quick", "slow"]
    assert scene.results() == {"c1": ("did quick", False), "c0": ("did slow", False)}


async def test_an_abort_ends_a_question_at_once() -> None:
    for ask in ("before", "approver"):
        scene = Scene("a")
        asked, cut_off = asyncio.Event(), asyncio.Event()

        async def never(*arguments: Any, asked: asyncio.Event = asked, cut_off: asyncio.Event = cut_off) -> Any:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                cut_off.set()

        class Never:
            async def check(self, tool: Tool, call_id: str, arguments: dict[str, Any], cancel: CancelToken) -> None:
                await never()

        if ask == "before":
            scene.before_call = never
        else:
            scene.approver = Never()
        run = asyncio.create_task(scene.go())
        async with asyncio.timeout(10):
            await asked.wait()
            scene.cancel.fire()
            await run
        assert cut_off.is_set() and scene.ran == []
        assert scene.results() == {"c0": (ABORTED, True)}


async def test_a_result_can_be_changed() -> None:
    async def after(
        tool: Tool, call: ToolCall, arguments: dict[str, Any], result: ToolResult, is_error: bool
    ) -> tuple[ToolResult, bool]:
        return ToolResult.text(_text(result).replace("did", "[taken out]")), not is_error

    scene = Scene("a")
    scene.after_call = after
    await scene.go()
    assert scene.results() == {"c0": ("[taken out] a", True)}


async def test_a_result_is_not_shown_without_the_look_that_may_have_taken_something_out_of_it() -> None:
    async def broken(
        tool: Tool, call: ToolCall, arguments: dict[str, Any], result: ToolResult, is_error: bool
    ) -> tuple[ToolResult, bool]:
        raise RuntimeError("a bug")

    scene = Scene("a")
    scene.after_call = broken
    await scene.go()
    assert scene.results() == {"c0": ("RuntimeError: a bug", True)}


async def test_hooks_that_return_none_are_not_awaited() -> None:
    def nothing(*arguments: Any) -> Awaitable[Any] | None:
        return None

    scene = Scene("a")
    scene.before_call = scene.after_call = nothing
    await scene.go()
    assert scene.results() == {"c0": ("did a", False)}
