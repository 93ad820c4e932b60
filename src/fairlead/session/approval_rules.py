"""Offers the rules that an answer to an approval may write, and writes the one that the user chose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from fairlead.config.settings import ApprovalRule
from fairlead.core import questions
from fairlead.core.approval import NewRule, RuleOffer
from fairlead.core.tool import Tool
from fairlead.errors import BadOption
from fairlead.policy.approvals import PatternContext, Policy, Subject
from fairlead.policy.offers import as_rule, find_problem, suggest_patterns


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
