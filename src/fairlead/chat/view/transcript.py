"""The conversation as lines: what is final, and what is still happening.

Events go in with `handle`, past messages with `message`, remarks of the program with `note`. `take_finished` returns lines that
never change again; `live` returns those of the parts that are still open.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from fairlead import events
from fairlead.chat.view.panels import ToolPanel
from fairlead.chat.view.parts import Answer, Fixed, Part, Thinking, prompt, remark, text_of
from fairlead.chat.view.text import plain
from fairlead.chat.view.theme import Theme
from fairlead.chat.view.titles import elapsed
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
)

#: How many lines of output each running call shows, from a high terminal to a low one.
_TAILS = (5, 2, 0)


class Transcript:
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
        self._theme = theme
        self._explain = explain
        self._now = now
        #: Parts that are not final or not yet taken, oldest first.
        self._parts: deque[Part] = deque()
        #: The parts of the message that is arriving, by their index, and all calls without a result, by their id.
        self._blocks: dict[int, Answer | Thinking | ToolPanel] = {}
        self._calls: dict[str, ToolPanel] = {}
        #: An error that may lead to another attempt: it is shown only if none follows.
        self._error: str | None = None
        #: The error that was shown last.
        self._last_error: str | None = None
        #: Whether past answers were shown. Their calls that have no result by the next frame will never have one.
        self._has_past = False
        self._folds_thinking = True
        self._is_long = False
        #: The kind of the last part with final lines, and whether a panel with a body was last.
        self._last = ""
        #: Whether the first part has given lines already.
        self._begun = False
        self._touched = True
        self._drawn_at = 0

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

    # What happens

    def note(self, text: str, role: str = "dim") -> None:
        """Show a remark of the program."""
        self._add(remark(self._theme, text, role))

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
                self._add(prompt(self._theme, *_content(message.content)))
            case AssistantMessage():
                self._whole_answer(message)
                self._show_error()
                self._has_past = True
            case ToolResultMessage():
                panel = self._panel(message.tool_call_id, message.tool_name)
                details = message.details if isinstance(message.details, dict) else None
                panel.end(message.content, details, failed=message.is_error, duration_ms=message.duration_ms)
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
            return remark(theme, shown, "dim", "◇").finished(columns, is_long)

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
        if message.stop_reason == "aborted":
            self._add(remark(self._theme, "Interrupted", "warning", "■"))
        elif message.stop_reason == "error":
            self._error = self._explain(message.provider, message.error_message or "The model call failed.")
        elif message.stop_reason == "length":
            self._add(remark(self._theme, "The answer is cut off at the model's output limit.", "warning", "▲"))

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
                self._panel(event.call_id, event.tool_name).waits_for_approval = True
            case events.ToolApprovalResolved():
                self._panel(event.call_id, event.tool_name).waits_for_approval = False
            case _:
                return False
        self._touched = True
        return True

    def _drop_calls(self) -> None:
        for panel in self._calls.values():
            panel.drop()
        self._calls.clear()
        self._touched = True

    # The run

    def _handle_run(self, event: events.Event) -> None:
        theme = self._theme
        match event:
            case events.RetryStart():
                self._error = None
                when = elapsed(event.delay_ms / 1000)
                error = plain(self._explain("", event.error))
                text = f"{error}\nTrying again in {when} (retry {event.attempt} of {event.max_attempts})"
                self._add(remark(theme, text, "warning", "↻"))
            case events.RetryEnd() if not event.success:
                error = self._explain("", event.error) if event.error else ""
                if not (self._last_error or "").startswith(error):  # the message that failed has said the same
                    self._error = error
            case events.CompactionStart():
                self._error = None if event.reason == "overflow" else self._error
            case events.CompactionEnd():
                self._compacted(event)
            case events.ExtensionError():
                self._add(remark(theme, f"{event.extension_path} ({event.event}): {event.error}", "warning", "▲"))
            case events.StreamRuleTriggered():
                self._add(remark(theme, "The answer broke a rule and is asked for again.", "warning", "↻"))
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

    def _compacted(self, event: events.CompactionEnd) -> None:
        if event.result is not None:
            after = event.result.estimated_tokens_after
            tokens = f"{event.result.tokens_before:,}" + (f" → {after:,}" if after is not None else "")
            self._summary(f"Compacted the conversation: {tokens} tokens", event.result.summary)
        elif event.aborted:
            self._add(remark(self._theme, "The compaction was cancelled.", "warning", "◇"))
        else:
            self._add(remark(self._theme, f"The compaction failed: {event.error or 'no reason given'}", "error", "◇"))

    # Lines

    def _add(self, part: Part) -> None:
        self._parts.append(part)
        self._touched = True

    @property
    def changed(self) -> bool:
        """Whether `take_finished` or `live` would return something new."""
        return self._touched or (int(self._now() * 10) != self._drawn_at and any(part.is_moving for part in self._parts))

    def take_finished(self, columns: int) -> list[str]:
        """Return the lines that have become final since the last call, of at most `columns` cells."""
        if self._has_past:
            self._has_past = False
            self._drop_calls()
        taken: list[str] = []
        while self._parts:
            part = self._parts[0]
            lines = part.finished(columns, self._is_long) if part.done or not isinstance(part, ToolPanel) else []
            if lines and not self._begun and self._gap(self._last, part.kind):
                taken.append("")
            taken += lines
            self._begun = self._begun or bool(lines)
            if lines:
                self._last = part.kind if part.kind != "tool" or len(lines) > 1 else "line"
            if not part.done:
                break
            self._parts.popleft()
            self._begun = False
        return taken

    def live(self, columns: int, rows: int) -> list[str]:
        """Return the open parts, at most `rows` lines: the last ones if there are more. Call `take_finished` first."""
        self._touched = False
        self._drawn_at = int(self._now() * 10)
        lines: list[str] = []
        for tail in _TAILS:
            lines = self._live_lines(columns, tail)
            if len(lines) <= rows:
                break
        return lines[-rows:] if rows > 0 else []

    def _live_lines(self, columns: int, tail: int) -> list[str]:
        lines: list[str] = []
        last, begun = self._last, self._begun
        for part in self._parts:
            opened = part.open(columns, tail)
            if not opened:
                continue
            if not begun and self._gap(last, part.kind):
                lines.append("")
            lines += opened
            last, begun = (part.kind if part.kind != "tool" or len(opened) > 1 else "line"), False
        return lines

    @staticmethod
    def _gap(before: str, kind: str) -> bool:
        """Whether a blank line stands between two parts. Remarks stand together, and so do panels of one line."""
        if not before:
            return False
        return not ((before == "note" and kind == "note") or (before == "line" and kind == "tool"))


def _content(content: str | list[UserBlock]) -> tuple[str, list[ImageContent]]:
    if isinstance(content, str):
        return content, []
    text = "\n".join(block.text for block in content if isinstance(block, TextContent))
    return text, [block for block in content if isinstance(block, ImageContent)]


def _command(theme: Theme, now: Callable[[], float], message: BashExecutionMessage) -> ToolPanel:
    """Return the panel of a command that the user ran."""
    panel = ToolPanel(theme, "bash", now, {"command": message.command})
    text = message.output
    if message.cancelled:
        text += "\n\nCommand aborted"
    elif message.exit_code:
        text += f"\n\nCommand exited with code {message.exit_code}"
    panel.end([TextContent(text)], None, failed=bool(message.cancelled or message.exit_code))
    return panel
