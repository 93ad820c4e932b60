"""A front end of a fleet for tests: a real `fairlead serve --db`, and requests to it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import ExitStack
from typing import Any

from tests.support.fleet import MODEL, Fleet, wait_until
from websockets.sync.client import connect


class FrontEnd:
    """A running server. Use it with `with`, so that it is killed at the end."""

    def __init__(self, fleet: Fleet, *words: str) -> None:
        self.fleet = fleet
        argv = [sys.executable, "-P", "-m", "fairlead", "serve", "--port", "0", "--db", fleet.url, *words]
        with (fleet.root / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(argv, env=fleet.env, cwd=fleet.root, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        found = re.search(r"listens on (\S+)", self.process.stdout.readline())
        assert found is not None, (fleet.root / "serve.log").read_text()
        self.url = found[1]
        while "Ctrl-C" not in self.process.stdout.readline():
            pass
        self.token = (fleet.home / "serve.token").read_text().strip()

    def __enter__(self) -> FrontEnd:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def open(self, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        return urllib.request.urlopen(request, timeout=60)

    def call(self, method: str, path: str, body: Any = None, token: str | None = None) -> tuple[int, Any]:
        """Send a request, and return the status and the body."""
        try:
            with self.open(method, path, body, token) as response:
                text = response.read().decode()
                return response.status, json.loads(text) if response.headers["content-type"] == "application/json" else text
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def socket(self, path: str) -> HostSocket:
        """Connect a host."""
        return HostSocket(self.url.replace("http", "ws", 1) + path, {"Authorization": f"Bearer {self.token}"})

    # Sessions

    def begin(self, **fields: Any) -> str:
        """Begin a session in the working directory of the fleet, and return its id."""
        body = {"cwd": str(self.fleet.workdir), "model": MODEL, **fields}
        status, session = self.call("POST", "/v1/sessions", body)
        assert status == 201, session
        return session["id"]

    def prompt(self, session: str, *commands: str, **fields: Any) -> tuple[int, Any]:
        """Send a prompt that lets the model run commands."""
        return self.call("POST", f"/v1/sessions/{session}/prompt", {"text": json.dumps(commands), **fields})

    def snapshot(self, session: str) -> Any:
        status, snapshot = self.call("GET", f"/v1/sessions/{session}")
        assert status == 200, snapshot
        return snapshot

    def settled(self, session: str, messages: int) -> Any:
        """Wait until a session is idle with so many messages, and return its snapshot."""
        found: list[Any] = []

        def is_settled() -> bool:
            found[:] = [self.snapshot(session)]
            return found[0]["session"]["status"] == "idle" and len(found[0]["messages"]) == messages

        wait_until(is_settled, every=0.1)
        return found[0]

    def listed(self) -> dict[str, Any]:
        return {each["id"]: each for each in self.call("GET", "/v1/sessions")[1]["sessions"]}

    def free(self, session: str) -> None:
        """Wait until no other server holds a session."""
        wait_until(lambda: self.listed()[session].get("owner") is None, every=0.1)

    def events(self, session: str, after: int) -> Generator[Any]:
        """Yield the events of a session after a number, each with its `number`."""
        with self.open("GET", f"/v1/sessions/{session}/events?after={after}") as response:
            number = 0
            for line in response:
                if line.startswith(b"id: "):
                    number = int(line[4:])
                elif line.startswith(b"data: "):
                    yield {**json.loads(line[6:]), "number": number}

    def events_until(self, session: str, after: int, kind: str) -> list[Any]:
        """Return the events of a session after a number, up to one of a type."""
        seen: list[Any] = []
        for event in self.events(session, after):
            seen.append(event)
            if event["type"] == kind:
                break
        return seen


class HostSocket:
    """A host on a WebSocket. Use it with `with`, so that it leaves at the end."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self._open = ExitStack()
        self._socket = self._open.enter_context(connect(url, additional_headers=headers, max_size=None))
        self._number = 0

    def __enter__(self) -> HostSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._open.close()

    def until(self, **fields: Any) -> Any:
        """Return the next message with these fields."""
        while True:
            message = json.loads(self._socket.recv(60))
            if fields.items() <= message.items():
                return message

    def command(self, type: str, **fields: Any) -> Any:
        """Send a command of the pi family, and return the response."""
        self._number += 1
        self._socket.send(json.dumps({"type": type, "id": str(self._number), **fields}))
        return self.until(type="response", id=str(self._number))

    def call(self, method: str, **params: Any) -> Any:
        """Send a request of JSON-RPC, and return the response."""
        self._number += 1
        self._socket.send(json.dumps({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}))
        return self.until(id=self._number)
