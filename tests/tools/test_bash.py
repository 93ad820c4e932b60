"""bash: the shell that runs a command, its surroundings, and how a command ends."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest
from tests.tools.box import Box, shell

from fairlead.errors import ToolError


def test_both_streams_come_in_the_order_written(box: Box) -> None:
    done = box.call("bash", command="echo one; echo two >&2; echo three")
    assert (done.text, done.details, done.is_error) == ("one\ntwo\nthree\n", None, False)


@pytest.mark.parametrize("interpreter", ["bash", "dash", "sh", "zsh", "fish"])
@pytest.mark.parametrize("name", ["-c", "-s", "--version", "+x", "-x"])
def test_a_command_that_begins_like_an_option_is_still_a_command(box: Box, tmp_path: Path, interpreter: str, name: str) -> None:
    found = shutil.which(interpreter)
    if found is None:
        pytest.skip(f"there is no {interpreter}")
    (tmp_path / name).write_text("#!/bin/sh\necho ran with $1\n")
    (tmp_path / name).chmod(0o755)
    box.workspace.shell = found
    box.workspace.env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for command in (f"{name} this", f"{name} this\ntrue"):
        assert (shell(box, command).output, shell(box, command).exit_code) == ("ran with this\n", 0)
    box.workspace.command_prefix = f"{name} prefix"
    assert shell(box, "true").output == "ran with prefix\n"


def test_empty_output_is_reported(box: Box) -> None:
    assert box.call("bash", command="true").text == "(no output)"


def test_a_failure_gives_output_then_status(box: Box) -> None:
    done = box.call("bash", command="echo out; exit 3")
    assert (done.text, done.details, done.is_error) == ("out\n\n\nCommand exited with code 3", {}, True)
    assert box.call("bash", command="exit 4").text == "(no output)\n\nCommand exited with code 4"


def test_a_shell_killed_by_a_signal_has_the_code_shells_give(box: Box) -> None:
    assert box.call("bash", command="kill -SEGV $$").text.endswith("Command exited with code 139")


def test_a_time_limit_stops_the_command(box: Box) -> None:
    done = box.call("bash", command="sleep 30", timeout=0.2)
    assert (done.text, done.is_error) == ("Command timed out after 0.2 seconds", True)
    assert box.call("bash", command="echo hi; sleep 30", timeout=1).text == "hi\n\n\nCommand timed out after 1 seconds"


def test_a_time_limit_of_zero_means_no_limit(box: Box) -> None:
    assert box.call("bash", command="echo hi", timeout=0).text == "hi\n"


def test_standard_input_is_empty(box: Box) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"the host's own input\n")
    os.close(write_end)
    own = os.dup(0)
    os.dup2(read_end, 0)
    try:
        assert box.call("bash", command="cat; echo end").text == "end\n"
    finally:
        os.dup2(own, 0)
        os.close(own)
        os.close(read_end)


def test_it_runs_in_the_workspace_with_its_environment(box: Box) -> None:
    box.workspace.env = {"PATH": os.environ["PATH"], "FLAVOUR": "plum"}
    assert box.call("bash", command='echo "$PWD $FLAVOUR"').text == f"{box.cwd} plum\n"


def test_the_prefix_runs_first(box: Box) -> None:
    box.workspace.command_prefix = "greet() { echo hello $1; }"
    assert box.call("bash", command="greet you").text == "hello you\n"


def test_a_chosen_shell_is_used_and_a_missing_one_named(box: Box) -> None:
    box.workspace.shell = "/bin/sh"
    assert box.call("bash", command="echo $0").text == "/bin/sh\n"
    box.workspace.shell = "/nowhere/fish"
    done = box.call("bash", command="true")
    assert done.is_error
    assert "/nowhere/fish" in done.text


def test_without_bash_on_path_sh_is_used(box: Box, tmp_path: Path) -> None:
    box.workspace.env = {"PATH": str(tmp_path)}
    assert box.call("bash", command="echo $0").text == "/bin/sh\n"


def test_a_missing_working_directory_is_reported(box: Box) -> None:
    box.cwd.rmdir()
    done = box.call("bash", command="true")
    assert done.text == f"The working directory {box.cwd} does not exist, so no command can run in it."


def test_commands_no_shell_can_take_are_refused(box: Box) -> None:
    assert "NUL" in box.call("bash", command="echo \0").text
    assert "too long" in box.call("bash", command="true " + "x" * 200_000).text


def test_a_shell_that_closes_its_output_is_still_waited_for(box: Box) -> None:
    assert box.call("bash", command="exec >&- 2>&-; sleep 0.2; exit 5").text.endswith("exited with code 5")


def test_a_timed_out_shell_has_no_exit_code(box: Box) -> None:
    result = shell(box, "echo hi; sleep 30", timeout=0.2)
    assert (result.output, result.exit_code, result.timed_out, result.cancelled) == ("hi\n", None, True, False)


def test_no_shell_raises(box: Box) -> None:
    box.workspace.shell = "/nowhere/sh"
    with pytest.raises(ToolError):
        shell(box, "true")


async def test_commands_run_at_the_same_time(box: Box) -> None:
    waiting = box.acall("bash", {"command": "until [ -e flag ]; do sleep 0.01; done; echo seen", "timeout": 20})
    assert (await asyncio.gather(waiting, box.acall("bash", {"command": "touch flag"})))[0].text == "seen\n"
