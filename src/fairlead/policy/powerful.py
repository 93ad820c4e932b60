"""Names the files that take effect without the user running the project's own code.

The approval mode `write` asks about them, and no "allow" rule covers them unless it spells their names.

A version control system, an editor, a shell, a package manager, an agent or a CI service looks for a file with such a name, and
runs what it says. Not listed is what runs only when the user starts the project itself: its sources, its tests, Makefiles, the
scripts of package.json, Dockerfiles. Nor are texts for a model, such as AGENTS.md: the model that reads them has no more rights.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from pathlib import PurePath

from fairlead.config.home import AGENT_FOLDERS
from fairlead.policy.patterns import WildcardPattern
from fairlead.policy.repositories import GIT, is_of_repository

#: These hold even if the working directory itself is inside one.
_EVERYWHERE = frozenset((GIT, *AGENT_FOLDERS))

_VERSION_CONTROL = """
    .gitattributes .gitconfig .githooks .gitmodules .hg .hgrc .hooks .jj .lefthook .lfsconfig .lintstagedrc* .overcommit.yml
    .pre-commit-config.y*ml .pre-commit-hooks.y*ml .sl .svn .bzr .husky .huskyrc* .simple-git-hooks.* commondir head
    lefthook* lint-staged.config.* simple-git-hooks.*
"""
_AGENTS = """
    *.mcp.json .agents .aider* .amazonq .augment .claude .claude.json .cline* .codex .continue .crush.json .cursor .gemini .goose*
    .junie .kilocode* .kiro .mcp.json .mcp.y*ml .opal .opencode .qwen .roo .trae .windsurf mcp.json opencode.json*
"""
_EDITORS = """
    *.code-workspace *.sublime-project .devcontainer .devcontainer.json .dir-locals*.el .exrc .fleet .gitpod.y*ml .helix .idea
    .lvimrc .nvim* .projectile .theia .vim .vimrc .vs .vscode* .zed _exrc _vimrc devcontainer.json
"""
_SHELLS = """
    .autoenv* .bash* .config .direnv .env.sh .envrc* .gnupg .inputrc .mise* .profile .rtx.toml .screenrc .ssh .tmux.conf
    .tool-versions .zlog* .zprofile .zsh* launchagents mise*.toml
"""
_PACKAGES = """
    *.egg-link *.pth *.pyc .bazelrc .bun .bundle .cargo .condarc .gem .gemrc .mvn .npm .npmrc .pdm-python .pip .pnp.* .pnpmfile.*
    .pypirc .venv .yarn .yarnrc* __editable__* __pycache__ bunfig.toml node_modules pip.conf pip.ini pnpmfile.* pyvenv.cfg
    rust-toolchain rust-toolchain.toml site-packages sitecustomize usercustomize sitecustomize.* usercustomize.* uv.toml venv
"""
_DEBUGGERS_AND_CONSOLES = """
    .gdbinit .ghci .ipython .irbrc .jupyter .lldbinit .octaverc .pdbrc* .pryrc .psqlrc .pythonrc* .pythonstartup .rprofile
    .sqliterc ipython_config.* jupyter_*config.*
"""
_SERVICES = """
    .appveyor.yml .azure-pipelines* .buildkite .circleci .cirrus.* .drone.y*ml .forgejo .gitea .github .gitlab .gitlab-ci.y*ml
    .semaphore .travis.yml .woodpecker* appveyor.yml azure-pipelines* bitbucket-pipelines.y*ml jenkinsfile*
"""
_NAMES = " ".join((_VERSION_CONTROL, _AGENTS, _EDITORS, _SHELLS, _PACKAGES, _DEBUGGERS_AND_CONSOLES, _SERVICES)).split()
_PLAIN = frozenset(name for name in _NAMES if "*" not in name) | _EVERYWHERE
_PATTERNS = [WildcardPattern(name) for name in _NAMES if "*" in name]
#: What HFS+ leaves out of names, and more that other file systems may.
_IGNORED = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
#: The short names that Windows gives to `.git` and the like.
_SHORT_NAME = re.compile(r"[a-z0-9_$]{1,6}~[0-9]+(\..*)?")


def takes_effect(path: PurePath, folder: PurePath, spelled: Collection[str] = ()) -> bool:
    """Return whether a program may run something because of this file, although the user does not run the project's code.

    Args:
        path: the file, with all links resolved. It need not exist.
        folder: the working directory, or another directory of the workspace, that contains the file.
        spelled: the names of files and folders that the user has allowed by name.
    """
    allowed = set(map(_folded, spelled))
    names = [_folded(name) for name in path.relative_to(folder).parts]
    if any(name not in allowed and _is_powerful(name) for name in names):
        return True
    if any(_folded(part) in _EVERYWHERE - allowed for part in folder.parts):
        return True
    return GIT not in allowed and is_of_repository(folder, path.relative_to(folder).parts)


def _is_powerful(name: str) -> bool:
    if name in _PLAIN or _SHORT_NAME.fullmatch(name):
        return True
    return any(pattern.fits(name) for pattern in _PATTERNS)


def _folded(name: str) -> str:
    """Return a name as file systems compare it that ignore case, some characters, or what follows a name on Windows."""
    name = unicodedata.normalize("NFKC", _IGNORED.sub("", name)).casefold()
    return name.partition(":")[0].rstrip(". ") or name
