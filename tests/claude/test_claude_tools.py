"""Claude Code's tools, driven through the protocol: texts for the model, and the results that hosts draw."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.claude.host import ClaudeHost, Frame, claude
from tests.support.stage import Turn, calls

ALL = ("--dangerously-skip-permissions",)
SANDBOX = {"IS_SANDBOX": "1"}
DONE: Turn = {"text": "done"}


def bash(command: str, **more: Any) -> Turn:
    return calls(("Bash", {"command": command, **more}))


def run(work: Path, *turns: Turn, flags: tuple[str, ...] = ALL, env: Mapping[str, str] | None = None) -> list[Frame]:
    """Let the model take these turns. Returns the frames with results of tools."""
    with claude(work, [*turns, DONE], *flags, env={**SANDBOX, **(env or {})}) as host:
        assert host.ask("go")["subtype"] == "success"
        assert host.leave() == 0
    return results(host)


def results(host: ClaudeHost) -> list[Frame]:
    return [frame for frame in host.of("user") if frame["message"]["content"][0]["type"] == "tool_result"]


def text_of(frame: Frame) -> str:
    return frame["message"]["content"][0]["content"]


def is_error(frame: Frame) -> bool:
    return frame["message"]["content"][0].get("is_error", False)


def test_files_are_made_read_and_changed(tmp_path: Path) -> None:
    file = str(tmp_path / "cwd" / "a.txt")
    made, read, changed = run(
        tmp_path,
        calls(("Write", {"file_path": file, "content": "alpha\nbeta\n"})),
        calls(("Read", {"file_path": file})),
        calls(("Edit", {"file_path": file, "old_string": "beta", "new_string": "BETA"})),
    )
    assert made["tool_use_result"] == {
        "type": "create",
        "filePath": file,
        "content": "alpha\nbeta\n",
        "structuredPatch": [],
        "originalFile": None,
        "userModified": False,
    }
    assert text_of(read) == "1\talpha\n2\tbeta\n3\t"
    assert read["tool_use_result"]["file"] == {
        "filePath": file,
        "content": "alpha\nbeta\n",
        "numLines": 3,
        "startLine": 1,
        "totalLines": 3,
    }
    assert changed["tool_use_result"]["structuredPatch"] == [
        {"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": [" alpha", "-beta", "+BETA"]}
    ]
    assert Path(file).read_text() == "alpha\nBETA\n"


def test_a_file_has_to_be_read_before_it_is_changed(tmp_path: Path) -> None:
    (tmp_path / "cwd").mkdir()
    file = tmp_path / "cwd" / "a.txt"
    file.write_text("alpha\n")
    edit = calls(("Edit", {"file_path": str(file), "old_string": "alpha", "new_string": "beta"}))
    touch = bash(f"echo more >> {file}")
    unread, *_, stale, _, fresh = run(
        tmp_path, edit, calls(("Read", {"file_path": str(file)})), touch, edit, calls(("Read", {"file_path": str(file)})), edit
    )
    assert is_error(unread) and text_of(unread).startswith("<tool_use_error>") and "was not read" in text_of(unread)
    assert unread["tool_use_result"].startswith("Error: ")
    assert is_error(stale) and "has changed since" in text_of(stale)
    assert not is_error(fresh)
    assert file.read_text() == "beta\nmore\n"


def test_edits_that_do_not_fit_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "cwd").mkdir()
    file = tmp_path / "cwd" / "a.txt"
    file.write_text("one two one\n")
    named = {"file_path": str(file)}
    _, absent, several, same, every = run(
        tmp_path,
        calls(("Read", named)),
        calls(("Edit", {**named, "old_string": "zzz", "new_string": "y"})),
        calls(("Edit", {**named, "old_string": "one", "new_string": "1"})),
        calls(("Edit", {**named, "old_string": "one", "new_string": "one"})),
        calls(("Edit", {**named, "old_string": "one", "new_string": "1", "replace_all": True})),
    )
    assert [is_error(frame) for frame in (absent, several, same, every)] == [True, True, True, False]
    assert "2 times" in text_of(several)
    assert file.read_text() == "1 two 1\n"


def test_the_working_directory_of_commands_lasts_inside_the_folder(tmp_path: Path) -> None:
    cwd = tmp_path / "cwd"
    (cwd / "sub").mkdir(parents=True)
    told = [
        text_of(frame) for frame in run(tmp_path, bash("cd sub; X=1"), bash("pwd; echo $X"), bash("cd /; exit 0"), bash("pwd"))
    ]
    assert told[1] == str(cwd / "sub")
    assert told[3] == str(cwd)


def test_commands_say_what_went_wrong(tmp_path: Path) -> None:
    both, failed, late, variables = run(
        tmp_path,
        bash("echo out; echo err >&2"),
        bash("echo out; exit 3"),
        bash("sleep 30", timeout=200),
        bash('echo "$CLAUDECODE $GIT_EDITOR $ANTHROPIC_API_KEY."'),
    )
    shape = {"stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False}
    assert both["tool_use_result"] == {"stdout": "out\nerr", **shape}
    assert text_of(failed) == "Exit code 3\nout"
    assert text_of(late) == "Exit code 143\nCommand timed out after 0.2s"
    assert text_of(variables) == "1 true ."


def test_searches(tmp_path: Path) -> None:
    cwd = tmp_path / "cwd"
    (cwd / "src").mkdir(parents=True)
    for age, (name, text) in enumerate({"y.py": "needle\n", "x.py": "import os\nneedle = 1\n"}.items()):
        (cwd / "src" / name).write_text(text)
        os.utime(cwd / "src" / name, (1e9 + age, 1e9 + age))
    by_name, files, lines, count, nothing = run(
        tmp_path,
        calls(("Glob", {"pattern": "**/*.py"})),
        calls(("Grep", {"pattern": "needle"})),
        calls(("Grep", {"pattern": "needle", "output_mode": "content", "glob": "x.*"})),
        calls(("Grep", {"pattern": "needle", "output_mode": "count", "type": "py"})),
        calls(("Grep", {"pattern": "zzz"})),
    )
    assert text_of(by_name) == "src/y.py\nsrc/x.py"
    assert by_name["tool_use_result"]["filenames"] == ["src/y.py", "src/x.py"]
    assert text_of(files) == "Found 2 files\nsrc/x.py\nsrc/y.py"
    assert text_of(lines) == "src/x.py:2:needle = 1"
    assert count["tool_use_result"]["numMatches"] == 2
    assert (text_of(nothing), nothing["tool_use_result"]["numFiles"]) == ("No files found", 0)


def test_images_come_as_blocks(tmp_path: Path) -> None:
    (tmp_path / "cwd").mkdir()
    png = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
    )
    (tmp_path / "cwd" / "a.png").write_bytes(png)
    (frame,) = run(tmp_path, calls(("Read", {"file_path": "$CWD/a.png"})))
    (block,) = frame["message"]["content"][0]["content"]
    assert (block["type"], block["source"]["media_type"]) == ("image", "image/png")
    assert frame["tool_use_result"]["file"]["dimensions"] == {"originalWidth": 1, "originalHeight": 1}


def test_no_line_is_longer_than_a_mebibyte(tmp_path: Path) -> None:
    (tmp_path / "cwd").mkdir()
    content = "".join(f"line {number}\n" for number in range(110_000))
    with claude(
        tmp_path, [calls(("Write", {"file_path": "$CWD/big.txt", "content": content}), chunk=50_000), DONE], *ALL, env=SANDBOX
    ) as host:
        assert host.ask("go")["subtype"] == "success"
        assert host.leave() == 0
    assert (tmp_path / "cwd" / "big.txt").read_text() == content
    assert host.longest_line <= 1 << 20


def test_a_silent_command_may_run_many_times(tmp_path: Path) -> None:
    results = run(tmp_path, *[calls(("Bash", {"command": "true"}))] * 6)
    assert [frame["tool_use_result"]["stdout"] for frame in results] == [""] * 6


def test_todos_and_their_predecessors(tmp_path: Path) -> None:
    one = {"content": "One", "status": "in_progress", "activeForm": "Doing one"}
    turns = calls(("TodoWrite", {"todos": [one]})), calls(("TodoWrite", {"todos": []}))
    first, second = run(tmp_path, *turns, env={"CLAUDE_CODE_ENABLE_TASKS": "0"})
    assert first["tool_use_result"] == {"oldTodos": [], "newTodos": [one]}
    assert second["tool_use_result"] == {"oldTodos": [one], "newTodos": []}


SCHEMA = '{"type":"object","properties":{"answer":{"type":"number"}},"required":["answer"]}'


def test_structured_output_is_asked_for_until_it_fits(tmp_path: Path) -> None:
    turns = [{"text": "I talk"}, calls(("StructuredOutput", {"answer": "x"})), calls(("StructuredOutput", {"answer": 42})), DONE]
    with claude(tmp_path, turns, "--json-schema", SCHEMA) as host:
        result = host.ask("go")
        assert host.leave() == 0
    assert (result["subtype"], result["structured_output"], result["result"]) == ("success", {"answer": 42}, '{"answer":42}')
    assert [is_error(frame) for frame in results(host)] == [True, False]
    assert len(host.of("user", isSynthetic=True)) == 1
    assert len(host.provider.requests) == 3


def test_structured_output_that_never_comes_is_an_error(tmp_path: Path) -> None:
    with claude(tmp_path, [{"text": "I talk"}], "--json-schema", SCHEMA) as host:
        assert host.ask("go")["subtype"] == "error_max_structured_output_retries"
        assert host.leave() == 1


def test_a_sub_agent_has_frames_of_its_own(tmp_path: Path) -> None:
    task = {"description": "Look", "prompt": "SUBTASK look", "subagent_type": "general-purpose", "run_in_background": False}
    turns = [
        {"match": "PARENT", **calls(("Agent", task))},
        {"match": "SUBTASK", **bash("echo from sub")},
        {"text": "Sub done."},
        {"text": "Parent done."},
    ]
    with claude(tmp_path, turns, "--allowedTools", "Bash,Agent") as host:
        result = host.ask("PARENT go")
        assert host.leave() == 0
    assert result["result"] == "Parent done."
    (call,) = [
        frame["message"]["content"][0]["id"]
        for frame in host.of("assistant", parent_tool_use_id=None)
        if frame["message"]["content"][0]["type"] == "tool_use"
    ]
    inner = [
        frame["message"]["content"][0]
        for frame in [*host.of("assistant", parent_tool_use_id=call), *host.of("user", parent_tool_use_id=call)]
    ]
    assert [block["type"] for block in inner] == ["tool_use", "text", "tool_result"]
    (told,) = [frame["tool_use_result"] for frame in results(host) if frame["parent_tool_use_id"] is None]
    assert (told["status"], told["agentType"], told["totalToolUseCount"]) == ("completed", "general-purpose", 1)
    assert told["content"] == [{"type": "text", "text": "Sub done."}]
    assert host.of("system", subtype="task_notification")[0]["status"] == "completed"


def test_without_a_rule_nothing_is_changed(tmp_path: Path) -> None:
    write = calls(("Write", {"file_path": "$CWD/w.txt", "content": "x"}))
    with claude(tmp_path, [bash("mkdir a"), write, DONE]) as host:
        result = host.ask("go")
        assert host.leave() == 0
    assert not list((tmp_path / "cwd").iterdir())
    assert [denial["tool_name"] for denial in result["permission_denials"]] == ["Bash", "Write"]
    assert len(host.of("system", subtype="permission_denied")) == 2


def test_rules_of_flags(tmp_path: Path) -> None:
    flags = ("--allowedTools", "Bash(mkdir:*),Write", "--disallowedTools", "Grep Bash(mkdir b)", "--tools", "Bash,Write,Grep")
    frames = run(
        tmp_path,
        bash("mkdir a"),
        bash("mkdir b"),
        bash("rmdir a"),
        calls(("Write", {"file_path": "$CWD/w", "content": ""})),
        flags=flags,
    )
    assert [is_error(frame) for frame in frames] == [False, True, True, False]


def test_the_mode_acceptedits_lets_files_of_the_folder_be_written(tmp_path: Path) -> None:
    inside = calls(("Write", {"file_path": "$CWD/w.txt", "content": "x"}))
    outside = calls(("Write", {"file_path": str(tmp_path / "o.txt"), "content": "x"}))
    frames = run(tmp_path, inside, outside, bash("ln -s a t"), flags=("--permission-mode", "acceptEdits"))
    assert [is_error(frame) for frame in frames] == [False, True, True]


def test_the_host_is_asked_and_may_change_the_input(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("mkdir a"), bash("mkdir b"), DONE], "--permission-prompt-tool", "stdio") as host:
        host.say("go")
        asked = host.until("control_request")
        assert (asked["request"]["tool_name"], asked["request"]["input"]) == ("Bash", {"command": "mkdir a"})
        allow = {"behavior": "allow", "updatedInput": {"command": "echo changed"}}
        host.send(reply(asked, allow))
        host.send(reply(host.until("control_request", nth=2), {"behavior": "deny", "message": "Not today"}))
        result = host.until("result")
        assert host.leave() == 0
    assert next(text_of(frame) for frame in results(host)) == "changed"
    assert "Not today" in text_of(results(host)[1])
    assert len(result["permission_denials"]) == 1


def test_a_question_is_withdrawn_by_an_interrupt_and_fails_closed_when_the_host_leaves(tmp_path: Path) -> None:
    with claude(tmp_path, [bash("mkdir a"), bash("mkdir b"), DONE], "--permission-prompt-tool", "stdio") as host:
        host.say("go")
        asked = host.until("control_request")
        host.control("interrupt")
        assert host.until("control_cancel_request")["request_id"] == asked["request_id"]
        assert host.until("result")["terminal_reason"] == "aborted_tools"
        host.say("again")
        host.until("control_request", nth=2)
        assert host.leave() == 0
    assert host.of("result")[-1]["subtype"] == "success"
    assert not list((tmp_path / "cwd").iterdir())


def reply(asked: Frame, response: Any) -> Frame:
    return {
        "type": "control_response",
        "response": {"subtype": "success", "request_id": asked["request_id"], "response": response},
    }
