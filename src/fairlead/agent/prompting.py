"""One call of `Agent.run` or `Agent.ask`: its arguments checked, its runs, and what they come to, also as a value of a type.

See docs/decisions/023-output-types.md for why the model is asked for values in words.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from json import JSONDecoder
from typing import Annotated, Any, cast, get_args

import msgspec
from msgspec import Meta

from fairlead.agent.options import AgentOptions, check_value
from fairlead.agent.result import Result, RunRecord
from fairlead.core.calls.arguments import fit_arguments, problems
from fairlead.core.events import AgentSettled, Event
from fairlead.core.messages import Attribution, ImageContent
from fairlead.errors import BadOption, OutputError, RunAborted
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
        output = OutputType(output_type)
        prompt, expand = await self._expand_prompt()
        prompt = None if prompt is None else f"{prompt}\n\n{output.instructions()}"
        if not await self._settles(prompt, self._images, expand=expand):
            raise OutputError("An extension handled the prompt, so that there is no output.", record.result())
        for left in range(repairs, -1, -1):
            answer = record.result()
            try:
                return record.result(output.read(answer.text))
            except NotReadable as error:
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


#: How many characters of a problem the model is told.
_LONGEST_PROBLEM = 2000
#: How many braces and brackets that start no JSON are tried in one answer.
_MOST_TRIES = 200
_FENCE = r"(?ms)^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```"
_KINDS = (
    "a dataclass, a msgspec Struct, a Pydantic model, a TypedDict, another type that JSON can hold, or a JSON Schema as a dict"
)


class NotReadable(Exception):
    """An answer has no value of the type. The text tells the model why."""


class OutputType:
    """Turns answers into values of one type.

    Attributes:
        schema: The JSON Schema of the type.
    """

    def __init__(self, wanted: Any) -> None:
        """Read a type. Raises BadOption if answers cannot have it."""
        self.schema: dict[str, Any]
        self._decode: Callable[[str], Any]
        if isinstance(wanted, Mapping):
            self.schema, self._decode = _from_schema(cast("Mapping[str, Any]", wanted))
        elif _is_pydantic(wanted):
            self.schema, self._decode = _from_pydantic(wanted)
        else:
            self.schema, self._decode = _from_type(wanted)

    def instructions(self) -> str:
        """Return what the model is told after the prompt."""
        return (
            "Use your tools first if you need them. When you are done, reply with one JSON value and nothing else: no other"
            f" text before or after it, and no code fence. It must match this JSON Schema:\n\n{self._format_schema()}"
        )

    def correction(self, problem: str) -> str:
        """Return what the model is told after an answer that cannot be used."""
        return (
            f"That answer cannot be used. {problem}\n\nReply with the corrected JSON value and nothing else."
            f" It must match this JSON Schema:\n\n{self._format_schema()}"
        )

    def read(self, text: str) -> Any:
        """Return the value in an answer. If there are several, the last that fits counts. Raises NotReadable."""
        problem = "It contains no JSON value."
        for number, candidate in enumerate(self._candidates(text)):
            try:
                return self._decode(candidate)
            except Exception as error:  # each library has its own errors, and the caller's types can raise any
                if not number:
                    problem = f"Its JSON does not match the schema: {_explain(error)}"
        raise NotReadable(problem)

    def _format_schema(self) -> str:
        return msgspec.json.encode(self.schema).decode()

    def _candidates(self, text: str) -> Iterator[str]:
        """The JSON values in a text, the likeliest first: the whole text, blocks of code, values between other text."""
        whole = text.strip()
        blocks = [match[1].strip() for match in re.finditer(_FENCE, text)]
        for part in (whole, *reversed(blocks)):
            if _is_json(part):
                yield part
        yield from reversed(_values_in(text))
        if self._is_text:  # a single word, without quotes
            yield msgspec.json.encode(whole).decode()

    @property
    def _is_text(self) -> bool:
        """Whether the type itself, not a part of it, is a string or one of several names."""
        name = str(self.schema.get("$ref", "")).removeprefix("#/$defs/")
        schema = self.schema.get("$defs", {}).get(name, self.schema)
        return schema.get("type") == "string" or "enum" in schema


def _from_schema(schema: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[str], Any]]:
    def refuse(uri: str) -> Any:
        raise ValueError(f"references outside the schema are not followed: {uri}")

    import jsonschema_rs  # noqa: PLC0415  takes 5 ms

    copy = dict(schema)
    try:
        validator = jsonschema_rs.validator_for(copy, retriever=refuse)
    except Exception as error:  # the library raises several kinds, which all mean the same here
        raise BadOption(f"output_type: expected a valid JSON Schema, found one that is not: {error}") from error

    def decode(text: str) -> Any:
        value: Any = msgspec.json.decode(text)
        if validator.is_valid(value):
            return value
        if isinstance(value, dict) and validator.is_valid(fitting := fit_arguments(copy, cast("dict[str, Any]", value))):
            return fitting
        raise ValueError("; ".join(problems(validator, copy, cast("Any", value))))

    return copy, decode


def _is_pydantic(wanted: Any) -> bool:
    """Whether a type is a Pydantic model, or has one inside, as a list of models does."""
    return hasattr(wanted, "__pydantic_validator__") or any(map(_is_pydantic, get_args(wanted)))


def _from_pydantic(model: Any) -> tuple[dict[str, Any], Callable[[str], Any]]:
    """Read a Pydantic type. Its module is loaded already, or the type would not exist."""
    adapter = sys.modules["pydantic"].TypeAdapter(model)
    return adapter.json_schema(), adapter.validate_json


def _from_type(wanted: Any) -> tuple[dict[str, Any], Callable[[str], Any]]:
    try:
        schema = msgspec.json.schema(wanted)
        strict, lax = msgspec.json.Decoder(wanted), msgspec.json.Decoder(wanted, strict=False)
    except (TypeError, NameError, RecursionError) as error:
        raise BadOption(f"output_type: expected {_KINDS}, found {wanted!r}: {error}") from error

    def decode(text: str) -> Any:
        try:
            return strict.decode(text)
        except msgspec.ValidationError as error:
            try:
                return lax.decode(text)  # models often write a number as a string
            except msgspec.ValidationError:
                raise error from None

    return schema, decode


def _explain(error: Exception) -> str:
    errors = getattr(error, "errors", None)
    if callable(errors):  # Pydantic's: its text has addresses and repeats the input
        found = cast("list[dict[str, Any]]", errors())
        text = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'the value'}: {each['msg']}" for each in found)
    else:
        text = str(error)
    text = text if len(text) <= _LONGEST_PROBLEM else f"{text[:_LONGEST_PROBLEM]}…"
    return text if text.endswith(".") else f"{text}."


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def _values_in(text: str) -> list[str]:
    """The objects and lists in a text, in its order."""
    decoder, found, at, tries = JSONDecoder(), list[str](), 0, 0
    while tries < _MOST_TRIES and (match := re.compile(r"[{\[]").search(text, at)):
        try:
            _, end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            at, tries = match.start() + 1, tries + 1
        else:
            found.append(text[match.start() : end])
            at = end
    return found
