"""Sub-agents, as a host sees them over pipes: transcripts, costs, failures, ends and limits."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.behaviour.subagent_frames import answers, gives, lives, of_type, result, subagents
from tests.protocol.test_declarations import as_declared
from tests.support.gates import wait_for_exit
from tests.support.host import SOON
from tests.support.session_file import read_strictly
from tests.support.session_host import session_file, state
from tests.support.stage import BEGAN, HELD, WAIT, another, bash, calls, says, stage
from tests.support.surroundings import FAIRLEAD

#: Shell code of a sub-agent that does not end by itself.
LASTING = f"echo $$ > shell; {BEGAN}; sleep 600"


# Transcripts


def test_conversations_of_sub_agents_can_be_read_piece_by_piece(tmp_path: Path) -> None:
    outer = {"match": "outer", **gives("look")}
    with stage(tmp_path, "omp", [outer, answers("look", "sééen"), gives("look", "outer"), says("done")]) as host:
        host.prompt("go")
        found = subagents(host)
        assert set(found) == {"look", "outer", "outer.look-2"}
        assert {each["status"] for each in found.values()} == {"completed"}
        folder = session_file(host).with_suffix("")
        assert Path(found["outer.look-2"]["sessionFile"]).parent == folder / "1-outer"
        for id, each in found.items():
            lines = read_strictly(Path(each["sessionFile"]))
            whole = host.request("get_subagent_messages", subagentId=id)["data"]
            assert whole["entries"] == [lines.header, *lines.entries]
            assert whole["messages"] == lines.messages
            size = Path(each["sessionFile"]).stat().st_size
            assert (whole["sessionFile"], whole["fromByte"], whole["nextByte"]) == (each["sessionFile"], 0, size)
            assert whole["reset"] is False
            rest = host.request("get_subagent_messages", sessionFile=each["sessionFile"], fromByte=size)["data"]
            assert (rest["entries"], rest["messages"], rest["nextByte"]) == ([], [], size)
        assert host.leave() == 0


def test_a_piece_begins_where_the_last_one_ended_while_the_sub_agent_works(tmp_path: Path) -> None:
    work = {"match": "look", **calls(bash(f"{BEGAN}; {WAIT}"))}
    with stage(tmp_path, "omp", [work, gives("look"), says("seen"), says("done")]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.began.wait()
        first = host.request("get_subagent_messages", subagentId="look")["data"]
        assert [message["role"] for message in first["messages"]] == ["user", "assistant"]
        host.go.open()
        host.until("agent_settled")
        second = host.request("get_subagent_messages", subagentId="look", fromByte=first["nextByte"])["data"]
        assert [message["role"] for message in second["messages"]] == ["toolResult", "assistant"]
        again = host.request("get_subagent_messages", subagentId="look", fromByte=second["nextByte"] + 1)["data"]
        assert again["reset"] is True
        assert again["entries"] == [*first["entries"], *second["entries"]]
        assert as_declared(host.frames[-1]) == host.frames[-1]
        assert host.leave() == 0


def test_no_other_file_is_read(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [answers("look", "seen"), gives("look"), says("done")], files={"x.jsonl": "{}\n"}) as host:
        host.prompt("go")
        own = session_file(host)
        (own.with_suffix("") / "link.jsonl").symlink_to(host.around.home / "models.json")
        for name in (str(own), "x.jsonl", str(host.around.home / "models.json"), str(own.with_suffix("") / "link.jsonl")):
            answer = host.request("get_subagent_messages", sessionFile=name)
            assert answer.get("error") == f"Unknown subagent or session file unavailable: {name}"
        assert host.request("get_subagent_messages", subagentId="x")["error"] == (
            "Unknown subagent or session file unavailable: x"
        )
        assert host.request("get_subagent_messages")["error"] == "get_subagent_messages requires subagentId or sessionFile"
        assert host.leave() == 0


def test_sub_agents_of_a_session_in_memory_have_no_transcripts(tmp_path: Path) -> None:
    script = [answers("look", "seen"), gives("look"), says("done")]
    with stage(tmp_path, "omp", script, flags=["--no-session"]) as host:
        host.prompt("go")
        assert "sessionFile" not in subagents(host)["look"]
        error = host.request("get_subagent_messages", subagentId="look")["error"]
        assert error == "Unknown subagent or session file unavailable: look"
        assert host.leave() == 0


def test_transcripts_outlive_the_process_and_are_not_listed_as_sessions(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [answers("look", "seen"), gives("look"), says("done")]) as host:
        host.prompt("go")
        transcript = subagents(host)["look"]["sessionFile"]
        assert len(host.request("list_sessions", all=True)["data"]["sessions"]) == 1
        assert host.leave() == 0
        with another(host, "omp", "--continue") as later:
            assert state(later)["messageCount"] == 4
            assert subagents(later) == {}
            messages = later.request("get_subagent_messages", sessionFile=transcript)["data"]["messages"]
            assert [message["role"] for message in messages] == ["user", "assistant"]
            assert later.leave() == 0


def test_another_session_begins_without_sub_agents(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [answers("look", "seen"), gives("look"), says("done")]) as host:
        host.prompt("go")
        assert set(subagents(host)) == {"look"}
        host.request("new_session")
        assert subagents(host) == {}
        assert host.leave() == 0


# What it costs


def test_the_statistics_of_the_session_count_what_its_sub_agents_spent(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [answers("look", "seen"), gives("look", "look too"), says("done")]) as host:
        frames = host.prompt("go")
        stats = host.request("get_session_stats")["data"]
        own = [frame["message"]["usage"] for frame in of_type(frames, "message_end") if frame["message"]["role"] == "assistant"]
        below = [each["progress"] for each in subagents(host).values()]
        assert [each["tokens"] for each in below] == [150, 150]
        assert stats["tokens"]["total"] == sum(usage["totalTokens"] for usage in own) + 300
        cost = sum(usage["cost"]["total"] for usage in own) + sum(each["cost"] for each in below)
        assert stats["cost"] == pytest.approx(cost)
        entries = [frame["entry"] for frame in of_type(frames, "entry_appended")]
        assert [(entry["type"], entry["kind"]) for entry in entries] == [("usage", "subagent")] * 2
        assert read_strictly(session_file(host)).of("usage") == entries
        assert host.leave() == 0


# Failure


def test_a_failed_sub_agent_is_reported_and_the_others_answer(tmp_path: Path) -> None:
    broken = {"match": "bad", "status": 400, "error": "no such thing"}
    with stage(tmp_path, "omp", [broken, answers("good", "fine"), gives("good", "bad"), says("done")]) as host:
        host.request("set_subagent_subscription", level="progress")
        frames = host.prompt("go")
        assert set(lives(frames)[2:]) == {("good", "completed"), ("bad", "failed")}
        text, is_error = result(frames)
        assert not is_error
        assert "fine" in text
        assert "no such thing" in text
        assert host.leave() == 0


def test_if_all_fail_the_call_does(tmp_path: Path) -> None:
    broken = {"match": "bad", "status": 400, "error": "no such thing"}
    with stage(tmp_path, "omp", [broken, gives("bad"), says("done")]) as host:
        _, is_error = result(host.prompt("go"))
        assert is_error
        assert host.leave() == 0


# The end


def test_an_abort_ends_sub_agents_before_it_is_answered(tmp_path: Path) -> None:
    work = {"match": "look", **calls(bash(LASTING))}
    outer = {"match": "outer", **gives("look")}
    with stage(tmp_path, "omp", [outer, work, gives("outer"), says("done"), says("after")]) as host:
        host.request("set_subagent_subscription", level="progress")
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.began.wait()
        host.request("abort", id="a")
        before = host.frames[: host.frames.index(host.response("a"))]
        assert lives(before)[-2:] == [("outer.look", "aborted"), ("outer", "aborted")]
        text, is_error = result(before)
        assert is_error
        assert text.endswith("Operation aborted")
        wait_for_exit(int((host.around.cwd / "shell").read_text()))
        assert {each["status"] for each in subagents(host).values()} == {"aborted"}
        for each in subagents(host).values():
            assert read_strictly(Path(each["sessionFile"])).messages[-1]["stopReason"] == "aborted"
        host.prompt("again", id="p2")
        assert host.request("get_last_assistant_text")["data"]["text"] == "done"
        assert host.leave() == 0


@pytest.mark.parametrize("how", ["shutdown", "input ends"])
def test_a_process_that_leaves_takes_its_sub_agents_along(tmp_path: Path, how: str) -> None:
    work = {"match": "look", **calls(bash(LASTING))}
    with stage(tmp_path, "omp", [work, gives("look"), says("done")]) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.began.wait()
        if how == "shutdown":
            host.request("shutdown")
        else:
            host.close_input()
        assert host.exit_code(SOON) == 0
        wait_for_exit(int((host.around.cwd / "shell").read_text()))


# Limits and settings


def test_in_pi_the_users_limits_hold(tmp_path: Path) -> None:
    script = [answers("work", "said"), gives("work one", "work two", "work three"), says("done")]
    settings = {"task": {"maxConcurrency": 1, "maxRecursionDepth": 1, "disabledAgents": ["explore"]}}
    with stage(tmp_path, "pi", script, flags=["--tools", "read,task"], settings=settings) as host:
        host.request("set_subagent_subscription", level="progress")
        frames = host.prompt("go")
        ids = ["work", "work-2", "work-3"]
        assert lives(frames) == [(id, status) for id in ids for status in ("started", "completed")]
        below = [request.body for request in host.provider.requests if "You are a coding agent with one" in str(request.body)]
        assert [[tool["name"] for tool in body["tools"]] for body in below] == [["read"]] * 3
        (tool,) = [tool for tool in host.request("get_tools")["data"]["tools"] if tool["name"] == "task"]
        assert "explore" not in tool["description"]
        assert host.leave() == 0


@pytest.mark.parametrize("dialect", ["omp", "xcsh"])
def test_in_omp_and_xcsh_the_defaults_hold_whatever_the_user_says(tmp_path: Path, dialect: str) -> None:
    hold = {"match": "work", **HELD}
    settings = {"task": {"maxConcurrency": 1, "maxRecursionDepth": 0}}
    with stage(tmp_path, dialect, [hold, gives("work one", "work two"), says("done")], settings=settings) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.until_asked(3)
        assert [each["status"] for each in subagents(host).values()] == ["running", "running"]
        host.provider.release()
        host.until("agent_settled")
        assert host.leave() == 0


def test_with_a_depth_of_none_there_is_no_task_tool(tmp_path: Path) -> None:
    with stage(tmp_path, "pi", settings={"task": {"maxRecursionDepth": 0}}) as host:
        assert "task" not in [tool["name"] for tool in host.request("get_tools")["data"]["tools"]]
        assert host.leave() == 0


def test_a_thousand_tasks_are_done_thirty_two_at_a_time(tmp_path: Path) -> None:
    script = [answers("work", "said"), gives(*(f"work {number}" for number in range(1000))), says("done")]
    with stage(tmp_path, "omp", script, flags=["--no-session"]) as host:
        host.request("set_subagent_subscription", level="progress")
        frames = host.prompt("go")
        at_once = most = 0
        for _, status in lives(frames):
            at_once += 1 if status == "started" else -1
            most = max(most, at_once)
        assert most == 32
        assert len(subagents(host)) == 1000
        text, is_error = result(frames)
        assert not is_error
        assert text.count("said") == 1000
        assert len(text) < 100_000
        assert host.bytes_read < 20_000_000
        assert host.leave() == 0


# Agents


REVIEWER = """\
---
description: Looks for mistakes
tools: read
model: fake/fake-2
---
You review changes.
"""


@pytest.mark.parametrize(("trusted", "model"), [(True, "fake/fake-2"), (False, "fake/fake-1")])
def test_agents_of_the_project_can_be_given_work_and_choose_their_model_if_it_is_trusted(
    tmp_path: Path, trusted: bool, model: str
) -> None:
    with stage(tmp_path, "omp", [answers("check", "fine"), gives("check", agent="reviewer"), says("done")]) as host:
        assert host.leave() == 0
        define(host.around.cwd / ".fairlead" / "agents" / "reviewer.md", REVIEWER)
        define(host.around.home / "agents" / "broken.md", "---\nname: broken\n")
        (host.around.home / "trust.json").write_text(json.dumps({str(host.around.cwd.resolve()): trusted}))
        with another(host, "omp", "--verbose") as later:
            later.prompt("go")
            (each,) = subagents(later).values()
            assert (each["agent"], each["agentSource"]) == ("reviewer", "project")
            assert each["progress"]["resolvedModel"] == model
            (request,) = [request.body for request in later.provider.requests if "You review changes." in str(request.body)]
            assert [tool["name"] for tool in request["tools"]] == ["read"]
            assert later.leave() == 0
            assert "broken.md: line 1: the front matter that begins here has no end." in later.stderr()
            assert ("not trusted: model of the agent reviewer. To trust it, run" in later.stderr()) != trusted


def define(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)


def test_json_mode_shows_the_session_alone(tmp_path: Path) -> None:
    with stage(tmp_path, "omp", [answers("look", "seen"), gives("look"), says("done")]) as host:
        assert host.leave() == 0
        command = [FAIRLEAD, "--mode", "json", "--model", "fake/fake-1", "--tools", "task", "go"]
        env = dict(host.around.env)
        done = subprocess.run(command, cwd=host.around.cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        kinds = {json.loads(line)["type"] for line in done.stdout.splitlines()}
        assert "tool_execution_end" in kinds
        assert not [kind for kind in kinds if kind.startswith("subagent")]
