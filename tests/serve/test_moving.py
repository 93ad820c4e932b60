"""Moving within the tree of a session, taking back what waits, and what a snapshot has beside messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.serve.scene import Mirror, of_type, scene, snapshot, text_of, until
from tests.serve.web import web

from fairlead.protocol.http import http_objects as o


def texts(shown: Any) -> list[str]:
    return [text_of(message) for message in shown["messages"]]


async def test_a_session_continues_from_another_entry(tmp_path: Path) -> None:
    async with web(tmp_path, [{"text": "first"}, {"text": "second"}, {"text": "third"}]) as at:
        path = await at.session()
        for text in ("one", "two"):
            async with await at.open("GET", f"{path}/events") as stream:
                await at.call("POST", f"{path}/prompt", {"text": text})
                await stream.until("prompt_result")
        entries = (await at.call("GET", f"{path}/tree")).json["entries"]
        second = next(each for each in entries if each["text"] == "two")
        async with await at.open("GET", f"{path}/events") as stream:
            moved = await at.call("POST", f"{path}/move", {"entryId": second["id"]})
            assert (moved.status, moved.json["text"]) == (200, "two")
            [*_, event] = await stream.until("branch_changed")
            assert event["leafId"] == moved.json["leafId"]
            shown = (await at.call("GET", path)).json
            assert texts(shown) == ["one", "first"]
            assert shown["lastEvent"] == event["number"]
            await at.call("POST", f"{path}/prompt", {"text": "other"})
            mirror = Mirror(shown)
            for each in await stream.until("prompt_result"):
                mirror.apply(each)
        assert mirror.texts == texts((await at.call("GET", path)).json) == ["one", "first", "other", "third"]
        assert (await at.call("POST", f"{path}/move", {"entryId": None})).json == {"leafId": None}
        assert texts((await at.call("GET", path)).json) == []
        assert (await at.call("POST", f"{path}/move", {"entryId": "nothing"})).code == "entry_not_found"
        assert (await at.call("POST", f"{path}/move", {})).code == "bad_request"


async def test_a_move_stops_the_run_and_can_leave_a_summary(tmp_path: Path) -> None:
    turns = [{"text": "first"}, {"text": "word " * 100, "holdAfter": 5}, {"text": "What happened there."}]
    async with web(tmp_path, turns) as at:
        path = await at.session()
        async with await at.open("GET", f"{path}/events") as stream:
            await at.call("POST", f"{path}/prompt", {"text": "one"})
            await stream.until("prompt_result")
            await at.call("POST", f"{path}/prompt", {"text": "two"})
            await stream.until("message_update")
            entries = (await at.call("GET", f"{path}/tree")).json["entries"]
            answer = next(each for each in entries if each["kind"] == "assistant")
            moved = await at.call("POST", f"{path}/move", {"entryId": answer["id"], "summarize": True})
            assert moved.status == 200, moved
            seen = await stream.until("branch_changed")
            results = [each for each in seen if each["type"] == "prompt_result"]
            assert [each["status"] for each in results] == ["aborted"]
        shown = (await at.call("GET", path)).json
        assert [each["role"] for each in shown["messages"]] == ["user", "assistant", "branchSummary"]


async def test_queued_messages_are_withdrawn_and_reported(tmp_path: Path) -> None:
    async with web(tmp_path, [{"text": "word " * 100, "holdAfter": 5}, {"text": "unused"}]) as at:
        path = await at.session()
        async with await at.open("GET", f"{path}/events") as stream:
            await at.call("POST", f"{path}/prompt", {"text": "go"})
            await stream.until("message_update")
            await at.call("POST", f"{path}/steer", {"text": "left", "id": "s"})
            await at.call("POST", f"{path}/follow_up", {"text": "later", "id": "f"})
            cleared = await at.call("DELETE", f"{path}/queue")
            assert cleared.json == {"steering": ["left"], "followUp": ["later"]}
            shown = (await at.call("GET", path)).json["session"]
            assert "steering" not in shown
            at.provider.release()
            results: dict[str, str] = {}
            while len(results) < 3:
                event = (await stream.until("prompt_result"))[-1]
                results[event["id"]] = event["status"]
        assert [results["s"], results["f"]] == ["aborted", "aborted"]
        assert sorted(results.values()) == ["aborted", "aborted", "completed"]
        assert len(at.provider.requests) == 1
        assert (await at.call("DELETE", f"{path}/queue")).json == {"steering": [], "followUp": []}


async def test_a_snapshot_has_the_todos_and_the_working_subagents(tmp_path: Path) -> None:
    todo = {"ops": [{"op": "replace", "phases": [{"name": "Work", "tasks": [{"content": "Build it"}]}]}]}
    task = {"agent": "task", "tasks": [{"description": "look around", "assignment": "find it"}]}
    turns = [
        {"toolCalls": [{"name": "todo_write", "arguments": todo}]},
        {"toolCalls": [{"name": "task", "arguments": task}]},
        {"text": "word " * 100, "holdAfter": 5},
        {"text": "done"},
    ]
    async with scene(tmp_path, turns) as stage:
        session = await stage.hub.create("me", o.NewSession())
        assert (snapshot(session)["todos"], snapshot(session)["subagents"]) == ([], [])
        with session.feed.listen() as listener:
            await session.prompt(o.Prompt(text="go"))
            await until(listener, lambda event: event["type"] == "subagent_progress")
            working = snapshot(session)["subagents"]
            assert [each["description"] for each in working] == ["look around"]
            assert "Build it" in json.dumps(snapshot(session)["todos"])
            stage.provider.release()
            await until(listener, of_type("prompt_result"))
        assert snapshot(session)["subagents"] == []
