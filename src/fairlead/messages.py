"""Messages, the blocks they consist of, and what they cost."""

from __future__ import annotations

from fairlead.core.messages import (
    AssistantBlock,
    AssistantMessage,
    Attribution,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Cost,
    CustomMessage,
    ImageContent,
    Message,
    ModelMessage,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserBlock,
    UserMessage,
    user_text,
)

__all__ = [
    "AssistantBlock",
    "AssistantMessage",
    "Attribution",
    "BashExecutionMessage",
    "BranchSummaryMessage",
    "CompactionSummaryMessage",
    "Cost",
    "CustomMessage",
    "ImageContent",
    "Message",
    "ModelMessage",
    "StopReason",
    "TextContent",
    "ThinkingContent",
    "ToolCall",
    "ToolResultMessage",
    "Usage",
    "UserBlock",
    "UserMessage",
    "user_text",
]
