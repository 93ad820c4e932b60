"""Prompts on the wire that an extension runs, sees to, looks at or forbids."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.session.hooked import TestHooks, Waits, answers
from tests.session.scene import PATIENCE, a_kept_session, held
from tests.support import published
from tests.support.json_values import is_object

from fairlead.core.model import ModelStream
from fairlead.session.hooks import Cancelled, Heard
from fairlead.session.session import Session
from fairlead.testing import Scripted, Turn
from fairlead.wire.host_connection import Connection
from fairlead.wire.pi.paced_updates import Pacing
from fairlead.wire.pi.pi_server import PiServer
from fairlead.wire.pi.profile import PROFILES
from fairlead.wire.stdio import StdioTransport

Frame = Mapping[str, Any]


class Host:
    """The other end of a server in this process, over real pipes."""

    def __init__(self, session: Session, reader: asyncio.StreamReader, stdin: int) -> None:
        self.session = session
        self.frames: list[Frame] = []
        #: What went over the pipes in either direction.
        self.written: list[bytes] = []
        self.heard: list[bytes] = []
        self._reader = reader
        self._stdin = stdin

    def send(self, *commands: Frame) -> None:
        """Send commands in one write."""
        self.written.append(b"".join(json.dumps(command).encode() + b"\n" for command in commands))
        os.write(self._stdin, self.written[-1])

    async def until(self, condition: Callable[[Frame], bool]) -> Frame:
        async with asyncio.timeout(PATIENCE):
            while True:
                self.heard.append(await self._reader.readline())
                frame: Frame = json.loads(self.heard[-1])
                self.frames.append(frame)
                if condition(frame):
                    return frame

    async def response(self, ident: str) -> Frame:
        return await self.until(lambda frame: frame["type"] == "response" and frame.get("id") == ident)

    async def request(self, command: Frame) -> Frame:
        self.send(command)
        return await self.response(command["id"])

    def kinds(self) -> list[str]:
        return [frame["type"] for frame in self.frames]


@asynccontextmanager
async def serving(stream: ModelStream, tmp_path: Path, hooks: TestHooks, dialect: str = "pi") -> AsyncGenerator[Host]:
    session = a_kept_session(stream, tmp_path, hooks=hooks)
    stdin, to_agent = os.pipe()
    from_agent, stdout = os.pipe()
    connection = Connection(StdioTransport(stdin, stdout, line_bytes=1 << 20), queue_bytes=1 << 20)
    pacing = Pacing(0.01, 1 << 20, 1 << 20)
    server = PiServer(connection, session, PROFILES[dialect], pacing=pacing, updates="delta", persist=lambda key, value: None)
    reader = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(from_agent, "rb")
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    connection.start()
    work = asyncio.create_task(server.serve())
    try:
        host = Host(session, reader, to_agent)
        yield host
        published.check(dialect, b"".join(host.written), host.heard)
    finally:
        os.close(to_agent)
        async with asyncio.timeout(PATIENCE):
            await work
            await session.close()
        transport.close()
        for descriptor in (stdin, stdout):
            os.close(descriptor)


def one_answer() -> Scripted:
    return Scripted([Turn(text="Yes.")])


def prompt(ident: str, message: str, **rest: Any) -> Frame:
    return {"id": ident, "type": "prompt", "message": message, **rest}


STATE: Frame = {"id": "s", "type": "get_state"}


async def test_a_command_is_answered_at_its_end_without_blocking_the_host(tmp_path: Path) -> None:
    command = Waits()
    hooks = TestHooks()
    hooks.on("/wait", command)
    async with serving(one_answer(), tmp_path, hooks) as host:
        host.send(prompt("c", "/wait"), STATE, prompt("p", "hi"))
        state = await host.response("s")
        assert state["data"]["isStreaming"] is False
        await host.response("p")
        await host.until(lambda frame: frame["type"] == "agent_settled")
        command.go.set()
        assert (await host.response("c"))["success"]
        answered = [frame["id"] for frame in host.frames if frame["type"] == "response"]
        assert answered == ["s", "p", "c"]


async def test_a_command_runs_during_a_run_whatever_the_prompt_says_about_queues(tmp_path: Path) -> None:
    turn, go = held()
    hooks = TestHooks()
    hooks.on("/say", answers())
    async with serving(Scripted([turn]), tmp_path, hooks) as host:
        await host.request(prompt("p", "go"))
        assert (await host.request(prompt("c", "/say x", streamingBehavior="steer")))["success"]
        assert hooks.told == ["start startup", "/say"] and len(host.session.queue) == 0
        refused = await host.request({"id": "r", "type": "steer", "message": "/say x"})
        assert refused["error"] == (
            'Extension command "/say" cannot be queued. Use prompt() or execute the command when not streaming.'
        )
        go.set()
        await host.until(lambda frame: frame["type"] == "agent_settled")


@pytest.mark.parametrize("message", ["/say x", "handled"])
async def test_in_omp_a_prompt_that_an_extension_saw_to_has_its_outcome(tmp_path: Path, message: str) -> None:
    hooks = TestHooks(input=answers(Heard("", handled=True)))
    hooks.on("/say", answers())
    async with serving(one_answer(), tmp_path, hooks, "omp") as host:
        host.send(prompt("p", message))
        outcome = await host.until(lambda frame: frame["type"] == "prompt_result")
        assert host.kinds() == ["ready", "available_commands_update", "response", "prompt_result"]
        expected = {"id": "p", "agentInvoked": False, "status": "completed", "sessionSettled": True}
        assert outcome == {"type": "prompt_result", **expected}
        again = prompt("q", "hi")
        hooks.handlers.pop("input")
        await host.request(again)
        assert (await host.until(lambda frame: frame["type"] == "prompt_result"))["agentInvoked"] is True


async def test_two_prompts_in_one_write_do_not_both_start_while_an_extension_looks_at_the_first(tmp_path: Path) -> None:
    look, (turn, _) = Waits(Heard("looked at")), held()
    async with serving(Scripted([turn]), tmp_path, TestHooks(input=look)) as host:
        host.send(prompt("a", "one"), prompt("b", "two"), STATE)
        await look.asked()
        assert host.session.activity.is_streaming
        look.go.set()
        state = await host.response("s")
        assert state["data"]["isStreaming"] is True, "a getter sees what came before it"
        answered = [(frame["id"], frame["success"]) for frame in host.frames if frame["type"] == "response"]
        assert answered == [("a", True), ("b", False), ("s", True)]


async def test_two_steers_in_one_write_stay_in_order(tmp_path: Path) -> None:
    look = Waits()
    hooks = TestHooks()

    async def heard(text: str, source: str, behavior: str | None) -> Heard:
        if text == "one":
            await look()
        return Heard(text)

    hooks.on("input", heard)
    async with serving(one_answer(), tmp_path, hooks) as host:
        host.send({"id": "a", "type": "steer", "message": "one"}, {"id": "b", "type": "steer", "message": "two"})
        await look.asked()
        look.go.set()
        await host.response("b")
        assert host.session.queue.steering.texts() == ["one", "two"]


async def test_an_abort_acts_while_an_extension_looks_at_a_prompt(tmp_path: Path) -> None:
    look = Waits()
    async with serving(one_answer(), tmp_path, TestHooks(input=look)) as host:
        host.send(prompt("p", "one"))
        await look.asked()
        host.send({"id": "a", "type": "abort"})
        assert (await host.response("a"))["success"]
        assert look.was_cut_off
        (refused,) = (frame for frame in host.frames if frame.get("id") == "p")
        assert refused["error"] == "The prompt was aborted while an extension was looking at it."
        assert host.session.messages == []


@pytest.mark.parametrize(
    ("hook", "command", "data"),
    [
        ("session_before_switch", {"type": "new_session"}, {"cancelled": True}),
        ("session_before_switch", {"type": "switch_session", "sessionPath": "other.jsonl"}, {"cancelled": True}),
        ("session_before_switch", {"type": "open_session", "sessionDir": "other"}, {"cancelled": True}),
        ("session_before_fork", {"type": "clone"}, {"cancelled": True}),
        ("session_before_fork", {"type": "fork"}, {"cancelled": True}),
        ("session_before_tree", {"type": "navigate_tree", "targetId": None}, {"cancelled": True}),
    ],
    ids=lambda value: value.get("type", "") if is_object(value) else "",
)
async def test_a_move_that_an_extension_forbids_says_so(
    tmp_path: Path, hook: str, command: dict[str, Any], data: dict[str, Any]
) -> None:
    async with serving(one_answer(), tmp_path, TestHooks(**{hook: answers(Cancelled())})) as host:
        await host.request(prompt("p", "one"))
        await host.until(lambda frame: frame["type"] == "agent_settled")
        left = host.session.history.conversation
        if command["type"] == "fork":
            command["entryId"] = left.log.user_messages()[0][0]
        answer = await host.request({"id": "m", **command})
        assert answer["success"] and {name: answer["data"][name] for name in data} == data
        assert host.session.history.conversation is left and left.count == 2
