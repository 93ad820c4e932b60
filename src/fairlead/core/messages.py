"""Messages, content blocks and usage: the one declaration of each, whose JSON is pi's.

Optional fields that are unset leave no trace in the JSON. Times are milliseconds since the epoch.
"""

import base64
import re
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from fairlead.core import images as core_images
from fairlead.core import lenient

StopReason: TypeAlias = Literal["stop", "length", "toolUse", "error", "aborted"]
Attribution: TypeAlias = Literal["user", "agent"]


class _Block(Struct, tag_field="type", rename="camel", omit_defaults=True):
    pass


class TextContent(_Block, tag="text"):
    text: str
    text_signature: str | None = None


class ThinkingContent(_Block, tag="thinking"):
    """A model's reasoning. `thinking_signature` proves to the provider that its own model wrote it."""

    thinking: str
    thinking_signature: str | None = None
    redacted: bool = False


class ImageContent(_Block, tag="image"):
    """An image as base64 `data`."""

    data: str
    mime_type: str

    @classmethod
    def from_bytes(cls, data: bytes, mime_type: str | None = None) -> "ImageContent":
        """Make an image from the bytes of a PNG, JPEG, GIF or WebP file.

        Args:
            data: The bytes.
            mime_type: Their type, such as "image/png". None: find it out.

        Raises:
            ValueError: The type is not given, and the bytes are not an image that models accept.
        """
        kind = mime_type or core_images.image_type(data[:32])
        if kind is None:
            raise ValueError("The data is not a PNG, JPEG, GIF or WebP image.")
        return cls(base64.b64encode(data).decode(), kind)

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> "ImageContent":
        """Make an image from a file. Raises OSError if it cannot be read, ValueError if models do not accept such images."""
        try:
            return cls.from_bytes(Path(path).read_bytes())
        except ValueError:
            raise ValueError(f"{path} is not a PNG, JPEG, GIF or WebP image.") from None


class ToolCall(_Block, tag="toolCall"):
    id: str
    name: str
    arguments: dict[str, Any]
    thought_signature: str | None = None


UserBlock: TypeAlias = TextContent | ImageContent
AssistantBlock: TypeAlias = TextContent | ThinkingContent | ToolCall


#: The largest integer that every JSON parser reads exactly.
LARGEST_COUNT = 2**53 - 1


#: More tokens than any model call can use. Such a report from a provider or a file is ignored.
_IMPOSSIBLE_COUNT = 10**15


def read_count(number: int) -> int:
    """A reported number of tokens; 0 if the number is impossible."""
    return number if 0 <= number < _IMPOSSIBLE_COUNT else 0


def sum_of_counts(*numbers: int) -> int:
    """The sum of token counts, at most what JSON can hold."""
    return min(sum(map(read_count, numbers)), LARGEST_COUNT)


class Cost(Struct, rename="camel"):
    """US dollars."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    total: float = 0
    #: Whether the provider reported the total. Otherwise it comes from the prices of the model.
    total_from_provider: bool | UnsetType = UNSET


class PromptCache(Struct, omit_defaults=True, frozen=True):
    """How many seconds a provider keeps the beginning of a request in its cache: usually, and if it is asked to keep it long."""

    short: float | None = None
    long: float | None = None


class Usage(Struct, rename="camel"):
    """The tokens of one model call, and their cost."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Cost = msgspec.field(default_factory=Cost)
    #: The part of `cache_write` that the provider keeps for an hour.
    cache_write_1h: int | UnsetType = msgspec.field(default=UNSET, name="cacheWrite1h")


def add_usage(one: Usage, other: Usage) -> Usage:
    """Return the sum of two usages, with their costs."""
    return Usage(
        sum_of_counts(one.input, other.input),
        sum_of_counts(one.output, other.output),
        sum_of_counts(one.cache_read, other.cache_read),
        sum_of_counts(one.cache_write, other.cache_write),
        sum_of_counts(one.total_tokens, other.total_tokens),
        Cost(
            one.cost.input + other.cost.input,
            one.cost.output + other.cost.output,
            one.cost.cache_read + other.cost.cache_read,
            one.cost.cache_write + other.cost.cache_write,
            one.cost.total + other.cost.total,
            _both(one.cost.total_from_provider, other.cost.total_from_provider),
        ),
    )


def _both(one: bool | UnsetType, other: bool | UnsetType) -> bool | UnsetType:
    """Whether both are true. One that is not known does not count."""
    return other if one is UNSET else one if other is UNSET else one and other


class _MessageBase(Struct, tag_field="role", rename="camel", omit_defaults=True, weakref=True):
    pass


class UserMessage(_MessageBase, tag="user"):
    role: ClassVar[Literal["user"]] = "user"
    content: str | list[UserBlock]
    timestamp: int
    attribution: Attribution | None = None
    #: Files that came with the prompt, as JSON objects. They are kept as they came; see `fairlead.session.context.tokens`.
    attachments: list[dict[str, Any]] | None = None


class AssistantMessage(_MessageBase, tag="assistant"):
    role: ClassVar[Literal["assistant"]] = "assistant"
    content: list[AssistantBlock]
    api: str
    provider: str
    model: str
    usage: Usage
    stop_reason: StopReason
    timestamp: int
    response_id: str | None = None
    error_message: str | None = None
    #: Why the answer ended, in the words of the provider.
    raw_stop_reason: str | None = None
    #: How long the model call took, from the request to the end of the answer.
    duration_ms: int | None = None
    #: The thinking level of the model call.
    thinking_level: str | None = None

    def text(self) -> str:
        """The text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextContent))

    def tool_calls(self) -> list[ToolCall]:
        return [block for block in self.content if isinstance(block, ToolCall)]


def as_typed(prompt: str) -> str:
    """Return a prompt as its user typed it: `/skill:release 1.2` for one that begins with the text of a skill."""
    found = _skill_pattern().match(prompt)
    return f"/skill:{found['name']} {found['arguments'] or ''}".rstrip() if found else prompt


@cache
def _skill_pattern() -> re.Pattern[str]:
    """What `fairlead.extend.skills` puts before the arguments of `/skill:NAME`."""
    return re.compile(r'\A<skill name="(?P<name>[^"]*)" location="[^"]*">\n.*?\n</skill>(?:\n\n(?P<arguments>.*))?\Z', re.DOTALL)


def readable_error(error: str) -> str:
    """Return the error of a provider without the JSON or the HTML around its message: `529 Overloaded`.

    Other errors stay as they are. `AssistantMessage.error_message` has all that the provider said.
    """
    found = re.search(r"[\[{]|<(?:!doctype html|html)\b", error, re.IGNORECASE)
    if found is None:
        return error
    head, rest = error[: found.start()], error[found.start() :]
    if rest[0] == "<":
        return f"{head}{_page_title(rest, head)}"
    body, more = _decode_beginning(rest)
    message = _message_in(body)
    if not message:  # the JSON around a page may be cut off
        return error if (title := _page_title(rest, head)) is None else f"{head}{title}"
    if message[0] == "<":
        message = _page_title(message, head) or message
    if more[:1].isupper() and message[-1] not in ".!?":  # it is a sentence
        message += "."
    return f"{head}{message} {more}".rstrip()


def _page_title(text: str, status: str) -> str | None:
    """Return the title of the page in HTML that a text contains, without the status; None if it contains none."""
    page = _page_pattern().search(text)
    if page is None:
        return None
    title = " ".join((page["title"] or "").split())
    return title.removeprefix(status.strip()).strip() or "The server answered with a page for people."


def _decode_beginning(text: str) -> tuple[Any, str]:
    """Decode the JSON that a text begins with. Returns None if there is none, and the rest of the text."""
    end = len(text)
    for _ in range(4):  # what follows may have brackets too
        end = text.rfind("}" if text[0] == "{" else "]", 0, end)
        try:
            return msgspec.json.decode(text[: end + 1]), text[end + 1 :].strip()
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            continue
    return None, text


def _message_in(body: Any, depth: int = 0) -> str | None:
    """Find the message in the JSON of an error: `{"error": {"message": "..."}}`, also in a list, as Google sends it.

    Other servers call it `detail`, `msg` or `errors`. Brokers put the error of another provider into the message or beside it.
    """
    if depth == _DEEPEST_ERROR:
        return None
    match body:
        case str(text):
            return _inner_message(text, depth) or text.strip() or None
        case [*several]:
            return next((found for each in several if (found := _message_in(each, depth + 1))), None)
        case {"metadata": {"raw": str(raw)}} if raw:
            return _message_in(raw, depth + 1)
        case dict():
            several = [cast("dict[str, Any]", body).get(key) for key in ("error", "message", "detail", "msg", "errors")]
            return _message_in(several, depth + 1)
        case _:
            return None


def _inner_message(text: str, depth: int) -> str | None:
    """Find the message in a text that is JSON itself."""
    if text[:1] not in ("{", "["):
        return None
    try:
        return _message_in(msgspec.json.decode(text), depth + 1)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


#: How many levels of an error are searched for its message.
_DEEPEST_ERROR = 12


@cache
def _page_pattern() -> re.Pattern[str]:
    return re.compile(r"<(?:!doctype html|html)\b(?:.*?<title>(?P<title>.*?)</title>)?", re.DOTALL | re.IGNORECASE)


class NestedCallNote(Struct, rename="camel"):
    """What the session keeps about a call that a tool made. `arguments` are left out, and only their size is kept, if they are
    too long."""

    id: str
    name: str
    status: Literal["ok", "error", "unfinished"] = "unfinished"
    arguments: dict[str, Any] | UnsetType = UNSET
    arguments_bytes: int | UnsetType = UNSET
    duration_ms: int | UnsetType = UNSET
    error: str | UnsetType = UNSET


class NestedCallNotes(Struct):
    """The calls that a tool made, its own and those of the tools that it called. `complete` says whether nothing is missing."""

    calls: list[NestedCallNote]
    complete: bool


class ToolResultMessage(_MessageBase, tag="toolResult"):
    role: ClassVar[Literal["toolResult"]] = "toolResult"
    tool_call_id: str
    tool_name: str
    content: list[UserBlock]
    is_error: bool
    timestamp: int
    details: Any = UNSET
    #: How long the tool ran; None if it did not run.
    duration_ms: int | None = None
    #: The calls of other tools that the tool made.
    nested_calls: NestedCallNotes | UnsetType = UNSET
    #: What model calls of the tool, and of the tools that it called, have used.
    usage: Usage | UnsetType = UNSET


class BashExecutionMessage(_MessageBase, tag="bashExecution"):
    """A command that the host ran with `bash`; the model sees it with the next prompt."""

    role: ClassVar[Literal["bashExecution"]] = "bashExecution"
    command: str
    output: str
    cancelled: bool
    truncated: bool
    timestamp: int
    exit_code: int | None = None
    full_output_path: str | None = None
    exclude_from_context: bool = False


class CustomMessage(_MessageBase, tag="custom"):
    """A message that an extension or the agent itself adds to the conversation."""

    role: ClassVar[Literal["custom"]] = "custom"
    custom_type: str
    content: str | list[UserBlock]
    display: bool
    timestamp: int
    details: Any = None


class BranchSummaryMessage(_MessageBase, tag="branchSummary"):
    role: ClassVar[Literal["branchSummary"]] = "branchSummary"
    summary: str
    from_id: str
    timestamp: int


class CompactionSummaryMessage(_MessageBase, tag="compactionSummary"):
    role: ClassVar[Literal["compactionSummary"]] = "compactionSummary"
    summary: str
    tokens_before: int
    timestamp: int


Message: TypeAlias = (
    UserMessage
    | AssistantMessage
    | ToolResultMessage
    | BashExecutionMessage
    | CustomMessage
    | BranchSummaryMessage
    | CompactionSummaryMessage
)

#: What a model gets. The session converts every other kind of message into one of these.
ModelMessage: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage


def user_text(message: UserMessage) -> str:
    """The text of a user message, without its images."""
    if isinstance(message.content, str):
        return message.content
    return "".join(block.text for block in message.content if isinstance(block, TextContent))


def images_in(message: UserMessage) -> list[ImageContent] | None:
    """The images of a user message; None if there are none."""
    blocks = message.content if isinstance(message.content, list) else ()
    return [block for block in blocks if isinstance(block, ImageContent)] or None


def user_message(text: str, images: list[ImageContent] | None, timestamp: int, attribution: Attribution = "user") -> UserMessage:
    """Make a message to the agent: the text first, even if it is empty, then the images. `attribution` says who wrote it."""
    content: list[UserBlock] = [TextContent(text)]
    if images:
        content.extend(images)
    return UserMessage(content, timestamp, attribution=attribution)


# As JSON


@cache
def _message() -> msgspec.json.Decoder[Message]:
    return msgspec.json.Decoder(Message)


def encode_message(message: Message) -> Raw:
    """Return a message as JSON. Lone surrogates are replaced."""
    try:
        return Raw(msgspec.json.encode(message))
    except UnicodeEncodeError:
        return Raw(msgspec.json.encode(lenient.scrub(msgspec.to_builtins(message))))


def decode_message(data: Raw | bytes) -> Message | None:
    """Decode a message from any program and version; return None if its role is unknown here (such as pi's `system`).

    A message in a slightly different form, from an old version or an extension, keeps the parts that can be understood.
    """
    try:
        return _message().decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        return msgspec.convert(_repair(lenient.decode(bytes(data))), cast("type[Message]", Message))
    except (msgspec.ValidationError, ValueError):
        return None


#: A tuple and not a set, because a value of any type is looked up in it.
_BLOCK_TYPES = ("text", "thinking", "image", "toolCall")


def _repair(value: Any) -> Any:
    """Bring the parts of a message that are known to vary into the form that `Message` accepts."""
    if not isinstance(value, dict):
        return value
    message = cast("dict[str, Any]", value)
    content = message.get("content")
    if content is None and message.get("role") != "bashExecution":
        message["content"] = []
    elif isinstance(content, str) and message.get("role") in ("assistant", "toolResult"):
        message["content"] = [{"type": "text", "text": content}]
    elif isinstance(content, list):
        blocks = cast("list[Any]", content)
        message["content"] = [block for block in blocks if isinstance(block, dict) and block.get("type") in _BLOCK_TYPES]  # pyright: ignore[reportUnknownMemberType]
    if message.get("role") == "assistant":
        message["usage"] = _repair_usage(message.get("usage"))
        if message.get("stopReason") not in ("stop", "length", "toolUse", "error", "aborted"):
            message["stopReason"] = "stop"
    return message


def _repair_usage(value: Any) -> dict[str, Any]:
    try:
        return msgspec.to_builtins(msgspec.convert(value, Usage))
    except msgspec.ValidationError:
        return msgspec.to_builtins(Usage())
