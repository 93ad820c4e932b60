"""How a model is told of the messages that are not its own kind: commands of the host's, notes, summaries."""

from __future__ import annotations

from fairlead.core.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    ModelMessage,
    TextContent,
    ToolResultMessage,
    UserMessage,
)


def for_model(message: Message) -> ModelMessage | None:
    """`message` as a model is told of it; None if it is not told."""
    match message:
        case UserMessage() | AssistantMessage() | ToolResultMessage():
            return message
        case BashExecutionMessage():
            return None if message.exclude_from_context else UserMessage(bash_text(message), message.timestamp)
        case CustomMessage():
            return UserMessage(message.content, message.timestamp)
        case BranchSummaryMessage():
            intro = "The following is a summary of a branch that this conversation came back from:"
            return _summary(intro, message.summary, message.timestamp)
        case CompactionSummaryMessage():
            intro = "The conversation history before this point was compacted into the following summary:"
            return _summary(intro, message.summary, message.timestamp)


def bash_text(message: BashExecutionMessage) -> str:
    """A command that the host ran, as the model reads of it (the form is pi's)."""
    shown = f"```\n{message.output}\n```" if message.output else "(no output)"
    text = f"Ran `{message.command}`\n{shown}"
    if message.cancelled:
        text += "\n\n(command cancelled)"
    elif message.exit_code:
        text += f"\n\nCommand exited with code {message.exit_code}"
    if message.truncated and message.full_output_path:
        text += f"\n\n[Output truncated. Full output: {message.full_output_path}]"
    return text


def _summary(intro: str, summary: str, timestamp: int) -> UserMessage:
    return UserMessage([TextContent(f"{intro}\n\n<summary>\n{summary}\n</summary>")], timestamp)
