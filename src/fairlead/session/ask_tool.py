"""The `ask` tool: the model asks the user a question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import msgspec
from msgspec import Struct

from fairlead.core.runtime import CancelToken, Ui
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools import object_schema, string

#: The last option of every list, and of lists from which several may be chosen. The first text is omp's: its hosts look for it.
OTHER, DONE = "Other (type your own)", "Done selecting"

_DESCRIPTION = """\
Ask the user, and wait for the answer. With options, the user chooses one of them (with multi, any number) or types
another answer; without options, the user types.

Ask only what you cannot find out and must not decide: choices with consequences that the user has to live with. Put questions
that belong together into one call. Give two to five distinct options with short labels, and say in the description of each what
it entails. An option for other answers is added to every list."""


class Option(Struct):
    label: str
    description: str = ""


class AskedQuestion(Struct):
    """A question of the model."""

    question: str
    id: str = ""
    options: list[Option] = []
    multi: bool = False
    #: A whole number, which may be written 1.0.
    recommended: float | None = None


class AskedReply(Struct, rename="camel", omit_defaults=True):
    """The user's answer to one question. Its JSON is for the host (the form is omp's)."""

    id: str
    question: str
    selected_options: list[str]
    custom_input: str | None = None

    @property
    def text(self) -> str:
        said = [*self.selected_options, *([] if self.custom_input is None else [self.custom_input])]
        return ", ".join(said) or "(nothing)"


def ask_tool(ui: Callable[[], Ui], timeout: float | None) -> Tool:
    """The tool that asks the user through `ui`, and waits `timeout` seconds for each answer; None: without a limit."""
    return Tool(
        name="ask",
        label="ask",
        description=_DESCRIPTION,
        parameters=_parameters(),
        run=partial(_run, ui, timeout),
        title=lambda arguments: f"Ask: {arguments['questions'][0]['question']}",
        snippet="Ask the user a question",
        # What comes behind it in the same turn may depend on the answer.
        exclusive=True,
        harmless=True,
        bound=True,
        timeout=None,
        prepare=_prepare,
    )


@cache
def _parameters() -> dict[str, Any]:
    option = object_schema({"label": string("A few words to choose"), "description": string("What it entails")}, "label")
    question = object_schema(
        {
            "id": string("A short name for the question, such as database; its answer is given under it"),
            "question": string("What you want to know, as a whole sentence"),
            "options": {"type": "array", "items": option, "description": "What to choose from"},
            "multi": {"type": "boolean", "description": "Let the user choose several options"},
            "recommended": {"type": "integer", "description": "The number of the option that you recommend, from 0"},
        },
        "question",
    )
    questions = {"type": "array", "items": question, "minItems": 1, "description": "What to ask, one after another"}
    return object_schema({"questions": questions}, "questions")


async def _run(ui: Callable[[], Ui], timeout: float | None, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    """Ask one question after another, until one gets no answer."""
    questions = msgspec.convert(arguments["questions"], list[AskedQuestion])
    asker = _Asker(ui(), timeout, context.cancel)
    if not asker.ui.available:
        raise ToolError(
            "Nobody can be asked: there is no user behind this session. "  # prose: verbatim
            "Decide yourself, or end with your question."
        )
    replies: list[AskedReply] = []
    for number, question in enumerate(questions, 1):
        question.id = question.id.strip() or f"q{number}"
        question.options = [option for option in question.options if option.label != OTHER]
        reply = await asker.reply(question)
        if reply is None and context.cancel.fired:
            raise ToolError("Operation aborted")
        if reply is None:
            break
        replies.append(reply)
    text = _answers(questions, replies)
    if len(replies) < len(questions):
        text = "\n".join([*([text] if replies else []), *_rest(questions[len(replies) :], asker.explain_silence())])
    return ToolResult.text(text, {"results": msgspec.to_builtins(replies)})


class _Asker(Struct):
    ui: Ui
    timeout: float | None
    cancel: CancelToken

    async def reply(self, question: AskedQuestion) -> AskedReply | None:
        """The user's answer; None if there is none."""
        selected: list[str] = []
        custom = None
        if not question.options:
            custom = await self._input(question)
        elif question.multi:
            return await self._several(question)
        else:
            shown = _format_options(question)
            choice = await self._select(question, [*shown, OTHER])
            if choice in shown:
                selected = [question.options[shown.index(choice)].label]
            else:
                custom = await self._own(question, choice)
        return AskedReply(question.id, question.question, selected, custom) if selected or custom is not None else None

    def explain_silence(self) -> str:
        """Why there was no answer."""
        if not self.ui.available:
            return "the user has left"
        too_late = f", or did not answer within {self.timeout:g} seconds" if self.timeout is not None else ""
        return f"the user dismissed it{too_late}"

    async def _several(self, question: AskedQuestion) -> AskedReply | None:
        """Let the user toggle options until they are done: hosts only know lists from which one option is chosen."""
        shown = _format_options(question)
        chosen: set[int] = set()

        def reply(custom: str | None = None) -> AskedReply:
            labels = [option.label for index, option in enumerate(question.options) if index in chosen]
            return AskedReply(question.id, question.question, labels, custom)

        while True:
            boxes = [f"[{'x' if index in chosen else ' '}] {text}" for index, text in enumerate(shown)]
            choice = await self._select(question, [*boxes, DONE, OTHER])
            if choice == DONE:
                return reply()
            if choice not in boxes:
                custom = await self._own(question, choice)
                return None if custom is None else reply(custom)
            chosen ^= {boxes.index(choice)}

    async def _own(self, question: AskedQuestion, choice: str | None) -> str | None:
        """An answer that is not on the list. Some hosts let the user type it right away."""
        return await self._input(question) if choice == OTHER else choice

    async def _select(self, question: AskedQuestion, options: Sequence[str]) -> str | None:
        return await self.ui.select(question.question, options, timeout=self.timeout, cancel=self.cancel)

    async def _input(self, question: AskedQuestion) -> str | None:
        return await self.ui.input(question.question, timeout=self.timeout, cancel=self.cancel)


def _format_options(question: AskedQuestion) -> list[str]:
    """The options as the user sees them."""
    shown: list[str] = []
    for index, option in enumerate(question.options):
        label = f"{option.label} (Recommended)" if index == question.recommended else option.label
        shown.append(f"{label} - {option.description}" if option.description else label)
    return shown


def _answers(questions: Sequence[AskedQuestion], replies: Sequence[AskedReply]) -> str:
    if len(questions) == len(replies) == 1:
        return f"The user answered: {replies[0].text}"
    return "\n".join(["The user answered:", *(f"{reply.id}: {reply.text}" for reply in replies)])


def _rest(unanswered: Sequence[AskedQuestion], why: str) -> list[str]:
    """What the model is told about a question without an answer, and about those that were not asked any more."""
    first, *others = unanswered
    return [
        f"No answer to the question: {first.question} ({why})",
        *(f"Not asked any more: {question.question}" for question in others),
        "Do not ask the same again. Go on with what does not depend on the answer, or end and say what you need to know.",
    ]


def _prepare(arguments: dict[str, Any]) -> dict[str, Any]:
    """Accept what models also send: a single question, and options that are plain texts."""
    questions: Any = arguments.get("questions", [arguments] if "question" in arguments else None)
    if not isinstance(questions, list):
        return arguments  # the check against the schema says what is wrong
    return {"questions": [_with_labels(question) for question in questions]}  # pyright: ignore[reportUnknownVariableType]


def _with_labels(question: Any) -> Any:
    match question:
        case {"options": [*options]}:
            return {**question, "options": [{"label": each} if isinstance(each, str) else each for each in options]}
        case _:
            return question
