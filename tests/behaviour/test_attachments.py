"""Files that come with a message, in the dialects that have no such field of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.behaviour.test_pi_2025 import attachment
from tests.support.session_host import asked, stage, state
from tests.support.stage import HELD, says

pytestmark = pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])

NOTES = attachment("document", "notes.pdf", extractedText="the notes")
CAT = attachment("image", "cat.png", mimeType="image/png")


def blocks(request: Any, text: str) -> list[str]:
    """The kinds of what the model got in the message with that text."""
    said = [message["content"] for message in request.body["messages"] if message["role"] == "user"]
    return next([block["type"] for block in content] for content in said if text in str(content))


@pytest.mark.parametrize("command", ["prompt", "abort_and_prompt"])
def test_attachments_of_a_prompt_reach_the_model(dialect: str, command: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        assert host.request(command, message="look", attachments=[NOTES, CAT])["success"] is True
        host.until("agent_settled")
        assert blocks(host.provider.requests[0], "look") == ["text", "text", "image"]
        assert "notes.pdf" in asked(host.provider.requests[0]) and "the notes" in asked(host.provider.requests[0])
        user = next(frame["message"] for frame in host.frames if frame["type"] == "message_start")
        assert user["attachments"] == [NOTES, CAT]
        assert state(host)["contextUsage"] is not None


@pytest.mark.parametrize(
    ("command", "fields"),
    [("steer", {}), ("follow_up", {}), ("prompt", {"streamingBehavior": "steer"}), ("prompt", {"streamingBehavior": "followUp"})],
)
def test_attachments_of_a_queued_message_reach_the_model(
    dialect: str, command: str, fields: dict[str, Any], tmp_path: Path
) -> None:
    with stage(tmp_path, dialect, [HELD, says("seen")]) as host:
        host.send({"id": "p", "type": "prompt", "message": "begin"})
        host.update("text_delta")
        assert host.request(command, message="look", attachments=[NOTES], **fields)["success"] is True
        host.provider.release()
        host.until("agent_settled")
        assert "the notes" in asked(host.provider.requests[-1])


def test_an_attachment_that_lacks_its_content_is_an_error(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        refused = host.request("prompt", message="look", attachments=[{"type": "document", "fileName": "notes.pdf"}])
        assert refused["success"] is False and "attachments" in refused["error"]


def test_an_attachment_needs_only_its_type_and_its_content(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("look", attachments=[{"type": "document", "content": "c29tZSB0ZXh0"}])
        assert "[Document: unnamed]" in asked(host.provider.requests[0]) and "some text" in asked(host.provider.requests[0])
