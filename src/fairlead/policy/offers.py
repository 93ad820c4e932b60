"""Finds the rules that an answer to an approval may write, and writes them.

A rule is offered only if it covers the call, and a person can judge what else it covers. So there is nothing for a command line
that is not plain, for several commands, and for texts with characters that a person does not see.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from pathlib import PurePath

from fairlead.config.settings import ApprovalRule
from fairlead.core import questions
from fairlead.core.approval import NewRule, RuleOffer
from fairlead.core.tool import Tool
from fairlead.errors import BadOption
from fairlead.policy.approvals import PatternContext, Policy, Subject
from fairlead.policy.known_programs import PROGRAMS, program_name
from fairlead.policy.shell import PlainCommand, plain_commands
from fairlead.policy.wildcards import Words, count_spelled_words

#: Programs for which a wildcard is offered: `fairlead.policy.wildcards` limits what it covers to words that only show something,
#: or the program only shows something whatever its words are. Programs that show any file are not listed: a rule for them would
#: let a model read files that are protected.
_WIDENED = frozenset(
    """basename cargo df dirname docker du gh git go kubectl ls nerdctl npm oc pip pnpm podman pwd pytest realpath stat tree
    which""".split()
)
#: Longer patterns are more than a person judges at a glance.
LONGEST_PATTERN = 500
_WILDCARD = re.compile(r"[*?]")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def suggest_patterns(subject: Subject, project: str, *, is_any_call: bool) -> list[str]:
    """Return patterns that cover a call, the narrowest first.

    Args:
        subject: what the call is about.
        project: the directory of the project.
        is_any_call: whether the tool has no subject, so that a pattern for all of its calls makes sense.
    """
    match subject.kind:
        case "command":
            found = _command_patterns(subject.text)
        case "path":
            found = _path_patterns(PurePath(subject.text), PurePath(project))
        case "uri":
            found = [] if _WILDCARD.search(subject.text) else [subject.text]
        case "arguments":
            found = [] if _WILDCARD.search(subject.text) else [subject.text]
            found += ["*"] if is_any_call else []
    return [pattern for pattern in found if _find_unreadable(pattern) is None]


def _command_patterns(line: str) -> list[str]:
    commands = plain_commands(line) or []
    if len(commands) != 1 or questions.reveal(line, one_line=True) != line:
        return []
    words = commands[0].words
    found = [] if any(re.search(r"[*?\s]", word) or not word for word in words) else [" ".join(words)]
    has_redirection = re.search(r"[<>]", _QUOTED.sub("", line)) is not None
    start = None if has_redirection else _find_spelled_start(commands[0])
    return found if start is None else [*found, f"{start} *"]


def _find_spelled_start(command: PlainCommand) -> str | None:
    """Return the words of a command that a pattern with a wildcard spells: the program, and the subcommands that only read.

    A pattern that spells a subcommand which can also change something would cover that as well, as `git branch *` does.
    """
    words = command.words
    if "/" in words[0] or program_name(words[0]) not in _WIDENED:
        return None
    table: Words | None = PROGRAMS.get(program_name(words[0]))
    spelled = 1
    while table is not None and (table.subcommands or table.when_spelled):
        word = words[spelled] if spelled < len(words) else ""
        if word not in table.subcommands or word in table.when_spelled:
            return None
        table = table.subcommands[word]
        spelled += 1
    return " ".join(words[:spelled])


def _path_patterns(path: PurePath, project: PurePath) -> list[str]:
    if _WILDCARD.search(str(path)):
        return []
    if not path.is_relative_to(project) or path == project:
        return [str(path)]
    inside = path.relative_to(project)
    wider = [f"./{inside.parent}/**"] if len(inside.parts) > 1 else []
    return [f"./{inside}", *wider]


def find_problem(policy: Policy, tool: str, subject: Subject, around: PatternContext, rule: ApprovalRule) -> str | None:
    """Return why a rule that a person wants cannot be written, as a sentence; None if it can.

    Args:
        policy: what decides now.
        tool: the tool that was called.
        subject: what the call is about.
        around: how to interpret patterns and command lines.
        rule: the rule.
    """
    pattern = rule.pattern or ""
    problem = _find_unreadable(pattern) or _find_too_wide(pattern, subject, rule.project)
    if problem is not None:
        return problem
    verdict = policy.with_rule(rule).verdict(tool, harmless=False, subject=subject, around=around)
    if verdict.action == "allow":
        return None
    if verdict.because.startswith("approvals.rules"):
        return f"Another rule is stricter, so this one would change nothing ({verdict.because})."
    return "The rule does not cover this call. Patterns for commands cover plain lines, and wildcards cover harmless options."


def _find_unreadable(pattern: str) -> str | None:
    if not pattern.strip() or pattern != pattern.strip():
        return "Expected a pattern without spaces around it."
    if len(pattern) > LONGEST_PATTERN:
        return f"Expected a pattern of at most {LONGEST_PATTERN} characters, found {len(pattern):,}."
    if questions.reveal(pattern, one_line=True) != pattern:
        return "The pattern contains characters that are invisible."
    return None


def _find_too_wide(pattern: str, subject: Subject, project: str | None) -> str | None:
    match subject.kind:
        case "command" if count_spelled_words(pattern) == 0:
            return "The pattern has to begin with the name of a program, without a wildcard."
        case "path" if project is None and not pattern.startswith(("/", "~/")):
            return "In every project, the pattern has to be an absolute path."
        case "path" if not set(pattern) - set("*/?.~"):
            return "The pattern has to name a file or a directory."
        case _:
            return None


def as_rule(tool: str, rule: NewRule, project: str) -> ApprovalRule:
    """Return a rule that a person wants in the form of the settings."""
    return ApprovalRule("allow", tool, rule.pattern, None if rule.everywhere else project)


class RuleWriter:
    """Writes rules to the settings of the user.

    Args:
        save: adds a rule to the file. Raises ConfigError.
        find_project: returns the directory of the project that a working directory is in.
    """

    def __init__(self, save: Callable[[ApprovalRule], None], find_project: Callable[[str], str]) -> None:
        self._save = save
        self._find_project = find_project

    def offer(self, policy: Policy, tool: Tool, subject: Subject, around: PatternContext) -> RuleOffer | None:
        """Return the rules that may be written for a call; None if no rule would allow it."""
        if questions.reveal(tool.name, one_line=True) != tool.name or set("*?") & set(tool.name):
            return None  # the rule would be about other tools, or about one that a person does not recognize
        project = self._find_project(around.cwd)
        check = partial(_find_problem, policy, tool.name, subject, around, project)
        suggested = suggest_patterns(subject, project, is_any_call=tool.subject is None)
        patterns = tuple(pattern for pattern in suggested if check(NewRule(pattern)) is None)
        return RuleOffer(tool.name, patterns, project, check) if patterns else None

    async def write(self, policy: Policy, offer: RuleOffer | None, wanted: NewRule) -> None:
        """Save a rule that the user wants, and apply it from now on.

        Raises BadOption if the rule cannot be used, and ConfigError if it cannot be saved. Then nothing has changed.
        """
        problem = "No rule can be written for this call." if offer is None else offer.find_problem(wanted)
        if offer is None or problem is not None:
            raise BadOption(problem or "")
        rule = as_rule(offer.tool, wanted, offer.project)
        await asyncio.to_thread(self._save, rule)
        policy.add(rule)


def _find_problem(
    policy: Policy, tool: str, subject: Subject, around: PatternContext, project: str, wanted: NewRule
) -> str | None:
    return find_problem(policy, tool, subject, around, as_rule(tool, wanted, project))
