"""The HTTP interface over real connections."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from tests.serve.scene import Mirror, text_of
from tests.serve.web import next_message, web
from websockets.exceptions import ConnectionClosed, InvalidStatus

from fairlead.protocol.http.operations import OPERATIONS
from fairlead.serve.access import FAILURES_OF_ONE
from fairlead.serve.sessions.feed import RingBounds
from fairlead.serve.sessions.hub_sessions import HubLimits

LONG = "word " * 400
WRITE: dict[str, Any] = {"toolCalls": [{"name": "write", "arguments": {"path": "made.txt", "content": "made"}}]}


async def test_a_client_prompts_and_follows_the_events(tmp_path: Path) -> None:
    async with web(tmp_path, [{"text": LONG, "chunk": 20}]) as at:
        path = await at.session(name="First")
        before = (await at.call("GET", path)).json
        assert before["session"]["status"] == "idle"
        async with await at.open("GET", f"{path}/events?after={before['lastEvent']}") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            accepted = await at.call("POST", f"{path}/prompt", {"text": "hi", "id": "p1"})
            assert (accepted.status, accepted.json) == (202, {"status": "started", "id": "p1"})
            mirror = Mirror(before)
            for event in await stream.until("prompt_result"):
                mirror.apply(event)
        after = (await at.call("GET", path)).json
        assert mirror.texts == [text_of(message) for message in after["messages"]] == ["hi", LONG]
        assert mirror.number == after["lastEvent"]
        assert (await at.call("GET", f"{path}?messages=1")).json["skippedMessages"] == 1


async def test_a_client_that_reconnects_misses_nothing(tmp_path: Path) -> None:
    async with web(tmp_path, [{"text": LONG, "chunk": 20, "delayMs": 1}]) as at:
        path = await at.session()
        mirror = Mirror((await at.call("GET", path)).json)
        await at.call("POST", f"{path}/prompt", {"text": "hi"})
        is_over = False
        connections = 0
        while not is_over:
            connections += 1
            async with await at.open("GET", f"{path}/events", headers={"Last-Event-ID": str(mirror.number)}) as stream:
                events = stream.events()
                for _ in range(3):  # few: how many updates there are depends on time
                    event = await anext(events)
                    mirror.apply(event)
                    if event["type"] == "prompt_result":
                        is_over = True
                        break
                await events.aclose()
        assert connections > 3
        assert mirror.texts == ["hi", LONG]


async def test_an_expired_event_number_asks_the_client_for_a_snapshot(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        path = await at.session()
        async with await at.open("GET", f"{path}/events?after=17") as stream:
            (event,) = await stream.until("resync")
            assert event["lastEvent"] == (await at.call("GET", path)).json["lastEvent"]
            await at.call("POST", f"{path}/prompt", {"text": "hi"})
            seen = await stream.until("prompt_result")
            assert seen[0]["number"] == event["lastEvent"] + 1


async def test_events_also_come_over_a_websocket(tmp_path: Path) -> None:
    async with web(tmp_path, [{"text": "Hello"}]) as at:
        path = await at.session()
        last = (await at.call("GET", path)).json["lastEvent"]
        async with at.socket(f"{path}/events?after={last}") as socket:
            await at.call("POST", f"{path}/prompt", {"text": "hi"})
            numbers: list[int] = []
            while True:
                message = await next_message(socket)
                numbers.append(message["number"])
                if message["event"]["type"] == "prompt_result":
                    break
        assert numbers == list(range(last + 1, last + 1 + len(numbers)))


async def test_a_slow_client_is_dropped_and_the_others_are_not(tmp_path: Path) -> None:
    limits = HubLimits(ring=RingBounds(events=50, size=100_000))
    async with web(tmp_path, limits=limits) as at:
        path = await at.session()
        (session,) = at.server.hub.sessions
        async with (
            at.socket(f"{path}/events", max_queue=1) as slow,
            await at.open("GET", f"{path}/events") as stuck,
            await at.open("GET", f"{path}/events") as fast,
        ):
            transport: Any = stuck.writer.transport
            for each in (slow.transport, transport):
                each.pause_reading()
            events = fast.events()
            for _ in range(300):  # more than the buffers of the connections hold
                number = session.feed.publish(b'{"type":"filling","text":"%b"}' % (b"x" * 65_000))
                assert (await anext(events))["number"] == number
            await events.aclose()
            for each in (slow.transport, transport):
                each.resume_reading()
            with pytest.raises(ConnectionClosed):
                while True:
                    await next_message(slow)
            assert slow.close_code == 4408
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
                await stuck.rest()
            assert "fairlead_listeners_dropped_total 2" in (await at.call("GET", "/metrics")).body.decode()


async def test_questions_are_answered_over_http(tmp_path: Path) -> None:
    async with web(tmp_path, [WRITE, {"text": "done"}]) as at:
        path = await at.session(approval="ask")
        async with await at.open("GET", f"{path}/events") as one, await at.open("GET", f"{path}/events") as other:
            await at.call("POST", f"{path}/prompt", {"text": "write"})
            question = (await one.until("question"))[-1]
            address = f"{path}/questions/{question['id']}"
            assert (await at.call("POST", address, {"value": "yes"})).code == "bad_request"
            assert (await at.call("POST", address, {"decision": "allow"})).status == 204
            second = await at.call("POST", address, {"decision": "deny"})
            assert (second.status, second.code) == (409, "question_closed")
            closed = (await other.until("question_closed"))[-1]
            assert (closed["id"], closed["reason"]) == (question["id"], "answered")
            await one.until("agent_settled")
        assert (at.project / "made.txt").read_text() == "made"


async def test_a_repeated_prompt_starts_one_run(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        path = await at.session()
        replies = await asyncio.gather(*(at.call("POST", f"{path}/prompt", {"text": "hi", "id": "x"}) for _ in range(5)))
        assert {reply.status for reply in replies} == {202}
        other = await at.call("POST", f"{path}/prompt", {"text": "other", "id": "x"})
        assert (other.status, other.code) == (409, "id_reused")
        assert len(at.provider.requests) <= 1


async def test_a_run_is_steered_and_aborted(tmp_path: Path) -> None:
    async with web(tmp_path, [{"text": "x" * 500, "holdAfter": 1}]) as at:
        path = await at.session()
        await at.call("POST", f"{path}/prompt", {"text": "work"})
        assert (await at.call("POST", f"{path}/prompt", {"text": "more"})).code == "busy"
        assert (await at.call("POST", f"{path}/steer", {"text": "left"})).json["status"] == "queued"
        assert (await at.call("POST", f"{path}/follow_up", {"text": "later"})).json["status"] == "queued"
        state = (await at.call("GET", path)).json["session"]
        assert (state["status"], state["steering"], state["followUp"]) == ("running", ["left"], ["later"])
        assert (await at.call("POST", f"{path}/abort")).json["status"] == "idle"


async def test_the_tree_names_the_entries_to_fork_from(tmp_path: Path) -> None:
    async with web(tmp_path, [WRITE, {"text": "First"}, {"text": "Second"}]) as at:
        path = await at.session()
        assert (await at.call("GET", f"{path}/tree")).json == {"entries": [], "leafId": None}
        for text in ("write", "more"):
            last = (await at.call("GET", path)).json["lastEvent"]
            async with await at.open("GET", f"{path}/events?after={last}") as stream:
                await at.call("POST", f"{path}/prompt", {"text": text})
                await stream.until("prompt_result")
        tree = (await at.call("GET", f"{path}/tree")).json
        entries = tree["entries"]
        assert [each["kind"] for each in entries] == ["user", "assistant", "toolResult", "assistant", "user", "assistant"]
        assert [entries[number]["text"] for number in (0, 1, 3, 5)] == ["write", "calls write", "First", "Second"]
        assert [each.get("parentId") for each in entries] == [None, *(each["id"] for each in entries[:-1])]
        assert tree["leafId"] == entries[-1]["id"]
        forked = (await at.call("POST", f"{path}/fork", {"entryId": entries[4]["id"], "position": "before"})).json
        assert (forked["text"], forked["session"]["messageCount"]) == ("more", 4)


async def test_a_session_is_changed_forked_listed_and_deleted(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        path = await at.session()
        changed = await at.call("PATCH", path, {"name": "Plans", "approval": "deny", "thinking": "low"})
        assert [changed.json[name] for name in ("name", "approval", "thinking")] == ["Plans", "deny", "low"]
        assert (await at.call("PATCH", path, {"model": "nobody/nothing"})).code == "model_not_found"
        assert (await at.call("POST", f"{path}/fork", {})).code == "bad_request"
        async with await at.open("GET", f"{path}/events") as stream:
            await at.call("POST", f"{path}/prompt", {"text": "hi"})
            await stream.until("prompt_result")
        forked = (await at.call("POST", f"{path}/fork", {})).json["session"]
        assert forked["approval"] == "deny"
        listed = (await at.call("GET", "/v1/sessions")).json["sessions"]
        assert {each["id"] for each in listed} == {path.rpartition("/")[2], forked["id"]}
        assert (await at.call("DELETE", path)).status == 204
        assert (await at.call("GET", path)).code == "session_not_found"
        assert (await at.call("POST", f"/v1/sessions/{forked['id']}/compact", {})).code == "nothing_to_compact"
        models = (await at.call("GET", "/v1/models")).json["models"]
        assert [model["id"] for model in models] == ["test-model"]


BAD_BODIES: list[tuple[bytes, str]] = [
    (b"{", "malformed"),
    (b'{"text": 1}', "malformed"),
    (b'{"text": "hi", "unknown": 1}', "malformed"),
    (b"{}", "malformed"),
    (b'{"text": "\xff"}', "malformed"),
    (b"[" * 100_000, "malformed"),
    (b'{"text": "\\ud800"}', "malformed"),
]


async def test_bad_requests_get_one_kind_of_error(tmp_path: Path) -> None:
    async with web(tmp_path, request_bytes=200_000) as at:
        path = await at.session()
        for body, text in BAD_BODIES:
            reply = await at.call("POST", f"{path}/prompt", raw=body)
            assert (reply.status, reply.code) == (400, "bad_request"), body[:20]
            assert text in reply.json["error"]["message"]
        cases: list[tuple[int, str, Any]] = [
            (413, "too_large", at.call("POST", f"{path}/prompt", raw=b"x" * 200_001)),
            (415, "not_json", at.call("POST", f"{path}/prompt", raw=b"{}", headers={"Content-Type": "text/plain"})),
            (404, "not_found", at.call("GET", "/v2/sessions")),
            (405, "wrong_method", at.call("DELETE", "/v1/sessions")),
            (404, "session_not_found", at.call("GET", "/v1/sessions/none")),
            (404, "not_found", at.call("GET", "/v1/sessions/..%2f..%2fetc")),
            (400, "bad_request", at.call("GET", f"{path}/events?after=x")),
            (400, "bad_request", at.call("POST", "/v1/sessions", {"cwd": "relative"})),
            (400, "bad_request", at.call("POST", "/v1/sessions", {"cwd": "/\0"})),
            (400, "bad_request", at.call("GET", "/v1/sessions?cursor=x")),
            (400, "bad_request", at.call("GET", "/v1/sessions?cwd=relative")),
            (404, "session_not_found", at.call("GET", "/v1/sessions/*")),
            (413, "too_large", at.call("POST", "/login", {"code": "x" * 5000})),
            (400, "model_not_found", at.call("POST", "/v1/sessions", {"model": "nobody/nothing"})),
        ]
        for status, code, call in cases:
            reply = await call
            assert (reply.status, reply.code) == (status, code)


async def test_a_wrong_method_error_lists_the_allowed_ones(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        path = await at.session()
        for method, address, allowed in (
            ("PUT", "/v1/sessions", "GET, HEAD, POST"),
            ("POST", path, "DELETE, GET, HEAD, PATCH"),
            ("GET", f"{path}/prompt", "POST"),
            ("DELETE", "/healthz", "GET, HEAD"),
        ):
            reply = await at.call(method, address)
            assert (reply.status, reply.code, reply.headers["allow"]) == (405, "wrong_method", allowed)
            assert f"{method} is not among them" in reply.json["error"]["message"]


async def test_a_websocket_to_a_plain_route_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        for address in ("/nothing", "/v1/sessions", "/healthz"):
            with pytest.raises(InvalidStatus) as refused:
                async with at.socket(address):
                    pass
            response = refused.value.response
            assert (response.status_code, json.loads(response.body)["error"]["code"]) == (404, "not_found")


async def test_a_malformed_number_is_refused_by_its_parameter_name(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        path = await at.session()
        for query, headers, name in (("?after=x", {}, "after"), ("", {"Last-Event-ID": "x"}, "Last-Event-ID")):
            reply = await at.call("GET", f"{path}/events{query}", headers=headers)
            assert reply.status == 400 and reply.json["error"]["message"].startswith(f"{name}: expected a number")
            with pytest.raises(InvalidStatus) as refused:
                async with at.socket(f"{path}/events{query}", more_headers=headers):
                    pass
            assert refused.value.response.status_code == 400


async def test_a_websocket_continues_after_the_last_event_id_in_its_header(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        path = await at.session()
        async with await at.open("GET", f"{path}/events") as stream:
            await at.call("POST", f"{path}/prompt", {"text": "hi"})
            seen = await stream.until("prompt_result")
        async with at.socket(f"{path}/events", more_headers={"Last-Event-ID": str(seen[0]["number"])}) as socket:
            assert (await next_message(socket))["number"] == seen[1]["number"]


async def test_a_fork_before_no_message_is_refused(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        path = await at.session()
        async with await at.open("GET", f"{path}/events") as stream:
            await at.call("POST", f"{path}/prompt", {"text": "hi"})
            await stream.until("prompt_result")
        reply = await at.call("POST", f"{path}/fork", {"position": "before"})
        assert (reply.status, reply.code) == (400, "bad_request") and "entryId" in reply.json["error"]["message"]


async def test_a_message_without_text_and_images_is_refused(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        path = await at.session()
        for way in ("prompt", "steer", "follow_up"):
            for text in ("", " \n\t"):
                reply = await at.call("POST", f"{path}/{way}", {"text": text, "id": "x"})
                assert (reply.status, reply.code) == (400, "bad_request"), (way, text)
                assert reply.json["error"]["message"].startswith("text: it is empty.")
        shown = (await at.call("GET", path)).json
        assert (shown["messages"], shown["session"].get("steering")) == ([], None)
        gif = {"type": "image", "data": b64encode(b"GIF89a" + bytes(20)).decode(), "mimeType": "image/gif"}
        async with await at.open("GET", f"{path}/events") as stream:
            assert (await at.call("POST", f"{path}/prompt", {"text": "", "images": [gif], "id": "x"})).status == 202
            await stream.until("prompt_result")


async def test_a_name_is_short_and_has_no_control_characters(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        path = await at.session(name="Plans")
        for name, problem in (
            ("x" * 201, "length <= 200"),
            ("", "length >= 1"),
            (" ", "empty"),
            ("two\nlines", "control"),
            ("end\n", "control"),
            ("\x1b[31mred", "control"),
            ("\x9b31m", "control"),
        ):
            replies = [await at.call("PATCH", path, {"name": name, "approval": "deny"})]
            replies.append(await at.call("POST", "/v1/sessions", {"name": name}))
            for reply in replies:
                assert (reply.status, reply.code) == (400, "bad_request"), name[:20]
                assert problem in reply.json["error"]["message"]
        kept = (await at.call("GET", path)).json["session"]
        assert (kept["name"], kept["approval"]) == ("Plans", "auto"), "nothing was changed"
        name = "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}" + "é" * 197
        assert (await at.call("PATCH", path, {"name": name})).json["name"] == name
        schemas = (await at.call("GET", "/openapi.json")).json["components"]["schemas"]
        for body in ("Changes", "NewSession"):
            declared = schemas[body]["properties"]["name"]
            assert {"type": "string", "minLength": 1, "maxLength": 200} in declared["anyOf"]
            assert "control characters" in declared["description"]


async def test_images_that_models_do_not_accept_are_refused(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        path = await at.session()
        for data, kind in (("!!!", "image/png"), ("aGVsbG8=", "image/png"), ("PHN2Zy8+", "image/svg+xml"), ("", "image/png")):
            image = {"type": "image", "data": data, "mimeType": kind}
            for way in ("prompt", "steer", "follow_up"):
                reply = await at.call("POST", f"{path}/{way}", {"text": "look", "images": [image]})
                assert (reply.status, reply.code) == (400, "bad_request") and kind in reply.json["error"]["message"]
        assert (await at.call("GET", path)).json["messages"] == []
        gif = {"type": "image", "data": b64encode(b"GIF89a" + bytes(20)).decode(), "mimeType": "image/png"}
        async with await at.open("GET", f"{path}/events") as stream:
            assert (await at.call("POST", f"{path}/prompt", {"text": "look", "images": [gif]})).status == 202
            await stream.until("prompt_result")
        [message, _] = (await at.call("GET", path)).json["messages"]
        assert message["content"][1]["mimeType"] == "image/gif", "what it is, not what it is said to be"


async def test_the_document_describes_every_operation(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        document = (await at.call("GET", "/openapi.json")).json
        assert document["openapi"] == "3.1.0"
        declared = {(each.path, each.method.lower()) for each in OPERATIONS}
        assert {(path, method) for path, methods in document["paths"].items() for method in methods} == declared
        text = json.dumps(document)
        for name in document["components"]["schemas"]:
            assert f"#/components/schemas/{name}" in text or name == "ServeEvent"
        assert "$defs" not in text


async def test_the_document_names_the_status_of_every_error(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        paths = (await at.call("GET", "/openapi.json")).json["paths"]
        session = await at.session()
        json_type, text_type = {"Content-Type": "application/json"}, {"Content-Type": "text/plain"}
        tries: list[tuple[str, str, str, dict[str, str], bytes, int]] = [
            ("POST", "/login", "/login", json_type, b'{"code": "wrong"}', 401),
            ("POST", "/login", "/login", text_type, b"wrong", 415),
            ("POST", "/v1/sessions", "/v1/sessions", text_type, b"{}", 415),
            ("PATCH", "/v1/sessions/{id}", session, text_type, b"{}", 415),
        ]
        for method, template, path, headers, body, status in tries:
            assert (await at.call(method, path, headers=headers, raw=body)).status == status
            assert str(status) in paths[template][method.lower()]["responses"], template
        for _ in range(FAILURES_OF_ONE):
            reply = await at.call("GET", session, headers={"Authorization": "Bearer wrong"})
            assert str(reply.status) in paths["/v1/sessions/{id}"]["get"]["responses"]
        assert (await at.call("GET", session, headers={"Authorization": "Bearer wrong"})).status == 429


async def test_health_is_public_and_readiness_ends_with_the_server(tmp_path: Path) -> None:
    async with web(tmp_path) as at:
        at.token = None
        assert (await at.call("GET", "/healthz")).json == {"status": "ok"}
        assert (await at.call("GET", "/readyz")).json == {"status": "ok"}
        await at.server.hub.close()
        assert (await at.call("GET", "/readyz")).status == 503


async def test_the_end_of_the_server_saves_and_ends_streams(tmp_path: Path) -> None:
    async with web(tmp_path, [{"text": "unfinished " * 50, "holdAfter": 3, "chunk": 50}]) as at:
        path = await at.session()
        async with await at.open("GET", f"{path}/events") as stream:
            await at.call("POST", f"{path}/prompt", {"text": "work"})
            await stream.until("message_update")
            at.server.stop()
            assert b"prompt_result" in await stream.rest()
        saved = [file.read_text() for file in (tmp_path / "home" / "sessions").rglob("*.jsonl")]
        assert any("unfinished" in text for text in saved)


async def test_an_interrupted_run_is_resumed(tmp_path: Path) -> None:
    async with web(tmp_path, [{"error": "out of order", "status": 400}, {"text": "done"}]) as at:
        path = await at.session()
        assert (await at.call("POST", f"{path}/resume")).code == "nothing_to_resume"
        async with await at.open("GET", f"{path}/events") as stream:
            await at.call("POST", f"{path}/prompt", {"text": "go"})
            await stream.until("prompt_result")
        last = (await at.call("GET", path)).json["lastEvent"]
        async with await at.open("GET", f"{path}/events?after={last}") as stream:
            assert (await at.call("POST", f"{path}/resume")).status == 202
            await stream.until("agent_settled")
        messages = (await at.call("GET", path)).json["messages"]
        assert [each["role"] for each in messages] == ["user", "assistant"]
