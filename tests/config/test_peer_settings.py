"""The settings of pi, omp and xcsh, under fairlead's names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead.config.home import Home, PeerHome
from fairlead.config.settings import Settings
from fairlead.config.settings_files import load_settings

OMP = PeerHome(folder=".omp", layout="omp")
PI = PeerHome(folder=".pi")


def loaded(
    tmp_path: Path, text: str, *, file: str = "agent/config.yml", approve: bool | None = None
) -> tuple[Settings, list[str]]:
    home = Home(tmp_path / "agent", user=tmp_path / "user", peer=OMP)
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return load_settings(home, tmp_path / "work", approve=approve)


def test_settings_with_another_shape_mean_the_same(tmp_path: Path) -> None:
    settings, warnings = loaded(
        tmp_path,
        """
modelRoles: {default: "openrouter/a/b:free:low", smol: x/y}
thinkingBudgets: {low: 5, max: 9}
retry: {maxRetries: 4, maxDelayMs: 700, fallbackChains: {}}
compaction: {enabled: false, keepRecentTokens: 9, strategy: handoff}
todo: {eager: always, reminders: false}
skills: {enabled: true, customDirectories: [mine], enableSkillCommands: false}
enabledModels: [a/b, {path: x}]
queueMode: all
theme: {dark: titanium}
tools: {approvalMode: yolo, maxTimeout: 5}
""",
    )
    assert warnings == []
    assert (settings.default_model, settings.default_thinking_level) == ("openrouter/a/b:free", "low")
    assert settings.thinking_budgets == {"low": 5, "max": 9}
    assert (settings.retry.max_retries, settings.retry.max_agent_delay_ms) == (4, 700)
    assert (settings.compaction.enabled, settings.compaction.keep_recent_tokens) == (False, 9)
    assert (settings.todo.eager, settings.todo.reminders) == (True, False)
    assert (settings.skills, settings.enable_skill_commands) == ([str(tmp_path / "agent" / "mine")], False)
    assert (settings.enabled_models, settings.steering_mode) == (["a/b"], "all")
    assert settings.approvals.mode == "auto"


@pytest.mark.parametrize(
    ("tools", "mode", "rules"),
    [
        ({"approvalMode": "always-ask"}, "ask", []),
        ({"approvalMode": "write"}, "write", []),
        ({"approvalMode": "whatever"}, "ask", []),
        (
            {"approval": {"bash": "deny", "read": "prompt", "write": "odd"}},
            "auto",
            [("bash", "deny"), ("read", "ask"), ("write", "ask")],
        ),
    ],
)
def test_approvals_are_read_as_strictly_as_they_may_be_meant(
    tmp_path: Path, tools: dict[str, Any], mode: str, rules: list[tuple[str, str]]
) -> None:
    settings, _ = loaded(tmp_path, json.dumps({"tools": tools}))
    assert settings.approvals.mode == mode
    assert [(rule.tool, rule.action) for rule in settings.approvals.rules] == rules


def test_a_broken_file_that_may_hold_approvals_asks_about_every_call(tmp_path: Path) -> None:
    settings, (warning,) = loaded(tmp_path, "tools:\n  approvalMode: always-ask\n bad: [\n")
    assert settings.approvals.mode == "ask" and "not valid YAML" in warning


def test_a_project_cannot_loosen_what_the_user_has_set(tmp_path: Path) -> None:
    loaded(tmp_path, "tools: {approvalMode: always-ask}\n")
    settings, _ = loaded(tmp_path, "tools: {approvalMode: yolo}\nsteeringMode: all\n", file="work/.omp/config.yml")
    assert (settings.approvals.mode, settings.steering_mode) == ("ask", "one-at-a-time")
    settings, _ = loaded(tmp_path, "steeringMode: all\n", file="work/.omp/config.yml", approve=True)
    assert (settings.approvals.mode, settings.steering_mode) == ("ask", "all")


@pytest.mark.parametrize(
    ("package", "files", "brought"),
    [
        (
            "npm:@a/gate@1.0.0",
            {"npm/node_modules/@a/gate/package.json": '{"pi": {"extensions": ["./x.ts"]}}'},
            "npm/node_modules/@a/gate",
        ),
        ("npm:gate", {"npm/node_modules/gate/extensions/x.ts": ""}, "npm/node_modules/gate/extensions"),
        ("git:github.com/a/gate@v1", {"git/github.com/a/gate/extensions/x.ts": ""}, "git/github.com/a/gate/extensions"),
        ("https://github.com/a/gate.git", {"git/github.com/a/gate/extensions/x.ts": ""}, "git/github.com/a/gate/extensions"),
        ("./gate.ts", {"gate.ts": ""}, "gate.ts"),
        ({"source": "./gate", "extensions": ["x.ts"]}, {"gate/extensions/x.ts": ""}, "gate/extensions"),
        ({"source": "./gate", "extensions": []}, {"gate/extensions/x.ts": ""}, None),
        ("npm:themes", {"npm/node_modules/themes/package.json": '{"pi": {"themes": ["./t"]}}'}, None),
        ("npm:themes", {"npm/node_modules/themes/index.js": ""}, None),
        ("./gate", {"gate/index.ts": ""}, "gate"),
        ("./skills", {"skills/skills/a.md": ""}, None),
        ("./gate", {"gate/package.json": '{"pi": {"changelog": "x"}}', "gate/extensions/x.ts": ""}, "gate/extensions"),
        ("./gate", {"gate/package.json": '{"pi": {"skills": ["s"]}}', "gate/extensions/x.ts": ""}, None),
        (
            {"source": "./gate", "skills": []},
            {"gate/package.json": '{"pi": {"skills": ["s"]}}', "gate/extensions/x.ts": ""},
            "gate/extensions",
        ),
        ("npm:not-installed", {}, None),
        (7, {}, None),
    ],
)
def test_the_extensions_of_installed_packages_count_as_named(
    tmp_path: Path, package: Any, files: dict[str, str], brought: str | None
) -> None:
    home = Home(tmp_path / "agent", user=tmp_path, peer=PI)
    for name, text in {"settings.json": json.dumps({"packages": [package]}), **files}.items():
        (home.root / name).parent.mkdir(parents=True, exist_ok=True)
        (home.root / name).write_text(text)
    settings, warnings = load_settings(home, tmp_path)
    assert settings.extensions == ([] if brought is None else [str(home.root / brought)])
    assert [("not installed" in warning) for warning in warnings] == ([True] if package == "npm:not-installed" else [])


@pytest.mark.parametrize(
    ("extensions", "named"),
    [
        ("gate.ts", ["gate.ts"]),
        (["gate.ts", 5], ["gate.ts", "5"]),
        (["gate.ts", None], ["gate.ts", "null"]),
        ([{"path": "gate.ts"}], ['{"path":"gate.ts"}']),
        ({"gate": True}, ['{"gate":true}']),
        (None, []),
        (False, []),
    ],
)
def test_an_entry_that_names_no_extension_is_not_skipped(tmp_path: Path, extensions: Any, named: list[str]) -> None:
    home = Home(tmp_path / "agent", user=tmp_path, peer=PI)
    home.root.mkdir()
    home.settings_path.write_text(json.dumps({"extensions": extensions}))
    settings, _ = load_settings(home, tmp_path)
    assert settings.extensions == [str(home.root / name) for name in named]


@pytest.mark.parametrize("text", ['{"extensions": ["gate.ts"', '{"packages": ["npm:gate"', '{"theme": "x"'])
def test_calls_are_asked_for_if_the_file_that_names_extensions_cannot_be_read(tmp_path: Path, text: str) -> None:
    home = Home(tmp_path / "agent", user=tmp_path, peer=PI)
    home.root.mkdir()
    home.settings_path.write_text(text)
    settings, (warning,) = load_settings(home, tmp_path)
    assert "not valid JSON" in warning
    assert settings.approvals.mode == ("auto" if "theme" in text else "ask")


def test_settings_a_peer_project_may_not_set_are_only_logged(tmp_path: Path) -> None:
    home = Home(tmp_path / "agent", user=tmp_path, peer=PI)
    work = tmp_path / "work"
    (work / ".pi").mkdir(parents=True)
    (work / ".pi" / "settings.json").write_text('{"shellPath": "/bin/zsh"}')
    settings, warnings = load_settings(home, work, approve=True)
    assert (settings.shell_path, warnings) == (None, [])
