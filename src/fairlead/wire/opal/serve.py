"""Serves an Opal client on standard input and output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.agent import Agent
from fairlead.agent.options import AgentOptions
from fairlead.sessions.common import Common, common_parts
from fairlead.wire.connection import FrameTap
from fairlead.wire.dialects import ServeOptions
from fairlead.wire.opal.server import OpalServer
from fairlead.wire.opal.store import OpalSettings, opal_catalogue
from fairlead.wire.opal.table import SessionDefaults
from fairlead.wire.process import HostProcess, OnEof
from fairlead.wire.stdio import StdioTransport


async def serve(dialect: str, options: ServeOptions) -> int:
    base = options.agent_options(None)
    return await serve_sessions(base, options.stdin, options.stdout, on_eof=options.on_eof, tap=options.tap)


def schema(dialect: str, *, closed: bool = False) -> dict[str, Any]:
    from fairlead.protocol.schema.opal import opal_schema

    return opal_schema()


def types(dialect: str, title: str) -> str:
    from fairlead.protocol.schema import typescript

    return typescript.opal_types(title)


async def serve_sessions(
    base: AgentOptions, stdin: int, stdout: int, *, on_eof: OnEof = "abort", tap: FrameTap | None = None
) -> int:
    """Serve one client until it leaves. `base` holds the defaults for its sessions. Returns the exit code."""
    defaults = session_defaults(base)
    output = defaults.settings.output
    transport = StdioTransport(stdin, stdout, line_bytes=output.line_bytes)
    process = HostProcess(lambda connection: OpalServer(connection, defaults), transport, output, on_eof=on_eof, tap=tap)
    return await process.run()


def session_defaults(base: AgentOptions) -> SessionDefaults:
    """What all sessions of a process have in common."""
    return defaults_of(common_parts(base))


def defaults_of(common: Common, *, opened: Callable[[Agent], object] | None = None) -> SessionDefaults:
    """What all sessions of a client have in common, with parts that they share with other clients.

    `opened` is called with each agent when its session is open.
    """
    catalogue, keeps = opal_catalogue(common)
    return SessionDefaults(
        base=common.base,
        catalogue=catalogue,
        keeps=keeps,
        saved=OpalSettings(common.home),
        opened=opened,
        shared=common.shared,
        settings=common.settings,
    )
