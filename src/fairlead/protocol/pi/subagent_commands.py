"""What a host may ask about sub-agents."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import Struct

from fairlead.core.subagents import SubagentSnapshot
from fairlead.protocol.pi.command import Command


class SubagentSubscription(Struct):
    level: str


class SetSubagentSubscription(Command, tag="set_subagent_subscription", kw_only=True):
    """What to be told of sub-agents: nothing (`off`, as in the beginning), `subagent_lifecycle` and `subagent_progress`
    (`progress`), or also everything that happens in their runs, as `subagent_event` (`events`)."""

    level: str
    result: ClassVar[Any] = SubagentSubscription


class Subagents(Struct):
    subagents: list[SubagentSnapshot]


class GetSubagents(Command, tag="get_subagents"):
    """The sub-agents of this session since it was opened, also those that have ended, and those of sub-agents: their ids begin
    with the id of the one that started them, and a dot."""

    result: ClassVar[Any] = Subagents


class SubagentMessages(Struct, rename="camel"):
    """`entries` are complete lines of the file, its header included; `messages` those that they hold. `nextByte` is the
    `fromByte` of the next piece."""

    session_file: str
    from_byte: int
    next_byte: int
    #: Whether the file was shorter than `fromByte`, so that this begins with its first line.
    reset: bool
    entries: list[dict[str, Any]]
    messages: list[dict[str, Any]]


class GetSubagentMessages(Command, tag="get_subagent_messages", kw_only=True):
    """The conversation of a sub-agent as far as it is written, or what came after the byte `fromByte`. The sub-agent is named
    by its id, or by its `sessionFile`, also if it ended before this session was opened. Other files are not read."""

    subagent_id: str | None = None
    session_file: str | None = None
    from_byte: int | None = None
    result: ClassVar[Any] = SubagentMessages


SUBAGENT_COMMANDS: tuple[type[Command], ...] = (SetSubagentSubscription, GetSubagents, GetSubagentMessages)
