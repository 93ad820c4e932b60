"""What people see of a conversation: events and messages in, lines out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.chat.terminal import Terminal

from fairlead import Agent, ToolResult, events
from fairlead.chat.view.text import width, without_styles
from fairlead.chat.view.theme import DARK, PLAIN
from fairlead.chat.view.transcript import Transcript
from fairlead.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn


class Viewer:
    """A transcript, the clock that it sees, and the final lines so far."""

    def __init__(self) -> None:
        self.time = 100.0
        self.transcript = Transcript(PLAIN, now=lambda: self.time)
        self.lines: list[str] = []

    def handle(self, *happened: events.Event) -> None:
        for event in happened:
            self.transcript.handle(event)
            self.look()

    def look(self) -> list[str]:
        self.transcript.finish(60)
        self.write()
        return self.lines

    def write(self) -> None:
        self.lines += bare(list(self.transcript.unwritten))
        self.transcript.confirm_written()

    def live(self, rows: int = 30, columns: int = 60) -> list[str]:
        lines = bare(self.transcript.live(columns, rows))
        self.write()
        return lines


def bare(lines: list[str]) -> list[str]:
    return [without_styles(line) for line in lines]


def answer(*content: TextContent | ThinkingContent | ToolCall, stop: str = "stop", error: str | None = None) -> AssistantMessage:
    return AssistantMessage(list(content), "api", "provider", "model", Usage(), stop, 0, error_message=error)  # pyright: ignore


async def played(tmp_path: Path, *turns: Turn, prompt: str = "go") -> tuple[Viewer, list[events.Event]]:
    """Run a scripted agent, and show its events."""
    viewer, seen = Viewer(), list[events.Event]()
    async with Agent(model=SCRIPTED_MODEL, stream=Scripted(list(turns)), cwd=tmp_path, approval="auto") as agent:
        async for event in agent.run(prompt):
            seen.append(event)
            viewer.handle(event)
            viewer.live()
    return viewer, seen


async def test_a_run_is_shown_in_order_with_blank_lines_between(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    edit = ToolCall("2", "edit", {"path": "a.txt", "edits": [{"oldText": "one", "newText": "two"}]})
    viewer, _ = await played(
        tmp_path,
        Turn(thinking="Hm.", text="I will look.", tool_calls=[ToolCall("1", "read", {"path": "a.txt"}), edit]),
        Turn(text="Done:\n\n- changed `a.txt`"),
        prompt="change it",
    )
    # On a busy machine a call takes long enough for its time to be shown.
    assert [re.sub(r" · \d+\.\d+s$", "", line) for line in viewer.lines] == [
        "> change it",
        "",
        "✻ Thought",
        "",
        "I will look.",
        "",
        "● Read a.txt  1 line",
        "● Edit a.txt  +1 -1",
        "  │ 1 - one",
        "  │ 1 + two",
        "",
        "Done:",
        "",
        "• changed `a.txt`",
    ]
    assert viewer.live() == []


async def test_the_lines_are_the_same_however_often_they_are_taken(tmp_path: Path) -> None:
    text = "# Title\n\nSome *words*.\n\n```py\nx = 1\n```\n\n1. a\n2. b\n"
    viewer, seen = await played(tmp_path, Turn(text=text, tool_calls=[ToolCall("1", "ls", {})]), Turn(text="End"))
    once = Viewer()
    for event in seen:
        once.transcript.handle(event)
    assert once.look() == viewer.lines


def test_an_open_answer_is_live_and_its_finished_blocks_are_final() -> None:
    viewer = Viewer()
    viewer.transcript.note("hello")
    deltas(viewer, "First.\n\nSecond")
    assert viewer.lines == ["hello", "", "First."]
    assert viewer.live() == ["", "Second"]


def deltas(viewer: Viewer, *texts: str, block: TextContent | ThinkingContent | None = None) -> None:
    """Let a message begin with one block."""
    from fairlead import PartialMessage

    partial = PartialMessage(SCRIPTED_MODEL, 0)
    partial.open()
    kind = block or TextContent("")
    delta = events.ThinkingDelta if isinstance(kind, ThinkingContent) else events.TextDelta
    viewer.handle(events.MessageStart(partial.shell()), events.BlockStarted(events.BlockStart(0, kind), partial))
    viewer.handle(*(delta(events.BlockDelta(0, text), partial) for text in texts))


def more(viewer: Viewer, text: str) -> None:
    """Let the block go on."""
    from fairlead import PartialMessage

    viewer.handle(events.TextDelta(events.BlockDelta(0, text), PartialMessage(SCRIPTED_MODEL, 0)))


def test_text_of_an_answer_that_has_left_the_screen_is_final() -> None:
    viewer = Viewer()
    deltas(viewer, "one " * 15 + "two " * 15 + "three")
    assert viewer.live()[:1] == ["one " * 14 + "one"]
    assert viewer.transcript.settle(1) == 1
    assert viewer.live() == ["two " * 14 + "two", "three"]
    assert viewer.transcript.settle(1) == 1
    viewer.handle(events.AgentSettled())
    assert viewer.lines == ["three"]


def test_text_that_becomes_final_while_it_leaves_the_screen_is_there_once() -> None:
    viewer = Viewer()
    deltas(viewer, "one " * 15 + "two")
    viewer.live()
    viewer.transcript.handle(events.AgentSettled())
    assert viewer.transcript.settle(1) == 1
    assert viewer.look() == ["two"]


def test_text_that_leaves_the_screen_before_a_frame_could_be_written_is_there_once() -> None:
    viewer = Viewer()
    deltas(viewer, "one " * 15 + "two " * 15)
    viewer.live()
    viewer.transcript.handle(events.AgentSettled())
    viewer.transcript.finish(30)
    viewer.transcript.live(30, 10)
    assert viewer.transcript.settle(1) == 1
    viewer.look()
    assert " ".join(viewer.lines) == "two " * 14 + "two"


def test_lines_of_tools_are_not_final_when_they_leave_the_screen() -> None:
    viewer = Viewer()
    deltas(viewer, "one " * 15 + "two " * 15)
    viewer.handle(events.BlockStarted(events.BlockStart(1, ToolCall("1", "bash", {})), None))  # pyright: ignore
    assert len(viewer.live()) == 4
    assert viewer.transcript.settle(4) == 2


def test_an_open_text_higher_than_the_screen_becomes_final_at_its_start() -> None:
    viewer = Viewer()
    deltas(viewer, "one " * 15 + "two " * 15 + "three")
    assert viewer.live(rows=2) == ["two " * 14 + "two", "three"]
    assert viewer.lines == ["one " * 14 + "one"]
    assert len(viewer.live(rows=2, columns=30)) == 2
    viewer.handle(events.AgentSettled())
    assert " ".join(viewer.lines) == "one " * 15 + "two " * 15 + "three"


def test_rows_of_a_table_that_have_left_the_screen_are_not_drawn_again_in_another_width() -> None:
    viewer = Viewer()
    deltas(viewer, "| name | value |\n|---|---|\n| a1 a2 | b1 b2 |\n", "| c1 c2 c3 c4 | d1 d2 d3 d4 |\n| e1 | f1")
    assert viewer.live(columns=20)[2:] == ["a1 a2    │ b1 b2", "c1 c2 c3 │ d1 d2 d3", "c4       │ d4", "e1       │ f1"]
    assert viewer.transcript.settle(4) == 5
    assert viewer.live(columns=15) == ["────────────────────"[:15], "name: e1", "value: f1"]
    assert viewer.live(columns=60) == ["e1          │ f1"]
    viewer.handle(events.AgentSettled())
    assert viewer.lines == ["e1          │ f1"]


def test_a_word_that_arrives_in_a_row_that_leaves_the_screen_is_there_as_a_whole() -> None:
    viewer = Viewer()
    deltas(viewer, "| name | value |\n|---|---|\n| a1 a2 | b1 b2 b3 b4 b1")
    assert viewer.live(columns=20)[2:] == ["a1 a2 │ b1 b2 b3 b4", "      │ b1"]
    assert viewer.transcript.settle(3) == 4
    more(viewer, "23 b5 |\n| c1 | d1")
    assert viewer.live(columns=60) == ["      │ b123 b5", "c1    │ d1"]
    viewer.handle(events.AgentSettled())
    assert viewer.lines == ["      │ b123 b5", "c1    │ d1"]


def test_a_frame_that_was_not_written_is_made_again() -> None:
    viewer = Viewer()
    viewer.transcript.note("hello")
    rows = "| name | value |\n|---|---|\n| a1 a2 a3 a4 | b1 b2 b3 b4 |\n| c1"
    deltas(viewer, rows)
    assert viewer.live(columns=20)[3:] == ["a1 a2 a3 │ b1 b2 b3", "a4       │ b4", "c1       │"]
    viewer.transcript.handle(events.AgentSettled())
    viewer.transcript.note("bye")
    for columns in (20, 50):
        viewer.transcript.finish(columns)
        viewer.transcript.live(columns, 1)
    assert viewer.transcript.settle(4) == 5
    assert viewer.look() == ["hello", "c1          │", "", "bye"]


def test_text_for_which_there_is_no_room_is_not_final() -> None:
    viewer = Viewer()
    deltas(viewer, "one two")
    assert viewer.live() == ["one two"]
    assert viewer.live(rows=0) == []
    assert viewer.lines == []
    assert viewer.transcript.settle(1) == 0
    assert viewer.live() == ["one two"]


def test_thinking_is_folded_to_one_line() -> None:
    viewer = Viewer()
    deltas(viewer, "First thought\n", "second thought", block=ThinkingContent(""))
    viewer.time += 12
    assert viewer.live() == ["⠋ Thinking 12s", "  First thought", "  second thought"]
    viewer.handle(events.AgentSettled())
    assert viewer.lines == ["✻ Thought for 12s"]


def test_thinking_can_be_shown() -> None:
    viewer = Viewer()
    viewer.transcript.toggle_thinking()
    deltas(viewer, "First thought\n", "second thought", block=ThinkingContent(""))
    assert viewer.lines == ["✻ First thought"]
    assert viewer.live() == ["  second thought"]
    viewer.handle(events.AgentSettled())
    assert viewer.lines == ["✻ First thought", "  second thought"]


def test_parallel_tools_stay_in_order() -> None:
    viewer = Viewer()
    for number in "12":
        arguments = {"command": f"run {number}"}
        viewer.handle(events.ToolStart(number, "bash", arguments), events.ToolRunning(number, "bash", arguments))
    viewer.handle(events.ToolEnd("2", "bash", ToolResult.text("two"), False))
    assert viewer.lines == []
    assert viewer.live() == ["⠋ $ run 1", "● $ run 2", "  │ two"]
    viewer.handle(events.ToolEnd("1", "bash", ToolResult.text("one"), False))
    assert viewer.lines == ["● $ run 1", "  │ one", "", "● $ run 2", "  │ two"]


def test_a_low_terminal_shows_less_output_of_running_tools() -> None:
    viewer = Viewer()
    viewer.handle(events.ToolStart("1", "bash", {"command": "x"}), events.ToolRunning("1", "bash", {"command": "x"}))
    output = ToolResult.text("\n".join("abcdefgh"))
    viewer.handle(events.ToolUpdate("1", "bash", {"command": "x"}, output))
    assert len(viewer.live(30)) == 6
    assert viewer.live(4) == ["⠋ $ x", "  │ g", "  │ h"]
    assert viewer.live(2) == ["⠋ $ x"]


def test_a_terminal_with_room_for_text_alone_shows_what_is_above_the_first_running_tool() -> None:
    viewer = Viewer()
    deltas(viewer, "Look: ")
    viewer.handle(events.ToolStart("1", "bash", {"command": "x"}), events.ToolRunning("1", "bash", {"command": "x"}))
    deltas(viewer, "Below.")
    assert viewer.live() == ["Look:", "", "⠋ $ x", "", "Below."]
    assert [line.rstrip() for line in viewer.transcript.live(80, 30, only_text=True)] == ["Look:", ""]


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        (40, ["Keys", "  Enter      send", "  Alt+Enter  send when the agent is done", "", "More", "  !x         run"]),
        (
            22,
            ["Keys", "  Enter      send", "  Alt+Enter  send when", "             the agent", "             is done", "", "More"],
        ),
        (20, ["Keys", "  Enter", "    send", "  Alt+Enter", "    send when the", "    agent is done", "", "More", "  !x"]),
    ],
)
def test_lists_have_two_columns_or_explanations_below_names(columns: int, lines: list[str]) -> None:
    viewer = Viewer()
    viewer.transcript.lists({"Keys": {"Enter": "send", "Alt+Enter": "send when the agent is done"}, "More": {"!x ": "run"}})
    viewer.transcript.finish(columns)
    shown = [without_styles(line) for line in viewer.transcript.unwritten]
    assert shown[: len(lines)] == lines


def test_a_call_that_waits_for_its_turn_does_not_spin() -> None:
    viewer = Viewer()
    viewer.handle(events.ToolStart("1", "bash", {"command": "x"}))
    assert viewer.live() == ["○ $ x"]


def test_a_call_that_waits_for_approval_says_so() -> None:
    viewer = Viewer()
    call = ("1", "bash", {"command": "rm x"})
    viewer.handle(events.ToolStart(*call), events.ToolApprovalRequested(*call, message="Allow bash?"))
    assert viewer.live() == ["○ $ rm x  needs approval"]


def test_an_abort_drops_calls_that_did_not_run() -> None:
    viewer = Viewer()
    deltas(viewer, "Let me")
    viewer.handle(events.BlockStarted(events.BlockStart(1, ToolCall("1", "bash", {})), None))  # pyright: ignore
    call = ToolCall("1", "bash", {"command": "ls"})
    viewer.handle(events.MessageEnd(answer(TextContent("Let me"), call, stop="aborted")), events.AgentSettled(aborted=True))
    assert viewer.lines == ["Let me", "", "○ $ ls  did not run", "", "■ Interrupted"]
    assert viewer.live() == []


def test_an_error_is_shown_once_and_a_retry_replaces_it() -> None:
    viewer = Viewer()
    failed = events.MessageEnd(answer(stop="error", error="Overloaded"))
    viewer.handle(failed, events.AgentEnd([], will_retry=True), events.RetryStart(1, 3, 2000, "Overloaded"))
    assert viewer.lines == ["↻ Overloaded", "  Trying again in 2.0s (retry 1 of 3)"]
    viewer.handle(failed, events.AgentEnd([]), events.AgentSettled())
    assert viewer.lines[2:] == ["✗ Overloaded"]


def test_each_cancelled_retry_is_shown() -> None:
    viewer = Viewer()
    failed = events.MessageEnd(answer(stop="error", error="Overloaded"))
    waits = [failed, events.AgentEnd([], will_retry=True), events.RetryStart(1, 3, 2000, "Overloaded")]
    for _ in range(2):
        viewer.handle(events.AgentStart(), *waits)
        viewer.handle(events.RetryEnd(False, 1, "Retry cancelled"), events.AgentSettled(aborted=True))
    assert viewer.lines.count("✗ Retry cancelled") == 2


def test_an_interrupted_retry_is_shown_once() -> None:
    viewer = Viewer()
    failed = events.MessageEnd(answer(stop="error", error="Overloaded"))
    viewer.handle(events.AgentStart(), failed, events.AgentEnd([], will_retry=True), events.RetryStart(1, 3, 2000, "Overloaded"))
    viewer.handle(events.AgentStart(), events.MessageEnd(answer(stop="aborted")), events.AgentEnd([]))
    viewer.handle(events.RetryEnd(False, 1, "Retry cancelled"), events.AgentSettled(aborted=True))
    assert viewer.lines[2:] == ["■ Interrupted"]


def test_a_cut_answer_is_marked() -> None:
    viewer = Viewer()
    viewer.transcript.message(answer(TextContent("Long"), stop="length"))
    assert viewer.look() == ["Long", "", "▲ The answer is cut off at the model's output limit."]


def test_a_compaction_is_one_line() -> None:
    viewer = Viewer()
    result = events.CompactionResult("the summary", "id", 45000, None, 9000)
    viewer.handle(events.CompactionStart("threshold"), events.CompactionEnd("threshold", result))
    viewer.handle(events.CompactionEnd("manual", error="Compaction failed: no model"))
    assert viewer.lines == ["◇ Compacted the conversation: 45,000 → 9,000 tokens", "◇ Compaction failed: no model"]


def test_a_past_conversation_is_shown_as_it_was() -> None:
    viewer = Viewer()
    call = ToolCall("1", "bash", {"command": "ls"})
    for message in (
        UserMessage([TextContent("look"), ImageContent("A" * 4000, "image/png")], 0),
        answer(ThinkingContent("hm"), TextContent("**Yes**"), call, ToolCall("2", "ls", {})),
        ToolResultMessage("1", "bash", [TextContent("a.txt")], False, 0),
        BashExecutionMessage("false", "", False, False, 0, exit_code=1),
        CustomMessage("hint", "from an extension", True, 0),
        CustomMessage("hidden", "not shown", False, 0),
        CompactionSummaryMessage("summary", 1200, 0),
    ):
        viewer.transcript.message(message)
    assert viewer.look() == [
        "> look",
        "  ▣ image/png, 3.0 kB",
        "",
        "Yes",
        "",
        "● $ ls",
        "  │ a.txt",
        "",
        "○ List .  did not run",
        "✗ $ false  exit 1",
        "",
        "◆ from an extension",
        "",
        "◇ Compacted 1,200 tokens of earlier conversation",
    ]


def test_long_prompts_are_folded() -> None:
    viewer = Viewer()
    viewer.transcript.message(UserMessage("\n".join(map(str, range(100))), 0))
    assert len(viewer.look()) == 31
    assert viewer.lines[-1] == "  … 70 more lines"


def test_it_changes_with_time_only_while_something_runs() -> None:
    viewer = Viewer()
    viewer.transcript.note("hello")
    assert viewer.transcript.changed
    viewer.look()
    viewer.live()
    viewer.time += 1
    assert not viewer.transcript.changed
    viewer.handle(events.ToolStart("1", "bash", {"command": "x"}), events.ToolRunning("1", "bash", {"command": "x"}))
    viewer.live()
    assert not viewer.transcript.changed
    viewer.time += 1
    assert viewer.transcript.changed


def test_all_lines_fit_a_narrow_terminal() -> None:
    transcript = Transcript(DARK, now=lambda: 0.0)
    text = "# A long heading of many words\n\n> " + "words " * 30 + "\n\n| a | b |\n|---|---|\n| " + "x" * 50 + " | 你好 |\n"
    transcript.message(UserMessage("a prompt of many words that does not fit", 0))
    transcript.message(answer(TextContent(text), ToolCall("1", "bash", {"command": "x" * 100})))
    transcript.handle(events.RetryStart(1, 3, 100, "an error of many words"))
    transcript.finish(19)
    lines = transcript.unwritten
    assert all(width(line) <= 19 for line in lines)
    terminal = Terminal(20, 100)
    terminal.write("\r\n".join(lines))
    assert len(terminal.visible) == len(lines)


def test_extension_errors_name_the_failed_part() -> None:
    viewer = Viewer()
    viewer.handle(events.ExtensionError("command:deploy", "command", "no host"))
    viewer.handle(events.ExtensionError("/x/guard.py", "tool_call", "no rule"))
    assert viewer.lines == ["▲ /deploy failed: no host", "▲ /x/guard.py (tool_call): no rule"]


async def test_a_stream_rule_is_named_and_the_answer_is_not_called_interrupted(tmp_path: Path) -> None:
    rules = tmp_path / ".fairlead" / "rules"
    rules.mkdir(parents=True)
    (rules / "no-lorem.md").write_text("---\ncondition: lorem\n---\nWrite real text.\n")
    viewer = Viewer()
    stream = Scripted([Turn(text="lorem ipsum"), Turn(text="Real text.")])
    async with Agent(
        model=SCRIPTED_MODEL, stream=stream, cwd=tmp_path, trust=True, env={"FAIRLEAD_HOME": str(tmp_path / "h")}
    ) as agent:
        async for event in agent.run("go"):
            viewer.handle(event)
    text = "\n".join(viewer.look())
    assert "↻ The answer broke the rule no-lorem and is asked for again." in text
    assert "Interrupted" not in text


def test_a_skill_is_shown_as_it_was_typed() -> None:
    viewer = Viewer()
    skill = '<skill name="release" location="/s/SKILL.md">\nReferences are relative to /s.\n\nTag it.\n</skill>'
    for said in (skill, f"{skill}\n\n1.2, please", "<skill> in a sentence"):
        viewer.transcript.message(UserMessage(said, 0))
    lines = [line.strip() for line in viewer.look() if line.strip()]
    assert lines == ["> /skill:release", "> /skill:release 1.2, please", "> <skill> in a sentence"]


def test_a_warning_of_the_session_names_no_extension() -> None:
    viewer = Viewer()
    viewer.handle(events.ExtensionError("session", "images", "The image is not sent."))
    assert [line for line in viewer.lines if line.strip()] == ["▲ The image is not sent."]
