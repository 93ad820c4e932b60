"""Decodes the params of requests, and encodes results as Opal's protocol declares them.

Errors have the words that Opal's clients know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from msgspec import UNSET

from fairlead.core.events import FileLists
from fairlead.core.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from fairlead.core.model import Model, ThinkingLevel
from fairlead.core.tool import ToolResult
from fairlead.models.catalog import PROVIDERS, provider_label
from fairlead.protocol import explain
from fairlead.protocol.opal.opal_methods import ConfigSet, SessionStart, SettingsSave
from fairlead.protocol.opal.opal_objects import (
    Auth,
    AuthProvider,
    FeatureChanges,
    HistoryMessage,
    HistoryToolCall,
    ListedModel,
    Method,
    ModelInUse,
    without_statuses,
)
from fairlead.session.history.conversation import Conversation
from fairlead.session.history.entries import CompactionEntry, Entry, entries_in_context
from fairlead.tools.opal.anchors import META, OUTPUT, text_of
from fairlead.wire.jsonrpc import BadParams, JsonRpcCodec
from fairlead.wire.routing import Request

if TYPE_CHECKING:
    from fairlead.models.registry import Registry


M = TypeVar("M", bound=Method)


class OpalCodec(JsonRpcCodec):
    """Implements `fairlead.wire.routing.Codec`."""

    def parameters(self, request: Request, declaration: type[Method]) -> Method:
        return decode(declaration, request.body)


def decode(declared: type[M], params: Any) -> M:
    """Decode a request from its params. Raises BadParams.

    Positional params count as none. If a required param is missing, the error names all required ones.
    """
    given = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
    wanted = [field.name for field in msgspec.structs.fields(declared) if field.required]
    if any(given.get(name) is None for name in wanted):
        raise BadParams(f"Missing required param{'s' if len(wanted) > 1 else ''}: {', '.join(wanted)}")
    if declared is SessionStart and not isinstance(params, dict):
        raise BadParams("params must be an object")
    check = _CHECKS.get(declared)
    if check is not None:
        check(given)
    try:
        return msgspec.convert(given, type=declared)
    except msgspec.ValidationError as error:
        raise BadParams(explain.explain(str(error), declared, whole="params")) from None


# Checks for params where clients expect certain words for what is wrong


def _check_start(params: dict[str, Any]) -> None:
    model = params.get("model")
    if model is not None:
        chosen: Any = cast("dict[str, Any]", model).get("id") if isinstance(model, dict) else None
        if not isinstance(chosen, str) or not chosen:
            raise BadParams("model must have a non-empty id string")
    _check_features(params)


def _check_features(params: dict[str, Any]) -> None:
    features = params.get("features")
    if features is None:
        return
    if not isinstance(features, dict):
        raise BadParams("features must be an object")
    given = cast("dict[str, Any]", features)
    if unknown := sorted(given.keys() - FeatureChanges.__struct_fields__):
        raise BadParams("Unknown feature keys", data=f"unknown features: {', '.join(unknown)}")
    for name, value in given.items():
        if not isinstance(value, bool | None):
            raise BadParams("Invalid feature value", data=f"{name} must be a boolean")


def _check_settings(params: dict[str, Any]) -> None:
    if not isinstance(params["settings"], dict):
        raise BadParams("Missing required param: settings")


_CHECKS: Mapping[type[Method], Callable[[dict[str, Any]], None]] = {
    SessionStart: _check_start,
    ConfigSet: _check_features,
    SettingsSave: _check_settings,
}


# Names of models and thinking levels

#: The thinking levels, by the names that clients use.
LEVELS: Mapping[str, ThinkingLevel] = {"off": "off", "low": "low", "medium": "medium", "high": "high", "max": "xhigh"}


def level_named(name: str, field: str) -> ThinkingLevel:
    """Return the level that a client names in `field`. Raises BadParams if there is no such level."""
    level = LEVELS.get(name)
    if level is None:
        allowed = ", ".join(f'"{each}"' for each in LEVELS)
        raise BadParams(f'{field}: expected one of {allowed}, got "{name}"')
    return level


def model_named(registry: Registry, name: str, provider: str | None = None) -> Model:
    """Find a model by its id, or by `provider/id`. If several have the id, take the first with credentials.

    `provider` is tried first, and ignored if it has no such model. Raises BadParams if there is no such model.
    """
    if provider is not None and (model := registry.find(provider, name)) is not None:
        return model
    wanted, models = _loose(name), registry.all()
    # Opal's documents write provider:id.
    names = {wanted, wanted.replace(":", "/", 1)}
    found = [model for model in models if _loose(f"{model.provider}/{model.id}") in names]
    found = found or [model for model in models if _loose(model.id) == wanted]
    if not found:
        raise BadParams(f'Unknown model: "{name}"', data="models/list lists all models.")
    usable = registry.available()
    return next((model for model in found if model in usable), found[0])


def _loose(name: str) -> str:
    """A name to compare with others: some write versions as 4.5 and some as 4-5."""
    return name.lower().replace(".", "-")


# Tools


def outcome(result: ToolResult, is_error: bool) -> dict[str, Any]:
    """A result in its form on the wire: `{ok: true, output, meta?}` or `{ok: false, error}`."""
    if is_error:
        return {"ok": False, "error": text_of(result)}
    output, more = result.detail(OUTPUT), result.detail(META)
    told: dict[str, Any] = {"ok": True, "output": text_of(result) if output is None else output}
    return told if more is None else {**told, "meta": more}


_COMMAND, _PROMPT, _QUESTION = 57, 54, 60


def meta(tool_name: str, arguments: Mapping[str, Any]) -> str:
    """Describe a call. The arguments are as the model wrote them and not validated."""
    describe = _DESCRIPTIONS.get(tool_name)
    return tool_name if describe is None else describe(arguments)


def _with(word: str, key: str, otherwise: str) -> Callable[[Mapping[str, Any]], str]:
    def describe(arguments: Mapping[str, Any]) -> str:
        value = _text(arguments, key)
        return f"{word} {value}" if value else otherwise

    return describe


def _shell(arguments: Mapping[str, Any]) -> str:
    action, process = _text(arguments, "action"), _text(arguments, "id")
    if action in _ON_PROCESSES and process:
        return f"{_ON_PROCESSES[action]} {process}"
    command = _text(arguments, "command")
    return f"Run `{_cut(command, _COMMAND)}`" if command else "Run command"


def _tasks(arguments: Mapping[str, Any]) -> str:
    action, ids, ops = _text(arguments, "action"), arguments.get("id"), arguments.get("ops")
    if action == "batch":
        return f"Batch {len(ops)} ops" if isinstance(ops, list) else "Tasks"  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(ids, list) and action in ("update", "delete"):
        return f"{'Update' if action == 'update' else 'Delete'} {len(ids)} tasks"  # pyright: ignore[reportUnknownArgumentType]
    return _ON_TASKS.get(action, "Tasks")


def _sub_agent(arguments: Mapping[str, Any]) -> str:
    prompt = _text(arguments, "prompt")
    return f"Sub-agent: {_cut(prompt, _PROMPT)}" if prompt else "Sub-agent"


def _ask_user(arguments: Mapping[str, Any]) -> str:
    return _cut(_text(arguments, "question"), _QUESTION) or "Ask user"


def _debug_state(_: Mapping[str, Any]) -> str:
    return "Inspect runtime state"


def _text(arguments: Mapping[str, Any], key: str) -> str:
    value = arguments.get(key)
    return value if isinstance(value, str) else ""


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}..."


_ON_PROCESSES = {"wait": "Wait for", "input": "Input to", "kill": "Kill"}
_ON_TASKS = {"insert": "Add task", "list": "Query tasks", "update": "Update task", "delete": "Remove task"}
_DESCRIPTIONS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "read_file": _with("Read", "path", "Read file"),
    "write_file": _with("Write", "path", "Write file"),
    "edit_file": _with("Edit", "path", "Edit file"),
    "grep": _with("Grep", "pattern", "Grep"),
    "shell": _shell,
    "sub_agent": _sub_agent,
    "tasks": _tasks,
    "use_skill": _with("Loading skill:", "skill_name", "Loading skill"),
    "ask_user": _ask_user,
    "debug_state": _debug_state,
}


# The conversation

SUMMARY = "[Conversation summary — older messages were compacted]\n\n"


def history(conversation: Conversation) -> list[HistoryMessage]:
    """The messages from the first to the current one, as the model sees them. Their ids are those of the entries."""
    if not conversation.has_begun:
        return []
    log = conversation.log
    return [
        _encode_message(entry, message) for entry, edit in entries_in_context(log.path()) for message in log.read(entry, edit)
    ]


def _encode_message(entry: Entry, message: Message) -> HistoryMessage:
    match message:
        case UserMessage(content=content):
            return HistoryMessage(id=entry.id, role="user", content=_plain_text(content), is_error=False)
        case AssistantMessage():
            return _assistant_message(entry.id, message)
        case ToolResultMessage():
            return HistoryMessage(
                id=entry.id,
                role="tool_result",
                content=_plain_text(message.content),
                is_error=message.is_error,
                call_id=message.tool_call_id,
                name=message.tool_name,
            )
        case CompactionSummaryMessage(summary=summary):
            return _remark(entry, "compaction_summary", SUMMARY + summary, **_file_lists(entry))
        case BranchSummaryMessage(summary=summary):
            return _remark(entry, "branch_summary", summary)
        case BashExecutionMessage():
            return _remark(entry, "command", f"$ {message.command}\n{message.output}")
        case CustomMessage():
            return _remark(entry, message.custom_type, _plain_text(message.content))


def _assistant_message(id: str, message: AssistantMessage) -> HistoryMessage:
    thinking = "".join(block.thinking for block in message.content if isinstance(block, ThinkingContent))
    calls = [HistoryToolCall(call.id, call.name, call.arguments) for call in message.tool_calls()]
    return HistoryMessage(
        id=id,
        role="assistant",
        content=without_statuses(message.text()),
        is_error=message.stop_reason == "error",
        thinking=thinking or UNSET,
        tool_calls=calls or UNSET,
    )


def _remark(entry: Entry, type: str, text: str, **rest: Any) -> HistoryMessage:
    """A message for the model that neither the user nor the model wrote."""
    return HistoryMessage(id=entry.id, role="user", content=text, is_error=False, metadata={"type": type, **rest})


def _file_lists(entry: Entry) -> dict[str, Any]:
    """The files of the summarised part."""
    try:
        lists = msgspec.convert(entry.details if isinstance(entry, CompactionEntry) else {}, FileLists)
    except msgspec.ValidationError:
        lists = FileLists()
    return {"read_files": lists.read_files, "modified_files": lists.modified_files}


def _plain_text(content: str | list[UserBlock]) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.text if isinstance(block, TextContent) else f"[image {block.mime_type}]" for block in content)


# Models and credentials

_NAMES: Mapping[ThinkingLevel, str] = {**{level: name for name, level in LEVELS.items()}, "minimal": "low", "max": "max"}


def in_use(model: Model | None, level: ThinkingLevel) -> ModelInUse:
    if model is None:
        return ModelInUse("", "", _NAMES[level])
    return ModelInUse(model.provider, model.id, _NAMES[level])


def encode_model(model: Model) -> ListedModel:
    levels = dict.fromkeys(_NAMES[level] for level in model.levels() if level != "off")
    return ListedModel(model.id, model.name, model.provider, model.reasoning, list(levels))


def credentials(registry: Registry, model: Model | None, *, in_full: bool = False) -> Auth:
    """Whether a prompt to `model` would find credentials, and its provider.

    It looks everywhere credentials can be, but runs no command. If set-up is required, or with `in_full`, the result lists
    every provider.
    """
    is_ready = model is not None and registry.can_use(model)
    auth = Auth("ready" if is_ready else "setup_required", model.provider if model is not None else "")
    if in_full or not is_ready:
        logins, usable = registry.logins(), {each.provider for each in registry.available()}
        auth.providers = [_encode_provider(name, name in usable, name in logins) for name, _ in registry.providers()]
    return auth


def _encode_provider(name: str, ready: bool, has_login: bool) -> AuthProvider:
    known = PROVIDERS.get(name)
    variable = known.key_variables[0] if known is not None and known.key_variables else UNSET
    return AuthProvider(name, provider_label(name), "device_code" if has_login else "api_key", ready, variable)
