"""`fairlead serve --db`: the jobs and sessions of a fleet for front ends that speak HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Generator

import pytest
from tests.support.fleet import MODEL, Fleet
from tests.support.front_end import FrontEnd


@pytest.fixture
def server(fleet: Fleet) -> Generator[FrontEnd]:
    with FrontEnd(fleet) as server:
        yield server


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"^id: (\d+)$", text, re.MULTILINE)]


def test_a_front_end_talks_to_a_session_whose_prompts_run_on_workers(fleet: Fleet, server: FrontEnd) -> None:
    fleet.start_worker()
    first = {"prompt": '["echo one >> out"]', "workdir": str(fleet.workdir), "model": MODEL}
    status, job = server.call("POST", "/fleet/sessions/chat/prompts", first)
    assert (status, job["id"], job["status"]) == (200, "chat.1", "queued")
    status, events = server.call("GET", "/fleet/jobs/chat.1/events?after=0")
    assert status == 200 and numbers(events) == list(range(1, len(numbers(events)) + 1))
    assert '"type":"done"' in events and "done after 1 commands" in events
    assert server.call("POST", "/fleet/sessions/chat/prompts", {"prompt": '["echo two >> out"]'})[1]["id"] == "chat.2"
    _, later = server.call("GET", "/fleet/jobs/chat.2/events?after=3")
    assert numbers(later)[0] == 4
    _, jobs = server.call("GET", "/fleet/sessions/chat")
    assert [(each["id"], each["status"]) for each in jobs] == [("chat.1", "done"), ("chat.2", "done")]
    _, transcript = server.call("GET", "/fleet/sessions/chat/transcript")
    assert transcript.count("echo one") == 2 and json.loads(transcript.splitlines()[0])["type"] == "session"


def test_the_openapi_document_has_the_routes_of_the_fleet(server: FrontEnd) -> None:
    _, document = server.call("GET", "/openapi.json")
    assert {"get", "post"} <= document["paths"]["/fleet/jobs"].keys()
    body = document["paths"]["/fleet/sessions/{id}/prompts"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/SessionPrompt"}
    assert "labels" in document["components"]["schemas"]["Job"]["properties"]


def test_jobs_are_submitted_listed_and_cancelled(fleet: Fleet, server: FrontEnd) -> None:
    task = {"id": "a", "prompt": "p", "workdir": str(fleet.workdir)}
    assert server.call("POST", "/fleet/jobs", [task, {**task, "id": "b"}])[0] == 200
    assert [each["id"] for each in server.call("GET", "/fleet/jobs")[1]] == ["a", "b"]
    assert server.call("POST", "/fleet/jobs/a/cancel")[1]["status"] == "cancelled"
    assert server.call("GET", "/fleet/jobs/a")[1]["status"] == "cancelled"
    assert server.call("POST", "/fleet/jobs/a/retry")[1]["status"] == "queued"
    assert server.call("GET", "/fleet/jobs/a/patch") == (200, "")


def test_errors_say_what_is_wrong(fleet: Fleet, server: FrontEnd) -> None:
    task = {"id": "a", "prompt": "p", "workdir": str(fleet.workdir)}
    server.call("POST", "/fleet/jobs", task)
    for status, code, answer in (
        (404, "not_found", server.call("GET", "/fleet/jobs/x")),
        (404, "not_found", server.call("GET", "/fleet/sessions/x/transcript")),
        (409, "conflict", server.call("POST", "/fleet/jobs", {**task, "prompt": "other"})),
        (400, "bad_request", server.call("POST", "/fleet/jobs", {**task, "colour": "red"})),
        (400, "bad_request", server.call("GET", "/fleet/jobs/a/events?after=x")),
    ):
        assert answer[0] == status and answer[1]["error"]["code"] == code and answer[1]["error"]["message"], answer


def test_without_a_token_nothing_is_served(server: FrontEnd) -> None:
    assert server.call("GET", "/fleet/jobs", token="wrong")[0] == 401


def test_the_server_stops_while_events_are_followed(fleet: Fleet, server: FrontEnd) -> None:
    server.call("POST", "/fleet/jobs", {"id": "a", "prompt": "p", "workdir": str(fleet.workdir)})
    with server.open("GET", "/fleet/jobs/a/events") as response:
        assert response.readline() == b"id: 1\n"
        server.process.terminate()
        assert server.process.wait(10) == 143


def test_users_and_a_fleet_do_not_go_together(fleet: Fleet) -> None:
    done = fleet.run("serve", "--users", "users.json", "--db", fleet.url)
    assert done.returncode == 2 and "does not go together with --users" in done.stderr
