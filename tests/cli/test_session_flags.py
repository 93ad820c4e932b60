"""Which session a command line asks for, where sessions are kept, and who may read them."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.command import Command, Scripted
from tests.support.host import Frame, Host
from tests.support.session_host import conversation, kept, session_file, state, texts
from tests.support.surroundings import rpc


def folder_of(command: Command, sessions: Path | None = None) -> Path:
    """Where the sessions of the project are."""
    return (sessions or command.around.home / "sessions") / f"--{str(command.around.cwd)[1:].replace('/', '-')}--"


def session_files(folder: Path) -> list[Path]:
    """The session files of a folder, oldest first."""
    return sorted(folder.glob("*.jsonl"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def asked_texts(command: Command) -> list[str]:
    return texts(command.asked["messages"])


@contextmanager
def host(command: Command, *flags: str, **env: str) -> Generator[Host]:
    with Host(rpc("pi", *flags), command.around.cwd, command.env(env)) as host:
        yield host


def refusal(command: Command, *flags: str) -> str:
    """Why the command does not start. It says so on stderr alone, and asks nobody anything."""
    before = len(command.provider.requests)
    done = command("-p", *flags, "hi")
    assert (done.returncode, done.stdout, len(command.provider.requests)) == (1, "", before)
    assert done.stderr.startswith("Error: ")
    return done.stderr


def write_session(folder: Path, id: str, text: str, cwd: str = "/", age: int = 0) -> Path:
    """A session file as another program may have left it. The greater the age, the earlier it changed."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"2026-01-01T00-00-00-000Z_{id}.jsonl"
    header: Frame = {"type": "session", "version": 3, "id": id, "timestamp": "2026-01-01T00:00:00.000Z", "cwd": cwd}
    entry = {"type": "message", "id": "0000000a", "parentId": None, "timestamp": "2026-01-01T00:00:01.000Z"}
    message = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}
    path.write_text(json.dumps(header) + "\n" + json.dumps(entry | {"message": message}) + "\n")
    os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
    return path


# Where sessions are kept


def test_every_mode_keeps_its_session(fairlead: Command) -> None:
    assert fairlead("-p", "one").stdout == "Hello!\n"
    (first,) = session_files(folder_of(fairlead))
    assert texts(kept(first).messages) == ["one", "Hello!"]
    lines = fairlead("--mode", "json", "two").stdout.splitlines()
    _, second = session_files(folder_of(fairlead))
    assert json.loads(lines[0]) == kept(second).header
    with host(fairlead) as agent:
        agent.prompt("three")
        assert session_file(agent) == session_files(folder_of(fairlead))[2]


def test_only_the_user_may_read_sessions(fairlead: Command) -> None:
    before = os.umask(0)
    try:
        assert fairlead("-p", "hi", "--session-dir", "some/where").returncode == 0
        assert fairlead("-p", "hi").returncode == 0
    finally:
        os.umask(before)
    for folder in (fairlead.around.cwd / "some" / "where", folder_of(fairlead)):
        (file,) = session_files(folder)
        assert (mode(file), mode(folder), mode(folder.parent)) == (0o600, 0o700, 0o700)


def test_a_session_dir_has_the_sessions_of_all_directories(fairlead: Command) -> None:
    there = fairlead.around.root / "there"
    settings = fairlead.around.home / "settings.json"
    settings.write_text(json.dumps({"sessionDir": str(there / "settings")}))
    env = {"PI_CODING_AGENT_SESSION_DIR": str(there / "env")}
    fairlead("-p", "hi")
    fairlead("-p", "hi", env=env)
    fairlead("-p", "hi", "--session-dir", str(there / "flag"), env=env)
    fairlead("-p", "hi", "--session-dir", "~/tilde", env=env)
    folders = [there / "settings", there / "env", there / "flag", fairlead.around.home / "tilde"]
    assert [len(session_files(folder)) for folder in folders] == [1, 1, 1, 1]
    assert not (fairlead.around.home / "sessions").exists()
    write_session(there / "flag", "abc", "from elsewhere", cwd="/")
    with host(fairlead, "--session-dir", str(there / "flag")) as agent:
        listed = agent.request("list_sessions")["data"]["sessions"]
        assert len(listed) == 2
        agent.request("new_session")
        assert session_file(agent).parent == there / "flag"
    with host(fairlead, "--session", "abc", "--session-dir", str(there / "flag")) as agent:
        assert conversation(agent) == ["from elsewhere"]


def test_without_sessions_nothing_is_kept(fairlead: Command) -> None:
    assert fairlead("-p", "hi", "--no-session").stdout == "Hello!\n"
    assert fairlead("-p", "hi", "--no-session", "--session-dir", "kept").stdout == "Hello!\n"
    with host(fairlead, "--no-session", "--name", "unseen") as agent:
        agent.prompt("hi")
        assert state(agent)["sessionName"] == "unseen"
        assert "sessionFile" not in state(agent)
    assert list(fairlead.around.root.rglob("*.jsonl")) == []


def test_an_isolated_agent_saves_sessions_only_in_a_given_folder(fairlead: Command) -> None:
    env = {"ANTHROPIC_API_KEY": "sk-fake", "ANTHROPIC_BASE_URL": fairlead.provider.url}
    moved = {**env, "PI_CODING_AGENT_SESSION_DIR": str(fairlead.around.root / "env")}
    settings = fairlead.around.home / "settings.json"
    settings.write_text(json.dumps({"sessionDir": str(fairlead.around.root / "settings")}))
    flags = ["--isolated", "--model", "anthropic/claude-sonnet-4-5"]
    assert fairlead("-p", *flags, "hi", env=moved).stdout == "Hello!\n"
    assert list(fairlead.around.root.rglob("*.jsonl")) == []
    assert fairlead("-p", *flags, "--session-dir", "here", "hi", env=moved).stdout == "Hello!\n"
    assert len(session_files(fairlead.around.cwd / "here")) == 1
    assert fairlead("-p", *flags, "--session", "named.jsonl", "again", env=moved).stdout == "Hello!\n"
    assert texts(kept(fairlead.around.cwd / "named.jsonl").messages) == ["again", "Hello!"]
    assert len(list(fairlead.around.root.rglob("*.jsonl"))) == 2


def test_both_kinds_of_durability_write_the_same(fairlead: Command) -> None:
    assert fairlead("-p", "--durability", "fsync", "--session", "s.jsonl", "one").returncode == 0
    assert fairlead("-p", "--durability", "flush", "--session", "s.jsonl", "two").returncode == 0
    assert texts(kept(fairlead.around.cwd / "s.jsonl").messages) == ["one", "Hello!", "two", "Hello!"]


# --session


def test_session_flag_resumes_by_path(fairlead: Command) -> None:
    for number, name in enumerate(["new.jsonl", "./new.jsonl", str(fairlead.around.cwd / "new.jsonl")]):
        assert fairlead("-p", "--session", name, f"prompt {number}").returncode == 0
    assert asked_texts(fairlead) == ["prompt 0", "Hello!", "prompt 1", "Hello!", "prompt 2"]
    assert len(kept(fairlead.around.cwd / "new.jsonl").messages) == 6
    assert not (fairlead.around.home / "sessions").exists()
    with host(fairlead, "--session", "~/sub/other.jsonl") as agent:
        assert session_file(agent) == fairlead.around.home / "sub" / "other.jsonl"


def test_session_flag_resumes_by_id_prefix(fairlead: Command) -> None:
    here = folder_of(fairlead)
    write_session(here, "01aa-first", "in the first", str(fairlead.around.cwd))
    write_session(here, "01ab-second", "in the second", str(fairlead.around.cwd))
    write_session(here.parent / "--elsewhere--", "01aa-elsewhere", "in the third", str(fairlead.around.root))
    (here / "my_own_name.jsonl").write_bytes(write_session(here, "02-own", "in the fourth").read_bytes())
    (here / "2026-01-01T00-00-00-000Z_02-own.jsonl").unlink()
    for prefix, text in (
        ("01aa", "in the first"),
        ("01ab-second", "in the second"),
        ("01aa-e", "in the third"),
        ("02", "in the fourth"),
    ):
        with host(fairlead, "--session", prefix) as agent:
            assert conversation(agent) == [text]
    os.utime(next(here.glob("*01aa-first.jsonl")), (2e9, 2e9))
    with host(fairlead, "--session", "01a") as agent:
        assert conversation(agent) == ["in the first"], "the newest of this folder"
    with host(fairlead, "--session", "01ab", "--continue") as agent:
        assert conversation(agent) == ["in the second"], "a named session is not the latest one"
    assert 'No session has an id that begins with "zz"' in refusal(fairlead, "--session", "zz")
    assert 'begins with "own"' in refusal(fairlead, "--session", "own")


def test_session_flag_refuses_non_session_files(fairlead: Command) -> None:
    (fairlead.around.cwd / "notes.jsonl").write_text("just notes\n")
    (fairlead.around.cwd / "folder.jsonl").mkdir()
    os.mkfifo(fairlead.around.cwd / "fifo.jsonl")
    assert "is not a session file" in refusal(fairlead, "--session", "notes.jsonl")
    assert "Is a directory" in refusal(fairlead, "--session", "folder.jsonl")
    assert "is not a regular file" in refusal(fairlead, "--session", "fifo.jsonl")
    assert "is not a regular file" in refusal(fairlead, "--fork", "fifo.jsonl")
    assert "does not exist" in refusal(fairlead, "--fork", "gone.jsonl")
    assert "does not exist" in refusal(fairlead, "--no-session", "--session", "gone.jsonl")
    assert (fairlead.around.cwd / "notes.jsonl").read_text() == "just notes\n"
    with host(fairlead, "--session", "notes.jsonl") as agent:
        assert (agent.exit_code(), agent.frames) == (1, [])
        assert "is not a session file" in agent.stderr()
        assert agent.stderr().count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_file_of_the_kernel_among_the_sessions_is_in_the_way_of_none(fairlead: Command) -> None:
    # To read /proc/kmsg waits for the kernel to say something, without end.
    folder = folder_of(fairlead)
    write_session(folder, "whole", "first", cwd=str(fairlead.around.cwd))
    link = folder / "2030-01-01T00-00-00-000Z_kernel.jsonl"
    link.symlink_to("/proc/kmsg")
    assert "is not a regular file on a disk" in refusal(fairlead, "--session", str(link))
    with host(fairlead, "-c") as agent:
        assert conversation(agent) == ["first"]
        problems = {Path(each["path"]).name: each.get("problem") for each in agent.request("list_sessions")["data"]["sessions"]}
        assert "is not a regular file on a disk" in problems[link.name]


def test_a_file_that_does_not_fit_into_memory_is_refused(fairlead: Command) -> None:
    path = fairlead.around.cwd / "large.jsonl"
    path.write_text('{"type":"session","version":3,"id":"large","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}\n')
    os.truncate(path, 1 << 40)
    assert "too large to open" in refusal(fairlead, "--session", "large.jsonl")
    assert "too large to open" in refusal(fairlead, "--fork", "large.jsonl")


def test_the_home_of_an_unknown_user_is_an_ordinary_folder(fairlead: Command) -> None:
    with host(fairlead, "--session", "~nobody-of-that-name/x.jsonl") as agent:
        assert session_file(agent) == fairlead.around.cwd / "~nobody-of-that-name" / "x.jsonl"


def test_a_session_in_use_is_refused_but_may_be_copied(fairlead: Command) -> None:
    with host(fairlead, "--session", "used.jsonl") as first:
        first.prompt("mine")
        complaint = refusal(fairlead, "--session", "used.jsonl")
        assert complaint.endswith(f"used.jsonl is in use by another process (pid {first.process.pid}).\n")
        assert fairlead("-p", "--fork", "used.jsonl", "fork").returncode == 0
        assert asked_texts(fairlead) == ["mine", "Hello!", "fork"]
        assert fairlead("-p", "--no-session", "--session", "used.jsonl", "copy").returncode == 0
        assert asked_texts(fairlead) == ["mine", "Hello!", "copy"]
        first.prompt("still mine")
    assert texts(kept(fairlead.around.cwd / "used.jsonl").messages)[::2] == ["mine", "still mine"]


def test_a_torn_file_is_mended_with_a_word_on_stderr(fairlead: Command) -> None:
    file = fairlead.around.cwd / "torn.jsonl"
    fairlead("-p", "--session", "torn.jsonl", "one")
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"type":"message","id":"1234')
    done = fairlead("-p", "--session", "torn.jsonl", "two")
    assert (done.returncode, done.stdout) == (0, "Hello!\n")
    assert done.stderr == f"fairlead: The last line of {file} was incomplete and was cut off (28 bytes).\n"
    assert texts(kept(file).messages) == ["one", "Hello!", "two", "Hello!"]


def test_a_copy_in_memory_leaves_the_file_alone(fairlead: Command) -> None:
    path = write_session(folder_of(fairlead), "abc", "before", str(fairlead.around.cwd))
    before = path.read_bytes()
    for flags in (["--session", str(path)], ["--session", "ab"], ["--continue"], ["--session-id", "abc"], ["--fork", "ab"]):
        with host(fairlead, "--no-session", *flags) as agent:
            agent.prompt("added")
            assert conversation(agent) == ["before", "added", "Hello!"]
            assert "sessionFile" not in state(agent)
            agent.request("clone")
            assert "sessionFile" not in state(agent)
    assert path.read_bytes() == before
    assert session_files(folder_of(fairlead)) == [path]


# --continue, --resume, --fork, --session-id


def test_continue_flag_resumes_the_latest_session_of_the_directory(fairlead: Command) -> None:
    assert fairlead("-p", "--continue", "first of all").returncode == 0
    (only,) = session_files(folder_of(fairlead))
    os.utime(only, (1_600_000_000, 1_600_000_000))
    cwd = str(fairlead.around.cwd)
    write_session(folder_of(fairlead), "older", "in the older", cwd, age=60)
    write_session(folder_of(fairlead), "newer", "in the newer", cwd)
    write_session(folder_of(fairlead).parent / "--elsewhere--", "elsewhere", "not here", age=-60)
    (folder_of(fairlead) / "notes.jsonl").write_text("changed last, but no session\n")
    for flags in (["--continue"], ["-c"], ["--resume"], ["-r"], ["--continue", "--resume"]):
        with host(fairlead, *flags) as agent:
            assert conversation(agent) == ["in the newer"], flags


def test_a_named_session_is_resumed(fairlead: Command) -> None:
    cwd = str(fairlead.around.cwd)
    named = write_session(folder_of(fairlead), "0123abcd-0000-7000-8000-000000000000", "in the named", cwd, age=60)
    write_session(folder_of(fairlead), "latest", "in the latest", cwd)
    for flags in (["--resume", "0123abcd"], ["-r", str(named)], ["--resume=0123"]):
        with host(fairlead, *flags) as agent:
            assert conversation(agent) == ["in the named"], flags
    assert fairlead("-p", "--resume", "is no id but a prompt").returncode == 0
    assert asked_texts(fairlead) == ["in the latest", "is no id but a prompt"]


def test_a_fork_begins_as_a_copy(fairlead: Command) -> None:
    source = write_session(folder_of(fairlead), "abc", "before", str(fairlead.around.cwd))
    before = source.read_bytes()
    for name in (str(source), "ab"):
        with host(fairlead, "--fork", name) as agent:
            assert conversation(agent) == ["before"]
            agent.prompt("after")
            fork = session_file(agent)
        assert kept(fork).header["parentSession"] == str(source)
        assert kept(fork).header["id"] != "abc"
        assert fork.parent == source.parent
        assert texts(kept(fork).messages) == ["before", "after", "Hello!"]
    assert source.read_bytes() == before
    assert fairlead("-p", "--fork", "ab", "--session-dir", "there", "elsewhere").returncode == 0
    (elsewhere,) = session_files(fairlead.around.cwd / "there")
    assert texts(kept(elsewhere).messages) == ["before", "elsewhere", "Hello!"]


def test_session_id_flag_creates_or_resumes_a_session(fairlead: Command) -> None:
    for prompt in ("one", "two"):
        assert fairlead("-p", "--session-id", "My.chat_1-a", prompt).returncode == 0
    assert fairlead("-p", "--session-id", "My.chat_1", "three").returncode == 0
    one, other = sorted(session_files(folder_of(fairlead)), key=lambda path: -len(path.name))
    assert one.name.endswith("Z_My.chat_1-a.jsonl")
    assert kept(one).header["id"] == "My.chat_1-a"
    assert texts(kept(one).messages) == ["one", "Hello!", "two", "Hello!"]
    assert texts(kept(other).messages) == ["three", "Hello!"]
    for bad in ("", "../x", "a:b", "-a", "é", "x" * 129):
        assert "--session-id: expected at most 128 letters" in refusal(fairlead, f"--session-id={bad}")
    assert len(list(fairlead.around.root.rglob("*.jsonl"))) == 2


@pytest.mark.parametrize(
    "flags",
    [
        ["--session", "a.jsonl", "--resume", "b.jsonl"],
        ["--session", "a.jsonl", "--fork", "b.jsonl"],
        ["--resume", "a.jsonl", "--fork", "b.jsonl"],
        ["--continue", "--session-id", "abc"],
        ["--session", "a.jsonl", "--session-id", "abc"],
        ["--fork", "a.jsonl", "--session-id", "abc"],
    ],
    ids=" ".join,
)
def test_two_flags_that_ask_for_different_sessions_are_refused(fairlead: Command, flags: list[str]) -> None:
    complaint = refusal(fairlead, *flags)
    assert "ask for different sessions. Give one of them" in complaint
    assert list(fairlead.around.root.rglob("*.jsonl")) == []


# --name


def test_a_session_is_named(scripted: Scripted) -> None:
    fairlead = scripted({"text": "Hello!"})
    assert fairlead("-p", "--name", "  the work ", "--session", "s.jsonl", "hi").returncode == 0
    assert kept(fairlead.around.cwd / "s.jsonl").name() == "the work"
    with host(fairlead, "--session", "s.jsonl", "-n", "renamed") as agent:
        assert state(agent)["sessionName"] == "renamed"
    assert kept(fairlead.around.cwd / "s.jsonl").name() == "renamed"
    with host(fairlead, "--name", "unsaid") as agent:
        assert state(agent)["sessionName"] == "unsaid"
        assert not session_file(agent).exists()
    assert refusal(fairlead, "--name", " ") == "Error: Session name cannot be empty\n"


def test_a_misspelt_name_after_resume_is_not_a_prompt(fairlead: Command) -> None:
    assert fairlead("-p", "first").returncode == 0
    before = len(fairlead.provider.requests)
    done = fairlead("--resume", "nonesuch", "-p", "hello")
    assert done.returncode == 1 and 'No session has the id or the name "nonesuch"' in done.stderr
    assert len(fairlead.provider.requests) == before


def test_resume_takes_a_short_part_of_an_id_unless_several_sessions_have_it(fairlead: Command) -> None:
    assert fairlead("-p", "first", "--session-id", "4f1c9a2e-one").returncode == 0
    assert fairlead("--resume", "4f1c9", "-p", "again").returncode == 0
    assert len(fairlead.provider.requests[-1].body["messages"]) > 1
    assert fairlead("-p", "second", "--session-id", "4f1c9a2e-two").returncode == 0
    before = len(fairlead.provider.requests)
    done = fairlead("--resume", "4f1c9", "-p", "again")
    assert done.returncode == 1 and '"4f1c9" fits 2 sessions.' in done.stderr
    assert len(fairlead.provider.requests) == before
