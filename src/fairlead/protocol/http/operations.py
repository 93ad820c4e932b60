"""The operations of the HTTP interface. The server routes requests by this table, and the OpenAPI document is made from it."""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from fairlead.core.events import CompactionResult
from fairlead.protocol.http import http_objects as o

Method: TypeAlias = Literal["GET", "POST", "PATCH", "DELETE"]


class Parameter(Struct, frozen=True, kw_only=True):
    """A query parameter or a header. All of them are optional."""

    name: str
    description: str
    place: Literal["query", "header"] = "query"
    type: Literal["string", "integer"] = "string"


class Operation(Struct, frozen=True, kw_only=True):
    """One operation."""

    #: Its name in the document, and that of its handler.
    name: str
    method: Method
    path: str
    summary: str
    description: str = ""
    #: What the client sends; None: nothing.
    body: Any = None
    #: What the client gets; None: no content.
    result: Any = None
    status: int = 200
    parameters: tuple[Parameter, ...] = ()
    #: The type of the response if it is not JSON.
    content: str = "application/json"
    #: The statuses of errors, beside those that every operation has.
    errors: tuple[int, ...] = ()
    #: Whether it needs no login.
    is_public: bool = False

    @property
    def ids(self) -> list[tuple[str, str]]:
        """The parts of the path in braces, each with the name that clients have for it: `{id}` after `/jobs/` is `job_id`."""
        return [(f"{{{part}}}", f"{kind}_id") for kind, part in re.findall(r"(\w+)s/{(\w+)}", self.path)]


_AFTER = Parameter(
    name="after", type="integer", description="The number of the last event that the client has. `Last-Event-ID` comes first."
)
_LAST_EVENT_ID = Parameter(
    name="Last-Event-ID", place="header", type="integer", description="The number of the last event that the client has."
)

_SESSION = "/v1/sessions/{id}"

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="create_session",
        method="POST",
        path="/v1/sessions",
        summary="Begin a session.",
        body=o.NewSession,
        result=o.SessionState,
        status=201,
        errors=(403, 503),
    ),
    Operation(
        name="list_sessions",
        method="GET",
        path="/v1/sessions",
        summary="List the sessions, the last changed first.",
        result=o.SessionList,
        parameters=(
            Parameter(name="cwd", description="Only sessions with this working directory."),
            Parameter(name="cursor", description="The `nextCursor` of the page before."),
        ),
    ),
    Operation(
        name="get_session",
        method="GET",
        path=_SESSION,
        summary="Get a snapshot of a session.",
        description="The events after `lastEvent` continue the snapshot without a gap.",
        result=o.Snapshot,
        parameters=(Parameter(name="messages", type="integer", description="How many of the newest messages to return."),),
        errors=(403, 404, 503),
    ),
    Operation(
        name="change_session",
        method="PATCH",
        path=_SESSION,
        summary="Change the model, the thinking level, the name or the approval mode.",
        body=o.Changes,
        result=o.SessionState,
        errors=(404, 409),
    ),
    Operation(
        name="delete_session",
        method="DELETE",
        path=_SESSION,
        summary="Stop a session, close it and delete its file.",
        status=204,
        errors=(404, 409),
    ),
    Operation(
        name="prompt",
        method="POST",
        path=f"{_SESSION}/prompt",
        summary="Send a message of the user. It starts a run.",
        description="The answer comes at once. `prompt_result` reports the end of the work.",
        body=o.Prompt,
        result=o.AcceptedPrompt,
        status=202,
        errors=(404, 409, 429),
    ),
    Operation(
        name="steer",
        method="POST",
        path=f"{_SESSION}/steer",
        summary="Queue a message for the next turn of the run.",
        body=o.QueuedMessage,
        result=o.AcceptedPrompt,
        status=202,
        errors=(404, 409, 429),
    ),
    Operation(
        name="follow_up",
        method="POST",
        path=f"{_SESSION}/follow_up",
        summary="Queue a message for when the run would stop.",
        body=o.QueuedMessage,
        result=o.AcceptedPrompt,
        status=202,
        errors=(404, 409, 429),
    ),
    Operation(
        name="abort",
        method="POST",
        path=f"{_SESSION}/abort",
        summary="Stop the run or the compaction, and wait until the session has settled.",
        result=o.SessionState,
        errors=(404,),
    ),
    Operation(
        name="resume",
        method="POST",
        path=f"{_SESSION}/resume",
        summary="Continue the last run if it was interrupted.",
        description="No message is repeated. The response comes at once, and the events report the run. In a session whose"
        " prompts workers run, the last job is retried if it failed or is parked.",
        result=o.SessionState,
        status=202,
        errors=(404, 409),
    ),
    Operation(
        name="compact",
        method="POST",
        path=f"{_SESSION}/compact",
        summary="Replace older messages with a summary.",
        description="The response comes when the summary is written.",
        body=o.Compaction,
        result=CompactionResult,
        errors=(404, 409, 502),
    ),
    Operation(
        name="get_tree",
        method="GET",
        path=f"{_SESSION}/tree",
        summary="Get the messages of all branches. `move` continues from any of them, and `fork` begins a session there.",
        result=o.Tree,
        errors=(404, 503),
    ),
    Operation(
        name="fork",
        method="POST",
        path=f"{_SESSION}/fork",
        summary="Begin a session with what this one has up to an entry.",
        body=o.Fork,
        result=o.Forked,
        status=201,
        errors=(404, 409, 503),
    ),
    Operation(
        name="move",
        method="POST",
        path=f"{_SESSION}/move",
        summary="Continue from another entry of the same session. The run is stopped first.",
        description="All clients get `branch_changed`. The new place is saved with the next message.",
        body=o.Move,
        result=o.Moved,
        errors=(404, 409, 502),
    ),
    Operation(
        name="clear_queue",
        method="DELETE",
        path=f"{_SESSION}/queue",
        summary="Remove the messages that wait for the run, and return their texts.",
        description="`prompt_result` reports them as aborted.",
        result=o.ClearedQueue,
        errors=(404,),
    ),
    Operation(
        name="complete",
        method="POST",
        path=f"{_SESSION}/complete",
        summary="Suggest how the text before the cursor continues.",
        description="Files of the working directory after `@`, slash commands after `/`, and arguments of slash commands.",
        body=o.TextBeforeCursor,
        result=o.Completions,
        errors=(404,),
    ),
    Operation(
        name="listen",
        method="GET",
        path=f"{_SESSION}/events",
        summary="Listen to the events of a session.",
        description=(
            "Server-sent events. `id` is the number of the event, `data` is the event as JSON: an event of pi in delta form "
            "(`fairlead schema --dialect pi` prints them), or one of `ServeEvent`. A client that missed events gets `resync` "
            'first. The same address accepts a WebSocket, whose messages are `{"number": N, "event": {...}}`; it closes a client '
            "that reads too slowly "
            "with code 4408."
        ),
        parameters=(_AFTER, _LAST_EVENT_ID),
        content="text/event-stream",
        errors=(404, 503),
    ),
    Operation(
        name="answer",
        method="POST",
        path=f"{_SESSION}/questions/{{question}}",
        summary="Answer a question. The first answer of any client counts.",
        body=o.Answer,
        status=204,
        errors=(404, 409),
    ),
    Operation(
        name="list_models",
        method="GET",
        path="/v1/models",
        summary="List the models that can be used.",
        result=o.ModelList,
    ),
    Operation(
        name="create_login_code",
        method="POST",
        path="/v1/login_codes",
        summary="Make a code with which a browser can log in once.",
        result=o.LoginCode,
        status=201,
    ),
    Operation(
        name="log_in",
        method="POST",
        path="/login",
        summary="Exchange a login code or a token for a cookie.",
        body=o.Login,
        status=204,
        errors=(401, 429),
        is_public=True,
    ),
    Operation(name="log_out", method="POST", path="/logout", summary="Forget the cookie.", status=204),
    Operation(
        name="healthz",
        method="GET",
        path="/healthz",
        summary="Whether the process works.",
        result=o.Health,
        is_public=True,
    ),
    Operation(
        name="readyz",
        method="GET",
        path="/readyz",
        summary="Whether the server accepts work. The status is 503 while it shuts down.",
        result=o.Health,
        errors=(503,),
        is_public=True,
    ),
    Operation(
        name="metrics",
        method="GET",
        path="/metrics",
        summary="Counters for Prometheus.",
        content="text/plain",
    ),
    Operation(name="openapi", method="GET", path="/openapi.json", summary="This document.", result=dict[str, Any]),
)
