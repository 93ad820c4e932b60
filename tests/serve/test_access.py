"""Everything that protects the server, over real connections. What is not allowed is refused."""

from __future__ import annotations

import asyncio
import gzip
import re
import stat
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from tests.serve.web import TOKEN, Reply, Web, until_message, web
from websockets.exceptions import InvalidStatus

from fairlead.errors import ConfigError
from fairlead.serve import access as access_module
from fairlead.serve.access import (
    CODE_SECONDS,
    COOKIE_SECONDS,
    FAILURE_SECONDS,
    FAILURES_OF_ALL,
    FAILURES_OF_ONE,
    OWNER,
    Access,
    FailureLimit,
    add_user,
    digest,
    load_token,
    load_users,
)
from fairlead.serve.guard import PUBLIC, Hosts
from fairlead.serve.http_server import ServerOptions, allowed_hosts, bind

PROTECTED = ("/", "/v1/sessions", "/v1/models", "/metrics", "/openapi.json", "/v1/sessions/x/events", "/nothing")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def log_in(at: Web, code: str, **headers: str) -> Reply:
    return await at.call("POST", "/login", {"code": code}, headers={"Authorization": "", **headers})


def cookie_of(reply: Reply) -> str:
    return reply.headers["set-cookie"].partition(";")[0]


async def test_nothing_but_health_and_login_is_served_without_a_login(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        for token in (None, "wrong", ""):
            at.token = token
            for path in PROTECTED:
                reply = await at.call("GET", path)
                assert (reply.status, reply.headers.get("www-authenticate")) == (401, 'Bearer realm="fairlead"'), path
            for path in ("/ws?dialect=pi", "/acp", "/v1/sessions/x/events"):
                with pytest.raises(InvalidStatus) as refused:
                    async with at.socket(path):
                        pass
                assert refused.value.response.status_code in (401, 429)
            at.access.failures = FailureLimit()
        at.token = None
        for path in PUBLIC:
            assert (await at.call("GET", path)).status == 200


async def test_a_login_code_works_once_and_sets_a_strict_cookie(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        code = (await at.call("POST", "/v1/login_codes")).json["code"]
        at.token = None
        page = await at.call("GET", "/login")
        assert code.encode() not in page.body
        reply = await log_in(at, code)
        assert reply.status == 204
        attributes = {each.strip().lower() for each in reply.headers["set-cookie"].split(";")[1:]}
        assert {"httponly", "samesite=strict", "path=/"} <= attributes
        assert TOKEN not in reply.headers["set-cookie"]
        cookie = {"Cookie": cookie_of(reply)}
        assert (await at.call("GET", "/v1/sessions", headers=cookie)).status == 200
        assert (await log_in(at, code)).code == "wrong_code"
        origin = {**cookie, "Origin": f"http://127.0.0.1:{at.port}"}
        assert (await at.call("POST", "/logout", headers=origin)).status == 204
        assert (await at.call("GET", "/v1/sessions", headers=cookie)).status == 401


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Mode": "navigate"}, {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}])
async def test_a_browser_without_a_login_gets_the_login_page(tmp_path: Path, headers: dict[str, str]) -> None:
    # Over http, browsers say what a request is for only on loopback: elsewhere just the types that they accept tell a page.
    async with web(tmp_path) as at:
        at.token = None
        reply = await at.call("GET", "/", headers=headers)
        assert (reply.status, reply.headers["location"]) == (303, "/login")
        assert (await at.call("GET", "/v1/models", headers=headers)).status == 401
        assert (await at.call("GET", "/", headers={**headers, "Sec-Fetch-Mode": "cors"})).status == 401
        assert (await at.call("GET", "/")).status == 401


async def test_the_page_is_compressed_for_clients_that_want_it_and_names_all_of_its_modules(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        plain = await at.call("GET", "/", headers={"Accept-Encoding": "gzip;q=0, br"})
        packed = await at.call("GET", "/", headers={"Accept-Encoding": "br, gzip"})
        assert "content-encoding" not in plain.headers and packed.headers["content-encoding"] == "gzip"
        assert packed.headers["vary"] == "accept-encoding" and gzip.decompress(packed.body) == plain.body
        named = set(re.findall(r'(?:modulepreload" href|src)="/page/([^"]+)', plain.body.decode()))
        modules = {file.name for file in files("fairlead.serve").joinpath("page").iterdir() if file.name.endswith(".mjs")}
        assert named == modules - {"login.mjs"}, "a module that is not named is found late"
        for name in modules - {"login.mjs"}:
            assert (await at.call("GET", f"/page/{name}")).headers["content-type"].startswith("text/javascript")


async def test_the_form_of_the_login_page_logs_in(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        at.token = None
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        reply = await at.call("POST", "/login", raw=f"code={TOKEN}".encode(), headers=form)
        assert (reply.status, reply.headers["location"]) == (303, "/")
        assert (await at.call("GET", "/", headers={"Cookie": cookie_of(reply)})).status == 200


async def test_a_cookie_alone_changes_nothing_without_an_origin(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        cookie = {"Cookie": cookie_of(await log_in(at, TOKEN))}
        at.token = None
        assert (await at.call("POST", "/v1/sessions", {}, headers=cookie)).code == "bad_origin"
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        }
        assert (await at.call("GET", "/ws?dialect=pi", headers={**cookie, **upgrade})).code == "bad_origin"
        same: dict[str, str] = {**cookie, "Origin": f"http://127.0.0.1:{at.port}"}
        assert (await at.call("POST", "/v1/sessions", {}, headers=same)).status == 201
        fetched: dict[str, str] = {**cookie, "Sec-Fetch-Site": "same-origin"}
        assert (await at.call("POST", "/v1/sessions", {}, headers=fetched)).status == 201


BAD_ORIGINS = (
    "http://evil.example",
    "null",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    "ftp://127.0.0.1:{port}",
    "http://127.0.0.1:{port}.evil.example",
    "http://127.0.0.1:{port}/path",
    "http://[",
    "http://localhost:{port}",
)


async def test_pages_of_other_sites_are_refused(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        for origin in BAD_ORIGINS:
            headers = {"Origin": origin.format(port=at.port)}
            for path in ("/v1/sessions", "/healthz", "/login"):
                assert (await at.call("GET", path, headers=headers)).code == "bad_origin", origin
            with pytest.raises(InvalidStatus) as refused:
                async with at.socket("/ws?dialect=pi", origin=headers["Origin"]):
                    pass
            assert refused.value.response.status_code == 403
        for site in ("cross-site", "same-site"):
            assert (await at.call("GET", "/v1/sessions", headers={"Sec-Fetch-Site": site})).code == "bad_origin"
        assert at.access.failures.total == 0


BAD_HOSTS = (
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1.evil.example",
    "127.0.0.1@evil.example",
    "10.0.0.1",
    "[::2]",
    "a b",
)


async def test_other_names_for_the_server_are_refused(tmp_path: Path) -> None:
    async with web(tmp_path, allow_hosts=("agent.example.org",)) as at:
        for host in BAD_HOSTS:
            reply = await at.call("GET", "/healthz", headers={"Host": host.format(port=at.port)})
            assert reply.status in (400, 403), host
        for host in ("localhost", f"LOCALHOST:{at.port}", "[::1]:80", "127.0.0.1", "agent.example.org:443"):
            assert (await at.call("GET", "/healthz", headers={"Host": host})).status == 200, host


async def test_wrong_tokens_are_refused_for_a_while_but_never_the_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_module, "HELD_UP_SECONDS", 0.0)
    async with web(tmp_path) as at:
        cookie = cookie_of(await log_in(at, TOKEN))
        at.token = "wrong"
        for _ in range(FAILURES_OF_ONE):
            assert (await at.call("GET", "/v1/sessions")).status == 401
        reply = await at.call("GET", "/v1/sessions")
        assert (reply.status, reply.code) == (429, "too_many_failures")
        assert 0 < int(reply.headers["retry-after"]) <= FAILURE_SECONDS + 1
        assert (await log_in(at, "wrong")).status == 429
        assert (await log_in(at, TOKEN)).status == 204
        at.token = TOKEN
        assert (await at.call("GET", "/v1/sessions")).status == 200
        at.token = None
        assert (await at.call("GET", "/v1/sessions", headers={"Cookie": cookie})).status == 200


def test_failures_are_forgotten_and_counted_for_all_addresses_too() -> None:
    clock = Clock()
    limit = FailureLimit(clock)
    for _ in range(FAILURES_OF_ONE):
        limit.count_failure("10.0.0.1")
    assert limit.wait("10.0.0.1") and limit.wait("::ffff:10.0.0.1")
    assert not limit.wait("10.0.0.2")
    clock.now += FAILURE_SECONDS
    assert not limit.wait("10.0.0.1")
    for number in range(FAILURES_OF_ALL):
        limit.count_failure(f"2001:db8:{number:x}::1")
    assert limit.wait("10.0.0.3")


def test_codes_and_cookies_expire() -> None:
    clock = Clock()
    access = Access({OWNER: digest(TOKEN)}, clock)
    code, late = access.new_code(OWNER), access.new_code(OWNER)
    cookie = access.log_in(code)
    assert cookie is not None
    assert access.user_of_cookie(cookie) == OWNER
    assert access.user_of_cookie(code) is None
    clock.now += CODE_SECONDS
    assert access.log_in(late) is None
    clock.now += COOKIE_SECONDS
    assert access.user_of_cookie(cookie) is None


def test_a_server_without_tokens_does_not_start() -> None:
    with pytest.raises(ConfigError, match="without tokens"):
        Access({})


def test_the_token_file_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "home" / "serve.token"
    token = load_token(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(token) >= 40
    assert load_token(path) == token
    for mode in (0o644, 0o620, 0o604):
        path.chmod(mode)
        with pytest.raises(ConfigError, match="chmod 600"):
            load_token(path)
    path.chmod(0o600)
    for text in ("", "short", "x" * 20 + " " + "y" * 20):
        path.write_text(text)
        with pytest.raises(ConfigError, match="does not hold a token"):
            load_token(path)
    path.unlink()
    other = tmp_path / "other"
    other.write_text("z" * 40)
    path.symlink_to(other)
    with pytest.raises(ConfigError, match="Cannot use the token file"):
        load_token(path)


def test_other_addresses_than_loopback_need_tls_or_a_decision() -> None:
    for host in ("0.0.0.0", "::", ""):
        with pytest.raises(ConfigError, match="--insecure"):
            bind(ServerOptions(host=host, port=0))
    with pytest.raises(ConfigError, match="needed together"):
        bind(ServerOptions(port=0, tls_cert=Path("cert.pem")))
    options = ServerOptions(host="0.0.0.0", port=0, insecure=True)
    binding = bind(options)
    with binding.socket:
        assert not binding.is_loopback
        hosts = allowed_hosts(options, binding)
        assert hosts.accepts("192.0.2.7:8787")
        assert hosts.accepts("localhost:8787"), "which is among all addresses, and which no site can claim"
        assert not hosts.accepts("evil.example")
    for host in ("127.0.0.1", "localhost"):
        binding = bind(ServerOptions(host=host, port=0))
        with binding.socket:
            assert binding.is_loopback


@pytest.mark.parametrize("host", ["", ":80", "a:b", "a/b", "user@localhost", "localhost?x", "[::1", "localhost:99999"])
def test_malformed_hosts_are_refused(host: str) -> None:
    assert not Hosts(names=frozenset(("localhost", "a", "")), addresses=True).accepts(host)


async def test_every_response_protects_browsers(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        at.token = None
        for path in ("/login", "/v1/sessions", "/healthz", "/login.js"):
            headers = (await at.call("GET", path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert "unsafe" not in headers["content-security-policy"]
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in headers
            assert "server" not in headers
        page = (await at.call("GET", "/login")).body
        assert b"<style" not in page and page.count(b"<script") == page.count(b"<script src=")


async def test_users_do_not_see_the_sessions_of_others(tmp_path: Path) -> None:
    tokens = {"ann": "a" * 40, "bob": "b" * 40}
    async with web(tmp_path, tokens=tokens) as at:
        at.token = tokens["ann"]
        path = await at.session(name="Secret")
        async with await at.open("GET", f"{path}/events") as stream:
            await at.call("POST", f"{path}/prompt", {"text": "hi"})
            await stream.until("prompt_result")
        file = next((tmp_path / "home" / "serve" / "users" / "ann").rglob("*.jsonl"))
        at.token = tokens["bob"]
        assert (await at.call("GET", "/v1/sessions")).json["sessions"] == []
        requests: list[tuple[str, str, Any]] = [
            ("GET", "", None),
            ("GET", "/events", None),
            ("POST", "/prompt", {"text": "x"}),
            ("POST", "/abort", None),
            ("POST", "/fork", {}),
            ("POST", "/questions/x", {"decision": "allow"}),
            ("PATCH", "", {"approval": "auto"}),
            ("DELETE", "", None),
        ]
        for method, more, body in requests:
            assert (await at.call(method, f"{path}{more}", body)).code == "session_not_found", (method, more)
        async with at.socket("/ws?dialect=pi") as socket:
            for number, (kind, name) in enumerate((("switch_session", file), ("delete_session", file))):
                await socket.send(f'{{"type":"{kind}","id":"{number}","sessionPath":"{name}"}}')
                answer = await until_message(socket, type="response", id=str(number))
                assert not answer["success"]
                assert "outside the directory of your sessions" in answer["error"]
            await socket.send('{"type":"list_sessions","id":"l","all":true}')
            assert (await until_message(socket, type="response", id="l"))["data"]["sessions"] == []
        at.token = tokens["ann"]
        assert (await at.call("GET", path)).json["session"]["name"] == "Secret"


def test_the_file_of_users_holds_hashes_of_random_tokens(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    tokens = {name: add_user(path, name) for name in ("ann", "bob")}
    text = path.read_text()
    assert not any(token in text for token in tokens.values())
    users = load_users(path)
    assert users == {name: digest(token) for name, token in tokens.items()}
    access = Access(users)
    assert access.user_of_token(tokens["bob"]) == "bob"
    assert access.user_of_token("x" * 40) is None
    again = add_user(path, "ann")
    assert Access(load_users(path)).user_of_token(tokens["ann"]) is None
    assert Access(load_users(path)).user_of_token(again) == "ann"
    with pytest.raises(ConfigError, match="cannot be the name"):
        add_user(path, "../x")


BAD_FILES = (
    "",
    "[]",
    '{"users": {}}',
    '{"users": {"ann": {"token": "plain"}}}',
    '{"users": {"../x": {"token": "sha256:' + "0" * 64 + '"}}}',
    '{"users": {"a": {"token": "sha256:' + "0" * 64 + '"}, "b": {"token": "sha256:' + "0" * 64 + '"}}}',
    '{"userz": {}}',
)


@pytest.mark.parametrize("text", BAD_FILES)
def test_a_file_of_users_that_cannot_be_used_stops_the_start(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError):
        load_users(path)


def test_a_file_of_users_that_others_can_change_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    add_user(path, "ann")
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="Others may change"):
        load_users(path)
    with pytest.raises(ConfigError, match="Cannot read"):
        load_users(tmp_path / "none.json")


async def test_approvals_are_asked_for_when_others_can_reach_the_server(tmp_path: Path) -> None:
    async with web(tmp_path, asks=True) as at:
        assert (await at.call("POST", "/v1/sessions", {})).json["approval"] == "ask"
        assert (await at.call("POST", "/v1/sessions", {"approval": "auto"})).json["approval"] == "auto"
    async with web(tmp_path, asks=True, agent={"approval": "deny"}) as at:
        assert (await at.call("POST", "/v1/sessions", {})).json["approval"] == "deny"
    async with web(tmp_path) as at:
        assert (await at.call("POST", "/v1/sessions", {})).json["approval"] == "auto"


async def test_the_root_bounds_every_door(tmp_path: Path) -> None:
    root = tmp_path / "project" / "inside"
    root.mkdir(parents=True)
    (root / "link").symlink_to(tmp_path)
    async with web(tmp_path, root=root, agent={"cwd": root}) as at:
        for folder in (tmp_path, root / "link", root / "..", tmp_path / "missing", root / "link" / "missing", "/etc/passwd"):
            assert (await at.call("POST", "/v1/sessions", {"cwd": str(folder)})).code == "outside_root"
            for door in ("/ws?dialect=pi&", "/ws?dialect=opal&", "/acp?"):
                with pytest.raises(InvalidStatus) as refused:
                    async with at.socket(f"{door}cwd={folder}"):
                        pass
                assert refused.value.response.status_code == 403
        async with at.socket("/acp") as socket:
            await socket.send('{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}')
            await asyncio.wait_for(socket.recv(), 10)
            for folder in (tmp_path, tmp_path / "missing"):
                await socket.send(
                    f'{{"jsonrpc":"2.0","id":1,"method":"session/new","params":{{"cwd":"{folder}","mcpServers":[]}}}}'
                )
                answer = str(await asyncio.wait_for(socket.recv(), 10))
                assert "is outside the directories that sessions may work in" in answer and str(root) not in answer
        async with at.socket("/ws?dialect=opal") as socket:
            for folder in (tmp_path, tmp_path / "missing"):
                await socket.send(f'{{"jsonrpc":"2.0","id":1,"method":"session/start","params":{{"working_dir":"{folder}"}}}}')
                answer = str(await asyncio.wait_for(socket.recv(), 10))
                assert "is outside the directories that sessions may work in" in answer and str(root) not in answer
