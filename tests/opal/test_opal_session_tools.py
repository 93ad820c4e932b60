"""Opal's tools that need the session: tasks, sub_agent, use_skill, ask_user, debug_state; and all of them in one session."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.session.family import Cast
from tests.session.scene import Listener, a_tool, full_disk, settled, talk
from tests.support.gates import wait_for_exit

from fairlead import Agent, Discovery, Storage
from fairlead.agent.tool_sets.opal import TOOL_NAMES, opal_tools
from fairlead.agent.tool_sets.opal.tasks import open_tasks, tasks_of
from fairlead.core.events import SubagentEvent, ToolEnd, ToolStart, ToolUpdate
from fairlead.core.messages import TextContent, ToolCall
from fairlead.core.runtime import CancelToken, NoUi
from fairlead.core.tool import ToolContext
from fairlead.errors import SessionError
from fairlead.session.session import Session
from fairlead.testing import SCRIPTED_MODEL, Scripted, Turn
from fairlead.tools.opal.anchors import tag_line
from fairlead.wire.opal.opal_codec import outcome

NAMES = "read_file write_file edit_file grep shell sub_agent tasks use_skill ask_user debug_state".split()
DONE = Turn(text="all done")


def call(name: str, id: str = "call", /, **arguments: Any) -> Turn:
    return Turn(tool_calls=[ToolCall(id, name, arguments)], chunk=1 << 20)


def an_agent(stream: Any, root: Path, **changes: Any) -> Agent:
    """An agent whose tools are Opal's."""
    (root / "work").mkdir(exist_ok=True)
    options: dict[str, Any] = {"cwd": root / "work", "env": {"PATH": "/bin:/usr/bin", "HOME": str(root)}, "isolated": True}
    options["tools"] = opal_tools(data_dir=root / "data", only=changes.pop("tools", None))
    return Agent(model=SCRIPTED_MODEL, stream=stream, **(options | changes))


def ended(events: Sequence[Any], id: str = "call") -> dict[str, Any]:
    """The result of a call, as the wire has it."""
    end = next(event for event in events if isinstance(event, ToolEnd) and event.call_id == id)
    return outcome(end.result, end.is_error)


def text_of(end: ToolEnd) -> str:
    (block,) = end.result.content
    assert isinstance(block, TextContent)
    return block.text


def told(events: Sequence[Any], key: str) -> dict[str, Any]:
    """What an update of a tool told beside its output."""
    updates = [event.partial for event in events if isinstance(event, ToolUpdate)]
    return next(update.details[key] for update in updates if update.details and key in update.details)


def run(stream: Any, root: Path, **changes: Any) -> list[Any]:
    """All events of one prompt."""

    async def main() -> list[Any]:
        async with an_agent(stream, root, **changes) as agent:
            heard = Listener(agent.session)
            await talk(agent.session, "start")
            return list(heard)

    return asyncio.run(main())


def test_the_tools_are_in_the_order_of_opal_and_nothing_else_is_there(tmp_path: Path) -> None:
    script = Scripted([DONE])
    run(script, tmp_path)
    assert [tool.name for tool in script.requests[0].tools] == NAMES == list(TOOL_NAMES)


def test_the_model_may_use_the_tools_that_were_chosen_and_extra_ones(tmp_path: Path) -> None:
    script = Scripted([DONE])
    run(script, tmp_path, tools=["tasks", "grep"], extra_tools=[a_tool("mine")])
    assert [tool.name for tool in script.requests[0].tools] == ["tasks", "grep", "mine"]


def test_a_run_reads_edits_and_searches(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.txt").write_text("one\ntwo\n")
    script = Scripted(
        [
            call("edit_file", "edit", path="a.txt", start=tag_line(2, "two").partition("|")[0], new_string="three"),
            call("grep", "grep", pattern="three"),
            DONE,
        ]
    )
    events = run(script, tmp_path)
    assert ended(events, "edit")["meta"]["diff"]["path"] == "a.txt"
    assert tag_line(2, "three") in ended(events, "grep")["output"]


# tasks


def test_tasks_are_sent_as_an_object_and_to_the_model_as_json(tmp_path: Path) -> None:
    events = run(Scripted([call("tasks", action="insert", label="Fix parser", blocked_by=None), DONE]), tmp_path)
    told = ended(events)["output"]
    assert (told["kind"], told["total"], told["tasks"][0]["label"]) == ("tasks", 1, "Fix parser")
    end = next(event for event in events if isinstance(event, ToolEnd))
    assert json.loads(text_of(end)) == told


def test_a_batch_is_made_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    good = [
        {"action": "insert", "label": "a"},
        {"action": "insert", "label": "b", "blocked_by": [1], "parent_id": "1"},
        {"action": "update", "id": "1", "status": "done"},
        {"action": "list", "view": "ready"},
    ]
    circle = [{"action": "insert", "label": "c", "blocked_by": 2}, {"action": "update", "id": 2, "blocked_by": "3"}]
    wrong = [{"action": "insert", "label": "d"}, {"action": "delete", "id": 99}]
    script = Scripted(
        [
            call("tasks", "good", action="batch", ops=good),
            call("tasks", "circle", action="batch", ops=circle),
            call("tasks", "wrong", action="batch", ops=wrong),
            call("tasks", "after", action="list"),
            DONE,
        ]
    )
    events = run(script, tmp_path)
    told = ended(events, "good")["output"]
    assert [(op["action"], op["ok"], op["total"]) for op in told["operations"]] == [
        ("insert", True, 1),
        ("insert", True, 2),
        ("update", True, 2),
        ("list", True, 1),
    ]
    assert told["operations"][2]["changes"][1]["op"] == "auto_unblock"
    assert ended(events, "circle")["error"] == "Cycle detected: 2 → 3 → 2 (blocked_by). Nothing was changed."
    assert ended(events, "wrong")["error"].startswith("ops[1]: Task #99 not found.")
    assert [task["label"] for task in ended(events, "after")["output"]["tasks"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"action": "insert"}, "insert: expected a label"),
        ({"action": "batch"}, "batch: expected a list of operations"),
        ({"action": "batch", "ops": [{"action": "batch"}]}, "ops.0.action"),
        ({"action": "insert", "label": "x", "blocked_by": "1,two"}, "expected ids with commas between them"),
        ({"action": "insert", "label": "x", "blocked_by": "9" * 5000}, "expected ids with commas between them"),
        ({"action": "insert", "label": "x", "status": "later"}, "status"),
        ({"action": "drop"}, "action"),
    ],
)
def test_a_call_that_makes_no_sense_changes_nothing(arguments: dict[str, Any], problem: str, tmp_path: Path) -> None:
    script = Scripted([call("tasks", **arguments), call("tasks", "after", action="list"), DONE])
    events = run(script, tmp_path)
    assert problem in ended(events)["error"]
    assert ended(events, "after")["output"]["total"] == 0


def test_a_list_too_long_to_show_goes_to_the_model_without_its_texts(tmp_path: Path) -> None:
    ops = [{"action": "insert", "label": f"task {n}", "prompt": "x" * 2000} for n in range(40)]
    events = run(Scripted([call("tasks", action="batch", ops=ops), DONE]), tmp_path)
    end = next(event for event in events if isinstance(event, ToolEnd))
    assert "task 39" in text_of(end)
    assert len(text_of(end)) < 50 * 1024
    assert ended(events)["output"]["tasks"][39]["prompt"] == "x" * 2000


def labels(session: Session) -> list[str]:
    return [task.label for task in open_tasks(tasks_of(session.history.conversation).tasks.values())]


async def test_tasks_are_kept_with_the_conversation_where_it_stands(tmp_path: Path) -> None:
    kept: dict[str, Any] = {"store": Storage(tmp_path / "sessions")}
    turns = [call("tasks", action="insert", label="first"), DONE, call("tasks", action="insert", label="second"), DONE]

    async with an_agent(Scripted(turns), tmp_path, **kept) as agent:
        session = agent.session
        assert labels(session) == []
        await talk(session, "one")
        leaf = session.history.log.leaf
        await talk(session, "two")
        assert labels(session) == ["first", "second"]
        assert leaf is not None and session.history.path is not None
        file = session.history.path
    async with an_agent(Scripted([DONE]), tmp_path, session=file, **kept) as agent:
        assert labels(agent.session) == ["first", "second"]
        agent.session.history.conversation.move(leaf)
        assert labels(agent.session) == ["first"]


async def test_tasks_that_cannot_be_kept_are_refused(tmp_path: Path) -> None:
    async with an_agent(Scripted([DONE]), tmp_path, store=Storage(tmp_path / "sessions")) as agent:
        await talk(agent.session, "one")
        tool = agent.session.tools["tasks"]
        arguments, context = (
            tool.check_arguments({"action": "insert", "label": "lost"}),
            ToolContext("c", CancelToken(), lambda _: None),
        )
        with full_disk(agent.session), pytest.raises(SessionError):
            await tool.run(arguments, context)
        assert labels(agent.session) == []


# sub_agent


def test_a_sub_agent_answers_below_a_log_of_its_calls(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.txt").write_text("needle\n")
    cast = Cast(
        start=[call("sub_agent", prompt="look for it", tools=["grep", "shell"]), DONE],
        look=[call("grep", "g", pattern="needle"), call("shell", "s", command="exit 3"), Turn(text="Found it.")],
    )
    events = run(cast, tmp_path)
    assert ended(events)["output"] == (
        "## Sub-agent tool log\n"
        f'- grep({{"pattern":"needle"}}): ## a.txt\n{tag_line(1, "needle")}\n\n[1 match found]\n'
        '- shell({"command":"exit 3"}): ERROR: Command exited with code 3\n\n'
        "## Sub-agent response\nFound it."
    )
    (request, *_) = cast.requests("look")
    assert [tool.name for tool in request.tools] == ["grep", "shell"]
    start = told(events, "sub_agent")
    assert start["id"].startswith("sub-") and len(start["id"]) == 36
    assert (start["label"], start["model"], start["tools"]) == ("look for it", SCRIPTED_MODEL.id, ["grep", "shell"])
    kinds = [event for event in events if isinstance(event, ToolUpdate | SubagentEvent | ToolEnd)]
    assert isinstance(kinds[0], ToolUpdate) and isinstance(kinds[-1], ToolEnd)
    assert {event.id for event in kinds if isinstance(event, SubagentEvent)} == {start["id"]}


def test_a_sub_agent_has_no_tool_that_belongs_to_its_parent(tmp_path: Path) -> None:
    cast = Cast(start=[call("sub_agent", prompt="look", system_prompt="Be brief."), DONE], look=[Turn(text="seen")])
    events = run(cast, tmp_path)
    assert ended(events)["output"] == "seen"
    (request,) = cast.requests("look")
    assert [tool.name for tool in request.tools] == ["read_file", "write_file", "edit_file", "grep", "shell", "use_skill"]
    assert request.system_prompt.startswith("Be brief.")


def test_a_sub_agent_cannot_have_tools_that_are_not_there(tmp_path: Path) -> None:
    events = run(Scripted([call("sub_agent", prompt="look", tools=["grep", "ask_user"]), DONE]), tmp_path)
    assert ended(events)["error"].startswith("tools: a sub-agent cannot have ask_user. It can have: read_file,")


def test_the_failure_of_a_sub_agent_is_that_of_the_call(tmp_path: Path) -> None:
    cast = Cast(start=[call("sub_agent", prompt="look"), DONE], look=[Turn(error="the model is on fire")])
    assert "Sub-agent failed: the model is on fire" in ended(run(cast, tmp_path))["error"]


def left_running(root: Path) -> list[Turn]:
    """Turns that leave a command running whose number is in a file."""
    (root / "work").mkdir()
    os.mkfifo(root / "work/fifo")
    return [
        call("shell", "s", command="echo $$ > number; echo > fifo; cat", timeout=0),
        call("shell", "f", command="cat fifo"),
    ]


def test_background_commands_of_a_sub_agent_end_with_it(tmp_path: Path) -> None:
    cast = Cast(
        start=[call("sub_agent", prompt="look"), call("shell", "parent", action="wait", id="p1"), DONE],
        look=[*left_running(tmp_path), Turn(text="seen")],
    )
    events = run(cast, tmp_path)
    wait_for_exit(int((tmp_path / "work/number").read_text()))
    assert ended(events, "parent")["error"] == "There is no process 'p1'. None is running."


def test_background_commands_of_a_session_end_with_it(tmp_path: Path) -> None:
    run(Scripted([*left_running(tmp_path), DONE]), tmp_path)
    wait_for_exit(int((tmp_path / "work/number").read_text()))


# use_skill

SKILL = "---\nname: release\ndescription: How to release\n---\nRun the checks.\n"


def test_a_skill_is_loaded_and_announced_before_the_call_ends(tmp_path: Path) -> None:
    (tmp_path / "release").mkdir()
    (tmp_path / "release/SKILL.md").write_text(SKILL)
    script = Scripted([call("use_skill", skill_name="release"), call("use_skill", "none", skill_name="other"), DONE])
    events = run(script, tmp_path, discovery=Discovery(skills=[tmp_path / "release"]))
    assert "Run the checks." in ended(events)["output"]
    assert told(events, "skill") == {"name": "release", "description": "How to release"}
    assert ended(events, "none")["error"] == "There is no skill of the name 'other'. The skills are: release."
    order = [type(event) for event in events if isinstance(event, ToolStart | ToolUpdate | ToolEnd)]
    assert order[:3] == [ToolStart, ToolUpdate, ToolEnd]


# ask_user


class Person(NoUi):
    """Answers with what is given, and remembers what was asked; None waits until the run is aborted."""

    available = True

    def __init__(self, answer: str | None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, list[str]]] = []
        self.is_asked = asyncio.Event()

    async def select(self, title: str, options: Sequence[str], **rest: Any) -> str | None:
        return await self._answer(title, list(options), rest["cancel"])

    async def _answer(self, title: str, options: list[str], cancel: CancelToken) -> str | None:
        self.asked.append((title, options))
        self.is_asked.set()
        if self.answer is None:
            aborted = asyncio.Event()
            cancel.on_fire(aborted.set)
            await aborted.wait()
        return self.answer


def asked(person: Person | None, root: Path, *, abort: bool = False, **arguments: Any) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        async with an_agent(Scripted([call("ask_user", **arguments), DONE]), root) as agent:
            if person is not None:
                ui = person
                agent.session.host.make_ui = lambda: ui
            heard = Listener(agent.session)
            await agent.session.prompt("start")
            if abort and person is not None:
                await person.is_asked.wait()
                await agent.session.abort()
            await settled(agent.session)
            return ended(heard)

    return asyncio.run(main())


def test_the_answer_of_the_user_is_the_output(tmp_path: Path) -> None:
    person = Person("blue")
    assert asked(person, tmp_path, question="Which?", choices=["red", "blue"]) == {"ok": True, "output": "blue"}
    assert asked(person, tmp_path, question="Why?", choices=[]) == {"ok": True, "output": "blue"}
    assert person.asked == [("Which?", ["red", "blue"]), ("Why?", [])]


def test_a_question_without_a_user_is_an_error(tmp_path: Path) -> None:
    assert asked(None, tmp_path, question="Which?")["error"].startswith("The user cannot be asked")


def test_an_abort_takes_a_question_back(tmp_path: Path) -> None:
    assert asked(Person(None), tmp_path, abort=True, question="Which?")["error"] == "Operation aborted"


# debug_state


def test_the_state_of_the_session_is_shown_with_its_last_events(tmp_path: Path) -> None:
    arguments = {"event_limit": 3, "include_messages": True, "message_limit": 1}
    state = json.loads(ended(run(Scripted([call("debug_state", **arguments), DONE]), tmp_path))["output"])
    assert state["status"] == "running"
    assert state["tools"]["enabled"] == NAMES
    assert state["working_dir"] == str(tmp_path / "work")
    assert [message["role"] for message in state["messages"]["recent"]] == ["assistant"]
    assert [event["type"] for event in state["recent_events"]][-2:] == ["tool_start", "tool_running"]
    assert len(state["recent_events"]) == 3
