"""A host sees in a replay what it saw when the session was recorded. Each flow runs twice, with the clients of fairlead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from tests.support.stage import ENDLESS, Turn, bash, calls, says

from fairlead.client import Approval, Client, ExtensionUiRequest, HostCall, events
from fairlead.client.opal import OpalClient
from fairlead.client.opal import events as opal_events
from fairlead.errors import ClientError, CommandRefused
from fairlead.testing import MakeRecording, MakeReplay

Flow = Callable[[Client], Awaitable[Any]]

#: An extension whose command asks two questions.
ASKING = """
def setup(fl):
    @fl.register_command("ask")
    async def ask(arguments, context):
        name = await context.ui.input("Who are you?")
        sure = await context.ui.confirm("Sure?")
        context.ui.notify(f"{name} {sure}")
"""


async def tools(client: Client) -> Any:
    """Text, thinking and a tool, in two prompts."""
    seen: list[str] = []
    async with client.run("Use the shell.") as run:
        async for event in run:
            seen.append(type(event).__name__)
    first = await run
    state = await client.get_state()
    second = await client.ask("And now?")
    messages = await client.get_messages()
    count = len(messages.messages)
    # A client may merge updates, and a run may end before its stream has passed on the last frames.
    order = [kind for kind, _ in groupby(seen)]
    return (
        order[: order.index("AgentEnd")],
        first.text,
        state.message_count,
        second.text,
        count,
        await client.get_last_assistant_text(),
    )


async def host_tools(client: Client) -> Any:
    """Two calls of a tool that the host offers, at the same time, with progress."""
    called: list[str] = []

    @client.tool
    async def weather(city: str, call: HostCall) -> str:
        """The weather in a city."""
        called.append(city)
        call.progress(f"looking at {city}")
        await asyncio.sleep(0)
        return f"It rains in {city}."

    result = await client.ask("How is the weather?")
    return sorted(called), result.text


async def approvals(client: Client) -> Any:
    """One call is allowed, one is denied."""
    asked: list[str] = []

    @client.on_approval
    def decide(approval: Approval) -> bool:
        asked.append(approval.title)
        return len(asked) == 1

    result = await client.ask("Make two files.")
    return asked, result.text


async def abort(client: Client) -> Any:
    """A run that does not end is aborted after its first piece, and the next prompt is answered."""
    async with client.run("Talk.") as run:
        async for event in run:
            if isinstance(event, events.MessageUpdate):
                await client.abort()
                break
    aborted = (await run).aborted
    return aborted, (await client.ask("Still there?")).text


async def failure(client: Client) -> Any:
    """A prompt that fails at the provider, and a command that is refused."""
    seen: list[str] = []
    for work in (client.ask("Fail."), client.set_model("nowhere", "nothing")):
        try:
            await work
        except ClientError as error:
            seen.append(str(error))
    return seen


FLOWS: dict[str, tuple[Flow, list[Turn], list[str]]] = {
    "tools": (tools, [calls(bash("echo hi"), thinking="Hm."), says("Done."), says("Nothing.")], []),
    "host-tools": (
        host_tools,
        [calls(("weather", {"city": "Bergen"}), ("weather", {"city": "Oslo"})), says("It rains everywhere.")],
        [],
    ),
    "approvals": (approvals, [calls(bash("touch one"), bash("touch two")), says("Half.")], ["--approval", "ask"]),
    "abort": (abort, [ENDLESS, says("Yes.")], []),
    "failure": (failure, [{"status": 400, "error": "bad request"}], []),
}


#: Something that a flow returns if it went as intended.
EXPECTED = {
    "tools": "Nothing.",
    "host-tools": "['Bergen', 'Oslo'], 'It rains everywhere.'",
    "approvals": "Half.",
    "abort": "(True, 'Yes.')",
    "failure": "bad request",
}


@pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])
@pytest.mark.parametrize("name", list(FLOWS))
async def test_a_host_sees_the_same_again(
    name: str, dialect: str, tmp_path: Path, fairlead_record: MakeRecording, fairlead_replay: MakeReplay
) -> None:
    flow, turns, flags = FLOWS[name]
    recording = tmp_path / "session.jsonl"
    async with fairlead_record(recording, *turns, dialect=dialect, flags=flags).client() as client:
        first = await flow(client)
    assert EXPECTED[name] in str(first)
    async with fairlead_replay(recording).client() as client:
        assert await flow(client) == first


async def test_questions_to_the_user_are_asked_and_answered_again(
    tmp_path: Path, fairlead_record: MakeRecording, fairlead_replay: MakeReplay
) -> None:
    extension, recording = tmp_path / "asking.py", tmp_path / "session.jsonl"
    extension.write_text(ASKING)

    async def flow(client: Client) -> list[str]:
        seen: list[str] = []

        @client.on_question
        def answer(request: ExtensionUiRequest) -> str | bool:
            seen.append(f"{request.method} {request.title}")
            return True if request.method == "confirm" else "Ada"

        stream = client.events()
        await client.prompt("/ask")
        while True:
            match await anext(stream):
                case ExtensionUiRequest(method="notify", message=str(text)):
                    return [*seen, text]
                case _:
                    pass

    async with fairlead_record(recording, flags=["-e", str(extension)]).client() as client:
        first = await flow(client)
    assert first == ["input Who are you?", "confirm Sure?", "Ada True"]
    async with fairlead_replay(recording).client() as client:
        assert await flow(client) == first


async def test_a_session_of_opal_is_played_again(
    tmp_path: Path, fairlead_record: MakeRecording, fairlead_replay: MakeReplay
) -> None:
    recording = tmp_path / "session.jsonl"

    async def flow(client: OpalClient) -> Any:
        asked: list[str] = []

        @client.on_confirm
        def decide(request: Any) -> str:
            asked.append(request.title)
            return "allow"

        session = (await client.session_start()).session_id
        first = await client.ask(session, "Use the shell.")
        state = await client.agent_state(session)
        with pytest.raises(CommandRefused) as refused:
            await client.request("dance")
        stream = client.events()
        run = await client.prompt(session, "Talk.")
        while not isinstance(await anext(stream), opal_events.MessageDelta):
            pass
        await client.agent_abort(session)
        return session, asked, first.text, state.message_count, str(refused.value), (await run).aborted

    shell: Turn = {"toolCalls": [{"name": "shell", "arguments": {"command": "echo hi"}}]}
    made = fairlead_record(recording, shell, says("Done."), ENDLESS, dialect="opal", flags=["--approval", "ask"])
    async with made.opal_client() as client:
        first = await flow(client)
    assert first[1] and first[-1]
    async with fairlead_replay(recording).opal_client() as client:
        assert await flow(client) == first
