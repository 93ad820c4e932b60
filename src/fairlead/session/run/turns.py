"""What each model call of a session works with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.core.limits import Limits
from fairlead.core.loop import Turn
from fairlead.core.model import Model, ModelStream, Request
from fairlead.core.runtime import Cancel, Interrupted
from fairlead.errors import FairleadError, RunAborted
from fairlead.session.models import failing, stopped
from fairlead.session.options import SessionOptions

if TYPE_CHECKING:
    from fairlead.session.session import Session


class Turns:
    """Puts the turns of a session together."""

    def __init__(self, session: Session, options: SessionOptions) -> None:
        #: What the model is told first in the present run, if that is something else than usual.
        self.system_prompt: str | None = None
        self._session = session
        self._options = options

    def limits(self) -> Limits:
        """What one run may not exceed."""
        return Limits(self._options.max_turns, self._options.max_repeated_calls)

    async def next(self, cancel: Cancel) -> Turn:
        """The next turn of a run, for the conversation so far. A problem becomes a stream that fails."""
        session, options = self._session, self._options
        if session.servers is not None:
            await session.servers.ready(cancel)
        model = session.model
        assert model is not None, "a run needs a model, and a model is never unset"
        system_prompt = await self._system_prompt(cancel)
        if session.rules is not None:
            session.rules.begin()
        tools = session.toolbox.active_tools()
        request = Request(
            system_prompt=system_prompt or "",
            messages=session.conversation.for_model(),
            tools=[tool.spec() for tool in tools.values()],
            thinking=session.thinking,
            session_id=session.id,
        )
        if session.extending is not None:
            await session.extending.change(request, cancel)
        try:
            stream = await self.stream_of(model, cancel)
        except FairleadError as error:
            stream = failing(model, str(error), session.runtime.now_ms())
        stream = session.images.prepare(request, model, stream)
        session.room.prepare(request, model)
        if system_prompt is None or (session.extending is not None and cancel.fired):  # the request is not what it should be
            stream = stopped(model, session.runtime.now_ms())
        schedule = options.schedule_immediate if session.queues.interrupt == "immediate" else options.schedule
        return Turn(model, stream, request, tools, schedule, options.concurrent_tools)

    async def _system_prompt(self, cancel: Cancel) -> str | None:
        """What the model is told first; None if the run was aborted before that was known."""
        if self.system_prompt is not None:
            return self.system_prompt
        try:
            await self._session.prepare(cancel)
        except RunAborted:
            return None
        return self._session.system_prompt()

    async def stream_of(self, model: Model, cancel: Cancel) -> ModelStream:
        """How to ask the model. Finding its key may take long; an abort does not wait for it."""
        stream = self._options.models.known(model) or await self._found(model, cancel)
        extending = self._session.extending
        return stream if extending is None else extending.intercepted(stream)

    async def _found(self, model: Model, cancel: Cancel) -> ModelStream:
        runtime = self._session.runtime
        try:
            return await runtime.bounded(self._options.models.stream(model), cancel, timeout=None, grace=0)
        except Interrupted:
            return stopped(model, runtime.now_ms())
