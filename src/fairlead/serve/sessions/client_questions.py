"""Questions to all clients of a session. The first answer counts, and the other clients are told that the question is closed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from fairlead.core.approval import Allow, ApprovalAnswer, ApprovalRequest, Deny, NewRule, RuleOffer
from fairlead.core.events import Event, UiPromptEnd, UiPromptKind, UiPromptStart
from fairlead.core.runtime import CancelToken, NotifyKind, Placement
from fairlead.errors import BadCommand, FairleadError
from fairlead.protocol.http.http_events import Approval, CloseReason, Question, QuestionClosed, ServeEvent, Shown
from fairlead.protocol.http.http_objects import Answer

#: Seconds beyond which a timeout counts as none.
LONGEST_TIMEOUT = 2**31 / 1000

Send: TypeAlias = Callable[[ServeEvent], None]


class QuestionGone(FairleadError):
    """A question was answered already, or is no longer asked."""


class _Open(Struct, frozen=True):
    question: Question
    #: The value that the agent gets; None if there is no answer.
    outcome: asyncio.Future[Any]
    #: For approvals: the rules that the answer may write.
    rules: RuleOffer | None


class OpenQuestions:
    """The questions that wait for an answer. `send` sends an event to all clients."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._open: dict[str, _Open] = {}
        self._is_closed = False

    @property
    def can_be_asked(self) -> bool:
        return not self._is_closed

    def __len__(self) -> int:
        return len(self._open)

    def all(self) -> list[Question]:
        return [each.question for each in self._open.values()]

    async def ask(self, question: Question, timeout: float | None, cancel: CancelToken, rules: RuleOffer | None = None) -> Any:
        """Ask all clients, and return the first answer. None if there is none."""
        if cancel.fired or self._is_closed:
            return None
        loop = asyncio.get_running_loop()
        opened = self._open[question.id] = _Open(question, loop.create_future(), rules)
        forget = cancel.on_fire(lambda: self._close(question.id, "withdrawn", None))
        timer = None if timeout is None else loop.call_later(timeout, self._close, question.id, "expired", None)
        try:
            self._send(question)
            return await opened.outcome
        finally:
            forget()
            if timer is not None:
                timer.cancel()
            self._close(question.id, "withdrawn", None)  # does nothing, unless the task was cancelled

    def answer(self, ident: str, answer: Answer) -> None:
        """Answer a question.

        Raises QuestionGone if it is not open, and BadCommand if the answer does not fit; then the question stays open.
        """
        opened = self._open.get(ident)
        if opened is None:
            raise QuestionGone("This question is closed: it was answered already, or the agent no longer asks it.")
        self._close(ident, "answered", None if answer.cancelled else _value(opened, answer))

    def close(self) -> None:
        """Withdraw all questions, and ask no more."""
        self._is_closed = True
        for ident in list(self._open):
            self._close(ident, "withdrawn", None)

    def _close(self, ident: str, reason: CloseReason, value: Any) -> None:
        opened = self._open.pop(ident, None)
        if opened is None:
            return
        if not opened.outcome.done():
            opened.outcome.set_result(value)
        self._send(QuestionClosed(id=ident, reason=reason))


def _value(opened: _Open, answer: Answer) -> Any:
    """Return what the agent gets. Raises BadCommand if the answer does not fit the question."""
    question = opened.question
    match question.kind:
        case "confirm":
            if answer.confirmed is None:
                raise BadCommand("confirmed: expected true or false, or `cancelled`.")
            return answer.confirmed
        case "approval":
            if answer.decision is None:
                raise BadCommand("decision: expected 'allow' or 'deny', or `cancelled`.")
            if answer.decision == "deny":
                return Deny(answer.reason, answer.for_session)
            return Allow(answer.for_session, answer.arguments, _rule(opened, answer))
        case kind:
            if answer.value is None:
                raise BadCommand("value: expected a string, or `cancelled`.")
            if kind == "select" and answer.value not in question.options:
                raise BadCommand(f"value: expected one of the options, found {answer.value!r}.")
            return answer.value


def _rule(opened: _Open, answer: Answer) -> NewRule | None:
    """Return the rule that an answer wants. Raises BadCommand if it cannot be written."""
    if answer.rule is None:
        return None
    rule = NewRule(answer.rule, answer.everywhere)
    problem = "No rule can be written for this call." if opened.rules is None else opened.rules.find_problem(rule)
    if problem is not None:
        raise BadCommand(f"rule: {problem}")
    return rule


class SharedUi:
    """Implements `fairlead.core.runtime.Ui` for all clients of a session."""

    #: Hosts show lines of text alone.
    canvas = None

    def __init__(self, questions: OpenQuestions, send: Send, emit: Callable[[Event], None]) -> None:
        self._questions = questions
        self._send = send
        self._emit = emit

    @property
    def available(self) -> bool:
        return self._questions.can_be_asked

    # Asking

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        return await self._ask("select", Question(id=_new_id(), kind="select", title=title, options=[*options]), timeout, cancel)

    async def confirm(
        self, title: str, message: str = "", *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> bool:
        question = Question(id=_new_id(), kind="confirm", title=title, message=message)
        return bool(await self._ask("confirm", question, timeout, cancel))

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        question = Question(id=_new_id(), kind="input", title=title, placeholder=placeholder)
        return await self._ask("input", question, timeout, cancel)

    async def editor(self, title: str, prefill: str | None = None, *, cancel: CancelToken | None = None) -> str | None:
        return await self._ask("editor", Question(id=_new_id(), kind="editor", title=title, prefill=prefill), None, cancel)

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> ApprovalAnswer | None:
        call = Approval(
            tool_name=request.tool_name,
            tool_call_id=request.call_id,
            arguments=request.arguments,
            subject=request.subject,
            diff=request.diff,
            scope=request.scope,
            rules=[] if request.rules is None else [*request.rules.patterns],
            project=None if request.rules is None else request.rules.project,
            subagent_id=request.subagent,
        )
        question = Question(id=_new_id(), kind="approval", title=request.title, message=request.message, approval=call)
        return await self._ask("select", question, timeout, cancel, request.rules)

    async def _ask(
        self,
        kind: UiPromptKind,
        question: Question,
        timeout: float | None,
        cancel: CancelToken | None,
        rules: RuleOffer | None = None,
    ) -> Any:
        if timeout is not None and not timeout < LONGEST_TIMEOUT:  # infinite, or not a number
            timeout = None
        if timeout is not None:
            question.timeout_ms = max(1, round(timeout * 1000))
        self._emit(UiPromptStart(kind, question.title))
        try:
            return await self._questions.ask(question, timeout, cancel or CancelToken(), rules)
        finally:
            self._emit(UiPromptEnd(kind, question.title))

    # Showing

    def notify(self, message: str, kind: NotifyKind | None = None) -> None:
        self._send(Shown(method="notify", text=message, kind=kind))

    def set_status(self, key: str, text: str | None) -> None:
        self._send(Shown(method="setStatus", key=key, text=text))

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Placement | None = None) -> None:
        self._send(Shown(method="setWidget", key=key, lines=None if lines is None else [*lines], kind=placement))

    def set_title(self, title: str) -> None:
        self._send(Shown(method="setTitle", text=title))

    def set_editor_text(self, text: str) -> None:
        self._send(Shown(method="setEditorText", text=text))

    def open_url(self, url: str, instructions: str | None = None) -> None:
        self._send(Shown(method="openUrl", url=url, text=instructions))


def _new_id() -> str:
    return os.urandom(16).hex()
