"""What a host serves to the agent: its tools and URIs, and answers to questions and approvals.

Without a handler, every question is answered at once with "cancelled" and every approval with "deny", so a program without a
user never hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Literal, TypeAlias, cast

from msgspec import UNSET, Struct

from fairlead.client.decoding import Event
from fairlead.client.events import ExtensionUiRequest, HostToolCall, HostToolCancel, HostUriCancel, HostUriRequest
from fairlead.core.approval import Allow, Deny
from fairlead.core.functions import FunctionTool, as_tool_result
from fairlead.core.tool import ToolResult
from fairlead.errors import ClientError, ToolError
from fairlead.protocol.pi import frames
from fairlead.protocol.pi.host_requests import (
    ExtensionUiResponse,
    HostToolDefinition,
    HostToolResult,
    HostToolUpdate,
    HostUriResult,
    HostUriScheme,
    ReplyLine,
)

log = logging.getLogger("fairlead.client")

#: The requests that expect an answer.
QUESTIONS = ("select", "confirm", "input", "editor")
#: What fairlead and omp offer when they ask whether a tool may run.
APPROVE, APPROVE_FOR_SESSION, DENY = "Approve", "Approve for session", "Deny"

#: `Allow` and `Deny` say more than a word: other arguments for the tool, or a reason for the model.
Decision: TypeAlias = Allow | Deny | Literal["allow", "allow_session", "deny"] | bool | None
#: A text for `select`, `input` and `editor`, true or false for `confirm`, and None for no answer.
Answer: TypeAlias = str | bool | None
QuestionHandler: TypeAlias = Callable[[ExtensionUiRequest], Answer | Awaitable[Answer]]


class Approval(Struct, kw_only=True):
    """A tool call that waits for the user's approval."""

    #: What is about to happen, for people.
    title: str
    #: The tool, its call and its arguments; None if the agent tells only the title.
    tool_name: str | None
    tool_call_id: str | None
    arguments: dict[str, Any] | None
    #: The change as a unified diff, if the tool changes a file and the agent shows it.
    diff: str | None
    #: The sub-agent that makes the call; None if the session itself does, or if the agent does not tell.
    subagent_id: str | None = None
    #: The patterns of the rules that `Allow(rule=...)` may write to the user's settings; empty if it cannot write any.
    rules: Sequence[str] = ()
    #: The question as it came.
    request: ExtensionUiRequest


ApprovalHandler: TypeAlias = Callable[[Approval], Decision | Awaitable[Decision]]


class HostCall:
    """A running call of a host tool, for a function that wants to report progress or to notice a cancellation."""

    def __init__(self, call: HostToolCall, report: Callable[[str | ToolResult], None]) -> None:
        self.id = call.id
        self.tool_call_id = call.tool_call_id
        self.tool_name = call.tool_name
        #: Set when the agent no longer waits for the result. An async function is also cancelled.
        self.cancelled = threading.Event()
        self._report = report

    def progress(self, output: str | ToolResult) -> None:
        """Show all output so far, not only what is new. It may be called from any thread, and never blocks."""
        self._report(output)


class UriContent(Struct, kw_only=True):
    """The content of a URI, for a reader that says more than the text."""

    text: str
    #: `text/plain` if None.
    content_type: str | None = None
    #: Notes for the model, which follow the text.
    notes: list[str] | None = None
    #: Whether the content never changes; None: what the scheme says.
    immutable: bool | None = None


UriReader: TypeAlias = Callable[[str], str | UriContent | Awaitable[str | UriContent]]
UriWriter: TypeAlias = Callable[[str, str], Awaitable[None] | None]


class HostUris:
    """The URIs that functions of the host serve, by scheme."""

    def __init__(self) -> None:
        self._schemes: dict[str, HostUriScheme] = {}
        self._readers: dict[str, UriReader] = {}
        self._writers: dict[str, UriWriter] = {}
        #: Whether schemes were added that the agent does not know yet.
        self.has_news = False

    def add_reader(self, scheme: str, function: UriReader, description: str | None, immutable: bool | None) -> None:
        """Serve the URIs of a scheme with a function, instead of the one before, if any."""
        declared = self._declare(scheme)
        declared.description, declared.immutable = description, immutable
        self._readers[declared.scheme] = function

    def add_writer(self, scheme: str, function: UriWriter) -> None:
        """Write to the URIs of a scheme with a function, instead of the one before, if any."""
        declared = self._declare(scheme)
        declared.writable = True
        self._writers[declared.scheme] = function

    def schemes(self) -> Sequence[HostUriScheme]:
        """Return all schemes in the form of `set_host_uri_schemes`."""
        return list(self._schemes.values())

    def serves(self, uri: str) -> bool:
        return _scheme(uri) in self._schemes

    async def result(self, request: HostUriRequest) -> HostUriResult:
        """Return the answer to a request. It never raises because of what the host's function does."""
        scheme = _scheme(request.url)
        try:
            if request.operation == "write":
                if scheme not in self._writers:
                    raise ToolError(f"{scheme}:// cannot be written")
                content = "" if request.content is UNSET else request.content
                await call_handler(self._writers[scheme], request.url, content)
                return HostUriResult(id=request.id)
            if scheme not in self._readers:
                raise ToolError(f"{scheme}:// cannot be read")
            value = await call_handler(self._readers[scheme], request.url)
            told = value if isinstance(value, UriContent) else UriContent(text=str(value))
            return HostUriResult(
                id=request.id,
                content=told.text,
                content_type=told.content_type,
                notes=told.notes,
                immutable=told.immutable,
            )
        except Exception as error:
            if not isinstance(error, ToolError):
                log.debug("the host's function for %s failed", request.url, exc_info=True)
            return HostUriResult(id=request.id, is_error=True, error=str(error) or type(error).__name__)

    def _declare(self, scheme: str) -> HostUriScheme:
        self.has_news = True
        return self._schemes.setdefault(scheme.lower(), HostUriScheme(scheme=scheme.lower()))


class HostServices:
    """Answers what the agent asks of its host.

    `send` writes a reply. `post` does so without waiting for an agent that is slow to read, and may drop it then. `start_task`
    runs a coroutine in the background.
    """

    def __init__(
        self,
        send: Callable[[ReplyLine], Awaitable[None]],
        post: Callable[[ReplyLine], None],
        start_task: Callable[[Coroutine[Any, Any, None]], asyncio.Task[Any]],
    ) -> None:
        self._send = send
        self._post = post
        self._start_task = start_task
        self._tools: dict[str, FunctionTool] = {}
        self._limits: dict[str, float | None] = {}
        self._open: dict[str, tuple[asyncio.Task[Any], HostCall | None]] = {}
        self.on_question: QuestionHandler | None = None
        self.on_approval: ApprovalHandler | None = None
        #: Whether tools were added that the agent does not know yet.
        self.has_news = False
        self.uris = HostUris()

    # Tools

    def add_tool(self, tool: FunctionTool, timeout: float | None) -> None:
        """Add a tool, or replace the one of the same name. `timeout` is in seconds."""
        self._tools[tool.name] = tool
        self._limits[tool.name] = timeout
        self.has_news = True

    def definitions(self) -> Sequence[HostToolDefinition]:
        """Return all tools in the form of `set_host_tools`."""
        return [
            HostToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters=tool.parameters,
                timeout_ms=None if (limit := self._limits[tool.name]) is None else limit * 1000,
            )
            for tool in self._tools.values()
        ]

    # What comes

    def handle(self, event: Event) -> None:
        """Answer an event that asks for something."""
        match event:
            case HostToolCall() if event.tool_name in self._tools:
                self._serve_call(event)
            case HostUriRequest() if self.uris.serves(event.url):
                self._open[event.id] = (self._start_task(self._serve_uri(event)), None)
            case HostToolCancel() | HostUriCancel():
                self._cancel(event.target_id)
            case ExtensionUiRequest(method="cancel"):
                self._cancel(str(event.target_id))
            case ExtensionUiRequest() if event.method in QUESTIONS:
                self._open[event.id] = (self._start_task(self._answer(event)), None)
            case _:
                pass

    def end(self) -> None:
        """Stop everything, because the agent is gone."""
        for id in list(self._open):
            self._cancel(id)

    def _cancel(self, id: str) -> None:
        task, call = self._open.pop(id, (None, None))
        if call is not None:
            call.cancelled.set()
        if task is not None:
            task.cancel()

    # A call

    def _serve_call(self, event: HostToolCall) -> None:
        loop, own_thread = asyncio.get_running_loop(), threading.get_ident()

        def report(output: str | ToolResult) -> None:
            update = HostToolUpdate(id=event.id, partial_result=_as_sent(as_tool_result(output)))
            if threading.get_ident() == own_thread:
                self._report(update)
                return
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._report, update)

        call = HostCall(event, report)
        self._open[event.id] = (self._start_task(self._run(self._tools[event.tool_name], event, call)), call)

    def _report(self, update: HostToolUpdate) -> None:
        if update.id in self._open:
            self._post(update)  # at once, so that it stays ahead of the result

    async def _run(self, tool: FunctionTool, event: HostToolCall, call: HostCall) -> None:
        is_error = False
        try:
            arguments = tool.arguments(event.arguments, call)
            if tool.is_async:
                value = await tool.function(**arguments)
            else:
                value = await in_thread(lambda: tool.function(**arguments))
            result = as_tool_result(value)
        except ToolError as error:
            result, is_error = ToolResult.text(str(error), error.details or None), True
        except Exception as error:
            log.debug("the host tool %s failed", tool.name, exc_info=True)
            result, is_error = ToolResult.text(str(error) or type(error).__name__), True
        self._open.pop(event.id, None)
        await self._reply(HostToolResult(id=event.id, result=_as_sent(result), is_error=is_error or None))

    async def _serve_uri(self, event: HostUriRequest) -> None:
        result = await self.uris.result(event)
        self._open.pop(event.id, None)
        await self._reply(result)

    # A question

    async def _answer(self, event: ExtensionUiRequest) -> None:
        approval = as_approval(event)
        reply = ExtensionUiResponse(id=event.id, cancelled=True)
        try:
            if approval is not None and self.on_approval is not None:
                reply = _decision(event, await call_handler(self.on_approval, approval))
            elif self.on_question is not None:
                reply = _response(event, await call_handler(self.on_question, event))
        except Exception:
            log.exception("the handler of a question failed; the question is cancelled")
        self._open.pop(event.id, None)
        await self._reply(reply)

    async def _reply(self, line: ReplyLine) -> None:
        with contextlib.suppress(ClientError):  # the agent is gone, and no longer waits
            await self._send(line)


def as_approval(event: ExtensionUiRequest) -> Approval | None:
    """Return the approval that a question asks for, or None if it asks for something else."""
    raw = event.raw
    options = event.options or []
    if event.method != "select" or not (isinstance(raw.get("toolName"), str) or {APPROVE, DENY} <= set(options)):
        return None
    arguments: Any = raw.get("arguments")
    return Approval(
        title=event.title or "",
        tool_name=raw.get("toolName"),
        tool_call_id=raw.get("toolCallId"),
        arguments=cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else None,
        diff=raw.get("diff"),
        subagent_id=raw.get("subagentId"),
        rules=tuple(event.rules or ()),
        request=event,
    )


async def in_thread(function: Callable[[], Any]) -> Any:
    """Run a function on a new daemon thread. Unlike a pool, it does not keep the program alive if the function hangs."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def finish(error: BaseException | None, value: Any) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(value)

    def work() -> None:
        value, problem = None, None
        try:
            value = function()
        except BaseException as error:
            problem = RuntimeError("the tool raised StopIteration") if isinstance(error, StopIteration) else error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(finish, problem, value)

    threading.Thread(target=work, name="fairlead-host-tool", daemon=True).start()
    return await done


async def call_handler(handler: Callable[..., Any], *arguments: Any) -> Any:
    """Call a handler: on the event loop if it is a coroutine function, otherwise on a thread, where it may block."""
    if inspect.iscoroutinefunction(handler):
        return await handler(*arguments)
    value = await in_thread(lambda: handler(*arguments))
    return await value if inspect.isawaitable(value) else value


def _scheme(uri: str) -> str:
    return uri.partition(":")[0].lower()


def _as_sent(result: ToolResult) -> frames.ToolResult:
    return frames.ToolResult(result.content, result.details)


def _decision(event: ExtensionUiRequest, decision: Decision) -> ExtensionUiResponse:
    """The answer that stands for a decision. All that is not clearly a yes is a no."""
    options, is_ours = event.options or [], event.approval is True
    if isinstance(decision, Deny) and is_ours:
        for_session = decision.for_session or None
        return ExtensionUiResponse(id=event.id, value=DENY, reason=decision.reason or None, for_session=for_session)
    if not isinstance(decision, Allow):
        allows = decision is True or decision in ("allow", "allow_session")
        if not allows:
            return ExtensionUiResponse(id=event.id, value=DENY)
        decision = Allow(for_session=decision == "allow_session")
    if (decision.arguments is not None or decision.rule is not None) and not is_ours:
        log.warning("the agent cannot change the arguments of a call or write a rule; the call is denied")
        return ExtensionUiResponse(id=event.id, value=DENY)
    value = APPROVE_FOR_SESSION if decision.for_session and APPROVE_FOR_SESSION in options else APPROVE
    rule = None if decision.rule is None else decision.rule.pattern
    everywhere = None if decision.rule is None else decision.rule.everywhere or None
    return ExtensionUiResponse(id=event.id, value=value, arguments=decision.arguments, rule=rule, everywhere=everywhere)


def _response(event: ExtensionUiRequest, answer: Answer) -> ExtensionUiResponse:
    if answer is None:
        return ExtensionUiResponse(id=event.id, cancelled=True)
    if event.method == "confirm":
        return ExtensionUiResponse(id=event.id, confirmed=answer is True)
    if isinstance(answer, str):
        return ExtensionUiResponse(id=event.id, value=answer)
    return ExtensionUiResponse(id=event.id, cancelled=True)
