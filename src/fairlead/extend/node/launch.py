"""Starts the Node process that runs extensions: when they are loaded, or already while the agent is being built."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fairlead.config.home import Home
from fairlead.config.programs import working_folders

_RUNTIME = Path(__file__).parent / "runtime" / "main.mjs"


class NodeProcess(NamedTuple):
    """A process that was started, and our ends of the two sockets that it serves."""

    process: subprocess.Popen[bytes]
    inbox: socket.socket
    outbox: socket.socket


class _Start(NamedTuple):
    """What a process is started with."""

    node: str
    cwd: Path
    env: Mapping[str, str]
    cache: Path | None


#: The process that was started early, until a bridge takes it.
_early: list[tuple[_Start, NodeProcess]] = []


def cache_folder(home: Home) -> Path | None:
    """Return where compiled extensions are kept; None: nowhere."""
    return None if home.isolated else home.root / "cache" / "node"


def launch(node: str, cwd: Path, env: Mapping[str, str], cache: Path | None) -> NodeProcess:
    """Return a new process, or the one that was started early for the same purpose. Raises OSError.

    Args:
        node: the Node program.
        cwd: the working directory.
        env: the environment.
        cache: where compiled extensions are kept; None: nowhere.
    """
    wanted = _Start(node, cwd, dict(env), cache)
    while _early:
        start, early = _early.pop()
        if start == wanted and early.process.poll() is None:
            return early
        early.inbox.close()  # it ends then
        early.outbox.close()
    return _launch(wanted)


def launch_early(home: Home, env: Mapping[str, str]) -> None:
    """Start the process now, because it will be needed. It loads its runtime while the agent is being built.

    If the agent does not use it, it ends with this process. If it cannot be started, the bridge reports that later.
    """
    from fairlead.errors import ConfigError
    from fairlead.extend.node.program import node_programs

    try:
        cwd = Path.cwd()
        start = _Start(node_programs(env, working_folders(cwd))[0], cwd, dict(env), cache_folder(home))
        _early.append((start, _launch(start)))
    except (OSError, ConfigError):
        return


def _launch(start: _Start) -> NodeProcess:
    """Start the runtime, which gets the numbers of its sockets as arguments. What extensions print goes to our stderr."""
    (inbox, their_inbox), (outbox, their_outbox) = socket.socketpair(), socket.socketpair()
    numbers = [their_inbox.fileno(), their_outbox.fileno()]
    command = [start.node, str(_RUNTIME), *map(str, numbers), *([] if start.cache is None else [str(start.cache)])]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=2,
            stderr=None,
            cwd=start.cwd,
            env=dict(start.env),
            pass_fds=numbers,
            start_new_session=True,
        )
    except BaseException:
        inbox.close()
        outbox.close()
        raise
    finally:
        their_inbox.close()
        their_outbox.close()
    return NodeProcess(process, inbox, outbox)
