"""Maps commands to handlers. Tables that few hosts need are loaded when one of their commands arrives."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.protocol.pi.commands import Command
from fairlead.wire.messages import RequestRoute, RouteTable
from fairlead.wire.pi.handlers import BASIC_ROUTES


def family_routes() -> RouteTable:
    """Return the routes of all dialects of the family except pi-2025."""
    return RouteTable(command_name, BASIC_ROUTES, _session_routes, _other_routes)


def command_name(declaration: type[Command]) -> str:
    """Return the `type` of the command on the wire."""
    return str(declaration.__struct_config__.tag)


def _session_routes() -> Iterable[RequestRoute]:
    from fairlead.wire.pi import session_handlers

    return session_handlers.ROUTES


def _other_routes() -> Iterable[RequestRoute]:
    from fairlead.wire.pi import host_tools, omp_handlers, subagent_frames

    return (*subagent_frames.ROUTES, *omp_handlers.ROUTES, *host_tools.ROUTES)
