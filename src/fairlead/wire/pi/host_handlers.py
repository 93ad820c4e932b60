"""The handlers of the commands with which a host registers what it does for the agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fairlead.protocol.pi import host_commands as c
from fairlead.protocol.pi.command import Command

if TYPE_CHECKING:
    from fairlead.wire.pi.server import Server


def _set_host_tools(server: Server, command: c.SetHostTools) -> c.HostToolNames:
    return c.HostToolNames(server.host_tools.replace(command.tools))


def _set_host_uri_schemes(server: Server, command: c.SetHostUriSchemes) -> c.HostUriSchemes:
    return c.HostUriSchemes(server.host_uris.replace(command.schemes))


HANDLERS: dict[type[Command], Callable[..., Any]] = {
    c.SetHostTools: _set_host_tools,
    c.SetHostUriSchemes: _set_host_uri_schemes,
}
