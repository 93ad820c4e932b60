"""Build the TypeScript client in clients/typescript: install its compiler, compile it to dist, compile its tests and examples.

python -m bench.typescript_client
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench import peers

FOLDER = peers.ROOT / "clients" / "typescript"


def build() -> Path:
    """Build the client and return its folder. Raises SystemExit with the messages of the compiler if it does not compile."""
    with peers.locked("typescript-client.lock"):  # what it compiles with installs Node under the lock of the peers
        installed = FOLDER / "node_modules" / ".package-lock.json"
        if not installed.exists() or installed.stat().st_mtime < (FOLDER / "package-lock.json").stat().st_mtime:
            print("Installing the TypeScript compiler ...", flush=True)
            peers.npm("ci", "--prefix", str(FOLDER))
        for project in ("tsconfig.json", "tsconfig.browser.json", "tsconfig.test.json"):
            print(f"Compiling {project} ...", flush=True)
            compile_project(FOLDER / project)
    return FOLDER


def compile_project(project: Path) -> None:
    compiler = FOLDER / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run([str(peers.node()), str(compiler), "-p", str(project)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{project} does not compile:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    print(f"The client is in {build().relative_to(peers.ROOT)}/dist.")
