"""Sessions outlive their clients: many listeners, gapless snapshots, eviction, limits and an orderly end."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from tests.serve.scene import USER, Mirror, of_type, scene, snapshot, text_of, until, until_ended

from fairlead.errors import BusyError
from fairlead.messages import ImageContent
from fairlead.protocol.http import http_objects as o
from fairlead.serve.refusals import Refusal
from fairlead.serve.sessions.feed import GRACE, TOO_SLOW, Feed, RingBounds
from fairlead.serve.sessions.hub_sessions import HubLimits

LONG = "word " * 400
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def held(text: str, after: int) -> dict[str, Any]:
    return {"text": text, "holdAfter": after, "chunk": 50}


async def test_a_session_closed_at_server_shutdown_is_not_reported_missing(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": "ok"}]) as here:
        session = await here.hub.create(USER, o.NewSession())
        await here.hub.close()
        with pytest.raises(Refusal) as refused:
            await here.hub.open(USER, session.id)
        assert refused.value.code == "stopping"


async def test_every_listener_gets_every_event_with_the_same_numbers(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": LONG}]) as at:
        session = await at.hub.create(USER, o.NewSession())
        with session.feed.listen() as one, session.feed.listen() as other:
            await session.prompt(o.Prompt(text="hi"))
            seen = await until(one, of_type("agent_settled"))
            assert seen == await until(other, of_type("agent_settled"))
        assert [event["number"] for event in seen] == list(range(seen[0]["number"], seen[0]["number"] + len(seen)))
        # In delta form: an update does not repeat the message.
        assert all("message" not in event for event in seen if event["type"] == "message_update")


async def test_a_snapshot_and_the_events_after_it_have_no_gap_and_no_overlap(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": LONG, "chunk": 7, "delayMs": 1}, {"text": "second"}]) as at:
        session = await at.hub.create(USER, o.NewSession())
        mirrors: list[Mirror] = []
        events: list[Any] = []
        with session.feed.listen() as listener:
            for prompt in ("one", "two"):
                await session.prompt(o.Prompt(text=prompt, id=prompt))
                mirrors.append(Mirror(snapshot(session)))  # accepted, but no event has said so yet
                is_over = False
                while not is_over:
                    for number, event in await listener.next():
                        events.append({**json.loads(event), "number": number})
                    is_over = any(event["type"] == "prompt_result" and event["id"] == prompt for event in events)
                    mirrors.append(Mirror(snapshot(session)))
        final = Mirror(snapshot(session))
        assert final.texts == ["one", LONG, "two", "second"]
        assert len(mirrors) > 10
        assert any(mirror.open for mirror in mirrors)
        for mirror in mirrors:
            for event in events:
                if event["number"] > mirror.number:
                    mirror.apply(event)
            assert (mirror.texts, mirror.open, mirror.number) == (final.texts, None, final.number)


async def test_a_client_that_comes_back_gets_what_it_missed(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": LONG}]) as at:
        session = await at.hub.create(USER, o.NewSession())
        with session.feed.listen() as listener:
            await session.prompt(o.Prompt(text="hi"))
            seen = await until(listener, of_type("prompt_result"))
        with session.feed.listen(seen[3]["number"]) as again:
            assert not again.has_gap
            assert await until(again, of_type("prompt_result")) == seen[4:]


async def test_a_client_that_was_away_too_long_cannot_resume_the_feed(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": LONG, "chunk": 5, "delayMs": 1}], HubLimits(ring=RingBounds(events=4))) as at:
        session = await at.hub.create(USER, o.NewSession())
        with session.feed.listen() as listener:
            await session.prompt(o.Prompt(text="hi"))
            seen = await until(listener, of_type("prompt_result"))
        await asyncio.sleep(GRACE * 1.5)
        for number in (seen[0]["number"], 0, session.feed.last + 1):
            with session.feed.listen(number) as again:
                assert again.has_gap
                assert again.position == session.feed.last


async def test_a_slow_listener_is_dropped_and_the_others_get_everything() -> None:
    feed = Feed(RingBounds(events=10))
    with feed.listen() as slow, feed.listen() as fast:
        got: list[int] = []
        for _ in range(100):
            feed.publish(b"{}")
            got += [number for number, _ in await fast.next()]
        assert len(got) == 100
        await asyncio.sleep(GRACE * 1.5)
        ended = await until_ended(slow)
        assert (ended.reason, ended.code) == ("slow", TOO_SLOW)
        assert feed.dropped == 1


async def test_a_closed_feed_keeps_events_only_for_those_who_listen() -> None:
    unheard, heard = Feed(), Feed()
    with heard.listen() as listener:
        for feed in (unheard, heard):
            before = feed.last
            feed.publish(b"event")
            feed.close()
            assert feed.take(before) == ([(before + 1, b"event")] if feed is heard else None)
        assert [event for _, event in await listener.next()] == [b"event"]


async def test_the_ring_is_bounded_in_bytes() -> None:
    feed = Feed(RingBounds(size=1000))
    with feed.listen() as slow:
        for _ in range(50):
            feed.publish(b"x" * 100)
        await asyncio.sleep(GRACE * 1.5)
        assert (await until_ended(slow)).reason == "slow"
    with feed.listen(feed.last - 11) as listener:
        assert listener.has_gap


@pytest.mark.parametrize("length", [1, 300, 10_000], ids=["short", "usual", "too long to be compressed"])
async def test_a_client_that_comes_back_gets_every_event_that_the_ring_still_has(length: int) -> None:
    feed = Feed(RingBounds(events=100, size=1 << 30))
    sent = [b'{"number":%d,"text":"%b"}' % (number, b"x" * length) for number in range(250)]
    first = feed.last + 1
    for event in sent[:130]:
        feed.publish(event)
    await asyncio.sleep(GRACE * 1.5)  # now the bounds are enforced
    for event in sent[130:]:
        feed.publish(event)
    await asyncio.sleep(GRACE * 1.5)
    assert feed.take(first + 148) is None
    for position in range(149, 250):
        expected = list(enumerate(sent[position + 1 :], first + position + 1))
        taken: list[tuple[int, bytes]] = []
        while more := feed.take(taken[-1][0] if taken else first + position):
            taken += more
        assert taken == expected


async def test_events_that_wait_for_clients_take_little_memory() -> None:
    feed = Feed()
    tracemalloc.start()
    try:
        for number in range(1000):
            feed.publish(b'{"type":"message_update","delta":"%d","usage":"%b"}' % (number, b"always the same " * 20))
        assert tracemalloc.get_traced_memory()[0] < 100_000  # of 370,000 bytes
    finally:
        tracemalloc.stop()


async def test_a_short_answer_takes_little_memory() -> None:
    feeds = [Feed() for _ in range(100)]
    tracemalloc.start()
    try:
        for feed in feeds:
            for number in range(31):
                feed.publish(b'{"type":"message_update","delta":"%d","usage":"%b"}' % (number, b"always the same " * 20))
        assert tracemalloc.get_traced_memory()[0] / len(feeds) < 8_000  # of 12,000 bytes
    finally:
        tracemalloc.stop()


async def test_a_client_that_waits_takes_little_memory() -> None:
    feed = Feed()
    tracemalloc.start()
    try:
        listeners = [feed.listen() for _ in range(100)]
        assert tracemalloc.get_traced_memory()[0] / len(listeners) < 500
    finally:
        tracemalloc.stop()
    for listener in listeners:
        listener.end("closed")


async def test_many_events_at_the_same_moment_drop_no_listener() -> None:
    feed = Feed(RingBounds(events=10))
    with feed.listen() as listener:
        for _ in range(30):
            feed.publish(b"{}")
        assert len(await listener.next()) == 30


async def test_an_evicted_session_comes_back_from_its_file(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": "first"}, {"text": "second"}], HubLimits(idle_seconds=0)) as at:
        session = await at.hub.create(USER, o.NewSession(approval="deny"))
        with session.feed.listen() as listener:
            await session.prompt(o.Prompt(text="hi", id="p1"))
            await until(listener, of_type("prompt_result"))
            await at.hub.evict_idle()
            assert at.hub.sessions == [session]  # a client listens
        number = session.feed.last
        await at.hub.evict_idle()
        assert at.hub.sessions == []
        async with at.hub.using(USER, session.id) as again:
            assert again is not session
            assert [text_of(message) for message in snapshot(again)["messages"]] == ["hi", "first"]
            assert again.state().approval == "deny"  # as it was, not as it would be for a new one
            assert again.feed.last > number
            assert (await again.prompt(o.Prompt(text="hi", id="p1"))).status == "started"
            assert len(snapshot(again)["messages"]) == 2  # the prompt was not repeated


async def test_an_evicted_session_still_knows_how_its_prompts_ended(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": "ok"}], HubLimits(idle_seconds=0)) as at:
        session = await at.hub.create(USER, o.NewSession())
        await session.prompt(o.Prompt(text="hi", id="p1"))
        await session.session.activity.idle()
        for _ in range(2):
            await at.hub.evict_idle()
            assert at.hub.sessions == []
            async with at.hub.using(USER, session.id) as again:
                assert snapshot(again)["promptResults"] == [{"type": "prompt_result", "id": "p1", "status": "completed"}]


async def test_an_empty_session_is_evicted_and_keeps_its_id_and_choices(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": "ok"}], HubLimits(idle_seconds=0)) as at:
        session = await at.hub.create(USER, o.NewSession(name="Plans", approval="ask"))
        await at.hub.evict_idle()
        assert at.hub.sessions == []
        async with at.hub.using(USER, session.id) as again:
            assert (again.id, again.state().name, again.state().approval) == (session.id, "Plans", "ask")


async def test_too_many_sessions_evict_the_oldest_idle_one(tmp_path: Path) -> None:
    async with scene(tmp_path, [held("x" * 200, 1)], HubLimits(sessions=2)) as at:
        busy = await at.hub.create(USER, o.NewSession())
        idle = await at.hub.create(USER, o.NewSession())
        await busy.prompt(o.Prompt(text="work"))
        third = await at.hub.create(USER, o.NewSession())
        assert at.hub.sessions == [busy, third]
        with third.feed.listen():
            with pytest.raises(Refusal, match="2 sessions are in use") as refused:
                await at.hub.create(USER, o.NewSession())
            assert refused.value.status == 503
        async with at.hub.using(USER, idle.id):
            assert third not in at.hub.sessions


async def test_a_prompt_with_the_same_id_is_accepted_once(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": "ok"}]) as at:
        session = await at.hub.create(USER, o.NewSession())
        body = o.Prompt(text="hi", id="1")
        answers = await asyncio.gather(*(session.prompt(body) for _ in range(5)))
        assert {(answer.id, answer.status) for answer in answers} == {("1", "started")}
        with pytest.raises(Refusal, match="used for another message"):
            await session.prompt(o.Prompt(text="other", id="1"))
        await session.session.activity.idle()
        assert len(at.provider.requests) == 1


async def test_only_the_outcome_of_a_request_is_remembered(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": "ok"}] * 3) as stage:
        session = await stage.hub.create(USER, o.NewSession())
        with session.feed.listen() as listener:
            for number in range(3):
                await session.prompt(o.Prompt(text="hi", id=f"p{number}"))
                await until(listener, of_type("prompt_result"))
        gc.collect()
        names = [each.get_name() for each in gc.get_objects() if isinstance(each, asyncio.Task)]
        assert "fairlead-submit" not in names
        assert [(await session.prompt(o.Prompt(text="hi", id=f"p{number}"))).status for number in range(3)] == ["started"] * 3
        assert len(stage.provider.requests) == 3


async def test_a_prompt_that_was_refused_may_be_sent_again_with_its_id(tmp_path: Path) -> None:
    async with scene(tmp_path, [held("x" * 200, 1), {"text": "second"}]) as at:
        session = await at.hub.create(USER, o.NewSession())
        await session.prompt(o.Prompt(text="first"))
        await at.provider.until(lambda server: len(server.requests) == 1)
        with pytest.raises(BusyError):
            await session.prompt(o.Prompt(text="hi", id="1"))
        await session.session.abort()
        assert (await session.prompt(o.Prompt(text="hi", id="1"))).status == "started"
        await session.session.activity.idle()


async def test_every_accepted_prompt_gets_one_result(tmp_path: Path) -> None:
    turns: list[Any] = [held("x" * 200, 1), {"text": "ok"}, {"text": "ok"}, {"status": 400, "error": "no such thing"}]
    async with scene(tmp_path, turns) as at:
        session = await at.hub.create(USER, o.NewSession())
        with session.feed.listen() as listener:
            await session.prompt(o.Prompt(text="one", id="a"))
            await at.provider.until(lambda server: len(server.requests) == 1)
            assert (await session.prompt(o.Prompt(text="two", id="b", behavior="followUp"))).status == "queued"
            await session.session.abort()
            results = [(await until(listener, of_type("prompt_result")))[-1]]
            assert (results[0]["id"], results[0]["status"]) == ("a", "aborted")
            await session.prompt(o.Prompt(text="three", id="c"))
            while {result["id"] for result in results} != {"a", "b", "c"}:
                results.append((await until(listener, of_type("prompt_result")))[-1])
            assert [result["status"] for result in results] == ["aborted", "completed", "completed"]
            await session.prompt(o.Prompt(text="four", id="d"))
            last = (await until(listener, of_type("prompt_result")))[-1]
            assert (last["id"], last["status"]) == ("d", "error")
            assert "no such thing" in last["error"]


async def test_a_full_queue_refuses_messages(tmp_path: Path) -> None:
    async with scene(tmp_path, [held("x" * 200, 1)], HubLimits(queued=2)) as at:
        session = await at.hub.create(USER, o.NewSession())
        await session.prompt(o.Prompt(text="work"))
        await session.steer(o.QueuedMessage(text="1"))
        await session.follow_up(o.QueuedMessage(text="2"))
        with pytest.raises(Refusal, match="2 messages wait already") as refused:
            await session.steer(o.QueuedMessage(text="3"))
        assert refused.value.status == 429
        assert (session.state().steering, session.state().follow_up) == (["1"], ["2"])


async def test_closing_the_hub_aborts_saves_and_ends_the_listeners(tmp_path: Path) -> None:
    async with scene(tmp_path, [held("unfinished " * 50, 3)]) as at:
        session = await at.hub.create(USER, o.NewSession())
        with session.feed.listen() as listener:
            await session.prompt(o.Prompt(text="work"))
            await until(listener, of_type("message_update"))
            await at.hub.close()
            seen = await until(listener, of_type("prompt_result"))
            assert seen[-1]["status"] == "aborted"
            assert (await until_ended(listener)).reason == "closed"
        path = session.session.history.path
        assert path is not None
        assert "unfinished" in path.read_text()
        with pytest.raises(Refusal, match="shutting down"):
            await at.hub.create(USER, o.NewSession())


async def test_sessions_outside_the_root_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "project" / "inside"
    root.mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (root / "link").symlink_to(tmp_path / "secret")
    async with scene(tmp_path, [{"text": "ok"}], root=root, cwd=root) as at:
        for folder in (tmp_path, root / "link", root / ".." / ".."):
            with pytest.raises(Refusal, match="outside the root") as refused:
                await at.hub.create(USER, o.NewSession(cwd=str(folder)))
            assert refused.value.status == 403
        session = await at.hub.create(USER, o.NewSession(cwd=str(root)))
        assert session.state().cwd == str(root)


async def test_a_fork_is_another_session(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": "one"}, {"text": "two"}]) as at:
        session = await at.hub.create(USER, o.NewSession())
        for prompt in ("a", "b"):
            await session.prompt(o.Prompt(text=prompt))
            await session.session.activity.idle()
        entry = session.session.history.log.user_messages()[1][0]
        forked = await at.hub.fork(USER, session, o.Fork(entry_id=entry, position="before"))
        assert forked.text == "b"
        async with at.hub.using(USER, forked.session.id) as other:
            assert [text_of(message) for message in snapshot(other)["messages"]] == ["a", "one"]
        assert [text_of(message) for message in snapshot(session)["messages"]] == ["a", "one", "b", "two"]


async def test_the_list_has_open_and_saved_sessions(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": "ok"}], HubLimits(idle_seconds=0)) as at:
        saved = await at.hub.create(USER, o.NewSession())
        await saved.prompt(o.Prompt(text="What is this?"))
        await saved.session.activity.idle()
        await at.hub.evict_idle()
        opened = await at.hub.create(USER, o.NewSession(name="New"))
        listed = (await at.hub.list(USER, None, None)).sessions
        assert [(each.id, each.title, each.status) for each in listed] == [
            (opened.id, "New", "idle"),
            (saved.id, "What is this?", "saved"),
        ]
        await at.hub.delete(USER, saved.id)
        await at.hub.delete(USER, opened.id)
        assert (await at.hub.list(USER, None, None)).sessions == []
        with pytest.raises(Refusal, match="no session"):
            await at.hub.delete(USER, saved.id)


async def test_the_list_has_every_open_session_whatever_was_chosen_in_it(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": "ok"}], HubLimits(idle_seconds=0)) as at:
        first = await at.hub.create(USER, o.NewSession())
        await first.change(o.Changes(thinking="high"))  # which creates its file
        second = await at.hub.create(USER, o.NewSession())
        listed = (await at.hub.list(USER, None, None)).sessions
        assert [(each.id, each.status) for each in listed] == [(second.id, "idle"), (first.id, "idle")]


async def test_an_evicted_session_without_messages_is_listed_if_it_has_a_name(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": "ok"}], HubLimits(idle_seconds=0)) as at:
        named = await at.hub.create(USER, o.NewSession(name="Plans"))
        await at.hub.evict_idle()
        listed = (await at.hub.list(USER, None, None)).sessions
        assert [(each.id, each.title, each.status) for each in listed] == [(named.id, "Plans", "saved")]


async def test_the_list_has_sessions_that_begin_with_an_image_alone(tmp_path: Path) -> None:
    async with scene(tmp_path, [{"text": "A dot."}], HubLimits(idle_seconds=0)) as at:
        session = await at.hub.create(USER, o.NewSession())
        await session.prompt(o.Prompt(text="", images=[ImageContent(data=DOT, mime_type="image/png")]))
        await session.session.activity.idle()
        await at.hub.evict_idle()
        listed = (await at.hub.list(USER, None, None)).sessions
        assert [(each.id, each.title, each.status) for each in listed] == [(session.id, None, "saved")]
