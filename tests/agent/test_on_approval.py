"""`on_approval=`: a function of the program decides about tool calls that need approval."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead import Agent, Allow, ApprovalRequest, Deny, tool
from fairlead.errors import BadOption
from fairlead.messages import ToolCall, ToolResultMessage
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn


def bash(*commands: str) -> list[Turn]:
    return [Turn(tool_calls=[ToolCall(f"c{n}", "bash", {"command": command})]) for n, command in enumerate(commands)]


def an_agent(turns: list[Turn], cwd: Path, on_approval: Any, **changes: Any) -> Agent:
    options: dict[str, Any] = {"isolated": True, **changes}
    return Agent(model=SCRIPTED_MODEL, stream=Scripted([*turns, Turn(text="ok")]), cwd=cwd, on_approval=on_approval, **options)


async def results(agent: Agent) -> list[tuple[str, bool]]:
    async with agent:
        await agent.ask("go")
        return [
            ("".join(getattr(block, "text", "") for block in message.content).strip(), message.is_error)
            for message in agent.session.messages
            if isinstance(message, ToolResultMessage)
        ]


def as_async(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def decide(request: Any) -> Any:
        await asyncio.sleep(0)
        return function(request)

    return decide


@pytest.fixture(params=["plain", "async"])
def kind(request: pytest.FixtureRequest) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    return as_async if request.param == "async" else (lambda function: function)


async def test_the_function_gets_the_call_and_its_answer_counts(tmp_path: Path, kind: Any) -> None:
    asked: list[ApprovalRequest] = []
    answers: list[Any] = [
        Allow(),
        True,
        Deny("Too loud."),
        False,
        Allow(arguments={"command": "echo other"}),
        Allow(for_session=True),
    ]

    def decide(request: ApprovalRequest) -> Any:
        asked.append(request)
        return answers[len(asked) - 1]

    commands = ["echo a", "echo b", "echo c", "echo d", "echo e", "echo f", "echo f"]
    found = await results(an_agent(bash(*commands), tmp_path, kind(decide)))
    assert [(each.tool_name, each.call_id, each.arguments, each.subject) for each in asked] == [
        ("bash", f"c{n}", {"command": command}, command) for n, command in enumerate(commands[:6])
    ]
    texts, errors = [text for text, _ in found], [is_error for _, is_error in found]
    assert errors == [False, False, True, True, False, False, False]
    assert texts[:2] == ["a", "b"] and texts[4:6] == ["other", "f"] and texts[6].startswith("f")
    assert texts[2].startswith("bash was not run: the user refused it: Too loud.")


@pytest.mark.parametrize("answer", [None, "yes", 1, object(), Allow(arguments=3), Allow(arguments={}), Deny(5)])  # pyright: ignore[reportArgumentType]
async def test_everything_else_refuses_the_call(tmp_path: Path, kind: Any, answer: Any) -> None:
    ((text, is_error),) = await results(an_agent(bash("echo a"), tmp_path, kind(lambda request: answer)))  # pyright: ignore[reportUnknownLambdaType]
    assert is_error and text.startswith("bash was not run: ")


async def test_an_error_refuses_the_call(tmp_path: Path, kind: Any) -> None:
    def broken(request: ApprovalRequest) -> bool:
        raise LookupError("no such policy")

    ((text, is_error),) = await results(an_agent(bash("echo a"), tmp_path, kind(broken)))
    assert is_error and text.startswith("bash was not run: the question failed (LookupError)")


async def test_calls_that_only_read_are_not_asked_about(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")

    @tool(harmless=True)
    def look() -> str:
        """Look."""
        return "seen"

    @tool(asks=True)
    def act() -> str:
        """Act."""
        return "done"

    asked: list[str] = []
    calls = [ToolCall("1", "read", {"path": "a.txt"}), ToolCall("2", "look", {}), ToolCall("3", "act", {})]

    def refuse(request: ApprovalRequest) -> bool:
        asked.append(request.tool_name)
        return False

    found = await results(an_agent([Turn(tool_calls=calls)], tmp_path, refuse, extra_tools=[look, act]))
    assert asked == ["act"] and [is_error for _, is_error in found] == [False, False, True]


async def test_a_mode_that_is_given_decides_when_to_ask(tmp_path: Path) -> None:
    asked: list[ApprovalRequest] = []
    for mode, refused in (("auto", False), ("deny", True)):
        ((_, is_error),) = await results(an_agent(bash("echo a"), tmp_path, asked.append, approval=mode))
        assert is_error is refused
    assert asked == []


async def test_the_users_settings_may_deny_but_not_allow_more(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    env = {"FAIRLEAD_HOME": str(home), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    asked: list[str] = []

    def allow(request: ApprovalRequest) -> bool:
        asked.append(request.arguments["content"])
        return True

    for mode in ("deny", "write", "auto"):
        (home / "settings.json").write_text(f'{{"approvals": {{"mode": "{mode}"}}}}')
        write = Turn(tool_calls=[ToolCall("1", "write", {"path": "a.txt", "content": mode})])
        await results(an_agent([write], tmp_path, allow, isolated=False, env=env))
    assert asked == ["write", "auto"] and (tmp_path / "a.txt").read_text() == "auto"


async def test_the_function_may_block_and_an_abort_does_not_wait_for_it(tmp_path: Path) -> None:
    started, gate = threading.Event(), threading.Event()

    def think(request: ApprovalRequest) -> bool:
        started.set()
        gate.wait(20)
        return True

    async with an_agent(bash("touch made"), tmp_path, think) as agent:
        await agent.session.prompt("go")
        assert await asyncio.to_thread(started.wait, 20)
        await agent.session.abort()
        gate.set()
    assert not (tmp_path / "made").exists()


async def test_without_an_answer_in_time_the_call_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "settings.json").write_text('{"approvals": {"timeoutSeconds": 1}}')
    env = {"FAIRLEAD_HOME": str(home), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}

    async def never(request: ApprovalRequest) -> None:
        await asyncio.Event().wait()

    ((text, is_error),) = await results(an_agent(bash("echo a"), tmp_path, never, isolated=False, env=env))
    assert is_error and "within 1 seconds" in text


async def test_it_decides_about_the_calls_of_sub_agents(tmp_path: Path) -> None:
    asked: list[ApprovalRequest] = []

    def decide(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    task = {"agent": "task", "tasks": [{"id": "one", "description": "d", "assignment": "Say a."}]}
    turns = [Turn(tool_calls=[ToolCall("t", "task", task)]), *bash("echo a"), Turn(text="a")]
    await results(an_agent(turns, tmp_path, decide, tools=["task", "bash"]))
    assert [(request.tool_name, request.subagent) for request in asked if request.tool_name == "bash"] == [("bash", "one")]


def test_on_approval_that_is_not_callable_is_refused() -> None:
    with pytest.raises(BadOption, match=r"^on_approval: expected something to call or None, found 'ask'"):
        Agent(on_approval="ask")  # pyright: ignore[reportArgumentType]


async def test_a_plain_function_is_asked_about_one_call_at_a_time(tmp_path: Path) -> None:
    at_once: list[int] = []
    inside: list[str] = []

    def decide(request: ApprovalRequest) -> bool:
        inside.append(request.call_id)
        at_once.append(len(inside))
        threading.Event().wait(0.02)  # long enough for the others to come in, if they could
        inside.remove(request.call_id)
        return True

    calls = [ToolCall(f"c{n}", "bash", {"command": f"echo {n}"}) for n in range(4)]
    found = await results(an_agent([Turn(tool_calls=calls)], tmp_path, decide))
    assert sorted(found) == [(str(n), False) for n in range(4)]
    assert at_once == [1, 1, 1, 1]


async def test_a_coroutine_function_is_asked_about_calls_as_they_come(tmp_path: Path) -> None:
    asked: list[str] = []
    all_asked = asyncio.Event()

    async def decide(request: ApprovalRequest) -> bool:
        asked.append(request.call_id)
        if len(asked) == 3:
            all_asked.set()
        await all_asked.wait()
        return True

    calls = [ToolCall(f"c{n}", "bash", {"command": f"echo {n}"}) for n in range(3)]
    found = await results(an_agent([Turn(tool_calls=calls)], tmp_path, decide))
    assert sorted(found) == [(str(n), False) for n in range(3)]


async def test_the_next_question_waits_until_an_abandoned_one_has_returned(tmp_path: Path) -> None:
    started, gate = threading.Event(), threading.Event()
    inside: list[str] = []

    def think(request: ApprovalRequest) -> bool:
        inside.append(request.subject)
        assert len(inside) == 1
        started.set()
        gate.wait(20)
        inside.clear()
        return True

    async with an_agent(bash("echo a", "echo b"), tmp_path, think) as agent:
        await agent.session.prompt("go")
        assert await asyncio.to_thread(started.wait, 20)
        await agent.session.abort()
        run = asyncio.ensure_future(agent.ask("again"))
        gate.set()
        await run
        assert [message.is_error for message in agent.session.messages if isinstance(message, ToolResultMessage)] == [True, False]


async def test_functions_of_the_program_are_asked_about_only_if_they_say_so(tmp_path: Path) -> None:
    asked: list[str] = []

    def look_up(order: int) -> str:
        """Look up an order."""
        return f"order {order}"

    @tool(asks=True)
    def cancel(order: int) -> str:
        """Cancel an order."""
        return f"cancelled {order}"

    def decide(request: ApprovalRequest) -> Deny:
        asked.append(request.tool_name)
        return Deny("No.")

    calls = [
        ToolCall("1", "look_up", {"order": 7}),
        ToolCall("2", "cancel", {"order": 7}),
        ToolCall("3", "bash", {"command": "ls"}),
    ]
    found = await results(an_agent([Turn(tool_calls=calls)], tmp_path, decide, extra_tools=[look_up, cancel]))
    assert found[0] == ("order 7", False)
    assert [is_error for _, is_error in found] == [False, True, True]
    assert sorted(asked) == ["bash", "cancel"]
    found = await results(an_agent([Turn(tool_calls=calls[:1])], tmp_path, decide, extra_tools=[look_up], approval="deny"))
    assert found[0][1], "the mode deny holds for all tools that may change something"
