"""`fairlead shim`: write launchers under the names that hosts look for.

A host that starts `pi` gets a program called `pi`. A client that starts `node cli.js` or `bun cli.js` gets a `cli.js`. Both start
this fairlead in the right dialect. Clients of Opal look for an `opal-server`.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from fairlead.cli.console import say
from fairlead.cli.flags import UsageError
from fairlead.errors import ConfigError
from fairlead.wire.dialects import DIALECTS

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


def shim(arguments: Sequence[str]) -> int:
    launchable = {name: dialect for name, dialect in DIALECTS.items() if dialect.program is not None}
    usage = f"usage: fairlead shim {'|'.join(launchable)} DIR"
    if len(arguments) != 2:
        raise UsageError(usage)
    folder, dialect = Path(arguments[1]), launchable.get(arguments[0])
    if dialect is None or dialect.program is None:
        raise UsageError(f"Unknown dialect {arguments[0]!r}. {usage}")
    # -P: hosts start this in a project folder, whose files must not shadow Python's modules.
    command = [sys.executable, "-P", "-m", "fairlead", "--dialect", dialect.name]
    written = [folder / dialect.program]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / dialect.program, f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        if dialect.has_node_launcher:
            _write(folder / "cli.js", _NODE.format(command=json.dumps(command)))
            # A package.json in a parent folder could declare every .js file a module. This one prevents that.
            _write(folder / "package.json", '{"type": "commonjs"}\n', mode=0o644)
            written.append(folder / "cli.js")
    except OSError as error:
        raise ConfigError(f"Cannot write launchers to {folder}: {error.strerror}") from error
    say("\n".join(map(str, written)))
    return 0


def _write(path: Path, text: str, mode: int = 0o755) -> None:
    path.write_text(text)
    path.chmod(mode)
