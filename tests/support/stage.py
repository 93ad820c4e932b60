"""A host, an agent and a model that plays a script, ready to start."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.gates import Gate, wait_for_exit
from tests.support.host import Frame, Host
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


def calls(*named: tuple[str, Mapping[str, Any]], **rest: Any) -> Turn:
    """A turn in which the model calls tools."""
    return {"toolCalls": [{"name": name, "arguments": arguments} for name, arguments in named], **rest}


def bash(command: str) -> tuple[str, Mapping[str, Any]]:
    return "bash", {"command": command}


class Stage(Host):
    """A host with the model's provider at hand, and gates for shell commands."""

    provider: ProviderServer
    around: Surroundings
    began: Gate
    go: Gate

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
    **reading: Any,
) -> Iterator[Stage]:
    """An agent that was just started for a host of that dialect. `turns` are what its model answers."""
    with ProviderServer(turns) as provider:
        around = surroundings(root, provider.url, reasoning=reasoning, settings=settings, files=files, api_key=api_key)
        argv = rpc(dialect, *flags, model=model)
        with (
            Gate(around.home / "began") as began,
            Gate(around.home / "go") as go,
            Stage(argv, around.cwd, around.env, **reading) as host,
        ):
            host.provider, host.around, host.began, host.go = provider, around, began, go
            yield host
