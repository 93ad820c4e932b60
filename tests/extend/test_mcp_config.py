"""mcp.json: which servers are configured, and the warnings about those that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlead.extend.mcp.config import McpConfigFile, ServerConfig, load_servers
from fairlead.session.slash_commands import Origin

ENV = {"TOKEN": "secret", "EMPTY": ""}


def loaded(*files: tuple[Path, object], named: bool = False) -> tuple[dict[str, ServerConfig], list[str]]:
    """The servers of files with these contents, by name, and the problems."""
    config_files: list[McpConfigFile] = []
    for path, content in files:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        config_files.append(McpConfigFile(Origin(path, "auto", "user"), "--mcp-config" if named else None))
    problems: list[str] = []
    return {server.name: server for server in load_servers(config_files, ENV, problems)}, problems


def servers(**entries: Mapping[str, Any]) -> dict[str, Any]:
    return {"mcpServers": entries}


def test_a_server_is_a_program_or_an_address(tmp_path: Path) -> None:
    found, problems = loaded(
        (
            tmp_path / "mcp.json",
            servers(
                git={"command": "mcp-server-git", "args": ["-r", "."], "env": {"A": "b"}, "cwd": "/tmp", "timeout": 2500},
                web={"type": "http", "url": "http://localhost/mcp", "headers": {"X": "y"}},
                short={"url": "https://localhost/mcp"},
                old={"type": "sse", "url": "https://localhost/sse"},
            ),
        )
    )
    assert not problems
    git, web = found["git"], found["web"]
    assert (git.command, git.env, git.cwd, git.timeout) == (("mcp-server-git", "-r", "."), {"A": "b"}, "/tmp", 2.5)
    assert (web.url, web.headers, web.command, web.timeout) == ("http://localhost/mcp", {"X": "y"}, (), None)
    assert (found["short"].url, found["short"].is_sse) == ("https://localhost/mcp", False)
    assert (found["old"].url, found["old"].is_sse) == ("https://localhost/sse", True)


def test_a_server_says_how_its_tools_reach_the_model(tmp_path: Path) -> None:
    tools = {"get_one": "direct", "get_*": "codemode", "drop_*": "hidden"}
    entries = servers(plain={"command": "a"}, big={"command": "a", "exposure": "deferred", "toolExposure": tools})
    found, problems = loaded((tmp_path / "mcp.json", entries))
    assert not problems
    assert found["plain"].exposure("get_one") == "direct"
    exposures = [found["big"].exposure(name) for name in ("get_one", "get_two", "drop_all", "other")]
    assert exposures == ["direct", "codemode", "hidden", "deferred"]


def test_of_two_servers_with_one_name_that_of_the_later_file_holds(tmp_path: Path) -> None:
    found, _ = loaded(
        (tmp_path / "user.json", servers(a={"command": "old"}, b={"command": "kept"})),
        (tmp_path / "project.json", servers(a={"command": "new"})),
    )
    assert {name: server.command for name, server in found.items()} == {"a": ("new",), "b": ("kept",)}


def test_servers_can_be_switched_off_by_any_file_and_in_their_own_entry(tmp_path: Path) -> None:
    found, problems = loaded(
        (tmp_path / "user.json", {**servers(a={"command": "x"}, b={"command": "x", "enabled": False}, c={"command": "x"})}),
        (tmp_path / "project.json", {"disabledServers": ["a", "unknown"]}),
    )
    assert list(found) == ["c"] and not problems


def test_variables_in_values_are_those_of_the_environment(tmp_path: Path) -> None:
    entry = {
        "command": "${TOOL:-run}",
        "args": ["--key=${TOKEN}", "${EMPTY:-default}", "$TOKEN", "${not a variable}"],
        "env": {"KEY": "${TOKEN}/${EMPTY}"},
    }
    found, problems = loaded((tmp_path / "mcp.json", servers(a=entry)))
    assert not problems
    assert found["a"].command == ("run", "--key=secret", "default", "$TOKEN", "${not a variable}")
    assert found["a"].env == {"KEY": "secret/"}


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"command": "x", "args": ["${MISSING}"]}, "the environment has no variable MISSING"),
        ({"type": "ws", "url": "http://localhost"}, 'type: expected "stdio", "http" (streamable HTTP) or "sse"'),
        ({"type": "sse", "command": "x"}, "url: expected a URL that begins with http"),
        ({"args": ["x"]}, "command: expected the program to start"),
        ({"type": "http", "url": "ftp://localhost"}, "url: expected a URL that begins with http"),
        ({"command": "x", "args": "not a list"}, "$.args"),
        ({"command": "x", "env": {"PORT": 80}}, "$.env"),
        ({"command": "x", "timeout": 0}, "timeout: expected milliseconds above 0"),
        ({"command": "x", "exposure": "open"}, 'exposure must be one of "codemode", "deferred", "direct", "hidden"'),
        ({"command": "x", "toolExposure": {"a": 1}}, 'toolExposure "a" must be one of'),
        ({"url": "http://x", "oauth": {"callbackPort": 0}}, "oauth.callbackPort: expected a port"),
        ({"url": "http://x", "oauth": {"callbackUrl": "https://x/callback"}}, "oauth.callbackUrl: expected a URL"),
        ({"url": "http://x", "oauth": {"callbackUrl": "http://127.0.0.1.x/callback"}}, "oauth.callbackUrl: expected a URL"),
        ({"url": "http://x", "oauth": {"authServerMetadataUrl": "https://x"}}, "authServerMetadataUrl is not supported"),
        ({"url": "http://x", "oauth": {"clientRegistration": "cimd"}}, "oauth.clientRegistration: expected"),
        ({"url": "http://x", "oauth": {"clientId": 5}}, "$.oauth.clientId"),
        ("not an object", "expected an object"),
    ],
)
def test_a_server_that_cannot_be_used_is_named_and_the_others_work(tmp_path: Path, entry: Any, problem: str) -> None:
    path = tmp_path / "mcp.json"
    found, problems = loaded((path, {"mcpServers": {"bad": entry, "good": {"command": "x"}}}))
    assert list(found) == ["good"]
    [told] = problems
    assert str(path) in told and '"bad"' in told and problem in told


def test_a_server_without_a_name_is_left_out(tmp_path: Path) -> None:
    found, problems = loaded((tmp_path / "mcp.json", {"mcpServers": {"": {"command": "x"}, "a": {"command": "y"}}}))
    assert list(found) == ["a"]
    assert len(problems) == 1 and "its name is empty" in problems[0]


@pytest.mark.parametrize("content", ["{", "[]", '{"mcpServers": []}', '{"disabledServers": "a"}'])
def test_a_file_that_cannot_be_used_is_named_and_the_others_work(tmp_path: Path, content: str) -> None:
    found, problems = loaded((tmp_path / "bad.json", content), (tmp_path / "good.json", servers(a={"command": "x"})))
    assert list(found) == ["a"]
    [told] = problems
    assert "bad.json" in told


def test_a_missing_mcp_file_is_reported_only_if_it_was_named(tmp_path: Path) -> None:
    problems: list[str] = []
    missing = Origin(tmp_path / "none.json", "cli", "temporary")
    assert load_servers([McpConfigFile(missing)], ENV, problems) == [] and not problems
    assert load_servers([McpConfigFile(missing, "--mcp-config")], ENV, problems) == []
    assert "--mcp-config" in problems[0] and "none.json" in problems[0]


@pytest.mark.parametrize("unread", ["a directory", "a link to nowhere", "not JSON"])
def test_a_file_of_the_user_that_cannot_be_read_may_switch_off_the_servers_of_projects(tmp_path: Path, unread: str) -> None:
    user, project = tmp_path / "user.json", tmp_path / "project.json"
    match unread:
        case "a directory":
            user.mkdir()
        case "a link to nowhere":
            user.symlink_to("gone.json")
        case _:
            user.write_text('{"disabledServers": ["theirs"]')
    project.write_text(json.dumps(servers(theirs={"command": "x"})))
    config_files = [
        McpConfigFile(Origin(user, "auto", "user")),
        McpConfigFile(Origin(project, "auto", "project"), within=tmp_path.resolve()),
    ]
    problems: list[str] = []
    assert load_servers(config_files, ENV, problems) == []
    [told] = problems
    assert "user.json" in told and "So are those of projects" in told
