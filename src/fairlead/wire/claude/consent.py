"""Consent to tool calls: the permission mode, the rules of the command line, and questions to the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

from msgspec import to_builtins

from fairlead.config.settings import ApprovalAction, ApprovalRule
from fairlead.core.approval import Allow, ApprovalRequest, Deny
from fairlead.core.runtime import CancelToken
from fairlead.protocol.claude import host as h
from fairlead.wire.claude.claude_codec import ControlError, encode, read_permission
from fairlead.wire.questions import HostQuestion, Questions, Unanswered

#: The mode of fairlead's approvals for each permission mode.
APPROVALS: Mapping[str, Literal["auto", "write", "ask"]] = {
    "default": "ask",
    "manual": "ask",
    "plan": "ask",
    "dontAsk": "ask",
    "auto": "ask",
    "acceptEdits": "write",
    "bypassPermissions": "auto",
}
#: The tools that a rule about another name is about too.
_COVERED: Mapping[str, Sequence[str]] = {"Task": ("Agent",), "Edit": ("Edit", "Write"), "Write": ("Edit", "Write")}
_READERS = ("Read", "Glob", "Grep")


class Consent:
    """Decides about the calls that neither a rule nor the mode allows.

    `update` carries out the changes that an answer wants, `interrupt` stops the turn, and `send_state` tells the host that it is
    asked.
    """

    def __init__(
        self,
        questions: Questions,
        mode: str,
        *,
        may_bypass: bool,
        asks_host: bool,
        send_state: Callable[[str], None],
        update: Callable[[Sequence[Mapping[str, Any]]], None],
        interrupt: Callable[[], None],
    ) -> None:
        self.mode = mode
        #: The calls that the host was asked about.
        self.asked: set[str] = set()
        #: The calls that a hook of the host allows, and what hooks want to add to the results of calls.
        self.allowed: set[str] = set()
        self.contexts: dict[str, list[str]] = {}
        self._questions = questions
        self._may_bypass = may_bypass or mode == "bypassPermissions"
        self._asks_host = asks_host
        self._send_state = send_state
        self._update = update
        self._interrupt = interrupt

    def set_mode(self, mode: str) -> None:
        """Change the mode. Raises ControlError if there is no such mode, or if it needs a flag."""
        if mode not in APPROVALS:
            known = ", ".join(APPROVALS)
            raise ControlError(f"There is no permission mode {mode!r}. The modes are: {known}.", "invalid_mode")
        if mode == "bypassPermissions" and not self._may_bypass:
            text = "This process was not started with --allow-dangerously-skip-permissions, so nothing may skip consent."
            raise ControlError(text, "bypass_not_launched")
        self.mode = "default" if mode == "manual" else mode

    async def approve(self, request: ApprovalRequest) -> Allow | Deny:
        """Decide whether a call may run. Without an answer of the host it may not."""
        if request.call_id in self.allowed:
            return Allow()
        return await self.ask_host(request.tool_name, request.call_id, request.arguments, request.subagent)

    async def ask_host(self, tool: str, call_id: str, arguments: dict[str, Any], subagent: str | None = None) -> Allow | Deny:
        """Ask the host whether a call may run."""
        if self.mode == "dontAsk" or not self._asks_host:
            return Deny("no rule allows this call, and this session asks nobody")  # prose: verbatim
        asked = h.CanUseTool(tool_name=tool, display_name=tool, input=arguments, tool_use_id=call_id)
        if subagent is not None:
            asked.agent_id = subagent
        question = HostQuestion(
            ask=lambda ident: encode(h.ControlRequest(request_id=ident, request=to_builtins(asked))),
            withdraw=lambda _, ident: encode(h.ControlCancelRequest(request_id=ident)),
        )
        self.asked.add(call_id)
        self._send_state("requires_action")
        try:
            reply = await self._questions.ask(question, CancelToken())
        except Unanswered:
            return Deny("the host has left, so it cannot be asked")
        finally:
            self._send_state("running")
        return self._judge(read_permission(reply.body), arguments)

    def _judge(self, answer: h.PermissionResult | str, arguments: dict[str, Any]) -> Allow | Deny:
        if isinstance(answer, str):
            return Deny(answer)
        if answer.behavior == "deny":
            if answer.interrupt:
                self._interrupt()
            return Deny(answer.message or "")
        self._update(answer.updated_permissions or ())
        changed = answer.updated_input
        return Allow(arguments=None if changed is None or changed == arguments else changed)


def read_rules(texts: Sequence[str], action: ApprovalAction, cwd: str) -> list[ApprovalRule]:
    """Return rules such as `Bash(git *)` or `Read(//etc/**)` as rules of fairlead."""
    found: list[ApprovalRule] = []
    for text in texts:
        tool, has_content, content = text.removesuffix(")").partition("(")
        pattern = _read_pattern(tool, content, cwd) if has_content else None
        names = (tool, f"{tool}__*") if tool.startswith("mcp__") and tool.count("__") == 1 else _COVERED.get(tool, (tool,))
        if tool == "Read" and has_content:
            names = _READERS
        found += [ApprovalRule(action=action, tool=name, pattern=pattern) for name in names]
    return found


def read_update(update: Mapping[str, Any], cwd: str) -> list[ApprovalRule]:
    """Return the rules that an answer of the host adds. They hold for the session, whatever destination it names."""
    action = update.get("behavior")
    if action not in ("allow", "deny", "ask"):
        return []
    texts: list[str] = []
    for rule in cast("list[Any]", update.get("rules") or []):
        match rule:
            case {"toolName": str(tool), "ruleContent": str(content)}:
                texts.append(f"{tool}({content})")
            case {"toolName": str(tool)}:
                texts.append(tool)
            case _:
                pass
    return read_rules(texts, action, cwd)


def _read_pattern(tool: str, content: str, cwd: str) -> str | None:
    if tool == "Bash":
        return f"{content[:-2]} *" if content.endswith(":*") else content
    if tool in ("Read", "Edit", "Write", "NotebookEdit"):
        if content.startswith("//"):
            return content[1:]
        return f"{cwd}/{content.removeprefix('./').lstrip('/')}" if not content.startswith("~/") else content
    if tool in ("Skill", "Agent", "Task") and content not in ("", "*"):  # the name is one of the arguments
        return f'*"{content}"*'
    return None if content in ("", "*") else content


def split_bare(rules: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of tools among rules, and the other rules."""
    bare = ["Agent" if rule == "Task" else rule for rule in rules if "(" not in rule]
    return bare, [rule for rule in rules if "(" in rule]
