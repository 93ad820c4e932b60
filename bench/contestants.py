"""The programs to measure, each in an isolated environment: its own home, and a scripted model on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench import peers, rivals
from bench.driver import AgentProcess
from bench.searching import write_tree

#: A turn of the scripted provider; `fairlead.testing.provider` explains the keys.
Turn = Mapping[str, Any]


#: An extension that waits for an event that never happens.
IDLE_EXTENSION = """
def setup(fl):
    @fl.on("session_before_fork")
    async def forked(event, ctx):
        return None
"""


#: The file in which tau looks for its models.
_TAU = """
schema_version = 1
[[providers]]
name = "scripted"
display_name = "Scripted"
kind = "anthropic"
api_key_env = "SCRIPTED_KEY"
credential_name = "scripted"
base_url = "http://127.0.0.1:PORT/v1"
models = ["one"]
default_model = "one"
docs_url = "http://127.0.0.1/"
"""


#: An extension for pi with a gate before every tool call.
GATE = """
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

export default function (pi: ExtensionAPI) {
	pi.on("tool_call", async (event) => {
		const input = event.input as { command?: string };
		if (input.command?.includes("rm -rf")) return { block: true, reason: "Not that." };
	});
}
"""


@dataclass(frozen=True)
class Contestant:
    name: str
    command: tuple[str, ...]
    #: What it speaks: it takes part in the workloads over this protocol.
    protocol: Literal["rpc", "acp", "http", "claude"] = "rpc"
    #: The arguments that choose the scripted model.
    model: tuple[str, ...] = ("--model", "scripted/one")
    #: Works over its protocol that it cannot do, and why.
    cannot: Mapping[str, str] = field(default_factory=dict[str, str])


_OTHER_EXTENSIONS = dict.fromkeys(("start-script", "hooked"), "it does not run extensions written for pi")
#: omp repeats the whole message twice in each update.
_OMP_CANNOT = {
    **_OTHER_EXTENSIONS,
    **dict.fromkeys(("long", "paced-long"), "it writes 6.4 GB of updates, which takes more than half a minute"),
    "open": "it answers `get_messages` without the messages of the session",
}
_TAU_CANNOT = {
    **_OTHER_EXTENSIONS,
    **dict.fromkeys(("long", "paced-long"), "each of its updates repeats the answer, about 3.4 GB in all, so it was not tried"),
    "open": "it does not open the path of a session",
    "search": "it has no tool that searches files",
}


def own(*extra: str) -> tuple[str, ...]:
    """Return the program of this checkout, as a host starts it."""
    return (str(Path(sys.executable).with_name("fairlead")), "--dialect", "pi", *extra)


def contestants() -> tuple[Contestant, ...]:
    """Return fairlead with both forms of updates, two releases of pi, omp and tau. Installs the others if needed.

    Without a Python that is new enough for tau, tau does not take part.
    """
    tau = rivals.tau()
    return (
        Contestant("fairlead", own()),
        Contestant("fairlead, delta", own("--updates", "delta")),
        Contestant("pi 1.5", tuple(peers.PI_15.command())),
        Contestant("pi 0.87", tuple(peers.PI_087.command())),
        Contestant("omp 18", rivals.omp(), cannot=_OMP_CANNOT),
        *(
            [Contestant("tau", tau, model=("--provider", "scripted", "--model", "one"), cannot=_TAU_CANNOT)]
            if tau is not None
            else []
        ),
    )


@contextlib.contextmanager
def running(
    contestant: Contestant,
    turns: Sequence[Turn],
    extensions: int = 0,
    *,
    gate: bool = False,
    tools: Sequence[str] = (),
    files: int = 0,
) -> Generator[AgentProcess]:
    """Start a contestant in RPC mode against a provider that plays `turns`, with a number of idle extensions in our home.

    With `tools`, it has these tools instead of its usual ones. With `files`, its directory has a tree of so many files, and
    ripgrep is found. With `gate`, an extension in TypeScript is named, and the contestant has loaded it once before, so that it
    is compiled.
    """
    with scripted_provider(turns) as port, tempfile.TemporaryDirectory(prefix="fairlead-bench-") as root:
        environment, directory = surroundings(Path(root), port)
        for number in range(extensions):
            path = Path(environment["FAIRLEAD_HOME"], "extensions", f"idle_{number}.py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(IDLE_EXTENSION)
        command = [*contestant.command, "--mode", "rpc", *contestant.model, *(["--tools", ",".join(tools)] if tools else [])]
        if files:
            write_tree(Path(directory, "tree"), files)
            environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
        if gate:
            path = Path(root, "gate.ts")
            path.write_text(GATE)
            command += ["-e", str(path)]
            first = AgentProcess(command, environment, directory)
            first.ask("get_state", 60)
            first.finish()
        agent = AgentProcess(command, environment, directory)
        try:
            yield agent
        finally:
            agent.kill()


@contextlib.contextmanager
def scripted_provider(turns: Sequence[Turn]) -> Generator[int]:
    """Start a provider in a separate process and yield its port."""
    command = [sys.executable, "-m", "fairlead.testing.provider", "--script", "-"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout
    with process:
        try:
            process.stdin.write(json.dumps({"turns": list(turns)}).encode())
            process.stdin.close()
            yield int(process.stdout.readline().split()[1])
        finally:
            process.kill()


def surroundings(root: Path, port: int) -> tuple[dict[str, str], str]:
    """Create an environment and a working directory with the same models for each contestant, and nothing from the caller.

    `one` just answers; `two` also thinks and sees.
    """
    price = {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75}
    size = {"contextWindow": 20_000_000, "maxTokens": 8192, "cost": price}
    one = {"id": "one", "name": "one", "reasoning": False, "input": ["text"], **size}
    two = {"id": "two", "name": "two", "reasoning": True, "input": ["text", "image"], **size}
    provider = {
        "baseUrl": f"http://127.0.0.1:{port}",
        "api": "anthropic-messages",
        "apiKey": "no-secret",
        "models": [one, two],
    }
    directory = root / "work"
    directory.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "LANG": "C.UTF-8", "TERM": "dumb"}
    for variable, home in (("FAIRLEAD_HOME", root / ".fairlead"), ("PI_CODING_AGENT_DIR", root / ".pi" / "agent")):
        home.mkdir(parents=True)
        (home / "models.json").write_text(json.dumps({"providers": {"scripted": provider}}))
        environment[variable] = str(home)
    for path, text in ((".omp/agent/models.yml", json.dumps({"providers": {"scripted": provider}})), (".tau/catalog.toml", _TAU)):
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(text.replace("PORT", str(port)))
    environment |= {"OMP_SKIP_UPDATE_CHECK": "1", "SCRIPTED_KEY": "no-secret"}
    environment |= {"PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}
    return environment, str(directory)
