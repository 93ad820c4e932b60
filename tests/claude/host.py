"""A host of the claude dialect: starts the agent with the flags of a host, writes lines and reads frames. Every frame has to
fit the schema."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
from tests.support.host import Frame, Host
from tests.support.stage import Arrivals, Turn

from fairlead.protocol.schema.claude import claude_schema
from fairlead.testing import ProviderServer

MODEL = "claude-sonnet-4-5"
STREAM = ("--output-format", "stream-json", "--verbose", "--input-format", "stream-json")


@cache
def _agent_lines() -> Any:
    schema = claude_schema(closed=True)
    return jsonschema_rs.validator_for({"$ref": "#/$defs/AgentLine", "$defs": schema["$defs"]})


def check(frame: Frame) -> None:
    """Raise AssertionError for a frame that is not as published."""
    if not _agent_lines().is_valid(frame):
        raise AssertionError(f"not as published: {json.dumps(frame)[:2000]}")


class ClaudeHost(Host):
    """A host with the model's provider at hand. Its home is `work / "home"`."""

    provider: ProviderServer
    arrivals: Arrivals
    work: Path
    _count = 0

    def control(self, subtype: str, /, **fields: Any) -> Frame:
        """Send a control request and return the inner answer."""
        self._count += 1
        ident = f"test_{self._count}"
        self.send({"type": "control_request", "request_id": ident, "request": {"subtype": subtype, **fields}})
        return self.answer(ident)

    def answer(self, ident: str) -> Frame:
        wanted = f"the answer to {ident}"
        frame = self.wait_for(lambda f: f["type"] == "control_response" and f["response"]["request_id"] == ident, wanted)
        return frame["response"]

    def say(self, content: Any, **more: Any) -> None:
        """Send a prompt."""
        self.send(prompt(content, **more))

    def ask(self, content: Any, **more: Any) -> Frame:
        """Send a prompt and return its result."""
        mark = self.mark()
        self.say(content, **more)
        return self.until("result", since=mark)

    def of(self, kind: str, **fields: Any) -> list[Frame]:
        """The frames so far with this type and these fields."""
        return [f for f in list(self.frames) if f["type"] == kind and all(f.get(k) == v for k, v in fields.items())]


def prompt(content: Any, **more: Any) -> Frame:
    return {"type": "user", "message": {"role": "user", "content": content}, "session_id": "", **more}


def environment(work: Path, provider: ProviderServer, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment without anything of the developer's, in which the provider answers."""
    home = work / "home"
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(work / "tmp"),
        "LANG": "C.UTF-8",
        "FAIRLEAD_HOME": str(home / ".fairlead"),
        "ANTHROPIC_BASE_URL": provider.url,
        "ANTHROPIC_API_KEY": "sk-ant-fake",
        **(env or {}),
    }


def command(*flags: str) -> list[str]:
    return [sys.executable, "-m", "fairlead", "--dialect", "claude", *flags]


@contextmanager
def claude(
    work: Path,
    turns: Sequence[Turn] = ({"text": "ok"},),
    *flags: str,
    base: Sequence[str] = STREAM,
    model: str | None = MODEL,
    env: Mapping[str, str] | None = None,
    loop: bool = False,
) -> Generator[ClaudeHost]:
    """An agent just started. Afterwards it is gone, and its frames have been compared with the schema."""
    for folder in ("home", "cwd", "tmp"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    arrivals = Arrivals()
    script = json.loads(json.dumps(list(turns)).replace("$CWD", str(work / "cwd")))
    with ProviderServer(script, log=arrivals, loop=loop) as provider:
        named = [] if model is None else ["--model", model]
        argv = command(*base, *named, *flags)
        with ClaudeHost(argv, work / "cwd", environment(work, provider, env)) as host:
            host.provider, host.arrivals, host.work = provider, arrivals, work
            yield host
            frames = list(host.frames)
        for frame in frames:
            check(frame)


@contextmanager
def another(
    host: ClaudeHost,
    *flags: str,
    base: Sequence[str] = STREAM,
    model: str | None = MODEL,
    env: Mapping[str, str] | None = None,
) -> Generator[ClaudeHost]:
    """Another agent with the same home, folder and provider."""
    argv = command(*base, *([] if model is None else ["--model", model]), *flags)
    with ClaudeHost(argv, host.work / "cwd", environment(host.work, host.provider, env)) as other:
        other.provider, other.arrivals, other.work = host.provider, host.arrivals, host.work
        yield other
        frames = list(other.frames)
    for frame in frames:
        check(frame)
