"""`fairlead mcp`: list, add, remove and try MCP servers, sign in at one with OAuth, and sign out."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fairlead.agent import Agent
from fairlead.cli.advice import nearest
from fairlead.cli.console import complain, print_text
from fairlead.cli.subcommands.subcommand import Options
from fairlead.cli.subcommands.table import command_named
from fairlead.config import json_files
from fairlead.config.extras import install_command
from fairlead.config.home import Home, working_directory
from fairlead.config.named_code import VARIABLE
from fairlead.config.trust import find_saved_decision, format_not_trusted, real_folder
from fairlead.core.lenient import one_line
from fairlead.core.runtime import CancelToken
from fairlead.core.secrets import learn_url, learn_variables, redacted
from fairlead.errors import ConfigError, LoginFailed
from fairlead.extend.mcp.config import McpStyle, ServerConfig, SignIns, load_servers, read_server
from fairlead.extend.mcp.server import McpServer
from fairlead.extend.mcp.servers import config_files
from fairlead.platform.process import run_in_thread
from fairlead.platform.programs import current_folder, search_path
from fairlead.session.slash_commands import Origin
from fairlead.wire.dialects import Program

#: Seconds that a server has to connect, and how much of the description of a tool is shown.
_PATIENCE = 30.0
_LONGEST = 120


def mcp(words: Sequence[str], program: Program) -> int:
    """Do what the first word says. Returns the exit code. Raises UsageError and ConfigError."""
    command = command_named("mcp")
    options = command.parse(words)
    action, *names = options.words or ["list"]
    if action not in command.words or not (len(names) >= 2 if action == "add" else len(names) == (action != "list")):
        raise command.usage_error()
    if action != "add" and (given := [name for name in ("type", "env", "header") if options.has(name)]):
        raise command.usage_error(f"--{given[0]} is for fairlead mcp add.")
    home = Home.find(os.environ, peer=program.home)
    sign_ins = SignIns(home.mcp_sign_ins_path)
    if action == "add":
        return _add(names[0], _entry(names[1:], options), home)
    if action == "remove":
        return _remove(names[0], home, sign_ins)
    if action == "logout":
        return _log_out(names[0], sign_ins)
    if action == "test":
        return _test(_named_server(names[0], options.text("url"), home), sign_ins)
    if action == "list":
        return _list(_servers(home), sign_ins)
    return _log_in(_find_server(names[0], options.text("url"), home), sign_ins)


def _servers(home: Home) -> list[ServerConfig]:
    """Return the servers of the user, and those of the project if it is trusted."""
    folder = real_folder(working_directory())
    is_trusted = bool(find_saved_decision(home, folder))
    found = [each for each in home.mcp_files(folder) if each[0] == "user" or is_trusted]
    problems: list[str] = []
    servers = load_servers(config_files(found, (), home.boundary(folder)), os.environ, problems)
    for problem in problems:
        complain(one_line(f"Warning: {problem}"))
    if not is_trusted and any(path.exists() for level, path in home.mcp_files(folder) if level == "project"):
        complain(f"Note: {format_not_trusted(home, folder)}")
    return servers


def _entry(words: Sequence[str], options: Options) -> dict[str, object]:
    """Return the server that words and flags describe, as mcp.json has it. Raises ConfigError."""
    kind = options.text("type")
    is_url = len(words) == 1 and words[0].lower().startswith(("http://", "https://"))
    if (is_url and kind == "stdio") or (not is_url and kind in ("http", "sse")):
        raise ConfigError(f"--type {kind}: expected {'a program to start' if is_url else 'a URL'}, found {words[0]!r}.")
    for flag, wrong in (("header", not is_url), ("env", is_url)):
        if options.has(flag) and wrong:
            raise ConfigError(f"--{flag} is for servers that are {'running at a URL' if flag == 'header' else 'programs'}.")
    if is_url:
        return {"type": kind or "http", "url": words[0], **_pairs("headers", "header", ":", options)}
    return {"command": words[0], **({"args": list(words[1:])} if words[1:] else {}), **_pairs("env", "env", "=", options)}


def _pairs(field: str, flag: str, sign: str, options: Options) -> dict[str, object]:
    """Return a field with the pairs that a flag has given. Raises ConfigError."""
    pairs: dict[str, str] = {}
    for text in options.texts(flag):
        name, found, value = text.partition(sign)
        if not found or not name.strip():
            raise ConfigError(f"--{flag}: expected NAME{sign}{' ' * (sign == ':')}VALUE.")
        pairs[name.strip()] = value.strip()
    return {field: pairs} if pairs else {}


def _add(name: str, entry: dict[str, object], home: Home) -> int:
    path = home.root / "mcp.json"
    # The check needs no variables: those that are not set now may be set when the server is started.
    unset = {found[1]: "x" for found in VARIABLE.finditer(str(entry))}
    read_server(name, entry, Origin(path, "auto", "user"), {**unset, **os.environ})

    def change(content: dict[str, Any]) -> None:
        servers = content.setdefault("mcpServers", {})
        if not isinstance(servers, dict):
            raise ConfigError(f"{path}: mcpServers: expected an object of servers by name. Edit the file by hand.")
        if name in servers:
            raise ConfigError(f"{path} has a server {name!r} already. To replace it: fairlead mcp remove {name}")
        servers[name] = entry

    json_files.update_object(path, change)
    print_text(f"Added {one_line(name)} to {path}. To try it: fairlead mcp test {one_line(name)}")
    return 0


def _remove(name: str, home: Home, sign_ins: SignIns) -> int:
    path = home.root / "mcp.json"
    found = False

    def change(content: dict[str, Any]) -> None:
        nonlocal found
        servers = content.get("mcpServers")
        found = isinstance(servers, dict) and name in servers
        if not found:
            raise ConfigError(_not_removable(name, path, home))
        del content["mcpServers"][name]

    if not path.exists():
        raise ConfigError(_not_removable(name, path, home))
    json_files.update_object(path, change)
    forgotten = sign_ins.forget(name)
    print_text(f"Removed {one_line(name)} from {path}{', and the sign-in at it' if forgotten else ''}.")
    return 0


def _not_removable(name: str, path: Path, home: Home) -> str:
    other = next((server for server in _servers(home) if server.name == name and server.origin.path != path), None)
    if other is not None:
        return f"The MCP server {name!r} is in {other.origin.path}, which is a file of the project. Edit it by hand."
    return f"{path} has no MCP server {name!r}.{nearest(name, [server.name for server in _servers(home)])}"


def _test(config: ServerConfig, sign_ins: SignIns) -> int:
    _require_package()
    return asyncio.run(_connect(config, sign_ins))


async def _connect(config: ServerConfig, sign_ins: SignIns) -> int:
    """Connect to a server as a session does, and print what it offers."""
    async with Agent(isolated=True) as agent:
        problems: list[str] = []

        def report(server: McpServer, kind: str, text: str) -> None:
            problems.append(text)

        server = McpServer(config, config.name, agent.session.host.workspace, lambda _: None, report, sign_ins, McpStyle())
        server.connect()
        try:
            await server.wait_until_settled(_PATIENCE, CancelToken())
            state, tools = server.state, server.offer.tools
        finally:
            await server.close()
    name = one_line(config.name)
    if not state.startswith("connected"):
        waited = f": it did not answer within {_PATIENCE:g} seconds" if state == "connecting" else ""
        complain(redacted(f"Error: {name}: {problems[-1] if problems else 'not connected' if waited else state}{waited}"))
        return 1
    print_text(redacted(f"{name}: {state}"))
    width = max((len(one_line(tool.name)) for tool in tools), default=0)
    for tool in tools:
        about = " ".join((tool.description or "").split())
        print_text(f"  {one_line(tool.name):{width}}  {one_line(about)[:_LONGEST]}".rstrip())
    return 0


def _named_server(name: str, url: str | None, home: Home) -> ServerConfig:
    """Return the server with a name. `url` is that of a server that no file has. Raises ConfigError."""
    if url is not None:
        if not url.lower().startswith(("http://", "https://")):
            raise ConfigError(f"--url: expected a URL that begins with http:// or https://, found {url!r}.")
        return ServerConfig(name=name, origin=Origin(Path("--url"), "cli", "temporary"), url=url)
    servers = {server.name: server for server in _servers(home)}
    if name not in servers:
        known = f" The servers are: {', '.join(servers)}." if servers else " No servers are configured."
        raise ConfigError(f"There is no MCP server {name!r}.{nearest(name, servers)}{known}")
    return servers[name]


def _find_server(name: str, url: str | None, home: Home) -> ServerConfig:
    """Return a server that one can sign in at: see `_named_server`."""
    server = _named_server(name, url, home)
    if not server.url:
        raise ConfigError(f"The MCP server {name!r} is a program on this machine. Only servers with a url need a sign-in.")
    if not server.may_sign_in:
        raise ConfigError(f"The MCP server {name!r} has a header Authorization in {server.origin.path}. It is used instead.")
    return server


def _list(servers: Sequence[ServerConfig], sign_ins: SignIns) -> int:
    if not servers:
        print_text("No MCP servers are configured. To add one: fairlead mcp add NAME COMMAND, or fairlead mcp add NAME URL")
    width = max((len(one_line(server.name)) for server in servers), default=0)
    for server in servers:
        is_signed_in = bool(server.url) and (sign_ins.of(server) or {}).get("tokens") is not None
        print_text(f"{one_line(server.name):{width}}  {_redact_address(server)}{'  (signed in)' if is_signed_in else ''}")
    return 0


def _redact_address(server: ServerConfig) -> str:
    """Return the address or the command of a server, without the secrets in it."""
    learn_variables((*os.environ.items(), *server.env.items()))
    learn_url(server.url)
    return one_line(redacted(server.url or " ".join(server.command)))


def _log_out(name: str, sign_ins: SignIns) -> int:
    forgotten = sign_ins.forget(name)
    if not forgotten:
        raise ConfigError(f"There is no sign-in at an MCP server {name!r}.")
    for url in forgotten:
        learn_url(url)
    print_text(redacted(f"Forgot the sign-in at {name} ({', '.join(forgotten)})."))
    return 0


def _log_in(server: ServerConfig, sign_ins: SignIns) -> int:
    _require_package()
    from fairlead.extend.mcp.oauth import sign_in  # noqa: PLC0415  an extra

    try:
        tools, had_to = asyncio.run(sign_in(server, sign_ins, _open, _read_line))
    except LoginFailed as error:
        complain(f"Error: {error}")
        return 1
    offer = "1 tool" if tools == 1 else f"{tools} tools"
    if had_to:
        print_text(f"Signed in at {server.name}. It has {offer}.")
    elif (sign_ins.of(server) or {}).get("tokens"):
        print_text(
            f"You are signed in at {server.name} already. It has {offer}. To sign in again: fairlead mcp logout {server.name}"
        )
    else:
        print_text(f"{server.name} does not need a sign-in. It has {offer}.")
    return 0


def _require_package() -> None:
    """Raise ConfigError if the package that connects to servers is not installed."""
    if find_spec("mcp") is None:
        raise ConfigError(f"MCP servers need a package that is not installed. Install it with: {install_command('mcp')}")


def _open(url: str) -> None:
    print_text(f"Open {url}")
    if sys.stdin.isatty():
        print_text("If the browser is on another machine, paste the address that it was sent to in the end.")
        if any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")) or sys.platform == "darwin":
            # It looks for browsers on the PATH of this process.
            os.environ["PATH"] = search_path(None, outside=current_folder())
            webbrowser.open(url)
    sys.stdout.flush()


async def _read_line() -> str | None:
    """Return a line that the user types; None at the end of the input."""
    line = await run_in_thread(sys.stdin.readline, "fairlead-mcp-login")
    return line or None
