"""OAuth of MCP servers, against a real server with a real authorization server: sign-in, renewal, and what a refusal says."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.extend.mcp_scene import PATIENCE, SUPPORT, calls, scene
from tests.support.gates import wait_for_exit

from fairlead.errors import LoginFailed
from fairlead.extend.mcp.config import OAuthSettings, ServerConfig, SignIns
from fairlead.extend.mcp.oauth import sign_in
from fairlead.session.slash_commands import Origin
from fairlead.testing import Turn

WHISPER = [calls("mcp__guarded__whisper", text="boo"), Turn(text="ok")]


class Guarded:
    """A server that wants OAuth, and what it was asked for."""

    def __init__(self, port: int, log: Path) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self.url = f"{self.origin}/mcp"
        self._log = log

    def asked(self) -> list[str]:
        words = ("register", "authorize", "exchange", "refresh")
        return [line for line in self._log.read_text().split() if line.startswith(words)]

    def config(self, **settings: Any) -> ServerConfig:
        origin = Origin(Path("mcp.json"), "auto", "user")
        return ServerConfig(name="guarded", origin=origin, url=self.url, oauth=OAuthSettings(**settings))

    def tell(self, what: str) -> None:
        urllib.request.urlopen(f"{self.origin}/{what}", timeout=PATIENCE).read()


@contextmanager
def guarded(folder: Path, lifetime: int = 3600, known_port: int | None = None) -> Generator[Guarded]:
    log = folder / "server.log"
    argv = [
        sys.executable,
        "-W",
        "ignore",
        str(SUPPORT / "oauth_mcp_server.py"),
        str(lifetime),
        *([str(known_port)] if known_port else []),
    ]
    with log.open("w") as errors, subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
        try:
            assert process.stdout is not None
            yield Guarded(int(process.stdout.readline()), log)
        finally:
            process.kill()
            wait_for_exit(process.pid)


@pytest.fixture
def server(tmp_path: Path) -> Generator[Guarded]:
    with guarded(tmp_path) as running:
        yield running


@pytest.fixture
def sign_ins(tmp_path: Path) -> SignIns:
    return SignIns(tmp_path / "home" / "mcp-sign-ins.json")


def fetch(url: str) -> bytes:
    answer: bytes = urllib.request.urlopen(url, timeout=PATIENCE).read()
    return answer


class Browser:
    """A user who opens the page at once. `pages` are the addresses that were shown."""

    def __init__(self, visit: Callable[[str], Any] | None = None) -> None:
        self.pages: list[str] = []
        self._visit = visit or fetch
        self.visits: list[asyncio.Future[Any]] = []

    def open(self, url: str) -> None:
        self.pages.append(url)
        self.visits.append(asyncio.ensure_future(asyncio.to_thread(self._visit, url)))


async def nothing() -> str | None:
    return None


async def go(
    server: ServerConfig, sign_ins: SignIns, browser: Browser, pasted: Callable[[], Awaitable[str | None]] = nothing
) -> Any:
    async with asyncio.timeout(PATIENCE):
        result = await sign_in(server, sign_ins, browser.open, pasted)
        await asyncio.gather(*browser.visits)
        return result


def at_home(folder: Path) -> dict[str, Any]:
    """Options of an agent whose home is in a folder."""
    return {"isolated": False, "env": {**os.environ, "FAIRLEAD_HOME": str(folder / "home")}}


def entry(server: Guarded) -> dict[str, Any]:
    return {"type": "http", "url": server.url}


async def test_a_sign_in_lasts_for_all_sessions(tmp_path: Path, server: Guarded, sign_ins: SignIns) -> None:
    browser = Browser()
    assert await go(server.config(), sign_ins, browser) == (1, True)
    assert server.asked() == ["register:fairlead", "authorize", "exchange"]
    path = tmp_path / "home" / "mcp-sign-ins.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for _ in range(2):
        async with scene(tmp_path, {"guarded": entry(server)}, WHISPER, **at_home(tmp_path)) as told:
            await told.agent.ask("go")
            assert told.texts() == [("psst: boo", False)]
    assert await go(server.config(), sign_ins, browser) == (1, False), "there is a sign-in already"
    assert server.asked() == ["register:fairlead", "authorize", "exchange"]


async def test_a_sign_in_belongs_to_the_name_and_the_url_and_not_to_an_isolated_agent(
    tmp_path: Path, server: Guarded, sign_ins: SignIns
) -> None:
    await go(server.config(), sign_ins, Browser())
    async with scene(tmp_path, {"guarded": entry(server)}) as told:
        await told.agent.ask("go")
        assert told.offered() == []
    async with scene(tmp_path, {"other": entry(server)}, **at_home(tmp_path)) as told:
        await told.agent.ask("go")
        assert told.offered() == []


async def test_a_server_says_that_it_needs_a_sign_in_and_a_running_session_uses_it(
    tmp_path: Path, server: Guarded, sign_ins: SignIns
) -> None:
    async with scene(tmp_path, {"guarded": entry(server)}, [Turn(text="no"), *WHISPER], **at_home(tmp_path)) as told:
        await told.agent.ask("go")
        command = f"`fairlead mcp login guarded --url {server.url}`"
        assert told.errors() == [
            (
                "mcp:guarded",
                "connect",
                f'The MCP server "guarded" could not be connected: it needs you to sign in, with {command}.',
            )
        ]
        assert server.asked() == [], "a session does not register anything"
        await go(server.config(), sign_ins, Browser())
        await told.agent.ask("go on")
        assert told.texts() == [("psst: boo", False)]


async def test_a_token_is_renewed_when_it_expires(tmp_path: Path, sign_ins: SignIns) -> None:
    with guarded(tmp_path, lifetime=1) as server:
        await go(server.config(), sign_ins, Browser())
        before = json.loads((tmp_path / "home" / "mcp-sign-ins.json").read_text())
        await asyncio.sleep(2)
        async with scene(tmp_path, {"guarded": entry(server)}, WHISPER, **at_home(tmp_path)) as told:
            await told.agent.ask("go")
            assert told.texts() == [("psst: boo", False)]
        assert server.asked()[3:] and set(server.asked()[3:]) == {"refresh"}
        after = json.loads((tmp_path / "home" / "mcp-sign-ins.json").read_text())
        assert before != after, "what was renewed is stored: a token that renews works once"


async def test_a_token_that_is_rejected_is_renewed_once(tmp_path: Path, server: Guarded, sign_ins: SignIns) -> None:
    await go(server.config(), sign_ins, Browser())
    async with scene(tmp_path, {"guarded": entry(server)}, [*WHISPER, *WHISPER], **at_home(tmp_path)) as told:
        await told.agent.ask("go")
        server.tell("reject")
        await told.agent.ask("again")
        assert told.texts() == [("psst: boo", False)] * 2
    assert server.asked()[3:] == ["refresh"]


async def test_an_expired_sign_in_is_reported_without_secrets(tmp_path: Path, server: Guarded, sign_ins: SignIns) -> None:
    await go(server.config(), sign_ins, Browser())
    async with scene(tmp_path, {"guarded": entry(server)}, [*WHISPER, *WHISPER], **at_home(tmp_path)) as told:
        await told.agent.ask("go")
        server.tell("forget")
        await told.agent.ask("again")
        (_, (text, is_error)) = told.texts()
        assert is_error and "fairlead mcp login guarded" in text
        assert "access-" not in text and "renewal-" not in text
    assert "authorize" not in server.asked()[3:]


async def test_an_address_from_a_browser_elsewhere_can_be_pasted(server: Guarded, sign_ins: SignIns) -> None:
    shown: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    class Elsewhere(Browser):
        def open(self, url: str) -> None:
            shown.set_result(url)

    async def pasted() -> str:
        def visit(url: str) -> str:
            parts = urlsplit(url)
            with closing(HTTPConnection(parts.netloc, timeout=PATIENCE)) as connection:
                connection.request("GET", f"{parts.path}?{parts.query}")
                return connection.getresponse().headers["location"]

        return await asyncio.to_thread(visit, await shown)

    assert await go(server.config(), sign_ins, Elsewhere(), pasted) == (1, True)


async def test_a_refusal_and_a_foreign_answer_store_nothing(
    server: Guarded, sign_ins: SignIns, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(**fields: str) -> Browser:
        def visit(url: str) -> None:
            asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
            query = "&".join(f"{name}={value.format(**asked)}" for name, value in fields.items())
            urllib.request.urlopen(f"{asked['redirect_uri']}?{query}", timeout=PATIENCE).read()

        return Browser(visit)

    with pytest.raises(LoginFailed, match=r"The sign-in was refused: The user said no\."):
        await go(
            server.config(), sign_ins, answer(error="access_denied", error_description="The%20user%20said%20no", state="{state}")
        )
    with pytest.raises(LoginFailed, match="the answer belongs to another sign-in"):
        await go(server.config(), sign_ins, answer(code="stolen", state="another"))
    assert "tokens" not in (sign_ins.of(server.config()) or {})
    assert not caplog.records, "what is raised is not logged as well"


async def test_a_client_that_the_server_knows_need_not_register(tmp_path: Path, sign_ins: SignIns) -> None:
    free = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = free.sockets[0].getsockname()[1]
    free.close()
    with guarded(tmp_path, known_port=port) as server:
        with pytest.raises(LoginFailed, match='sign-in at "guarded" failed'):
            await go(server.config(), sign_ins, Browser())
        config = server.config(client_id="known", client_secret="known-secret-of-the-client", callback_port=port)
        assert await go(config, sign_ins, Browser()) == (1, True)
        assert server.asked() == ["authorize", "exchange"]
        assert "known-secret" not in (tmp_path / "home" / "mcp-sign-ins.json").read_text()


async def test_a_client_is_registered_again_only_if_its_port_is_taken(server: Guarded, sign_ins: SignIns) -> None:
    browser = Browser()
    await go(server.config(client_name="one name"), sign_ins, browser)
    server.tell("forget")
    await go(server.config(client_name="another"), sign_ins, browser)
    assert server.asked().count("authorize") == 2 and [word for word in server.asked() if "register" in word] == ["register:one"]
    server.tell("forget")
    port = urlsplit(parse_qs(urlsplit(browser.pages[0]).query)["redirect_uri"][0]).port
    taken = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", port)
    async with taken:
        await go(server.config(), sign_ins, browser)
    assert [word for word in server.asked() if "register" in word] == ["register:one", "register:fairlead"]


async def test_a_port_that_is_needed_and_taken_is_reported(server: Guarded, sign_ins: SignIns) -> None:
    taken = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    async with taken:
        with pytest.raises(LoginFailed, match=f"Port {port} of 127.0.0.1 is needed"):
            await go(server.config(callback_port=port), sign_ins, Browser())
