"""`--mode json`: a run's events as lines."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import struct
import sys
import termios
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import PATIENCE, Command, Scripted, lines_of
from tests.support import published

from fairlead.testing import ProviderServer


def lines(done: Any) -> list[dict[str, Any]]:
    said = done.stdout.encode().splitlines()
    published.check(dict(pairwise(done.args)).get("--dialect", "omp"), b"", said[1:])
    return [json.loads(line) for line in said]


def kinds(done: Any) -> list[str]:
    """The types of the lines, updates left out."""
    return [line["type"] for line in lines(done) if line["type"] != "message_update"]


RUN = [
    "agent_start",
    "turn_start",
    "message_start",
    "message_end",
    "message_start",
    "message_end",
    "turn_end",
    "agent_end",
    "agent_settled",
]


def test_the_first_line_is_the_session_and_the_rest_are_events(fairlead: Command) -> None:
    done = fairlead("--mode", "json", "--dialect", "pi", "hi")
    assert (done.returncode, done.stderr) == (0, "")
    assert kinds(done) == ["session", *RUN]
    header = lines(done)[0]
    assert header["version"] == 3
    assert header["cwd"] == str(fairlead.around.cwd)
    assert header["id"] and header["timestamp"].endswith("Z")


def test_a_launcher_of_an_older_release_leaves_out_what_that_release_did_not_send(fairlead: Command, tmp_path: Path) -> None:
    fairlead("shim", "pi@0.73", str(tmp_path / "bin"))
    done = fairlead("--mode", "json", "hi", argv=[str(tmp_path / "bin" / "pi")])
    assert kinds(done) == ["session", *RUN[:-1]]


def test_every_prompt_has_a_run_of_its_own(fairlead: Command) -> None:
    assert kinds(fairlead("--mode", "json", "--dialect", "pi", "one", "two")) == ["session", *RUN, *RUN]


def test_a_failed_run_exits_1_with_all_of_its_events(scripted: Scripted) -> None:
    done = scripted({"status": 400, "error": "no such thing"})("--mode", "json", "--dialect", "omp", "hi")
    assert done.returncode == 1
    assert "no such thing" in done.stderr


def test_a_failed_run_exits_0_in_the_dialect_of_pi_because_its_events_tell(scripted: Scripted) -> None:
    done = scripted({"status": 400, "error": "no such thing"})("--mode", "json", "--dialect", "pi", "hi")
    assert (done.returncode, done.stderr) == (0, "")
    assert kinds(done) == ["session", *RUN]
    assert "no such thing" in lines(done)[-3]["message"]["errorMessage"]


def test_a_run_that_is_stopped_before_another_attempt_has_its_end(scripted: Scripted) -> None:
    fairlead = scripted({"status": 500, "error": "down"})
    (fairlead.around.home / "settings.json").write_text('{"retry": {"baseDelayMs": 60000}}')
    with fairlead.start("--mode", "json", "--dialect", "omp", "hi") as process:
        assert any("auto_retry_start" in line for line in lines_of(process))
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    after = [line for line in map(json.loads, out.splitlines()) if line["type"] != "entry_appended"]
    assert [line["type"] for line in after] == ["auto_retry_end", "agent_end", "agent_settled"]
    assert len(after[1]["messages"]) == 2


def test_updates_repeat_the_message_unless_deltas_are_asked_for(fairlead: Command) -> None:
    def updates(*flags: str) -> list[dict[str, Any]]:
        return [line for line in lines(fairlead("--mode", "json", *flags, "hi")) if line["type"] == "message_update"]

    assert all("message" in update and "partial" in update["assistantMessageEvent"] for update in updates())
    deltas = updates("--updates", "delta")
    assert not any("message" in update or "partial" in update["assistantMessageEvent"] for update in deltas)
    text = "".join(update["assistantMessageEvent"].get("delta", "") for update in deltas)
    assert text == "Hello!"


def test_a_line_leaves_as_soon_as_it_happens(scripted: Scripted) -> None:
    fairlead = scripted({"text": "word " * 20, "holdAfter": 1})
    provider: ProviderServer = fairlead.provider
    with fairlead.start("--mode", "json", "--updates", "delta", "hi") as process:
        assert any("text_delta" in line for line in lines_of(process))
        provider.release()
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "agent_settled" in out


@pytest.mark.skipif(sys.platform != "linux", reason="needs pipes of a chosen size")
def test_a_repeated_signal_ends_it_even_if_its_output_is_not_read(scripted: Scripted) -> None:
    fairlead = scripted({"text": "unread"})
    reading, writing = os.pipe()
    size = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 65_536)
    try:
        with fairlead.start("--mode", "json", "x" * 100_000, stdout=writing) as process:
            wait_until_full(reading, size)
            deadline = time.monotonic() + 5
            # Two signals that come at once may count as one.
            while process.poll() is None and time.monotonic() < deadline:
                process.send_signal(signal.SIGTERM)
                os.sched_yield()
            process.kill()
            process.communicate(timeout=PATIENCE)
        assert process.returncode == -signal.SIGTERM
    finally:
        os.close(reading)
        os.close(writing)


def wait_until_full(pipe: int, size: int) -> None:
    """Return when a pipe holds all it can, up to a page that is partly filled: whoever writes to it is blocked."""
    deadline = time.monotonic() + PATIENCE
    while struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0] < size - 4096:
        assert time.monotonic() < deadline, "nothing fills the pipe"
        os.sched_yield()
