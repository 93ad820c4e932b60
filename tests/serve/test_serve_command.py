"""`fairlead serve` as a real process: its start, its login link, TLS, and its end after signals."""

from __future__ import annotations

import asyncio
import json
import platform
import re
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trustme
from tests.serve.scene import PATIENCE

from fairlead.config.extras import install_command
from fairlead.testing import ProviderServer
from fairlead.testing.agents import TEST_MODEL, AgentCommand, agent_command

COMMAND = [sys.executable, "-P", "-m", "fairlead", "serve"]


class Process:
    """A server process and what it has printed."""

    def __init__(self, process: asyncio.subprocess.Process, home: Path) -> None:
        self._process = process
        self.home = home
        self.pid = process.pid
        self.url = ""
        self.text = ""

    async def started(self) -> None:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE * 2):
            while "Ctrl-C" not in self.text:
                line = (await self._process.stdout.readline()).decode()
                assert line, self.text
                self.text += line
        found = re.search(r"listens on (\S+)", self.text)
        assert found is not None
        self.url = found[1]

    async def end(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        async with asyncio.timeout(PATIENCE * 2):
            return await self._process.wait()

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request, and return the status, the decoded body and the headers."""
        token = (self.home / "serve.token").read_text().strip() if (self.home / "serve.token").exists() else ""
        given = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {k: v for k, v in given.items() if v}, method=method)

        def send() -> tuple[int, Any, Any]:
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE, context=self.tls) as response:
                    text = response.read()
                    return response.status, json.loads(text) if text else None, response.headers
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, json.loads(error.read()), error.headers

        return await asyncio.to_thread(send)

    tls: ssl.SSLContext | None = None


@asynccontextmanager
async def served(command: AgentCommand, *flags: str) -> AsyncGenerator[Process]:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "--port", "0", "--model", TEST_MODEL, *flags, cwd=command.cwd, env=command.env, stdout=subprocess.PIPE
    )
    try:
        made = Process(process, Path(command.env["FAIRLEAD_HOME"]))
        await made.started()
        yield made
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def failing(tmp_path: Path, *flags: str) -> tuple[int, str]:
    """Run a server that does not start. Returns its exit code and what it says."""
    command = agent_command(tmp_path, "http://127.0.0.1:9")
    done = subprocess.run(
        [*COMMAND, *flags], cwd=command.cwd, env=command.env, capture_output=True, text=True, timeout=PATIENCE * 2
    )
    return done.returncode, done.stderr


async def until_idle(server: Process, path: str) -> Any:
    async with asyncio.timeout(PATIENCE):
        while True:
            _, snapshot, _ = await server.call("GET", path)
            if snapshot["session"]["status"] == "idle":
                return snapshot
            await asyncio.sleep(0.02)


def heaps_of_threads(pid: int) -> int:
    """Return how many heaps of its own glibc has made for the threads of a process. Each reserves 64 MiB, at a multiple of it."""
    size = 64 << 20
    found = [line.split()[:2] for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    areas = [(*(int(each, 16) for each in span.split("-")), mode) for span, mode in found]
    return sum(
        first % size == 0 and mode == "rw-p" and following == end and last == first + size and hidden == "---p"
        for (first, end, mode), (following, last, hidden) in pairwise(areas)
    )


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has a heap for each thread")
async def test_all_threads_of_a_server_share_one_heap(tmp_path: Path) -> None:
    async with ProviderServer([{"text": "ok"}], loop=True) as provider, served(agent_command(tmp_path, provider.url)) as server:
        _, session, _ = await server.call("POST", "/v1/sessions", {})
        await server.call("POST", f"/v1/sessions/{session['id']}/prompt", {"text": "hi"})
        await until_idle(server, f"/v1/sessions/{session['id']}")
        for _ in range(10):  # listings read files in threads
            listed = await asyncio.gather(*(server.call("GET", "/v1/sessions") for _ in range(10)))
            assert {status for status, _, _ in listed} == {200}
        assert heaps_of_threads(server.pid) == 0


async def test_the_command_serves_until_a_signal(tmp_path: Path) -> None:
    async with ProviderServer([{"text": "Hello"}, {"text": "unfinished " * 50, "holdAfter": 3}]) as provider:
        command = agent_command(tmp_path, provider.url)
        async with served(command) as server:
            _, session, _ = await server.call("POST", "/v1/sessions", {})
            path = f"/v1/sessions/{session['id']}"
            assert (session["cwd"], session["approval"]) == (str(command.cwd), "auto")
            assert (await server.call("POST", f"{path}/prompt", {"text": "hi"}))[0] == 202
            snapshot = await until_idle(server, path)
            assert snapshot["messages"][-1]["content"][0]["text"] == "Hello"
            await server.call("POST", f"{path}/prompt", {"text": "more"})
            await provider.until(lambda provider: len(provider.requests) == 2)
            assert await server.end(signal.SIGTERM) == 143
        # What was interrupted is saved, and the token stays.
        async with served(command) as server:
            status, snapshot, _ = await server.call("GET", path)
            assert status == 200
            assert [message["role"] for message in snapshot["messages"]][:3] == ["user", "assistant", "user"]
            assert await server.end(signal.SIGINT) == 0


async def test_the_link_logs_a_browser_in_once_and_the_token_is_never_printed(tmp_path: Path) -> None:
    async with served(agent_command(tmp_path, "http://127.0.0.1:9"), "--allow-host", "agent.example.org") as server:
        # Other machines can reach it through a proxy, so tools ask.
        assert (await server.call("POST", "/v1/sessions", {}, Host="agent.example.org"))[1]["approval"] == "ask"
        assert (server.home / "serve.token").read_text().strip() not in server.text
        found = re.search(r"/login#(\S+)", server.text)
        assert found is not None
        status, _, headers = await server.call("POST", "/login", {"code": found[1]}, Authorization="")
        assert status == 204
        cookie = headers["set-cookie"].partition(";")[0]
        assert (await server.call("GET", "/v1/sessions", Authorization="", Cookie=cookie))[0] == 200
        assert (await server.call("POST", "/login", {"code": found[1]}, Authorization=""))[0] == 401
        assert (await server.call("GET", "/v1/sessions", Authorization=""))[0] == 401


async def test_other_machines_are_served_over_tls_and_tools_ask(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.cert_chain_pems[0].write_to_path(str(cert))
    certificate.private_key_pem.write_to_path(str(key))
    flags = ("--host", "0.0.0.0", "--tls-cert", str(cert), "--tls-key", str(key))
    async with served(agent_command(tmp_path, "http://127.0.0.1:9"), *flags) as server:
        assert server.url.startswith("https://")
        with pytest.raises(urllib.error.URLError, match="certificate"):
            await server.call("GET", "/healthz")
        server.tls = ssl.create_default_context()
        authority.configure_trust(server.tls)  # pyright: ignore[reportUnknownMemberType] (pyOpenSSL is not installed)
        assert (await server.call("POST", "/v1/sessions", {}))[1]["approval"] == "ask"
        _, _, headers = await server.call("POST", "/login", {"code": (server.home / "serve.token").read_text()})
        assert headers["set-cookie"].startswith("__Host-") and "secure" in headers["set-cookie"].lower()
        assert (await server.call("GET", "/healthz", Host="evil.example"))[0] == 403


async def test_users_have_tokens_and_sessions_of_their_own(tmp_path: Path) -> None:
    command = agent_command(tmp_path, "http://127.0.0.1:9")
    file = tmp_path / "users.json"
    tokens: dict[str, str] = {}
    for name in ("ann", "bob"):
        words = [*COMMAND, "--users", str(file), "--add-user", name]
        done = await asyncio.to_thread(
            subprocess.run, words, cwd=command.cwd, env=command.env, capture_output=True, text=True, check=True
        )
        tokens[name] = done.stdout.split()[-1]
    assert not any(token in file.read_text() for token in tokens.values())
    async with served(command, "--users", str(file)) as server:
        assert "/login#" not in server.text
        assert not (server.home / "serve.token").exists()
        ann, bob = (f"Bearer {tokens[name]}" for name in ("ann", "bob"))
        _, session, _ = await server.call("POST", "/v1/sessions", {}, Authorization=ann)
        path = f"/v1/sessions/{session['id']}"
        assert (await server.call("GET", path, Authorization=ann))[0] == 200
        assert (await server.call("GET", path, Authorization=bob))[0] == 404


BAD_COMMANDS: list[tuple[tuple[str, ...], int, str]] = [
    (("--host", "0.0.0.0"), 1, "--insecure"),
    (("--host", "no.such.name.invalid"), 1, "--host"),
    (("--tls-cert", "cert.pem"), 1, "needed together"),
    (("--port", "0", "--tls-cert", "none.pem", "--tls-key", "none.pem"), 1, "cannot be used"),
    (("--root", "none"), 1, "no such directory"),
    (("--users", "none.json"), 1, "Cannot read"),
    (("--port", "99999"), 2, "--port"),
    (("--max-session", "1"), 2, "--max-sessions"),
    (("prompt",), 2, "takes flags only"),
    (("--resume",), 2, "many sessions"),
    (("--add-user", "ann"), 2, "--users"),
]


@pytest.mark.parametrize(("flags", "code", "text"), BAD_COMMANDS)
def test_a_command_line_that_cannot_be_used_starts_nothing(tmp_path: Path, flags: tuple[str, ...], code: int, text: str) -> None:
    found, said = failing(tmp_path, *flags)
    assert found == code
    assert text in said
    assert "Traceback" not in said


def test_a_token_that_others_can_read_stops_the_start(tmp_path: Path) -> None:
    agent_command(tmp_path, "http://127.0.0.1:9")
    token = tmp_path / "home" / "serve.token"
    token.write_text("x" * 40)
    token.chmod(0o644)
    code, said = failing(tmp_path, "--port", "0")
    assert code == 1
    assert "chmod 600" in said


@pytest.mark.parametrize("package", ["uvicorn", "starlette", "websockets"])
def test_the_error_names_the_extra_that_is_missing(package: str, tmp_path: Path) -> None:
    command = agent_command(tmp_path, "http://127.0.0.1:9")
    program = (
        f"import sys; sys.modules[{package!r}] = None; sys.argv = ['fairlead', 'serve'];"
        " from fairlead.cli.start import main; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=command.cwd, env=command.env, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"fairlead serve needs {package}. This installs it: " in done.stderr
    assert install_command("serve") in done.stderr
    assert package in install_command("serve")


def test_other_commands_load_nothing_of_the_server() -> None:
    program = (
        "import sys; from fairlead.cli.main import main; main(['help', 'serve']); import fairlead.agent;"
        "print([name for name in sys.modules if name.startswith(('fairlead.serve', 'uvicorn', 'starlette', 'websockets'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
