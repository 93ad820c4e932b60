"""Which model answers, how much it thinks, and what a session needs from the models."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from fairlead.core.events import ModelSelected, ModelSource, ThinkingLevelChanged
from fairlead.core.model import THINKING_LEVELS, Model, ModelRequest, ModelStream, StreamEvent, ThinkingLevel
from fairlead.core.partial_message import PartialMessage
from fairlead.core.runtime import CancelToken, Interrupted
from fairlead.errors import ModelNotFound
from fairlead.models.context_windows import ContextWindows
from fairlead.session.session_events import Notify

if TYPE_CHECKING:
    from fairlead.session.additions import Extensions
    from fairlead.session.asyncio_runtime import AsyncioRuntime
    from fairlead.session.history.log import Log, ModelChoice


class Models(Protocol):
    """The models a session may use."""

    def available(self) -> list[Model]:
        """The models for which there are credentials."""
        ...

    def find(self, provider: str, model_id: str) -> Model | None: ...

    def providers(self) -> list[tuple[str, bool]]:
        """The providers, and whether there are credentials for each."""
        ...

    def find_open_stream(self, model: Model) -> ModelStream | None:
        """How to ask the model, if that is known already."""
        ...

    async def stream(self, model: Model, api_key: str | None = None) -> ModelStream:
        """How to ask the model, with this key if one is given. May take long, if the key is the output of a command.

        Raises NoCredentials.
        """
        ...

    @property
    def windows(self) -> ContextWindows:
        """What servers said about their context windows. All sessions of a process share it."""
        ...

    async def ask_window(self, model: Model) -> int | None:
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

    def find_open_stream(self, model: Model) -> ModelStream | None:
        return self._stream

    async def stream(self, model: Model, api_key: str | None = None) -> ModelStream:
        return self._stream

    async def ask_window(self, model: Model) -> int | None:
        return None


def failing(model: Model, error: str, timestamp: int) -> ModelStream:
    """The stream of a model that cannot be asked: an answer that says why."""
    partial = PartialMessage(model, timestamp)
    partial.fail(error)
    return _make_ended_stream(partial)


def make_stopped_stream(model: Model, timestamp: int) -> ModelStream:
    """The stream of a model that is not asked any more, because the run was aborted."""
    partial = PartialMessage(model, timestamp)
    partial.abort()
    return _make_ended_stream(partial)


def _make_ended_stream(partial: PartialMessage) -> ModelStream:
    async def stream(request: ModelRequest, cancel: CancelToken) -> AsyncIterator[list[StreamEvent]]:
        yield partial.take()

    return stream


#: Models to cycle through, each with the thinking level to use with it, if one was given.
Scoped = Sequence[tuple[Model, ThinkingLevel | None]]


class Selection:
    """The model and the thinking level of a session. `on_model` and `on_level` are called to write down each choice.

    With `keeps_level`, a level that a model lacks comes back with a model that has it. Otherwise it is lost, and the user's
    default level, if there is one, is in force again with every model that is chosen.
    """

    def __init__(
        self,
        models: Models,
        model: Model | None,
        thinking: ThinkingLevel,
        scoped: Scoped,
        notify: Notify,
        extensions: Extensions,
        runtime: AsyncioRuntime,
        *,
        keeps_level: bool = True,
        default_level: ThinkingLevel | None = None,
    ) -> None:
        self.model = model
        self._extensions = extensions
        self._runtime = runtime
        self._keeps_level = keeps_level
        self._default_level: ThinkingLevel | None = None if keeps_level else default_level
        #: The level that was asked for; the model may not have it.
        self.wanted: ThinkingLevel = thinking
        self._initial = model, thinking
        self._forget_lacking()
        self.on_model: Callable[[Model], None] = lambda model: None
        self.on_level: Callable[[ThinkingLevel], None] = lambda level: None
        self._models = models
        #: The models to cycle through; empty: all.
        self.scoped = scoped
        self._notify = notify

    # Thinking

    @property
    def thinking(self) -> ThinkingLevel:
        """The level in force: what was asked for, as far as the model has it."""
        return self.model.clamp(self.wanted) if self.model is not None else self.wanted

    def levels(self) -> list[ThinkingLevel]:
        """The thinking levels of the model."""
        return self.model.levels() if self.model is not None else ["off"]

    def set_thinking(self, level: ThinkingLevel) -> None:
        """Choose a thinking level. If the model does not have it, the nearest one is in force."""
        before, wanted = self.thinking, self.wanted
        self.wanted = level
        self._forget_lacking()
        if self._keeps_level or self.wanted != wanted:
            self.on_level(self.wanted)
        self._notify_if_changed(before)

    def cycle_thinking(self) -> ThinkingLevel | None:
        """Choose the next level, after the last the first. Returns it; None if the model has only one."""
        levels = self.levels()
        if len(levels) < 2:
            return None
        self.set_thinking(levels[(levels.index(self.thinking) + 1) % len(levels)])
        return self.thinking

    # Models

    def available(self) -> list[Model]:
        """The models for which there are credentials."""
        return self._models.available()

    def providers(self) -> list[tuple[str, bool]]:
        """The providers, and whether there are credentials for each."""
        return self._models.providers()

    def find(self, provider: str, model_id: str) -> Model | None:
        """The model with that id; None if there is none and its provider is not known."""
        return self._models.find(provider, model_id)

    async def stream(self, model: Model, api_key: str | None = None) -> ModelStream:
        """What asks a model, with this key if one is given. Raises ConfigError if it has no credentials."""
        return await self._models.stream(model, api_key)

    async def open_stream(self, model: Model, cancel: CancelToken) -> ModelStream:
        """How the session asks a model: extensions may intercept it. Raises NoCredentials.

        Finding its key may take long; an abort does not wait for it.
        """
        stream = self._models.find_open_stream(model)
        if stream is None:
            try:
                stream = await self._runtime.run_bounded(self._models.stream(model), cancel, timeout=None, grace=0)
            except Interrupted:
                stream = make_stopped_stream(model, self._runtime.now_ms())
        calls = self._extensions.calls
        return stream if calls is None else calls.intercept(stream)

    def window(self, model: Model) -> int:
        """The context window of a model, in tokens: what its server said, or what is declared; 0 if it is not known."""
        return self._models.windows.of(model)

    def set_model(self, provider: str, model_id: str) -> Model:
        """Choose a model, and return it. Raises ModelNotFound."""
        model = self.find(provider, model_id)
        if model is None:
            raise ModelNotFound(f"Model not found: {provider}/{model_id}")
        self._use(model, None, "set")
        return model

    def cycle_model(self) -> tuple[Model, bool] | None:
        """Choose the next model. Returns it, and whether it is from a chosen set; None if there is no other."""
        scoped = bool(self.scoped)
        models: list[tuple[Model, ThinkingLevel | None]] = list(self.scoped)
        if not scoped:
            models = [(model, None) for model in self.available()]
        if len(models) < 2:
            return None
        here = next((i for i, (model, _) in enumerate(models) if model == self.model), -1)
        model, level = models[(here + 1) % len(models)]
        self._use(model, level, "cycle")
        return model, scoped

    # Sessions

    def reset(self) -> None:
        """Choose the model and the level that the session was made with. The caller saves them."""
        model, self.wanted = self._initial
        if model is not None:
            self._change(model, "restore")
        self._forget_lacking()

    def save(self, log: Log) -> None:
        """Save the current choice at the start of a conversation."""
        if self.model is not None:
            log.model_change(self.model.provider, self.model.id)
        log.thinking_level_change(self.thinking)  # the level in force, as pi writes it

    def restore(self, log: Log, *, model: bool = True, level: bool = True) -> list[str]:
        """Choose what a conversation chose last. What is not restored is written down there instead.

        Returns sentences about what cannot be restored: if its model is not available, the present one stays.
        """
        before, problems = self.thinking, list[str]()
        chosen, last_level = self._find_chosen(log), log.thinking_level()
        if chosen is not None and (self.model is None or (chosen.provider, chosen.id) != (self.model.provider, self.model.id)):
            found = self.find(chosen.provider, chosen.id) if model else None
            if found is not None:
                self._change(found, "restore")
            elif self.model is not None:
                self.on_model(self.model)
            if model and found is None:
                instead = f"{self.model.provider}/{self.model.id} answers instead" if self.model else "choose another"
                problems.append(f"The session's model {chosen.provider}/{chosen.id} is not available: {instead}.")
        if last_level is not None and last_level != self.wanted:
            if level and last_level in THINKING_LEVELS:
                self.wanted = last_level
                self._forget_lacking()
            else:
                self.on_level(self.wanted)
        self._notify_if_changed(before)
        return problems

    def restore_added(self, log: Log) -> None:
        """Choose the model that a conversation chose last, if it has become known only now."""
        chosen = self._find_chosen(log)
        found = None if chosen is None else self.find(chosen.provider, chosen.id)
        if found is not None and (self.model is None or found.is_virtual):
            self._change(found, "restore")

    # Inside

    def _find_chosen(self, log: Log) -> ModelChoice | None:
        """Return the model that a conversation chose last. Answers after the choice of a virtual model name other models."""
        answered, chosen = log.model(), log.find_chosen_model()
        if chosen is None or chosen == answered:
            return answered
        found = self.find(chosen.provider, chosen.id)
        return chosen if found is not None and found.is_virtual else answered

    def _use(self, model: Model, level: ThinkingLevel | None, source: ModelSource) -> None:
        before = self.thinking
        wanted: ThinkingLevel = self.wanted
        self._change(model, source)
        self.on_model(model)  # also if it was this one: the branch that the conversation moved to may know another
        self.wanted = level or self._default_level or wanted
        self._forget_lacking()
        if self.wanted != wanted:
            self.on_level(self.wanted)
        self._notify_if_changed(before)

    def _forget_lacking(self) -> None:
        """Replace the level that was asked for by the one in force, unless it is kept."""
        if not self._keeps_level:
            self.wanted = self.thinking

    def _change(self, model: Model, source: ModelSource) -> None:
        previous, self.model = self.model, model
        if previous != model:
            self._notify(ModelSelected(model, previous, source))

    def _notify_if_changed(self, before: ThinkingLevel) -> None:
        if self.thinking != before:
            self._notify(ThinkingLevelChanged(self.thinking, before))
