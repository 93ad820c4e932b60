"""A fake of Telegram's Bot API on loopback: one user, who talks to one bot."""

from __future__ import annotations

import json
import queue
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

USER = 7
#: Seconds that a request for updates waits for one.
POLL = 0.2


class TelegramApi:
    """Hands what the user says to the bot that polls it, and keeps what the bot sends."""

    def __init__(self) -> None:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"] or 0)).decode(errors="replace")
                answer = json.dumps({"ok": True, "result": api.answer(self.path.rpartition("/")[2], body)}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None: ...

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """Stay silent: a bot that ends closes its connection while it polls."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._updates: queue.Queue[dict[str, Any]] = queue.Queue()
        self._sent: queue.Queue[str] = queue.Queue()
        self._messages = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/bot"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def say(self, text: str) -> None:
        """Send a message from the user to the bot."""
        entities = [{"type": "bot_command", "offset": 0, "length": len(text.split()[0])}] if text.startswith("/") else []
        self._updates.put({"update_id": self._next(), "message": {**self._message(text), "entities": entities}})

    def sent(self, timeout: float) -> str:
        """Return the next message or the caption of the next document that the bot sends.

        Raises `queue.Empty` if none comes within `timeout` seconds.
        """
        return self._sent.get(timeout=timeout)

    def answer(self, method: str, body: str) -> Any:
        if method == "getMe":
            return {"id": 1, "is_bot": True, "first_name": "Bot", "username": "bot"}
        if method == "getUpdates":
            try:
                return [self._updates.get(timeout=POLL)]
            except queue.Empty:
                return []
        if method == "sendMessage":
            text = parse_qs(body)["text"][0]
            self._sent.put(text)
            return self._message(text)
        if method == "sendDocument":
            caption = re.search(r'name="caption"\s+(.*?)\r?\n', body)
            self._sent.put(f"[document] {caption[1] if caption else ''}")
            return self._message("document")
        return True

    def _message(self, text: str) -> dict[str, Any]:
        chat = {"id": USER, "type": "private", "first_name": "User"}
        sender = {"id": USER, "is_bot": False, "first_name": "User"}
        return {"message_id": self._next(), "date": 0, "chat": chat, "from": sender, "text": text}

    def _next(self) -> int:
        self._messages += 1
        return self._messages
