"""A host, an agent and a model that plays a script, ready to start."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.gates import Gate, wait_for_exit
from tests.support.host import PATIENCE, Frame, Host
from tests.support.surroundings import Surroundings, rpc, surroundings

from fairlead.testing import ProviderServer

Turn = Mapping[str, Any]

#: An answer that is under way after its first piece: it goes on when the test says so, or never.
HELD: Turn = {"text": "word " * 60, "holdAfter": 1}
ENDLESS: Turn = {"text": "word " * 60, "hangAfter": 1}

#: Shell code that tells `Stage.began`, and that waits for `Stage.go`.
BEGAN, WAIT = 'echo > "$HOME/began"', 'read _ < "$HOME/go"'
#: Shell code that does not end by itself. Its process number is in the project folder.
LASTING = f"echo $$ > shell; {BEGAN}; sleep 600"


def says(text: str, **rest: Any) -> Turn:
    return {"text": text, **rest}


def calls(*named: tuple[str, Mapping[str, Any] | str], **rest: Any) -> Turn:
    """A turn in which the model calls tools. Arguments that are a string are sent as they are, JSON or not."""
    return {"toolCalls": [{"name": name, "arguments": arguments} for name, arguments in named], **rest}


def bash(command: str) -> tuple[str, Mapping[str, Any]]:
    return "bash", {"command": command}


class Arrivals(io.StringIO):
    """A log of a provider that wakes up whoever waits for the next request."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Condition()

    def write(self, text: str, /) -> int:
        with self.changed:
            self.changed.notify_all()
        return len(text)


class Stage(Host):
    """A host with the model's provider at hand, and gates for shell commands."""

    provider: ProviderServer
    arrivals: Arrivals
    around: Surroundings
    began: Gate
    go: Gate

    def until_asked(self, count: int) -> None:
        """Wait until the model has been asked that many times."""
        with self.arrivals.changed:
            asked = self.arrivals.changed.wait_for(lambda: len(self.provider.requests) >= count, PATIENCE)
        assert asked, f"the model was asked {len(self.provider.requests)} times, not {count}\n{self._said()}"

    def send_together(self, *commands: Frame) -> None:
        """Send commands in one write."""
        self.write(b"".join(json.dumps(command).encode() + b"\n" for command in commands))

    def run_lasting_command(self) -> None:
        """Start a command of the host's own that does not end by itself."""
        self.send({"id": "lasting", "type": "bash", "command": LASTING})
        self.began.wait()

    def lasting_command_ended(self) -> None:
        """Wait until it has been stopped."""
        wait_for_exit(int((self.around.cwd / "shell").read_text()))

    def send_unread(self, command: Frame) -> None:
        """Send a command to an agent whose output is full, and return when the command has had its turn.

        The one behind it has to wait for a reader. But if that is an `abort_bash`, it stops the lasting command at once.
        """
        self.send_together(command, {"id": "stop", "type": "abort_bash"})
        self.lasting_command_ended()


@contextmanager
def stage(
    root: Path,
    dialect: str,
    turns: Sequence[Turn] = ({"text": "ok"},),
    *,
    flags: Sequence[str] = (),
    model: str | None = "fake/fake-1",
    reasoning: str = "fake-1",
    settings: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
    api_key: str = "sk-fake",
    env: Mapping[str, str] | None = None,
    models: Sequence[Mapping[str, Any]] = (),
    **reading: Any,
) -> Generator[Stage]:
    """An agent just started for a host of that dialect. `turns` are what its model answers, `env` is added to its own."""
    arrivals = Arrivals()
    with ProviderServer(turns, log=arrivals) as provider:
        around = surroundings(
            root, provider.url, reasoning=reasoning, settings=settings, files=files, api_key=api_key, models=models
        )
        argv = rpc(dialect, *flags, model=model)
        with (
            Gate(around.home / "began") as began,
            Gate(around.home / "go") as go,
            Stage(argv, around.cwd, {**around.env, **(env or {})}, **reading) as host,
        ):
            host.provider, host.arrivals, host.around, host.began, host.go = provider, arrivals, around, began, go
            yield host


@contextmanager
def another(host: Stage, dialect: str, *flags: str, model: str | None = "fake/fake-1") -> Generator[Stage]:
    """Another agent in the surroundings of `host`, after it has left or beside it."""
    with Stage(rpc(dialect, *flags, model=model), host.around.cwd, host.around.env) as other:
        other.provider, other.arrivals, other.around = host.provider, host.arrivals, host.around
        other.began, other.go = host.began, host.go
        yield other
