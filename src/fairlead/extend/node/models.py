"""Providers of extensions that run in the Node process: model calls, logins, and models that an extension calls itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from fairlead.core.messages import ThinkingContent, ToolCall, Usage
from fairlead.core.model import (
    VIRTUAL_API,
    BlockDelta,
    BlockEnd,
    BlockStart,
    Interceptor,
    Model,
    ModelMessage,
    ModelRequest,
    ModelStream,
    StreamEnd,
    StreamEvent,
    StreamStart,
    ToolSpec,
)
from fairlead.core.runtime import CancelToken
from fairlead.errors import FairleadError, ProviderError
from fairlead.extend.extensions.calling import Deadline
from fairlead.extend.extensions.context import Context
from fairlead.extend.extensions.values import convert, object_or_empty
from fairlead.extend.node.bridge import BridgeLost, RemoteError, abortable
from fairlead.extend.node.call_options import CallOptions
from fairlead.extend.node.tools import strictness
from fairlead.models.added_logins import prepare_key
from fairlead.models.providers import LoginAuth
from fairlead.session.asyncio_runtime import AsyncioRuntime

if TYPE_CHECKING:
    from fairlead.core.messages import AssistantMessage
    from fairlead.extend.extensions.values import Piece, ProviderStream
    from fairlead.extend.node.remote import RemoteExtensions
    from fairlead.models.added_logins import LoginUi

#: Seconds that a model's stream has to end after it was aborted.
_ABORT_SECONDS = 2.0


class ExtensionCall:
    """A call of a model by an extension. `report` gets the pieces of the answer as they arrive.

    `params` has pi's `context` (`systemPrompt`, `messages`, `tools`) and `options`, and in `wanted` the functions among the
    options: `payload`, `response` and `event`. It is an `Interceptor` that calls them.
    """

    def __init__(self, remote: RemoteExtensions, model: Model, params: Mapping[str, Any], report: Callable[[Any], None]) -> None:
        self._remote = remote
        self._model = model
        self._number: int = params["number"]
        self._given: dict[str, Any] = params.get("context") or {}
        self.options: dict[str, Any] = params.get("options") or {}
        self._wanted: list[str] = params.get("wanted") or []
        self._report = report
        self._cancel = CancelToken()
        self._limits = CallOptions(self.options, model)
        #: Whether an extension answers: its provider gets the options and applies them. A virtual model is asked by us.
        is_added = remote.engine.host.registry.added.stream(model) is not None
        self._is_own = is_added and model.api != VIRTUAL_API
        self._may_repeat = not is_added
        #: The request as it is sent, also in later attempts.
        self._payload: dict[str, Any] | None = None
        #: Whether the response has begun, and the clock until then.
        self._is_answered = False
        self._clock: asyncio.Timeout | None = None

    async def answer(self) -> AssistantMessage:
        """Return the model's message, also one that says that the call failed or was aborted. Raises FairleadError."""
        return await abortable(self._read(), self._cancel, _ABORT_SECONDS)

    async def _read(self) -> AssistantMessage:
        """Ask the model, again if the options say so."""
        stream = await self._remote.engine.session.models.stream(self._model, self.options.get("apiKey") or None)
        request, attempts = self._request(), 1
        while True:
            end = await self._attempt(stream, request, attempts)
            delay = self._delay(attempts, end)
            if delay is None:
                break
            await AsyncioRuntime().sleep(delay, self._cancel)
            attempts += 1
        if end is None:
            raise ProviderError("Request timed out.")
        return end.message

    def _delay(self, attempts: int, end: StreamEnd | None) -> float | None:
        """Return how many seconds to wait before another attempt; None if there is none. Raises ProviderError."""
        return self._limits.delay(attempts, end) if self._may_repeat and not self._is_answered else None

    async def _attempt(self, stream: ModelStream, request: ModelRequest, attempts: int) -> StreamEnd | None:
        """Ask the model once. Returns None if its server did not begin to respond in time."""
        try:
            async with asyncio.timeout(None) as self._clock:
                async for batch in stream(request, self._cancel):
                    end = batch[-1] if batch else None
                    if isinstance(end, StreamEnd) and self._delay(attempts, end) is not None:
                        return end  # which the extension does not see
                    pieces = [piece for event in batch if (piece := _piece(event)) is not None]
                    if pieces:
                        self._report(pieces)
                    if isinstance(end, StreamEnd):
                        return end
        except TimeoutError:
            if self._clock is not None and self._clock.expired():
                return None
            raise
        raise ProviderError("The model gave no answer.")

    def _request(self) -> ModelRequest:
        given, options = self._given, self.options
        messages = [message for message in given.get("messages") or () if message.get("role") != "system"]
        system = [message for message in given.get("messages") or () if message.get("role") == "system"]
        prompt = given.get("systemPrompt") or "\n\n".join(str(message.get("content") or "") for message in system)
        tools = [*(given.get("tools") or ()), *(tool for message in system for tool in message.get("tools") or ())]
        return ModelRequest(
            system_prompt=prompt,
            messages=convert(list[ModelMessage], messages, "messages"),
            tools=list(map(_make_spec, tools)),
            thinking=self._model.clamp(options.get("reasoning") or "off"),
            max_tokens=options.get("maxTokens"),
            session_id=self._limits.session_id,
            interceptor=self if self._wanted or options else None,
            thinking_budgets=self._limits.thinking_budgets,
        )

    # As an interceptor

    async def request(self, payload: dict[str, Any], headers: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
        if self._payload is None or not self._may_repeat:
            if not self._is_own:
                self._limits.apply(payload)
            changed = await self._call("payload", payload)
            self._payload = cast("dict[str, Any]", payload if changed is None else changed)
        if self._may_repeat and self._limits.timeout is not None:
            self._set_clock(asyncio.get_running_loop().time() + self._limits.timeout)
        return self._payload, self._limits.headers(headers)

    async def response(self, status: int, headers: Mapping[str, str]) -> None:
        self._set_clock(None)
        if status < 400:
            self._is_answered = True
            await self._call("response", {"status": status, "headers": headers})

    def _set_clock(self, end: float | None) -> None:
        if self._clock is not None and not self._clock.expired():
            self._clock.reschedule(end)

    @property
    def sees_stream(self) -> bool:
        return "event" in self._wanted

    async def stream_event(self, model: Model, data: Any) -> None:
        await self._call("event", data)

    async def _call(self, kind: str, value: Any) -> Any:
        """Call a function in the options. Raises ProviderError if it fails, so that the call of the model fails."""
        if kind not in self._wanted:
            return None
        context = Context(self._remote.engine, Deadline(None))
        try:
            return await self._remote.call("option", {"number": self._number, "kind": kind, "value": value}, context)
        except (RemoteError, BridgeLost) as error:
            raise ProviderError(str(error)) from error


def _make_spec(tool: Mapping[str, Any]) -> ToolSpec:
    """Return a tool of an extension's call as the model sees it."""
    sampling = strictness(tool.get("constrainedSampling"))
    return ToolSpec(tool["name"], tool.get("description", ""), tool["parameters"], sampling)


def _piece(event: StreamEvent) -> dict[str, Any] | None:
    """Return what an event adds to the answer, for the Node process."""
    match event:
        case StreamStart():
            return {"type": "start", "message": event.message}
        case BlockStart():
            return {"type": "block", "index": event.index, "block": event.block}
        case BlockDelta():
            return {"type": "delta", "index": event.index, "delta": event.delta}
        case BlockEnd():
            return {"type": "end", "index": event.index, "block": event.block}
        case _:
            return None


class StreamContext(Context):
    """The context of a call in which an extension asks its model. `events` gets what the model's answer consists of."""

    def __init__(self, remote: RemoteExtensions, interceptor: Interceptor | None) -> None:
        super().__init__(remote.engine, Deadline(None))
        #: pi's stream events; None ends them.
        self.events: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()
        self._interceptor = interceptor

    async def intercept(self, kind: str, value: Any) -> Any:
        """Show handlers what the extension sends or receives. Returns what to send instead, if `kind` is `payload`."""
        if self._interceptor is None:
            return None
        if kind == "payload":
            return (await self._interceptor.request(convert(dict[str, Any], value, "payload"), {}))[0]
        if kind == "response":
            response = object_or_empty(value)
            headers = {str(name): str(each) for name, each in object_or_empty(response.get("headers")).items()}
            await self._interceptor.response(convert(int, response.get("status"), "status"), headers)
        return None


def remote_stream(remote: RemoteExtensions, number: int) -> ProviderStream:
    """Return a stream that has an extension call its model."""

    async def stream(model: Model, request: ModelRequest, cancel: CancelToken) -> AsyncIterator[Piece]:
        context = StreamContext(remote, request.interceptor)
        system = {"role": "system", "content": request.system_prompt, "tools": request.tools, "timestamp": 0}
        head = [system] if request.system_prompt or request.tools else []
        transcript = {"systemPrompt": request.system_prompt, "messages": [*head, *request.messages], "tools": request.tools}
        await prepare_key(remote.engine.host.registry, model.provider)
        mine = request.interceptor.options if isinstance(request.interceptor, ExtensionCall) else {}
        options = {"reasoning": request.thinking, "maxTokens": request.max_tokens, **_auth(remote, model), **mine}
        if (base_url := options.pop("baseUrl", None)) is not None:
            model = replace(model, base_url=base_url)
        with remote.signals.of_call(cancel) as signal:
            given = {"number": number, "model": model, "context": transcript, "signal": signal, "options": options}
            given["isSeen"] = request.interceptor is not None
            answering = asyncio.ensure_future(remote.call("stream", given, context))
            answering.add_done_callback(lambda _: context.events.put_nowait(None))
            try:
                while (event := await context.events.get()) is not None:
                    for piece in _pieces(event):
                        yield piece
                answer = await answering
            finally:
                answering.cancel()
        if not isinstance(answer, dict):
            raise ProviderError("The extension's model returned something that is not a message.")
        answer = cast("dict[str, Any]", answer)
        if answer.get("stopReason") in ("error", "aborted"):
            raise ProviderError(str(answer.get("errorMessage") or "The extension's model failed."))
        yield convert(Usage, answer.get("usage") or {}, "usage")

    return stream


def _auth(remote: RemoteExtensions, model: Model) -> dict[str, Any]:
    """Return the key, headers and address for a model that an extension asks; nothing if there is no key, as in pi."""
    try:
        auth = remote.engine.host.registry.auth(model)
    except FairleadError:
        return {}
    return {"apiKey": auth.api_key, "headers": auth.headers, "baseUrl": auth.base_url}


def _pieces(event: Mapping[str, Any]) -> list[Piece]:
    """Return what an event of pi's streams adds to the answer."""
    match event.get("type"):
        case "text_delta":
            return [str(event.get("delta", ""))]
        case "thinking_delta":
            return [ThinkingContent(str(event.get("delta", "")))]
        case "thinking_end" if event.get("signature"):
            return [ThinkingContent("", str(event["signature"]))]
        case "toolcall_end":
            return [convert(ToolCall, event.get("toolCall"), "toolCall")]
        case _:
            return []


class LoginContext(Context):
    """The context of a call in which an extension logs in."""

    def __init__(self, remote: RemoteExtensions, ui: LoginUi) -> None:
        super().__init__(remote.engine, Deadline(None))
        self._user = ui

    def show(self, news: Mapping[str, Any]) -> None:
        """Show the user a page to open, or what is happening."""
        if news.get("url"):
            instructions = news.get("instructions")
            self._user.open_url(str(news["url"]), None if instructions is None else str(instructions))
        elif news.get("message"):
            self._user.notify(str(news["message"]))

    async def ask(self, question: Mapping[str, Any]) -> str | None:
        """Ask the user to type something or to choose one of the options."""
        message = str(question.get("message") or "")
        if question.get("options") is not None:
            return await self._user.select(message, convert(list[str], question["options"], "options"))
        placeholder = question.get("placeholder")
        return await self._user.input(message, None if placeholder is None else str(placeholder))


class RemoteLogin:
    """The login of one provider. Implements `fairlead.models.added_logins.AddedLogin`."""

    def __init__(self, remote: RemoteExtensions, number: int) -> None:
        self._remote = remote
        self._number = number

    async def log_in(self, ui: LoginUi) -> Mapping[str, Any]:
        return await self._remote.call("login", {"number": self._number}, LoginContext(self._remote, ui))

    async def renew(self, stored: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._call("renewLogin", stored)

    async def auth(self, stored: Mapping[str, Any]) -> LoginAuth:
        found = await self._call("loginAuth", stored)
        headers = {name: value for name, value in object_or_empty(found.get("headers")).items() if value is not None}
        base_url = convert(str | None, found.get("baseUrl"), "baseUrl")
        return LoginAuth(found.get("apiKey"), convert(dict[str, str], headers, "headers"), base_url)

    async def _call(self, method: str, stored: Mapping[str, Any]) -> Any:
        remote = self._remote
        context = Context(remote.engine, Deadline(None))
        async with asyncio.timeout(remote.engine.host.timeout):
            return await remote.call(method, {"number": self._number, "credentials": stored}, context)
