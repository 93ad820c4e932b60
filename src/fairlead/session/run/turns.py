"""Prepares the turns of a run: the request to the model, how to ask it, and the tools that it may call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from fairlead.core.limits import Limits, RunLimits
from fairlead.core.loop import TurnSetup
from fairlead.core.messages import TextContent
from fairlead.core.model import ModelRequest
from fairlead.core.runtime import CancelToken
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import FairleadError, RunAborted
from fairlead.models.context_windows import longest_tool_output
from fairlead.session.additions import SessionAdditions
from fairlead.session.context.budget import ContextBudget
from fairlead.session.context.unreadable_images import UnreadableImages
from fairlead.session.history.current import CurrentConversation
from fairlead.session.run import warming
from fairlead.session.selection import Selection, failing, make_stopped_stream
from fairlead.session.session_options import SessionOptions
from fairlead.session.toolbox import Toolbox

if TYPE_CHECKING:
    from fairlead.core.queues import Queues
    from fairlead.session.rules.rule_keeper import RuleKeeper
    from fairlead.session.run.state import Attempts, RunState
    from fairlead.session.run.warming import CacheWarmer

#: The part of a result that is kept from its beginning. The rest is its end, where errors and hints are.
_FROM_BEGINNING = 0.6


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
        attempts: Attempts,
        state: RunState,
    ) -> None:
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
        self._attempts = attempts
        self._images: UnreadableImages | None = None
        self._state = state
        self._notify = state.notify
        #: Keeps a provider's cache warm, once the model has one that can be.
        self._warmer: CacheWarmer | None = None

    def limits(self, wanted: RunLimits | None) -> Limits:
        """What one run may not exceed: the limits of the session, or those that the caller wants."""
        wanted = wanted or RunLimits()
        max_turns = self._options.max_turns if wanted.max_turns is None else wanted.max_turns
        options = self._options
        repeats = options.max_repeated_calls if wanted.max_repeats is None else wanted.max_repeats
        return Limits(max_turns, repeats, wanted.over_budget, options.max_repeated_text, wanted.refuse_calls)

    async def next(self, cancel: CancelToken) -> TurnSetup:
        """The next turn of a run, for the conversation so far. A problem becomes a stream that fails."""
        options, now_ms = self._options, self._runtime.now_ms
        if self._additions.servers is not None:
            await self._additions.servers.ready(cancel)
        model = self._selection.model
        assert model is not None, "a run needs a model, and a model is never unset"
        if self._extensions.calls is not None:
            await self._extensions.calls.prepare_tools(cancel)
        system_prompt = await self._system_prompt(cancel)
        if self._rules is not None:
            self._rules.begin()
        tools = self._toolbox.active_tools()
        conversation, calls = self._current.conversation, self._extensions.calls
        request = ModelRequest(
            system_prompt=system_prompt or "",
            messages=conversation.for_model(),
            tools=[tool.spec() for tool in self._toolbox.list_declared().values()],
            thinking=self._selection.thinking,
            session_id=self._options.provider_session_id or conversation.id,
            wait_listener=self._attempts,
        )
        try:
            if calls is not None:
                await calls.change(request, cancel)
            stream = await self._selection.open_stream(model, cancel)
        except FairleadError as error:
            stream = failing(model, str(error), now_ms())
        stream = self._unreadable_images().prepare(request, model, stream)
        window = self._selection.window(model)
        self._budget.prepare(request, model, window)
        if system_prompt is None or (self._extensions.calls is not None and cancel.fired):  # the request is not what it should be
            stream = make_stopped_stream(model, now_ms())
        elif options.cache_warming != "off" and model.prompt_cache is not None:
            stream = self._cache_warmer().watch(model, request, stream)
        schedule = "exclusive" if self._queues.interrupt == "immediate" else options.behaviour.schedule
        longest = longest_tool_output(window)
        if longest is not None:
            tools = with_short_results(tools, longest)
        return TurnSetup(model, stream, request, tools, schedule, options.concurrent_tools)

    def on_settle(self) -> None:
        """The run has settled: caches are kept warm no more, or less long."""
        if self._warmer is not None:
            self._warmer.on_settle()

    async def close(self) -> None:
        """Leave caches alone from now on, because the session is closed."""
        if self._warmer is not None:
            await self._warmer.close()

    async def _system_prompt(self, cancel: CancelToken) -> str | None:
        """The system prompt; None if the run was aborted before it was known."""
        if self._state.system_prompt is not None:
            return self._state.system_prompt
        try:
            await self._additions.prepare(cancel)
        except RunAborted:
            return None
        return self._additions.system_prompt()

    def _cache_warmer(self) -> warming.CacheWarmer:
        if self._warmer is None:
            self._warmer = warming.CacheWarmer(
                self._options.cache_warming, self._current, self._selection, self._extensions, self._notify
            )
        return self._warmer

    def _unreadable_images(self) -> UnreadableImages:
        """The images of the conversation that servers could not read."""
        if self._images is None or self._images.conversation is not self._current.conversation:
            self._images = UnreadableImages(self._current.conversation, self._notify)
        return self._images


def with_short_results(tools: Mapping[str, Tool], longest: int) -> dict[str, Tool]:
    """Return the tools with results of at most `longest` characters of text. The middle of a longer one is left out."""
    return {name: _shortening(tool, longest) for name, tool in tools.items()}


def _shortening(tool: Tool, longest: int) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        result = await tool.run(arguments, context)
        room = longest
        content = list(result.content)
        for index, block in enumerate(content):
            if isinstance(block, TextContent):
                if len(block.text) > room:
                    content[index] = TextContent(shorten(block.text, room))
                room = max(room - len(block.text), 0)
        return replace(result, content=content) if content != result.content else result

    return replace(tool, run=run)


def shorten(text: str, longest: int) -> str:
    """Return the beginning and the end of a text, with a remark about what is left out between them."""
    beginning = int(longest * _FROM_BEGINNING)
    end = longest - beginning
    left_out = len(text) - longest
    remark = f"[{left_out} characters left out: the model's context is small. Ask for a smaller part of this.]"
    return f"{text[:beginning]}\n\n{remark}\n\n{text[len(text) - end :] if end else ''}"
