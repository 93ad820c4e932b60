"""The data of `get_state` and `get_session_stats`."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from fairlead.core.model import Model, ThinkingLevel, ToolSpec
from fairlead.core.queues import InterruptMode, QueueMode


class ContextUsage(Struct, rename="camel"):
    """How full the model's context is. Null while that is unknown."""

    tokens: int | None
    context_window: int
    percent: float | None


class Tokens(Struct, rename="camel"):
    input: int
    output: int
    cache_read: int
    cache_write: int
    total: int


class SessionStats(Struct, rename="camel", kw_only=True):
    """Totals of the conversation. `cost` is in US dollars."""

    session_id: str
    user_messages: int
    assistant_messages: int
    tool_calls: int
    tool_results: int
    total_messages: int
    tokens: Tokens
    cost: float
    session_file: str | UnsetType = UNSET
    context_usage: ContextUsage | UnsetType = UNSET


class RpcSessionState(Struct, rename="camel", kw_only=True):
    model: Model | None
    is_streaming: bool
    #: True if nothing more will happen until the host sends something.
    is_settled: bool
    is_compacting: bool
    steering_mode: QueueMode
    follow_up_mode: QueueMode
    interrupt_mode: InterruptMode
    session_id: str
    auto_compaction_enabled: bool
    message_count: int
    pending_message_count: int
    queued_message_count: int
    todo_phases: list[Any]
    context_usage: ContextUsage | UnsetType = UNSET
    thinking_level: ThinkingLevel | UnsetType = UNSET
    session_file: str | UnsetType = UNSET
    session_name: str | UnsetType = UNSET
    system_prompt: str | UnsetType = UNSET
    dump_tools: list[ToolSpec] | UnsetType = UNSET
