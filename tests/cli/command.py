"""The command, started as a process of its own, with a home and a provider of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any, Protocol

from tests.support import published
from tests.support.surroundings import Surroundings

from fairlead.testing import ProviderServer

#: Seconds after which a command that has not ended will not end. Generous: the machine may be busy.
PATIENCE = 60.0


class Command:
    """`fairlead`, ready to be run. Everything it asks the model ends up in `provider.requests`."""

    def __init__(self, provider: ProviderServer, around: Surroundings) -> None:
        self.provider = provider
        self.around = around

    def argv(self, *arguments: str | bytes) -> list[str | bytes]:
        return [sys.executable, "-m", "fairlead", *arguments]

    def env(self, changes: Mapping[str, str] | None = None) -> dict[str, str]:
        return {**self.around.env, **(changes or {})}

    def __call__(
        self,
        *arguments: str | bytes,
        input: str = "",
        env: Mapping[str, str] | None = None,
        argv: Sequence[str | bytes] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run it, and wait for its end. What it says to a host is compared with what is published of the dialect."""
        command = [*argv, *arguments] if argv else self.argv(*arguments)
        done = subprocess.run(
            command,
            cwd=self.around.cwd,
            env=self.env(env),
            input=input,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
        dialect = published.dialect_of(command, env)
        if dialect is not None and done.stdout:
            published.check(dialect, input.encode(), done.stdout.encode().splitlines())
        return done

    def start(self, *arguments: str, **pipes: Any) -> subprocess.Popen[str]:
        """Start it without waiting for its end."""
        settings: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "encoding": "utf-8",
        }
        return subprocess.Popen(self.argv(*arguments), cwd=self.around.cwd, env=self.env(), **(settings | pipes))

    @property
    def asked(self) -> Any:
        """The body of the last request that the model got."""
        return self.provider.requests[-1].body


def lines_of(process: subprocess.Popen[str]) -> IO[str]:
    """What the process prints, line by line as it comes."""
    assert process.stdout is not None
    return process.stdout


class Scripted(Protocol):
    """Makes the command for a model that plays the given turns."""

    def __call__(self, *turns: Mapping[str, Any]) -> Command: ...
