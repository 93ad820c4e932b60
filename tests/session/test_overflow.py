"""Errors that mean "too large for the context", in the words of each provider, and errors that only sound like it."""

from __future__ import annotations

import pytest

from fairlead.session.context.overflow import is_overflow, size_in_error, window_in_error

OVERFLOWS = {
    "anthropic": (
        '400 {"type":"error","error":{"type":"invalid_request_error",'
        '"message":"prompt is too long: 213462 tokens > 200000 maximum"}}',
        400,
    ),
    "anthropic with max_tokens": (
        "400 input length and `max_tokens` exceed context limit: 190402 + 16650 > 200000, decrease input length or `max_tokens`",
        400,
    ),
    "anthropic, bytes": (
        '413 {"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}',
        413,
    ),
    "anthropic, bytes, in a stream": ('{"type":"error","error":{"type":"request_too_large"}}', None),
    "bedrock": ("400 Input is too long for requested model.", 400),
    "openai": ("Your input exceeds the context window of this model. Please adjust your input and try again.", None),
    "openai, code": ('400 {"error":{"message":"Too large.","code":"context_length_exceeded"}}', 400),
    "openai, older": (
        "400 This model's maximum context length is 4097 tokens. However, your messages resulted in 4294 tokens.",
        400,
    ),
    "google": ("400 The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", 400),
    "google, no count": ("400 The input token count exceeds the maximum number of tokens allowed 1048576.", 400),
    "xai": ("400 This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 400),
    "groq": ("400 Please reduce the length of the messages or completion.", 400),
    "openrouter": (
        "400 This endpoint's maximum context length is 131072 tokens. However, you requested about 150000 tokens",
        400,
    ),
    "poolside": ("400 Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", 400),
    "mistral": ("400 Prompt contains 40960 tokens, too large for model with 32768 maximum context length", 400),
    "copilot": ("400 prompt token count of 150000 exceeds the limit of 128000", 400),
    "cohere": ("400 too many tokens: total number of tokens in the prompt exceeds the limit of 4081", 400),
    "together": ("400 The input (263000 tokens) is longer than the model's context length (262144 tokens).", 400),
    "llama.cpp": ('400 {"message":"the request exceeds the available context size, try increasing it"}', 400),
    "llama.cpp, type": ('{"code":400,"type":"exceed_context_size_error","n_ctx":4096}', None),
    "lm studio": ("The number of tokens to keep from the initial prompt is greater than the context length", None),
    "ollama": ("500 the input length exceeds the context length", 500),
    "ollama, newer": ("400 prompt too long; exceeded max context length by 12 tokens", 400),
    "minimax": ("400 invalid params, context window exceeds limit", 400),
    "kimi": ("400 Your request exceeded model token limit: 262144 (requested: 270000)", 400),
    "z.ai": ("400 Prompt exceeds max length", 400),
    "z.ai, stop reason": ("model_context_window_exceeded", None),
    "qwen": ("400 Range of input length should be [1, 129024]", 400),
    "generic": ("token limit exceeded", None),
    "llama.cpp, as it is": (
        '400 {"error":{"code":400,"message":"request (4031 tokens) exceeds the available context size (2048 tokens), try '
        'increasing it","type":"exceed_context_size_error","n_prompt_tokens":4031,"n_ctx":2048}}',
        400,
    ),
    "litellm, completions": (
        '400 {"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: ContextWindowExceededError: '
        "OpenAIException - request (4031 tokens) exceeds the available context size (2048 tokens), try increasing it\\n"
        "model=smol. context_window_fallbacks=None. fallbacks=None.\\n\\nSet 'context_window_fallback'\"}}",
        400,
    ),
    "litellm, messages": (
        '400 {"type":"error","error":{"type":"invalid_request_error","message":"litellm.ContextWindowExceededError: '
        'OpenAIException - {\\"error\\":{'
        '\\"type\\":\\"exceed_context_size_error\\",\\"n_prompt_tokens\\":4031,\\"n_ctx\\":2048}}"}}',
        400,
    ),
    "litellm, class alone": ("400 litellm.ContextWindowExceededError: something that nobody has seen", 400),
    "vllm": (
        "400 This model's maximum context length is 2048 tokens. However, you requested 2548 tokens (500 in the messages, "
        "2048 in the completion). Please reduce the length of the messages or completion.",
        400,
    ),
    "vllm, newer": (
        "400 'max_tokens' or 'max_completion_tokens' is too large: 16384. This model's maximum context length is 2048 tokens "
        "and your request has 500 input tokens (16384 > 2048 - 500).",
        400,
    ),
    "vllm, multimodal": (
        "400 The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is "
        "no smaller than the number of text tokens plus multimodal tokens.",
        400,
    ),
    "lm studio, loaded": (
        "400 Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length "
        "of only 4096 tokens, which is not enough.",
        400,
    ),
    "openrouter, parts": (
        "400 This endpoint's maximum context length is 131072 tokens. However, you requested about 150000 tokens (140000 of text "
        "input, 10000 in the output). Please reduce the length of either one.",
        400,
    ),
    "deepseek": (
        "400 This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (66000 in the messages, "
        "4000 in the completion).",
        400,
    ),
    "general": ("400 Got 5,000 tokens but the context only holds 4,096", 400),
    "general, the other way round": ("500 the context of 4096 tokens cannot hold 5000 tokens", 500),
    "cerebras": ("400 Bad Request (no body)", 400),
    "tgi": (
        '422 {"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: 14439 `inputs` tokens '
        'and 100 `max_new_tokens`","error_type":"validation"}',
        422,
    ),
    "deepinfra": ("400 Requested input length 14439 exceeds maximum input length 8192", 400),
    "exllama": ("400 Prompt length 14439 is greater than max_seq_len 8192", 400),
    "tabby": ("400 Prompt tokens (14439) exceed the maximum sequence length of 8192", 400),
    "general, without a context": ("400 The prompt has 14439 tokens, more than the limit 8192", 400),
    "openai, one string": (
        "400 Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576, but got a string "
        "with length 2000000 instead.",
        400,
    ),
    "an address that speaks of rates": (
        "400 This model's maximum context length is 8192 tokens. See https://made-up.example/docs/rate-limits",
        400,
    ),
    "in thousands": ("400 Your input of 14.4k tokens is larger than the context window of 128k", 400),
    "with dots": ("400 This model's maximum context length is 131.072 tokens.", 400),
    "with spaces": ("400 This model's maximum context length is 131 072 tokens.", 400),
    "a gateway": ("413 <html><h1>413 Payload Too Large</h1></html>", 413),
}

NEAR_MISSES = {
    "anthropic, per minute": (
        "429 This request would exceed your organization's rate limit of 40,000 input tokens per minute.",
        429,
    ),
    "anthropic, in a stream": ('{"error":{"type":"rate_limit_error","message":"too many tokens"}}', None),
    "bedrock throttling": ("400 ThrottlingException: Too many tokens, please wait before trying again.", 400),
    "bedrock per day": ("Too many tokens per day, please wait before trying again.", None),
    "openai, per minute": ("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 49000.", None),
    "groq, per minute, as 413": ("413 Request too large for model on tokens per minute (TPM): Limit 6000, Requested 9000", 413),
    "any 429": ("prompt is too long", 429),
    "a 429 without a status": ("429 too many tokens", None),
    "google quota": ("You exceeded your current quota: input token count exceeds the maximum for the free tier", None),
    "too many requests": ("Too many requests: token limit exceeded", None),
    "daily": ("Daily token limit exceeded", None),
    "max_tokens, anthropic": ("400 max_tokens: 99999 > 8192, which is the maximum allowed number of output tokens", 400),
    "max_tokens, openai": ("400 max_tokens is too large: 200000. This model supports at most 16384 completion tokens", 400),
    "max_tokens, in general words": ("400 Invalid input: the limit of max_tokens is a maximum of 8192 tokens", 400),
    "the name of a tool": (
        "400 Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64",
        400,
    ),
    "the id of an item": ("400 Invalid 'input[3].id': string too long. Expected a string with maximum length 64", 400),
    "image size": ("400 image exceeds the limit of 5 MB: 6291456 bytes > 5242880 bytes", 400),
    "key": ("401 invalid x-api-key", 401),
    "overloaded": ("529 Overloaded", 529),
    "a server without words": ("500 Internal Server Error (no body)", 500),
    "nothing": ("", None),
    "tokens per minute and a context": ("Limit 30000 tokens per minute; context of this request: 40000", None),
    "context without tokens": ("500 the request context was cancelled after 30 s", 500),
    "tokens without a context": ("400 you have 12 tokens left on your account", 400),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_a_request_too_large_for_the_context_is_recognised(name: str) -> None:
    assert is_overflow(*OVERFLOWS[name])
    assert is_overflow(OVERFLOWS[name][0].upper(), OVERFLOWS[name][1])


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_other_limits_are_not_taken_for_it(name: str) -> None:
    assert not is_overflow(*NEAR_MISSES[name])


TOLD: dict[str, tuple[int | None, int | None]] = {
    "anthropic": (200_000, 213_462),
    "anthropic with max_tokens": (200_000, 190_402),
    "anthropic, bytes": (None, None),
    "bedrock": (None, None),
    "openai": (None, None),
    "openai, older": (4_097, 4_294),
    "google": (1_048_575, 1_196_265),
    "google, no count": (1_048_576, None),
    "xai": (131_072, 537_812),
    "openrouter": (131_072, None),
    "openrouter, parts": (131_072, 140_000),
    "poolside": (131_040, 131_393),
    "mistral": (32_768, 40_960),
    "copilot": (128_000, 150_000),
    "together": (262_144, 263_000),
    "llama.cpp": (None, None),
    "llama.cpp, type": (4_096, None),
    "llama.cpp, as it is": (2_048, 4_031),
    "litellm, completions": (2_048, 4_031),
    "litellm, messages": (2_048, 4_031),
    "vllm": (2_048, 500),
    "vllm, newer": (2_048, 500),
    "vllm, multimodal": (4_096, None),
    "lm studio, loaded": (4_096, None),
    "deepseek": (65_536, 66_000),
    "kimi": (262_144, 270_000),
    "qwen": (129_024, None),
    "cerebras": (None, None),
    "tgi": (8_192, 14_439),
    "deepinfra": (8_192, 14_439),
    "exllama": (8_192, None),
    "tabby": (8_192, None),
    "openai, one string": (None, None),
    "in thousands": (128_000, None),
    "with dots": (131_072, None),
    "with spaces": (131_072, None),
}


@pytest.mark.parametrize("name", TOLD)
def test_the_window_and_the_size_of_the_request_are_read_from_the_error(name: str) -> None:
    text = OVERFLOWS[name][0]
    assert (window_in_error(text), size_in_error(text)) == TOLD[name]


def test_numbers_that_are_not_sizes_are_ignored() -> None:
    assert window_in_error("maximum context length is " + "9" * 5_000) is None
