"""`fairlead login openrouter --browser`: the user grants a key on a page of the provider (OAuth with PKCE)."""

from __future__ import annotations

import hashlib
import json
import stat
import subprocess
import threading
from base64 import urlsafe_b64encode
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import pytest
from tests.cli.command import PATIENCE, Command


class KeyServer(ThreadingHTTPServer):
    """Exchanges codes for keys, as OpenRouter does."""

    def __init__(self, status: int, answer: Any) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.status, self.answer = status, answer
        self.bodies: list[dict[str, str]] = []


class _Exchange(BaseHTTPRequestHandler):
    server: KeyServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        assert self.path == "/api/v1/auth/keys"
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        body = json.dumps(self.server.answer).encode()
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def logging_in(fairlead: Command, status: int, answer: Any) -> Generator[tuple[KeyServer, subprocess.Popen[str], dict[str, str]]]:
    """Run the command up to the address that it shows. Yields the server, the process and what the address asks for."""
    with KeyServer(status, answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        content = {"providers": {"openrouter": {"baseUrl": f"{url}/api/v1"}}}
        (fairlead.around.home / "models.json").write_text(json.dumps(content))
        pipe = subprocess.PIPE
        argv = fairlead.argv("login", "openrouter", "--browser")
        process: subprocess.Popen[str] = subprocess.Popen(
            argv, env=fairlead.env(), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
        )
        with process:
            assert process.stdout is not None
            address: str = process.stdout.readline().removeprefix("Open ").strip()
            assert address.startswith(f"{url}/auth?")
            yield server, process, {name: value for name, (value,) in parse_qs(urlsplit(address).query).items()}
            process.kill()
        server.shutdown()


def test_a_key_that_the_user_grants_is_stored(fairlead: Command) -> None:
    with logging_in(fairlead, 200, {"key": "sk-or-granted", "user_id": "u"}) as (server, process, asked):
        callback = urlsplit(asked["callback_url"])
        assert callback.hostname == "localhost"
        with pytest.raises(HTTPError):
            urlopen(f"http://127.0.0.1:{callback.port}/?code=forged", timeout=PATIENCE)
        with urlopen(f"http://127.0.0.1:{callback.port}{callback.path}?code=c-1", timeout=PATIENCE) as page:
            assert page.status == 200
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert "sk-or-granted" not in out
    ((body),) = server.bodies
    assert (body["code"], body["code_challenge_method"], asked["code_challenge_method"]) == ("c-1", "S256", "S256")
    digest = hashlib.sha256(body["code_verifier"].encode()).digest()
    assert urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
    path = fairlead.around.home / "auth.json"
    assert json.loads(path.read_text())["openrouter"] == {"type": "api_key", "key": "sk-or-granted"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("query", "status", "answer", "problem"),
    [
        ("error=access_denied", 200, {}, "declined"),
        ("code=c-1", 403, {"error": "Invalid code"}, "Invalid code"),
        ("code=c-1", 200, {"key": 5}, "gave no key"),
        ("code=c-1", 200, ["key"], "not an answer to a login"),
        ("code=c-1", 500, {}, "answered 500"),
    ],
)
def test_a_login_that_fails_stores_nothing(fairlead: Command, query: str, status: int, answer: Any, problem: str) -> None:
    with logging_in(fairlead, status, answer) as (_, process, asked):
        callback = urlsplit(asked["callback_url"])
        urlopen(f"http://127.0.0.1:{callback.port}{callback.path}?{query}", timeout=PATIENCE).close()
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1 and problem in err
    assert not (fairlead.around.home / "auth.json").exists()


def test_other_providers_have_no_such_page(fairlead: Command) -> None:
    done = fairlead("login", "anthropic", "--browser")
    assert done.returncode == 2 and "--browser works with: openrouter." in done.stderr
