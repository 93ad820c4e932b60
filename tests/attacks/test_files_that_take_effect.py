"""The approval mode `write` asks about files that take effect without the user running the project's own code."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fairlead.config.settings import ApprovalRule
from fairlead.policy.approvals import PatternContext, Policy, Subject

ASKED = """
    .git .git/config .git/hooks/pre-commit .GIT/config .Git/hooks/x
    .gitmodules .gitattributes .githooks/pre-commit .husky/pre-commit
    .husky/_/h .hg/hgrc .pre-commit-config.yaml
    lefthook.yml .jj/repo/config HEAD commondir
    .mcp.json .fairlead/extensions/x.py .fairlead/settings.json .pi/settings.json .omp/config.yml .xcsh/x .claude/settings.json
    .claude/hooks/x .cursor/mcp.json .codex/config.toml .gemini/settings.json .agents/skills/x/SKILL.md
    .windsurf/x .opencode/x
    .vscode/tasks.json .vscode/settings.json .idea/workspace.xml .zed/tasks.json .devcontainer/devcontainer.json
    .devcontainer.json
    x.code-workspace .exrc .nvim.lua .dir-locals.el .vimrc
    .envrc .mise.toml mise.toml .tool-versions .bashrc .profile .zshenv .ssh/authorized_keys .config/autostart/x.desktop
    .npmrc .yarnrc .yarnrc.yml .yarn/releases/x.cjs .pnpmfile.cjs .cargo/config.toml rust-toolchain.toml pip.conf
    .venv/bin/python
    node_modules/x/index.js bunfig.toml sitecustomize.py usercustomize.py x.pth __pycache__/x.pyc .pnp.cjs .mvn/extensions.xml
    .github/workflows/x.yml .gitlab-ci.yml .circleci/config.yml Jenkinsfile
    .gdbinit .lldbinit .ghci .Rprofile .irbrc ipython_config.py
    .RData .Renviron .iex.exs .ocamlinit .pylintrc pylintrc .flake8 mypy.ini .eslintrc.cjs .prettierrc.mjs .rubocop.yml .rspec
    .ycm_extra_conf.py .clangd .localvimrc .emacs .emacs.d/init.el .settings/x .externalToolBuilders/x .project .nova/Tasks/x
    .cshrc .kshrc .xprofile .netrc .forward x.desktop .gradle/init.gradle .jvmopts .user.ini .htaccess
    .prettierrc .python-version .bsp/x.json .sourcekit-lsp/config.json buildServer.json hie.yaml .merlin .luarc.json
    .golangci.yml .markdownlint-cli2.jsonc rust-analyzer.toml .trunk/trunk.yaml phpstan.neon .replit .dart_tool/x .sqlfluff
    cloudbuild.yaml buildspec.yml renovate.json .tekton/x.yaml netlify.toml vercel.json
""".split()
UNASKED = """
    a.txt src/a.py tests/conftest.py package.json Makefile README.md AGENTS.md CLAUDE.md docs/AGENTS.md pyproject.toml
    Dockerfile .gitignore .editorconfig .env.example src/config src/hooks/use.ts refs/x head.py heads/a config git/x
    src/github/x .prettierignore tsconfig.json Cargo.toml go.mod objects/x mcp.py
""".split()
OTHER_SPELLINGS = [
    ".MCP.JSON",
    ".Mcp.json",
    ".ENVRC",
    ".hu\u017fky/pre-commit",
    ".v\u017fcode/tasks.json",
    ".gi\u200ct/config",
    "\u200c.git/config",
    ".mcp.json\u200d",
    ".mcp.json.",
    ".mcp.json ",
    ".mcp.json::$DATA",
    ".git::$INDEX_ALLOCATION/config",
    "git~1/config",
    "GIT~1/config",
    "\uff0egit/config",
    "JENKINSFILE",
    "head",
    "NODE_MODULES/x",
]


def action(path: Path, cwd: Path, *more: Path) -> str:
    around = PatternContext(str(cwd), str(cwd), more=[*map(str, more)])
    return Policy("write").verdict("write", harmless=False, subject=Subject("path", str(path), str(path)), around=around).action


def action_by_rule(path: Path, cwd: Path, pattern: str | None) -> str:
    policy = Policy("ask", [ApprovalRule("allow", "write", pattern)])
    around = PatternContext(str(cwd), "/home/me")
    return policy.verdict("write", harmless=False, subject=Subject("path", str(path), str(path)), around=around).action


@pytest.mark.parametrize("name", [*ASKED, *OTHER_SPELLINGS])
@pytest.mark.parametrize("depth", ["", "sub", "a/b/c"])
def test_a_file_that_takes_effect_needs_a_question_at_any_depth(tmp_path: Path, depth: str, name: str) -> None:
    assert action(tmp_path / depth / name, tmp_path) == "ask"
    assert action(tmp_path / "more" / depth / name, tmp_path / "cwd", tmp_path / "more") == "ask"


@pytest.mark.parametrize("name", UNASKED)
def test_other_files_of_the_workspace_need_none(tmp_path: Path, name: str) -> None:
    assert action(tmp_path / name, tmp_path) == "allow"
    assert action(tmp_path / "sub" / name, tmp_path) == "allow"


@pytest.mark.parametrize("pattern", ["src/**", "src", "**", "*.json", "/**", "s*/**"])
@pytest.mark.parametrize("name", [".vscode/x.json", "a/.mcp.json", ".git/x.json", ".GIT/x.json", ".fairlead/x.json"])
def test_a_rule_covers_no_file_that_takes_effect_unless_it_spells_the_name(tmp_path: Path, pattern: str, name: str) -> None:
    assert action_by_rule(tmp_path / "src" / "x.json", tmp_path, pattern) == "allow"
    assert action_by_rule(tmp_path / "src" / name, tmp_path, pattern) == "ask"


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("src/.vscode/**", "src/.vscode/x.json"),
        (".github/workflows/*.yml", ".github/workflows/ci.yml"),
        ("**/.github/**", "a/.github/x"),
        (".gitattributes", "a/.gitattributes"),
        (".git/**", ".git/config"),
        ("*", ".git/config"),
        (None, ".git/config"),
    ],
)
def test_a_rule_that_spells_the_name_covers_the_file(tmp_path: Path, pattern: str | None, name: str) -> None:
    assert action_by_rule(tmp_path / name, tmp_path, pattern) == "allow"


def test_a_rule_does_not_let_a_folder_become_a_repository(tmp_path: Path) -> None:
    (tmp_path / "src" / "refs").mkdir(parents=True)
    (tmp_path / "src" / "HEAD").touch()
    assert action_by_rule(tmp_path / "src" / "config", tmp_path, "src/**") == "ask"


def test_a_rule_about_all_folders_does_not_cover_the_folder_of_an_agent(tmp_path: Path) -> None:
    cwd = tmp_path / ".fairlead"
    assert action_by_rule(cwd / "extensions" / "x.py", cwd, "*.py") == "ask"


def test_a_folder_never_becomes_a_repository_that_git_obeys_without_a_question(tmp_path: Path) -> None:
    project, ran = tmp_path / "project", tmp_path / "ran"
    folder = project / "sub"
    folder.mkdir(parents=True)
    files = {
        "config": f'[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = "touch {ran}; false"\n',
        "objects/x": "",
        "refs/heads/x": "",
        "HEAD": "ref: refs/heads/main\n",
        "index": "",
    }
    for order in (list(files), list(files)[::-1]):
        written: list[str] = []
        for name in order:
            if action(folder / name, project) == "allow":
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(files[name])
                written.append(name)
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", "status"], cwd=folder, env=environment, capture_output=True, check=False)
        assert not ran.exists(), written


def test_a_file_that_would_complete_a_repository_needs_a_question(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "HEAD").write_text("ref: refs/heads/main\n")
    assert action(tmp_path / "sub" / "refs" / "x", tmp_path) == "ask"
    assert action(tmp_path / "sub" / "config", tmp_path) == "allow"
    (tmp_path / "sub" / "refs").mkdir()
    assert action(tmp_path / "sub" / "config", tmp_path) == "ask"
    assert action(tmp_path / "sub" / "hooks" / "pre-commit", tmp_path) == "ask"


def test_a_working_directory_inside_the_folder_of_an_agent_changes_nothing(tmp_path: Path) -> None:
    assert action(tmp_path / ".fairlead" / "extensions" / "x.py", tmp_path / ".fairlead") == "ask"
    assert action(tmp_path / ".git" / "hooks" / "x", tmp_path / ".git" / "hooks") == "ask"
