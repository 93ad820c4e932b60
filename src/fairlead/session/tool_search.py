"""The `tool_search` tool: the model looks for tools that requests do not declare, and gets those that it finds."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from fairlead.core.tool import Tool, ToolContext, ToolResult
from fairlead.errors import ToolError

if TYPE_CHECKING:
    from fairlead.session.toolbox import Toolbox

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
