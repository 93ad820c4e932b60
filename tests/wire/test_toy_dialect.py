"""Adding a dialect takes a codec and a table of routes: this one, `echo`, answers in upper case."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from msgspec import UNSET, Raw

from fairlead.core.runtime import CancelToken
from fairlead.errors import BadCommand
from fairlead.wire.dispatcher import Dispatcher
from fairlead.wire.host_connection import Connection
from fairlead.wire.pending import HostQuestion, Questions
from fairlead.wire.routing import HostReply, Message, Problem, Request, RequestRoute, RouteTable
from fairlead.wire.stdio import StdioTransport


class EchoCodec:
    """`NAME TEXT` is a request, `NAME#ID TEXT` one that can be cancelled, `=ID TEXT` a reply."""

    def read(self, line: bytes | None) -> Message | None:
        word, _, text = (line or b"").decode().partition(" ")
        if not word:
            return Problem(UNSET, BadCommand("empty line"))
        if word.startswith("="):
            return HostReply("reply", UNSET, word[1:], text)
        name, _, ident = word.partition("#")
        return Request(name, Raw(ident.encode()) if ident else UNSET, text)

    def parameters(self, request: Request, declaration: str) -> str:
        return request.body

    def result(self, request: Request, result: Any) -> Sequence[bytes]:
        return [f"{request.name} -> {result}\n".encode()]

    def error(self, message: Message, error: BaseException) -> Sequence[bytes]:
        return [f"error: {type(error).__name__} {error}\n".encode()]


class EchoServer:
    def __init__(self, connection: Connection) -> None:
        self.codec = EchoCodec()
        self.routes = RouteTable(str, ROUTES)
        self.send = connection.output.send
        self.questions = Questions(self.send, new_id=lambda: "q1")
        self.gate = asyncio.Event()
        self.dispatcher = Dispatcher(connection, self)

    def call_when_written(self, action: Callable[[], object]) -> None:
        action()

    def receive_reply(self, reply: HostReply) -> None:
        self.questions.receive(reply)

    def prerequisite(self, request: Request) -> Coroutine[Any, Any, Any] | None:
        return None

    def serving(self, request: Request) -> AbstractContextManager[None]:
        return nullcontext()


async def wait(server: EchoServer, text: str) -> str:
    await server.gate.wait()
    return text.upper()


async def ask(server: EchoServer, text: str) -> str:
    question = HostQuestion(ask=lambda ident: f"?{ident} {text}\n".encode())
    return (await server.questions.ask(question, CancelToken())).body


def open_gate(server: EchoServer, request: Request, before: Iterable[Request]) -> bool:
    server.gate.set()
    return False


def echo(server: EchoServer, text: str) -> str:
    return text.upper()


def ping(server: EchoServer, text: str) -> str:
    return "pong"


def go(server: EchoServer, text: str) -> str:
    return "went"


def fail(server: EchoServer, text: str) -> float:
    return 1 / 0


def cancel(server: EchoServer, text: str) -> str:
    server.dispatcher.cancel(text.encode())
    return text


def stop(server: EchoServer, text: str) -> None:
    server.gate.set()


ROUTES = (
    RequestRoute("cancel", cancel, when="now"),
    RequestRoute("work", wait, when="late", cancel=stop),
    RequestRoute("echo", echo),
    RequestRoute("wait", wait),
    RequestRoute("later", wait, when="late"),
    RequestRoute("ping", ping, when="now"),
    RequestRoute("ask", ask),
    RequestRoute("go", go, urgent=open_gate),
    RequestRoute("fail", fail),
)


class Echo:
    """A server and the other ends of its pipes."""

    def __init__(self) -> None:
        self._stdin, self._input = os.pipe()
        self._output, self._stdout = os.pipe()
        self._connection = Connection(StdioTransport(self._stdin, self._stdout, line_bytes=1 << 16), queue_bytes=1 << 20)
        self._server = EchoServer(self._connection)
        self._connection.start()
        self._serving = asyncio.ensure_future(self._server.dispatcher.serve())

    def send_lines(self, *lines: str) -> None:
        os.write(self._input, "".join(f"{line}\n" for line in lines).encode())

    async def read_output(self) -> str:
        return (await asyncio.to_thread(os.read, self._output, 1 << 16)).decode()

    async def finish(self) -> list[str]:
        """Close the input. Returns the lines that are left to read."""
        os.close(self._input)
        async with asyncio.timeout(20):
            await self._serving
            await self._server.dispatcher.late_answers()
            await self._connection.output.wait_flushed(20)
        os.close(self._stdout)
        with os.fdopen(self._output, "rb") as rest:
            found = rest.read().decode().splitlines()
        os.close(self._stdin)
        return found


def conversation(*lines: str) -> list[str]:
    """The lines that answer these, which arrive all at once."""

    async def main() -> list[str]:
        echo = Echo()
        echo.send_lines(*lines)
        return await echo.finish()

    return asyncio.run(main())


def test_requests_are_answered_in_order() -> None:
    assert conversation("echo a", "echo b", "nope c", "", "echo d") == [
        "echo -> A",
        "echo -> B",
        "error: UnknownRequest nope",
        "error: BadCommand empty line",
        "echo -> D",
    ]


def test_a_late_request_lets_others_pass_and_an_urgent_one_acts_before_its_turn() -> None:
    answers = conversation("later x", "wait y", "echo z", "go")
    assert sorted(answers) == ["echo -> Z", "go -> went", "later -> X", "wait -> Y"]
    assert answers.index("wait -> Y") < answers.index("echo -> Z") < answers.index("go -> went")


def test_a_request_that_acts_now_overtakes_those_that_wait() -> None:
    assert conversation("wait y", "go", "ping")[0] == "ping -> pong"


def test_a_bug_in_a_handler_costs_one_answer(caplog: pytest.LogCaptureFixture) -> None:
    assert conversation("fail", "echo a") == ["error: ZeroDivisionError division by zero", "echo -> A"]
    assert "ZeroDivisionError" in caplog.text


async def test_a_reply_finds_its_question_although_the_request_that_asked_holds_up_the_line() -> None:
    echo = Echo()
    echo.send_lines("ask name", "echo a")
    assert await echo.read_output() == "?q1 name\n"
    echo.send_lines("=q2 Bob", "=q1 Ada")
    assert await echo.finish() == ["ask -> Ada", "echo -> A"]


def test_a_cancelled_request_is_answered_with_an_error_whether_it_runs_or_waits() -> None:
    assert conversation("wait#1 x", "echo#2 y", "cancel 1", "cancel 2", "cancel 3", "echo z") == [
        "cancel -> 1",
        "cancel -> 2",
        "cancel -> 3",
        "error: RequestCancelled The request was cancelled.",
        "error: RequestCancelled The request was cancelled.",
        "echo -> Z",
    ]


async def test_work_on_a_request_is_interrupted_or_ends_by_itself_if_its_route_says_how() -> None:
    echo = Echo()
    echo.send_lines("later#1 x", "work#2 y", "ask name")
    assert await echo.read_output() == "?q1 name\n"
    echo.send_lines("cancel 1", "cancel 2", "=q1 Ada")
    answers = await echo.finish()
    assert "error: RequestCancelled The request was cancelled." in answers
    assert "work -> Y" in answers
    assert sum("later" in answer for answer in answers) == 0
