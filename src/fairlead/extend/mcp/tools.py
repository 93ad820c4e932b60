"""The tools of MCP servers, as tools of the session.

Their names are valid for every provider: letters, digits and `_`, at most 64 characters. They are the same in every run: a
name never depends on which server connected first.
"""

from __future__ import annotations

import hashlib
import os
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from fairlead.core.images import image_type
from fairlead.core.lenient import json_data
from fairlead.core.messages import ImageContent, TextContent, UserBlock
from fairlead.core.secrets import redacted
from fairlead.core.tool import StructuredResult, Tool, ToolContext, ToolResult
from fairlead.errors import ToolError
from fairlead.extend.mcp import sdk
from fairlead.extend.mcp.config import McpStyle
from fairlead.session.subagents import subagent
from fairlead.tools.background import Paced
from fairlead.tools.files.read import MAX_ENCODED
from fairlead.tools.files.targets import Document
from fairlead.tools.truncate import MAX_BYTES, MAX_LINES, count_lines, format_size
from fairlead.tools.workspace import Workspace

if TYPE_CHECKING:
    from mcp import ClientSession, types

    from fairlead.extend.mcp.server import McpServer

MAX_NAME = 64
_PREFIX = "mcp__"
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_]+")
_UNDERSCORES = re.compile(r"_{2,}")
#: Hexadecimal digits that are added to a name to make it unique.
_DIGEST_CHARS = 8


def server_keys(names: Iterable[str], illegal: re.Pattern[str] | None = None) -> dict[str, str]:
    """Return a key for each server name. Keys contain no `__`, so that a tool's name shows where the server's key ends.

    With `illegal`, only the characters that it matches are replaced.
    """
    if illegal is not None:
        return _make_unique({name: illegal.sub("_", name) for name in names}, "")
    plain = {name: _UNDERSCORES.sub("_", _ILLEGAL.sub("_", name)).strip("_") or "server" for name in names}
    return _make_unique(plain, "")


def tool_names(key: str, names: Iterable[str], illegal: re.Pattern[str] | None = None) -> dict[str, str]:
    """Return the name that the model sees for each tool of a server: `mcp__<server>__<tool>`."""
    prefix = f"{_PREFIX}{key}__"
    return _make_unique({name: prefix + (illegal or _ILLEGAL).sub("_", name) for name in names}, prefix)


def _make_unique(plain: dict[str, str], prefix: str) -> dict[str, str]:
    """Add a digest to names that are too long or not unique. A tool whose own name is valid keeps it."""
    shared = {name for name, count in Counter(plain.values()).items() if count > 1}
    unique: dict[str, str] = {}
    for original, name in plain.items():
        is_valid = len(name) <= MAX_NAME and (name not in shared or name == prefix + original)
        unique[original] = name if is_valid else _with_digest(name, original)
    return unique


def _with_digest(name: str, original: str) -> str:
    digest = hashlib.sha256(f"{name}\0{original}".encode("utf-8", "replace")).hexdigest()
    return f"{name[: MAX_NAME - _DIGEST_CHARS - 1]}_{digest[:_DIGEST_CHARS]}"


#: How many progress reports are passed on at once, and the seconds between two later ones.
_UNPACED_REPORTS, _PACE = 100, 0.1


def server_tools(server: McpServer, workspace: Workspace, taken: Collection[str], problems: list[str]) -> list[Tool]:
    """Return the tools of a server.

    Tools with an invalid schema, and tools with a name in `taken`, are left out and added to `problems`.
    """
    offered = {tool.name: tool for tool in server.offer.tools if server.config.exposure(tool.name) != "hidden"}
    names = tool_names(server.key, offered, server.style.illegal)
    found: list[Tool] = []
    for name, offer in offered.items():
        tool = _tool(server, names[name], offer, workspace)
        try:
            tool.check_schema()
            if tool.name in taken:
                raise ToolError(f"A tool named {tool.name} already exists.")
        except ToolError as error:
            problems.append(f'The tool "{name}" of the MCP server "{server.config.name}" is left out: {error}')
        else:
            found.append(tool)
    return found


def _tool(server: McpServer, name: str, offer: types.Tool, workspace: Workspace) -> Tool:
    hints = offer.annotations
    title = offer.title or (hints.title if hints is not None else None)
    return Tool(
        name=name,
        description=offer.description or title or offer.name,
        parameters=offer.input_schema,
        output_schema=result_schema(offer.output_schema),
        annotations=_read_hints(hints),
        namespace={"name": f"{_PREFIX}{server.key}", "aliases": [server.config.name]},
        run=partial(_run, server, offer.name, workspace),
        label=title or f"{server.key}: {offer.name}",
        exposure="direct" if server.config.exposure(offer.name) == "direct" else "deferred",
        exclusive=hints is None or not hints.read_only_hint,
        idempotent=hints is not None and bool(hints.read_only_hint or hints.idempotent_hint),
        timeout=server.config.timeout or server.style.timeout or workspace.default_timeout,
    )


def _read_hints(hints: types.ToolAnnotations | None) -> dict[str, bool] | None:
    if hints is None:
        return None
    declared = {
        "readOnlyHint": hints.read_only_hint,
        "destructiveHint": hints.destructive_hint,
        "idempotentHint": hints.idempotent_hint,
        "openWorldHint": hints.open_world_hint,
    }
    return {name: value for name, value in declared.items() if value is not None} or None


async def _run(server: McpServer, name: str, workspace: Workspace, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    shown = 0
    latest = ToolResult.text("")
    soon = Paced(lambda: context.update(latest), _PACE)

    async def show(progress: float, total: float | None, message: str | None) -> None:
        nonlocal shown, latest
        details: dict[str, Any] = {"progress": progress}
        if total is not None:
            details["total"] = total
        latest = ToolResult.text(progress_text(progress, total, message), details)
        shown += 1
        if shown <= _UNPACED_REPORTS:
            context.update(latest)
        else:
            soon()

    async def call(session: ClientSession) -> sdk.types.CallToolResult:
        # Not `call_tool`, which raises if an answer does not match the schema that the server has declared. Such an answer is
        # more useful to the model than an error.
        key = server.style.call_id_key
        meta = None if key is None else cast("sdk.types.RequestParamsMeta", {key: context.call_id})
        params = sdk.types.CallToolRequestParams(name=name, arguments=arguments, _meta=meta)
        request = sdk.types.CallToolRequest(params=params)
        return await session.send_request(request, sdk.types.CallToolResult, progress_callback=show)

    try:
        answer = await server.request(f'The call of "{name}"', call, context.cancel)
    finally:
        soon.stop()
    return tool_result(answer, server.key, workspace, {"server": server.config.name, "tool": name}, server.style)


#: How many images of an answer are sent to the model. Providers reject requests with too many.
_MAX_IMAGES = 20
#: How many characters of a progress message are shown.
_MAX_PROGRESS_CHARS = 1000


def tool_result(
    answer: types.CallToolResult, key: str, workspace: Workspace, source: dict[str, Any], style: McpStyle
) -> ToolResult:
    """Convert the answer of a tool. `source` names the tool in the details. Raises ToolError if the tool failed."""
    blocks = [block for each in answer.content for block in _blocks(each, key)]
    structured = answer.structured_content
    details: Any = source if structured is None else {**source, "structuredContent": structured}
    if not blocks and structured is not None:
        blocks = [TextContent(msgspec.json.encode(json_data(structured)).decode())]
    if style.shape is not None and not answer.is_error:
        blocks, details = style.shape(answer, blocks)
    content = _limit(blocks, workspace)
    if answer.is_error:
        texts = [block.text for block in content if isinstance(block, TextContent)]
        text = redacted("\n".join(texts)) or "The tool failed without saying why."
        shown = [{"type": "text", "text": text}]  # what the server says about a failure may contain secrets
        raise ToolError(text, _redact_details(details), structured=lambda: {"content": shown, "isError": True})
    return StructuredResult(content, details, structured=partial(_whole, answer))


def _whole(answer: types.CallToolResult) -> dict[str, Any]:
    return answer.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _redact_details(details: dict[str, Any]) -> dict[str, Any]:
    """Remove secrets from the details of a failure."""
    written = msgspec.json.encode(json_data(details)).decode()
    shown = redacted(written)
    if shown == written:
        return details
    try:
        return msgspec.json.decode(shown, type=dict[str, Any])
    except msgspec.DecodeError:  # the secret was more than a part of a string
        return {}


def document(answer: types.ReadResourceResult, uri: str, key: str) -> Document:
    """Convert the contents of a resource. Raises ToolError if it has none."""
    if not answer.contents:
        raise ToolError(f"{uri} has no contents.")
    blocks = [block for each in answer.contents for block in _contents(each, key, is_answer=True)]
    texts = [block.text for block in blocks if isinstance(block, TextContent)]
    images = [block for block in blocks if isinstance(block, ImageContent)][:_MAX_IMAGES]
    kind = answer.contents[0].mime_type or "text/plain"
    return Document("\n\n".join(texts) or uri, [], {"contentType": kind}, images)


def prompt_text(answer: types.GetPromptResult, key: str) -> tuple[str, list[ImageContent]]:
    """Convert a prompt to one user message. If it has messages of several roles, each begins with its role."""
    has_several_roles = len({message.role for message in answer.messages}) > 1
    texts: list[str] = []
    images: list[ImageContent] = []
    for message in answer.messages:
        for block in _blocks(message.content, key):
            if isinstance(block, ImageContent):
                images.append(block)
            else:
                texts.append(f"{message.role.capitalize()}: {block.text}" if has_several_roles else block.text)
    return "\n\n".join(texts), images


def progress_text(progress: float, total: float | None, message: str | None) -> str:
    done = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
    return f"[{done}] {subagent.cut(message, _MAX_PROGRESS_CHARS)}" if message else f"[{done}]"


def _blocks(block: sdk.types.ContentBlock, key: str) -> Iterable[UserBlock]:
    match block:
        case sdk.types.TextContent():
            return [TextContent(block.text)]
        case sdk.types.ImageContent():
            return [_image(block.data, block.mime_type)]
        case sdk.types.AudioContent():
            return [TextContent(f"[Audio ({block.mime_type}), which cannot be shown.]")]
        case sdk.types.EmbeddedResource():
            return _contents(block.resource, key)
        case sdk.types.ResourceLink():
            about = f": {block.description}" if block.description else ""
            return [TextContent(f"[{block.title or block.name}{about} Read it at mcp://{key}/{block.uri}]")]


def _contents(
    contents: sdk.types.TextResourceContents | sdk.types.BlobResourceContents, key: str, *, is_answer: bool = False
) -> Iterable[UserBlock]:
    """Convert a resource. Unless it is the one that was requested (`is_answer`), its text begins with its URI."""
    where = f"mcp://{key}/{contents.uri}"
    if isinstance(contents, sdk.types.TextResourceContents):
        return [TextContent(contents.text if is_answer else f"[{where}]\n{contents.text}")]
    kind = contents.mime_type or "application/octet-stream"
    if kind.startswith("image/"):
        return [_image(contents.blob, kind)]
    size = format_size(len(contents.blob) // 4 * 3)
    return [TextContent(f"[{where} is binary ({kind}, {size}) and cannot be shown.]")]


def _image(data: str, mime_type: str) -> UserBlock:
    """Convert an image. If models cannot use it, return a note instead: a provider rejects a conversation with such an image."""
    if len(data) > MAX_ENCODED:
        return TextContent(f"[An image ({mime_type}) of {format_size(len(data) // 4 * 3)}, which is too large to be shown.]")
    try:
        image = b64decode("".join(data.split()), validate=True)
    except ValueError:
        return TextContent(f"[An image ({mime_type}) that is broken: it is not base64.]")
    kind = image_type(image)
    if kind is None:
        return TextContent(f"[An image of the type {mime_type}, which models do not accept.]")
    return ImageContent(b64encode(image).decode(), kind)


def _limit(blocks: Sequence[UserBlock], workspace: Workspace) -> list[UserBlock]:
    """Limit the text and the number of images in a result, whatever number of blocks they come in."""
    texts = [block.text for block in blocks if isinstance(block, TextContent)]
    images: list[UserBlock] = [block for block in blocks if isinstance(block, ImageContent)]
    left_out = len(images) - _MAX_IMAGES
    note: list[UserBlock] = [TextContent(f"[{left_out} more images are left out.]")] if left_out > 0 else []
    joined = TextContent("\n".join(texts))
    shortened = _shorten(joined, workspace)
    if shortened is joined and not note:
        return list(blocks)
    return [*([shortened] if texts else []), *images[:_MAX_IMAGES], *note]


def _shorten(block: TextContent, workspace: Workspace) -> TextContent:
    """Shorten a text for the model. The full text is saved in a file, which the shortened text names."""
    text = block.text
    data = text.encode("utf-8", "replace")
    lines = count_lines(text)
    if len(data) <= MAX_BYTES and lines <= MAX_LINES:
        return block
    kept = b"\n".join(data[:MAX_BYTES].split(b"\n")[:MAX_LINES])
    if len(kept) < len(data) and b"\n" in kept and data[len(kept) : len(kept) + 1] != b"\n":
        kept = kept.rpartition(b"\n")[0]
    shown = f"the first {format_size(len(kept))} of {format_size(len(data))}, {lines} lines"
    return TextContent(f"{kept.decode('utf-8', 'ignore')}\n\n[Showing {shown}. {_save(data, workspace)}]")


def _save(data: bytes, workspace: Workspace) -> str:
    try:
        path = workspace.log_dir() / f"mcp-{os.urandom(8).hex()}.txt"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
    except OSError as error:
        return f"The full output could not be saved: {error.strerror or error}"
    workspace.keep_log(path)
    return f"Full output: {path}"


#: What hosts read most of a block of content.
_BLOCK: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "type": {"enum": ["text", "image", "audio", "resource_link", "resource"]},
        "text": {"type": "string"},
        "data": {"type": "string"},
        "mimeType": {"type": "string"},
    },
    "required": ["type"],
    "additionalProperties": True,
}
#: The keywords of JSON Schema that hold plain data, and those that hold schemas by name.
_DATA = frozenset({"const", "enum", "default", "examples"})
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"})


def result_schema(own: dict[str, Any] | None) -> dict[str, Any]:
    """Return the schema of a whole result. `own` is the tool's schema for its structured content, if it has one."""
    return {
        "type": "object",
        "properties": {
            "content": {"type": "array", "items": _BLOCK},
            "structuredContent": {} if own is None else _move(own, "#/properties/structuredContent"),
            "isError": {"type": "boolean"},
        },
        "required": ["content"],
        "additionalProperties": True,
    }


def _move(schema: Any, place: str) -> Any:
    """Return a schema that has become a part of another one: its references to itself lead to its new place."""
    if isinstance(schema, list):
        return [_move(each, place) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    given = cast("dict[str, Any]", schema)
    return {key: _move_value(key, value, place) for key, value in given.items()}


def _move_value(key: str, value: Any, place: str) -> Any:
    if key == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/")):
        return place + value[1:]
    if key in _DATA:
        return value
    if key in _BY_NAME and isinstance(value, dict):
        return {name: _move(each, place) for name, each in cast("dict[str, Any]", value).items()}
    return _move(value, place)
