"""What a host of the pi family is asked: to run its tools, to read its URIs, and questions to its user.

The session uses host tools and host URIs like other tools and documents. Questions are `extension_ui_request`, and answers
`extension_ui_response`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from msgspec import UNSET

from fairlead.core.approval import Allow, ApprovalAnswer, ApprovalRequest, Deny, NewRule, RuleOffer
from fairlead.core.calls.turn import format_not_found
from fairlead.core.events import Event, UiPromptEnd, UiPromptKind, UiPromptStart
from fairlead.core.messages import ImageContent, TextContent
from fairlead.core.runtime import CancelToken, NotifyKind, Placement
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import BadCommand, ToolError
from fairlead.protocol.pi.frames import Frame
from fairlead.protocol.pi.host_requests import (
    ExtensionUiRequest,
    ExtensionUiResponse,
    HostToolCall,
    HostToolCancel,
    HostToolDefinition,
    HostToolNames,
    HostToolResult,
    HostToolUpdate,
    HostUriCancel,
    HostUriRequest,
    HostUriResult,
    HostUriScheme,
    HostUriSchemes,
    SetHostTools,
    SetHostUriSchemes,
    UiMethod,
)
from fairlead.session.toolbox import Toolbox
from fairlead.tools.files.targets import Document, beside, scheme_of
from fairlead.tools.workspace import Workspace
from fairlead.wire.pending import HostLeft, HostQuestion, Questions, Unanswered, Withdrawn
from fairlead.wire.pi.pi_codec import check_image, decode_as
from fairlead.wire.pi.profile import Profile
from fairlead.wire.routing import RequestRoute

if TYPE_CHECKING:
    from fairlead.wire.pi.pi_server import PiServer


#: The owner of host tools in the toolbox. It is part of an error that hosts know: `RPC host tool "bash" conflicts with ...`.
OWNER = "RPC host"


class HostTools:
    """The tools that the host defines. A call of one is a question to the host."""

    def __init__(self, toolbox: Toolbox, questions: Questions) -> None:
        self._toolbox = toolbox
        self._questions = questions
        self._names: list[str] = []

    def replace(self, definitions: Sequence[HostToolDefinition]) -> list[str]:
        """Replace all host tools, and return their names. Raises BadCommand, without changes, if a schema is invalid."""
        tools = [self._tool(definition) for definition in definitions]
        for tool in tools:
            try:
                tool.check_schema()
            except ToolError as error:
                raise BadCommand(f'Host tool "{tool.name}": {error}') from None
        hidden = {tool.name for tool, definition in zip(tools, definitions, strict=True) if definition.hidden}
        self._toolbox.replace(OWNER, tools, inactive=hidden)
        self._names = [tool.name for tool in tools]
        return self._names

    def _tool(self, definition: HostToolDefinition) -> Tool:
        name = definition.name.strip()
        return Tool(
            name=name,
            description=definition.description.strip(),
            parameters=definition.parameters,
            run=partial(self._run, name),
            label=(definition.label or "").strip() or name,
            timeout=definition.timeout_ms / 1000 if definition.timeout_ms else None,
        )

    async def _run(self, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        if name not in self._names:
            # The host removed the tool after the model saw its definition.
            raise ToolError(format_not_found(name, self._toolbox.active))
        question = HostQuestion(
            ask=lambda id: HostToolCall(id, context.call_id, name, arguments),
            withdraw=HostToolCancel,
            answered_by="host_tool_result",
            updated_by="host_tool_update",
            on_update=lambda line: context.update(_update(line)),
        )
        try:
            line = (await self._questions.ask(question, context.cancel)).body
        except Withdrawn:
            raise ToolError(f'Host tool "{name}" was aborted') from None
        except HostLeft:
            raise ToolError("RPC client disconnected before host tool execution completed") from None
        return _result(name, line)


def _update(line: bytes) -> ToolResult:
    partial = decode_as(HostToolUpdate, line).partial_result
    return ToolResult(partial.content, partial.details)


def _result(name: str, line: bytes) -> ToolResult:
    """Decode the result of a host tool. Raises ToolError if the tool failed or the result is malformed."""
    try:
        answer = decode_as(HostToolResult, line)
        for number, block in enumerate(answer.result.content):
            if isinstance(block, ImageContent):
                check_image(block, f"result.content[{number}]")
    except BadCommand as error:
        raise ToolError(f'Host tool "{name}" returned a malformed result: {error}') from None
    result = answer.result
    if answer.is_error:
        texts = [block.text for block in result.content if isinstance(block, TextContent)]
        raise ToolError("\n".join(texts) or "Host tool execution failed", result.details)
    return ToolResult(result.content, {} if result.details is None else result.details)


class HostUris:
    """Implements `fairlead.tools.files.targets.Uris`. It adds to the URIs that `workspace` can already read."""

    def __init__(self, questions: Questions, workspace: Workspace) -> None:
        workspace.uris = beside(self, workspace.uris)
        self._questions = questions
        self._schemes: dict[str, HostUriScheme] = {}

    def replace(self, schemes: Sequence[HostUriScheme]) -> list[str]:
        """Replace all schemes, and return their names."""
        self._schemes = {each.scheme.strip().lower(): each for each in schemes}
        return list(self._schemes)

    def has(self, path: str) -> bool:
        return scheme_of(path) in self._schemes

    async def read(self, uri: str, cancel: CancelToken) -> Document:
        answer = await self._ask("read", uri, None, cancel)
        if answer.content is None:
            raise _make_malformed_error("read", uri, "content: required, but missing")
        details: dict[str, Any] = {"contentType": answer.content_type or "text/plain"}
        immutable = self._scheme(uri).immutable if answer.immutable is None else answer.immutable
        if immutable:
            details["immutable"] = True
        return Document(answer.content, answer.notes or [], details)

    async def write(self, uri: str, content: str, cancel: CancelToken) -> list[str]:
        scheme = self._scheme(uri)
        if not scheme.writable:
            raise ToolError(f"{uri} cannot be written: its host offers {scheme_of(uri)}:// for reading only.")
        answer = await self._ask("write", uri, content, cancel)
        return answer.notes or []

    def _scheme(self, uri: str) -> HostUriScheme:
        # Missing if the host removed the scheme during a call. Then the defaults apply.
        return self._schemes.get(scheme_of(uri)) or HostUriScheme(scheme=scheme_of(uri))

    async def _ask(
        self, operation: Literal["read", "write"], uri: str, content: str | None, cancel: CancelToken
    ) -> HostUriResult:
        """Ask the host, and return its answer. Raises ToolError if the operation failed or the answer is malformed."""
        question = HostQuestion(
            ask=lambda id: HostUriRequest(id, operation, uri, UNSET if content is None else content),
            withdraw=HostUriCancel,
            answered_by="host_uri_result",
        )
        try:
            answer = decode_as(HostUriResult, (await self._questions.ask(question, cancel)).body)
        except Withdrawn:
            raise ToolError(f"Host URI {operation} for {uri} was aborted") from None
        except HostLeft:
            raise ToolError("RPC client disconnected before host URI request completed") from None
        except BadCommand as error:
            raise _make_malformed_error(operation, uri, str(error)) from None
        if answer.is_error:
            raise ToolError(answer.error or answer.content or f"Host URI {operation} failed for {uri}")
        return answer


def _make_malformed_error(operation: str, uri: str, problem: str) -> ToolError:
    return ToolError(f"The host returned a malformed result for the {operation} of {uri}: {problem}")


def _set_host_tools(server: PiServer, command: SetHostTools) -> HostToolNames:
    return HostToolNames(server.host_tools.replace(command.tools))


def _set_host_uri_schemes(server: PiServer, command: SetHostUriSchemes) -> HostUriSchemes:
    return HostUriSchemes(server.host_uris.replace(command.schemes))


ROUTES: tuple[RequestRoute, ...] = (
    RequestRoute(SetHostTools, _set_host_tools),
    RequestRoute(SetHostUriSchemes, _set_host_uri_schemes),
)


FOR_SESSION = "Approve for session"
#: The first options of every approval dialog. Hosts recognize it by them. One for each rule that is offered follows. Any other
#: answer counts as a denial.
APPROVALS: Mapping[str, ApprovalAnswer] = {
    "Approve": Allow(),
    FOR_SESSION: Allow(for_session=True),
    "Deny": Deny(),
}

#: The variable that turns on titles in profiles that send them on request, and the values that do so.
TITLE_SWITCH, ON = "PI_RPC_EMIT_TITLE", frozenset({"1", "true", "yes", "on"})


#: The longest timeout, in seconds, that the timers of hosts support (2^31 ms). Many fire immediately if it is longer.
LONGEST_TIMEOUT = 2**31 / 1000


class WireUi:
    """Implements `fairlead.core.runtime.Ui`. It emits an event when a dialog starts and when it ends."""

    #: Hosts show lines of text alone.
    canvas = None

    def __init__(
        self,
        questions: Questions,
        send: Callable[[Frame], None],
        emit: Callable[[Event], None],
        profile: Profile,
        env: Mapping[str, str],
    ) -> None:
        self._questions = questions
        self._send = send
        self._emit = emit
        self._withdraw = _cancel if profile.withdraws_dialogs else None
        is_on = env.get(TITLE_SWITCH, "").strip().lower() in ON
        self._has_titles = profile.titles == "always" or (profile.titles == "on request" and is_on)

    @property
    def available(self) -> bool:
        return self._questions.can_be_asked

    # Asking

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        """Return the chosen option, or None. A host may also answer with another text."""
        return await self._ask("select", title, timeout, cancel, options=list(options))

    async def confirm(
        self, title: str, message: str = "", *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> bool:
        return bool(await self._ask("confirm", title, timeout, cancel, message=message))

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> str | None:
        return await self._ask("input", title, timeout, cancel, placeholder=placeholder)

    async def editor(self, title: str, prefill: str | None = None, *, cancel: CancelToken | None = None) -> str | None:
        return await self._ask("editor", title, None, cancel, prefill=prefill)

    async def approve(
        self, request: ApprovalRequest, *, timeout: float | None = None, cancel: CancelToken | None = None
    ) -> ApprovalAnswer | None:
        offer = request.rules
        answers = {**APPROVALS}
        if offer is not None:
            answers |= {f"Always approve {offer.describe(rule)}": Allow(rule=rule) for rule in map(NewRule, offer.patterns)}
        return await self._ask(
            "select",
            "\n\n".join(filter(None, (request.title, request.message, _coverage(request.scope)))),
            timeout,
            cancel,
            partial(_approval, answers, offer),
            options=list(answers),
            rules=None if offer is None else list(offer.patterns),
            approval=True,
            tool_name=request.tool_name,
            tool_call_id=request.call_id,
            arguments=request.arguments,
            diff=request.diff,
            subagent_id=request.subagent,
        )

    async def _ask(
        self,
        kind: UiPromptKind,
        title: str,
        timeout: float | None,
        cancel: CancelToken | None,
        read: Callable[[bytes], Any] | None = None,
        **fields: Any,
    ) -> Any:
        """Show a dialog, and return the answer, as `read` decodes it, or None."""
        read = read or partial(_answer, kind)
        cancel = cancel or CancelToken()
        if cancel.fired or not self.available:
            return None
        if timeout is not None and not timeout < LONGEST_TIMEOUT:  # infinite, or not a number
            timeout = None
        limit = None if timeout is None else max(1, round(timeout * 1000))
        question = HostQuestion(
            ask=lambda ident: _request(kind, ident, title=title, timeout=limit, **fields),
            withdraw=self._withdraw,
            answered_by="extension_ui_response",
            timeout=timeout,
            new_id=_new_id,
            check=read,
        )
        self._emit(UiPromptStart(kind, title))
        try:
            return read((await self._questions.ask(question, cancel)).body)
        except (Unanswered, BadCommand):
            return None
        finally:
            self._emit(UiPromptEnd(kind, title))

    # Showing

    def notify(self, message: str, kind: NotifyKind | None = None) -> None:
        self._show("notify", message=message, notify_type=kind)

    def set_status(self, key: str, text: str | None) -> None:
        self._show("setStatus", status_key=key, status_text=text)

    def set_widget(self, key: str, lines: Sequence[str] | None, placement: Placement | None = None) -> None:
        shown = None if lines is None else list(lines)
        self._show("setWidget", widget_key=key, widget_lines=shown, widget_placement=placement)

    def set_title(self, title: str) -> None:
        if self._has_titles:
            self._show("setTitle", title=title)

    def set_editor_text(self, text: str) -> None:
        self._show("set_editor_text", text=text)

    def open_url(self, url: str, instructions: str | None = None) -> None:
        self._show("open_url", url=url, instructions=instructions)

    def _show(self, method: UiMethod, **fields: Any) -> None:
        self._send(_request(method, _new_id(), **fields))


def _answer(kind: UiPromptKind, line: bytes) -> str | bool | None:
    """Decode the answer in a line. None if the user dismissed the dialog. Raises BadCommand if the answer is missing."""
    response = decode_as(ExtensionUiResponse, line)
    if response.cancelled:
        return None
    field, answer = ("confirmed", response.confirmed) if kind == "confirm" else ("value", response.value)
    if answer is None:
        raise BadCommand(f"{field}: required, unless the question is cancelled; it counts as cancelled now")
    return answer


def _approval(answers: Mapping[str, ApprovalAnswer], offer: RuleOffer | None, line: bytes) -> ApprovalAnswer | None:
    """Decode the answer to an approval in a line. Only the exact text of an option that allows the call does so.

    Raises BadCommand if it is missing, or names a rule that cannot be written. Then it is not consent.
    """
    chosen = _answer("select", line)
    if chosen is None:
        return None
    response, answer = decode_as(ExtensionUiResponse, line), answers.get(str(chosen), Deny())
    for_session = answer.for_session or response.for_session is True
    if isinstance(answer, Deny):
        return Deny(response.reason or "", for_session)
    rule = answer.rule
    if response.rule is not None:
        rule = NewRule(response.rule, response.everywhere is True)
        problem = "No rule can be written for this call." if offer is None else offer.find_problem(rule)
        if problem is not None:
            raise BadCommand(f"rule: {problem}")
    return Allow(for_session, response.arguments, rule)


def _coverage(scope: str) -> str:
    """Return what the option to approve for the session means. Hosts compare the text of the option itself."""
    return f'"{FOR_SESSION}" covers {scope}.' if scope else ""


def _request(method: UiMethod, ident: str, **fields: Any) -> ExtensionUiRequest:
    """Return the frame, without the fields that are None."""
    given = {name: UNSET if value is None else value for name, value in fields.items()}
    return ExtensionUiRequest(id=ident, method=method, **given)


def _cancel(ident: str, target: str) -> ExtensionUiRequest:
    return ExtensionUiRequest(id=ident, method="cancel", target_id=target)


def _new_id() -> str:
    return str(uuid4())
