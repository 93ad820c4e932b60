"""Builds the bodies of Chat Completions requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from fairlead.core.messages import (
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from fairlead.core.model import Model, ModelRequest, ToolSpec
from fairlead.models.apis.openai_completions_compat import CompletionsCompat
from fairlead.models.apis.request_building import (
    EncodedMessages,
    PrefixCache,
    build_parameters,
    encode_json,
    openai_efforts,
    provider_level,
    results_with_images,
)
from fairlead.models.apis.response_reading import decode_json, records
from fairlead.models.apis.sendable_history import sendable_messages
from fairlead.models.apis.text_calls import STOPS, call_text, result_text, with_tools

#: The fields in which servers send thinking and take it back. A block's signature names its field.
THINKING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")

#: The most tokens to ask for if the user sets no limit: servers reserve them in the context before they begin.
_LONGEST_UNASKED = 32_000
_MISTRAL_CALL_ID = re.compile(r"[a-zA-Z0-9]{9}")
_CACHE_MARK = {"type": "ephemeral"}
_AFTER_TOOL_RESULTS = encode_json({"role": "assistant", "content": "I have read the results of the tools."})


class ChatBody:
    """Builds request bodies for one model. Earlier messages are not encoded again."""

    def __init__(self, model: Model, compat: CompletionsCompat, thinking_budgets: Mapping[str, int]) -> None:
        self._model = model
        self._compat = compat
        self._budgets = thinking_budgets
        self._history: PrefixCache[ModelMessage] = PrefixCache()
        self._sent: PrefixCache[bytes] = PrefixCache()
        self._messages = EncodedMessages[ModelMessage]()
        self._images = EncodedMessages[ToolResultMessage]()

    def encode(self, request: ModelRequest) -> bytes:
        """Return the body of a request, as JSON."""
        head = encode_json(self._parameters(request))
        return b"".join((head[:-1], b',"messages":[', b",".join(self._conversation(request)), b"]}"))

    # everything but the messages

    def _parameters(self, request: ModelRequest) -> dict[str, Any]:
        compat = self._compat
        body: dict[str, Any] = {"model": self._model.id, "stream": True}
        if compat.supports_usage_in_streaming:
            body["stream_options"] = {"include_usage": True}
        if compat.supports_store:
            body["store"] = False
        if compat.supports_prompt_cache_key and request.session_id:
            body["prompt_cache_key"] = request.session_id[:64]
        if limit := self._longest_answer(request):
            body[compat.max_tokens_field] = limit
        if self._compat.tool_calls_as_text:
            body["stop"] = list(STOPS)
        elif request.tools:
            body["tools"] = [self._tool(tool) for tool in request.tools]
            if compat.cache_control_format == "anthropic":
                body["tools"][-1]["cache_control"] = _CACHE_MARK
        if self._model.reasoning:
            body.update(self._thinking(request))
        if compat.open_router_routing:
            body["provider"] = compat.open_router_routing
        return body

    def _longest_answer(self, request: ModelRequest) -> int | None:
        if request.max_tokens is not None:
            return request.max_tokens
        limit = min(self._model.max_tokens, _LONGEST_UNASKED)
        # A limit as large as the context would leave no room for the messages.
        return limit if 0 < limit < self._model.context_window else None

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        parameters, is_strict = build_parameters(tool, self._model.api, supports_strict=self._compat.supports_strict_mode)
        function: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": parameters}
        if self._compat.supports_strict_mode:
            function["strict"] = is_strict
        return {"type": "function", "function": function}

    def _thinking(self, request: ModelRequest) -> dict[str, Any]:
        style, level = self._compat.thinking_format, request.thinking
        if style is None:
            return {}
        on = level != "off"
        if style == "openrouter":
            levels = {name: name for name in ("minimal", "low", "medium", "high", "xhigh", "max")}
            effort = provider_level(self._model, level, {"off": "none", **levels})
            return {"reasoning": {"effort": effort}} if effort is not None else {}
        fields: dict[str, Any] = {}
        if style in ("zai", "deepseek"):
            fields["thinking"] = {"type": "enabled" if on else "disabled"}
        elif style == "together":
            fields["reasoning"] = {"enabled": on}
        elif style == "qwen":
            fields["enable_thinking"] = on
        elif style == "qwen-chat-template":
            fields["chat_template_kwargs"] = {"enable_thinking": on}
        takes_effort = style == "openai" or (on and style in ("deepseek", "together"))
        effort = provider_level(self._model, level, openai_efforts(self._model))
        if takes_effort and self._compat.supports_reasoning_effort and effort is not None:
            fields["reasoning_effort"] = effort
        budget = request.thinking_budgets.get(level, self._budgets.get(level))
        if on and self._compat.thinking_token_budget_field and budget is not None:
            fields[self._compat.thinking_token_budget_field] = budget
        return fields

    # the messages

    def _conversation(self, request: ModelRequest) -> list[bytes]:
        messages = sendable_messages(request.messages, self._model, self._history)
        parts = self._messages.parts(messages, self._message)
        marks = self._compat.cache_control_format == "anthropic"
        if marks:
            self._mark_last_text(messages, parts)
        done, conversation = (0, list[bytes]()) if marks else self._sent.resume(messages)
        count = len(conversation)
        images = self._images_of_results(messages[done:])
        image_messages: list[bytes] = []
        for place in range(done, len(messages)):
            message, part = messages[place], parts[place]
            if part:
                conversation.append(part)
            if not isinstance(message, ToolResultMessage):
                done, count = place + 1, len(conversation)  # later messages do not change what came before
                continue
            if id(message) in images:
                image_messages.append(images[id(message)])
            following = messages[place + 1] if place + 1 < len(messages) else None
            if isinstance(following, ToolResultMessage):
                continue
            # Only after the last one, as nothing may come between the results of one turn.
            if self._compat.requires_assistant_after_tool_result and (image_messages or isinstance(following, UserMessage)):
                conversation.append(_AFTER_TOOL_RESULTS)
            conversation += image_messages
            image_messages = []
        self._sent.keep(messages[:done], conversation[:count])
        prompt = request.system_prompt
        if self._compat.tool_calls_as_text:
            prompt = with_tools(prompt, request.tools)
        return [self._system(prompt), *conversation] if prompt else conversation

    def _images_of_results(self, messages: list[ModelMessage]) -> dict[int, bytes]:
        """Return the messages that carry the images of tool results, by the `id()` of the result."""
        results = results_with_images(messages)
        return dict(zip(map(id, results), self._images.parts(results, _result_images), strict=True))

    def _system(self, prompt: str) -> bytes:
        role = "developer" if self._model.reasoning and self._compat.supports_developer_role else "system"
        content: Any = prompt
        if self._compat.cache_control_format == "anthropic":
            content = [{"type": "text", "text": prompt, "cache_control": _CACHE_MARK}]
        return encode_json({"role": role, "content": content})

    def _mark_last_text(self, messages: list[ModelMessage], parts: list[bytes]) -> None:
        for at in range(len(messages) - 1, -1, -1):
            message = messages[at]
            if isinstance(message, UserMessage) or (isinstance(message, AssistantMessage) and message.text()):
                marked = self._fields(message)
                if isinstance(marked["content"], str):
                    marked["content"] = [{"type": "text", "text": marked["content"]}]
                texts: list[dict[str, Any]] = [part for part in marked["content"] if part["type"] == "text"]
                if texts:
                    texts[-1]["cache_control"] = _CACHE_MARK
                    parts[at] = encode_json(marked)
                    return

    def _message(self, message: ModelMessage) -> bytes:
        fields = self._fields(message)
        return encode_json(fields) if fields else b""

    def _fields(self, message: ModelMessage) -> dict[str, Any]:
        if isinstance(message, UserMessage):
            return _user(message)
        if isinstance(message, AssistantMessage):
            return self._assistant(message)
        return self._tool_result(message)

    def _assistant(self, message: AssistantMessage) -> dict[str, Any]:
        """Return the fields of a message; none if it has nothing that can be sent."""
        fields: dict[str, Any] = {}
        texts: list[str] = []
        for block in message.content:
            if isinstance(block, TextContent):
                texts.append(block.text)
            elif isinstance(block, ThinkingContent):
                if self._compat.requires_thinking_as_text:
                    texts.append(f"{block.thinking}\n\n" if block.thinking else "")
                else:
                    _add_thinking(fields, block)
        text = "".join(texts)
        if self._compat.tool_calls_as_text:
            text = "\n".join(filter(None, [text, *map(call_text, message.tool_calls())]))
            return {"role": "assistant", "content": text} if text else {}
        calls = [self._call(call) for call in message.tool_calls()]
        if not text and not calls:
            return {}
        if self._compat.requires_reasoning_content_on_assistant_messages:
            fields.setdefault("reasoning_content", "")
        fields.update(role="assistant", content=text or None)
        if calls:
            fields["tool_calls"] = calls
        return fields

    def _call(self, call: ToolCall) -> dict[str, Any]:
        arguments = encode_json(call.arguments).decode()
        return {"id": self._call_id(call.id), "type": "function", "function": {"name": call.name, "arguments": arguments}}

    def _tool_result(self, message: ToolResultMessage) -> dict[str, Any]:
        text = "\n".join(block.text for block in message.content if isinstance(block, TextContent))
        content = text or ("(see the image below)" if message.content else "(no output)")
        if self._compat.tool_calls_as_text:
            return {"role": "user", "content": result_text(content)}
        fields = {"role": "tool", "tool_call_id": self._call_id(message.tool_call_id), "content": content}
        if self._compat.requires_tool_result_name:
            fields["name"] = message.tool_name
        return fields

    def _call_id(self, id: str) -> str:
        """Return an id that this server accepts, the same for a call and its result."""
        if not self._compat.requires_mistral_tool_ids or _MISTRAL_CALL_ID.fullmatch(id):
            return id

        return blake2b(id.encode(), digest_size=5).hexdigest()[:9]


def _user(message: UserMessage) -> dict[str, Any]:
    content: Any = message.content
    if not isinstance(content, str):
        only = content[0] if len(content) == 1 else None
        # A plain string if possible, since some servers do not accept lists.
        content = only.text if isinstance(only, TextContent) else [_part(block) for block in content]
    return {"role": "user", "content": content}


def _part(block: TextContent | ImageContent) -> dict[str, Any]:
    if isinstance(block, TextContent):
        return {"type": "text", "text": block.text}
    return {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}


def _result_images(message: ToolResultMessage) -> bytes:
    """Encode the images of a tool result as a user message, since a tool message cannot hold images."""
    images = [_part(block) for block in message.content if isinstance(block, ImageContent)]
    return encode_json({"role": "user", "content": [{"type": "text", "text": f"From the tool {message.tool_name}:"}, *images]})


def _add_thinking(fields: dict[str, Any], block: ThinkingContent) -> None:
    """Send thinking back in the field it came in. `thinking_signature` names the field, or holds OpenRouter's details."""
    signature = block.thinking_signature or ""
    if signature in THINKING_FIELDS:
        fields[signature] = fields.get(signature, "") + block.thinking
    elif signature.startswith("["):
        fields["reasoning_details"] = [*fields.get("reasoning_details", []), *records(decode_json(signature))]
