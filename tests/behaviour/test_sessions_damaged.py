"""What crashes and other programs do to session files: noticed, told, and never in the way."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from tests.support.host import PATIENCE, Frame
from tests.support.session_host import another, conversation, kept, session_file, stage, state
from tests.support.stage import ENDLESS, Stage, says

pytestmark = pytest.mark.parametrize("dialect", ["pi", "omp"])


def kill(host: Stage) -> None:
    host.signal(signal.SIGKILL)
    host.exit_code()


def notices(host: Stage) -> list[str]:
    return [frame.get("error", "") or frame["message"] for frame in host.frames if frame["type"] in ("extension_error", "notice")]


def listed(host: Stage) -> dict[str, Frame]:
    return {Path(info["path"]).name: info for info in host.request("list_sessions")["data"]["sessions"]}


# Acknowledged before anything is said


def test_settings_chosen_before_the_first_message_survive_a_kill(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.request("set_model", provider="fake", modelId="fake-2")
        host.request("set_model", provider="fake", modelId="fake-1")
        host.request("set_thinking_level", level="low")
        host.request("set_session_name", name="kept")
        before = state(host)
        kill(host)
        for flags in (["--session", before["sessionFile"]], ["--continue"]):
            with another(host, dialect, *flags, model=None) as again:
                assert state(again) == before
                kill(again)


@pytest.mark.parametrize(
    ("command", "fields"),
    [("set_model", {"provider": "fake", "modelId": "fake-2"}), ("set_thinking_level", {"level": "low"}), ("cycle_model", {})],
)
def test_each_choice_alone_survives_a_kill_and_leaves_nothing_after_an_orderly_end(
    dialect: str, tmp_path: Path, command: str, fields: Frame
) -> None:
    with stage(tmp_path, dialect) as host:
        assert host.request(command, **fields)["success"]
        before = state(host)
        assert Path(before["sessionFile"]).exists()
        kill(host)
        with another(host, dialect, "--continue", model=None) as again:
            assert state(again) == before
        with another(host, dialect) as third:
            assert third.request(command, **fields)["success"]
            path = session_file(third)
            assert path.exists()
            assert third.leave() == 0
            assert not path.exists()


def test_an_empty_session_does_not_hide_the_last_conversation(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("hello")
        host.leave()
        with another(host, dialect) as silent:
            silent.request("set_thinking_level", level="low")
            kill(silent)
        with another(host, dialect, "--continue") as again:
            assert conversation(again) == ["hello", "ok"]


def test_nothing_is_made_where_nothing_is_kept(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, flags=["--no-session"]) as host:
        host.request("set_session_name", name="nowhere")
        host.request("set_thinking_level", level="low")
        kill(host)
        assert not list(tmp_path.rglob("*.jsonl"))


# Other programs


@pytest.mark.parametrize("left", [0, 50, -10])
def test_a_file_that_is_cut_short_between_two_prompts_is_whole_after_the_second(dialect: str, tmp_path: Path, left: int) -> None:
    with stage(tmp_path, dialect, [says("one"), says("two")]) as host:
        host.prompt("first")
        path = session_file(host)
        os.truncate(path, left if left >= 0 else path.stat().st_size + left)
        host.prompt("second")
        (notice,) = notices(host)
        assert str(path) in notice and "cut short" in notice
        kill(host)
        with another(host, dialect, "--session", str(path)) as again:
            assert conversation(again) == ["first", "one", "second", "two"]


def test_another_file_in_the_place_of_the_sessions_is_kept_beside_it(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("one"), says("two")]) as host:
        host.prompt("first")
        path = session_file(host)
        (tmp_path / "other").write_text("other")
        (tmp_path / "other").replace(path)
        host.prompt("second")
        (notice,) = notices(host)
        aside = path.with_name(f"{path.name}.changed-1")
        assert str(aside) in notice and aside.read_text() == "other"
        assert kept(path).user_texts() == ["first", "second"]
        assert list(listed(host)) == [path.name]


def test_entries_added_by_another_program_are_announced_once(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect, [says("one"), says("two")]) as host:
        host.prompt("first")
        path = session_file(host)
        with path.open("a") as file:
            file.write('{"half a')
        host.prompt("second")
        (notice,) = notices(host)
        assert "Another program has added 8 bytes" in notice
        host.leave()
        with another(host, dialect, "--session", str(path)) as again:
            assert conversation(again) == ["first", "one", "second", "two"]


# Damaged files

DAMAGED = {
    "empty.jsonl": b"",
    "headless.jsonl": b'{"type":"message","id":"1"}\n',
    "torn.jsonl": b'{"type":"session","id',
    "\udcff.jsonl": b"x",
}


def test_damaged_files_are_listed_as_such_and_are_not_in_the_way(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("hello")
        good = session_file(host)
        host.leave()
        for name, contents in DAMAGED.items():
            (good.parent / name).write_bytes(contents)
        strange = good.read_bytes().replace(b'"type":"text"', b'"type":["t\xff"]')
        (good.parent / "strange.jsonl").write_bytes(strange)
        os.utime(good.parent / "strange.jsonl", (1, 1))
        with another(host, dialect, "--continue") as again:
            assert session_file(again) == good
            found = listed(again)
            assert len(found) == 2 + len(DAMAGED)
            assert {name for name, info in found.items() if "problem" not in info} == {good.name, "strange.jsonl"}
            assert (
                "headless.jsonl is not a session file"
                in again.request("switch_session", sessionPath=str(good.parent / "headless.jsonl"))["error"]
            )
            for name in ("empty.jsonl", "torn.jsonl"):
                again.request("switch_session", sessionPath=str(good.parent / name))
                again.prompt("as new")
                assert kept(good.parent / name).user_texts() == ["as new"]
            assert (good.parent / "headless.jsonl").read_bytes() == DAMAGED["headless.jsonl"]


def test_a_session_is_deleted_without_the_folder_that_has_its_name(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        train = host.around.cwd / "train.jsonl"
        host.request("switch_session", sessionPath=str(train))
        host.prompt("hello")
        (host.around.cwd / "train").mkdir()
        data = host.around.cwd / "train" / "0-data.jsonl"
        data.write_text('{"x": 1}\n')
        link = host.around.cwd / "link.jsonl"
        link.symlink_to(train)
        for path in (train, link):
            assert "in use" in host.request("delete_session", sessionPath=str(path))["error"]
        host.request("new_session")
        assert host.request("delete_session", sessionPath=str(train))["success"]
        assert not train.exists()
        assert data.exists()


def test_a_page_replaces_neither_a_session_nor_another_file(dialect: str, tmp_path: Path) -> None:
    with stage(tmp_path, dialect) as host:
        host.prompt("hello")
        other = session_file(host)
        host.request("new_session")
        host.prompt("again")
        before = other.read_bytes()
        (host.around.cwd / "link.html").symlink_to(other)
        os.link(other, host.around.cwd / "hard.html")
        notes = host.around.cwd / "notes.md"
        notes.write_text("notes")
        for name in (str(other), "link.html", "hard.html", "new.jsonl", "notes.md"):
            assert host.request("export_html", outputPath=name)["error"].startswith("Cannot write the page")
        assert (other.read_bytes(), notes.read_text()) == (before, "notes")
        assert not (host.around.cwd / "new.jsonl").exists()


# Kills


@pytest.mark.parametrize("move", ["clone", "fork"])
def test_a_kill_during_a_copy_leaves_no_part_of_one(dialect: str, tmp_path: Path, move: str) -> None:
    chance = random.Random(move + dialect)
    with stage(tmp_path, dialect) as host:
        host.prompt("x" * 4_000_000)
        host.prompt("and more")
        places = host.request("get_fork_messages")["data"]["messages"]
        source = session_file(host)
        host.leave()
        entries = len(kept(source).entries)
        with_copies = {"entryId": places[-1]["entryId"]} if move == "fork" else {}
        name = {"pi": "fork", "omp": "branch"}[dialect] if move == "fork" else move
        for attempt in range(8):
            with another(host, dialect, "--session", str(source)) as copying:
                state(copying)
                before = len(os.listdir(source.parent))  # noqa: PTH208
                copying.send({"id": "copy", "type": name, **with_copies})
                deadline = time.monotonic() + PATIENCE
                while len(os.listdir(source.parent)) == before:  # noqa: PTH208
                    assert time.monotonic() < deadline
                if attempt % 2:
                    with suppress(subprocess.TimeoutExpired):
                        copying.process.wait(chance.random() * 0.005)
                kill(copying)
            with another(host, dialect, "--continue") as again:
                path = session_file(again)
                whole = entries if path == source or move == "clone" else entries - 2
                assert len(kept(path).entries) == whole
                assert not any("problem" in info for info in listed(again).values())
                again.leave()
            # Notes stand beside their session.
            names = {each.name.removesuffix(".notes") for each in source.parent.iterdir()}
            assert names == {each.name for each in source.parent.glob("*.jsonl")}
            for each in source.parent.iterdir():
                if not each.name.startswith(source.name):
                    each.unlink()


def test_the_scratch_folder_of_an_agent_that_was_killed_goes_with_the_next_start(dialect: str, tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    with stage(tmp_path / "root", dialect, [ENDLESS], env={"TMPDIR": str(scratch)}) as host:
        cast("dict[str, str]", host.around.env)["TMPDIR"] = str(scratch)
        host.request("bash", command="seq 100000")
        (folder,) = scratch.iterdir()
        with another(host, dialect) as beside:
            beside.request("bash", command="seq 100000")
            (own,) = (each for each in scratch.iterdir() if each != folder)
            kill(host)
            with another(host, dialect) as again:
                again.send({"id": "p", "type": "prompt", "message": "go"})  # also if it has something to do at once
                deadline = time.monotonic() + PATIENCE
                while folder.exists():
                    assert time.monotonic() < deadline
                    threading.Event().wait(0.01)
                assert own.exists()
