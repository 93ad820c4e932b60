"""Recognises a provider's error for a request that does not fit the model's context window, and reads the window's size from it.

Each provider words this error differently, and few give a code. The patterns are generous, because a session whose overflow is
not recognised cannot continue. A rate limit is never taken for an overflow, because a compaction would make it worse.
"""

from __future__ import annotations

import functools
import re

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
    def compiled(texts: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(text, re.IGNORECASE) for text in texts)

    return compiled(_WINDOW), compiled(_SIZE)
