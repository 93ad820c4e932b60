"""`fairlead mcp`: list the MCP servers, sign in at one with OAuth, and sign out."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from fairlead.cli.advice import nearest
from fairlead.cli.console import complain, say
from fairlead.cli.subcommands.table import command_named
from fairlead.config.home import Home, working_directory
from fairlead.config.process import run_in_thread
from fairlead.config.programs import current_folder, search_path
from fairlead.config.trust import not_trusted, real_folder, saved_decision
from fairlead.core.lenient import one_line
from fairlead.core.secrets import learn_url, learn_variables, redacted
from fairlead.errors import ConfigError, LoginFailed
from fairlead.extend.mcp.config import ServerConfig, load_servers
from fairlead.extend.mcp.servers import config_files
from fairlead.extend.mcp.sign_ins import SignIns
from fairlead.session.slash_commands import Origin
from fairlead.wire.dialects import Program


def mcp(words: Sequence[str], program: Program) -> int:
    """Do what the first word says. Returns the exit code. Raises UsageError and ConfigError."""
    command = command_named("mcp")
    options = command.parse(words)
    action, *names = options.words or ["list"]
    if action not in command.words or len(names) != (0 if action == "list" else 1):
        raise command.usage_error()
    home = Home.find(os.environ, peer=program.home)
    sign_ins = SignIns(home.mcp_sign_ins_path)
    if action == "logout":
        return _log_out(names[0], sign_ins)
    if action == "list":
        return _list(_servers(home), sign_ins)
    return _log_in(_named(names[0], options.text("url"), home), sign_ins)


def _servers(home: Home) -> list[ServerConfig]:
    """Return the servers of the user, and those of the project if it is trusted."""
    folder = real_folder(working_directory())
    is_trusted = bool(saved_decision(home, folder))
    found = [each for each in home.mcp_files(folder) if each[0] == "user" or is_trusted]
    problems: list[str] = []
    servers = load_servers(config_files(found, (), home.boundary(folder)), os.environ, problems)
    for problem in problems:
        complain(one_line(f"Warning: {problem}"))
    if not is_trusted and any(path.exists() for level, path in home.mcp_files(folder) if level == "project"):
        complain(f"Note: {not_trusted(home, folder)}")
    return servers


def _named(name: str, url: str | None, home: Home) -> ServerConfig:
    """Return the server with a name. `url` is that of a server that no file has. Raises ConfigError."""
    if url is not None:
        if not url.lower().startswith(("http://", "https://")):
            raise ConfigError(f"--url: expected a URL that begins with http:// or https://, found {url!r}.")
        return ServerConfig(name=name, origin=Origin(Path("--url"), "cli", "temporary"), url=url)
    servers = {server.name: server for server in _servers(home)}
    if name not in servers:
        known = f" The servers are: {', '.join(servers)}." if servers else " No servers are configured."
        raise ConfigError(f"There is no MCP server {name!r}.{nearest(name, servers)}{known}")
    server = servers[name]
    if not server.url:
        raise ConfigError(f"The MCP server {name!r} is a program on this machine. Only servers with a url need a sign-in.")
    if not server.may_sign_in:
        raise ConfigError(f"The MCP server {name!r} has a header Authorization in {server.origin.path}. It is used instead.")
    return server


def _list(servers: Sequence[ServerConfig], sign_ins: SignIns) -> int:
    if not servers:
        say("No MCP servers are configured. docs/mcp.md says how to add one.")
    width = max((len(one_line(server.name)) for server in servers), default=0)
    for server in servers:
        is_signed_in = bool(server.url) and (sign_ins.of(server) or {}).get("tokens") is not None
        say(f"{one_line(server.name):{width}}  {_shown(server)}{'  (signed in)' if is_signed_in else ''}")
    return 0


def _shown(server: ServerConfig) -> str:
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
    say(redacted(f"Forgot the sign-in at {name} ({', '.join(forgotten)})."))
    return 0


def _log_in(server: ServerConfig, sign_ins: SignIns) -> int:
    try:
        from fairlead.extend.mcp.oauth import sign_in
    except ModuleNotFoundError:
        from fairlead.config.extras import install_command

        raise ConfigError(
            f"MCP servers need a package that is not installed. Install it with: {install_command('mcp')}"
        ) from None
    try:
        tools, had_to = asyncio.run(sign_in(server, sign_ins, _open, _pasted))
    except LoginFailed as error:
        complain(f"Error: {error}")
        return 1
    offer = "1 tool" if tools == 1 else f"{tools} tools"
    if had_to:
        say(f"Signed in at {server.name}. It has {offer}.")
    elif (sign_ins.of(server) or {}).get("tokens"):
        say(f"You are signed in at {server.name} already. It has {offer}. To sign in again: fairlead mcp logout {server.name}")
    else:
        say(f"{server.name} does not need a sign-in. It has {offer}.")
    return 0


def _open(url: str) -> None:
    say(f"Open {url}")
    if sys.stdin.isatty():
        import webbrowser

        say("If the browser is on another machine, paste the address that it was sent to in the end.")
        if any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")) or sys.platform == "darwin":
            # It looks for browsers on the PATH of this process.
            os.environ["PATH"] = search_path(None, outside=current_folder())
            webbrowser.open(url)
    sys.stdout.flush()


async def _pasted() -> str | None:
    """Return a line that the user types; None at the end of the input."""
    line = await run_in_thread(sys.stdin.readline, "fairlead-mcp-login")
    return line or None
