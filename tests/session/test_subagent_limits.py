"""How many sub-agents work at the same time, and how deep they are nested."""

from __future__ import annotations

from pathlib import Path

from tests.session.family import DONE, ONE_AT_A_TIME, Cast, a_parent, bash, most_at_once, statuses, task_call, two_calls
from tests.session.scene import Listener, held, settled, talk

from fairlead.config.settings import TaskSettings
from fairlead.core import events as e
from fairlead.session.session import Session
from fairlead.testing import Turn


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


async def test_the_sub_agent_limit_covers_all_levels_without_deadlock(tmp_path: Path) -> None:
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


async def test_sub_agents_at_the_depth_limit_cannot_start_others(tmp_path: Path) -> None:
    cast = Cast(start=[task_call("outer"), DONE], outer=[task_call("inner"), DONE], inner=[DONE])
    session = a_parent(cast, tmp_path, settings=TaskSettings(max_recursion_depth=2))
    await talk(session, "start")
    await session.close()
    assert "task" in [tool.name for tool in cast.requests("outer")[0].tools]
    assert "task" not in [tool.name for tool in cast.requests("inner")[0].tools]
