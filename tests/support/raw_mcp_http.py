"""An MCP server on the network that keeps sessions, as they did before the protocol of 2026. It runs in threads of the test."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class SessionServer:
    """Has one tool, `ok`. `tokens` are the X-Token headers it got, `ended` the sessions that clients have ended."""

    def __init__(self) -> None:
        self.tokens: set[str | None] = set()
        self.sessions: set[str] = set()
        self.ended: list[str] = []
        self.begun = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.tokens.add(self.headers["X-Token"])
                session = self.headers["Mcp-Session-Id"]
                method = message["method"]
                if method == "initialize":
                    self._answer(message, server.greeting(), server.begin())
                elif method == "server/discover":
                    self._error(message, 400, "Bad Request: no session")
                elif session not in server.sessions:
                    self._error(message, 404, None)
                elif "id" not in message:
                    self._send(202, b"")
                else:
                    self._answer(message, server.answer(method))

            def do_GET(self) -> None:
                self._send(405, b"")

            def do_DELETE(self) -> None:
                server.ended.append(self.headers["Mcp-Session-Id"])
                self._send(200, b"")

            def _answer(self, message: dict[str, Any], result: dict[str, Any], session: str | None = None) -> None:
                self._send(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode(), session)

            def _error(self, message: dict[str, Any], status: int, text: str | None) -> None:
                error = {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": -32000, "message": text}}
                self._send(status, b"" if text is None else json.dumps(error).encode())

            def _send(self, status: int, body: bytes, session: str | None = None) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                if session is not None:
                    self.send_header("Mcp-Session-Id", session)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/mcp"

    def begin(self) -> str:
        self.begun += 1
        self.sessions.add(f"session-{self.begun}")
        return f"session-{self.begun}"

    def greeting(self) -> dict[str, Any]:
        info = {"name": "sessions", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}

    def answer(self, method: str) -> dict[str, Any]:
        if method == "tools/list":
            return {"tools": [{"name": "ok", "inputSchema": {"type": "object"}}]}
        return {"content": [{"type": "text", "text": "ok was called"}]}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
