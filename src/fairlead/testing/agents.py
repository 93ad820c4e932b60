"""Agents for the tests of hosts: commands that start one, with everything around it in a temporary folder."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from fairlead.agent import Agent
    from fairlead.client import Client, SyncClient
    from fairlead.client.opal import OpalClient
    from fairlead.testing.formats import ScriptTurn
    from fairlead.testing.scripted import Turn

#: The model that `agent_command` uses.
TEST_MODEL = "test/test-model"
#: Variables that an agent under test gets from the environment. Keys are not among them.
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", "COVERAGE_PROCESS_START")


class AgentCommand(Struct, frozen=True):
    """How to start an agent: give `argv`, `cwd` and `env` to the host under test, or use one of the clients."""

    argv: list[str]
    cwd: Path
    env: dict[str, str]

    def client(self, **options: Any) -> Client:
        """Return a client that starts the agent on entry to `async with`. It takes the options of `Client.start`."""
        from fairlead.client import Client

        return Client.start(self.argv, cwd=self.cwd, env=self.env, **options)

    def sync_client(self, **options: Any) -> SyncClient:
        """Return a blocking client that starts the agent on entry to `with`."""
        from fairlead.client import SyncClient

        return SyncClient.start(self.argv, cwd=self.cwd, env=self.env, **options)

    def opal_client(self, **options: Any) -> OpalClient:
        """Return a client that starts an agent of the dialect `opal` on entry to `async with`."""
        from fairlead.client.opal import OpalClient

        return OpalClient.start(self.argv, cwd=self.cwd, env=self.env, **options)


def agent_command(
    root: Path,
    provider_url: str,
    *,
    dialect: str = "pi",
    flags: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> AgentCommand:
    """Return the command of a real agent whose model is a `ProviderServer`.

    Args:
        root: a folder for the agent: `home` in it becomes its home, and `project` its working directory.
        provider_url: the URL of the server.
        dialect: the dialect that the host speaks.
        flags: more flags, such as `--approval ask`.
        env: more variables.
    """
    home, project = root / "home", root / "project"
    home.mkdir(parents=True, exist_ok=True)
    project.mkdir(parents=True, exist_ok=True)
    name, _, model = TEST_MODEL.partition("/")
    described = {"id": model, "contextWindow": 200_000, "maxTokens": 16_384, "reasoning": True, "input": ["text", "image"]}
    provider = {"baseUrl": provider_url, "api": "anthropic-messages", "apiKey": "no-key", "models": [described]}
    (home / "models.json").write_text(json.dumps({"providers": {name: provider}}), encoding="utf-8")
    mode = ["--mode", "opal"] if dialect == "opal" else ["--mode", "rpc", "--dialect", dialect]
    argv = [*_fairlead(), *mode, "--model", TEST_MODEL, *flags]
    return AgentCommand(argv, project, {**_environment(home), **(env or {})})


def replay_command(
    recording: str | os.PathLike[str],
    cwd: Path,
    *,
    speed: float | None = None,
    lenient: bool = False,
    report: Path | None = None,
) -> AgentCommand:
    """Return the command of an agent that plays a recording.

    Args:
        recording: the file that `fairlead --record` wrote.
        cwd: the working directory.
        speed: how many times faster than recorded it plays; None for no delays.
        lenient: whether it continues when the host departs from the recording.
        report: a file that gets a line for each departure.
    """
    argv = [
        *_fairlead(),
        "replay",
        os.fspath(Path(recording).absolute()),
        *(["--fast"] if speed is None else ["--speed", str(speed)]),
    ]
    if lenient:
        argv.append("--lenient")
    if report is not None:
        argv += ["--report", str(report)]
    return AgentCommand(argv, cwd, _environment(cwd))


def scripted_agent(*turns: str | Turn, **options: Any) -> Agent:
    """Return an agent in this process whose model plays turns. It reads no configuration and saves nothing.

    A turn that is a string is a text. `options` are those of `Agent`.
    """
    from fairlead.agent import Agent
    from fairlead.testing.scripted import SCRIPTED_MODEL, Scripted, Turn

    script = Scripted([Turn(text=turn) if isinstance(turn, str) else turn for turn in turns or ("ok",)])
    chosen: dict[str, Any] = {"isolated": True, "keep": False, "model": SCRIPTED_MODEL, "stream": script, **options}
    return Agent(**chosen)


def script(turns: Sequence[str | ScriptTurn]) -> list[ScriptTurn]:
    """Return turns for a `ProviderServer`. A turn that is a string is a text."""
    return [{"text": turn} if isinstance(turn, str) else turn for turn in turns or ("ok",)]


def _fairlead() -> list[str]:
    # -P: a file in the working directory must not shadow a module of the standard library.
    return [sys.executable, "-P", "-m", "fairlead"]


def _environment(home: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {**kept, "HOME": str(home), "FAIRLEAD_HOME": str(home)}
