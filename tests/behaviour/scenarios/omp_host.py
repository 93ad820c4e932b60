"""What hosts of omp and of xcsh do for the agent: tools and URIs of their own."""

from __future__ import annotations

from typing import Any

from tests.behaviour.play import Repertoire
from tests.support.host import Frame
from tests.support.stage import Stage, calls, says

OMP_TOOLS = Repertoire(reasoning="fake-2")
OMP_URIS = Repertoire(reasoning="fake-2")

ECHO: Frame = {
    "name": "echo_host",
    "label": "Echo Host",
    "description": "Echo a value",
    "parameters": {
        "type": "object",
        "properties": {"message": {"type": "string"}},
        "required": ["message"],
        "additionalProperties": False,
    },
    "loadMode": "essential",
}


def echo(message: str) -> tuple[str, dict[str, Any]]:
    return "echo_host", {"message": message}


def output(*texts: str) -> Frame:
    return {"content": [{"type": "text", "text": text} for text in texts]}


@OMP_TOOLS.scenario(
    calls(echo("hello")),
    calls(echo("err")),
    calls(echo("empty err")),
    calls(("echo_host", {"bad": 1})),
    says("done"),
    calls(echo("par1"), echo("par2")),
    says("done2"),
    calls(echo("to be aborted")),
    says("after abort"),
    calls(echo("eof")),
)
def host_tools(host: Stage) -> None:
    called = 0

    def call() -> str:
        nonlocal called
        called += 1
        return host.until("host_tool_call", nth=called)["id"]

    def answer(id: str, result: Frame, **more: Any) -> None:
        host.send({"type": "host_tool_result", "id": id, "result": result, **more})

    host.request("set_host_tools", id="h1", tools=[ECHO])
    host.request("get_state", id="s1")
    host.send({"id": "p1", "type": "prompt", "message": "use host"})
    first = call()
    host.send({"type": "host_tool_update", "id": first, "partialResult": {**output("working"), "details": {"p": 1}}})
    host.until("tool_execution_update")
    host.send({"type": "host_tool_update", "id": "unknown", "partialResult": {"content": []}})
    answer(first, {"nocontent": 1})
    answer(first, {**output("done"), "details": {"k": "v"}})
    answer(first, output("dup"))
    answer(call(), output("it failed"), isError=True)
    answer(call(), {"content": []}, isError=True)
    host.until("agent_settled")
    host.send({"id": "p2", "type": "prompt", "message": "parallel"})
    one, two = call(), call()
    answer(two, output("second"))
    answer(one, output("first"))
    host.until("agent_settled", nth=2)
    host.send({"id": "p3", "type": "prompt", "message": "abort it"})
    aborted = call()
    host.request("abort", id="ab")
    answer(aborted, output("late"))
    host.request("get_messages", id="m")
    host.prompt("x", id="p4")
    host.send({"id": "p5", "type": "prompt", "message": "eof while pending"})
    call()


@OMP_TOOLS.scenario(
    calls(("ask", {"questions": [{"id": "q1", "question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]})), says("ok")
)
def ask_tool(host: Stage) -> None:
    host.prompt("ask me", id="p1")


@OMP_URIS.scenario(
    calls(("read", {"path": "db://users/1"})),
    calls(("write", {"path": "db://users/1", "content": "new"})),
    calls(("read", {"path": "db://users/2"})),
    says("ok"),
)
def host_uri(host: Stage) -> None:
    host.request("set_host_uri_schemes", id="u", schemes=[{"scheme": "db", "description": "db", "writable": True}])
    host.send({"id": "p1", "type": "prompt", "message": "read"})
    for number, result in enumerate(
        (
            {"content": "row one", "contentType": "text/plain", "notes": ["n1"]},
            {},
            {"isError": True, "error": "no such row"},
        )
    ):
        request = host.until("host_uri_request", nth=number + 1)
        host.send({"type": "host_uri_result", "id": request["id"], **result})
    host.until("agent_settled")
