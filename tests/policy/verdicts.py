"""What the rules of approval say of a call."""

from __future__ import annotations

from fairlead.config.settings import ApprovalAction, ApprovalMode, ApprovalRule
from fairlead.policy.approvals import Kind, PatternContext, Policy, Subject

AROUND = PatternContext("/there", "/home/u")


def verdict(
    text: str,
    *rules: tuple[ApprovalAction, str, str | None],
    mode: ApprovalMode = "auto",
    tool: str = "bash",
    kind: Kind = "command",
    named: str = "",
    harmless: bool = False,
    around: PatternContext = AROUND,
) -> str:
    policy = Policy(mode, [ApprovalRule(action, tool, pattern) for action, tool, pattern in rules])
    return policy.verdict(tool, harmless=harmless, subject=Subject(kind, text, named), around=around).action
