"""The examples of extensions that listen: each shows over the pipes what it promises to show."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.behaviour.compactions import KEEP_LITTLE, LONG, NEARLY_FULL
from tests.behaviour.examples import EXAMPLES, answer, caught_up, notices, playing, requests, statuses, widgets
from tests.behaviour.scenarios.pi_retry import AT_ONCE, OVERLOADED
from tests.support.session_host import SUMMARY
from tests.support.stage import HELD, bash, calls, says

from fairlead import Agent, NoUi
from fairlead.core.runtime import NotifyKind
from fairlead.messages import ToolCall
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn


def test_done_bell_rings_once_for_each_run(tmp_path: Path) -> None:
    with playing(tmp_path, "done_bell", turns=[OVERLOADED, says("ok"), says("ok")], settings=AT_ONCE) as host:
        host.prompt("one")
        host.prompt("two")
        caught_up(host)
        assert [re.sub(r"\d+", "N", notice) for notice in notices(host)] == ["Done after N s"] * 2


def test_turn_meter_counts_what_the_work_has_taken(tmp_path: Path) -> None:
    usage = {"input": 1000, "output": 100}
    turns = [calls(bash("true"), bash("true"), usage=usage), says("ok", usage=usage)]
    with playing(tmp_path, "turn_meter", turns=turns) as host:
        host.prompt("go")
        caught_up(host)
        assert statuses(host, "meter") == [
            "turn 1 ...",
            "1 turns, 2 tools, 1100 tokens, $0.0045",
            "turn 2 ...",
            "2 turns, 2 tools, 2200 tokens, $0.0090",
        ]
        assert notices(host) == ["5 messages were added."]


def test_answer_preview_shows_the_end_of_an_answer_while_it_grows(tmp_path: Path) -> None:
    with playing(tmp_path, "answer_preview", turns=[HELD]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        assert host.until("extension_ui_request", method="setWidget")["widgetLines"][0].startswith("word")
        host.provider.release()
        host.until("agent_settled")
        caught_up(host)
        *shown, last = widgets(host, "preview")
        assert last is None and all(lines is not None and len(lines[0]) <= 60 for lines in shown)


def test_tool_timer_shows_tools_at_work(tmp_path: Path) -> None:
    with playing(tmp_path, "tool_timer", turns=[calls(bash("echo hello")), calls(bash("exit 1")), says("ok")]) as host:
        host.prompt("go")
        caught_up(host)
        shown = [lines[-1] for lines in widgets(host, "tools") if lines]
        assert shown[:2] == ["bash waits", "bash runs"] and "bash has said 6 characters" in shown
        ends = [re.sub(r"\d+\.\d", "0.0", line) for line in shown if "after" in line]
        assert ends == ["bash done after 0.0 s", "bash failed after 0.0 s"]


async def test_state_board_shows_todos_approvals_and_commands(tmp_path: Path) -> None:
    shown: list[object] = []

    class Board(NoUi):
        available = True

        def set_status(self, key: str, text: str | None) -> None:
            shown.append(text)

        def notify(self, message: str, kind: NotifyKind | None = None) -> None:
            shown.append(message)

    tasks = [{"content": "a"}, {"content": "b"}]
    arguments = {"ops": [{"op": "replace", "phases": [{"name": "Work", "tasks": tasks}]}]}
    model = Scripted([Turn(tool_calls=[ToolCall("1", "todo_write", arguments)]), Turn(text="ok"), Turn(text="ok")])
    example = (EXAMPLES / "state_board").with_suffix(".py")
    async with Agent(
        model=SCRIPTED_MODEL, stream=model, cwd=tmp_path, isolated=True, extensions=[example], tools=["todo_write"]
    ) as agent:
        agent.session.host.make_ui = Board
        await agent.ask("go")
        agent.session.approvals.set_mode("ask")
        agent.session.additions.reload()
        await agent.ask("and now?")
    assert "2 of 2 todos left" in shown and "approvals: ask" in shown
    assert any(str(text).endswith(" commands.") for text in shown)


def test_queue_panel_shows_what_waits(tmp_path: Path) -> None:
    with playing(tmp_path, "queue_panel", turns=[HELD, says("1"), says("2")]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.update("text_delta")
        host.request("steer", message="left")
        host.request("follow_up", message="home")
        host.provider.release()
        host.until("agent_settled")
        caught_up(host)
        assert widgets(host, "queue") == [["soon: left"], ["soon: left", "later: home"], ["later: home"], None]


def test_retry_notice_reports_attempts_and_their_end(tmp_path: Path) -> None:
    settings = {"retry": {"baseDelayMs": 1, "maxRetries": 1}}
    with playing(tmp_path, "retry_notice", turns=[OVERLOADED, says("ok"), OVERLOADED, OVERLOADED], settings=settings) as host:
        host.prompt("one")
        host.prompt("two")
        caught_up(host)
        first, good, second, bad = notices(host)
        assert first == second and re.fullmatch(r"Attempt 1 of 1 in [\d.]+ s: .*Overloaded.*", first)
        assert good == "The provider answers again." and bad.startswith("Given up: ") and "Overloaded" in bad


def test_retry_notice_tells_that_a_summary_is_requested_again(tmp_path: Path) -> None:
    settings = {**KEEP_LITTLE, "retry": {"baseDelayMs": 1}}
    with playing(tmp_path, "retry_notice", turns=[LONG, LONG, OVERLOADED, says("In short.")], settings=settings) as host:
        host.prompt("one")
        host.prompt("two")
        assert host.request("compact")["success"]
        caught_up(host)
        assert statuses(host, "summary") == ["asking again for a summary (compaction) ...", None]
        assert [text for text in notices(host) if text.startswith("The summary failed: ") and "Overloaded" in text]


def test_compaction_notice_shows_a_compaction_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    turns = [LONG, {**LONG, "usage": NEARLY_FULL}, SUMMARY]
    with playing(tmp_path, "compaction_notice", turns=turns, settings=KEEP_LITTLE) as host:
        host.prompt("one")
        host.prompt("two")
        caught_up(host)
        assert statuses(host, "compaction") == ["compacting (threshold) ...", None]
        assert notices(host) == [
            "The conversation is long. Older messages are being summed up.",
            "It was 190500 tokens long.",
        ]


def test_model_status_shows_the_model_and_the_level(tmp_path: Path) -> None:
    with playing(tmp_path, "model_status") as host:
        host.request("set_thinking_level", level="high")
        host.request("set_model", provider="fake", modelId="fake-2")
        host.request("cycle_model")
        caught_up(host)
        chosen, cycled = statuses(host, "model")
        assert chosen == "fake-2 (set, before: fake-1)"
        assert cycled is not None and cycled.endswith("(cycle, before: fake-2)")
        first = statuses(host, "thinking")[0]
        assert first is not None and first.endswith(" -> high")


def test_window_title_is_the_name_of_the_session(tmp_path: Path) -> None:
    with playing(tmp_path, "window_title") as host:
        host.request("set_session_name", name="Paint the boat")
        caught_up(host)
        assert [frame["title"] for frame in requests(host, "setTitle")] == ["project", "Paint the boat"]


def test_auto_name_is_the_first_line_of_the_user(tmp_path: Path) -> None:
    with playing(tmp_path, "auto_name") as host:
        host.prompt("Paint the boat\nin blue")
        host.prompt("And the oars")
        assert host.request("get_state")["data"]["sessionName"] == "Paint the boat"


def test_audit_log_has_entries_consent_and_questions(tmp_path: Path) -> None:
    turns = [OVERLOADED, calls(bash("echo hi")), says("ok")]
    flags = ["--approval", "ask", "--audit", "record.jsonl"]
    with playing(tmp_path, "audit_log", turns=turns, flags=flags, settings=AT_ONCE) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        answer(host, "select", value="Approve")
        host.until("agent_settled")
        caught_up(host)
        rows = [json.loads(line) for line in (host.around.cwd / "record.jsonl").read_text().splitlines()]
        told = [row for row in rows if row["what"] != "entry"]
        assert [row["what"] for row in told] == ["consent asked for", "asked", "answered", "consent"]
        assert told[0] == {"what": "consent asked for", "tool": "bash", "arguments": {"command": "echo hi"}}
        assert told[1]["kind"] == "select" and "bash" in told[1]["title"]
        assert told[3] == {"what": "consent", "tool": "bash", "approved": True, "by": "user"}
        assert [row["type"] for row in rows if row["what"] == "entry"] == ["context_edit"], "of the answer that failed"


def test_conduct_watch_reports_rules_and_todos(tmp_path: Path) -> None:
    rule = {".fairlead/rules/no-word.md": "---\ncondition: FORBIDDEN\n---\nNever write that word.\n"}
    tasks = [{"content": "a"}, {"content": "b"}]
    plan = calls(("todo_write", {"ops": [{"op": "replace", "phases": [{"name": "Work", "tasks": tasks}]}]}))
    done = calls(("todo_write", {"ops": [{"op": "update", "id": f"task-{n}", "status": "completed"} for n in (1, 2)]}))
    turns = [says("FORBIDDEN " * 50), plan, says("I stop."), done, says("done")]
    settings = {"tasks": {"todoClearDelay": 0}}
    flags = ["--tools", "read,todo_write"]
    with playing(tmp_path, "conduct_watch", turns=turns, files=rule, settings=settings, flags=flags) as host:
        host.prompt("go!")
        host.until("todo_auto_clear")
        caught_up(host)
        assert notices(host) == [
            "The model broke: no-word",
            "2 left to do (reminder 1 of 3)",
            "Done todos were removed from the list.",
        ]


def test_subagent_board_has_a_line_for_each(tmp_path: Path) -> None:
    task = {"id": "Look", "description": "look", "assignment": "look around"}
    turns = [
        {"match": "look around", **calls(bash("true"))},
        {"match": "look around", **says("seen")},
        calls(("task", {"agent": "task", "tasks": [task]})),
        says("ok"),
    ]
    with playing(tmp_path, "subagent_board", turns=turns, dialect="omp") as host:
        host.prompt("go")
        caught_up(host)
        lines = [line for shown in widgets(host, "subagents") if shown for line in shown]
        ids = {line.partition(":")[0] for line in lines}
        states = [line.partition(": ")[2] for line in lines]
        assert len(ids) == 1 and "Look" in ids.pop()
        assert states[0] == "started" and "runs bash" in states and "completed" in states
        assert any(re.fullmatch(r"completed, 1 tools, \d+ tokens", state) for state in states)


def test_tip_once_is_given_once(tmp_path: Path) -> None:
    turns = [calls(bash("true")), calls(bash("exit 1")), calls(bash("exit 2")), says("ok")]
    with playing(tmp_path, "tip_once", turns=turns) as host:
        host.prompt("go")
        caught_up(host)
        assert len(notices(host)) == 1
