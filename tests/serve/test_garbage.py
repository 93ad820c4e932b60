"""The garbage collector of a process with many sessions."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
from tests.serve.scene import USER, of_type, scene, until

from fairlead.protocol.http import http_objects as o
from fairlead.serve import http_server
from fairlead.serve.http_server import Collector
from fairlead.serve.sessions.live_session import HubSession


async def test_open_sessions_are_skipped_and_closed_ones_are_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "ENOUGH_CLOSED", 1)
    monkeypatch.setattr(http_server, "ENOUGH_OPENED", 2)
    try:
        async with scene(tmp_path, [{"text": "ok"}]) as stage:
            collector = Collector(stage.hub)
            session = await stage.hub.create(USER, o.NewSession())
            kept = await stage.hub.create(USER, o.NewSession())
            collector.tidy()
            frozen = gc.get_freeze_count()
            assert frozen > 0
            closed = weakref.ref(session)
            await stage.hub.delete(USER, session.id)
            del session
            gc.collect()
            assert closed() is not None, "a collection skips what is frozen"
            collector.tidy()
            assert closed() is None
            assert stage.hub.sessions == [kept]
            assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


async def test_a_server_with_few_sessions_collects_although_one_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "ENOUGH_CLOSED", 2)
    try:
        async with scene(tmp_path, [{"text": "a long answer", "holdAfter": 1}]) as stage:
            collector = Collector(stage.hub)
            working, *others = [await stage.hub.create(USER, o.NewSession()) for _ in range(9)]
            await working.prompt(o.Prompt(text="hi"))
            assert working.is_working
            closed: list[weakref.ref[HubSession]] = []
            while others:
                closed.append(weakref.ref(others.pop()))
                await stage.hub.delete(USER, referent(closed[-1]).id)
                collector.tidy()
                # Two are enough if at most eight are open.
                assert [each() is None for each in closed] == [True] * (len(closed) // 2 * 2) + [False] * (len(closed) % 2)
    finally:
        gc.unfreeze()


async def test_a_session_that_waits_for_an_answer_delays_no_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "ENOUGH_CLOSED", 1)
    monkeypatch.setattr(http_server, "ENOUGH_PART", 100)
    call = {"toolCalls": [{"name": "bash", "arguments": {"command": "true"}}]}
    try:
        async with scene(tmp_path, [call, {"text": "ok"}], approval="ask") as stage:
            collector = Collector(stage.hub)
            waiting, other = [await stage.hub.create(USER, o.NewSession()) for _ in range(2)]
            with waiting.feed.listen() as listener:
                await waiting.prompt(o.Prompt(text="hi"))
                await until(listener, of_type("question"))
            assert (waiting.status, waiting.is_working) == ("running", False)
            closed = weakref.ref(other)
            await stage.hub.delete(USER, other.id)
            del other
            collector.tidy()
            assert closed() is None
    finally:
        gc.unfreeze()


def referent(reference: weakref.ref[HubSession]) -> HubSession:
    found = reference()
    assert found is not None
    return found


async def test_nothing_is_collected_while_little_happens(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": "ok"}]) as stage:
        before = gc.get_freeze_count()
        collector = Collector(stage.hub)
        await stage.hub.create(USER, o.NewSession())
        collector.tidy()
        assert gc.get_freeze_count() == before
