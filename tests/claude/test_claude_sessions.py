"""Sessions of the claude dialect: their files, and how they are resumed, continued and forked."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.claude.host import ClaudeHost, Frame, another, claude
from tests.support.stage import calls

from fairlead.session.history.claude_files import ClaudeFile, new_uuid, parse, project_folder

ID = "11111111-1111-4111-8111-111111111111"
UNKNOWN = "99999999-1111-4111-8111-111111111111"


def file_of(host: ClaudeHost, session: str) -> Path:
    return project_folder(host.work / "home/.claude/projects", host.work / "cwd") / f"{session}.jsonl"


def lines_of(path: Path) -> list[Frame]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def find_texts(host: ClaudeHost) -> list[str]:
    """The texts of the last request to the model, without those of tools."""
    found: list[str] = []
    for message in host.provider.requests[-1].body["messages"]:
        content: Any = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [block["text"] for block in blocks if block["type"] == "text"]
    return found


def test_the_file_has_the_layout_of_claude_code(tmp_path: Path) -> None:
    read = calls(("Read", {"file_path": "$CWD/a"}), ("Glob", {"pattern": "*"}), text="Looking.")
    with claude(tmp_path, [read, {"text": "done"}]) as host:
        session = host.ask("go")["session_id"]
        assert host.leave() == 0
    tree = [line for line in lines_of(file_of(host, session)) if "uuid" in line]
    assert [line["type"] for line in tree] == ["user", "assistant", "assistant", "assistant", "user", "user", "assistant"]
    assert [line["message"]["content"][0]["type"] for line in tree[1:]] == [
        "text",
        "tool_use",
        "tool_use",
        "tool_result",
        "tool_result",
        "text",
    ]
    uuids = [line["uuid"] for line in tree]
    # Each result follows its own call, and results come in the order in which the calls end.
    calls_of = {line["message"]["content"][0]["id"]: line["uuid"] for line in tree[2:4]}
    parents = [calls_of[line["message"]["content"][0]["tool_use_id"]] for line in tree[4:6]]
    assert sorted(parents) == sorted(uuids[2:4])
    assert [line["parentUuid"] for line in tree] == [None, *uuids[:3], *parents, uuids[5]]
    assert {line["sessionId"] for line in tree} == {session} and tree[0]["cwd"] == str(tmp_path / "cwd")
    assert len({line["message"]["id"] for line in tree[1:4]}) == 1
    framed = [frame["uuid"] for frame in host.frames if frame["type"] in ("assistant", "user")]
    assert framed == uuids[1:]
    assert '"type":"user"' in file_of(host, session).read_text()


def test_an_entry_is_on_disk_before_its_frame(tmp_path: Path) -> None:
    held = {"thinking": "Hm.", "text": "word " * 30, "holdAfter": 4}
    with claude(tmp_path, [held, {"text": "after"}]) as host:
        host.say("go")
        seen = host.until("assistant")
        host.signal(signal.SIGKILL)
        host.exit_code()
        path = file_of(host, seen["session_id"])
        assert seen["uuid"] in [line.get("uuid") for line in lines_of(path)]
        with path.open("ab") as file:
            file.write(b'{"type":"user","uuid":"torn')
        with another(host, f"--resume={seen['session_id']}") as resumed:
            assert resumed.ask("again")["result"] == "after"
            assert resumed.leave() == 0
    assert find_texts(host)[0] == "go" and find_texts(host)[-1] == "again"


@pytest.mark.parametrize("name", ["--resume=The title", "--continue"])
def test_resuming_ignores_files_that_are_not_sessions(tmp_path: Path, name: str) -> None:
    with claude(tmp_path, [{"text": "one"}, {"text": "two"}]) as host:
        session = host.ask("go")["session_id"]
        host.control("rename_session", title="The title")
        assert host.leave() == 0
        folder = file_of(host, session).parent
        os.mkfifo(folder / f"{new_uuid()}.jsonl")
        for target in ("/dev/zero", "/proc/self/environ", "/nowhere"):
            (folder / f"{new_uuid()}.jsonl").symlink_to(target)
        with another(host, name) as resumed:
            assert resumed.ask("again")["session_id"] == session
            assert resumed.leave() == 0


def test_sessions_are_resumed_continued_and_forked(tmp_path: Path) -> None:
    turns = [{"text": f"answer {number}"} for number in range(1, 7)]
    with claude(tmp_path, turns) as host:
        first = host.ask("one")
        assert host.leave() == 0
        session = first["session_id"]
        with another(host, f"--resume={session}") as resumed:
            second = resumed.ask("two")
            assert resumed.leave() == 0
        assert (second["session_id"], find_texts(host)) == (session, ["one", "answer 1", "two"])
        assert second["total_cost_usd"] == pytest.approx(2 * first["total_cost_usd"])
        with another(host, "--continue") as continued:
            assert continued.ask("three")["session_id"] == session
            assert continued.leave() == 0
        with another(host, "--resume", session, "--fork-session") as forked:
            fork = forked.ask("four")["session_id"]
            assert forked.leave() == 0
        assert fork != session
        assert find_texts(host) == ["one", "answer 1", "two", "answer 2", "three", "answer 3", "four"]
        with another(host, f"--resume={session}", "--no-session-persistence") as kept:
            size = file_of(host, session).stat().st_size
            kept.ask("five")
            assert kept.leave() == 0
        assert file_of(host, session).stat().st_size == size


def test_a_session_can_be_cut_after_a_message(tmp_path: Path) -> None:
    with claude(tmp_path, [{"text": "first"}, {"text": "second"}, {"text": "third"}]) as host:
        session = host.ask("one")["session_id"]
        host.ask("two")
        assert host.leave() == 0
        cut = host.of("assistant")[0]["uuid"]
        with another(host, f"--resume={session}", f"--resume-session-at={cut}") as resumed:
            resumed.ask("three")
            assert resumed.leave() == 0
    assert find_texts(host) == ["one", "first", "three"]


def test_ids_that_are_in_use_or_unknown_are_refused(tmp_path: Path) -> None:
    with claude(tmp_path, [{"text": "ok"}], f"--session-id={ID}") as host:
        assert host.ask("one")["session_id"] == ID
        assert host.leave() == 0
        with another(host, f"--session-id={ID}") as second:
            assert second.exit_code() == 1
        assert (second.frames, second.stderr().count("\n")) == ([], 1)
        with another(host, f"--resume={UNKNOWN}") as third:
            assert third.exit_code() == 1
        assert [frame["errors"] for frame in third.frames] == [[f"No conversation found with session ID: {UNKNOWN}"]]
        with another(host, f"--resume={UNKNOWN}", "-p", "x", base=()) as fourth:
            assert fourth.exit_code() == 1


def test_a_title_names_a_session_and_survives(tmp_path: Path) -> None:
    with claude(tmp_path, [{"text": "ok"}]) as host:
        session = host.ask("one")["session_id"]
        host.control("rename_session", title="Fix it")
        assert host.leave() == 0
        assert lines_of(file_of(host, session))[-1] == {"type": "custom-title", "customTitle": "Fix it", "sessionId": session}
        with another(host, "--resume", "Fix it") as resumed:
            assert resumed.ask("two")["session_id"] == session
            assert resumed.leave() == 0
    assert find_texts(host) == ["one", "ok", "two"]


def test_the_model_that_was_chosen_and_failed_attempts_are_read_again(tmp_path: Path) -> None:
    turns = [{"status": 529, "error": "busy"}, {"text": "one"}, {"text": "two"}, {"text": "three"}]
    with claude(tmp_path, turns, model=None, env={"ANTHROPIC_MODEL": "claude-sonnet-4-5"}) as host:
        session = host.ask("a")["session_id"]
        host.control("set_model", model="claude-haiku-4-5")
        host.ask("b")
        assert host.leave() == 0
        with another(host, f"--resume={session}", model=None) as resumed:
            assert resumed.ask("c")["result"] == "three"
            assert resumed.leave() == 0
    assert host.provider.requests[-1].body["model"] == "claude-haiku-4-5"
    assert find_texts(host) == ["a", "one", "b", "two", "c"]


CALL = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "a"}}


def _uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def _line(kind: str, uuid: int, parent: int | None, content: Any, **more: Any) -> str:
    message: Frame = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {"id": "m1", "model": "x", "usage": {}}
    parent_uuid = None if parent is None else _uuid(parent)
    return json.dumps({"type": kind, "uuid": _uuid(uuid), "parentUuid": parent_uuid, "message": message, **more})


def test_results_of_calls_that_ran_together_are_all_read(tmp_path: Path) -> None:
    """The results name their calls, so that the tree forks at each of them."""
    path = tmp_path / f"{ID}.jsonl"
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "A"}
    lines = [
        '{"type":"queue-operation","operation":"enqueue"}',
        _line("user", 1, None, "go"),
        json.dumps(
            {
                "type": "attachment",
                "uuid": "00000000-0000-4000-8000-000000000002",
                "parentUuid": "00000000-0000-4000-8000-000000000001",
            }
        ),
        _line("assistant", 3, 2, [{"type": "text", "text": "Both."}]),
        _line("assistant", 4, 3, [CALL]),
        _line("assistant", 5, 4, [{**CALL, "id": "c2"}]),
        _line("user", 6, 5, [{**result, "tool_use_id": "c2", "content": "B"}]),
        _line("user", 7, 4, [result]),
        _line("user", 8, 7, "next"),
        _line("user", 9, 8, "of a sub-agent", isSidechain=True),
        "not json",
    ]
    path.write_text("\n".join(lines) + "\n")
    contents, problems = parse(path, path.read_bytes())
    assert [message.role for message in contents.log.messages()] == ["user", "assistant", "toolResult", "toolResult", "user"]
    assert len(problems) == 1
    file, log, _ = ClaudeFile.open(path)
    file.close()
    assert len(log.messages()) == 5
    assert path.read_text().startswith(lines[0])


def test_long_folder_names_are_cut_and_hashed() -> None:
    folder = project_folder(Path("/p"), Path("/" + "x" * 150 + "/" + "y" * 150))
    assert len(folder.name) > 200 and folder.name.startswith("-" + "x" * 150 + "-" + "y" * 48 + "-")


def test_a_host_gets_a_mirror_of_all_lines_before_each_result(tmp_path: Path) -> None:
    turns = [calls(("Bash", {"command": "seq 1 200000"})), {"text": "one"}, {"text": "two"}]
    with claude(tmp_path, turns, "--session-mirror", "--allowedTools", "Bash") as host:
        for prompt in ("first", "second"):
            session = host.ask(prompt)["session_id"]
            mirrored = [entry for frame in host.of("transcript_mirror") for entry in frame["entries"]]
            assert mirrored == lines_of(file_of(host, session))
            kinds = [frame["type"] for frame in host.frames]
            assert kinds.index("transcript_mirror") < kinds.index("result")
        host.control("rename_session", title="Later")
        assert host.leave() == 0
    mirrored = [entry for frame in host.of("transcript_mirror") for entry in frame["entries"]]
    assert mirrored == lines_of(file_of(host, session)) and mirrored[-1]["customTitle"] == "Later"
    assert {frame["filePath"] for frame in host.of("transcript_mirror")} == {str(file_of(host, session))}
    assert host.longest_line <= 1 << 20


def test_no_mirror_is_sent_unasked(tmp_path: Path) -> None:
    with claude(tmp_path) as host:
        host.ask("go")
    assert not host.of("transcript_mirror")


def test_a_long_output_is_kept_beside_the_session(tmp_path: Path) -> None:
    with claude(tmp_path, [calls(("Bash", {"command": "seq 1 200000"})), {"text": "ok"}], "--allowedTools", "Bash") as host:
        session = host.ask("go")["session_id"]
        assert host.leave() == 0
    [result] = [frame["tool_use_result"] for frame in host.of("user")]
    kept = Path(result["persistedOutputPath"])
    assert kept.parent == file_of(host, session).with_suffix("") / "tool-results"
    assert kept.read_text().splitlines() == [str(number) for number in range(1, 200_001)]
    assert result["persistedOutputSize"] == kept.stat().st_size


PROMPTS = [
    f"{number}{number}{number}{number}{number}{number}{number}{number}-1111-4111-8111-111111111111" for number in (1, 2, 3)
]


def test_a_turn_is_dropped_only_if_it_is_the_only_one(tmp_path: Path) -> None:
    with claude(tmp_path, [{"text": "ok"}], loop=True) as host:
        session = [host.ask(uuid[:2], uuid=uuid)["session_id"] for uuid in PROMPTS[:2]][-1]
        kept = host.of("assistant")[0]["uuid"]
        assert host.leave() == 0
        cut = ("--resume", session, "--resume-session-at", kept)
        with another(host, *cut, "--resume-drops-turn", PROMPTS[2]) as other:
            refused = other.until("result")
            assert other.exit_code() == 1
        assert refused["is_error"] and "Resume rejected by --resume-drops-turn:" in refused["errors"][0]
        with another(host, *cut, "--resume-drops-turn", PROMPTS[1]) as other:
            other.ask("new", uuid=PROMPTS[2])
            assert other.leave() == 0
        assert "22" not in find_texts(host) and "11" in find_texts(host)
        before = file_of(host, session).read_bytes()
        # The prompts on the present path are the first and the third one.
        with another(host, *cut, "--resume-drops-turn", PROMPTS[1]) as other:
            assert other.until("result")["is_error"]
        assert file_of(host, session).read_bytes() == before


def test_a_cut_at_an_unknown_message_is_refused_at_the_start(tmp_path: Path) -> None:
    with claude(tmp_path) as host:
        session = host.ask("go")["session_id"]
        assert host.leave() == 0
        with another(host, "--resume", session, "--resume-session-at", UNKNOWN) as other:
            assert UNKNOWN in other.until("result")["errors"][0]
            assert other.exit_code() == 1
