"""Hosts on WebSockets of two servers with one database: their sessions are in the database, for all servers and all doors."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Any, TypeAlias

import pytest
from tests.support.fleet import MODEL, Fleet, lines_of, wait_until
from tests.support.front_end import FrontEnd, HostSocket
from websockets.exceptions import InvalidStatus

#: A command that tells that it has begun, and ends when the test says so.
HELD = "echo begun >> begun; while [ ! -e go ]; do sleep 0.05; done; echo ended >> out"

Servers: TypeAlias = tuple[FrontEnd, FrontEnd]
Connect: TypeAlias = Callable[..., HostSocket]


@pytest.fixture
def servers(fleet: Fleet) -> Generator[Servers]:
    with FrontEnd(fleet, "--model", MODEL) as first, FrontEnd(fleet, "--model", MODEL) as second:
        yield first, second


@pytest.fixture
def connect(fleet: Fleet) -> Generator[Connect]:
    """Connect hosts, and disconnect them at the end."""
    with ExitStack() as open:

        def connected(server: FrontEnd, path: str) -> HostSocket:
            return open.enter_context(server.socket(path))

        yield connected


def pi(connect: Connect, fleet: Fleet, server: FrontEnd, **query: str) -> HostSocket:
    given = {"dialect": "pi", **({} if "session" in query else {"cwd": str(fleet.workdir)}), **query}
    return connect(server, "/ws?" + "&".join(f"{name}={value}" for name, value in given.items()))


def ask(host: HostSocket, *commands: str) -> None:
    """Send a prompt that lets the model run commands, and wait until the session has settled."""
    assert host.command("prompt", message=json.dumps(commands))["success"]
    host.until(type="agent_settled")


def roles(messages: list[Any]) -> list[str]:
    return [message["role"] for message in messages]


def refusal(connect: Connect, fleet: Fleet, server: FrontEnd, session: str) -> tuple[int, str]:
    """Return the status and the code with which a server refuses a session to a host."""
    with pytest.raises(InvalidStatus) as refused:
        pi(connect, fleet, server, session=session)
    response = refused.value.response
    return response.status_code, json.loads(response.body or b"")["error"]["code"]


def acp(connect: Connect, server: FrontEnd) -> HostSocket:
    client = connect(server, "/acp")
    client.call("initialize", protocolVersion=1)
    return client


def test_a_session_of_a_host_is_in_the_database_and_continues_at_another_server(
    fleet: Fleet, servers: Servers, connect: Connect
) -> None:
    first, second = servers
    host = pi(connect, fleet, first)
    ask(host, "echo one >> out")
    state = host.command("get_state")["data"]
    session = state["sessionId"]
    assert "sessionFile" not in state and not list(fleet.home.rglob("*.jsonl"))
    assert second.listed()[session]["cwd"] == str(fleet.workdir)
    assert roles(second.snapshot(session)["messages"]) == ["user", "assistant", "toolResult", "assistant"]
    # While the host is connected, its session is its own.
    assert second.prompt(session, "echo no >> out")[1]["error"]["code"] == "session_in_use"
    host.close()
    assert second.prompt(session, "echo two >> out")[0] == 202
    second.settled(session, 8)
    # Another server still has it for a moment, and hands it back.
    again = pi(connect, fleet, first, session=session)
    assert len(again.command("get_messages")["data"]["messages"]) == 8
    ask(again, "echo three >> out")
    assert lines_of(fleet.workdir / "out") == ["one", "two", "three"]


def test_hosts_switch_list_fork_export_and_delete_sessions_by_id(fleet: Fleet, servers: Servers, connect: Connect) -> None:
    first, second = servers
    began = first.begin(name="Over HTTP")
    first.prompt(began, "echo one >> out")
    first.settled(began, 4)
    host = pi(connect, fleet, second)
    listed = {each["path"]: each for each in host.command("list_sessions")["data"]["sessions"]}
    assert listed[began]["name"] == "Over HTTP"
    assert host.command("switch_session", sessionPath=began)["success"]
    assert len(host.command("get_messages")["data"]["messages"]) == 4
    entry = host.command("get_fork_messages")["data"]["messages"][0]["entryId"]
    page = host.command("export_html")["data"]["path"]
    assert (fleet.workdir / page).read_text().startswith("<!")
    assert host.command("fork", entryId=entry)["success"]
    ask(host, "echo two >> out")
    forked = host.command("get_state")["data"]["sessionId"]
    assert forked != began and len(first.snapshot(forked)["messages"]) == 4
    assert host.command("delete_session", sessionPath=began)["success"] and began not in first.listed()
    assert not host.command("switch_session", sessionPath="none")["success"]


def test_an_acp_client_loads_at_one_server_what_it_began_at_another(fleet: Fleet, servers: Servers, connect: Connect) -> None:
    first, second = servers
    client = acp(connect, first)
    folder: dict[str, Any] = {"cwd": str(fleet.workdir), "mcpServers": []}
    session = client.call("session/new", **folder)["result"]["sessionId"]
    client.call("session/set_mode", sessionId=session, modeId="deny")
    prompt = [{"type": "text", "text": '["echo one >> out"]'}]
    assert client.call("session/prompt", sessionId=session, prompt=prompt)["result"]["stopReason"] == "end_turn"
    assert not (fleet.workdir / "out").exists() and not list(fleet.home.rglob("*.jsonl"))
    other = acp(connect, second)
    assert session in [each["sessionId"] for each in other.call("session/list")["result"]["sessions"]]
    refused = other.call("session/load", sessionId=session, **folder)
    assert "is in use by" in refused["error"]["message"] or "is in use by" in str(refused["error"].get("data"))
    client.close()
    loaded = other.call("session/load", sessionId=session, **folder)["result"]
    assert loaded["modes"]["currentModeId"] == "deny"  # what a client chose goes with the session
    other.call("session/set_mode", sessionId=session, modeId="auto")
    assert other.call("session/prompt", sessionId=session, prompt=prompt)["result"]["stopReason"] == "end_turn"
    assert len(first.settled(session, 8)["messages"]) == 8 and lines_of(fleet.workdir / "out") == ["one"]
    other.call("session/delete", sessionId=session)
    assert session not in first.listed()
    assert "error" in other.call("session/load", sessionId=session, **folder)


def test_an_opal_client_resumes_at_one_server_what_it_began_at_another(fleet: Fleet, servers: Servers, connect: Connect) -> None:
    first, second = servers
    client = connect(first, "/ws?dialect=opal")
    names = ["plan-1", "the plan"]  # the second is not an id that a store can keep
    for name in names:
        params = {"session_id": name, "working_dir": str(fleet.workdir), "session": True}
        assert client.call("session/start", **params)["result"]["session_id"] == name
        client.call("agent/prompt", session_id=name, text="Hello?")
        wait_until(lambda name=name: client.call("agent/state", session_id=name)["result"]["status"] == "idle", every=0.1)
    assert not list(fleet.home.rglob("*.jsonl"))
    assert len(second.snapshot("plan-1")["messages"]) == 2
    other = connect(second, "/ws?dialect=opal")
    assert len(other.call("session/list")["result"]["sessions"]) == 2
    assert "error" in other.call("session/start", session_id="plan-1")
    client.close()
    for name in names:
        assert other.call("session/start", session_id=name, session=True)["result"]["session_id"] == name
        assert len(other.call("session/history", session_id=name)["result"]["messages"]) == 2
    assert "error" not in other.call("session/delete", session_id="plan-1")
    assert "plan-1" not in first.listed()


def test_the_run_of_a_host_is_resumed_after_its_server_was_killed(fleet: Fleet, servers: Servers, connect: Connect) -> None:
    first, second = servers
    host = pi(connect, fleet, first)
    host.command("prompt", message=json.dumps([HELD, "echo after >> out"]))
    wait_until(lambda: lines_of(fleet.workdir / "begun"))
    session = host.command("get_state")["data"]["sessionId"]
    first.kill()
    (fleet.workdir / "go").touch()
    wait_until(lambda: second.snapshot(session)["session"].get("interrupted"), every=0.2)
    again = pi(connect, fleet, second, session=session)
    assert again.command("resume")["success"]
    again.until(type="agent_settled")
    assert lines_of(fleet.workdir / "out")[-1] == "after"
    assert roles(again.command("get_messages")["data"]["messages"]).count("user") == 1


def test_a_host_whose_server_was_stopped_for_too_long_opens_its_session_again(
    fleet: Fleet, servers: Servers, connect: Connect
) -> None:
    first, second = servers
    host = pi(connect, fleet, first)
    ask(host, "echo one >> out")
    session = host.command("get_state")["data"]["sessionId"]
    first.process.send_signal(signal.SIGSTOP)
    second.free(session)
    assert second.prompt(session, "echo two >> out")[0] == 202
    second.settled(session, 8)
    first.process.send_signal(signal.SIGCONT)
    refused = host.command("prompt", message='["echo three >> out"]')
    assert not refused["success"] and "lost" in refused["error"]
    assert host.command("switch_session", sessionPath=session)["success"]
    assert len(host.command("get_messages")["data"]["messages"]) == 8
    ask(host, "echo three >> out")
    assert lines_of(fleet.workdir / "out") == ["one", "two", "three"]


def test_a_server_that_stops_hands_the_sessions_of_its_hosts_back(fleet: Fleet, servers: Servers, connect: Connect) -> None:
    first, second = servers
    host = pi(connect, fleet, first)
    host.command("prompt", message=json.dumps([HELD]))
    wait_until(lambda: lines_of(fleet.workdir / "begun"))
    session = host.command("get_state")["data"]["sessionId"]
    first.process.terminate()
    assert first.process.wait(20) == 143
    state = second.snapshot(session)["session"]
    assert state.get("owner") is None and state["interrupted"]
    (fleet.workdir / "go").touch()
    assert second.call("POST", f"/v1/sessions/{session}/resume")[0] == 202
    second.settled(session, 4)


def test_hosts_cannot_open_sessions_of_jobs_or_outside_the_root(fleet: Fleet, connect: Connect) -> None:
    (fleet.workdir / "inner").mkdir()
    with FrontEnd(fleet, "--model", MODEL) as server, FrontEnd(fleet, "--root", str(fleet.workdir / "inner")) as bounded:
        session = server.begin()
        task = {"prompt": "[]", "workdir": str(fleet.workdir), "model": MODEL}
        fleet.start_worker()
        server.call("POST", "/fleet/sessions/chat/prompts", task)
        server.call("GET", "/fleet/jobs/chat.1/events")
        server.settled("chat", 2)
        assert refusal(connect, fleet, server, "chat") == (409, "run_by_workers")
        assert refusal(connect, fleet, server, "none") == (404, "session_not_found")
        assert refusal(connect, fleet, bounded, session) == (403, "outside_root")
        inside = connect(bounded, f"/ws?dialect=pi&cwd={fleet.workdir / 'inner'}")
        assert inside.command("list_sessions")["data"]["sessions"] == []
        for name in (session, "chat"):
            assert not inside.command("switch_session", sessionPath=name)["success"]
            assert not inside.command("delete_session", sessionPath=name)["success"]
        assert session in server.listed()
        host = pi(connect, fleet, server)
        assert "Workers run" in host.command("switch_session", sessionPath="chat")["error"]
        folder: dict[str, Any] = {"cwd": str(fleet.workdir), "mcpServers": []}
        assert "Workers run" in str(acp(connect, server).call("session/load", sessionId="chat", **folder)["error"])
        assert "Workers run" in str(connect(server, "/ws?dialect=opal").call("session/start", session_id="chat")["error"])
        for name in ("", "a/b", "a\0b", "ä" * 200):
            assert "error" in acp(connect, server).call("session/load", sessionId=name, **folder)
            assert not host.command("switch_session", sessionPath=name)["success"]


def test_a_session_that_began_at_a_strict_server_stays_strict_for_hosts_of_a_lenient_one(fleet: Fleet, connect: Connect) -> None:
    with FrontEnd(fleet, "--model", MODEL, "--approval", "deny") as strict, FrontEnd(fleet, "--model", MODEL) as lenient:
        host = pi(connect, fleet, strict)
        ask(host, "echo one >> out")
        session = host.command("get_state")["data"]["sessionId"]
        host.close()
        again = pi(connect, fleet, lenient, session=session)
        ask(again, "echo two >> out")
        assert not (fleet.workdir / "out").exists()
        assert again.command("new_session")["success"]
        ask(again, "echo three >> out")
        assert lines_of(fleet.workdir / "out") == ["three"]
