"""What becomes of a call: it runs, somebody is asked, or it is refused.

Of all rules that fit, the strictest holds, wherever it stands; where none fits, the mode decides. A rule with a pattern for
commands is about every simple command of a line (see `shell`): one that allows has to cover them all, one that forbids needs one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from fairlead.config.settings import ApprovalAction, ApprovalMode, ApprovalRule
from fairlead.policy.patterns import ANY, CommandPattern, PathPattern, Pattern
from fairlead.policy.shell import Command, CommandLine, read_line

#: What a call is about.
Kind: TypeAlias = Literal["command", "path", "arguments"]

_STRICTNESS: tuple[ApprovalAction, ...] = ("allow", "ask", "deny")
_BY_MODE: dict[ApprovalMode, ApprovalAction] = {"auto": "allow", "ask": "ask", "deny": "deny"}


class Subject(Struct, frozen=True):
    """What a call is about: a command line, a file, or its arguments as JSON.

    Of a file, `text` is the path with all links followed, and `named` the path as it was given.
    """

    kind: Kind
    text: str
    named: str = ""


class Surroundings(Struct, frozen=True):
    """Where paths in patterns begin, and whether the shell is one whose grammar is known."""

    cwd: str
    home: str
    knows_shell: bool = True


class Verdict(Struct, frozen=True):
    """What becomes of a call, and the setting that says so."""

    action: ApprovalAction
    because: str


class Policy:
    """The rules and the mode of one agent."""

    def __init__(self, mode: ApprovalMode, rules: Sequence[ApprovalRule] = ()) -> None:
        self.mode: ApprovalMode = mode
        self._rules = list(rules)

    def verdict(self, tool: str, *, harmless: bool, subject: Subject, around: Surroundings) -> Verdict:
        """What becomes of a call of this tool. One that is harmless needs nobody's consent unless a rule says so."""
        fallback = Verdict("allow" if harmless else _BY_MODE[self.mode], f'approvals.mode is "{self.mode}"')
        rules = [rule for rule in self._rules if _is_about(rule, tool)]
        if not rules:
            return fallback
        if subject.kind != "command":
            fitting = [rule for rule in rules if rule.pattern is None or _fits(rule, rule.pattern, subject, around)]
            return _strictest(fitting, fallback)
        line = read_line(subject.text) if around.knows_shell else CommandLine([], opaque=True)
        # What cannot be followed stands for a command that may be any.
        commands = [*line.commands, *([Command(None, (ANY,))] if line.opaque or not line.commands else [])]
        verdicts = [_strictest([rule for rule in rules if _fits_command(rule, command)], fallback) for command in commands]
        return max(verdicts, key=lambda verdict: _STRICTNESS.index(verdict.action))


def _is_about(rule: ApprovalRule, tool: str) -> bool:
    """A rule that forbids is also about a tool whose name differs in case alone."""
    return _pattern(rule.tool, rule.action != "allow").fits(tool)


def _strictest(fitting: Sequence[ApprovalRule], fallback: Verdict) -> Verdict:
    if not fitting:
        return fallback
    rule = max(fitting, key=lambda rule: _STRICTNESS.index(rule.action))
    about = f' "{rule.pattern}"' if rule.pattern is not None else ""
    return Verdict(rule.action, f"approvals.rules: {rule.action} {rule.tool}{about}")


def _fits_command(rule: ApprovalRule, command: Command) -> bool:
    if rule.pattern in (None, "*"):
        return True
    pattern = _command_pattern(rule.pattern)
    if rule.action == "allow":
        return command.certain is not None and all(map(pattern.fits, command.certain))
    return any(pattern.may_fit(each) for each in command.possible)


def _fits(rule: ApprovalRule, pattern: str, subject: Subject, around: Surroundings) -> bool:
    forbids = rule.action != "allow"
    if subject.kind == "arguments":
        return _pattern(pattern, False).fits(subject.text)
    matches = _path_pattern(pattern, around.cwd, around.home, forbids).matches
    return matches(subject.text) or (forbids and matches(subject.named))


@lru_cache(256)
def _pattern(text: str, fold: bool) -> Pattern:
    return Pattern(text, fold=fold)


@lru_cache(256)
def _command_pattern(text: str) -> CommandPattern:
    return CommandPattern(text)


@lru_cache(256)
def _path_pattern(text: str, cwd: str, home: str, everywhere: bool) -> PathPattern:
    return PathPattern(text, cwd, home, everywhere=everywhere)
