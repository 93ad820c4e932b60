"""An MCP server without the package, which speaks the protocol as it was before 2026, and does what real ones do wrong.

raw_mcp_server.py MODE [ARGUMENT]

    plain           two tools, `ok` and `die`
    pages           a list of tools in three pages, the last of which leads back to the first
    odd             tools with names and parameters that no provider would take
    invalid         a tool that breaks the protocol
    sloppy          tools whose answers are broken in one way each, or are far too much
    lines FILE      a tool that answers with a line of a file, by its number; in it, %s is the id of the request
    noisy           prints lines that are no messages
    dies CODE       exits before it is connected
    silent PIPE     answers nothing until there is a line in the named pipe
    stubborn FILE   answers no call, and neither a signal nor the end of its input ends it; its process number is in the file
    parent FILE     starts a process that outlives it and holds its output open, and writes the number of that process
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

MODE, ARGUMENT = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
ANY = {"type": "object"}

TOOLS: dict[str, dict[str, Any]] = {"ok": ANY, "die": ANY}
ODD: dict[str, Any] = {
    "good.tool/with spaces": ANY,
    "a b": ANY,
    "a_b": ANY,
    "x" * 80: ANY,
    "remote": {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:9/schema.json"}}},
    "broken": {"type": "object", "properties": {"x": {"type": "nonsense"}}},
}
PAGES = {None: (["one"], "p2"), "p2": (["two"], "p3"), "p3": (["three"], "p2")}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


#: What the tools of `sloppy` answer; a text is the whole line, in which %s is the id of the request.
SLOPPY: dict[str, Any] = {
    "pieces": {"content": [text("x" * 40_000)] * 50},
    "images": {"content": [{"type": "image", "data": "!", "mimeType": "image/png"}]},
    "refused": '{"jsonrpc": "2.0", "id": %s, "error": {"code": -32000, "message": "not today"}}',
    "half": '{"jsonrpc": "2.0", "id": %s, "result": {"content": [{"type": "text", "text": "half \\ud83d"}]}}',
    "nan": '{"jsonrpc": "2.0", "id": %s, "result": {"content": [], "structuredContent": {"x": NaN}}}',
    "infinite": '{"jsonrpc": "2.0", "id": %s, "result": {"content": [], "structuredContent": {"x": ' + "9" * 5000 + "}}}",
    "deep": {"content": [], "structuredContent": {"x": json.loads("[" * 300 + "]" * 300)}},
    "list": {"content": [], "structuredContent": [1, 2]},
    "video": {"content": [{"type": "video", "data": "x"}, text("and text")]},
    "string": {"content": "only text"},
    "null": '{"jsonrpc": "2.0", "id": %s, "result": null}',
    "chatty": {"content": [text("at last")]},
}


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def listed(params: dict[str, Any]) -> dict[str, Any]:
    if MODE == "pages":
        names, following = PAGES[params.get("cursor")]
        return {"tools": [{"name": name, "inputSchema": ANY} for name in names], "nextCursor": following}
    tools = {"odd": ODD, "invalid": {"x": {"type": "string"}}, "sloppy": dict.fromkeys(SLOPPY, ANY)}.get(MODE, TOOLS)
    return {"tools": [{"name": name, "inputSchema": schema} for name, schema in tools.items()]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "raw", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return listed(params)
    if MODE == "stubborn":
        while True:
            signal.pause()
    if params["name"] == "die":
        sys.exit(7)
    return {"content": [{"type": "text", "text": f"{params['name']} was called"}]}


def answer_sloppily(id: Any, params: dict[str, Any]) -> None:
    if params["name"] == "chatty":
        for step in range(3000):
            token = params["_meta"]["progressToken"]
            say({"method": "notifications/progress", "params": {"progressToken": token, "progress": step, "message": "y" * 5000}})
            sys.stdout.write("rubbish \x1b[31m\n")
    given = SLOPPY[params["name"]]
    if isinstance(given, str):
        sys.stdout.write(given.replace("%s", json.dumps(id)) + "\n")
        sys.stdout.flush()
    else:
        say({"id": id, "result": given})


def main() -> None:
    if MODE == "dies":
        sys.exit(int(ARGUMENT))
    if MODE == "silent":
        with Path(ARGUMENT).open() as gate:
            gate.readline()
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path(ARGUMENT).write_text(str(os.getpid()))
    if MODE == "parent":
        child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL)
        Path(ARGUMENT).write_text(str(child.pid))
    for line in sys.stdin:
        if MODE == "noisy":
            sys.stdout.write("Starting up...\n{}\n\n")
        message = json.loads(line)
        if "id" not in message:
            continue
        if MODE == "lines" and message["method"] == "tools/call":
            position: int = message["params"]["arguments"]["at"]
            sys.stdout.write(Path(ARGUMENT).read_text().splitlines()[position].replace("%s", json.dumps(message["id"])) + "\n")
            sys.stdout.flush()
        elif MODE == "sloppy" and message["method"] == "tools/call":
            answer_sloppily(message["id"], message["params"])
        elif message["method"] in ("initialize", "tools/list", "tools/call"):
            say({"id": message["id"], "result": answer(message["method"], message.get("params") or {})})
        else:
            say({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})


main()
