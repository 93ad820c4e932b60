"""Questions go to all clients of a session, and the first answer counts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.serve.scene import USER, of_type, scene, snapshot, until

from fairlead.errors import BadCommand
from fairlead.protocol.http import http_objects as o
from fairlead.serve.sessions.client_questions import QuestionGone
from fairlead.serve.sessions.hub_sessions import HubLimits

WRITE: dict[str, Any] = {"toolCalls": [{"name": "write", "arguments": {"path": "made.txt", "content": "made"}}]}


async def test_the_first_answer_counts_and_the_others_are_notified(tmp_path: Path) -> None:
    async with scene(tmp_path, [WRITE, {"text": "done"}]) as at:
        session = await at.hub.create(USER, o.NewSession(approval="ask"))
        with session.feed.listen() as one, session.feed.listen() as other:
            await session.prompt(o.Prompt(text="write it"))
            question = (await until(one, of_type("question")))[-1]
            assert (await until(other, of_type("question")))[-1] == question
            assert question["approval"]["toolName"] == "write"
            assert "made" in question["approval"]["diff"]
            assert [each["id"] for each in snapshot(session)["questions"]] == [question["id"]]
            (listed,) = (await at.hub.list(USER, None, None)).sessions
            assert (session.state().status, session.state().waiting, listed.waiting) == ("running", True, True)
            session.questions.answer(question["id"], o.Answer(decision="allow"))
            with pytest.raises(QuestionGone):
                session.questions.answer(question["id"], o.Answer(decision="deny"))
            for listener in (one, other):
                closed = (await until(listener, of_type("question_closed")))[-1]
                assert (closed["id"], closed["reason"]) == (question["id"], "answered")
            await until(one, of_type("agent_settled"))
        assert (at.project / "made.txt").read_text() == "made"
        assert snapshot(session)["questions"] == []
        assert not session.state().waiting


async def test_an_answer_that_does_not_fit_leaves_the_question_open(tmp_path: Path) -> None:
    async with scene(tmp_path, [WRITE, {"text": "done"}]) as at:
        session = await at.hub.create(USER, o.NewSession(approval="ask"))
        with session.feed.listen() as listener:
            await session.prompt(o.Prompt(text="write it"))
            question = (await until(listener, of_type("question")))[-1]
            for wrong in (o.Answer(), o.Answer(confirmed=True), o.Answer(value="Approve")):
                with pytest.raises(BadCommand, match="decision"):
                    session.questions.answer(question["id"], wrong)
            session.questions.answer(question["id"], o.Answer(decision="deny", reason="not now"))
            end = (await until(listener, of_type("tool_execution_end")))[-1]
            assert end["isError"]
            assert end["result"]["details"] == {"deniedBy": "user"}
            assert "not now" in str(end["result"])
        assert not (at.project / "made.txt").exists()


async def test_an_answer_writes_a_rule_and_one_that_does_not_fit_leaves_the_question_open(tmp_path: Path) -> None:
    turns = [{"toolCalls": [{"name": "bash", "arguments": {"command": command}}]} for command in ("ls", "ls -a")]
    async with scene(tmp_path, [*turns, {"text": "done"}]) as at:
        session = await at.hub.create(USER, o.NewSession(approval="ask"))
        with session.feed.listen() as listener:
            await session.prompt(o.Prompt(text="look"))
            question = (await until(listener, of_type("question")))[-1]
            assert question["approval"]["rules"] == ["ls", "ls *"]
            for wrong in ("*", "rm *", "ls -la", ""):
                with pytest.raises(BadCommand, match="rule"):
                    session.questions.answer(question["id"], o.Answer(decision="allow", rule=wrong))
            session.questions.answer(question["id"], o.Answer(decision="allow", rule="ls *", everywhere=True))
            seen = await until(listener, of_type("agent_settled"))
            assert not [each for each in seen if each["type"] == "question"]
        (rule,) = json.loads((at.project.parent / "home" / "settings.json").read_text())["approvals"]["rules"]
        assert rule == {"tool": "bash", "pattern": "ls *", "action": "allow"}


async def test_a_question_waits_for_a_client_that_is_away(tmp_path: Path) -> None:
    async with scene(tmp_path, [WRITE, {"text": "done"}], HubLimits(idle_seconds=0)) as at:
        session = await at.hub.create(USER, o.NewSession(approval="ask"))
        with session.feed.listen() as listener:
            await session.prompt(o.Prompt(text="write it"))
            await until(listener, of_type("question"))
        await at.hub.evict_idle()
        assert at.hub.sessions == [session]
        (question,) = snapshot(session)["questions"]
        session.questions.answer(question["id"], o.Answer(decision="allow"))
        await session.session.activity.idle()
        assert (at.project / "made.txt").exists()


async def test_an_abort_withdraws_the_question(tmp_path: Path) -> None:
    async with scene(tmp_path, [WRITE]) as at:
        session = await at.hub.create(USER, o.NewSession(approval="ask"))
        with session.feed.listen() as listener:
            await session.prompt(o.Prompt(text="write it"))
            question = (await until(listener, of_type("question")))[-1]
            await session.session.abort()
            closed = (await until(listener, of_type("question_closed")))[-1]
            assert (closed["id"], closed["reason"]) == (question["id"], "withdrawn")
        assert not (at.project / "made.txt").exists()


async def test_dialogs_check_their_answers(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": "ok"}]) as at:
        session = await at.hub.create(USER, o.NewSession())
        ui = session.session.host.ui
        with session.feed.listen() as listener:
            chosen = asyncio.create_task(ui.select("Which?", ["a", "b"]))
            question = (await until(listener, of_type("question")))[-1]
            with pytest.raises(BadCommand, match="one of the options"):
                session.questions.answer(question["id"], o.Answer(value="c"))
            session.questions.answer(question["id"], o.Answer(value="b"))
            assert await chosen == "b"
            confirmed = asyncio.create_task(ui.confirm("Sure?", timeout=0.01))
            assert not await confirmed
            reasons = [(await until(listener, of_type("question_closed")))[-1]["reason"] for _ in range(2)]
            assert reasons == ["answered", "expired"]


async def test_a_message_that_an_extension_handles_for_long_is_accepted_at_once(tmp_path: Path) -> None:
    extension = tmp_path / "asks.py"
    extension.write_text(
        "def setup(fl):\n"
        "    @fl.register_command('quiz')\n"
        "    async def quiz(arguments, ctx):\n"
        "        ctx.ui.notify(str(await ctx.ui.input('Which name?')))\n"
    )
    async with scene(tmp_path, [{"text": "ok"}], extensions=[str(extension)]) as stage:
        session = await stage.hub.create(USER, o.NewSession())
        with session.feed.listen() as listener:
            accepted = await session.prompt(o.Prompt(text="/quiz", id="q"))
            assert (accepted.status, accepted.id) == ("pending", "q")
            assert (await session.prompt(o.Prompt(text="/quiz", id="q"))).status == "pending"
            [question] = session.questions.all()
            session.questions.answer(question.id, o.Answer(value="Ada"))
            [*_, result] = await until(listener, of_type("prompt_result"))
            assert (result["id"], result["status"]) == ("q", "completed")
            assert (await session.prompt(o.Prompt(text="/quiz", id="q"))).status == "handled"
        assert stage.provider.requests == []
