"""What `-p` prints: answers to standard output, as text, as events or as one result, and progress to stderr.

On a terminal, the answer is printed piece by piece, each tool call and retry leaves a line on stderr, and a status line says
what happens now. If stderr is not a terminal, `--verbose` prints the same lines and there is no status line."""

from __future__ import annotations

import asyncio
import io
import os
import select
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from fairlead.agent.result import RunRecord
from fairlead.cli.console import StatusLine, complain, signs
from fairlead.cli.flags import UsageError
from fairlead.core import events as e
from fairlead.core.lenient import scrub, visible
from fairlead.core.message_updates import MessageUpdate, TextDelta, ThinkingDelta
from fairlead.core.messages import AssistantMessage, TextContent, Usage, readable_error
from fairlead.errors import FairleadError
from fairlead.protocol import print_result
from fairlead.session.history.entries import encode_line
from fairlead.wire import host_connection
from fairlead.wire.pi import paced_updates, pi_stdio

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from fairlead.agent import Agent
    from fairlead.core.tool import ToolResult
    from fairlead.protocol.print_result import PrintResult
    from fairlead.wire.pi.paced_updates import Form
    from fairlead.wire.pi.profile import Profile


class EventLines:
    """Writes the events of an agent as lines, as they happen. A slow reader blocks the agent, as is usual in a pipeline."""

    def __init__(self, stdout: Stdout, agent: Agent, profile: Profile, form: Form) -> None:
        self._stdout = stdout
        self._agent = agent
        self._output = host_connection.HostOutput(self._write, limit=agent.settings.output.queue_bytes)
        outlet = paced_updates.ChunkedOutlet(self._output)
        updates = paced_updates.Updates(outlet, paced_updates.Pacing.of(agent.settings.output), form)
        frames = pi_stdio.server_type(profile).events_type(outlet, profile, updates)
        agent.session.subscribe(frames.send_event)

    def write_header(self) -> None:
        """Write the first line: the header of the session, as in a session file."""
        self._output.send(encode_line(self._agent.session.history.log.header) + b"\n")

    def _write(self, frame: bytes) -> int:
        return self._stdout.write(frame)


class Stdout(io.FileIO):
    """Standard output. After the first failure to write, which `on_error` reports, the rest is dropped."""

    def __init__(self) -> None:
        # A private copy: what extensions and their child processes print goes to stderr, even while they load.
        super().__init__(os.dup(sys.stdout.fileno()), "w")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self.error: OSError | None = None
        self.on_error: Callable[[], None] = lambda: None

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data)
        size = len(view)
        while view and self.error is None:
            try:
                view = view[os.write(self.fileno(), view) :]
            except BlockingIOError:  # the parent process made it non-blocking
                select.select([], [self.fileno()], [])
            except OSError as error:
                self.error = error
                self.on_error()
        return size


class ResultRecorder:
    """Records what the prompts add and cost, for the result of `--output-format json` and `stream-json`."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._record = RunRecord(agent.session, None, None, None)
        agent.session.subscribe(self._record.see)

    def line(self, errors: list[str]) -> bytes:
        """Return the result as a line of JSON. `errors` are what failed."""
        result = self._record.result()
        answers = [message for message in result.messages if isinstance(message, AssistantMessage)]
        path = self._agent.session.history.path
        made = print_result.PrintResult(
            text=result.text,
            stop_reason=result.stop_reason,
            is_error=bool(errors),
            errors=errors,
            usage=result.usage,
            cost=result.cost,
            turns=sum(answer.stop_reason not in ("error", "aborted") for answer in answers),
            model=f"{answers[-1].provider}/{answers[-1].model}" if answers else None,
            session_id=result.session_id,
            session_file=None if path is None else str(path),
            duration_ms=round(result.duration * 1000),
        )
        return _encode(made)


@contextmanager
def failure_as_result(form: str | None, write: Callable[[bytes], object]) -> Generator[None]:
    """Write a result before an error that comes before the first prompt, if `form` has results.

    An invalid command line gets none: no program that reads results writes one.
    """
    try:
        yield
    except UsageError:
        raise
    except FairleadError as error:
        if form in ("json", "stream-json"):
            write(_failure(str(error)))
        raise


def _failure(error: str) -> bytes:
    """Return the result of a command that failed before it had a session."""
    return _encode(
        print_result.PrintResult(
            text="",
            stop_reason=None,
            is_error=True,
            errors=[error],
            usage=Usage(),
            cost=0,
            turns=0,
            model=None,
            session_id=None,
            duration_ms=0,
        )
    )


def _encode(result: PrintResult) -> bytes:
    try:
        return msgspec.json.encode(result) + b"\n"
    except UnicodeEncodeError:  # it contains text that is not valid Unicode
        return msgspec.json.encode(scrub(msgspec.to_builtins(result))) + b"\n"


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
        StatusLine.hide_current()


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
                self._on_tool_end(event)
            case e.ToolApprovalResolved(approved=False):
                self._note(f"{event.tool_name} was refused: {event.reason}")
            case e.RetryStart() | e.SummaryRetryScheduled():
                error = _first_line(readable_error(event.error))
                self._note(f"The model failed: {error} (retry {event.attempt} of {event.max_attempts})")
                self._begin(f"waiting {event.delay_ms / 1000:.1f} s before the next attempt")
            case e.CompactionStart():
                self._note("The conversation is long. The model summarises its older part.")
                self._begin("summarising")
            case e.StreamRuleTriggered():
                names = ", ".join(str(rule.name) for rule in event.rules)
                self._note(f"The answer broke the rule {names}. The model tries again.")
            case e.ExtensionError() if event.event != "load":
                is_own = event.extension_path == "session"
                self._note(event.error if is_own else f"{event.extension_path}: {event.error}")
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
        StatusLine.hide_current()
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

    def _on_tool_end(self, event: e.ToolEnd) -> None:
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
