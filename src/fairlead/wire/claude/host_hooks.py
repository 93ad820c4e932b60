"""Hooks of the host and of its settings: the host is asked with `hook_callback`, commands are run, and the answers decide.

A hook of an event gets the same input, wherever it lives. All hooks of an event are asked side by side. What guards calls
(`PreToolUse`) refuses when it fails; other hooks that fail count as silent, unless the host wants otherwise.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct, to_builtins

from fairlead.core import events
from fairlead.core.approval import Deny
from fairlead.core.messages import TextContent, UserBlock
from fairlead.core.runtime import CancelToken
from fairlead.core.snapshots import SubagentActivity
from fairlead.extend.extensions.extension_events import (
    Amend,
    Block,
    Cancel,
    SessionBeforeCompact,
    SessionCompact,
    ToolCallEvent,
    ToolResultEvent,
)
from fairlead.protocol.claude import host as h
from fairlead.session.history.claude_files import new_uuid
from fairlead.session.rules.rule_patterns import Passage, PatternError, PatternTimeout, RulePattern, compile_pattern
from fairlead.session.session import Session
from fairlead.wire.claude.claude_codec import encode
from fairlead.wire.claude.command_hooks import TIMEOUT, CommandHooks, Failure, Hook
from fairlead.wire.claude.consent import Consent
from fairlead.wire.pending import Expired, HostLeft, HostQuestion, Questions, Unanswered

#: A matcher of this form is a list of names.
_NAMES = re.compile(r"[\w\-|, ]+")
_STRICTNESS = {"allow": 1, "ask": 2, "defer": 3, "deny": 4}
#: What the hooks of an event are about is not compared with their matchers.
_WITHOUT_MATCHERS = ("UserPromptSubmit", "Stop", "PostToolBatch")


def matches(hook: Hook, name: str) -> bool:
    """Whether a hook is about a tool, or about another kind of thing."""
    matcher = hook.matcher
    if matcher is None or matcher in ("", "*"):
        return True
    if _NAMES.fullmatch(matcher):
        names = {part.strip() for part in re.split(r"[|,]", matcher)}
        return name in names or (name == "Agent" and "Task" in names)
    pattern = _compile(matcher)
    try:
        return pattern is not None and pattern.rest_after_match(Passage(name)) is not None
    except PatternTimeout:
        return True  # it may be about this


@lru_cache(64)
def _compile(matcher: str) -> RulePattern | None:
    """Return a regular expression; None if it is broken."""
    try:
        return compile_pattern(matcher)
    except PatternError:
        return None


class Verdict(Struct):
    """What the hooks of an event want."""

    outputs: list[dict[str, Any]] = []
    #: Why a hook that must not fail has failed.
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
        """Why a hook blocks; None if it does not."""
        for output in self.outputs:
            if output.get("decision") == "block":
                return str(output.get("reason") or "A hook blocked it.")
        return self.failure

    def decide(self) -> tuple[str | None, str]:
        """Return the strictest decision about a call, and the reason for it."""
        found = [
            (str(each["permissionDecision"]), str(each.get("permissionDecisionReason") or ""))
            for each in self.specific
            if each.get("permissionDecision") in _STRICTNESS
        ]
        found += [("allow", str(output.get("reason") or "")) for output in self.outputs if output.get("decision") == "approve"]
        return max(found, key=lambda each: _STRICTNESS[each[0]], default=(None, ""))


class HostHooks:
    """Asks the hooks of the host and of its settings.

    Args:
        questions: Asks the host.
        consent: Decides about calls.
        common: Returns the input that all events have.
        inform: Shows a text to people, with its level.
        commands: Runs the commands of the settings.
    """

    def __init__(
        self,
        questions: Questions,
        consent: Consent,
        common: Callable[[], dict[str, Any]],
        inform: Callable[[str, str], None],
        commands: CommandHooks,
    ) -> None:
        self._questions = questions
        self._consent = consent
        self._common = common
        self._inform = inform
        self._commands = commands
        self._hooks: dict[str, list[Hook]] = {event: list(hooks) for event, hooks in commands.hooks.items()}
        #: What hooks want to add to the results of calls that run.
        self._contexts: dict[str, list[str]] = {}
        #: The sub-agents that make calls, as id and kind, and when calls began to run.
        self._agents: dict[str, tuple[str, str]] = {}
        self._kinds: dict[str, str] = {}
        self._began: dict[str, float] = {}
        #: The sub-agents that a hook has made to continue.
        self._continued: set[str] = set()
        #: The calls of hooks for which nothing waits.
        self._notices: set[asyncio.Future[Verdict]] = set()
        #: Called when a hook wants the run to end.
        self.on_stop: Callable[[str], None] = lambda reason: None
        #: Called with what hooks want to tell the model besides.
        self.on_context: Callable[[str], None] = lambda text: None
        #: Called when a hook puts a call off: the run ends, and the host makes the call.
        self.on_defer: Callable[[dict[str, Any]], None] = lambda call: None

    def use(self, hooks: Mapping[str, Sequence[h.HookMatcher] | None] | None) -> None:
        """Use the hooks that `initialize` names."""
        for event, groups in (hooks or {}).items():
            kept = [hook for hook in self._hooks.get(event, ()) if not hook.callback]
            self._hooks[event] = [
                *kept,
                *(
                    Hook(
                        matcher=group.matcher,
                        timeout=group.timeout if group.timeout is not None and group.timeout > 0 else TIMEOUT,
                        blocks_on_failure=group.on_failure == "block",
                        callback=ident,
                    )
                    for group in groups or ()
                    for ident in group.hook_callback_ids
                ),
            ]

    def has(self, event: str) -> bool:
        return bool(self._hooks.get(event))

    @property
    def is_planning(self) -> bool:
        """Whether the model may only plan."""
        return self._consent.mode == "plan"

    def connect(self, session: Session) -> None:
        """Have hooks decide about calls beside the host, and follow sub-agents, if there are any for that."""
        if self.has("PermissionRequest"):
            self._consent.decide = self._decide
        if self.has("Notification"):
            self._consent.on_waiting = self._notify
        if (self.has("SubagentStart") or self.has("SubagentStop")) and session.subagents is not None:
            session.subagents.family.hook = self._around_subagent

    def handlers(self) -> dict[str, Callable[[Any], Awaitable[Any]]]:
        """Return the handlers of what a session says to extensions, as far as there are hooks for it."""
        wanted: list[tuple[Callable[[Any], Awaitable[Any]], str, Sequence[str]]] = [
            (self._before_tool, "tool_call", ("PreToolUse",)),
            (self._after_tool, "tool_result", ("PreToolUse", "PostToolUse", "PostToolUseFailure")),
            (self._before_compaction, "session_before_compact", ("PreCompact",)),
            (self._after_compaction, "session_compact", ("PostCompact", "SessionStart")),
            (self._after_batch, "turn_end", ("PostToolBatch",)),
        ]
        return {event: handler for handler, event, names in wanted if any(map(self.has, names))}

    def on_event(self, event: events.Event) -> None:
        """Note which sub-agent makes a call, and when a call begins to run."""
        match event:
            case events.SubagentLifecycle(payload=payload):
                self._kinds[payload.id] = payload.agent
            case events.SubagentEvent(id=ident, event=inner):
                if isinstance(inner, events.ToolStart):
                    self._agents[inner.call_id] = ident, self._kinds.get(ident, "")
                self.on_event(inner)
            case events.ToolRunning(call_id=call_id):
                self._began[call_id] = time.monotonic()
            case _:
                pass

    # Asking

    async def ask(
        self,
        event: str,
        about: str = "",
        call_id: str | None = None,
        cancel: CancelToken | None = None,
        *,
        only_commands: bool = False,
        **fields: Any,
    ) -> Verdict:
        """Ask all hooks of an event side by side. `cancel` ends the wait: hooks that have not answered count as silent."""
        hooks = [each for each in self._hooks.get(event, ()) if event in _WITHOUT_MATCHERS or matches(each, about)]
        hooks = [each for each in hooks if each.command or not only_commands]
        verdict = Verdict()
        if not hooks:
            return verdict
        agent = self._agents.get(call_id or "")
        named: dict[str, Any] = {} if agent is None else {"agent_id": agent[0], "agent_type": agent[1]}
        given = {**self._common(), **named, "hook_event_name": event, **fields}
        ident, stop = call_id or new_uuid(), cancel or CancelToken()
        answers = await asyncio.gather(*(self._ask_one(each, given, ident, event, about, stop) for each in hooks))
        verdict.outputs = [answer for answer in answers if isinstance(answer, dict)]
        verdict.failure = next((answer for answer in answers if isinstance(answer, str)), None)
        for output in verdict.outputs:
            if isinstance(said := output.get("systemMessage"), str) and said:
                self._inform(f"{_name(event, about)} says: {said}", "notice")
        if (reason := verdict.stop) is not None and event not in ("Stop", "UserPromptSubmit"):
            self.on_stop(reason)
        return verdict

    async def _ask_one(
        self, hook: Hook, given: Mapping[str, Any], ident: str, event: str, about: str, cancel: CancelToken
    ) -> dict[str, Any] | str:
        """Return the answer of a hook; a text if its failure refuses what it was asked about."""
        if hook.command:
            answer = await self._commands.run(hook, given, event, _name(event, about), cancel)
        else:
            answer = await self._call(hook, given, ident, cancel)
        if isinstance(answer, Failure):
            if not answer.is_quiet:
                self._inform(f"A hook for {event} failed: {answer.text}", "warning")
            refuses = hook.blocks_on_failure or (event == "PreToolUse" and answer.is_grave)
            return f"the hook failed: {answer.text}" if refuses and not cancel.fired else {}
        return {} if answer.get("async") is True else answer

    async def _call(self, hook: Hook, given: Mapping[str, Any], ident: str, cancel: CancelToken) -> dict[str, Any] | Failure:
        asked = {"subtype": "hook_callback", "callback_id": hook.callback, "input": given, "tool_use_id": ident}
        question = HostQuestion(
            ask=lambda number: encode(h.ControlRequest(request_id=number, request=to_builtins(asked))),
            withdraw=lambda _, number: encode(h.ControlCancelRequest(request_id=number)),
            timeout=hook.timeout,
            shows_timeout=False,
        )
        try:
            body = (await self._questions.ask(question, cancel)).body
        except Expired:
            return Failure(f"it did not answer within {hook.timeout:g} seconds", is_grave=True)
        except HostLeft:
            return Failure("the host has left, so it cannot be asked", is_grave=True, is_quiet=True)
        except Unanswered:
            return Failure("it was withdrawn", is_quiet=True)
        match body:
            case {"subtype": "success", "response": {**response}}:
                return response
            case {"error": error}:
                return Failure(str(error))
            case _:
                return Failure("its answer is not an object")

    # Tools

    async def _before_tool(self, event: ToolCallEvent) -> Block | None:
        """Ask about a call that is about to run."""
        # A model may use an id twice. What was decided about the other call does not count.
        self._consent.forget(event.call_id)
        verdict = await self.ask(
            "PreToolUse",
            event.tool_name,
            event.call_id,
            tool_name=event.tool_name,
            tool_input=event.arguments,
            tool_use_id=event.call_id,
        )
        name, why = verdict.decide()
        reason = verdict.block or verdict.stop
        if reason is not None or name in ("deny", "defer"):
            if reason is None and name == "defer":
                self.on_defer({"id": event.call_id, "name": event.tool_name, "input": event.arguments})
            text = f"PreToolUse:{event.tool_name} hook error: {reason or why or f'a hook decided: {name}'}"
            return Block(text, ends_run=verdict.stop is not None)
        changed = next((each["updatedInput"] for each in verdict.specific if isinstance(each.get("updatedInput"), dict)), None)
        if changed is not None:
            event.arguments = dict(changed)
        if name == "allow":
            self._consent.allowed.add(event.call_id)
        elif name == "ask":
            agent = self._agents.get(event.call_id, (None, ""))[0]
            answer = await self._consent.ask_because(why, event.tool_name, event.call_id, event.arguments, agent)
            if isinstance(answer, Deny):
                return Block(answer.reason or "The user refused the call.")
            event.arguments = answer.arguments or event.arguments
            self._consent.approved.add(event.call_id)
        if verdict.contexts:
            self._contexts[event.call_id] = verdict.contexts
        return None

    async def _after_tool(self, event: ToolResultEvent) -> Amend | None:
        """Report the result of a call."""
        name = "PostToolUseFailure" if event.is_error else "PostToolUse"
        contexts, content = self._contexts.pop(event.call_id, []), list(event.content)
        output: Any = UNSET
        if self.has(name):
            text = text_of(content)
            told: dict[str, Any] = (
                {"error": text, "is_interrupt": False} if event.is_error else {"tool_response": event.details or text}
            )
            if (began := self._began.pop(event.call_id, None)) is not None:
                told["duration_ms"] = round((time.monotonic() - began) * 1000)
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
            if replaced and not event.is_error:
                if _fits(replaced[-1], event.details):
                    output, content = replaced[-1], [TextContent(_format_output(replaced[-1]))]
                else:
                    self._inform(f"The output of a hook for {event.tool_name} has another shape, so it is not used.", "warning")
        if output is UNSET and not contexts:
            return None
        return Amend([*content, *map(TextContent, contexts)], output)

    async def _after_batch(self, event: events.TurnEnd) -> None:
        """Report the calls of one answer of the model."""
        arguments = {call.id: call.arguments for call in event.message.tool_calls()}
        calls = [
            {
                "tool_name": each.tool_name,
                "tool_input": arguments.get(each.tool_call_id, {}),
                "tool_use_id": each.tool_call_id,
                "tool_response": each.details or text_of(each.content),
            }
            for each in event.tool_results
        ]
        if calls and (contexts := (await self.ask("PostToolBatch", tool_calls=calls)).contexts):
            self.on_context("\n\n".join(contexts))

    # Consent

    async def _decide(self, asked: h.CanUseTool) -> h.PermissionResult | None:
        """Return what the hooks for PermissionRequest decide; None if they decide nothing."""
        suggestions = {} if asked.permission_suggestions is UNSET else {"permission_suggestions": asked.permission_suggestions}
        verdict = await self.ask(
            "PermissionRequest",
            asked.tool_name,
            asked.tool_use_id,
            tool_name=asked.tool_name,
            tool_input=asked.input,
            **to_builtins(suggestions),
        )
        if (reason := verdict.block or verdict.stop) is not None:
            return h.PermissionResult(behavior="deny", message=reason)
        found: list[h.PermissionResult] = []
        for each in verdict.specific:
            if "decision" in each:
                try:
                    found.append(msgspec.convert(each["decision"], h.PermissionResult))
                except msgspec.ValidationError as error:
                    self._inform(f"The decision of a hook for PermissionRequest cannot be read: {error}", "warning")
        return next((each for each in found if each.behavior == "deny"), next(iter(found), None))

    # The session

    def _notify(self, text: str) -> None:
        """Call the hooks for notifications. Nothing waits for them."""
        kind = "permission_prompt"
        task = asyncio.ensure_future(self.ask("Notification", kind, message=text, notification_type=kind))
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)

    async def _before_compaction(self, event: SessionBeforeCompact) -> Cancel | None:
        trigger = "manual" if event.reason == "manual" else "auto"
        verdict = await self.ask(
            "PreCompact", trigger, cancel=event.cancel, trigger=trigger, custom_instructions=event.instructions or ""
        )
        reason = verdict.block or verdict.stop
        return None if reason is None else Cancel(reason)

    async def _after_compaction(self, event: SessionCompact) -> None:
        trigger = "manual" if event.reason == "manual" else "auto"
        summary = str(event.entry.get("summary") or "")
        await self.ask("PostCompact", trigger, trigger=trigger, compact_summary=summary)
        await self.ask("SessionStart", "compact", source="compact")

    async def _around_subagent(self, activity: SubagentActivity, answer: str | None) -> str | None:
        """Ask the hooks at the start and at the end of a sub-agent. See `fairlead.session.subagents.subagents.Family.hook`."""
        named: dict[str, Any] = {"agent_id": activity.id, "agent_type": activity.agent}
        if answer is None:
            verdict = await self.ask("SubagentStart", activity.agent, **named)
            return "\n\n".join(verdict.contexts) or None
        is_active = activity.id in self._continued
        verdict = await self.ask(
            "SubagentStop",
            activity.agent,
            stop_hook_active=is_active,
            last_assistant_message=answer,
            agent_transcript_path="",
            background_tasks=[],
            session_crons=[],
            **named,
        )
        if (reason := verdict.block) is None or not self._questions.can_be_asked:
            return None
        self._continued.add(activity.id)
        return f"Stop hook feedback:\n{reason}"


def text_of(content: Sequence[UserBlock]) -> str:
    return "\n".join(block.text for block in content if isinstance(block, TextContent))


def _name(event: str, about: str) -> str:
    return f"{event}:{about}" if about else event


def _fits(output: Any, details: Any) -> bool:
    """Whether the output of a hook can take the place of the result of a tool."""
    if isinstance(details, dict):
        known = cast("dict[str, Any]", details)
        return isinstance(output, dict) and any(key in known for key in cast("dict[str, Any]", output))
    return isinstance(output, str | list) or details is None


def _format_output(output: Any) -> str:
    """Return what the model sees of the output of a hook."""
    match output:
        case str():
            return output
        case {"stdout": str(out)}:
            return out
        case {"file": {"content": str(text)}} | {"content": str(text)}:
            return text
        case _:
            return msgspec.json.encode(output).decode()
