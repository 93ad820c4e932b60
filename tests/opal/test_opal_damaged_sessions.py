"""Opal's session files after a kill or after damage: whole again, named, or left alone."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.host import PATIENCE
from tests.support.opal import history, opal, opal_again
from tests.support.stage import says


@pytest.mark.parametrize("blank", [b"", b"\n", bytes(100), b'{"type":"session","vers'], ids=["empty", "newline", "zeros", "torn"])
def test_a_blank_file_is_not_in_the_way_of_its_id(tmp_path: Path, blank: bytes) -> None:
    with opal(tmp_path) as client:
        folder = client.host.around.home / "opal" / "sessions"
        folder.mkdir(parents=True)
        for ident in ("one", "two", "three"):
            (folder / f"{ident}.jsonl").write_bytes(blank)
        assert client.call("session/list") == {"sessions": []}
        client.start(session_id="one")
        client.prompt("one", "hi")
        assert [listed["id"] for listed in client.call("session/list")["sessions"]] == ["one"]
        assert client.call("session/delete", session_id="two") == {"ok": True}
        client.start(session_id="three")
        assert client.call("session/delete", session_id="three") == {"ok": True}
        assert [path.name for path in folder.iterdir()] == ["one.jsonl"]
        client.host.leave()
        with opal_again(client) as later:
            later.start(session_id="one")
            assert history(later, "one") == [("user", "hi"), ("assistant", "ok")]


def test_a_damaged_file_is_named_and_left_alone_and_the_others_work(tmp_path: Path) -> None:
    with opal(tmp_path, flags=["--verbose"]) as client:
        folder = client.host.around.home / "opal" / "sessions"
        client.start(session_id="good")
        client.prompt("good", "hi")
        damaged = folder / "bad.jsonl"
        damaged.write_text("somebody's data\n")
        (folder / "strange.jsonl").write_bytes((folder / "good.jsonl").read_bytes().replace(b'"type":"text"', b'"type":["\xff"]'))
        assert {listed["id"] for listed in client.call("session/list")["sessions"]} == {"good"}
        error = client.refusal("session/start", session_id="bad")
        assert error["data"] == f"{damaged} is not a session file: it does not begin with a session header."
        assert str(damaged) in str(client.refusal("session/delete", session_id="bad"))
        assert damaged.read_text() == "somebody's data\n"
        client.prompt("good", "still here")
        client.start(session_id="another")
        client.prompt("another", "hi")
        assert str(damaged) in client.host.stderr()


def test_a_choice_before_the_first_message_survives_a_kill(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        client.start(session_id="s")
        client.call("model/set", session_id="s", model_id="fake-2")
        client.host.signal(signal.SIGKILL)
        client.host.exit_code()
        with opal_again(client, model=None) as later:
            later.start(session_id="s")
            assert later.call("agent/state", session_id="s")["model"]["id"] == "fake-2"


def test_a_truncated_file_is_rewritten_and_the_client_is_notified(tmp_path: Path) -> None:
    with opal(tmp_path, [says("one"), says("two")]) as client:
        client.start(session_id="s")
        client.prompt("s", "first")
        path = client.host.around.home / "opal" / "sessions" / "s.jsonl"
        os.truncate(path, 30)
        events = client.prompt("s", "second")
        assert any("cut short" in str(event) for event in events)
        client.host.leave()
        with opal_again(client) as later:
            later.start(session_id="s")
            assert [text for _, text in history(later, "s")] == ["first", "one", "second", "two"]


def test_sessions_killed_while_they_begin_are_there_whole_or_not_at_all(tmp_path: Path) -> None:
    chance = random.Random(9)
    with opal(tmp_path) as first:
        first.host.leave()
        for number in range(6):
            with opal_again(first) as client:
                client.start(session_id="s")
                client.send("agent/prompt", session_id="s", text=f"{number} " + "x" * 3_000_000)
                with suppress(subprocess.TimeoutExpired):
                    client.host.process.wait(chance.random() * 0.06)
                client.host.signal(signal.SIGKILL)
                client.host.exit_code()
            with opal_again(first) as later:
                listed = later.call("session/list")["sessions"]
                later.start(session_id="s")
                texts = [text for role, text in history(later, "s") if role == "user"]
                assert [text.split()[0] for text in texts] == ([str(number)] if listed else [])
                assert all(len(text) > 3_000_000 for text in texts)
                assert later.call("session/delete", session_id="s") == {"ok": True}
                folder = first.host.around.home / "opal" / "sessions"
                assert not folder.exists() or list(folder.iterdir()) == []


def test_leftovers_of_a_killed_server_are_removed_at_the_next_start(tmp_path: Path) -> None:
    with opal(tmp_path) as client:
        folder = client.host.around.home / "opal" / "sessions"
        client.host.leave()
        folder.mkdir(parents=True)
        leftover = folder / ".fairlead-0123456789abcdef.tmp"
        leftover.write_text("half a session")
        with opal_again(client) as later:
            later.call("opal/ping")
            deadline = time.monotonic() + PATIENCE
            while leftover.exists():
                assert time.monotonic() < deadline
                threading.Event().wait(0.01)
