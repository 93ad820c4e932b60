"""Decides whether a tool call runs, needs the user's approval, or is denied.

The strictest matching rule wins, regardless of order. If no rule matches, the mode decides.

A rule with a command pattern applies to every simple command of a command line. `fairlead.policy.shell` parses the line twice.
`plain_commands` accepts only a small grammar without expansion, so its result is certain: an "allow" pattern can match nothing
else. `possible_commands` accepts more and overestimates: what it cannot parse counts as any command. "ask" and "deny" rules
match against its result.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import Literal, TypeAlias

from msgspec import Struct

from fairlead.config.home import AGENT_FOLDERS
from fairlead.config.settings import ApprovalAction, ApprovalMode, ApprovalRule
from fairlead.policy.patterns import ANY, CommandPattern, PathPattern, WildcardPattern
from fairlead.policy.repositories import GIT, is_of_repository
from fairlead.policy.shell import PlainCommand, plain_commands, possible_commands
from fairlead.policy.wildcards import changed_files, count_spelled_words, covers_words, read_files

#: The kinds of `Subject`.
Kind: TypeAlias = Literal["command", "path", "uri", "arguments"]

_STRICTNESS: tuple[ApprovalAction, ...] = ("allow", "ask", "deny")
_BY_MODE: dict[ApprovalMode, ApprovalAction] = {"auto": "allow", "write": "ask", "ask": "ask", "deny": "deny"}
#: The tools that the mode `write` lets change files of the workspace.
_WRITING_TOOLS = frozenset(("edit", "edit_file", "write", "write_file", "Edit", "Write"))


class Subject(Struct, frozen=True):
    """What a tool call acts on: a command line, a file, a URI, or (for other tools) its arguments as JSON.

    For a file, `text` is the path with all symbolic links resolved, and `named` is the path as the model gave it.
    """

    kind: Kind
    text: str
    named: str = ""
    #: The directory that a command line runs in.
    folder: str = ""


class PatternContext(Struct, frozen=True):
    """What relative patterns start from, and whether `fairlead.policy.shell` can parse the grammar of the user's shell."""

    cwd: str
    home: str
    knows_shell: bool = True
    #: The other directories of the workspace.
    more: Sequence[str] = ()
    #: Whether a file may be read, or with True changed, as far as it is not protected; None: no file is.
    may_use: Callable[[str, bool], bool] | None = None


class Verdict(Struct, frozen=True):
    """The decision about a call, and the setting that led to it."""

    action: ApprovalAction
    because: str
    #: Whether a rule led to it, and not the mode.
    by_rule: bool = False


class Policy:
    """The approval mode and the approval rules of one agent.

    With `file_tools`, the names of the tools that read and that change a file, the place counts where the mode asks: files
    outside the workspace are asked about even if they are only read, and a command whose effect is known may do what those tools
    may do.
    """

    def __init__(self, mode: ApprovalMode, rules: Sequence[ApprovalRule] = (), file_tools: Sequence[str] = ()) -> None:
        self.mode: ApprovalMode = mode
        self._rules = list(rules)
        self._file_tools = file_tools

    def add(self, rule: ApprovalRule) -> None:
        """Apply one more rule from now on."""
        self._rules.append(rule)

    def change(self, removed: Sequence[ApprovalRule], added: Sequence[ApprovalRule]) -> None:
        """Replace rules from now on. Of equal rules, as many are removed as `removed` has."""
        rules = list(self._rules)
        for rule in removed:
            if rule in rules:
                rules.remove(rule)
        self._rules = [*rules, *added]

    def with_rule(self, rule: ApprovalRule) -> Policy:
        """Return the policy that would apply with one more rule."""
        return Policy(self.mode, [*self._rules, rule], self._file_tools)

    def verdict(self, tool: str, *, harmless: bool, subject: Subject, around: PatternContext) -> Verdict:
        """Decide about one tool call.

        Args:
            tool: the name of the tool.
            harmless: whether the tool only reads. Such a call is allowed in every mode unless a rule says otherwise.
            subject: what the call acts on.
            around: how to interpret patterns and command lines.
        """
        is_allowed = harmless and (not self._file_tools or subject.kind != "path" or bool(_folders_of(subject, around)))
        is_allowed |= self.mode == "write" and tool in _WRITING_TOOLS and _is_inside(subject, around)
        fallback = Verdict("allow" if is_allowed else _BY_MODE[self.mode], f'approvals.mode is "{self.mode}"')
        rules = [rule for rule in self._rules if _is_about(rule, tool) and _holds_in(rule, around.cwd)]
        judges_commands = subject.kind == "command" and bool(self._file_tools) and fallback.action == "ask"
        if not rules and not judges_commands:
            return fallback
        if subject.kind != "command":
            fitting = [rule for rule in rules if rule.pattern is None or _fits(rule, rule.pattern, subject, around)]
            forbidding = [rule for rule in fitting if rule.only_stricter]
            return _stricter(forbidding, [_strictest([rule for rule in fitting if not rule.only_stricter], fallback)])
        possible = possible_commands(subject.text) if around.knows_shell else [ANY]
        forbidding = [rule for rule in rules if rule.action != "allow" and _may_fit(rule, possible)]
        # A line that is not plain counts as one command that no pattern matches.
        commands = (plain_commands(subject.text) if around.knows_shell else None) or [None]
        deciding = [rule for rule in rules if not rule.only_stricter]
        verdicts = [
            _strictest(
                [rule for rule in deciding if _covers(rule, command)],
                Verdict("allow", fallback.because)
                if judges_commands and command is not None and self._may_run(command, subject.folder or around.cwd, around)
                else fallback,
            )
            for command in commands
        ]
        verdict = _stricter(forbidding, verdicts)
        if ANY in possible and verdict.action != "allow" and verdict.because.startswith("approvals.rules"):
            because = f"{verdict.because}, which may apply: the command cannot be parsed with certainty"
            return Verdict(verdict.action, because, verdict.by_rule)
        return verdict

    def _may_run(self, command: PlainCommand, folder: str, around: PatternContext) -> bool:
        """Return whether a command only does to files what the tools for files may do to them without a question."""
        read, change = self._file_tools
        if command.is_built_in:
            return False
        reads, changes = read_files(command.words, folder), None
        if reads is None and self.mode == "write":
            reads, changes = changed_files(command.words, folder) or (None, None)
        if reads is None:
            return False
        paths = [os.path.join(folder, name) for name in (".", *reads)]  # noqa: PTH118  a Path would drop what the shell keeps
        judged = [(read, True, os.path.realpath(path), path) for path in paths]
        for name in changes or ():
            path = os.path.join(folder, name)  # noqa: PTH118
            # A program may act on a link, or on what it leads to.
            itself = os.path.join(os.path.realpath(os.path.dirname(path.rstrip("/"))), os.path.basename(path.rstrip("/")))  # noqa: PTH118, PTH119, PTH120
            if {os.path.realpath(itself), itself} & {os.path.realpath(each) for each in (around.cwd, *around.more, folder)}:
                return False
            if _has_other_names(itself):
                return False
            judged += [(change, False, real, path) for real in (itself, os.path.realpath(itself))]
        if around.may_use is not None and not all(around.may_use(real, not is_read) for _, is_read, real, _ in judged[1:]):
            return False
        return all(
            self.verdict(tool, harmless=is_read, subject=Subject("path", real, named), around=around).action == "allow"
            for tool, is_read, real, named in judged
        )


def _has_other_names(path: str) -> bool:
    """Return whether a file is also another one, which may be outside."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1


def _folders_of(subject: Subject, around: PatternContext) -> list[PurePath]:
    """Return the directories of the workspace that a path is in."""
    path = PurePath(subject.text)
    return [PurePath(folder) for folder in (around.cwd, *around.more) if path.is_relative_to(folder)]


def _is_inside(subject: Subject, around: PatternContext) -> bool:
    """Return whether a call acts on a file of the workspace that makes no other program run commands."""
    if subject.kind != "path":
        return False
    folders = _folders_of(subject, around)
    return bool(folders) and not any(takes_effect(PurePath(subject.text), folder) for folder in folders)


def _is_about(rule: ApprovalRule, tool: str) -> bool:
    """Return whether a rule applies to a tool. "ask" and "deny" rules ignore case."""
    return _pattern(rule.tool, rule.action != "allow").fits(tool)


def _holds_in(rule: ApprovalRule, cwd: str) -> bool:
    """Return whether a rule holds in a working directory. Some file systems ignore case, so "ask" and "deny" rules do."""
    if rule.project is None:
        return True
    if rule.action == "allow":
        return PurePath(cwd).is_relative_to(rule.project)
    return PurePath(cwd.casefold()).is_relative_to(rule.project.casefold())


def _stricter(forbidding: Sequence[ApprovalRule], verdicts: Sequence[Verdict]) -> Verdict:
    """Return the strictest of `verdicts` and the verdict of the `forbidding` rules."""
    every = [*([_strictest(forbidding, verdicts[0])] if forbidding else []), *verdicts]
    return max(every, key=lambda verdict: _STRICTNESS.index(verdict.action))


def _strictest(fitting: Sequence[ApprovalRule], fallback: Verdict) -> Verdict:
    if not fitting:
        return fallback
    rule = max(fitting, key=lambda rule: _STRICTNESS.index(rule.action))
    about = f' "{rule.pattern}"' if rule.pattern is not None else ""
    return Verdict(rule.action, f"approvals.rules: {rule.action} {rule.tool}{about}", by_rule=True)


def _may_fit(rule: ApprovalRule, possible: Sequence[str]) -> bool:
    """Return whether a rule applies to one of the commands that a line may run."""
    if rule.pattern is None or rule.pattern == "*":
        return True
    return any(map(_command_pattern(rule.pattern).may_fit, possible))


def _covers(rule: ApprovalRule, command: PlainCommand | None) -> bool:
    """Return whether a rule certainly applies to this command. None stands for a command that could not be parsed."""
    if rule.pattern is None or rule.pattern == "*":
        return True
    if command is None:
        return False
    pattern = _command_pattern(rule.pattern)
    if not pattern.fits(command.text):
        return False
    if rule.action != "allow" or pattern.is_literal:
        return True
    return not command.is_built_in and covers_words(command.words, count_spelled_words(rule.pattern))


def _fits(rule: ApprovalRule, pattern: str, subject: Subject, around: PatternContext) -> bool:
    forbids = rule.action != "allow"
    if subject.kind in ("uri", "arguments"):
        return _pattern(pattern, False).fits(subject.text)
    paths = _path_pattern(pattern, around.cwd if rule.project is None else rule.project, around.home, forbids)
    if forbids:
        return paths.matches(subject.text) or paths.matches(subject.named)
    path, folder = PurePath(subject.text), PurePath(paths.fixed)
    if not paths.matches(subject.text) or not path.is_relative_to(folder):
        return False
    return pattern == "*" or not takes_effect(path, folder, paths.spelled)


@lru_cache(256)
def _pattern(text: str, fold: bool) -> WildcardPattern:
    return WildcardPattern(text, fold=fold)


@lru_cache(256)
def _command_pattern(text: str) -> CommandPattern:
    return CommandPattern(text)


@lru_cache(256)
def _path_pattern(text: str, cwd: str, home: str, everywhere: bool) -> PathPattern:
    return PathPattern(text, cwd, home, everywhere=everywhere)


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
    .bloop .bsp .clangd .cproject .dart_tool .eclipse .emacs* .externaltoolbuilders .hie-bios .idx .luarc.json* .merlin
    .metals .kateproject* .local.vim* .localvimrc .lvimrc .nanorc .nova .nvim* .project .projectile .settings .spacemacs*
    .sublime* .theia .vim .vimrc* .vs .vscode* .ycm_extra_conf.py .zed _exrc _vimrc .replit .rust-analyzer.toml .sourcekit-lsp
    .trunk buildserver.json devcontainer.json hie.yaml rust-analyzer.toml
"""
#: Checkers and formatters that editors run on their own. These files name plugins for them, which are code.
_CHECKERS = """
    .babelrc* .credo.exs .eslintrc* .flake8 .formatter.exs .mocharc* .mypy.ini .php-cs-fixer* .postcssrc* .prettierrc*
    .pylintrc .ansible-lint .golangci.* .markdownlint* .remarkrc* .rspec .rubocop*.y*ml .scalafix.conf .solargraph.yml
    .sqlfluff .standard.yml .stylelintrc* .swcrc .textlintrc* .vimspector.json dprint.json* .dprint.json* mypy.ini
    phpstan.neon* psalm.xml* pylintrc
"""
_SHELLS = """
    *.desktop .autoenv* .bash* .config .cshrc .direnv .env.sh .envrc* .forward .gnupg .inputrc .kshrc .lessfilter .local .login
    .logout .mailcap .mise* .muttrc .netrc .pam_environment .procmailrc .profile .rtx.toml .screenrc .ssh .tcshrc .tmux.conf
    .tmuxinator* .tool-versions .wezterm.lua .xinitrc .xprofile .xsession* .zlog* .zprofile .zsh* config.fish launchagents
    mise*.toml
"""
_PACKAGES = """
    *.egg-link *.pth *.pyc .bazelrc .bun .bundle .cargo .condarc .gem .gemrc .mvn .npm .npmrc .pdm-python .pip .pnp.*
    .pnpmfile.* .gradle .jvmopts .pypirc .python-version .sbtopts .user.ini .venv .yarn .yarnrc* __editable__* __pycache__
    bunfig.toml node_modules pip.conf pip.ini pnpmfile.* pyvenv.cfg rust-toolchain rust-toolchain.toml site-packages
    sitecustomize usercustomize sitecustomize.* usercustomize.* uv.toml venv
"""
_DEBUGGERS_AND_CONSOLES = """
    .gdbinit .ghci .iex.exs .ipython .irbrc .jupyter .lldbinit .ocamlinit .octaverc .pdbrc* .pryrc .psqlrc .pythonrc*
    .pythonstartup .rdata .renviron .rprofile .sqliterc ipython_config.* jupyter_*config.*
"""
_SERVICES = """
    .appveyor.yml .azure-pipelines* .buildkite .circleci .cirrus.* .drone.y*ml .forgejo .gitea .github .gitlab .gitlab-ci.y*ml
    .codefresh .codemagic.y*ml .htaccess .renovaterc* .semaphore .teamcity .tekton .travis.yml .woodpecker* appveyor.yml
    azure-pipelines* bitbucket-pipelines.y*ml bitrise.y*ml buildspec.y*ml cloudbuild.y*ml codefresh.y*ml codemagic.y*ml
    jenkinsfile* netlify.toml renovate.json* vercel.json
"""
_NAMES = " ".join(
    (_VERSION_CONTROL, _AGENTS, _EDITORS, _CHECKERS, _SHELLS, _PACKAGES, _DEBUGGERS_AND_CONSOLES, _SERVICES)
).split()
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
    allowed = set(map(_fold, spelled))
    names = [_fold(name) for name in path.relative_to(folder).parts]
    if any(name not in allowed and _is_powerful(name) for name in names):
        return True
    if any(_fold(part) in _EVERYWHERE - allowed for part in folder.parts):
        return True
    return GIT not in allowed and is_of_repository(folder, path.relative_to(folder).parts)


def _is_powerful(name: str) -> bool:
    if name in _PLAIN or _SHORT_NAME.fullmatch(name):
        return True
    return any(pattern.fits(name) for pattern in _PATTERNS)


def _fold(name: str) -> str:
    """Return a name as file systems compare it that ignore case, some characters, or what follows a name on Windows."""
    name = unicodedata.normalize("NFKC", _IGNORED.sub("", name)).casefold()
    return name.partition(":")[0].rstrip(". ") or name
