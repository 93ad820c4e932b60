"""What happens to a tool call: it runs, the user is asked, or it is refused.

The strictest matching rule wins, regardless of order. If no rule matches, the mode decides. A rule with a pattern for commands
applies to every simple command of a line. Two readers of `fairlead.policy.shell` look at a line. `plain_commands` knows a small
grammar without expansion: what it reads is certain, and a pattern can allow nothing else. `possible_commands` knows more, and
what it cannot follow counts as any command: what it finds is asked about or denied.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from fairlead.config.settings import ApprovalAction, ApprovalMode, ApprovalRule
from fairlead.policy.patterns import ANY, CommandPattern, PathPattern, WildcardPattern
from fairlead.policy.shell import PlainCommand, plain_commands, possible_commands

#: What a call is about.
Kind: TypeAlias = Literal["command", "path", "uri", "arguments"]

_STRICTNESS: tuple[ApprovalAction, ...] = ("allow", "ask", "deny")
_BY_MODE: dict[ApprovalMode, ApprovalAction] = {"auto": "allow", "ask": "ask", "deny": "deny"}


class Subject(Struct, frozen=True):
    """What a call is about: a command line, a file, a URI, or its arguments as JSON.

    For a file, `text` is the path with all links resolved, and `named` the path as it was given.
    """

    kind: Kind
    text: str
    named: str = ""


class PatternContext(Struct, frozen=True):
    """Where paths in patterns begin, and whether the shell is one whose grammar is known."""

    cwd: str
    home: str
    knows_shell: bool = True


class Verdict(Struct, frozen=True):
    """What happens to a call, and the setting that says so."""

    action: ApprovalAction
    because: str


class Policy:
    """The rules and the mode of one agent."""

    def __init__(self, mode: ApprovalMode, rules: Sequence[ApprovalRule] = ()) -> None:
        self.mode: ApprovalMode = mode
        self._rules = list(rules)

    def verdict(self, tool: str, *, harmless: bool, subject: Subject, around: PatternContext) -> Verdict:
        """Decide what happens to a call of this tool. A harmless tool needs no approval unless a rule says so."""
        fallback = Verdict("allow" if harmless else _BY_MODE[self.mode], f'approvals.mode is "{self.mode}"')
        rules = [rule for rule in self._rules if _is_about(rule, tool)]
        if not rules:
            return fallback
        if subject.kind != "command":
            fitting = [rule for rule in rules if rule.pattern is None or _fits(rule, rule.pattern, subject, around)]
            forbidding = [rule for rule in fitting if rule.only_stricter]
            return _stricter(forbidding, [_strictest([rule for rule in fitting if not rule.only_stricter], fallback)])
        possible = possible_commands(subject.text) if around.knows_shell else [ANY]
        forbidding = [rule for rule in rules if rule.action != "allow" and _may_fit(rule, possible)]
        # A line that is not plain is a command that no pattern covers.
        commands = (plain_commands(subject.text) if around.knows_shell else None) or [None]
        deciding = [rule for rule in rules if not rule.only_stricter]
        verdicts = [_strictest([rule for rule in deciding if _covers(rule, command)], fallback) for command in commands]
        verdict = _stricter(forbidding, verdicts)
        if ANY in possible and verdict.action != "allow" and verdict.because.startswith("approvals.rules"):
            return Verdict(verdict.action, f"{verdict.because}, which the command may be, because it cannot be read for certain")
        return verdict


def _is_about(rule: ApprovalRule, tool: str) -> bool:
    """Return whether a rule is about a tool. A rule that forbids ignores the case of names."""
    return _pattern(rule.tool, rule.action != "allow").fits(tool)


def _stricter(forbidding: Sequence[ApprovalRule], verdicts: Sequence[Verdict]) -> Verdict:
    """Return the strictest of some verdicts, and of that of the rules that forbid."""
    every = [*([_strictest(forbidding, verdicts[0])] if forbidding else []), *verdicts]
    return max(every, key=lambda verdict: _STRICTNESS.index(verdict.action))


def _strictest(fitting: Sequence[ApprovalRule], fallback: Verdict) -> Verdict:
    if not fitting:
        return fallback
    rule = max(fitting, key=lambda rule: _STRICTNESS.index(rule.action))
    about = f' "{rule.pattern}"' if rule.pattern is not None else ""
    return Verdict(rule.action, f"approvals.rules: {rule.action} {rule.tool}{about}")


def _may_fit(rule: ApprovalRule, possible: Sequence[str]) -> bool:
    """Return whether a rule is about one of the commands that a line may run."""
    if rule.pattern is None or rule.pattern == "*":
        return True
    return any(map(_command_pattern(rule.pattern).may_fit, possible))


def _covers(rule: ApprovalRule, command: PlainCommand | None) -> bool:
    """Return whether a rule is certainly about this command. None is a command that could not be read."""
    if rule.pattern is None or rule.pattern == "*":
        return True
    if command is None:
        return False
    pattern = _command_pattern(rule.pattern)
    if rule.action == "allow" and command.is_built_in and not pattern.is_literal:
        return False
    return pattern.fits(command.text)


def _fits(rule: ApprovalRule, pattern: str, subject: Subject, around: PatternContext) -> bool:
    forbids = rule.action != "allow"
    if subject.kind in ("uri", "arguments"):
        return _pattern(pattern, False).fits(subject.text)
    matches = _path_pattern(pattern, around.cwd, around.home, forbids).matches
    return matches(subject.text) or (forbids and matches(subject.named))


@lru_cache(256)
def _pattern(text: str, fold: bool) -> WildcardPattern:
    return WildcardPattern(text, fold=fold)


@lru_cache(256)
def _command_pattern(text: str) -> CommandPattern:
    return CommandPattern(text)


@lru_cache(256)
def _path_pattern(text: str, cwd: str, home: str, everywhere: bool) -> PathPattern:
    return PathPattern(text, cwd, home, everywhere=everywhere)
