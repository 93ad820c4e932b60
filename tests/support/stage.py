"""A host, an agent and a model that plays a script, ready to start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.gates import Gate
from tests.support.host import Host
from tests.support.surroundings import Surroundings, rpc, surroundings

from fairlead.testing import ProviderServer

Turn = Mapping[str, Any]

#: An answer that is under way after its first piece: it goes on when the test says so, or never.
HELD: Turn = {"text": "word " * 60, "holdAfter": 1}
ENDLESS: Turn = {"text": "word " * 60, "hangAfter": 1}

#: Shell code that tells `Stage.began`, and that waits for `Stage.go`.
BEGAN, WAIT = 'echo > "$HOME/began"', 'read _ < "$HOME/go"'


def says(text: str, **rest: Any) -> Turn:
    return {"text": text, **rest}


def calls(*named: tuple[str, Mapping[str, Any]], **rest: Any) -> Turn:
    """A turn in which the model calls tools."""
    return {"toolCalls": [{"name": name, "arguments": arguments} for name, arguments in named], **rest}


def bash(command: str) -> tuple[str, Mapping[str, Any]]:
    return "bash", {"command": command}


class Stage(Host):
    """A host with the model's provider at hand, and two gates for shell commands."""

    provider: ProviderServer
    around: Surroundings
    began: Gate
    go: Gate


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
    **reading: Any,
) -> Iterator[Stage]:
    """An agent that was just started for a host of that dialect. `turns` are what its model answers."""
    with ProviderServer(turns) as provider:
        around = surroundings(root, provider.url, reasoning=reasoning, settings=settings, files=files)
        argv = rpc(dialect, *flags, model=model)
        with (
            Gate(around.home / "began") as began,
            Gate(around.home / "go") as go,
            Stage(argv, around.cwd, around.env, **reading) as host,
        ):
            host.provider, host.around, host.began, host.go = provider, around, began, go
            yield host
