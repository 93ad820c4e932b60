"""Converts content between ACP and the agent, and reports tool calls.

Prompts become text and images, messages and results become blocks. A call is announced as pending, is in progress when the tool
runs, with live output of bounded size, and ends."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec
from msgspec import UNSET, Struct

from fairlead.core.approval import ApprovalRequest, FileChange
from fairlead.core.images import image_type
from fairlead.core.messages import ImageContent as AgentImage
from fairlead.core.messages import TextContent as AgentText
from fairlead.core.messages import UserBlock
from fairlead.core.questions import reveal
from fairlead.core.tool import Tool, ToolResult
from fairlead.protocol.acp import content as acp
from fairlead.protocol.acp.content import TextContent
from fairlead.protocol.acp.updates import (
    Content,
    Diff,
    ToolCall,
    ToolCallChanged,
    ToolCallContent,
    ToolCallLocation,
    ToolCallUpdate,
)
from fairlead.wire.acp.session_updates import Send
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
    parts = _split_uri(uri)
    if parts is None or parts.scheme != "file":
        return uri
    return unquote(parts.path) + (f"#{parts.fragment}" if parts.fragment else "")


def _name(uri: str) -> str:
    parts = _split_uri(uri)
    return uri if parts is None else unquote(parts.path).rstrip("/").rpartition("/")[2] or uri


def _split_uri(uri: str) -> SplitResult | None:
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


#: How many characters of the end of the output each live update shows.
TAIL = 3000
#: Seconds between two live updates of a call: the first number, and a part of the time since its first output. So their number
#: grows with the logarithm of the time.
FIRST_INTERVAL, LATER_INTERVAL = 0.1, 0.1
#: How many characters of a result are repeated in its raw form.
LONGEST_RAW = 16_000
#: Texts of its details with fewer characters are repeated too.
SHORTEST_REPEATED = 1000
#: Changes of files with more characters are shown as a unified diff.
LONGEST_FILE = 1_000_000

UNFINISHED = "The run ended before the tool did."


class _Call(Struct, eq=False):
    """A call that has been announced and has not ended."""

    #: The id that the client knows it by.
    id: str
    name: str
    tool: Tool | None
    is_running: bool = False
    #: Whether the arguments have been shown.
    is_described: bool = False
    #: When output was first shown and last shown, and how much of it.
    first_shown: float = 0.0
    last_shown: float = 0.0
    shown: str = ""
    latest: ToolResult | None = None
    timer: asyncio.TimerHandle | None = None


class ToolReports:
    """The tool calls of one session and its sub-agents. Ids of sub-agents' calls begin with that of the sub-agent.

    Clients need ids that are unique in a session, but some models use the same ids in every answer. Such an id gets a number.
    """

    def __init__(self, send: Send, tool_named: Callable[[str], Tool | None]) -> None:
        self._send = send
        self._tool_named = tool_named
        #: The calls by the ids that the model gave them.
        self._open: dict[str, _Call] = {}
        self._used: Counter[str] = Counter()

    def unique(self, call_id: str) -> str:
        """Return the id for the next call with this id."""
        self._used[call_id] += 1
        return call_id if self._used[call_id] == 1 else f"{call_id}#{self._used[call_id]}"

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._open

    def announce(self, call_id: str, name: str, arguments: Mapping[str, Any] | None) -> None:
        """Announce a call, or describe one that was announced before its arguments were known."""
        call = self._open.get(call_id)
        if call is None:
            call = self._open[call_id] = _Call(self.unique(call_id), name, self._tool_named(name))
            if arguments is None:
                self._send(ToolCall(call.id, title(call.tool, name, {}), name=name, kind=kind(call.tool), status="pending"))
                return
            call.is_described = True
            self._send(
                ToolCall(
                    call.id,
                    title(call.tool, name, arguments),
                    name=name,
                    kind=kind(call.tool),
                    status="pending",
                    locations=locations(call.tool, arguments),
                    raw_input=arguments,
                )
            )
        elif arguments is not None and not call.is_described:
            call.is_described = True
            self._send(
                ToolCallChanged(
                    call.id,
                    title=title(call.tool, name, arguments),
                    locations=locations(call.tool, arguments) or None,
                    raw_input=arguments,
                )
            )

    def describe(self, call_id: str, request: ApprovalRequest) -> ToolCallUpdate:
        """Return a whole call, for a question about it. It is announced first, if it was not."""
        name, arguments = request.tool_name, request.arguments
        self.announce(call_id, name, arguments)
        call = self._open[call_id]
        tool = call.tool
        return ToolCallUpdate(
            call.id,
            kind=kind(tool),
            status="pending",
            title=(shown := reveal(title(tool, name, arguments))),
            name=name,
            content=[*map(change_content, request.changes), *_texts_beside(shown, request)],
            locations=locations(tool, arguments),
            raw_input=arguments,
        )

    def announce_question(self, call_id: str, question: str) -> None:
        """Announce a question to the user, which has its own call."""
        self._open[call_id] = _Call(call_id, "", None, is_running=True, is_described=True)
        self._send(ToolCall(call_id, " ".join(question.split())[:200], kind="other", status="in_progress"))

    def report_question(self) -> str | None:
        """Return the call of the `ask` tool that is running; None if there is none, or more than one."""
        found = [call.id for call in self._open.values() if call.name == "ask" and call.is_running]
        return found[0] if len(found) == 1 else None

    def report_start(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> None:
        """Report that the tool runs now. Its arguments may differ from those that the model gave."""
        self.announce(call_id, name, arguments)
        call = self._open[call_id]
        if not call.is_running:
            call.is_running = True
            self._send(ToolCallChanged(call.id, status="in_progress"))

    def report_output(self, call_id: str, name: str, arguments: Mapping[str, Any], partial: ToolResult) -> None:
        """Show the output so far: at once or a little later, and only its end if it is long."""
        self.report_start(call_id, name, arguments)
        call = self._open[call_id]
        call.latest = partial
        if call.timer is not None:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        call.first_shown = call.first_shown or now
        wait = call.last_shown + max(FIRST_INTERVAL, (now - call.first_shown) * LATER_INTERVAL) - now
        if wait <= 0:
            self._show(call)
        else:
            call.timer = loop.call_later(wait, self._show, call)

    def _show(self, call: _Call) -> None:
        call.timer = None
        if call.latest is None:
            return
        text = tail(text_of(call.latest.content), TAIL)
        call.latest = None
        if text and text != call.shown:
            call.shown = text
            call.last_shown = asyncio.get_running_loop().time()
            self._send(ToolCallChanged(call.id, content=[Content(TextContent(text))]))

    def report_end(self, call_id: str, result: ToolResult, *, is_error: bool) -> None:
        """Report the end of a call. A call that was never announced has none."""
        call = self._open.pop(call_id, None)
        if call is None:
            return
        if call.timer is not None:
            call.timer.cancel()
        self._send(
            ToolCallChanged(
                call.id,
                status="failed" if is_error else "completed",
                content=result_content(result),
                raw_output=raw_output(result),
            )
        )

    def end_all(self, why: str = UNFINISHED, *, only: Callable[[str], bool] = lambda call_id: True) -> None:
        """End the calls that are still open, because nothing will end them any more."""
        for call_id in [each for each in self._open if only(each)]:
            self.report_end(call_id, ToolResult.text(why), is_error=True)

    def discard_unfinished(self, finished: Collection[str]) -> None:
        """End the calls that the model began to write, except those that it finished."""
        self.end_all(
            "The model did not finish the call.",
            only=lambda call_id: not self._open[call_id].is_described and call_id not in finished,
        )


def _texts_beside(title: str, request: ApprovalRequest) -> list[ToolCallContent]:
    """Return what a client would not show of a call: invisible characters, changes that could not be compared, and the rest of a
    command or the arguments if the title does not have all of it. Not all clients show the raw arguments.
    """
    texts = (
        request.subject,
        *(text for change in request.changes for text in (change.path, change.old_text or "", change.new_text)),
    )
    if request.changes and all(reveal(text) == text for text in texts):
        return []
    if request.diff is not None:
        return [Content(TextContent(request.diff))]
    is_whole = request.readable_subject in title and request.readable_subject == request.subject
    return [] if is_whole else [Content(TextContent(request.message))]


def title(tool: Tool | None, name: str, arguments: Mapping[str, Any]) -> str:
    return name if tool is None else tool.call_title(arguments)


def kind(tool: Tool | None) -> Any:
    return "other" if tool is None else tool.kind


def locations(tool: Tool | None, arguments: Mapping[str, Any]) -> list[ToolCallLocation]:
    return [] if tool is None else [ToolCallLocation(each.path, line=each.line) for each in tool.call_locations(arguments)]


def change_content(change: FileChange) -> ToolCallContent:
    """A changed file, with its old and its new text."""
    if len(change.new_text) + len(change.old_text or "") > LONGEST_FILE:
        return Content(TextContent(change.diff()))
    return Diff(change.path, change.new_text, old_text=change.old_text)


def result_content(result: ToolResult) -> list[ToolCallContent]:
    """What people see of a result: the changed files, or else what the model sees."""
    if result.changes:
        return [change_content(change) for change in result.changes]
    return [Content(block) for block in blocks(result.content)]


def raw_output(result: ToolResult) -> Any:
    """A result as data. Long texts of its details are left out if the client gets them with its content."""
    text = text_of(result.content)
    output = tail(text, LONGEST_RAW)
    raw: dict[str, Any] = {"output": output} if text else {}
    if result.details not in (None, {}):
        repeats = output if result.changes else text
        raw["details"] = _without_repeated_texts(result.details, repeats)
    return raw or UNSET


def _without_repeated_texts(details: Any, text: str) -> Any:
    """Return details without the long texts that are parts of `text`, such as the output of a command that was cut off."""
    if not isinstance(details, dict):
        return details
    kept: dict[str, Any] = {}
    for name, value in cast("dict[str, Any]", details).items():
        if isinstance(value, dict):
            kept[name] = _without_repeated_texts(value, text)
        elif not isinstance(value, str) or len(value) < SHORTEST_REPEATED or value not in text:
            kept[name] = value
    return kept


def tail(text: str, longest: int) -> str:
    """The end of a text, from the beginning of a line."""
    if len(text) <= longest:
        return text
    end = text[-longest:]
    rest = end.partition("\n")[2]
    return f"…\n{rest or end}"
