"""What calls that need approval would do: shown once, above the question, and not again when they have run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.chat.test_chat_transcript import Viewer, answer, bare, deltas

from fairlead import ApprovalRequest, FileChange, ToolResult, events
from fairlead.chat.view.panels import Proposal
from fairlead.chat.view.text import width
from fairlead.chat.view.theme import PLAIN
from fairlead.messages import TextContent, ToolCall

CWD = Path("/p")
CHANGE = FileChange("/p/src/a.py", "one\ntwo\n", "one\n2\n")
DIFF = ["? Edit src/a.py  +1 -1", "  │ 1   one", "  │ 2 - two", "  │ 2 + 2"]


def a_request(*changes: FileChange, name: str = "edit", id: str = "1", **fields: Any) -> ApprovalRequest:
    kind: Any = "execute" if name == "bash" else "edit"
    return ApprovalRequest(name, id, {}, f"Allow {name}?", kind=kind, changes=changes, **fields)


def lines(request: ApprovalRequest, columns: int = 60, *, is_long: bool = False) -> list[str]:
    shown = bare(Proposal(request, PLAIN, CWD).final_lines(columns, is_long))
    assert all(width(line) <= columns for line in shown)
    return shown


def test_a_path_inside_the_working_directory_is_relative() -> None:
    assert lines(a_request(CHANGE)) == DIFF
    assert lines(a_request(FileChange("/etc/hosts", None, "x\n")))[0] == "? Edit /etc/hosts  new file  +1"
    assert lines(a_request(FileChange("/pp/a", "", "x\n")))[0] == "? Edit /pp/a  +1"


def test_a_working_directory_behind_a_link_is_known(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    change = FileChange(str((tmp_path / "real").resolve() / "a.py"), "a\n", "b\n")
    assert bare(Proposal(a_request(change), PLAIN, tmp_path / "link").final_lines(60, is_long=False))[0] == "? Edit a.py  +1 -1"


def test_a_long_path_is_shown_to_its_end() -> None:
    change = FileChange("/p/" + "folder/" * 12 + "end.py", "a\n", "b\n")
    shown = lines(a_request(change, FileChange("/p/b.py", None, "x\n")), 40)
    assert "folder/" * 12 + "end.py" in "".join(line.removeprefix("  │ ") for line in shown)
    assert "end.py" in "".join(lines(a_request(change), 40))


def test_several_files_have_their_names_above_their_changes() -> None:
    shown = lines(a_request(CHANGE, FileChange("/p/b.py", "x\n", "")))
    assert shown == ["? Edit  +1 -2", "  │ src/a.py", *DIFF[1:], "  │ b.py", "  │ 1 - x"]


def test_the_middle_of_a_very_long_change_is_folded() -> None:
    request = a_request(FileChange("/p/a", "", "".join(f"line {number}\n" for number in range(10_000))))
    shown = lines(request)
    assert len(shown) == 202 and shown[1].endswith("1 + line 0")
    whole = lines(request, is_long=True)
    assert f"  │ … {len(whole) - 201:,} more lines" in shown and shown[-1].endswith("10000 + line 9999")
    assert "+10000" in shown[0] and any("changed lines are left out here" in line for line in whole) and len(whole) > 6000


def test_a_proposal_hides_no_part_of_a_change() -> None:
    change = FileChange("/p/a.sh", "echo 1\n", "rm -rf ~ #\recho 2\n")
    assert any("rm -rf ~" in line for line in lines(a_request(change)))
    assert not any("\x1b" in line for line in lines(a_request(FileChange("/p/\x1b[2J", "", "\x1b]0;x\x07"))))


def test_a_short_command_is_shown_by_the_question_alone() -> None:
    short = Proposal(a_request(name="bash", subject="ls\nrm -r x"), PLAIN, CWD)
    assert short.is_short and bare(short.short(40)) == ["  $ ls", "    rm -r x"]
    long = a_request(name="bash", subject="\n".join(f"step {number}" for number in range(5)))
    assert not Proposal(long, PLAIN, CWD).is_short
    assert lines(long) == ["? Command", *(f"  │ step {number}" for number in range(5))]


class Asking(Viewer):
    """A transcript that is asked about calls."""

    def begin(self, *calls: tuple[str, str, dict[str, Any]]) -> None:
        for call in calls:
            self.handle(events.ToolStart(*call))

    def ask(self, request: ApprovalRequest) -> None:
        self.handle(events.ToolApprovalRequested(request.call_id, request.tool_name, {}, request.title))
        self.transcript.propose(request, CWD)
        self.look()

    def answer(self, request: ApprovalRequest, *, is_allowed: bool = True, reason: str = "") -> None:
        self.handle(events.ToolApprovalResolved(request.call_id, request.tool_name, is_allowed, "user", reason))

    def end(self, request: ApprovalRequest, *changes: FileChange, failed: bool = False) -> None:
        result = ToolResult([TextContent("text for the model")], None, list(changes))
        self.handle(events.ToolEnd(request.call_id, request.tool_name, result, failed, 0))


EDIT = ("1", "edit", {"path": "src/a.py"})


def test_a_change_is_written_once_before_the_answer_and_not_after_it() -> None:
    viewer, request = Asking(), a_request(CHANGE)
    viewer.begin(EDIT)
    viewer.ask(request)
    assert viewer.lines == DIFF
    assert viewer.live() == ["○ Edit src/a.py  needs approval"]
    viewer.answer(request)
    viewer.end(request, CHANGE)
    assert viewer.lines == [*DIFF, "● Edit src/a.py  +1 -1 · allowed"]


def test_a_change_that_is_not_the_one_that_was_allowed_is_shown() -> None:
    viewer, request = Asking(), a_request(CHANGE)
    viewer.begin(EDIT)
    viewer.ask(request)
    viewer.answer(request)
    viewer.end(request, FileChange("/p/src/a.py", "one\nthree\n", "one\n2\n"))
    assert viewer.lines[len(DIFF) :] == ["● Edit src/a.py  +1 -1 · allowed", "  │ 1   one", "  │ 2 - three", "  │ 2 + 2"]


def test_a_denied_call_says_why() -> None:
    viewer, request = Asking(), a_request(CHANGE)
    viewer.begin(EDIT)
    viewer.ask(request)
    viewer.answer(request, is_allowed=False, reason="the user refused it: use a link")
    viewer.end(request, failed=True)
    assert viewer.lines[len(DIFF) :] == ["✗ Edit src/a.py  denied", "  │ the user refused it: use a link"]


def test_a_long_command_is_not_repeated_by_its_panel() -> None:
    command = "\n".join(f"step {number}" for number in range(5))
    viewer, request = Asking(), a_request(name="bash", subject=command)
    viewer.begin(("1", "bash", {"command": command}))
    viewer.ask(request)
    viewer.answer(request)
    viewer.end(request)
    assert viewer.lines[-2:] == ["● $ step 0 …  allowed", "  │ text for the model"]
    assert sum("step 1" in line for line in viewer.lines) == 1


def test_a_call_that_an_earlier_answer_allows_shows_its_diff() -> None:
    viewer, request = Asking(), a_request(CHANGE)
    viewer.begin(EDIT)
    viewer.handle(events.ToolApprovalResolved("1", "edit", True, "session"))
    viewer.end(request, CHANGE)
    assert viewer.lines == ["● Edit src/a.py  +1 -1", *DIFF[1:]]


def test_proposals_are_final_while_other_calls_run() -> None:
    viewer = Asking()
    first, second = a_request(CHANGE), a_request(FileChange("/p/b.py", "x\n", ""), id="2")
    viewer.begin(("0", "bash", {"command": "make"}), EDIT, ("2", "edit", {"path": "b.py"}))
    viewer.handle(events.ToolRunning("0", "bash", {"command": "make"}))
    viewer.ask(first)
    viewer.answer(first)
    viewer.ask(second)
    assert viewer.lines == [*DIFF, "", "? Edit b.py  -1", "  │ 1 - x"]
    assert viewer.live() == ["⠋ $ make", "○ Edit src/a.py", "○ Edit b.py  needs approval"]


@pytest.mark.parametrize("is_allowed", [True, False])
def test_the_call_of_a_sub_agent_has_a_line_and_no_panel(is_allowed: bool) -> None:
    viewer = Asking()
    viewer.begin(("t", "task", {"agent": "explore"}))
    request = a_request(CHANGE, id="inner", subagent="0-Look")
    viewer.ask(request)
    viewer.answer(request, is_allowed=is_allowed, reason="" if is_allowed else "too late")
    outcome = "allowed" if is_allowed else "denied: too late"
    assert viewer.lines == [f"{DIFF[0]}  sub-agent 0-Look", *DIFF[1:], f"● Edit src/a.py  sub-agent 0-Look · {outcome}"]
    assert viewer.live() == ["", "○ Agents explore"]
    viewer.handle(events.ToolApprovalResolved("unknown", "edit", True, "session"), events.AgentSettled())
    assert not any("unknown" in line or "Edit  " in line for line in viewer.lines)


def test_a_proposal_in_the_middle_of_an_answer_is_there_once() -> None:
    viewer = Asking()
    deltas(viewer, "First words")
    new = "".join(f"line {number}\n" for number in range(50))
    viewer.ask(a_request(FileChange("/p/a", "", new), subagent="x"))
    for _ in range(3):
        viewer.live(rows=10)
    viewer.handle(events.MessageEnd(answer(TextContent("First words"), ToolCall("9", "ls", {}))))
    viewer.live()
    assert [sum(line.endswith(f"+ line {number}") for line in viewer.lines) for number in range(50)] == [1] * 50
    assert sum("First words" in line for line in viewer.lines) == 1
