"""The demonstration: the example that everybody runs first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from fairlead.testing import ProviderServer

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.py"
PATIENCE = 30
INTERRUPTIBLE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def start(cwd: Path, url: str | None = None) -> subprocess.Popen[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
    env["FAIRLEAD_LOCAL_SERVERS"] = ""  # not those of the machine
    if url is not None:
        env |= {"ANTHROPIC_API_KEY": "any", "ANTHROPIC_BASE_URL": url}
    pipe = subprocess.PIPE
    # Whoever runs these tests in the background may have made them ignore the interrupts that a terminal sends.
    interruptible = [sys.executable, "-c", INTERRUPTIBLE, str(DEMO)]
    return subprocess.Popen(interruptible, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def read_until(process: subprocess.Popen[str], text: str) -> None:
    """Read what it prints, up to a text."""
    assert process.stdout
    seen = ""
    while not seen.endswith(text):
        character = process.stdout.read(1)
        assert character, f"it ended after {seen!r}"
        seen += character


def test_without_a_key_a_scripted_model_repairs_a_program(tmp_path: Path) -> None:
    with start(tmp_path) as demo:
        out, err = demo.communicate(timeout=PATIENCE)
    assert (demo.returncode, err) == (0, "")
    assert "ZeroDivisionError" in out
    assert "mean of nothing: 0" in out
    assert list(tmp_path.iterdir()) == []


def test_with_a_key_it_chats_until_an_empty_line(tmp_path: Path) -> None:
    with ProviderServer([{"text": "Hello."}, {"text": "Again."}]) as server, start(tmp_path, server.url) as demo:
        out, err = demo.communicate("hi\nhi again\n\nunheard\n", timeout=PATIENCE)
        assert (demo.returncode, err) == (0, "")
        assert out.index("Hello.") < out.index("Again.")
        assert len(server.requests) == 2


def test_an_interrupt_aborts_the_answer_and_the_next_one_ends_the_chat(tmp_path: Path) -> None:
    endless = {"text": "word " * 20, "hangAfter": 1}
    with ProviderServer([endless]) as server, start(tmp_path, server.url) as demo:
        assert demo.stdin
        read_until(demo, "> ")
        demo.stdin.write("hi\n")
        demo.stdin.flush()
        read_until(demo, "word")
        demo.send_signal(signal.SIGINT)
        read_until(demo, "(aborted)\n\n> ")
        # Python may miss a signal in the moment before it starts to read; whoever sits there presses the keys again.
        for _ in range(20):
            demo.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                assert demo.wait(1) == 0
                break
        else:
            raise AssertionError("the chat did not end")
