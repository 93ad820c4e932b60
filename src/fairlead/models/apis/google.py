"""The adapter for Google's Generative Language API (Gemini)."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from fairlead.core.messages import (
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from fairlead.core.model import ModelRequest
from fairlead.core.partial_message import PartialMessage
from fairlead.models.apis.adapter import Adapter
from fairlead.models.apis.request_building import (
    EncodedMessages,
    PrefixCache,
    build_parameters,
    encode_json,
    provider_level,
    results_with_images,
)
from fairlead.models.apis.response_reading import (
    BlockWriter,
    count,
    decode_event,
    fail_with,
    new_call_id,
    record,
    records,
    string,
)
from fairlead.models.apis.sendable_history import sendable_messages
from fairlead.models.http.http_client import HttpRequest

#: Replaces the signature of a call that another model made. Gemini 3 refuses calls without a signature.
_FOREIGN_CALL = "skip_thought_signature_validator"

#: fairlead's own signature for thoughts that have none from Google, as most do. The model wants only signatures back. This one
#: says that the thought is the model's own and is not sent back as text.
_THOUGHT = "thought"

#: Models up to generation 2 take a number of thinking tokens; -1 lets the model decide.
_PRO_BUDGETS = {
    "off": "128",
    "minimal": "128",
    "low": "2048",
    "medium": "8192",
    "high": "32768",
    "xhigh": "32768",
    "max": "32768",
}
_FLASH_BUDGETS = {
    "off": "0",
    "minimal": "512",
    "low": "2048",
    "medium": "8192",
    "high": "24576",
    "xhigh": "24576",
    "max": "24576",
}
_UNKNOWN_BUDGETS = {"minimal": "-1", "low": "-1", "medium": "-1", "high": "-1", "xhigh": "-1", "max": "-1"}
#: Models from generation 3 on take a level. No level means not to think.
_FLASH_LEVELS = {
    "off": "MINIMAL",
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "xhigh": "HIGH",
    "max": "HIGH",
}
_PRO_LEVELS = {**_FLASH_LEVELS, "off": "LOW", "minimal": "LOW"}
_FIRST_PRO_LEVELS = {**_PRO_LEVELS, "medium": "HIGH"}


class GoogleGenerativeAI(Adapter):
    """Asks a model over `POST {base_url}/models/{id}:streamGenerateContent`."""

    def _set_up(self) -> None:
        generation = re.search(r"gemini-(\d+)", self._model.id)
        self._has_levels = generation is not None and int(generation[1]) >= 3
        self._contents = EncodedMessages[ModelMessage]()
        self._sent: PrefixCache[bytes] = PrefixCache()
        self._images = EncodedMessages[ToolResultMessage]()

    def _reader(self, partial: PartialMessage, request: ModelRequest) -> "GoogleReader":
        return GoogleReader(partial)

    def _request(self, request: ModelRequest) -> HttpRequest:
        headers = [("content-type", "application/json"), ("accept", "text/event-stream")]
        if self._auth.api_key is not None:
            headers.append(("x-goog-api-key", self._auth.api_key))
        id = self._model.id
        resource = id if id.startswith(("models/", "tunedModels/")) else f"models/{id}"
        url = f"{self._model.base_url.rstrip('/')}/{resource}:streamGenerateContent?alt=sse"
        return HttpRequest("POST", url, self._auth.apply_to(headers), self._encode(request))

    # building the request

    def _encode(self, request: ModelRequest) -> bytes:
        head = encode_json(self._parameters(request))
        contents = b",".join(self._conversation(request))
        return b"".join((head[:-1], b"," if len(head) > 2 else b"", b'"contents":[', contents, b"]}"))

    def _parameters(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {}
        if request.system_prompt:
            body["systemInstruction"] = {"parts": [{"text": request.system_prompt}]}
        if request.tools:
            declarations: list[dict[str, Any]] = []
            for tool in request.tools:
                schema, _ = build_parameters(tool, self._model.api, supports_strict=False)
                declarations.append({"name": tool.name, "description": tool.description, "parametersJsonSchema": schema})
            body["tools"] = [{"functionDeclarations": declarations}]
        generation: dict[str, Any] = {}
        if limit := self._longest_answer(request):
            generation["maxOutputTokens"] = limit
        if self._model.reasoning and (thinking := self._thinking(request)):
            generation["thinkingConfig"] = thinking
        if generation:
            body["generationConfig"] = generation
        return body

    def _thinking(self, request: ModelRequest) -> dict[str, Any]:
        level, budgets = request.thinking, self._budgets_for(request)
        config: dict[str, Any] = {} if level == "off" else {"includeThoughts": True}
        if level in budgets and not self._has_levels:
            return {**config, "thinkingBudget": budgets[level]}
        amount = provider_level(self._model, level, self._amounts())
        if amount is None:
            return config
        is_budget = amount.removeprefix("-").isdecimal()
        return {**config, "thinkingBudget": int(amount)} if is_budget else {**config, "thinkingLevel": amount}

    def _amounts(self) -> Mapping[str, str]:
        id = self._model.id
        if "gemini-3-pro" in id:
            return _FIRST_PRO_LEVELS
        if self._has_levels:
            return _PRO_LEVELS if "pro" in id else _FLASH_LEVELS
        if "gemini-2.5" in id:
            return _PRO_BUDGETS if "pro" in id else _FLASH_BUDGETS
        return _UNKNOWN_BUDGETS

    def _conversation(self, request: ModelRequest) -> list[bytes]:
        """Encode the turns. The results of one turn's calls must all be in one turn, followed by their images."""
        messages = sendable_messages(request.messages, self._model, self._history)
        done, turns = self._sent.resume(messages)
        count = len(turns)
        with_images = results_with_images(messages[done:])
        images = dict(zip(map(id, with_images), self._images.parts(with_images, _result_images), strict=True))
        results: list[bytes] = []
        image_parts: list[bytes] = []
        encoded = self._contents.parts(messages, self._content)
        for place in range(done, len(messages)):
            message, part = messages[place], encoded[place]
            if not isinstance(message, ToolResultMessage):
                if part:
                    turns.append(part)
                done, count = place + 1, len(turns)  # later messages do not change what came before
                continue
            results.append(part)
            if id(message) in images:
                image_parts.append(images[id(message)])
            following = messages[place + 1] if place + 1 < len(messages) else None
            if not isinstance(following, ToolResultMessage):
                turns.append(b'{"role":"user","parts":[%b]}' % b",".join((*results, *image_parts)))
                results, image_parts = [], []
        self._sent.keep(messages[:done], turns[:count])
        return turns

    def _content(self, message: ModelMessage) -> bytes:
        """Encode a message as a turn, or a tool result as a part of one."""
        if isinstance(message, ToolResultMessage):
            return encode_json(_function_response(message))
        if isinstance(message, UserMessage):
            blocks = [TextContent(message.content)] if isinstance(message.content, str) else message.content
            return encode_json({"role": "user", "parts": [_user_part(block) for block in blocks]})
        parts = self._model_parts(message)
        return encode_json({"role": "model", "parts": parts}) if parts else b""

    def _model_parts(self, message: AssistantMessage) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for block in message.content:
            part: dict[str, Any]
            if isinstance(block, ToolCall):
                call = {"id": block.id, "name": block.name, "args": block.arguments}
                part, signature = {"functionCall": call}, block.thought_signature
            elif isinstance(block, TextContent):
                part, signature = {"text": block.text}, block.text_signature
            else:
                part, signature = {"text": block.thinking, "thought": True}, block.thinking_signature
            if signature == _THOUGHT:
                continue
            if signature:
                part["thoughtSignature"] = signature
            parts.append(part)
        calls = [part for part in parts if "functionCall" in part]
        if self._has_levels and calls and not any("thoughtSignature" in part for part in calls):
            # Only the first of several parallel calls is signed.
            calls[0]["thoughtSignature"] = _FOREIGN_CALL
        return parts


def _user_part(block: TextContent | ImageContent) -> dict[str, Any]:
    if isinstance(block, TextContent):
        return {"text": block.text}
    return {"inlineData": {"mimeType": block.mime_type, "data": block.data}}


def _function_response(message: ToolResultMessage) -> dict[str, Any]:
    text = "\n".join(block.text for block in message.content if isinstance(block, TextContent))
    output = text or ("(see the image below)" if message.content else "(no output)")
    response = {"error" if message.is_error else "output": output}
    return {"functionResponse": {"id": message.tool_call_id, "name": message.tool_name, "response": response}}


def _result_images(message: ToolResultMessage) -> bytes:
    return b",".join(encode_json(_user_part(block)) for block in message.content if isinstance(block, ImageContent))


class _ContentChunk(Struct, rename="camel"):
    """The fields of an event that fairlead uses. Their types are checked where they are used."""

    candidates: Any = None
    usage_metadata: Any = None
    prompt_feedback: Any = None
    response_id: Any = None
    error: Any = None


_decoder = msgspec.json.Decoder(_ContentChunk)


class GoogleReader:
    """Builds a message from the events of one response. This API has no final event: the stream just ends."""

    def __init__(self, partial: PartialMessage) -> None:
        self._partial = partial
        self._blocks = BlockWriter(partial)
        self._call_ids: set[str] = set()
        self._unsigned_thoughts: set[int] = set()
        self._finish_reason = ""
        self._finish_message = ""

    def read(self, event: bytes, data: bytes) -> None:
        """Read one event. Raises ValueError if it is not JSON."""
        try:
            chunk = _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeError):
            chunk = msgspec.convert(record(decode_event(data)), _ContentChunk)
        if chunk.error:
            fail_with(self._partial, chunk.error, "The provider reported an error without a text.")
            return
        self._partial.response_id = self._partial.response_id or string(chunk.response_id) or None
        self._read_usage(record(chunk.usage_metadata))
        self._partial.open()
        feedback = record(chunk.prompt_feedback)
        if blocked := string(feedback.get("blockReason")):
            detail = string(feedback.get("blockReasonMessage"))
            self._partial.fail(f"Google blocked the prompt ({blocked}). {detail or 'Rephrase it, or ask another model.'}")
            return
        for candidate in records(chunk.candidates):
            if count(candidate.get("index")) == 0:
                for part in records(record(candidate.get("content")).get("parts")):
                    self._read_part(part)
                self._finish_reason = string(candidate.get("finishReason")) or self._finish_reason
                self._finish_message = string(candidate.get("finishMessage")) or self._finish_message

    def on_close(self) -> None:
        """Finish the message if a finish reason has arrived. Otherwise the stream broke off, which `stream_message` reports."""
        for key in self._unsigned_thoughts:
            self._partial.sign(key, _THOUGHT)
        if self._finish_reason == "STOP":
            self._partial.finish("toolUse" if self._call_ids else "stop", self._finish_reason)
        elif self._finish_reason == "MAX_TOKENS":
            self._partial.finish("length", self._finish_reason)
        elif self._finish_reason:
            detail = f": {self._finish_message}" if self._finish_message else "."
            self._partial.fail(
                f"Google stopped the answer ({self._finish_reason}){detail}",
                # The model wrote something unreadable, and may do better when asked again.
                transient=self._finish_reason.startswith("MALFORMED_"),
            )

    def _read_part(self, part: dict[str, Any]) -> None:
        signature = string(part.get("thoughtSignature"))
        text = part.get("text")
        if call := record(part.get("functionCall")):
            key = self._read_call(call)
        elif isinstance(text, str) and (text or signature):
            key = self._read_thought(text) if part.get("thought") is True else self._blocks.text(text)
        else:
            return
        if signature:
            self._partial.sign(key, signature)
            self._unsigned_thoughts.discard(key)
        if signature or call:
            # A signature goes back with the part it came in, so nothing may be added to that part.
            self._blocks.end(key)

    def _read_thought(self, text: str) -> int:
        key = self._blocks.thinking(text)
        self._unsigned_thoughts.add(key)
        return key

    def _read_call(self, call: dict[str, Any]) -> int:
        id = string(call.get("id"))
        if not id or id in self._call_ids:
            id = new_call_id()
        self._call_ids.add(id)
        key = self._blocks.call(id, string(call.get("name")))
        if arguments := call.get("args"):
            self._partial.add(key, encode_json(arguments).decode())
        return key

    def _read_usage(self, usage: dict[str, Any]) -> None:
        if not usage:
            return
        prompt = count(usage.get("promptTokenCount")) + count(usage.get("toolUsePromptTokenCount"))
        cached = count(usage.get("cachedContentTokenCount"))
        ours = self._partial.usage
        ours.input, ours.cache_read = max(0, prompt - cached), cached
        ours.output = count(usage.get("candidatesTokenCount")) + count(usage.get("thoughtsTokenCount"))
