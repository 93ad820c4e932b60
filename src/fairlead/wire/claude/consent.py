"""Consent to tool calls: the permission mode, the rules, and questions to the host, whose answers may change both."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from msgspec import to_builtins

from fairlead.core.approval import Allow, ApprovalRequest, Deny
from fairlead.core.messages import TextContent
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ToolContext
from fairlead.errors import ConfigError
from fairlead.policy import shell, wildcards
from fairlead.protocol.claude import host as h
from fairlead.session.approval_mode import SessionApprovals
from fairlead.session.session import Session
from fairlead.wire.claude.claude_codec import ControlError, encode, read_permission
from fairlead.wire.claude.permission_rules import INTERACTIVE, PermissionRules, suggest_rules
from fairlead.wire.pending import HostQuestion, Questions, Unanswered

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
_READERS = ("Read", "Glob", "Grep")
#: Seconds that a question waits before the hooks for notifications are called.
PATIENCE = 6.0
_EDITORS = ("Edit", "Write", "NotebookEdit")
#: The arguments that are paths.
_PATHS = ("file_path", "notebook_path", "path")
_NOBODY = "it needs approval, and this session has no one to ask"


class Consent:
    """Decides about the calls that neither a rule nor the mode allows. Implements `fairlead.core.approval.Asker`.

    Args:
        questions: Asks the host.
        rules: The rules, which answers may change.
        mode: The permission mode.
        may_bypass: Whether the mode `bypassPermissions` may be chosen later.
        asks: Who is asked: the host, a tool of an MCP server, or no one.
        session: Returns the session.
        on_mode: Called when an answer has changed the mode.
        send_state: Tells the host the state of the session.
        warn: Reports an update that cannot be carried out.
        interrupt: Stops the turn.
    """

    available = True

    def __init__(
        self,
        questions: Questions,
        rules: PermissionRules,
        mode: str,
        *,
        may_bypass: bool,
        asks: str | None,
        session: Callable[[], Session],
        on_mode: Callable[[], None],
        send_state: Callable[[str], None],
        warn: Callable[[str], None],
        interrupt: Callable[[], None],
    ) -> None:
        self.mode = mode
        self.rules = rules
        #: The calls that the host was asked about.
        self.asked: set[str] = set()
        #: The calls that a hook allows, and those that the host has allowed because a hook wanted it to be asked.
        self.allowed: set[str] = set()
        self.approved: set[str] = set()
        #: The user's answers to the questions of calls.
        self.answers: dict[str, dict[str, Any]] = {}
        #: Decides about a call beside the host, if it returns something; None: nothing does.
        self.decide: Callable[[h.CanUseTool], Coroutine[Any, Any, h.PermissionResult | None]] | None = None
        #: Returns the MCP server of a tool; None if it has none.
        self.find_server: Callable[[str], h.McpServerOfTool | None] = lambda tool: None
        #: Called with a text for people when a question has waited for a while.
        self.on_waiting: Callable[[str], None] = lambda text: None
        self._questions = questions
        self._may_bypass = may_bypass or mode == "bypassPermissions"
        self._asks = asks
        self._session = session
        self._on_mode = on_mode
        self._send_state = send_state
        self._warn = warn
        self._interrupt = interrupt
        self._before_plan = "default" if mode == "plan" else mode
        self._open = 0

    def forget(self, call_id: str) -> None:
        """Forget what hooks have decided about a call."""
        self.allowed.discard(call_id)
        self.approved.discard(call_id)

    # The mode

    def set_mode(self, mode: str) -> None:
        """Change the mode. Raises ControlError if there is no such mode, or if it needs a flag."""
        if mode not in APPROVALS:
            known = ", ".join(APPROVALS)
            raise ControlError(f"There is no permission mode {mode!r}. The modes are: {known}.", "invalid_mode")
        if mode == "bypassPermissions" and not self._may_bypass:
            text = "This process was not started with --allow-dangerously-skip-permissions, so nothing may skip consent."
            raise ControlError(text, "bypass_not_launched")
        if mode == "plan" and self.mode != "plan":
            self._before_plan = self.mode
        self.mode = "default" if mode == "manual" else mode
        self._session().approvals.set_mode(APPROVALS[self.mode])

    def enter_plan(self) -> bool:
        """Choose the mode `plan`. Returns False if it is chosen already."""
        if self.mode == "plan":
            return False
        self.set_mode("plan")
        self._on_mode()
        return True

    def leave_plan(self) -> bool:
        """Use the mode again that there was before the mode `plan`. Returns False if another one is chosen."""
        if self.mode != "plan":
            return False
        self.set_mode(self._before_plan)
        self._on_mode()
        return True

    def take_answers(self, call_id: str) -> dict[str, Any]:
        return self.answers.pop(call_id, {})

    @property
    def can_ask(self) -> bool:
        """Whether someone can be asked."""
        return self._asks is not None

    # Asking

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> Allow | Deny | None:
        """Decide whether a call may run. Without an answer it may not. None: `cancel` has fired."""
        if request.call_id in self.approved or (request.call_id in self.allowed and not request.by_rule):
            return Allow()
        asked = self._describe(request.tool_name, request.call_id, request.arguments)
        if request.subagent is not None:
            asked.agent_id = request.subagent
        if request.tool_name in INTERACTIVE:
            asked.requires_user_interaction = True
        elif request.by_rule:
            asked.decision_reason_type = "rule"
        elif self.mode == "plan" and request.tool_name != "Bash":
            asked.decision_reason_type = "mode"
        else:
            self._suggest(asked)
        return await self._ask(asked, cancel or CancelToken())

    async def ask_because(
        self, reason: str, tool: str, call_id: str, arguments: dict[str, Any], agent: str | None = None
    ) -> Allow | Deny:
        """Ask about a call because a hook wants that."""
        asked = self._describe(tool, call_id, arguments)
        asked.decision_reason_type = "hook"
        if reason:
            asked.decision_reason = reason
        if agent is not None:
            asked.agent_id = agent
        return await self._ask(asked, CancelToken()) or Deny("the question was withdrawn")

    def _describe(self, tool: str, call_id: str, arguments: dict[str, Any]) -> h.CanUseTool:
        cwd = str(self._session().host.workspace.cwd)
        shown = dict(arguments)
        for name in _PATHS:
            if isinstance(shown.get(name), str):
                shown[name] = os.path.normpath(os.path.join(cwd, shown[name]))  # noqa: PTH118
        server = self.find_server(tool)
        shown_name = tool if server is None else tool.rpartition("__")[2]
        asked = h.CanUseTool(tool_name=tool, display_name=shown_name, input=shown, tool_use_id=call_id)
        if server is not None:
            asked.mcp_server = server
        path = next((shown[name] for name in _PATHS if isinstance(shown.get(name), str)), None)
        if isinstance(described := arguments.get("description"), str) and described:
            asked.description = described
        elif path is not None:
            asked.description = os.path.relpath(path, cwd) if Path(path).is_relative_to(cwd) else path
        if path is not None and not self._is_inside(path):
            asked.blocked_path = path
        return asked

    def _is_inside(self, path: str) -> bool:
        workspace = self._session().host.workspace
        real = Path(os.path.realpath(path))
        return any(real.is_relative_to(os.path.realpath(folder)) for folder in (workspace.cwd, *workspace.more))

    async def _ask(self, asked: h.CanUseTool, cancel: CancelToken) -> Allow | Deny | None:
        """Ask the hooks and the host at the same time; the first answer counts."""
        if self.mode == "dontAsk":
            return Deny("no rule allows this call, and the mode dontAsk asks no one")
        asking = [self._ask_someone(asked, cancel), *([] if self.decide is None else [self.decide(asked)])]
        waiting = [asyncio.create_task(each) for each in asking]
        answer: h.PermissionResult | None = None
        left = set(waiting)
        try:
            while left and answer is None and not cancel.fired:
                done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                answer = next((found for each in waiting if each in done and (found := each.result()) is not None), None)
        finally:
            for each in left:
                each.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        if cancel.fired:
            return None
        return Deny(_NOBODY) if answer is None else await self._judge(answer, asked)

    async def _ask_someone(self, asked: h.CanUseTool, cancel: CancelToken) -> h.PermissionResult | None:
        """Ask the host or the tool that is asked instead. None: there is no one to ask, or the question was withdrawn."""
        if self._asks is None:
            return None
        self.asked.add(asked.tool_use_id)
        waits = f"{asked.tool_name} waits for consent"
        timer = asyncio.get_running_loop().call_later(PATIENCE, lambda: self.on_waiting(waits))
        self._open += 1
        self._send_state("requires_action")
        try:
            if self._asks != "stdio":
                return await self._ask_tool(self._asks, asked, cancel)
            question = HostQuestion(
                ask=lambda ident: encode(h.ControlRequest(request_id=ident, request=to_builtins(asked))),
                withdraw=lambda _, ident: encode(h.ControlCancelRequest(request_id=ident)),
            )
            reply = await self._questions.ask(question, cancel)
        except Unanswered:
            return None if cancel.fired else _refuse("the host has left, so it cannot be asked")
        finally:
            timer.cancel()
            self._open -= 1
            if not self._open:
                self._send_state("running")
        return _read_answer(reply.body)

    async def _ask_tool(self, name: str, asked: h.CanUseTool, cancel: CancelToken) -> h.PermissionResult:
        """Ask a tool of an MCP server. Its answer is JSON in the form of `PermissionResult`."""
        tool = self._session().tools.get(name)
        if tool is None:
            return _refuse(f"it needs approval, and there is no tool {name} to ask")
        given = {"tool_name": asked.tool_name, "input": asked.input, "tool_use_id": asked.tool_use_id}
        try:
            context = ToolContext(f"{asked.tool_use_id}-permission", cancel, lambda result: None)
            result = await tool.run(given, context)
            text = "".join(block.text for block in result.content if isinstance(block, TextContent))
            return _read_answer({"response": msgspec.json.decode(text)})
        except Exception as error:  # what cannot be asked has not agreed
            return _refuse(f"the tool {name} gave no answer that can be read ({type(error).__name__}: {error})")

    async def _judge(self, answer: h.PermissionResult, asked: h.CanUseTool) -> Allow | Deny:
        if answer.behavior == "deny":
            if answer.interrupt:
                self._interrupt()
            return Deny(answer.message or "")
        for update in answer.updated_permissions or ():
            await self.update(update)
        changed = answer.updated_input
        if changed is not None and asked.tool_name == "AskUserQuestion":
            changed = dict(changed)
            answers = changed.pop("answers", None)
            self.answers[asked.tool_use_id] = cast("dict[str, Any]", answers) if isinstance(answers, dict) else {}
        return Allow(arguments=None if changed is None or changed == asked.input else changed)

    # Updates

    async def update(self, update: h.AnyUpdate) -> None:
        """Carry out what an answer wants to change. An update that cannot be saved does not apply, and the host hears why."""
        try:
            if isinstance(update, h.SetMode) and update.mode not in APPROVALS:
                raise ConfigError(f"there is no permission mode {update.mode!r}")
            await asyncio.to_thread(self.rules.save, update)
            match update:
                case h.SetMode():
                    self.set_mode(update.mode)
                    self._on_mode()
                case h.AddDirectories() | h.RemoveDirectories():
                    self._change_folders(update)
                case _:
                    self.change_rules(lambda: self.rules.change(update))
        except (ConfigError, ControlError) as error:
            self._warn(f"The permission update {update.__struct_config__.tag} does not apply: {error}")

    def change_rules(self, change: Callable[[], None]) -> None:
        """Change `rules`, with effect on later calls and on open questions."""
        before = self.rules.collect()
        change()
        if isinstance(approvals := self._session().approvals, SessionApprovals):
            approvals.change_rules(before, self.rules.collect())

    def _change_folders(self, update: h.AddDirectories | h.RemoveDirectories) -> None:
        workspace = self._session().host.workspace
        named = [workspace.resolve(folder) for folder in update.directories]
        if missing := [str(folder) for folder in named if isinstance(update, h.AddDirectories) and not folder.is_dir()]:
            raise ConfigError(f"there is no directory {missing[0]}")
        real = {os.path.realpath(folder) for folder in named}
        kept = [folder for folder in workspace.more if os.path.realpath(folder) not in real]
        workspace.more = [*kept, *(named if isinstance(update, h.AddDirectories) else ())]

    # Suggestions

    def _suggest(self, asked: h.CanUseTool) -> None:
        """Add the updates that would make the question unnecessary from now on."""
        edits = h.SetMode(mode="acceptEdits")
        found: list[h.AnyUpdate] = []
        tool, path = asked.tool_name, asked.blocked_path or None
        if tool == "Bash":
            line = str(asked.input.get("command", ""))
            if rules := suggest_rules(line):
                found.append(h.AddRules(rules=rules, behavior="allow", destination="localSettings"))
            changed = self._find_changed(line)
            if changed is not None:
                asked.blocked_path = changed
                found.append(h.AddDirectories(directories=[os.path.dirname(changed)]))  # noqa: PTH120
                found += [edits] if self.mode != "plan" else []
        elif tool in _EDITORS:
            if path is not None:
                found.append(h.AddDirectories(directories=[os.path.dirname(path)]))  # noqa: PTH120
            found.append(edits)
        elif tool in _READERS:
            folder = path or ""
            folder = folder if os.path.isdir(folder) else os.path.dirname(folder)  # noqa: PTH120
            if folder not in ("", "/") and not set(folder) & set("*?()"):
                rule = h.RuleValue(tool_name="Read", rule_content=f"/{folder}/**")
                found.append(h.AddRules(rules=[rule], behavior="allow"))
        elif not set(tool) & set("*?()"):
            found.append(h.AddRules(rules=[h.RuleValue(tool_name=tool)], behavior="allow", destination="localSettings"))
        if found:
            asked.permission_suggestions = found

    def _find_changed(self, line: str) -> str | None:
        """Return the first file inside that a command line changes, if that is all it does."""
        cwd = str(self._session().host.workspace.cwd)
        for command in shell.plain_commands(line) or ():
            found = wildcards.changed_files(command.words, cwd)
            if found is not None:
                path = os.path.normpath(os.path.join(cwd, found[1][0]))  # noqa: PTH118
                return path if self._is_inside(path) else None
        return None


def _refuse(reason: str) -> h.PermissionResult:
    return h.PermissionResult(behavior="deny", message=reason)


def _read_answer(body: Any) -> h.PermissionResult:
    """Return an answer. One that cannot be read refuses the call."""
    answer = read_permission(body)
    return _refuse(answer) if isinstance(answer, str) else answer
