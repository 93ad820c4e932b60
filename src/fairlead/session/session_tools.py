"""The two tools that need the session: `ask` asks the user a question, and `tool_search` looks for tools that the model lacks.

Requests do not declare the tools that `tool_search` searches. The model gets those that it finds.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec
from msgspec import Struct

from fairlead.core.runtime import CancelToken, Ui
from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.tools import object_schema, string

if TYPE_CHECKING:
    from fairlead.session.toolbox import Toolbox


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


_SEARCH_DESCRIPTION = """\
Search for tools that you do not have yet, such as those of MCP servers, and load them. The tools that match the query best are
yours from your next call on. Describe what the tool should do, or give its name."""

_USUAL_LIMIT = 8

#: The usual parameters of Okapi BM25.
_K1, _B = 1.2, 0.75
#: What a word in the name of a tool counts, compared with one that its description has once.
_NAME_WEIGHT = 3.0

_STOP_WORDS = frozenset("a an and are as at be by for from in is it of on or that the this to with".split())
# Compiled when they are first used.
_CAMEL = r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
#: A word, or one character of a script that writes words without spaces.
_WORD = r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+"
_PLURAL = r"(ches|shes|sses|xes|zes)$"
_ILLEGAL = r"[^a-z0-9_]"


def search_tool(name: str, toolbox: Toolbox) -> Tool:
    """Return the tool that searches among those of `toolbox` that are not active, and activates what it finds."""
    return Tool(
        name=name,
        label=name,
        description=_SEARCH_DESCRIPTION,
        parameters={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What the tool should do, or its name"},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": f"How many tools to load at most; {_USUAL_LIMIT} if not given",
                },
            },
            "required": ["query"],
        },
        run=partial(_run_search, toolbox),
        title=lambda arguments: f"Search for tools: {arguments['query']}",
        snippet="Search for tools that are not loaded yet and load the matches",
        idempotent=True,
        harmless=True,
        bound=True,
    )


async def _run_search(toolbox: Toolbox, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    query = str(arguments["query"])
    if not query.strip():
        raise ToolError("query must not be empty")
    candidates = toolbox.to_be_found()
    found = rank_tools(query, candidates.values())[: int(arguments.get("limit") or _USUAL_LIMIT)]
    if not found:
        return ToolResult.text("No matching tools found.", {"loaded": []})
    toolbox.activate([*toolbox.active, *found])
    lines = [f"- {name}: {(candidates[name].description.strip().splitlines() or [''])[0]}" for name in found]
    text = f"Loaded {len(found)} tool{'' if len(found) == 1 else 's'}. They are available from your next call:"
    return ToolResult.text("\n".join([text, *lines]), {"loaded": found})


class _Document(NamedTuple):
    """What is searched: the words in the name of a tool, and how often its descriptions have each word."""

    name: str
    in_name: frozenset[str]
    #: The same without the server's name.
    local: frozenset[str]
    words: Counter[str]


def rank_tools(query: str, tools: Iterable[Tool]) -> list[str]:
    """Return the names of the tools that match a query, the best match first.

    A tool whose name is the query comes first. A tool that matches more words of the query comes before one that matches fewer.
    Okapi BM25 decides among the rest; words in a tool's name count more.
    """
    terms = frozenset(words(query))
    documents = [_document(tool) for tool in tools]
    if not terms or not documents:
        return []
    average = sum(document.words.total() for document in documents) / len(documents) or 1
    rarity = {term: _rarity(term, documents) for term in terms}
    wanted = re.sub(_ILLEGAL, "_", query.strip().lower())
    found: list[tuple[bool, int, float, str]] = []
    for document in documents:
        norm = _K1 * (1 - _B + _B * document.words.total() / average)
        weights = {term: _weight(term, document, norm) for term in terms}
        score = sum(rarity[term] * weight for term, weight in weights.items())
        if not score:
            continue
        if document.local and document.local <= terms:
            score += sum(rarity.values())
        name = re.sub(_ILLEGAL, "_", document.name.lower())
        matched = sum(weight > 0 for weight in weights.values())
        found.append((name == wanted or name.endswith(f"__{wanted}"), matched, score, document.name))
    return [name for *_, name in sorted(found, key=lambda each: each[:3], reverse=True)]


def words(text: str) -> list[str]:
    """Return the words of a text, without those that say nothing, and in the singular as far as that is easy."""
    found = re.findall(_WORD, re.sub(_CAMEL, " ", text).lower())
    return [_singular(word) for word in found if word not in _STOP_WORDS]


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and re.search(_PLURAL, word):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _rarity(term: str, documents: Sequence[_Document]) -> float:
    having = sum(term in document.in_name or term in document.words for document in documents)
    return math.log(1 + (len(documents) - having + 0.5) / (having + 0.5))


def _weight(term: str, document: _Document, norm: float) -> float:
    count = document.words[term]
    return (_NAME_WEIGHT if term in document.in_name else 0) + count * (_K1 + 1) / (count + norm)


def _document(tool: Tool) -> _Document:
    text = " ".join([tool.description, *_schema_texts(tool.parameters)])
    local = frozenset(words(tool.name.rpartition("__")[2]))
    return _Document(tool.name, frozenset(words(tool.name)), local, Counter(words(text)))


def _schema_texts(schema: Any, depth: int = 8) -> list[str]:
    """Return the descriptions and the names of properties in a schema."""
    if not isinstance(schema, dict) or not depth:
        return []
    given = cast("Mapping[str, Any]", schema)
    found = [given["description"]] if isinstance(given.get("description"), str) else []
    properties: Any = given.get("properties")
    for name, inner in cast("dict[str, Any]", properties).items() if isinstance(properties, dict) else ():
        found += [name, *_schema_texts(inner, depth - 1)]
    found += _schema_texts(given.get("items"), depth - 1)
    for key in ("anyOf", "oneOf", "allOf"):
        variants = cast("list[Any]", given[key]) if isinstance(given.get(key), list) else []
        found += [text for variant in variants for text in _schema_texts(variant, depth - 1)]
    return found
