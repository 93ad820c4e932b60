"""Fixtures of the tests of tools: a workspace, and the two ways to search it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.tools.box import Box

from fairlead.tools.search import contents


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path / "cwd", tmp_path / "logs")


@pytest.fixture(params=["rg", "rg walks", "python"])
def engine(request: pytest.FixtureRequest, box: Box, monkeypatch: pytest.MonkeyPatch) -> str:
    """The ways to grep: with the ripgrep that is installed beside Python, in a small or a large tree, and without any."""
    if request.param != "python":
        if not Path(sys.executable).with_name("rg").exists():
            pytest.skip("ripgrep is not installed beside this Python")
        if request.param == "rg walks":
            monkeypatch.setattr(contents, "WALKED_FIRST", 0)
        return "rg"
    empty = box.cwd.parent / "bin"
    empty.mkdir()
    (empty / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(empty / "python"))
    box.workspace.env = {**os.environ, "PATH": str(empty)}
    return "python"
