"""The result of `fairlead -p --output-format json`, which is also the last line of `stream-json`."""

from __future__ import annotations

from msgspec import Struct

from fairlead.core.messages import StopReason, Usage


class PrintResult(Struct, tag_field="type", tag="result", rename="camel", kw_only=True):
    """What the prompts of one command line came to."""

    #: The text of the last answer; empty if there is none.
    text: str
    #: Why the last answer ended; null if there was no model call.
    stop_reason: StopReason | None
    #: Whether anything failed. The exit code is then not 0.
    is_error: bool
    #: What failed, one sentence each.
    errors: list[str] = []
    #: The tokens of all model calls, including retries, compactions and sub-agents, and their cost by kind.
    usage: Usage
    #: What all of that cost, in US dollars.
    cost: float
    #: How many answers the model gave.
    turns: int
    #: The model that answered last, as provider/id; null if none was called.
    model: str | None
    #: The id of the session; null if the command failed before there was one.
    session_id: str | None
    #: The file of the session; null if it is not saved.
    session_file: str | None = None
    #: How long it took, in milliseconds.
    duration_ms: int
