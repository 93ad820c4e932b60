"""What a host asks again and again about its session, and what it finds in the session's file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.support import stage as stages
from tests.support.host import Frame, Host
from tests.support.session_file import SessionLines, read_strictly
from tests.support.stage import Stage, Turn

from fairlead.testing.provider import ReceivedRequest

#: The answer to every request for a summary, of a compaction or of a branch.
SUMMARY = {"match": "<conversation>", "text": "what was said"}


#: With this tool at hand, xcsh asks its model for a plan in a message of its own before the first prompt.
NO_PLANS = ("--exclude-tools", "todo_write")


def stage(
    root: Path, dialect: str, turns: Sequence[Turn] = ({"text": "ok"},), *, flags: Sequence[str] = (), **rest: Any
) -> AbstractContextManager[Stage]:
    """An agent whose conversations have no messages but those of the host and the model."""
    return stages.stage(root, dialect, turns, flags=[*NO_PLANS, *flags], **rest)


def another(host: Stage, dialect: str, *flags: str, **rest: Any) -> AbstractContextManager[Stage]:
    """Another such agent in the surroundings of `host`, after it has left or beside it."""
    return stages.another(host, dialect, *NO_PLANS, *flags, **rest)


def state(host: Host) -> Frame:
    return host.request("get_state")["data"]


def session_file(host: Host) -> Path:
    return Path(state(host)["sessionFile"])


def messages(host: Host) -> list[Frame]:
    return host.request("get_messages")["data"]["messages"]


def conversation(host: Host) -> list[str]:
    return texts(messages(host))


def texts(messages: Iterable[Frame]) -> list[str]:
    """What each message says: its text, a summary, or the output of a command."""
    return [_text(message) for message in messages]


def kept(path: str | Path) -> SessionLines:
    """A session file to whose last line nothing has happened."""
    lines = read_strictly(Path(path))
    assert lines.torn == b""
    return lines


def user_entry(host: Host, text: str) -> str:
    """The id of the entry in which the user said that."""
    found = host.request("get_fork_messages")["data"]["messages"]
    return next(message["entryId"] for message in found if message["text"] == text)


def asked(request: ReceivedRequest) -> str:
    """The conversation in a request to the model, without its system prompt and its tools."""
    return str(request.body["messages"])


def _text(message: Frame) -> str:
    match message["role"]:
        case "compactionSummary" | "branchSummary":
            return message["summary"]
        case "bashExecution":
            return message["output"]
        case _:
            content = message["content"]
            return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
