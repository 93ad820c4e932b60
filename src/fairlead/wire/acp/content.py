"""Converts content between ACP and the agent: prompts to text and images, messages and results to blocks."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec
from msgspec import Struct

from fairlead.core.images import image_type
from fairlead.core.messages import ImageContent as AgentImage
from fairlead.core.messages import TextContent as AgentText
from fairlead.core.messages import UserBlock
from fairlead.protocol.acp import content as acp
from fairlead.wire.jsonrpc import BadParams

AUDIO = "This agent does not accept audio: its prompt capabilities say so."


class PromptContent(Struct, frozen=True):
    """A prompt as the agent gets it."""

    text: str
    images: list[AgentImage] | None


def prompt_content(blocks: Sequence[acp.ContentBlock]) -> PromptContent:
    """Convert a prompt. Links stay where they are; the contents of embedded resources follow at the end.

    Raises BadParams if there is nothing in it, and for audio and images that models do not accept.
    """
    text: list[str] = []
    resources: list[str] = []
    images: list[AgentImage] = []
    for block in blocks:
        match block:
            case acp.TextContent():
                text.append(block.text)
            case acp.ImageContent():
                image = _image(block.data)
                if image is None:
                    raise BadParams(f"prompt: expected a PNG, JPEG, GIF or WebP image in base64, found {block.mime_type!r}")
                images.append(image)
            case acp.AudioContent():
                raise BadParams(AUDIO)
            case acp.ResourceLink():
                text.append(_link(block.uri, block.title or block.name))
            case acp.EmbeddedResource():
                _embed(_resource(block.resource), text, resources, images)
    whole = "".join(text)
    if resources:
        whole = "\n\n".join([whole, *resources]) if whole.strip() else "\n\n".join(resources)
    if not whole.strip() and not images:
        raise BadParams("prompt: expected text, an image or a resource, found nothing")
    return PromptContent(whole, images or None)


def _resource(value: Any) -> acp.ResourceContents:
    declared = acp.BlobResourceContents if isinstance(value, dict) and "blob" in value else acp.TextResourceContents
    try:
        return msgspec.convert(value, declared)
    except msgspec.ValidationError as error:
        raise BadParams(f"prompt: an embedded resource cannot be used: {error}") from None


def _embed(resource: acp.ResourceContents, text: list[str], resources: list[str], images: list[AgentImage]) -> None:
    name = _name(resource.uri)
    if isinstance(resource, acp.TextResourceContents):
        text.append(_link(resource.uri, name))
        resources.append(f'<context ref="{_place(resource.uri)}">\n{resource.text}\n</context>')
    elif (resource.mime_type or "").startswith("image/") and (image := _image(resource.blob)) is not None:
        images.append(image)
    else:
        kind = resource.mime_type or "unknown type"
        text.append(f"{_link(resource.uri, name)} (binary, {kind}, {len(resource.blob) * 3 // 4:,} bytes, not shown)")


def _image(data: str) -> AgentImage | None:
    """Return an image with its real type; None if models do not accept it.

    A provider would refuse a conversation with such an image, now and with every later prompt.
    """
    try:
        decoded = b64decode("".join(data.split()), validate=True)
    except ValueError:
        return None
    kind = image_type(decoded)
    return None if kind is None else AgentImage(b64encode(decoded).decode(), kind)


def _link(uri: str, name: str) -> str:
    return f"[@{name}]({_place(uri)})"


def _place(uri: str) -> str:
    """A file as a path, which tools can use; anything else as it is. A fragment such as `#L10` stays."""
    parts = _split(uri)
    if parts is None or parts.scheme != "file":
        return uri
    return unquote(parts.path) + (f"#{parts.fragment}" if parts.fragment else "")


def _name(uri: str) -> str:
    parts = _split(uri)
    return uri if parts is None else unquote(parts.path).rstrip("/").rpartition("/")[2] or uri


def _split(uri: str) -> SplitResult | None:
    try:
        return urlsplit(uri)
    except ValueError:  # a bracket without its pair
        return None


# What the agent says and shows


def blocks(content: str | Iterable[UserBlock]) -> list[acp.ContentBlock]:
    """Convert the content of a message or of a result. Empty texts are left out."""
    if isinstance(content, str):
        return [acp.TextContent(content)] if content else []
    found: list[acp.ContentBlock] = []
    for block in content:
        if isinstance(block, AgentText):
            if block.text:
                found.append(acp.TextContent(block.text))
        else:
            found.append(acp.ImageContent(data=block.data, mime_type=block.mime_type))
    return found


def text_of(content: Iterable[UserBlock]) -> str:
    """The texts of a result."""
    return "\n".join(block.text for block in content if isinstance(block, AgentText))
