"""How servers that imitate OpenAI's Chat Completions API differ from it and from each other.

A model's `compat` says so explicitly, with the keys of pi's models.json. What it leaves out is guessed from the provider's name
and address. An unknown server gets what most servers accept: a `system` message, no `store` field, no strict tools.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args, get_origin
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from fairlead.core.model import Model
from fairlead.errors import ConfigError

#: Which field tells a model to think:
#:   openai              reasoning_effort
#:   openrouter          reasoning: {effort}
#:   deepseek            thinking: {type}, and reasoning_effort
#:   together            reasoning: {enabled}, and reasoning_effort
#:   zai                 thinking: {type}
#:   qwen                enable_thinking
#:   qwen-chat-template  chat_template_kwargs: {enable_thinking}
ThinkingFormat: TypeAlias = Literal["openai", "openrouter", "deepseek", "together", "zai", "qwen", "qwen-chat-template"]

#: Formats that only pi supports. Models that need one of them are used, but not asked to think.
UNSUPPORTED_THINKING_FORMATS = ("chat-template", "baseten", "string-thinking", "ant-ling")


class CompletionsCompat(Struct, rename="camel", frozen=True, kw_only=True):
    """How one server differs. The defaults are for an unknown server."""

    #: Accepts `store`, so that it can be told to store nothing.
    supports_store: bool = False
    #: Expects the system prompt of a reasoning model in a `developer` message.
    supports_developer_role: bool = False
    supports_reasoning_effort: bool = True
    #: Accepts `stream_options`. Some servers send usage anyway and refuse the field.
    supports_usage_in_streaming: bool = True
    #: Accepts `strict` in tool definitions.
    supports_strict_mode: bool = False
    #: Accepts `prompt_cache_key`.
    supports_prompt_cache_key: bool = False
    #: The field that limits the answer. Every imitator accepts the old name; only newer models of OpenAI refuse it.
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_tokens"
    #: Tool results must name their tool.
    requires_tool_result_name: bool = False
    #: A user message may not follow a tool result directly.
    requires_assistant_after_tool_result: bool = False
    #: Earlier thinking is sent back as plain text, not in its own field.
    requires_thinking_as_text: bool = False
    #: Every earlier assistant message must have `reasoning_content`, even if it is empty.
    requires_reasoning_content_on_assistant_messages: bool = False
    #: Tool call ids are exactly nine letters and digits.
    requires_mistral_tool_ids: bool = False
    #: Tools are described in the system prompt, and calls are read from the text of the answer. For models that write calls as
    #: JSON text, and for servers that refuse `tools`.
    tool_calls_as_text: bool = False
    #: None if fairlead does not support the server's format.
    thinking_format: ThinkingFormat | None = "openai"
    #: The field for a number of thinking tokens, if there is one.
    thinking_token_budget_field: Literal["thinking_token_budget", "thinking_budget", "thinking_budget_tokens"] | None = None
    #: Prompt caching needs Anthropic's `cache_control` marks.
    cache_control_format: Literal["anthropic"] | None = None
    #: OpenRouter's `provider` preferences, sent as they are.
    open_router_routing: dict[str, Any] | None = None


#: Models of OpenAI that refuse `max_tokens`.
_NEW_OPENAI_MODEL = re.compile(r"(?:^|/)(?:o[1-9](?:-|$)|gpt-(?:[5-9]|\d\d))")


class _KnownServer(NamedTuple):
    names: tuple[str, ...]
    #: Each is a host with its subdomains, or `:port` for that port on any host.
    hosts: tuple[str, ...]
    traits: dict[str, Any]


_KNOWN_SERVERS = (
    _KnownServer(
        ("openai", "azure-openai"),
        ("api.openai.com", "openai.azure.com"),
        {
            "supportsStore": True,
            "supportsDeveloperRole": True,
            "supportsStrictMode": True,
            "supportsPromptCacheKey": True,
            "maxTokensField": "max_completion_tokens",
        },
    ),
    _KnownServer(
        ("openrouter",),
        ("openrouter.ai",),
        {"thinkingFormat": "openrouter", "maxTokensField": "max_completion_tokens"},
    ),
    _KnownServer(("groq", "cerebras"), ("api.groq.com", "api.cerebras.ai"), {"maxTokensField": "max_completion_tokens"}),
    _KnownServer(
        ("mistral",),
        ("api.mistral.ai",),
        {
            "supportsReasoningEffort": False,
            "supportsUsageInStreaming": False,
            "requiresToolResultName": True,
            "requiresAssistantAfterToolResult": True,
            "requiresThinkingAsText": True,
            "requiresMistralToolIds": True,
        },
    ),
    _KnownServer(
        ("deepseek",),
        ("api.deepseek.com",),
        {
            "thinkingFormat": "deepseek",
            "requiresReasoningContentOnAssistantMessages": True,
        },
    ),
    _KnownServer(
        ("moonshot", "moonshotai", "kimi"),
        ("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"),
        {"thinkingFormat": "zai", "requiresReasoningContentOnAssistantMessages": True},
    ),
    _KnownServer(("xai",), ("api.x.ai",), {"supportsReasoningEffort": False, "maxTokensField": "max_completion_tokens"}),
    _KnownServer(
        ("github-copilot",),
        ("githubcopilot.com",),
        {"supportsReasoningEffort": False, "maxTokensField": "max_completion_tokens"},
    ),
    _KnownServer(
        ("zai", "zhipu"),
        ("api.z.ai", "open.bigmodel.cn"),
        {"thinkingFormat": "zai", "supportsReasoningEffort": False},
    ),
    _KnownServer(
        ("qwen", "dashscope"),
        ("aliyuncs.com",),
        {"thinkingFormat": "qwen", "thinkingTokenBudgetField": "thinking_budget"},
    ),
    _KnownServer(("together",), ("api.together.xyz", "api.together.ai"), {"thinkingFormat": "together"}),
)


def completions_compat(model: Model) -> CompletionsCompat:
    """Return how the server of `model` differs: what its `compat` says, and guesses for the rest.

    Raises ConfigError if `compat` has a value that cannot be used.
    """
    told = {key: value for key, value in (model.compat or {}).items() if value is not None}
    settings = {**_guess(model), **told}
    if settings.get("thinkingFormat") in UNSUPPORTED_THINKING_FORMATS:
        settings["thinkingFormat"] = None
    try:
        return msgspec.convert(settings, CompletionsCompat)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"The compat settings of model {model.provider}/{model.id} are unusable: {_explain(error, told)}"
        ) from error


def _guess(model: Model) -> Mapping[str, Any]:
    name = model.provider.lower()
    try:
        address = urlsplit(model.base_url)
    except ValueError:  # the first request says so
        return {}
    known = next((known for known in _KNOWN_SERVERS if name in known.names), None) or next(
        (known for known in _KNOWN_SERVERS if _is_at(known.hosts, (address.netloc or "").lower())), None
    )
    traits: dict[str, Any] = dict(known.traits) if known is not None else {}
    if known is None and _NEW_OPENAI_MODEL.search(model.id.lower()):
        # A gateway to OpenAI: the model behind it accepts only the new name.
        traits["maxTokensField"] = "max_completion_tokens"
    if traits.get("thinkingFormat") == "openrouter" and model.id.startswith("anthropic/"):
        # The caches of other vendors behind OpenRouter need no marks.
        traits["cacheControlFormat"] = "anthropic"
    return traits


def _is_at(hosts: tuple[str, ...], address: str) -> bool:
    return any(address.endswith(host) if host[0] == ":" else f".{address}".endswith(f".{host}") for host in hosts)


def _explain(error: msgspec.ValidationError, told: Mapping[str, Any]) -> str:
    """Explain a wrong value. msgspec does not say which values it would accept."""
    for field in msgspec.structs.fields(CompletionsCompat):
        key = field.encode_name
        if key in told and str(error).endswith(f"`$.{key}`"):
            value = msgspec.json.encode(told[key]).decode()
            return f"{key} is {value}, but must be {_choices(field.type)}"
    return str(error)


def _choices(wanted: Any) -> str:
    if wanted is bool:
        return "true or false"
    values = [value for member in (wanted, *get_args(wanted)) if get_origin(member) is Literal for value in get_args(member)]
    return "one of " + ", ".join(f'"{value}"' for value in values) if values else "an object"
