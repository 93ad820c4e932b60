"""`fairlead shim`: launchers under the names that hosts look for.

A host that starts `pi` gets a program called `pi`; a client that starts `node cli.js` or `bun cli.js` gets a
`cli.js`. Both start this fairlead, with the dialect chosen. Clients of Opal look for an `opal-server`.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from fairlead.cli.flags import UsageError
from fairlead.cli.speak import say
from fairlead.errors import ConfigError

USAGE = "usage: fairlead shim pi|omp|xcsh|opal DIR"

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
    if len(arguments) != 2:
        raise UsageError(USAGE)
    dialect, folder = arguments[0], Path(arguments[1])
    if dialect not in ("pi", "omp", "xcsh", "opal"):
        raise UsageError(f"Unknown dialect {dialect!r}. {USAGE}")
    # -P: hosts start this in a project's folder, whose files must not pass for Python's own modules.
    command = [sys.executable, "-P", "-m", "fairlead", "--dialect", dialect]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        launcher = folder / ("opal-server" if dialect == "opal" else dialect)
        _write(launcher, f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        if dialect == "opal":
            say(str(launcher))
            return 0
        _write(folder / "cli.js", _NODE.format(command=json.dumps(command)))
        # A package.json further up could declare every .js file a module; this one is not.
        _write(folder / "package.json", '{"type": "commonjs"}\n', mode=0o644)
    except OSError as error:
        raise ConfigError(f"Cannot write launchers to {folder}: {error.strerror}") from error
    say(f"{launcher}\n{folder / 'cli.js'}")
    return 0


def _write(path: Path, text: str, mode: int = 0o755) -> None:
    path.write_text(text)
    path.chmod(mode)
