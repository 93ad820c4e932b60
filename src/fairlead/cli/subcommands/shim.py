"""`fairlead shim`: write launchers under the names that hosts look for.

A host that starts `pi` gets a program called `pi`. A client that starts `node cli.js` or `bun cli.js` gets a `cli.js`. A host
that finds the agent through node's modules gets a package. All start this fairlead as the program that the host expects.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from fairlead.cli.console import say_exact
from fairlead.cli.flags import UsageError
from fairlead.cli.subcommands.table import command_named
from fairlead.errors import ConfigError
from fairlead.wire.dialects import Dialect, Program, Release, program_named

_NODE = """\
#!/usr/bin/env node
// Starts fairlead for clients that spawn this file with node or bun. The child has our stdio: nothing is copied.
const {{ spawn }} = require("node:child_process");
const [program, ...args] = {command};
const child = spawn(program, [...args, ...process.argv.slice(2)], {{ stdio: "inherit" }});
// A terminal sends its interrupt to the child as well: once is enough.
process.on("SIGINT", () => process.stdin.isTTY || child.kill("SIGINT"));
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {{ console.error(`fairlead: ${{error.message}}`); process.exit(127); }});
child.on("exit", (code, signal) => {{
  if (signal) {{ process.removeAllListeners(signal); process.kill(process.pid, signal); }}
  else process.exit(code);
}});
"""
#: What a host gets that imports the package instead of starting it.
_INDEX = """\
// Hosts resolve this file to find the package. It has the version, but not the SDK: fairlead is a program to start.
exports.VERSION = {version};
"""


def shim(words: Sequence[str], program: Program) -> int:
    """Write the launchers and print their paths. Raises UsageError or ConfigError."""
    command = command_named("shim")
    left = [word for word in words if word != "--package"]
    as_package = len(left) < len(words)
    if len(left) != 2 or len(words) - len(left) > 1 or left[1].startswith("-"):
        raise command.usage_error()
    name, folder = left[0], Path(left[1])
    try:
        wanted = program_named(name)
    except ConfigError as error:
        raise command.usage_error(str(error)) from None
    dialect, release = wanted.dialect, wanted.release
    assert dialect is not None
    if as_package and (release is None or not release.package):
        raise UsageError(f"{dialect.program} has no npm package to stand in for.")
    # -P: hosts start this in a project folder, whose files must not shadow Python's modules.
    start = [sys.executable, "-P", "-m", "fairlead", "--as", name]
    try:
        if as_package and release is not None:
            written = _package(folder, dialect, release, start)
        else:
            written = _launchers(folder, dialect, start)
    except OSError as error:
        raise ConfigError(f"Cannot write launchers to {folder}: {error.strerror}") from error
    say_exact("\n".join(map(str, written)))
    return 0


def _launchers(folder: Path, dialect: Dialect, command: Sequence[str]) -> list[Path]:
    """Write a launcher for the PATH and, if hosts use one, a `cli.js`."""
    written = [_write(folder / dialect.program, _shell(command))]
    if dialect.has_node_launcher:
        written.append(_write(folder / "cli.js", _node(command)))
        # A package.json in a parent folder could declare every .js file a module. This one prevents that.
        _write(folder / "package.json", '{"type": "commonjs"}\n', mode=0o644)
    return written


def _package(folder: Path, dialect: Dialect, release: Release, command: Sequence[str]) -> list[Path]:
    """Write a folder `node_modules` with a package like the program's own."""
    modules = folder / "node_modules"
    package = modules / release.package
    manifest = {
        "name": release.package,
        "version": release.version,
        "description": "Starts fairlead for hosts that look for this package.",
        "type": "commonjs",
        "bin": {dialect.program: "dist/cli.js"},
        "main": "./dist/index.js",
    }
    if dialect.home is not None:
        manifest["piConfig"] = {"name": dialect.program, "configDir": dialect.home.folder}
    return [
        _write(package / "package.json", json.dumps(manifest, indent=2) + "\n", mode=0o644),
        _write(package / "dist" / "index.js", _INDEX.format(version=json.dumps(release.version)), mode=0o644),
        _write(package / "dist" / "cli.js", _node(command)),
        # The file that newer releases start.
        _write(package / "dist" / "bundle" / "cli.js", _node(command)),
        _write(modules / ".bin" / dialect.program, _shell(command)),
    ]


def _shell(command: Sequence[str]) -> str:
    return f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n'


def _node(command: Sequence[str]) -> str:
    return _NODE.format(command=json.dumps(command))


def _write(path: Path, text: str, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path
