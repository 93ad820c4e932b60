"""What handlers of pi return, as our types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from fairlead.core.messages import ImageContent, Message, ModelMessage, Usage, UserBlock
from fairlead.extend.extensions import extension_events as e
from fairlead.extend.extensions.values import UnusableAnswer, convert
from fairlead.extend.node.bridge import RemoteError


def decode(name: str, event: Any, reply: Mapping[str, Any]) -> Any:
    """Return what a handler returned, and apply what it changed in the event."""
    result, changed = reply.get("result"), reply.get("changed")
    if name == "tool_call" and isinstance(changed, dict):
        event.arguments = changed
    elif name == "before_provider_headers" and isinstance(changed, dict):
        headers = cast("dict[str, Any]", changed)
        event.headers.clear()
        event.headers.update({key: str(value) for key, value in headers.items() if value is not None})
    elif name == "before_provider_request" and result is not None:
        event.payload = result
    decoder = _DECODERS.get(name)
    if decoder is None or not isinstance(result, dict):
        return None
    decoded = decoder(cast("dict[str, Any]", result))
    if isinstance(decoded, e.Replace) and decoded.messages is not None:
        return e.Replace(_with_same_objects(event.messages, decoded.messages), decoded.system_prompt)
    return decoded


def unusable_result(name: str, error: Exception) -> UnusableAnswer:
    """Return the error for a result of a handler that is not what pi documents, or that JavaScript cannot read."""
    says_why = isinstance(error, RemoteError) or (isinstance(error, TypeError) and "Expected" in str(error))
    detail = f" {str(error).removeprefix('result: ')}" if says_why else ""
    return UnusableAnswer(f"The result of a handler of {name} cannot be used.{detail}")


def _with_same_objects(given: list[ModelMessage], returned: list[ModelMessage]) -> list[ModelMessage]:
    """Return the messages of a handler, with the given objects for those that it kept: these are recognised as unchanged."""
    kept: list[ModelMessage] = []
    place = 0
    for message in returned:
        same = next((at for at in range(place, len(given)) if given[at] == message), None)
        kept.append(message if same is None else given[same])
        place = place if same is None else same + 1
    return kept


def _decode_input(result: dict[str, Any]) -> Any:
    if result.get("action") == "handled":
        return e.Handled()
    if result.get("action") == "transform":
        return e.Transform(result.get("text", ""), convert(list[ImageContent] | None, result.get("images"), "result"))
    return None


def custom_note(message: Mapping[str, Any]) -> e.Note:
    """Return a custom message of pi as ours."""
    content = convert(str | list[UserBlock], message.get("content", ""), "result")
    return e.Note(str(message.get("customType", "")), content, message.get("display", True) is not False, message.get("details"))


def _decode_opening(result: dict[str, Any]) -> Any:
    message, prompt = result.get("message"), result.get("systemPrompt")
    if not message and prompt is None:
        return None
    return e.Open([custom_note(message)] if message else [], prompt)


def _decode_context(result: dict[str, Any]) -> Any:
    messages = result.get("messages")
    return None if messages is None else e.Replace(_model_messages(messages))


def _decode_context_with_system(result: dict[str, Any]) -> Any:
    messages = result.get("messages")
    if messages is None:
        return None
    system = [message for message in messages if message.get("role") == "system"]
    rest = [message for message in messages if message.get("role") != "system"]
    prompt = "\n\n".join(_text(message.get("content")) for message in system)
    return e.Replace(_model_messages(rest), prompt)


def _model_messages(messages: list[dict[str, Any]]) -> list[ModelMessage]:
    shown = [{**message, "role": "user"} if message.get("role") == "custom" else message for message in messages]
    return convert(list[ModelMessage], shown, "result")


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content or ())


def _decode_tool_result(result: dict[str, Any]) -> Any:
    content = convert(list[UserBlock], result["content"], "result") if result.get("content") is not None else None
    details = result.get("details", msgspec.UNSET)
    usage = convert(Usage | None, result.get("usage"), "usage")
    return e.Amend(content, details, result.get("isError"), result.get("structuredContent", msgspec.UNSET), usage)


def _decode_message(result: dict[str, Any]) -> Any:
    message: dict[str, Any] | None = result.get("message")
    if not message:
        return None
    if message.get("content") is None:
        message["content"] = []
    return e.Revise(convert(Message, message, "message"))


def _decode_compaction(result: dict[str, Any]) -> Any:
    if result.get("cancel"):
        return e.Cancel()
    written = result.get("compaction")
    if not written:
        return None
    usage = convert(Usage | None, written.get("usage"), "usage")
    return e.Summary(written.get("summary", ""), written.get("details"), written.get("firstKeptEntryId"), usage)


def _decode_tree(result: dict[str, Any]) -> Any:
    if result.get("cancel"):
        return e.Cancel()
    written, summary = result.get("summary"), None
    if written:
        usage = convert(Usage | None, written.get("usage"), "usage")
        summary = e.Summary(written.get("summary", ""), written.get("details"), usage=usage)
    replaces = result.get("replaceInstructions", msgspec.UNSET)
    return e.Guide(
        instructions=_text_or_unset(result, "customInstructions"),
        replace_instructions=replaces if replaces is msgspec.UNSET else bool(replaces),
        label=_text_or_unset(result, "label"),
        summary=summary,
    )


def _text_or_unset(result: dict[str, Any], name: str) -> str | msgspec.UnsetType | None:
    return convert(str | None, result[name], name) if name in result else msgspec.UNSET


def _decode_bash(result: dict[str, Any]) -> Any:
    ran = result.get("result")
    if not isinstance(ran, dict):
        return None
    outcome = cast("dict[str, Any]", ran)
    return e.Ran(
        outcome.get("output", ""),
        outcome.get("exitCode"),
        bool(outcome.get("cancelled")),
        bool(outcome.get("truncated")),
        outcome.get("fullOutputPath"),
    )


def _decode_trust(result: dict[str, Any]) -> Any:
    if result.get("trusted") not in ("yes", "no"):
        return None
    return e.Trust(result["trusted"] == "yes", bool(result.get("remember")))


def _decode_cancel(result: dict[str, Any]) -> Any:
    return e.Cancel() if result.get("cancel") else None


def _decode_block(result: dict[str, Any]) -> Any:
    if not result.get("block"):
        return None
    reason, ends_run = result.get("reason"), result.get("terminate") is True
    return e.Block(str(reason), ends_run) if reason else e.Block(ends_run=ends_run)


_DECODERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "project_trust": _decode_trust,
    "resources_discover": lambda result: e.Resources(result.get("skillPaths") or (), result.get("promptPaths") or ()),
    "session_before_switch": _decode_cancel,
    "session_before_fork": _decode_cancel,
    "session_before_compact": _decode_compaction,
    "session_before_tree": _decode_tree,
    "input": _decode_input,
    "before_agent_start": _decode_opening,
    "context": _decode_context,
    "context_with_system": _decode_context_with_system,
    "tool_call": _decode_block,
    "tool_result": _decode_tool_result,
    "message_end": _decode_message,
    "user_bash": _decode_bash,
    "cache_warming_decision": lambda result: None if result.get("action") is None else e.Warming(result["action"]),
}
