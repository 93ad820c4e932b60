"""The examples of extensions, at work in a real agent, and what the host sees of them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.support.host import Frame
from tests.support.stage import Stage, Turn, stage

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "extensions"


def playing(
    root: Path,
    *names: str,
    turns: Sequence[Turn] = ({"text": "ok"},),
    dialect: str = "pi",
    flags: Sequence[str] = (),
    **rest: Any,
) -> AbstractContextManager[Stage]:
    """An agent with these examples."""
    named = [word for name in names for word in ("-e", str(EXAMPLES / f"{name}.py"))]
    return stage(root, dialect, turns, flags=[*named, *flags], **rest)


def requests(host: Stage, method: str, *, since: int = 0) -> list[Frame]:
    """What the host was asked or shown in one way."""
    return [frame for frame in host.frames[since:] if frame["type"] == "extension_ui_request" and frame["method"] == method]


def caught_up(host: Stage) -> None:
    """Wait until extensions have heard of all that has happened: some of it they hear after the host."""
    host.request("get_state")


def notices(host: Stage) -> list[str]:
    return [frame["message"] for frame in requests(host, "notify")]


def statuses(host: Stage, key: str) -> list[str | None]:
    return [frame.get("statusText") for frame in requests(host, "setStatus") if frame["statusKey"] == key]


def widgets(host: Stage, key: str) -> list[list[str] | None]:
    return [frame.get("widgetLines") for frame in requests(host, "setWidget") if frame["widgetKey"] == key]


def answer(host: Stage, method: str, *, since: int = 0, nth: int = 1, **said: Any) -> Frame:
    """Wait for a question, and answer it."""
    question = host.until("extension_ui_request", since=since, nth=nth, method=method)
    host.send({"type": "extension_ui_response", "id": question["id"], **said})
    return question


def results(frames: list[Frame]) -> list[tuple[str, bool]]:
    """What tools returned, and whether as an error."""
    ends = [frame for frame in frames if frame["type"] == "tool_execution_end"]
    return [(end["result"]["content"][0]["text"], end["isError"]) for end in ends]


def command(host: Stage, text: str) -> None:
    """Run a command of an extension's to its end, and see that it did not fail."""
    since = host.mark()
    assert host.request("prompt", message=text)["success"]
    assert [frame for frame in host.frames[since:] if frame["type"] == "extension_error"] == []


def asked(host: Stage, number: int = -1) -> list[str]:
    """The texts of all messages that the model was sent."""
    told = host.provider.requests[number].body["messages"]
    blocks = [block for message in told for block in message["content"]]
    inner = [each for block in blocks for each in (block["content"] if block["type"] == "tool_result" else [block])]
    return [block["text"] for block in inner if block["type"] == "text"]


def system_prompt(host: Stage, number: int = -1) -> str:
    system = host.provider.requests[number].body["system"]
    return system if isinstance(system, str) else "".join(block["text"] for block in system)


def git(folder: Path, *words: str) -> str:
    """Run git, as somebody who may commit, with no settings of the user's."""
    who = ["-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    return subprocess.run(["git", *who, *words], cwd=folder, env=env, check=True, capture_output=True, text=True).stdout.strip()


def repository(folder: Path) -> None:
    """A repository around the project of an agent, with a committed file; the project itself is clean."""
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitignore").write_text("/home\n/stderr.txt\n")
    (folder / "notes.txt").write_text("first\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "First")
