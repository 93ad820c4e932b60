"""The output of bash: updates, long output, its log, and floods."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

from tests.tools.box import Box, shell

from fairlead.core.messages import TextContent
from fairlead.core.tool import ToolResult


def texts(updates: list[ToolResult]) -> list[str]:
    return ["".join(block.text for block in update.content if isinstance(block, TextContent)) for update in updates]


def test_updates_begin_empty_and_end_with_all_output(box: Box) -> None:
    done = box.call("bash", command="for i in 1 2 3; do echo line $i; done")
    assert done.updates[0] == ToolResult([])
    assert texts(done.updates)[-1] == "line 1\nline 2\nline 3\n"
    assert done.updates[-1].details == {}


def test_a_silent_command_has_one_update(box: Box) -> None:
    assert box.call("bash", command="true").updates == [ToolResult([])]


async def test_updates_are_cumulative_and_paced(box: Box) -> None:
    seen: list[float] = []
    done = await box.acall(
        "bash",
        {"command": "for i in $(seq 1 40); do echo $i; sleep 0.01; done"},
        on_update=lambda _: seen.append(time.monotonic()),
    )
    shown = texts(done.updates)
    assert all(later.startswith(earlier) for earlier, later in pairwise(shown))
    assert shown[-1] == "".join(f"{i}\n" for i in range(1, 41))
    # The first two and the last are not paced.
    assert all(later - earlier > 0.09 for earlier, later in pairwise(seen[1:-1]))


def test_long_output_is_cut_to_its_last_lines_and_saved(box: Box) -> None:
    done = box.call("bash", command="seq 1 5000")
    expected = "\n".join(str(i) for i in range(3001, 5001))
    (log,) = box.kept
    assert done.text == f"{expected}\n\n[Showing lines 3001-5000 of 5000. Full output: {log}]"
    assert done.details == {
        "truncation": {
            "content": expected,
            "truncated": True,
            "truncatedBy": "lines",
            "totalLines": 5000,
            "totalBytes": 23893,
            "outputLines": 2000,
            "outputBytes": 9999,
            "lastLinePartial": False,
            "firstLineExceedsLimit": False,
            "maxLines": 2000,
            "maxBytes": 51200,
        },
        "fullOutputPath": str(log),
    }
    assert log.read_text() == "".join(f"{i}\n" for i in range(1, 5001))
    assert log.stat().st_mode & 0o777 == 0o600


def test_long_lines_are_cut_by_bytes(box: Box) -> None:
    done = box.call("bash", command="for i in $(seq 1 600); do printf '%0100d\\n' $i; done")
    assert "[Showing lines 95-600 of 600 (50.0KB limit). Full output: " in done.text
    assert done.text.startswith(f"{95:0100d}\n")


def test_one_endless_line_is_cut_inside(box: Box) -> None:
    done = box.call("bash", command="head -c 200000 /dev/zero | tr '\\0' x")
    assert done.text.startswith("x" * 51200 + "\n\n[Showing last 50.0KB of line 1 (line is 195.3KB). Full output: ")
    assert done.details["truncation"]["lastLinePartial"] is True


def test_a_cut_never_splits_a_character(box: Box) -> None:
    done = box.call("bash", command="printf 'é%.0s' $(seq 1 40000); printf x")
    shown = done.details["truncation"]
    assert shown["content"] == "é" * 25599 + "x"
    assert shown["outputBytes"] == 51199


def test_short_output_leaves_no_log(box: Box) -> None:
    box.call("bash", command="seq 1 2000")
    assert not box.logs.exists()
    assert box.kept == []


def test_a_failing_command_with_long_output_names_the_log(box: Box) -> None:
    done = box.call("bash", command="seq 1 5000; exit 2")
    assert done.is_error
    assert done.text.endswith(f"Full output: {box.kept[0]}]\n\nCommand exited with code 2")
    assert done.details["fullOutputPath"] == str(box.kept[0])


def test_half_characters_are_put_together_and_invalid_bytes_replaced(box: Box) -> None:
    done = box.call("bash", command=r"printf '\xc3'; sleep 0.05; printf '\xa9 \xff end\xe2\x82'")
    assert done.text == "é \ufffd end\ufffd"


def test_a_flood_keeps_memory_flat_and_the_loop_alive(box: Box) -> None:
    script = f"""
import asyncio, resource, sys
from pathlib import Path
from fairlead.core.runtime import CancelToken
from fairlead.tools.workspace import Workspace
from fairlead.tools.shell.command_process import run_shell
async def main():
    logs = Path({str(box.cwd)!r})
    workspace = Workspace(logs, {{"PATH": {os.environ["PATH"]!r}}}, log_dir=lambda: logs, keep_log=lambda path: None)
    turns = 0
    async def count():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1
    counting = asyncio.create_task(count())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await run_shell(workspace, "head -c 200000000 /dev/zero | tr '\\\\0' y", cancel=CancelToken(), timeout=None)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    counting.cancel()
    assert result.truncation.total_bytes == 200_000_000, result.truncation.total_bytes
    assert Path(result.full_output_path).stat().st_size < 40_000_000
    assert grown < 20_000, grown
    assert turns > 500, turns
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_full_disk_stops_the_log_and_not_the_command(box: Box) -> None:
    # A limit on file sizes makes the log's writes fail; the command writes to a pipe and is not affected.
    script = f"""
import asyncio, resource, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from box import Box
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
box = Box(Path({str(box.cwd / "inner")!r}), Path({str(box.cwd / "logs")!r}))
done = box.call("bash", command="seq 1 100000; echo the end")
assert not done.is_error
(log,) = box.kept
assert log.stat().st_size == 60_000
notice = done.text.splitlines()[-1]
assert notice == f"[Showing lines 98002-100001 of 100001. Full output: {{log}} (incomplete: File too large)]", notice
assert "fullOutputPath" not in done.details
assert done.text.splitlines()[-3] == "the end"
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_shell_result_says_that_its_log_is_incomplete(box: Box) -> None:
    script = f"""
import asyncio, resource, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from box import Box
from pathlib import Path
from fairlead.core.runtime import CancelToken
from fairlead.tools.shell.command_process import run_shell
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
box = Box(Path({str(box.cwd / "inner")!r}), Path({str(box.cwd / "logs")!r}))
result = asyncio.run(run_shell(box.workspace, "seq 1 100000", cancel=CancelToken(), timeout=None, clean=True))
(log,) = box.kept
assert (result.log_incomplete, result.full_output_path, result.exit_code) == (True, None, 0), result
assert result.output == (
    result.truncation.content
    + f"\\n\\n[Showing lines 98001-100000 of 100000. Full output: {{log}} (incomplete: File too large)]"
), result.output[-300:]
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_shell_result_says_that_there_is_no_log(box: Box) -> None:
    box.logs.write_text("not a folder")
    result = shell(box, "seq 1 5000")
    assert (result.log_incomplete, result.full_output_path) == (True, None)
    assert result.output.endswith("\n5000\n\n[Showing lines 3001-5000 of 5000. The full output could not be saved: File exists]")


def test_a_complete_log_is_named_without_a_note(box: Box) -> None:
    result = shell(box, "seq 1 5000")
    assert (result.log_incomplete, result.full_output_path) == (False, str(box.kept[0]))
    assert result.output.endswith("\n5000")
    assert shell(box, "true").log_incomplete is False


def test_an_output_log_that_cannot_be_created_does_not_fail_the_call(box: Box) -> None:
    box.logs.write_text("not a folder")
    done = box.call("bash", command="seq 1 5000")
    assert done.text.endswith("\n\n[Showing lines 3001-5000 of 5000. The full output could not be saved: File exists]")
    assert "fullOutputPath" not in done.details


def test_run_shell_reports_everything(box: Box) -> None:
    pieces: list[str] = []
    result = shell(box, "echo hello; echo err >&2; exit 2", on_output=pieces.append)
    assert (result.output, result.exit_code, result.cancelled, result.timed_out) == ("hello\nerr\n", 2, False, False)
    assert "".join(pieces) == "hello\nerr\n"
    assert not result.truncation.truncated
    assert (result.truncation.total_lines, result.full_output_path) == (2, None)


def test_clean_output_has_no_terminal_control(box: Box) -> None:
    result = shell(box, r"printf '\033[31mred\033[0m\r\n\x01bin \033]0;title\007tab\tend\033(B'", clean=True)
    assert result.output == "red\nbin tab\tend"


def test_escape_sequences_in_pieces_are_still_stripped(box: Box) -> None:
    pieces: list[str] = []
    pieces_written = (r"a\033", "[3", r"1mb\033]0;ti", r"tle\033", r"\\c")
    command = "; sleep 0.05; ".join(f"printf '{piece}'" for piece in pieces_written)
    assert shell(box, command, clean=True, on_output=pieces.append).output == "abc"
    assert "".join(pieces) == "abc"


def test_a_clean_log_is_clean(box: Box) -> None:
    result = shell(box, r"for i in $(seq 1 3000); do printf '\033[1m%d\033[0m\r\n' $i; done", clean=True)
    assert result.full_output_path is not None
    assert Path(result.full_output_path).read_text() == "".join(f"{i}\n" for i in range(1, 3001))
