"""Records sessions of real agents, and plays them back to hosts of the tests."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.host import Host
from tests.support.stage import Turn
from tests.support.surroundings import FAIRLEAD, Surroundings, rpc, surroundings

from fairlead.testing import ProviderServer

Entry = dict[str, Any]


@contextmanager
def recorded(
    root: Path,
    *turns: Turn,
    dialect: str = "pi",
    flags: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    url: str | None = None,
) -> Generator[tuple[Host, ProviderServer]]:
    """A host of an agent that records to `recording(root)`. Its model plays the turns, unless it is at another `url`."""
    with ProviderServer(turns or [{"text": "ok"}]) as provider:
        made = surroundings(root / "agent", url or provider.url)
        command = [*rpc(dialect, "--record", str(recording(root)), *flags)]
        if dialect == "opal":
            command = [FAIRLEAD, "--mode", "opal", "--model", "fake/fake-1", "--record", str(recording(root)), *flags]
        with Host(command, made.cwd, {**made.env, **(env or {})}) as host:
            yield host, provider


@contextmanager
def replayed(root: Path, *flags: str, file: Path | None = None, fast: bool = True) -> Generator[Host]:
    """A host of an agent that plays the recording."""
    folder = root / "replay"
    folder.mkdir(exist_ok=True)
    made = Surroundings(root / "agent", {"PATH": "/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"})
    command = [FAIRLEAD, "replay", str(file or recording(root)), *(["--fast"] if fast else []), *flags]
    with Host(command, folder, made.env) as host:
        yield host


@contextmanager
def provider_of(root: Path) -> Generator[str]:
    """The URL of a server that plays the traffic of the provider in the recording."""
    command = [FAIRLEAD, "replay", "--provider", str(recording(root))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def recording(root: Path) -> Path:
    return root / "session.jsonl"


def entries(root: Path, *types: str) -> list[Entry]:
    """The entries of the recording, of all types or of these."""
    read = [json.loads(line) for line in recording(root).read_text().splitlines()]
    return [entry for entry in read if not types or entry["type"] in types]


def frames(root: Path) -> list[Entry]:
    return [entry["frame"] for entry in entries(root, "out")]


def kinds(frames: Sequence[Entry]) -> list[str]:
    return [frame["type"] for frame in frames]
