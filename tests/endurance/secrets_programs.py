"""A provider and programs that quote the secrets which they are given: MCP servers and an extension."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import quote

from tests.endurance.slow_parts import an_answer, beginning, ending, event

#: What the model's program prints. It sees the environment of the tools.
COMMAND = "env; env >&2; export -p"
#: An MCP server that writes down its environment, and cannot be connected.
MCP_SERVER = """
import json, os, sys
open(sys.argv[1], "w").write(json.dumps(dict(os.environ)))
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        error = {"code": -32000, "message": "not with " + os.environ.get("MCP_TOKEN", "")}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
"""
#: One that starts, and has a tool that fails and quotes its token, in a result or in an error.
MCP_TOOLS = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    quoted = "not with " + os.environ["MCP_TOKEN"]
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": {}}
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        server = {"name": "tools", "version": "1"}
        answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    elif message["method"] == "tools/list":
        answer["result"] = {"tools": [{"name": "quote", "inputSchema": {"type": "object"}}]}
    elif message["method"] == "tools/call":
        if message["params"]["arguments"]["how"] == "result":
            content = [{"type": "text", "text": quoted}]
            answer["result"] = {"content": content, "structuredContent": {"a": quoted}, "isError": True}
        else:
            answer["error"] = {"code": -32000, "message": quoted, "data": quoted}
            del answer["result"]
    print(json.dumps(answer), flush=True)
"""
#: Extensions see all variables, but their failures are shown to the host.
EXTENSION = """
import os

def setup(fl):
    @fl.on("context_with_system")
    def fail(event):
        raise RuntimeError("cannot use " + os.environ["NAMED_KEY"] + " nor " + os.environ["ANTHROPIC_API_KEY"])
"""


class Quoting(BaseHTTPRequestHandler):
    """A provider that quotes every header and the address of its requests, each time in another way."""

    protocol_version = "HTTP/1.1"
    #: Counts the requests to a model, and the others.
    numbers: Any = None
    others: Any = None

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        quoted = f"{self.path} {dict(self.headers)}" + "".join(f" {_decoded(value)}" for value in self.headers.values())
        number = next(self.numbers) % 10 if b'"messages"' in body else next(self.others) % 5
        if asked := re.search(rb"quote it in an? (result|error)", body):
            done = b"tool_result" in body
            answer = b"".join(an_answer("well done")) if done else _call("mcp__tools__quote", how=asked[1].decode())
            self._say(200, "text/event-stream", answer)
        elif number == 0:
            self._say(401, "application/json", json.dumps({"error": {"message": f"bad: {quoted}"}}).encode())
        elif number == 1:
            self._say(500, "text/html", f"<pre>{quoted}</pre>".encode())
        elif number == 2:
            failed = event("error", error={"type": "authentication_error", "message": quoted})
            self._say(200, "text/event-stream", beginning({"type": "text", "text": ""}) + failed)
        elif number == 3:
            self._say(404, "text/plain", f"no such page: {quote(quoted)}".encode())
        elif number == 4:
            self._say(200, "text/event-stream", b"what? " + quoted.encode())
        elif number == 5:
            self._say(200, "text/event-stream", _call("bash", command=COMMAND))
        elif number in (6, 7):
            self._break_off(has_head=number == 6)
        else:
            self._say(200, "text/event-stream", b"".join(an_answer("well done")))

    do_GET = do_POST

    def _say(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _break_off(self, *, has_head: bool) -> None:
        """Say something that is not HTTP, with a secret where the error about it is cut: half a key is a secret too."""
        planted = next(value[value.index("planted-") :] for value in self.headers.values() if "planted-" in value)
        if has_head:
            self.send_response(200)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
        self.wfile.write(f"{'what is this? ':.<{25 if has_head else 60}}{planted}".encode())
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None: ...


def _decoded(value: str) -> str:
    """Return the user and the password of a header, if it has them."""
    try:
        return base64.b64decode(value.removeprefix("Basic "), validate=True).decode()
    except ValueError:
        return ""


def _call(name: str, **arguments: str) -> bytes:
    """Return the answer of a model that calls a tool."""
    call: dict[str, Any] = {"type": "tool_use", "id": "c1", "name": name, "input": {}}
    written = json.dumps(json.dumps(arguments)).encode()
    delta = b'{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":%b}}' % written
    return beginning(call) + b"event: content_block_delta\ndata: " + delta + b"\n\n" + ending("tool_use")


@contextmanager
def quoting_provider() -> Generator[int]:
    handler = type("Handler", (Quoting,), {"numbers": count(), "others": count()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
