"""Serves an ACP client on standard input and output."""

from __future__ import annotations

from typing import Any

from fairlead.config.settings import OutputSettings
from fairlead.wire.acp.server import AcpServer
from fairlead.wire.dialects import ServeOptions
from fairlead.wire.process import HostProcess
from fairlead.wire.stdio import StdioTransport


async def serve(dialect: str, options: ServeOptions) -> int:
    """Serve one client until it leaves. Returns the exit code."""
    output = OutputSettings()
    transport = StdioTransport(options.stdin, options.stdout, line_bytes=output.line_bytes)
    process = HostProcess(
        lambda connection: AcpServer(connection, options), transport, output, on_eof=options.on_eof, tap=options.tap
    )
    return await process.run()


def schema(dialect: str, *, closed: bool = False) -> dict[str, Any]:
    from fairlead.protocol.schema.acp import acp_schema

    return acp_schema(closed=closed)


def types(dialect: str, title: str) -> str:
    from fairlead.protocol.schema import typescript

    return typescript.acp_types(title)
