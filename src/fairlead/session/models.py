"""The models, as a session sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from fairlead.core.model import Model, ModelStream, Request, StreamEvent
from fairlead.core.partial_message import PartialMessage
from fairlead.core.runtime import Cancel
from fairlead.models.context_windows import ContextWindows


class Models(Protocol):
    """The models a session may use."""

    def available(self) -> list[Model]:
        """The models for which there are credentials."""
        ...

    def find(self, provider: str, model_id: str) -> Model | None: ...

    def providers(self) -> list[tuple[str, bool]]:
        """The providers, and whether there are credentials for each."""
        ...

    def known(self, model: Model) -> ModelStream | None:
        """How to ask the model, if that is known already."""
        ...

    async def stream(self, model: Model) -> ModelStream:
        """How to ask the model. May take long, if the key is the output of a command. Raises NoCredentials."""
        ...

    @property
    def windows(self) -> ContextWindows:
        """What servers said about their context windows. All sessions of a process share it."""
        ...

    async def served_window(self, model: Model) -> int | None:
        """Ask the server of `model` how large its context window is; None if it does not say. Raises nothing."""
        ...


class OneModel:
    """A single model, and how to ask it: for tests, demonstrations, and hosts that bring their own model."""

    def __init__(self, model: Model, stream: ModelStream) -> None:
        self._model = model
        self._stream = stream
        self.windows = ContextWindows()

    def available(self) -> list[Model]:
        return [self._model]

    def find(self, provider: str, model_id: str) -> Model | None:
        return self._model if (provider, model_id) == (self._model.provider, self._model.id) else None

    def providers(self) -> list[tuple[str, bool]]:
        return [(self._model.provider, True)]

    def known(self, model: Model) -> ModelStream | None:
        return self._stream

    async def stream(self, model: Model) -> ModelStream:
        return self._stream

    async def served_window(self, model: Model) -> int | None:
        return None


def failing(model: Model, error: str, timestamp: int) -> ModelStream:
    """The stream of a model that cannot be asked: an answer that says why."""
    partial = PartialMessage(model, timestamp)
    partial.fail(error)
    return _ended(partial)


def stopped(model: Model, timestamp: int) -> ModelStream:
    """The stream of a model that is not asked any more, because the run was aborted."""
    partial = PartialMessage(model, timestamp)
    partial.abort()
    return _ended(partial)


def _ended(partial: PartialMessage) -> ModelStream:
    async def stream(request: Request, cancel: Cancel) -> AsyncIterator[list[StreamEvent]]:
        yield partial.take()

    return stream
