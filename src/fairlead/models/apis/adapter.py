"""What the adapters of all APIs share: how one is made, and how it answers a request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from fairlead.core.messages import ModelMessage
from fairlead.core.model import Model, PartialMessage, Request, StreamEvent
from fairlead.core.runtime import Cancel
from fairlead.models.apis.history import Continued
from fairlead.models.apis.stream import run
from fairlead.models.endpoint import Endpoint
from fairlead.models.http.client import Http, HttpRequest


class Reader(Protocol):
    """Builds a message from the events of one answer."""

    def read(self, event: bytes, data: bytes, /) -> None:
        """Take one event. Raises ValueError or a msgspec error if it cannot be read; then it is skipped."""
        ...

    def closed(self) -> None:
        """The answer ended before the message did: finish it, if enough has come."""
        ...


class Adapter(ABC):
    """A model behind one API. Keep it for a whole conversation: it remembers the encoding of earlier messages."""

    def __init__(
        self,
        model: Model,
        endpoint: Endpoint,
        http: Http,
        now_ms: Callable[[], int],
        thinking_budgets: Mapping[str, int] | None = None,
    ) -> None:
        self._model = model
        self._endpoint = endpoint
        self._http = http
        self._now_ms = now_ms
        #: Tokens by thinking level, where the user named them and the API takes a number.
        self._budgets = dict(thinking_budgets or {})
        #: What the provider takes of the messages of the last request.
        self._history: Continued[ModelMessage] = Continued()
        self._set_up()

    def __call__(self, request: Request, cancel: Cancel) -> AsyncIterator[list[StreamEvent]]:
        partial = PartialMessage(self._model, self._now_ms())
        reader = self._reader(partial)
        return run(self._http, lambda: self._request(request), partial, reader.read, cancel, reader.closed, request.interceptor)

    def _longest_answer(self, request: Request) -> int:
        """How many tokens the answer may have: what the request says, else the model's `maxTokens`; 0 if neither says."""
        return self._model.max_tokens if request.max_tokens is None else request.max_tokens

    @abstractmethod
    def _set_up(self) -> None:
        """Prepare what this API needs beside."""

    @abstractmethod
    def _request(self, request: Request) -> HttpRequest:
        """The request over HTTP."""

    @abstractmethod
    def _reader(self, partial: PartialMessage) -> Reader:
        """Something that reads the answer into `partial`."""
