"""The turns of a run: what each model call of a session works with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.core.limits import Limits
from fairlead.core.loop import TurnSetup
from fairlead.core.model import Model, ModelRequest, ModelStream
from fairlead.core.queues import Queues
from fairlead.core.runtime import CancelToken, Interrupted
from fairlead.errors import FairleadError, RunAborted
from fairlead.session.additions import SessionAdditions
from fairlead.session.context.budget import ContextBudget
from fairlead.session.context.unreadable_images import UnreadableImages
from fairlead.session.history.current import CurrentConversation
from fairlead.session.parts import SessionOptions
from fairlead.session.selection import Selection, failing, stopped
from fairlead.session.toolbox import Toolbox

if TYPE_CHECKING:
    from fairlead.session.rules.keeper import RuleKeeper


class Turns:
    """Prepares the turns of a session."""

    def __init__(
        self,
        options: SessionOptions,
        current: CurrentConversation,
        selection: Selection,
        toolbox: Toolbox,
        queues: Queues,
        additions: SessionAdditions,
        budget: ContextBudget,
        rules: RuleKeeper | None,
    ) -> None:
        #: The system prompt of the present run, if an extension has replaced the usual one.
        self.system_prompt: str | None = None
        self._options = options
        self._runtime = options.runtime
        self._current = current
        self._selection = selection
        self._toolbox = toolbox
        self._queues = queues
        self._additions = additions
        self._extensions = additions.extensions
        self._budget = budget
        self._rules = rules
        self._images: UnreadableImages | None = None

    def limits(self) -> Limits:
        """What one run may not exceed."""
        return Limits(self._options.max_turns, self._options.max_repeated_calls)

    async def next(self, cancel: CancelToken) -> TurnSetup:
        """The next turn of a run, for the conversation so far. A problem becomes a stream that fails."""
        options, now_ms = self._options, self._runtime.now_ms
        if self._additions.servers is not None:
            await self._additions.servers.ready(cancel)
        model = self._selection.model
        assert model is not None, "a run needs a model, and a model is never unset"
        system_prompt = await self._system_prompt(cancel)
        if self._rules is not None:
            self._rules.begin()
        tools = self._toolbox.active_tools()
        conversation, calls = self._current.conversation, self._extensions.calls
        request = ModelRequest(
            system_prompt=system_prompt or "",
            messages=conversation.for_model(),
            tools=[tool.spec() for tool in tools.values()],
            thinking=self._selection.thinking,
            session_id=conversation.id,
        )
        if calls is not None:
            await calls.change(request, cancel)
        try:
            stream = await self.stream_of(model, cancel)
        except FairleadError as error:
            stream = failing(model, str(error), now_ms())
        stream = self._unreadable_images().prepare(request, model, stream)
        self._budget.prepare(request, model)
        if system_prompt is None or (self._extensions.calls is not None and cancel.fired):  # the request is not what it should be
            stream = stopped(model, now_ms())
        schedule = options.schedule_immediate if self._queues.interrupt == "immediate" else options.schedule
        return TurnSetup(model, stream, request, tools, schedule, options.concurrent_tools)

    async def stream_of(self, model: Model, cancel: CancelToken) -> ModelStream:
        """How to ask the model. Finding its key may take long; an abort does not wait for it. Raises NoCredentials."""
        stream = self._options.models.known(model) or await self._found(model, cancel)
        calls = self._extensions.calls
        return stream if calls is None else calls.intercepted(stream)

    async def _system_prompt(self, cancel: CancelToken) -> str | None:
        """The system prompt; None if the run was aborted before it was known."""
        if self.system_prompt is not None:
            return self.system_prompt
        try:
            await self._additions.prepare(cancel)
        except RunAborted:
            return None
        return self._additions.system_prompt()

    async def _found(self, model: Model, cancel: CancelToken) -> ModelStream:
        try:
            return await self._runtime.bounded(self._options.models.stream(model), cancel, timeout=None, grace=0)
        except Interrupted:
            return stopped(model, self._runtime.now_ms())

    def _unreadable_images(self) -> UnreadableImages:
        """The images of the conversation that servers could not read."""
        if self._images is None or self._images.conversation is not self._current.conversation:
            self._images = UnreadableImages(self._current.conversation)
        return self._images
