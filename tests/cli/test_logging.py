"""What the command and the library log, and what they never do."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.cli.command import Command, Scripted

KEY = "sk-planted-0123456789abcdef"


def test_a_program_that_embeds_the_library_sees_nothing_on_stderr_until_it_configures_logging() -> None:
    program = "from fairlead import Agent; import logging; logging.getLogger('fairlead.models').error('not for you')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert done.stderr == ""


def test_a_program_that_configures_logging_gets_the_records() -> None:
    program = "import fairlead, logging; logging.basicConfig(); logging.getLogger('fairlead.models').error('for you')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert "for you" in done.stderr


def test_a_command_that_serves_a_host_logs_nothing_by_default(fairlead: Command) -> None:
    done = fairlead("--mode", "rpc", input='{"id": "1", "type": "get_state"}\n')
    assert done.stderr == ""


def test_verbose_logs_what_the_process_uses(fairlead: Command) -> None:
    done = fairlead("--mode", "rpc", "--verbose", input='{"id": "1", "type": "get_state"}\n')
    assert done.stderr.startswith("fairlead: version ")
    assert "serve get_state" not in done.stderr


def test_fairlead_log_sets_the_level_of_one_package(fairlead: Command) -> None:
    done = fairlead("--mode", "rpc", input='{"id": "1", "type": "get_state"}\n', env={"FAIRLEAD_LOG": "wire=debug"})
    assert "DEBUG fairlead.wire: serve get_state" in done.stderr
    assert "fairlead.cli" not in done.stderr


def test_a_level_that_does_not_exist_is_a_warning_and_ends_nothing(fairlead: Command) -> None:
    done = fairlead("-p", "hi", env={"FAIRLEAD_LOG": "loud,wire=debug"})
    assert done.returncode == 0
    assert "expected debug, info, warning or error" in done.stderr
    assert "'loud'" in done.stderr


def test_a_log_file_gets_the_records_and_stderr_does_not(fairlead: Command) -> None:
    path = fairlead.around.cwd / "agent.log"
    done = fairlead("--mode", "rpc", "--log-file", str(path), "--verbose", input='{"id": "1", "type": "get_state"}\n')
    assert done.stderr == ""
    assert "INFO fairlead.cli: version" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_log_file_is_appended_to(fairlead: Command) -> None:
    path = fairlead.around.cwd / "agent.log"
    path.write_text("before\n")
    fairlead("-p", "hi", "--log-file", str(path))
    assert path.read_text().startswith("before\n")
    assert "fairlead.cli: version" in path.read_text()


def test_a_log_file_that_cannot_be_written_ends_the_command_with_a_clear_error(fairlead: Command) -> None:
    done = fairlead("-p", "hi", "--log-file", str(fairlead.around.cwd / "missing" / "agent.log"))
    assert done.returncode == 1
    assert "--log-file" in done.stderr
    assert "No such file or directory" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_costs_the_records_and_writes_nothing_to_stderr(fairlead: Command) -> None:
    done = fairlead("-p", "hi", "--log-file", "/dev/full", env={"FAIRLEAD_LOG": "debug"})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("status", [401, 500])
def test_no_secret_is_in_the_log(scripted: Scripted, status: int) -> None:
    fairlead = scripted({"status": status, "error": {"message": f"wrong key {KEY}", "type": "authentication_error"}})
    path = fairlead.around.cwd / "agent.log"
    env = {"FAIRLEAD_LOG": "debug", "MY_SERVICE_TOKEN": "token-of-the-environment"}
    done = fairlead("-p", "hi", "--api-key", KEY, "--log-file", str(path), env=env)
    assert "fairlead." in path.read_text()
    for text in (path.read_text(), done.stderr):
        assert KEY not in text
        assert "token-of-the-environment" not in text


def test_a_host_that_does_not_read_stderr_does_not_block_the_agent(fairlead: Command) -> None:
    process = subprocess.Popen(
        fairlead.argv("--mode", "rpc"),
        cwd=fairlead.around.cwd,
        env=fairlead.env({"FAIRLEAD_LOG": "debug"}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = "".join(f'{{"id": "{n}", "type": "get_state"}}\n' for n in range(3_000)).encode()
        writing = threading.Thread(target=process.stdin.write, args=(lines,), daemon=True)
        writing.start()
        answers = 0
        while answers < 3_000:
            line = process.stdout.readline()
            assert line, f"the process ended after {answers} answers"
            answers += b'"get_state"' in line
        writing.join(30)
        process.stdin.close()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def test_a_secret_of_the_environment_is_redacted_from_a_record_that_quotes_it() -> None:
    program = (
        "import logging, os\n"
        "from fairlead.cli.console import configure_logging\n"
        "configure_logging(os.environ, default='error', verbose=False, log_file=None)\n"
        "logging.getLogger('fairlead.models').error('the server said %s \\x1b[2J', os.environ['MY_SERVICE_TOKEN'])\n"
    )
    env = {**os.environ, "MY_SERVICE_TOKEN": "token-of-the-environment"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=30, check=True)
    assert done.stderr == "fairlead: the server said [redacted] \\x1b[2J\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_command_whose_output_cannot_be_written_says_so() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "fairlead", "--help"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (1, "Error: The output cannot be written: No space left on device.\n")
