"""A process that is killed leaves no children behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.support.gates import wait_for_exit

from fairlead.platform.process import ChildGuard

SLEEP = ["sleep", "600"]


def child_of(code: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a Python program that prints numbers of processes, and waits. Returns it, and the numbers."""
    program = f"""
import os, signal, subprocess
from fairlead.platform.process import child_guard
{code}
signal.pause()
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, [int(number) for number in process.stdout.readline().split()]


def is_running(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_killed_process_takes_its_children_and_their_children_along() -> None:
    code = """
script = "trap '' TERM; sleep 600 & echo $!; wait; wait"
shell = subprocess.Popen(["sh", "-c", script], stdout=-1, text=True, start_new_session=True)
child_guard.add(shell.pid)
alone = subprocess.Popen(["sleep", "600"])
child_guard.add(alone.pid, is_group=False)
print(shell.pid, alone.pid, shell.stdout.readline().strip(), flush=True)
"""
    process, children = child_of(code)
    with process:
        assert len(children) == 3 and all(map(is_running, children))
        process.send_signal(signal.SIGKILL)
        for child in children:
            wait_for_exit(child)


def test_a_child_that_was_removed_stays() -> None:
    code = """
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
other = subprocess.Popen(["sleep", "600"], start_new_session=True)
child_guard.add(child.pid)
child_guard.add(other.pid)
child_guard.remove(child.pid)
print(child.pid, other.pid, flush=True)
"""
    process, (child, other) = child_of(code)
    with process:
        process.send_signal(signal.SIGKILL)
        wait_for_exit(other)
        assert is_running(child)
        os.kill(child, signal.SIGKILL)


def test_a_fork_does_not_keep_the_children_alive() -> None:
    code = """
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
child_guard.add(child.pid)
fork = os.fork()
if fork:
    print(child.pid, fork, flush=True)
"""
    process, (child, fork) = child_of(code)
    with process:
        process.send_signal(signal.SIGKILL)
        wait_for_exit(child)
        assert is_running(fork)
        os.kill(fork, signal.SIGKILL)


def test_a_guard_that_was_killed_is_replaced() -> None:
    guard = ChildGuard()
    children = [subprocess.Popen(SLEEP, start_new_session=True) for _ in range(2)]
    guard.add(children[0].pid)
    first = guard._shell  # pyright: ignore[reportPrivateUsage]
    assert first is not None
    first.kill()
    first.wait()
    guard.add(children[1].pid)
    guard.close()
    assert [child.wait(timeout=20) for child in children] == [-signal.SIGTERM] * 2
