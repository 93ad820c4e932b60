"""Where extensions step in when the conversation changes: other sessions, other branches, compactions, commands of the host's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.session.hooked import TestHooks, Waits, answers
from tests.session.scene import (
    PATIENCE,
    Listener,
    WithSummaries,
    a_kept_session,
    a_session,
    a_tool,
    entry_of,
    file_of,
    held,
    said,
    settled,
    talk,
    texts,
)

from fairlead.config.settings import CompactionSettings
from fairlead.core import events as e
from fairlead.core.messages import BashExecutionMessage, ToolCall, Usage
from fairlead.errors import CompactionCancelled, EntryNotFound, FairleadError, MoveCancelled
from fairlead.session.history.entries import BranchSummaryEntry, CompactionEntry
from fairlead.session.hooks import Cancelled, CompactionPlan, Guide, Summary, TreePlan
from fairlead.session.host import BashDone
from fairlead.session.session import Session
from fairlead.testing import Scripted, Turn
from fairlead.tools.truncate import whole

NO = Cancelled("not now")
Move = Callable[[Session], Awaitable[Any]]


def one_answer() -> Scripted:
    return Scripted([Turn(text="Yes.")])


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def first_entry(session: Session) -> str:
    return entry_of(session.history.log, "one")


MOVES: dict[str, tuple[str, Move]] = {
    "new": ("session_before_switch", lambda session: session.history.new()),
    "switch": ("session_before_switch", lambda session: session.history.switch("elsewhere.jsonl")),
    "folder": ("session_before_switch", lambda session: session.history.open_folder("folder")),
    "handoff": ("session_before_switch", lambda session: session.history.hand_off()),
    "fork": ("session_before_fork", lambda session: session.fork(first_entry(session))),
    "clone": ("session_before_fork", lambda session: session.history.clone()),
    "navigate": ("session_before_tree", lambda session: session.navigate(first_entry(session), summarise=False)),
}


@pytest.mark.parametrize("name", MOVES)
async def test_a_move_that_an_extension_forbids_changes_and_stops_nothing(tmp_path: Path, name: str) -> None:
    hook, move = MOVES[name]
    turn, go = held("Done.")
    hooks = TestHooks(**{hook: answers(NO)})
    session = a_kept_session(Scripted([Turn(text="Yes."), turn]), tmp_path, hooks=hooks)
    await talk(session, "one")
    await session.prompt("two")
    left, before = session.history.conversation, files(tmp_path)
    with pytest.raises(MoveCancelled, match="not now"):
        await move(session)
    assert session.history.conversation is left and session.activity.is_streaming
    go.set()
    await settled(session)
    assert texts(session.messages) == ["one", "Yes.", "two", "Done."]
    assert files(tmp_path) == before
    assert [told for told in hooks.told if told.startswith(("start", "end"))] == ["start startup"]


@pytest.mark.parametrize("name", MOVES)
async def test_an_abort_ends_the_wait_for_an_extension_before_a_move(tmp_path: Path, name: str) -> None:
    hook, move = MOVES[name]
    asks = Waits()
    session = a_kept_session(one_answer(), tmp_path, hooks=TestHooks(**{hook: asks}))
    await talk(session, "one")
    left = session.history.conversation
    moving = asyncio.ensure_future(move(session))
    await asks.asked()
    session.activity.cancel()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(MoveCancelled):
            await moving
    assert session.history.conversation is left and asks.was_cut_off and said(session) == ["one"]


async def test_extensions_receive_events_before_and_after_every_conversation_change(tmp_path: Path) -> None:
    names: list[Any] = []

    def notes(what: str) -> Any:
        async def handler(other: str | None) -> None:
            names.append((what, other and Path(other).name, session.history.path and session.history.path.name))

        return handler

    hooks = TestHooks(session_before_switch=answers(), session_before_fork=answers())
    for reason in ("startup", "new", "resume", "fork"):
        hooks.on(f"start {reason}", notes(f"start {reason}"))
    for reason in ("new", "resume", "fork", "quit"):
        hooks.on(f"end {reason}", notes(f"end {reason}"))
    session = a_kept_session(one_answer(), tmp_path, hooks=hooks)
    await talk(session, "one")
    first = file_of(session).name
    await session.history.new()
    second = file_of(session).name
    await session.history.switch(str(tmp_path / "sessions" / first))
    await session.history.switch(str(tmp_path / "sessions" / first))
    await session.history.clone()
    third = file_of(session).name
    await session.close()
    assert names == [
        ("start startup", None, first),
        ("end new", second, first),
        ("start new", first, second),
        ("end resume", first, second),
        ("start resume", second, first),
        ("end resume", first, first),
        ("start resume", first, first),
        ("end fork", third, first),
        ("start fork", first, third),
        ("end quit", None, third),
    ]


async def test_work_started_by_an_extension_in_an_ending_session_is_stopped(tmp_path: Path) -> None:
    turn, _ = held()

    async def begins(target: str | None) -> None:
        await session.prompt("too late")

    hooks = TestHooks()
    hooks.on("end new", begins)
    session = a_kept_session(Scripted([turn]), tmp_path, hooks=hooks)
    left = session.history.conversation
    async with asyncio.timeout(PATIENCE):
        await session.history.new()
    assert not session.activity.is_streaming and session.history.conversation is not left
    assert texts(left.messages) == ["too late", ""]


async def test_the_end_of_a_session_waits_only_a_little_for_extensions(tmp_path: Path) -> None:
    never = Waits()
    hooks = TestHooks()
    hooks.on("end quit", never)
    session = a_session(one_answer(), tmp_path, hooks=hooks)
    await talk(session, "one")
    loop = asyncio.get_running_loop()
    began = loop.time()
    await session.close()
    assert never.was_cut_off and loop.time() - began < 0.5, "less than what is left of a second at the end of a process"
    unused = TestHooks()
    await a_session(one_answer(), tmp_path, hooks=unused).close()
    assert unused.told == [], "what was never loaded need not be told of the end"


# Branches


async def test_an_extension_can_write_the_summary_of_a_branch(tmp_path: Path) -> None:
    plans: list[TreePlan] = []
    moved: list[Any] = []

    async def writes(plan: TreePlan) -> Guide:
        plans.append(plan)
        return Guide(summary=Summary("What happened.", {"by": "an extension"}))

    async def hears(*about: Any) -> None:
        moved.append(about)

    model = one_answer()
    session = a_kept_session(model, tmp_path, hooks=TestHooks(session_before_tree=writes, session_tree=hears))
    await talk(session, "one", "two")
    log = session.history.log
    leaf, target = log.leaf, entry_of(log, "two")
    asked = len(model.requests)
    arrival = await session.navigate(target, summarise=True, instructions="Be brief.")
    assert len(model.requests) == asked, "the model need not write it"
    entry = log.get(arrival.summary or "")
    assert isinstance(entry, BranchSummaryEntry)
    assert (entry.summary, entry.details, entry.from_hook) == ("What happened.", {"by": "an extension"}, True)
    (plan,) = plans
    assert (plan.target_id, plan.old_leaf_id, plan.wants_summary, plan.instructions) == (target, leaf, True, "Be brief.")
    assert [entry["message"]["role"] for entry in plan.left_behind] == ["assistant"]
    assert moved == [(arrival.leaf, leaf, arrival.summary, True)]
    await session.navigate(target, summarise=False)
    assert moved[-1][2:] == (None, False), "a summary that nobody wanted is not used"


# Compactions

LONG = "-" * 4000
SMALL = CompactionSettings(keep_recent_tokens=500)


def long_session(tmp_path: Path, hooks: TestHooks, *turns: Turn, **changes: Any) -> tuple[Session, WithSummaries]:
    model = WithSummaries(turns or [Turn(text="Yes.")], [Turn(text="In short.")])
    return a_kept_session(model, tmp_path, hooks=hooks, compaction=SMALL, **changes), model


async def test_an_extension_can_write_the_summary_of_a_compaction(tmp_path: Path) -> None:
    plans: list[CompactionPlan] = []
    done: list[Any] = []

    async def writes(plan: CompactionPlan) -> Summary:
        plans.append(plan)
        return Summary("In other words.", {"by": "an extension"})

    async def hears(entry: dict[str, Any], reason: str, from_extension: bool) -> None:
        done.append((entry["summary"], entry["fromHook"], reason, from_extension))

    session, model = long_session(tmp_path, TestHooks(session_before_compact=writes, session_compact=hears))
    await talk(session, f"one {LONG}", f"two {LONG}")
    result = await session.compact("Be brief.")
    assert model.summaries.requests == []
    (plan,) = plans
    assert (plan.reason, plan.instructions) == ("manual", "Be brief.")
    assert plan.first_kept_entry_id == result.first_kept_entry_id and plan.tokens_before == result.tokens_before
    said = [entry["message"]["content"][0]["text"][:3] for entry in plan.to_summarise if entry["type"] == "message"]
    assert said == ["one", "Yes"] and len(plan.branch) > len(plan.to_summarise)
    entry = session.history.log.path()[-1]
    assert isinstance(entry, CompactionEntry)
    assert (entry.summary, entry.details, entry.from_hook) == ("In other words.", {"by": "an extension"}, True)
    assert result.estimated_tokens_after is not None
    assert 1000 < result.estimated_tokens_after < 1050, "one of the two long messages, and the summary"
    assert done == [("In other words.", True, "manual", True)]


async def test_an_extension_can_choose_what_a_compaction_keeps_but_only_of_this_conversation(tmp_path: Path) -> None:
    hooks = TestHooks()
    session, _ = long_session(tmp_path, hooks)
    await talk(session, f"one {LONG}", f"two {LONG}", "three")
    kept = entry_of(session.history.log, "three")
    hooks.on("session_before_compact", answers(Summary("Nothing.", first_kept_entry_id="nowhere")))
    with pytest.raises(EntryNotFound, match="An extension wants to keep what follows entry nowhere"):
        await session.compact()
    assert len(session.messages) == 6
    hooks.on("session_before_compact", answers(Summary("Short.", first_kept_entry_id=kept)))
    await session.compact()
    assert texts(session.messages) == ["CompactionSummaryMessage", "three", "Yes."]


async def test_a_compaction_that_an_extension_forbids_changes_and_stops_nothing(tmp_path: Path) -> None:
    turn, go = held("Done.")
    session, model = long_session(
        tmp_path, TestHooks(session_before_compact=answers(NO)), Turn(text="Yes."), Turn(text="Yes."), turn
    )
    await talk(session, f"one {LONG}", f"two {LONG}")
    await session.prompt("three")
    heard = Listener(session)
    with pytest.raises(CompactionCancelled, match=r"^Compaction cancelled: not now$"):
        await session.compact()
    assert session.activity.is_streaming and model.summaries.requests == []
    assert heard.of(e.CompactionEnd)[0].aborted
    go.set()
    await settled(session)
    assert texts(session.messages)[-2:] == ["three", "Done."]


async def test_a_compaction_that_extensions_allow_ends_the_run_first(tmp_path: Path) -> None:
    turn, _ = held()
    asks = Waits()
    session, _ = long_session(tmp_path, TestHooks(session_before_compact=asks), Turn(text="Yes."), Turn(text="Yes."), turn)
    await talk(session, f"one {LONG}", f"two {LONG}")
    await session.prompt("three")
    heard = Listener(session)
    compaction = session.compact()
    await asks.asked()
    assert session.activity.is_streaming
    asks.go.set()
    result = await compaction
    assert result.summary == "In short."
    assert heard.outline(e.AgentSettled, e.CompactionStart, e.CompactionEnd) == [
        *("AgentSettled", "CompactionStart", "CompactionEnd")
    ]


async def test_an_abort_ends_the_wait_for_an_extension_before_a_compaction(tmp_path: Path) -> None:
    asks = Waits()
    session, _ = long_session(tmp_path, TestHooks(session_before_compact=asks))
    await talk(session, f"one {LONG}", f"two {LONG}")
    compaction = session.compact()
    await asks.asked()
    async with asyncio.timeout(PATIENCE):
        await session.abort()
    assert asks.was_cut_off
    with pytest.raises(CompactionCancelled):
        await compaction


async def test_an_automatic_compaction_that_an_extension_forbids_is_not_asked_about_again_in_the_same_run(tmp_path: Path) -> None:
    hooks = TestHooks(session_before_compact=answers(NO))
    full, calls = Usage(input=199_000), [ToolCall("c", "act", {})]
    model = WithSummaries(
        [Turn(text="Yes."), Turn(tool_calls=calls, usage=full), Turn(text="Yes.", usage=full)], [Turn(text="In short.")]
    )
    session = a_session(model, tmp_path, [a_tool("act")], hooks=hooks, compaction=SMALL)
    heard = Listener(session)
    await talk(session, f"one {LONG}", f"two {LONG}")
    assert len(session.messages) == 6 and model.summaries.requests == []
    assert heard.of(e.CompactionEnd) == [e.CompactionEnd("threshold", aborted=True, error="not now")]
    assert hooks.told.count("session_before_compact") == 1


# Commands of the host's


async def test_an_extension_can_run_a_command_of_the_hosts(tmp_path: Path) -> None:
    message = BashExecutionMessage("make", "made elsewhere", False, False, 1, exit_code=0)
    hooks = TestHooks(user_bash=answers(BashDone(message, whole(message.output))))
    session = a_session(one_answer(), tmp_path, hooks=hooks)
    done = await session.host.bash("make")
    assert done.message is message and session.messages == [message]
    hooks.on("user_bash", answers(None))
    done = await session.host.bash("echo here", exclude_from_context=True)
    assert done.message.output == "here\n"


async def test_a_command_is_stopped_while_an_extension_looks_at_it(tmp_path: Path) -> None:
    look = Waits()
    session = a_session(one_answer(), tmp_path, hooks=TestHooks(user_bash=look))
    running = session.host.bash("echo never")
    await look.asked()
    session.host.abort_bash()
    async with asyncio.timeout(PATIENCE):
        done = await running
    assert look.was_cut_off and done.message.cancelled and done.message.output == ""


def test_a_blocked_move_names_the_extension_that_blocked_it() -> None:
    assert str(MoveCancelled("the build is running")) == "An extension forbids this: the build is running"
    assert isinstance(MoveCancelled(), FairleadError)
