"""Paths, and what the tools say about themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.tools.box import Box

from fairlead.errors import ToolError
from fairlead.tools import DEFAULT_TOOLS
from fairlead.tools.builtin import builtin_tools


def test_paths_start_at_the_working_directory(box: Box) -> None:
    assert box.workspace.resolve("a/../b.txt") == box.cwd / "b.txt"
    assert box.workspace.resolve("/etc/hosts").as_posix() == "/etc/hosts"


def test_home_urls_and_mentions_are_understood(box: Box) -> None:
    box.workspace.env = {"HOME": "/home/someone"}
    assert box.workspace.resolve("~/x").as_posix() == "/home/someone/x"
    assert box.workspace.resolve("~").as_posix() == "/home/someone"
    assert box.workspace.resolve("~other/x") == box.cwd / "~other/x"
    assert box.workspace.resolve("file:///tmp/a%20b").as_posix() == "/tmp/a b"
    assert box.workspace.resolve("@src/x.py") == box.cwd / "src/x.py"


def test_an_at_sign_that_belongs_to_the_name_stays(box: Box) -> None:
    (box.cwd / "@types").mkdir()
    assert box.workspace.resolve("@types/node") == box.cwd / "@types/node"


@pytest.mark.parametrize("path", ["db://users/1", "https://example.com/x", "a+b.c-d://x"])
def test_paths_that_are_not_files_are_refused(box: Box, path: str) -> None:
    with pytest.raises(ToolError, match="is not a file, and there is nothing here that reads or writes"):
        box.workspace.resolve(path)


def test_colons_and_slashes_that_belong_to_names_stay(box: Box) -> None:
    (box.cwd / "db:").mkdir()
    assert box.workspace.resolve("db://x") == box.cwd / "db:/x"
    assert box.workspace.resolve("a b://x") == box.cwd / "a b:/x"
    assert box.workspace.resolve("notes/db://x") == box.cwd / "notes/db:/x"
    assert box.workspace.resolve("10://x") == box.cwd / "10:/x"


def test_a_nul_in_a_path_is_refused(box: Box) -> None:
    with pytest.raises(ToolError, match="NUL"):
        box.workspace.resolve("a\0b")


def test_the_tools_come_in_order(box: Box) -> None:
    tools = builtin_tools(box.workspace)
    assert list(tools) == ["read", "bash", "edit", "write", "grep", "find", "ls"]
    assert DEFAULT_TOOLS == ("read", "bash", "edit", "write")
    assert [tool.name for tool in tools.values() if tool.exclusive] == ["bash", "edit", "write"]
    assert {tool.timeout for tool in tools.values() if tool.name != "bash"} == {120}
    assert tools["bash"].timeout is None
    assert all(tool.description and tool.snippet for tool in tools.values())


def test_in_the_command_declaring_the_tools_loads_none_of_their_work() -> None:
    script = """
import sys
from pathlib import Path
from fairlead.cli.start import POSTPONED, postpone_imports
postpone_imports()
from fairlead.tools import builtin, workspace
builtin.builtin_tools(workspace.Workspace(Path("/"), {}, log_dir=Path, keep_log=print))
waiting = {name for name in POSTPONED if type(sys.modules.get(name)).__name__ == "_PostponedModule"}
assert {"base64", "difflib", "shlex", "fairlead.tools.files.matching"} <= waiting, waiting
assert {f"fairlead.tools.{name}" for name in ("search.contents", "search.walk", "shell.command_process")} <= waiting, waiting
loaded = {name for name, module in sys.modules.items() if type(module).__name__ not in ("_PostponedModule", "_LoadingModule")}
assert not {"jsonschema_rs", "re2", "fairlead.tools.shell.output"} & loaded, loaded
"""
    subprocess.run([sys.executable, "-c", script], check=True)
