"""Requests that do not fit the model's context window: recognizing the error, and shortening what is sent.

The session itself is not changed.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from msgspec import structs

from fairlead.core.messages import (
    AssistantBlock,
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from fairlead.session.context.tokens import IMAGE_CHARACTERS, characters

#: No message is made shorter than this many characters.
_SHORTEST = 240
#: Lengths are rounded down to powers of this, so that a message keeps its form and its encoding over several requests.
_STEP = 1.2
#: How many characters of the user's last message are repeated if the message itself is left out.
_REQUEST_CHARACTERS = 500
#: Room for the note that replaces the middle of a text.
_NOTE_CHARACTERS = 90

NO_ROOM_FOR_IMAGE = "(an image was here; it does not fit the model's context window)"

M = TypeVar("M", bound=ModelMessage)


class Fitter:
    """Shortens messages. It returns the same object for the same message, so that adapters can keep their encodings."""

    def __init__(self) -> None:
        self._short: dict[int, tuple[ModelMessage, int, ModelMessage]] = {}

    def fit(self, messages: Sequence[ModelMessage], budget: int) -> list[ModelMessage]:
        """Return the messages in at most `budget` characters, as far as possible.

        The longest messages lose their middle, all down to the same length. If that is not enough, the oldest messages are
        left out. A note in the text tells the model about each gap.
        """
        sizes = [characters(message) for message in messages]
        if sum(sizes) <= budget:
            self._short.clear()
            return list(messages)
        first = _first_kept(messages, sizes, budget)
        note = [_note_about(messages[:first], messages[first:])] if first else []
        limit = _limit(sizes[first:], budget - sum(map(characters, note)))
        before, self._short = self._short, {}
        kept = [
            message if size <= limit else self._shorten(message, limit, before.get(id(message)))
            for message, size in zip(messages[first:], sizes[first:], strict=True)
        ]
        return [*note, *kept]

    def _shorten(self, message: ModelMessage, limit: int, known: tuple[ModelMessage, int, ModelMessage] | None) -> ModelMessage:
        if known is None or known[0] is not message or known[1] != limit:
            known = (message, limit, shorten_message(message, limit))
        self._short[id(message)] = known
        return known[2]


def shorten_message(message: ModelMessage, limit: int) -> ModelMessage:
    """Return a copy of `message` with about `limit` characters."""
    if isinstance(message, AssistantMessage):
        return structs.replace(message, content=_shorten_answer(message.content, limit))
    if isinstance(message, ToolResultMessage):
        return structs.replace(message, content=_shorten_blocks(message.content, limit))
    if isinstance(message.content, str):
        return structs.replace(message, content=shorten_text(message.content, limit))
    return structs.replace(message, content=_shorten_blocks(message.content, limit))


def shorten_text(text: str, limit: int) -> str:
    """Return `text` with at most about `limit` characters, including the note that replaces its middle."""
    if len(text) <= limit:
        return text
    return without_middle(text, max(limit - _NOTE_CHARACTERS, 0), " because they do not fit the model's context window")


def without_middle(text: str, limit: int, reason: str = "") -> str:
    """Return `text` with at most `limit` of its characters: a note for the model, with the reason, replaces its middle."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out{reason} ...]\n{text[len(text) - half :]}"


def _first_kept(messages: Sequence[ModelMessage], sizes: Sequence[int], budget: int) -> int:
    """Return the index of the first message to keep: from there on all fit if each is shortened as far as possible."""
    room, first = budget - _REQUEST_CHARACTERS - _SHORTEST, len(messages) - 1
    if sum(min(size, _SHORTEST) for size in sizes) <= budget:
        return 0
    for index in range(len(messages) - 1, -1, -1):
        room -= min(sizes[index], _SHORTEST)
        if room < 0:
            break
        if not isinstance(messages[index], ToolResultMessage):
            first = index
    # A tool result needs the call before it.
    while first > 0 and isinstance(messages[first], ToolResultMessage):
        first -= 1
    return first


def _note_about(messages: Sequence[ModelMessage], kept: Sequence[ModelMessage]) -> UserMessage:
    """Return the note that replaces `messages`. It repeats the user's last request unless the kept messages have one."""
    text = f"[{len(messages)} earlier messages left out because they do not fit the model's context window]"
    asked = next((message for message in reversed(messages) if isinstance(message, UserMessage)), None)
    if asked is not None and not any(isinstance(message, UserMessage) for message in kept):
        content = asked.content if isinstance(asked.content, str) else "\n".join(_texts(asked.content))
        text += f"\nThe last of them that came from the user:\n{shorten_text(content, _REQUEST_CHARACTERS)}"
    return UserMessage(text, messages[-1].timestamp)


def _limit(sizes: Sequence[int], budget: int) -> int:
    """Return the length for which the messages add up to `budget` if all longer ones are cut to it."""
    left, limit = budget, 0
    for index, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - index)
        if size > share:
            limit = share
            break
        left -= size
    limit = max(limit, _SHORTEST)
    return max(int(_STEP ** math.floor(math.log(limit, _STEP))), _SHORTEST)


def _shorten_blocks(blocks: Sequence[UserBlock], limit: int) -> list[UserBlock]:
    """Shorten the blocks of a user's message or a tool result. Images stay if they fit; the texts share the rest."""
    images = sum(isinstance(block, ImageContent) for block in blocks)
    with_images = images * IMAGE_CHARACTERS <= limit // 2 if images else True
    room = limit - images * (IMAGE_CHARACTERS if with_images else len(NO_ROOM_FOR_IMAGE))
    lengths = [len(block.text) for block in blocks if isinstance(block, TextContent)]
    longest = _limit(lengths, max(room, 0)) if lengths else 0
    short: list[UserBlock] = []
    for block in blocks:
        if isinstance(block, TextContent):
            short.append(TextContent(shorten_text(block.text, longest)) if len(block.text) > longest else block)
        else:
            short.append(block if with_images else TextContent(NO_ROOM_FOR_IMAGE))
    return short


def _shorten_answer(blocks: Sequence[AssistantBlock], limit: int) -> list[AssistantBlock]:
    """Shorten the blocks of an answer and drop its thinking. A text loses its signature, which refers to the thinking."""
    kept = [block for block in blocks if not isinstance(block, ThinkingContent)]
    each = max(limit // max(len(kept), 1), _SHORTEST)
    short: list[AssistantBlock] = []
    for block in kept:
        if isinstance(block, ToolCall):
            arguments = cast("dict[str, Any]", _shorten_value(block.arguments, each))
            short.append(ToolCall(block.id, block.name, arguments, block.thought_signature))
        else:
            short.append(TextContent(shorten_text(block.text, each)))
    return short or [TextContent("(thinking left out)")]


def _shorten_value(value: Any, limit: int) -> Any:
    """Shorten the long strings in an argument of a call."""
    if isinstance(value, str):
        return shorten_text(value, limit)
    if isinstance(value, dict):
        return {key: _shorten_value(item, limit) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_shorten_value(item, limit) for item in cast("list[Any]", value)]
    return value


def _texts(blocks: Sequence[UserBlock]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, TextContent)]


#: Each with the providers that use it. Most compatible servers pass on the words of their model server.
_OVERFLOW = (
    r"(?:prompt|input|request) (?:is )?too long",  # Anthropic, Bedrock, Ollama
    r"exceeds? (?:the )?context (?:window|limit|length)",  # OpenAI; Anthropic with max_tokens added; Ollama
    r"request_too_large|request exceeds the maximum (?:allowed )?(?:size|number of bytes)",  # Anthropic
    r"context[_ ]?(?:length|window|size)[_ ]?exceeded|exceed_context_size",  # OpenAI's code; LiteLLM; z.ai; llama.cpp
    r"maximum (?:context|model) length|max_model_len",  # OpenAI, DeepSeek, OpenRouter, vLLM, SGLang, Mistral
    r"input token count\b.{0,40}\bexceeds the maximum",  # Google
    r"token count of [\d,]+ exceeds the limit of [\d,]+",  # GitHub Copilot
    r"number of tokens in the prompt exceeds",  # Cohere
    r"maximum prompt length is [\d,]+",  # xAI
    r"reduce the length of the (?:messages|prompt|input)",  # Groq
    r"exceeds the available context size",  # llama.cpp
    r"(?:longer|greater) than the (?:model's )?context length",  # Together, SGLang, LM Studio
    r"context window exceeds limit",  # MiniMax
    r"exceeded model token limit",  # Kimi
    r"exceeds the maximum allowed input length",  # Poolside
    r"prompt exceeds max(?:imum)? length",  # z.ai
    r"range of input length should be",  # Qwen
    r"too many tokens|token limit exceeded",
    # The general case: a number of tokens, the word context, and another number.
    r"\d\s*tokens?\b.{0,160}\bcontext\b.{0,80}?\d|\bcontext\b.{0,80}?\d\s*tokens?\b.{0,160}\d\s*(?:input |prompt )?tokens?\b",
    r"^4(?:00|13)\b.{0,40}\(no body\)",  # Cerebras and Mistral give no text
    r"inputs`? tokens \+ `?max_new_tokens`? must be <=|`inputs` must have less than",  # Hugging Face's TGI
    r"'(?:messages|input)\b[^']{0,80}(?:content|text|output)[^']{0,40}': string too long",  # OpenAI, Azure
)

#: The general wording. Errors about the length of the answer use the same words, and are excluded.
_IN_GENERAL = (
    r"\b(?:prompt|inputs?|messages)\b.{0,60}\b(?:tokens?|length)\b.{0,80}"
    r"\b(?:exceeds?|(?:more|longer|greater|larger) than|over the|limit|maximum|at most)\b.{0,60}\d"
)
_OF_ANSWER = r"max_(?:completion_|output_|new_)?tokens|\b(?:completion|output) (?:tokens|length)"

#: Rate limits mention too many tokens too. They end by waiting; a compaction would only use more tokens.
_LIMIT_PER_TIME = (
    r"rate.?limit",
    r"too many requests",
    r"throttl",
    r"per (?:minute|min|hour|day)\b|\b(?:daily|monthly)\b",
    r"\b[TR]P[MD]\b",
    r"quota",
    r"^429\b",
)

#: A whole number in its usual forms: 131072, 131,072, 131.072, 131 072, 128k.
_N = r"(\d{1,3}(?:[.,'_ \u00a0\u202f]\d{3}(?!\d))+|\d+(?:\.\d+)?\s?[km](?![a-z])|\d+)"
_THOUSANDS = {"k": 1_000, "m": 1_000_000}
#: An address. Its words say nothing about the error.
_ADDRESS = r"https?://\S+"
#: The window's size, the most certain form first. Quotes may be escaped in an error that a gateway passes on.
_WINDOW = (
    rf"\bn_ctx\W{{1,4}}{_N}",  # llama.cpp
    rf"available context size \({_N}",  # llama.cpp
    rf"max_model_len\W{{1,4}}{_N}|maximum model length of {_N}",  # vLLM
    rf"maximum context length(?: is| of|:)? \(?{_N}|{_N} maximum context length",  # OpenAI, vLLM, OpenRouter; Mistral
    rf"tokens? > {_N} maximum|context limit: {_N} \+ {_N} > {_N}",  # Anthropic
    rf"maximum number of tokens allowed \(?{_N}",  # Google
    rf"maximum prompt length is {_N}",  # xAI
    rf"token count of {_N} exceeds the limit of {_N}",  # GitHub Copilot
    rf"model token limit: {_N}",  # Kimi
    rf"maximum allowed input length of {_N}",  # Poolside
    rf"input length should be \[\d+, ?{_N}\]",  # Qwen
    rf"max_new_tokens`? must be <= {_N}|maximum input length (?:of |is )?{_N}",  # Hugging Face's TGI; DeepInfra
    rf"max(?:imum)?[_ ]seq(?:uence)?[_ ]len(?:gth)?\W{{1,4}}(?:(?:is|of)\W)?{_N}",  # ExLlama, Tabby
    rf"context (?:length|window|size|limit)\b\W{{0,3}}(?:(?:is|of|only|set to|the model)\W{{1,2}}){{0,3}}{_N}\)?(?: tokens?)?",
)
#: The number of tokens in the request.
_SIZE = (
    rf"\bn_prompt_tokens\W{{1,4}}{_N}",  # llama.cpp
    rf"request \({_N} tokens\)",  # llama.cpp
    rf"prompt is too long: {_N}|context limit: {_N} \+",  # Anthropic
    rf"{_N} (?:in|of) (?:the )?(?:messages|text input|prompt)|messages resulted in {_N}",  # OpenAI, vLLM, OpenRouter
    rf"(?:has|passed|contains) (?:at least )?{_N} (?:input )?tokens",  # vLLM, Mistral, xAI
    rf"token count(?: of)? \(?{_N}",  # Google, GitHub Copilot
    rf"input \({_N} tokens\)|input length {_N}\b",  # Together, Poolside
    rf"requested: {_N}",  # Kimi
    rf"given: {_N} `inputs` tokens",  # Hugging Face's TGI
)


def is_overflow(error_text: str, status: int | None = None) -> bool:
    """Whether a request failed because it does not fit the model's context window, so that a smaller one may succeed."""
    overflow, in_general, of_answer, limit_per_time, address = _patterns()
    if status == 429 or limit_per_time.search(address.sub("", error_text)):
        return False
    if status == 413 or overflow.search(error_text):
        return True
    return in_general.search(error_text) is not None and of_answer.search(error_text) is None


def window_in_error(error_text: str) -> int | None:
    """Return the size of the model's context window in tokens, if the text of an overflow error has it."""
    return _last_number(_readers()[0], error_text)


def size_in_error(error_text: str) -> int | None:
    """Return the number of tokens in the request, without the answer, if the text of an overflow error has it."""
    return _last_number(_readers()[1], error_text)


def _last_number(patterns: tuple[re.Pattern[str], ...], text: str) -> int | None:
    for pattern in patterns:
        found = pattern.search(text)
        numbers = [group for group in found.groups() if group is not None] if found is not None else []
        if numbers and len(numbers[-1]) < 14:
            return _number(numbers[-1].lower())
    return None


def _number(written: str) -> int:
    if written[-1] in _THOUSANDS:
        return int(float(written[:-1]) * _THOUSANDS[written[-1]])
    return int("".join(filter(str.isdecimal, written)))


@functools.cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    texts = ("|".join(_OVERFLOW), _IN_GENERAL, _OF_ANSWER, "|".join(_LIMIT_PER_TIME), _ADDRESS)
    return tuple(re.compile(text, re.IGNORECASE) for text in texts)


@functools.cache
def _readers() -> tuple[tuple[re.Pattern[str], ...], tuple[re.Pattern[str], ...]]:
    def compile_all(texts: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(text, re.IGNORECASE) for text in texts)

    return compile_all(_WINDOW), compile_all(_SIZE)
