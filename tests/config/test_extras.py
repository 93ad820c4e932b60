"""The advice to install an extra is a command that works in this installation."""

from __future__ import annotations

import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from fairlead.config import extras
from fairlead.config.extras import install_command, missing_packages

DECLARED = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", ["chat", "html", "local", "mcp", "node", "rg"])
def test_the_command_installs_what_the_extra_needs_with_the_python_that_runs_fairlead(extra: str) -> None:
    program, *words = shlex.split(install_command(extra))
    assert (program, words[:3]) == (sys.executable, ["-m", "pip", "install"])
    assert sorted(words[3:]) == sorted(each.replace("_", "-") for each in DECLARED[extra])


def test_installed_packages_are_not_reported_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_packages("mcp") == []
    monkeypatch.setattr(extras, "extras", lambda: {"odd": ["no-such-package-here>=1", "pytest"]})
    assert missing_packages("odd") == ["no-such-package-here>=1"]


def test_an_installation_without_metadata_names_the_source_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "extras", dict)
    command = shlex.split(install_command("mcp"))
    assert command[-2:] == ["-e", f"{Path(extras.__file__).parents[3]}[mcp]"]


def test_all_brings_every_extra_that_users_need() -> None:
    others = DECLARED.keys() - {"all", "docs", "test", "dev"}
    assert sorted(DECLARED["all"]) == sorted(f"fairlead[{extra}]" for extra in others)
