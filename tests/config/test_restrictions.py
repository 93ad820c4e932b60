"""Settings that keep an agent in bounds: a project only makes them stricter, and a mistake never makes them looser."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from fairlead.config.home import Home
from fairlead.config.settings import ApprovalMode, ApprovalRule, Settings
from fairlead.config.settings_files import load_settings
from fairlead.policy.approvals import PatternContext, Policy, Subject


def loaded(root: Path, user: Any = None, project: Any = None) -> tuple[Settings, list[str]]:
    for folder, content in (("home", user), ("work/.fairlead", project)):
        if content is not None:
            path = root / folder / "settings.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content))
    return load_settings(Home(root / "home"), root / "work")


def test_the_users_own_settings_hold_as_they_are(tmp_path: Path) -> None:
    rule = {"tool": "bash", "pattern": "git *", "action": "allow"}
    user = {
        "approvals": {"mode": "ask", "rules": [rule], "timeoutSeconds": 5},
        "protectedPaths": [".env"],
        "sandbox": "workspace",
    }
    settings, warnings = loaded(tmp_path, user)
    assert warnings == []
    assert settings.approvals.mode == "ask" and settings.approvals.timeout_seconds == 5
    assert settings.approvals.rules == [ApprovalRule("allow", "bash", "git *")]
    assert settings.protected_paths == [".env"] and settings.sandbox == "workspace"


def test_a_project_makes_them_stricter(tmp_path: Path) -> None:
    project = {
        "approvals": {"mode": "deny", "rules": [{"tool": "bash", "action": "ask"}]},
        "protectedPaths": ["secrets"],
        "sandbox": "workspace",
    }
    settings, warnings = loaded(tmp_path, {"protectedPaths": [".env"]}, project)
    assert warnings == []
    assert settings.approvals.mode == "deny" and settings.approvals.rules == [ApprovalRule("ask", "bash", only_stricter=True)]
    assert settings.protected_paths == [".env", f"{tmp_path}/work/**/secrets"] and settings.sandbox == "workspace"


def test_a_project_does_not_make_them_looser(tmp_path: Path) -> None:
    user = {"approvals": {"mode": "ask", "rules": [{"tool": "bash", "action": "deny"}]}, "sandbox": "workspace"}
    project = {
        "approvals": {"mode": "auto", "rules": [{"tool": "bash", "action": "allow"}], "timeoutSeconds": 0.01},
        "protectedPaths": ["!~/.fairlead/auth.json"],
        "sandbox": "off",
    }
    settings, warnings = loaded(tmp_path, user, project)
    assert settings == loaded(tmp_path, user, {})[0]
    assert settings.approvals.mode == "ask" and settings.sandbox == "workspace"
    for name in ("approvals.mode", "approvals.rules[0]", "approvals.timeoutSeconds", "protectedPaths[0]", "sandbox"):
        assert any(f"settings.json: {name} is ignored" in warning for warning in warnings), name


@pytest.mark.parametrize(
    ("rule", "tool", "says"),
    [
        ({"tool": "bash", "pattern": "rm *", "acton": "deny"}, "bash", "rules[0].acton: a rule has tool, pattern and action"),
        ({"tool": "bash", "action": "dny"}, "bash", 'rules[0].action: expected one of "allow", "ask", "deny", found "dny"'),
        ({"tool": "bash"}, "bash", "rules[0].action: expected one of"),
        ({"tool": 5, "action": "deny"}, "*", "rules[0].tool: expected a text that is not empty, found 5"),
        ({"tool": "bash", "pattern": "", "action": "deny"}, "bash", "rules[0].pattern: expected a text"),
        ("deny bash", "*", "rules[0]: expected an object with tool, pattern and action"),
    ],
)
def test_a_rule_that_cannot_be_understood_asks_about_everything_it_may_mean(
    tmp_path: Path, rule: Any, tool: str, says: str
) -> None:
    settings, warnings = loaded(tmp_path, {"approvals": {"rules": [rule]}})
    assert settings.approvals.rules == [ApprovalRule("ask", tool, only_stricter=True)]
    (warning,) = warnings
    assert says in warning and "Until that is corrected" in warning


ASKING: list[Any] = [{"action": "ask"}, {"tool": "*", "pattern": "*", "action": "ask"}, {"action": "?"}, "ask"]


@pytest.mark.parametrize("rule", ASKING)
@pytest.mark.parametrize("subject", [Subject("command", "touch x"), Subject("path", "/there/x"), Subject("arguments", "{}")])
def test_a_project_does_not_turn_a_refusal_into_a_question(tmp_path: Path, rule: Any, subject: Subject) -> None:
    settings, _ = loaded(tmp_path, {"approvals": {"mode": "deny"}}, {"approvals": {"rules": [rule]}})
    assert verdict(settings, subject) == "deny"
    assert verdict(settings, subject, harmless=True) == "ask"
    assert verdict(settings, subject, mode="auto") == "ask"


def test_a_question_that_the_user_wants_in_place_of_a_refusal_stays_one(tmp_path: Path) -> None:
    rules = {"rules": [{"tool": "bash", "pattern": "git *", "action": "ask"}]}
    settings, _ = loaded(tmp_path, {"approvals": {"mode": "deny", **rules}}, {"approvals": rules})
    assert verdict(settings, Subject("command", "git push")) == "ask"
    assert verdict(settings, Subject("command", "git push; touch x")) == "deny"


@pytest.mark.parametrize("rule", [{"tool": "bash", "action": "Deny"}, {"tool": "bash", "acton": "deny"}, "deny bash"])
def test_a_rule_that_cannot_be_understood_does_not_turn_a_refusal_into_a_question(tmp_path: Path, rule: Any) -> None:
    settings, _ = loaded(tmp_path, {"approvals": {"mode": "deny", "rules": [rule]}})
    assert verdict(settings, Subject("command", "touch x")) == "deny"


@pytest.mark.parametrize("content", [None, '{"approvals": {', "a link to nowhere"])
def test_a_project_file_that_cannot_be_used_does_not_turn_a_refusal_into_a_question(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "work" / ".fairlead" / "settings.json"
    path.parent.mkdir(parents=True)
    if content is None:
        path.mkdir()
    elif content.startswith("{"):
        path.write_text(content)
    else:
        path.symlink_to("/nowhere")
    settings, warnings = loaded(tmp_path, {"approvals": {"mode": "deny"}})
    assert warnings
    assert verdict(settings, Subject("command", "touch x")) == "deny"
    assert verdict(settings, Subject("command", "touch x"), harmless=True) == "ask"


def verdict(settings: Settings, subject: Subject, mode: ApprovalMode | None = None, *, harmless: bool = False) -> str:
    policy = Policy(mode or settings.approvals.mode, settings.approvals.rules)
    return policy.verdict("bash", harmless=harmless, subject=subject, around=PatternContext("/there", "/home/user")).action


@pytest.mark.parametrize(
    "user",
    [
        {"approvals": {"mode": "aks"}},
        {"approvals": {"rules": {"tool": "bash", "action": "deny"}}},
        {"approvals": {"rule": []}},
        {"approvals": "ask"},
        {"protectedPaths": ".env"},
        {"protectedPaths": [5]},
        '{"approvals": {"mode": "deny"}',
        '{"protectedPaths": [".env",]]}',
        "{approvals: {mode: 'deny'}}",
        '[{"protectedPaths": [".env"]}]',
    ],
)
def test_unreadable_restrictions_require_approval_for_everything(tmp_path: Path, user: Any) -> None:
    settings, warnings = loaded(tmp_path, user)
    assert settings.approvals.mode == "ask"
    assert any('approvals.mode "ask"' in warning for warning in warnings)


@pytest.mark.parametrize("user", [{"sandbox": "workspce"}, {"sandbox": True}, '{"sandbox": "workspace"'])
def test_a_sandbox_that_cannot_be_understood_is_one(tmp_path: Path, user: Any) -> None:
    settings, warnings = loaded(tmp_path, user)
    assert settings.sandbox == "workspace" and warnings


def test_a_broken_file_that_sets_no_bounds_changes_none(tmp_path: Path) -> None:
    settings, warnings = loaded(tmp_path, '{"defaultModel": ')
    assert settings == Settings() and len(warnings) == 1


def test_a_broken_file_in_another_encoding_still_names_the_bounds(tmp_path: Path) -> None:
    path = tmp_path / "home" / "settings.json"
    path.parent.mkdir()
    path.write_bytes('{"approvals": {"mode": "deny"}, "sandbox": "workspace"}'.encode("utf-16"))
    settings, _ = load_settings(Home(tmp_path / "home"), tmp_path / "work")
    assert (settings.approvals.mode, settings.sandbox) == ("ask", "workspace")


def loop(path: Path) -> None:
    path.symlink_to(path)


def too_long(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate((16 << 20) + 1)


def in_a_directory_that_cannot_be_searched(path: Path) -> None:
    path.parent.rmdir()
    loop(path.parent)


def in_a_directory_that_is_gone(path: Path) -> None:
    path.parent.rmdir()
    path.parent.symlink_to(path.parent.with_name("gone"))


UNREADABLE: list[Callable[[Path], None]] = [
    Path.mkdir,
    os.mkfifo,
    loop,
    too_long,
    lambda path: path.symlink_to("/proc/self/environ"),
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to("gone.json"),
    in_a_directory_that_cannot_be_searched,
    in_a_directory_that_is_gone,
]


@pytest.mark.parametrize("folder", ["home", "work/.fairlead"])
@pytest.mark.parametrize("make", UNREADABLE)
def test_a_file_that_cannot_be_read_asks_about_every_call_and_that_of_the_user_wants_the_sandbox(
    tmp_path: Path, make: Callable[[Path], None], folder: str
) -> None:
    path = tmp_path / folder / "settings.json"
    path.parent.mkdir(parents=True)
    make(path)
    settings, (warning,) = load_settings(Home(tmp_path / "home"), tmp_path / "work")
    assert settings.approvals.mode == "ask" and settings.approvals.rules == [ApprovalRule("ask", "*", only_stricter=True)]
    assert settings.sandbox == ("workspace" if folder == "home" else "off")
    assert warning.startswith(f"{path}: ") and "may set approvals, protectedPaths, sandbox" in warning
    assert ("--sandbox off" in warning) == ("FAIRLEAD_HOME" in warning) == (folder == "home")


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user, who cannot read the file")
def test_a_file_that_another_user_owns_is_not_taken_for_one_that_does_not_exist(tmp_path: Path) -> None:
    with TemporaryDirectory() as open_to_all:  # tmp_path is not
        (folder := Path(open_to_all)).chmod(0o755)
        loaded(folder, {"approvals": {"mode": "deny"}})
        (folder / "home").chmod(0o700)
        settings, (warning,) = as_nobody(folder / "home")
    assert settings.approvals.mode == "ask" and settings.sandbox == "workspace" and "Permission denied" in warning


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user, who cannot read the file")
def test_a_home_directory_that_belongs_to_another_user_has_no_settings_of_this_one(tmp_path: Path) -> None:
    with TemporaryDirectory() as open_to_all:
        (folder := Path(open_to_all)).chmod(0o755)
        loaded(folder / "user", {"approvals": {"mode": "deny"}})
        (folder / "user").chmod(0o700)
        assert as_nobody(folder / "user" / "home") == (Settings(), [])


def as_nobody(home: Path) -> tuple[Settings, list[str]]:
    """The settings that a user without any rights gets."""
    os.seteuid(65534)
    try:
        return load_settings(Home(home), Path("/"))
    finally:
        os.seteuid(0)


def test_a_file_that_does_not_exist_changes_nothing(tmp_path: Path) -> None:
    assert loaded(tmp_path) == (Settings(), [])
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to("real")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".fairlead").write_text("a file in the place of the directory")
    assert loaded(tmp_path) == (Settings(), [])


def test_a_project_file_that_cannot_be_read_leaves_a_stricter_mode_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "work" / ".fairlead" / "settings.json").mkdir(parents=True)
    rule = {"tool": "bash", "action": "deny"}
    settings, _ = loaded(tmp_path, {"approvals": {"mode": "deny", "rules": [rule], "timeoutSeconds": 5}})
    assert settings.approvals.mode == "deny" and settings.approvals.timeout_seconds == 5
    assert settings.approvals.rules == [ApprovalRule("deny", "bash"), ApprovalRule("ask", "*", only_stricter=True)]
