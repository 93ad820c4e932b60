"""Serves an Opal client on standard input and output."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fairlead.agent import shared_by_agents
from fairlead.agent.options import AgentOptions
from fairlead.config.home import Home
from fairlead.config.settings_files import load_settings
from fairlead.wire.connection import FrameTap
from fairlead.wire.dialects import ServeOptions
from fairlead.wire.opal.server import OpalServer
from fairlead.wire.opal.store import OpalStore
from fairlead.wire.opal.table import SessionDefaults
from fairlead.wire.process import HostProcess, OnEof
from fairlead.wire.stdio import StdioTransport

#: Threads for blocking work: enough that one session cannot occupy them all.
THREADS = 128


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
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="fairlead"))
    output = defaults.settings.output
    transport = StdioTransport(stdin, stdout, line_bytes=output.line_bytes)
    process = HostProcess(lambda connection: OpalServer(connection, defaults), transport, output, on_eof=on_eof, tap=tap)
    return await process.run()


def session_defaults(base: AgentOptions) -> SessionDefaults:
    """What all sessions of a process have in common."""
    env = os.environ if base.env is None else base.env
    home = Home.find(env, isolated=base.isolated, peer=base.peer_home)
    settings, problems = load_settings(home, home.root)
    told: set[str] = set()

    def warn_once(warning: str) -> None:
        """Warn once: every session finds the same problems in what they share."""
        if base.warn is not None and warning not in told:
            told.add(warning)
            base.warn(warning)

    for problem in problems:
        warn_once(problem)
    folder = None if base.session_dir is None else Path(base.cwd, base.session_dir)
    return SessionDefaults(
        base=replace(base.with_own_tools(), warn=warn_once),
        store=OpalStore.below(home, folder, keep=base.keep is not False),
        shared=shared_by_agents(base, home, settings),
        settings=settings,
    )
