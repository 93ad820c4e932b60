"""Two servers with one database: each of them lists, reads, prompts and streams the sessions of the other."""

from __future__ import annotations

import signal
from collections.abc import Generator
from typing import Any, TypeAlias

import pytest
from tests.support.fleet import MODEL, Fleet, lines_of, wait_until
from tests.support.front_end import FrontEnd

#: A command that tells that it has begun, and ends when the test says so.
HELD = "echo begun >> begun; while [ ! -e go ]; do sleep 0.05; done; echo ended >> out"


Servers: TypeAlias = tuple[FrontEnd, FrontEnd]


@pytest.fixture
def servers(fleet: Fleet) -> Generator[Servers]:
    with FrontEnd(fleet) as first, FrontEnd(fleet) as second:
        yield first, second


def texts(messages: list[Any]) -> list[str]:
    """The texts of the answers in a list of messages."""
    answers = [message["content"] for message in messages if message["role"] == "assistant"]
    return [text for blocks in answers for block in blocks if (text := block.get("text"))]


def test_a_session_of_one_server_is_listed_read_and_prompted_at_another(fleet: Fleet, servers: Servers) -> None:
    first, second = servers
    session = first.begin(name="Ours")
    assert second.listed()[session]["title"] == "Ours"
    assert first.prompt(session, "echo one >> out")[0] == 202
    assert texts(second.settled(session, 4)["messages"]) == ["done after 1 commands"]
    status, accepted = second.prompt(session, "echo two >> out", "echo three >> out")
    assert (status, accepted["status"]) == (202, "started")
    here, there = second.settled(session, 10), first.settled(session, 10)
    assert here["messages"] == there["messages"] and there["session"]["name"] == "Ours"
    assert there["session"]["model"]["id"] == "test-model" and there["session"]["cost"] == here["session"]["cost"] > 0
    assert lines_of(fleet.workdir / "out") == ["one", "two", "three"]


def test_a_session_without_messages_is_prompted_at_another_server(fleet: Fleet, servers: Servers) -> None:
    first, second = servers
    session = first.begin()
    assert session in second.listed() and second.snapshot(session)["messages"] == []
    assert second.prompt(session, "echo one >> out")[0] == 202
    assert len(first.settled(session, 4)["messages"]) == 4


def test_a_client_of_another_server_follows_a_run_and_misses_nothing_when_it_reconnects(fleet: Fleet, servers: Servers) -> None:
    first, second = servers
    session = first.begin()
    number = second.snapshot(session)["lastEvent"]
    first.prompt(session, "echo one >> out", HELD, id="p-1")
    seen = second.events_until(session, number, "message_end")
    (fleet.workdir / "go").touch()
    seen += second.events_until(session, seen[-1]["number"], "prompt_result")
    assert (seen[-1]["id"], seen[-1]["status"]) == ("p-1", "completed")
    assert [(each["id"], each["status"]) for each in first.snapshot(session)["promptResults"]] == [("p-1", "completed")]
    assert [event["number"] for event in seen] == list(range(number + 1, number + 1 + len(seen)))
    ends = [event["message"] for event in seen if event["type"] == "message_end"]
    assert ends == first.snapshot(session)["messages"] and len(ends) == 6
    pieces = [event["assistantMessageEvent"] for event in seen if event["type"] == "message_update"]
    assert "".join(piece["delta"] for piece in pieces if piece["type"] == "text_delta") == "done after 2 commands"


def test_a_client_stays_connected_while_the_session_moves_between_servers(fleet: Fleet, servers: Servers) -> None:
    first, second = servers
    session = first.begin()
    number = first.snapshot(session)["lastEvent"]
    listening = first.events(session, number)
    kinds: list[str] = []
    ends: list[Any] = []

    def run_at(server: FrontEnd) -> None:
        assert server.prompt(session, "echo x >> out")[0] == 202
        for event in listening:
            nonlocal number
            assert event["number"] == number + 1
            number = event["number"]
            kinds.append(event["type"])
            if event["type"] == "message_end":
                ends.append(event["message"])
            if event["type"] == "agent_settled":
                return

    run_at(first)
    run_at(second)
    run_at(first)
    assert ends == second.settled(session, 12)["messages"]
    listening.close()
    assert "branch_changed" not in kinds and "resync" not in kinds


def test_a_session_that_another_server_works_in_is_refused_with_the_name_of_its_owner(fleet: Fleet, servers: Servers) -> None:
    first, second = servers
    session = first.begin()
    first.prompt(session, HELD)
    wait_until(lambda: lines_of(fleet.workdir / "begun"))
    port = first.url.rpartition(":")[2]
    status, refused = second.prompt(session, "echo no >> out")
    assert (status, refused["error"]["code"]) == (409, "session_in_use")
    assert f":{port}/{first.process.pid}/" in refused["error"]["message"] and "expires at" in refused["error"]["message"]
    state = second.snapshot(session)["session"]
    assert state["status"] == "running" and f":{port}/" in state["owner"]["name"] and state["owner"]["until"].endswith("Z")
    assert f":{port}/" in second.listed()[session]["owner"]
    (fleet.workdir / "go").touch()
    second.settled(session, 4)
    assert second.prompt(session, "echo yes >> out")[0] == 202
    second.settled(session, 8)
    assert lines_of(fleet.workdir / "out") == ["ended", "yes"]


def test_sessions_are_there_after_a_restart(fleet: Fleet) -> None:
    with FrontEnd(fleet) as server:
        session = server.begin(name="Kept")
        server.prompt(session, "echo one >> out")
        server.settled(session, 4)
        assert server.call("PATCH", f"/v1/sessions/{session}", {"approval": "write"})[0] == 200
        server.process.terminate()
        assert server.process.wait(20) == 143
    with FrontEnd(fleet) as server:
        assert server.listed()[session]["title"] == "Kept"
        assert server.snapshot(session)["session"]["approval"] == "write"
        assert server.call("PATCH", f"/v1/sessions/{session}", {"approval": "auto"})[0] == 200
        assert server.prompt(session, "echo two >> out")[0] == 202
        assert len(server.settled(session, 8)["messages"]) == 8


def test_another_server_resumes_the_run_of_one_that_was_killed(fleet: Fleet, servers: Servers) -> None:
    first, second = servers
    session = first.begin()
    first.prompt(session, "echo one >> out", HELD, "echo three >> out", id="p-1")
    wait_until(lambda: lines_of(fleet.workdir / "begun"))
    first.kill()
    (fleet.workdir / "go").touch()
    status, refused = second.call("POST", f"/v1/sessions/{session}/resume")
    assert (status, refused["error"]["code"]) == (409, "session_in_use")
    wait_until(lambda: second.snapshot(session)["session"].get("interrupted"), every=0.2)
    # The client does not know whether its prompt arrived: it did.
    assert second.prompt(session, "echo one >> out", HELD, "echo three >> out", id="p-1")[1]["status"] == "started"
    assert second.call("POST", f"/v1/sessions/{session}/resume")[0] == 202
    messages = second.settled(session, 8)["messages"]
    assert [message["role"] for message in messages].count("user") == 1
    assert texts(messages) == ["done after 3 commands"] and lines_of(fleet.workdir / "out")[-1] == "three"


def test_a_prompt_that_is_repeated_at_another_server_runs_once(fleet: Fleet, servers: Servers) -> None:
    first, second = servers
    session = first.begin()
    assert first.prompt(session, "echo one >> out", id="p-1")[1] == {"status": "started", "id": "p-1"}
    first.settled(session, 4)
    second.free(session)
    assert second.prompt(session, "echo one >> out", id="p-1") == (202, {"status": "started", "id": "p-1"})
    assert second.prompt(session, "echo two >> out", id="p-1")[1]["error"]["code"] == "id_reused"
    assert len(second.settled(session, 4)["messages"]) == 4 and lines_of(fleet.workdir / "out") == ["one"]


def test_the_approval_mode_moves_with_the_session(fleet: Fleet, servers: Servers) -> None:
    first, second = servers
    session = first.begin(approval="ask")
    assert second.snapshot(session)["session"]["approval"] == "ask"
    number = second.snapshot(session)["lastEvent"]
    assert second.prompt(session, "echo one >> out")[0] == 202
    asked = second.events_until(session, number, "question")[-1]
    answer = {"decision": "deny"}
    assert second.call("POST", f"/v1/sessions/{session}/questions/{asked['id']}", answer)[0] == 204
    second.settled(session, 4)
    assert not (fleet.workdir / "out").exists()


def test_a_stricter_server_asks_although_the_session_began_at_a_lenient_one(fleet: Fleet) -> None:
    with FrontEnd(fleet) as lenient, FrontEnd(fleet, "--approval", "ask") as strict:
        session = lenient.begin()
        strict.free(session)
        number = strict.snapshot(session)["lastEvent"]
        assert strict.prompt(session, "echo one >> out")[0] == 202
        asked = strict.events_until(session, number, "question")[-1]
        assert asked["kind"] == "approval"


def test_workers_run_what_a_client_sends_to_a_session_of_jobs(fleet: Fleet, servers: Servers) -> None:
    first, second = servers
    fleet.start_worker()
    task = {"prompt": '["echo one >> out"]', "workdir": str(fleet.workdir), "model": MODEL}
    first.call("POST", "/fleet/sessions/chat/prompts", task)
    first.call("GET", "/fleet/jobs/chat.1/events")
    number = first.settled("chat", 4)["lastEvent"]
    assert second.prompt("chat", "echo two >> out", id="p-2") == (202, {"status": "queued", "id": "p-2"})
    assert second.prompt("chat", "echo two >> out", id="p-2")[0] == 202
    seen = first.events_until("chat", number, "prompt_result")
    assert seen[-1]["id"] == "p-2" and seen[-1]["status"] == "completed"
    ends = [event["message"] for event in seen if event["type"] == "message_end"]
    assert texts(ends) == ["done after 1 commands"]
    assert len(second.settled("chat", 8)["messages"]) == 8 and lines_of(fleet.workdir / "out") == ["one", "two"]
    refused = second.call("PATCH", "/v1/sessions/chat", {"name": "Other"})
    assert (refused[0], refused[1]["error"]["code"]) == (409, "run_by_workers")


def test_a_client_aborts_the_jobs_of_a_session(fleet: Fleet, servers: Servers) -> None:
    first, second = servers
    fleet.start_worker()
    task = {"prompt": f'["{HELD}"]', "workdir": str(fleet.workdir), "model": MODEL}
    first.call("POST", "/fleet/sessions/chat/prompts", task)
    wait_until(lambda: lines_of(fleet.workdir / "begun"))
    assert second.snapshot("chat")["session"]["status"] == "running"
    assert second.call("DELETE", "/v1/sessions/chat")[1]["error"]["code"] == "busy"
    assert second.call("POST", "/v1/sessions/chat/abort")[0] == 200
    assert first.call("GET", "/fleet/jobs/chat.1")[1]["status"] == "cancelled"


def test_a_failed_job_of_a_session_is_resumed(fleet: Fleet, servers: Servers) -> None:
    first, second = servers
    fleet.start_worker()
    prompt = '["echo one >> out", "echo two >> out", "echo three >> out"]'
    task = {"prompt": prompt, "workdir": str(fleet.workdir), "model": MODEL, "limits": {"turns": 2}}
    first.call("POST", "/fleet/sessions/chat/prompts", task)
    wait_until(lambda: first.call("GET", "/fleet/jobs/chat.1")[1]["status"] == "failed")
    assert second.snapshot("chat")["session"]["interrupted"] and lines_of(fleet.workdir / "out") == ["one", "two"]
    number = first.snapshot("chat")["lastEvent"]
    status, state = second.call("POST", "/v1/sessions/chat/resume")
    assert (status, state["status"], state.get("interrupted", False)) == (202, "running", False)
    result = first.events_until("chat", number, "prompt_result")[-1]
    assert result["status"] == "completed" and lines_of(fleet.workdir / "out") == ["one", "two", "three"]
    refused = second.call("POST", "/v1/sessions/chat/resume")
    assert (refused[0], refused[1]["error"]["code"]) == (409, "nothing_to_resume")


def test_a_run_that_failed_at_one_server_is_resumed_at_another(fleet: Fleet, servers: Servers) -> None:
    first, second = servers
    session = first.begin()
    first.prompt(session, "fail")
    wait_until(lambda: second.snapshot(session)["session"].get("interrupted"), every=0.1)
    assert second.snapshot(session)["session"]["owner"] is not None  # which hands the session back meanwhile
    assert second.call("POST", f"/v1/sessions/{session}/resume")[0] == 202


def test_a_fork_is_there_for_all_servers(fleet: Fleet, servers: Servers) -> None:
    first, second = servers
    session = first.begin(approval="auto")
    first.prompt(session, "echo one >> out")
    first.settled(session, 4)
    whole = first.call("POST", f"/v1/sessions/{session}/fork", {})[1]["session"]["id"]
    entry = first.call("GET", f"/v1/sessions/{session}/tree")[1]["entries"][0]
    before = {"entryId": entry["id"], "position": "before"}
    empty = first.call("POST", f"/v1/sessions/{session}/fork", before)[1]["session"]["id"]
    assert len(second.snapshot(whole)["messages"]) == 4 and second.snapshot(empty)["messages"] == []
    assert second.prompt(empty, "echo two >> out")[0] == 202
    assert len(first.settled(empty, 4)["messages"]) == 4


def test_a_session_is_deleted_for_all_servers(fleet: Fleet, servers: Servers) -> None:
    first, second = servers
    session = first.begin()
    second.free(session)
    assert second.call("DELETE", f"/v1/sessions/{session}")[0] == 204
    assert session not in first.listed()
    assert first.call("GET", f"/v1/sessions/{session}")[1]["error"]["code"] == "session_not_found"


def test_a_server_that_was_stopped_for_too_long_gives_the_session_up(fleet: Fleet, servers: Servers) -> None:
    first, second = servers
    session = first.begin()
    first.prompt(session, HELD)
    wait_until(lambda: lines_of(fleet.workdir / "begun"))
    first.process.send_signal(signal.SIGSTOP)
    (fleet.workdir / "go").touch()
    wait_until(lambda: second.snapshot(session)["session"].get("interrupted"), every=0.2)
    assert second.call("POST", f"/v1/sessions/{session}/resume")[0] == 202
    messages = second.settled(session, 4)["messages"]
    first.process.send_signal(signal.SIGCONT)
    assert first.settled(session, 4)["messages"] == messages
    first.free(session)
    assert first.prompt(session, "echo two >> out")[0] == 202
    assert len(second.settled(session, 8)["messages"]) == 8
