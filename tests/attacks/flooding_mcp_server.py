"""An MCP server that answers the call of its tool `flood` with what would fill the memory: flooding_mcp_server.py KIND [http].

With `http` it serves HTTP on loopback, and prints its port.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KIND = sys.argv[1]
MIB = 1 << 20

LINES: dict[str, Callable[[int], bytes]] = {
    "requests": lambda n: line(id=n, method="ping"),
    "requests with one id": lambda n: line(id=1, method="ping"),
    "unknown requests": lambda n: line(id=f"x{n}", method="sampling/createMessage", params={"x": "y" * 1000}),
    "changes": lambda n: line(method="notifications/tools/list_changed"),
    "logs": lambda n: line(method="notifications/message", params={"level": "info", "data": "x" * 1000}),
    "progress": lambda n: line(method="notifications/progress", params={"progressToken": 1, "progress": n}),
    "unknown notifications": lambda n: line(method="notifications/x", params={"x": "y" * 1000}),
    "answers": lambda n: line(id=f"never asked {n}", result={"x": "y" * 1000}),
    "garbage": lambda n: b"garbage\n",
    "empty lines": lambda n: b"\n",
    "a line": lambda n: b"x" * MIB,
    "a deep line": lambda n: b"[" * MIB,
}


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def answer(message: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if message["method"] == "initialize":
        info = {"name": "raw", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        result = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "flood", "inputSchema": {"type": "object"}}]}
        if KIND == "pages":
            params: dict[str, Any] = message.get("params") or {}
            cursor = int(params.get("cursor") or 0)
            tool = {"description": "x" * MIB, "inputSchema": {"type": "object"}}
            result = {"tools": [{"name": f"flood{cursor}", **tool}], "nextCursor": str(cursor + 1)}
    elif message["method"] != "tools/call":
        return {"id": message["id"], "error": {"code": -32601, "message": "Method not found"}}
    return {"id": message["id"], "result": result}


def serve_pipes() -> None:
    for text in sys.stdin:
        message = json.loads(text)
        if message.get("method") == "tools/call":
            for first in range(0, 1 << 60, 100):
                os.write(
                    1,
                    b"".join(LINES[KIND](first + n) for n in range(100))
                    if KIND not in ("a line", "a deep line")
                    else LINES[KIND](0),
                )
        elif "id" in message and "method" in message:
            os.write(1, line(**answer(message)))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if message.get("method") == "tools/call":
            self.flood(message)
            return
        body = line(**answer(message)) if "id" in message else b""
        self.send_response(200 if body else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def flood(self, message: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json" if KIND in ("json", "zipped") else "text/event-stream")
        self.send_header("Connection", "close")
        self.close_connection = True
        if KIND == "zipped":
            text = json.dumps({"content": [{"type": "text", "text": "x" * (64 * MIB)}]})
            self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(gzip.compress(b'{"jsonrpc":"2.0","id":%d,"result":%s}' % (message["id"], text.encode())))
            return
        self.end_headers()
        pieces = {"json": b"x" * MIB, "an event": b"data: " + b"x" * MIB + b"\n", "comments": b": x\n\n" * 1000}
        while True:
            self.wfile.write(pieces.get(KIND) or b"".join(b"data: " + LINES[KIND](n) + b"\n" for n in range(1000)))

    def do_GET(self) -> None:
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


if len(sys.argv) > 2:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
else:
    serve_pipes()
