"""MCP servers that a program hands to its agent, without a file."""

# Annotations are evaluated here, not kept as strings, as in `fairlead.agent.options`.
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from fairlead.errors import BadOption
from fairlead.extend.mcp import config
from fairlead.session.slash_commands import Origin

if TYPE_CHECKING:
    from fairlead.extend.mcp.config import ServerConfig


class McpServer(Struct, frozen=True, kw_only=True):
    """An MCP server: a program to start (`command`), or the URL of a running server (`url`).

    Values are used as they are: variables in them are not replaced.
    """

    command: str | None = None
    args: Sequence[str] = ()
    #: Variables to add to the environment of the program.
    env: Mapping[str, str] = {}
    #: The working directory of the program. None: that of the agent.
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = {}
    #: How to talk to it. None: `stdio` with a `command`, `http` (streamable HTTP) with a `url`.
    type: Literal["stdio", "http", "sse"] | None = None
    #: Seconds that a call may take. None: the limit for all tools.
    timeout: Annotated[float, Meta(gt=0)] | None = None


def server_configs(servers: Mapping[str, McpServer]) -> "list[ServerConfig]":
    """Return the servers in the form of those from files. Raises BadOption if one has neither a program nor a URL."""
    if not servers:
        return []

    configs: list[config.ServerConfig] = []
    for name, server in servers.items():
        kind = server.type or ("stdio" if server.command else "http")
        origin = Origin(Path(f"mcp:{name}"), "cli", "temporary")
        if kind == "stdio":
            if not server.command or server.url:
                raise BadOption(f"mcp_servers: {name}: expected either the command to start or a url.")
            command = (server.command, *server.args)
            configs.append(
                config.ServerConfig(
                    name=name, origin=origin, command=command, env=server.env, cwd=server.cwd, timeout=server.timeout
                )
            )
        else:
            if server.command or not server.url or not server.url.lower().startswith(("http://", "https://")):
                raise BadOption(f"mcp_servers: {name}: expected a url that begins with http:// or https://, and no command.")
            configs.append(
                config.ServerConfig(
                    name=name,
                    origin=origin,
                    url=server.url,
                    headers=server.headers,
                    is_sse=kind == "sse",
                    timeout=server.timeout,
                )
            )
    return configs
