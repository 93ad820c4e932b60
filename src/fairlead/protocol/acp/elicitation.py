"""Questions to the user: forms, and pages to open."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct

from fairlead.protocol.acp.content import Notification, Object, Request

StringFormat: TypeAlias = Literal["email", "uri", "date", "date-time"]


class EnumOption(Object):
    """A titled enum option with a const value, human-readable title, and optional description."""

    #: The constant value for this option.
    const: str
    #: Human-readable title for this option.
    title: str
    #: Human-readable description.
    description: str | None = None


class StringPropertySchema(Object, tag_field="type", tag="string"):
    """Schema for string properties in an elicitation form."""

    #: Optional title for the property.
    title: str | None = None
    #: Human-readable description.
    description: str | None = None
    #: Minimum string length.
    min_length: int | None = None
    #: Maximum string length.
    max_length: int | None = None
    #: Pattern the string must match.
    pattern: str | None = None
    #: String format.
    format: StringFormat | None = None
    #: Default value.
    default: str | None = None
    #: Enum values for untitled single-select enums.
    enum: list[str] | None = None
    #: Titled enum options for titled single-select enums.
    one_of: list[EnumOption] | None = None


class NumberPropertySchema(Object, tag_field="type", tag="number"):
    """Schema for number (floating-point) properties in an elicitation form."""

    #: Optional title for the property.
    title: str | None = None
    #: Human-readable description.
    description: str | None = None
    #: Minimum value (inclusive).
    minimum: float | None = None
    #: Maximum value (inclusive).
    maximum: float | None = None
    #: Default value.
    default: float | None = None


class IntegerPropertySchema(Object, tag_field="type", tag="integer"):
    """Schema for integer properties in an elicitation form."""

    #: Optional title for the property.
    title: str | None = None
    #: Human-readable description.
    description: str | None = None
    #: Minimum value (inclusive).
    minimum: int | None = None
    #: Maximum value (inclusive).
    maximum: int | None = None
    #: Default value.
    default: int | None = None


class BooleanPropertySchema(Object, tag_field="type", tag="boolean"):
    """Schema for boolean properties in an elicitation form."""

    #: Optional title for the property.
    title: str | None = None
    #: Human-readable description.
    description: str | None = None
    #: Default value.
    default: bool | None = None


class StringMultiSelectItems(Object, tag_field="type", tag="string"):
    """String item schema for multi-select enum properties."""

    #: Allowed enum values.
    enum: list[str]


class TitledMultiSelectItems(Object):
    """Items definition for titled multi-select enum properties."""

    #: Titled enum options.
    any_of: list[EnumOption]


class MultiSelectPropertySchema(Object, tag_field="type", tag="array"):
    """Schema for multi-select (array) properties in an elicitation form."""

    #: The items definition describing allowed values.
    items: Any
    #: Optional title for the property.
    title: str | None = None
    #: Human-readable description.
    description: str | None = None
    #: Minimum number of items to select.
    min_items: int | None = None
    #: Maximum number of items to select.
    max_items: int | None = None
    #: Default selected values.
    default: list[str] | None = None


#: What may be chosen in a list of several.
MultiSelectItems: TypeAlias = StringMultiSelectItems | TitledMultiSelectItems

ElicitationPropertySchema: TypeAlias = (
    StringPropertySchema | NumberPropertySchema | IntegerPropertySchema | BooleanPropertySchema | MultiSelectPropertySchema
)


class ElicitationSchema(Object):
    """Type-safe elicitation schema for requesting structured user input."""

    #: Type discriminator.
    type: Literal["object"] = "object"
    #: Optional title for the schema.
    title: str | None = None
    #: Property definitions (must be primitive types).
    properties: dict[str, ElicitationPropertySchema] = {}
    #: List of required property names.
    required: list[str] | None = None
    #: Optional description of what this schema represents.
    description: str | None = None


class CreateElicitationResponse(Object):
    """Response from the client to an elicitation request."""

    #: `accept`, `decline` or `cancel`.
    action: str
    #: The user-provided content, if any, as an object matching the requested schema.
    content: dict[str, Any] | None = None


class ElicitationForm(Request, tag_field="mode", tag="form"):
    """Request from the agent to elicit structured user input."""

    method: ClassVar[str] = "elicitation/create"
    result: ClassVar[type[Struct]] = CreateElicitationResponse
    #: A human-readable message describing what input is needed.
    message: str
    #: A JSON Schema describing the form fields to present to the user.
    requested_schema: ElicitationSchema
    #: The session this elicitation is tied to.
    session_id: str | None = None
    #: Optional tool call within the session.
    tool_call_id: str | None = None
    #: The request this elicitation is tied to.
    request_id: int | str | None = None


class ElicitationUrl(Request, tag_field="mode", tag="url"):
    """Request from the agent to elicit structured user input."""

    method: ClassVar[str] = "elicitation/create"
    result: ClassVar[type[Struct]] = CreateElicitationResponse
    #: A human-readable message describing what input is needed.
    message: str
    #: The unique identifier for this elicitation.
    elicitation_id: str
    #: The URL to direct the user to.
    url: str
    #: The session this elicitation is tied to.
    session_id: str | None = None
    #: Optional tool call within the session.
    tool_call_id: str | None = None
    #: The request this elicitation is tied to.
    request_id: int | str | None = None


class CompleteElicitationNotification(Notification):
    """Notification sent by the agent when a URL-based elicitation is complete."""

    method: ClassVar[str] = "elicitation/complete"
    #: The ID of the elicitation that completed.
    elicitation_id: str


#: A question: a form to fill in, or a page to open.
CreateElicitationRequest: TypeAlias = ElicitationForm | ElicitationUrl
