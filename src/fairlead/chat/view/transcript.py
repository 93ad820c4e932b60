"""The conversation as parts, which `OpenParts` turns into lines.

Events go in with `handle`, past messages with `message`, remarks of the program with `note`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fairlead import ApprovalRequest, events
from fairlead.chat.view.panels import Proposal, ToolPanel
from fairlead.chat.view.parts import Answer, Fixed, OpenParts, Thinking, make_explanations, prompt, remark, text_of
from fairlead.chat.view.text import clip, plain
from fairlead.chat.view.theme import Theme
from fairlead.chat.view.tool_titles import call_title, format_elapsed
from fairlead.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserBlock,
    UserMessage,
    as_typed,
)


class Transcript(OpenParts):
    """What people see of one conversation.

    Args:
        theme: The colours.
        explain: Returns an error as the user should read it, from the name of its provider ("" if unknown) and its text.
        now: The clock.
    """

    def __init__(
        self,
        theme: Theme,
        explain: Callable[[str, str], str] = lambda provider, error: error,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(now)
        self._theme = theme
        self._explain = explain
        #: The parts of the message that is arriving, by their index, and all calls without a result, by their id.
        self._blocks: dict[int, Answer | Thinking | ToolPanel] = {}
        self._calls: dict[str, ToolPanel] = {}
        #: The calls of sub-agents that the user was asked about: the agent and the proposal, by the id of the call.
        self._asked_elsewhere: dict[str, tuple[str, Proposal]] = {}
        #: An error that may lead to another attempt: it is shown only if none follows.
        self._error: str | None = None
        #: The error that was shown last.
        self._last_error: str | None = None
        #: Whether the last answer was interrupted. The end of its retries says nothing new.
        self._is_interrupted = False
        #: Whether a remark has named the rule that cuts the present answer off.
        self._has_named_rule = False
        #: The warnings that were shown: an extension that cannot be loaded leads to a warning and to an event.
        self._warnings: set[str] = set()
        #: Whether past answers were shown. Their calls that have no result by the next frame will never have one.
        self._has_past = False
        self._folds_thinking = True

    # What the user can change

    def toggle_thinking(self) -> bool:
        """Show the thinking that follows, or fold it. Returns whether it is folded now."""
        self._folds_thinking = not self._folds_thinking
        self._touched = True
        return self._folds_thinking

    def toggle_details(self) -> bool:
        """Show the tool output that follows at length, or short. Returns whether it is long now."""
        self._is_long = not self._is_long
        self._touched = True
        return self._is_long

    def finish(self, columns: int) -> None:
        if self._has_past:
            self._has_past = False
            self._drop_calls()
        super().finish(columns)

    # What happens

    def note(self, text: str, role: str = "dim") -> None:
        """Show a remark of the program."""
        if role == "warning":
            self._warnings.add(text)
        self._add(remark(self._theme, text, role))

    def drawn(self, lines: Sequence[str]) -> None:
        """Show lines as they are. They may have styles."""
        self._add(Fixed("note", lambda columns, is_long: [clip(line, columns) for line in lines]))

    def lists(self, lists: Mapping[str, Mapping[str, str]]) -> None:
        """Show lists of names and explanations, by their titles."""
        self._add(make_explanations(self._theme, lists))

    def has_warned(self, text: str) -> bool:
        """Whether this warning was shown."""
        return text in self._warnings

    def has_said(self, error: str) -> bool:
        """Whether the last error that was shown includes this one."""
        return self._last_error is not None and error in self._last_error

    def handle(self, event: events.Event) -> None:
        """Take in an event of the session. All events must come, in order."""
        match event:
            case events.TextDelta() | events.ThinkingDelta() | events.ToolArgumentsDelta():
                self._grow(event.event.index, event.event.delta)
            case events.BlockStarted():
                self._begin_block(event.event.index, event.event.block)
            case events.BlockEnded():
                self._end_block(event.event.index)
            case events.MessageStart(message=AssistantMessage()):
                self._blocks.clear()
            case events.MessageStart(message=ToolResultMessage()):
                pass  # ToolEnd has said it
            case events.MessageStart():
                self.message(event.message)
            case events.MessageEnd(message=AssistantMessage() as message):
                self._end_message(message)
            case _:
                if not self._handle_tool(event):
                    self._handle_run(event)

    def message(self, message: Message) -> None:
        """Show a complete message, such as one of a session that is resumed."""
        match message:
            case UserMessage() if message.attribution == "agent":
                self._add(prompt(self._theme, *_content(message.content), mark="↻", role="dim"))
            case UserMessage():
                text, images = _content(message.content)
                self._add(prompt(self._theme, as_typed(text), images))
            case AssistantMessage():
                self._whole_answer(message)
                self._show_error()
                self._has_past = True
            case ToolResultMessage():
                panel = self._panel(message.tool_call_id, message.tool_name)
                panel.end(message.content, message.details, failed=message.is_error, duration_ms=message.duration_ms)
                self._calls.pop(message.tool_call_id, None)
                self._touched = True
            case BashExecutionMessage():
                self._add(_command(self._theme, self._now, message))
            case CustomMessage() if message.display:
                text, images = _content(message.content)
                self._add(prompt(self._theme, text, images, mark="◆", role="text"))
            case CompactionSummaryMessage():
                self._summary(f"Compacted {message.tokens_before:,} tokens of earlier conversation", message.summary)
            case BranchSummaryMessage():
                self._summary("Summary of another branch", message.summary)
            case _:
                pass

    def _summary(self, title: str, summary: str) -> None:
        theme = self._theme

        def draw(columns: int, is_long: bool) -> list[str]:
            shown = f"{title}\n{summary}" if is_long else title
            return remark(theme, shown, "dim", "◇").final_lines(columns, is_long)

        self._add(Fixed("note", draw))

    def _whole_answer(self, message: AssistantMessage) -> None:
        for block in message.content:
            if isinstance(block, TextContent):
                self._add(text_of(self._theme, block.text))
            elif isinstance(block, ThinkingContent):
                if not self._folds_thinking:
                    thinking = Thinking(self._theme, self._now, lambda: False)
                    thinking.add(block.thinking)
                    thinking.end()
                    self._add(thinking)
            else:
                self._calls[block.id] = panel = ToolPanel(self._theme, block.name, self._now, block.arguments)
                self._add(panel)
        self._show_end(message)

    # The message that arrives

    def _begin_block(self, index: int, block: TextContent | ThinkingContent | ToolCall) -> None:
        if isinstance(block, TextContent):
            part = Answer(self._theme)
        elif isinstance(block, ThinkingContent):
            part = Thinking(self._theme, self._now, lambda: self._folds_thinking)
        else:
            part = self._calls[block.id] = ToolPanel(self._theme, block.name, self._now)
        self._blocks[index] = part
        self._add(part)

    def _grow(self, index: int, text: str) -> None:
        part = self._blocks.get(index)
        if isinstance(part, ToolPanel):
            part.add_json(text)
        elif part is not None:
            part.add(text)
        self._touched = True

    def _end_block(self, index: int) -> None:
        part = self._blocks.get(index)
        if part is not None and not isinstance(part, ToolPanel):
            part.end()
        self._touched = True

    def _end_message(self, message: AssistantMessage) -> None:
        for index in self._blocks:
            self._end_block(index)
        if not self._blocks:  # it came as a whole
            self._whole_answer(message)
            return
        for call in message.tool_calls():
            if call.id in self._calls and self._calls[call.id].arguments is None:
                self._calls[call.id].arguments = call.arguments
        self._blocks.clear()
        if message.stop_reason in ("error", "aborted"):
            self._drop_calls()
        self._show_end(message)

    def _show_end(self, message: AssistantMessage) -> None:
        self._is_interrupted = message.stop_reason == "aborted"
        has_named_rule, self._has_named_rule = self._has_named_rule, False
        if self._is_interrupted and has_named_rule:
            return
        if self._is_interrupted:
            self._add(remark(self._theme, "Interrupted", "warning", "■"))
        elif message.stop_reason == "error":
            self._error = self._explain(message.provider, message.error_message or "The model call failed.")
        elif message.stop_reason == "length":
            self._add(remark(self._theme, "The answer is cut off at the model's output limit.", "warning", "▲"))
        elif not message.text().strip() and not message.tool_calls():
            self._add(remark(self._theme, "The model answered without any text.", "warning", "▲"))

    def _show_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            self._last_error = error
            self._add(remark(self._theme, error, "error", "✗"))

    # Tools

    def _panel(self, call_id: str, name: str) -> ToolPanel:
        panel = self._calls.get(call_id)
        if panel is None:
            panel = self._calls[call_id] = ToolPanel(self._theme, name, self._now, {})
            self._add(panel)
        return panel

    def _handle_tool(self, event: events.Event) -> bool:
        match event:
            case events.ToolStart():
                self._panel(event.call_id, event.tool_name).arguments = event.arguments
            case events.ToolRunning():
                self._panel(event.call_id, event.tool_name).start(event.arguments)
            case events.ToolUpdate():
                self._panel(event.call_id, event.tool_name).update(event.partial.content, event.partial.details)
            case events.ToolEnd(result=result):
                panel = self._panel(event.call_id, event.tool_name)
                panel.end(
                    result.content,
                    result.details,
                    failed=event.is_error,
                    changes=result.changes,
                    duration_ms=event.duration_ms,
                )
                self._calls.pop(event.call_id, None)
            case events.ToolApprovalRequested():
                if event.call_id in self._calls:  # else it is the call of a sub-agent
                    self._calls[event.call_id].waits_for_approval = True
            case events.ToolApprovalResolved():
                self._resolve(event)
            case _:
                return False
        self._touched = True
        return True

    def propose(self, request: ApprovalRequest, cwd: Path, *, is_whole: bool = False) -> Proposal:
        """Show what a call would do that needs approval, unless it is so short that the question shows it.

        Args:
            request: The call.
            cwd: The working directory. Paths inside it are shown relative to it.
            is_whole: Whether to leave out nothing, however long it is.
        """
        proposal = Proposal(request, self._theme, cwd, is_whole=is_whole)
        if not proposal.is_short:
            self._add_final(proposal)
            if request.call_id in self._calls:
                self._calls[request.call_id].propose(request.changes)
        if request.call_id not in self._calls:
            self._asked_elsewhere[request.call_id] = request.subagent or "", proposal
        return proposal

    def _resolve(self, event: events.ToolApprovalResolved) -> None:
        if event.call_id in self._calls:
            self._calls[event.call_id].decide(event.approved, event.reason)
        elif event.call_id in self._asked_elsewhere:
            agent, proposal = self._asked_elsewhere.pop(event.call_id)
            role, outcome = ("success", "allowed") if event.approved else ("error", f"denied: {event.reason}")
            about = proposal.about or (proposal.short(10_000)[0].strip() if proposal.is_short else "")
            who = f"sub-agent {agent} · " if agent else ""
            verb, _ = call_title(event.tool_name, {})
            title = about if verb == "$" else f"{verb} {about}"
            self._add_final(remark(self._theme, f"{title or 'Command'}  {who}{outcome}", role, "●"))

    def _drop_calls(self) -> None:
        for panel in self._calls.values():
            panel.drop()
        self._calls.clear()
        self._touched = True

    # The run

    def _handle_run(self, event: events.Event) -> None:
        theme = self._theme
        match event:
            case events.AgentStart():
                self._last_error = None  # the same may go wrong again
                self._is_interrupted = False
            case events.RetryStart() | events.SummaryRetryScheduled():
                self._error = None
                when = format_elapsed(event.delay_ms / 1000)
                error = plain(self._explain("", event.error))
                text = f"{error}\nTrying again in {when} (retry {event.attempt} of {event.max_attempts})"
                self._add(remark(theme, text, "warning", "↻"))
            case events.RetryEnd() if not event.success and not self._is_interrupted:
                error = self._explain("", event.error) if event.error else ""
                if not (self._last_error or "").startswith(error):  # the message that failed has said the same
                    self._error = error
            case events.CompactionStart():
                self._error = None if event.reason == "overflow" else self._error
            case events.CompactionEnd():
                self._on_compaction_end(event)
            case events.ExtensionError(event="load"):
                text = plain(f"The extension {event.extension_path} was not loaded: {event.error}")
                if not self.has_warned(text):
                    self.note(text, "warning")
            case events.ExtensionError() if self.has_warned(plain(event.error)):
                pass  # a server's own, which came as a warning too
            case events.ExtensionError():
                command = event.extension_path.removeprefix("command:")
                is_command = command != event.extension_path
                what = f"/{command} failed: " if is_command else f"{event.extension_path} ({event.event}): "
                if event.extension_path == "session":  # it is not an extension
                    what = ""
                self._add(remark(theme, f"{what}{event.error}", "warning", "▲"))
            case events.StreamRuleTriggered():
                names = ", ".join(str(rule.name) for rule in event.rules)
                text = f"The answer broke the rule{'s' * (len(event.rules) > 1)} {names} and is asked for again."
                self._add(remark(theme, text, "warning", "↻"))
                self._has_named_rule = True
            case events.AgentEnd() if not event.will_retry:
                self._show_error()
            case events.AgentSettled() | events.SessionReplaced():
                self._show_error()
                self._drop_calls()
                for index in self._blocks:
                    self._end_block(index)
                self._blocks.clear()
            case _:
                return
        self._touched = True

    def _on_compaction_end(self, event: events.CompactionEnd) -> None:
        if event.result is not None:
            after = event.result.estimated_tokens_after
            tokens = f"{event.result.tokens_before:,}" + (f" → {after:,}" if after is not None else "")
            self._summary(f"Compacted the conversation: {tokens} tokens", event.result.summary)
        elif event.aborted:
            self._add(remark(self._theme, "The compaction was cancelled.", "warning", "◇"))
        else:
            self._last_error = event.error or "The compaction failed: no reason given."
            self._add(remark(self._theme, self._last_error, "error", "◇"))


def _content(content: str | list[UserBlock]) -> tuple[str, list[ImageContent]]:
    if isinstance(content, str):
        return content, []
    text = "\n".join(block.text for block in content if isinstance(block, TextContent))
    return text, [block for block in content if isinstance(block, ImageContent)]


def _command(theme: Theme, now: Callable[[], float], message: BashExecutionMessage) -> ToolPanel:
    """Return the panel of a command that the user ran."""
    panel = ToolPanel(theme, "bash", now, {"command": message.command})
    text = message.output
    if message.truncated:
        where = f" Full output: {message.full_output_path}" if message.full_output_path else ""
        text += f"\n\n[This is the end of the output.{where}]"
    if message.cancelled:
        text += "\n\nCommand aborted"
    elif message.exit_code:
        text += f"\n\nCommand exited with code {message.exit_code}"
    panel.end([TextContent(text)], None, failed=bool(message.cancelled or message.exit_code))
    return panel
