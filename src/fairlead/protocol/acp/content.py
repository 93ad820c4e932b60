"""The base classes of every object, request and notification, and the content of messages and tool calls.

Field names are in camel case on the wire. Content is text, images, audio, links to resources, and resources themselves."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Struct

#: The version of the protocol that fairlead speaks.
PROTOCOL_VERSION = 1

#: Error codes beyond those of JSON-RPC.
AUTH_REQUIRED, RESOURCE_NOT_FOUND = -32000, -32002


class Object(Struct, rename="camel", omit_defaults=True, kw_only=True):
    """An object. An absent field has its default, and `null` for an optional one means absent."""

    #: Additional data that clients and agents agree on.
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class Request(Object):
    """A request. The fields are its params."""

    #: Its name on the wire.
    method: ClassVar[str]
    #: The type of the answer's `result`.
    result: ClassVar[type[Struct]]


class Notification(Object):
    """A request without an answer. The fields are its params."""

    #: Its name on the wire.
    method: ClassVar[str]


Role: TypeAlias = Literal["assistant", "user"]


class Annotations(Object):
    """Optional annotations for the client."""

    #: Intended recipients for this content, such as the user or assistant.
    audience: list[Role] | None = None
    #: Timestamp indicating when the underlying resource was last modified.
    last_modified: str | None = None
    #: Relative importance of this content when clients choose what to surface.
    priority: float | None = None


class TextContent(Object, tag_field="type", tag="text"):
    """Text provided to or from an LLM."""

    #: Text payload carried by this content block.
    text: str
    #: Optional annotations that help clients decide how to display or route this content.
    annotations: Annotations | None = None


class ImageContent(Object, tag_field="type", tag="image"):
    """An image provided to or from an LLM."""

    #: Base64-encoded media payload.
    data: str
    #: MIME type describing the encoded media payload.
    mime_type: str
    #: Optional annotations that help clients decide how to display or route this content.
    annotations: Annotations | None = None
    #: URI associated with this resource or media payload.
    uri: str | None = None


class AudioContent(Object, tag_field="type", tag="audio"):
    """Audio provided to or from an LLM."""

    #: Base64-encoded media payload.
    data: str
    #: MIME type describing the encoded media payload.
    mime_type: str
    #: Optional annotations that help clients decide how to display or route this content.
    annotations: Annotations | None = None


class ResourceLink(Object, tag_field="type", tag="resource_link"):
    """A resource that the server is capable of reading, included in a prompt or tool call result."""

    #: Human-readable name shown for this protocol object.
    name: str
    #: URI associated with this resource or media payload.
    uri: str
    #: Optional annotations that help clients decide how to display or route this content.
    annotations: Annotations | None = None
    #: Optional human-readable details shown with this protocol object.
    description: str | None = None
    #: MIME type describing the encoded media payload.
    mime_type: str | None = None
    #: Optional size of the linked resource in bytes, if known.
    size: int | None = None
    #: Optional display title for end-user UI.
    title: str | None = None


class TextResourceContents(Object):
    """Text-based resource contents."""

    #: Text payload carried by this content block.
    text: str
    #: URI associated with this resource or media payload.
    uri: str
    #: MIME type describing the encoded media payload.
    mime_type: str | None = None


class BlobResourceContents(Object):
    """Binary resource contents."""

    #: Base64-encoded bytes for a binary resource payload.
    blob: str
    #: URI associated with this resource or media payload.
    uri: str
    #: MIME type describing the encoded media payload.
    mime_type: str | None = None


class EmbeddedResource(Object, tag_field="type", tag="resource"):
    """The contents of a resource, embedded into a prompt or tool call result."""

    #: Embedded resource payload, either text or binary data.
    resource: Any
    #: Optional annotations that help clients decide how to display or route this content.
    annotations: Annotations | None = None


#: The contents of an embedded resource.
ResourceContents: TypeAlias = TextResourceContents | BlobResourceContents

ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
