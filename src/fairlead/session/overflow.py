"""Tells from a provider's error that a request was larger than the model's context.

Every provider has its own words for it, and few a code. The list errs on the side of silence: what it does
not know is shown to the user, while a wrong match costs a compaction that does not help.
"""

from __future__ import annotations

import functools
import re

#: With whom each text was seen; most imitators of an API use their model server's words.
_OVERFLOW = (
    r"(?:prompt|input|request) (?:is )?too long",  # Anthropic, Bedrock, Ollama
    r"exceeds? (?:the )?context (?:window|limit|length)",  # OpenAI; Anthropic with max_tokens added; Ollama
    r"request_too_large|request exceeds the maximum (?:allowed )?(?:size|number of bytes)",  # Anthropic
    r"context[_ ](?:length|window|size)[_ ]exceeded|exceed_context_size",  # OpenAI's code; z.ai; llama.cpp
    r"maximum context length",  # OpenAI, DeepSeek, OpenRouter, vLLM, SGLang, Mistral
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
    r"^4(?:00|13)\b.{0,40}\(no body\)",  # Cerebras and Mistral say nothing at all
)

#: Limits per time speak of too many tokens too. They pass by waiting; a compaction would only cost more of them.
_LIMIT_PER_TIME = (
    r"rate.?limit",
    r"too many requests",
    r"throttl",
    r"per (?:minute|min|hour|day)\b|\b(?:daily|monthly)\b",
    r"\b[TR]P[MD]\b",
    r"quota",
    r"^429\b",
)


def is_overflow(error_text: str, status: int | None = None) -> bool:
    """Whether a request failed because it does not fit the model's context, so that a smaller one may succeed."""
    overflow, limit_per_time = _patterns()
    if status == 429 or limit_per_time.search(error_text):
        return False
    return status == 413 or overflow.search(error_text) is not None


@functools.cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile("|".join(_OVERFLOW), re.IGNORECASE), re.compile("|".join(_LIMIT_PER_TIME), re.IGNORECASE)
