"""Models of extensions that stand for others: a function of the extension chooses the model of each request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from fairlead.core.messages import AssistantMessage, CustomMessage, ModelMessage, UserMessage
from fairlead.core.model import (
    THINKING_LEVELS,
    VIRTUAL_API,
    Model,
    ModelRequest,
    ModelStream,
    Price,
    StreamEnd,
    StreamEvent,
    ThinkingLevel,
)
from fairlead.core.runtime import CancelToken
from fairlead.errors import BadCommand, ProviderError
from fairlead.extend.extensions.calling import Deadline, error_text
from fairlead.extend.extensions.context import Context
from fairlead.extend.extensions.values import convert, object_or_empty
from fairlead.extend.node.models import ExtensionCall
from fairlead.session.history.entries import CustomEntry
from fairlead.session.selection import failing, make_stopped_stream

if TYPE_CHECKING:
    from fairlead.extend.node.remote import RemoteExtensions

#: The type of the entries that keep what a router remembers, as pi names them.
STATE_ENTRY = "pi.virtual-model-state"


def virtual_model(given: Mapping[str, Any]) -> Model:
    """Return the model that an extension describes. Raises BadCommand or TypeError if the description cannot be used."""
    provider, id = str(given.get("provider") or "").strip(), str(given.get("id") or "").strip()
    if not provider or not id:
        raise BadCommand("Virtual model provider and id must not be empty.")
    levels = convert(list[ThinkingLevel], given.get("thinkingLevels") or ["off"], "thinkingLevels")
    return Model(
        id=id,
        name=str(given.get("name") or id),
        api=VIRTUAL_API,
        provider=provider,
        base_url="",
        reasoning=any(level != "off" for level in levels),
        input=convert(Any, given.get("input") or ["text", "image"], "input"),
        cost=Price(),
        context_window=convert(int, given.get("contextWindow") or 0, "contextWindow"),
        max_tokens=convert(int, given.get("maxTokens") or 0, "maxTokens"),
        thinking_level_map={level: level if level in levels else None for level in THINKING_LEVELS},
    )


def make_routed_stream(remote: RemoteExtensions, number: int, model: Model) -> ModelStream:
    """Return a stream that asks the extension for a model before each request, and then asks that model."""
    return _Router(remote, number, model)


class _Router:
    """The stream of one virtual model."""

    def __init__(self, remote: RemoteExtensions, number: int, model: Model) -> None:
        self._remote = remote
        self._number = number
        self._model = model
        #: The last request of the agent's runs if it failed: its last message, and its answer.
        self._failed: tuple[ModelMessage | None, AssistantMessage] | None = None

    async def __call__(self, request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        # Only the agent's own runs name the conversation, and calls by extensions. Everything else is a request besides.
        is_direct = request.session_id is None or isinstance(request.interceptor, ExtensionCall)
        last = request.messages[-1] if request.messages else None
        session = self._remote.engine.session
        failed, level = None if is_direct else self._take_failure(last), request.thinking
        try:
            target, level = await self._route(request, cancel, failed, is_direct=is_direct)
            stream = await session.models.stream(target)
        except asyncio.CancelledError:
            if not cancel.fired:
                raise
            stream = _make_ended_stream(self._model, None, session.host.now_ms())
        except Exception as error:  # whatever the extension does ends this answer only
            stream = _make_ended_stream(self._model, error_text(error), session.host.now_ms())
        async for batch in stream(replace(request, thinking=level), cancel):
            end = batch[-1] if batch else None
            if isinstance(end, StreamEnd):
                end.message.thinking_level = level
                if not is_direct and end.message.stop_reason == "error":
                    self._failed = last, end.message
            yield batch

    def _take_failure(self, last: ModelMessage | None) -> AssistantMessage | None:
        """Return the answer that failed, if this is another attempt at the same request."""
        failed, self._failed = self._failed, None
        return failed[1] if failed is not None and failed[0] == last else None

    async def _route(
        self, request: ModelRequest, cancel: CancelToken, failed: AssistantMessage | None, *, is_direct: bool
    ) -> tuple[Model, ThinkingLevel]:
        remote = self._remote
        engine = remote.engine
        state = None if is_direct else self._state()
        asked = {
            "model": self._model,
            "thinkingLevel": request.thinking,
            "reason": "direct" if is_direct else self._reason(request, failed),
            "previous": self._find_dispatched(_last_good_answer(request.messages)),
            "failed": self._failure(failed),
            "state": state,
            "messages": [{"role": "system", "content": request.system_prompt, "timestamp": 0}, *request.messages],
        }
        with remote.signals.of_call(cancel) as signal:
            given = {"number": self._number, "request": asked, "signal": signal}
            routing = asyncio.ensure_future(remote.call("route", given, Context(engine, Deadline(None))))
            forget = cancel.on_fire(routing.cancel)
            try:
                async with asyncio.timeout(engine.host.timeout):
                    route = cast("dict[str, Any]", await routing)
            except TimeoutError:
                raise ProviderError(f"It chose no model within {engine.host.timeout:g} seconds.") from None
            finally:
                forget()
        target = self._physical(route.get("provider"), route.get("id"))
        routed = f"Virtual model {self._model.provider}/{self._model.id} routed to {route.get('provider')}/{route.get('id')}"
        if target is None:
            raise ProviderError(f"{routed}, which is not a physical model.")
        if target not in engine.host.registry.available():
            raise ProviderError(f"{routed}, which has no credentials.")
        if not is_direct:
            engine.host.registry.windows.learn(self._model, target.context_window)
            if "state" in route:
                data = {"provider": self._model.provider, "modelId": self._model.id, "state": route["state"]}
                engine.session.history.append_entry(STATE_ENTRY, data)
        return target, target.clamp(convert(ThinkingLevel, route.get("thinkingLevel") or "off", "thinkingLevel"))

    def _reason(self, request: ModelRequest, failed: AssistantMessage | None) -> str:
        if failed is not None:
            return "retry"
        custom = {each.timestamp for each in self._remote.engine.session.messages if isinstance(each, CustomMessage)}
        for message in reversed(request.messages):
            if isinstance(message, AssistantMessage):
                break
            if isinstance(message, UserMessage) and message.timestamp not in custom:
                return "user"
        return "continuation"

    def _state(self) -> Any:
        """Return what the router has last stored on this branch of the conversation."""
        for entry in self._remote.engine.session.history.log.back():
            if isinstance(entry, CustomEntry) and entry.custom_type == STATE_ENTRY:
                data = object_or_empty(entry.data)
                if data.get("provider") == self._model.provider and data.get("modelId") == self._model.id:
                    return data.get("state")
        return None

    def _physical(self, provider: Any, id: Any) -> Model | None:
        found = self._remote.engine.host.registry.find(str(provider), str(id))
        return None if found is None or found.is_virtual else found

    def _find_dispatched(self, answer: AssistantMessage | None) -> dict[str, Any] | None:
        """Return the model that gave an answer and its thinking level; None if the model is not known."""
        model = None if answer is None else self._physical(answer.provider, answer.model)
        if answer is None or model is None:
            return None
        return {"model": model, **({} if answer.thinking_level is None else {"thinkingLevel": answer.thinking_level})}

    def _failure(self, failed: AssistantMessage | None) -> dict[str, Any] | None:
        dispatched = self._find_dispatched(failed)
        return None if dispatched is None else {**dispatched, "message": failed}


def _last_good_answer(messages: list[ModelMessage]) -> AssistantMessage | None:
    answers = (each for each in reversed(messages) if isinstance(each, AssistantMessage))
    return next((each for each in answers if each.stop_reason not in ("error", "aborted")), None)


def _make_ended_stream(model: Model, error: str | None, now_ms: int) -> ModelStream:
    """Return a stream that has ended: with an error, or because it was aborted."""
    return make_stopped_stream(model, now_ms) if error is None else failing(model, error, now_ms)
