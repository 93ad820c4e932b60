"""The pytest plug-in: fixtures for tests of programs that embed fairlead. pytest finds it by itself.

    fairlead_agent      an agent in this process, with a scripted model
    fairlead_provider   a provider on loopback that answers from a script
    fairlead_process    the command of a real agent with such a provider
    fairlead_record     the same, and the agent keeps a recording
    fairlead_replay     the command of an agent that plays a recording; a departure fails the test

Each fixture is a function to call with turns. Nothing of fairlead is loaded until it is called. `fairlead help testing` has
examples.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from fairlead.agent import Agent
    from fairlead.testing import AgentCommand, ProviderServer, Turn

    ScriptTurn = Mapping[str, Any]


class MakeAgent(Protocol):
    """The type of `fairlead_agent`."""

    def __call__(self, *turns: str | Turn, **options: Any) -> Agent: ...


class MakeProvider(Protocol):
    """The type of `fairlead_provider`."""

    def __call__(self, *turns: str | ScriptTurn) -> ProviderServer: ...


class MakeProcess(Protocol):
    """The type of `fairlead_process`."""

    def __call__(
        self,
        *turns: str | ScriptTurn,
        dialect: str = "pi",
        flags: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> AgentCommand: ...


class MakeRecording(Protocol):
    """The type of `fairlead_record`."""

    def __call__(
        self,
        recording: str | os.PathLike[str],
        *turns: str | ScriptTurn,
        dialect: str = "pi",
        flags: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> AgentCommand: ...


class MakeReplay(Protocol):
    """The type of `fairlead_replay`."""

    def __call__(
        self, recording: str | os.PathLike[str], *, speed: float | None = None, lenient: bool = False
    ) -> AgentCommand: ...


@pytest.fixture
def fairlead_agent(tmp_path: Path) -> MakeAgent:
    """Make agents in this process. Call it with turns (a string is a text) and options of `Agent`."""

    def make(*turns: str | Turn, **options: Any) -> Agent:
        from fairlead.testing.agents import scripted_agent

        return scripted_agent(*turns, **{"cwd": tmp_path, **options})

    return make


@pytest.fixture
def fairlead_provider() -> Generator[MakeProvider]:
    """Start providers. Call it with turns; it returns a running `ProviderServer`, which the end of the test stops."""
    with ExitStack() as servers:

        def start(*turns: str | ScriptTurn) -> ProviderServer:
            from fairlead.testing import ProviderServer
            from fairlead.testing.agents import script

            return servers.enter_context(ProviderServer(script(turns)))

        yield start


@pytest.fixture
def fairlead_process(tmp_path: Path, fairlead_provider: MakeProvider) -> MakeProcess:
    """Make commands of real agents. Call it with the turns of the model, and with a dialect and flags."""
    numbers = count(1)

    def make(
        *turns: str | ScriptTurn,
        dialect: str = "pi",
        flags: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> AgentCommand:
        from fairlead.testing.agents import agent_command

        root = tmp_path / f"fairlead-{next(numbers)}"
        return agent_command(root, fairlead_provider(*turns).url, dialect=dialect, flags=flags, env=env)

    return make


@pytest.fixture
def fairlead_record(fairlead_process: MakeProcess) -> MakeRecording:
    """Make commands of real agents that record. Call it with the file to write, then like `fairlead_process`."""

    def make(
        recording: str | os.PathLike[str],
        *turns: str | ScriptTurn,
        dialect: str = "pi",
        flags: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> AgentCommand:
        kept = ["--record", os.fspath(Path(recording).absolute()), "--record-overwrite"]
        return fairlead_process(*turns, dialect=dialect, flags=[*kept, *flags], env=env)

    return make


@pytest.fixture
def fairlead_replay(tmp_path: Path) -> Generator[MakeReplay]:
    """Make commands of agents that play a recording. A test fails if its host departs from the recording."""
    report = tmp_path / "fairlead-departures.txt"

    def make(recording: str | os.PathLike[str], *, speed: float | None = None, lenient: bool = False) -> AgentCommand:
        from fairlead.testing.agents import replay_command

        return replay_command(recording, tmp_path, speed=speed, lenient=lenient, report=report)

    yield make
    if report.exists():
        pytest.fail(report.read_text(encoding="utf-8").strip(), pytrace=False)
