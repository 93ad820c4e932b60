"""Commands that write without end: their logs, and all logs of a session, have a limit."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.tool_sets.opal import machine_tools
from fairlead.cli.console import _FileHandler, configure_logging  # pyright: ignore[reportPrivateUsage]
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ToolContext
from fairlead.platform.scratch import Scratch
from fairlead.tools.builtin import builtin_tools
from fairlead.tools.shell.output import LOG_END, LOG_START, CommandOutput
from fairlead.tools.workspace import Workspace

MOST = LOG_START + LOG_END


def workspace_in(folder: Path, scratch: Scratch) -> Workspace:
    return Workspace(folder, {"PATH": os.environ["PATH"]}, log_dir=scratch.path, keep_log=scratch.keep)


def logged(scratch: Scratch, *pieces: bytes) -> CommandOutput:
    output = CommandOutput(scratch.path, scratch.keep)
    for piece in pieces:
        output.feed(piece)
    output.finish()
    return output


@pytest.mark.parametrize("size", [MOST - 1, MOST, MOST + 1, MOST + LOG_END // 2, MOST + 3 * LOG_END, 5 * MOST + 12345])
@pytest.mark.parametrize("piece", [64 * 1024, 999_983, MOST * 2])
def test_a_log_keeps_the_beginning_and_the_end_of_a_huge_output(size: int, piece: int) -> None:
    scratch = Scratch()
    # Each line is its own number, so that every byte says where it was.
    whole = b"".join(b"%015d\n" % number for number in range(size // 16 + 1))[:size]
    output = logged(scratch, *(whole[start : start + piece] for start in range(0, size, piece)))
    assert output.log_path is not None
    log = Path(output.log_path).read_bytes()
    assert len(log) <= MOST
    if size <= MOST:
        assert log == whole
    else:
        start, _, rest = log.partition(b"\n\n[... ")
        missing, _, end = rest.partition(b" ...]\n\n")
        assert start == whole[:LOG_START] and whole.endswith(end) and len(end) > LOG_END - 200
        assert int(missing.split()[0]) == size - len(start) - len(end)
        assert "only the first 28.0MB and the last 4.0MB of" in output.notice(output.snapshot())
    assert output.whole(1000) == (whole[-1000:].decode(), True)
    for file in scratch.path().iterdir():
        file.unlink()
    scratch.remove()


@pytest.mark.parametrize("tool", ["bash", "shell"])
def test_a_command_that_floods_its_output_leaves_a_bounded_log(tmp_path: Path, tool: str) -> None:
    scratch = Scratch()
    workspace = workspace_in(tmp_path, scratch)
    tools = builtin_tools(workspace) if tool == "bash" else {each.name: each for each in machine_tools(workspace)}
    flood = "echo the beginning; head -c 100000000 /dev/zero | tr '\\0' y; echo; echo the end"
    context = ToolContext("id", CancelToken(), lambda update: None)

    async def call() -> Any:
        return await tools[tool].run({"command": flood}, context)

    result = asyncio.run(call())
    text = "".join(getattr(block, "text", "") for block in result.content)
    assert "the end" in text and "Full output: " in text and "95.4MB)" in text
    (log,) = [path for path in scratch.path().iterdir() if path.suffix == ".log"]
    content = log.read_bytes()
    assert len(content) <= MOST
    assert content.startswith(b"the beginning\ny") and content.endswith(b"y\nthe end\n") and b"bytes are missing here" in content
    log.unlink()
    scratch.remove()


def test_the_logs_of_a_session_are_bounded_together() -> None:
    scratch = Scratch()
    names: list[Path] = []
    for _ in range(12):
        output = logged(scratch, *([b"x" * 1_000_000] * 40))
        assert output.log_path is not None
        names.append(Path(output.log_path))
        kept = [path for path in scratch.path().iterdir() if path.suffix == ".log"]
        assert sum(path.stat().st_size for path in kept) <= 256 * 1024 * 1024
        assert names[-1] in kept
    assert [path.exists() for path in names] == [False] * 4 + [True] * 8
    for path in names[4:]:
        path.unlink()
    scratch.remove()


def test_a_log_that_was_deleted_while_its_command_ran_is_not_named() -> None:
    scratch = Scratch()
    output = CommandOutput(scratch.path, scratch.keep)
    output.feed(b"first\n" * 20_000)
    for _ in range(9):
        logged(scratch, *([b"x" * 1_000_000] * 40))
    output.finish()
    assert output.log_path is None
    assert "incomplete: it was deleted" in output.notice(output.snapshot())
    for path in scratch.path().iterdir():
        path.unlink()
    scratch.remove()


def test_a_full_disk_is_survived_by_a_log_that_is_put_in_order(tmp_path: Path) -> None:
    # The limit on file sizes is the log's own: one byte more would fail.
    script = f"""
import resource
from pathlib import Path
from fairlead.tools.shell.output import LOG_END, LOG_START, CommandOutput
resource.setrlimit(resource.RLIMIT_FSIZE, (LOG_START + LOG_END,) * 2)
folder = Path({str(tmp_path)!r})
output = CommandOutput(lambda: folder, lambda path: None)
for _ in range(60):
    output.feed(b"x" * 1_000_000)
output.finish()
assert not output.log_incomplete
assert b"bytes are missing here" in Path(output.log_path).read_bytes()
"""
    subprocess.run([sys.executable, "-P", "-c", script], check=True, timeout=60)


def test_the_file_of_the_programs_own_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("fairlead")
    before, level = list(logger.handlers), logger.level
    path = tmp_path / "fairlead.log"
    configure_logging({}, default="error", verbose=False, log_file=str(path))
    monkeypatch.setattr("fairlead.cli.console._LONGEST_LOG_FILE", 10_000)
    try:
        for number in range(1000):
            logging.getLogger("fairlead.cli").info("message %d %s", number, "x" * 100)
    finally:
        for handler in [each for each in logger.handlers if each not in before]:
            logger.removeHandler(handler)
            handler.close()
            if isinstance(handler, _FileHandler):
                handler.stream.close()
        logger.setLevel(level)
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["fairlead.log", "fairlead.log.old"]
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 25_000
    assert "message 999 " in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
