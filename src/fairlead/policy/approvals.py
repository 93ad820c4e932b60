"""Decides whether a tool call runs, needs the user's approval, or is denied.

The strictest matching rule wins, regardless of order. If no rule matches, the mode decides.

A rule with a command pattern applies to every simple command of a command line. `fairlead.policy.shell` parses the line twice.
`plain_commands` accepts only a small grammar without expansion, so its result is certain: an "allow" pattern can match nothing
else. `possible_commands` accepts more and overestimates: what it cannot parse counts as any command. "ask" and "deny" rules
match against its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import Literal, TypeAlias

from msgspec import Struct

from fairlead.config.settings import ApprovalAction, ApprovalMode, ApprovalRule
from fairlead.policy.patterns import ANY, CommandPattern, PathPattern, WildcardPattern
from fairlead.policy.powerful import takes_effect
from fairlead.policy.shell import PlainCommand, plain_commands, possible_commands
from fairlead.policy.wildcards import covers_words, spelled_words

#: The kinds of `Subject`.
Kind: TypeAlias = Literal["command", "path", "uri", "arguments"]

_STRICTNESS: tuple[ApprovalAction, ...] = ("allow", "ask", "deny")
_BY_MODE: dict[ApprovalMode, ApprovalAction] = {"auto": "allow", "write": "ask", "ask": "ask", "deny": "deny"}
#: The tools that the mode `write` lets change files of the workspace.
_WRITING_TOOLS = frozenset(("edit", "edit_file", "write", "write_file"))


class Subject(Struct, frozen=True):
    """What a tool call acts on: a command line, a file, a URI, or (for other tools) its arguments as JSON.

    For a file, `text` is the path with all symbolic links resolved, and `named` is the path as the model gave it.
    """

    kind: Kind
    text: str
    named: str = ""


class PatternContext(Struct, frozen=True):
    """What relative patterns start from, and whether `fairlead.policy.shell` can parse the grammar of the user's shell."""

    cwd: str
    home: str
    knows_shell: bool = True
    #: The other directories of the workspace.
    more: Sequence[str] = ()


class Verdict(Struct, frozen=True):
    """The decision about a call, and the setting that led to it."""

    action: ApprovalAction
    because: str


class Policy:
    """The approval mode and the approval rules of one agent."""

    def __init__(self, mode: ApprovalMode, rules: Sequence[ApprovalRule] = ()) -> None:
        self.mode: ApprovalMode = mode
        self._rules = list(rules)

    def verdict(self, tool: str, *, harmless: bool, subject: Subject, around: PatternContext) -> Verdict:
        """Decide about one tool call.

        Args:
            tool: the name of the tool.
            harmless: whether the tool only reads. Such a call is allowed in every mode unless a rule says otherwise.
            subject: what the call acts on.
            around: how to interpret patterns and command lines.
        """
        is_allowed = harmless or (self.mode == "write" and tool in _WRITING_TOOLS and _is_inside(subject, around))
        fallback = Verdict("allow" if is_allowed else _BY_MODE[self.mode], f'approvals.mode is "{self.mode}"')
        rules = [rule for rule in self._rules if _is_about(rule, tool)]
        if not rules:
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
        verdicts = [_strictest([rule for rule in deciding if _covers(rule, command)], fallback) for command in commands]
        verdict = _stricter(forbidding, verdicts)
        if ANY in possible and verdict.action != "allow" and verdict.because.startswith("approvals.rules"):
            return Verdict(verdict.action, f"{verdict.because}, which may apply: the command cannot be parsed with certainty")
        return verdict


def _is_inside(subject: Subject, around: PatternContext) -> bool:
    """Return whether a call acts on a file of the workspace that makes no other program run commands."""
    if subject.kind != "path":
        return False
    path = PurePath(subject.text)
    folders = [PurePath(folder) for folder in (around.cwd, *around.more) if path.is_relative_to(folder)]
    return bool(folders) and not any(takes_effect(path, folder) for folder in folders)


def _is_about(rule: ApprovalRule, tool: str) -> bool:
    """Return whether a rule applies to a tool. "ask" and "deny" rules ignore case."""
    return _pattern(rule.tool, rule.action != "allow").fits(tool)


def _stricter(forbidding: Sequence[ApprovalRule], verdicts: Sequence[Verdict]) -> Verdict:
    """Return the strictest of `verdicts` and the verdict of the `forbidding` rules."""
    every = [*([_strictest(forbidding, verdicts[0])] if forbidding else []), *verdicts]
    return max(every, key=lambda verdict: _STRICTNESS.index(verdict.action))


def _strictest(fitting: Sequence[ApprovalRule], fallback: Verdict) -> Verdict:
    if not fitting:
        return fallback
    rule = max(fitting, key=lambda rule: _STRICTNESS.index(rule.action))
    about = f' "{rule.pattern}"' if rule.pattern is not None else ""
    return Verdict(rule.action, f"approvals.rules: {rule.action} {rule.tool}{about}")


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
    return not command.is_built_in and covers_words(command.words, spelled_words(rule.pattern))


def _fits(rule: ApprovalRule, pattern: str, subject: Subject, around: PatternContext) -> bool:
    forbids = rule.action != "allow"
    if subject.kind in ("uri", "arguments"):
        return _pattern(pattern, False).fits(subject.text)
    paths = _path_pattern(pattern, around.cwd, around.home, forbids)
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
