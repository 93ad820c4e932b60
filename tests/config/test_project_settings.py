"""Settings of a project: one that is not trusted may only make things stricter."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead.config.home import Home
from fairlead.config.settings import FOR_ANY_PROJECT, NOT_FOR_PROJECTS, Settings
from fairlead.config.settings_files import load_settings
from fairlead.config.trust import TrustDecider, save_decision

#: A value for every setting that is not its default. What is not here is not tested: see the first test.
EVERY: dict[str, Any] = {
    "defaultProvider": "other",
    "defaultModel": "other",
    "defaultThinkingLevel": "xhigh",
    "thinkingBudgets": {"low": 99_999},
    "steeringMode": "all",
    "followUpMode": "all",
    "interruptMode": "immediate",
    "enabledModels": ["other/*"],
    "cacheWarming": "idle",
    "shellPath": "./evil",
    "shellCommandPrefix": "evil",
    "passKeys": ["*"],
    "sessionDir": "kept-in-the-repository",
    "skills": ["mine"],
    "prompts": ["mine"],
    "enableSkillCommands": False,
    "extensions": ["mine.py"],
    "extensionTimeoutSeconds": 0.001,
    "defaultProjectTrust": "always",
    "maxTurns": 999,
    "maxRepeatedCalls": 999,
    "maxRepeatedText": 999_999,
    "httpIdleTimeoutMs": 1,
    "compaction": {"enabled": False, "reserveTokens": 1, "keepRecentTokens": 1},
    "retry": {"enabled": False, "maxRetries": 999, "baseDelayMs": 1, "maxAgentDelayMs": 1},
    "rateLimits": {"anthropic": {"concurrency": 1, "requestsPerMinute": 1, "tokensPerMinute": 1}},
    "images": {"autoResize": False, "blockImages": True},
    "tools": {"timeoutSeconds": 1, "concurrent": 999},
    "task": {"maxConcurrency": 999, "maxRecursionDepth": 99, "disabledAgents": ["x"], "agentModelOverrides": {"task": "x"}},
    "tasks": {"todoClearDelay": 1},
    "todo": {"enabled": False, "reminders": False, "remindersMax": 999, "eager": True},
    "ask": {"timeout": 1},
    "approvals": {"mode": "ask"},
    "protectedPaths": [".env"],
    "sandbox": "workspace",
    "mcp": {"waitSeconds": 999},
    "output": {"queueBytes": 1, "lineBytes": 1, "paceMs": 1, "bytesPerSecond": 1, "fullUpdateBytes": 1},
    "ttsr": {
        "enabled": False,
        "contextMode": "keep",
        "interruptMode": "never",
        "repeatMode": "after-gap",
        "repeatGap": 1,
        "disabledRules": ["no-secrets"],
    },
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", user=tmp_path / "user")


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    return tmp_path / "project"


def write(folder: Path, content: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "settings.json"
    path.write_text(json.dumps(content))
    return path


def test_every_setting_is_tried_here() -> None:
    assert set(EVERY) == {field.encode_name for field in msgspec.structs.fields(Settings)}


@pytest.mark.parametrize("key", [key for key in EVERY if key not in FOR_ANY_PROJECT])
def test_a_project_that_is_not_trusted_cannot_set(home: Home, cwd: Path, key: str) -> None:
    write(cwd / ".fairlead", {key: EVERY[key]})
    assert load_settings(home, cwd)[0] == load_settings(home, cwd, approve=False)[0] == Settings()


@pytest.mark.parametrize("key", [key for key in EVERY if key not in (*NOT_FOR_PROJECTS, "extensions")])
def test_a_trusted_project_can_set(home: Home, cwd: Path, key: str) -> None:
    write(cwd / ".fairlead", {key: EVERY[key]})
    settings, warnings = load_settings(home, cwd, approve=True)
    assert settings != Settings() and warnings == []


@pytest.mark.parametrize("key", FOR_ANY_PROJECT)
def test_every_project_can_be_stricter(home: Home, cwd: Path, key: str) -> None:
    write(cwd / ".fairlead", {key: EVERY[key]})
    settings, warnings = load_settings(home, cwd)
    assert settings != Settings() and warnings == []


def test_one_warning_names_what_is_ignored_and_says_how_to_trust_the_project(home: Home, cwd: Path) -> None:
    content = {
        "defaultProvider": "x",
        "ttsr": {"enabled": False, "theirs": 1},
        "theme": "dark",
        "images": None,
        "sandbox": "workspace",
    }
    path = write(cwd / ".fairlead", content)
    assert load_settings(home, cwd)[1] == [
        f"{path}: ignored, because the project is not trusted: defaultProvider, ttsr.enabled. To trust it, run "
        f"`fairlead trust {cwd}`, or pass --approve for one run."
    ]


def test_trust_that_was_given_before_counts(home: Home, cwd: Path) -> None:
    write(cwd / ".fairlead", {"defaultModel": "a"})
    save_decision(home, cwd, True)
    assert load_settings(home, cwd) == (Settings(default_model="a"), [])
    assert load_settings(home, cwd, approve=False)[0] == Settings()
    save_decision(home, cwd, False)
    assert load_settings(home, cwd)[0] == Settings()


def test_the_users_default_decides_about_a_project_that_is_not_known(home: Home, cwd: Path) -> None:
    write(cwd / ".fairlead", {"defaultModel": "a", "defaultProjectTrust": "always"})
    write(home.root, {"defaultProjectTrust": "always"})
    assert load_settings(home, cwd)[0].default_model == "a"
    write(home.root, {"defaultProjectTrust": "ask"})
    assert load_settings(home, cwd)[0].default_model is None


def test_decisions_that_cannot_be_read_trust_nothing(home: Home, cwd: Path) -> None:
    write(cwd / ".fairlead", {"defaultModel": "a"})
    home.root.mkdir()
    (home.root / "trust.json").write_text(json.dumps({str(cwd): "yes"}))
    settings, warnings = load_settings(home, cwd)
    assert settings == Settings()
    assert "expected true or false" in warnings[0] and "not trusted: defaultModel" in warnings[1]


UNREADABLE: list[Callable[[Path], object]] = [
    lambda path: path.mkdir(),
    lambda path: path.symlink_to("gone"),
    lambda path: path.write_text("["),
]


@pytest.mark.parametrize("make", UNREADABLE)
async def test_decisions_that_cannot_be_read_may_say_never(home: Home, cwd: Path, make: Callable[[Path], object]) -> None:
    write(cwd / ".fairlead", {"defaultModel": "a"})
    write(home.root, {"defaultProjectTrust": "always"})
    assert load_settings(home, cwd)[0].default_model == "a"
    make(home.root / "trust.json")
    settings, warnings = load_settings(home, cwd)
    assert settings.default_model is None and "No project is trusted by it." in warnings[0]
    trust = TrustDecider(home, default="always")
    assert not trust.is_trusted(cwd) and not await trust.decide(cwd)


def test_not_even_a_trusted_project_names_paths_outside_of_it(home: Home, cwd: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    names = ["ours", "../more", "/etc", "~/keys", "../../outside", "link", "../../project2"]
    write(cwd / ".fairlead", {"skills": names, "prompts": names})
    (cwd / ".fairlead" / "link").symlink_to(tmp_path / "outside")
    settings, warnings = load_settings(home, cwd, approve=True)
    assert settings.skills == settings.prompts == [f"{cwd}/.fairlead/ours", f"{cwd}/.fairlead/../more"]
    assert len(warnings) == 10 and all("is outside the project" in warning for warning in warnings)


def test_work_in_the_users_own_directory_has_one_settings_file(tmp_path: Path) -> None:
    user, link = tmp_path / "user", tmp_path / "link"
    home = Home(user / ".fairlead", user=user)
    write(home.root, {"defaultModel": "a", "skills": ["mine"]})
    link.symlink_to(user)
    for cwd in (user, link):
        settings, warnings = load_settings(home, cwd)
        assert settings.default_model == "a" and warnings == []


def test_a_project_that_links_its_folder_to_the_users_gains_nothing(home: Home, cwd: Path) -> None:
    write(home.root, {"defaultModel": "a"})
    cwd.mkdir()
    (cwd / ".fairlead").symlink_to(home.root)
    settings, (warning,) = load_settings(home, cwd)
    assert settings.default_model == "a" and "outside the project" in warning
    assert home.boundary(cwd) == cwd
