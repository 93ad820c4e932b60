"""Where extensions step in between what the user says and the run that comes of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.session.hooked import TestHooks, Waits, answers
from tests.session.scene import PATIENCE, Listener, a_kept_session, a_session, held, said, settled, talk, texts

from fairlead.core import events as e
from fairlead.core.events import AgentSettled
from fairlead.core.messages import CustomMessage, UserMessage
from fairlead.errors import BadCommand, BusyError, RunAborted
from fairlead.session.hooks import Heard, Opening
from fairlead.testing import Scripted, Turn

TOO_LATE = 'Extension command "/say" cannot be queued. Use prompt() or execute the command when not streaming.'


def one_answer() -> Scripted:
    return Scripted([Turn(text="Yes.")])


# Nothing for nobody


def test_without_extensions_none_of_this_is_even_loaded(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from fairlead.cli.start import postpone_imports
postpone_imports()
from fairlead import Agent, Discovery
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn

async def main():
    alone = Discovery(find_extensions=False)
    agent = Agent(model=SCRIPTED_MODEL, stream=Scripted([Turn(text="Yes.")]), isolated=True, discovery=alone)
    async with agent:
        assert agent.session.extensions.hooks is None
        print(await agent.ask("hi"))

asyncio.run(main())
modules = [sys.modules.get(name) for name in ("fairlead.session.hooks", "fairlead.session.hook_calls")]
print([module for module in modules if type(module).__name__ != "_PostponedModule"])
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("Yes.\n[]\n", "")


async def test_hooks_that_want_nothing_are_asked_nothing(tmp_path: Path) -> None:
    hooks = TestHooks()
    session = a_session(one_answer(), tmp_path, hooks=hooks)
    await talk(session, "one", "two")
    await session.steer("three")
    await session.close()
    assert hooks.told == ["start startup", "end quit"]
    assert hooks.loaded == 1 and hooks.events == []


# Commands


async def test_a_command_of_an_extension_runs_and_the_agent_does_not(tmp_path: Path) -> None:
    ran: list[str] = []

    async def say(text: str) -> None:
        ran.append(text)

    model = one_answer()
    hooks = TestHooks(input=answers(Heard("changed")))
    hooks.on("/say", say)
    session = a_session(model, tmp_path, hooks=hooks)
    heard = Listener(session)
    assert await session.prompt("/say hello world") is None
    assert ran == ["/say hello world"]
    assert not session.activity.is_streaming and heard == [] and model.requests == []
    message = await session.prompt("/say as it is", expand=False)
    assert isinstance(message, UserMessage)
    await settled(session)
    assert ran == ["/say hello world"], "what is not to be expanded is no command"


async def test_a_command_runs_beside_a_run_and_without_a_model(tmp_path: Path) -> None:
    turn, go = held()
    command = Waits()
    hooks = TestHooks()
    hooks.on("/wait", command)
    session = a_session(Scripted([turn]), tmp_path, hooks=hooks)
    await session.prompt("go")
    running = asyncio.create_task(session.prompt("/wait", behavior="steer"))
    await command.asked()
    assert list(session.queue.steering) == []
    go.set()
    await settled(session)
    assert not running.done(), "a command is no part of the run"
    command.go.set()
    assert await running is None
    nobody = a_session(one_answer(), tmp_path, hooks=hooks, model=None)
    assert await nobody.prompt("/wait") is None


async def test_a_command_cannot_be_queued(tmp_path: Path) -> None:
    hooks = TestHooks()
    hooks.on("/say", answers())
    session = a_session(one_answer(), tmp_path, hooks=hooks)
    for queue in (session.steer, session.follow_up):
        with pytest.raises(BadCommand) as refused:
            await queue("/say x")
        assert str(refused.value) == TOO_LATE
    assert len(session.queue) == 0 and "/say" not in hooks.told
    await session.steer("/say x", expand=False)
    assert session.queue.steering.texts() == ["/say x"]


# Input


async def test_input_hooks_can_change_or_handle_user_input(tmp_path: Path) -> None:
    asked: list[Any] = []

    async def heard(text: str, source: str, behavior: str | None) -> Heard:
        asked.append((text, source, behavior))
        return Heard(text.upper(), handled=text == "mine")

    session = a_session(one_answer(), tmp_path, hooks=TestHooks(input=heard))
    assert await session.prompt("mine") is None
    assert await session.steer("mine") is None
    assert not session.activity.is_streaming and len(session.queue) == 0
    await session.follow_up("later", source="extension")
    await session.steer("now", source="rpc")
    await talk(session, "hi")
    assert said(session) == ["HI", "NOW", "LATER"]
    assert asked == [
        ("mine", "interactive", None),
        ("mine", "interactive", "steer"),
        ("later", "extension", "followUp"),
        ("now", "rpc", "steer"),
        ("hi", "interactive", None),
    ]


async def test_of_two_prompts_at_once_one_is_refused_while_an_extension_looks_at_the_other(tmp_path: Path) -> None:
    look = Waits(Heard("a, looked at"))
    session = a_session(one_answer(), tmp_path, hooks=TestHooks(input=look))
    first = asyncio.create_task(session.prompt("a"))
    await look.asked()
    assert session.activity.is_streaming, "it counts as accepted"
    with pytest.raises(BusyError):
        await session.prompt("b")
    look.go.set()
    assert isinstance(await first, UserMessage)
    await settled(session)
    assert said(session) == ["a, looked at"]


async def test_after_a_prompt_that_an_extension_saw_to_the_next_one_begins(tmp_path: Path) -> None:
    look = Waits(Heard("", handled=True))
    hooks = TestHooks(input=look)
    session = a_session(one_answer(), tmp_path, hooks=hooks)
    first = asyncio.create_task(session.prompt("a"))
    await look.asked()
    second = asyncio.create_task(session.prompt("b", behavior="steer"))
    await asyncio.sleep(0)
    hooks.on("input", answers(Heard("b, looked at")))
    look.go.set()
    assert await first is None
    assert isinstance(await second, UserMessage)
    await settled(session)
    assert said(session) == ["b, looked at"], "it was not left in a queue that nobody looks into"


async def test_a_prompt_to_be_queued_begins_a_run_if_the_other_one_ends_meanwhile(tmp_path: Path) -> None:
    turn, go = held()
    hooks = TestHooks()
    session = a_session(Scripted([turn, Turn(text="Yes.")]), tmp_path, hooks=hooks)
    await session.prompt("first")
    look = Waits(Heard("second"))
    hooks.on("input", look)
    second = asyncio.create_task(session.prompt("second", behavior="followUp"))
    await look.asked()
    go.set()
    await settled(session)
    look.go.set()
    await second
    await settled(session)
    assert said(session) == ["first", "second"]
    assert hooks.told.count("input") == 1, "it was heard once"


async def test_queued_messages_stay_in_order_however_long_extensions_look_at_each(tmp_path: Path) -> None:
    looks = {"one": Waits(Heard("one")), "two": Waits(Heard("two"))}

    async def heard(text: str, source: str, behavior: str | None) -> Heard:
        return await looks[text]()

    session = a_session(one_answer(), tmp_path, hooks=TestHooks(input=heard))
    steers = [asyncio.create_task(session.steer(text)) for text in looks]
    await looks["one"].asked()
    looks["two"].go.set()
    await asyncio.sleep(0)
    assert session.queue.steering.texts() == []
    looks["one"].go.set()
    await asyncio.gather(*steers)
    assert session.queue.steering.texts() == ["one", "two"]


async def test_an_extension_can_send_messages_in_an_input_hook(tmp_path: Path) -> None:
    async def heard(text: str, source: str, behavior: str | None) -> Heard:
        if source != "extension":
            await session.prompt("from the extension", source="extension", behavior="followUp")
            await session.queue.send_message("note", "a note", deliver="next_turn")
        return Heard(text)

    session = a_session(one_answer(), tmp_path, hooks=TestHooks(input=heard))
    async with asyncio.timeout(PATIENCE):
        await talk(session, "hi")
    assert said(session) == ["hi", "from the extension"]
    assert texts(session.messages)[:2] == ["hi", "CustomMessage"]


# Aborts


async def test_an_abort_ends_the_prompt_that_an_extension_looks_at(tmp_path: Path) -> None:
    look = Waits()
    hooks = TestHooks(input=look)
    model = one_answer()
    session = a_session(model, tmp_path, hooks=hooks)
    prompt = asyncio.create_task(session.prompt("hi"))
    await look.asked()
    async with asyncio.timeout(PATIENCE):
        await session.abort()
    assert look.was_cut_off and not session.activity.is_streaming
    with pytest.raises(RunAborted, match="aborted while an extension was looking at it"):
        await prompt
    assert session.messages == [] and model.requests == []
    hooks.handlers.clear()
    await talk(session, "again")
    assert said(session) == ["again"]


async def test_an_abort_ends_a_run_that_an_extension_prepares(tmp_path: Path) -> None:
    look = Waits()
    model = one_answer()
    session = a_session(model, tmp_path, hooks=TestHooks(before_agent_start=look))
    settled: list[AgentSettled] = []
    session.subscribe(lambda event: settled.append(event) if isinstance(event, AgentSettled) else None)
    prompt = asyncio.create_task(session.prompt("hi"))
    await look.asked()
    async with asyncio.timeout(PATIENCE):
        await session.abort()
    assert look.was_cut_off and await prompt is not None
    assert said(session) == ["hi"] and model.requests == []
    assert settled == [AgentSettled(aborted=True)]


async def test_an_abort_loses_no_message_that_is_about_to_be_queued(tmp_path: Path) -> None:
    turn, _ = held()
    hooks = TestHooks()
    session = a_session(Scripted([turn]), tmp_path, hooks=hooks)
    await session.prompt("go")
    look = Waits(Heard("kept"))
    hooks.on("input", look)
    steer = asyncio.create_task(session.steer("kept"))
    await look.asked()
    await session.abort()
    look.go.set()
    await steer
    assert session.queue.steering.texts() == ["kept"]


async def test_another_session_ends_the_prompt_that_an_extension_looks_at(tmp_path: Path) -> None:
    look = Waits()
    session = a_kept_session(one_answer(), tmp_path, hooks=TestHooks(input=look))
    prompt = asyncio.create_task(session.prompt("hi"))
    await look.asked()
    async with asyncio.timeout(PATIENCE):
        await session.history.new()
    with pytest.raises(RunAborted):
        await prompt
    assert session.messages == []


# What goes with a prompt


async def test_messages_go_behind_the_prompt_and_another_system_prompt_is_for_its_run_alone(tmp_path: Path) -> None:
    asked: list[Any] = []

    async def opens(prompt: str, system_prompt: str) -> Opening:
        asked.append((prompt, system_prompt))
        return Opening([CustomMessage("note", "mind this", True, 1)], "You are a pirate.")

    model = one_answer()
    hooks = TestHooks(before_agent_start=opens)
    session = a_kept_session(model, tmp_path, hooks=hooks)
    heard = Listener(session)
    await talk(session, "hi")
    hooks.handlers.clear()
    await talk(session, "again")
    assert asked == [("hi", "You are a test.")]
    assert [request.system_prompt for request in model.requests] == ["You are a pirate.", "You are a test."]
    assert texts(session.messages) == ["hi", "CustomMessage", "Yes.", "again", "Yes."]
    starts = [event.message for event in heard.of(e.MessageStart)]
    assert texts(starts)[:2] == ["hi", "CustomMessage"]
    assert texts(session.history.log.messages()) == texts(session.messages), "all of it is written down"


async def test_extensions_know_of_the_session_before_they_are_asked_anything(tmp_path: Path) -> None:
    greeting = Waits()
    hooks = TestHooks(input=answers(Heard("hi")))
    hooks.on("start startup", greeting)
    session = a_session(one_answer(), tmp_path, hooks=hooks)
    prompt, ready = asyncio.create_task(session.prompt("hi")), asyncio.create_task(session.extensions.ready())
    await greeting.asked()
    assert hooks.told == ["start startup"]
    greeting.go.set()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(prompt, ready)
        await settled(session)
    assert hooks.told == ["start startup", "input"] and hooks.loaded == 1


async def test_an_extension_can_prompt_as_soon_as_it_knows_of_the_session(tmp_path: Path) -> None:
    async def begins(previous: str | None) -> None:
        await session.prompt("first of all", source="extension", behavior="followUp")

    hooks = TestHooks()
    hooks.on("start startup", begins)
    session = a_session(one_answer(), tmp_path, hooks=hooks)
    async with asyncio.timeout(PATIENCE):
        await session.extensions.ready()
        await session.prompt("then this", behavior="followUp")
        await settled(session)
    assert said(session) == ["first of all", "then this"]
