"""`fairlead shim`: write launchers under the names that hosts look for.

A host that starts `pi` gets a program called `pi`. A client that starts `node cli.js` or `bun cli.js` gets a `cli.js`. A host
that finds the agent through node's modules gets a package. All start this fairlead as the program that the host expects.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from fairlead.cli.console import print_exact
from fairlead.cli.flags import UsageError
from fairlead.cli.subcommands.table import command_named
from fairlead.errors import ConfigError
from fairlead.extend.node.package import PackageFacts, node_launcher, shell_launcher, write_file, write_package, write_sdk
from fairlead.wire.dialects import Dialect, Program, program_named


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
            config_folder = "" if dialect.home is None else dialect.home.folder
            facts = PackageFacts(release.package, release.version, dialect.program, config_folder)
            written = (write_sdk if dialect.program == "pi" else write_package)(folder, facts, start)
        else:
            written = _launchers(folder, dialect, start)
    except OSError as error:
        raise ConfigError(f"Cannot write launchers to {folder}: {error.strerror}") from error
    print_exact("\n".join(map(str, written)))
    return 0


def _launchers(folder: Path, dialect: Dialect, command: Sequence[str]) -> list[Path]:
    """Write a launcher for the PATH and, if hosts use one, a `cli.js`."""
    written = [write_file(folder / dialect.program, shell_launcher(command))]
    if dialect.has_node_launcher:
        written.append(write_file(folder / "cli.js", node_launcher(command)))
        # A package.json in a parent folder could declare every .js file a module. This one prevents that.
        write_file(folder / "package.json", '{"type": "commonjs"}\n', mode=0o644)
    return written
