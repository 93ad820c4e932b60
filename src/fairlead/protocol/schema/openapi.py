"""The HTTP interface as an OpenAPI 3.1 document."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fairlead.protocol.http.http_events import EVENTS
from fairlead.protocol.http.http_objects import ErrorBody
from fairlead.protocol.http.operations import OPERATIONS, Operation
from fairlead.protocol.schema.builder import Schema, SchemaBuilder

DESCRIPTION = (
    "Sessions of a coding agent over HTTP. A client fetches a snapshot of a session and then listens to the events after its "
    "`lastEvent`. Every error has the same shape."
)
_REASONS = {
    400: "The request is malformed, or asks for something that cannot be done.",
    401: "The client has not logged in, or its token or code is not valid.",
    403: "The request is not allowed: its Host, its Origin or its directory.",
    404: "There is no such session, entry or question.",
    408: "The body of the request did not arrive in time.",
    409: "The session is in a state that does not allow this.",
    413: "The request is too large.",
    415: "The body is not JSON, or its `Content-Type` does not say so.",
    429: "Too many requests of this kind. `Retry-After` says when to try again.",
    502: "The provider of the model failed.",
    503: "The server shuts down, or has too many sessions or connections.",
}


def openapi_document(version: str, more: Sequence[Operation] = ()) -> dict[str, Any]:
    """Return the document for a version of fairlead. `more` are operations besides those that every server has."""
    operations = (*OPERATIONS, *more)
    builder = SchemaBuilder()
    bodies = {each.name: builder.of(each.body) for each in operations if each.body is not None}
    builder.accepting = False
    results = {each.name: builder.of(each.result) for each in operations if each.result is not None}
    events = [builder.of(event) for event in EVENTS]
    error = builder.of(ErrorBody)
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        described = _operation(each, bodies.get(each.name), results.get(each.name), error)
        paths.setdefault(each.path, {})[each.method.lower()] = described
    schemas = {**builder.definitions, "ServeEvent": {"description": "An event that only this server sends.", "oneOf": events}}
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "fairlead serve", "description": DESCRIPTION, "version": version},
        "security": [{"token": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "fairlead-PORT"},
            },
            "schemas": dict(sorted(schemas.items())),
        },
    }
    text = msgspec.json.encode(document).replace(b'"#/$defs/', b'"#/components/schemas/')
    return msgspec.json.decode(text)


def _operation(operation: Operation, body: Schema | None, result: Schema | None, error: Schema) -> dict[str, Any]:
    described: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary}
    if operation.description:
        described["description"] = operation.description
    if operation.is_public:
        described["security"] = []
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", operation.path)
    ]
    parameters += [
        {"name": each.name, "in": each.place, "description": each.description, "schema": {"type": each.type}}
        for each in operation.parameters
    ]
    if parameters:
        described["parameters"] = parameters
    if body is not None:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    success: dict[str, Any] = {"description": "Success."}
    if result is not None:
        success["content"] = {operation.content: {"schema": result}}
    elif operation.content != "application/json":
        success["content"] = {operation.content: {"schema": {"type": "string"}}}
    responses: dict[str, Any] = {str(operation.status): success}
    for status in sorted({*_common_errors(operation), *operation.errors}):
        responses[str(status)] = {"description": _REASONS[status], "content": {"application/json": {"schema": error}}}
    described["responses"] = responses
    return described


def _common_errors(operation: Operation) -> Iterator[int]:
    """Yield the statuses of errors that an operation has because of what it accepts."""
    yield from (400, 403, 408, 413, 503)
    if not operation.is_public:
        yield from (401, 429)  # a wrong token, and too many of them
    if operation.body is not None:
        yield 415
