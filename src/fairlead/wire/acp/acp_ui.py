"""Asks the user of an ACP client: permissions, and questions as forms.

A client without forms gets a question as a permission request with an option per answer, so that no question is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, TypeVar

from msgspec import Struct

from fairlead.core.approval import Allow, ApprovalAnswer, ApprovalRequest, Deny, NewRule, RuleOffer
from fairlead.core.runtime import CancelToken, NotifyKind, Placement
from fairlead.core.tool import ToolResult
from fairlead.protocol.acp import elicitation as acp
from fairlead.protocol.acp.content import Request, TextContent
from fairlead.protocol.acp.updates import (
    Content,
    PermissionOption,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SelectedPermissionOutcome,
    ToolCallUpdate,
)
from fairlead.wire.acp.acp_narrator import Narrator, subagent_call
from fairlead.wire.acp.initialize import Client
from fairlead.wire.jsonrpc import OutboundRequests
from fairlead.wire.pending import Unanswered

R = TypeVar("R", bound=Struct)

#: What the user can always answer to a permission request, by the id of the option.
ANSWERS: dict[str, ApprovalAnswer] = {
    "allow_once": Allow(),
    "allow_always": Allow(for_session=True),
    "reject_once": Deny(),
    "reject_always": Deny(for_session=True),
}
YES, NO = "Yes", "No"
NO_ANSWER, LATER = "Do not answer", "Answer in my next message"


def choices(scope: str, offer: RuleOffer | None) -> dict[str, tuple[PermissionOption, ApprovalAnswer]]:
    """Return what the user can choose, and what each option means, by its id.

    Args:
        scope: what an answer for the session covers.
        offer: the rules that an answer may write.
    """
    about = f": {scope}" if scope else ""
    rules = [] if offer is None else [NewRule(pattern) for pattern in offer.patterns]
    options = [
        PermissionOption("allow_once", "Allow once", "allow_once"),
        PermissionOption("allow_always", f"Allow for this session{about}", "allow_always"),
        *(
            PermissionOption(f"allow_rule_{number}", f"Always allow {offer.describe(rule)}", "allow_always")
            for number, rule in enumerate(rules, 1)
            if offer is not None
        ),
        PermissionOption("reject_once", "Reject", "reject_once"),
        PermissionOption("reject_always", f"Reject for this session{about}", "reject_always"),
    ]
    answers = ANSWERS | {f"allow_rule_{number}": Allow(rule=rule) for number, rule in enumerate(rules, 1)}
    return {option.option_id: (option, answers[option.option_id]) for option in options}


class AcpUi:
    """Implements `fairlead.core.runtime.Ui` for one session."""

    #: Hosts show lines of text alone.
    canvas = None

    def __init__(
        self,
        session_id: str,
        requests: OutboundRequests,
        client: Client,
        narrator: Narrator,
        session_cancel: Callable[[], CancelToken],
    ) -> None:
        self._session_id = session_id
        self._session_cancel = session_cancel
        self._requests = requests
        self._client = client
        self._narrator = narrator
        self._numbers = count(1)
        self._background: set[asyncio.Task[None]] = set()

    @property
    def available(self) -> bool:
        return self._requests.can_be_asked

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> ApprovalAnswer | None:
        call_id = request.call_id if request.subagent is None else subagent_call(request.subagent, request.call_id)
        call = self._narrator.tools.describe(call_id, request)
        offered = choices(request.scope, request.rules)
        chosen = await self._permission(call, [option for option, _ in offered.values()], timeout, cancel)
        if chosen is None:
            return None
        return offered[chosen][1] if chosen in offered else Deny()

    # Questions

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        if not self._client.forms:
            return await self._choose(title, options, timeout, cancel)
        choices = [acp.EnumOption(option, option) for option in dict.fromkeys(options)]
        return _text(await self._form(title, acp.StringPropertySchema(title="Answer", one_of=choices), timeout, cancel))

    async def confirm(
        self, title: str, message: str = "", *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> bool:
        question = f"{title}\n\n{message}" if message else title
        if not self._client.forms:
            return await self._choose(question, [YES, NO], timeout, cancel) == YES
        answer = await self._form(question, acp.BooleanPropertySchema(title=title, default=True), timeout, cancel)
        return answer is True

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        if not self._client.forms:
            return await self._type(title, None, timeout, cancel)
        field = acp.StringPropertySchema(title="Answer", description=placeholder)
        return _text(await self._form(title, field, timeout, cancel))

    async def editor(self, title: str, prefill: str | None = None, *, cancel: CancelToken | None = None) -> str | None:
        if not self._client.forms:
            return await self._type(title, prefill, None, cancel)
        return _text(await self._form(title, acp.StringPropertySchema(title="Text", default=prefill), None, cancel))

    async def _form(
        self, message: str, field: acp.ElicitationPropertySchema, timeout: float | None, cancel: CancelToken | None
    ) -> Any:
        """Show a form with one field. Returns its value, or None if the user does not answer."""
        schema = acp.ElicitationSchema(properties={"answer": field}, required=["answer"])
        call_id = self._narrator.tools.report_question()
        request = acp.ElicitationForm(message, schema, session_id=self._session_id, tool_call_id=call_id)
        try:
            answer = await self._request(request, acp.CreateElicitationResponse, timeout, cancel)
        except Unanswered:
            return None
        return (answer.content or {}).get("answer") if answer.action == "accept" else None

    # Questions to clients without forms

    async def _choose(self, title: str, options: Sequence[str], timeout: float | None, cancel: CancelToken | None) -> str | None:
        choices = [PermissionOption(f"answer-{number}", text, "allow_once") for number, text in enumerate(options)]
        chosen = await self._question(title, [*choices, PermissionOption("none", NO_ANSWER, "reject_once")], timeout, cancel)
        found = next((number for number, choice in enumerate(choices) if choice.option_id == chosen), None)
        return None if found is None else options[found]

    async def _type(self, title: str, prefill: str | None, timeout: float | None, cancel: CancelToken | None) -> str | None:
        """Ask for a text. The user can take the one that is proposed, or answer with the next prompt."""
        options = [PermissionOption("later", LATER, "reject_once")]
        if prefill:
            options.insert(0, PermissionOption("prefill", f"Use: {prefill}", "allow_once"))
        return prefill if await self._question(title, options, timeout, cancel) == "prefill" else None

    async def _question(
        self, title: str, options: list[PermissionOption], timeout: float | None, cancel: CancelToken | None
    ) -> str | None:
        """Ask with a permission request, for the tool call that asks or for a call that stands for the question."""
        tools = self._narrator.tools
        call_id = tools.report_question()
        own = call_id is None
        call_id = call_id or f"question-{next(self._numbers)}"
        if own:
            tools.announce_question(call_id, title)
        content = [Content(TextContent(title))]
        call = ToolCallUpdate(call_id, title=title, kind="other", status="pending", content=[*content])
        chosen = None
        try:
            chosen = await self._permission(call, options, timeout, cancel)
        finally:
            if own:
                name = next((option.name for option in options if option.option_id == chosen), NO_ANSWER)
                tools.report_end(call_id, ToolResult.text(name), is_error=chosen is None)
        return chosen

    async def _permission(
        self, call: ToolCallUpdate, options: list[PermissionOption], timeout: float | None, cancel: CancelToken | None
    ) -> str | None:
        """Return the id of the option that the user chose; None if there is no answer."""
        request = RequestPermissionRequest(self._session_id, call, options)
        try:
            answer = await self._request(request, RequestPermissionResponse, timeout, cancel)
        except Unanswered:
            return None
        return answer.outcome.option_id if isinstance(answer.outcome, SelectedPermissionOutcome) else None

    async def _request(self, request: Request, result: type[R], timeout: float | None, cancel: CancelToken | None) -> R:
        """Ask, until `cancel` fires or the client cancels what the session does. Raises Unanswered."""
        both = CancelToken()
        tokens = (self._session_cancel(), *(() if cancel is None else (cancel,)))
        forget = [token.on_fire(both.fire) for token in tokens]
        try:
            return await self._requests.request(request.method, request, result, timeout=timeout, cancel=both)
        finally:
            for each in forget:
                each()

    # Showing

    def notify(self, message: str, kind: NotifyKind | None = None) -> None:
        first, _, rest = message.strip().partition("\n")
        severity = "info" if kind in (None, "success") else kind  # the protocol has no other
        self._narrator.notice(severity, first or "Notice", rest.strip() or None)

    def open_url(self, url: str, instructions: str | None = None) -> None:
        if not self._client.pages:
            self.notify(f"Open {url}" + (f"\n{instructions}" if instructions else ""))
            return
        page = acp.ElicitationUrl(
            instructions or "Open this page.", f"page-{next(self._numbers)}", url, session_id=self._session_id
        )
        self._in_background(page, acp.CreateElicitationResponse)

    def _in_background(self, request: Request, result: type[Any]) -> None:
        async def ask() -> None:
            try:
                await self._requests.request(request.method, request, result)
            except Unanswered:
                return

        task = asyncio.create_task(ask())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def set_status(self, key: str, text: str | None) -> None:
        """ACP has nothing for this."""

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Placement | None = None) -> None:
        """ACP has nothing for this."""

    def set_title(self, title: str) -> None:
        """ACP has nothing for this: a session has a title, a window is the client's."""

    def set_editor_text(self, text: str) -> None:
        """ACP has nothing for this."""


def _text(answer: Any) -> str | None:
    return answer if isinstance(answer, str) else None
