"""A project that is not trusted and wants fairlead to search for ever, or outside of it: protected paths, rules, manifests.

The searches are watched: a folder that must not be looked at counts who lists it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.config.home import Home
from fairlead.config.packages import manifest_paths
from fairlead.config.settings_files import load_settings
from fairlead.errors import ToolError
from fairlead.policy import hard_links, protected
from fairlead.policy.patterns import WildcardPattern
from fairlead.policy.protected import Protected

_listed: list[str] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    # The import of a module that a test is the first to need lists folders too.
    if event in ("os.scandir", "os.listdir") and "importlib" not in sys._getframe(1).f_code.co_filename:  # pyright: ignore[reportPrivateUsage]
        _listed.append(
            str(arguments[0]) if not isinstance(arguments[0], int) else os.path.realpath(f"/proc/self/fd/{arguments[0]}")
        )


sys.addaudithook(_audit)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / "sub/x").touch()
    (tmp_path / "outside/deep").mkdir(parents=True)
    (tmp_path / "outside/deep/x").touch()
    (work / "out").symlink_to(tmp_path / "outside")
    _listed.clear()
    yield work


def loaded(project: Path, **settings: Any) -> tuple[Protected, list[str], Any]:
    file = project / ".fairlead/settings.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(settings))
    found, warnings = load_settings(Home(project.parent / "home"), project)
    guard = Protected([], found.protected_paths, cwd=lambda: project, home=project.parent / "user")
    return guard, warnings, found


@pytest.mark.parametrize(
    "pattern",
    ["/**/x", "/*/x", "/", "//**/x", "~/**/x", "~", "~root/x", "../**/x", "sub/../../**/x", "out/**/x", "out/deep", "/e?c/x"],
)
def test_patterns_of_a_project_search_nothing_outside_of_it(project: Path, pattern: str) -> None:
    guard, warnings, settings = loaded(project, protectedPaths=[pattern])
    assert settings.protected_paths == []
    assert any(f"{pattern} is ignored: it is outside the project" in text for text in warnings)
    guard.masks()
    assert all(Path(folder).is_relative_to(project) for folder in _listed)


@pytest.mark.parametrize("pattern", ["x", "**/x", "./sub/x", "sub/*", "**/**/**/**/x", "{project}/sub/x", "{project}/**/x"])
def test_patterns_of_a_project_protect_what_is_in_it(project: Path, pattern: str) -> None:
    guard, warnings, _ = loaded(project, protectedPaths=[pattern.format(project=project)])
    assert warnings == []
    assert guard.masks().files == [project / "sub/x"]
    with pytest.raises(ToolError, match="is a protected file"):
        guard.check_writing(project / "sub/x", None)
    guard.check_writing(project.parent / "outside/x", None)
    assert all(Path(folder).is_relative_to(project) for folder in _listed)


def test_a_hard_link_in_a_project_with_patterns_does_not_have_the_home_searched(project: Path) -> None:
    (project.parent / "user").mkdir()
    guard, _, _ = loaded(project, protectedPaths=["x", "deep/**/y"])
    os.link(project.parent / "outside/deep/x", project / "linked")
    guard.check_reading(project / "linked", (project / "linked").stat())
    assert all(Path(folder).is_relative_to(project) for folder in _listed)


@pytest.mark.parametrize(
    "patterns",
    [
        [f"x{number}" for number in range(10_000)],
        ["a" * 10_000],
        ["*a" * 50],
        ["**/a/" * 50 + "x"],
        ["?*" * 11],
    ],
    ids=["many", "long", "stars", "folders", "questions"],
)
def test_more_or_longer_patterns_than_a_project_can_need_have_everything_asked_for(project: Path, patterns: list[str]) -> None:
    _, warnings, settings = loaded(project, protectedPaths=patterns)
    assert settings.approvals.mode == "ask" and len(settings.protected_paths) <= 100
    assert any("everything is asked for" in text for text in warnings)


@pytest.mark.parametrize("many", [True, False])
def test_more_or_longer_rules_than_a_project_can_need_have_everything_asked_for(project: Path, many: bool) -> None:
    rules = [
        {"tool": "bash", "pattern": f"x{each}" if many else "*a" * 50, "action": "deny"} for each in range(10_000 if many else 1)
    ]
    _, warnings, settings = loaded(project, approvals={"rules": rules})
    (rule,) = settings.approvals.rules
    assert (rule.tool, rule.action) == ("*" if many else "bash", "ask") and "approvals.rules" in warnings[0]


def test_a_search_for_patterns_that_finds_no_end_refuses_the_command(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = Protected([], ["**/never"], cwd=lambda: project, home=project.parent / "user")
    assert guard.masks().files == []
    monkeypatch.setattr(protected, "_MOST_SEARCHED", 2)
    with pytest.raises(ToolError, match=r"too many files to find all that protectedPaths protects with \*\*/never"):
        guard.masks()
    monkeypatch.setattr(protected, "_MOST_SEARCHED", 1000)
    monkeypatch.setattr(protected, "_PATIENCE", -1)
    with pytest.raises(ToolError, match="too many files"):
        guard.masks()


def test_a_search_for_hard_links_that_takes_too_long_is_not_complete(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hard_links.HardLinks([project]).complete
    monkeypatch.setattr(hard_links, "_PATIENCE", -1)
    assert not hard_links.HardLinks([project]).complete


def test_all_patterns_share_one_walk(project: Path) -> None:
    guard = Protected(
        [], [f"name{number}" for number in range(50)] + [f"*.{number}" for number in range(50)], cwd=lambda: project, home=project
    )
    _listed.clear()
    guard.masks()
    assert _listed.count(str(project / "sub")) <= 2  # the other is for hard links


def test_folders_in_a_row_are_one_step_of_a_pattern() -> None:
    many = WildcardPattern("**/" * 1000 + "x", paths=True)
    assert many.fits("a/b/x") and many.fits("x") and not many.fits("a/b")
    assert len(many._steps) == 3  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("pattern", ["../../../**/x", "sub/../../**/x", "**/../../x*", "out/**/x", "out/*/x"])
def test_a_manifest_in_a_project_finds_nothing_outside_of_its_package(project: Path, pattern: str) -> None:
    assert manifest_paths(project, [pattern]) == []
    assert all(Path(folder).is_relative_to(project) for folder in _listed)


def test_a_manifest_with_many_folders_in_its_pattern_is_read_once(project: Path) -> None:
    for number in range(20):
        (project / f"f{number}").mkdir()
    assert manifest_paths(project, ["**/" * 60 + "x"]) == [project / "sub/x"]
    assert len(_listed) < 2000
