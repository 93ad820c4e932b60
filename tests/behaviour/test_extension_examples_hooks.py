"""The examples of extensions that step in: each does over the pipes what it promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.behaviour.examples import (
    answer,
    asked,
    caught_up,
    command,
    git,
    notices,
    playing,
    repository,
    requests,
    results,
    statuses,
    system_prompt,
)
from tests.support.session_host import SUMMARY, conversation, session_file
from tests.support.stage import bash, calls, says


def test_permission_gate_asks_before_risky_commands_alone(tmp_path: Path) -> None:
    risky, harmless = bash("rm -rf build"), bash("echo fine")
    turns = [calls(risky, harmless), says("1"), calls(risky), says("2"), calls(risky), says("3")]
    with playing(tmp_path, "permission_gate", turns=turns, files={"build/x": "x"}) as host:
        host.send({"id": "p", "type": "prompt", "message": "one"})
        question = answer(host, "select", value="Deny")
        assert "rm -rf build" in question["title"] + question.get("message", "")
        host.until("agent_settled")
        assert sorted(results(host.frames)) == [("The user does not want 'rm -rf build' to run.", True), ("fine\n", False)]
        assert (host.around.cwd / "build").exists()
        since = host.mark()
        host.send({"id": "q", "type": "prompt", "message": "two"})
        answer(host, "select", since=since, value="Approve for session")
        host.until("agent_settled", since=since)
        assert not (host.around.cwd / "build").exists()
        assert not results(host.prompt("three"))[0][1] and len(requests(host, "select")) == 2


def test_bash_limit_stops_commands_that_have_no_limit_of_their_own(tmp_path: Path) -> None:
    turns = [calls(bash("sleep 600")), calls(("bash", {"command": "sleep 0.3; echo slow", "timeout": 20})), says("ok")]
    with playing(tmp_path, "bash_limit", turns=turns, flags=["--bash-limit", "0.1"]) as host:
        (text, failed), slow = results(host.prompt("go"))
        assert failed and "0.1 seconds" in text
        assert slow == ("slow\n", False)


def test_redact_secrets_keeps_keys_from_the_model(tmp_path: Path) -> None:
    turns = [calls(("read", {"path": "env"}), bash("echo none")), says("Use sk-made-up-by-the-model.")]
    with playing(tmp_path, "redact_secrets", turns=turns, files={"env": "KEY=sk-abcdefgh1234\n"}) as host:
        frames = host.prompt("read it")
        assert asked(host)[1:3] == ["KEY=[secret]\n", "none\n"]
        details: list[Any] = [frame["result"].get("details") or {} for frame in frames if frame["type"] == "tool_execution_end"]
        assert sorted(each.get("redacted", 0) for each in details) == [0, 1]
        written = session_file(host).read_text()
        assert "sk-abcdefgh1234" not in written
        assert "Use [secret]." in written and "sk-made-up" not in written


def test_shortcuts_replace_or_handle_the_input(tmp_path: Path) -> None:
    with playing(tmp_path, "shortcuts") as host:
        assert host.request("prompt", message="# buy milk")["success"]
        assert (host.around.cwd / "NOTES.md").read_text() == "- buy milk\n" and notices(host) == ["Noted."]
        assert not host.provider.requests
        host.prompt("?why is it slow")
        host.prompt("plain")
        assert conversation(host)[::2] == ["Answer in one sentence: why is it slow", "plain"]


def test_git_briefing_goes_with_every_prompt(tmp_path: Path) -> None:
    repository(tmp_path)
    with playing(tmp_path, "git_briefing", files={"new.txt": "x"}) as host:
        host.prompt("hi")
        assert asked(host) == ["hi", "## main\n?? ./\n"]
        assert system_prompt(host).endswith("at most 60 characters.")
        assert [each["display"] for each in host.request("get_messages")["data"]["messages"] if each["role"] == "custom"] == [
            False
        ]


def test_forget_old_output_cuts_the_context_but_not_the_session(tmp_path: Path) -> None:
    turns = [calls(bash("seq 1 500")), says("1"), says("2"), says("3")]
    with playing(tmp_path, "forget_old_output", turns=turns) as host:
        host.prompt("a")
        host.prompt("b")
        assert len(asked(host)[1]) > 1000
        host.prompt("c")
        assert len(asked(host)[1]) < 600 and "Call the tool again" in asked(host)[1]
        assert "500" in conversation(host)[2]


def test_answer_language_is_added_to_the_system_prompt_of_requests(tmp_path: Path) -> None:
    with playing(tmp_path, "answer_language", flags=["--language", "French"]) as host:
        host.prompt("hi")
        assert "Answer in French" in system_prompt(host)
        assert "French" not in host.request("get_state", verbose=True)["data"]["systemPrompt"]


def test_provider_wire_marks_requests_and_shows_answers(tmp_path: Path) -> None:
    with playing(tmp_path, "provider_wire") as host:
        host.prompt("hi")
        request = host.provider.requests[0]
        assert request.body["metadata"] == {"user_id": "project"} and request.headers["x-team"] == "harbour"
        (status,) = statuses(host, "provider")
        assert status is not None and status.startswith("200 text/event-stream")
        (stream,) = statuses(host, "stream")
        assert stream is not None and int(stream.split()[0]) > 2


def test_check_before_done_sends_the_model_back_until_the_check_succeeds(tmp_path: Path) -> None:
    write = calls(("write", {"path": "done", "content": "half\n"}))
    better = calls(("write", {"path": "done", "content": "whole\n"}))
    turns = [says("nothing to do"), write, says("done"), better, says("really done")]
    with playing(tmp_path, "check_before_done", turns=turns, flags=["--check", "cat done; grep -q whole done"]) as host:
        host.prompt("hi")
        assert len(host.provider.requests) == 1, "nothing was changed"
        host.prompt("work")
        assert len(host.provider.requests) == 5
        assert asked(host)[-2] == "cat done; grep -q whole done failed with code 1. Put that right:\nhalf\n"


def test_check_before_done_gives_up_after_three_attempts(tmp_path: Path) -> None:
    write = calls(("write", {"path": "a", "content": "x"}))
    with playing(tmp_path, "check_before_done", turns=[write, *[says("no")] * 9], flags=["--check", "false"]) as host:
        host.prompt("work")
        assert len(host.provider.requests) == 5


def test_uncommitted_guard_asks_before_a_session_is_left_or_forked(tmp_path: Path) -> None:
    repository(tmp_path)
    with playing(tmp_path, "uncommitted_guard") as host:
        assert host.request("new_session")["data"] == {"cancelled": False}
        host.prompt("hi")
        (tmp_path / "notes.txt").write_text("changed\n")
        file = session_file(host)
        entry = host.request("get_fork_messages")["data"]["messages"][0]["entryId"]
        for number, (moves, said, shown) in enumerate(
            [
                ({"type": "new_session"}, False, "Start a new session with uncommitted changes?"),
                ({"type": "fork", "entryId": entry}, False, "Fork the session with uncommitted changes?"),
                ({"type": "switch_session", "sessionPath": str(file)}, True, f"Switch to {file} with uncommitted changes?"),
            ],
            1,
        ):
            host.send({"id": f"m{number}", **moves})
            question = answer(host, "confirm", nth=number, confirmed=said)
            assert question["title"] == shown and "notes.txt" in question["message"]
            assert host.response(f"m{number}")["data"]["cancelled"] is not said


def test_own_compaction_writes_the_summary_itself(tmp_path: Path) -> None:
    turns = [says("word " * 80), says("word " * 80)]
    with playing(tmp_path, "own_compaction", turns=turns, settings={"compaction": {"keepRecentTokens": 101}}) as host:
        host.prompt("paint the boat")
        host.prompt("scrub the deck")
        assert host.request("compact", customInstructions="never")["error"] == "Compaction cancelled: You said never."
        done = host.request("compact")["data"]
        assert done["summary"] == "The user asked for:\n- paint the boat" and done["details"] == {"prompts": 1}
        assert len(host.provider.requests) == 2, "no model was asked for a summary"
        caught_up(host)
        refused, compacted = notices(host)
        assert refused == "Not compacted: You said never."
        assert compacted == "Compacted (manual); the summary is mine."


def test_branch_notes_sum_up_the_branch_that_is_left(tmp_path: Path) -> None:
    files = {"go.py": GO_BACK}
    turns = [
        says("first"),
        calls(("write", {"path": "b.txt", "content": "x"}), ("read", {"path": "a.txt"})),
        says("second"),
        SUMMARY,
    ]
    with playing(tmp_path, "branch_notes", turns=turns, flags=["-e", "go.py"], files=files) as host:
        host.prompt("one")
        host.prompt("two")
        command(host, "/go")
        told = conversation(host)
        assert told[:2] == ["one", "first"] and "had touched: a.txt, b.txt." in told[2]
        assert notices(host)[-1].endswith(", with a summary.")
        labels = [entry["label"] for entry in host.request("get_entries")["data"]["entries"] if entry["type"] == "label"]
        assert labels == ["given up"]


#: Goes back to the first answer, with a summary: hosts of pi have no command for that.
GO_BACK = """
def setup(fl):
    @fl.register_command("go")
    async def go(arguments, context):
        answers = [entry for entry in context.session.branch() if entry.get("message", {}).get("role") == "assistant"]
        assert await context.navigate(answers[0]["id"], summarise=True)
"""


def test_remote_shell_runs_the_users_commands_elsewhere_and_the_models_here(tmp_path: Path) -> None:
    turns = [calls(bash("echo ${WHERE-here}")), says("ok")]
    with playing(tmp_path, "remote_shell", turns=turns, flags=["--remote", "env WHERE=there sh -c"]) as host:
        done = host.request("bash", command="echo $WHERE; exit 3")["data"]
        assert (done["output"], done["exitCode"]) == ("there\n", 3)
        assert results(host.prompt("go")) == [("here\n", False)]


def test_trust_own_projects_decides_without_asking(tmp_path: Path) -> None:
    files = {".fairlead/extensions/theirs.py": "def setup(fl):\n    fl.register_command('theirs', lambda: None)\n"}
    with playing(tmp_path, "trust_own_projects", flags=["--trust-below", str(tmp_path)], files=files) as host:
        assert [each["name"] for each in host.request("get_commands")["data"]["commands"]] == ["theirs"]
        assert not requests(host, "confirm") and not (host.around.home / "trust.json").exists()


def test_team_resources_are_listed_with_the_users_own(tmp_path: Path) -> None:
    files = {
        "team/prompts/greet.md": "---\ndescription: Greets\n---\nGreet $1.",
        "team/skills/knots/SKILL.md": "---\nname: knots\ndescription: Ties knots\n---\nTie.",
    }
    with playing(tmp_path, "team_resources", flags=["--team-folder", "team"], files=files) as host:
        names = {each["name"] for each in host.request("get_commands")["data"]["commands"]}
        assert names == {"greet", "skill:knots"}
        host.prompt("/greet Ann")
        assert asked(host) == ["Greet Ann."] and "Ties knots" in system_prompt(host)


def test_git_checkpoint_brings_the_files_back(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / "notes.txt").write_text("not committed\n")
    with playing(tmp_path, "git_checkpoint") as host:
        host.prompt("hi")
        (tmp_path / "notes.txt").write_text("broken\n")
        host.send({"id": "r", "type": "prompt", "message": "/rewind"})
        answer(host, "confirm", confirmed=True)
        assert host.response("r")["success"]
        assert (tmp_path / "notes.txt").read_text() == "not committed\n"
        assert git(tmp_path, "log", "--format=%s") == "First"
        assert '"customType":"git-checkpoint"' in session_file(host).read_text()


def test_work_log_has_the_beginning_and_the_end_of_sessions(tmp_path: Path) -> None:
    with playing(tmp_path, "work_log") as host:
        host.prompt("hi")
        host.request("new_session")
        assert host.leave() == 0
        lines = (host.around.cwd / "work-log.txt").read_text().splitlines()
        assert [line.split(" ", 2)[2] for line in lines] == ["began (startup)", "ended (new)", "began (new)", "ended (quit)"]
        assert len({line.split(" ")[1] for line in lines}) == 2
