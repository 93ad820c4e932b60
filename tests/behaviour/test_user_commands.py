"""Commands that the host runs for its user: their output as it comes, what is kept of them, and what the model is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.host import Frame
from tests.support.session_host import asked, kept, messages, session_file, stage
from tests.support.stage import BEGAN, HELD, WAIT, Stage, bash, calls, says

pytestmark = pytest.mark.parametrize("dialect", ["pi", "omp", "xcsh"])


def updates(host: Stage, ident: object) -> list[Frame]:
    return [frame for frame in host.frames if frame["type"] == "bash_execution_update" and frame.get("id") == ident]


def output_of(frames: list[Frame]) -> str:
    return "".join(frame["delta"] for frame in frames)


# Output as it comes


def test_output_is_shown_while_the_command_runs_and_adds_up(dialect: str, tmp_path: Path) -> None:
    ident = {"any": ["value", 1]}
    with stage(tmp_path, dialect) as host:
        host.send(
            {"id": ident, "type": "bash", "command": f"printf 'a\\033[31mb\\033[0m'; {WAIT}; echo 'ü'; echo err >&2; exit 3"}
        )
        assert host.until("bash_execution_update") == {"type": "bash_execution_update", "id": ident, "delta": "ab"}
        assert host.request("get_state")["success"] is True
        host.go.open()
        answer = host.response(ident)
        assert (answer["data"]["output"], answer["data"]["exitCode"]) == ("abü\nerr\n", 3)
        assert output_of(updates(host, ident)) == "abü\nerr\n"
        assert host.frames[-1] == answer


def test_the_updates_of_commands_that_run_at_once_have_their_ids(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.send({"id": "slow", "type": "bash", "command": f"echo one; {BEGAN}; {WAIT}; echo three"})
        host.began.wait()
        assert host.request("bash", id="fast", command="echo two; echo > $HOME/go")["data"]["output"] == "two\n"
        assert host.response("slow")["data"]["output"] == "one\nthree\n"
        assert output_of(updates(host, "slow")) == "one\nthree\n"
        assert output_of(updates(host, "fast")) == "two\n"
        since = host.mark()
        host.send({"type": "bash", "command": "echo nameless"})
        answer = host.until("response", since=since, command="bash")
        assert "id" not in answer
        (update,) = [frame for frame in host.frames[since:] if frame["type"] == "bash_execution_update"]
        assert update == {"type": "bash_execution_update", "delta": "nameless\n"}


def test_updates_show_all_of_an_output_whose_answer_is_cut(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        data = host.request("bash", id="b", command="seq 1 5000")["data"]
        assert data["truncated"] is True
        assert output_of(updates(host, "b")) == "".join(f"{number}\n" for number in range(1, 5_001))
        assert host.request("bash", id="silent", command="true")["data"]["output"] == ""
        assert updates(host, "silent") == []


# What is kept, and what the model is told


@pytest.mark.parametrize(
    ("command", "entry", "told"),
    [
        ("echo hi", {"output": "hi\n", "exitCode": 0}, "Ran `echo hi`\n```\nhi\n\n```"),
        ("true", {"output": "", "exitCode": 0}, "Ran `true`\n(no output)"),
        (
            "echo no; exit 3",
            {"output": "no\n", "exitCode": 3},
            "Ran `echo no; exit 3`\n```\nno\n\n```\n\nCommand exited with code 3",
        ),
    ],
    ids=["output", "silence", "failure"],
)
def test_a_user_command_is_saved_and_reaches_the_model(
    dialect: str, command: str, entry: Frame, told: str, tmp_path: Path
) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("first")
        host.request("bash", command=command)
        kept_entry = kept(session_file(host)).of("message")[-1]
        message = kept_entry["message"]
        assert isinstance(message.pop("timestamp"), int)
        assert message == {"role": "bashExecution", "command": command, "cancelled": False, "truncated": False, **entry}
        assert messages(host)[-1].items() >= message.items()
        assert [frame for frame in host.frames if frame["type"] == "message_end"][2:] == [], "no event tells of it"
        host.prompt("second")
        shown, question = (message["content"][0]["text"] for message in host.provider.requests[-1].body["messages"][-2:])
        assert (shown, question) == (told, "second")


def test_a_long_output_is_cut_and_names_its_full_log(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        data = host.request("bash", command="seq 1 5000")["data"]
        host.prompt("first")
        message = kept(session_file(host)).messages[0]
        assert message.items() >= {"truncated": True, "fullOutputPath": data["fullOutputPath"], "output": data["output"]}.items()
        told = host.provider.requests[-1].body["messages"][0]["content"][0]["text"]
        assert told.endswith(f"4999\n5000\n```\n\n[Output truncated. Full output: {data['fullOutputPath']}]")


def test_a_cancelled_command_is_kept_as_such(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("first")
        host.send({"id": "b", "type": "bash", "command": f"echo begun; {BEGAN}; sleep 600"})
        host.began.wait()
        host.request("abort_bash")
        host.response("b")
        message = kept(session_file(host)).messages[-1]
        assert message.items() >= {"output": "begun\n", "cancelled": True}.items()
        assert "exitCode" not in message
        host.prompt("second")
        assert "(command cancelled)" in asked(host.provider.requests[-1])


def test_an_excluded_command_is_saved_but_hidden_from_the_model(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("first")
        host.request("bash", command="echo secret", excludeFromContext=True)
        host.request("bash", command="echo public", excludeFromContext=None)
        secret, public = kept(session_file(host)).messages[-2:]
        assert (secret["output"], secret["excludeFromContext"]) == ("secret\n", True)
        assert not public.get("excludeFromContext")
        assert [message.get("excludeFromContext", False) for message in messages(host)[-2:]] == [True, False]
        host.prompt("second")
        told = asked(host.provider.requests[-1])
        assert "public" in told and "secret" not in told


def test_a_command_during_a_run_comes_after_it(dialect: str, tmp_path: Path) -> None:
    turns = [calls(bash(f"{BEGAN}; {WAIT}; echo tool")), HELD, says("next")]
    with stage(tmp_path, dialect, turns) as host:
        host.send({"id": "p", "type": "prompt", "message": "go"})
        host.began.wait()
        host.request("bash", command="echo mine")
        host.go.open()
        host.update("text_delta")
        assert "mine" not in asked(host.provider.requests[1])
        host.provider.release()
        host.until("agent_settled")
        roles = ["user", "assistant", "toolResult", "assistant", "bashExecution"]
        assert [message["role"] for message in messages(host)] == roles
        assert [message["role"] for message in kept(session_file(host)).messages] == roles
        host.prompt("second")
        assert "mine" in asked(host.provider.requests[2])


def test_a_command_before_the_first_prompt_is_kept_too(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.request("bash", command="echo early")
        assert [message["output"] for message in kept(session_file(host)).messages] == ["early\n"]
        host.prompt("first")
        assert [message["role"] for message in kept(session_file(host)).messages] == ["bashExecution", "user", "assistant"]
        assert "early" in asked(host.provider.requests[0])
