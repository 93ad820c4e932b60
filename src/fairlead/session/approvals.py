"""Asks for approval before a tool runs, where the settings want that, and tells the model if a call was refused."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
from msgspec import Struct

from fairlead.config.home import user_folder
from fairlead.config.settings import ApprovalMode, ApprovalRule
from fairlead.core import questions
from fairlead.core.approval import Allow, ApprovalRequest, Asker, Deny, FileChange, NewRule, RuleOffer
from fairlead.core.calls.execution import ABORTED
from fairlead.core.events import Event, SessionReplaced, ToolApprovalRequested, ToolApprovalResolved
from fairlead.core.lenient import scrub, scrub_text
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import ApprovedFile, Permission, Tool
from fairlead.errors import BadOption, ConfigError, ToolError
from fairlead.policy.approvals import PatternContext, Policy, Subject, Verdict
from fairlead.policy.offers import RuleWriter
from fairlead.session.session_events import report
from fairlead.tools.files.targets import Guard

if TYPE_CHECKING:
    from fairlead.session.host import Host
    from fairlead.session.session_events import Subscribe

#: Shells whose grammar the rules for commands know.
KNOWN_SHELLS = frozenset(("bash", "dash", "sh"))
#: How many characters of a call's subject the user is shown.
SHOWN = 4000
#: How long the user's question waits for the changes that it shows.
PREVIEW_SECONDS = 2.0

# Hosts may compare these texts.
_NO_USER = "it needs approval, and there is no user to ask"
_NO_ANSWER = "it was not approved within {:g} seconds"
_INSTEAD = "Do not try to do the same in another way: go on without it, or tell the user why it is needed."


class _JudgedCall(Struct, frozen=True):
    """A call, and what the policy says about it."""

    arguments: dict[str, Any]
    subject: Subject
    verdict: Verdict
    target: ApprovedFile | None
    #: An approval for the session covers the same command, file or URI; for a tool without a subject, all of its calls.
    what: tuple[str, str]
    #: A file with further names (hard links) is not the same as one that was there under this path alone. A refusal covers both.
    linked: tuple[int, int] | None


class _Question:
    """A question that is open. `settled` fires when an answer to another one covers it, or when the run is aborted."""

    def __init__(self, tool: Tool, call: _JudgedCall) -> None:
        self.tool = tool
        self.call = call
        self.settled = CancelToken()
        #: What covers the call now.
        self.covered_by: Literal["session", "settings"] | None = None


class Approvals:
    """Implements `fairlead.core.tool.Approver` for a session and all its sub-agents.

    What the user allowed or refused for the session is kept in memory until the session moves on to another conversation.
    """

    def __init__(self, policy: Policy, timeout: float, asker: Asker | None = None, rules: RuleWriter | None = None) -> None:
        self._policy = policy
        #: Writes the rules that answers want; None: no answer can write one.
        self._rules = rules
        self._open: list[_Question] = []
        #: Who is asked instead of the user; None: the user.
        self._asker = asker
        self._timeout = timeout
        self._host: Host | None = None
        self._allowed: set[tuple[tuple[str, str], tuple[int, int] | None]] = set()
        self._denied: set[tuple[str, str]] = set()

    def attach(self, host: Host, subscribe: Subscribe) -> None:
        """Ask the user of this host, and follow the events of its session."""
        self._host = host
        subscribe(self._forget_answers, kinds=(SessionReplaced,))

    def set_mode(self, mode: ApprovalMode) -> None:
        self._policy.mode = mode

    def change_rules(self, removed: Sequence[ApprovalRule], added: Sequence[ApprovalRule]) -> None:
        """Replace rules for later calls, and for those that are being asked about."""
        self._policy.change(removed, added)
        self._settle_covered()

    async def check(
        self, tool: Tool, call_id: str, arguments: dict[str, Any], cancel: CancelToken, *, subagent: str | None = None
    ) -> Permission | None:
        """See `fairlead.core.tool.Approver`. `subagent` is the id of the sub-agent that makes the call."""
        call = self._judge(tool, arguments)
        if call.verdict.action == "allow":
            return Permission(call.target)
        self._refuse_if_forbidden(tool, call_id, call)
        if (call.what, call.linked) in self._allowed:
            self._required_host.notify(ToolApprovalResolved(call_id, tool.name, True, "session"))
            return Permission(call.target)
        question = _Question(tool, call)
        answer = await self._ask(call_id, question, cancel, subagent)
        changed = None
        if answer.arguments is not None:
            call = self._judge_changed(tool, call_id, answer.arguments)
            changed = call.arguments
        if answer.rule is not None:
            await self._write_rule(tool, call_id, call, answer.rule)
        if answer.for_session is True:
            self._allowed.add((call.what, call.linked))
        self._settle_covered()
        self._required_host.notify(ToolApprovalResolved(call_id, tool.name, True, question.covered_by or "user"))
        return Permission(call.target, changed)

    def _judge(self, tool: Tool, arguments: dict[str, Any]) -> _JudgedCall:
        subject = self._subject(tool, arguments)
        harmless = tool.harmless or (not tool.asks and self._policy.mode != "deny")
        # The tool acts on the file that is judged here: a link may lead elsewhere by the time the user has answered.
        found = _stat(subject.text) if subject.kind == "path" else None
        identity = None if found is None else (found.st_dev, found.st_ino)
        return _JudgedCall(
            arguments,
            subject,
            self._policy.verdict(tool.name, harmless=harmless, subject=subject, around=self._pattern_context()),
            target=ApprovedFile(subject.text, identity) if subject.kind == "path" else None,
            what=(tool.name, "" if tool.subject is None else subject.text or _as_json(arguments)),
            linked=identity if found is not None and stat.S_ISREG(found.st_mode) and found.st_nlink > 1 else None,
        )

    def _refuse_if_forbidden(self, tool: Tool, call_id: str, call: _JudgedCall) -> None:
        if call.verdict.action == "deny":
            raise self._refuse(tool, call_id, "settings", f"the settings forbid it ({call.verdict.because})")
        if call.what in self._denied:
            raise self._refuse(tool, call_id, "session", "the user refused it for this session")

    def _judge_changed(self, tool: Tool, call_id: str, arguments: Any) -> _JudgedCall:
        """The call with the arguments that the user wants instead. The user's answer covers it, unless it is forbidden."""
        try:
            if not isinstance(arguments, dict):
                raise TypeError("they are not an object")
            call = self._judge(tool, tool.check_arguments(deepcopy(cast("dict[str, Any]", arguments))))
        except Exception as error:  # the arguments are unusable, so the tool does not run
            problem = str(error).partition("\n\n")[0]
            raise self._refuse(tool, call_id, "nobody", f"the changed arguments cannot be used: {problem}") from error
        self._refuse_if_forbidden(tool, call_id, call)
        return call

    # Asking

    async def _ask(self, call_id: str, question: _Question, cancel: CancelToken, subagent: str | None) -> Allow:
        """Ask the user. Raises ToolError unless the user allows the call."""
        tool, call = question.tool, question.call
        asker = self._asker or self._required_host.ui
        if not asker.available:
            raise self._refuse(tool, call_id, "nobody", _NO_USER)
        request = await _request(tool, call_id, call, cancel, subagent, self._offer(tool, call))
        self._required_host.notify(ToolApprovalRequested(call_id, tool.name, call.arguments, request.message))
        loop = asyncio.get_running_loop()
        begun = loop.time()
        self._open.append(question)
        self._settle_covered()  # an answer may have come while the changes were worked out
        forget = cancel.on_fire(question.settled.fire)
        try:
            answer = None
            if question.covered_by is None:
                answer = await asker.approve(request, timeout=self._timeout, cancel=question.settled)
        except asyncio.CancelledError:
            self._refuse(tool, call_id, "nobody", "the run was aborted")
            raise
        except Exception as error:  # a user who could not be asked has not agreed
            report(error)
            raise self._refuse(tool, call_id, "nobody", f"the question failed ({type(error).__name__})") from error
        finally:
            forget()
            self._open.remove(question)
        if isinstance(answer, Allow):
            question.covered_by = None
            return answer
        if isinstance(answer, Deny):
            if answer.for_session is True:
                self._denied.add(call.what)
            because = f": {scrub_text(answer.reason).strip()}" if answer.reason.strip() else ""
            raise self._refuse(tool, call_id, "user", f"the user refused it{because}")
        if cancel.fired:
            self._refuse(tool, call_id, "nobody", "the run was aborted")
            raise ToolError(ABORTED)
        if question.covered_by is not None:
            return Allow()
        if loop.time() - begun >= self._timeout:
            raise self._refuse(tool, call_id, "nobody", _NO_ANSWER.format(self._timeout))
        raise self._refuse(tool, call_id, "nobody", "the user dismissed the question")

    # Rules that answers write

    def _offer(self, tool: Tool, call: _JudgedCall) -> RuleOffer | None:
        if self._rules is None:
            return None
        return self._rules.offer(self._policy, tool, call.subject, self._pattern_context())

    async def _write_rule(self, tool: Tool, call_id: str, call: _JudgedCall, wanted: NewRule) -> None:
        """Write the rule that the user wants. Raises ToolError if it is not about this call.

        If it cannot be saved, it does not apply, and the user hears why. The call itself was allowed.
        """
        ui = self._required_host.ui
        offer = self._offer(tool, call)
        try:
            if self._rules is None or not isinstance(wanted, NewRule):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise BadOption("No rule can be written here.")
            await self._rules.write(self._policy, offer, wanted)
        except BadOption as error:
            raise self._refuse(tool, call_id, "nobody", f"the rule in the answer cannot be used: {error}") from error
        except ConfigError as error:
            ui.notify(f"The rule was not saved, so it does not apply: {error}", "error")
        else:
            assert offer is not None
            ui.notify(f"From now on, your settings allow {offer.describe(wanted)}.", "info")

    def _settle_covered(self) -> None:
        """Withdraw the questions about calls that a rule or an answer for the session covers by now. Those calls run."""
        for question in [*self._open]:
            call = question.call
            if question.settled.fired:
                continue
            judged = self._judge(question.tool, call.arguments)
            if judged.subject == call.subject and judged.verdict.action == "allow":
                question.covered_by = "settings"
            elif (call.what, call.linked) in self._allowed:
                question.covered_by = "session"
            if question.covered_by is not None:
                question.settled.fire()

    def _refuse(self, tool: Tool, call_id: str, by: Literal["user", "session", "settings", "nobody"], why: str) -> ToolError:
        self._required_host.notify(ToolApprovalResolved(call_id, tool.name, False, by, why))
        end = "" if why.endswith((".", "!", "?")) else "."
        return ToolError(f"{tool.name} was not run: {why}{end} {_INSTEAD}", details={"deniedBy": by})

    # What a call is about

    def _subject(self, tool: Tool, arguments: dict[str, Any]) -> Subject:
        declared = tool.subject
        if declared is None:
            return Subject("arguments", _as_json(arguments))
        applies = declared.applies is None or declared.applies(arguments)
        if declared.kind == "command":
            command = arguments.get(declared.argument)
            folder = self._required_host.workspace.cwd if declared.folder is None else declared.folder()
            # An empty text is a command that cannot be read: no pattern allows it.
            return Subject("command", command if applies and isinstance(command, str) else "", folder=str(folder))
        path = arguments.get(declared.argument, ".")
        if not applies or not isinstance(path, str):
            return Subject("arguments", _as_json(arguments))
        return self._file(path)

    def _file(self, path: str) -> Subject:
        workspace = self._required_host.workspace
        if workspace.uris is not None and workspace.uris.has(path):
            return Subject("uri", path)
        named = workspace.resolve(path or ".")
        return Subject("path", os.path.realpath(named), str(named))

    def _pattern_context(self) -> PatternContext:
        workspace = self._required_host.workspace
        knows_shell = workspace.shell is None or Path(workspace.shell).name in KNOWN_SHELLS
        more = [os.path.realpath(folder) for folder in workspace.more]
        may_use = None if workspace.guard is None else partial(_may_use, workspace.guard)
        return PatternContext(os.path.realpath(workspace.cwd), str(user_folder(workspace.env)), knows_shell, more, may_use)

    @property
    def _required_host(self) -> Host:
        assert self._host is not None, "the agent attaches its host"
        return self._host

    def _forget_answers(self, event: Event) -> None:
        self._allowed.clear()
        self._denied.clear()


async def _request(
    tool: Tool, call_id: str, call: _JudgedCall, cancel: CancelToken, subagent: str | None, rules: RuleOffer | None
) -> ApprovalRequest:
    text = call.subject.text or _as_json(call.arguments)
    changes = await _preview(tool, call, cancel)
    return ApprovalRequest(
        tool.name,
        call_id,
        deepcopy(call.arguments),
        f"Allow {format_for_user(tool.name)}?",
        format_for_user(text, one_line=call.subject.kind in ("path", "uri")),
        text,
        tool.kind,
        changes or (),
        subagent,
        _scope(tool, call.subject),
        tool.kind == "edit" and not changes,
        rules,
        call.verdict.by_rule,
    )


def _scope(tool: Tool, subject: Subject) -> str:
    """Return what an approval for the session covers."""
    if tool.subject is None:
        return f"{format_for_user(tool.name)} with any arguments"
    if not subject.text:
        return "the same arguments"
    match subject.kind:
        case "command":
            return "the same command"
        case "path":
            return "the same file, with any content" if tool.kind == "edit" else "the same file"
        case "uri":
            return "the same URI"
        case "arguments":
            return "the same arguments"


async def _preview(tool: Tool, call: _JudgedCall, cancel: CancelToken) -> tuple[FileChange, ...] | None:
    """What the call would change, if that can be found out soon. A call that would fail changes nothing: None."""
    if tool.preview is None:
        return None
    try:
        async with asyncio.timeout(PREVIEW_SECONDS):
            return tuple(await tool.preview(call.arguments, call.target, cancel))
    except TimeoutError:
        return ()
    except ToolError:
        return None
    except Exception as error:  # a bug in it must not keep the user from deciding
        report(error)
        return ()


def format_for_user(text: str, *, one_line: bool = False) -> str:
    """Return a text for a person to judge: of limited length, with escapes for what could hide, move or cover other characters.

    Args:
        text: any text.
        one_line: whether line feeds are shown as escapes too, because the text is a name.
    """
    whole = len(text)
    if whole <= SHOWN:
        return questions.reveal(text, one_line=one_line)
    half = SHOWN // 2
    first, last = (questions.reveal(part, one_line=one_line) for part in (text[:half], text[-half:]))
    return f"{first}\n… ({whole - 2 * half:,} of {whole:,} characters are left out here)\n{last}"


def _may_use(guard: Guard, path: str, is_change: bool) -> bool:
    """Return whether the guard of a workspace lets a file be read, or changed."""
    found = _stat(path)
    try:
        if is_change:
            guard.check_writing(Path(path), found)
        elif found is not None:
            guard.check_reading(Path(path), found)
    except ToolError:
        return False
    return True


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _as_json(arguments: dict[str, Any]) -> str:
    return msgspec.json.encode(scrub(arguments), order="sorted").decode()
