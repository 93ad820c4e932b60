"""`fairlead mcp`: the servers of a directory, a sign-in at one of them, and its end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import PATIENCE, Command
from tests.extend.mcp_scene import real_server
from tests.support.gates import wait_for_exit

SERVER = Path(__file__).parent.parent / "support" / "oauth_mcp_server.py"


@pytest.fixture
def url() -> Generator[str]:
    """A server that wants a sign-in."""
    argv = [sys.executable, "-W", "ignore", str(SERVER), "3600"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        finally:
            process.kill()
            wait_for_exit(process.pid)


def write(fairlead: Command, **servers: Any) -> None:
    (fairlead.around.home / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def log_in(fairlead: Command, *words: str) -> tuple[int, str, str]:
    """Sign in, as a user does who opens the page. Returns the exit code, the output and the errors."""
    with fairlead.start("mcp", "login", *words, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Open http"), process.communicate(timeout=PATIENCE)
        page: bytes = urllib.request.urlopen(line.removeprefix("Open ").strip(), timeout=PATIENCE).read()
        assert b"You can close this page" in page
        output, errors = process.communicate(timeout=PATIENCE)
        return process.returncode, output, errors


def test_a_sign_in_is_listed_used_and_forgotten(fairlead: Command, url: str) -> None:
    write(fairlead, guarded={"url": url}, local={"command": "mcp-server", "args": ["--fast"]})
    assert fairlead("mcp").stdout.splitlines() == [f"guarded  {url}", "local    mcp-server --fast"]
    assert log_in(fairlead, "guarded") == (0, "Signed in at guarded. It has 1 tool.\n", "")
    assert fairlead("mcp", "list").stdout.splitlines()[0] == f"guarded  {url}  (signed in)"
    again = fairlead("mcp", "login", "guarded")
    assert (again.returncode, again.stderr) == (0, "") and "already" in again.stdout
    assert fairlead("mcp", "logout", "guarded").stdout == f"Forgot the sign-in at guarded ({url}).\n"
    assert "(signed in)" not in fairlead("mcp").stdout
    gone = fairlead("mcp", "logout", "guarded")
    assert gone.returncode == 1 and "no sign-in" in gone.stderr


def test_the_list_shows_no_secrets_of_the_servers(fairlead: Command) -> None:
    write(
        fairlead,
        far={"url": "http://ada:password-in-a-url@127.0.0.1:9/mcp?api_key=key-in-a-query&team=blue"},
        local={"command": "mcp-server", "args": ["--token", "${TRACKER_TOKEN}"]},
        own={"command": "mcp-server", "args": ["--key=key-of-its-own"], "env": {"API_KEY": "key-of-its-own"}},
    )
    assert fairlead("mcp", env={"TRACKER_TOKEN": "token-of-a-variable"}).stdout.splitlines() == [
        "far    http://ada:[redacted]@127.0.0.1:9/mcp?api_key=[redacted]&team=blue",
        "local  mcp-server --token [redacted]",
        "own    mcp-server --key=[redacted]",
    ]


def test_a_server_that_no_file_has_is_named_by_its_url(fairlead: Command, url: str) -> None:
    assert log_in(fairlead, "elsewhere", "--url", url)[0] == 0


def test_mcp_login_rejects_servers_without_oauth(fairlead: Command) -> None:
    write(fairlead, sentry={"url": "http://127.0.0.1:9/mcp"}, local={"command": "true"}, keyed={
        "url": "http://127.0.0.1:9/mcp", "headers": {"authorization": "Bearer x"}})  # fmt: skip
    for words, text in [
        (("sentri",), "Did you mean sentry?"),
        (("local",), "is a program on this machine"),
        (("keyed",), "has a header Authorization"),
        (("x", "--url", "ftp://x"), "--url: expected a URL"),
        (("sentry",), 'The MCP server "sentry" could not be connected: '),
    ]:
        done = fairlead("mcp", "login", *words)
        assert done.returncode == 1 and text in done.stderr, done
        assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 1, done
    assert fairlead("mcp", "logout").returncode == 2 and fairlead("mcp", "nope").returncode == 2


def test_the_servers_of_a_project_count_once_it_is_trusted(fairlead: Command) -> None:
    (fairlead.around.cwd / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": {"url": "http://127.0.0.1:9/mcp"}}}))
    before = fairlead("mcp")
    assert "theirs" not in before.stdout and "fairlead trust" in before.stderr
    assert fairlead("trust").returncode == 0
    assert "theirs" in fairlead("mcp").stdout


# Adding, removing and trying servers


def written(fairlead: Command) -> Any:
    return json.loads((fairlead.around.home / "mcp.json").read_text())["mcpServers"]


def test_a_server_is_added_tried_and_removed(fairlead: Command) -> None:
    program = real_server()
    added = fairlead("mcp", "add", "good", "--env", "MODE=a=b", "--", program["command"], *program["args"])
    assert added.returncode == 0 and added.stdout.endswith("To try it: fairlead mcp test good\n"), added
    assert written(fairlead) == {"good": {"command": program["command"], "args": program["args"], "env": {"MODE": "a=b"}}}
    assert (fairlead.around.home / "mcp.json").stat().st_mode & 0o077 == 0
    tried = fairlead("mcp", "test", "good")
    assert tried.returncode == 0 and re.match(r"good: connected: \d+ tools", tried.stdout), tried
    again = fairlead("mcp", "add", "good", "another")
    assert again.returncode == 1 and "already" in again.stderr and len(written(fairlead)) == 1
    assert fairlead("mcp", "remove", "good").stdout.startswith("Removed good from ")
    assert written(fairlead) == {}
    gone = fairlead("mcp", "remove", "good")
    assert gone.returncode == 1 and "has no MCP server 'good'" in gone.stderr


def test_a_server_at_a_url_is_added_with_headers_and_variables(fairlead: Command, url: str) -> None:
    fairlead("mcp", "add", "net", url, "--header", "Authorization: Bearer ${NOT_SET_NOW}", "--header", "X-Team:a:b")
    headers = {"Authorization": "Bearer ${NOT_SET_NOW}", "X-Team": "a:b"}
    assert written(fairlead) == {"net": {"type": "http", "url": url, "headers": headers}}
    fairlead("mcp", "add", "guarded", url)
    tried = fairlead("mcp", "test", "guarded")
    assert tried.returncode == 1 and "fairlead mcp login guarded" in tried.stderr, tried
    assert log_in(fairlead, "guarded")[0] == 0
    assert "connected: 1 tool" in fairlead("mcp", "test", "guarded").stdout
    assert "and the sign-in at it" in fairlead("mcp", "remove", "guarded").stdout
    assert fairlead("mcp", "logout", "guarded").returncode == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["add", "a"], "usage"),
        (["add", "a", "--repository", "."], "has no flag --repository"),
        (["add", "a", "ftp://x", "--type", "http"], "expected a URL"),
        (["add", "a", "https://x", "--type", "stdio"], "expected a program"),
        (["add", "a", "https://x", "--env", "A=b"], "--env is for servers that are programs"),
        (["add", "a", "program", "--header", "A: b"], "--header is for servers"),
        (["add", "a", "https://x", "--header", "nothing"], "expected NAME: VALUE"),
        (["add", "", "program"], "its name is empty"),
        (["list", "--env", "A=b"], "--env is for fairlead mcp add"),
        (["test", "nowhere"], "There is no MCP server 'nowhere'"),
        (["remove", "nowhere"], "has no MCP server 'nowhere'"),
    ],
)
def test_add_explains_a_server_that_cannot_be_added_and_writes_no_file(fairlead: Command, words: list[str], problem: str) -> None:
    done = fairlead("mcp", *words)
    assert done.returncode in (1, 2) and problem in done.stderr and "Traceback" not in done.stderr, done
    assert not (fairlead.around.home / "mcp.json").exists()


def test_a_file_that_cannot_be_changed_stays_as_it_is(fairlead: Command) -> None:
    path = fairlead.around.home / "mcp.json"
    for content in ('{"mcpServers": {} /* mine */}', '{"mcpServers": []}', "not json"):
        path.write_text(content)
        done = fairlead("mcp", "add", "a", "program")
        assert done.returncode == 1 and str(path) in done.stderr and path.read_text() == content


def test_a_server_that_fails_says_why(fairlead: Command) -> None:
    write(fairlead, missing={"command": "no-such-program"}, dying={"command": sys.executable, "args": ["-c", "exit(7)"]})
    missing = fairlead("mcp", "test", "missing")
    assert missing.returncode == 1 and "no program no-such-program" in missing.stderr
    dying = fairlead("mcp", "test", "dying")
    assert dying.returncode == 1 and "code 7" in dying.stderr
