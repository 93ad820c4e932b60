"""The library: an agent in this process."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.support.surroundings import surroundings

from fairlead import Agent, AgentOptions, Tool, ToolContext, ToolError, ToolResult
from fairlead.core import events as e
from fairlead.core.messages import ImageContent, ToolCall, ToolResultMessage, UserMessage, user_text
from fairlead.core.model import ModelRequest, StreamEvent
from fairlead.core.partial_message import PartialMessage
from fairlead.core.runtime import CancelToken
from fairlead.errors import BusyError, ConfigError, LimitReached, ModelNotFound, NoCredentials, ProviderError, RunAborted
from fairlead.testing import SCRIPTED_MODEL, ProviderServer, Scripted, Turn


def an_agent(model: Any, cwd: Path, **changes: Any) -> Agent:
    return Agent(model=SCRIPTED_MODEL, stream=model, cwd=cwd, isolated=True, **changes)


def calling(name: str, **arguments: Any) -> Turn:
    return Turn(tool_calls=[ToolCall("c1", name, arguments)])


def results(agent: Agent) -> list[tuple[str, bool]]:
    """What the tools gave back, and whether it is an error."""
    return [
        ("".join(getattr(block, "text", "") for block in message.content), message.is_error)
        for message in agent.session.messages
        if isinstance(message, ToolResultMessage)
    ]


async def test_a_question_is_answered(tmp_path: Path) -> None:
    async with an_agent(Scripted([Turn(text="Hello.")]), tmp_path) as agent:
        assert agent.text() == ""
        assert (await agent.ask("hi")).text == "Hello."
        assert agent.text() == "Hello."


async def test_a_run_gives_all_events_up_to_the_settled_one(tmp_path: Path) -> None:
    async with an_agent(Scripted([Turn(text="Hello.")]), tmp_path) as agent:
        heard = [event async for event in agent.run("hi")]
        assert isinstance(heard[0], e.AgentStart) and isinstance(heard[-1], e.AgentSettled)
        assert not agent.session.activity.is_streaming


async def test_images_go_with_the_prompt(tmp_path: Path) -> None:
    model = Scripted([Turn(text="A dot.")])
    async with an_agent(model, tmp_path) as agent:
        await agent.ask("What is this?", [ImageContent("AAAA", "image/png")])
    (message,) = model.requests[0].messages
    assert isinstance(message, UserMessage) and message.content[1:] == [ImageContent("AAAA", "image/png")]


async def test_leaving_a_run_early_aborts_it(tmp_path: Path) -> None:
    turn = Turn(text="word " * 100, pause=asyncio.Event().wait)
    async with an_agent(Scripted([turn]), tmp_path) as agent, asyncio.timeout(20):
        async with aclosing(agent.run("hi")) as events:
            async for event in events:
                if isinstance(event, e.MessageEnd):
                    break
        assert not agent.session.activity.is_streaming
        assert agent.session.activity.last_end is not None
        assert agent.session.activity.last_end.message.stop_reason == "aborted"


async def test_a_cancelled_question_aborts_its_run(tmp_path: Path) -> None:
    turn = Turn(text="word", pause=asyncio.Event().wait)
    async with an_agent(Scripted([turn]), tmp_path) as agent:
        begun = asyncio.Event()
        agent.session.subscribe(lambda event: begun.set())
        asking = asyncio.create_task(agent.ask("hi"))
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert not agent.session.activity.is_streaming


async def test_closing_stops_the_run_and_the_hosts_commands(tmp_path: Path) -> None:
    agent = an_agent(Scripted([Turn(text="word", pause=asyncio.Event().wait)]), tmp_path)
    async with asyncio.timeout(20):
        await agent.session.prompt("hi")
        command = agent.session.host.bash("tail -f /dev/null")
        await asyncio.sleep(0)
        await agent.close()
        assert not agent.session.activity.is_streaming
        assert (await command).message.cancelled


async def test_built_in_tools_work_in_the_directory_of_the_agent(tmp_path: Path) -> None:
    model = Scripted([calling("write", path="new.txt", content="made"), calling("bash", command="cat new.txt"), Turn(text="ok")])
    async with an_agent(model, tmp_path) as agent:
        await agent.ask("hi")
        assert (tmp_path / "new.txt").read_text() == "made"
        assert results(agent)[1] == ("made", False)


async def test_commands_see_the_environment_of_the_agent(tmp_path: Path) -> None:
    env = {"PATH": "/bin:/usr/bin", "GREETING": "hello"}
    model = Scripted([calling("bash", command='echo "$GREETING $HOME"'), Turn(text="ok")])
    async with an_agent(model, tmp_path, env=env) as agent:
        await agent.ask("hi")
        assert results(agent)[0][0].strip() == "hello"


async def test_tools_of_the_callers_own_are_offered_and_run(tmp_path: Path) -> None:
    async def shout(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        if not arguments["text"]:
            raise ToolError("There is nothing to shout.")
        return ToolResult.text(arguments["text"].upper())

    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    tool = Tool("shout", "Shout.", schema, shout, snippet="Shout it out")
    model = Scripted([calling("shout", text="hey"), calling("shout", text=""), calling("shout"), Turn(text="ok")])
    async with an_agent(model, tmp_path, extra_tools=[tool], tools=["read"]) as agent:
        await agent.ask("hi")
        assert [spec.name for spec in model.requests[0].tools] == ["read", "shout"]
        assert "- shout: Shout it out" in model.requests[0].system_prompt
        given, refused, invalid = results(agent)
        assert given == ("HEY", False)
        assert refused == ("There is nothing to shout.", True)
        assert invalid[1] and "text: missing" in invalid[0]


async def test_a_model_of_the_callers_own_is_asked(tmp_path: Path) -> None:
    async def echo(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        last = request.messages[-1]
        assert isinstance(last, UserMessage)
        partial = PartialMessage(SCRIPTED_MODEL, 1)
        partial.start_text("only")
        partial.add("only", f"You said: {user_text(last)}")
        yield partial.take()
        partial.finish("stop")
        yield partial.take()

    async with an_agent(echo, tmp_path) as agent:
        assert (await agent.ask("hi")).text == "You said: hi"


async def test_a_model_that_breaks_ends_the_run_with_an_error(tmp_path: Path) -> None:
    async def broken(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        raise ValueError("out of order")
        yield []

    async with an_agent(broken, tmp_path) as agent, asyncio.timeout(20):
        with pytest.raises(ProviderError, match="ValueError: out of order"):
            await agent.ask("hi")


async def test_an_answer_that_was_stopped_is_not_the_one_before(tmp_path: Path) -> None:
    turns = [Turn(text="first"), Turn(text="second", pause=lambda: asyncio.Event().wait())]
    async with an_agent(Scripted(turns), tmp_path) as agent, asyncio.timeout(20):
        assert (await agent.ask("one")).text == "first"
        began = asyncio.Event()
        agent.session.subscribe(lambda event: began.set())
        asking = asyncio.create_task(agent.ask("two"))
        await began.wait()
        agent.session.activity.cancel()
        with pytest.raises(RunAborted):
            await asking


async def test_asking_a_busy_agent_leaves_its_run_alone(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    async with an_agent(Scripted([Turn(text="done", pause=go_on.wait)]), tmp_path) as agent, asyncio.timeout(20):
        began = asyncio.Event()
        agent.session.subscribe(lambda event: began.set())
        asking = asyncio.create_task(agent.ask("one"))
        await began.wait()
        with pytest.raises(BusyError):
            await agent.ask("two")
        go_on.set()
        assert (await asking).text == "done"


async def test_a_listener_that_raises_does_not_affect_other_listeners(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with an_agent(Scripted([Turn(text="done")]), tmp_path) as agent, asyncio.timeout(20):
        agent.session.subscribe(lambda event: print(1 / 0))
        assert (await agent.ask("one")).text == "done"
    assert "ZeroDivisionError" in caplog.text


async def test_a_listener_gets_only_the_kinds_of_events_that_it_asked_for(tmp_path: Path) -> None:
    seen: list[str] = []
    async with an_agent(Scripted([Turn(text="done")] * 3), tmp_path) as agent, asyncio.timeout(20):
        forget = agent.session.subscribe(lambda event: seen.append(type(event).__name__), kinds=(e.AgentStart, e.TurnEnd))
        await agent.ask("one")
        late = agent.session.subscribe(lambda event: seen.append("late"), kinds=(e.TurnEnd,))
        await agent.ask("two")
        forget()
        late()
        await agent.ask("three")
    assert seen == ["AgentStart", "TurnEnd", "AgentStart", "TurnEnd", "late"]


async def test_an_abort_while_the_key_is_looked_up_is_not_lost(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    key = f"!read _ < {tmp_path / 'gate'}; echo sk-late"
    models = {"fake": {"baseUrl": "http://127.0.0.1:9", "api": "anthropic-messages", "apiKey": key, "models": [{"id": "m"}]}}
    (home / "models.json").write_text(json.dumps({"providers": models}))
    os.mkfifo(tmp_path / "gate")
    gate = os.open(tmp_path / "gate", os.O_RDWR)
    env = {"FAIRLEAD_HOME": str(home), "PATH": os.environ["PATH"]}
    async with Agent(model="fake/m", cwd=tmp_path, env=env) as agent, asyncio.timeout(20):
        asking = asyncio.create_task(agent.ask("one"))
        await asyncio.sleep(0)
        agent.session.activity.cancel()
        os.write(gate, b"\n")
        with pytest.raises(RunAborted):
            await asking
    os.close(gate)


def test_a_stream_needs_a_model_that_describes_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a Model"):
        Agent(stream=Scripted([Turn(text="x")]), cwd=tmp_path, isolated=True)


def test_keywords_change_the_options(tmp_path: Path) -> None:
    options = AgentOptions(model=SCRIPTED_MODEL, stream=Scripted([Turn(text="x")]), cwd=tmp_path, isolated=True)
    assert Agent(options, thinking="high").session.thinking == "high"


async def test_two_agents_in_one_process_do_not_meet(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    agents = [
        an_agent(Scripted([calling("write", path="who", content=folder.name), Turn(text=folder.name)]), folder)
        for folder in folders
    ]
    assert [result.text for result in await asyncio.gather(*(agent.ask("hi") for agent in agents))] == ["a", "b"]
    assert [(folder / "who").read_text() for folder in folders] == ["a", "b"]
    assert agents[0].session.history.id != agents[1].session.history.id
    for agent in agents:
        await agent.close()


async def test_closing_removes_unreported_scratch_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    many_lines = "i=0; while [ $i -lt 3000 ]; do echo line; i=$((i+1)); done"
    async with an_agent(Scripted([Turn(text="x")]), tmp_path) as agent:
        done = await agent.session.host.bash(many_lines)
        assert done.message.truncated and done.message.full_output_path
        named = Path(done.message.full_output_path)
        (named.parent / "unnamed").write_text("left over")
    assert named.read_text().count("line") == 3000
    assert [file.name for file in named.parent.iterdir()] == [named.name]


# Putting it together


async def test_options_may_be_given_as_one_value(tmp_path: Path) -> None:
    options = AgentOptions(model=SCRIPTED_MODEL, stream=Scripted([Turn(text="x")]), cwd=tmp_path, thinking="low", isolated=True)
    async with Agent(options) as agent:
        assert agent.session.thinking == "low"


async def test_the_model_and_the_key_come_from_what_is_given(tmp_path: Path) -> None:
    async with ProviderServer([{"text": "Hello."}]) as server:
        env = {"ANTHROPIC_BASE_URL": server.url}
        options: dict[str, Any] = {"cwd": tmp_path, "env": env, "isolated": True}
        async with Agent(model="anthropic/claude-opus-5-5:low", api_key="sk-given", **options) as agent:
            assert (await agent.ask("hi")).text == "Hello."
            assert agent.session.thinking == "low"
        assert server.requests[0].headers["x-api-key"] == "sk-given"


async def test_a_model_without_a_key_refuses_the_prompt(tmp_path: Path) -> None:
    async with Agent(model="openai/gpt-6.1-sol", env={}, cwd=tmp_path, isolated=True) as agent:
        with pytest.raises(NoCredentials, match="set OPENAI_API_KEY or pass --api-key"):
            await agent.ask("hi")
        assert agent.session.messages == []


def test_the_error_for_an_unknown_model_names_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "models.json").write_text("{")
    with pytest.raises(ModelNotFound) as refused:
        Agent(model="mine", env={"FAIRLEAD_HOME": str(tmp_path)}, cwd=tmp_path)
    assert '"mine"' in str(refused.value) and "models.json" in str(refused.value)


def test_user_settings_apply_and_unusable_ones_are_reported(tmp_path: Path) -> None:
    settings = {"steeringMode": "all", "followUpMode": "sometimes", "interruptMode": "immediate", "enabledModels": ["gone"]}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    agent = Agent(env={"FAIRLEAD_HOME": str(tmp_path)}, cwd=tmp_path)
    queues = agent.session.queue
    assert (queues.steering.mode, queues.follow_up.mode, queues.interrupt) == ("all", "one-at-a-time", "immediate")
    assert any("followUpMode" in warning for warning in agent.warnings)
    assert any("enabledModels" in warning and "gone" in warning for warning in agent.warnings)


def test_a_setting_is_kept_for_the_sessions_to_come(tmp_path: Path) -> None:
    options: dict[str, Any] = {"env": {"FAIRLEAD_HOME": str(tmp_path)}, "cwd": tmp_path}
    Agent(**options).persist("steeringMode", "all")
    assert Agent(**options).session.queue.steering.mode == "all"
    with pytest.raises(ConfigError, match="isolated"):
        Agent(isolated=True, **options).persist("steeringMode", "all")


def test_tools_are_chosen_and_left_out(tmp_path: Path) -> None:
    def active(**options: Any) -> list[str]:
        return an_agent(Scripted([Turn(text="x")]), tmp_path, **options).session.tools.active

    assert active() == ["read", "bash", "edit", "write"]
    assert active(tools=["ls", "read"], exclude_tools=["read"]) == ["ls"]
    assert active(tools=[]) == []


def test_the_system_prompt_follows_the_tools(tmp_path: Path) -> None:
    agent = an_agent(Scripted([Turn(text="x")]), tmp_path, append_system_prompt=["Be brief."])
    before = agent.session.additions.system_prompt()
    assert "- bash:" in before and "Be brief." in before and str(tmp_path) in before
    agent.session.tools.activate(["read"])
    assert "- bash:" not in agent.session.additions.system_prompt()
    own = an_agent(Scripted([Turn(text="x")]), tmp_path, system_prompt="Mine.").session.additions.system_prompt()
    assert own.startswith("Mine.\n\nCurrent date: ")


def an_agent_with(settings: dict[str, Any], url: str, home: Path) -> Agent:
    (home / "settings.json").write_text(json.dumps(settings))
    env = {"FAIRLEAD_HOME": str(home), "ANTHROPIC_API_KEY": "sk", "ANTHROPIC_BASE_URL": url}
    return Agent(model="anthropic/claude-sonnet-4-5", cwd=home, env=env)


async def test_blocked_images_do_not_reach_the_provider(tmp_path: Path) -> None:
    async with ProviderServer([{"text": "ok"}]) as server:
        async with an_agent_with({"images": {"blockImages": True}}, server.url, tmp_path) as agent:
            assert (await agent.ask("look", [ImageContent("aGVsbG8=", "image/png")])).text == "ok"
        assert "aGVsbG8=" not in json.dumps(server.requests[0].body)


async def test_without_an_idle_timeout_a_request_waits_forever(tmp_path: Path) -> None:
    settings = {"httpIdleTimeoutMs": 0, "retry": {"enabled": False}}
    async with (
        ProviderServer([{"text": "late", "firstDelayMs": 200}]) as server,
        an_agent_with(settings, server.url, tmp_path) as agent,
    ):
        assert (await agent.ask("hi")).text == "late"


def test_after_the_warm_up_the_first_prompt_loads_no_module(tmp_path: Path) -> None:
    code = """
import sys, threading
from fairlead import Agent
with Agent() as agent:
    agent.warm_up()
    [thread.join() for thread in threading.enumerate() if thread.name == "fairlead-warm-up"]
    before = set(sys.modules)
    assert {"h11", "fairlead.session.history.store"} <= before
    answer = agent.ask_sync("hi").text
    print(answer, *(name for name in sys.modules if name not in before and not name.startswith("fairlead.agent.")))
"""
    with ProviderServer([{"text": "hello"}]) as provider:
        around = surroundings(tmp_path, provider.url)
        command = [sys.executable, "-W", "error", "-c", code]
        done = subprocess.run(command, check=True, timeout=30, capture_output=True, text=True, env=around.env, cwd=around.cwd)
    assert done.stdout.split() == ["hello"]


async def test_a_limit_ends_the_run_with_an_error(tmp_path: Path) -> None:
    turns = [calling("bash", command=f"echo {number}") for number in range(3)]
    async with an_agent(Scripted([*turns, Turn(text="done")]), tmp_path, max_turns=2) as agent:
        with pytest.raises(LimitReached, match="stopped after 2 turns"):
            await agent.ask("go")
        assert (await agent.ask("go on")).text == "done"
    model = Scripted([calling("read", path="missing")])
    async with an_agent(model, tmp_path) as agent:
        with pytest.raises(LimitReached, match="went round in circles"):
            await agent.ask("go")
        assert len(model.requests) == 4
    with pytest.raises(ConfigError, match="max_turns"):
        an_agent(model, tmp_path, max_turns=-1)


async def test_settings_that_cannot_be_read_say_why_an_agent_needs_the_sandbox_and_how_to_start_without(tmp_path: Path) -> None:
    settings = tmp_path / "home" / "settings.json"
    settings.mkdir(parents=True)
    env = {"FAIRLEAD_HOME": str(settings.parent), "HOME": str(tmp_path), "PATH": str(tmp_path)}  # without bubblewrap
    (tmp_path / "work").mkdir()
    options = AgentOptions(model=SCRIPTED_MODEL, stream=Scripted([Turn(text="x")]), cwd=tmp_path / "work", env=env)
    with pytest.raises(ConfigError) as raised:
        Agent(options)
    assert "bubblewrap" in str(raised.value) and f"{settings}: cannot be read" in str(raised.value)
    assert "pass --sandbox off" in str(raised.value) and "FAIRLEAD_HOME" in str(raised.value)
    agent = Agent(options, sandbox="off")
    assert agent.session.host.workspace.sandbox is None and agent.settings.approvals.mode == "ask"
    await agent.close()
