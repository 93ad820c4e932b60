"""What hosts of pi see since 1.5: what became of a prompt, busy from the prompt on, MCP servers, loose arguments, all levels."""

from __future__ import annotations

import json

from tests.behaviour.play import Repertoire
from tests.support.stage import HELD, Stage, calls, says

PI_LATER = Repertoire(reasoning="fake-1")
scenario = PI_LATER.scenario


@scenario(HELD, says("a"), says("b"), says("c"), says("d"), says("e"))
def dispositions(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.request("prompt", message="go slow")
    host.update("text_delta")
    host.request("prompt", message="steered", streamingBehavior="steer")
    host.request("prompt", message="later", streamingBehavior="followUp")
    host.request("prompt", message="refused")
    host.request("steer", message="now")
    host.request("follow_up", message="at last")
    host.provider.release()
    host.until("agent_settled")
    host.request("steer", message="idle steer")
    host.request("follow_up", message="idle follow")
    host.request("clear_queue")
    host.request("get_state")


#: The extensions that the transcripts were made with, in pi's language.
INPUT_EXTENSION = r"""
export default function (pi) {
  pi.registerCommand("quiet", { description: "Does nothing", handler: async () => {} });
  pi.on("input", async (ev) => { if (ev.text.includes("swallow")) return { action: "handled" }; if (ev.text.includes("rewrite")) return { action: "transform", text: "rewritten by the extension" }; });
}
"""  # noqa: E501


@scenario(HELD, says("a"), says("b"), says("c"), flags=["-e", "ext.ts"], files={"ext.ts": INPUT_EXTENSION})
def dispositions_ext(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.request("prompt", message="/quiet")
    host.request("prompt", message="swallow this")
    host.request("steer", message="swallow steer")
    host.request("follow_up", message="swallow follow")
    host.request("prompt", message="rewrite me")
    host.update("text_delta")
    host.request("prompt", message="/quiet")
    host.request("prompt", message="swallow")
    host.request("steer", message="rewrite the steer")
    host.request("steer", message="swallow")
    host.provider.release()
    host.until("agent_settled")
    host.request("get_messages")


@scenario(HELD, says("x"))
def session_on_first_message(host: Stage) -> None:
    def lines() -> int:
        found = host.request("bash", command='cat "$HOME"/sessions/*/*.jsonl 2>/dev/null | wc -l', excludeFromContext=True)
        return int(found["data"]["output"])

    host.request("get_state", id="ready")
    assert lines() == 0
    host.send({"id": "p1", "type": "prompt", "message": "hello"})
    host.update("text_delta")
    assert lines() > 0
    host.provider.release()
    host.until("agent_settled")
    lines()
    host.request("clone")
    host.request("get_state")


STARTING_EXTENSION = r"""
import { existsSync } from "node:fs";
export default function (pi) {
  pi.on("before_agent_start", async (ev, ctx) => {
    while (!existsSync("go")) await new Promise((done) => setTimeout(done, 10));
    ctx.ui.notify("starting " + ev.messageType);
  });
}
"""


@scenario(
    says("first"),
    says("second"),
    says("third"),
    says("fourth"),
    flags=["-e", "ext.ts"],
    files={"ext.ts": STARTING_EXTENSION},
)
def starting_is_busy(host: Stage) -> None:
    go = host.around.cwd / "go"
    host.request("get_state", id="ready")
    host.send({"id": "p1", "type": "prompt", "message": "one"})
    assert host.request("get_state")["data"]["isStreaming"]
    host.request("prompt", message="refused")
    host.request("steer", message="steered")
    go.touch()
    host.until("agent_settled")
    go.unlink()
    host.send({"id": "p2", "type": "prompt", "message": "two"})
    host.request("abort")
    host.until("agent_settled", nth=2)
    host.request("get_state")


MCP_SERVER = """
import json, sys

TOOLS = [
    {
        "name": "echo",
        "description": "Says it back",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "times": {"type": "integer"}},
            "required": ["text"],
        },
        "annotations": {"readOnlyHint": True},
    },
    {"name": "fail-it", "description": "Fails", "inputSchema": {"type": "object", "properties": {}}},
]


def called(name, arguments):
    if name == "fail-it":
        return {"content": [{"type": "text", "text": "it failed"}], "isError": True}
    text = arguments["text"] * int(arguments.get("times", 1))
    return {"content": [{"type": "text", "text": text}], "structuredContent": {"said": arguments["text"]}}


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result, parameters = {}, message.get("params") or {}
    if message["method"] == "initialize":
        result = {
            "protocolVersion": parameters["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "tiny", "version": "1"},
            "instructions": "Echoes.",
        }
    elif message["method"] == "tools/list":
        result = {"tools": TOOLS}
    elif message["method"] == "tools/call":
        result = called(parameters["name"], parameters.get("arguments") or {})
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""

SERVERS = {
    "tiny": {"command": "python3", "args": ["server.py"], "exposure": "direct"},
    "gone": {"command": "/no/such/program"},
}


@scenario(
    calls(
        ("mcp__tiny__echo", {"text": "ab", "times": "2"}),
        ("mcp__tiny__fail_it", {}),
        ("mcp__tiny__echo", {}),
    ),
    says("done"),
    files={"server.py": MCP_SERVER, "../home/mcp.json": json.dumps({"mcpServers": SERVERS})},
)
def mcp_server(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.until("extension_error")
    host.request("get_commands")
    host.prompt("use it")


@scenario(
    calls(
        ("write", {"path": "f.txt", "content": "one\ntwo\nthree\n"}),
        ("write", {"path": "r.txt", "content": "one\ntwo\n"}),
    ),
    calls(
        ("bash", {"command": "echo hi", "timeout": "5"}),
        ("read", {"path": "r.txt", "offset": None, "limit": "1"}),
        ("edit", {"path": "f.txt", "edits": {"oldText": "two", "newText": "TWO"}}),
        ("bash", {"command": 5}),
    ),
    calls(
        ("bash", {}),
        ("write", {"path": "g.txt"}),
        ("read", {"path": ["a", "b"]}),
        ("bash", {"command": "echo x", "timeout": "soon"}),
        ("read", {"path": "r.txt", "extra": True}),
        ("edit", {"path": "f.txt", "edits": []}),
    ),
    says("done"),
)
def argument_coercion(host: Stage) -> None:
    host.request("get_state", id="ready")
    host.prompt("loose")


@scenario(
    says("a"),
    says("b"),
    says("c"),
    models=[
        {"id": "fake-max", "thinkingLevelMap": {"off": None, "minimal": None, "xhigh": "xhigh", "max": "max"}},
        {"id": "fake-two", "thinkingLevelMap": {"minimal": None, "low": None, "medium": None}},
    ],
)
def thinking_levels(host: Stage) -> None:
    host.request("get_state", id="ready")
    for model in ("fake-max", "fake-two", "fake-2"):
        host.request("set_model", provider="fake", modelId=model)
        host.request("get_available_thinking_levels")
        for level in ("max", "off", "minimal", "bogus"):
            host.request("set_thinking_level", level=level)
            host.request("get_state")
        host.request("cycle_thinking_level")
        host.request("set_thinking_level", level="max")
        host.prompt("level?")
