"""`fairlead sessions`: list, show, rename and delete."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.cli.command import PATIENCE, Command
from tests.support.host import Host
from tests.support.session_host import kept
from tests.support.surroundings import rpc

USAGE = {"input": 100, "output": 20, "cacheRead": 5, "cacheWrite": 0, "cost": {"total": 0.25}}


def write_session(command: Command, id: str, *texts: str, cwd: str | None = None, name: str | None = None, age: int = 0) -> Path:
    """A session whose prompts are all answered, last changed `age` seconds ago."""
    cwd = cwd or str(command.around.cwd)
    folder = command.around.home / "sessions" / f"--{cwd[1:].replace('/', '-')}--"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"2026-01-01T00-00-00-000Z_{id}.jsonl"
    time_ = "2026-01-01T00:00:00.000Z"
    lines: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": id, "timestamp": time_, "cwd": cwd}]
    for number, text in enumerate(texts):
        common = {"type": "message", "timestamp": time_, "parentId": lines[-1]["id"] if number else None}
        lines.append({**common, "id": f"{number}a", "message": {"role": "user", "content": text, "timestamp": 1}})
        answer: dict[str, Any] = {
            "role": "assistant",
            "content": [],
            "provider": "p",
            "model": "m",
            "usage": USAGE,
            "timestamp": 1,
        }
        lines.append({**common, "id": f"{number}b", "parentId": f"{number}a", "message": answer})
    if name is not None:
        lines.append({"type": "session_info", "id": "name", "parentId": lines[-1]["id"], "timestamp": time_, "name": name})
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_a_title_leaves_out_the_files_before_the_prompt(fairlead: Command) -> None:
    files = '<file name="/a">\nlamps\n</file>\n<file name="/b"></file>\n'
    write_session(fairlead, "01aaaaaa-11111111", f"{files}Summarize this.")
    write_session(fairlead, "01aaaaaa-22222222", '<file name="/a">\nlamps\n</file>\n', age=60)
    _, first, second = (line.split(maxsplit=4)[4] for line in fairlead("sessions").stdout.splitlines())
    assert (first, second) == ("Summarize this.", '<file name="/a"> lamps </file>')


def test_sessions_are_listed_newest_first(fairlead: Command) -> None:
    write_session(fairlead, "01aaaaaa-11111111", "Fix the\nparser, please.", "Again.", age=7200)
    write_session(fairlead, "01aaaaaa-22222222", "Another \x1b[31mone.", name="the tides", age=60)
    write_session(fairlead, "01aaaaaa-33333333", "Elsewhere.", cwd="/elsewhere")
    (fairlead.around.home / "sessions" / "--elsewhere--" / "broken.jsonl").write_text("no session\n")
    done = fairlead("sessions")
    assert (done.returncode, done.stderr) == (0, "")
    head, first, second = (line.split(maxsplit=4) for line in done.stdout.splitlines())
    assert head == ["ID", "AGE", "MESSAGES", "COST", "TITLE"]
    assert first == ["22222222", "1m", "2", "$0.25", "the tides"]
    assert second == ["11111111", "2h", "4", "$0.50", "Fix the parser, please."]
    everywhere = fairlead("sessions", "list", "--all").stdout
    assert "33333333" in everywhere and "/elsewhere" in everywhere and "broken.jsonl: cannot be read" in everywhere


def test_the_list_is_limited_unless_it_is_asked_for_more(fairlead: Command) -> None:
    for number in range(25):
        write_session(fairlead, f"01aaaaaa-{number:08}", "Hi.", age=number)
    done = fairlead("sessions")
    assert len(done.stdout.splitlines()) == 23 and done.stdout.endswith("20 of 25 sessions; --limit 0 shows all of them.\n")
    assert len(fairlead("sessions", "--limit", "0").stdout.splitlines()) == 26
    assert len(json.loads(fairlead("sessions", "--json").stdout)) == 25
    assert len(json.loads(fairlead("sessions", "--json", "-n", "3").stdout)) == 3
    assert "expected a whole number" in fairlead("sessions", "-n", "x").stderr


def test_lists_and_sessions_are_printed_as_json(fairlead: Command) -> None:
    path = write_session(fairlead, "01aaaaaa-11111111", "Fix it.", name="the tides")
    (listed,) = json.loads(fairlead("sessions", "--json").stdout)
    assert listed == json.loads(fairlead("sessions", "show", "last", "--json").stdout)
    assert (listed["path"], listed["shortId"], listed["name"], listed["messageCount"]) == (str(path), "11111111", "the tides", 2)
    assert (listed["cost"], listed["tokens"]["input"], listed["models"]) == (0.25, 100, ["p/m"])


def test_a_directory_without_sessions_says_so(fairlead: Command) -> None:
    assert "This directory has no sessions" in fairlead("sessions").stdout
    assert fairlead("sessions", "--json").stdout == "[]\n"
    assert "This directory has no session" in fairlead("sessions", "show", "last").stderr


def test_a_session_is_shown(fairlead: Command) -> None:
    path = write_session(fairlead, "01aaaaaa-11111111", "Fix it.", name="the tides")
    for word in ("last", "the tides", "11111111", "01aaaaaa-1", str(path)):
        shown = fairlead("sessions", "show", word).stdout
        assert "the tides" in shown and str(path) in shown and "$0.25" in shown
        assert "Resume it with: fairlead --resume 11111111" in shown
        assert "(now)" in shown or "s ago)" in shown


def test_a_word_that_fits_several_sessions_lists_them(fairlead: Command) -> None:
    for digit in "12":
        write_session(fairlead, f"01aaaaaa-{digit * 8}", f"Number {digit}.")
    done = fairlead("sessions", "show", "01aa")
    assert done.returncode == 1 and '"01aa" fits 2 sessions' in done.stderr
    assert "01aaaaaa-11111111" in done.stderr and "Number 2." in done.stderr
    assert fairlead("sessions", "delete", "--yes", "01aa").returncode == 1
    assert len(list(fairlead.around.home.rglob("*.jsonl"))) == 2


def test_a_session_is_renamed_and_stays_in_its_place(fairlead: Command) -> None:
    older = write_session(fairlead, "01aaaaaa-11111111", "Fix it.", age=100)
    write_session(fairlead, "01aaaaaa-22222222", "The latest.")
    assert fairlead("sessions", "rename", "11111111", "the", "tides").stdout == "The session 11111111 has the name the tides.\n"
    assert kept(older).name() == "the tides"
    assert [each["id"][-1] for each in json.loads(fairlead("sessions", "--json").stdout)] == ["2", "1"]
    assert fairlead("sessions", "rename", "last").returncode == 2
    assert "\x1b" not in fairlead("sessions", "rename", "last", "a\x1b[31mb").stdout


def test_a_session_is_deleted_after_a_question(fairlead: Command) -> None:
    path = write_session(fairlead, "01aaaaaa-11111111", "Fix it.")
    done = fairlead("sessions", "delete", "last")
    assert done.returncode == 1 and "Add --yes" in done.stderr and path.exists()
    for answer, is_left, code in (("\n", True, 1), ("n\n", True, 1), ("y\n", False, 0)):
        assert _answer(fairlead, ["sessions", "delete", "last"], answer) == code
        assert path.exists() is is_left
    path = write_session(fairlead, "01aaaaaa-22222222", "Fix it.")
    assert fairlead("sessions", "delete", "-y", "last").stdout == f"Deleted {path}\n"
    assert not path.exists()


def _answer(command: Command, words: list[str], answer: str) -> int:
    """Run the command at a terminal, and answer its question. Returns the exit code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fairlead", *words],
        cwd=command.around.cwd,
        env=command.env(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(ours, 1000)
    assert b"Fix it." in seen
    os.write(ours, answer.encode())
    code = process.wait(PATIENCE)
    os.close(ours)
    return code


def test_a_session_in_use_is_neither_deleted_nor_renamed(fairlead: Command) -> None:
    with Host(rpc("pi", "--session", "used.jsonl"), fairlead.around.cwd, fairlead.env()) as host:
        host.prompt("mine")
        other = write_session(fairlead, "01aaaaaa-11111111", "Fix it.")
        done = fairlead("sessions", "delete", "--yes", "used.jsonl", "last")
        assert done.returncode == 1 and "is in use by another process" in done.stderr
        assert (fairlead.around.cwd / "used.jsonl").exists() and not other.exists()
        assert "is in use by another process" in fairlead("sessions", "rename", "used.jsonl", "x").stderr


def test_an_unknown_action_gets_a_suggestion(fairlead: Command) -> None:
    done = fairlead("sessions", "shw", "last")
    assert done.returncode == 2 and "Did you mean show?" in done.stderr


def test_a_session_is_resumed_by_its_name(fairlead: Command) -> None:
    path = write_session(fairlead, "01aaaaaa-11111111", "Fix it.", name="the tides", age=100)
    write_session(fairlead, "01aaaaaa-22222222", "The latest.")
    for flags in (["--resume", "the tides"], ["--resume=The Tides"], ["-r", "11111111"], ["--session", "the tides"]):
        before = len(kept(path).messages)
        assert fairlead("-p", *flags, "And now?").stdout == "Hello!\n", flags
        assert len(kept(path).messages) == before + 2, flags
    latest = write_session(fairlead, "01aaaaaa-33333333", "The latest.")
    write_session(fairlead, "last-week", "Not the latest.", name="last", age=50)
    for number, flags in enumerate((["--resume", "last", "And now?"], ["--resume", "no such name is a prompt"])):
        assert fairlead("-p", *flags).returncode == 0
        assert len(kept(latest).messages) == 4 + 2 * number, flags
    assert fairlead("sessions", "show", "last", "--json").stdout.count("01aaaaaa-33333333") > 0
    with Host(rpc("pi", "--session", "the tides"), fairlead.around.cwd, fairlead.env()) as host:
        assert host.request("get_state")["data"]["sessionName"] == "the tides"
