"""Every front end says what an approval for the session covers, before the user gives it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.host_tools import ECHO, echo, offer
from tests.support.opal import opal
from tests.support.stage import bash, calls, says, stage

from fairlead.chat.chat_ui import Approval
from fairlead.chat.view.panels import Proposal
from fairlead.chat.view.text import width, without_styles
from fairlead.chat.view.theme import PLAIN
from fairlead.core.approval import ApprovalRequest
from fairlead.wire.acp.acp_ui import choices

CALLS = {
    "the same command": bash("echo hi"),
    "the same file, with any content": ("write", {"path": "a", "content": "x"}),
    "echo with any arguments": echo("hi"),
}


@pytest.mark.parametrize("scope", CALLS)
@pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])
def test_a_select_says_it_in_its_title(tmp_path: Path, dialect: str, scope: str) -> None:
    with stage(tmp_path, dialect, [calls(CALLS[scope]), says("ok")], flags=["--approval", "ask"]) as host:
        offer(host, ECHO)
        host.send({"type": "prompt", "message": "go"})
        asked = host.until("extension_ui_request", method="select")
        assert asked["title"].endswith(f'"Approve for session" covers {scope}.')
        assert asked["options"][:3] == ["Approve", "Approve for session", "Deny"]


def test_input_for_a_process_is_not_called_a_command(tmp_path: Path) -> None:
    written = ("shell", {"action": "input", "id": "1", "input": "y", "command": "true"})
    with opal(tmp_path, [calls(written), says("ok")], flags=["--approval", "ask"]) as client:
        client.send("agent/prompt", session_id=client.start(), text="go")
        asked = client.asked("client/confirm")["params"]
        assert '"input":"y"' in asked["message"] and asked["message"].endswith("For the session: the same arguments.")


def test_an_option_of_acp_says_it() -> None:
    names = {id: option.name for id, (option, _) in choices("deploy with any arguments", None).items()}
    assert names["allow_always"] == "Allow for this session: deploy with any arguments"
    assert names["reject_always"] == "Reject for this session: deploy with any arguments"


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 200])
async def test_the_chat_says_it_beside_the_key_or_above(columns: int) -> None:
    scope = "x with any arguments"
    request = ApprovalRequest("x", "1", {}, "Allow x?", "{}", "{}", scope=scope)
    dialog = Approval(request, lambda request, is_whole=False: Proposal(request, PLAIN, Path("/")), lambda: None)
    lines = [without_styles(line) for line in dialog.draw(PLAIN, columns, 20)[0]]
    assert all(width(line) <= columns for line in lines)
    assert scope in "\n".join(lines) or columns == 20
