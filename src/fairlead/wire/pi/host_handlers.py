"""The handlers of the commands with which a host registers what it does for the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.protocol.pi import omp_commands as c
from fairlead.wire.messages import Route

if TYPE_CHECKING:
    from fairlead.wire.pi.server import PiServer


def _set_host_tools(server: PiServer, command: c.SetHostTools) -> c.HostToolNames:
    return c.HostToolNames(server.host_tools.replace(command.tools))


def _set_host_uri_schemes(server: PiServer, command: c.SetHostUriSchemes) -> c.HostUriSchemes:
    return c.HostUriSchemes(server.host_uris.replace(command.schemes))


ROUTES: tuple[Route, ...] = (
    Route(c.SetHostTools, _set_host_tools),
    Route(c.SetHostUriSchemes, _set_host_uri_schemes),
)
