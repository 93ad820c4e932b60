"""Where the answers of `-p` go: standard output, as text, as events or as one result."""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairlead.cli.flags import UsageError
from fairlead.errors import FairleadError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from fairlead.agent import Agent
    from fairlead.protocol.result import PrintResult
    from fairlead.wire.pi.profile import Profile
    from fairlead.wire.pi.updates import Form


class EventLines:
    """Writes the events of an agent as lines, as they happen. A slow reader blocks the agent, as is usual in a pipeline."""

    def __init__(self, stdout: Stdout, agent: Agent, profile: Profile, form: Form) -> None:
        from fairlead.wire.connection import HostOutput
        from fairlead.wire.pi.serve import server_type
        from fairlead.wire.pi.updates import ChunkedOutlet, Pacing, Updates

        self._stdout = stdout
        self._agent = agent
        self._output = HostOutput(self._write, limit=agent.settings.output.queue_bytes)
        outlet = ChunkedOutlet(self._output)
        updates = Updates(outlet, Pacing.of(agent.settings.output), form)
        frames = server_type(profile).events_type(outlet, profile, updates)
        agent.session.subscribe(frames.send_event)

    def write_header(self) -> None:
        """Write the first line: the header of the session, as in a session file."""
        from fairlead.session.history.entries import encode_line

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
        from fairlead.agent.result import RunRecord

        self._agent = agent
        self._record = RunRecord(agent.session, None, None, None)
        agent.session.subscribe(self._record.see)

    def line(self, errors: list[str]) -> bytes:
        """Return the result as a line of JSON. `errors` are what failed."""
        from fairlead.core.messages import AssistantMessage
        from fairlead.protocol.result import PrintResult

        result = self._record.result()
        answers = [message for message in result.messages if isinstance(message, AssistantMessage)]
        path = self._agent.session.history.path
        made = PrintResult(
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
        return _encoded(made)


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
    from fairlead.core.messages import Usage
    from fairlead.protocol.result import PrintResult

    return _encoded(
        PrintResult(
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


def _encoded(result: PrintResult) -> bytes:
    import msgspec

    from fairlead.core.lenient import scrub

    try:
        return msgspec.json.encode(result) + b"\n"
    except UnicodeEncodeError:  # it contains text that is not valid Unicode
        return msgspec.json.encode(scrub(msgspec.to_builtins(result))) + b"\n"
