"""The names that extension authors import.

    from fairlead.extension import Block, Context, Fairlead, ToolCallEvent

    def setup(fl: Fairlead) -> None:
        @fl.on("tool_call")
        def careful(event: ToolCallEvent, context: Context) -> Block | None:
            return Block("Not that.") if "rm -rf" in str(event.arguments) else None

The events of a run (`turn_end`, `message_update` ...) are the classes of `fairlead.events`.
"""

from __future__ import annotations

from msgspec import Meta

from fairlead.core.approval import Allow, ApprovalRequest, Deny
from fairlead.core.messages import ImageContent, TextContent, ThinkingContent, ToolCall, Usage
from fairlead.core.runtime import Ui
from fairlead.core.tool import ToolResult
from fairlead.errors import FairleadError, ToolError
from fairlead.extend.extensions.context import CommandContext, Context, ExecResult, SessionView, ToolRunContext
from fairlead.extend.extensions.extension_api import Fairlead
from fairlead.extend.extensions.extension_events import (
    AfterProviderResponse,
    AgentBeforeSettle,
    Amend,
    BeforeAgentStart,
    BeforeProviderHeaders,
    BeforeProviderRequest,
    Block,
    CacheWarmingDecision,
    Cancel,
    Continue,
    EntryAppended,
    Guide,
    Handled,
    Input,
    ModelContext,
    ModelContextWithSystem,
    Note,
    Open,
    ProjectTrust,
    ProviderStreamEvent,
    Ran,
    Replace,
    Resources,
    ResourcesDiscover,
    Revise,
    SessionBeforeCompact,
    SessionBeforeFork,
    SessionBeforeSwitch,
    SessionBeforeTree,
    SessionCompact,
    SessionCompactFailed,
    SessionShutdown,
    SessionStart,
    SessionTree,
    Summary,
    ToolCallEvent,
    ToolResultEvent,
    Transform,
    Trust,
    UserBash,
    Warming,
)
from fairlead.extend.extensions.registrations import EventBus
from fairlead.extend.extensions.values import State
from fairlead.session.context.budget import ContextUsage
from fairlead.session.slash_commands import Completion

__all__ = [
    "AfterProviderResponse",
    "AgentBeforeSettle",
    "Allow",
    "Amend",
    "ApprovalRequest",
    "BeforeAgentStart",
    "BeforeProviderHeaders",
    "BeforeProviderRequest",
    "Block",
    "CacheWarmingDecision",
    "Cancel",
    "CommandContext",
    "Completion",
    "Context",
    "ContextUsage",
    "Continue",
    "Deny",
    "EntryAppended",
    "EventBus",
    "ExecResult",
    "Fairlead",
    "FairleadError",
    "Guide",
    "Handled",
    "ImageContent",
    "Input",
    "Meta",
    "ModelContext",
    "ModelContextWithSystem",
    "Note",
    "Open",
    "ProjectTrust",
    "ProviderStreamEvent",
    "Ran",
    "Replace",
    "Resources",
    "ResourcesDiscover",
    "Revise",
    "SessionBeforeCompact",
    "SessionBeforeFork",
    "SessionBeforeSwitch",
    "SessionBeforeTree",
    "SessionCompact",
    "SessionCompactFailed",
    "SessionShutdown",
    "SessionStart",
    "SessionTree",
    "SessionView",
    "State",
    "Summary",
    "TextContent",
    "ThinkingContent",
    "ToolCall",
    "ToolCallEvent",
    "ToolError",
    "ToolResult",
    "ToolResultEvent",
    "ToolRunContext",
    "Transform",
    "Trust",
    "Ui",
    "Usage",
    "UserBash",
    "Warming",
]
