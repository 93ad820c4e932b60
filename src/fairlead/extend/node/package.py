"""Writes what stands in for the npm package of pi: launchers that hosts and extensions start with node, and the SDK.

A client that starts `node cli.js` or `bun cli.js` gets a `cli.js`. A host that finds the agent through node's modules or through
npm gets a package, and so do extensions, which start `process.argv[1]` to get another agent.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

_NODE = """\
#!/usr/bin/env node
// Starts fairlead for clients that spawn this file with node or bun. The child has our stdio: nothing is copied.
const {{ spawn }} = require("node:child_process");
const [program, ...args] = {command};
const given = process.argv.slice(2);
// What protects the user in the agent that this belongs to. It comes last, so that it counts. Some commands run no agent.
const protection = {unprotected}.includes(given[0]) ? [] : {protection};
const child = spawn(program, [...args, ...given, ...protection], {{ stdio: "inherit" }});
// A terminal sends its interrupt to the child as well: once is enough.
process.on("SIGINT", () => process.stdin.isTTY || child.kill("SIGINT"));
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {{ console.error(`fairlead: ${{error.message}}`); process.exit(127); }});
child.on("exit", (code, signal) => {{
  if (signal) {{ process.removeAllListeners(signal); process.kill(process.pid, signal); }}
  else process.exit(code);
}});
"""
#: What a host gets that requires the package instead of importing it. pi's own is a module, too.
_INDEX = """\
// Hosts resolve this file to find the package. The SDK is a module: import it.
exports.VERSION = {version};
"""
#: The modules of the SDK, and what hosts import from them.
_RUNTIME = Path(__file__).parent / "runtime"
_SDK_PARTS = ("*.mjs", "sdk/*.mjs", "shims/*.mjs", "vendor/typebox/*")
_NOT_IN_SDK = ("channel.mjs", "guards.mjs", "loader.mjs", "main.mjs")
_SETUP = """\
// What the modules of the SDK know about this fairlead.
import path from "node:path";
import {{ fileURLToPath }} from "node:url";
import {{ configure }} from "./shims/agent-facts.mjs";

const home = process.env.FAIRLEAD_HOME || process.env.PI_CODING_AGENT_DIR;
const agentDir = home ? path.resolve(home) : path.join(process.env.HOME ?? process.env.USERPROFILE ?? "", {folder}, "agent");
const homeVariable = process.env.FAIRLEAD_HOME ? "FAIRLEAD_HOME" : "PI_CODING_AGENT_DIR";
const packageDir = fileURLToPath(new URL("../..", import.meta.url)).replace(/[\\/]$/, "");
const known = {{ version: {version}, configDirName: {folder}, command: {command} }};
configure({{ ...known, cwd: process.cwd(), agentDir, packageDir, homeVariable, ...{of_agent} }});
"""
#: The packages of pi, and the module that stands in for each.
_MODULES = {"pi-coding-agent": "coding-agent", "pi-ai": "ai", "pi-agent-core": "agent-core", "pi-tui": "tui"}
#: What programs import below a package: it gives them the same module.
_PATHS = {"pi-ai": ("compat", "oauth", "models", "providers/all"), "pi-agent-core": ("node",), "chord": ("context",)}
#: The files of typebox's package, and the members of the vendored module that they export.
_TYPEBOX = {".": ("index.cjs", "typebox"), "./compile": ("compile.cjs", "compile"), "./value": ("value.cjs", "value")}


class PackageFacts(Struct, frozen=True):
    """What the manifest of a package says."""

    package: str
    version: str
    #: The name of its command.
    program: str
    #: The folder in which the program keeps the files of its user.
    config_folder: str


#: The commands that run no agent, and do not know its flags.
_UNPROTECTED = ("install", "remove", "uninstall", "update", "list", "config", "--version", "-v", "--help", "-h")


def write_package(folder: Path, facts: PackageFacts, command: Sequence[str], protection: Sequence[str] = ()) -> list[Path]:
    """Write a folder `node_modules` with a package like the program's own. Returns its files. Raises OSError.

    `protection` are flags that every agent gets that the package starts.
    """
    modules = folder / "node_modules"
    package = modules / facts.package
    manifest = {
        "name": facts.package,
        "version": facts.version,
        "description": "Starts fairlead for hosts that look for this package.",
        "type": "commonjs",
        "bin": {facts.program: "dist/cli.js"},
        "main": "./dist/index.js",
        "piConfig": {"name": facts.program, "configDir": facts.config_folder},
    }
    return [
        write_file(package / "package.json", json.dumps(manifest, indent=2) + "\n", mode=0o644),
        write_file(package / "dist" / "index.js", _INDEX.format(version=json.dumps(facts.version)), mode=0o644),
        write_file(package / "dist" / "cli.js", node_launcher(command, protection)),
        # The file that newer releases start.
        write_file(package / "dist" / "bundle" / "cli.js", node_launcher(command, protection)),
        write_file(modules / ".bin" / facts.program, shell_launcher(command)),
    ]


def write_sdk(folder: Path, facts: PackageFacts, command: Sequence[str]) -> list[Path]:
    """Write a package as `write_modules` does, for hosts that install or import it.

    The folder itself becomes a package that npm installs, unless it already has a package.json of something else. Returns the
    files that hosts look for. Raises OSError.
    """
    written = write_modules(folder, facts, command)
    if _may_write(folder / "package.json", facts.package):
        # `npm install -g` links the folder: node then finds the modules below it.
        _write_manifest(folder, facts, facts.package)
        inside = f"../node_modules/{facts.package}/dist"
        written += [
            write_file(folder / "dist" / "index.mjs", f'export * from "{inside}/index.mjs";\n', mode=0o644),
            write_file(folder / "dist" / "index.js", f'module.exports = require("{inside}/index.js");\n', mode=0o644),
            write_file(folder / "dist" / "cli.js", node_launcher(command)),
            write_file(folder / "dist" / "bundle" / "cli.js", node_launcher(command)),
        ]
    return written


def write_modules(
    folder: Path,
    facts: PackageFacts,
    command: Sequence[str],
    protection: Sequence[str] = (),
    of_agent: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Write a package as `write_package` does, with pi's SDK, and the packages that programs import beside it.

    `of_agent` is what the SDK knows about the agent that the package belongs to, such as its home; without it, this comes from
    the environment of the program. Returns the files that hosts look for. Raises OSError.
    """
    written = write_package(folder, facts, command, protection)
    scope = facts.package.partition("/")[0]
    package = folder / "node_modules" / facts.package
    _write_runtime(package / "dist" / "sdk", facts, command, {"protection": list(protection), **(of_agent or {})})
    _write_dependencies(package, facts, scope)
    for name in _MODULES:
        own = package if name == facts.package.partition("/")[2] else folder / "node_modules" / scope / name
        dist = "./sdk" if own == package else f"../../{facts.package.partition('/')[2]}/dist/sdk"
        _write_manifest(own, facts, f"{scope}/{name}")
        write_file(own / "dist" / "index.mjs", _index_module(name, dist), mode=0o644)
        if own != package:
            write_file(own / "dist" / "index.js", _INDEX.format(version=json.dumps(facts.version)), mode=0o644)
    return written


def _write_dependencies(package: Path, facts: PackageFacts, scope: str) -> None:
    """Write the packages that pi's own brings, where programs look for them that it starts. Nothing of chord works here."""
    chord, typebox = package / "node_modules" / scope / "chord", package / "node_modules" / "typebox"
    _write_manifest(chord, facts, f"{scope}/chord")
    write_file(chord / "dist" / "index.mjs", _index_module("chord", "../../../../dist/sdk"), mode=0o644)
    write_file(chord / "dist" / "index.js", _INDEX.format(version=json.dumps(facts.version)), mode=0o644)
    exports = {path: f"./{file}" for path, (file, _) in _TYPEBOX.items()}
    write_file(typebox / "package.json", json.dumps({"name": "typebox", "exports": exports}, indent=2) + "\n", mode=0o644)
    for file, member in _TYPEBOX.values():
        vendored = f'require("../../dist/sdk/vendor/typebox/typebox.cjs").{member}'
        write_file(typebox / file, f"module.exports = {vendored};\n", mode=0o644)


def _write_runtime(folder: Path, facts: PackageFacts, command: Sequence[str], of_agent: Mapping[str, Any]) -> None:
    for pattern in _SDK_PARTS:
        target = (folder / pattern).parent
        target.mkdir(parents=True, exist_ok=True)
        for file in _RUNTIME.glob(pattern):
            if file.name not in _NOT_IN_SDK or file.parent != _RUNTIME:
                shutil.copyfile(file, target / file.name)
    shutil.copyfile(_RUNTIME / "package" / "channel.mjs", folder / "channel.mjs")
    known = {"folder": facts.config_folder, "version": facts.version, "command": list(command), "of_agent": of_agent}
    write_file(folder / "setup.mjs", _SETUP.format(**{name: json.dumps(value) for name, value in known.items()}), mode=0o644)


def _index_module(name: str, sdk: str) -> str:
    """Return the module that a program imports. A name that fairlead does not have fails with this name when it is used."""
    lines = [f'import "{sdk}/setup.mjs";', f'import {{ standIn }} from "{sdk}/shims/tui.mjs";']
    if name in _MODULES:
        lines.append(f'export * from "{sdk}/shims/{_MODULES[name]}.mjs";')
    if name == "pi-ai":
        lines.append('import { createRequire } from "node:module";')
        lines.append(f'export const {{ Type }} = createRequire(import.meta.url)("{sdk}/vendor/typebox/typebox.cjs").typebox;')
    missing = json.loads((_RUNTIME / "package" / "missing.json").read_text())
    lines += [f'export const {each} = standIn("{name}", "{each}");' for each in missing[name].split()]
    return "\n".join([*lines, ""])


def _write_manifest(folder: Path, facts: PackageFacts, name: str) -> None:
    module = {"import": "./dist/index.mjs", "require": "./dist/index.js"}
    more = {f"./{path}": module for path in _PATHS.get(name.partition("/")[2], ())}
    manifest = {
        "name": name,
        "version": facts.version,
        "description": "Starts fairlead for hosts that look for this package.",
        "type": "commonjs",
        "main": "./dist/index.js",
        "exports": {".": module, **more, "./*": "./*"},
    }
    if name == facts.package:
        manifest["bin"] = {facts.program: "dist/cli.js"}
        manifest["piConfig"] = {"name": facts.program, "configDir": facts.config_folder}
    write_file(folder / "package.json", json.dumps(manifest, indent=2) + "\n", mode=0o644)


def _may_write(manifest: Path, name: str) -> bool:
    """Whether a manifest does not exist yet, or is that of this package."""
    try:
        return json.loads(manifest.read_text()).get("name") == name
    except FileNotFoundError:
        return True
    except (ValueError, AttributeError):
        return False


def shell_launcher(command: Sequence[str]) -> str:
    return f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n'


def node_launcher(command: Sequence[str], protection: Sequence[str] = ()) -> str:
    return _NODE.format(command=json.dumps(command), protection=json.dumps(protection), unprotected=json.dumps(_UNPROTECTED))


def write_file(path: Path, text: str, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path
