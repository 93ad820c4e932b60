"""`fairlead mcp`: the servers of a directory, a sign-in at one of them, and its end."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import PATIENCE, Command
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


def test_what_cannot_be_signed_in_at_is_said(fairlead: Command) -> None:
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
