"""A provider's side of a device login: a real HTTP server on loopback that hands out codes and tokens."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

from tests.support.json_values import Json

#: What the server says to a poll before the user has entered the code; and what it says once they have.
#: An object that is sent as JSON, or a status and a body.
Answer = Json | tuple[int, str]

PENDING: Json = {"error": "authorization_pending"}
SLOW_DOWN: dict[str, Any] = {"error": "slow_down"}
TOKEN: Json = {"access_token": "token-1", "refresh_token": "refresh-1", "expires_in": 3600, "token_type": "bearer"}


class DeviceServer:
    """Answers requests for a code with `code`, and each request for a token with the next of `answers`; the last one repeats.

    An answer is an object, or a status and a body.
    """

    def __init__(self, answers: Sequence[Answer] = (TOKEN,), code: Json | None = None, *, error_status: int = 400) -> None:
        self.code: Json = code or {
            "device_code": "device-1",
            "user_code": "ABCD-1234",
            "verification_uri": "http://localhost/enter",
            "interval": 0,
            "expires_in": 900,
        }
        #: The forms that were received: path and fields.
        self.forms: list[tuple[str, dict[str, str]]] = []
        self._answers = list(answers)
        self._error_status = error_status
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                server.forms.append((self.path, {name: values[0] for name, values in parse_qs(body).items()}))
                status, answer = server._answer(self.path)
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def oauth(self) -> dict[str, str]:
        """The block for models.json."""
        url = f"http://127.0.0.1:{self._http.server_port}"
        return {"deviceUrl": f"{url}/device", "tokenUrl": f"{url}/token", "clientId": "client-1", "scope": "read write"}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _answer(self, path: str) -> tuple[int, bytes]:
        answers: list[Answer] = [self.code] if path == "/device" else self._answers
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, tuple):
            status, body = answer
            return status, body.encode()
        return self._error_status if "error" in answer else 200, json.dumps(answer).encode()
