"""What `-p` shows while the agent works.

On a terminal, the answer is printed piece by piece, each tool call and retry leaves a line on stderr, and a status line says
what happens now. If stderr is not a terminal, `--verbose` prints the same lines and there is no status line.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairlead.cli.advice import message_of
from fairlead.cli.console import StatusLine, complain, signs
from fairlead.core import events as e
from fairlead.core.lenient import visible
from fairlead.core.message_updates import MessageUpdate, TextDelta, ThinkingDelta
from fairlead.core.messages import AssistantMessage, TextContent

if TYPE_CHECKING:
    from fairlead.agent import Agent
    from fairlead.cli.printing.output import Stdout
    from fairlead.core.tool import ToolResult

_FRAMES, _PLAIN_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\"
#: Seconds between two frames.
_PACE = 0.1
_LONGEST_ERROR = 300


@contextmanager
def show_progress(agent: Agent, answer: Stdout | None, *, verbose: bool) -> Generator[None]:
    """Show what the agent does while the block runs.

    Args:
        agent: The agent.
        answer: Where to print its answers piece by piece. None: they are not printed here.
        verbose: Whether to print lines to a stderr that is not a terminal.
    """
    is_terminal = sys.stderr.isatty()
    has_status = is_terminal and os.environ.get("TERM") != "dumb"
    progress = _Progress(agent, answer, prints_lines=is_terminal or verbose, has_status=has_status)
    if answer is None and not is_terminal and not verbose:
        yield
        return
    unsubscribe = agent.session.subscribe(progress.see)
    ticking = asyncio.get_running_loop().create_task(progress.tick()) if has_status else None
    try:
        yield
    finally:
        unsubscribe()
        if ticking is not None:
            ticking.cancel()
        progress.end_line()
        StatusLine.hide_shown()


class _Progress:
    """Shows the events of one session. `has_status`: also show what happens now, with the seconds it has taken."""

    def __init__(self, agent: Agent, answer: Stdout | None, *, prints_lines: bool, has_status: bool) -> None:
        self._agent = agent
        self._answer = answer
        self._prints_lines = prints_lines
        self._has_status = has_status
        self._status = StatusLine(_columns)
        self._activity: str = "starting"
        self._since = time.monotonic()
        #: Whether the answer has an unfinished line on the terminal, below which nothing can be shown.
        self._is_in_line = False
        #: The calls that run, by id, with their titles.
        self._running: dict[str, str] = {}

    async def tick(self) -> None:
        """Show what happens now, until this is cancelled."""
        frame, frames = 0, signs(_FRAMES, _PLAIN_FRAMES)
        while True:
            if not self._is_in_line:
                seconds = round(time.monotonic() - self._since)
                self._status.show(f"{frames[frame % len(frames)]} {self._activity}{f' {seconds} s' if seconds else ''}")
            frame += 1
            await asyncio.sleep(_PACE)

    def see(self, event: e.Event) -> None:
        """Show an event."""
        match event:
            case TextDelta():
                self._write(event.text)
            case ThinkingDelta():
                self._begin("thinking")
            case MessageUpdate():
                pass
            case e.TurnStart():
                model = self._agent.session.model
                self._begin(f"waiting for {model.provider}/{model.id}" if model else "waiting for the model")
            case e.MessageEnd(message=AssistantMessage()):
                self.end_line()
            case e.ToolStart():
                self._running[event.call_id] = self._title(event)
                self._note(self._running[event.call_id])
                self._begin(self._running[event.call_id])
            case e.ToolEnd():
                self._ended(event)
            case e.ToolApprovalResolved(approved=False):
                self._note(f"{event.tool_name} was refused: {event.reason}")
            case e.RetryStart() | e.SummaryRetryScheduled():
                self._note(
                    f"The model failed: {_first_line(message_of(event.error))} (retry {event.attempt} of {event.max_attempts})"
                )
                self._begin(f"waiting {event.delay_ms / 1000:.1f} s before the next attempt")
            case e.CompactionStart():
                self._note("The conversation is long. The model summarises its older part.")
                self._begin("summarising")
            case e.StreamRuleTriggered():
                self._note("A stream rule stopped the answer. The model tries again.")
            case e.ExtensionError() if event.event != "load":
                self._note(f"{event.extension_path}: {event.error}")
            case _:
                pass

    def end_line(self) -> None:
        """Finish the line of the answer, if one is unfinished."""
        if self._is_in_line and self._answer is not None:
            self._answer.write(b"\n")
            self._is_in_line = False

    def _write(self, text: str) -> None:
        if self._answer is None:
            self._begin("writing")
            return
        StatusLine.hide_shown()
        self._answer.write(visible(text).encode("utf-8", "replace"))
        self._is_in_line = bool(text) and not text.endswith("\n")
        self._begin("writing")

    def _begin(self, activity: str) -> None:
        if activity != self._activity:
            self._activity, self._since = activity, time.monotonic()

    def _note(self, text: str) -> None:
        if self._prints_lines:
            self.end_line()
            complain(f"{signs('•', '*') if self._has_status else 'fairlead:'} {' '.join(text.split())}")

    def _ended(self, event: e.ToolEnd) -> None:
        title = self._running.pop(event.call_id, event.tool_name)
        if event.is_error:
            self._note(f"{title} failed: {_first_line(_text(event.result))}")
        self._begin(next(iter(self._running.values()), "waiting for the model"))

    def _title(self, event: e.ToolStart) -> str:
        tools = self._agent.session.tools
        if event.tool_name not in tools:
            return event.tool_name
        title = tools[event.tool_name].call_title(event.arguments)
        return f"{event.tool_name}: {title.strip('`')}" if title.startswith("`") else title


def _text(result: ToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no reason was given.")
    return line if len(line) <= _LONGEST_ERROR else f"{line[:_LONGEST_ERROR]}…"


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
