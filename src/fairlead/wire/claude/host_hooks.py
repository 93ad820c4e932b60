"""Hooks that live in the host: the host is asked with `hook_callback`, and its answers decide."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct, to_builtins

from fairlead.core.approval import Deny
from fairlead.core.messages import TextContent
from fairlead.core.runtime import CancelToken
from fairlead.extend.extensions.events import Amend, Block, ToolCallEvent, ToolResultEvent
from fairlead.protocol.claude import host as h
from fairlead.session.history.claude_files import new_uuid
from fairlead.wire.claude.claude_codec import encode
from fairlead.wire.claude.consent import Consent
from fairlead.wire.pending import Expired, HostQuestion, Questions, Unanswered

#: Seconds that a callback has, unless the host says otherwise.
TIMEOUT = 60.0
#: A matcher of this form is a list of names.
_NAMES = re.compile(r"[\w\-|, ]+")
_STRICTNESS = {"allow": 1, "defer": 2, "ask": 2, "deny": 3}


class _Callback(Struct, frozen=True):
    id: str
    matcher: str | None
    timeout: float
    #: Whether a failure of the callback refuses what it was asked about.
    blocks_on_failure: bool

    def matches(self, name: str) -> bool:
        """Whether the hook is about a tool, or about another kind of thing."""
        matcher = self.matcher
        if matcher in (None, "", "*"):
            return True
        assert matcher is not None
        if _NAMES.fullmatch(matcher):
            names = {part.strip() for part in re.split(r"[|,]", matcher)}
            return name in names or (name == "Agent" and "Task" in names)
        try:
            return re.search(matcher, name) is not None
        except re.error:
            return False


class Verdict(Struct):
    """What the callbacks of an event want."""

    outputs: list[dict[str, Any]] = []
    #: Why a callback that must not fail has failed.
    failure: str | None = None

    @property
    def specific(self) -> list[dict[str, Any]]:
        found = [output.get("hookSpecificOutput") for output in self.outputs]
        return [cast("dict[str, Any]", each) for each in found if isinstance(each, dict)]

    @property
    def contexts(self) -> list[str]:
        return [text for each in self.specific if isinstance(text := each.get("additionalContext"), str) and text]

    @property
    def stop(self) -> str | None:
        """Why the run has to end; None if it may continue."""
        for output in self.outputs:
            if output.get("continue") is False:
                return str(output.get("stopReason") or "A hook stopped the run.")
        return None

    @property
    def block(self) -> str | None:
        """Why a callback blocks; None if it does not."""
        for output in self.outputs:
            if output.get("decision") == "block":
                return str(output.get("reason") or "A hook blocked it.")
        return self.failure


class HostHooks:
    """Asks the callbacks of the host. `common` returns the input that all events have, and `warn` reports a failed callback."""

    def __init__(
        self, questions: Questions, consent: Consent, common: Callable[[], dict[str, Any]], warn: Callable[[str], None]
    ) -> None:
        self._questions = questions
        self._consent = consent
        self._common = common
        self._warn = warn
        self._callbacks: dict[str, list[_Callback]] = {}
        #: What hooks want to add to the results of calls that run.
        self._contexts: dict[str, list[str]] = {}
        #: Called when a hook wants the run to end.
        self.on_stop: Callable[[str], None] = lambda reason: None

    def use(self, hooks: Mapping[str, Sequence[Mapping[str, Any]]] | None) -> None:
        """Use the hooks that `initialize` names."""
        for event, groups in (hooks or {}).items():
            self._callbacks[event] = [
                _Callback(
                    str(ident), group.get("matcher"), float(group.get("timeout") or TIMEOUT), group.get("onFailure") == "block"
                )
                for group in groups
                for ident in group.get("hookCallbackIds", ())
            ]

    def has(self, event: str) -> bool:
        return bool(self._callbacks.get(event))

    @property
    def watches_tools(self) -> bool:
        return any(map(self.has, ("PreToolUse", "PostToolUse", "PostToolUseFailure")))

    async def ask(self, event: str, about: str = "", call_id: str | None = None, **fields: Any) -> Verdict:
        """Ask all callbacks of an event side by side."""
        callbacks = [each for each in self._callbacks.get(event, ()) if each.matches(about)]
        given = {**self._common(), "hook_event_name": event, **fields}
        answers = await asyncio.gather(*(self._call(each, given, call_id or new_uuid(), event) for each in callbacks))
        verdict = Verdict([answer for answer in answers if isinstance(answer, dict)])
        verdict.failure = next((answer for answer in answers if isinstance(answer, str)), None)
        if (reason := verdict.stop) is not None:
            self.on_stop(reason)
        return verdict

    async def _call(self, callback: _Callback, given: Mapping[str, Any], call_id: str, event: str) -> dict[str, Any] | str:
        """Return the answer of a callback; a text if its failure refuses what it was asked about."""
        asked = {"subtype": "hook_callback", "callback_id": callback.id, "input": given, "tool_use_id": call_id}
        question = HostQuestion(
            ask=lambda ident: encode(h.ControlRequest(request_id=ident, request=to_builtins(asked))),
            withdraw=lambda _, ident: encode(h.ControlCancelRequest(request_id=ident)),
            timeout=callback.timeout,
            shows_timeout=False,
        )
        try:
            body = (await self._questions.ask(question, CancelToken())).body
        except Expired:
            return f"the hook did not answer within {callback.timeout:g} seconds"
        except Unanswered:
            return "the host has left, so its hook cannot be asked"
        match body:
            case {"subtype": "success", "response": {**response}}:
                return response
            case {"error": error}:
                problem = str(error)
            case _:
                problem = "its answer is not an object"
        self._warn(f"A hook of the host for {event} failed: {problem}")
        return f"the hook failed: {problem}" if callback.blocks_on_failure else {}

    # Tools

    async def before_tool(self, event: ToolCallEvent) -> Block | None:
        """Ask about a call that is about to run. See `fairlead.agent.options.Hooks`."""
        if not self.has("PreToolUse"):
            return None
        verdict = await self.ask(
            "PreToolUse",
            event.tool_name,
            event.call_id,
            tool_name=event.tool_name,
            tool_input=event.arguments,
            tool_use_id=event.call_id,
        )
        decisions = [each for each in verdict.specific if each.get("permissionDecision") in _STRICTNESS]
        decision: dict[str, Any] = max(
            decisions, key=lambda each: _STRICTNESS[each["permissionDecision"]], default=cast("dict[str, Any]", {})
        )
        name = decision.get("permissionDecision")
        reason = verdict.failure or verdict.block or verdict.stop
        if reason is not None or name in ("deny", "defer"):
            reason = reason or str(decision.get("permissionDecisionReason") or f"a hook decided: {name}")
            return Block(f"PreToolUse:{event.tool_name} hook error: {reason}", ends_run=verdict.stop is not None)
        changed = next((each["updatedInput"] for each in verdict.specific if isinstance(each.get("updatedInput"), dict)), None)
        if changed is not None:
            event.arguments = dict(changed)
        if name == "allow":
            self._consent.allowed.add(event.call_id)
        elif name == "ask":
            reason = str(decision.get("permissionDecisionReason") or "")
            answer = await self._consent.ask_because(reason, event.tool_name, event.call_id, event.arguments)
            if isinstance(answer, Deny):
                return Block(answer.reason or "The user refused the call.")
            event.arguments = answer.arguments or event.arguments
            self._consent.approved.add(event.call_id)
        if verdict.contexts:
            self._contexts[event.call_id] = verdict.contexts
        return None

    async def after_tool(self, event: ToolResultEvent) -> Amend | None:
        """Report the result of a call."""
        name = "PostToolUseFailure" if event.is_error else "PostToolUse"
        contexts = self._contexts.pop(event.call_id, [])
        content = list(event.content)
        if self.has(name):
            text = "\n".join(block.text for block in content if isinstance(block, TextContent))
            told = {"error": text, "is_interrupt": False} if event.is_error else {"tool_response": event.details or text}
            verdict = await self.ask(
                name,
                event.tool_name,
                event.call_id,
                tool_name=event.tool_name,
                tool_input=event.arguments,
                tool_use_id=event.call_id,
                **told,
            )
            contexts = [*contexts, *verdict.contexts, *([verdict.block] if verdict.block else [])]
            replaced = [each["updatedToolOutput"] for each in verdict.specific if "updatedToolOutput" in each]
            if replaced:
                output: Any = replaced[-1]
                shown = output.get("stdout") if isinstance(output, dict) else output  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
                content = [TextContent(shown if isinstance(shown, str) else str(output))]  # pyright: ignore[reportUnknownArgumentType]
                return Amend([*content, *map(TextContent, contexts)], output)
        return Amend([*content, *map(TextContent, contexts)]) if contexts else None
