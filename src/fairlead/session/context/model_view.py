"""Converts messages that models do not know (commands, notes, summaries) to the form in which a model sees them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from fairlead.core.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageContent,
    Message,
    ModelMessage,
    TextContent,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)

#: Control characters that text files do not contain.
_NOT_TEXT = r"[\x00-\x06\x0e-\x1a\x1c-\x1f]"


def for_model(message: Message) -> ModelMessage | None:
    """Return `message` in the form in which the model sees it; None if the model does not see it."""
    match message:
        case UserMessage() if message.attachments:
            return UserMessage(with_attachments(message.content, message.attachments), message.timestamp)
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


class _AttachedFile(Struct, rename="camel"):
    """What the model needs of an attached file, which session files keep as the host sent it."""

    type: str
    content: str
    file_name: str = "unnamed"
    mime_type: str = ""
    extracted_text: str | None = None
    size: int | None = None


def with_attachments(content: str | list[UserBlock], attachments: Sequence[Mapping[str, Any]]) -> list[UserBlock]:
    """Return what the user said, then each document's text under its file name, then the images."""
    blocks: list[UserBlock] = [TextContent(content)] if isinstance(content, str) else list(content)
    files = [file for attached in attachments if (file := _read_attached_file(attached)) is not None]
    for file in files:
        if file.type == "document":
            blocks.append(TextContent(f"\n\n[Document: {file.file_name}]\n{_document_text(file)}"))
    blocks += (ImageContent(file.content, file.mime_type or "image/png") for file in files if file.type == "image")
    return blocks


def _document_text(file: _AttachedFile) -> str:
    """Return what the model reads of a document: the extracted text, or the content if that is text, or what is known of it."""
    if file.extracted_text is not None:
        return file.extracted_text
    try:
        content = base64.b64decode(file.content)
    except ValueError:
        content = None
    try:
        text = content.decode("utf-8-sig") if content is not None else None
    except UnicodeDecodeError:
        text = None
    if text is not None and not re.search(_NOT_TEXT, text):
        return text
    size = len(content) if content is not None else file.size
    kind = file.mime_type or "application/octet-stream"
    known = kind if size is None else f"{kind}, {size} bytes"
    return f"({known}; its content is not text, and the host did not extract any)"


def _read_attached_file(attached: Mapping[str, Any]) -> _AttachedFile | None:
    """The file; None if a session file holds something else in its place."""
    try:
        return msgspec.convert(attached, _AttachedFile)
    except msgspec.ValidationError:
        return None


def bash_text(message: BashExecutionMessage) -> str:
    """Return a command that the user ran, as the text that the model sees (in pi's form)."""
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
