"""Sub-agents: sessions that work for a call of another session, and end with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec import UNSET, structs
from tests.session.family import Cast, a_parent, lives, most_at_once, result_of, statuses, subagents_of, task_call, told
from tests.session.scene import PATIENCE, Listener, a_tool, file_of, file_size_limit, held, in_the_way, settled, talk
from tests.support.gates import wait_for_exit
from tests.support.session_file import read_strictly

from fairlead.config.settings import TaskSettings
from fairlead.core import events as e
from fairlead.core.messages import ToolCall, Usage, UserMessage, user_text
from fairlead.core.model import Model, ThinkingLevel
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import Tool
from fairlead.errors import ModelNotFound
from fairlead.session.context.budget import totals
from fairlead.session.history.entries import UsageEntry
from fairlead.session.history.listing import delete_session, list_all_sessions, list_sessions
from fairlead.session.history.paths import transcripts_folder
from fairlead.session.session import Session
from fairlead.session.subagents.agents import AgentDefinition
from fairlead.session.subagents.subagents import Order
from fairlead.testing import SCRIPTED_MODEL, Turn

DONE = Turn(text="all done")
ONE_AT_A_TIME = TaskSettings(max_concurrency=1)


def bash(command: str, id: str = "b") -> Turn:
    return Turn(tool_calls=[ToolCall(id, "bash", {"command": command})], chunk=1 << 20)


# A context of its own


async def test_a_sub_agent_knows_its_assignment_and_nothing_else(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("look around", context="It is dark."), DONE], look=[Turn(text="I see a door.")])
    session = a_parent(cast, tmp_path)
    await talk(session, "start")
    assert "I see a door." in told(session)
    assert statuses(session) == {"look": "completed"}
    await session.close()
    (request,) = cast.requests("look")
    (message,) = request.messages
    assert isinstance(message, UserMessage)
    assert user_text(message) == "Context:\nIt is dark.\n\nAssignment:\nlook around"
    assert message.attribution == "agent"
    assert "You are a test." not in request.system_prompt
    assert "one assignment" in request.system_prompt
    assert request.system_prompt.endswith(f"Current working directory: {tmp_path}")
    assert "\n\nAppended.\n\n" in request.system_prompt


async def test_without_a_context_the_assignment_is_all_that_is_said(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("look"), DONE], look=[DONE])
    await talk(session := a_parent(cast, tmp_path), "start")
    await session.close()
    assert user_text(cast.requests("look")[0].messages[0]) == "look"  # type: ignore[arg-type]


async def test_an_agent_has_the_tools_of_its_definition_as_far_as_its_parent_has_them(tmp_path: Path) -> None:
    agent = AgentDefinition(name="narrow", description="d", prompt="p", tools=("bash", "grep", "nothing"))
    cast = Cast(start=[task_call("narrow-one", agent="narrow"), DONE], narrow=[DONE])
    session = a_parent(cast, tmp_path, agents=[agent], active=["read", "grep", "task"])
    await talk(session, "start")
    await session.close()
    assert [tool.name for tool in cast.requests("narrow")[0].tools] == ["grep"]


async def test_an_agent_has_what_replaces_a_built_in_tool_of_its_parent_and_not_the_tool_itself(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("look"), DONE], look=[bash("touch made"), DONE])
    session = a_parent(cast, tmp_path, tools=[a_tool("bash")])
    await talk(session, "start")
    await session.close()
    assert [tool.description for tool in cast.requests("look")[0].tools if tool.name == "bash"] == ["A test."]
    assert not (tmp_path / "made").exists()


async def test_an_agent_without_a_list_of_tools_has_all_of_its_parents_but_those_bound_to_its_session(tmp_path: Path) -> None:
    own = Tool("mine", "A tool of this session.", {"type": "object"}, a_tool("x").run, bound=True)
    cast = Cast(start=[task_call("look"), DONE], look=[DONE])
    session = a_parent(cast, tmp_path, tools=[a_tool("extra"), own], active=["read", "extra", "mine", "task"])
    await talk(session, "start")
    await session.close()
    assert [tool.name for tool in cast.requests("look")[0].tools] == ["read", "extra", "task"]


async def test_a_sub_agent_works_where_its_parent_worked_when_it_began(tmp_path: Path) -> None:
    go = asyncio.Event()
    cast = Cast(start=[task_call("look"), DONE], look=[structs.replace(bash("pwd > here"), pause=go.wait), DONE])
    for name in ("there", "elsewhere"):
        (tmp_path / name).mkdir()
    session = a_parent(cast, tmp_path)
    heard = Listener(session)
    session.host.workspace.cwd = tmp_path / "there"
    await session.prompt("start")
    await heard.until(e.SubagentEvent)
    session.host.workspace.cwd = tmp_path / "elsewhere"
    go.set()
    await settled(session)
    await session.close()
    assert (tmp_path / "there" / "here").read_text().strip() == str(tmp_path / "there")


# Models

SMALL = structs.replace(SCRIPTED_MODEL, id="small")


def match(pattern: str) -> tuple[Model, ThinkingLevel | None]:
    if pattern == "nothing":
        raise ModelNotFound('No model matches "nothing".')
    return structs.replace(SMALL, id=pattern), "high"


def resolved(session: Session) -> list[object]:
    return [snapshot.progress.resolved_model for snapshot in subagents_of(session).snapshots()]


@pytest.mark.parametrize(
    ("of_agent", "overrides", "thinking", "expected"),
    [
        (None, {}, None, ("scripted/scripted-1", "low")),
        ("small", {}, None, ("scripted/small", "high")),
        ("small", {}, "minimal", ("scripted/small", "minimal")),
        ("small", {"own": "other"}, None, ("scripted/other", "high")),
        (None, {"own": "other"}, None, ("scripted/other", "high")),
        (None, {"task": "other"}, None, ("scripted/scripted-1", "low")),
    ],
)
async def test_the_model_is_that_of_the_settings_else_of_the_agent_else_of_the_parent(
    tmp_path: Path, of_agent: str | None, overrides: dict[str, str], thinking: ThinkingLevel | None, expected: tuple[str, str]
) -> None:
    agent = AgentDefinition(name="own", description="d", prompt="p", model=of_agent, thinking=thinking)
    cast = Cast(start=[task_call("look", agent="own"), DONE], look=[DONE])
    settings = TaskSettings(agent_model_overrides=overrides)
    session = a_parent(cast, tmp_path, agents=[agent], match=match, settings=settings, thinking="low")
    await talk(session, "start")
    assert resolved(session) == [expected[0]]
    await session.close()
    assert cast.requests("look")[0].thinking == expected[1]


async def test_a_model_that_does_not_exist_fails_the_sub_agent_and_nobody_else(tmp_path: Path) -> None:
    agent = AgentDefinition(name="own", description="d", prompt="p", model="nothing")
    cast = Cast(start=[task_call("look", agent="own"), DONE], look=[DONE])
    session = a_parent(cast, tmp_path, agents=[agent], match=match)
    heard = Listener(session)
    await talk(session, "start")
    assert lives(heard) == [("look", "started"), ("look", "failed")]
    assert result_of(session).is_error
    assert 'No model matches "nothing".' in told(session)
    assert resolved(session) == [UNSET]
    await session.close()


async def test_what_the_host_switched_off_is_off_below_too(tmp_path: Path) -> None:
    failing = Turn(error="overloaded", status=529, transient=True)
    cast = Cast(start=[task_call("look"), DONE], look=[failing])
    session = a_parent(cast, tmp_path)
    session.activity.auto_retry = False
    await talk(session, "start")
    assert len(cast.requests("look")) == 1
    await session.close()


# Limits


async def test_no_more_than_so_many_work_at_once(tmp_path: Path) -> None:
    turn, go = held("said")
    cast = Cast(start=[task_call("work one", "work two", "work three", "work four", "work five"), DONE], work=[turn])
    session = a_parent(cast, tmp_path, settings=TaskSettings(max_concurrency=2))
    heard = Listener(session)
    await session.prompt("start")
    await heard.until(e.SubagentLifecycle, 2)
    assert list(statuses(session).values()) == ["running", "running", "pending", "pending", "pending"]
    go.set()
    await settled(session)
    assert most_at_once(heard) == 2
    assert set(statuses(session).values()) == {"completed"}
    await session.close()


async def test_the_limit_holds_for_all_levels_together_and_nobody_waits_for_ever(tmp_path: Path) -> None:
    cast = Cast(
        start=[task_call("outer one", "outer two"), DONE],
        outer=[task_call("inner one", "inner two"), Turn(text="both inner ones answered")],
        inner=[bash("true"), Turn(text="inner answer")],
    )
    session = a_parent(cast, tmp_path, settings=ONE_AT_A_TIME)
    at_work = Working(session)
    await talk(session, "start")
    assert set(statuses(session).values()) == {"completed"}
    assert len(statuses(session)) == 6
    assert at_work.most == 1
    await session.close()


def two_calls(assignment: str) -> Turn:
    """A turn with two calls, each of two tasks."""
    calls = [task_call(f"{assignment} one", f"{assignment} two", id=id).tool_calls[0] for id in ("first", "second")]
    return Turn(tool_calls=calls, chunk=1 << 20)


async def test_the_limit_holds_for_calls_that_run_at_the_same_time(tmp_path: Path) -> None:
    turn, go = held("said")
    cast = Cast(start=[two_calls("work"), DONE], work=[turn])
    session = a_parent(cast, tmp_path, settings=TaskSettings(max_concurrency=2))
    heard = Listener(session)
    await session.prompt("start")
    await heard.until(e.SubagentLifecycle, 2)
    go.set()
    await settled(session)
    assert most_at_once(heard) == 2
    assert list(statuses(session).values()) == ["completed"] * 4
    await session.close()


class Working:
    """Counts the sub-agents that run a tool of the machine, which is work, at the same time."""

    def __init__(self, session: Session) -> None:
        self.most = self._now = 0
        session.subscribe(self._hear)

    def _hear(self, event: e.Event) -> None:
        match event:
            case e.SubagentEvent(event=e.ToolStart(tool_name="bash")):
                self._now += 1
                self.most = max(self.most, self._now)
            case e.SubagentEvent(event=e.ToolEnd(tool_name="bash")):
                self._now -= 1
            case _:
                pass


async def test_two_calls_of_one_sub_agent_lend_its_slot_and_take_it_back(tmp_path: Path) -> None:
    both = Turn(tool_calls=[task_call("inner", id=id).tool_calls[0] for id in ("one", "two")], chunk=1 << 20)
    cast = Cast(start=[task_call("outer"), DONE], outer=[both, bash("true"), DONE], inner=[DONE])
    # One tool at a time: the second call begins while the first one waits to get the slot back.
    session = a_parent(cast, tmp_path, settings=ONE_AT_A_TIME, concurrent_tools=1)
    await talk(session, "start")
    assert set(statuses(session).values()) == {"completed"}
    await talk(session, "start again")
    await session.close()


async def test_sub_agents_at_the_greatest_depth_have_nobody_below_them(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("outer"), DONE], outer=[task_call("inner"), DONE], inner=[DONE])
    session = a_parent(cast, tmp_path, settings=TaskSettings(max_recursion_depth=2))
    await talk(session, "start")
    await session.close()
    assert "task" in [tool.name for tool in cast.requests("outer")[0].tools]
    assert "task" not in [tool.name for tool in cast.requests("inner")[0].tools]


# Names and files


async def test_ids_are_unique_and_fit_for_file_names(tmp_path: Path) -> None:
    wanted = ["One", "one", "One", "a/b: ../c", "", "x" * 100, "-"]
    tasks = [{"id": id, "description": "d", "assignment": "look"} for id in wanted]
    call = Turn(tool_calls=[ToolCall("call", "task", {"agent": "explore", "tasks": tasks})])
    cast = Cast(start=[call, DONE], look=[DONE])
    session = a_parent(cast, tmp_path)
    await talk(session, "start")
    assert list(statuses(session)) == ["One", "one-2", "One-3", "a-b-c", "explore", "x" * 48, "explore-2"]
    await session.close()


async def test_conversations_are_kept_beside_the_session_in_folders_that_are_nested_like_the_agents(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("outer", "other"), DONE], outer=[task_call("inner"), DONE], inner=[DONE], other=[DONE])
    session = a_parent(cast, tmp_path, keep=True)
    await talk(session, "start")
    file = file_of(session)
    folder = transcripts_folder(file)
    files = {snapshot.id: Path(str(snapshot.session_file)) for snapshot in subagents_of(session).snapshots()}
    assert files == {
        "outer": folder / "0-outer.jsonl",
        "other": folder / "1-other.jsonl",
        "outer.inner": folder / "0-outer" / "0-inner.jsonl",
    }
    parents = {"outer": file, "other": file, "outer.inner": files["outer"]}
    for id, path in files.items():
        lines = read_strictly(path)
        assert lines.torn == b""
        assert lines.header["parentSession"] == str(parents[id])
        assert lines.user_texts() == [id.rpartition(".")[2]]
        assert path.stat().st_mode & 0o777 == 0o600
        session.history.sessions.open(path).close()  # nobody holds it any more
    assert read_strictly(file).torn == b""
    session.history.conversation.close()


async def test_a_session_that_is_deleted_takes_the_conversations_of_its_sub_agents_along(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("outer"), DONE], outer=[task_call("inner"), DONE], inner=[DONE])
    session = a_parent(cast, tmp_path, keep=True)
    await talk(session, "start")
    await session.close()
    file = file_of(session)
    folder = transcripts_folder(file)
    (folder / "0-outer" / "notes.txt").write_text("somebody else's")
    delete_session(file)
    assert sorted(tmp_path.rglob("*")) == [
        file.parent,
        folder,
        folder / "0-outer",
        folder / "0-outer" / "notes.txt",
    ]


async def test_the_conversations_of_sub_agents_are_not_listed_as_sessions(tmp_path: Path) -> None:
    session = a_parent(Cast(start=[task_call("look"), DONE], look=[DONE]), tmp_path, keep=True)
    await talk(session, "start")
    await session.close()
    file = file_of(session)
    assert [info.path for info in list_sessions(file.parent)] == [str(file)]
    for root in (file.parent, file.parent.parent):
        assert [info.path for info in list_all_sessions(root)] == [str(file)]


async def test_sub_agents_of_a_session_in_memory_leave_no_files(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("look"), DONE], look=[DONE])
    session = a_parent(cast, tmp_path)
    await talk(session, "start")
    assert [snapshot.session_file for snapshot in subagents_of(session).snapshots()] == [UNSET]
    assert subagents_of(session).transcript_of("look") is None
    await session.close()
    assert list(tmp_path.iterdir()) == []


async def test_a_session_that_is_opened_again_finds_its_old_transcripts_and_overwrites_none(tmp_path: Path) -> None:
    parts = {"start": [task_call("look"), DONE], "look": [Turn(text="first")]}
    session = a_parent(Cast(**parts), tmp_path, keep=True)
    await talk(session, "start")
    await session.close()
    old = subagents_of(session).transcript_of("look")
    assert old is not None
    before = old.read_bytes()

    session = a_parent(Cast(**parts), tmp_path, file=file_of(session))
    assert subagents_of(session).snapshots() == []
    assert subagents_of(session).is_transcript(old)
    await talk(session, "start")
    assert list(statuses(session)) == ["look-2"]
    assert old.read_bytes() == before
    await session.close()


async def test_only_files_in_the_sessions_own_folder_are_its_transcripts(tmp_path: Path) -> None:
    session = a_parent(Cast(start=[task_call("look"), DONE], look=[DONE]), tmp_path, keep=True)
    await talk(session, "start")
    file = file_of(session)
    folder = transcripts_folder(file)
    other = tmp_path / "other.jsonl"
    other.write_text("{}")
    (folder / "link.jsonl").symlink_to(other)
    subagents = subagents_of(session)
    assert subagents.is_transcript(folder / "0-look.jsonl")
    for refused in (file, other, folder / "link.jsonl", folder / ".." / "x.jsonl", folder / "0-look.txt", folder):
        assert not subagents.is_transcript(refused), refused
    await session.close()


async def test_where_no_file_can_be_made_the_sub_agent_fails_and_says_why(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("look"), DONE], look=[DONE])
    session = a_parent(cast, tmp_path, keep=True)
    folder = transcripts_folder(file_of(session))
    with in_the_way(folder):
        await talk(session, "start")
    assert statuses(session) == {"look": "failed"}
    assert str(folder) in told(session)
    assert session.activity.last_end is not None
    assert session.activity.last_end.message.text() == "all done"
    await session.close()


async def test_another_conversation_has_sub_agents_of_its_own(tmp_path: Path) -> None:
    session = a_parent(Cast(start=[task_call("look"), DONE], look=[DONE]), tmp_path, keep=True)
    await talk(session, "start")
    assert list(statuses(session)) == ["look"]
    await session.history.new()
    assert statuses(session) == {}
    await talk(session, "start")
    assert list(statuses(session)) == ["look"]
    await session.close()


# What it costs


async def test_what_sub_agents_spend_is_counted_once_on_every_level(tmp_path: Path) -> None:
    spent = Usage(input=1000, output=100)

    def turn(text: str) -> Turn:
        return Turn(text=text, usage=spent)

    def call(*assignments: str) -> Turn:
        return structs.replace(task_call(*assignments), usage=spent)

    cast = Cast(start=[call("outer", "other"), turn("a")], outer=[call("inner"), turn("b")], inner=[turn("c")], other=[turn("d")])
    session = a_parent(cast, tmp_path, keep=True)
    heard = Listener(session)
    await talk(session, "start")
    sums = totals(session.history.log)
    assert sums.tokens.total == 6 * 1100
    assert sums.cost == pytest.approx(6 * (0.003 + 0.0015))
    assert (sums.assistant_messages, sums.total_messages) == (2, 4)
    entries = [entry for entry in session.history.log.entries() if isinstance(entry, UsageEntry)]
    assert {entry.note: entry.usage.total_tokens for entry in entries} == {"other": 1100, "outer": 3 * 1100}
    assert {(entry.kind, entry.provider, entry.model) for entry in entries} == {("subagent", "scripted", "scripted-1")}
    assert len(heard.of(e.EntryAppended)) == 2
    by_id = {snapshot.id: snapshot.progress for snapshot in subagents_of(session).snapshots()}
    assert {id: progress.tokens for id, progress in by_id.items()} == {"outer": 3300, "other": 1100, "outer.inner": 1100}
    assert by_id["outer"].cost == pytest.approx(3 * (0.003 + 0.0015))
    await session.close()
    child = read_strictly(Path(str(subagents_of(session).transcript_of("outer"))))
    assert [(entry["kind"], entry["usage"]["totalTokens"]) for entry in child.of("usage")] == [("subagent", 1100)]


# Failure


async def test_one_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("good", "bad"), DONE], good=[Turn(text="good answer")], bad=[Turn(error="no such deployment")])
    session = a_parent(cast, tmp_path)
    await talk(session, "start")
    assert statuses(session) == {"good": "completed", "bad": "failed"}
    assert not result_of(session).is_error
    assert "good answer" in told(session)
    assert "Error: no such deployment" in told(session)
    await session.close()


async def test_a_bug_in_putting_one_together_is_told_to_the_parent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cast = Cast(start=[task_call("look"), DONE], look=[DONE])
    session = a_parent(cast, tmp_path)
    subagents_of(session).family.spawner = lambda *_: 1 // 0  # type: ignore[assignment]
    await talk(session, "start")
    assert statuses(session) == {"look": "failed"}
    assert "Internal error: ZeroDivisionError" in told(session)
    await session.close()
    assert "ZeroDivisionError" in caplog.text


# The end


async def test_an_abort_ends_all_levels_before_the_parent_settles(tmp_path: Path) -> None:
    def lasting(name: str) -> Turn:
        return bash(f"echo $$ > {name}; echo begun; sleep 600")

    parts = {"inner": [lasting("inner")], "other": [lasting("other")]}
    cast = Cast(start=[task_call("outer", "other"), DONE], outer=[task_call("inner"), DONE], **parts)
    session = a_parent(cast, tmp_path, settings=TaskSettings(max_concurrency=3))
    heard = Listener(session)
    await session.prompt("start")
    await until_tools_run(heard, 2)
    async with asyncio.timeout(PATIENCE):
        await session.abort()
    assert statuses(session) == {"outer": "aborted", "other": "aborted", "outer.inner": "aborted"}
    assert lives(heard).index(("outer.inner", "aborted")) < lives(heard).index(("outer", "aborted"))
    settled_at = heard.kinds().index("AgentSettled")
    assert not any(kind.startswith("Subagent") for kind in heard.kinds()[settled_at:])
    assert result_of(session).is_error
    assert told(session).endswith("Operation aborted")
    await session.close()
    for name in ("inner", "other"):
        wait_for_exit(int((tmp_path / name).read_text()))


async def until_tools_run(heard: Listener, count: int) -> None:
    """Wait until commands of that many sub-agents have said something."""
    seen, speaking = 0, set[str]()
    while len(speaking) < count:
        seen += 1
        match await heard.until(e.SubagentEvent, seen):
            case e.SubagentEvent(id=id, event=e.ToolUpdate(tool_name="bash", partial=partial)) if partial.content:
                speaking.add(id)
            case _:
                pass


async def test_those_that_have_not_begun_when_the_run_is_aborted_never_do(tmp_path: Path) -> None:
    turn, _ = held()
    cast = Cast(start=[two_calls("work"), DONE], work=[turn])
    session = a_parent(cast, tmp_path, settings=ONE_AT_A_TIME)
    heard = Listener(session)
    await session.prompt("start")
    await heard.until(e.SubagentEvent)
    await session.abort()
    assert list(statuses(session).values()) == ["aborted"] * 4
    assert lives(heard) == [("work", "started"), ("work", "aborted")]
    await session.close()
    assert len(cast.requests("work")) <= 1


async def test_closing_a_session_leaves_nobody_at_work(tmp_path: Path) -> None:
    turn, _ = held()
    cast = Cast(start=[task_call("work"), DONE], work=[turn])
    session = a_parent(cast, tmp_path, keep=True)
    heard = Listener(session)
    await session.prompt("start")
    await heard.until(e.SubagentLifecycle)
    path = subagents_of(session).transcript_of("work")
    async with asyncio.timeout(PATIENCE):
        await session.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert path is not None
    assert read_strictly(path).with_role("assistant")[-1]["stopReason"] == "aborted"


async def test_a_wait_that_is_cut_off_still_ends_those_who_work(tmp_path: Path) -> None:
    turn, _ = held()
    session = a_parent(Cast(work=[turn]), tmp_path)
    heard = Listener(session)
    subagents = subagents_of(session)
    agent = subagents.family.agents["task"]
    children = subagents.prepare(agent, [Order("work", "d", "work")], "", "call")
    waiting = asyncio.create_task(subagents.work(children, CancelToken()))
    await heard.until(e.SubagentLifecycle)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(PATIENCE):
        await subagents.ended()
    assert statuses(session) == {"work": "aborted"}
    await session.close()


# Telling


async def test_a_report_has_the_last_tools_and_lines_and_what_was_spent(tmp_path: Path) -> None:
    commands = [bash(f"echo {number}", id=f"b{number}") for number in range(7)]
    answer = Turn(text="\n\n".join(f"line {number} " + "x" * 300 for number in range(9)))
    cast = Cast(start=[task_call("look " + "y" * 2000), DONE], look=[*commands, answer])
    session = a_parent(cast, tmp_path)
    heard = Listener(session)
    await talk(session, "start")
    last = heard.of(e.SubagentProgress)[-1].payload
    assert last.parent_tool_call_id == "call"
    progress = last.progress
    assert progress.status == "completed"
    assert [(tool.tool, tool.args) for tool in progress.recent_tools] == [("bash", f"echo {n}") for n in range(2, 7)]
    assert [line[:6] for line in progress.recent_output] == [f"line {n}" for n in range(4, 9)]
    assert max(map(len, progress.recent_output)) == 200
    assert (progress.tool_count, progress.requests, progress.tokens) == (7, 8, 8 * 150)
    assert len(progress.assignment) == len(progress.task) == 1000
    assert len(cast.requests("look")[0].messages) == 1
    await session.close()


async def test_reports_are_few_however_much_happens(tmp_path: Path) -> None:
    commands = [Turn(tool_calls=[ToolCall(f"c{n}", "nothing", {})], chunk=1 << 20) for n in range(100)]
    cast = Cast(start=[task_call("look"), DONE], look=[*commands, DONE])
    session = a_parent(cast, tmp_path, tools=[a_tool("nothing")])
    heard = Listener(session)
    await talk(session, "start")
    assert sum(isinstance(each.event, e.ToolEnd) for each in heard.of(e.SubagentEvent)) == 100
    duration = heard.of(e.SubagentProgress)[-1].payload.progress.duration_ms / 1000
    assert len(heard.of(e.SubagentProgress)) <= duration / 0.2 + 2
    await session.close()


async def test_sub_agents_wait_while_whoever_listens_cannot_keep_up(tmp_path: Path) -> None:
    class Closed:
        """A gate that lets nobody through until the test says so."""

        def __init__(self) -> None:
            self.paused = False
            self.waiting = asyncio.Event()
            self.go = asyncio.Event()

        async def wait(self, cancel: CancelToken) -> None:
            self.waiting.set()
            await self.go.wait()
            self.paused = False

    cast = Cast(start=[task_call("look"), DONE], look=[DONE])
    session = a_parent(cast, tmp_path)
    gate = Closed()
    heard = Listener(session)

    def pause(event: e.Event) -> None:
        if isinstance(event, e.SubagentEvent) and isinstance(event.event, e.TurnStart):
            gate.paused = True

    session.subscribe(pause, gate)
    await session.prompt("start")
    async with asyncio.timeout(PATIENCE):
        await gate.waiting.wait()
    assert heard.kinds()[-1] == "SubagentEvent"
    gate.go.set()
    await settled(session)
    assert statuses(session) == {"look": "completed"}
    await session.close()


async def test_what_a_sub_agent_could_not_write_is_told_and_written_later(tmp_path: Path) -> None:
    turn, go = held("said")
    cast = Cast(start=[task_call("look"), DONE], look=[turn])
    session = a_parent(cast, tmp_path, keep=True)
    heard = Listener(session)
    await session.prompt("start")
    await heard.until(e.SubagentEvent)
    path = subagents_of(session).transcript_of("look")
    assert path is not None
    with file_size_limit(path.stat().st_size):
        go.set()
        await settled(session)
    assert any(str(path) in event.error for event in heard.of(e.ExtensionError))
    assert "said" in told(session)
    assert read_strictly(path).with_role("assistant") == []
    await talk(session, "again")
    assert read_strictly(path).with_role("assistant")[0]["content"] == [{"type": "text", "text": "said"}]
    await session.close()
