"""Prompting an agent: runs, results and events, with `await` or by blocking calls."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from functools import cached_property, wraps
from types import UnionType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from msgspec.structs import astuple

from fairlead.agent import own_loop, prompting, result
from fairlead.agent.keywords import AgentKeywords
from fairlead.core.events import Event
from fairlead.core.messages import ImageContent
from fairlead.errors import AgentClosed, SessionError
from fairlead.session import following

if TYPE_CHECKING:
    from fairlead.agent.result import Result
    from fairlead.core.limits import RunLimits
    from fairlead.session.following import NumberedEvent
    from fairlead.session.session import Session

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


def _blocking(method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]], description: str) -> Callable[Concatenate[S, P], R]:
    """Make a method that blocks until a coroutine method is done. It has the same arguments, results and errors."""

    @wraps(method)
    def call(self: Any, *args: Any, **keywords: Any) -> R:
        return self._run_blocking(method, *args, **keywords)

    call.__name__ = f"{method.__name__}_sync"
    call.__doc__ = f"""{description}

    It runs the agent on its own thread, so it also works in Jupyter and inside a running event loop, which it blocks.
    Arguments, result and errors are those of `{method.__name__}`. An agent is used either by blocking calls or with `await`.

    Raises:
        WrongEventLoop: The agent was used with `await` before, or a tool of the agent makes the call.
    """
    return call


class Asking(AgentKeywords):
    """The part of an agent that a program prompts and listens to."""

    session: Session
    #: The limits of a run that is started without its own: `max_turns`, `max_cost` and `timeout`.
    _limits: dict[str, Any]
    _is_closed: bool

    def run(
        self,
        prompt: str,
        images: Sequence[ImageContent] | None = None,
        *,
        expand: bool = True,
        max_turns: int | None = None,
        max_cost: float | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[Event]:
        """Prompt the agent and yield all events until the run has settled. Leaving the loop early aborts the run.

        Args:
            prompt: The text of the prompt.
            images: Images for the model; `ImageContent.from_file` makes them.
            expand: Whether to expand a slash command at the beginning of the text.
            max_turns: How many model calls the run may make. 0: no limit. None here and below: the limit of the agent.
            max_cost: How many US dollars the run may cost, with its retries and sub-agents.
            timeout: How many seconds the run may take. A limit ends the run, and its last events say so.

        Returns:
            The events of the run; none if an extension handles the prompt.

        Raises:
            TypeError: The prompt is not a string, or an image is not an `ImageContent`.
            BadOption: A limit has an invalid value.
            FairleadError: The iteration raises this if the run cannot start; `Session.prompt` lists the reasons.
        """
        return self._prompting(prompt, images, expand, max_turns, max_cost, timeout).events()

    @overload
    async def ask(
        self,
        prompt: str,
        images: Sequence[ImageContent] | None = None,
        *,
        output_type: None = None,
        output_retries: int = 2,
        expand: bool = True,
        max_turns: int | None = None,
        max_cost: float | None = None,
        timeout: float | None = None,
    ) -> Result[str]: ...

    @overload
    async def ask(
        self,
        prompt: str,
        images: Sequence[ImageContent] | None = None,
        *,
        output_type: type[T],
        output_retries: int = 2,
        expand: bool = True,
        max_turns: int | None = None,
        max_cost: float | None = None,
        timeout: float | None = None,
    ) -> Result[T]: ...

    @overload
    async def ask(
        self,
        prompt: str,
        images: Sequence[ImageContent] | None = None,
        *,
        output_type: Mapping[str, Any] | UnionType,
        output_retries: int = 2,
        expand: bool = True,
        max_turns: int | None = None,
        max_cost: float | None = None,
        timeout: float | None = None,
    ) -> Result[Any]: ...

    async def ask(
        self,
        prompt: str,
        images: Sequence[ImageContent] | None = None,
        *,
        output_type: Any = None,
        output_retries: int = 2,
        expand: bool = True,
        max_turns: int | None = None,
        max_cost: float | None = None,
        timeout: float | None = None,
    ) -> Result[Any]:
        """Prompt the agent and return what came of it.

        Args:
            prompt: The text of the prompt.
            images: Images for the model; `ImageContent.from_file` makes them.
            output_type: The type of `result.output`: a dataclass, msgspec Struct, Pydantic model, TypedDict or another type that
                JSON can hold, or a JSON Schema. None: the text.
            output_retries: How many times the model may correct an answer that does not have that type.
            expand: Whether to expand a slash command at the beginning of the text.
            max_turns: How many model calls the prompt may take. 0: no limit. None here and below: the limit of the agent.
            max_cost: How many US dollars the prompt may cost, with retries, sub-agents and corrections.
            timeout: How many seconds the prompt may take.

        Returns:
            The result. Its text is empty if an extension handled the prompt.

        Raises:
            ProviderError: The model failed.
            LimitReached: A limit ended the run; `RunTimeout` if it was the timeout.
            OutputError: The answer does not have the `output_type`.
            RunAborted: The run was aborted.
            SessionLost: Another owner has the session, or its file was deleted, so the run was aborted. All of these have a
                `result` with everything so far.
            TypeError, BadOption: An argument has an invalid value.
            AgentClosed: The agent was closed.
            FairleadError: The run cannot start; `Session.prompt` lists the reasons.
        """
        asked = self._prompting(prompt, images, expand, max_turns, max_cost, timeout)
        return await asked.result(output_type, output_retries)

    ask_sync = _blocking(ask, "Prompt the agent and wait for the result: `ask` for programs without an event loop.")

    @property
    def interrupted(self) -> bool:
        """Whether the last run did not reach its end, so that `resume` continues it.

        The process was killed, the agent was closed during the run, or the model failed. A run that the user aborted has ended.
        Raises SessionError if the session is in a store and not open yet: see `open`.
        """
        if self.session.history.conversation.opener is not None:
            raise SessionError("The session is not open yet. Use `async with agent:`, or `await agent.open()`.")
        return self.session.activity.is_interrupted

    async def resume(
        self,
        *,
        output_type: Any = None,
        output_retries: int = 2,
        max_turns: int | None = None,
        max_cost: float | None = None,
        timeout: float | None = None,
    ) -> Result[Any]:
        """Continue the run that was interrupted, and return what came of it.

        The user's message is not repeated. Tool calls that had ended keep their results. Calls of idempotent tools, and calls
        that had not started, are made again. Any other call gets a result that says that it may have run. The arguments are
        those of `ask`; an `output_type` must be the one that the run was started with.

        Returns:
            The result, with the messages that were added from here on.

        Raises:
            NothingToResume: The last run has ended, or there was none.
            FairleadError: See `ask`.
        """
        asked = self._prompting(None, None, False, max_turns, max_cost, timeout, resumes=True)
        return await asked.result(output_type, output_retries)

    resume_sync = _blocking(resume, "Continue an interrupted run and wait for its result, without an event loop.")

    def resume_run(
        self, *, max_turns: int | None = None, max_cost: float | None = None, timeout: float | None = None
    ) -> AsyncGenerator[Event]:
        """Continue the run that was interrupted, and yield all events until it has settled. Leaving the loop early aborts it.

        The arguments are those of `run`. The iteration raises NothingToResume, and what that of `run` raises.
        """
        return self._prompting(None, None, False, max_turns, max_cost, timeout, resumes=True).events()

    def _prompting(
        self,
        prompt: str | None,
        images: Sequence[ImageContent] | None,
        expand: bool,
        max_turns: int | None,
        max_cost: float | None,
        timeout: float | None,
        *,
        resumes: bool = False,
    ) -> prompting.Prompting:
        given = {"max_turns": max_turns, "max_cost": max_cost, "timeout": timeout}
        limits = {name: self._limits[name] if value is None else value for name, value in given.items()}
        self._check_price(limits["max_cost"])
        use_loop = self._use_loop
        return prompting.Prompting(self.session, prompt, images, expand=expand, limits=limits, use_loop=use_loop, resumes=resumes)

    def _watch_run(self) -> RunLimits | None:
        """Stop a run at the limits of the agent. The session calls this for runs that neither `ask` nor `run` starts."""
        if self._limits["max_cost"] is None and self._limits["timeout"] is None:
            return None
        self._check_price(self._limits["max_cost"])
        return result.RunRecord(self.session, **self._limits).watch()

    def _check_price(self, max_cost: float | None) -> None:
        """Warn if the cost of a run cannot be limited."""
        model = self.session.model
        if max_cost is not None and model is not None and not any(astuple(model.cost)):
            self._warn_of([f"max_cost has no effect: the price of {model.provider}/{model.id} is not known, or it is free."])

    async def open(self) -> None:
        """Open the session in the agent's store: take its lease, and read it.

        `async with`, `ask` and `run` do so by themselves. Before that, the agent does not know what the session holds. Without a
        store it does nothing.

        Raises:
            SessionInUse: Another owner has the session.
            SessionNotFound: `session` or `fork` names a session that does not exist.
            StoreUnavailable, SessionError: The store or the session cannot be used.
            AgentClosed: The agent was closed.
        """
        self._use_loop()
        await self.session.history.open()

    async def events(self, after: tuple[int, int] | None = None) -> AsyncGenerator[NumberedEvent]:
        """Yield everything that happens in the session, with positions, until the caller stops.

        A listener that lost its connection gives the position of the last event that it received, to this agent or to another
        one that has the same session, and misses nothing: the entries since then come first, a message as `MessageEnd` and any
        other as `EntryAppended`, each once; then the rest of the message that is arriving; then what happens next. Other events,
        such as those of tools, are not repeated. The same holds for a listener that reads too slowly.

        Args:
            after: The position to continue from: the number of an entry, and how many characters of the next message are known.
                (0, 0) begins with the first entry. None: from now on.

        Returns:
            Events with the position after each. After `SessionReplaced`, the entries of the other session follow from its first.

        Raises:
            SessionError: The session cannot be opened in the agent's store.
            AgentClosed: The agent was closed.
        """
        await self.open()
        async with aclosing(self.session.history.follow(None if after is None else following.Position(*after))) as events:
            async for event in events:
                yield event

    def text(self) -> str:
        """Return the text of the last answer, or an empty string if there is none."""
        answer = self.session.history.last_answer()
        return "" if answer is None else answer.text()

    @cached_property
    def _loop(self) -> own_loop.AgentLoop:
        return own_loop.AgentLoop()

    def _use_loop(self) -> None:
        """Work on the running event loop from now on. Raises AgentClosed, and WrongEventLoop if the loop before it still runs."""
        if self._is_closed:
            raise AgentClosed
        self._loop.use()

    def _run_blocking(self, method: Callable[..., Coroutine[Any, Any, R]], *args: Any, **keywords: Any) -> R:
        """Run a method on the agent's own event loop, and wait for it."""
        if self._is_closed:
            raise AgentClosed
        return self._loop.run(lambda: method(self, *args, **keywords))

    @abstractmethod
    def _warn_of(self, warnings: Sequence[str]) -> None:
        """Pass warnings on to the program."""
