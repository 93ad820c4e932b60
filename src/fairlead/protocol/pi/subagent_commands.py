"""Commands about sub-agents."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from fairlead.core.subagents import SubagentSnapshot
from fairlead.protocol.pi.command import Command


class SubagentSubscription(Struct):
    level: str


class SetSubagentSubscription(Command, tag="set_subagent_subscription", kw_only=True):
    """Choose the events about sub-agents: none (`off`, the default), `subagent_lifecycle` and `subagent_progress`
    (`progress`), or these and every event of their runs as `subagent_event` (`events`)."""

    level: str
    result: ClassVar[Any] = SubagentSubscription


class Subagents(Struct):
    subagents: list[SubagentSnapshot]


class GetSubagents(Command, tag="get_subagents"):
    """List the sub-agents that started since this session was opened, including finished ones. A nested sub-agent's id begins
    with the id of its parent and a dot."""

    result: ClassVar[Any] = Subagents


class SubagentMessages(Struct, rename="camel"):
    """`entries` are complete lines of the file, including its header. `messages` are the messages in them. `nextByte` is the
    `fromByte` of the next part."""

    session_file: str
    from_byte: int
    next_byte: int
    #: True if the file was shorter than `fromByte`, so that `entries` begins with its first line.
    reset: bool
    entries: list[dict[str, Any]]
    messages: list[dict[str, Any]]


class GetSubagentMessages(Command, tag="get_subagent_messages", kw_only=True):
    """Get the conversation of a sub-agent as written so far, or the part after the byte `fromByte`. Name the sub-agent by its id
    or by its `sessionFile`, which also finds those from before this session was opened. Other files are refused."""

    subagent_id: str | None = None
    session_file: str | None = None
    from_byte: int | None = None
    result: ClassVar[Any] = SubagentMessages


SUBAGENT_COMMANDS: tuple[type[Command], ...] = (SetSubagentSubscription, GetSubagents, GetSubagentMessages)
