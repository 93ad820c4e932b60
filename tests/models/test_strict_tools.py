"""Tools that ask the provider to keep the arguments of calls to their schemas."""

from __future__ import annotations

from typing import Any

import pytest
from tests.models.asking import a_model, a_request, ask, serving

from fairlead.core.calls.arguments import fit_arguments
from fairlead.core.model import StreamEnd, Strictness, ToolSpec
from fairlead.core.runtime import CancelToken
from fairlead.models.adapters import open_stream
from fairlead.models.apis.request_building import NotStrict, strict_schema
from fairlead.models.credentials import RequestAuth
from fairlead.models.http.http_client import Http
from fairlead.testing import ProviderServer

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer"},
        "edits": {"type": "array", "items": {"type": "object", "properties": {"old": {"type": "string"}}}},
        "kind": {"enum": ["a", None]},
    },
    "required": ["path"],
}
STRICT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "edits": {
            "anyOf": [
                {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"old": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
                        "required": ["old"],
                        "additionalProperties": False,
                    },
                },
                {"type": "null"},
            ]
        },
        "kind": {"enum": ["a", None]},
    },
    "required": ["path", "limit", "edits", "kind"],
    "additionalProperties": False,
}
#: Where each API has the schema and the wish of a tool, and the facts of a model that supports it, if it has to be told.
APIS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai-responses": ("parameters", {}),
    "openai-completions": ("parameters", {"compat": {"supportsStrictMode": True}}),
    "anthropic-messages": ("input_schema", {"compat": {"supportsStrictTools": True}}),
}


def a_tool(strict: Strictness | None, schema: dict[str, Any] | None = None) -> ToolSpec:
    return ToolSpec("mine", "My tool", schema or SCHEMA, strict)


async def sent(api: str, tool: ToolSpec, **fields: Any) -> tuple[Any, Any]:
    """The schema that was sent for a tool, and whether it is strict."""
    async with serving({"text": "ok"}) as server:
        await ask(server, api, a_request(tools=[tool]), **fields)
        tools = server.requests[0].body["tools"][0]
        told = tools.get("function", tools)
        return told[APIS[api][0]], told.get("strict", False)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("strict", ["prefer", "require"])
async def test_the_provider_gets_a_strict_schema(api: str, strict: Strictness) -> None:
    assert await sent(api, a_tool(strict), **APIS[api][1]) == (STRICT, True)
    assert await sent(api, a_tool(None), **APIS[api][1]) == (SCHEMA, False)


@pytest.mark.parametrize("api", APIS)
async def test_a_tool_that_prefers_it_is_sent_as_it_is_where_it_cannot_be_had(api: str) -> None:
    unsupported: dict[str, Any] = {"compat": {"supportsStrictMode": False, "supportsStrictTools": False}}
    assert await sent(api, a_tool("prefer"), **unsupported) == (SCHEMA, False)
    open_ended: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
    assert await sent(api, a_tool("prefer", open_ended), **APIS[api][1]) == (open_ended, False)


@pytest.mark.parametrize("api", [*APIS, "google-generative-ai"])
async def test_a_tool_that_requires_it_fails_the_request_where_it_cannot_be_had(api: str) -> None:
    unsupported: dict[str, Any] = {"compat": {"supportsStrictMode": False, "supportsStrictTools": False}}
    async with serving({"text": "ok"}) as server:
        problem = await ask_unheard(server, api, a_tool("require"), **unsupported)
        assert problem is not None and problem.startswith("The tool mine requires a provider that enforces its schema, but")
        assert server.requests == []


async def ask_unheard(server: ProviderServer, api: str, tool: ToolSpec, **fields: Any) -> str | None:
    """The error of a request that does not reach the server."""
    http = Http()
    try:
        stream = open_stream(a_model(api, server.url, **fields), RequestAuth("k", {}), http, lambda: 1)
        events = [event async for batch in stream(a_request(tools=[tool]), CancelToken()) for event in batch]
    finally:
        await http.close()
    assert isinstance(events[-1], StreamEnd)
    return events[-1].message.error_message


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"$ref": "#/x"}, r"uses \$ref"),
        ({"oneOf": [{"type": "string"}]}, "uses oneOf"),
        ({"anyOf": []}, "anyOf without variants"),
        ({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}, "choice between objects or arrays"),
        ({"properties": {}}, "without the type object"),
        ({"type": "array", "items": [{"type": "string"}]}, "not an object"),
        ({"type": "object", "properties": {}, "required": ["gone"]}, "does not describe"),
        (True, "not an object"),
    ],
)
def test_schemas_without_a_strict_form_are_recognised(part: Any, reason: str) -> None:
    with pytest.raises(NotStrict, match=reason):
        strict_schema({"type": "object", "properties": {"a": part}}, lambda key, value: False)


async def test_keywords_that_anthropic_refuses_are_not_sent_as_strict() -> None:
    fields = APIS["anthropic-messages"][1]
    bounded = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
    assert await sent("anthropic-messages", a_tool("prefer", bounded), **fields) == (bounded, False)
    assert (await sent("openai-responses", a_tool("prefer", bounded)))[1] is True


def test_nulls_for_optional_arguments_do_not_reach_the_tool() -> None:
    arguments = {"path": "a", "limit": None, "edits": [{"old": None}]}
    assert fit_arguments(SCHEMA, arguments) == {"path": "a", "edits": [{}]}
