"""One call of `Agent.run` or `Agent.ask`: its arguments checked, its runs, and what they come to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Annotated, Any

from msgspec import Meta

from fairlead.agent import output as output_types
from fairlead.agent.options import AgentOptions, check_value
from fairlead.agent.result import Result, RunRecord
from fairlead.core.events import AgentSettled, Event
from fairlead.core.messages import Attribution, ImageContent
from fairlead.errors import OutputError, RunAborted
from fairlead.session.session import Session


class Prompting:
    """A prompt to a session, with its limits."""

    def __init__(
        self,
        session: Session,
        prompt: str | None,
        images: Sequence[ImageContent] | None,
        *,
        expand: bool,
        limits: dict[str, Any],
        use_loop: Callable[[], None],
        resumes: bool = False,
    ) -> None:
        """Check the arguments. Raises TypeError and BadOption.

        Args:
            session: The session.
            prompt: The text of the prompt; None if it `resumes` a run that was interrupted.
            images: Images for the model.
            expand: Whether to expand a slash command at the beginning of the text.
            limits: `max_turns`, `max_cost` and `timeout`.
            use_loop: Called on the event loop before anything happens there.
            resumes: Whether to resume a run instead.
        """
        if not resumes and not isinstance(prompt, str):
            raise TypeError(f"prompt: expected a string, found {type(prompt).__name__}.")
        check_value("expand", expand, bool)
        for name, value in limits.items():
            check_value(name, value, AgentOptions.__annotations__[name])
        self._session = session
        self._prompt = prompt
        self._images = _check_images(images)
        self._expand = expand
        self._use_loop = use_loop
        self._record = RunRecord(session, **limits)

    def events(self) -> AsyncGenerator[Event]:
        """Prompt the session, and yield all events until the run has settled."""
        return self._run(self._prompt, self._images, expand=self._expand)

    async def result(self, output_type: Any, repairs: int) -> Result[Any]:
        """Prompt the session and return the result, with an output of that type; None: the text.

        At most `repairs` times, the model is asked to correct an answer that does not fit the type.
        """
        record = self._record
        check_value("output_retries", repairs, Annotated[int, Meta(ge=0)])
        if output_type is None or output_type is str:
            await self._settles(self._prompt, self._images, expand=self._expand)
            return record.result(record.text)
        output = output_types.OutputType(output_type)
        prompt, expand = await self._expand_prompt()
        prompt = None if prompt is None else f"{prompt}\n\n{output.instructions()}"
        if not await self._settles(prompt, self._images, expand=expand):
            raise OutputError("An extension handled the prompt, so that there is no output.", record.result())
        for left in range(repairs, -1, -1):
            answer = record.result()
            try:
                return record.result(output.read(answer.text))
            except output_types.NotReadable as error:
                problem = f"It was cut off because it is too long. {error}" if answer.stop_reason == "length" else str(error)
            if not left:
                raise OutputError(_complaint(repairs, problem), answer)
            await self._settles(output.correction(problem), None, expand=False, attribution="agent")
        raise AssertionError("the last round returns or raises")

    async def _settles(
        self, prompt: str | None, images: list[ImageContent] | None, *, expand: bool, attribution: Attribution = "user"
    ) -> bool:
        """Run a prompt to its end. Returns False if an extension handled it. Raises if the run failed."""
        is_settled = False
        async with aclosing(self._run(prompt, images, expand=expand, attribution=attribution)) as events:
            async for event in events:
                is_settled = isinstance(event, AgentSettled)
        if is_settled:
            self._record.raise_failure()
        return is_settled

    async def _run(
        self, prompt: str | None, images: list[ImageContent] | None, *, expand: bool, attribution: Attribution = "user"
    ) -> AsyncGenerator[Event]:
        self._use_loop()
        session, record = self._session, self._record
        limits = record.limits()
        await session.history.open()
        await record.wait_for_other_run()
        with record.stopping_in_time():
            try:
                if prompt is None:
                    await session.activity.resume(limits)
                elif await session.prompt(prompt, images, attribution, expand=expand, limits=limits) is None:
                    return
            except RunAborted:
                record.raise_if_stopped()
                raise
            events: asyncio.Queue[Event] = asyncio.Queue()

            def receive(event: Event) -> None:
                record.see(event)
                events.put_nowait(event)

            forget = session.subscribe(receive)
            is_settled = False
            try:
                while not is_settled:
                    event = await events.get()
                    is_settled = isinstance(event, AgentSettled)
                    yield event
            finally:
                forget()
                # What runs after the end is a run that an extension has started since.
                if not is_settled or not session.activity.is_streaming:
                    await session.abort()

    async def _expand_prompt(self) -> tuple[str | None, bool]:
        """The prompt with a template or skill expanded, before anything is added to it. And whether it may be a command."""
        if self._prompt is None or not self._expand or not self._prompt.startswith("/"):
            return self._prompt, False
        additions = self._session.additions
        await additions.prepare()
        prompt = additions.expand(self._prompt)
        return prompt, prompt == self._prompt


def _check_images(images: Sequence[ImageContent] | None) -> list[ImageContent] | None:
    if images is None:
        return None
    if isinstance(images, str | bytes | ImageContent) or not isinstance(images, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"images: expected a list of ImageContent, found {type(images).__name__}.{_HOW}")
    for index, image in enumerate(images):
        if not isinstance(image, ImageContent):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"images: expected a list of ImageContent, found {type(image).__name__} as item {index}.{_HOW}")
    return list(images) or None


_HOW = " ImageContent.from_file(path) and ImageContent.from_bytes(data) make one."


def _complaint(repairs: int, problem: str) -> str:
    corrections = "a correction" if repairs == 1 else f"{repairs} corrections"
    after = f", not even after {corrections}" if repairs else ""
    return f"The answer does not have the type that was asked for{after}. {problem}"
